"""Loops that are run many iterations at a time, where one matrix is multiplied with a vector of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import grad, jit, vmap

RNG = np.random.default_rng(0)
W, B, K = RNG.standard_normal((5, 4)), RNG.standard_normal(5), RNG.standard_normal((5, 5))
ROWS = RNG.standard_normal((300, 4))

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "layer": lambda w, x: np.tanh(w @ x + B),
    "two layers": lambda w, x: np.tanh(K @ np.tanh(w @ x)) @ B,
    "both sides": lambda w, x: w.T @ (x @ w.T) * x[0] + x[1:].sum(),
    "of vectors": lambda w, x: (w @ x) @ (w @ x) + (w @ x) @ B,
    "shapes": lambda w, x: (w @ x)[1:4].reshape(3, 1).T + np.ones((2, 3)) * x[2] + (B[:, None] * x[None, :])[:2, 1:],
    "reductions": lambda w, x: np.where(w @ x > 0, w @ x, x[1]).max() + np.cumsum(w @ x)[2] * (1 if x[0] > 0 else 2),
}


def looped(f: Callable[[Any, Any], Any], w: Any, rows: Any) -> Any:
    one = jit(f)
    return np.array([one(w, x) for x in rows])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str) -> None:
    f = PROGRAMS[name]

    def total(w: Any, rows: Any) -> Any:
        out = vmap(f, (None, 0))(w, rows)
        return (out * out).sum()
    assert any(products(vmap(f, (None, 0)), W, ROWS))
    each = looped(f, W, ROWS)
    for n in (2, 7, 256, 300):
        np.testing.assert_allclose(vmap(f, (None, 0))(W, ROWS[:n]), each[:n], rtol=1e-10, atol=1e-12)
    assert vmap(f, (None, 0))(W, ROWS[:0]).shape[0] == 0
    one = jit(lambda w, x: (f(w, x) ** 2).sum() if np.ndim(f(w, x)) else f(w, x) ** 2)
    by_w, by_rows = grad(total, (0, 1))(W, ROWS)
    of_one = grad(one, (0, 1))
    expected = [of_one(W, x) for x in ROWS]
    np.testing.assert_allclose(by_w, sum(e[0] for e in expected), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(by_rows, [e[1] for e in expected], rtol=1e-9, atol=1e-11)


def products(f: Any, *args: Any) -> list[bool]:
    """For each product of the compiled code whether it is one of matrices."""
    lines = [line for line in f.inspect("optimized", *args).splitlines() if " matmul " in line]
    return ["," in line[line.rindex(": f64["):] for line in lines]


def test_products_become_matrix_products() -> None:
    layer = PROGRAMS["two layers"]
    assert sum(products(vmap(layer, (None, 0)), W, ROWS)) == 2
    assert sum(products(vmap(grad(layer, 1), (None, 0)), W, ROWS)) == 4

    @jit
    def by_hand(w: Any, rows: Any) -> Any:
        out = np.zeros((len(rows), w.shape[0]))
        for i in range(len(rows)):
            out[i] = np.exp(w @ rows[i])
        return out
    assert products(by_hand, W, ROWS) == [True]
    np.testing.assert_allclose(by_hand(W, ROWS), np.exp(ROWS @ W.T), rtol=1e-12)


@pytest.mark.slow
def test_loops_that_stay() -> None:
    """What goes from one iteration to the next is not touched; what depends on its number is."""
    @jit
    def carried(w: Any, rows: Any) -> Any:
        out, s = np.zeros((len(rows), 4)), np.zeros(4)
        for i in range(len(rows)):
            s = np.tanh(w @ rows[i] + s)
            out[i] = s
        return out

    @jit
    def counting(w: Any, rows: Any) -> Any:
        out = np.zeros((len(rows), 4))
        for i in range(len(rows)):
            out[i] = w @ rows[i] * i
        return out

    @jit
    def in_place(w: Any, rows: Any) -> Any:
        rows = rows.copy()
        for i in range(1, len(rows)):
            rows[i] = w @ rows[i - 1]
        return rows
    w = W[:4] / 5
    s, expected = np.zeros(4), []
    for x in ROWS:
        s = np.tanh(w @ x + s)
        expected.append(s)
    np.testing.assert_allclose(carried(w, ROWS), expected, rtol=1e-10)
    np.testing.assert_allclose(counting(w, ROWS), (ROWS @ w.T) * np.arange(300)[:, None], rtol=1e-10, atol=1e-12)
    rows = ROWS.copy()
    for i in range(1, 300):
        rows[i] = w @ rows[i - 1]
    np.testing.assert_allclose(in_place(w, ROWS), rows, rtol=1e-10)
    for f in (carried, in_place):
        assert products(f, w, ROWS) == [False]
    assert products(counting, w, ROWS) == [True]


@pytest.mark.slow
def test_rows_in_a_row_are_a_slice() -> None:
    """Rows whose numbers count with the iterations are not copied, wherever they begin."""
    @jit(grad=(0, 1))
    def products_of_pairs(x: Any, weights: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            for j in range(i + 1, len(x)):
                total += np.dot(x[i], x[j]) * weights[j - i]
        return total

    @jit
    def beyond(x: Any, y: Any, first: int) -> Any:
        total = 0.0
        for i in range(len(x)):
            total += np.dot(x[i + first], y)
        return total
    code = products_of_pairs.inspect("optimized", ROWS, B)
    assert "matmul" in code and "take" not in code
    for n in (0, 1, 2, 40, 300):
        x, weights = ROWS[:n], RNG.standard_normal(n)
        upper = np.array([[weights[j - i] if j > i else 0.0 for j in range(n)] for i in range(n)]).reshape(n, n)
        np.testing.assert_allclose(products_of_pairs(x, weights), (upper * (x @ x.T)).sum(), rtol=1e-9, atol=1e-11)
        by_x, by_weights = products_of_pairs.grad(x, weights)
        np.testing.assert_allclose(by_x, (upper + upper.T) @ x, rtol=1e-9, atol=1e-10)
        expected = [np.trace(x @ x.T, d) if d else 0.0 for d in range(n)]
        np.testing.assert_allclose(by_weights, expected, rtol=1e-9, atol=1e-10)
    x = ROWS[:40]
    for first in (0, -40, -7):
        np.testing.assert_allclose(beyond(x, x[0], first), (x @ x[0]).sum(), rtol=1e-10)
    for first, wrong in ((1, 40), (40, 40), (-41, -41)):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
            beyond(x, x[0], first)


def test_errors_are_those_of_the_first_iteration() -> None:
    with pytest.raises(ValueError, match="not aligned"):
        vmap(PROGRAMS["layer"], (None, 0))(W, ROWS[:, :3])
    assert vmap(lambda w, x: w @ x, (None, 0))(W, ROWS[:0, :3]).shape == (0, 5)
