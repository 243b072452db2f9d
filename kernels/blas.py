"""Finds a BLAS for matrix products: the one in NumPy's own wheel, or the wheel ``scipy-openblas64`` if installed.

Both are OpenBLAS with 64-bit integers under the names ``scipy_cblas_dgemm64_`` and so on.  Without it (another build
of NumPy) matrix products stay loops.

``JITAD_NUM_THREADS`` bounds its threads if it is set; otherwise OpenBLAS decides (``OPENBLAS_NUM_THREADS``, or all
cores).  NumPy uses the same copy of the library, so the bound applies to NumPy too.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

PREFIX, SUFFIX = "scipy_cblas_", "64_"
THREADS = "scipy_openblas_get_num_threads64_"
ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112            # CBLAS's codes for the layout of a matrix


def symbol(name: str) -> str:
    """The linker's name of a CBLAS routine: ``symbol("dgemm")``."""
    return f"{PREFIX}{name}{SUFFIX}"


def _candidates() -> Iterator[Path]:
    yield from (Path(np.__file__).parent.parent / "numpy.libs").glob("libscipy_openblas64_*")
    spec = importlib.util.find_spec("scipy_openblas64")
    for place in spec.submodule_search_locations or () if spec else ():
        yield from Path(place).glob("lib/libscipy_openblas64_*")


@cache
def library() -> str | None:
    """The path of the library, loaded and with its number of threads set; None if there is none."""
    for path in _candidates():
        try:
            lib = ctypes.CDLL(str(path))
        except OSError:
            continue
        if hasattr(lib, symbol("dgemm")):
            _limit_threads(lib)
            return str(path)
    return None


def _limit_threads(lib: ctypes.CDLL) -> None:
    wanted = os.environ.get("JITAD_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        lib.scipy_openblas_set_num_threads64_(ctypes.c_int(int(wanted)))
