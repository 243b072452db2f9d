"""Remainders of numbers near their range become comparisons and selections (``passes/loops/check_elimination.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

pytestmark = pytest.mark.any_level


def following(a: Any, at: Any) -> float:
    """An index may be negative."""
    total = 0.0
    for k in range(len(at)):
        i = at[k]
        total += a[i] * a[(i + 1) % len(a)]
    return total


def before(a: Any, at: Any) -> float:
    """One before -n is below -n, so this stays a remainder where an index may be negative."""
    total = 0.0
    for k in range(len(at)):
        i = at[k]
        total += a[i] * a[(i - 1) % len(a)]
    return total


def neighbours(a: Any, at: Any) -> float:
    total = 0.0
    for k in range(len(at)):
        i = at[k]
        if i >= 0:
            total += a[i] * (a[(i - 1) % len(a)] - 2.0 * a[(i + 1) % len(a)])
    return total


def ring(a: Any, at: Any) -> float:
    head, total = 0, 0.0
    for k in range(len(at)):
        total += a[head] * k
        if at[k] % 2 == 0:
            head = (head + 1) % len(a)
    return total


def far(a: Any, at: Any) -> float:
    total = 0.0
    for k in range(len(at)):
        i = at[k]
        total += a[i] + a[(i + 2) % len(a)] * a[(3 * i) % len(a)]
    return total


def torus(a: Any) -> float:
    """Neighbours on a ring of counters; what an element is replaced by is cleared more than once in an iteration."""
    n, total = len(a), 0.0
    best = np.zeros(n)
    for t in range(3):
        for i in range(n):
            best[i] = a[i] * t
            for d in range(-1, 2):
                if a[(i + d) % n] > best[i]:
                    best[i] = a[(i + d) % n] * best[(i - d) % n]
        total += best[0] + best[n - 1]
    return total


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_remainders_of_counters(n: int) -> None:
    a = np.random.default_rng(n).normal(size=n)
    assert jit(torus)(a) == pytest.approx(torus(a), rel=1e-12)
    check_grads(torus, (a,), order=1)


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("f", [following, before, neighbours, ring, far], ids=lambda f: f.__name__)
def test_values_and_gradients(f: Callable[..., float], n: int) -> None:
    a, at = np.random.default_rng(n).normal(size=n), np.array([*range(-n, n), *range(-n, n)])
    assert jit(f)(a, at) == pytest.approx(f(a, at), rel=1e-12)
    check_grads(lambda x: f(x, at), (a,), order=1)
    for wrong in (n, -n - 1):
        if f is not ring and not (f is neighbours and wrong < 0):
            with pytest.raises(IndexError):
                jit(f)(a, np.array([wrong]))


@pytest.mark.parametrize("f, left", [(following, 0), (before, 1), (neighbours, 0), (far, 2)],
                         ids=lambda p: getattr(p, "__name__", str(p)))
def test_what_stays_a_remainder(f: Callable[..., float], left: int) -> None:
    compiled = jit(f)
    compiled(np.ones(3), np.array([0, 1]))
    assert compiled.inspect("adjoint").count(" mod ") == left


def round_a_table(a: Any, at: Any) -> float:
    k, total = 0, 0.0
    for i in range(len(at)):
        total = 0.5 * total + a[k] * at[i]
        k = (k + 1) % len(a)
    return total


@pytest.mark.slow
def test_the_end_of_a_table_is_followed_by_its_beginning() -> None:
    f, at = round_a_table, np.arange(-3, 20)
    fast = jit(f)
    for n in (1, 2, 5, 8):
        a = np.random.default_rng(n).normal(size=n)
        assert np.isclose(fast(a, at), f(a, at), rtol=1e-14)
        check_grads(lambda a: f(a, at), (a,), order=1)
    text = fast.inspect("optimized", a, at)
    assert " mod " not in text and " eq " in text
    with pytest.raises(IndexError):
        fast(np.zeros(0), np.array([0]))
