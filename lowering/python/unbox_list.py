"""Unboxing of long lists (``frontend/columns/list_columns.py``): one loop reads their numbers into new arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...frontend.columns.list_columns import LONG, Cell, Kind
from ...ir.types import Array, Scalar
from ...pytree import Structure
from ..llvm import capi, types
from ..llvm.capi import function, pointer
from .unbox_values import LeafType, ValueUnboxer

Children = Callable[[Structure, str], Sequence[str]]


def long_list(u: ValueUnboxer, children: Children, s: Structure, obj: str, leaves: Sequence[LeafType]) -> list[str]:
    """The data and size of each column; a list of other elements, or one that is not long, is a miss.

    ``children`` reads the parts of an element.
    """
    kind: Kind = s.static
    u.require_type(obj, list)
    n = u.load("i64", obj, capi.VAR_SIZE)
    u.require(u.code.op(f"icmp ugt i64 {n}, {LONG}", "c"))
    for leaf in leaves:
        assert isinstance(leaf.type, Array)
        if leaf.type.dims[0] is not None:
            u.require_equal("i64", n, str(leaf.type.dims[0]))
    columns = [_array(u, c.dtype, n) for c in kind.cells]
    _fill(u, children, kind, u.load("ptr", obj, capi.LIST_ITEMS), n, columns)
    u.sizes.append(n)
    return [part for data in columns for part in (data, n)]


def _array(u: ValueUnboxer, t: Scalar, n: str) -> str:
    """The data of a new array, which is released after the call; a miss if there is no memory."""
    code = u.code
    dims = code.alloca("i64")
    code.do(f"store i64 {n}, ptr {dims}, align 8")
    made = code.op(f"call ptr {function('PyArray_New')}(ptr {pointer(capi.NDARRAY)}, i32 1, ptr {dims}, "
                   f"i32 {capi.type_number(t)}, ptr null, ptr null, i32 0, i32 0, ptr null)")
    have, lack = code.label("have"), code.label("lack")
    code.branch(code.op(f"icmp ne ptr {made}, null", "c"), have, lack, u.likely)
    code.start(lack)
    code.do(f"call void {function('PyErr_Clear')}()")
    code.jump(u.miss)
    code.start(have)
    u.hold(made)
    return u.load("ptr", made, capi.ARRAY_DATA)


def _fill(u: ValueUnboxer, children: Children, kind: Kind, items: str, n: str, columns: Sequence[str]) -> None:
    code = u.code
    body, done = code.label("element"), code.label("read")
    i = code.phi("i64", body, "i")
    code.add_incoming(i, "0")
    code.jump(body)
    code.start(body)
    item = code.op(f"load ptr, ptr {code.op(f'getelementptr inbounds ptr, ptr {items}, i64 {i}', 'at')}, align 8")
    _store(u, children, kind.element, item, iter(zip(kind.cells, columns)), i)
    following = code.op(f"add nuw nsw i64 {i}, 1")
    code.add_incoming(i, following)
    code.branch(code.op(f"icmp ult i64 {following}, {n}", "c"), body, done)
    code.start(done)


def _store(u: ValueUnboxer, children: Children, s: Structure, obj: str, columns: Iterator[tuple[Cell, str]], i: str
           ) -> None:
    """Stores the numbers of one element in row ``i`` of the columns."""
    if not s.is_leaf:
        for child, part in zip(s.children, children(s, obj)):
            _store(u, children, child, part, columns, i)
        return
    cell, data = next(columns)
    x = u.number(cell.dtype, bool(cell.weak), obj)
    if cell.dtype.is_bool:
        x = u.code.op(f"zext i1 {x} to i8")
    memory, width = types.memory(cell.dtype), types.width(cell.dtype)
    at = u.code.op(f"getelementptr inbounds {memory}, ptr {data}, i64 {i}", "at")
    u.code.do(f"store {memory} {x}, ptr {at}, align {width}")
