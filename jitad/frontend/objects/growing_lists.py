"""Lists of a length that is only known at run time, which traced code may change (``values.growing``).

A list that a loop, a condition or a recursive call makes longer or shorter gets such contents where the paths meet.
Its elements are numbers, or tuples of numbers.  ``append`` writes into spare room; where there is none, the columns
become twice as long.  A loop that runs a known number of times makes room for all that it may append before it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import pytree
from ...ir.graph import Value
from ...ir.types import dtype_of
from ..columns.list_columns import Cell, Columns, Kind, kind
from ..values.active import Active
from ..values.growing import Growing, cell_of, noted, noted_other
from ..values.lattice import describe, is_scalar, scalar_type
from ..values.protocol import Trace
from ..values.values import ELEMENT, Choice, ListObj, Sym
from . import containers, long_lists
from .long_lists import LongList

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
    t.state[out] = Growing(xs.kind, xs.count(t), tuple(t.read(c) for c in xs.columns))
    return out


def changeable(t: Trace, xs: LongList) -> Any:
    """The same list; it may be changed if its elements are numbers or tuples of numbers."""
    return of(t, xs) if _may_change(xs.kind) else xs


def _may_change(k: Kind) -> bool:
    return not k.counts and not any(c.array for c in k.cells) and _is_immutable(k.element)


def _is_immutable(s: pytree.Structure) -> bool:
    immutable = s.is_leaf or s.type in (str, type(None)) or isinstance(s.type, type) and issubclass(s.type, tuple)
    return immutable and all(map(_is_immutable, s.children))


# --- elements and kinds -----------------------------------------------------------------------------

def flat(t: Trace, v: Any) -> tuple[list[Any], Kind] | None:
    """The numbers in an element and its kind; None if it is neither a number nor a tuple of numbers."""
    v = t.settle(v) if type(v) is Choice else v
    if not _is_plain(v):
        return None
    leaves, structure = pytree.flatten(containers.export(t, v))
    return (leaves, kind(structure, tuple(Cell(*_type_of(x)) for x in leaves))) if leaves else None


def _type_of(x: Any) -> tuple[Any, bool]:
    dtype, weak = scalar_type(x)
    return dtype, bool(weak)


def _is_plain(v: Any) -> bool:
    return all(map(_is_plain, v)) if isinstance(v, tuple) else is_scalar(v) or v is None or isinstance(v, str)


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
    return _joined(list(kinds), in_loop)


def _joined(kinds: Sequence[Kind], in_loop: bool) -> Kind | None:
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
    made = [b.empty(n if room is None else b.add(n, room), dtype=cell.dtype) for cell in to.cells]
    for place, element in enumerate(content):
        made = _stored(t, made, to, element, b.const(place))
    return Growing(to, len(content), tuple(map(Sym, made)))


def _stored(t: Trace, columns: Sequence[Value], k: Kind, element: Any, place: Value) -> list[Value]:
    found = flat(t, element)
    assert found is not None
    return [t.builder.set(c, t.value(x, dtype_of(c.type)), place) for c, x in zip(columns, found[0])]


def _store(t: Trace, xs: ListObj, element: Any, prepare: Callable[[Growing], tuple[Growing, Value, Any]]) -> None:
    """Stores an element where ``prepare`` says, which returns the contents, the place and the new length."""
    content = _writable(t, xs)
    element = t.settle(element) if type(element) is Choice else element
    found = flat(t, element)
    if found is None:
        _refuse_element(t, element)
    to = _joined([content.kind, found[1]], True)
    if to is None:
        t.unsupported(f"puts {describe(element)} into a list of run-time length with elements of another kind",
                      "elements of one kind: all numbers, or all tuples of as many numbers")
    content, place, length = prepare(grown(t, content, to))
    columns = _stored(t, [c.value for c in content.columns], to, element, place)
    t.state[xs] = Growing(to, length, tuple(map(Sym, columns)))


def _refuse_element(t: Trace, element: Any) -> None:
    t.unsupported(f"puts {describe(element)} into a list whose length is only known at run time",
                  "numbers or tuples of numbers; rows of an array, `out[i] = x`, for arrays")


def _writable(t: Trace, xs: ListObj) -> Growing:
    containers.writable(t, xs, "a list")
    content = contents(t, xs)
    assert content is not None
    return content


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


def _place(t: Trace, content: Growing, index: Any, message: str) -> Sym:
    """An index, counted from the end if it is negative, and checked."""
    if not is_scalar(index) or scalar_type(index)[0].is_float:
        raise TypeError(f"list indices must be integers or slices, not {describe(index)}")
    n = content.length
    if isinstance(index, int):
        i = t.binary("add", n, index) if index < 0 else index
    else:
        i = t.choose_value(t.truth(t.compare("lt", index, 0)), t.binary("add", index, n), index)
    inside = t.both("and", t.truth(t.compare("ge", i, 0)), t.truth(t.compare("lt", i, n)))
    t.check(inside, "IndexError", message)
    return t.sym(i)


def item(t: Trace, content: Growing, index: Any) -> Any:
    """``xs[index]``."""
    if isinstance(index, slice):
        return of(t, snapshot(t, content).item(t, index))
    return element(t, content, _place(t, content, index, "list index out of range"))


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


# --- room -------------------------------------------------------------------------------------------

def with_room(t: Trace, content: Any, to: Kind, more: Value) -> Growing:
    """The same contents as those of a list of this kind, with room for ``more`` elements."""
    if type(content) is not Growing:
        return grown(t, content, to, more)
    content = grown(t, content, to)
    columns = []
    needed = Sym(t.builder.add(t.value(content.length), more), True)
    for c in content.columns:
        columns.append(t.read(t.call(_with_room, t.new_array(c, ELEMENT), needed)))
    return Growing(content.kind, content.length, tuple(columns))


def _with_room(column: Any, needed: Any) -> Any:
    """The column with at least ``needed`` rows; it is traced."""
    if needed > len(column):
        roomy = np.empty(2 * needed + LEAST_ROOM, column.dtype)
        roomy[:len(column)] = column
        return roomy
    return column


# --- changing ---------------------------------------------------------------------------------------

def append(t: Trace, xs: ListObj, element: Any) -> None:
    def prepare(content: Growing) -> tuple[Growing, Value, Any]:
        if not noted(t, xs):
            content = with_room(t, content, content.kind, t.builder.const(1))
        place = t.value(content.length)
        return content, place, Sym(t.builder.add(place, 1), True)
    _store(t, xs, element, prepare)


def set_item(t: Trace, xs: ListObj, index: Any, element: Any) -> None:
    """``xs[index] = element``."""
    if isinstance(index, slice):
        t.unsupported("assigns to a slice of a list whose length is only known at run time", "an array")
    _store(t, xs, element, lambda content: (
        content, _place(t, content, index, "list assignment index out of range").value, content.length))


def pop(t: Trace, xs: ListObj, index: Any = -1) -> Any:
    content = _writable(t, xs)
    t.check(t.truth(t.compare("gt", content.length, 0)), "IndexError", "pop from empty list")
    place = _place(t, content, index, "pop index out of range")
    found = element(t, content, place)
    _remove(t, xs, content, None if isinstance(index, int) and index == -1 else place)
    return found


def _remove(t: Trace, xs: ListObj, content: Growing, place: Sym | None) -> None:
    """Removes the element at ``place``, None for the last one."""
    columns = content.columns
    if place is not None:
        columns = tuple(t.read(t.call(_without, t.new_array(c, ELEMENT), place)) for c in columns)
    t.state[xs] = Growing(content.kind, Sym(t.builder.sub(t.value(content.length), 1), True), columns)


def _without(column: Any, i: Any) -> Any:
    return np.concatenate((column[:i], column[i + 1:], column[i:i + 1]))


def delete(t: Trace, xs: ListObj, index: Any) -> None:
    """``del xs[index]``."""
    content = _writable(t, xs)
    if not isinstance(index, slice):
        _remove(t, xs, content, _place(t, content, index, "list assignment index out of range"))
        return
    if index.stop is not None or index.step is not None:
        t.unsupported("deletes a slice of a list whose length is only known at run time", "`xs = xs[:i] + xs[j:]`")
    kept = 0 if index.start is None else t.call(_clamped, index.start, content.length)
    t.state[xs] = Growing(content.kind, t.sym(kept), content.columns)


def insert(t: Trace, xs: ListObj, index: Any, element: Any) -> None:
    def prepare(content: Growing) -> tuple[Growing, Value, Any]:
        noted_other(t, xs)
        content = with_room(t, content, content.kind, t.builder.const(1))
        place = t.call(_clamped, index, content.length)
        columns = tuple(t.read(t.call(_with_gap, t.new_array(c, ELEMENT), place)) for c in content.columns)
        return Growing(content.kind, content.length, columns), t.value(place), t.binary("add", content.length, 1)
    _store(t, xs, element, prepare)


def _clamped(i: Any, n: Any) -> Any:
    return max(i + n if i < 0 else i, 0) if i < n else n


def _with_gap(column: Any, i: Any) -> Any:
    """The column with row ``i`` moved behind a gap in which another one is stored."""
    return np.concatenate((column[:i], column[i:i + 1], column[i:-1]))


def _extend(xs: Any, ys: Any) -> None:
    for y in ys:
        xs.append(y)


def extend(t: Trace, xs: ListObj, ys: Any) -> None:
    noted_other(t, xs)
    t.call(_extend, xs, settled(t, ys) if ys is xs else ys)


def clear(t: Trace, xs: ListObj) -> None:
    content = _writable(t, xs)
    t.state[xs] = Growing(content.kind, t.sym(0), content.columns)


def _replace(t: Trace, xs: ListObj, by: LongList) -> None:
    _writable(t, xs)
    noted_other(t, xs)
    t.state[xs] = t.state[of(t, by)]


def reverse(t: Trace, xs: ListObj) -> None:
    _replace(t, xs, snapshot(t, _writable(t, xs)).item(t, slice(None, None, -1)))


def sort(t: Trace, xs: ListObj, *, key: Any = None, reverse: bool = False) -> None:
    found = t.call(sorted, xs, key=key, reverse=reverse)
    _replace(t, xs, settled(t, found))


def copy(t: Trace, xs: ListObj) -> ListObj:
    out = t.new_list(())
    t.state[out] = contents(t, xs)
    return out


def _index(xs: Any, x: Any, start: int = 0) -> Any:
    for i in range(start, len(xs)):
        if xs[i] == x:
            return i
    raise ValueError(f"{x} is not in list")


def _count(xs: Any, x: Any) -> Any:
    n = 0
    for y in xs:
        if y == x:
            n += 1
    return n


def _remove_first(xs: Any, x: Any) -> None:
    for i in range(len(xs)):
        if xs[i] == x:
            del xs[i]
            return
    raise ValueError("list.remove(x): x not in list")


_METHODS: dict[str, Callable[..., Any]] = {
    "append": append, "pop": pop, "insert": insert, "extend": extend, "clear": clear, "reverse": reverse, "sort": sort,
    "copy": copy,
}
_TRACED: dict[str, Callable[..., Any]] = {"index": _index, "count": _count, "remove": _remove_first}


def method(t: Trace, xs: ListObj, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A method of a list of run-time length."""
    if name in _TRACED:
        return t.call(_TRACED[name], xs, *args, **kwargs)
    return _METHODS[name](t, xs, *args, **kwargs)


