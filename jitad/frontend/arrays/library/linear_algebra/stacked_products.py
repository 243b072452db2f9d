"""Products of stacks of vectors and matrices, and the ``np.linalg`` versions of NumPy functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import refuse


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    x1, x2 = np.moveaxis(np.asarray(x1), axis, -1), np.moveaxis(np.asarray(x2), axis, -1)
    if x1.shape[-1] != x2.shape[-1]:
        raise ValueError(f"vecdot: vectors of {x1.shape[-1]} and of {x2.shape[-1]} elements")
    if x1.ndim == 1 and x2.ndim == 1:
        return np.dot(x1, x2)
    return np.sum(_numbers(x1) * x2, axis=-1, dtype=np.result_type(x1, x2))


def _numbers(x: Any) -> Any:
    if x.dtype == np.bool:
        refuse("a product of vectors of bools", ".astype(int) first")
    return x


def matvec(x1: Any, x2: Any, /) -> Any:
    _aligned("matvec", "(m,n),(n)->(m)", np.shape(x1), -1, np.shape(x2), -1)
    return np.einsum("...ij,...j->...i", x1, x2)


def vecmat(x1: Any, x2: Any, /) -> Any:
    _aligned("vecmat", "(n),(n,m)->(m)", np.shape(x1), -1, np.shape(x2), -2)
    return np.einsum("...i,...ij->...j", x1, x2)


def _aligned(name: str, signature: str, shape1: Any, i: int, shape2: Any, j: int) -> None:
    """Raises unless the summed axes have equal sizes; a size of 1 does not broadcast there."""
    if len(shape1) >= -i and len(shape2) >= -j and shape1[i] != shape2[j]:
        raise ValueError(f"{name}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
                         f"{signature} (size {shape2[j]} is different from {shape1[i]})")


# --- np.linalg --------------------------------------------------------------------------------------

def matmul(x1: Any, x2: Any, /) -> Any:
    return np.matmul(x1, x2)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return np.tensordot(x1, x2, axes)


def matrix_transpose(x: Any, /) -> Any:
    return np.swapaxes(x, -1, -2)


def outer(x1: Any, x2: Any, /) -> Any:
    x1, x2 = np.asarray(x1), np.asarray(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={x1.ndim} and x2.ndim={x2.ndim}.")
    return np.outer(x1, x2)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    if axis is None:
        raise TypeError("'NoneType' object cannot be interpreted as an integer")
    return np.cross(x1, x2, axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    x = np.asarray(x)
    if x.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    if x.ndim == 2:
        return np.diagonal(x, offset)
    down, right = max(-offset, 0), max(offset, 0)
    places = np.arange(max(min(x.shape[-2] - down, x.shape[-1] - right), 0))
    return x[..., places + down, places + right]


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return np.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm over ``axis``; several axes are flattened into one."""
    x = np.asarray(x)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    moved = np.moveaxis(x, axes, tuple(range(-len(axes), 0)))
    kept = moved.shape[:x.ndim - len(axes)]
    n = 1
    for m in moved.shape[x.ndim - len(axes):]:
        n *= m
    out = np.linalg.norm(moved.reshape((*kept, n)), ord, -1)
    return np.expand_dims(out, axes) if keepdims else out


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return np.linalg.norm(x, ord, (-2, -1), keepdims)
