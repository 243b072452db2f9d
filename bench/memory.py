"""Memory that a call touches: the peak growth of the resident set.

Linux resets the high-water mark on request (``/proc/self/clear_refs``).  Free memory held by allocators, including
jitad's arenas and blocks, is returned to the system before, so that a second call pays for its memory like the first.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Callable
from typing import Any

from jitad.lowering.llvm import context
from jitad.lowering.memory import result_buffers


def _kilobytes(field: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))


def growth(program: Callable[[], Any]) -> int | None:
    """The bytes by which a call raises the peak resident set; None if the system does not tell."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        program()
        return None
    gc.collect()
    context.rest()
    result_buffers.rest()
    with contextlib.suppress(AttributeError):               # glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as request:
        request.write("5")
    before = _kilobytes("VmRSS:")
    result = program()
    after = _kilobytes("VmHWM:")
    del result
    return 1024 * max(0, after - before)
