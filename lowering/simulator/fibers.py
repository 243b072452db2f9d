"""Fibers: the switch from one stack to another, in assembly, and the stacks.

``@gpu.switch(ptr save, ptr to, ptr argument)`` pushes the registers that a callee preserves, stores the stack pointer
at ``save``, continues on the stack ``to`` and restores what was pushed there.  A fresh stack looks as if the first
instruction of ``@gpu.main`` had been interrupted; ``argument`` is the argument of that function.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable

from ...errors import DeviceError
from ..llvm.address_space import reserved

STACK = 512 << 10
"""Bytes of a thread's stack: what CUDA offers as local memory of a thread at most."""
MARGIN = 64 << 10
"""Bytes of a stack for libm and for signal handlers, which do not check whether there is room."""
GUARD = 64 << 10
STRIDE = STACK + GUARD
"""Distance of two stacks; the lowest ``GUARD`` bytes of each cannot be accessed."""
COLOURS, COLOUR = 64, 64
"""Stacks begin at 64 different multiples of 64 bytes; otherwise all of them would compete for one set of the cache."""

_PRESERVED_X86 = ("rbp", "rbx", "r12", "r13", "r14", "r15")
# Pairs, as ``stp`` and ``ldp`` take them: the k-th at 16 k.
_PRESERVED_ARM = ("x19, x20", "x21, x22", "x23, x24", "x25, x26", "x27, x28", "x29, x30",
                  "d8, d9", "d10, d11", "d12, d13", "d14, d15")


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


_X86 = f"""
  .text
  .p2align 4
  .type gpu.switch, @function
gpu.switch:
{_lines(f"pushq %{register}" for register in _PRESERVED_X86)}
  movq %rsp, (%rdi)
  movq %rsi, %rsp
{_lines(f"popq %{register}" for register in reversed(_PRESERVED_X86))}
  movq %rdx, %rdi
  retq
"""
_ARM = f"""
  .text
  .p2align 4
  .type gpu.switch, %function
gpu.switch:
  sub sp, sp, #160
{_lines(f"stp {pair}, [sp, #{16 * k}]" for k, pair in enumerate(_PRESERVED_ARM))}
  mov x9, sp
  str x9, [x0]
  mov sp, x1
{_lines(f"ldp {pair}, [sp, #{16 * k}]" for k, pair in enumerate(_PRESERVED_ARM))}
  add sp, sp, #160
  mov x0, x2
  ret
"""
_SWITCHES = {"x86_64": _X86, "aarch64": _ARM}
# Bytes of a fresh stack, and the place of the address of ``@gpu.main`` in them: a return address with the stack
# misaligned by 8, as behind a call, and the saved register x30.
_FRESH = {"x86_64": (64, 48), "aarch64": (160, 88)}


def switch_text(triple: str) -> str:
    """The switch as module assembly, with its declaration."""
    assembly = _SWITCHES.get(_processor(triple))
    if assembly is None:
        raise DeviceError(f"the GPU simulator does not run on {triple}", hint="use x86-64 or aarch64")
    lines = [f'module asm "{line}"' for line in assembly.strip("\n").split("\n")]
    return "\n".join([*lines, "declare void @gpu.switch(ptr, ptr, ptr)"])


def _processor(triple: str) -> str:
    return triple.split("-")[0]


def fresh_text(triple: str) -> str:
    """``ptr @gpu.fresh(ptr top)``: writes a fresh stack below an address, which is a multiple of 16."""
    size, place = _FRESH[_processor(triple)]
    return f"""define internal ptr @gpu.fresh(ptr %top) nounwind {{
  %stack = getelementptr i8, ptr %top, i64 {-size}
  call void @llvm.memset.p0.i64(ptr align 8 %stack, i8 0, i64 {size}, i1 false)
  %place = getelementptr i8, ptr %stack, i64 {place}
  store ptr @gpu.main, ptr %place, align 8
  ret ptr %stack
}}
"""


class Stacks:
    """The stacks of ``count`` fibers: number k ends ``STRIDE`` times k + 1 bytes above ``address``."""

    def __init__(self, count: int) -> None:
        try:
            self._region = reserved(count * STRIDE)
        except (OSError, ValueError, OverflowError):
            raise MemoryError(f"no address space for the stacks of {count} simulated threads") from None
        self.count = count
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._region))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int
        for k in range(count):
            if protect(self.address + k * STRIDE, GUARD, 0):
                raise MemoryError("the stacks of simulated threads cannot be guarded")


_idle: list[Stacks] = []
_lock = threading.Lock()


def _forked() -> None:
    global _lock
    _lock = threading.Lock()                                   # another thread may have held it


os.register_at_fork(after_in_child=_forked)


def take(count: int) -> Stacks:
    """Stacks for at least ``count`` fibers, which nobody else uses until ``give``."""
    with _lock:
        fit = [stacks for stacks in _idle if stacks.count >= count]
        if fit:
            best = min(fit, key=lambda stacks: stacks.count)
            _idle.remove(best)
            return best
    return Stacks(count)


def give(stacks: Stacks) -> None:
    """Make stacks available to others."""
    with _lock:
        _idle.append(stacks)
