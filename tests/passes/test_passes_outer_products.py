"""Sums of outer products, which are kept as rows until there are many, in loops and recursions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, jit
from jitad.passes.algebra import outer_product_log, outer_products

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small arrays are worth it, and a log is soon full.  Products with rows are not taken out of their loop before."""
    monkeypatch.setattr(outer_product_log, "SMALL", 6)
    monkeypatch.setattr(outer_product_log, "ROWS", 3)
    monkeypatch.setenv("JITAD_OPT", "0")
    monkeypatch.setenv("JITAD_WITHOUT", "matrix_products")
    yield


def walk(w: Any, u: Any, rows: Any) -> Any:
    """Two matrices in one loop."""
    h = np.zeros(w.shape[0])
    for t in range(len(rows)):
        h = np.tanh(w @ h + u @ rows[t])
    return h.sum()


def chosen(w: Any, u: Any, rows: Any) -> Any:
    """One of the products is behind a branch, the other in an inner loop."""
    h = np.ones(w.shape[0])
    for t in range(len(rows)):
        if rows[t, 0] > 0:
            h = np.sin(w @ h)
        k = 0
        while k < t % 3:
            h = h + u @ rows[t] * 0.1
            k += 1
    return (h * h).sum()


def left(w: Any, u: Any, rows: Any) -> Any:
    """The matrix on the right of the vector, and a loop that leaves midway."""
    h = np.ones(w.shape[0])
    for t in range(len(rows)):
        h = np.tanh(h @ w + u @ rows[t])
        if h[0] > 0.99:
            break
    return h @ h


def inner(w: Any, u: Any, rows: Any) -> Any:
    """Two sums, one after the other, in each iteration."""
    total = 0.0
    for t in range(len(rows)):
        h = rows[t] @ u.T
        for _ in range(len(w) + 2):
            h = np.tanh(w @ h)
        total += h.sum() ** 2
    return total


def tree_of(n: int) -> tuple[Any, Any]:
    """The children of ``n`` nodes, in a binary tree of any shape."""
    children = -np.ones((2, n), np.int64)
    free = [(0, 0), (1, 0)]
    for node in range(1, n):
        side, parent = free.pop(RNG.integers(len(free)))
        children[side, parent] = node
        free += [(0, node), (1, node)]
    return children[0], children[1]


LEFT, RIGHT = tree_of(9)


def encode(w: Any, u: Any, x: Any, i: int) -> Any:
    if i < 0:
        return np.cos(u @ x)
    return np.tanh(w @ encode(w, u, x * 0.9, LEFT[i]) - encode(w, u, x, RIGHT[i]))


def tree(w: Any, u: Any, rows: Any) -> Any:
    return encode(w, u, rows[0], 0).sum() + encode(w, u, rows[1], 0).prod()


def even(w: Any, u: Any, rows: Any, t: int) -> Any:
    return np.ones(w.shape[0]) if t >= len(rows) else np.tanh(w @ odd(w, u, rows, t + 1))


def odd(w: Any, u: Any, rows: Any, t: int) -> Any:
    return np.zeros(w.shape[0]) if t >= len(rows) else np.sin(even(w, u, rows, t + 1)) + u @ rows[t]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "walk": walk, "chosen": chosen, "left": left, "inner": inner, "tree": tree,
    "mutual": lambda w, u, rows: even(w, u, rows, 0).sum(),
}


def given(n: int, m: int, steps: int) -> tuple[Any, Any, Any]:
    return RNG.normal(size=(n, n)) / n, RNG.normal(size=(n, m)), RNG.normal(size=(steps, m))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled as differences, to second order in part, and as without the pass, for few terms and many."""
    f, cases = PROGRAMS[name], [given(n, m, steps) for n, m, steps in ((3, 2, 7), (2, 4, 3), (1, 1, 4), (4, 3, 10))]
    by = grad(f, (0, 1))
    gradients = [by(*args) for args in cases]
    text = by.inspect("optimized", *cases[0])
    assert "%xs" in text and text.count("matmul {ta = True} %xs") >= 2, "the pass has found nothing"
    check_grads(f, cases[0], order=2 if name in ("walk", "mutual") else 1)
    monkeypatch.setattr(outer_products, "_has_terms", lambda func: False)
    again = grad(lambda w, u, rows: f(w, u, rows), (0, 1))
    for args, found in zip(cases, gradients):
        for g, e in zip(found, again(*args)):
            np.testing.assert_allclose(g, e, rtol=1e-10, atol=1e-12)
    assert "%xs" not in again.inspect("optimized", *cases[0])


@pytest.mark.slow
def test_many_terms() -> None:
    """A loop over many more terms than a log holds, in single precision."""
    w, u, rows = (a.astype(np.float32) for a in given(5, 4, 500))
    for g, e in zip(grad(walk, (0, 1))(w, u, rows), grad(walk, (0, 1))(*(a.astype(float) for a in (w, u, rows)))):
        assert g.dtype == np.float32
        np.testing.assert_allclose(g, e, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.long
def test_small_ones_are_added_at_once() -> None:
    """The log of a matrix with few elements has no rows; of one known to be small there is none."""
    args = given(2, 2, 5)
    f = jit(walk, grad=True)
    check_grads(f, args)
    fixed = jit(walk, grad=True, static_shapes=True)
    np.testing.assert_allclose(fixed.grad(*args), f.grad(*args), rtol=1e-12)


@pytest.mark.slow
def test_what_is_read_stays() -> None:
    """A sum that the loop reads is not touched."""
    @jit
    def powers(w: Any, x: Any) -> Any:
        total = np.zeros_like(w)
        for t in range(len(x)):
            total = total + np.outer(x, x * t)
            w = w + total * 0.01
        return w
    args = RNG.normal(size=(4, 4)), RNG.normal(size=4)
    check_grads(lambda w, x: powers(w, x).sum(), args, order=2)
    assert "%xs" not in powers.inspect("optimized", *args)
