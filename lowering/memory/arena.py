"""Memory of arrays and frames: allocated in the context's arena, released after an iteration and on return.

A loop records the arena's top on entry (its *mark*).  At the end of an iteration everything above the mark is garbage
except the arrays that are carried on.  ``arena_runtime``'s ``recycle`` moves these (into one of two spaces used
alternately, so that ``a, b = b, a`` is no special case) and lowers the top to the mark; small ones it lets lie for some
iterations.  On return ``keep`` moves the
results down to the function's own mark.  Nothing is released while a stack of frames is live, since frames hold
pointers to arrays: in loops that carry a stack and push, and in functions that return one.  Arrays that no frame
holds keep one address in all iterations of such a loop (``loop_buffers.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.graph import Block, Op, Value
from ...ir.types import Array, Stack
from ...passes.analysis.loops import Loop
from ..builder.function_builder import FunctionBuilder
from ..llvm import context, types
from ..llvm.code import Fragment
from ..llvm.types import Buffer
from ..planning.buffer_placement import is_small
from . import arena_runtime, result_buffers
from .alloc_runtime import MOST, product, reserving
from .loop_buffers import Scratch

ALIGN = 64
FRAME = 64 << 10
"""Bytes of arrays in a stack frame at most, since a thread may have a small stack.  In recursion ``context.GUARD``
must hold two frames: that of a function which passed the stack check, and that of its callee."""
FRAME_IN_RECURSION = 32 << 10


def alloc(fn: FunctionBuilder, scratch: Scratch, type: Array, sizes: Sequence[str], value: Value | None) -> Buffer:
    """A new array: in the stack frame if ``places`` allows it, in a slot of ``scratch``, or in the arena."""
    sizes = tuple(s if d is None else str(d) for s, d in zip(sizes, type.dims))
    local = is_small(type) if value is None else fn.places.is_local(value)
    if local and _has_room(fn, type, sizes):
        count = int(fn.product(sizes))
        return Buffer(fn.code.alloca(types.memory(type.dtype), count, ALIGN if count > 1 else 8), sizes, type)
    result = value is not None and _may_be_result(fn, value)
    slot = "" if value is None else scratch.slot(value)
    return Buffer(_reserve_array(fn, type, sizes, result, slot), sizes, type)


def _has_room(fn: FunctionBuilder, type: Array, sizes: Sequence[str]) -> bool:
    """True if the function's stack frame has space for the array, which is then reserved."""
    size = types.width(type.dtype) * int(fn.product(sizes))
    if not fn.target.is_gpu and fn.frame + size > (FRAME_IN_RECURSION if fn.module.recursive else FRAME):
        return False
    fn.frame += size
    return True


def cleared(fn: FunctionBuilder, type: Array, unknown: Sequence[str]) -> str:
    """The pointer to a new array of zeros in the arena; ``unknown`` are the sizes that the type lacks."""
    rest = iter(unknown)
    sizes = [next(rest) if d is None else str(d) for d in type.dims]
    ptr = _reserve_array(fn, type, sizes)
    size = fn.mul(fn.product(sizes), str(types.width(type.dtype)))
    fn.writer.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
    fn.code.call_void("@llvm.memset.p0.i64", ("ptr", ptr), ("i8", "0"), ("i64", size), ("i1", "false"))
    return ptr


def _may_be_result(fn: FunctionBuilder, v: Value) -> bool:
    """True if ``v`` may be returned by a function that only entries call, and is allocated once in a run."""
    if fn.target.is_gpu or fn.module.is_called(fn.func) or fn.forest.loop_of(fn.block) is not None:
        return False
    return result_buffers.available() and fn.plan.roots.is_returned(v)


