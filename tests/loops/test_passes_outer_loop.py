"""Iterations of outer loops that run side by side: same values, same errors, right derivatives."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit, value_and_grad

RNG = np.random.default_rng(0)
COUNTS = (0, 1, 15, 16, 17, 31, 32, 33, 48, 49, 100)


def data(n: int, k: int = 3, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    return RNG.normal(size=(n, d)), RNG.normal(size=(k, d, d)) / d


def mixture(x: Any, q: Any) -> float:
    """Arrays that an iteration makes, loops of uniform length in it, an ordered sum, a maximum, a logarithm."""
    total = 0.0
    for i in range(len(x)):
        terms = np.empty(len(q))
        for k in range(len(q)):
            s = np.zeros(x.shape[1])
            for j in range(x.shape[1]):
                c = x[i, j] * x[i, j] - k
                for r in range(j, x.shape[1]):
                    s[r] += q[k, r, j] * c
            square = 0.0
            for j in range(len(s)):
                square += s[j] * s[j]
            terms[k] = -square
        biggest = np.max(terms)
        shifted = 0.0
        for k in range(len(q)):
            shifted += math.exp(terms[k] - biggest)
        total += biggest + math.log(shifted)
    return total


def stored(x: Any, q: Any) -> Any:
    """Each iteration stores its own elements, whole rows as well."""
    out, rows = np.empty(len(x)), np.zeros((len(x), x.shape[1]))
    for i in range(len(x)):
        h = x[i].copy()
        for k in range(len(q)):
            new = np.zeros(x.shape[1])
            for a in range(len(h)):
                for b in range(len(h)):
                    new[a] += q[k, a, b] * h[b]
            h = np.tanh(new) + i
        out[i] = np.sum(h)
        rows[i] = h
    return out, rows


def branches(x: Any, q: Any) -> float:
    """Branches on what is the same for all, a value chosen by what is not, an index that is used as a number."""
    total = 1.0
    for i in range(len(x)):
        y, z = 0.5 * i, x[i, 0]
        for k in range(len(q)):
            for j in range(x.shape[1]):
                y = 0.5 * y + q[k, j, 0] * z if q[k, 0, 0] > 0 else y - 0.1 * q[k, 0, j]
            y = max(y, -y / 2) + (1.0 if i > 20 else -1.0)
        total += y
        total -= 0.5 * y * y
    return total


def shared(x: Any, q: Any) -> Any:
    """Arrays that all iterations add to, at places of theirs and at the same ones."""
    a, b = np.zeros(q.shape), np.zeros(len(x) + 1)
    for i in range(len(x)):
        total = 0.0
        for k in range(len(q)):
            w = x[i, 0] * k
            for j in range(x.shape[1]):
                w = w * 0.5 + q[k, j, j]
                for r in range(x.shape[1]):
                    w += 0.25 * q[k, j, r]
            total += w
        b[i + 1] += total
        b[i] += 1.0
    return a, b


def filtered(x: Any, q: Any) -> float:
    """Lanes and inner iterations read neighbours, and the inner sum is ordered."""
    flat, h = x[:, 0], q[0, :, 0]
    energy = 0.0
    for i in range(len(h) - 1, len(flat)):
        y = 0.0
        for k in range(len(h)):
            y += h[k] * flat[i - k]
        energy += y * y
    return energy


def product(x: Any, q: Any) -> Any:
    """A product by the definition, with the element updated in place; its columns are lanes."""
    c = np.zeros((q.shape[1], len(x)))
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0.5 * i
            for k in range(q.shape[2]):
                c[i, j] += q[0, i, k] * x.T[k, j]
    return c


def columns(x: Any, q: Any) -> Any:
    """Each lane reads what it has stored itself, in other rows of its column."""
    best = np.zeros((4, len(x)))
    for j in range(len(x)):
        for i in range(1, 4):
            above = best[i - 1, j] + x[j, 0]
            for r in range(q.shape[1]):
                best[i, j] = 0.5 * best[i, j] + above * q[0, 0, r]
    return best


def rows(x: Any, q: Any) -> Any:
    """Each lane reads a row of its own, and sums along it in order."""
    total, sums = 0.0, np.zeros(len(x))
    for i in range(len(x)):
        for j in range(x.shape[1]):
            sums[i] += x[i, j] * q[0, 0, j]
        total = total + sums[i] * i
    return total, sums


def downwards(x: Any, q: Any) -> Any:
    """Later iterations access earlier elements; what they add to one variable is added in order."""
    flat, h, back, n = x.T, q[0, :, 0], np.zeros(len(x)), len(x)
    energy = 1e16
    for i in range(n):
        y = 0.0
        for k in range(len(h)):
            y += h[k] * flat[k, n - 1 - i]
        back[n - 1 - i] = y
        energy += y * y - 1.0
    return energy, back


PROGRAMS: dict[str, Callable] = {f.__name__: f for f in (mixture, stored, branches, shared, filtered, product, columns,
                                                         rows, downwards)}


def without_lanes() -> Any:
    return mock.patch.dict(os.environ, JITAD_WITHOUT="outer_loop")


def same(a: Any, b: Any) -> None:
    for u, v in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-12, atol=1e-12)


def leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple):
        for part in x:
            yield from leaves(part)
    else:
        yield x


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    f = PROGRAMS[name]
    fast = jit(f)
    assert "^chunks" in fast.inspect("optimized", *data(40))
    for n in COUNTS:
        args = data(n)
        same(fast(*args), f(*args))
    args = data(50, 2, 1)
    same(fast(*args), f(*args))


def test_iterations_that_two_chunks_execute_count_once() -> None:
    """The last chunk overlaps the one before: sums are the same to the bit, infinities are not added twice."""
    def powers(x: Any, q: Any) -> Any:
        total, back = 0.0, np.ones(len(x))
        for i in range(len(x)):
            y = x[i, 0]
            for k in range(len(q)):
                for j in range(x.shape[1]):
                    y = y * 0.5 + q[k, j, 0]
            back[len(x) - 1 - i] += y
            total += y
        return total, back
    fast = jit(powers)
    q, integers = np.ones((1, 4, 1)), np.arange(200.0).reshape(50, 4) / 2
    assert "^chunks" in fast.inspect("optimized", integers, q)
    for n in range(16, 50):
        for x in (integers[:n], np.where(integers[:n] == 62, np.inf, integers[:n])):
            for got, wanted in zip(fast(x, q), powers(x, q), strict=True):
                np.testing.assert_array_equal(got, wanted)


def covariances(x: Any, q: Any) -> Any:
    """Products of all pairs of columns: in the derivative, lanes add to neighbours and all of them to one element."""
    c = np.zeros((len(x), len(x)))
    columns, rate = x.T, q[0, 0, 0]
    for i in range(len(x)):
        for j in range(len(x)):
            c[i, j] = rate
            for t in range(x.shape[1]):
                c[i, j] += columns[t, i] * columns[t, j]
    return c


def bags(x: Any, q: Any) -> Any:
    """Rows that data choose, some of them twice, summed by columns."""
    table, sums = x.T, np.zeros(len(x))
    for d in range(len(x)):
        for k in range(6):
            sums[d] += table[(k * k) % 4 - (4 if q[0, 0, 0] > 0 else 0), d]
    return sums


def neighbours(x: Any, q: Any) -> Any:
    """Each iteration reads what the one before has stored."""
    c = np.zeros(len(x) + 1)
    for i in range(len(x)):
        for r in range(3):
            c[i + 1] += 0.5 * c[i] + x[i, 0] * r
    return c


def rows_above(x: Any, q: Any) -> Any:
    """An iteration reads a row that an earlier one has stored."""
    c = np.ones((len(x) + 1, 4))
    for i in range(len(x)):
        for j in range(4):
            for r in range(3):
                c[i + 1, j] = 0.5 * c[i + 1, j] + 0.25 * c[i, j] + q[0, 0, 0] * r
    return c


@pytest.mark.parametrize("f", [neighbours, rows_above])
def test_iterations_that_depend_on_each_other(f: Callable[..., Any]) -> None:
    for n in (1, 17, 40):
        args = data(n)
        same(jit(f)(*args), f(*args))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [filtered, product, columns, covariances, bags, lambda x, q: rows(x, q)[1],
                               lambda x, q: downwards(x, q)[1]])
def test_gradients_of_neighbours(f: Callable[..., Any]) -> None:
    def squares(x: Any, q: Any) -> Any:
        found = f(x, q)
        return np.sum(found * found)
    fast = jit(value_and_grad(squares, (0, 1)))
    with without_lanes():
        slow = jit(value_and_grad(squares, (0, 1)))
        slow(*data(4))
    for n in (4, 17, 50):
        args = data(n)
        same(fast(*args), slow(*args))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "branches"])
def test_gradients(name: str) -> None:
    f = PROGRAMS[name]
    fast = jit(value_and_grad(f, (0, 1)))
    with without_lanes():
        slow = jit(value_and_grad(f, (0, 1)))
        slow(*data(2))
    for n in (1, 33, 50):
        args = data(n)
        same(fast(*args), slow(*args))
    args = data(35, 2, 3)
    assert "^chunks" in jit(grad(f, 1)).inspect("optimized", *args)
    check_grads(f, args, order=1)


@pytest.mark.slow
def test_second_order() -> None:
    def small(x: Any, q: Any) -> float:
        total = 0.0
        for i in range(len(x)):
            y = x[i, 0]
            for k in range(len(q)):
                for j in range(x.shape[1]):
                    y = y * q[k, j, 0] + 0.5
            total += y * y
        return total
    args = data(34, 2, 2)
    assert "^chunks" in jit(grad(small, (0, 1))).inspect("optimized", *args)
    check_grads(small, args, order=2)


def test_what_is_too_large_stays() -> None:
    """Rows of lanes would not fit into the cache: one by one."""
    args = RNG.normal(size=(33, 1100)), np.ones((1, 1, 1))

    def rows(x: Any, q: Any) -> float:
        total = 0.0
        for i in range(len(x)):
            h = np.empty(x.shape[1])
            for j in range(len(h)):
                h[j] = x[i, j]
            for _ in range(3):
                for j in range(len(h)):
                    h[j] = h[j] * 0.5 + q[0, 0, 0]
            total += np.sum(h)
        return total
    same(jit(rows)(*args), rows(*args))


@pytest.mark.parametrize("boundscheck", [True, False])
def test_the_error_is_that_of_the_iteration(boundscheck: bool) -> None:
    def logs(x: Any, q: Any) -> float:
        total = 0.0
        for i in range(len(x)):
            y = x[i, 0]
            for k in range(len(q)):
                for j in range(x.shape[1]):
                    y = y + 0.0 * q[k, j, 0]
            if boundscheck:
                total += math.log(y)
            else:
                total += math.sqrt(y)
        return total
    fast = jit(logs, boundscheck=boundscheck)
    x, q = data(50)
    assert "^chunks" in fast.inspect("optimized", x, q)
    x = abs(x) + 0.1
    same(fast(x, q), logs(x, q))
    for bad in (0, 5, 17, 31, 32, 40, 49):
        x[bad, 0] *= -1
        with pytest.raises(ValueError, match="math domain error"):
            fast(x, q)
        x[bad, 0] *= -1


def walks(x: Any, q: Any) -> float:
    """A serial inner loop with checks, which reads a column of the lanes' rows, and makes an array in each step."""
    total = 0.0
    for i in range(len(x)):
        v = 1.0
        for t in range(x.shape[1]):
            h = np.zeros(q.shape[1])
            for r in range(len(h)):
                h[r] = math.sqrt(v + x[i, t]) * q[0, r, 0]
            v = 0.5 * v + abs(h[0]) / (1.0 + v) + 1.0 / (x[i, t] + 7.0)
        total += math.sqrt(v)
    return total


