"""Finds an OpenMP runtime, whose threads run loops for ``jit(parallel=True)``: GNU's libgomp, LLVM's or Intel's.

All three have the entry points of GNU's: ``GOMP_parallel`` runs a function on a team of threads that stay.  What the
process has loaded already is taken, so that two runtimes do not compete for the cores; otherwise what the system has,
or what comes in the wheels of scikit-learn and PyTorch.
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
    """The addresses of the entry points; ``DeviceError`` where there is no runtime."""
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
    """The runtimes that the process has in memory."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines)
    return [path for path in paths if Path(path).name.startswith(("libgomp", "libomp", "libiomp"))]


_inherited = False


def _fork() -> None:
    """GNU's runtime would wait for the threads that it had in the parent, be it we who used it or someone else."""
    global _inherited
    _inherited = _inherited or bool(_loaded())


os.register_at_fork(after_in_child=_fork)


def threads() -> int:
    """How many threads there are to be: ``JITAD_NUM_THREADS``, ``OMP_NUM_THREADS``, or the cores of the process.

    A process that was forked when there was a runtime has one.
    """
    if _inherited:
        return 1
    for name in ("JITAD_NUM_THREADS", "OMP_NUM_THREADS"):
        wanted = os.environ.get(name, "").split(",")[0].strip()
        if wanted.isdigit() and int(wanted) > 0:
            return min(int(wanted), MOST)
    return min(len(os.sched_getaffinity(0)), MOST)
