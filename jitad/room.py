"""Compiling needs more stack than a thread may have: then another thread does it.

LLVM recurses over the code that it makes, importing the compiler nests deep, and CPython lets a thread have as little
as 32 KiB.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

ENOUGH = 1 << 20
ROOMY = 1 << 26
_setting = threading.Lock()


def with_room(work: Callable[[], T]) -> T:
    """What ``work`` yields or raises, run in a thread with a large stack where this one may have a small one."""
    here = threading.current_thread()
    if here is threading.main_thread() or isinstance(here, _Worker) or not _small():
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


def _small() -> bool:
    """Whether new threads have a small stack, so that this one may; asking for the size sets it to the default."""
    with _setting:
        size = threading.stack_size()
        threading.stack_size(size)
    return 0 < size < ENOUGH


class _Worker(threading.Thread):
    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(name="jitad compiles", daemon=True)
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.work()
        except BaseException as e:
            self.error = e
