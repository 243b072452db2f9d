"""The state of a thread: eight words that every device function receives by address.

::

    status        the address of the kernel's status (``image``)
    top, end      memory for arrays: the first free byte, and the end
    frame, limit  memory for frames: the number of the first free word, and the end
    base, stride  the address of word 0 of this thread's frames; the bytes from one word to the next
    depth         the calls of recursive functions that are still possible

Words of frames of neighbouring threads lie beside each other, so that a warp that saves values writes whole lines.
Memory for arrays is one piece for each thread.  LLVM turns these words into registers where calls are inlined.
"""

from __future__ import annotations

import os
from functools import cache

from ....ir.graph import Op
from ...llvm import context
from ...llvm.emit import Writer
from ..image import STATUS_WORDS
from .emitter import Emitter

WORDS = ("status", "top", "end", "frame", "limit", "base", "stride", "depth")
TYPES = {"status": "ptr", "base": "ptr"}
ALIGN = 16
STACK = 64
"""KiB of the call stack of a thread in a kernel with recursion, where ``JITAD_GPU_STACK`` is unset.  A device reserves
them for all threads that it can run at once: 17 GB on an H100."""
MOST_STACK = 512
"""KiB that a thread can have."""
FRAME = 1 << 10
"""Bytes of the stack that a call may take."""
MESSAGE = 4
"""Words of a message that a status has room for."""



@cache
def stack_size() -> int:
    """Bytes of the call stack of a thread in a kernel with recursion, the same in all of a process."""
    given = os.environ.get("JITAD_GPU_STACK", "")
    if given and not (given.isdecimal() and 0 < int(given) <= MOST_STACK):
        raise ValueError(f"JITAD_GPU_STACK={given}: expected KiB from 1 to {MOST_STACK}")
    return (int(given) if given else STACK) << 10


_FAIL = """define internal void @gpu_fail(ptr %status, i64 %code, i64 %a, i64 %b, i64 %c, i64 %d) noinline nounwind {
entry:
  %r = cmpxchg ptr %status, i64 0, i64 %code monotonic monotonic, align 8
  %first = extractvalue { i64, i1 } %r, 1
  br i1 %first, label %tell, label %done
tell:
  %pa = getelementptr inbounds i64, ptr %status, i64 1
  %pb = getelementptr inbounds i64, ptr %status, i64 2
  %pc = getelementptr inbounds i64, ptr %status, i64 3
  %pd = getelementptr inbounds i64, ptr %status, i64 4
  store i64 %a, ptr %pa, align 8
  store i64 %b, ptr %pb, align 8
  store i64 %c, ptr %pc, align 8
  store i64 %d, ptr %pd, align 8
  br label %done
done:
  ret void
}
"""
assert MESSAGE < STATUS_WORDS

_FAILED = """define internal i1 @gpu_failed(ptr %status) alwaysinline nounwind {
entry:
"""
_LOOKS = """  %x = load atomic i64, ptr %status monotonic, align 8
  %failed = icmp ne i64 %x, 0
  ret i1 %failed
}
"""


def define_failed(writer: Writer) -> bool:
    """Define what kernels ask first; true if some function may fail, without which they need not look."""
    fails = writer.defines("gpu_fail")
    writer.function("gpu_failed", _FAILED + (_LOOKS if fails else "  ret i1 false\n}\n"))
    return fails


class Thread:
    """The thread's words at ``ctx``; ``shortages``: how a lack of memory or stack ends the function."""

    def __init__(self, e: Emitter, ctx: str = "%ctx") -> None:
        self.e, self.ctx = e, ctx

    def _at(self, name: str) -> str:
        return self.e.offset(self.ctx, str(8 * WORDS.index(name)))

    def get(self, name: str) -> str:
        return self.e.load_word(TYPES.get(name, "i64"), self._at(name))

    def set(self, name: str, x: str) -> None:
        self.e.store_word(TYPES.get(name, "i64"), x, self._at(name))

    def tell(self, code: str, words: list[str]) -> None:
        """Record a failure, unless another thread has recorded one."""
        name = self.e.writer.function("gpu_fail", _FAIL)
        given = [self.get("status"), code, *words, *["0"] * (MESSAGE - len(words))]
        typed = [f"{'i64' if i else 'ptr'} {x}" for i, x in enumerate(given)]
        self.e.code.do(f"call void {name}({', '.join(typed)})")

    def marks(self) -> tuple[str, str]:
        return self.get("top"), self.get("frame")

    def release(self, marks: tuple[str, str]) -> None:
        self.set("top", marks[0])
        self.set("frame", marks[1])


def words_of_message(e: Emitter, op: Op, first: int) -> list[str]:
    """The operands of a message as words: floats as f64, integers extended."""
    out = []
    for v in op.operands[first:first + MESSAGE]:
        t, x = v.type, e.scalar(v)
        out.append(_word(e, t, x))
    return out


def _word(e: Emitter, t: object, x: str) -> str:
    kind = getattr(t, "name", "")
    if kind == "f64":
        return e.code.op(f"bitcast double {x} to i64")
    if kind == "f32":
        return e.code.op(f"bitcast double {e.code.op(f'fpext float {x} to double')} to i64")
    if kind == "bool":
        return e.code.op(f"zext i1 {x} to i64")
    bits = int(kind[1:])
    return x if bits == 64 else e.code.op(f"{'sext' if kind[0] == 'i' else 'zext'} i{bits} {x} to i64")


MEMORY_ERROR, RECURSION_ERROR = context.MEMORY, context.RECURSION
