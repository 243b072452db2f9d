"""The floating-point state of a thread, in which the processor computes with subnormal numbers or takes them for zero.

Entry points set it for the body (``flush``) and restore the caller's state behind it (``restore``), which is recorded
in the context meanwhile.  What does not belong to the program then runs in the caller's state: signal handlers, and
the creation of threads, which inherit the state of their creator.  BLAS may create some too, and runs with subnormal
numbers (``exactly``).

::

    i64 @jitad.floats()                   the state of this thread
    void @jitad.set_floats(i64)           sets it
    i64 @jitad.callers_floats(ptr ctx)    sets the caller's state if it is recorded; returns the state before

LLVM may move float operations across these calls.  They stand around calls that it cannot see into, or where it does
not matter in which state an operation is done.
"""

from __future__ import annotations

from collections.abc import Callable

from . import context
from .code import Code
from .emit import Writer

KNOWN = 1 << 62                # marks a recorded state: the field is 0 if the body runs in its caller's state
FLUSH = {"x86_64": 0x8040,     # FTZ, for results, and DAZ, for operands, in MXCSR
         "aarch64": 1 << 24}   # FZ in FPCR

_X86 = """define internal i64 @jitad.floats() alwaysinline nounwind {
  %at = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  %word = load i32, ptr %at, align 4
  %state = zext i32 %word to i64
  ret i64 %state
}
""", """define internal void @jitad.set_floats(i64 %state) alwaysinline nounwind {
  %at = alloca i32, align 4
  %word = trunc i64 %state to i32
  store i32 %word, ptr %at, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %at)
  ret void
}
"""
_ARM = """define internal i64 @jitad.floats() alwaysinline nounwind {
  %state = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %state
}
""", """define internal void @jitad.set_floats(i64 %state) alwaysinline nounwind {
  call void @llvm.aarch64.set.fpcr(i64 %state)
  ret void
}
"""
_OTHER = """define internal i64 @jitad.floats() alwaysinline nounwind {
  ret i64 0
}
""", """define internal void @jitad.set_floats(i64 %state) alwaysinline nounwind {
  ret void
}
"""
_TEXTS = {"x86_64": _X86, "aarch64": _ARM}

_CALLERS = """define internal i64 @jitad.callers_floats(ptr %ctx) alwaysinline nounwind {{
  %at = getelementptr inbounds i8, ptr %ctx, i64 {floats}
  %recorded = load i64, ptr %at, align 8
  %now = call i64 @jitad.floats()
  %known = icmp ne i64 %recorded, 0
  %theirs = and i64 %recorded, {state}
  %state = select i1 %known, i64 %theirs, i64 %now
  call void @jitad.set_floats(i64 %state)
  ret i64 %now
}}
"""


def processor(triple: str) -> str:
    """The family of processors of a target, as LLVM names it."""
    return triple.partition("-")[0].replace("arm64", "aarch64")


def can_flush(triple: str) -> bool:
    """True if the processor has a state in which it takes subnormal numbers for zero."""
    return processor(triple) in FLUSH


def define(writer: Writer) -> None:
    """Write the routines into a module, unless it has them.  Processors without the state have nothing to set."""
    if writer.defines("jitad.floats"):
        return
    name = processor(writer.triple)
    if name == "x86_64":
        for intrinsic in ("stmxcsr", "ldmxcsr"):
            writer.declare(f"llvm.x86.sse.{intrinsic}", "void", "ptr")
    elif name == "aarch64":
        writer.declare("llvm.aarch64.get.fpcr", "i64", "")
        writer.declare("llvm.aarch64.set.fpcr", "void", "i64")
    read, write = _TEXTS.get(name, _OTHER)
    writer.function("jitad.floats", read)
    writer.function("jitad.set_floats", write)
    writer.function("jitad.callers_floats", _CALLERS.format(floats=context.offset("floats"), state=KNOWN - 1))


def flush(writer: Writer, code: Code, recorded: str) -> str:
    """Emit: take subnormal numbers for zero.  Stores the caller's state in the context's field; returns it."""
    define(writer)
    before = code.call("i64", "@jitad.floats", hint="floats")
    code.store("i64", code.arith("or", "i64", before, str(KNOWN)), recorded)
    bits = FLUSH[processor(writer.triple)]
    code.call_void("@jitad.set_floats", ("i64", code.arith("or", "i64", before, str(bits))))
    return before


def exactly(writer: Writer, code: Code, emit: Callable[[], None]) -> None:
    """Emit ``emit`` with subnormal numbers."""
    define(writer)
    before = code.call("i64", "@jitad.floats", hint="floats")
    bits = FLUSH[processor(writer.triple)]
    code.call_void("@jitad.set_floats", ("i64", code.arith("and", "i64", before, str(~bits))))
    emit()
    code.call_void("@jitad.set_floats", ("i64", before))


def restore(code: Code, recorded: str, before: str) -> None:
    """Emit: return to the caller's state."""
    code.call_void("@jitad.set_floats", ("i64", before))
    code.store("i64", "0", recorded)
