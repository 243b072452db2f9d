"""Buffers within a thread: allocation, views, and additions to buffers that threads share.

A buffer that only loads and stores of one function use is *interleaved*: it lies among the frames (``stacks``), where
its elements, a word each, have those of the same number of other threads beside them.  Warps that save or read values
of a loop, iteration by iteration, then access whole lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

from ....ir.graph import Function, Op, Value
from ....ir.types import Scalar
from ....loop_level.ops import OPS
from ....loop_level.types import Buffer, buffer_type
from ...llvm import types
from ...llvm.code import Assembly
from ...llvm.emit import Writer
from ...llvm.target import Target
from ...math.options import Options
from .thread import ALIGN, MEMORY_ERROR, Thread
from .values import Memory, Part

LOCAL = 1024
"""Elements of a buffer in a thread's local memory at most: 8 KB, which the hardware interleaves between threads."""


class Writes(Protocol):
    """The parts of a function that is being written which its ops need."""

    code: Assembly
    writer: Writer
    target: Target
    options: Options
    thread: Thread
    values: dict[Value, Part]
    interleaved: frozenset[Op]

    def scalar(self, v: Value) -> str: ...
    def value(self, v: Value) -> Part: ...
    def memory(self, v: Value) -> Memory: ...
    def define(self, vs: Sequence[Value], parts: Sequence[str]) -> None: ...
    def load(self, t: Scalar, ptr: str, space: int = 0) -> str: ...
    def store(self, t: Scalar, value: str, ptr: str, space: int = 0) -> None: ...
    def load_word(self, type: str, ptr: str) -> str: ...
    def store_word(self, type: str, x: str, ptr: str) -> None: ...
    def offset(self, ptr: str, count: str, of: str = "i8") -> str: ...
    def address(self, b: Memory, at: Sequence[str]) -> str: ...
    def strides(self, b: Memory) -> list[str]: ...
    def add(self, x: str, y: str) -> str: ...
    def mul(self, x: str, y: str) -> str: ...
    def product(self, sizes: Sequence[str]) -> str: ...
    def loop(self, start: str, end: str, step: str, body: Callable[[str, list[str]], Sequence[str]],
             carried: Sequence[tuple[str, str]] = (), downwards: bool = False, either: bool = False) -> list[str]: ...
    def require(self, condition: str, code: str, op: Op | None = None) -> None: ...


# --- allocation -----------------------------------------------------------------------------------------

def alloc(fn: Writes, op: Op) -> None:
    """Memory of the kind ``frame`` is local, and the same whenever the op runs."""
    t = buffer_type(op.result)
    sizes = [fn.scalar(v) for v in op.operands]
    if op.attrs["kind"] == "frame":
        count = max(prod(d or 0 for d in t.dims), 1)
        fn.values[op.result] = Memory(fn.code.alloca(types.memory(t.dtype), count, ALIGN), tuple(sizes), None, t)
    elif op in fn.interleaved:
        fn.values[op.result] = _interleaved(fn, t, sizes)
    else:
        fn.values[op.result] = new(fn, t, sizes)


def new(fn: Writes, t: Buffer, sizes: Sequence[str]) -> Memory:
    """A new buffer in the thread's memory."""
    size = fn.mul(fn.product(sizes), str(types.width(t.dtype)))
    padded = fn.code.op(f"and i64 {fn.add(size, str(ALIGN - 1))}, {-ALIGN}", "n")
    first = reserve(fn, "top", "end", padded)
    return Memory(fn.code.op(f"inttoptr i64 {first} to ptr", "b"), tuple(sizes), None, t)


def _interleaved(fn: Writes, t: Buffer, sizes: Sequence[str]) -> Memory:
    """A new buffer whose elements are words of frames."""
    first = reserve(fn, "frame", "limit", fn.product(sizes))
    stride = fn.thread.get("stride")
    ptr = fn.offset(fn.thread.get("base"), fn.mul(first, stride))
    unit = fn.code.op(f"udiv exact i64 {stride}, {types.width(t.dtype)}", "unit")
    return Memory(ptr, tuple(sizes), None, t, unit)


def interleaved(func: Function) -> frozenset[Op]:
    """The allocations of buffers that only accesses to their elements, and to views of them, use."""
    uses, found = _uses(func), set()
    for block in func.blocks:
        for op in block.nested_ops():
            if op.name == "alloc" and op.attrs["kind"] != "frame" and _is_only_accessed(op.result, uses):
                found.add(op)
    return frozenset(found)


def _is_only_accessed(b: Value, uses: dict[Value, list[Op]]) -> bool:
    todo = [b]
    while todo:
        v = todo.pop()
        for op in uses.get(v, ()):
            if op.name in ("view", "reshape", "retype"):
                todo += op.results
            elif op.name not in ("load", "store", "dim", "matmul"):
                return False
    return True


def reserve(fn: Writes, top: str, end: str, size: str) -> str:
    """Take ``size`` from the thread's memory between these words; returns where it begins."""
    first = fn.thread.get(top)
    after = fn.add(first, size)
    fn.require(fn.code.op(f"icmp sle i64 {after}, {fn.thread.get(end)}", "c"), str(MEMORY_ERROR))
    fn.thread.set(top, after)
    return first


