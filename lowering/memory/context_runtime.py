"""LLVM routines that prepare a context for its thread and return its memory, shared by all modules.

They are machine code, not calls of Python, in which a signal handler might raise.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence

from ..llvm import context, float_state
from ..llvm.capi import function, symbols
from ..llvm.emit import Writer

INTRINSICS = (
    ("llvm.sadd.sat.i64", "i64", "i64, i64"),
    ("llvm.umax.i64", "i64", "i64, i64"),
    ("llvm.usub.sat.i64", "i64", "i64, i64"),
)


def trim_text(operand: Callable[[str], str] = function, page: int = mmap.PAGESIZE,
              advices: Sequence[tuple[int, int]] | None = None) -> str:
    """``context.trim`` as LLVM IR, except that the caller empties the arena.

    ``operand`` gives the LLVM operand of a function of the C library: by default its address in this process.
    ``advices``: see ``context.given_back``.
    """
    at, advices = context.offset, context.given_back() if advices is None else advices
    advise = "\n".join(_ADVISE.format(n=n, first=first, advice=advice, madvise=operand("madvise"))
                       for n, (first, advice) in enumerate(advices))
    return f"""define void @jitad.trim(ptr %ctx, i64 %high) cold {{
  %at = getelementptr inbounds i8, ptr %ctx, i64 {at("arena_base")}
  %base = load i64, ptr %at, align 8
  %field = getelementptr inbounds i8, ptr %ctx, i64 {at("arena_high")}
  store i64 %base, ptr %field, align 8
  %more = add i64 %high, {page - 1}
  %end = and i64 %more, {-page}
{advise}
  ret void
}}
"""


_ADVISE = """  %start{n} = add i64 %base, {first}
  %length{n} = call i64 @llvm.usub.sat.i64(i64 %end, i64 %start{n})
  %status{n} = call i32 {madvise}(i64 %start{n}, i64 %length{n}, i32 {advice})"""


def bind_text(operand: Callable[[str], str] = function) -> str:
    """Text of ``jitad.bind``: set ``stack_limit`` for the calling thread, as ``context.new`` does, and ``thread``.

    If the system does not report the stack's end, recursion is disabled.  ``operand``: as for ``trim_text``.
    """
    at = context.offset
    return f"""define void @jitad.bind(ptr %ctx, i64 %number) cold {{
  %attributes = alloca [64 x i8], align 8
  %low = alloca i64, align 8
  %size = alloca i64, align 8
  %thread = call i64 {operand("pthread_self")}()
  %status = call i32 {operand("pthread_getattr_np")}(i64 %thread, ptr %attributes)
  %known = icmp eq i32 %status, 0
  br i1 %known, label %told, label %guessed
told:
  %found = call i32 {operand("pthread_attr_getstack")}(ptr %attributes, ptr %low, ptr %size)
  %gone = call i32 {operand("pthread_attr_destroy")}(ptr %attributes)
  %lowest = load i64, ptr %low, align 8
  %length = load i64, ptr %size, align 8
  %end = add i64 %lowest, %length
  %least = sub i64 %end, {context.MOST_STACK}
  %bottom = call i64 @llvm.umax.i64(i64 %lowest, i64 %least)
  br label %done
guessed:
  %here = ptrtoint ptr %attributes to i64
  br label %done
done:
  %from = phi i64 [ %bottom, %told ], [ %here, %guessed ]
  %limit = add i64 %from, {context.GUARD}
  %field = getelementptr inbounds i8, ptr %ctx, i64 {at("stack_limit")}
  store i64 %limit, ptr %field, align 8
  %whose = getelementptr inbounds i8, ptr %ctx, i64 {at("thread")}
  store i64 %number, ptr %whose, align 8
  ret void
}}
"""


_POLL = """define i32 @jitad.poll(ptr %ctx) {{
  %floats = call i64 @jitad.callers_floats(ptr %ctx)
  %state = call i32 {}()
  %status = call i32 {}()
  call void {}(i32 %state)
  call void @jitad.set_floats(i64 %floats)
  ret i32 %status
}}
"""

ROUTINES = ("jitad.poll", "jitad.trim", "jitad.bind")


def define(writer: Writer) -> None:
    """Write the routines that all entries share into a module."""
    for text in INTRINSICS:
        writer.declare(*text)
    float_state.define(writer)
    names = ("PyGILState_Ensure", "PyErr_CheckSignals", "PyGILState_Release")
    texts = {"poll": _POLL.format(*map(function, names)), "trim": trim_text(), "bind": bind_text()}
    for name, body in texts.items():
        writer.function(f"jitad.{name}", body)
        writer.outside(symbols(body))
