"""One core for everything that is timed, and how it is seen that nothing uses more.

``settle`` tells the libraries, before they are loaded, to have one thread, and pins the process to a core.  Pinned, a
library that has more threads after all is slower and nobody sees why.  So ``trial`` lets a program
have all cores for a moment: the processor time of all its threads is then its time on the clock, or it had several.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

SETTINGS = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "JITAD")} | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu",
    "MALLOC_ARENA_MAX": "1",                        # so that `memory` can give back what is free
}
MOST = 1.05                     # processor time over time on the clock, at most


now: Callable[[], float] = time.perf_counter


def choose_clock(cpu_time: bool) -> None:
    """Let ``now`` be time on the clock, or processor time, which other work on the machine is not in."""
    global now
    now = time.process_time if cpu_time else time.perf_counter


def settle() -> None:
    """One thread for all libraries, one core for this process and those that it starts."""
    os.environ.update(SETTINGS)
    if hasattr(os, "sched_setaffinity"):                # also for the threads that do not ask
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def all_cores() -> set[int]:
    return set(range(os.cpu_count() or 1))


def _allow(cores: set[int]) -> None:
    """Let every thread of this process run on these cores."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):              # it has ended meanwhile
            os.sched_setaffinity(int(thread), cores)


@contextlib.contextmanager
def unpinned() -> Iterator[None]:
    """All cores for this process, for a while."""
    if not hasattr(os, "sched_setaffinity") or not os.path.isdir("/proc/self/task"):
        yield
        return
    before = os.sched_getaffinity(0)
    _allow(all_cores())
    try:
        yield
    finally:
        _allow(before)


@dataclass(frozen=True)
class Trial:
    """Seconds of one call on all cores: of all threads together, and on the clock."""

    cpu: float
    wall: float


def trial(program: Callable[[], Any], count: int) -> Trial:
    """``count`` calls with all cores to use."""
    with unpinned():
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            program()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Trial(cpu / count, max(wall, 1e-9) / count)
