"""Branches in loops whose sides load, store and add: same values, same errors, right derivatives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.llvm.target import Target

from jitad import check_grads, grad, interpret, jit

RNG = np.random.default_rng(0)
SIZES = (1, 2, 3, 4, 5, 9, 40)


def upwind(x: Any, y: Any) -> Any:
    """Both sides store the same element and load different ones."""
    new = x.copy()
    for i in range(1, len(x) - 1):
        if y[i] > 0.0:
            new[i] = x[i] - y[i] * (x[i] - x[i - 1])
        else:
            new[i] = x[i] - y[i] * (x[i + 1] - x[i])
    return new


def one_side(x: Any, y: Any) -> Any:
    new = x.copy()
    for i in range(len(x)):
        if x[i] > y[i]:
            new[i] = x[i] * y[i]
    return new


def one_side_adds(x: Any, y: Any) -> Any:
    new = np.full(len(x), -0.0)
    for i in range(len(x) - 1):
        if x[i] > y[i]:
            new[i + 1] += x[i] * y[i]
    return new


def at_the_ends(x: Any, y: Any) -> Any:
    """The conditions guard the loads."""
    new = np.zeros(len(x))
    for i in range(len(x)):
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i + 1 < len(x) else 0.0
        new[i] = y[i] * (left + right)
    return new


def guarded_store(x: Any, y: Any) -> Any:
    new = x.copy()
    for i in range(2 * len(x)):
        if i < len(x):
            new[i] = y[i] * x[i]
    return new


def three_sides(x: Any, y: Any) -> Any:
    new = x.copy()
    for i in range(1, len(x)):
        if x[i] > 0.5:
            new[i] = y[i] * x[i]
            new[i - 1] += 1.0
        elif y[i] > 0.0:
            new[i] = x[i - 1]
        else:
            new[i] = new[i - 1] * y[i]
    return new


def other_order(x: Any, y: Any) -> Any:
    """The sides store the same elements, one in the other order and twice."""
    new = x.copy()
    for i in range(1, len(x)):
        if x[i] > 0.0:
            new[i] = y[i]
            new[i - 1] = x[i]
        else:
            new[i - 1] = y[i]
            new[i] = 2.0 * x[i]
            new[i] = new[i] + new[i - 1]
    return new


def exchanged(x: Any, y: Any) -> Any:
    a, b = x.copy(), y.copy()
    for i in range(len(x)):
        if x[i] > y[i]:
            a[i] = y[i] * 2.0
            a, b = b, a
        else:
            b[i] = x[i]
    return a - b


def sums(x: Any, y: Any) -> Any:
    up, down, all_of = 0.0, 0.0, -0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            up += x[i] * y[i]
        else:
            down -= x[i]
        if y[i] > 0.0:
            if x[i] > y[i]:
                all_of += x[i]
    return np.array([up, down, all_of])


def sum_that_is_read(x: Any, y: Any) -> Any:
    total, new = 0.0, x.copy()
    for i in range(len(x)):
        if x[i] > 0.0:
            total += y[i]
        new[i] = total * x[i]
    return new


def recurrence(x: Any, y: Any) -> Any:
    level, new = 0.0, x.copy()
    for i in range(len(x)):
        if x[i] > level:
            level = 0.5 * level + x[i]
        else:
            level = 0.9 * level
        new[i] = level * y[i]
    return new


def whole_numbers(x: Any, y: Any) -> Any:
    count, new = 0, np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        if x[i] > y[i]:
            count += i
            new[i] += count
        else:
            new[i] -= 1
    return new


def relaxed(x: Any, y: Any) -> Any:
    """A distance that takes long to compute from that of the neighbour, and is seldom smaller."""
    t = np.full(len(x), 3.0)
    t[0] = 0.0
    for _ in range(2):
        for i in range(1, len(x)):
            d = math.sqrt(t[i - 1] * t[i - 1] + x[i] * x[i]) if x[i] > -1.0 else t[i - 1] + y[i] * y[i]
            if d < t[i]:
                t[i] = d
    return t


def between(x: Any, y: Any) -> Any:
    """The side has a check, which `loop_versioning` removes after differentiation, and elements that stay there."""
    total = -0.0
    for i in range(len(x)):
        at = 2.0 * x[i] + 1.5
        if at >= 0.0 and at < len(y) - 1:
            k = int(at)
            total += (y[k + 1] - y[k]) * (at - k) - y[i]
    return np.array([total])


def checked_sides(x: Any, y: Any) -> Any:
    """The bounds of y are checked on both sides, which store the same element."""
    new = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 0.0:
            new[i] = x[i] * y[i]
        else:
            new[i] = y[i] - x[i]
    return new


def clipped(x: Any, y: Any) -> Any:
    """Of three paths one stores nothing."""
    new = x.copy()
    for i in range(len(x)):
        if new[i] < -0.5:
            new[i] = -0.5 * y[i]
        elif new[i] > 0.5:
            new[i] = 0.5
    return new


def with_conditions(x: Any, y: Any) -> Any:
    """The first side has a check, which `loop_versioning` removes."""
    new = np.full(len(x), -0.0)
    for i in range(len(x)):
        if x[i] > 0.0:
            new[i] += x[i] * y[i]
        if y[i] > 0.0:
            new[i] += y[i]
    return new


PROGRAMS = [between, checked_sides, clipped, with_conditions, relaxed, upwind, one_side, one_side_adds, at_the_ends,
            guarded_store, three_sides, other_order, exchanged, sums, sum_that_is_read, recurrence, whole_numbers]


@pytest.mark.long
@pytest.mark.parametrize("boundscheck", [True, False])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values(f: Callable[..., Any], boundscheck: bool) -> None:
    compiled = jit(f, boundscheck=boundscheck)
    for n in SIZES:
        x, y = RNG.normal(size=n), RNG.normal(size=n)
        got, want = compiled(x, y), f(x, y)
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS[:-1], ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., Any]) -> None:
    def total(x: Any, y: Any) -> Any:
        new = f(x, y)
        return np.sum(new * new * new)
    compiled, threaded = (jit(total, grad=(0, 1), parallel=parallel) for parallel in (False, True))
    for n in SIZES:
        args = RNG.normal(size=n), RNG.normal(size=n)
        wanted = interpret(grad(total, argnums=(0, 1)), *args)
        for found in (compiled.grad(*args), threaded.grad(*args)):
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    check_grads(compiled, (RNG.normal(size=5), RNG.normal(size=5)))


def test_the_side_not_taken_has_no_share_in_the_gradient() -> None:
    def f(x: Any, y: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            if y[i] > 0.0:
                total += x[i] / y[i]
            else:
                total += x[i] * y[i]
        return total
    x, y = np.array([np.inf, 1.0, 2.0, np.nan, 3.0]), np.array([0.0, -1.0, 2.0, 1.0, 0.0])
    gx, gy = jit(f, grad=(0, 1)).grad(x, y)
    np.testing.assert_array_equal(gx, [0.0, -1.0, 0.5, 1.0, 0.0])
    np.testing.assert_array_equal(gy, [np.inf, 1.0, -0.5, np.nan, 3.0])


def test_an_index_that_only_one_side_may_use_raises_there_only() -> None:
    def f(x: Any, y: Any, k: int) -> Any:
        new = x.copy()
        for i in range(len(x)):
            if y[i] > 0.0:
                new[i] = x[i + k]
        return new
    compiled = jit(f)
    x = np.arange(4.0)
    np.testing.assert_array_equal(compiled(x, np.array([1.0, 0.0, 0.0, 0.0]), 3), [3.0, 1.0, 2.0, 3.0])
    with pytest.raises(IndexError):
        compiled(x, np.ones(4), 3)
    with pytest.raises(IndexError):
        compiled(x, np.ones(5), -9)


def test_a_sum_leaves_a_side_whose_check_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "fast_gathers", True)
    text = jit(between).inspect("optimized", np.ones(3), np.ones(3))
    assert any("cast" in block and "get" in block and "jump" in block and "add %total" not in block
               for block in text.split("\n\n"))
    assert "add %total" in text


def test_an_update_that_would_delay_the_next_iteration_stays_on_its_side() -> None:
    compiled = jit(relaxed)
    compiled(np.ones(3), np.ones(3))
    text = compiled.inspect("optimized")
    assert not any("select" in block and "set" in block for block in text.split("\n\n"))


@pytest.mark.parametrize("f", [checked_sides, clipped, with_conditions], ids=lambda f: f.__name__)
def test_elements_are_stored_behind_the_join(f: Callable[..., Any]) -> None:
    """In the loop without checks; there nothing but selections is left."""
    text = jit(f).inspect("loops", np.ones(3), np.ones(3))
    loops = re.findall(r"^  for .*?^  }", text, re.MULTILINE | re.DOTALL)
    assert any("select" in loop for loop in loops)


def within_reach(x: Any, pairs: Any) -> Any:
    """A costly side that adds to elements at indices that are read."""
    force = np.zeros(len(x))
    for k in range(len(pairs)):
        i, j = pairs[k, 0], pairs[k, 1]
        d = x[i] - x[j]
        if d * d < 1.0:
            inverse = 1.0 / (d * d + 0.25)
            c = inverse * (inverse * inverse - 1.0) * d
            force[i] += c
            force[j] -= c
    return force


@pytest.mark.slow
@pytest.mark.long
def test_forces_stay_on_their_side() -> None:
    x, pairs = RNG.normal(size=12), RNG.integers(0, 12, (40, 2))
    f = jit(within_reach)
    loops = f.inspect("optimized", x, pairs).split("^then")
    assert all("add_at" not in part.split("^join", 1)[1] for part in loops[1:] if "^join" in part)
    np.testing.assert_allclose(f(x, pairs), within_reach(x, pairs), rtol=1e-12)
    check_grads(lambda y: np.sum(within_reach(y, pairs) * np.arange(12.0)), (x,))


def crossings(x: Any, y: Any) -> float:
    """Each condition that holds puts a quotient at the next place of a list."""
    at, total = np.zeros(3), 0.0
    for i in range(1, len(x)):
        n = 0
        if x[i] > 0.0:
            at[n] = x[i] / (x[i] + y[i] * y[i] + 1.0)
            n += 1
        if x[i - 1] > 0.0:
            at[n] = y[i] / (x[i - 1] + 2.0)
            n += 1
        if n > 1:
            total += at[0] * at[1]
    return total


@pytest.mark.slow
def test_a_list_that_an_iteration_fills_is_stored_where_a_condition_holds() -> None:
    for n in SIZES:
        x, y = RNG.normal(size=n), RNG.normal(size=n)
        assert jit(crossings)(x, y) == pytest.approx(crossings(x, y), rel=1e-12)
    check_grads(crossings, (x, y), order=2)
    text = jit(crossings).inspect("adjoint", x, y)
    second = text[:text.rindex(" = set ")]
    assert "^then" in second[second.rindex("\n^"):]


def fluxes(q: Any, out: Any) -> float:
    """Three cases for each of three components: every path stores, so that nothing but selections is left."""
    for i in range(1, len(q)):
        low = min(q[i - 1, 0], q[i, 0]) - 0.4
        high = max(q[i - 1, 0], q[i, 0]) + 0.3
        for k in range(3):
            left, right = q[i - 1, k] * q[i - 1, k], q[i, k] * 0.5
            if low >= 0.0:
                out[i, k] = left
            elif high <= 0.0:
                out[i, k] = right
            else:
                out[i, k] = (high * left - low * right + low * high * (q[i, k] - q[i - 1, k])) / (high - low)
    return np.sum(out * out)


@pytest.mark.slow
def test_paths_that_all_store_become_selections() -> None:
    rng = np.random.default_rng(7)
    q = rng.normal(size=(40, 3))
    f = jit(lambda q: fluxes(q, np.zeros((len(q), 3))), grad=True)
    assert f(q) == pytest.approx(fluxes(q, np.zeros((40, 3))), rel=1e-13)
    text = str(f.inspect("optimized", q))
    assert not re.search(r"\^(then|else)", text) and len(re.findall("select", text)) >= 6
    check_grads(f, (q,), order=1, modes=("rev",))


@pytest.mark.slow
def test_sides_of_a_condition_that_no_loop_changes_keep_their_updates() -> None:
    """One side updates one element, the other two: behind the join there would be three."""
    def moments(x: Any, lags: Any) -> Any:
        n, k = x.shape
        s = np.zeros((k, k))
        for lag in range(lags):
            for t in range(lag, n):
                for i in range(k):
                    for j in range(k):
                        g = x[t, i] * x[t - lag, j]
                        if lag == 0:
                            s[i, j] += g
                        else:
                            s[i, j] += 0.5 * g
                            s[j, i] += 0.5 * g
        return s
    x = np.random.default_rng(0).normal(size=(12, 5))
    for lags in (0, 1, 3):
        np.testing.assert_allclose(jit(moments)(x, lags), moments(x, lags), rtol=1e-12)
    text = jit(moments).inspect("adjoint", x, 3)
    assert text.count("add_at") == 3 and "-0.0" not in text
