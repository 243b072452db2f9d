"""Restricts all timed programs to one core, and detects programs that use more.

``settle`` sets libraries to one thread before they are loaded, and pins the process to a core.  A library that uses
more threads nevertheless would then be slower for no visible reason.  So ``trial`` lets a program use all cores for a
moment: if the processor time of all its threads exceeds the wall-clock time, it has several.
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
MOST = 1.05                     # processor time over wall-clock time, at most


now: Callable[[], float] = time.perf_counter


def choose_clock(cpu_time: bool) -> None:
    """Sets ``now`` to wall-clock time, or to processor time, which excludes other work on the machine."""
    global now
    now = time.process_time if cpu_time else time.perf_counter


def settle() -> None:
    """Sets one thread for all libraries, and one core for this process and its children."""
    os.environ.update(SETTINGS)
    if hasattr(os, "sched_setaffinity"):                # also for threads that ignore the settings
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def all_cores() -> set[int]:
    return set(range(os.cpu_count() or 1))


def _allow(cores: set[int]) -> None:
    """Lets every thread of this process run on these cores."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):              # it may have ended meanwhile
            os.sched_setaffinity(int(thread), cores)


@contextlib.contextmanager
def unpinned() -> Iterator[None]:
    """A context in which the process may use all cores."""
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
    """Seconds of one call on all cores: processor time of all threads, and wall-clock time."""

    cpu: float
    wall: float


def trial(program: Callable[[], Any], count: int) -> Trial:
    """Runs ``count`` calls on all cores."""
    with unpinned():
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            program()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Trial(cpu / count, max(wall, 1e-9) / count)
