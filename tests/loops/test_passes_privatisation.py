"""Scratch arrays that all iterations share become private only where no iteration reads what another has left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest

from jitad import interpret, jit, value_and_grad
from jitad.passes.parallel import privatisation


@contextmanager
def counted() -> Iterator[list[str]]:
    """A context with the list of the arrays that become private."""
    found: list[str] = []

    def counting(make: Callable[[Any], None]) -> Callable[[Any], None]:
        def made(scratch: Any) -> None:
            found.append(scratch.param.hint)
            make(scratch)
        return made
    with ExitStack() as patches:
        for kind in (privatisation.Scratch, privatisation.Part):
            patches.enter_context(mock.patch.object(kind, "make_private", counting(kind.make_private)))
        yield found


def filled(x: Any, w: Any) -> float:
    """Filled by a loop that reads what it has stored, updated behind it; then by a slice; then by a slice and sums."""
    n = len(w)
    a, b, c = np.ones(n), np.zeros(n), np.zeros(n)
    total = 0.0
    for i in range(len(x)):
        for j in range(n):
            a[j] = x[i] * w[j]
            for k in range(j):
                a[j] -= 0.1 * a[k] * w[k]
            a[j] += x[i]
        for j in range(n - 1):
            a[j] += a[j + 1] * a[j]
        b[:] = np.sin(a) * w
        c[:] = 0.0
        for j in range(n):
            c[n - 1 - j] += b[j] * a[j]
        total += np.sum(c * w) * (i + 1)
    return total


def nested(x: Any, w: Any) -> float:
    """Made outside two loops; a path around the filling loop, which nothing is read behind if there are no elements."""
    s, total = np.full(len(w), 7.0), 0.0
    for _ in range(2):
        for i in range(len(x)):
            for j in range(len(w)):
                s[j] = x[i] - w[j]
            for j in range(len(w)):
                total += s[j] * s[j] * 0.5
    return total


def state(x: Any, w: Any) -> float:
    """What an iteration leaves is read by the next one."""
    s = np.ones(len(w))
    for i in range(len(x)):
        for j in range(len(w)):
            s[j] = s[j] * 0.5 + x[i] * w[j]
    return np.sum(s * w)


def too_few(x: Any, w: Any) -> float:
    s, t, total = np.ones(len(w)), np.ones(len(w) + 1), 0.0
    for i in range(len(x)):
        for j in range(len(w) - 1):
            s[j] = x[i] * w[j]
        for j in range(len(w)):
            t[j] = x[i] - w[j]
        total += np.sum(s) * np.sum(t)
        s[len(w) - 1] += 0.5 * x[i]
        t[len(w)] += 0.25 * x[i]
    return total


def neighbour(x: Any, w: Any) -> float:
    """The element before the first is the last one, of the iteration before; the element behind is not stored yet."""
    s, t, total = np.ones(len(w)), np.ones(len(w)), 0.0
    for i in range(len(x)):
        for j in range(len(w)):
            s[j] = 0.5 * s[j - 1] + x[i] * w[j]
        for j in range(len(w)):
            t[j] = x[i] + (0.5 * t[j + 1] if j + 1 < len(w) else 0.0)
        total += s[0] * t[0]
    return total


def sometimes(x: Any, w: Any) -> float:
    """Stored under a condition, or until the loop ends early, or not in all iterations."""
    s, t, u, total = np.ones(len(w)), np.ones(len(w)), np.ones(len(w)), 0.0
    for i in range(len(x)):
        for j in range(len(w)):
            if x[i] * w[j] > 0.0:
                s[j] = x[i]
        for j in range(len(w)):
            t[j] = x[i] + w[j]
            if t[j] > 1.0:
                break
        if i % 2 == 0:
            for j in range(len(w)):
                u[j] = x[i]
        total += np.sum(s * t * u) * (i + 1)
    return total


def afterwards(x: Any, w: Any) -> float:
    """Read behind the loop, or exchanged with another array."""
    s, new, total = np.zeros(len(w)), np.zeros(len(w)), 0.0
    for i in range(len(x)):
        for j in range(len(w)):
            new[j] = 0.5 * s[j] + x[i] * w[j]
        s, new = new, s
        total += new[0]
    return total + np.sum(s)


def read_first(x: Any, w: Any) -> float:
    """Read ahead of the loop that fills it, in the same iteration, or in that loop ahead of the store."""
    s, t, total = np.ones(len(w)), np.ones(len(w)), 0.0
    for i in range(len(x)):
        total += s[0]
        for j in range(len(w)):
            s[j] = x[i] * w[j]
        for j in range(len(w)):
            total += 0.1 * t[j]
            t[j] = x[i] * w[j]
        total += np.sum(s * t)
    return total


REFUSED = (state, too_few, neighbour, sometimes, afterwards, read_first)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [filled, nested, *REFUSED], ids=lambda f: f.__name__)
def test_values_and_gradients(f: Callable[..., float]) -> None:
    rng = np.random.default_rng(0)
    compiled, both = jit(f, grad=(0, 1)), value_and_grad(f, (0, 1))
    with counted() as private:
        for n, k in ((20, 5), (3, 3), (2, 2), (1, 4), (0, 3)):
            x, w = rng.normal(size=n), rng.normal(size=k)
            value, bars = compiled.value_and_grad(x, w)
            assert value == pytest.approx(f(x, w), rel=1e-11)
            assert compiled(x, w) == pytest.approx(f(x, w), rel=1e-11)
            if n in (2, 3):
                for got, expected in zip(bars, interpret(both, x, w)[1]):
                    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-13)
    wanted = {filled: {"a", "b", "c"}, nested: {"s"}}.get(f, set())
    assert set(private) == wanted


@pytest.mark.slow
def test_no_elements() -> None:
    x, none = np.array([1.0, 2.0, 3.0]), np.zeros(0)
    for f in (filled, nested):
        assert jit(f)(x, none) == 0.0
        bars = jit(f, grad=(0, 1)).grad(x, none)
        np.testing.assert_array_equal(bars[0], 0.0)
        assert bars[1].shape == (0,)


# --- arrays that are filled in part ---------------------------------------------------------------

def earlier(x: Any, w: Any) -> float:
    """Filled up to the iteration's number, replaced in place, read behind."""
    s, total = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        z = 0.0
        for j in range(i + 1):
            s[j] = x[i] * w[j]
            z += s[j]
        for j in range(i + 1):
            s[j] = np.exp(s[j]) / (1.0 + z * z)
        for j in range(i + 1):
            total += s[j] * w[j]
    return total


