"""Changes of lists of run-time length (``growing_lists``): their methods and assignments.

``append`` writes into spare room; where there is none, the columns become twice as long.  A loop that runs a known
number of times makes room before it starts for what each iteration appends (``values.growing.Appends``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.graph import Value
from ..columns.list_columns import Kind
from ..values.growing import Growing, NeedRows, noted, noted_other
from ..values.lattice import describe
from ..values.protocol import Trace
from ..values.values import ELEMENT, SHARED, Choice, ListObj, Sym
from . import containers, growing_lists, iteration
from .growing_lists import element, of, place_of, settled, snapshot
from .list_elements import (
    LEAST_ROOM,
    contents,
    flat,
    freeze_object,
    grown,
    is_table,
    joined,
    kind_of,
    need_rows,
    stored,
)
from .list_rows import METHODS, Row, later, refuse_row
from .long_lists import LongList

# --- room -------------------------------------------------------------------------------------------

def with_room(t: Trace, content: Any, to: Kind, more: Value) -> Growing:
    """The same contents as those of a list of this kind, with room for ``more`` elements."""
    if type(content) is not Growing:
        return grown(t, content, to, more)
    content = grown(t, content, to)
    columns = []
    needed = Sym(t.builder.add(t.value(content.length), more), True)
    for c, cell in zip(content.columns, content.kind.cells):
        fun = _with_rows if cell.array else _with_room
        columns.append(t.read(t.call(fun, t.new_array(c, ELEMENT), needed)))
    return Growing(content.kind, content.length, tuple(columns), content.version)


def _with_room(column: Any, needed: Any) -> Any:
    """The column with at least ``needed`` rows; it is traced."""
    if needed > len(column):
        roomy = np.empty(2 * needed + LEAST_ROOM, column.dtype)
        roomy[:len(column)] = column
        return roomy
    return column


def _with_rows(column: Any, needed: Any) -> Any:
    if needed > len(column):
        roomy = np.empty((2 * needed + LEAST_ROOM, *column.shape[1:]), column.dtype)
        roomy[:len(column)] = column
        return roomy
    return column


def _shaped(t: Trace, content: Growing, element: Any) -> Growing:
    """The contents of a list of arrays; one without elements takes the shapes of a first one."""
    found = flat(t, element)
    if found is None or not any(cell.array for cell in content.kind.cells):
        return content
    columns = [t.read(t.call(_like, t.new_array(c, ELEMENT), content.length, t.new_array(x, ELEMENT)))
               if cell.array else c for c, cell, x in zip(content.columns, content.kind.cells, found[0])]
    return Growing(content.kind, content.length, tuple(columns), content.version)


def _like(column: Any, n: Any, row: Any) -> Any:
    if n == 0 and column.shape[1:] != row.shape:
        return np.empty((LEAST_ROOM, *row.shape), column.dtype)
    return column


def _store(t: Trace, xs: ListObj, new: Any, prepare: Callable[[Growing], tuple[Growing, Value, Any]]) -> None:
    """Stores an element where ``prepare`` says, which returns the contents, the place and the new length."""
    content = _writable(t, xs)
    if isinstance(new, Row):
        refuse_row(t)
    new = t.settle(new) if type(new) is Choice else new
    found = flat(t, new)
    short = found is not None and found[1].element.type is list
    if short and is_table(content.kind) and t.session.rows < NeedRows.MOST:
        raise NeedRows
    if found is None:
        need_rows(t, (new,))
        t.unsupported(f"puts {describe(new)} into a list whose length is only known at run time",
                      "numbers, arrays, and tuples, lists, dicts or dataclasses of those")
    to = joined([content.kind, found[1]], True)
    if to is None:
        t.unsupported(f"puts {describe(new)} into a list of run-time length with elements of another kind",
                      "elements of one kind: all numbers, all arrays of one rank, or all tuples of as many of them")
    content, place, length = prepare(_shaped(t, grown(t, content, to), new))
    columns = stored(t, [c.value for c in content.columns], to, new, place)
    t.state[xs] = Growing(to, length, tuple(map(Sym, columns)), content.version)


def moved(t: Trace, content: Growing) -> Growing:
    """The contents as those after a change that replaces or moves an element."""
    if not is_table(content.kind):
        return content
    return Growing(content.kind, content.length, content.columns, later(t, content.version))


def _writable(t: Trace, xs: ListObj) -> Growing:
    containers.writable(t, xs, "a list")
    content = contents(t, xs)
    assert content is not None
    return content


# --- changing ---------------------------------------------------------------------------------------

def append(t: Trace, xs: ListObj, element: Any) -> None:
    def prepare(content: Growing) -> tuple[Growing, Value, Any]:
        if any(cell.array for cell in content.kind.cells) or not noted(t, xs):
            content = with_room(t, content, content.kind, t.builder.const(1))
        place = t.value(content.length)
        return content, place, Sym(t.builder.add(place, 1), True)
    _store(t, xs, element, prepare)


def set_item(t: Trace, xs: ListObj, index: Any, element: Any) -> None:
    """``xs[index] = element``."""
    if isinstance(index, slice):
        set_slice(t, xs, index, element)
        return
    def prepare(content: Growing) -> tuple[Growing, Value, Any]:
        place = place_of(t, content, index, "list assignment index out of range")
        return moved(t, content), place.value, content.length
    _store(t, xs, element, prepare)


def set_slice(t: Trace, xs: ListObj, index: slice, by: Any) -> None:
    """``xs[i:j] = by``."""
    if index.step is not None:
        t.unsupported("assigns to a slice with a step of a list whose length is only known at run time", "a loop")
    content = contents(t, xs)
    if content is not None and is_table(content.kind):
        t.unsupported("assigns to a slice of a list of lists of a length that is only known at run time", "a loop")
    n = t.length(xs)
    first = 0 if index.start is None else t.call(_clamped, index.start, n)
    last = n if index.stop is None else t.call(max, first, t.call(_clamped, index.stop, n))
    new = t.call(list, by)
    for part, before in ((slice(None, first), True), (slice(last, None), False)):
        rest = t.getitem(xs, part)
        new = t.binary("add", *((rest, new) if before else (new, rest)))
    containers.writable(t, xs, "a list")
    noted_other(t, xs)
    t.state[xs] = t.state[new]


def pop(t: Trace, xs: ListObj, index: Any = -1) -> Any:
    content = _writable(t, xs)
    t.check(t.truth(t.compare("gt", content.length, 0)), "IndexError", "pop from empty list")
    place = place_of(t, content, index, "pop index out of range")
    found = t.call(list, element(t, xs, content, place)) if is_table(content.kind) else element(t, xs, content, place)
    _remove(t, xs, content, None if isinstance(index, int) and index == -1 else place)
    return found


def _remove(t: Trace, xs: ListObj, content: Growing, place: Sym | None) -> None:
    """Removes the element at ``place``, None for the last one."""
    content = moved(t, content)
    columns = content.columns
    if place is not None:
        columns = tuple(t.read(t.call(_without, t.new_array(c, ELEMENT), place)) for c in columns)
    t.state[xs] = Growing(content.kind, Sym(t.builder.sub(t.value(content.length), 1), True), columns,
                          content.version)


def _without(column: Any, i: Any) -> Any:
    return np.concatenate((column[:i], column[i + 1:], column[i:i + 1]))


def delete(t: Trace, xs: ListObj, index: Any) -> None:
    """``del xs[index]``."""
    content = _writable(t, xs)
    if not isinstance(index, slice):
        _remove(t, xs, content, place_of(t, content, index, "list assignment index out of range"))
        return
    if index.step is not None:
        t.unsupported("deletes a slice with a step of a list whose length is only known at run time",
                      "keep the others: `[x for x in xs if …]`")
    noted_other(t, xs)
    content = moved(t, content)
    n = content.length
    first = 0 if index.start is None else t.call(_clamped, index.start, n)
    if index.stop is None:
        t.state[xs] = Growing(content.kind, t.sym(first), content.columns, content.version)
        return
    last = t.call(max, first, t.call(_clamped, index.stop, n))
    columns = tuple(t.read(t.call(_moved, t.new_array(c, ELEMENT), first, last)) for c in content.columns)
    length = t.binary("sub", n, t.binary("sub", last, first))
    t.state[xs] = Growing(content.kind, length, columns, content.version)


def _moved(column: Any, first: Any, last: Any) -> Any:
    """The column with rows ``first`` to ``last`` behind all others."""
    return np.concatenate((column[:first], column[last:], column[first:last]))


def insert(t: Trace, xs: ListObj, index: Any, element: Any) -> None:
    def prepare(content: Growing) -> tuple[Growing, Value, Any]:
        noted_other(t, xs)
        content = moved(t, with_room(t, content, content.kind, t.builder.const(1)))
        place = t.call(_clamped, index, content.length)
        columns = tuple(t.read(t.call(_with_gap, t.new_array(c, ELEMENT), place)) for c in content.columns)
        inserted = Growing(content.kind, content.length, columns, content.version)
        return inserted, t.value(place), t.binary("add", content.length, 1)
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
    content = moved(t, _writable(t, xs))
    t.state[xs] = Growing(content.kind, t.sym(0), content.columns, content.version)


def _replace(t: Trace, xs: ListObj, by: LongList) -> None:
    version = moved(t, _writable(t, xs)).version
    noted_other(t, xs)
    content = contents(t, of(t, by))
    assert content is not None
    t.state[xs] = Growing(content.kind, content.length, content.columns, version)


def reverse(t: Trace, xs: ListObj) -> None:
    _replace(t, xs, snapshot(t, _writable(t, xs)).item(t, slice(None, None, -1)))


def sort(t: Trace, xs: ListObj, *, key: Any = None, reverse: bool = False) -> None:
    found = t.call(sorted, xs, key=key, reverse=reverse)
    _replace(t, xs, settled(t, found))


def copy(t: Trace, xs: ListObj) -> ListObj:
    out, content = t.new_list(()), contents(t, xs)
    t.state[out] = content
    if content is not None and is_table(content.kind):
        for one in (xs, out):
            freeze_object(t, one, SHARED)
    return out


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
_TRACED: dict[str, Callable[..., Any]] = {"index": METHODS["index"], "count": METHODS["count"], "remove": _remove_first}


def grows(t: Trace, xs: Any, name: str, args: Sequence[Any]) -> bool:
    """True if a list has a run-time length, which a method may give it.

    ``extend`` does by what is as long as run-time values say; ``insert`` and ``pop`` do at a place known then only.
    """
    if contents(t, xs) is not None:
        return True
    if type(xs) is not ListObj or not args or xs.readonly:
        return False
    if name == "extend":
        ys = t.walked_list(args[0])
        return iteration.is_counted(ys) and iteration.known_count(t, ys) is None
    if name in _TRACED:
        to = kind_of(t, [t.contents(xs)], True)
        return not containers.is_static(t.contents(xs) + tuple(args)) and to is not None and not is_table(to)
    if name not in ("insert", "pop") or not isinstance(args[0], Sym) or args[0].value.const is not None:
        return False
    return takes_run_time_length(t, xs, *args[1:])


def takes_run_time_length(t: Trace, xs: Any, *new: Any) -> bool:
    """Gives a list a run-time length, before a change at a place that is only known at run time.

    Returns True if its elements, and those that the change brings, are of a kind for which there are such lists.
    """
    if contents(t, xs) is not None:
        return True
    if type(xs) is not ListObj or xs.readonly:
        return False
    to = kind_of(t, (t.contents(xs), new), True)
    if to is None or is_table(to) and not t.session.rows:          # lists that may be of different lengths
        return False
    t.state[xs] = grown(t, t.contents(xs), to)
    return True


def becomes_table(t: Trace, xs: Any) -> bool:
    """Makes a list of lists that is indexed at run time one of run-time length, if the program writes into such."""
    if not t.session.rows or type(xs) is not ListObj or xs.readonly or contents(t, xs) is not None:
        return False
    to = kind_of(t, [t.contents(xs)], True) if all(type(x) is ListObj for x in t.contents(xs)) else None
    if to is None or not is_table(to):
        return False
    t.state[xs] = grown(t, t.contents(xs), to)
    return True


def is_changed_at_run_time(t: Trace, xs: Any, index: Any, by: Any = ()) -> bool:
    """True if ``xs[index] = by`` or ``del xs[index]`` makes a length, or is at a place, known at run time only."""
    if contents(t, xs) is not None:
        return True
    if type(xs) is not ListObj or xs.readonly:
        return False
    if isinstance(index, slice):
        by = t.walked_list(by)
        unknown = contents(t, by) is not None or iteration.ends_at_run_time(t, by)
        return unknown or growing_lists.is_unknown(index)
    return False


def method(t: Trace, xs: ListObj, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A method of a list of run-time length."""
    if name in _TRACED:
        return t.call(_TRACED[name], xs, *args, **kwargs)
    return _METHODS[name](t, xs, *args, **kwargs)
