"""The entry points of a jitted function: each passes on a call that it does not take, the last one to Python."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..lowering.python import callable as native_callable
from ..lowering.python.entry import Entry
from .compiled import lock


class EntryChain:
    """The entry points of ``target``, the object that the user holds; newest first."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.entries: list[Entry] = []
        self._diverted = 0                           # the first entry point while calls are diverted to Python, or 0
        _all.add(self)

    def add(self, entry: Entry, leaves: Sequence[Any]) -> None:
        """Puts an entry in front; ``leaves``: the argument leaves of a call, which its hints are made from."""
        if entry.hints is not None:
            entry.hints.refresh(leaves)
        entry.next.value = self.entries[0].code if self.entries else native_callable.SLOW_VECTORCALL
        self.entries.insert(0, entry)
        self._go_through(entry.code)

    def drop(self, entries: Container[int]) -> None:
        """Removes the entries with these ids."""
        self.entries = [entry for entry in self.entries if id(entry) not in entries]
        for entry, following in zip(self.entries, [*self.entries[1:], None]):
            entry.next.value = following.code if following is not None else native_callable.SLOW_VECTORCALL
        self._go_through(self.entries[0].code if self.entries else native_callable.SLOW_VECTORCALL)

    def clear(self) -> None:
        """Sends all calls to Python until an entry is added."""
        native_callable.set_entry(self.target, native_callable.SLOW_VECTORCALL)
        self._diverted = 0
        self.entries.clear()

    def _go_through(self, entry: int) -> None:
        """Makes this entry the first, at once or when calls are no longer diverted."""
        if _diverting:
            self._diverted = entry
        else:
            native_callable.set_entry(self.target, entry)

    def divert(self) -> None:
        """Sends all calls to Python until ``resume``."""
        if not self._diverted:
            self._diverted = native_callable.entry_of(self.target)
            native_callable.set_entry(self.target, native_callable.SLOW_VECTORCALL)

    def resume(self) -> None:
        if self._diverted:
            native_callable.set_entry(self.target, self._diverted)
            self._diverted = 0


_all: weakref.WeakSet[EntryChain] = weakref.WeakSet()
_diverting: list[int] = []                           # identifiers of the threads that divert calls now


@contextmanager
def all_diverted() -> Iterator[None]:
    """A context in which the calls of all jitted functions go to Python."""
    here = threading.get_ident()
    with lock:
        _diverting.append(here)
        for chain in list(_all):
            chain.divert()
    try:
        yield
    finally:
        with lock:
            _diverting.remove(here)
            _resume()


def _resume() -> None:
    for chain in list(_all) if not _diverting else ():
        chain.resume()


def _only_here() -> None:
    """Drops the other threads from ``_diverting``: a child process does not have them."""
    _diverting[:] = [number for number in _diverting if number == threading.get_ident()]
    _resume()


os.register_at_fork(after_in_child=_only_here)
