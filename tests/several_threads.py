"""Loops on several threads in tests, even those with little work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from jitad.lowering.threads import parallel_nests, thread_pool

from jitad.passes.parallel import outline

_head = thread_pool.head


def _urgent(*args: Any) -> Any:
    """The head of a job that takes so long that it wakes the threads that sleep."""
    return _head(*args[:-1], str(thread_pool.WAKING))


@contextmanager
def little_work() -> Iterator[None]:
    """Within it, all independent loops are compiled for several threads, which they wake."""
    with ExitStack() as patches:
        for module, name, value in ((outline, "ENOUGH", 0), (outline, "ELEMENT", 0), (parallel_nests, "ENOUGH", 0),
                                    (thread_pool, "head", _urgent)):
            patches.enter_context(mock.patch.object(module, name, value))
        yield
