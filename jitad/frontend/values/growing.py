"""The contents of a list whose length is a run-time value."""

from __future__ import annotations

from typing import Any

from ...ir.graph import Value
from .lattice import join_scalars
from .protocol import Trace
from .values import ListObj, Obj, Operators, Sym


class Growing(Operators):
    """Elements of one kind in columns with spare room: the contents of a ``ListObj``.

    ``kind``: that of a long list (``list_columns.Kind``).  ``length``: the number of elements, an int or a ``Sym``.
    ``columns``: a ``Sym`` for each column, an array of at least ``length`` rows.  ``version``: for a list of lists, how
    often a list in it has been replaced or moved to another place, an int or a ``Sym``.
    """

    __slots__ = ("kind", "length", "columns", "version")

    def __init__(self, kind: Any, length: Any, columns: tuple[Sym, ...], version: Any = 0) -> None:
        self.kind, self.length, self.columns, self.version = kind, length, columns, version

    @property
    def static(self) -> Any:
        return self.kind

    def parts(self) -> tuple[Any, ...]:
        return (self.length, self.version, *self.columns)

    def with_parts(self, parts: tuple[Any, ...]) -> Growing:
        return Growing(self.kind, parts[0], parts[2:], parts[1])


def cell_of(cells: tuple[Any, ...], in_loop: bool) -> Any:
    """The type of a column for elements with these cells; None if there is none."""
    if all(c == cells[0] for c in cells):
        return cells[0]
    if any(c.array for c in cells):
        return None
    joined = join_scalars([Sym(Value(c.dtype, None, 0), c.weak) for c in cells], in_loop)   # type: ignore[arg-type]
    return None if joined is None else type(cells[0])(*joined)


class NeedRows(Exception):
    """Restarts the trace: the program writes into a list in a list, so that more short lists become rows of arrays."""

    MOST = 2                                         # how often: see ``session.Session.rows``


class Appends:
    """What a loop appends to lists in each iteration, to make room for it before the loop.

    ``sites[xs]``: the number of ``append`` statements that each iteration runs, in the loop itself.  ``other``: lists
    whose length it changes in another way too.  ``room[xs]``: the number of elements for each iteration for which there
    is room, without a test at the ``append``.  ``leaves``: the loop may end before its count.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.room: dict[Obj, int] = {}
        self.sites: dict[Obj, int] = {}
        self.other: set[Obj] = set()
        self.leaves = False

    def again(self, depth: int) -> None:
        """The loop is traced again; ``depth`` is that of its body."""
        self.depth, self.sites = depth, {}

    def wanted(self) -> dict[Obj, int]:
        """The lists for which the loop should make more room, and how much for each iteration."""
        if self.leaves:
            return {}
        more = {xs: n for xs, n in self.sites.items() if xs not in self.other and n > self.room.get(xs, 0)}
        self.room.update(more)
        return more

    def overrun(self) -> bool:
        """True if the loop has relied on room that may not be enough; it does not again."""
        spoiled = [xs for xs, n in self.room.items() if xs in self.other or self.sites.get(xs, 0) > n]
        for xs in spoiled:
            del self.room[xs]
            self.other.add(xs)
        return bool(spoiled)


def noted(t: Trace, xs: ListObj) -> bool:
    """Notes an ``append``; returns True if the innermost loop has made room for it."""
    if not t.appends:
        return False
    *outer, own = t.appends
    for record in outer:
        record.other.add(xs)
    if t.depth > own.depth:
        own.other.add(xs)                       # not in each iteration: room for each might be much too much
        return False
    own.sites[xs] = own.sites.get(xs, 0) + 1
    return bool(own.sites[xs] <= own.room.get(xs, 0))


def noted_other(t: Trace, xs: ListObj) -> None:
    """Notes a change of the length that is not an ``append``."""
    for record in t.appends:
        record.other.add(xs)
