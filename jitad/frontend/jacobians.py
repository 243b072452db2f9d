"""Differentiation functions that are programs themselves: these are traced like a user's functions.

``pull`` and ``push`` are transforms of ``fun`` with respect to its argument number ``k``: ``pull(args, cotangent)``
gives a tuple of one cotangent, ``push(args, tangents)`` the result and its tangent.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def jacrev(fun: Any, pull: Any, k: int, *args: Any) -> Any:
    """A row of the Jacobian for each element of the result."""
    x = args[k]
    y = fun(*args)
    if np.ndim(y) == 0:
        return pull(args, 1.0)[0]
    rows = np.zeros_like(x, shape=(y.size,) + np.shape(x))
    for i in range(y.size):
        basis = np.zeros_like(y, shape=y.size)
        basis[i] = 1
        rows[i] = pull(args, basis.reshape(y.shape))[0]
    return rows.reshape(y.shape + np.shape(x))


def jacfwd(fun: Any, push: Any, k: int, *args: Any) -> Any:
    """A column of the Jacobian for each element of the argument."""
    x = args[k]
    if np.ndim(x) == 0:
        return push(args, (1.0,))[1]
    y = fun(*args)
    columns = np.zeros_like(y, shape=(x.size,) + np.shape(y))
    for i in range(x.size):
        basis = np.zeros_like(x, shape=x.size)
        basis[i] = 1
        columns[i] = push(args, (basis.reshape(x.shape),))[1]
    if np.ndim(y) == 0:
        return columns.reshape(x.shape)
    return columns.reshape(x.size, y.size).T.reshape(y.shape + x.shape)


def run(step: Any, custom: Any, fixed: Any, args: Any) -> Any:
    """A function with a rule, or a part of that rule (``ruled.py``)."""
    return step(custom, fixed, args)


def sum_of_parts(fun: Any, rules: Any, primals: Any, tangents: Any) -> Any:
    """A jvp rule made of one for each argument."""
    out, dot = fun(*primals), None
    for rule, tangent in zip(rules, tangents):
        if rule is not None and tangent is not None:
            part = rule(tangent, out, *primals)
            dot = part if dot is None else dot + part
    return out, dot


def outputs(flatten: Any, fun: Any, args: Any, kwargs: Any) -> Any:
    """``fun`` with its result as a flat tuple: what is differentiated."""
    return flatten(fun(*args, **kwargs))
