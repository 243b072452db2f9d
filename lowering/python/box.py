"""Boxing: makes Python objects of machine values, the last part of an entry point.

Containers are made first and filled from the outside in.  Thus one object, ``root``, owns all objects made so far at
any moment.  If an allocation fails, it is enough to release ``root``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...frontend.columns.list_columns import Columns
from ...ir.types import Scalar, Type
from ...pytree import Structure
from ..llvm import capi, types
from ..llvm.capi import function, pointer
from ..llvm.code import Assembly
from ..llvm.emit import Writer
from ..llvm.types import Buffer, Lowered
from ..memory import result_buffers
from .unbox import is_namedtuple, is_record

Put = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Computed:
    """A leaf that the program computes."""

    value: Lowered
    type: Type


@dataclass(frozen=True, eq=False)
class Fixed:
    """A leaf that is the same object in every call, such as a function."""

    value: Any


Leaf = Computed | Fixed


def buildable(s: Structure) -> bool:
    """True if machine code can build a result of this structure.  Python builds others from a flat tuple."""
    if s.type is Columns:
        return not s.static.counts and not any(c.array for c in s.static.cells) and buildable(s.static.element)
    known = s.is_leaf or s.type in (tuple, list, dict, str, type(None)) or is_namedtuple(s) or is_record(s)
    return known and all(buildable(c) for c in s.children)


class Boxer:
    """Emits the code that makes results; allocation failures branch to the label ``fail``.

    ``context`` is the context whose blocks arrays may be in, or ``""`` if they cannot be in blocks.
    """

    def __init__(self, writer: Writer, code: Assembly, fail: str, likely: str) -> None:
        self.writer, self.code, self.fail, self.likely = writer, code, fail, likely
        self.context = ""
        self.root = "null"
        self.failures: list[tuple[str, str]] = []    # (block, its root), for the phi at ``fail``

    def result(self, s: Structure, leaves: Sequence[Leaf]) -> str:
        """A new reference to the object with structure ``s`` and these leaves."""
        made: list[str] = []
        self.node(s, iter(leaves), made.append)
        return made[0]

    def flat(self, leaves: Sequence[Leaf]) -> str:
        """A new tuple of all leaves."""
        whole = self.container("PyTuple_New", len(leaves), lambda obj: None)
        for i, leaf in enumerate(leaves):
            self.store(self.leaf(leaf), whole, capi.TUPLE_ITEMS + 8 * i)
        return whole

    # --- structures -------------------------------------------------------------------------------

    def node(self, s: Structure, leaves: Iterator[Leaf], put: Put) -> None:
        """Makes the object for ``s`` and passes it to ``put``, which stores it in its owner, before it is filled."""
        if s.is_leaf:
            put(self.leaf(next(leaves)))
        elif s.type is type(None) or s.type is str:
            put(self.shared(s.static))
        elif s.type is dict:
            self.dict(s, leaves, put)
        elif s.type is Columns:
            self.long_list(s, leaves, put)
        elif is_record(s):
            self.record(s, leaves, put)
        else:
            self.sequence(s, leaves, put)

    def sequence(self, s: Structure, leaves: Iterator[Leaf], put: Put) -> None:
        n = len(s.children)
        if is_namedtuple(s):
            whole = self.instance(s, n, put)
        else:
            whole = self.container("PyList_New" if s.type is list else "PyTuple_New", n, put)
        base, offset = whole, capi.TUPLE_ITEMS
        if s.type is list and n:
            base, offset = self.code.op(f"load ptr, ptr {self.at(whole, capi.LIST_ITEMS)}, align 8"), 0
        for i, child in enumerate(s.children):
            self.node(child, leaves, lambda obj, i=i: self.store(obj, base, offset + 8 * i))  # type: ignore[misc]

    def long_list(self, s: Structure, leaves: Iterator[Leaf], put: Put) -> None:
        """Makes a list from columns, which are arrays."""
        code, kind = self.code, s.static
        columns = [leaf.value for leaf in (next(leaves) for _ in s.children)]
        assert all(isinstance(c, Buffer) for c in columns)
        n = columns[0].sizes[0]                               # type: ignore[union-attr]
        whole = self.container("PyList_New", n, put)
        items = code.op(f"load ptr, ptr {self.at(whole, capi.LIST_ITEMS)}, align 8")
        head, body, done = code.label("element"), code.label("make"), code.label("list")
        i = code.phi("i64", head, "i")
        code.add_incoming(i, "0")
        code.jump(head)
        code.start(head)
        code.branch(code.op(f"icmp slt i64 {i}, {n}", "c"), body, done)
        code.start(body)
        row = [Computed(self.element(c.ptr, i, cell.dtype), cell.dtype)             # type: ignore[union-attr]
               for c, cell in zip(columns, kind.cells)]
        at = code.op(f"getelementptr inbounds ptr, ptr {items}, i64 {i}", "at")
        self.node(kind.element, iter(row), lambda obj: code.do(f"store ptr {obj}, ptr {at}, align 8"))
        code.add_incoming(i, code.op(f"add nuw nsw i64 {i}, 1"))
        code.jump(head)
        code.start(done)

    def element(self, column: str, i: str, t: Scalar) -> str:
        at = self.code.op(f"getelementptr inbounds {types.memory(t)}, ptr {column}, i64 {i}", "at")
        x = self.code.op(f"load {types.memory(t)}, ptr {at}, align {types.width(t)}")
        return self.code.op(f"icmp ne i8 {x}, 0", "b") if t.is_bool else x

    def dict(self, s: Structure, leaves: Iterator[Leaf], put: Put) -> None:
        whole = self.checked(f"call ptr {function('PyDict_New')}()")
        self.own(whole, put)
        for key, child in zip(s.static, s.children):
            self.node(child, leaves, lambda obj, key=key: self.insert(whole, key, obj))  # type: ignore[misc]

    def record(self, s: Structure, leaves: Iterator[Leaf], put: Put) -> None:
        """Makes a dataclass instance without calling ``__init__``, which may check or convert its arguments."""
        whole = self.instance(s, 0, put)
        setter = "PyObject_GenericSetAttr"
        for name, child in zip(s.static, s.children):
            self.node(child, leaves, lambda obj, name=name: self.insert(whole, name, obj, setter))  # type: ignore[misc]

    def instance(self, s: Structure, n: int, put: Put) -> str:
        """An empty instance of a class, with space for ``n`` items."""
        whole = self.checked(f"call ptr {function('PyType_GenericAlloc')}(ptr {pointer(s.type)}, i64 {n})")
        self.own(whole, put)
        return whole

    def insert(self, whole: str, key: object, obj: str, setter: str = "PyDict_SetItem") -> None:
        """Puts ``obj`` into a dict or an attribute, which takes a reference of its own."""
        status = self.code.op(f"call i32 {function(setter)}(ptr {whole}, ptr {pointer(key)}, ptr {obj})")
        self.code.do(f"call void {function('Py_DecRef')}(ptr {obj})")
        self.require(self.code.op(f"icmp eq i32 {status}, 0", "c"))

    def container(self, maker: str, n: int | str, put: Put) -> str:
        whole = self.checked(f"call ptr {function(maker)}(i64 {n})")
        self.own(whole, put)
        return whole

    def own(self, whole: str, put: Put) -> None:
        put(whole)
        if self.root == "null":
            self.root = whole

    def store(self, obj: str, base: str, offset: int) -> None:
        self.code.do(f"store ptr {obj}, ptr {self.at(base, offset)}, align 8")

    def at(self, base: str, offset: int) -> str:
        return self.code.op(f"getelementptr inbounds i8, ptr {base}, i64 {offset}", "at") if offset else base

    # --- leaves -----------------------------------------------------------------------------------

    def leaf(self, leaf: Leaf) -> str:
        """A new reference to the leaf's object.

        Python's float, int or bool; NumPy's scalar for other dtypes; an array; or the fixed object.
        """
        if isinstance(leaf, Fixed):
            return self.shared(leaf.value)
        value, t = leaf.value, leaf.type
        if isinstance(value, Buffer):
            return self.array(value)
        assert isinstance(t, Scalar)
        if t.is_bool:
            return self.shared_from(self.code.op(f"select i1 {value}, ptr {pointer(True)}, ptr {pointer(False)}"))
        if t.of_python:
            maker = "PyFloat_FromDouble(double" if t.is_float else "PyLong_FromLongLong(i64"
            name, _, kind = maker.partition("(")
            return self.checked(f"call ptr {function(name)}({kind} {value})")
        cell = self.code.alloca(types.memory(t))
        self.code.do(f"store {types.memory(t)} {value}, ptr {cell}, align {types.width(t)}")
        descr = pointer(capi.descr(t))
        return self.checked(f"call ptr {function('PyArray_Scalar')}(ptr {cell}, ptr {descr}, ptr null)")

    def array(self, b: Buffer) -> str:
        """A new ndarray that owns the block of its elements, or else has a copy of them."""
        code, rank = self.code, len(b.sizes)
        dims = code.alloca("i64", rank)
        for i, size in enumerate(b.sizes):
            code.do(f"store i64 {size}, ptr {self.at(dims, 8 * i)}, align 8")
        size = str(types.width(b.dtype))
        for n in b.sizes:
            size = code.op(f"mul i64 {size}, {n}")
        if not self.context:
            return self.copied(b, dims, size)
        large, copy, done = code.label("large"), code.label("copy"), code.label("array")
        array = code.phi("ptr", done, "array")
        code.branch(code.op(f"icmp uge i64 {size}, {result_buffers.LARGE}", "c"), large, copy)
        code.start(large)
        wrap = result_buffers.declare(self.writer, "jitad.wrap")
        own = code.op(f"call ptr {wrap}(ptr {self.context}, ptr {b.ptr}, i64 {size}, "
                      f"i32 {rank}, ptr {dims}, i32 {capi.type_number(b.dtype)})")
        code.add_incoming(array, own)
        code.branch(code.op(f"icmp ne ptr {own}, null", "c"), done, copy)
        code.start(copy)
        made = self.copied(b, dims, size)
        code.add_incoming(array, made)
        code.jump(done)
        code.start(done)
        return array

    def copied(self, b: Buffer, dims: str, size: str) -> str:
        """A new ndarray with a copy of the elements, for elements in the arena, which lives for the call only."""
        array = self.checked(f"call ptr {function('PyArray_New')}(ptr {pointer(capi.NDARRAY)}, i32 {len(b.sizes)}, "
                             f"ptr {dims}, i32 {capi.type_number(b.dtype)}, ptr null, ptr null, i32 0, i32 0, "
                             "ptr null)")
        data = self.code.op(f"load ptr, ptr {self.at(array, capi.ARRAY_DATA)}, align 8")
        self.code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr align {types.width(b.dtype)} {data}, "
                     f"ptr align {types.width(b.dtype)} {b.ptr}, i64 {size}, i1 false)")
        return array

    def shared(self, obj: object) -> str:
        """A new reference to an existing object."""
        return self.shared_from(pointer(obj))

    def shared_from(self, obj: str) -> str:
        self.code.do(f"call void {function('Py_IncRef')}(ptr {obj})")
        return obj

    # --- failure ----------------------------------------------------------------------------------

    def checked(self, call: str) -> str:
        """The object that a call returns; null (with an exception set) branches to ``fail``."""
        obj = self.code.op(call, "obj")
        self.require(self.code.op(f"icmp ne ptr {obj}, null", "c"))
        return obj

    def require(self, condition: str) -> None:
        go_on = self.code.label("ok")
        self.failures.append((self.code.here, self.root))
        self.code.branch(condition, go_on, self.fail, self.likely)
        self.code.start(go_on)
