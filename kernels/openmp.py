"""Finds an OpenMP runtime, whose threads run loops for ``jit(parallel=True)``: GNU's libgomp, LLVM's or Intel's.

All three have the entry points of GNU's: ``GOMP_parallel`` runs a function on a persistent team of threads.  A runtime
that the process has already loaded is preferred, so that two runtimes do not compete for the cores; then one of the
system, then one in the wheels of scikit-learn and PyTorch.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..errors import DeviceError

NAMES = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so")
WHEELS = (("sklearn", "../scikit_learn.libs", "libgomp*"), ("torch", "lib", "lib*omp*.so*"))
FUNCTIONS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
MOST = 256


@cache
def functions() -> dict[str, int]:
    """The addresses of the entry points; raises ``DeviceError`` if there is no runtime."""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in FUNCTIONS}
        except (OSError, AttributeError):
            continue
    raise DeviceError("parallel=True needs an OpenMP runtime, and none is found",
                       hint="apt install libgomp1, or pip install scikit-learn, which brings one")


def _candidates() -> Iterator[str]:
    yield from _loaded()
    yield from NAMES
    for package, folder, pattern in WHEELS:
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations or () if spec else ():
            yield from map(str, sorted((Path(place) / folder).glob(pattern)))


def _loaded() -> list[str]:
    """The paths of the runtimes that the process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines)
    return [path for path in paths if Path(path).name.startswith(("libgomp", "libomp", "libiomp"))]


_inherited = False


def _fork() -> None:
    """Record in a child process that the parent had a runtime.

    GNU's runtime would wait for the threads that it had in the parent, whether this project or other code used it.
    """
    global _inherited
    _inherited = _inherited or bool(_loaded())


os.register_at_fork(after_in_child=_fork)


def threads() -> int:
    """The number of threads to use: ``JITAD_NUM_THREADS``, ``OMP_NUM_THREADS``, or the cores of the process.

    It is 1 in a process that was forked while a runtime was loaded.
    """
    if _inherited:
        return 1
    for name in ("JITAD_NUM_THREADS", "OMP_NUM_THREADS"):
        wanted = os.environ.get(name, "").split(",")[0].strip()
        if wanted.isdigit() and int(wanted) > 0:
            return min(int(wanted), MOST)
    return min(len(os.sched_getaffinity(0)), MOST)
