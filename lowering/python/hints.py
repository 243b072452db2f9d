"""Hints: where captured state was found last, in words of memory that an entry point reads.

The offset of a dict's entry, the version of a class and the like may change while what is read stays the same.  A call
that finds a hint out of date comes to Python, which finds all of them anew.

What a word should hold is data, a tuple ``(kind, …)``, so that the entry point can be used by other processes too::

    version c    keys c    count c    attribute c name      of a class: its version, its objects' shared keys, their
                                                            number, and the offset of one in the array of an object
    form d    keys d    entries d names exactly             of a dict: the form and the address of its table of keys,
    entry d key                                             how many entries are needed, the offset of one
    keyed d names numbers                                   the version of its keys if the entries have these numbers
    constant n                                              the number itself
    place p    item p i    key d key    itself x            objects: at a place, in a list there, a key of a dict, x

A dict ``d`` is an object, or the place where it is found.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...frontend.captured.guards import Guard
from ...frontend.captured.places import Place, Reader
from ..llvm import cpython_layout as layout
from ..llvm.capi import memory

NEVER = (1 << 64) - 1                                  # what no hint is
Word = tuple[Any, ...]


class Unreadable(Exception):
    """Something that machine code does not read: the program is called through Python."""


class Hints:
    """Words in memory that code reads, and what they should be.

    ``early`` are those whose value is taken before the guards are tested once more, and stored last.  ``facts``: what
    the code takes for granted about the layout of objects, and holds as long as the process runs (``fact``).
    """

    def __init__(self, guards: Sequence[Guard], count: int) -> None:
        self.guards = guards
        self.words = (ctypes.c_uint64 * count)(*[NEVER] * count)
        self.early: list[tuple[int, Word]] = []
        self.late: list[tuple[int, Word]] = []
        self.objects: list[tuple[int, Word]] = []
        self.facts: list[tuple[Word, Any]] = []
        self.kept: list[Any] = []                      # the objects whose addresses are in the words
        self.used = 0
        self.tables: list[Any] = []                    # other words that code reads
        self.rows: list[Sequence[tuple[Any, int]]] = []          # and what they are made from

    def constants(self, words: Sequence[tuple[Any, int]]) -> str:
        """Words that ``refresh`` leaves alone: addresses of objects, plus an offset.  The address of the first."""
        self.rows.append(words)
        self.tables.append((ctypes.c_uint64 * len(words))(*(_address(*word) for word in words)))
        return memory(ctypes.addressof(self.tables[-1]))

    def fact(self, *what: Any) -> Any:
        """Something that code takes for granted (``FACTS``)."""
        value = FACTS[what[0]](*what[1:])
        self.facts.append((what, value))
        return value

    def word(self, *what: Any, early: bool = False) -> str:
        """A new word; its address as an operand."""
        (self.early if early else self.late).append((self.used, what))
        return self._next()

    def address(self, *what: Any) -> str:
        """A new word with the address of an object."""
        self.objects.append((self.used, what))
        return self._next()

    def addresses(self, place: Place, count: int) -> str:
        """New words with the addresses of the items of a list or tuple; the address of the first as an operand."""
        return [self.address("item", place, i) for i in range(count)][0]

    def _next(self) -> str:
        self.used += 1
        return memory(ctypes.addressof(self.words), 8 * (self.used - 1))

    def refresh(self, leaves: Sequence[Any]) -> bool:
        """Find all words anew, unless something changes meanwhile; true if any of them was out of date."""
        now = Reader(leaves)
        first = [(number, _NUMBERS[kind](now, *what)) for number, (kind, *what) in self.early]
        read = Reader(leaves)
        if not all(guard.holds(read) for guard in self.guards):
            return False
        objects = [_OBJECTS[kind](read, *what) for _, (kind, *what) in self.objects]
        found = [(number, _NUMBERS[kind](read, *what)) for number, (kind, *what) in self.late]
        found += [(number, id(obj)) for (number, _), obj in zip(self.objects, objects)]
        before = list(self.words)
        for number, _ in self.early:
            self.words[number] = NEVER
        old, self.kept = self.kept, objects
        for number, value in (*found, *first):
            self.words[number] = value
        old.clear()                                    # to which nothing refers any more
        return before != list(self.words)


def _address(obj: Any, offset: int) -> int:
    """A word of a table; the null pointer stands for None, as in a function without default arguments."""
    return id(obj) + offset if obj is not None else offset


# --- classes --------------------------------------------------------------------------------------

def version_of(cls: type) -> int:
    getattr(cls, "__init__", None)                       # which gives it a version, if it has none
    return layout.u32(id(cls) + layout.VERSION_TAG) or NEVER


def shared_keys(cls: type) -> int:
    """The address of the keys that the objects of a class share, or 0; it stays the same."""
    return layout.u64(id(cls) + layout.SHARED_KEYS)


def offsets_in(cls: type, names: Sequence[str]) -> dict[str, int]:
    """Offsets in the array of an object, for those attributes of which there are keys."""
    found = {n: layout.entry_of(shared_keys(cls), sys.intern(n)) for n in names}
    return {n: 8 * entry[0] for n, entry in found.items() if entry is not None}


# --- dicts ----------------------------------------------------------------------------------------

def _form(table: Any) -> int:
    """The form of a dict whose values stand beside its keys."""
    keys = layout.keys_of(table)
    return layout.form(keys) if layout.u64(id(table) + layout.DICT_VALUES) == 0 else NEVER


def _entries(table: Any, keys: Sequence[Any], exactly: bool) -> int:
    """The number of entries that the hints need, or if ``exactly`` the number of entries."""
    if exactly:
        return layout.u64(layout.keys_of(table) + layout.KEYS_COUNT)
    entries = [layout.entry_of(layout.keys_of(table), layout.key_in(table, k)) for k in keys]
    return max((e[0] + 1 for e in entries if e is not None), default=0)


def _entry(table: Any, key: Any) -> int:
    entry = layout.entry_of(layout.keys_of(table), layout.key_in(table, key))
    return entry[1] if entry is not None else layout.KEYS_HEAD


def numbers(table: Any, keys: Sequence[Any]) -> tuple[int, ...] | None:
    """The numbers of entries in a table of keys that can have a version; None if it cannot, or has not all of them."""
    if not layout.VERSIONS_KNOWN or _form(table) >> 16 != layout.UNICODE_KIND:
        return None
    found = [layout.entry_of(layout.keys_of(table), layout.key_in(table, key)) for key in keys]
    return tuple(entry[0] for entry in found if entry is not None) if None not in found else None


def _version(table: Any, keys: Sequence[Any], expected: Sequence[int]) -> int:
    """The version of a module's keys, with the form of their table, while the entries have the expected numbers."""
    layout.ask_for_version(table, keys[0])
    state = layout.u64(layout.keys_of(table) + layout.KEYS_FORM) & layout.VERSIONED_FORM
    return state if state >> 32 and numbers(table, keys) == expected else NEVER


