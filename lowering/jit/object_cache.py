"""Keeps the machine code of the routines that all modules share on disk, for later processes.

Compiling the matrix product takes 20 to 30 ms, for which every process that uses it would wait; other libraries ship
theirs compiled.  The key of a file is everything that determines its code (``Native``: the LLVM IR, the compiler, the
processor), so files are never out of date.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import disk_store


def stored(origin: str, make: Callable[[], bytes]) -> bytes:
    """The result of ``make``, from this or an earlier process.  ``origin`` holds everything that determines it."""
    if (found := disk_store.get(origin)) is not None:
        return found
    made = make()
    disk_store.put(origin, made)
    return made
