"""Lists of a length that is only known at run time, which traced code may change (``values.growing``).

A list that a loop, a condition or a recursive call makes longer or shorter gets such contents where the paths meet.
Its elements are numbers, arrays, or tuples, lists, dicts and objects of those.  ``list_changes`` has what changes them.

An element that could be changed is stored by its parts, so that it must not change any more: it is ``frozen``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ... import pytree
from ..columns.list_columns import kind
from ..values.active import Active
from ..values.growing import Growing
from ..values.protocol import Trace
from ..values.values import ELEMENT, SHARED, ListObj, Sym
from .list_elements import contents, freeze_object, grown, is_table, kind_of, may_change, ones_of, row_cell, table_of
from .list_rows import Row
from .long_lists import LongList, place_among


def settled(t: Trace, v: Any, kept: bool = True) -> Any:
    """``v``; for a list of run-time length its present elements, as an immutable list.

    ``kept``: lists in it may be kept, so that they must not change any more.
    """
    if isinstance(v, Row):
        return v.elements(t)
    content = contents(t, v)
    if content is None:
        return v
    if kept and is_table(content.kind):
        freeze_object(t, v, SHARED)
    return snapshot(t, content)


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
    cells = tuple(replace(cell, ones=ones_of(c)[1:]) if cell.array else cell for cell, c in zip(xs.kind.cells, columns))
    t.state[out] = Growing(kind(xs.kind.element, cells), xs.count(t), columns)
    return out


def made(t: Trace, xs: LongList) -> Any:
    """The list that a comprehension has made; its elements have no other names, so that they may be rows."""
    cells, element = xs.kind.cells, xs.kind.element
    cell = row_cell(t, cells) if element.type is list else None
    if cell is None or not all(c.is_leaf for c in element.children):
        return changeable(t, xs)
    columns = [t.call(t.getattr(c, "astype"), cell.dtype.np) for c in xs.columns]
    row = kind(pytree.LEAF, (cell,))
    return of(t, LongList(table_of(row, (len(cells) == 1,)), [t.call(np.stack, tuple(columns), -1)]))


def columns_of(t: Trace, items: Sequence[Any]) -> LongList | None:
    """Elements as an immutable list, if they are of one kind."""
    to = kind_of(t, [tuple(items)], True)
    return None if to is None or is_table(to) else snapshot(t, grown(t, tuple(items), to))


def changeable(t: Trace, xs: LongList) -> Any:
    """The same list; it may be changed unless its elements are long lists."""
    return of(t, xs) if may_change(xs.kind) else xs


# --- reading ----------------------------------------------------------------------------------------

def length(t: Trace, content: Growing) -> Any:
    n = content.length
    return n if isinstance(n, int) or n.value.const is None else n.value.const


def element(t: Trace, xs: ListObj, content: Growing, it: Any) -> Any:
    """Element number ``it``, which must be in range."""
    return Row(xs, content.version, (t.sym(it),)) if is_table(content.kind) else _whole(t, content).element(t, it)


def _whole(t: Trace, content: Growing) -> LongList:
    """The elements and the spare room."""
    return LongList(content.kind, [t.new_array(c, ELEMENT) for c in content.columns])


def place_of(t: Trace, content: Growing, index: Any, message: str) -> Sym:
    return place_among(t, content.length, index, message)


def item(t: Trace, xs: ListObj, content: Growing, index: Any) -> Any:
    """``xs[index]``."""
    if isinstance(index, slice):
        found = of(t, settled(t, xs).item(t, index))
        found.readonly = xs.readonly if xs.readonly is SHARED else found.readonly
        return found
    return element(t, xs, content, place_of(t, content, index, "list index out of range"))


def is_unknown(index: Any) -> bool:
    """True for an index, or a slice with a bound, that is only known at run time."""
    parts = (index.start, index.stop) if isinstance(index, slice) else (index,)
    return any(isinstance(x, Sym) and x.value.const is None for x in parts)


def part(t: Trace, xs: ListObj, index: slice) -> ListObj | None:
    """``xs[i:j]`` of a list of known length, with bounds known at run time; None if there is no list of its kind."""
    content = t.contents(xs)
    to = kind_of(t, [content], True) if index.step is None else None
    return None if to is None or is_table(to) else of(t, snapshot(t, grown(t, content, to)).item(t, index))


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
        return element(t, self.of, self._contents(t), it)


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


