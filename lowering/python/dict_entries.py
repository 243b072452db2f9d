"""Entries of a dict, in an entry point: the variables of a module, or the values of a captured dict.

An entry is where its hint says if its key is there, and if the table of keys has this form.  That is two loads and a
comparison for each entry.  CPython can vouch for all of them at once: a table of keys has a *version*, a number that no
other contents have, which is zero from a change of the keys until the interpreter asks for it.  So a module is read in
one of two ways:

* the version is the one of the hint: each entry has the number that it had when the code was written;
* otherwise a loop compares the keys.  If the numbers are still those, it notes the version that it found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...frontend.captured.guards import Guard
from ...frontend.captured.places import Place
from ..llvm import cpython_layout as layout
from ..llvm.code import Assembly
from .guard_tables import FEW, all_zero, entries_hold
from .hints import NEVER, Hints, numbers
from .unbox import Unboxer

PATIENCE = 4096
"""One in so many calls that compare keys goes to Python, for a version: some 20 µs, which these calls have lost."""


@dataclass
class DictEntries:
    """Emits the reading of one dict; ``table`` is the pointer to it, ``where`` the dict itself or its place.

    ``names``: the places of the keys that are read; ``absent`` of them must not be there.  ``same``: guards of entries
    of which nothing is asked but whether they are the same object still.
    """

    unboxer: Unboxer
    hints: Hints
    table: str
    where: Any
    names: Mapping[Any, Place]
    absent: frozenset[Place]
    same: Mapping[Any, Guard]

    def read(self) -> dict[Place, str]:
        """The pointers to the values."""
        u = self.unboxer
        present = {key: p for key, p in self.names.items() if p not in self.absent}
        keys = u.load("ptr", self.table, layout.DICT_KEYS)
        in_table = self.same if len(self.same) > FEW else {}
        read = {key: p for key, p in present.items() if key not in in_table}
        known = numbers(self.where, list(read)) if type(self.where) is dict and len(read) > FEW else None
        if known is not None and not in_table:
            return dict(zip(read.values(), self._by_version(keys, list(read), known, list(present))))
        self._form(keys, list(present))
        if in_table:
            entries_hold(u, keys, self._rows(in_table), len(in_table))
        return dict(zip(read.values(), self._by_keys(keys, list(read))))

    def _form(self, keys: str, present: Sequence[Any]) -> None:
        """The entries are where the hints say.  Names that were absent still are if none was added."""
        u, code, where = self.unboxer, self.unboxer.code, self.where
        form = code.op(f"and i32 {u.load('i32', keys, layout.KEYS_FORM)}, {layout.FORM_MASK}")
        count = u.load("i64", keys, layout.KEYS_COUNT)
        anything_new = len(present) < len(self.names)
        least = self._load(self.hints.word("entries", where, present, anything_new, early=anything_new))
        tests = [f"eq i64 {code.op(f'zext i32 {form} to i64')}, "
                 f"{self._load(self.hints.word('form', where, early=True))}",
                 f"{'eq' if anything_new else 'uge'} i64 {count}, {least}"]
        if anything_new:
            at = self._load(self.hints.word("keys", where, early=True))
            tests.append(f"eq i64 {code.op(f'ptrtoint ptr {keys} to i64')}, {at}")
        u.require_all(*tests)

    def _load(self, word: str) -> str:
        return self.unboxer.code.op(f"load i64, ptr {word}, align 8", "hint")

    def _by_keys(self, keys: str, names: Sequence[Any]) -> list[str]:
        """The values, each behind its key."""
        u, code, tests, found = self.unboxer, self.unboxer.code, [], []
        for key in names:
            offset = self._load(self.hints.word("entry", self.where, key))
            entry = code.op(f"getelementptr inbounds i8, ptr {keys}, i64 {offset}", "entry")
            word = self._load(self.hints.address("key", self.where, key))
            expected = code.op(f"inttoptr i64 {word} to ptr")
            tests.append(f"eq ptr {u.load('ptr', entry, 0)}, {expected}")
            found.append(u.load("ptr", entry, 8))
        if tests:
            u.require_all(*tests)
        return found

    def _rows(self, same: Mapping[Any, Guard]) -> str:
        """A table for ``entries_hold``; its address."""
        first = ""
        for key, g in same.items():
            offset = self.hints.word("entry", self.where, key)
            self.hints.address("key", self.where, key)
            self.hints.address("itself", g.expected)
            first = first or offset
        return first

    # --- versions ---------------------------------------------------------------------------------

    def _by_version(self, keys: str, names: Sequence[Any], known: Sequence[int], present: Sequence[Any]) -> list[str]:
        """The values of a module: the entries with the ``known`` numbers if the version is, or those with the keys."""
        u, code = self.unboxer, self.unboxer.code
        version = self.hints.word("keyed", self.where, names, known, early=True)
        state = code.op(f"and i64 {u.load('i64', keys, layout.KEYS_FORM)}, {layout.VERSIONED_FORM}")
        bits = code.op(f"and i64 {code.op(f'lshr i64 {state}, 8')}, 255")
        indices = code.op(f"shl nuw nsw i64 1, {bits}")
        plain, other, done = code.label("version"), code.label("keys"), code.label("entries")
        values = [code.phi("ptr", done, "value") for _ in names]
        code.branch(code.op(f"icmp eq i64 {state}, {self._load(version)}", "c"), plain, other, u.likely)
        code.start(plain)
        entries = code.op(f"getelementptr inbounds i8, ptr {keys}, i64 {indices}", "entry")
        for value, number in zip(values, known):
            code.add_incoming(value, u.load("ptr", entries, _behind_indices(number) + 8))
        code.jump(done)
        code.start(other)
        self._form(keys, present)
        rows, moved = self._keys_and_values(keys, indices, names, known)
        self._note(version, state, moved)
        for i, value in enumerate(values):
            code.add_incoming(value, u.load("ptr", rows, 8 * i))
        code.jump(done)
        code.start(done)
        return values

    def _keys_and_values(self, keys: str, indices: str, names: Sequence[Any], known: Sequence[int]) -> tuple[str, str]:
        """Compares the keys in a loop.

        Returns the address of the values, which it copies, and a number that is zero if the entries have the ``known``
        numbers.
        """
        u, first = self.unboxer, ""
        for key, number in zip(names, known):
            offset = self.hints.word("entry", self.where, key)
            self.hints.address("key", self.where, key)
            self.hints.word("constant", _behind_indices(number))
            first = first or offset
        copies, moved = u.code.alloca(f"[{len(names)} x ptr]"), u.code.alloca("i64")
        u.code.do(f"store i64 0, ptr {moved}, align 8")

        def difference(code: Assembly, number: str, row: str) -> str:
            offset = code.op(f"load i64, ptr {row}, align 8")
            entry = code.op(f"getelementptr inbounds i8, ptr {keys}, i64 {offset}", "entry")
            copy = code.op(f"getelementptr inbounds ptr, ptr {copies}, i64 {number}")
            code.do(f"store ptr {u.load('ptr', entry, 8)}, ptr {copy}, align 8")
            expected = code.op(f"add i64 {u.load('i64', row, 16)}, {indices}")
            before = code.op(f"load i64, ptr {moved}, align 8")
            after = code.op(f"or i64 {before}, {code.op(f'xor i64 {offset}, {expected}')}")
            code.do(f"store i64 {after}, ptr {moved}, align 8")
            return code.op(f"xor i64 {u.load('i64', entry, 0)}, {u.load('i64', row, 8)}")
        all_zero(u, first, 24, len(names), difference)
        return copies, u.load("i64", moved, 0)

    def _note(self, version: str, state: str, moved: str) -> None:
        """Stores the version if there is one, and if the entries have the numbers that stand in the code.

        One call of ``PATIENCE`` goes to Python instead, which asks for a version.
        """
        u, code = self.unboxer, self.unboxer.code
        some = code.op(f"icmp ugt i64 {state}, {0xFFFFFFFF}", "c")
        right = code.op(f"icmp eq i64 {moved}, 0", "c")
        known = code.op(f"select i1 {code.op(f'and i1 {some}, {right}')}, i64 {state}, i64 {NEVER}")
        code.do(f"store i64 {known}, ptr {version}, align 8")
        waited = self.hints.constants([(None, 0)])
        count = code.op(f"add i64 {self._load(waited)}, 1")
        patient = code.op(f"icmp ult i64 {count}, {PATIENCE}", "c")
        code.do(f"store i64 {code.op(f'select i1 {patient}, i64 {count}, i64 0')}, ptr {waited}, align 8")
        u.require(patient)


def _behind_indices(number: int) -> int:
    """The offset of an entry in a table of keys without indices, whose size is added."""
    return layout.KEYS_HEAD + 16 * number
