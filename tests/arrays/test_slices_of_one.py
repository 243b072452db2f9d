"""Slices of arrays of one element have one or none, and broadcast to none if they have none, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit


def stored(x: Any, n: int) -> Any:
    z = np.ones(3)
    z[:n] = x[:n]
    return z


def scaled(x: Any, n: int) -> Any:
    z = np.ones(3)
    z[:n] += 2.0 * x[:n]
    return z


def whole(x: Any, n: int) -> Any:
    z = np.zeros(n)
    z[:] = x[:n] + 1.0
    return z


def added(x: Any, n: int) -> Any:
    return np.ones(n) * 3.0 + x[:n]


def rest(x: Any, n: int) -> Any:
    return np.arange(1.0 - n) - x[n:]


def rows(x: Any, n: int) -> Any:
    z = np.zeros((2, n))
    z[:, :] = np.stack([x, x])[:, :n]
    return z


FUNCTIONS: list[Callable[[Any, int], Any]] = [stored, scaled, whole, added, rest, rows]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_one_or_none(f: Callable[[Any, int], Any]) -> None:
    compiled = jit(f)
    for n in (0, 1, 2):
        if n < 2 or f is not rest:                            # a negative number is none
            np.testing.assert_array_equal(compiled(np.array([5.0]), n), f(np.array([5.0]), n))
    for n in (0, 1):
        squares = jit(lambda x, f=f, n=n: np.sum(f(x, n) ** 2), grad=True)
        check_grads(squares, (np.array([5.0]),), order=1, modes=("rev",))


def test_none_does_not_fill_some() -> None:
    def f(x: Any, n: int, m: int) -> Any:
        z = np.ones(3)
        z[:m] = x[:n]
        return z

    compiled = jit(f)
    np.testing.assert_array_equal(compiled(np.array([5.0]), 1, 3), [5.0, 5.0, 5.0])
    with pytest.raises(ValueError, match="could not broadcast an array with size 0 to size 2"):
        compiled(np.array([5.0]), 0, 2)
