"""Unboxing: reads machine values from Python objects, the first part of an entry point.

Each argument is tested (its type, and for arrays element type, rank, layout) and read from the object directly.  An
argument that does not match branches to ``miss`` before anything has been changed.  Arguments that are expensive to
convert do not match either.
"""

from __future__ import annotations

import types as types_of_objects
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from ...frontend.captured.leaves import Opened
from ...frontend.columns.list_columns import Columns
from ...frontend.columns.pack import Packed
from ...ir.types import Array
from ...pytree import Structure
from ..llvm import capi
from ..llvm.capi import function, pointer
from .unbox_list import long_list
from .unbox_values import LeafType, ValueUnboxer


@dataclass(frozen=True, eq=False)
class Argument:
    """The source and the contents of one argument.

    ``index``: its position in the call, or None for ``value`` itself (a default, a captured array).  ``structure`` is
    None for a static argument, which must be identical to ``value``.
    """

    index: int | None
    structure: Structure | None
    leaves: tuple[LeafType | Opened, ...] = ()
    value: Any = None


def readable(s: Structure) -> bool:
    """True if machine code can read a structure.  Python flattens other containers."""
    if s.type is Columns:
        return not s.static.counts and not any(c.array for c in s.static.cells) and _walked(s.static.element)
    known = s.is_leaf or s.type in (tuple, list, dict, str, type(None), Packed) or is_namedtuple(s) or is_record(s)
    return known and all(readable(c) for c in s.children)


def _walked(s: Structure) -> bool:
    """True if an element of a long list consists only of numbers in tuples and lists."""
    return s.is_leaf or (s.type in (tuple, list) or is_namedtuple(s)) and all(map(_walked, s.children))


def is_namedtuple(s: Structure) -> bool:
    return isinstance(s.type, type) and issubclass(s.type, tuple) and s.type is not tuple and s.static is not None


def is_record(s: Structure) -> bool:
    """True for a dataclass whose instances are plain objects."""
    t = s.type
    return (isinstance(t, type) and is_dataclass(t) and t.__new__ is object.__new__
            and t.__getattribute__ is object.__getattribute__)


_INERT = frozenset((str, int, bool, float, bytes, type(None)))


def runs_python(s: Structure) -> bool:
    """True if reading a structure may run the user's code: a key's ``__eq__``, a property, a descriptor."""
    if s.type is dict and any(type(key) not in _INERT for key in s.static):
        return True
    if is_record(s) and s.type is not None:
        names = {*s.static, "__getattr__"}
        if any(name in names and hasattr(type(found), "__get__") and type(found) not in _PLAIN_DESCRIPTORS
               for c in s.type.__mro__ for name, found in vars(c).items()):
            return True
    return any(map(runs_python, s.children))


_PLAIN_DESCRIPTORS = (types_of_objects.MemberDescriptorType, types_of_objects.GetSetDescriptorType)


