"""Index arrays: grids, triangles, diagonals, conversion of flat and multi-dimensional indices; ``np.geomspace``.

``np.ndindex`` and ``np.ndenumerate`` walk over all indices of a shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import axis_of, refuse


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    dimensions, dtype = tuple(dimensions), float if dtype is None else dtype
    grids = tuple([np.arange(n, dtype=dtype).reshape((1,) * k + (n,) + (1,) * (len(dimensions) - 1 - k))
                   for k, n in enumerate(dimensions)])
    if sparse:
        return grids
    if len(grids) == 0:
        return np.zeros((0,), dtype)
    return np.stack([np.broadcast_to(g, dimensions) for g in grids])


def ndindex(*shape: Any) -> Any:
    """All indices of a shape in C order, each a tuple."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    n = 1
    for m in sizes:
        if m < 0:
            raise ValueError("negative dimensions are not allowed")
        n *= m
    return map(lambda k: _index(k, sizes), range(n))


def ndenumerate(arr: Any) -> Any:
    """The indices of an array in C order, each with its element."""
    arr = np.asarray(arr)
    flat = arr.reshape(-1)
    return map(lambda k: (_index(k, arr.shape), flat[k]), range(arr.size))


def _index(k: Any, sizes: Any) -> Any:
    """The indices of an offset in C order."""
    at = []
    for m in sizes[::-1]:
        at.append(k % m)
        k = k // m
    return tuple(at[::-1])


def fromfunction(function: Any, shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    grid = indices(shape, dtype=dtype)
    return function(*[grid[k] for k in range(len(shape))], **kwargs)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """Powers of 10 at evenly spaced exponents; the end points are exactly the arguments."""
    axis_of(axis, 1)
    start, stop = np.float64(start), np.float64(stop)
    if start == 0 or stop == 0:
        raise ValueError("Geometric sequence cannot include zero")
    sign = np.sign(start)
    between = np.logspace(np.log10(start * sign), np.log10(stop * sign), num, endpoint) * sign
    i = np.arange(num)
    if endpoint:
        between = np.where(i == num - 1, stop, between)
    return np.where(i == 0, start, between).astype(np.float64 if dtype is None else dtype)


def ix_(*args: Any) -> Any:
    out = []
    for k, given in enumerate(args):
        places = np.asarray(given)
        if places.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if isinstance(given, (list, tuple)) and len(given) == 0:
            places = places.astype(int)
        if places.dtype == np.bool:
            places = np.flatnonzero(places)
        out.append(places.reshape((1,) * k + (len(places),) + (1,) * (len(args) - 1 - k)))
    return tuple(out)


def tril_indices(n: int, k: int = 0, m: Any = None) -> Any:
    return np.nonzero(np.tri(n, m, k, dtype=bool))


def triu_indices(n: int, k: int = 0, m: Any = None) -> Any:
    return np.nonzero(~np.tri(n, m, k - 1, dtype=bool))


def tril_indices_from(arr: Any, k: int = 0) -> Any:
    if arr.ndim != 2:
        raise ValueError("input array must be 2-d")
    return tril_indices(arr.shape[0], k, arr.shape[1])


def triu_indices_from(arr: Any, k: int = 0) -> Any:
    if arr.ndim != 2:
        raise ValueError("input array must be 2-d")
    return triu_indices(arr.shape[0], k, arr.shape[1])


def diag_indices(n: int, ndim: int = 2) -> Any:
    return (np.arange(n),) * ndim


def diag_indices_from(arr: Any) -> Any:
    if arr.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    for n in arr.shape[1:]:
        if n != arr.shape[0]:
            raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(arr.shape[0], arr.ndim)


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    shape = shape if isinstance(shape, (list, tuple)) else (shape,)
    rest = _integers(indices)
    size = 1
    for n in shape:
        size *= n
    _check_flat(np.ravel(rest), size)
    return _index(rest, shape[::-1])[::-1] if order == "F" else _index(rest, shape)


def _integers(places: Any) -> Any:
    made = np.asarray(places)
    if np.issubdtype(made.dtype, np.floating) and not (isinstance(places, (list, tuple)) and len(places) == 0):
        raise TypeError("only int indices permitted")
    return made.astype(int)


def _check_flat(places: Any, size: int) -> None:
    for i in places:
        if i < 0 or i >= size:
            raise ValueError(f"index {i} is out of bounds for array with size {size}")


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    dims = dims if isinstance(dims, (list, tuple)) else (dims,)
    if isinstance(multi_index, np.ndarray):
        refuse("`np.ravel_multi_index` of one array", "a tuple of arrays, one for each axis")
    if len(multi_index) != len(dims):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(dims)}")
    modes = mode if isinstance(mode, tuple) else (mode,) * len(dims)
    axes = list(zip(multi_index, dims, modes))
    out: Any = 0
    for places, n, how in axes[::-1] if order == "F" else axes:
        out = out * n + _within(_integers(places), n, how)
    return out


def _within(places: Any, n: int, mode: str) -> Any:
    if mode == "wrap":
        return places % n
    if mode == "clip":
        return np.clip(places, 0, n - 1)
    if np.any((places < 0) | (places >= n)):
        raise ValueError("invalid entry in coordinates array")
    return places
