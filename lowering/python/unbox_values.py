"""Reads numbers and arrays from Python objects, and holds references for the time of a call.

Each object is tested (its type, and for arrays element type, rank, layout) and read directly.  An object that does not
match branches to ``miss`` before anything has been changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...ir.types import Array, Scalar, Type
from ..llvm import capi, types
from ..llvm.capi import function, pointer
from ..llvm.code import Assembly


class LeafType(Protocol):
    """The type of a leaf of the arguments: ``weak`` scalars are Python's, others NumPy's."""

    @property
    def type(self) -> Type: ...
    @property
    def weak(self) -> bool: ...


class ValueUnboxer:
    """Emits the tests and reads.

    Objects that other code may release during the call are held: ``held`` lists the entry's references, which are
    released when the results are made.  ``misses``: the targets of tests made while references are held.  ``wary``: the
    user's code may run before all arguments are read, and change a list or dict, so items are held as soon as they are
    read.
    """

    def __init__(self, code: Assembly, miss: str, likely: str, wary: bool = False) -> None:
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

    # --- references -------------------------------------------------------------------------------

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
        self.require_all(*_dimensions(t, sizes))
        return self._parts(obj, sizes)

    def arrays_together(self, kinds: Sequence[Array], objects: Sequence[str]) -> list[list[str]]:
        """Tests and reads each as ``array`` does, with fewer loads: all element types and flags in one vector."""
        self.require_all(*(f"eq ptr {self.load('ptr', obj, capi.OB_TYPE)}, {pointer(capi.NDARRAY)}" for obj in objects))
        assert capi.ARRAY_FLAGS == capi.ARRAY_DESCR + 8
        code, differing = self.code, "zeroinitializer"
        for t, obj in zip(kinds, objects):
            there = code.op(f"load <2 x i64>, ptr {self.at(obj, capi.ARRAY_DESCR)}, align 8")
            dtype = code.op(f"ptrtoint ptr {pointer(capi.descr(t.dtype))} to i64")
            flags = f"<2 x i64> <i64 0, i64 {capi.ARRAY_NEEDED_FLAGS}>"
            expected = code.op(f"insertelement {flags}, i64 {dtype}, i64 0")
            differing = code.op(f"or <2 x i64> {differing}, {code.op(f'xor <2 x i64> {there}, {expected}')}")
        differing = code.op(f"and <2 x i64> {differing}, <i64 -1, i64 {capi.ARRAY_NEEDED_FLAGS}>")
        halves = [code.op(f"extractelement <2 x i64> {differing}, i64 {i}") for i in (0, 1)]
        self.require_all(f"eq i64 {code.op(f'or i64 {halves[0]}, {halves[1]}')}, 0",
                         *(f"eq i32 {self.load('i32', obj, capi.ARRAY_NDIM)}, {t.rank}"
                           for t, obj in zip(kinds, objects)))
        tests, found = [], []
        for t, obj in zip(kinds, objects):
            dims = self.load("ptr", obj, capi.ARRAY_DIMS)
            sizes = [self.load("i64", dims, 8 * i) for i in range(t.rank)]
            tests += _dimensions(t, sizes)
            found.append(self._parts(obj, sizes))
        self.require_all(*tests)
        return found

    def _parts(self, obj: str, sizes: list[str]) -> list[str]:
        self.sizes.append(self.product(sizes))
        return [self.load("ptr", obj, capi.ARRAY_DATA), *sizes]

    def product(self, sizes: Sequence[str]) -> str:
        out = sizes[0]
        for s in sizes[1:]:
            out = self.code.op(f"mul i64 {out}, {s}")
        return out


def _dimensions(t: Array, sizes: Sequence[str]) -> list[str]:
    """The comparisons that the sizes of an array of this type satisfy."""
    return [f"ne i64 {size}, 1" if known is None else f"eq i64 {size}, {known}" for size, known in zip(sizes, t.dims)]