class Unboxer(ValueUnboxer):
    """Reads the structures of the arguments: tuples, lists, dicts, NamedTuples, dataclasses."""

    def argument(self, a: Argument, obj: str) -> list[str]:
        """The parts (see ``types.parts_of``) of all leaves of an argument."""
        if a.structure is None:
            self.require_equal("ptr", obj, pointer(a.value))
            return []
        return self.tree(a.structure, obj, iter(a.leaves), a.index is None)

    def tree(self, s: Structure, obj: str, leaves: Iterator[LeafType | Opened], shared: bool) -> list[str]:
        """The parts of all leaves; ``shared``: only a list or dict, which may change, keeps ``obj`` alive."""
        if s.is_leaf:
            leaf = next(leaves)
            if isinstance(leaf, Opened):
                self.require_type(obj, leaf.cls)
                self.objects[leaf.number] = obj
                return []
            parts = self.leaf(leaf, obj)
            if shared and isinstance(leaf.type, Array):
                self.keep(obj)
            return parts
        if s.type is Columns:
            columns = [next(leaves) for _ in s.children]
            return long_list(self, self.children, s, obj, [c for c in columns if not isinstance(c, Opened)])
        children = self.children(s, obj)
        changes = s.type in (list, dict)
        if self.wary and changes:
            for child in children if s.type is list else ():
                self.keep(child)
            shared = False
        else:                                            # the owner of a tuple keeps it and its items alive
            shared = changes or shared and isinstance(s.type, type) and issubclass(s.type, tuple)
        return [part for c, child in zip(s.children, children) for part in self.tree(c, child, leaves, shared)]

    def children(self, s: Structure, obj: str) -> Sequence[str]:
        n = len(s.children)
        if s.type is type(None):
            self.require_equal("ptr", obj, pointer(None))
            return ()
        if s.type is str and type(s.static) is not str:          # a member of an enumeration
            self.require_equal("ptr", obj, pointer(s.static))
            return ()
        assert s.type is not None
        self.require_type(obj, s.type)
        if s.type is str:
            same = self.code.op(f"call i32 {function('PyUnicode_Compare')}(ptr {obj}, ptr {pointer(s.static)})")
            self.require_equal("i32", same, "0")
            return ()
        if s.type is Packed:
            return self.columns(s, obj)
        if s.type is dict:
            return self.dict_items(s, obj)
        if is_record(s):
            return [self.attribute(obj, name) for name in s.static]
        self.require_equal("i64", self.load("i64", obj, capi.VAR_SIZE), str(n))
        items = self.load("ptr", obj, capi.LIST_ITEMS) if s.type is list else self.at(obj, capi.TUPLE_ITEMS)
        return [self.load("ptr", items, 8 * i) for i in range(n)]

    def columns(self, s: Structure, obj: str) -> Sequence[str]:
        """The leaves of a packed value with this layout; each layout has one object."""
        self.require_equal("ptr", self.attribute(obj, "_root"), pointer(s.static))
        items = self.at(self.attribute(obj, "_leaves"), capi.TUPLE_ITEMS)
        return [self.load("ptr", items, 8 * i) for i in range(len(s.children))]

    def dict_items(self, s: Structure, obj: str) -> Sequence[str]:
        """The values of a dict with these keys in this order, which the program can see."""
        code = self.code
        size = code.op(f"call i64 {function('PyDict_Size')}(ptr {obj})")
        self.require_equal("i64", size, str(len(s.children)))
        at, key, value = code.alloca("i64"), code.alloca("ptr"), code.alloca("ptr")
        code.do(f"store i64 0, ptr {at}, align 8")
        found = []
        for expected in s.static:
            code.op(f"call i32 {function('PyDict_Next')}(ptr {obj}, ptr {at}, ptr {key}, ptr {value})")
            self.require_key(self.load("ptr", key, 0), expected)
            item = self.load("ptr", value, 0)
            if self.wary:
                self.keep(item)
            found.append(item)
        return found

    def require_key(self, key: str, expected: Any) -> None:
        """Tests a key: strings by their text, other keys by identity, since equal ones may be different objects."""
        if type(expected) is not str:
            self.require_equal("ptr", key, pointer(expected))
            return
        compare, done = self.code.label("compare"), self.code.label("key")
        self.code.branch(self.code.op(f"icmp eq ptr {key}, {pointer(expected)}", "c"), done, compare, self.likely)
        self.code.start(compare)
        self.require_type(key, str)
        same = self.code.op(f"call i32 {function('PyUnicode_Compare')}(ptr {key}, ptr {pointer(expected)})")
        self.require_equal("i32", same, "0")
        self.code.jump(done)
        self.code.start(done)

    def attribute(self, obj: str, name: str) -> str:
        """An attribute, as an own reference since the class may compute it; a miss if it is absent."""
        value = self.code.op(f"call ptr {function('PyObject_GetAttr')}(ptr {obj}, ptr {pointer(name)})")
        have, lack = self.code.label("have"), self.code.label("lack")
        self.code.branch(self.code.op(f"icmp ne ptr {value}, null", "c"), have, lack, self.likely)
        self.code.start(lack)
        self.code.do(f"call void {function('PyErr_Clear')}()")
        self.code.jump(self.miss)
        self.code.start(have)
        self.hold(value)
        return value