def exported(t: Trace, content: Growing) -> Columns:
    return snapshot(t, content).exported(t)


def plain(t: Trace, content: Growing) -> Any:
    return snapshot(t, content).plain(t)


# --- operators --------------------------------------------------------------------------------------

def binary(t: Trace, op: str, x: Any, y: Any) -> Any:
    """``x op y`` where one operand is a list of run-time length."""
    both = (x, y)
    if op == "add" and all(isinstance(v, LongList) and _may_change(v.kind) or type(v) is ListObj for v in both):
        found = [t.contents(v) if type(v) is ListObj else Growing(v.kind, v.count(t), tuple(map(t.read, v.columns)))
                 for v in both]
        to = kind_of(t, found, True)
        if to is not None:
            one, other = (grown(t, content, to) for content in found)
            pairs = zip(snapshot(t, one).columns, snapshot(t, other).columns)
            columns = [t.call(np.concatenate, pair) for pair in pairs]
            return of(t, LongList(to, columns))
    return long_lists.binary(t, op, x, y)


def repeated(t: Trace, x: Any, y: Any) -> ListObj | None:
    """``xs * n``, if it is a list and the length of the result is a run-time value; otherwise None."""
    xs, n = (x, y) if isinstance(x, (ListObj, LongList)) else (y, x)
    if not is_scalar(n) or scalar_type(n)[0].is_float:
        return None
    if isinstance(xs, LongList):
        if not _may_change(xs.kind):
            return None
        content = Growing(xs.kind, xs.count(t), tuple(map(t.read, xs.columns)))
    elif type(xs) is ListObj and isinstance(n, Sym):
        to = kind_of(t, [t.contents(xs)], True)
        if to is None:
            return None
        content = grown(t, t.contents(xs), to)
    else:
        return None
    fun = _filled if content.length == 1 and isinstance(content.length, int) else _tiled
    return of(t, LongList(content.kind, [t.call(fun, c, n) for c in snapshot(t, content).columns]))


def _filled(column: Any, n: Any) -> Any:
    return np.full(max(n, 0), column[0], column.dtype)


def _tiled(column: Any, n: Any) -> Any:
    return np.tile(column, max(n, 0))
