"""Short routines that all modules share: they allocate arrays and poll for signals.  A function costs a millisecond to
compile, so they are not compiled in each module.

::

    ptr @jitad.reserve(ptr %ctx, i64 %bytes)                          null if the arena is full
    ptr @jitad.reserve.2(ptr %ctx, i64 %bytes, i64 %n0, i64 %n1)      %bytes * %n0 * %n1, which may overflow
    ptr @jitad.result.2(ptr %ctx, i64 %bytes, i64 %n0, i64 %n1)       in a block if it is large (``result_buffers.py``)
    ptr @jitad.scratch.2(ptr %ctx, ptr %slot, …)                      the memory of the last iteration, if it suffices
    i32 @jitad.ask(ptr %ctx)                                          calls the poll handler; nonzero means stop

Callers keep their values in registers across them (``preserve_mostcc``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm import context
from ..llvm.code import Code
from ..llvm.emit import Writer
from . import result_buffers

MOST = 2                    # largest number of sizes that a routine takes
ROUTINES = ("jitad.ask", *(f"jitad.{what}{n}" for what in ("reserve", "result", "scratch") for n in ("", ".1", ".2")))
_MAKING = "nounwind willreturn memory(argmem: readwrite)"
_ASKING = "cold nounwind memory(argmem: readwrite, inaccessiblemem: readwrite)"

_RESERVE = """define preserve_mostcc ptr @jitad.reserve(ptr %ctx, i64 %size) nounwind {{
entry:
  %top.at = getelementptr inbounds i8, ptr %ctx, i64 {top}
  %end.at = getelementptr inbounds i8, ptr %ctx, i64 {end}
  %top = load i64, ptr %top.at, align 8
  %end = load i64, ptr %end.at, align 8
  %free = call i64 @llvm.usub.sat.i64(i64 %end, i64 %top)
  %fits = icmp ule i64 %size, %free
  br i1 %fits, label %room, label %none
room:
  %top63 = add i64 %top, 63
  %at = and i64 %top63, -64
  %size7 = add i64 %size, 7
  %rounded = and i64 %size7, -8
  %new = add i64 %at, %rounded
  store i64 %new, ptr %top.at, align 8
  %p = inttoptr i64 %at to ptr
  ret ptr %p
none:
  ret ptr null
}}
"""

# A slot is a pointer, initially null, and the number of bytes there (``loop_buffers.py``).  It at least doubles: arrays
# that grow from iteration to iteration take twice the memory of the last one together.
_SCRATCH = """define preserve_mostcc ptr @jitad.scratch(ptr %ctx, ptr %slot, i64 %size) nounwind {
entry:
  %room.at = getelementptr inbounds i8, ptr %slot, i64 8
  %last = load ptr, ptr %slot, align 8
  %none = icmp eq ptr %last, null
  br i1 %none, label %exact, label %look
look:
  %room = load i64, ptr %room.at, align 8
  %fits = icmp ule i64 %size, %room
  br i1 %fits, label %again, label %grow
again:
  ret ptr %last
grow:
  %twice = shl i64 %room, 1
  %larger = call i64 @llvm.umax.i64(i64 %size, i64 %twice)
  %grown = call preserve_mostcc ptr @jitad.reserve(ptr %ctx, i64 %larger)
  %full = icmp eq ptr %grown, null
  br i1 %full, label %exact, label %note
exact:
  %made = call preserve_mostcc ptr @jitad.reserve(ptr %ctx, i64 %size)
  %lack = icmp eq ptr %made, null
  br i1 %lack, label %done, label %note
note:
  %new = phi ptr [ %grown, %grow ], [ %made, %exact ]
  %bytes = phi i64 [ %larger, %grow ], [ %size, %exact ]
  store ptr %new, ptr %slot, align 8
  store i64 %bytes, ptr %room.at, align 8
  ret ptr %new
done:
  ret ptr null
}
"""

_ASK = """define preserve_mostcc i32 @jitad.ask(ptr %ctx) nounwind {{
entry:
  %at = getelementptr inbounds i8, ptr %ctx, i64 {poll}
  %poll = load ptr, ptr %at, align 8
  %nobody = icmp eq ptr %poll, null
  br i1 %nobody, label %go.on, label %ask
ask:
  %stop = call i32 %poll(ptr %ctx) nounwind
  ret i32 %stop
go.on:
  ret i32 0
}}
"""


def reserving(writer: Writer, sizes: int, what: str) -> str:
    """``@name`` of the routine for this number of sizes; ``what``: ``reserve``, ``result`` or ``scratch``."""
    name = f"jitad.{what}" + (f".{sizes}" if sizes else "")
    attributes = "nounwind" if what == "result" else writer.attributes(_MAKING)
    given = ["ptr", *(["ptr"] if what == "scratch" else ()), "i64", *["i64"] * sizes]
    return writer.declare(name, "preserve_mostcc ptr", ", ".join(given), attributes)


def asking(writer: Writer) -> str:
    """``@name`` of the poll routine, ``i32 (ctx)``."""
    return writer.declare("jitad.ask", "preserve_mostcc i32", "ptr", writer.attributes(_ASKING))


def define(writer: Writer) -> None:
    """Write the routines into a module."""
    writer.declare("llvm.usub.sat.i64", "i64", "i64, i64")
    writer.declare("llvm.umax.i64", "i64", "i64, i64")
    top, end, poll = (context.offset(name) for name in ("arena_top", "arena_end", "poll"))
    writer.function("jitad.reserve", _RESERVE.format(top=top, end=end))
    writer.function("jitad.scratch", _SCRATCH)
    writer.function("jitad.ask", _ASK.format(poll=poll))
    for name in ROUTINES:
        if not writer.defines(name):
            writer.function(name, _of_product(writer, name))


def _of_product(writer: Writer, name: str) -> str:
    """The text of ``jitad.reserve.2`` and so on."""
    code, (_, what, *sizes) = Code(), name.split(".")
    names = [f"%n{k}" for k in range(int(sizes[0]) if sizes else 0)]
    size = product(writer, code, "%bytes", names)
    if what == "result":
        _from_block(code, size)
    slot = [("ptr", "%slot")] if what == "scratch" else []
    made = code.call("ptr", f"@jitad.{'scratch' if slot else 'reserve'}", ("ptr", "%ctx"), *slot, ("i64", size),
                     flags="preserve_mostcc")
    code.ret("ptr", made)
    params = ", ".join(f"{t} {x}" for t, x in [("ptr", "%ctx"), *slot, ("i64", "%bytes"), *(("i64", n) for n in names)])
    return f"define preserve_mostcc ptr @{name}({params}) nounwind {{\n{code.text()}\n}}\n"


def product(writer: Writer, code: Code, first: str, sizes: Sequence[str]) -> str:
    """The product of sizes, or −1 on overflow, which no arena can satisfy."""
    total, over = first, ""
    for n in sizes:
        callee = writer.declare("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64, i64")
        pair = code.call("{ i64, i1 }", callee, ("i64", total), ("i64", n))
        total, flag = code.extract("i64", "{ i64, i1 }", pair, 0), code.extract("i1", "{ i64, i1 }", pair, 1)
        over = code.arith("or", "i1", over, flag) if over else flag
    return code.select(over, "i64", "-1", total) if over else total


def _from_block(code: Code, size: str) -> None:
    """Emit: return a block if the size is large and there is one."""
    large, take, taken, arena = (code.label(hint) for hint in ("large", "take", "taken", "arena"))
    code.branch(code.icmp("uge", "i64", size, str(result_buffers.LARGE)), large, arena)
    code.start(large)
    at = code.address("i8", "%ctx", context.offset("blocks_take"))
    routine = code.load("ptr", at)
    code.branch(code.icmp("ne", "ptr", routine, "null"), take, arena)
    code.start(take)
    block = code.call("ptr", routine, ("ptr", "%ctx"), ("i64", size), note=" nounwind")
    code.branch(code.icmp("ne", "ptr", block, "null"), taken, arena)
    code.start(taken)
    code.ret("ptr", block)
    code.start(arena)
