"""Elements of rows that the threads of a row keep in shared memory between its loops, so that memory is read once.

::

    %m = for %j { … load %x, %i, %j … }           reads x[i, j] from memory, and keeps it
    for %j { %e = exp(load %x, %i, %j − %m); … store %e, %y, %i, %j }        reads what is kept, keeps %e
    for %j { %q = (load %y, %i, %j) / %s; store %q, %y, %i, %j }             reads %e; only %q goes to memory

A loop gives element j to the same thread each time, so that no barrier is needed.  An access is kept if it is at the
element that the loop has reached, of loops with the same iterations.  A place whose elements are not read any more
gives its room to the next one.  Of a row that is too long only the first elements are kept, and the others are accessed
as if there were no cache: a comparison decides at each access.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ....ir.graph import Op, Value
from ....loop_level.types import buffer_type
from ...llvm import types
from ..image import WARP

ROOM = 32 << 10
"""Bytes of shared memory for the rows of a block, the same for all kernels of an image.  A multiprocessor of sm_90 has
room for six such blocks, or 1,536 threads with a warp for each row; no other size has been timed."""

_Key = tuple[Value, tuple[Value | None, ...]]
"""A buffer, and the indices of an access, with None in place of the index of the loop."""


@dataclass(frozen=True)
class Kept:
    """An access to a place in shared memory: element j of the row is at ``base`` + j, in elements of its size.

    ``axis``: the index of the access that is j.  ``reads``: the access is a load of what is kept.  ``keeps``: the
    element is kept.  ``passes``: a store also goes to memory, since no later one overwrites it.
    """

    base: int
    axis: int
    reads: bool
    keeps: bool
    passes: bool


@dataclass(frozen=True)
class RowCache:
    """The accesses to what is kept, and the number of elements of a row that are."""

    kept: dict[Op, Kept]
    length: int


@dataclass(frozen=True)
class _Access:
    op: Op
    place: int                               # among all accesses of the body
    loop: Op


def row_cache(ops: Sequence[Op], room: int, private: Collection[Value]) -> RowCache:
    """The loads of a row to keep in ``room`` bytes; ``ops``: the body of a nest that is for the threads of a row.

    ``private``: buffers that nothing but this body reads.
    """
    found = {key: accesses for key, accesses in _accesses(ops).items() if _pays(accesses)}
    places: list[tuple[int, _Access]] = []   # in a row: the width of each, and the last load of what it has
    taken: dict[_Key, int] = {}
    for key, accesses in found.items():
        width, last = types.width(buffer_type(key[0]).dtype), [a for a in accesses if a.op.name == "load"][-1]
        free = (k for k, (size, end) in enumerate(places) if size == width and _is_after(accesses[0], end))
        taken[key] = k = next(free, len(places))
        places[k:k + 1] = [(width, last)]
    total = sum(width for width, _ in places)
    length = room // total // WARP * WARP if total else 0
    kept: dict[Op, Kept] = {}
    for key, accesses in found.items() if length else ():
        k = taken[key]
        base = sum(width for width, _ in places[:k]) * length // places[k][0]
        is_private = key[0] in private and accesses[0].op.name == "store"      # nor is it read when the nest runs again
        for n, a in enumerate(accesses):
            following = accesses[n + 1:]
            is_load = a.op.name == "load"
            read_later = bool(following) and following[0].op.name == "load"
            stored_later = any(b.op.name == "store" for b in following)
            kept[a.op] = Kept(base, key[1].index(None), is_load and n > 0, read_later and not (is_load and n > 0),
                              not is_load and not stored_later and not is_private)
    return RowCache(kept, length)


def _is_after(first: _Access, last: _Access) -> bool:
    """True if no element that ``last`` loads is loaded after ``first`` has accessed the one in its place.

    Scans run the loads of an iteration twice.
    """
    return last.place < first.place and (first.op.name == "store" or first.loop is not last.loop)


def _accesses(ops: Sequence[Op]) -> dict[_Key, list[_Access]]:
    """The accesses at the element that a loop has reached, where these are all accesses to what is stored."""
    found: defaultdict[_Key, list[_Access]] = defaultdict(list)
    others: set[int | None] = set()          # aliases of which other elements are accessed
    stored: set[int | None] = set()
    place = 0
    for loop in ops:
        if loop.name != "for":
            continue
        counts = loop.operands[0].const == 0 and loop.operands[2].const == 1
        for op in loop.regions[0].nested_ops():
            if op.name not in ("load", "store"):
                continue
            place += 1
            alias = buffer_type(op.operands[op.name == "store"]).alias
            key = _key(op, loop) if counts and op in loop.regions[0].ops else None
            if key is None:
                others.add(alias)
            else:
                found[key].append(_Access(op, place, loop))
            if op.name == "store":
                stored.add(alias)
    every = {alias: [key for key in found if buffer_type(key[0]).alias == alias] for alias in stored}
    wrong = {None, *(alias for alias in stored if alias in others or len(every[alias]) > 1)}
    return {key: accesses for key, accesses in found.items() if buffer_type(key[0]).alias not in wrong}


def _key(op: Op, loop: Op) -> _Key | None:
    """The place of an access; None if it depends on the iteration in any other way than by the index of the loop."""
    b, *at = op.operands[op.name == "store":]
    region = loop.regions[0]
    iv = region.params[0]
    if at.count(iv) != 1 or any(v.op in region.ops or v in region.params for v in (b, *at) if v is not iv):
        return None
    return b, tuple(None if v is iv else v for v in at)


def _pays(accesses: Sequence[_Access]) -> bool:
    """True if a later loop, of the same iterations, reads an element again."""
    first = accesses[0]
    ends = [a.loop.operands[1] for a in accesses]
    return all(v is ends[0] or v.const is not None and v.const == ends[0].const for v in ends) and any(
        a.op.name == "load" and a.loop is not first.loop for a in accesses)