def below(x: Any, w: Any) -> float:
    """Filled from the iteration's number on; one element is changed; iterations without a part, or without a fill."""
    n = len(w)
    v, total = np.full(n, 3.0), 0.0
    for k in range(len(x) + 1):
        if k < len(x) and x[k] > 1.0:
            continue
        for i in range(k + 1, n):
            v[i] = w[i] * w[i - k]
        norm = 0.0
        for i in range(k + 1, n):
            norm += v[i] * v[i]
        if k + 1 < n:
            v[k + 1] -= norm
            for i in range(k + 1, n):
                total += v[i] * w[n - 1 - i]
    return total


def backwards(x: Any, w: Any) -> float:
    """Each element needs those that the same loop has stored."""
    b, total = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        for j in range(i + 1):
            b[j] = x[i] + w[j]
            for k in range(j):
                b[j] -= 0.1 * b[k] * w[k]
        for j in range(i + 1):
            total += b[j] * b[i - j]
    return total


def three_deep(x: Any, w: Any) -> float:
    """Made outside of two loops, neither of which reads it."""
    s, total = np.zeros(len(x)), 0.0
    for h in range(len(w)):
        for i in range(len(x)):
            for j in range(i + 1):
                s[j] = x[i] * w[j] + h
            for j in range(i + 1):
                total += s[j] * s[i - j] * w[h]
    return total


@pytest.mark.parametrize("f", [earlier, below, backwards, three_deep])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
def test_a_part_that_is_filled_is_private(f: Callable[..., float], n: int) -> None:
    rng = np.random.default_rng(n)
    x, w = rng.normal(0.0, 0.7, n), rng.normal(0.0, 0.7, n)
    with counted() as found:
        got, grads = jit(value_and_grad(f, (0, 1)))(x, w)
        assert len(found) == (n != 1)                    # the size 1 is compiled in
    assert np.isclose(got, f(x, w), rtol=1e-12)
    want, wanted = interpret(value_and_grad(f, (0, 1)), x, w)
    assert np.isclose(got, want, rtol=1e-12)
    for g, h in zip(grads, wanted):
        assert np.allclose(g, h, rtol=1e-10, atol=1e-12)


