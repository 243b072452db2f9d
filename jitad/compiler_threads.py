"""Runs the compiler, or a part of it, in another thread.

``with_room`` gives it a large stack: LLVM recurses over the code that it generates, importing the compiler nests
deeply, and CPython allows stacks as small as 32 KiB.  ``uninterrupted`` keeps handlers of signals out of it.
"""

from __future__ import annotations

import contextvars
import ctypes
import sys
import threading
from collections.abc import Callable
from functools import partial, wraps
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
    result: T = _Worker(work).outcome()
    return result


def uninterrupted(work: Callable[..., T]) -> Callable[..., T]:
    """A function that uses LLVM, during which no handler of a signal raises an exception.

    CPython calls handlers in the main thread, between any two steps.  An exception such as KeyboardInterrupt after a
    call of LLVM's, before llvmlite notes that the memory is released, would release it again.  So the main thread has
    the work done by another, and raises the exception of a handler when it is done.  No lock that ``work`` takes may
    be held by the caller.
    """
    @wraps(work)
    def run(*args: Any, **kwargs: Any) -> T:
        if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
            return work(*args, **kwargs)
        try:
            result: T = _Worker(partial(work, *args, **kwargs)).outcome()
        except _NoThreadError:
            result = work(*args, **kwargs)
        return result
    return run


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


class _NoThreadError(RuntimeError):
    """No thread can start: the process ends (CPython 3.12), or has as many as the system allows."""


class _Worker(threading.Thread):
    """A thread for one piece of work.  The process waits for it at its end, as LLVM must not outlive its statics."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(name="jitad compiles", daemon=False)
        self.work, self.context = work, contextvars.copy_context()
        self.begun, self.running, self.ended = threading.Lock(), threading.Lock(), False
        self.running.acquire()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        if not self.begun.acquire(blocking=False):       # the caller has given up
            return
        try:
            self.result = self.context.run(self.work)
        except BaseException as e:
            self.error = e
        self.work = lambda: None                         # its objects end here, not in the caller's thread
        self.ended = True
        self.running.release()

    def outcome(self) -> Any:
        """Do the work; return its result or raise its error, or else what a handler of a signal raised meanwhile.

        ``Thread.join`` would not do: if a handler raises within it, it takes the thread for ended.
        """
        interrupt: BaseException | None = None
        try:
            self._begin()
        except BaseException as e:
            if self.begun.acquire(blocking=False):       # the work has not begun, and never will
                raise
            interrupt = e
        while not self.ended:
            try:
                self.running.acquire()
            except BaseException as e:
                interrupt = interrupt or e
        if interrupt is not None:
            raise interrupt
        if self.error is not None:
            raise self.error
        return self.result

    def _begin(self) -> None:
        with _setting:                                   # the stack size is a global setting
            before = threading.stack_size(ROOMY)
            try:
                self.start()
            except RuntimeError as e:
                if self.ident is None and "new thread" in str(e):
                    raise _NoThreadError(*e.args) from None
                raise
            finally:
                threading.stack_size(before)
