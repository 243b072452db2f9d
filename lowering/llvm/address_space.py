"""Address space without memory: pages take memory when they are first touched.

The mappings are not counted as memory that this process may use.  Linux otherwise refuses to fork once one of them, or
several that are neighbours, exceed the machine's memory.
"""

from __future__ import annotations

import mmap
import platform
import sys

# Python names the flag from 3.13 on.  Its value is that of Linux on these processors.
_ALIKE = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64", "riscv64", "s390x")
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if _ALIKE else 0)


def reserved(size: int) -> mmap.mmap:
    """Reserve ``size`` bytes; raises ``OSError``, ``ValueError`` or ``OverflowError`` if the system refuses."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
