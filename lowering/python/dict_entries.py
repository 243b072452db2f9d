"""Entries of a dict, in an entry point: the variables of a module, or the values of a captured dict.

An entry is where its hint says if its key is there, and if the table of keys has this form.  That is two loads and a
comparison for each entry.  CPython can vouch for all of them at once: a table of keys has a *version*, a number that no
other contents have, which is zero from a change of the keys until the interpreter asks for it.  So a module is read in
one of two ways:

* the version is the one of the hint: each entry has the number that it had when the code was written;
* otherwise a loop compares the keys.  If the numbers are still those, it notes the version that it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...frontend.captured.guards import Guard
from ...frontend.captured.places import Place, Reader
from ..llvm import cpython_layout as layout
from ..llvm.emit import Code
from .guard_tables import FEW, all_zero, entries_hold
from .hints import NEVER, Hints, count_of, finder, form_of, key_finder
from .unbox import Unboxer

PATIENCE = 4096
"""One in so many calls that compare keys goes to Python, for a version: some 20 µs, which these calls have lost."""


@dataclass
class DictEntries:
    """Emits the reading of one dict; ``table`` is the pointer to it, and ``find`` finds it again.

    ``names``: the places of the keys that are read; ``absent`` of them must not be there.  ``same``: guards of entries
    of which nothing is asked but whether they are the same object still.
    """

    unboxer: Unboxer
    hints: Hints
    table: str
    find: Callable[[Reader], Any]
    names: Mapping[Any, Place]
    absent: frozenset[Place]
    same: Mapping[Any, Guard]

    def read(self, module: dict[str, Any] | None) -> dict[Place, str]:
        """The pointers to the values; ``module``: the dict itself if it is a constant."""
        u = self.unboxer
        present = {key: p for key, p in self.names.items() if p not in self.absent}
        keys = u.load("ptr", self.table, layout.DICT_KEYS)
        in_table = self.same if len(self.same) > FEW else {}
        if in_table:
            self._form(keys, present)
            entries_hold(u, keys, self._rows(in_table), len(in_table))
        read = {key: p for key, p in present.items() if key not in in_table}
        numbers = _numbers(module, read) if module is not None and len(read) > FEW and not in_table else None
        if module is not None and numbers is not None:
            return dict(zip(read.values(), self._by_version(keys, module, list(read), numbers, present)))
        if not in_table:
            self._form(keys, present)
        return dict(zip(read.values(), self._by_keys(keys, list(read))))

    def _form(self, keys: str, present: Mapping[Any, Place]) -> None:
        """The entries are where the hints say.  Names that were absent still are if none was added."""
        u, code, find = self.unboxer, self.unboxer.code, self.find
        form = code.op(f"and i32 {u.load('i32', keys, layout.KEYS_FORM)}, {layout.FORM_MASK}")
        count = u.load("i64", keys, layout.KEYS_COUNT)
        anything_new = len(present) < len(self.names)
        least = self._load(self.hints.word(
            lambda read: count_of(find(read), list(present), anything_new), anything_new))
        tests = [f"eq i64 {code.op(f'zext i32 {form} to i64')}, "
                 f"{self._load(self.hints.word(lambda read: form_of(find(read)), True))}",
                 f"{'eq' if anything_new else 'uge'} i64 {count}, {least}"]
        if anything_new:
            at = self._load(self.hints.word(lambda read: layout.keys_of(find(read)), True))
            tests.append(f"eq i64 {code.op(f'ptrtoint ptr {keys} to i64')}, {at}")
        u.require_all(*tests)

    def _load(self, word: str) -> str:
        return self.unboxer.code.op(f"load i64, ptr {word}, align 8", "hint")

    def _by_keys(self, keys: str, names: Sequence[Any]) -> list[str]:
        """The values, each behind its key."""
        u, code, tests, found = self.unboxer, self.unboxer.code, [], []
        for key in names:
            offset = self._load(self.hints.word(finder(self.find, key)))
            entry = code.op(f"getelementptr inbounds i8, ptr {keys}, i64 {offset}", "entry")
            expected = code.op(f"inttoptr i64 {self._load(self.hints.address(key_finder(self.find, key)))} to ptr")
            tests.append(f"eq ptr {u.load('ptr', entry, 0)}, {expected}")
            found.append(u.load("ptr", entry, 8))
        if tests:
            u.require_all(*tests)
        return found

    def _rows(self, same: Mapping[Any, Guard]) -> str:
        """A table for ``entries_hold``; its address."""
        first = ""
        for key, g in same.items():
            offset = self.hints.word(finder(self.find, key))
            self.hints.address(key_finder(self.find, key))
            self.hints.word(lambda read, g=g: id(g.expected))                              # type: ignore[misc]
            first = first or offset
        return first

    # --- versions ---------------------------------------------------------------------------------

    def _by_version(self, keys: str, module: dict[str, Any], names: Sequence[Any], numbers: Sequence[int],
                    present: Mapping[Any, Place]) -> list[str]:
        """The values of a module: the entries ``numbers`` if the version of its keys is known, or by their keys."""
        u, code = self.unboxer, self.unboxer.code
        version = self.hints.word(lambda read: _version(module, names, numbers), True)
        state = code.op(f"and i64 {u.load('i64', keys, layout.KEYS_FORM)}, {layout.VERSIONED_FORM}")
        known, other, done = code.label("version"), code.label("keys"), code.label("entries")
        values = [code.phi("ptr", done, "value") for _ in names]
        code.branch(code.op(f"icmp eq i64 {state}, {self._load(version)}", "c"), known, other, u.likely)
        code.start(known)
        bits = code.op(f"and i64 {code.op(f'lshr i64 {state}, 8')}, 255")
        indices = code.op(f"shl nuw nsw i64 1, {bits}")
        entries = code.op(f"getelementptr inbounds i8, ptr {keys}, i64 {indices}", "entry")
        for value, number in zip(values, numbers):
            code.add_incoming(value, u.load("ptr", entries, layout.KEYS_HEAD + 16 * number + 8))
        code.jump(done)
        code.start(other)
        self._form(keys, present)
        rows = self._keys_and_values(keys, names)
        self._note(version, state, self._load(self.hints.word(lambda read: _numbers(module, names) == numbers, True)))
        for i, value in enumerate(values):
            code.add_incoming(value, u.load("ptr", rows, 8 * i))
        code.jump(done)
        code.start(done)
        return values

    def _keys_and_values(self, keys: str, names: Sequence[Any]) -> str:
        """Compares the keys in a loop; the address of the values, which it copies."""
        u, first = self.unboxer, ""
        for key in names:
            offset = self.hints.word(finder(self.find, key))
            self.hints.address(key_finder(self.find, key))
            first = first or offset
        copies = u.code.alloca(f"[{len(names)} x ptr]")

        def difference(code: Code, number: str, row: str) -> str:
            entry = code.op(f"getelementptr inbounds i8, ptr {keys}, i64 {code.op(f'load i64, ptr {row}, align 8')}")
            copy = code.op(f"getelementptr inbounds ptr, ptr {copies}, i64 {number}")
            code.do(f"store ptr {u.load('ptr', entry, 8)}, ptr {copy}, align 8")
            return code.op(f"xor i64 {u.load('i64', entry, 0)}, {u.load('i64', row, 8)}")
        all_zero(u, first, 16, len(names), difference)
        return copies

    def _note(self, version: str, state: str, unmoved: str) -> None:
        """Stores the version if there is one, and if the entries have the numbers that stand in the code.

        One call of ``PATIENCE`` goes to Python instead, which asks for a version.
        """
        u, code = self.unboxer, self.unboxer.code
        some = code.op(f"icmp ugt i64 {state}, {0xFFFFFFFF}", "c")
        right = code.op(f"icmp eq i64 {unmoved}, 1", "c")
        known = code.op(f"select i1 {code.op(f'and i1 {some}, {right}')}, i64 {state}, i64 {NEVER}")
        code.do(f"store i64 {known}, ptr {version}, align 8")
        waited = self.hints.constants([0])
        count = code.op(f"add i64 {self._load(waited)}, 1")
        patient = code.op(f"icmp ult i64 {count}, {PATIENCE}", "c")
        code.do(f"store i64 {code.op(f'select i1 {patient}, i64 {count}, i64 0')}, ptr {waited}, align 8")
        u.require(patient)


def _numbers(module: dict[str, Any], names: Iterable[Any]) -> list[int] | None:
    """The numbers of entries in a table of keys that can have a version; None if it cannot, or has not all of them."""
    if not layout.VERSIONS_KNOWN or form_of(module) >> 16 != layout.UNICODE_KIND:
        return None
    found = [layout.entry_of(layout.keys_of(module), layout.key_in(module, key)) for key in names]
    numbers = [entry[0] for entry in found if entry is not None]
    return numbers if len(numbers) == len(found) else None


def _version(module: dict[str, Any], names: Sequence[Any], numbers: Sequence[int]) -> int:
    """The version of the keys of a module, with the form of its table, while its entries have these numbers."""
    layout.ask_for_version(module, names[0])
    state = layout.u64(layout.keys_of(module) + layout.KEYS_FORM) & layout.VERSIONED_FORM
    return state if state >> 32 and _numbers(module, names) == numbers else NEVER