@pytest.mark.slow
@pytest.mark.long
def test_errors_in_inner_loops() -> None:
    """A check that fails in one lane of an inner loop leaves the chunk; of several errors the first is raised."""
    fast = jit(walks, grad=0)
    x, q = abs(data(50)[0]), data(1)[1]
    assert "^failing" in fast.inspect("optimized", x, q)
    for n in (50, 48, 16, 3):
        same(fast(x[:n], q), walks(x[:n], q))
    check_grads(walks, (x[:20], q), order=1)
    for i, t in ((0, 0), (5, 3), (15, 1), (31, 2), (49, 3)):
        bad = x.copy()
        bad[i, t] = -9.0
        with pytest.raises(ValueError, match="math domain error"):
            fast(bad, q)
        with pytest.raises(ValueError, match="math domain error"):
            fast.value_and_grad(bad, q)
        bad[i, t] = x[i, t]
        same(fast(bad, q), walks(bad, q))
    small = np.full((40, 4), 2.0)
    small[20, 0], small[18, 3] = -9.0, -200.0                     # iteration 18 fails late
    for f in (steps, jit(steps)):
        with pytest.raises(AssertionError):
            f(small)
    assert "^failing" in jit(steps).inspect("optimized", small)


def steps(x: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        v = 8.0
        for t in range(x.shape[1]):
            assert x[i, t] > -100.0
            v = 8.0 + math.sqrt(v + x[i, t]) / (x[i, t] + 11.0)
        total += v
    return total


def test_the_first_error_is_raised() -> None:
    """One iteration fails a check of its own before another that all fail."""
    def errors(x: Any, q: Any, k: int) -> float:
        total = 0.0
        for i in range(len(x)):
            y, z = 0.0, x[i, 0]
            for a in range(len(q)):
                for j in range(x.shape[1]):
                    y += z * q[a, j, j] ** 2
            y = math.log(y + z)
            total += y * q[k, 0, 0]
        return total
    fast = jit(errors)
    x, q = abs(data(50)[0]), data(1)[1]
    assert "^chunks" in fast.inspect("optimized", x, q, 1)
    same(fast(x, q, 1), errors(x, q, 1))
    with pytest.raises(IndexError):
        fast(x, q, 7)
    x[0, 0] = -100.0
    with pytest.raises(ValueError):
        fast(x, q, 7)
    x[0, 0], x[40, 0] = 1.0, -100.0
    with pytest.raises(IndexError):
        fast(x, q, 7)
    with pytest.raises(ValueError):
        fast(x, q, 1)


def test_loops_over_rows_have_one_version() -> None:
    """A second one without checks is for loops whose iterations are cheap."""
    def rows(x: Any, k: int) -> Any:
        h = np.zeros(x.shape[1])
        for i in range(len(x) - 2):
            h = h * 0.5 + x[i + k]
        return h

    def numbers(x: Any, k: int) -> float:
        h = 0.0
        for i in range(len(x) - 2):
            h = h * 0.5 + x[i + k, 0]
        return h
    x = data(20)[0]
    for f, versions in ((rows, False), (numbers, True)):
        fast = jit(f)
        same(fast(x, 1), f(x, 1))
        same(fast(x, -3), f(x, -3))
        assert ("^checked" in fast.inspect("optimized")) == versions
        with pytest.raises(IndexError):
            fast(x, 3)


def twice(x: Any, q: Any) -> Any:
    """The next iteration overwrites what this one has stored."""
    out = np.zeros(len(x) + 1)
    for i in range(len(x)):
        y = 0.0
        for k in range(len(q)):
            for j in range(x.shape[1]):
                y += q[k, j, j] * x[i, 0]
        out[i] = y
        out[i + 1] = 2 * y
    return out


def both_ways(x: Any, q: Any) -> Any:
    n = len(x)
    out = np.zeros(n)
    for i in range(n):
        y = 0.0
        for k in range(len(q)):
            for j in range(x.shape[1]):
                y += q[k, j, j] * x[i, 0]
        out[i] = y
        out[n - 1 - i] += 3 * y
    return out


def along(x: Any, q: Any) -> Any:
    """Iterations store at places that an inner loop moves."""
    out = np.zeros(len(x) + len(q))
    for i in range(len(x)):
        for k in range(len(q)):
            y = 0.0
            for j in range(x.shape[1]):
                y += q[k, j, j] * x[i, 0]
            out[i + k] = y
    return out


@pytest.mark.parametrize("f", [twice, both_ways, along])
def test_what_is_stored_last_stays(f: Callable) -> None:
    fast = jit(f)
    for n in (33, 50):
        args = data(n)
        same(fast(*args), f(*args))


@pytest.mark.slow
def test_windows_are_added_to_by_lanes_if_they_are_short() -> None:
    """The adjoint of a filter adds to a window of the signal, in another order of its loops if there are many taps."""
    def energy(x: Any, h: Any) -> Any:
        y = np.zeros(len(x) - len(h) + 1)
        for i in range(len(y)):
            for k in range(len(h)):
                y[i] += h[k] * x[i + k]
        return np.sum(y * y)
    fast = jit(value_and_grad(energy, (0, 1)))
    with without_lanes():
        slow = jit(value_and_grad(energy, (0, 1)))
        slow(np.ones(40), np.ones(2))
    assert "^chunks.1" in fast.inspect("optimized", np.ones(40), np.ones(2))            # of values, of adjoints
    for taps in (2, 16, 17, 30):
        x, h = np.sin(np.arange(60.0)), np.cos(np.arange(float(taps)))
        same(fast(x, h), slow(x, h))


def pairs(x: Any, n: int) -> float:
    total = 0.0
    for i in range(n):
        s = 0.0
        for j in range(n):
            d = x[i] - x[j]
            s += 1.0 / (1.0 + d * d)
        total += s * s
    return total


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("n", [1, 15, 16, 17, 40])
def test_cotangents_that_all_lanes_give_to_one_element(n: int) -> None:
    """Under fast math vectors along the inner loop add to neighbours; lanes would be summed up in each iteration."""
    x = RNG.normal(size=50)
    fast = jit(value_and_grad(lambda x: pairs(x, 40)), fastmath=True)
    assert "^chunks" not in fast.inspect("optimized", x)
    same(fast(x), jit(value_and_grad(lambda x: pairs(x, 40)))(x))
    both = [jit(value_and_grad(pairs), fastmath=f) for f in (True, False)]
    same(both[0](x, n), both[1](x, n))
    same(both[0](x, 33), both[1](x, 33))


def filtered_rows(x: Any, p: Any) -> float:
    """Each row has a state that is read on its way, with a logarithm whose check keeps the parameters' loads inside."""
    loss = 0.0
    for i in range(len(x)):
        h = 0.5
        for t in range(x.shape[1]):
            loss += math.log(h) + (x[i, t] - h) ** 2
            h = p[0] + p[1] * x[i, t] ** 2 + p[2] * h
    return loss


def summed_rows(x: Any, p: Any) -> float:
    loss = 0.0
    for i in range(len(x)):
        s = 0.0
        for t in range(40):
            s += p[0] * x[i, t] ** 2
        loss += s * s
    return loss


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("n", (5, 40))
def test_states_that_rows_read_on_their_way_under_fast_math(n: int) -> None:
    """Sums along rows may be reordered, and vectors along them are better unless they are short; a state may not."""
    x, p = RNG.normal(size=(n, 9)), np.array([0.1, 0.2, 0.6])
    fast, exact = (jit(value_and_grad(filtered_rows, argnums=1), fastmath=f) for f in (True, False))
    same(fast(x, p), exact(x, p))
    assert "^chunks" in fast.inspect("optimized", x, p)
    assert "^chunks" not in jit(summed_rows, fastmath=True).inspect("optimized", np.ones((n, 40)), p)
    check_grads(lambda p: filtered_rows(x[:3], p), (p,), order=1, modes=("rev",))


def nearest(x: Any, y: Any, c: Any) -> float:
    """The derivative adds to the centre that each iteration has chosen: several lanes to the same, some to none."""
    total = 0.0
    for i in range(len(x)):
        best = 4.0
        for k in range(len(c)):
            best = min(best, (x[i] - c[k, 0]) ** 2 + (y[i] - c[k, 1]) ** 2)
        total += best * best
    return total


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("n", (0, 2, 16, 17, 40, 100))
def test_sums_at_indices_that_lanes_choose(n: int) -> None:
    args = RNG.normal(size=n), RNG.normal(size=n), RNG.normal(size=(7, 2))
    compiled = jit(nearest, grad=(0, 1, 2)).value_and_grad
    value, bars = compiled(*args)
    assert value == pytest.approx(nearest(*args), rel=1e-12)
    for bar, expected in zip(bars, interpret(value_and_grad(nearest, (0, 1, 2)), *args)[1]):
        np.testing.assert_allclose(bar, expected, rtol=1e-10, atol=1e-13)
    assert "add_put" in compiled.inspect("optimized", *args)


def products_of_integers(a: Any, b: Any, mod: int) -> Any:
    c = np.zeros((a.shape[0], b.shape[1]), dtype=a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0
            for k in range(b.shape[0]):
                s += a[i, k] * b[k, j]
            c[i, j] = s % mod
    return c


def products_of_columns(a: Any, b: Any, mod: int) -> int:
    total = mod
    for j in range(b.shape[1]):
        for i in range(b.shape[0]):
            total -= a[i, i] * b[i, j]
    return total


@pytest.mark.parametrize("f", (products_of_integers, products_of_columns))
@pytest.mark.parametrize("n", COUNTS)
def test_integers(f: Callable[..., Any], n: int) -> None:
    """Sums of integers wrap around alike in any order."""
    a, b = RNG.integers(-2 ** 62, 2 ** 62, (7, 7)), RNG.integers(-2 ** 62, 2 ** 62, (7, n))
    with np.errstate(over="ignore"):
        assert np.array_equal(jit(f)(a, b, 1009), interpret(f, a, b, 1009))


@pytest.mark.slow
def test_lanes_add_up_columns_of_integers() -> None:
    a = np.ones((7, 7), dtype=np.int64)
    for f in (products_of_integers, products_of_columns):
        fast = jit(f)
        fast(a, np.ones((7, 40), dtype=np.int64), 1009)
        assert "^chunks" in fast.inspect("optimized")


def few_around_many(x: Any, w: Any) -> float:
    total = 0.0
    for s in range(len(w)):
        v = np.zeros(x.shape[1])
        for k in range(x.shape[1]):
            v[k] = math.exp(w[s, k])
        for i in range(len(x)):
            z = 0.0
            for k in range(x.shape[1]):
                z += x[i, k] * v[k]
            total += math.log1p(math.exp(-abs(z)))
    return total


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("few", "many"), ((0, 20), (3, 0), (3, 15), (3, 16), (3, 40), (15, 33), (16, 5), (40, 40)))
def test_inner_loops_are_lanes_where_the_outer_one_has_few_iterations(few: int, many: int) -> None:
    x, w = RNG.normal(size=(many, 4)), RNG.normal(size=(few, 4))
    fast = jit(few_around_many, grad=(0, 1)).value_and_grad
    value, bars = fast(x, w)
    assert value == pytest.approx(few_around_many(x, w), rel=1e-13)
    for bar, expected in zip(bars, interpret(value_and_grad(few_around_many, (0, 1)), x, w)[1]):
        np.testing.assert_allclose(bar, expected, rtol=1e-10, atol=1e-13)
    assert jit(few_around_many).inspect("optimized", x, w).count("\n^chunks") == 2


def square_sums(a: Any) -> float:
    total = 0.0
    for i in range(len(a)):
        for j in range(len(a)):
            s = 0.0
            for k in range(len(a)):
                s += a[i, k] * a[j, k]
            total += math.sqrt(1.0 + s * s)
    return total


@pytest.mark.parametrize("n", COUNTS)
def test_loops_as_short_as_the_one_around_are_left(n: int) -> None:
    """The original loop is for fewer iterations than a chunk only, and so is each inner one of the same length."""
    a = RNG.normal(size=(n, n)) / 10.0
    value, bar = jit(square_sums, grad=True).value_and_grad(a)
    s = a @ a.T
    assert value == pytest.approx(np.sqrt(1.0 + s * s).sum(), rel=1e-12)
    np.testing.assert_allclose(bar, 2.0 * (s / np.sqrt(1.0 + s * s)) @ a, rtol=1e-9, atol=1e-12)
    text = jit(square_sums).inspect("optimized", a)
    assert n == 1 or text.count("\n^chunks") == 1 and "%first" not in text


def around_each(x: Any, y: Any) -> float:
    near = np.zeros(len(x))
    for i in range(len(x)):
        for j in range(len(x)):
            d = (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2
            if d < 0.5:
                near[i] += (0.5 - d) ** 3
    return np.sum(np.log(near))


@pytest.mark.slow
def test_no_lanes_for_a_square_that_must_be_short() -> None:
    """Lanes whose sums are added across need inner loops shorter than a chunk, which those of a square never are."""
    x, y = RNG.normal(size=(2, 40))
    fast = jit(value_and_grad(around_each, (0, 1)))
    value, bars = fast(x, y)
    assert value == pytest.approx(around_each(x, y), rel=1e-12)
    for bar, expected in zip(bars, interpret(value_and_grad(around_each, (0, 1)), x, y)[1]):
        np.testing.assert_allclose(bar, expected, rtol=1e-9, atol=1e-12)
    assert fast.inspect("optimized", x, y).count("\n^chunks") == 1


def factors(rates: Any, coupon: float) -> float:
    """Each row has an array of its own, to which the reverse sweep adds along slices."""
    total = 0.0
    for s in range(len(rates)):
        d = np.zeros(rates.shape[1])
        for i in range(rates.shape[1]):
            annuity = 0.0
            for j in range(i):
                annuity += d[j]
            d[i] = (1.0 - rates[s, i] * annuity) / (1.0 + rates[s, i])
        for i in range(rates.shape[1]):
            total += coupon * math.exp(0.1 * d[i])
    return total


def power(a: Any, v: Any, steps: int) -> float:
    for _ in range(steps):
        w = np.zeros(len(v))
        for i in range(len(v)):
            for k in range(len(v)):
                w[i] += a[i, k] * v[k]
        v = w / np.sqrt(np.sum(w * w))
    return np.sum(v * np.arange(len(v)))


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 15, 40, 150])
def test_lanes_under_fast_math(n: int) -> None:
    """Lanes add to arrays of their own in a reverse sweep, and read rows that a loop around reads again."""
    rates, a, v = RNG.uniform(0.01, 0.03, (n, 9)), RNG.normal(size=(n, n)), RNG.normal(size=n)
    for f, args in ((factors, (rates, 0.04)), (power, (a, v, 5))):
        fast, exact = (jit(f, grad=(0, 1), fastmath=m).value_and_grad for m in (True, False))
        (value, bars), (expected, others) = fast(*args), exact(*args)
        assert value == pytest.approx(expected, rel=1e-9)
        for bar, other in zip(bars, others):
            np.testing.assert_allclose(bar, other, rtol=1e-7, atol=1e-9)
        assert n == 1 or "^chunks" in fast.inspect("optimized", *args)
