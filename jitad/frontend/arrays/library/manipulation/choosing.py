"""``np.select``, ``np.choose``, ``np.piecewise``; functions that read and write by masks and index arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..marks import axis_of


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The first choice whose condition is true; the others get no derivative."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    dtype = np.result_type(*[c if isinstance(c, (int, float)) else np.asarray(c) for c in [*choicelist, default]])
    out, choices = np.asarray(default).astype(dtype), [np.asarray(c) for c in choicelist]
    conditions = [np.asarray(c) for c in condlist]
    for i, condition in enumerate(conditions):
        if condition.dtype != np.bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    for condition, choice in zip(conditions[::-1], choices[::-1]):
        if not np.can_cast(choice.dtype, dtype, "same_kind"):
            raise TypeError(f"Cannot cast array data from {choice.dtype!r} to {dtype!r} according to the rule "
                            "'same_kind'")
        out = np.where(condition, choice.astype(dtype), out)
    return out


def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """``choices[a[i]][i]``; the loop over ``choices`` is unrolled, so their number must be known while tracing."""
    a = np.asarray(a)
    if not np.can_cast(a.dtype, int):
        raise TypeError(f"Cannot cast array data from {a.dtype!r} to {np.dtype(int)!r} according to the rule 'safe'")
    n = len(choices)
    if mode == "wrap":
        a = a % n
    elif mode == "clip":
        a = np.clip(a, 0, n - 1)
    elif np.any((a < 0) | (a >= n)):
        raise ValueError("invalid entry in choice array")
    out = np.asarray(choices[0])
    for i, choice in enumerate(choices[1:], 1):
        out = np.where(a == i, choice, out)
    return np.where(a == 0, out, out) if n == 1 else out


def extract(condition: Any, arr: Any) -> Any:
    return np.ravel(arr)[np.flatnonzero(condition)]


def place(arr: Any, mask: Any, vals: Any) -> None:
    """Writes ``vals``, repeated as needed, to the elements of ``arr`` where the mask is true."""
    mask = np.asarray(mask).astype(bool)
    if mask.shape != arr.shape:
        raise ValueError("place: mask and data must be the same size")
    vals = np.ravel(_safely(vals, arr.dtype))
    count = np.count_nonzero(mask)
    if count > 0 and len(vals) == 0:
        raise ValueError("Cannot insert from an empty array!")
    arr[mask] = vals[np.arange(count) % len(vals)]


def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """Writes ``values``, repeated to the size of ``a``, where the mask is true; positions correspond."""
    mask = np.asarray(mask).astype(bool)
    if mask.shape != a.shape:
        raise ValueError("putmask: mask and data must be the same size")
    values = _safely(values, a.dtype)
    if values.ndim > 0 and values.size > 0:
        a[...] = np.where(mask, np.ravel(values)[np.arange(a.size) % values.size].reshape(a.shape), a)
    elif values.ndim == 0:
        a[...] = np.where(mask, values, a)


def _safely(values: Any, dtype: Any) -> Any:
    """``values`` as an array of ``dtype``; refused if an array's dtype cannot be cast safely."""
    have = np.asarray(values).dtype
    if np.ndim(values) > 0 and not isinstance(values, (list, tuple)) and not np.can_cast(have, dtype):
        raise TypeError(f"Cannot cast array data from {have!r} to {dtype!r} according to the rule 'safe'")
    return np.asarray(values, dtype)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    if axis is None:
        if np.ndim(indices) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        np.ravel(arr)[indices] = values
        return
    indices = np.asarray(indices)
    if not np.issubdtype(indices.dtype, np.integer):
        raise IndexError("`indices` must be an integer array")
    if indices.ndim != arr.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    places = [np.arange(n).reshape((1,) * k + (n,) + (1,) * (arr.ndim - 1 - k)) for k, n in enumerate(arr.shape)]
    places[axis_of(axis, arr.ndim)] = indices
    arr[tuple(places)] = values


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Calls each function with exactly those elements for which its condition is true."""
    x = np.asarray(x)
    if not isinstance(condlist, (list, tuple)) or x.ndim > 0 and np.ndim(condlist[0]) == 0:
        condlist = [condlist]
    conditions = [np.asarray(c).astype(bool) for c in condlist]
    n, given = len(conditions), len(funclist)
    if given == n + 1:
        otherwise = conditions[0]
        for c in conditions[1:]:
            otherwise = otherwise | c
        conditions.append(~otherwise)
    elif given != n:
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    flat, out = np.atleast_1d(x), np.zeros_like(np.atleast_1d(x))
    for condition, fun in zip(conditions, funclist):
        mask = np.atleast_1d(condition)
        out[mask] = fun(flat[mask], *args, **kw) if callable(fun) else fun
    return out if x.ndim > 0 else out[0]
