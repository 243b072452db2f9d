"""``np.convolve`` and ``np.correlate``: a loop over the shorter array adds the scaled longer array for each element.

The derivatives are sums of scaled slices too, and save no intermediate values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import refuse

MODES = ("valid", "same", "full")
CACHED = 2048                 # elements in a chunk of the longer array, so that the chunk and its result stay in cache


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """``out[k]`` is the sum of ``a[k - j] * v[j]``; the result is the same whichever operand is longer."""
    a, v = _operands(a, v, "a cannot be empty", "v cannot be empty")
    if len(v) > len(a):
        a, v = v, a
    return _convolved(a, v, _mode(mode), (len(v) - 1) // 2)


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """``out[k]`` is the sum of ``a[k + j] * v[j]``; exchanging the operands reverses the result."""
    if np.ndim(a) == 0 or np.ndim(v) == 0:
        raise ValueError("object of too small depth for desired array")
    a, v = _operands(a, v, "first array argument cannot be empty", "second array argument cannot be empty")
    v = v[::-1]
    middle = (len(v) - 1) // 2
    if len(v) > len(a):
        a, v, middle = v, a, len(a) // 2
    return _convolved(a, v, _mode(mode), middle)


def _operands(a: Any, v: Any, first_empty: str, second_empty: str) -> Any:
    """Returns both operands as vectors of their common dtype."""
    a, v = np.atleast_1d(a), np.atleast_1d(v)
    if a.ndim > 1 or v.ndim > 1:
        raise ValueError("object too deep for desired array")
    if len(a) == 0:
        raise ValueError(first_empty)
    if len(v) == 0:
        raise ValueError(second_empty)
    dtype = np.result_type(a, v)
    if dtype == np.bool:
        refuse("a convolution of bools", ".astype(int) first")
    return a.astype(dtype), v.astype(dtype)


def _mode(mode: Any) -> str:
    if not isinstance(mode, str):
        if mode not in (0, 1, 2):
            raise ValueError("integer convolve/correlate mode must be 0, 1, or 2")
        return MODES[mode]
    if mode not in MODES:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    return mode


def _convolved(a: Any, v: Any, mode: str, middle: int) -> Any:
    """Convolves ``a`` with ``v``, which is no longer; ``middle`` is the start of ``same`` in the full convolution."""
    if mode == "valid":
        return _valid(a, v)
    n, m = len(a), len(v)
    out = np.zeros(n + m - 1, a.dtype)
    for start in range(0, n, CACHED):
        part = a[start:start + CACHED]
        for j in range(m):
            out[start + j:start + j + len(part)] += v[j] * part
    return out if mode == "full" else out[middle:middle + n].copy()


def _valid(a: Any, v: Any) -> Any:
    """Convolution where the operands overlap completely; loops over ``v`` or over the result, whichever is shorter."""
    m = len(v)
    n = len(a) - m + 1
    out = np.zeros(n, a.dtype)
    w = v[::-1]
    if m <= n:
        for start in range(0, n, CACHED):
            size = min(n - start, CACHED)
            for j in range(m):
                out[start:start + size] += w[j] * a[start + j:start + j + size]
    else:
        for k in range(n):
            out[k] = np.dot(a[k:k + m], w)
    return out
