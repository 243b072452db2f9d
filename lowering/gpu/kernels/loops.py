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
    kernel = _Map(w, body, loops, results, needs, outlined, threads_each, resident)
    return kernel.write(suffix, shares)


class _Map:
    """Writes the kernels of a loop.

    ``scalars`` and ``reduced``: the results, by number, that are scalars, and those of them that are combined.
    ``once``: each thread runs one iteration.
    """

    def __init__(self, w: KernelWriter, body: Function, loops: Sequence[Known], results: Sequence[Result],
                 needs: Needs, outlined: bool, threads_each: int, resident: Resident) -> None:
        """Declares the parameters, in order."""
        self.w, self.body, self.results, self.needs, self.outlined = w, body, results, needs, outlined
        self.threads_each, self.resident = threads_each, resident
        self.memory = None
        if needs.arena:
            self.memory = w.param("ptr", "arena"), w.param("i64", "bytes"), w.param("i64", "words")
        self.depth = w.param("i64", "depth") if needs.recursion else "0"
        w.stack = stack_size() if needs.recursion else 0
        self.bounds = [w.bounds(known) for known in loops]
        self.scalars = [k for k, r in enumerate(results) if isinstance(r.type, Scalar)]
        self.reduced = [k for k in self.scalars if results[k].role not in ("last", "left")]
        self.out = w.param("ptr", "slots") if self.scalars else ""
        self.partial = w.param("ptr", "partial") if self.reduced else ""
        self.carried = [w.given(r.type, "carried", k in resident[0])
                        for k, r in enumerate(results) if r.role != "left"]
        self.bytes_of = {k: w.param("i64", "size") for k, r in enumerate(results) if r.adding == APART}
        self.captured = [w.given(t, "captured", k in resident[1]) for k, t in enumerate(
            body.param_types[(2 if outlined else len(loops)) + len(self.carried):])]
        self.once = not (self.memory or self.reduced or any(r.adding in (LOCAL, APART) for r in results))

    def write(self, suffix: str, shares: bool) -> MapKernel:
        w, results = self.w, self.results
        if shares:
            part = w.code.op(f"urem i64 {w.first()}, {self.threads_each}", "part")
            self.captured[-2:] = part, str(self.threads_each)
        first, threads = (w.divided(x, self.threads_each) for x in (w.first(), "0" if self.once else w.threads()))
        self.count = w.unless_failed(w.product([n for _, n, _ in self.bounds]))
        has_context = self.memory or self.needs.recursion or w.may_fail(self.body)
        self.ctx = w.context(self.memory, self.depth, first, threads) if has_context else "null"
        shared_arrays = {k: self.carried[k] for k, r in enumerate(results) if r.adding == LOCAL}
        for k, b in shared_arrays.items():
            self.carried[k] = _local(w, b)
        for k, size in self.bytes_of.items():
            self.carried[k] = _own(w, self.carried[k], first, size)
        self.suffix = ADDS if any(r.adding == ATOMIC for r in results) else suffix
        if self.once:
            w.if_(w.code.op(f"icmp slt i64 {first}, {self.count}", "c"), lambda: self._once(first))
            return MapKernel(w.write(), None, self.needs, tuple(results), self.threads_each, True)
        kinds = [types.register(self._type(k)) for k in self.reduced]
        groups = _groups(results, self.reduced)
        start = [x for g in groups for x in reduce.neutrals(results[g[0]].role, [self._type(k) for k in g])]
        totals = w.loop(first, self.count, threads, self._iteration, list(zip(kinds, start)))
        for k, b in shared_arrays.items():
            _add_local(w, self.carried[k], b, f"{w.name}.sums{k}")
        if not self.reduced:
            return MapKernel(w.write(), None, self.needs, tuple(results), self.threads_each)
        return self._combined(groups, totals)

    def _once(self, first: str) -> None:
        self._iteration(first, [])

    def _iteration(self, i: str, accumulated: list[str]) -> list[str]:
        """Call the body; returns the new values of the reductions."""
        w, results, given = self.w, self.results, list(self.carried)
        for k, x in zip(self.reduced, accumulated):
            given[k] = x
        args: list[Part] = [i, w.add(i, "1")] if self.outlined else list(indices(w, i, self.bounds))
        made, _ = call(w, self.body, self.ctx, [*args, *given, *self.captured], self.suffix)
        parts = iter(made())
        values = [assemble(r.type, [next(parts) for _ in parts_of(r.type)]) for r in results]
        left = [(self.scalars.index(k), self._type(k), str(values[k])) for k in self.scalars if k not in self.reduced]
        _store_last(w, self.out, i, self.count, left)
        return [str(values[k]) for k in self.reduced]

    def _combined(self, groups: Sequence[tuple[int, ...]], totals: Sequence[str]) -> MapKernel:
        """The kernel with the reductions of each block, and the one that combines those of all blocks."""
        w, total = self.w, dict(zip(self.reduced, totals))
        shown = [Reduced(tuple(map(self.scalars.index, g)), self.results[g[0]].role, tuple(map(self._type, g)),
                         tuple(str(self.carried[k]) for k in g), tuple(map(total.__getitem__, g))) for g in groups]
        reduce_block(w, self.out, self.partial, shown)
        kernel = w.write()
        finish = finish_kernel(w.shared, f"{w.name}_finish", w.loc, shown, w.block,
                               [[k in self.resident[0] for k in g] for g in groups])
        return MapKernel(kernel, finish, self.needs, tuple(self.results))

    def _type(self, k: int) -> Scalar:
        return as_scalar(self.results[k].type)


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