def kept_beyond(x: Any, w: Any) -> float:
    """Reads one element more than this iteration has stored."""
    s, total = np.zeros(len(x) + 1), 0.0
    for i in range(len(x)):
        for j in range(i + 1):
            s[j] = x[len(x) - 1 - i] * w[j]
        total += s[i + 1] + s[0]
        s[i + 1] = 1.0
    return total


def kept_before(x: Any, w: Any) -> float:
    """Reads elements ahead of the part."""
    s, total = np.ones(len(x)), 0.0
    for i in range(len(x)):
        for j in range(i, len(x)):
            s[j] = x[i] * w[j]
        for j in range(len(x)):
            total += s[j]
    return total


def shorter(x: Any, w: Any) -> float:
    """The number of elements is data, and so is the number of those read."""
    s, total = np.ones(len(x)), 0.0
    for i in range(len(x)):
        for j in range(int(abs(w[i]) * 2.0)):
            s[j] = x[i]
        for j in range(min(i + 1, 2)):
            total += s[j]
    return total


def seen_behind(x: Any, w: Any) -> float:
    s, total = np.ones(len(x)), 0.0
    for i in range(len(x)):
        for j in range(i + 1):
            s[j] = x[i] * w[j]
        total += s[i]
    return total + s[len(x) - 1]


def seen_between(x: Any, w: Any) -> float:
    s, total = np.ones(len(x)), 0.0
    for h in range(len(w)):
        total += s[len(x) - 1] * w[h]
        for i in range(len(x) - 1):
            for j in range(i + 1):
                s[j] = x[i] * w[j] + h
            total += s[i]
        s[len(x) - 1] += x[h]
    return total


@pytest.mark.parametrize("f", [kept_beyond, kept_before, shorter, seen_behind, seen_between])
def test_elements_outside_of_the_part_stay(f: Callable[..., float]) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.normal(0.0, 0.7, 6), rng.uniform(-0.9, 0.9, 6)
    with counted() as found:
        got = jit(value_and_grad(f))(x, w)[0]
        assert not found
    assert np.isclose(got, f(x, w), rtol=1e-12)


def test_a_short_part_of_a_long_array_takes_little_memory() -> None:
    @jit(grad=True)
    def f(x: Any, n: int) -> float:
        s, total = np.zeros(n), 0.0
        for i in range(len(x)):
            for j in range(3):
                s[j] = np.sin(x[i] * j)
            for j in range(3):
                total += s[j] * s[j]
        return total

    x = np.linspace(0.0, 1.0, 20000)
    got = f.grad(x, 2_000_000)                           # as many arrays of this size would be 320 GB
    assert np.allclose(got, 2 * (np.sin(x) * np.cos(x) + 2 * np.sin(2 * x) * np.cos(2 * x)))


def test_a_part_that_is_too_long_raises() -> None:
    @jit
    def f(x: Any, n: int, m: int) -> float:
        s, total = np.zeros(n), 0.0
        for i in range(len(x)):
            for j in range(m):
                s[j] = x[i] + j
            total += s[0]
        return total

    assert f(np.ones(3), 4, 4) == 3.0
    for m in (5, 2**62):
        with pytest.raises(IndexError):
            f(np.ones(3), 4, m)


def sampled(x: Any, w: Any) -> float:
    """Made outside of two loops, the inner one of which changes another array in each iteration."""
    s, counts, total = np.zeros(len(w)), np.zeros(len(x)), 0.0
    for r in range(len(w)):
        for i in range(len(x)):
            for j in range(len(w)):
                s[j] = x[i] * w[j] + counts[i - 1]
            counts[i] += s[r] * s[0]
            total += counts[i]
    return total


def test_scratch_of_ordered_iterations_is_private_for_derivatives_alone() -> None:
    x, w = np.linspace(-0.4, 0.5, 5), np.linspace(0.2, 0.6, 4)
    with counted() as found:
        assert np.isclose(jit(sampled)(x, w), sampled(x, w), rtol=1e-12)
        assert not found
        got = jit(value_and_grad(sampled))(x, w)
        assert found == ["s"]
    want = interpret(value_and_grad(sampled), x, w)
    assert np.allclose(got[1], want[1], rtol=1e-10)
