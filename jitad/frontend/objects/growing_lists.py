"""Lists of a length that is only known at run time, which traced code may change (``values.growing``).

A list that a loop, a condition or a recursive call makes longer or shorter gets such contents where the paths meet.
Its elements are numbers, or tuples of numbers.  ``list_changes`` has what changes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import pytree
from ...ir.graph import Value
from ...ir.types import dtype_of
from ..columns.list_columns import Cell, Kind, kind
from ..values.active import Active
from ..values.growing import Growing, cell_of
from ..values.lattice import is_scalar, scalar_type
from ..values.protocol import Trace
from ..values.values import ELEMENT, Choice, ListObj, Sym
from . import containers
from .long_lists import LongList, place_among

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
    return of(t, xs) if may_change(xs.kind) else xs


def may_change(k: Kind) -> bool:
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
    return (leaves, kind(structure, tuple(Cell(*scalar_type(x)) for x in leaves))) if leaves else None


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
    made = [b.empty(n if room is None else b.add(n, room), dtype=cell.dtype) for cell in to.cells]
    for place, element in enumerate(content):
        made = stored(t, made, to, element, b.const(place))
    return Growing(to, len(content), tuple(map(Sym, made)))


def stored(t: Trace, columns: Sequence[Value], k: Kind, element: Any, place: Value) -> list[Value]:
    found = flat(t, element)
    assert found is not None
    return [t.builder.set(c, t.value(x, dtype_of(c.type)), place) for c, x in zip(columns, found[0])]


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


