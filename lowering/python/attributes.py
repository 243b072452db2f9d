"""Attributes of objects, in an entry point: from slots, from the array that an object has of them, or from its dict."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass

from ..llvm import cpython_layout as layout
from ..llvm.capi import function, immortal, pointer
from .hints import NEVER, Hints, Unreadable, shared_keys
from .unbox import Unboxer


@dataclass
class Attributes:
    """Emits the reading."""

    unboxer: Unboxer
    hints: Hints

    def read(self, obj: str, cls: type, names: Sequence[str], absent: Sequence[str]) -> dict[str, str]:
        """The attributes that an object itself has, tested to be there, or null for the ``absent`` ones."""
        u = self.unboxer
        slots = {n: d for n in names if (d := _slot(cls, n)) is not None}
        if slots and not layout.SLOTS_KNOWN:
            raise Unreadable
        found = {n: u.load("ptr", obj, self.hints.fact("slot", *d)) for n, d in slots.items()}
        rest = [n for n in names if n not in slots]
        if rest:
            self.hints.fact("class", cls)
        if rest and (cls.__dictoffset__ != 0 or not set(rest) <= set(absent)):
            found |= self._apart_from_slots(obj, cls, rest, absent)
        tests = [f"{'eq' if n in absent else 'ne'} ptr {found[n]}, null" for n in names if n in found]
        if tests:
            u.require_all(*tests)
        return found

    def _apart_from_slots(self, obj: str, cls: type, names: Sequence[str], absent: Sequence[str]) -> dict[str, str]:
        """Attributes in the array of an object or in its dict; null where there is none."""
        if not layout.ATTRIBUTES or not cls.__flags__ & layout.MANAGED_DICT or shared_keys(cls) == 0:
            raise Unreadable
        code, at = self.unboxer.code, self.hints.fact("offsets", cls, tuple(names))
        if any(n in absent and n not in at for n in names):
            self._no_new_keys(cls)
        done = code.label("attributes")
        phis = {n: code.phi("ptr", done, "attribute") for n in names}
        if layout.ATTRIBUTES != "inline" or cls.__flags__ & layout.HAS_INLINE_VALUES:
            is_used, values = self._array(obj, cls)
            plain, other = code.label("values"), code.label("dict")
            code.branch(is_used, plain, other, self.unboxer.likely)
            code.start(plain)
            for n in names:
                value = self.unboxer.load("ptr", values, at[n]) if n in at else self._later(values, cls, n)
                code.add_incoming(phis[n], value)
            code.jump(done)
            code.start(other)
        self._from_dict(obj, phis, done)
        code.start(done)
        return phis

    def _no_new_keys(self, cls: type) -> None:
        """Test that no object of the class has been given an attribute that none had had."""
        keys = self.unboxer.load("ptr", pointer(cls), layout.SHARED_KEYS)
        count = self.unboxer.load("i64", keys, layout.KEYS_COUNT)
        known = self.hints.word("count", cls, early=True)
        self.unboxer.require_equal("i64", count, self._load(known))

    def _from_dict(self, obj: str, phis: dict[str, str], done: str) -> None:
        """The attributes of an object that has a dict, or none at all."""
        u, code, filled = self.unboxer, self.unboxer.code, self.unboxer.code.label("filled")
        table = u.load("ptr", obj, layout.OBJECT_DICT)
        for phi in phis.values():
            code.add_incoming(phi, "null")
        code.branch(code.op(f"icmp ne ptr {table}, null", "c"), filled, done, u.likely)
        code.start(filled)
        for name, phi in phis.items():
            key = pointer(immortal(sys.intern(name)))
            code.add_incoming(phi, code.op(f"call ptr {function('PyDict_GetItem')}(ptr {table}, ptr {key})"))
        code.jump(done)

    def _array(self, obj: str, cls: type) -> tuple[str, str]:
        """The condition that an object has its attributes in an array, and that array."""
        u, code = self.unboxer, self.unboxer.code
        if layout.ATTRIBUTES == "apart":
            values = u.load("ptr", obj, layout.OBJECT_VALUES)
            return code.op(f"icmp ne ptr {values}, null", "c"), values
        if layout.ATTRIBUTES == "tagged":
            word = u.load("ptr", obj, layout.OBJECT_DICT)
            tag = code.op(f"trunc i64 {code.op(f'ptrtoint ptr {word} to i64')} to i1", "c")
            return tag, u.at(word, 1)
        valid = code.op(f"load i8, ptr {u.at(obj, cls.__basicsize__ + layout.INLINE_VALID)}")
        return code.op(f"icmp ne i8 {valid}, 0", "c"), u.at(obj, cls.__basicsize__ + layout.INLINE_VALUES)

    def _later(self, values: str, cls: type, name: str) -> str:
        """An attribute for which there was no key when the entry was made: a hint says where it is now."""
        code = self.unboxer.code
        hint = self._load(self.hints.word("attribute", cls, name))
        known = code.op(f"icmp ne i64 {hint}, {NEVER}", "c")
        offset = code.op(f"select i1 {known}, i64 {hint}, i64 0")
        value = code.op(f"getelementptr inbounds i8, ptr {values}, i64 {offset}", "at")
        return code.op(f"select i1 {known}, ptr {self.unboxer.load('ptr', value, 0)}, ptr null")

    def _load(self, word: str) -> str:
        return self.unboxer.code.op(f"load i64, ptr {word}, align 8", "hint")


def _slot(cls: type, name: str) -> tuple[type, str] | None:
    """The class whose slot an attribute is in."""
    for c in cls.__mro__:
        if name in vars(c):
            return (c, name) if type(vars(c)[name]) is types.MemberDescriptorType else None
    return None
