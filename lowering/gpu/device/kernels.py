"""Kernels: device functions applied to the iterations of a loop, one thread an iteration.

Parameters of every kernel, in order: the status; if it needs them, the *arena*, the memory of all threads, with the
bytes and the words that each of them has (``thread.py``), and the depth of recursion; what it is given.  A kernel does
nothing if the status tells of a failure.

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
from ...llvm.emit import global_name
from ..image import Kernel
from . import reduce
from .emitter import Emitter, Shared
from .function import ADDS, call
from .thread import STACK, WORDS, Thread
from .values import Memory, Part, assemble, parts_of

BLOCK = 256
ATOMIC, LOCAL, APART = "by atomics", "in local memory", "in an array for each thread"
FEW = 32
"""Elements of an array that each thread has in its local memory at most."""


Known = tuple[int | None, int | None]
"""The first index of a loop and its step, as far as they are literal."""
Resident = tuple[Sequence[int], Sequence[int]]


class KernelWriter(Emitter):
    """Writes one kernel."""

    def __init__(self, shared: Shared, name: str, loc: Loc, block: int) -> None:
        super().__init__(shared)
        self.name, self.loc, self.block, self.stack = name, loc, block, 0
        self.params: list[tuple[str, str]] = []
        self.status = self.param("ptr", "status")

    def param(self, type: str, hint: str) -> str:
        name = f"%{hint}{len(self.params)}"
        self.params.append((type, name))
        return name

    def given(self, t: object, hint: str, resident: bool = False) -> Part:
        """A parameter for each part of a value; a bool is passed as a byte.

        ``resident``: of a scalar that an earlier kernel has computed, the address is passed.
        """
        if resident:
            return self.load(_scalar(t), self.param("ptr", hint))
        return assemble(t, [self._bool(self.param("i8", hint)) if kind == "i1" else self.param(kind, hint)
                            for kind in parts_of(t)])

    def _bool(self, byte: str) -> str:
        return self.code.op(f"icmp ne i8 {byte}, 0", "c")

    def write(self) -> Kernel:
        self.code.end("ret void")
        head = ", ".join(f"{kind} {name}" for kind, name in self.params)
        self.writer.function(self.name, f"define void {global_name(self.name)}({head}) {{\n{self.code.text()}\n}}\n")
        kinds = {"double": "f64", "float": "f32"}
        return Kernel(self.name, tuple(kinds.get(kind, kind) for kind, _ in self.params), self.block, self.loc,
                      self.stack)

    # --- the grid -----------------------------------------------------------------------------------

    def first(self) -> str:
        """The number of this thread in the grid."""
        before = self.code.op(f"mul nuw nsw i64 {self.number('block')}, {self.block}", "n")
        return self.code.op(f"add nuw nsw i64 {before}, {self.number('thread')}", "n")

    def threads(self) -> str:
        return self.code.op(f"mul nuw nsw i64 {self.number('grid_size')}, {self.block}", "n")

    def bounds(self, known: Known) -> tuple[str, str, str]:
        """Parameters for the first index, the number of iterations and the step of a loop, or literals."""
        lower, step = ("" if x is None else str(x) for x in known)
        first = lower or self.param("i64", "lower")
        count = self.param("i64", "count")
        return first, count, step or self.param("i64", "step")

    def may_fail(self, func: Function) -> bool:
        """True if a device function uses the words of its thread."""
        ops = [op.name for b in func.blocks for op in b.nested_ops()]
        return any(name in ("check", "raise", "call", "push", "pop", "alloc") for name in ops)

    def unless_failed(self, count: str) -> str:
        """``count``, or 0 if some thread has failed: the same in all threads of a warp matters, of a block does not."""
        return self.code.op(f"select i1 {self.failed()}, i64 0, i64 {count}", "count")

    def failed(self) -> str:
        """True if some thread has failed."""
        name = self.writer.declare("gpu_failed", "i1", "ptr")
        return self.code.op(f"call i1 {name}(ptr {self.status})", "failed")

    def context(self, arena: tuple[str, str, str] | None, depth: str, first: str, threads: str) -> str:
        """The words of the thread; ``arena``: its address, the bytes and the words for each thread."""
        ctx = self.code.alloca("i64", len(WORDS))
        thread = Thread(self, ctx)
        base, strip, words = arena or ("null", "0", "0")
        frames = self.offset(base, self.mul(strip, threads)) if arena else base
        top = self.add(self.code.op(f"ptrtoint ptr {base} to i64"), self.mul(first, strip)) if arena else "0"
        state = {"status": self.status, "top": top, "end": self.add(top, strip), "frame": "1", "limit": words,
                 "base": self.offset(frames, self.mul(first, "8")) if arena else base,
                 "stride": self.mul(threads, "8"), "depth": depth}
        for name, x in state.items():
            thread.set(name, x)
        return ctx


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
               needs: Needs, outlined: bool, threads_each: int = 1, block: int = BLOCK, resident: Resident = ((), ())
               ) -> MapKernel:
    """The kernels that apply ``body`` to a loop, or to several loops within one another.

    A nest's body takes the indices, the carried values and what is captured.  That of an outlined loop takes the first
    iteration and the end.  Parameters: status, [arena, bytes, words], [depth], of each loop (lower, count, step)
    without literals, [slots, partial], carried, captured.  ``resident``: the carried and the captured scalars, by
    number, of which the address is passed.
    """
    w = KernelWriter(shared, name, loc, block)
    memory = (w.param("ptr", "arena"), w.param("i64", "bytes"), w.param("i64", "words")) if needs.arena else None
    depth = w.param("i64", "depth") if needs.recursion else "0"
    w.stack = STACK if needs.recursion else 0
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
    first, threads = (w.divided(x, threads_each) for x in (w.first(), "0" if once else w.threads()))
    count = w.unless_failed(w.product([n for _, n, _ in bounds]))
    ctx = w.context(memory, depth, first, threads) if memory or needs.recursion or w.may_fail(body) else "null"
    shared_arrays = {k: carried[k] for k, r in enumerate(results) if r.adding == LOCAL}
    for k, b in shared_arrays.items():
        carried[k] = _local(w, b)
    for k, size in bytes_of.items():
        carried[k] = _own(w, carried[k], first, size)
    suffix = ADDS if any(r.adding == ATOMIC for r in results) else ""
    kinds = [types.register(_scalar(results[k].type)) for k in reduced]
    groups = _groups(results, reduced)
    start = [x for g in groups for x in reduce.neutrals(results[g[0]].role, [_scalar(results[k].type) for k in g])]

    def iteration(i: str, accumulated: list[str]) -> list[str]:
        given = list(carried)
        for k, x in zip(reduced, accumulated):
            given[k] = x
        args: list[Part] = [i, w.add(i, "1")] if outlined else list(indices(w, i, bounds))
        made, _ = call(w, body, ctx, [*args, *given, *captured], suffix)
        parts = iter(made())
        values = [assemble(r.type, [next(parts) for _ in parts_of(r.type)]) for r in results]
        left = [(scalars.index(k), _scalar(results[k].type), str(values[k])) for k in scalars if k not in reduced]
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
    shown = [Reduced(tuple(map(scalars.index, g)), results[g[0]].role, tuple(_scalar(results[k].type) for k in g),
                     tuple(str(carried[k]) for k in g), tuple(map(total.__getitem__, g))) for g in groups]
    _reduce_block(w, out, partial, shown)
    kernel = w.write()
    finish = _finish(shared, f"{name}_finish", loc, shown, block, [[k in resident[0] for k in g] for g in groups])
    return MapKernel(kernel, finish, needs, tuple(results))


def _store_last(w: KernelWriter, out: str, i: str, count: str, left: Sequence[tuple[int, Scalar, str]]) -> None:
    """Store the scalars that the last iteration leaves: for each its slot, type and value."""
    def store() -> None:
        for slot, t, value in left:
            _store_slot(w, out, slot, t, value)
    if left:
        w.if_(w.code.op(f"icmp eq i64 {w.add(i, '1')}, {count}", "c"), store)


def indices(w: Emitter, i: str, bounds: Sequence[tuple[str, ...]]) -> list[str]:
    """The indices of iteration ``i`` of loops within one another, the last of which runs fastest."""
    out: list[str] = []
    for position, (lower, count, step) in enumerate(reversed(bounds)):
        outermost = position == len(bounds) - 1
        k = i if outermost else w.code.op(f"urem i64 {i}, {count}", "k")
        i = i if outermost else w.code.op(f"udiv i64 {i}, {count}", "k")
        out.insert(0, w.add(lower, w.mul(k, step)))
    return out


def _groups(results: Sequence[Result], reduced: Sequence[int]) -> list[tuple[int, ...]]:
    """The results that are combined together: an extreme element and its index, others alone."""
    rest = iter(reduced)
    return [(k, next(rest)) if results[k].role in reduce.ARGS else (k,) for k in rest]


def _scalar(t: object) -> Scalar:
    assert isinstance(t, Scalar)
    return t


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


def _store_slot(w: Emitter, slots: str, k: int, t: Scalar, x: str) -> None:
    w.store(t, x, w.offset(slots, str(8 * k)))


@dataclass(frozen=True)
class Reduced:
    """Results that are combined together: slots, role, types, the values before the loop and those of this thread."""

    slots: tuple[int, ...]
    role: str
    types: tuple[Scalar, ...]
    before: tuple[str, ...]
    values: tuple[str, ...]

    def store(self, w: Emitter, slots: str, before: Sequence[str], xs: Sequence[str]) -> None:
        """Store the results."""
        for k, t, x in zip(self.slots, self.types, reduce.merge(w, self.role, self.types, before, xs)):
            _store_slot(w, slots, k, t, x)


def _reduce_block(w: KernelWriter, out: str, partial: str, reduced: Sequence[Reduced]) -> None:
    """Combine the values of a block: into the slots if it is the only one, otherwise into its partial results."""
    totals = [reduce.in_block(w, r.role, r.types, r.values, w.block, f"{w.name}.shared{r.slots[0]}") for r in reduced]
    size = sum(len(r.types) for r in reduced)

    def finish() -> None:
        def alone() -> None:
            for r, xs in zip(reduced, totals):
                r.store(w, out, r.before, xs)

        def several() -> None:
            row = w.mul(w.number("block"), str(8 * size))
            parts = [(t, x) for r, xs in zip(reduced, totals) for t, x in zip(r.types, xs)]
            for place, (t, x) in enumerate(parts):
                w.store(t, x, w.offset(w.offset(partial, row), str(8 * place)))
        yes, no, done = (w.code.label(h) for h in ("alone", "several", "stored"))
        w.code.branch(w.code.op(f"icmp eq i64 {w.number('grid_size')}, 1", "c"), yes, no)
        for label, emit in ((yes, alone), (no, several)):
            w.code.start(label)
            emit()
            w.code.jump(done)
        w.code.start(done)
    w.if_(w.code.op(f"icmp eq i64 {w.number('thread')}, 0", "c"), finish)


def _finish(shared: Shared, name: str, loc: Loc, reduced: Sequence[Reduced], block: int,
            resident: Sequence[Sequence[bool]]) -> Kernel:
    """Of one block: combines the partial results of all blocks with the values before the loop.

    Parameters: status, slots, partial, the number of blocks, the values before the loop.
    """
    w = KernelWriter(shared, name, loc, block)
    out, partial, blocks = w.param("ptr", "slots"), w.param("ptr", "partial"), w.param("i64", "blocks")
    starts = [[str(w.given(t, "start", there)) for t, there in zip(r.types, known)] for r, known in zip(
        reduced, resident)]
    kinds = [types.register(t) for r in reduced for t in r.types]

    def row(i: str, sums: list[str]) -> list[str]:
        at, place, found = w.offset(partial, w.mul(i, str(8 * len(kinds)))), 0, list[str]()
        for r in reduced:
            end = place + len(r.types)
            part = [w.load(t, w.offset(at, str(8 * k))) for k, t in enumerate(r.types, place)]
            found += reduce.merge(w, r.role, r.types, sums[place:end], part)
            place = end
        return found
    neutral = [x for r in reduced for x in reduce.neutrals(r.role, r.types)]
    sums = iter(w.loop(w.number("thread"), blocks, str(block), row, list(zip(kinds, neutral))))
    totals = [reduce.in_block(w, r.role, r.types, [next(sums) for _ in r.types], block, f"{name}.shared{r.slots[0]}")
              for r in reduced]

    def store() -> None:
        for r, before, xs in zip(reduced, starts, totals):
            r.store(w, out, before, xs)
    w.if_(w.code.op(f"icmp eq i64 {w.number('thread')}, 0", "c"), store)
    return w.write()


def sum_kernel(shared: Shared, name: str, loc: Loc, t: Scalar, block: int = BLOCK) -> Kernel:
    """Adds arrays of ``size`` elements, one a thread, to one array: (status, size, array, arrays, their number)."""
    w = KernelWriter(shared, name, loc, block)
    size, array, arrays, number = (w.param(kind, h) for kind, h in (
        ("i64", "size"), ("ptr", "array"), ("ptr", "arrays"), ("i64", "number")))

    def element(i: str, _: list[str]) -> list[str]:
        at = w.offset(array, i, types.memory(t))

        def add(k: str, total: list[str]) -> list[str]:
            part = w.load(t, w.offset(arrays, w.add(w.mul(k, size), i), types.memory(t)))
            return [reduce.combine(w, "add", t, total[0], part)]
        w.store(t, w.loop("0", number, "1", add, [(types.register(t), w.load(t, at))])[0], at)
        return []
    w.loop(w.first(), w.unless_failed(size), w.threads(), element)
    return w.write()


def serial_kernel(shared: Shared, name: str, loc: Loc, body: Function, needs: Needs, resident: Sequence[int] = ()
                  ) -> Kernel:
    """One thread that calls a function: (status, context, slots, arguments); of ``resident`` ones the addresses.

    Each part of each result goes to a slot.  The thread's words are in memory, so that frames and arrays outlive it.
    """
    w = KernelWriter(shared, name, loc, 1)
    ctx, out = w.param("ptr", "ctx"), w.param("ptr", "slots")
    w.stack = STACK if needs.recursion else 0
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