def _result(fn: FunctionBuilder, size: str) -> str:
    """The pointer to an array: in a block if it is large and there is one, otherwise in the arena."""
    code = fn.code
    ask, take, arena, done = code.label("large"), code.label("take"), code.label("small"), code.label("have")
    out = code.phi("ptr", done, "a")
    code.branch(code.icmp("uge", "i64", size, str(result_buffers.LARGE), hint="c"), ask, arena)
    code.start(ask)
    routine = code.load("ptr", fn.field("blocks_take"))
    code.branch(code.icmp("ne", "ptr", routine, "null", hint="c"), take, arena)
    code.start(take)
    taken = code.call("ptr", routine, ("ptr", "%ctx"), ("i64", size), note=" nounwind")
    code.add_incoming(out, taken)
    code.branch(code.icmp("ne", "ptr", taken, "null", hint="c"), done, arena)
    code.start(arena)
    made = reserve(fn, size, ALIGN)
    code.add_incoming(out, made)
    code.jump(done)
    code.start(done)
    return out


def _bytes(fn: FunctionBuilder, type: Array, sizes: Sequence[str]) -> str:
    """The size in bytes, or −1 on overflow, which no arena can satisfy."""
    known, unknown = _known(type, sizes)
    if not unknown:
        return str(known)
    return product(fn.writer, fn.code, unknown[0], [*unknown[1:], str(known)])


def _known(type: Array, sizes: Sequence[str]) -> tuple[int, list[str]]:
    """The bytes of an element times the known sizes, and the unknown sizes."""
    known = math.prod((int(s) for s in sizes if s[0] != "%"), start=types.width(type.dtype))
    return known, [s for s in sizes if s[0] == "%"]


def _reserve_array(fn: FunctionBuilder, type: Array, sizes: Sequence[str], result: bool = False,
                   slot: str = "") -> str:
    """Memory for an array.

    ``result``: it may be in a block.  ``slot``: the slot that holds its memory (``loop_buffers.py``), or ``""``.
    """
    known, unknown = _known(type, sizes)
    result = result and (bool(unknown) or known >= result_buffers.LARGE)
    if (fn.in_place > 0 or fn.target.is_gpu) and not slot:
        fn.in_place -= 1
        size = _bytes(fn, type, sizes)
        return _result(fn, size) if result else reserve(fn, size, ALIGN)
    given: Sequence[object] = (known, *unknown) if len(unknown) <= MOST else [_bytes(fn, type, sizes)]
    callee = reserving(fn.writer, len(given) - 1, "scratch" if slot else "result" if result else "reserve")
    args = [("ptr", "%ctx"), *([("ptr", slot)] if slot else ()), *(("i64", str(n)) for n in given)]
    at = fn.code.call("ptr", callee, *args, flags="preserve_mostcc", hint="a")
    fn.require(fn.code.icmp("ne", "ptr", at, "null", hint="fits"), fn.shortage(context.MEMORY))
    fn.allocates()
    return at


def reserve(fn: FunctionBuilder, size: str, align: int) -> str:
    """A pointer to ``size`` new bytes; the program raises ``MemoryError`` if the arena is full."""
    code, field = fn.code, fn.field("arena_top")
    top = code.load("ptr", field, hint="top")
    end = code.load("ptr", fn.field("arena_end"), hint="end")
    at, limit = code.cast("ptrtoint", "ptr", top, "i64"), code.cast("ptrtoint", "ptr", end, "i64")
    room = fn.writer.declare("llvm.usub.sat.i64", "i64", "i64, i64")
    free = code.call("i64", room, ("i64", limit), ("i64", at), hint="free")
    fn.require(code.icmp("ule", "i64", size, free, hint="fits"), fn.shortage(context.MEMORY))
    if align > 8:                                    # ``arena_end`` leaves a margin for this step
        step = code.arith("and", "i64", code.arith("sub", "i64", "0", at), str(align - 1))
        top = code.address("i8", top, step, hint="a")
    if size[0] == "%":
        rounded = code.arith("and", "i64", code.arith("add", "i64", size, "7"), "-8")
    else:
        rounded = str((int(size) + 7) & -8)
    after = code.address("i8", top, rounded)
    code.store("ptr", after, field)
    fn.allocates()
    return top


# --- release -----------------------------------------------------------------------------------------------

