"""Kernels: device functions applied to the iterations of a loop, one thread an iteration.

``map_kernel`` runs the iterations ``k < count`` of a nest or of an outlined loop, thread t that of the same number, or
those with the numbers t, t + threads, … if threads have results or memory of their own.  Results by role
(``passes/parallel/independence.py``): ``each`` arrays are written in place; reductions are combined (``reduce``); of
``last`` the last iteration stores its value.  To arrays of the role ``add``

* all threads add by atomics (``ATOMIC``); or, to an array of few elements,
* each thread adds in its local memory, a block combines these arrays, and adds the result by atomics (``LOCAL``); or
* each thread has an array in the device's memory, and ``sum_kernel`` adds them up in order (``APART``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import Loc
from ....ir.graph import Function
from ....ir.types import Scalar
from ...llvm import types
from ..device import reduce
from ..device.emitter import Emitter, Shared
from ..device.function import ADDS, call
from ..device.thread import stack_size
from ..device.values import Memory, Part, assemble, parts_of
from ..image import BLOCK, Kernel
from .results import Reduced, finish_kernel, reduce_block, store_slot
from .writer import KernelWriter, Known, Resident, as_scalar, indices

ATOMIC, LOCAL, APART = "by atomics", "in local memory", "in an array for each thread"
FEW = 32
"""Elements of an array that each thread has in its local memory at most."""



@dataclass(frozen=True)
class Result:
    """A result of a loop: its role, its type; of an array of the role ``add``, how threads add to it."""

    role: str
    type: object
    adding: str = ""


@dataclass(frozen=True)
class Needs:
    """Resources that device functions need: memory for arrays of a thread, for its frames, a stack for recursion."""

    arrays: bool = False
    frames: bool = False
    recursion: bool = False

    @property
    def arena(self) -> bool:
        return self.arrays or self.frames


@dataclass(frozen=True)
class MapKernel:
    """The kernels of one loop: ``finish`` combines the partial results of blocks, if there are any.

    ``threads``: those that run an iteration together.  ``once``: a thread runs one iteration, so the grid must have
    enough of them; other kernels may have fewer.  ``tiled``: a block runs a square of iterations of the last loop and
    of another one, with sides of so many.
    """

    kernel: Kernel
    finish: Kernel | None
    needs: Needs
    results: tuple[Result, ...]
    threads: int = 1
    once: bool = False
    tiled: tuple[int, int] | None = None

    def blocks(self, counts: Sequence[int], most: int) -> int:
        """The blocks for loops with so many iterations, ``most`` at most."""
        if self.tiled is not None:
            axis, side = self.tiled
            parts = (-(-n // side) if k in (axis, len(counts) - 1) else n for k, n in enumerate(counts))
            return min(math.prod(parts), most)
        return max(1, min(-(-math.prod(counts) * self.threads // self.kernel.block), most))


def map_kernel(shared: Shared, name: str, loc: Loc, body: Function, loops: Sequence[Known], results: Sequence[Result],
               needs: Needs, outlined: bool, threads_each: int = 1, block: int = BLOCK, resident: Resident = ((), ()),
               suffix: str = "", shares: bool = False) -> MapKernel:
    """The kernels that apply ``body`` to a loop, or to several loops within one another.

    A nest's body takes the indices, the carried values and what is captured.  That of an outlined loop takes the first
    iteration and the end.  Parameters: status, [arena, bytes, words], [depth], of each loop (lower, count, step)
    without literals, [slots, partial], carried, captured.  ``resident``: the carried and the captured scalars, by
    number, of which the address is passed.  ``shares``: the last two of the captured values are replaced by the number
    of the thread among those of an iteration, and how many these are.
    """
    w = KernelWriter(shared, name, loc, block)
    memory = (w.param("ptr", "arena"), w.param("i64", "bytes"), w.param("i64", "words")) if needs.arena else None
    depth = w.param("i64", "depth") if needs.recursion else "0"
    w.stack = stack_size() if needs.recursion else 0
    bounds = [w.bounds(known) for known in loops]
    scalars = [k for k, r in enumerate(results) if isinstance(r.type, Scalar)]
    reduced = [k for k in scalars if results[k].role not in ("last", "left")]
    out = w.param("ptr", "slots") if scalars else ""
    partial = w.param("ptr", "partial") if reduced else ""
    carried = [w.given(r.type, "carried", k in resident[0]) for k, r in enumerate(results) if r.role != "left"]
    bytes_of = {k: w.param("i64", "size") for k, r in enumerate(results) if r.adding == APART}
    captured = [w.given(t, "captured", k in resident[1]) for k, t in enumerate(
        body.param_types[(2 if outlined else len(loops)) + len(carried):])]
    once = not (memory or reduced or any(r.adding in (LOCAL, APART) for r in results))
    if shares:
        captured[-2:] = w.code.op(f"urem i64 {w.first()}, {threads_each}", "part"), str(threads_each)
    first, threads = (w.divided(x, threads_each) for x in (w.first(), "0" if once else w.threads()))
    count = w.unless_failed(w.product([n for _, n, _ in bounds]))
    ctx = w.context(memory, depth, first, threads) if memory or needs.recursion or w.may_fail(body) else "null"
    shared_arrays = {k: carried[k] for k, r in enumerate(results) if r.adding == LOCAL}
    for k, b in shared_arrays.items():
        carried[k] = _local(w, b)
    for k, size in bytes_of.items():
        carried[k] = _own(w, carried[k], first, size)
    suffix = ADDS if any(r.adding == ATOMIC for r in results) else suffix
    kinds = [types.register(as_scalar(results[k].type)) for k in reduced]
    groups = _groups(results, reduced)
    start = [x for g in groups for x in reduce.neutrals(results[g[0]].role, [as_scalar(results[k].type) for k in g])]

    def iteration(i: str, accumulated: list[str]) -> list[str]:
        given = list(carried)
        for k, x in zip(reduced, accumulated):
            given[k] = x
        args: list[Part] = [i, w.add(i, "1")] if outlined else list(indices(w, i, bounds))
        made, _ = call(w, body, ctx, [*args, *given, *captured], suffix)
        parts = iter(made())
        values = [assemble(r.type, [next(parts) for _ in parts_of(r.type)]) for r in results]
        left = [(scalars.index(k), as_scalar(results[k].type), str(values[k])) for k in scalars if k not in reduced]
        _store_last(w, out, i, count, left)
        return [str(values[k]) for k in reduced]
    if once:
        def one() -> None:
            iteration(first, [])
        w.if_(w.code.op(f"icmp slt i64 {first}, {count}", "c"), one)
        return MapKernel(w.write(), None, needs, tuple(results), threads_each, once)
    totals = w.loop(first, count, threads, iteration, list(zip(kinds, start)))
    for k, b in shared_arrays.items():
        _add_local(w, carried[k], b, f"{name}.sums{k}")
    if not reduced:
        return MapKernel(w.write(), None, needs, tuple(results), threads_each)
    total = dict(zip(reduced, totals))
    shown = [Reduced(tuple(map(scalars.index, g)), results[g[0]].role, tuple(as_scalar(results[k].type) for k in g),
                     tuple(str(carried[k]) for k in g), tuple(map(total.__getitem__, g))) for g in groups]
    reduce_block(w, out, partial, shown)
    kernel = w.write()
    finish = finish_kernel(shared, f"{name}_finish", loc, shown, block, [[k in resident[0] for k in g] for g in groups])
    return MapKernel(kernel, finish, needs, tuple(results))


def _store_last(w: KernelWriter, out: str, i: str, count: str, left: Sequence[tuple[int, Scalar, str]]) -> None:
    """Store the scalars that the last iteration leaves: for each its slot, type and value."""
    def store() -> None:
        for slot, t, value in left:
            store_slot(w, out, slot, t, value)
    if left:
        w.if_(w.code.op(f"icmp eq i64 {w.add(i, '1')}, {count}", "c"), store)


def _groups(results: Sequence[Result], reduced: Sequence[int]) -> list[tuple[int, ...]]:
    """The results that are combined together: an extreme element and its index, others alone."""
    rest = iter(reduced)
    return [(k, next(rest)) if results[k].role in reduce.ARGS else (k,) for k in rest]


def _own(w: Emitter, b: Part, first: str, size: str) -> Part:
    """The array of one thread, ``size`` bytes from that of the preceding one."""
    assert isinstance(b, Memory)
    return Memory(w.offset(b.ptr, w.mul(first, size)), b.sizes, b.strides, b.type)


def _local(w: Emitter, b: Part) -> Memory:
    """An array of zeros in local memory, of the sizes of ``b``."""
    assert isinstance(b, Memory)
    own = Memory(w.code.alloca(types.memory(b.dtype), FEW), b.sizes, None, b.type)

    def clear(k: str, _: list[str]) -> list[str]:
        w.store(b.dtype, types.literal(0, b.dtype), w.offset(own.ptr, k, types.memory(b.dtype)))
        return []
    w.loop("0", w.product(b.sizes), "1", clear)
    return own


def _add_local(w: KernelWriter, own: Part, whole: Part, name: str) -> None:
    """Add the arrays of a block's threads to an array that all blocks share: one atomic operation an element."""
    assert isinstance(own, Memory) and isinstance(whole, Memory)
    t, of = own.dtype, types.memory(own.dtype)

    def element(k: str, _: list[str]) -> list[str]:
        total, = reduce.in_block(w, "add", [t], [w.load(t, w.offset(own.ptr, k, of))], w.block, name)
        w.if_(w.code.op(f"icmp eq i64 {w.number('thread')}, 0", "c"),
              lambda: w.atomic_add(t, total, w.offset(whole.ptr, k, of)))
        w.barrier()
        return []
    w.loop("0", w.product(own.sizes), "1", element)


def serial_kernel(shared: Shared, name: str, loc: Loc, body: Function, needs: Needs, resident: Sequence[int] = ()
                  ) -> Kernel:
    """One thread that calls a function: (status, context, slots, arguments); of ``resident`` ones the addresses.

    Each part of each result goes to a slot.  The thread's words are in memory, so that frames and arrays outlive it.
    """
    w = KernelWriter(shared, name, loc, 1)
    ctx, out = w.param("ptr", "ctx"), w.param("ptr", "slots")
    w.stack = stack_size() if needs.recursion else 0
    given = [w.given(t, "given", k in resident) for k, t in enumerate(body.param_types)]

    def run(_: str, __: list[str]) -> list[str]:
        made, status = call(w, body, ctx, given)

        def store() -> None:
            kinds = [kind for t in body.result_types for kind in parts_of(t)]
            for k, (kind, x) in enumerate(zip(kinds, made(), strict=True)):
                w.store_word(kind, x, w.offset(out, str(8 * k)))
        w.if_(w.code.op(f"icmp eq i32 {status}, 0", "c"), store)
        return []
    w.loop("0", w.unless_failed("1"), "1", run)
    return w.write()
