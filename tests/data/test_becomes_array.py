"""A number to which arrays are added in a loop: it becomes an array in the first iteration, and is written in place."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError, check_grads, jit

pytestmark = pytest.mark.any_level

X = np.arange(1.0, 13.0).reshape(3, 4)


def rebound(op: str, start: Any) -> Callable[..., Any]:
    update = getattr(operator, op)

    def total(X):
        s = start
        for row in X:
            s = update(s, row)
        return s
    total.__name__ = f"{op}_{start}"
    return total


def added(X):
    s = 0.0
    for row in X:
        s += row
    return s


def multiplied(X):
    s = 1
    for row in X:
        s *= row
    return s


def subtracted(X):
    s = 0.0
    for i in range(len(X)):
        s -= X[i] * X[i]
    s += 1.0
    return s


def in_a_while(X):
    s, i = 0.0, 0
    while i < len(X):
        s += X[i]
        i += 1
    return s * s


def two_at_once(X):
    s = t = 0.0
    for row in X:
        s += row
        t += s
    return t - s


def on_two_paths(X):
    s, c = 0.0, 0.0
    for row in X:
        if row[0] > 3:
            s += row
        else:
            c -= row
    return s * c


def nested(X):
    s = 0.0
    for row in X:
        for v in row:
            s += v * row
    return s


def in_a_list(X):
    p = [0.0, 1.0]
    for row in X:
        p[0] += row
        p[1] -= row * row
    return p[0] * p[1]


def in_a_dict(X):
    d = {"a": 0.0}
    for row in X:
        d["a"] += row
    return d["a"]


def none_at_first(X):
    s = None
    for row in X:
        if s is None:
            s = row.copy()
        else:
            s += row
    return 0.0 if s is None else s


FUNCTIONS = [added, multiplied, subtracted, in_a_while, two_at_once, on_two_paths, nested, in_a_list, in_a_dict,
             none_at_first, rebound("add", 0.0), rebound("sub", 0), rebound("mul", 1.0)]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_in_numpy(f: Callable[..., Any]) -> None:
    compiled = jit(f)
    for x in (X, X[:1], X[:0]):
        found, expected = compiled(x), f(x)
        assert np.array_equal(found, expected)
        assert isinstance(found, np.ndarray) == isinstance(expected, np.ndarray)
    check_grads(lambda x: np.sum(f(x)), (X,))
    assert np.array_equal(jit(lambda x: np.sum(f(x)), grad=True).grad(X[:0]), X[:0])


def test_the_array_that_is_written_is_nobody_elses() -> None:
    @jit
    def kept(X):
        s = 0.0
        for row in X:
            t = s
            s += row                                  # which NumPy writes into ``t`` too
        return s - t
    with pytest.raises(UnsupportedError, match="one of several arrays(?s:.*)`x = x \\+ y`"):
        kept(X)

    @jit
    def first_is_the_argument(X):
        s = 0.0
        for row in X:
            s = row if isinstance(s, float) else s + row
        return s
    assert np.array_equal(first_is_the_argument(X), X.sum(0)) and X[0, 0] == 1.0


def test_what_cannot_be_added() -> None:
    @jit
    def text(X):
        s = "x"
        for row in X:
            s += row
        return s
    with pytest.raises(TypeError):
        text(X)
