"""Lists of a length that is only known at run time, which traced code may change (``values.growing``).

A list that a loop, a condition or a recursive call makes longer or shorter gets such contents where the paths meet.
Its elements are numbers, arrays, or tuples, lists, dicts and objects of those.  ``list_changes`` has what changes them.

An element that could be changed is stored by its parts, so that it must not change any more: it is ``frozen``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ... import pytree
from ...ir.graph import Value
from ...ir.types import dims_of, dtype_of
from ..columns.list_columns import Cell, Columns, Kind, kind
from ..columns.recursive_types import family_of
from ..values.active import Active
from ..values.growing import Growing, cell_of
from ..values.lattice import UNBOUND, is_scalar, scalar_type
from ..values.protocol import Trace
from ..values.values import ELEMENT, ArrayRef, Choice, DictObj, Edge, Instance, ListObj, Obj, Sym
from . import containers
from .long_lists import LongList, place_among

SHAPES = "the arrays in a list of run-time length must all have one shape in compiled code: sizes {} and {}"
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


def settled(t: Trace, v: Any) -> Any:
    """``v``; for a list of run-time length its present elements, as an immutable list."""
    content = contents(t, v)
    return v if content is None else snapshot(t, content)


def snapshot(t: Trace, content: Growing) -> LongList:
    """The present elements."""
    n = content.length
    if isinstance(n, Sym) and t.builder.dim(content.columns[0].value, axis=0) is n.value:
        return _whole(t, content)
    rows = slice(None, n)
    return LongList(content.kind, [t.getitem(t.new_array(c, ELEMENT), rows) for c in content.columns])


def of(t: Trace, xs: LongList) -> ListObj:
    """A new list of the elements of ``xs``."""
    out = t.new_list(())
    columns = tuple(t.read(c) for c in xs.columns)
    cells = tuple(replace(cell, ones=_ones(c)[1:]) if cell.array else cell for cell, c in zip(xs.kind.cells, columns))
    t.state[out] = Growing(kind(xs.kind.element, cells), xs.count(t), columns)
    return out


def _ones(array: Sym) -> tuple[bool, ...]:
    return tuple(d == 1 for d in dims_of(array.type))


def columns_of(t: Trace, items: Sequence[Any]) -> LongList | None:
    """Elements as an immutable list, if they are of one kind."""
    to = kind_of(t, [tuple(items)], True)
    return None if to is None else snapshot(t, grown(t, tuple(items), to))


def changeable(t: Trace, xs: LongList) -> Any:
    """The same list; it may be changed unless its elements are long lists."""
    return of(t, xs) if may_change(xs.kind) else xs


def may_change(k: Kind) -> bool:
    """True if there are lists of run-time length with such elements."""
    return not k.counts and not holds_lists(k.element)


def holds_lists(s: pytree.Structure) -> bool:
    """True if elements of this structure hold long lists."""
    return s.type is Columns or any(map(holds_lists, s.children))


# --- elements and kinds -----------------------------------------------------------------------------

def flat(t: Trace, v: Any) -> tuple[list[Any], Kind] | None:
    """The numbers and arrays in an element and its kind; None if there are none, or if it holds something else."""
    v = t.settle(v) if type(v) is Choice else v
    if not _is_plain(t, v):
        return None
    leaves, structure = pytree.flatten(containers.export(t, v))
    leaves = [t.read(x) if isinstance(x, ArrayRef) else x for x in leaves]
    return (leaves, kind(structure, tuple(map(_cell, leaves)))) if leaves else None


def _cell(x: Any) -> Cell:
    return Cell(x.scalar, array=True, ones=_ones(x)) if type(x) is Sym and x.is_array else Cell(*scalar_type(x))


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
    """Refuses changes from now on of what is stored in a list of run-time length."""
    if isinstance(v, ArrayRef):
        freeze_object(t, v.obj)
    elif isinstance(v, (ListObj, DictObj, Instance)):
        freeze_object(t, v)
        for x in _parts(t.contents(v)):
            freeze(t, x)
    elif isinstance(v, tuple):
        for x in v:
            freeze(t, x)


def freeze_object(t: Trace, obj: Obj) -> None:
    """Refuses changes of an object, and of those that it may be the same as."""
    if not obj.readonly:
        obj.readonly = ELEMENT
        t.session.frozen.append(obj)
    for other, _ in obj.maybe:
        if not other.readonly:
            freeze_object(t, other)


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
    return joined(list(kinds), in_loop)


def common_kind(t: Trace, found: Iterable[tuple[Edge, Any]], in_loop: bool) -> Kind | None:
    """``kind_of`` the contents at the ends of paths; those of paths without the list are ``UNBOUND``."""
    kinds: dict[Kind, None] = {}
    for edge, content in found:
        if content is UNBOUND or type(content) is tuple and not content:
            continue
        with t.on(edge):
            to = kind_of(t, [content], in_loop)
        if to is None:
            return None
        kinds[to] = None
    return joined(list(kinds), in_loop)


def joined(kinds: Sequence[Kind], in_loop: bool) -> Kind | None:
    if len(kinds) < 2:
        return kinds[0] if kinds else None
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
        columns = [Sym(b.cast(c.value, dtype=cell.dtype)) for c, cell in zip(content.columns, to.cells)]
        return Growing(to, content.length, tuple(columns))
    n = b.const(len(content) + LEAST_ROOM)                # never 1: the type of such an array does not join others
    shapes = [b.dims(x.value) if type(x) is Sym and x.is_array else () for x in _first(t, content)] if content else \
        [[b.const(int(one)) for one in cell.ones] for cell in to.cells]
    made = [b.empty(n if room is None else b.add(n, room), *shape, dtype=cell.dtype)
            for cell, shape in zip(to.cells, shapes)]
    for place, element in enumerate(content):
        made = stored(t, made, to, element, b.const(place))
    return Growing(to, len(content), tuple(map(Sym, made)))


def _first(t: Trace, content: Any) -> list[Any]:
    found = flat(t, content[0])
    assert found is not None
    return found[0]


def stored(t: Trace, columns: Sequence[Value], k: Kind, element: Any, place: Value) -> list[Value]:
    """The columns with an element stored; it is frozen.  Arrays must have the shape of the others."""
    found = flat(t, element)
    assert found is not None
    freeze(t, t.settle(element) if type(element) is Choice else element)
    return [t.builder.set(c, _fitting(t, x, c) if cell.array else t.value(x, dtype_of(c.type)), place)
            for c, cell, x in zip(columns, k.cells, found[0])]


def _fitting(t: Trace, x: Sym, column: Value) -> Value:
    b = t.builder
    for axis in range(len(dims_of(x.type))):
        size, other = b.dim(column, axis=axis + 1), b.dim(x.value, axis=axis)
        if size is not other:
            t.check(b.eq(size, other), "ValueError", SHAPES, size, other)
    return x.value


# --- reading ----------------------------------------------------------------------------------------

def length(t: Trace, content: Growing) -> Any:
    n = content.length
    return n if isinstance(n, int) or n.value.const is None else n.value.const


def element(t: Trace, content: Growing, it: Any) -> Any:
    """Element number ``it``, which must be in range."""
    return _whole(t, content).element(t, it)


def _whole(t: Trace, content: Growing) -> LongList:
    """The elements and the spare room."""
    return LongList(content.kind, [t.new_array(c, ELEMENT) for c in content.columns])


def place_of(t: Trace, content: Growing, index: Any, message: str) -> Sym:
    return place_among(t, content.length, index, message)


def item(t: Trace, content: Growing, index: Any) -> Any:
    """``xs[index]``."""
    if isinstance(index, slice):
        return of(t, snapshot(t, content).item(t, index))
    return element(t, content, place_of(t, content, index, "list index out of range"))


def is_unknown(index: Any) -> bool:
    """True for an index, or a slice with a bound, that is only known at run time."""
    parts = (index.start, index.stop) if isinstance(index, slice) else (index,)
    return any(isinstance(x, Sym) and x.value.const is None for x in parts)


def part(t: Trace, xs: ListObj, index: slice) -> ListObj | None:
    """``xs[i:j]`` of a list of known length, with bounds known at run time; None if there is no list of its kind."""
    content = t.contents(xs)
    to = kind_of(t, [content], True) if index.step is None else None
    return None if to is None else item(t, grown(t, content, to), index)


class Walked(Active):
    """The elements of a list as an iteration reads them: those that are in the list when their turn comes."""

    __slots__ = ("of",)
    counted = True
    static = None

    def __init__(self, of: ListObj) -> None:
        self.of = of

    def parts(self) -> tuple[Any, ...]:
        return (self.of,)

    def with_parts(self, parts: tuple[Any, ...]) -> Walked:
        return Walked(parts[0])

    def describe(self) -> str:
        return "a list of a length that is only known at run time"

    def type_of(self, t: Trace) -> Any:
        return list

    def _contents(self, t: Trace) -> Growing:
        found = contents(t, self.of)
        if found is None:
            t.unsupported("walks a list whose length may have changed since the iteration was made", "`for x in xs`")
        return found

    def count(self, t: Trace) -> Any:
        return length(t, self._contents(t))

    def element(self, t: Trace, it: Any) -> Any:
        return element(t, self._contents(t), it)


def walked(t: Trace, v: Any) -> Any:
    """What iterating over ``v`` walks."""
    return v if contents(t, v) is None else Walked(v)


def lengths(t: Trace, v: Any) -> dict[ListObj, Any]:
    """The lengths of the lists that an iteration walks."""
    if isinstance(v, Walked):
        return {v.of: v.count(t)}
    found: dict[ListObj, Any] = {}
    for x in v.parts() if hasattr(type(v), "with_parts") and type(v) is not Sym else ():
        found.update(lengths(t, x))
    return found


