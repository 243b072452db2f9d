"""Compiling needs more stack than a thread may have: then another thread does it.

LLVM recurses over the code that it makes, importing the compiler nests deep, and CPython lets a thread have as little
as 32 KiB.
"""

from __future__ import annotations

import contextvars
import ctypes
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

ENOUGH = 1 << 20
ROOMY = 1 << 26
_setting = threading.Lock()


def with_room(work: Callable[[], T]) -> T:
    """What ``work`` yields or raises, run in a thread with a large stack where this one has a small one."""
    here = threading.current_thread()
    if here is threading.main_thread() or isinstance(here, _Worker) or stack_size() >= ENOUGH:
        return work()
    worker = _Worker(work)
    with _setting:                                       # the size is one setting for all threads
        before = threading.stack_size(ROOMY)
        try:
            worker.start()
        finally:
            threading.stack_size(before)
    worker.join()
    if worker.error is not None:
        raise worker.error
    result: T = worker.result
    return result


def stack_size() -> int:
    """Bytes of this thread's stack.  Where the system does not tell, new threads have as much."""
    libc = ctypes.CDLL(None)
    attributes = ctypes.create_string_buffer(64)         # pthread_attr_t
    low, size = ctypes.c_size_t(), ctypes.c_size_t()
    try:
        libc.pthread_self.restype = ctypes.c_size_t
        if libc.pthread_getattr_np(ctypes.c_size_t(libc.pthread_self()), attributes) == 0:
            libc.pthread_attr_getstack(attributes, ctypes.byref(low), ctypes.byref(size))
            libc.pthread_attr_destroy(attributes)
            return size.value
    except AttributeError:
        pass
    with _setting:
        before = threading.stack_size()                  # which sets it to the default
        threading.stack_size(before)
    return before or ENOUGH


class _Worker(threading.Thread):
    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(name="jitad compiles", daemon=True)
        self.work, self.context = work, contextvars.copy_context()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.context.run(self.work)
        except BaseException as e:
            self.error = e
