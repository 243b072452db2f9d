"""Loops whose elements run side by side, with loops of their own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import interpret, jit, vmap

X = np.random.default_rng(0).uniform(0.05, 6, 100)


def newton(m: Any) -> Any:
    x, step = m, 1.0
    while abs(step) > 1e-4:
        step = (x - 0.7 * math.sin(x) - m) / (1 - 0.7 * math.cos(x))
        x = x - step
    return x


def stops_inside(m: Any) -> Any:
    x = m
    for k in range(50):
        d = (x - 0.7 * math.sin(x) - m) / (1 - 0.7 * math.cos(x))
        x = x - d
        if abs(d) < 1e-5:
            break
        if k > 3:
            x = x + 1e-3 / (k + x)
    else:
        return -1.0
    return x


def only_some(x: Any) -> Any:
    """A loop on one side of a branch, and two loops one after the other."""
    n = 0
    y = x / 2
    if x > 3:
        while y * y > 0.5:
            y = y / 1.5
            n += 1
    else:
        y = -y
    z = y + 4
    while math.exp(z) > 3 and n < 9:
        z = z * 0.6 - 0.1
        n += 2
    return y + z, n, n > 4


def two_ways_out(x: Any) -> Any:
    for k in range(20):
        x = np.sin(x + 0.1) * 1.7 if x > 0.5 else x * 1.3 + 0.1 / (k + 1.0)
        if x > 1.55:
            return x, k
        if k == 7:
            return -x, 100
    return x, -1


def at_once(x: Any) -> Any:
    """No element enters the loop, or all go round equally often."""
    while x > 100:
        x = x / 2
    for _ in range(60):
        x = np.cos(x)
    return x


PROGRAMS: list[Callable[[Any], Any]] = [newton, stops_inside, only_some, two_ways_out, at_once]


def masked(f: Any, *args: Any) -> bool:
    """Whether the compiled code asks if any element is there."""
    return " any " in f.inspect("optimized", *args)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values(f: Callable[[Any], Any]) -> None:
    one, every = jit(f), vmap(f)
    assert masked(every, X)
    for x in (X, X[:1], X[:32], X[:33], X[:0], X.astype(np.float32)):
        expected = [one(e) for e in x]
        got = every(x)
        columns = zip(*expected) if isinstance(got, tuple) else [expected]
        for g, e in zip(got if isinstance(got, tuple) else [got], columns):
            np.testing.assert_allclose(g, np.array(e), rtol=1e-11 if x.dtype == np.float64 else 1e-4)


def test_a_loop_by_hand() -> None:
    @jit
    def program(x: Any) -> Any:
        out, steps = np.zeros(len(x)), np.zeros(len(x), np.int64)
        for i in range(len(x)):
            y = x[i]
            while y > 0.1:
                y = np.sin(y) * 0.9
                steps[i] += 0
            out[i] = y
        return out

    @jit
    def plain(x: Any) -> Any:
        out = np.zeros(len(x))
        for i in range(len(x)):
            y = x[i]
            while y > 0.1:
                y = np.sin(y) * 0.9
            out[i] = y
        return out
    np.testing.assert_allclose(plain(X), program(X), rtol=1e-13)
    assert masked(plain, X)


@pytest.mark.slow
def test_what_stays() -> None:
    """Elements that look something up, check, or are cheap run one by one; short arrays are scalars."""
    table = np.arange(10.0)

    def reads(x: Any) -> Any:
        k = 0
        while table[k] < x:
            k += 1
            x = x / 1.1
        return x

    def checks(x: Any) -> Any:
        while x > 0.5:
            x = x - math.log(x + 1) / 2
        return x

    def arrays(x: Any) -> Any:
        v = np.array([x, np.exp(-x)])
        while v.sum() > 0.5:
            v = np.sin(v) * 0.8
        return v

    def cheap(x: Any) -> Any:
        while x > 1:
            x = x * 0.5
        return x

    def nested(x: Any) -> Any:
        while x > 0.5:
            while x > 1:
                x = x / 2
            x = np.sin(x) * 0.9
        return x
    for f in (reads, checks, arrays, cheap, nested):
        every, one = vmap(f), jit(f)
        assert masked(every, X) is (f is arrays)
        np.testing.assert_allclose(every(X), np.array([one(x) for x in X]), rtol=1e-12)


def summed(e: Any, m: Any) -> Any:
    """The loop adds up what it finds for each element, and keeps it, too."""
    total, rest, found = 0.5, 100.0, np.zeros(len(e))
    for i in range(len(e)):
        x = newton(m[i]) * e[i]
        total += x
        rest -= math.sin(x)
        found[i] = x
    return total, rest, found


def sums_some(e: Any, m: Any) -> Any:
    """A sum that not every element adds to is no sum of all."""
    total = 0.0
    for i in range(len(e)):
        x = newton(m[i])
        if x > 1:
            total += e[i]
    return total


def feeds_back(e: Any, m: Any) -> Any:
    """What is added depends on the sum so far."""
    total = 0.0
    for i in range(len(e)):
        total += newton(m[i] + 0.01 * total)
    return total


@pytest.mark.parametrize("f, side_by_side", [(summed, True), (sums_some, False), (feeds_back, False)])
def test_loops_that_add_up(f: Callable[..., Any], side_by_side: bool) -> None:
    compiled = jit(f)
    for n in (0, 1, 31, 32, 33, 100):
        e, m = np.linspace(0.5, 1.5, n), X[:n]
        got, expected = compiled(e, m), f(e, m)
        for a, b in zip(got, expected) if f is summed else [(got, expected)]:
            np.testing.assert_allclose(a, b, rtol=1e-10)
    assert masked(compiled, X, X) is side_by_side


def test_an_array_that_is_too_short_is_told_with_its_index() -> None:
    compiled = jit(summed)
    for short in (3, 32, 40):
        with pytest.raises(IndexError, match=f"index {short} is out of bounds for axis 0 with size {short}"):
            compiled(np.ones(100), X[:short])


def test_of_two_arrays_that_are_too_short_the_shorter_one_is_told() -> None:
    def f(a: Any, b: Any, n: int) -> Any:
        out = np.zeros(n)
        for i in range(n):
            x = a[i]
            y = b[i]
            while x > 0.1:
                x = math.sin(x) * 0.9
            out[i] = x + y
        return out
    compiled = jit(f)
    for a, b in ((40, 35), (35, 40), (64, 3), (3, 64), (0, 5), (5, 0), (100, 33)):
        with pytest.raises(IndexError, match=f"index {min(a, b)} is out of bounds for axis 0 with size {min(a, b)}"):
            compiled(np.ones(a), np.ones(b), 100)
    np.testing.assert_allclose(compiled(np.ones(70), np.ones(70), 65), f(np.ones(70), np.ones(70), 65))
    assert masked(compiled, np.ones(70), np.ones(70), 65)


def both_ends(x: Any, y: Any, n: int) -> float:
    total = 0.0
    for k in range(n):
        total += newton(x[k] + y[k + 1]) + newton(x[k + 2])
    return total


@pytest.mark.parametrize("lengths", [(42, 41), (41, 41), (42, 40), (41, 40), (40, 41), (40, 40), (39, 41), (0, 41),
                                     (1, 41), (9, 0), (9, 1), (0, 0), (1, 1)])
def test_checks_of_sums_with_the_counter(lengths: tuple[int, int]) -> None:
    """The sum stands behind the first check; of several arrays the one that ends first is told, wherever it is."""
    x, y = (np.random.default_rng(n).uniform(0.05, 3, n) for n in lengths)
    f = jit(both_ends)
    assert masked(f, X, X, 40)
    try:
        want = both_ends(x, y, 40)
    except IndexError as error:
        with pytest.raises(IndexError, match=str(error)):
            f(x, y, 40)
    else:
        assert f(x, y, 40) == want


def test_what_fails_in_the_first_iteration_fails_first() -> None:
    def f(a: Any, p: float, n: int) -> Any:
        out = np.zeros(n)
        for i in range(n):
            x = a[i] * math.sqrt(p)
            while x > 0.1:
                x = math.sin(x) * 0.9
            out[i] = x
        return out
    compiled = jit(f)
    np.testing.assert_allclose(compiled(np.ones(70), 2.0, 65), f(np.ones(70), 2.0, 65))
    with pytest.raises(ValueError, match="math domain error"):
        compiled(np.ones(5), -1.0, 64)
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        compiled(np.ones(5), 1.0, 64)
    with pytest.raises(IndexError, match="index 0 is out of bounds"):
        compiled(np.ones(0), -1.0, 64)


def knocked_out(z: Any, start: float, level: float, scale: float) -> Any:
    """Each path reads its row until it leaves; the payoff of those that stay is added up."""
    total, last = 0.0, np.zeros(len(z))
    for i in range(z.shape[0]):
        s, alive = start, True
        for t in range(z.shape[1]):
            s *= math.exp(0.1 * math.sqrt(scale) * z[i, t])
            if s > level:
                alive = False
                break
        if alive:
            total += s - 0.5
        last[i] = s
    return total, last


def counted_too(z: Any, start: float, level: float, scale: float) -> Any:
    """The same by ``while``, with the number of steps, which differs."""
    total, last = 0.0, np.zeros(len(z))
    for i in range(z.shape[0]):
        s, t, steps = start, 0, 0
        while t < z.shape[1] and s <= level:
            s *= math.exp(0.1 * math.sqrt(scale) * z[i, t])
            t += 1
            steps += 1
        total += s if s <= level else 0.25
        last[i] = s + steps
    return total, last


@pytest.mark.slow
@pytest.mark.parametrize("f", [knocked_out, counted_too])
def test_rows_that_are_read_step_by_step(f: Callable[..., Any]) -> None:
    compiled = jit(f)
    rng = np.random.default_rng(1)
    for shape in ((100, 20), (32, 1), (7, 30), (1, 3), (40, 0), (0, 5)):
        z = rng.normal(size=shape)
        for level in (1.2, 0.2, 50.0):
            for a, b in zip(compiled(z, 1.0, level, 0.9), f(z, 1.0, level, 0.9)):
                np.testing.assert_allclose(a, b, rtol=1e-12)
    with pytest.raises(ValueError, match="math domain error"):
        compiled(np.ones((40, 3)), 1.0, 2.0, -1.0)
    compiled(np.ones((40, 0)), 1.0, 2.0, -1.0)                  # no step, no root
    assert masked(compiled, np.ones((40, 3)), 1.0, 2.0, 0.9)


def test_a_loop_behind_conditions_that_do_not_change() -> None:
    def f(m: Any, e: Any, tolerance: float) -> Any:
        total = 0.0
        for i in range(len(m)):
            x, step, k = m[i], 1.0, 0
            while abs(step) >= tolerance and k < 50:
                step = (x - e[i] * math.sin(x) - m[i]) / (1.0 - e[i] * math.cos(x))
                x -= step
                k += 1
            total += x * x
        return total
    compiled, e = jit(f), np.linspace(0.0, 0.8, 100)
    for n in (0, 1, 33, 100):
        for tolerance in (1e-10, 0.5, 2.0):                     # nothing is read of ``e`` if no step is made
            np.testing.assert_allclose(compiled(X[:n], e, tolerance), f(X[:n], e, tolerance), rtol=1e-12)
    assert compiled(X, e[:0], 2.0) == pytest.approx(f(X, e[:0], 2.0), rel=1e-13)
    with pytest.raises(IndexError, match="index 50 is out of bounds for axis 0 with size 50"):
        compiled(X, e[:50], 1e-10)
    assert masked(compiled, X, e, 1e-10)


def orbits(re: Any, im: Any, limit: int) -> int:
    inside = 0
    for i in range(len(re)):
        x, y, k = 0.0, 0.0, 0
        while k < limit and x * x + y * y <= 4.0:
            x, y = x * x - y * y + re[i], 2.0 * x * y + im[i]
            k += 1
        if k == limit:
            inside += 1
    return inside


def escapes(n: int, limit: int) -> Any:
    """Elements of rows, at points that follow from the counters."""
    out = np.zeros((n, n))
    for a in range(n):
        for c in range(n):
            x, y, k = 0.0, 0.0, 0
            while k < limit and x * x + y * y <= 4.0:
                x, y = x * x - y * y + 2.6 * c / n - 2.0, 2.0 * x * y + 2.4 * a / n - 1.2
                k += 1
            out[a, c] = k
    return out


def steps_sum(y0: Any) -> float:
    """A step size for each element, with a branch in the loop."""
    total = 0.0
    for i in range(len(y0)):
        y, t, h = y0[i], 0.0, 0.1
        while t < 1.0:
            error = abs((y + h * y) ** 2 - y * y) * h
            if error < 1e-2:
                y -= h * y * y
                t += h
                h *= 1.5
            else:
                h *= 0.5
        total += y
    return total


def divides_some(x: Any, k: Any) -> float:
    """A division by zero on the side that an element does not take."""
    total = 0.0
    for i in range(len(x)):
        v, n, m = x[i], 0, k[i]
        while v < 10.0:
            if m != 0:
                n += 100 // m
            v = v * 1.5 + math.exp(-v) + 0.1
        total += v + n
    return total


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 31, 32, 50])
def test_arithmetic_until_a_condition_holds(n: int) -> None:
    """The last chunk overlaps the one before, and adds nothing twice."""
    rng = np.random.default_rng(n)
    re, im, y = rng.uniform(-2, 0.6, n), rng.uniform(-1.2, 1.2, n), rng.uniform(0.1, 5, n)
    k = rng.integers(0, 4, n)
    for f, args in ((orbits, (re, im, 40)), (escapes, (n, 20)), (steps_sum, (y,)), (divides_some, (y, k))):
        g = jit(f)
        np.testing.assert_allclose(g(*args), f(*args), rtol=1e-14)
        assert n == 1 or masked(g, *args)               # one element has a version of its own


def test_states_are_vectors() -> None:
    """Their number is known, so that they stay in registers."""
    y = np.linspace(0.1, 5, 40)
    assert "f64[16]" in jit(steps_sum).inspect("optimized", y)
    assert "select <16 x i1>" in jit(steps_sum).inspect("llvm", y)


def kepler_loss(m: Any, e: Any) -> float:
    total = 0.0
    for i in range(len(m)):
        x, step, k = m[i], 1.0, 0
        while abs(step) >= 1e-12 and k < 50:
            step = (x - e[i] * math.sin(x) - m[i]) / (1.0 - e[i] * math.cos(x))
            x -= step
            k += 1
        total += math.cos(x)
    return total


def decay(x: Any, rate: float) -> float:
    """Only some elements enter the loop, and all share a parameter."""
    total = 0.0
    for i in range(len(x)):
        v, s = x[i], 0.0
        while v > 0.5:
            v = v - rate * v * v
            s += v * v * rate
        total += s
    return total


def knocked_out(z: Any, spot: float, level: float, scale: float) -> float:
    """The reverse sweep is skipped for elements that pay nothing."""
    total = 0.0
    for i in range(z.shape[0]):
        s, alive = spot, True
        for k in range(z.shape[1]):
            s *= math.exp(scale * z[i, k])
            if s > level:
                alive = False
                break
        if alive and s > 0.9:
            total += s - 0.9
    return total


def recurring(x: Any) -> float:
    """Two loops, each with frames of its own."""
    total = 0.0
    for i in range(len(x)):
        v = x[i]
        while v < 20.0:
            v = v * 1.25 + 0.1 * v * v
        while v > 2.0:
            v = v * 0.7 + 0.2 / v
        total += v
    return total


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 15, 16, 17, 50])
def test_reverse_sweeps_of_loops_with_conditions(n: int) -> None:
    """Frames of all elements are one; an element waits while only others have frames on the stack."""
    rng = np.random.default_rng(n)
    x, z = rng.uniform(0.2, 3, n), rng.normal(0, 1, (n, 12))
    for f, args, wrt in ((kepler_loss, (rng.uniform(0, 6, n), rng.uniform(0.1, 0.9, n)), (0, 1)), (steps_sum, (x,), 0),
                         (decay, (x, 0.2), (0, 1)), (knocked_out, (z, 1.0, 1.2, 0.1), (1, 3)), (recurring, (x,), 0)):
        for fast in (False, True):
            g = jit(f, grad=wrt, fastmath=fast)
            value, grads = g.value_and_grad(*args)
            expected = interpret(jitad.value_and_grad(f, wrt), *args)
            np.testing.assert_allclose(value, expected[0], rtol=1e-10)
            for got, want in zip(grads if isinstance(wrt, tuple) else [grads],
                                 expected[1] if isinstance(wrt, tuple) else [expected[1]]):
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f, args, wrt", [
    (kepler_loss, (X, 0.1 * X), (0, 1)), (decay, (X, 0.2), (0, 1)), (recurring, (X,), 0)])
def test_frames_have_lanes(f: Any, args: Any, wrt: Any) -> None:
    g = jitad.value_and_grad(f, wrt)

    def both(*args: Any) -> Any:
        return g(*args)
    text = jit(both).inspect("optimized", *args)
    assert re.search(r"= pop .* : stack, f64\[16\]", text)


def and_behind(x: Any) -> Any:
    """Each iteration stores to its own element, and to the next one, which the next iteration stores again."""
    out = np.zeros(len(x))
    for i in range(len(x) - 1):
        out[i] = halved(x[i])
        out[i + 1] = out[i] + x[i + 1]
    return out


def adds_behind(x: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x) - 1):
        out[i + 1] += halved(x[i])
        out[i] += halved(x[i + 1])
    return out


def halved(x: Any) -> Any:
    while x > 0.4:
        x = math.tanh(x) * 0.9 - 0.01
    return x


@pytest.mark.parametrize("f", [and_behind, adds_behind])
@pytest.mark.parametrize("n", [3, 40])
def test_elements_of_two_iterations(f: Any, n: int) -> None:
    """Additions of cotangents may share a chunk, stores and additions in order may not."""
    x = X[:n]
    np.testing.assert_allclose(jit(f)(x), f(x), rtol=1e-14)
    jitad.check_grads(f, (x,), order=1)
