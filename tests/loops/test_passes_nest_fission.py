"""Nests that move out of a loop, for vectors: same values, same errors, right derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, hessian, interpret, jit, value_and_grad

from .test_passes_outer_loop import same, without_lanes

RNG = np.random.default_rng(0)
COUNTS = (0, 1, 15, 16, 17, 40, 511, 512, 513, 1100)
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def data(n: int, k: int = 5, d: int = 3) -> Arrays:
    return RNG.normal(size=(n, d)), RNG.normal(size=(k, d)), RNG.integers(0, 3, max(n, k))


def clusters(x: Any, c: Any, kinds: Any) -> Any:
    """The rest updates elements at indices that the nest gives."""
    sums, counts, loss = np.zeros(c.shape), np.zeros(len(c)), 0.0
    for i in range(len(x)):
        best, at = 1e30, 0
        for p in range(len(c)):
            s = 0.0
            for q in range(x.shape[1]):
                s += (x[i, q] - c[p, q]) ** 2
            if s < best:
                best = s
                at = p
        loss += best
        counts[at] += kinds[i]
        for q in range(x.shape[1]):
            sums[at, q] += x[i, q]
    return loss, counts, sums


def walks(x: Any, c: Any, kinds: Any) -> float:
    """The rest has a loop of unknown length; a carried number is changed ahead of the nest."""
    total, weight = 0.0, 1.0
    for i in range(len(x)):
        weight = 0.9 * weight + 0.1 * i
        least, at = 1e30, -1
        for p in range(len(c)):
            s = 0.0
            for q in range(x.shape[1]):
                s += abs(x[i, q] - c[p, q])
            if s < least:
                least, at = s, p
        if least < 1.5 and at >= 0:
            j = at
            while j > 0 and kinds[j] == kinds[at]:
                j -= 1
            total += weight * kinds[j] * math.exp(-least)
    return total


def two_nests(x: Any, c: Any, kinds: Any) -> float:
    """Two nests in a row, with a sum between them; the rest reads a condition, an integer and a number of them."""
    total, state = 0.0, 1.0
    for i in range(len(x)):
        a = 0.0
        for p in range(len(c)):
            a = 0.5 * a + math.sin(x[i, 0] * c[p, 0])
        total += a
        near, count = False, 0
        for p in range(len(c)):
            s = 0.0
            for q in range(x.shape[1]):
                s += x[i, q] * c[p, q]
            near = near or s > 2.0
            count += 1 if s > 0 else 0
        if near:
            state = 1.0 / (1.0 + state * state) + 0.1 * count
        elif kinds[i] == 1:
            state = math.sqrt(state) + a * a
    return total + state


def sides(x: Any, c: Any, kinds: Any) -> float:
    """The nest is on one side of a branch that all iterations take."""
    total, state = 0.0, 0.5
    for i in range(len(x)):
        if kinds[0] > 0:
            s = 0.0
            for p in range(len(c)):
                t = 1.0
                for q in range(x.shape[1]):
                    t = 0.5 * t + x[i, q] * c[p, q]
                s += t * t
            if s > 4.0:
                state = 0.5 * state + math.tanh(s)
            else:
                total += s
        else:
            total += x[i, 0]
        if state > 0.9:
            total += state
            state = 0.25
    return total


PROGRAMS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (clusters, walks, two_nests, sides)}


def loss(f: Callable[..., Any], kinds: np.ndarray) -> Callable[..., Any]:
    def total(x: Any, c: Any) -> Any:
        found = f(x, c, kinds)
        return found if not isinstance(found, tuple) else found[0] + np.sum(found[2] ** 2)
    return total


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    f = PROGRAMS[name]
    fast = jit(f)
    text = fast.inspect("optimized", *data(40))
    assert "^stores" in text and "^chunks" in text
    for n in COUNTS:
        args = data(n)
        args[2][0] = 1
        same(fast(*args), f(*args))
    args = data(50, 3, 1)
    same(fast(*args), f(*args))
    if f is not clusters:
        args = data(40, 0)
        same(fast(*args), f(*args))
    args = data(50)
    same(fast(args[0][::-2], np.asfortranarray(args[1]), args[2]), f(args[0][::-2], args[1], args[2]))
    args[2][0] = 0
    same(fast(*args), f(*args))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str) -> None:
    for n in (1, 17, 600):
        x, c, kinds = data(n)
        kinds[0] = 1
        total = loss(PROGRAMS[name], kinds)
        if n < 100:
            check_grads(total, (x, c), modes=("rev",))
        with without_lanes():
            slow = jit(value_and_grad(total, (0, 1)))(x, c)
        same(jit(value_and_grad(total, (0, 1)))(x, c), slow)


@pytest.mark.slow
def test_errors_come_from_the_right_iteration() -> None:
    """What the rest raises comes before what the nest would raise later, and nothing is read out of bounds."""
    def picks(x: Any, c: Any, at: Any) -> Any:
        out = np.zeros(len(c))
        for i in range(len(x)):
            s = 0.0
            for p in range(len(c)):
                for q in range(x.shape[1]):
                    s = 0.5 * s + x[i, q] * c[p, q]
            out[at[i]] += s
        return out
    fast = jit(picks)
    x, c, at = data(60)
    assert "^stores" in fast.inspect("optimized", x, c, at)
    same(fast(x, c, at), picks(x, c, at))
    at[37] = 5
    with pytest.raises(IndexError, match="5"):
        fast(x, c, at)
    with pytest.raises(IndexError):
        fast(x, c[:, :2], at)                               # the nest raises in its first iteration
    with pytest.raises(IndexError):
        fast(x, c, at[:20])


def test_a_nest_that_begins_with_the_result_of_another_loop_stays() -> None:
    """The rows of the second derivatives are filled by a loop, and transposed in the block that a branch leaves."""
    def f(x: Any, n: int, v: Any, m: Any) -> Any:
        z = np.zeros(2 * len(v) + 3)
        for i in range(len(v) - 1):
            a = hessian(lambda t: x)(np.array([0.5, -0.25, 1.5]))[1, 2]
            for j in range(n % 3):
                for k in range(2):
                    a += m[k, j] * v[i]
                z[len(v) // 2] = a
        return z.sum()
    v, m = RNG.normal(size=9), RNG.normal(size=(2, 3))
    assert jit(f)(0.3, 5, v, m) == pytest.approx(interpret(f, 0.3, 5, v, m))
