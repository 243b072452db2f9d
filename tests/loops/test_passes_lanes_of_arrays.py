"""Lanes and arrays that the loop stores to: rows of a table, paths that are stored, choices that are stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(3)


def same(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def table(x: Any, move: Any, back: int = 1) -> Any:
    """Each row follows from the one before, or from itself."""
    a = np.zeros((5, len(x)))
    a[0] = x
    for t in range(1, 5):
        for s in range(len(x)):
            for r in range(len(x)):
                a[t, s] += a[t - 1, r] * move[r, s]
            a[t, s] = a[t, s] / (1.0 + a[t - 1, s] ** 2)
    return a


def rows_back(x: Any, move: Any, back: int = 1) -> Any:
    """Which row is read nobody knows before: it may be the one that is stored."""
    a = np.ones((5, len(x)))
    a[0] = x
    for t in range(1, 5):
        for s in range(len(x)):
            v = 0.0
            for r in range(len(x)):
                v += a[t - back, r] * move[r, s]
            a[t, s] = v
    return a


def every_other(x: Any, move: Any, back: int = 1) -> Any:
    """An inner loop reads the row that is stored, and another one."""
    a = np.ones((5, len(x)))
    a[0] = x
    for t in range(1, 5):
        for s in range(len(x)):
            v = 0.0
            for r in range(2):
                v += a[t - r, (s + 1) % len(x)] * move[r, s]
            a[t, s] = v
    return a


@pytest.mark.parametrize("f", [table, rows_back, every_other])
@pytest.mark.parametrize("n", [2, 16, 17, 37])
def test_rows_of_a_table(f: Callable[..., Any], n: int) -> None:
    x, move = RNG.normal(size=n), RNG.normal(size=(n, n)) / n
    fast = jit(f)
    assert ("^chunks" in fast.inspect("optimized", x, move, 1)) == (f is table)
    for back in (0, 1):
        same(fast(x, move, back), f(x, move, back))


@pytest.mark.slow
@pytest.mark.long
def test_gradients_of_a_table() -> None:
    def ends(x: Any, move: Any) -> float:
        a = table(x, move)
        return np.sum(a[4] * a[2])
    for n in (3, 21):
        check_grads(ends, (RNG.normal(size=n), RNG.normal(size=(n, n)) / n), order=1)


def paths(z: Any, start: float, rate: float) -> Any:
    """Stored states; the check of the root comes behind stores of the iteration before."""
    x = np.zeros((z.shape[0], z.shape[1] + 1))
    for i in range(z.shape[0]):
        x[i, 0] = start
        for t in range(z.shape[1]):
            x[i, t + 1] = x[i, t] + rate * math.sqrt(x[i, t] + 1.0) * z[i, t]
    return x


@pytest.mark.slow
def test_paths_that_are_stored() -> None:
    fast = jit(paths)
    z = RNG.normal(size=(37, 9)) / 4
    assert "^chunks" in fast.inspect("optimized", z, 0.5, 0.3)
    for n in (37, 33, 16, 15, 0):
        same(fast(z[:n], 0.5, 0.3), paths(z[:n], 0.5, 0.3))
    check_grads(lambda z, s, r: np.sum(paths(z, s, r) ** 2), (z[:18], 0.5, 0.3), order=1)
    for i, t in ((0, 0), (17, 3), (36, 7)):
        bad = z.copy()
        bad[i, t] = -99.0
        with pytest.raises(ValueError, match="math domain error"):
            fast(bad, 0.5, 0.3)
    z[3, 8] = -99.0                                              # nothing is computed from the last state
    same(fast(z, 0.5, 0.3), paths(z, 0.5, 0.3))


def updated_paths(z: Any, x: Any) -> Any:
    """A check reads what the loop has stored before, so that a chunk could not be executed again."""
    x = x.copy()
    for i in range(z.shape[0]):
        for t in range(z.shape[1]):
            x[i] = math.sqrt(x[i]) + z[i, t]
    return x


def test_checks_of_what_is_updated() -> None:
    z, x = abs(RNG.normal(size=(35, 7))), abs(RNG.normal(size=35))
    same(jit(updated_paths)(z, x), updated_paths(z, x))
    z[20, 5] = -9.0
    for f in (jit(updated_paths), updated_paths):
        with pytest.raises(ValueError, match="math domain error"):
            f(z, x)


def choices(score: Any, move: Any) -> Any:
    """The best of each column with its index, which is stored and checked behind the loop."""
    best_of, after = np.zeros(move.shape[1], dtype=np.int64), np.zeros(move.shape[1])
    for s in range(move.shape[1]):
        best = 0
        for r in range(1, len(score)):
            if score[r] + move[r, s] > score[best] + move[best, s]:
                best = r
        best_of[s] = best
        after[s] = score[best] + 2.0 * move[best, s]
    return best_of, after


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("n", [1, 16, 23])
def test_choices(n: int) -> None:
    score, move = RNG.normal(size=9), RNG.normal(size=(9, n))
    move[4] = move[2]
    fast = jit(choices)
    assert "^chunks" in fast.inspect("optimized", score, move) or n == 1
    for k in (9, 2, 1):
        for got, wanted in zip(fast(score[:k], move[:k]), choices(score[:k], move[:k]), strict=True):
            np.testing.assert_array_equal(got, wanted)
    with pytest.raises(IndexError):
        fast(score[:1], move[:0])
    check_grads(lambda s, m: np.sum(choices(s, m)[1] ** 2), (score, move), order=1)


def nearest_rows(p: Any, c: Any) -> float:
    """The lanes gather a row each, of any length."""
    total = 0.0
    for i in range(len(p)):
        best, at = math.inf, 0
        for k in range(len(c)):
            d = abs(p[i, 0] - c[k, 0]) + abs(p[i, 1] - c[k, 1])
            if d < best:
                best, at = d, k
        total += np.sum(c[at] * c[at, 1]) + best
    return total


@pytest.mark.slow
@pytest.mark.long
def test_rows_that_lanes_gather() -> None:
    fast = jit(nearest_rows)
    for d in (2, 3, 6):
        p, c = RNG.normal(size=(40, d)), RNG.normal(size=(5, d))
        assert "^chunks" in fast.inspect("optimized", p, c)
        same(fast(p, c), nearest_rows(p, c))
    check_grads(nearest_rows, (p[:18], c), order=1)


def conditional(z: Any, strike: float, scale: float) -> float:
    """A conditional sum around an inner loop whose reverse sweep keeps arrays."""
    total = 0.0
    for i in range(len(z)):
        v = 1.0
        for t in range(z.shape[1]):
            v = max(v + scale * math.sqrt(v) * z[i, t], 0.1)
        if math.exp(v) > strike:
            total += math.exp(v) - strike
    return total


@pytest.mark.slow
def test_conditional_sums_of_gradients() -> None:
    z = RNG.normal(size=(37, 6))
    fast = jit(conditional, grad=(1, 2))
    assert "^chunks" in fast.value_and_grad.inspect("optimized", z, 2.0, 0.3)
    same(fast(z, 2.0, 0.3), conditional(z, 2.0, 0.3))
    check_grads(lambda *p: conditional(z, *p), (2.0, 0.3), order=1)


def filtered(z: Any, p: Any, start: float) -> float:
    """An inner loop continues the sum, along a state; so does the loop around, and both subtract."""
    loss = start
    for i in range(len(z)):
        m, v = 0.0, 1.0
        for t in range(z.shape[1]):
            v += p[0]
            e = z[i, t] - m
            loss -= 0.5 * (math.log(v + p[1]) + e * e / (v + p[1]))
            k = v / (v + p[1])
            m, v = m + k * e, v * (1.0 - k)
        loss += 0.1 * m
        loss -= v
    return loss


def polynomials(z: Any, p: Any, start: float) -> float:
    """Loops in loops, a branch that is the same for all lanes, and two sums, one of integers in floats."""
    total, count = start, 0.0
    for i in range(len(z)):
        for j in range(len(p)):
            s = 0.0
            for t in range(z.shape[1]):
                s = s * 0.5 * z[i, 0] + z[i, t]
            total += s * p[j]
            if p[j] > 0.0:
                total -= z[i, 0] * s
                count += 1.0
    return total + 1e-3 * count


def deviations(z: Any, p: Any, start: float) -> float:
    """Only other inner loops have sums along rows, for which lanes are worth it."""
    total = start
    for i in range(len(z)):
        mean = 0.0
        for t in range(z.shape[1]):
            mean += z[i, t]
        mean /= z.shape[1] + 1
        for t in range(z.shape[1]):
            total += p[0] * (z[i, t] - mean) ** 2
    return total


def one_sum_or_another(z: Any, p: Any, start: float) -> float:
    """Two sums change places, so that neither can be collected."""
    a, b = start, 1.0
    for i in range(len(z)):
        for t in range(z.shape[1]):
            s = 0.0
            for j in range(len(p)):
                s = s * 0.5 + p[j] * z[i, t]
            a += s
        a, b = b, a
    return a - 0.5 * b


def doubled(z: Any, p: Any, start: float) -> float:
    """What the inner loop reads of the sum is no addition."""
    total = start
    for i in range(len(z)):
        s = 0.0
        for t in range(z.shape[1]):
            s = s * 0.5 + z[i, t] * p[0]
            total += s
        total *= 0.9
    return total


SUMS = [filtered, polynomials, deviations]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [*SUMS, one_sum_or_another, doubled])
def test_sums_that_inner_loops_continue(f: Callable[..., float]) -> None:
    fast, p = jit(f), np.array([0.3, 0.7])
    z = RNG.normal(size=(50, 7))
    text = fast.inspect("optimized", z, p, 0.5)
    assert ("%terms" in text) == (f in SUMS)
    for n in (50, 48, 33, 16, 15, 1, 0):
        for m in (7, 1) if f is polynomials else (7, 1, 0):
            same(fast(z[:n, :m], p, 0.5), f(z[:n, :m], p, 0.5))
    check_grads(lambda p, s: f(z[:18], p, s), (p, 0.5), order=1)
    long = RNG.normal(size=(20, 2000))
    same(fast(long, p, 0.5), f(long, p, 0.5))


def test_the_order_of_collected_terms_stays() -> None:
    """Large terms that cancel, which another order would leave as another number; products are exact."""
    fast, p = jit(polynomials), np.array([1.0, -0.25])
    z = np.round(RNG.normal(size=(37, 3)) * 4) * 2.0 ** np.arange(0, 111, 3)[:, None]
    assert fast(z, p, 1.0) == polynomials(z, p, 1.0)


def test_a_check_fails_beside_a_collected_sum() -> None:
    fast, p, z = jit(filtered), np.array([0.3, 0.7]), RNG.normal(size=(40, 5))
    same(fast(z, p, 0.5), filtered(z, p, 0.5))
    with pytest.raises(ValueError, match="math domain error"):
        fast(z, np.array([-3.0, 0.7]), 0.5)


def two_products(w: Any, x: Any, u: Any, h: Any) -> Any:
    """The rows of ``u`` are checked behind updates of what the lanes read."""
    out = np.zeros(len(w))
    for i in range(len(w)):
        for k in range(len(x)):
            out[i] += w[i, k] * x[k]
        for k in range(len(h)):
            out[i] += u[i, k] * h[k]
    return np.tanh(out)


@pytest.mark.slow
def test_checks_of_indices_go_ahead_of_updates() -> None:
    fast = jit(two_products)
    w, x, u, h = RNG.normal(size=(50, 7)), RNG.normal(size=7), RNG.normal(size=(50, 9)), RNG.normal(size=9)
    assert "^chunks" in fast.inspect("optimized", w, x, u, h)
    for n in (50, 48, 33, 17, 16, 15, 1, 0):
        same(fast(w[:n], x, u, h), two_products(w[:n], x, u, h))
    check_grads(lambda w, x, u, h: np.sum(two_products(w, x, u, h)), (w[:18], x, u, h), order=1)
    for short in (49, 40, 3, 0):
        with pytest.raises(IndexError, match=f"index {short} is out of bounds"):
            fast(w, x, u[:short], h)
        same(fast(w, x, u[:short], h[:0]), two_products(w, x, u[:short], h[:0]))      # not one of its rows is read


def of_labels(scores: Any, labels: Any) -> float:
    """Each iteration makes an array, and reads it at an index of its own."""
    total = 0.0
    for i in range(len(scores)):
        out = np.zeros(scores.shape[1])
        norm = 0.0
        for c in range(len(out)):
            out[c] = math.exp(scores[i, c])
            norm += out[c]
        total += out[labels[i]] / norm
    return total


@pytest.mark.slow
@pytest.mark.long
def test_elements_of_arrays_of_each_lane() -> None:
    fast, z = jit(of_labels), RNG.normal(size=(50, 6))
    at = RNG.integers(-6, 6, 50)
    assert "^chunks" in fast.inspect("optimized", z, at) and "take" in fast.inspect("optimized", z, at)
    for n in (50, 48, 33, 17, 16, 15, 1, 0):
        same(fast(z[:n], at[:n]), of_labels(z[:n], at[:n]))
    check_grads(lambda z: of_labels(z, at[:18]), (z[:18],), order=1)
    for wrong, place in ((6, 0), (-7, 20), (6, 49)):
        at[place] = wrong
        with pytest.raises(IndexError):
            fast(z, at)
        at[place] = 0


def discounts(rates: Any) -> Any:
    """Each element follows from the sum of those before; the adjoint adds to all of these."""
    price = 0.0
    for row in rates:
        factors = np.zeros(len(row))
        for i in range(len(row)):
            factors[i] = (1.0 - row[i] * np.sum(factors[:i])) / (1.0 + row[i])
        price += factors[-1] + np.sum(np.log(factors))
    return price


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 7), (16, 5), (40, 12), (17, 2)])
def test_reductions_of_what_the_lanes_have_stored(shape: tuple[int, ...]) -> None:
    rates = RNG.uniform(0.01, 0.05, shape)
    fast = jit(discounts, grad=True)
    assert "^chunks" in fast.inspect("optimized", rates)
    same(fast(rates), discounts(rates))
    value, slope = fast.value_and_grad(rates)
    same(value, discounts(rates))
    way = RNG.normal(size=shape)
    step = 1e-6
    numeric = (discounts(rates + step * way) - discounts(rates - step * way)) / (2.0 * step)
    np.testing.assert_allclose(np.sum(slope * way), numeric, rtol=1e-6)


@pytest.mark.slow
def test_many_reductions_of_stored_elements_leave_the_cache() -> None:
    """More elements than the lanes keep: the loop runs as it is written."""
    rates = RNG.uniform(0.0001, 0.0002, (18, 1100))
    same(jit(discounts)(rates), discounts(rates))


@pytest.mark.parametrize("n", [8, 16, 21])
def test_largest_of_columns_with_odd_numbers(n: int) -> None:
    """The lanes examine NaN and zeros ahead of what they wait for."""
    def best(x: Any, move: Any) -> Any:
        out = np.empty(len(x))
        for s in range(len(x)):
            out[s] = np.max(x + move[:, s])
        return out

    def least(x: Any, move: Any) -> Any:
        out = np.empty(len(x))
        for s in range(len(x)):
            out[s] = np.min(x * move[:, s])
        return out
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0])
    for f in (best, least):
        fast = jit(f)
        for _ in range(30):
            x, move = RNG.choice(odd[2:], n), RNG.choice(odd if RNG.random() < 0.3 else odd[3:], (n, n))
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(fast(x, move), f(x, move))
