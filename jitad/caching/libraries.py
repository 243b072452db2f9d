"""Addresses of functions and memory outside of machine code: of CPython, NumPy, the C library, BLAS, jitad itself."""

from __future__ import annotations

import ctypes
import importlib
from functools import cache

from ..lowering.llvm import capi
from .resolution import Stale

_HOMES = ("lowering.python.context_pool", "lowering.memory.result_buffers", "lowering.threads.thread_pool")
"""Modules that name memory of theirs when they are imported."""


def get_ready() -> None:
    """Import what most machine code refers to."""
    for home in _HOMES[:2]:
        importlib.import_module(f"..{home}", __package__)


@cache
def address(symbol: str) -> int:
    """The address of a symbol that every process has; raises ``Stale`` if this one has it not."""
    if symbol.startswith(capi.NAMED):
        for home in _HOMES:
            if not capi.is_named(symbol):
                importlib.import_module(f"..{home}", __package__)
    if symbol.startswith((capi.NAMED, capi.FUNCTION)):
        return capi.resolve(symbol)
    for library in (_process, _blas, _libmvec):
        try:
            return ctypes.cast(getattr(library(), symbol), ctypes.c_void_p).value or 0
        except (AttributeError, OSError, TypeError):
            continue
    raise Stale(f"no library has {symbol}")


@cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@cache
def _blas() -> ctypes.CDLL:
    from ..kernels import blas
    path = blas.library()
    if path is None:
        raise OSError("no BLAS")
    return ctypes.CDLL(path)


@cache
def _libmvec() -> ctypes.CDLL:
    return ctypes.CDLL("libmvec.so.1")