def _dict(read: Reader, d: Any) -> Any:
    return read(d) if isinstance(d, Place) else d


_NUMBERS: dict[str, Callable[..., int]] = {
    "version": lambda read, cls: version_of(cls),
    "count": lambda read, cls: layout.u64(shared_keys(cls) + layout.KEYS_COUNT),
    "attribute": lambda read, cls, name: offsets_in(cls, [name]).get(name, NEVER),
    "form": lambda read, d: _form(_dict(read, d)),
    "keys": lambda read, d: layout.keys_of(_dict(read, d)),
    "entries": lambda read, d, keys, exactly: _entries(_dict(read, d), keys, exactly),
    "entry": lambda read, d, key: _entry(_dict(read, d), key),
    "keyed": lambda read, d, keys, expected: _version(_dict(read, d), keys, expected),
    "constant": lambda read, n: n,
}
_OBJECTS: dict[str, Callable[..., Any]] = {
    "place": lambda read, place: read(place),
    "item": lambda read, place, i: read(place)[i],
    "key": lambda read, d, key: layout.key_in(_dict(read, d), key),
    "itself": lambda read, obj: obj,
}
FACTS: dict[str, Callable[..., Any]] = {
    "offsets": offsets_in,
    "slot": layout.slot_offset,
    "class": lambda cls: (cls.__basicsize__, cls.__flags__ & (layout.HAS_INLINE_VALUES | layout.MANAGED_DICT),
                          cls.__dictoffset__),
}