class Recycler:
    """Releases what the iterations of one loop allocate."""

    def __init__(self, fn: FunctionBuilder, loop: Loop) -> None:
        self.fn, self.loop = fn, loop
        self.state = ""
        self.entrances: list[Fragment] = []
        held = fn.places.steady | fn.places.slotted
        self.params = [p for p in loop.head.params if isinstance(p.type, Array) and p not in held]

    def enter(self) -> None:
        """At the loop's entry: record the mark; the two spaces do not exist yet."""
        self.entrances.append(self.fn.code.gap())
        if self.state:
            self._fill_gaps()

    def _fill_gaps(self) -> None:
        """Write the code at the entries, once an iteration is known to allocate.  Other loops need no mark."""
        self.fn.writer.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        for gap in self.entrances:
            field = gap.address("i8", "%ctx", context.offset("arena_top"), hint="field")
            mark = gap.load("i64", field, hint="mark")
            gap.store("i64", mark, self.state)
            size = str(8 * arena_runtime.LOOP_WORDS - 8)
            gap.call_void("@llvm.memset.p0.i64", ("ptr", gap.address("i8", self.state, 8)), ("i8", "0"), ("i64", size),
                          ("i1", "false"))
            gap.store("i64", mark, gap.address("i8", self.state, 8 * arena_runtime.SETTLED))
        self.entrances.clear()

    def next(self, passed: list[types.Lowered]) -> None:
        """At a back edge that passes ``passed`` to the head's parameters; updates ``passed``."""
        if not self.fn.allocating & self.loop.blocks:
            return
        if not self.state:
            self.state = self.fn.code.alloca("i64", arena_runtime.LOOP_WORDS)
            self._fill_gaps()
        at = [p.index for p in self.params]
        buffers = [passed[i] for i in at]
        moved = _call_if_used(self.fn, self.state, "jitad.recycle", buffers, arena_runtime.SETTLED)
        for i, buffer in zip(at, moved):
            passed[i] = buffer


def recycles(fn: FunctionBuilder, loop: Loop) -> bool:
    """True if the iterations of ``loop`` allocate arrays or frames, and leave no frames behind."""
    makes = any(isinstance(v.type, (Array, Stack)) for b in loop.blocks for v in _made(b))
    carries = any(isinstance(p.type, Stack) for p in loop.head.params)
    return makes and not (carries and any(isinstance(v.type, Stack) for b in loop.blocks for v in _made(b)))


def _made(block: Block) -> list[Value]:
    """The values that a block creates: results of its ops, and of the call that ends it.

    The results of ``pop`` were created elsewhere, except arrays of zeros.
    """
    made = [v for op in block.ops for v in op.results
            if op.name != "pop" or op.attrs.get("zeros") and isinstance(v.type, Array)]
    if block.term is not None and block.term.name == "call":
        made += block.term.edges[0].results
    return made


def keep_results(fn: FunctionBuilder, op: Op, mark: str, values: list[types.Lowered]) -> list[types.Lowered]:
    """On return: move array results down to the function's mark and release the rest.

    A function that only entries call leaves them in place: the entry copies them and empties the arena.
    """
    values = [_out_of_frame(fn, v, x) for v, x in zip(op.operands, values)]
    if not fn.allocating or any(isinstance(v.type, Stack) for v in op.operands):
        return values
    if not fn.module.is_called(fn.func):
        return values
    at = [i for i, v in enumerate(values) if isinstance(v, Buffer)]
    for i, buffer in zip(at, _call_if_used(fn, mark, "jitad.keep", [values[i] for i in at])):
        values[i] = buffer
    return values


def _out_of_frame(fn: FunctionBuilder, v: Value, value: types.Lowered) -> types.Lowered:
    """A copy in the arena of a result that may be in the stack frame."""
    if not isinstance(value, Buffer) or not fn.places.may_be_local(v):
        return value
    copy = Buffer(_reserve_array(fn, value.type, value.sizes), value.sizes, value.type)
    _copy(fn, copy.ptr, value.ptr, _bytes(fn, value.type, value.sizes))
    return copy


def _copy(fn: FunctionBuilder, to: str, source: str, size: str) -> None:
    callee = fn.writer.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    fn.code.call_void(callee, ("ptr", to), ("ptr", source), ("i64", size), ("i1", "false"))


