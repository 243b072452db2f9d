"""Products of matrices by cuBLAS, NVIDIA's library, where it is installed (``pip install nvidia-cublas``).

It counts along columns, and our matrices lie along rows.  The same memory, seen its way, is the transposed matrix, and
``(a @ b).T`` is ``b.T @ a.T``: so ``b`` is its first operand, ``a`` the second.

``JITAD_CUBLAS=0`` does without it; then products are generated kernels.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DeviceError, switched_on
from ..lowering.gpu.driver import Matrix, Product

PLAIN, TRANSPOSED = 0, 1
"""cuBLAS's codes for an operand as it is stored, and for its transpose."""
NO_MEMORY = 3
FLOAT, ANY_ALGORITHM = 0, -1
FAST = {"f16": 74, "bf16": 75, "tf32": 77}
"""cuBLAS's codes for products of f32 whose operands it rounds to a format."""
WORKSPACE = 32 << 20
"""Bytes of device memory for the library, which are what it recommends for sm_90; without them it allocates its own,
which graphs cannot record."""
_NAMES = ("libcublas.so.13", "libcublas.so.12")
_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
_MATRIX, _SIZES = [_POINTER, _INT], [_INT, _INT, _INT]
_TYPED = [_POINTER, _INT, _INT]
_FUNCTIONS: dict[str, list[Any]] = {
    "cublasCreate_v2": [_POINTER],
    "cublasSetStream_v2": [_POINTER, _POINTER],
    "cublasSetWorkspace_v2": [_POINTER, _POINTER, ctypes.c_size_t],
    **{f"cublas{t}gemm_v2": [_POINTER, _INT, _INT, *_SIZES, _POINTER, *_MATRIX, *_MATRIX, _POINTER, *_MATRIX]
       for t in "SD"},
    **{f"cublas{t}gemmStridedBatched": [_POINTER, _INT, _INT, *_SIZES, _POINTER, *_MATRIX, _LONG, *_MATRIX, _LONG,
                                        _POINTER, *_MATRIX, _LONG, _INT] for t in "SD"},
    "cublasGemmStridedBatchedEx": [_POINTER, _INT, _INT, *_SIZES, _POINTER, *_TYPED, _LONG, *_TYPED, _LONG, _POINTER,
                                   *_TYPED, _LONG, _INT, _INT, _INT],
    **{f"cublas{t}gemv_v2": [_POINTER, _INT, _INT, _INT, _POINTER, *_MATRIX, *_MATRIX, _POINTER, *_MATRIX]
       for t in "SD"},
}


@cache
def library() -> Any:
    """The library, loaded; None if it is not installed."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
        path = load_nvidia_dynamic_lib("cublas").abs_path
        found = _loaded(str(path))
    except Exception:                                    # not there, or a version that is not found by that
        found = next(filter(None, map(_loaded, _NAMES)), None)
    return declared(found) if found is not None else None


def _loaded(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def declared(found: Any) -> Any:
    """The library with the types of its functions."""
    for name, types in _FUNCTIONS.items():
        function = getattr(found, name)
        function.argtypes, function.restype = types, _INT
    return found


def name() -> str:
    """The library's name for the plan of a program; "" if there is none, or ``JITAD_CUBLAS=0``."""
    if not switched_on("JITAD_CUBLAS", default=True):
        return ""
    found = library()
    return f"cuBLAS ({Path(found._name).name})" if found is not None else ""


class Cublas:
    """The library for one context and one stream; one thread at a time may call it.

    ``workspace``: the address of ``WORKSPACE`` bytes of the device.
    """

    def __init__(self, found: Any, stream: int, workspace: int) -> None:
        self._library = found
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, stream)
        self._call("cublasSetWorkspace_v2", self._handle, workspace, WORKSPACE)

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status == NO_MEMORY:
            raise MemoryError(f"{name}: cuBLAS has no memory")
        if status:
            raise DeviceError(f"{name}: status {status} of cuBLAS",
                              hint="JITAD_CUBLAS=0 takes generated kernels instead")

    def product(self, p: Product) -> None:
        """Queue a product; rows or columns of each matrix lie without gaps, the rows of ``out`` do."""
        kind, number = ("S", ctypes.c_float) if p.dtype == np.float32 else ("D", ctypes.c_double)
        one, before = ctypes.byref(number(1)), ctypes.byref(number(1 if p.adds else 0))
        if p.b.cols == 1 and p.out.count == 1 and p.b.along_cols and p.out.down == 1:
            self._vector(kind, one, before, p.a, p.b.address, p.out.address)
        elif p.a.rows == 1 and p.out.count == 1 and p.a.along_rows:
            self._vector(kind, one, before, transposed(p.b), p.a.address, p.out.address)
        else:
            sizes = p.out.cols, p.out.rows, p.a.cols
            codes = _code(p.b), _code(p.a)
            if p.format and kind == "S":
                (b, ldb), (a, lda), (c, ldc) = map(_place, (p.b, p.a, p.out))
                self._call("cublasGemmStridedBatchedEx", self._handle, *codes, *sizes, one, b, FLOAT, ldb, p.b.step,
                           a, FLOAT, lda, p.a.step, before, c, FLOAT, ldc, p.out.step, p.out.count, FAST[p.format],
                           ANY_ALGORITHM)
            elif p.out.count == 1:
                self._call(f"cublas{kind}gemm_v2", self._handle, *codes, *sizes, one, *_place(p.b), *_place(p.a),
                           before, *_place(p.out))
            else:
                self._call(f"cublas{kind}gemmStridedBatched", self._handle, *codes, *sizes, one, *_place(p.b), p.b.step,
                           *_place(p.a), p.a.step, before, *_place(p.out), p.out.step, p.out.count)

    def _vector(self, kind: str, one: Any, before: Any, a: Matrix, x: int, y: int) -> None:
        """``y = a @ x`` of vectors without gaps."""
        code = TRANSPOSED if a.along_rows else PLAIN
        stored = (a.cols, a.rows) if a.along_rows else (a.rows, a.cols)
        self._call(f"cublas{kind}gemv_v2", self._handle, code, *stored, one, *_place(a), x, 1, before, y, 1)


def transposed(x: Matrix) -> Matrix:
    return Matrix(x.address, x.cols, x.rows, x.right, x.down, x.count, x.step)


def _code(x: Matrix) -> int:
    """The code that makes the transpose of ``x`` of what is stored, counted along columns."""
    return PLAIN if x.along_rows else TRANSPOSED


def _place(x: Matrix) -> tuple[int, int]:
    return x.address, x.line
