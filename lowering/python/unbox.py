"""Unboxing: reads machine values from Python objects, the first part of an entry point.

Each argument is tested (its type, and for arrays element type, rank, layout) and read from the object directly.  An
argument that does not match branches to ``miss`` before anything has been changed.  Arguments that are expensive to
convert do not match either.
"""

from __future__ import annotations

import types as types_of_objects
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Protocol

from ...frontend.columns.list_columns import Columns
from ...frontend.columns.pack import Packed
from ...frontend.trace.trace_program import Opened
from ...ir.types import Array, Scalar, Type
from ...pytree import Structure
from ..llvm import capi, types
from ..llvm.capi import function, pointer
from ..llvm.emit import Code
from .unbox_list import long_list


class LeafType(Protocol):
    """The type of a leaf of the arguments: ``weak`` scalars are Python's, others NumPy's."""

    @property
    def type(self) -> Type: ...
    @property
    def weak(self) -> bool: ...


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


class Unboxer:
    """Emits the tests and reads.

    Objects that other code may release during the call are held: ``held`` lists the entry's references, which are
    released when the results are made.  ``misses``: the targets of tests made while references are held.  ``wary``: the
    user's code may run before all arguments are read, and change a list or dict, so items are held as soon as they are
    read.
    """

    def __init__(self, code: Code, miss: str, likely: str, wary: bool = False) -> None:
        self.code, self.miss, self.likely, self.wary = code, miss, likely, wary
        self.held: list[str] = []
        self.arrays: set[str] = set()            # those for which ``keep_array`` was called
        self.rare = ""                           # metadata of a branch that is rarely taken
        self.loop_note: Callable[[], str] = str  # metadata of a loop that is not vectorised or unrolled
        self.misses: list[tuple[str, str, str]] = []     # (label, reference released there, next target)
        self.sizes: list[str] = []               # of all arrays, in elements
        self.objects: dict[int, str] = {}        # objects that are read by field, by leaf number
        self.counts: list[str] = []              # integers; with the sizes, they estimate the run time

    # --- small steps ------------------------------------------------------------------------------

    def require(self, condition: str) -> None:
        """Continues if ``condition`` holds, and branches to ``miss`` otherwise."""
        go_on = self.code.label("ok")
        self.code.branch(condition, go_on, self.miss, self.likely)
        self.code.start(go_on)

    def load(self, type: str, base: str, offset: int) -> str:
        return self.code.op(f"load {type}, ptr {self.at(base, offset)}, align {4 if type == 'i32' else 8}")

    def at(self, base: str, offset: int) -> str:
        return self.code.op(f"getelementptr inbounds i8, ptr {base}, i64 {offset}", "at") if offset else base

    def require_equal(self, type: str, x: str, y: str) -> None:
        self.require(self.code.op(f"icmp eq {type} {x}, {y}", "c"))

    def require_all(self, *comparisons: str) -> None:
        """Tests several comparisons by one branch: compile time grows with the number of blocks."""
        first, *others = [self.code.op(f"icmp {comparison}", "c") for comparison in comparisons]
        for other in others:
            first = self.code.op(f"and i1 {first}, {other}", "c")
        self.require(first)

    def require_type(self, obj: str, cls: type) -> None:
        self.require_equal("ptr", self.load("ptr", obj, capi.OB_TYPE), pointer(cls))

    # --- structures -------------------------------------------------------------------------------

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
            return long_list(self, s, obj, [c for c in columns if not isinstance(c, Opened)])
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

    def keep(self, obj: str) -> None:
        """Holds ``obj``, which is a borrowed reference."""
        self.code.do(f"call void {function('Py_IncRef')}(ptr {obj})")
        self.hold(obj)

    def keep_array(self, obj: str) -> None:
        """Holds an array by incrementing its reference count in place, without a call."""
        count = self.code.op(f"load {capi.REFCOUNT}, ptr {obj}, align 8")
        self._add_to_count(obj, count, "1")
        self.hold(obj)
        self.arrays.add(obj)

    def _add_to_count(self, obj: str, count: str, change: str) -> None:
        """Change a count of references, unless it is negative: from 3.12 on that is an immortal object's."""
        code, t = self.code, capi.REFCOUNT
        mortal = code.op(f"icmp sge {t} {count}, 0", "c")
        changed = code.op(f"add {t} {count}, {code.op(f'select i1 {mortal}, {t} {change}, {t} 0')}")
        code.do(f"store {t} {changed}, ptr {obj}, align 8")

    def hold(self, obj: str) -> None:
        """Holds ``obj``, which is an own reference: it is released after the call, or on a later miss."""
        label = self.code.label("drop")
        self.misses.append((label, obj, self.miss))
        self.held.append(obj)
        self.miss = label

    def drop_on_miss(self) -> None:
        """Emits the blocks in which misses release held references."""
        for label, obj, following in self.misses:
            self.code.start(label)
            self.code.do(f"call void {function('Py_DecRef')}(ptr {obj})")
            self.code.jump(following)

    def drop_arrays(self) -> list[str]:
        """Releases the held arrays after a successful call; returns the other held references."""
        for obj in self.held:
            if obj in self.arrays:
                count = self.code.op(f"load {capi.REFCOUNT}, ptr {obj}, align 8")
                last, others, done = self.code.label("last"), self.code.label("others"), self.code.label("dropped")
                self.code.branch(self.code.op(f"icmp eq {capi.REFCOUNT} {count}, 1", "c"), last, others, self.rare)
                self.code.start(last)
                self.code.do(f"call void {function('Py_DecRef')}(ptr {obj})")
                self.code.jump(done)
                self.code.start(others)
                self._add_to_count(obj, count, "-1")
                self.code.jump(done)
                self.code.start(done)
        return [obj for obj in self.held if obj not in self.arrays]

    # --- leaves -----------------------------------------------------------------------------------

    def leaf(self, leaf: LeafType, obj: str) -> list[str]:
        if isinstance(leaf.type, Array):
            return self.array(leaf.type, obj)
        assert isinstance(leaf.type, Scalar)
        number = self.number(leaf.type, leaf.weak, obj)
        if leaf.weak and leaf.type.is_int:
            self.counts.append(number)
        return [number]

    def number(self, t: Scalar, weak: bool, obj: str) -> str:
        self.require_type(obj, capi.scalar_type(t, weak))
        if not weak:
            return self.numpy_scalar(t, obj)
        if t.is_float:
            return self.load("double", obj, capi.FLOAT_VALUE)
        return self.code.op(f"icmp eq ptr {obj}, {pointer(True)}", "b") if t.is_bool else self.integer(obj)

    def numpy_scalar(self, t: Scalar, obj: str) -> str:
        at = self.at(obj, capi.NUMPY_SCALAR_VALUE)
        x = self.code.op(f"load {types.memory(t)}, ptr {at}, align {types.width(t)}")
        return self.code.op(f"icmp ne i8 {x}, 0", "b") if t.is_bool else x

    def integer(self, obj: str) -> str:
        """The value of a Python integer: one digit is read directly, others through the C API; too large ones miss."""
        code = self.code
        tag = self.load("i64", obj, capi.LONG_TAG)
        if capi.LONG_HAS_TAG:                    # below 16: one digit; the lowest two bits are 1 - sign
            small = code.op(f"icmp ult i64 {tag}, 16", "c")
            sign = code.op(f"sub i64 1, {code.op(f'and i64 {tag}, 3')}")
        else:
            small = code.op(f"icmp ult i64 {code.op(f'add i64 {tag}, 1')}, 3", "c")
            sign = tag
        short, long, done = code.label("short"), code.label("long"), code.label("int")
        result = code.phi("i64", done, "int")
        overflow = code.alloca("i32", align=4)
        code.branch(small, short, long, self.likely)
        code.start(short)
        digit = code.op(f"load i32, ptr {self.at(obj, capi.LONG_DIGIT)}, align 4")
        code.add_incoming(result, code.op(f"mul nsw i64 {code.op(f'zext i32 {digit} to i64')}, {sign}"))
        code.jump(done)
        code.start(long)
        value = code.op(f"call i64 {function('PyLong_AsLongLongAndOverflow')}(ptr {obj}, ptr {overflow})")
        self.require_equal("i32", code.op(f"load i32, ptr {overflow}, align 4"), "0")
        code.add_incoming(result, value)
        code.jump(done)
        code.start(done)
        return result

    def array(self, t: Array, obj: str) -> list[str]:
        """The data and sizes of a C-contiguous array with exactly this element type and rank.

        A dimension that is a literal in the type must have this size.  Any other dimension must not be 1, since the
        program was compiled on the assumption that it does not broadcast.
        """
        self.require_type(obj, capi.NDARRAY)
        flags = self.code.op(f"and i32 {self.load('i32', obj, capi.ARRAY_FLAGS)}, {capi.ARRAY_NEEDED_FLAGS}")
        self.require_all(f"eq ptr {self.load('ptr', obj, capi.ARRAY_DESCR)}, {pointer(capi.descr(t.dtype))}",
                         f"eq i32 {self.load('i32', obj, capi.ARRAY_NDIM)}, {t.rank}",
                         f"eq i32 {flags}, {capi.ARRAY_NEEDED_FLAGS}")
        dims = self.load("ptr", obj, capi.ARRAY_DIMS)
        sizes = [self.load("i64", dims, 8 * i) for i in range(t.rank)]
        self.require_all(*(f"ne i64 {size}, 1" if known is None else f"eq i64 {size}, {known}"
                           for size, known in zip(sizes, t.dims)))
        self.sizes.append(self.product(sizes))
        return [self.load("ptr", obj, capi.ARRAY_DATA), *sizes]

    def product(self, sizes: Sequence[str]) -> str:
        out = sizes[0]
        for s in sizes[1:]:
            out = self.code.op(f"mul i64 {out}, {s}")
        return out