class Slots:
    """The slots in the stack frame of a loop's slotted parameters."""

    def __init__(self, fn: FunctionBuilder, loop: Loop) -> None:
        self.fn = fn
        self.slots: dict[int, Buffer] = {}
        for p in loop.head.params:
            if p in fn.places.slotted and isinstance(p.type, Array):
                self.slots[p.index] = self._frame(p.type)

    def _frame(self, t: Array) -> Buffer:
        sizes = tuple(str(d) for d in t.dims)
        count = int(self.fn.product(sizes))
        return Buffer(self.fn.code.alloca(types.memory(t.dtype), count, 8), sizes, t)

    def fill(self, passed: list[types.Lowered]) -> None:
        """Copy the arguments of an edge into the slots, in parallel; ``passed`` then names the slots."""
        moves: list[tuple[Buffer, Buffer]] = []
        for i, slot in self.slots.items():
            given, passed[i] = passed[i], slot
            assert isinstance(given, Buffer)
            if given.ptr != slot.ptr:
                moves.append((slot, given))
        if len(moves) > 1:                           # the source of one may be the destination of another
            fresh = [self._frame(slot.type) for slot, _ in moves]
            for copy, (_, given) in zip(fresh, moves):
                self._move(copy, given)
            moves = [(slot, copy) for copy, (slot, _) in zip(fresh, moves)]
        for slot, given in moves:
            self._move(slot, given)

    def _move(self, to: Buffer, source: Buffer) -> None:
        _copy(self.fn, to.ptr, source.ptr, _bytes(self.fn, to.type, to.sizes))


def _call_if_used(fn: FunctionBuilder, state: str, routine: str, arrays: Sequence[types.Lowered],
                  settled: int = 0) -> list[Buffer]:
    """Call a routine of ``arena_runtime`` on a table of arrays if the arena's top is above the mark in ``state``.

    ``settled``: the word of ``state`` with the top up to which there is nothing to release.  Without arrays the top is
    set back to the mark inline, and ``state`` is a register.
    """
    code, buffers = fn.code, [b for b in arrays if isinstance(b, Buffer)]
    mark = code.load("i64", code.address("i8", state, 8 * settled) if buffers and settled else state)
    top = code.load("i64", fn.field("arena_top"), hint="top")
    call, done, before = code.label("move"), code.label("moved"), code.here
    out = [code.phi("ptr", done) for _ in buffers]
    code.branch(code.icmp("ne", "i64", top, mark, hint="c"), call, done)
    code.start(call)
    if not buffers:
        _lower_top(fn, top, mark)
        code.jump(done)
        code.start(done)
        return []
    table = code.alloca("i64", 2 * len(buffers))
    for i, b in enumerate(buffers):
        at = code.address("i8", table, 16 * i)
        if fn.target.has_short_pointers:                 # the routine reads the whole word
            code.store("i64", "0", at)
        code.store("ptr", b.ptr, at)
        at = code.address("i8", table, 16 * i + 8)
        code.store("i64", fn.mul(fn.product(b.sizes), str(types.width(b.dtype))), at)
    callee = arena_runtime.declare(fn.writer, routine)
    code.call_void(callee, ("ptr", "%ctx"), ("ptr", state), ("i64", str(len(buffers))), ("ptr", table))
    for i, (b, phi) in enumerate(zip(buffers, out)):
        at = code.address("i8", table, 16 * i)
        code.add_incoming(phi, code.load("ptr", at))
        code.add_incoming(phi, b.ptr, before)
    code.jump(done)
    code.start(done)
    return [Buffer(phi, b.sizes, b.type) for b, phi in zip(buffers, out)]


def _lower_top(fn: FunctionBuilder, top: str, mark: str) -> None:
    """Release everything above the mark, and record the highest top."""
    code, high = fn.code, fn.field("arena_high")
    umax = fn.writer.declare("llvm.umax.i64", "i64", "i64, i64")
    higher = code.call("i64", umax, ("i64", top), ("i64", code.load("i64", high)))
    code.store("i64", higher, high)
    code.store("i64", mark, fn.field("arena_top"))
