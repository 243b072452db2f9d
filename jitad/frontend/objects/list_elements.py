"""Elements of lists of run-time length: their kinds, and how they are stored.

An element that could be changed is stored by its parts, so that it must not change any more: it is ``frozen``.  A list
of numbers of run-time length is stored as a row of a column, which is changed in place (``list_rows``): the name that
the list had must not even be read any more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import pytree
from ...ir.graph import Value
from ...ir.types import Scalar, dims_of, dtype_of
from ..columns.list_columns import Cell, Columns, Kind, kind
from ..columns.recursive_types import family_of
from ..values.growing import Growing, NeedRows, cell_of
from ..values.lattice import UNBOUND, is_scalar, scalar_type
from ..values.protocol import Trace
from ..values.values import ELEMENT, ROW, ArrayRef, Choice, DictObj, Edge, Instance, ListObj, Obj, Sym
from . import containers

SHAPES = "the arrays in a list of run-time length must all have one shape in compiled code: sizes {} and {}"
LENGTHS = "the lists in a list of run-time length must all have one length in compiled code: {} and {}"
LEAST_ROOM = 8                  # a list without room gets twice as much as it needs, and for this many elements more


def contents(t: Trace, v: Any) -> Growing | None:
    """The contents of ``v`` if it is a list of run-time length."""
    if type(v) is not ListObj:
        return None
    found = t.state.get(v)
    if type(found) is not Growing:
        return None
    t.check_fresh(v)
    return found


def may_change(k: Kind) -> bool:
    """True if a list of such elements can be copied into one that may be changed: it shares no lists with it."""
    return not k.counts and not holds_lists(k.element)


def is_table(k: Kind) -> bool:
    """True if the elements are lists of numbers, or lists of such lists, of run-time length: rows of one array."""
    return k.element.type is Columns


def table_of(row: Kind, ones: tuple[bool, ...]) -> Kind:
    """The kind of a list of lists of kind ``row``; ``ones`` as in ``Cell``, for the axes of a list."""
    return kind(pytree.Structure(Columns, row, (pytree.LEAF,)), (Cell(row.cells[0].dtype, array=True, ones=ones),))


def _is_short_row(t: Trace, v: Any) -> bool:
    """True for a list of numbers of one kind whose length is known, if such lists are rows of arrays in this trace."""
    if not t.session.rows or type(v) is not ListObj or type(t.state.get(v)) is not tuple:
        return False
    xs = t.contents(v)
    return bool(xs) and all(map(is_scalar, xs)) and row_cell(t, tuple(map(_cell, xs))) is not None


def row_cell(t: Trace, cells: tuple[Cell, ...]) -> Cell | None:
    """The type of the elements of a row with these elements; None if such lists are no rows in this trace."""
    if t.session.rows < NeedRows.MOST and any(c != cells[0] for c in cells):
        return None
    found: Cell | None = cell_of(cells, False) if t.session.rows else None
    return found


def _row_of(t: Trace, v: ListObj) -> tuple[list[Any], Kind]:
    """``flat`` of a short list that is a row."""
    xs = t.contents(v)
    cell = row_cell(t, tuple(map(_cell, xs)))
    assert cell is not None
    made = t.builder.empty(t.builder.const(len(xs)), dtype=cell.dtype)
    for place, x in enumerate(xs):
        made = t.builder.set(made, t.value(x, cell.dtype), t.builder.const(place))
    row = Sym(made)
    return [row], table_of(kind(pytree.LEAF, (cell,)), ones_of(row))


def is_row(t: Trace, v: Any) -> bool:
    """True for a list of run-time length that is a row where it is put into a list: of numbers, or of such lists."""
    content = contents(t, v)
    return content is not None and len(content.columns) == 1 and (
        is_table(content.kind) or content.kind.element.is_leaf and not content.kind.cells[0].array)


def holds_lists(s: pytree.Structure) -> bool:
    """True if elements of this structure hold long lists."""
    return s.type is Columns or any(map(holds_lists, s.children))


def ones_of(array: Sym) -> tuple[bool, ...]:
    return tuple(d == 1 for d in dims_of(array.type))


def need_rows(t: Trace, elements: Iterable[Any]) -> None:
    """Raises ``NeedRows`` if one of the elements is a list of run-time length of short lists, which is no row yet."""
    for v in elements if t.session.rows < NeedRows.MOST else ():
        content = contents(t, v)
        if content is not None and content.kind.element.type is list:
            raise NeedRows


def flat(t: Trace, v: Any) -> tuple[list[Any], Kind] | None:
    """The numbers and arrays in an element and its kind; None if there are none, or if it holds something else."""
    v = t.settle(v) if type(v) is Choice else v
    if _is_short_row(t, v):
        return _row_of(t, v)
    if not _is_plain(t, v) and not is_row(t, v):
        return None
    leaves, structure = pytree.flatten(containers.export(t, v))
    leaves = [t.read(x) if isinstance(x, ArrayRef) else x for x in leaves]
    return (leaves, kind(structure, tuple(map(_cell, leaves)))) if leaves else None


def _cell(x: Any) -> Cell:
    return Cell(x.scalar, array=True, ones=ones_of(x)) if type(x) is Sym and x.is_array else Cell(*scalar_type(x))


def _is_plain(t: Trace, v: Any) -> bool:
    if isinstance(v, (ListObj, DictObj, Instance)):
        content = t.state.get(v)
        if isinstance(v, Instance) and not (dataclasses.is_dataclass(v.cls) and family_of(v.cls) is None):
            return False
        return isinstance(content, (tuple, dict)) and all(_is_plain(t, x) for x in _parts(content))
    if isinstance(v, tuple):
        return all(_is_plain(t, x) for x in v)
    return is_scalar(v) or v is None or isinstance(v, (str, ArrayRef))


def _parts(content: Any) -> Iterable[Any]:
    return content.values() if isinstance(content, dict) else content


def freeze(t: Trace, v: Any) -> None:
    """Refuses changes from now on of what is stored in a list of run-time length; of a row, it also refuses reads."""
    if contents(t, v) is not None or _is_short_row(t, v):
        freeze_object(t, v, ROW)
    elif isinstance(v, ArrayRef):
        freeze_object(t, v.obj)
    elif isinstance(v, (ListObj, DictObj, Instance)):
        freeze_object(t, v)
        for x in _parts(t.contents(v)):
            freeze(t, x)
    elif isinstance(v, tuple):
        for x in v:
            freeze(t, x)


def freeze_object(t: Trace, obj: Obj, why: str = ELEMENT) -> None:
    """Refuses changes of an object, and of those that it may be the same as; reads too, if it is now a ``ROW``."""
    if not _is_frozen(obj, why):
        obj.readonly = why
        t.session.frozen.append(obj)
    for other, _ in obj.maybe:
        if not _is_frozen(other, why):
            freeze_object(t, other, why)


@contextmanager
def before_moves(t: Trace, since: int) -> Iterator[None]:
    """Where a loop starts: what its iterations put into lists, which is frozen from number ``since`` on, is not yet."""
    outer, t.session.unmoved = t.session.unmoved, frozenset(t.session.frozen[since:])
    try:
        yield
    finally:
        t.session.unmoved = outer


def _is_frozen(obj: Obj, why: str) -> bool:
    return obj.readonly is ROW or obj.readonly != "" and why is not ROW


def kind_of(t: Trace, contents: Sequence[Any], in_loop: bool) -> Kind | None:
    """The kind of a list that has any of these contents; None if there is none, or if all are empty."""
    kinds: dict[Kind, None] = {}
    for content in contents:
        if type(content) is Growing:
            kinds[content.kind] = None
            continue
        for element in content:
            found = flat(t, element)
            if found is None:
                return None
            kinds[found[1]] = None
    return _joined_rows(t, list(kinds), in_loop)


def common_kind(t: Trace, found: Iterable[tuple[Edge, Any]], in_loop: bool) -> Kind | None:
    """``kind_of`` the contents at the ends of paths; those of paths without the list are ``UNBOUND``."""
    kinds: dict[Kind, None] = {}
    for edge, content in found:
        if content is UNBOUND or type(content) is tuple and not content:
            continue
        with t.on(edge):
            to = kind_of(t, [content], in_loop)
            if to is None:
                need_rows(t, content)
        if to is None:
            return None
        kinds[to] = None
    return _joined_rows(t, list(kinds), in_loop)


def _joined_rows(t: Trace, kinds: Sequence[Kind], in_loop: bool) -> Kind | None:
    """``joined``; raises ``NeedRows`` if rows of arrays are to meet short lists."""
    if any(map(is_table, kinds)) and any(k.element.type is list for k in kinds) and t.session.rows < NeedRows.MOST:
        raise NeedRows
    return joined(kinds, in_loop)


def joined(kinds: Sequence[Kind], in_loop: bool) -> Kind | None:
    if len(kinds) < 2:
        return kinds[0] if kinds else None
    if all(map(is_table, kinds)) and all(k.cells[0].ones == kinds[0].cells[0].ones for k in kinds):
        row = joined(list(dict.fromkeys(k.element.static for k in kinds)), in_loop)
        return None if row is None else table_of(row, kinds[0].cells[0].ones)
    if any(k.element != kinds[0].element for k in kinds):
        return None
    cells = tuple(cell_of(column, in_loop) for column in zip(*(k.cells for k in kinds)))
    return None if None in cells else kind(kinds[0].element, cells)


def grown(t: Trace, content: Any, to: Kind, room: Value | None = None) -> Growing:
    """The contents as those of a list of run-time length of this kind; ``room``: spare room for constant contents."""
    b = t.builder
    if type(content) is Growing:
        if content.kind is to:
            return content
        columns = [Sym(_cast(t, c.value, cell.dtype)) for c, cell in zip(content.columns, to.cells)]
        return Growing(to, content.length, tuple(columns), content.version)
    n = b.const(len(content) + LEAST_ROOM)                # never 1: the type of such an array does not join others
    shapes = [b.dims(x.value) if type(x) is Sym and x.is_array else () for x in _first(t, content)] if content else \
        [[b.const(int(one)) for one in cell.ones] for cell in to.cells]
    made = [b.empty(n if room is None else b.add(n, room), *shape, dtype=cell.dtype)
            for cell, shape in zip(to.cells, shapes)]
    for place, element in enumerate(content):
        made = stored(t, made, to, element, b.const(place))
    return Growing(to, len(content), tuple(map(Sym, made)))


def _cast(t: Trace, column: Value, dtype: Scalar) -> Value:
    """The column with another dtype; one that is filled with a number is filled with another."""
    b, op = t.builder, column.op
    if op is None or op.name != "fill" or dtype_of(column.type) is dtype:
        return b.cast(column, dtype=dtype)
    value, *sizes = op.operands
    return b.fill(b.cast(value, dtype=dtype), *sizes)


def _first(t: Trace, content: Any) -> list[Any]:
    found = flat(t, content[0])
    assert found is not None
    return found[0]


def stored(t: Trace, columns: Sequence[Value], k: Kind, element: Any, place: Value) -> list[Value]:
    """The columns with an element stored; it is frozen.  Arrays must have the shape of the others."""
    found = flat(t, element)
    assert found is not None
    freeze(t, t.settle(element) if type(element) is Choice else element)
    message = LENGTHS if is_table(k) else SHAPES
    return [t.builder.set(c, fitting(t, x, c, 1, message) if cell.array else t.value(x, dtype_of(c.type)), place)
            for c, cell, x in zip(columns, k.cells, found[0])]


def fitting(t: Trace, x: Sym, column: Value, depth: int, message: str) -> Value:
    """The array, which must have the sizes of the axes of a column from axis number ``depth`` on, with its dtype."""
    b = t.builder
    for axis in range(len(dims_of(x.type))):
        size, other = b.dim(column, axis=axis + depth), b.dim(x.value, axis=axis)
        if size is not other:
            t.check(b.eq(size, other), "ValueError", message, size, other)
    return x.value if x.scalar is dtype_of(column.type) else b.cast(x.value, dtype=dtype_of(column.type))
