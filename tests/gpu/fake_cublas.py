"""A stand-in for the library cuBLAS on the memory of ``fake_cuda.Device``: its functions as the documentation has them.

Matrices lie along columns: element (i, j) is at ``i + j * ld``.  Calls are recorded, their arguments checked, and done
on the stream of the handle, as late as a device may do it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.gpu.fake_cuda import Device, Violation

HANDLE = 0xB1A5


class FakeCublas:
    """The library for one device; ``calls``: the name and the arguments of each product."""

    _name = "/somewhere/libcublas.so.13"

    def __init__(self, device: Device) -> None:
        self.device = device
        self.calls: list[tuple[Any, ...]] = []
        self.made: list[tuple[Any, ...]] = []
        self.stream = 0
        self.fail = 0
        self._functions: dict[str, Callable[..., int]] = {}

    def __getattr__(self, name: str) -> Any:
        """A function of the library, as an object to which types can be attached."""
        if not name.startswith("cublas"):
            raise AttributeError(name)
        if name not in self._functions:
            self._functions[name] = self._function(name)
        return self._functions[name]

    def _function(self, name: str) -> Callable[..., int]:
        rule = self._rule(name)

        def function(*args: Any) -> int:
            types = function.argtypes                            # type: ignore[attr-defined]
            if len(types) != len(args):
                raise Violation(f"{name} takes {len(types)} arguments, not {len(args)}")
            if self.fail:
                status, self.fail = self.fail, 0
                return status
            rule(*map(_given, args, types))
            return 0
        return function

    def _rule(self, name: str) -> Callable[..., None]:
        if name[6] in "SD" and name[7:8] == "g":
            dtype = np.dtype(np.float32 if name[6] == "S" else np.float64)
            run = {"gemm_v2": self._gemm, "gemmStridedBatched": self._batched, "gemv_v2": self._gemv}[name[7:]]

            def product(handle: int, *args: Any) -> None:
                assert handle == HANDLE and self.stream, "no handle, or no stream"
                self.calls.append((name, *args))
                run(dtype, *args)
            return product
        if name == "cublasGemmStridedBatchedEx":
            return self._rounded
        return {"cublasCreate_v2": self._create, "cublasSetStream_v2": self._set_stream,
                "cublasSetWorkspace_v2": self._set_workspace}[name]

    def _create(self, handle: Any) -> None:
        handle.value = HANDLE
        self.made.append(("create",))

    def _set_stream(self, handle: int, stream: int) -> None:
        assert handle == HANDLE and stream in self.device.queues
        self.stream = stream

    def _set_workspace(self, handle: int, address: int, size: int) -> None:
        self.device._bytes(address, size)                        # it is the device's, and as large
        self.made.append(("workspace", size))

    # --- products ---------------------------------------------------------------------------------

    def _matrix(self, dtype: np.dtype, address: int, rows: int, cols: int, ld: int) -> np.ndarray:
        """The matrix at an address, all of which must be allocated."""
        if ld < max(rows, 1):
            raise Violation(f"columns of {rows} elements do not fit into steps of {ld}")
        count = (cols - 1) * ld + rows
        flat = np.frombuffer(self.device._bytes(address, count * dtype.itemsize), dtype)
        return np.lib.stride_tricks.as_strided(flat, (rows, cols), (dtype.itemsize, ld * dtype.itemsize))

    def _gemm(self, dtype: np.dtype, ta: int, tb: int, m: int, n: int, k: int, alpha: float, a: int, lda: int, b: int,
              ldb: int, beta: float, c: int, ldc: int) -> None:
        self._batched(dtype, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1)

    def _batched(self, dtype: np.dtype, ta: int, tb: int, m: int, n: int, k: int, alpha: float, a: int, lda: int,
                 stride_a: int, b: int, ldb: int, stride_b: int, beta: float, c: int, ldc: int, stride_c: int,
                 count: int) -> None:
        def run() -> None:
            for g in range(count):
                at = [x + g * s * dtype.itemsize for x, s in ((a, stride_a), (b, stride_b), (c, stride_c))]
                x = self._matrix(dtype, at[0], *((k, m) if ta else (m, k)), lda)
                y = self._matrix(dtype, at[1], *((n, k) if tb else (k, n)), ldb)
                out = self._matrix(dtype, at[2], m, n, ldc)
                product = alpha * (x.T if ta else x) @ (y.T if tb else y)
                out[...] = product + (beta * out if beta else 0)
        self.device._queue(self.stream, run)

    def _rounded(self, handle: int, ta: int, tb: int, m: int, n: int, k: int, alpha: float, a: int, type_a: int,
                 lda: int, stride_a: int, b: int, type_b: int, ldb: int, stride_b: int, beta: float, c: int,
                 type_c: int, ldc: int, stride_c: int, count: int, compute: int, algorithm: int) -> None:
        """Products whose operands may be rounded, which this does not."""
        assert handle == HANDLE and self.stream and compute in (74, 75, 77) and algorithm == -1
        assert type_a == type_b == type_c == 0, "not all are f32"
        self.calls.append(("cublasGemmStridedBatchedEx", ta, tb, compute))
        self._batched(np.dtype(np.float32), ta, tb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc,
                      stride_c, count)

    def _gemv(self, dtype: np.dtype, trans: int, m: int, n: int, alpha: float, a: int, lda: int, x: int, incx: int,
              beta: float, y: int, incy: int) -> None:
        def run() -> None:
            matrix = self._matrix(dtype, a, m, n, lda)
            rows, cols = (n, m) if trans else (m, n)
            given, out = self._matrix(dtype, x, 1, cols, incx)[0], self._matrix(dtype, y, 1, rows, incy)[0]
            out[...] = alpha * (matrix.T if trans else matrix) @ given + (beta * out if beta else 0)
        self.device._queue(self.stream, run)


def _given(x: Any, type: Any) -> Any:
    """An argument as C gets it: an integer of the declared size, the number or the handle at a pointer, an address."""
    if hasattr(x, "_obj"):                                       # by reference
        return x._obj if isinstance(x._obj, ctypes.c_void_p) else x._obj.value
    value = x.value if isinstance(x, ctypes.c_void_p) else x
    if type(value).value != value:
        raise Violation(f"{value} does not fit into {type.__name__}")
    return value
