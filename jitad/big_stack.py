"""Runs the compiler in a thread with a large stack if the current thread may have too small a one.

LLVM recurses over the code that it generates, importing the compiler nests deeply, and CPython allows stacks as small
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
    """Returns or raises the outcome of ``work``, run in a thread with a large stack if this one's is small."""
    here = threading.current_thread()
    if here is threading.main_thread() or isinstance(here, _Worker) or stack_size() >= ENOUGH:
        return work()
    worker = _Worker(work)
    with _setting:                                       # the stack size is a global setting
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
    """The size of this thread's stack in bytes; the default size for new threads if the system does not tell."""
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
        before = threading.stack_size()                  # this call resets it to the default
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
