"""``np.cov`` and ``np.corrcoef``."""

from __future__ import annotations

from typing import Any

import numpy as np


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
        aweights: Any = None, *, dtype: Any = None) -> Any:
    """The covariance matrix; each row (``rowvar``) or column of ``m`` and ``y`` is a variable.

    Returns a scalar if ``m`` is one variable and ``y`` is None.
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    if dtype is not None and not np.issubdtype(dtype, np.floating):
        raise TypeError(f"the mean of the observations is no {np.dtype(dtype)}")
    m = np.asarray(m)
    x = _variables(m, "m", rowvar or m.ndim == 1, dtype)
    if y is not None:
        y = np.asarray(y)
        x = np.concatenate((x, _variables(y, "y", rowvar or y.ndim == 1, dtype)))
    less = (0 if bias else 1) if ddof is None else ddof
    left, w = _weights(x.shape[1], fweights, aweights, less)
    mean = np.mean(x, axis=1, keepdims=True) if w is None else np.sum(x * w, axis=1, keepdims=True) / np.sum(w)
    apart = x - mean
    found = apart @ (apart if w is None else apart * w).T / max(left, 0)
    return found[0, 0] if m.ndim < 2 and y is None else found.squeeze()


def _variables(m: Any, name: str, rows: bool, dtype: Any) -> Any:
    """Returns ``m`` as a 2-D float array with one variable per row."""
    if m.ndim > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    m = np.atleast_2d(m).astype(np.float64 if dtype is None else dtype)
    return m if rows else m.T


def _weights(n: int, fweights: Any, aweights: Any, less: float) -> Any:
    """Returns the divisor and the weights of the observations; the weights are None if none are given."""
    if fweights is None and aweights is None:
        return float(n - less), None
    w = np.ones(n)
    if fweights is not None:
        fweights = _checked(np.asarray(fweights).astype(np.float64), n, "fweights")
        if not np.all(fweights == np.round(fweights)):
            raise TypeError("fweights must be integer")
        w = fweights
    if aweights is None:
        return np.sum(w) - less, w
    aweights = _checked(np.asarray(aweights).astype(np.float64), n, "aweights")
    w = w * aweights
    return np.sum(w) - less * np.sum(w * aweights) / np.sum(w), w


def _checked(w: Any, n: int, name: str) -> Any:
    if w.ndim > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if len(w) != n:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if np.any(w < 0):
        raise ValueError(f"{name} cannot be negative")
    return w


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlation coefficients, clipped to [-1, 1]; a scalar for one variable."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    deviation = np.sqrt(np.diag(c))
    return np.clip(c / deviation[:, None] / deviation[None, :], -1, 1)