def clear(fn: Writes, b: Memory) -> None:
    """Fill a buffer in C order with zeros."""
    def body(k: str, _: list[str]) -> list[str]:
        fn.store(b.dtype, types.literal(0, b.dtype), fn.offset(b.ptr, k, types.memory(b.dtype)))
        return []
    fn.loop("0", fn.product(b.sizes), "1", body)


def nest(fn: Writes, sizes: Sequence[str], body: Callable[[list[str]], None], place: Sequence[str] = ()) -> None:
    """A loop for each size, the last innermost."""
    if not sizes:
        body(list(place))
        return

    def inner(i: str, _: list[str]) -> list[str]:
        nest(fn, sizes[1:], body, [*place, i])
        return []
    fn.loop("0", sizes[0], "1", inner)


# --- views ----------------------------------------------------------------------------------------------

def view(fn: Writes, op: Op) -> None:
    """``b[s0 : s0+l0*t0 : t0, …]`` without the axes ``drop``, in the order ``perm``."""
    b, t = fn.memory(op.operands[0]), buffer_type(op.result)
    starts, lengths, steps = ([fn.scalar(v) for v in op.operands[k::3]] for k in (1, 2, 3))
    strides = fn.strides(b)
    offset = "0"
    for start, stride in zip(starts, strides):
        offset = fn.add(offset, fn.mul(start, stride))
    kept = [a for a in range(len(strides)) if a not in op.attrs.get("drop", ())]
    order = [kept[p] for p in op.attrs.get("perm", range(len(kept)))]
    stepped = None if t.strides is None else tuple(fn.mul(steps[a], strides[a]) for a in order)
    ptr = fn.offset(b.ptr, offset, types.memory(t.dtype))
    fn.values[op.result] = Memory(ptr, tuple(lengths[a] for a in order), stepped, t, b.unit)


def reshape(fn: Writes, op: Op) -> None:
    b = fn.memory(op.operands[0])
    sizes = tuple(fn.scalar(v) for v in op.operands[1:])
    fn.values[op.result] = Memory(b.ptr, sizes, None, buffer_type(op.result), b.unit)


def retype(fn: Writes, op: Op) -> None:
    b, t = fn.memory(op.operands[0]), buffer_type(op.result)
    sizes = tuple(n if d is None else str(d) for n, d in zip(b.sizes, t.dims))
    fn.values[op.result] = Memory(b.ptr, sizes, b.strides, t, b.unit)


# --- buffers to which all threads add ---------------------------------------------------------------------

@dataclass(frozen=True)
class Additions:
    """Stores that add a term to an element: the term, and True if it is subtracted; ``skipped``: what made the sums."""

    added: dict[Op, tuple[Value, bool]] = field(default_factory=dict)
    skipped: frozenset[Op] = frozenset()


class NotAdded(Exception):
    """A buffer is accessed in another way than by additions to its elements."""


def additions(func: Function, params: frozenset[int]) -> Additions:
    """The accesses to the buffers that are these parameters, all of which must be ``b[i] += x``; or ``NotAdded``."""
    added: dict[Op, tuple[Value, bool]] = {}
    skipped: set[Op] = set()
    if params:
        uses = _uses(func)
        for v in _names(func, params, uses):
            for op in uses.get(v, ()):
                if op.name == "store" and op.operands[1] is v:
                    load, total, term, negative = addition(op, uses)
                    added[op] = term, negative
                    skipped |= {load, total}
                elif op.name not in ("dim", "return", "jump", "branch", "load") and not OPS[op.name].view:
                    raise NotAdded
        loads = {op for v in _names(func, params, uses) for op in uses.get(v, ()) if op.name == "load"}
        if not loads <= skipped:
            raise NotAdded
    return Additions(added, frozenset(skipped))


def _uses(func: Function) -> dict[Value, list[Op]]:
    return uses_in(op for block in func.blocks for op in block.nested_ops())


def uses_in(ops: Iterable[Op]) -> dict[Value, list[Op]]:
    """The ops that use each value."""
    found: dict[Value, list[Op]] = {}
    for op in ops:
        for v in op.used():
            found.setdefault(v, []).append(op)
    return found


def _names(func: Function, params: frozenset[int], uses: dict[Value, list[Op]]) -> list[Value]:
    """The values that are these parameters, or parts of them."""
    todo = [func.params[i] for i in params]
    found = dict.fromkeys(todo)
    while todo:
        v = todo.pop()
        for op in uses.get(v, ()):
            made = op.results if op.name in OPS and OPS[op.name].view else []
            made = [*made, *(p for edge in op.edges for p, x in edge.passed() if x is v)]
            todo += [x for x in made if x not in found]
            found |= dict.fromkeys(made)
    return list(found)


def addition(store: Op, uses: dict[Value, list[Op]]) -> tuple[Op, Op, Value, bool]:
    """Of ``b[i] = b[i] ± x``: the load, the sum, the term, and True for −."""
    v, b, *at = store.operands
    total = v.op
    if total is None or total.name not in ("add", "sub") or len(uses[v]) > 1:
        raise NotAdded
    for load, term in zip(total.operands, reversed(total.operands)):
        op = load.op
        if op is not None and op.name == "load" and op.operands == [b, *at] and len(uses[load]) == 1:
            if total.name == "sub" and load is not total.operands[0]:
                raise NotAdded
            return op, total, term, total.name == "sub"
    raise NotAdded


