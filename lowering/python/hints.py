"""Hints: where captured state was found last, in words of memory that an entry point reads.

The offset of a dict's entry, the version of a class and the like may change while what is read stays the same.  A call
that finds a hint out of date comes to Python, which finds all of them anew.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ...frontend.captured.guards import Guard
from ...frontend.captured.places import Reader
from ..llvm import cpython_layout as layout

NEVER = (1 << 64) - 1                                  # what no hint is


class Unreadable(Exception):
    """Something that machine code does not read: the program is called through Python."""


class Hints:
    """Words in memory that code reads, and how to find what they should be.

    ``early`` are those whose value is taken before the guards are tested once more, and stored last.
    """

    def __init__(self, guards: Sequence[Guard], count: int) -> None:
        self.guards = guards
        self.words = (ctypes.c_uint64 * count)(*[NEVER] * count)
        self.early: list[tuple[int, Callable[[Reader], int]]] = []
        self.late: list[tuple[int, Callable[[Reader], int]]] = []
        self.objects: list[tuple[int, Callable[[Reader], Any]]] = []
        self.kept: list[Any] = []                      # the objects whose addresses are in the words
        self.used = 0
        self.tables: list[Any] = []                    # other words that code reads

    def constants(self, words: Sequence[int]) -> str:
        """Words that ``refresh`` leaves alone; the address of the first as an operand."""
        table = (ctypes.c_uint64 * len(words))(*words)
        self.tables.append(table)
        return f"inttoptr (i64 {ctypes.addressof(table)} to ptr)"

    def word(self, find: Callable[[Reader], int], early: bool = False) -> str:
        """A new word; its address as an operand."""
        number = self.used
        self.used += 1
        (self.early if early else self.late).append((number, find))
        return f"inttoptr (i64 {ctypes.addressof(self.words) + 8 * number} to ptr)"

    def address(self, find: Callable[[Reader], Any]) -> str:
        """A new word with the address of an object."""
        number = self.used
        self.used += 1
        self.objects.append((number, find))
        return f"inttoptr (i64 {ctypes.addressof(self.words) + 8 * number} to ptr)"

    def addresses(self, find: Callable[[Reader], Sequence[Any]], count: int) -> str:
        """New words with the addresses of the items of a list or tuple; the address of the first as an operand."""
        first = self.address(lambda read: find(read)[0])
        for i in range(1, count):
            self.address(lambda read, i=i: find(read)[i])                                  # type: ignore[misc]
        return first

    def refresh(self, leaves: Sequence[Any]) -> bool:
        """Find all words anew, unless something changes meanwhile; true if any of them was out of date."""
        now = Reader(leaves)
        first = [(number, find(now)) for number, find in self.early]
        read = Reader(leaves)
        if not all(guard.holds(read) for guard in self.guards):
            return False
        objects = [find(read) for _, find in self.objects]
        found = [(number, find(read)) for number, find in self.late]
        found += [(number, id(obj)) for (number, _), obj in zip(self.objects, objects)]
        before = list(self.words)
        for number, _ in self.early:
            self.words[number] = NEVER
        old, self.kept = self.kept, objects
        for number, value in (*found, *first):
            self.words[number] = value
        old.clear()                                    # to which nothing refers any more
        return before != list(self.words)


def version_of(cls: type) -> int:
    getattr(cls, "__init__", None)                       # which gives it a version, if it has none
    return layout.u32(id(cls) + layout.VERSION_TAG) or NEVER


def form_of(table: Any) -> int:
    """The form of a dict whose values stand beside its keys."""
    keys = layout.keys_of(table)
    return layout.form(keys) if layout.u64(id(table) + layout.DICT_VALUES) == 0 else NEVER


def count_of(table: Any, keys: list[Any], exactly: bool) -> int:
    """The number of entries that the hints need, or if ``exactly`` the number of entries."""
    if exactly:
        return layout.u64(layout.keys_of(table) + layout.KEYS_COUNT)
    entries = [layout.entry_of(layout.keys_of(table), layout.key_in(table, k)) for k in keys]
    return max((e[0] + 1 for e in entries if e is not None), default=0)


def finder(find: Callable[[Reader], Any], key: Any) -> Callable[[Reader], int]:
    def offset(read: Reader) -> int:
        table = find(read)
        entry = layout.entry_of(layout.keys_of(table), layout.key_in(table, key))
        return entry[1] if entry is not None else layout.KEYS_HEAD
    return offset


def key_finder(find: Callable[[Reader], Any], key: Any) -> Callable[[Reader], Any]:
    return lambda read: layout.key_in(find(read), key)
