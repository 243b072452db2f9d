"""Loops that carry something and run in parallel all the same: scans, searches, additions to elements, overwriting.

Each program is compiled once, and run for sizes around those of warps, tiles and grids, each time in another order of
threads, with every access to memory checked.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.host import scan_launch

from jitad import grad, jit
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.programs import Case, compare, compiled
from tests.gpu.running import OnDevice

pytestmark = pytest.mark.any_level

RNG = np.random.default_rng(3)
SIZES = (0, 1, 31, 32, 33, 1025, 4500)


def at_sizes(case: Case, given: Any, sizes: tuple[int, ...] = SIZES, rtol: float = 1e-9) -> None:
    """Asserts that a program is right for each number of elements."""
    for order, n in enumerate(sizes):
        compare(dataclasses.replace(case, given=given(n)), SimulatedDriver(checked=True, order=order), rtol)


@pytest.fixture
def few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of scans go through several tiles from 2,049 iterations on."""
    monkeypatch.setattr(scan_launch, "MOST_PARTS", 2)


# --- scans ------------------------------------------------------------------------------------------------

def running(x: Any) -> Any:
    """A loop of the user, whose total is read afterwards."""
    total, out = 1.0, np.zeros(len(x))
    for i in range(len(x)):
        total += x[i] * x[i]
        out[len(x) - 1 - i] = total
    return out, total


SCANS = {
    "cumsum": (lambda x: np.cumsum(x), np.float64, ("(add)", 1)),
    "cumprod": (lambda x: np.cumprod(1 + x / 100), np.float64, ("(mul)", 1)),
    "of f32": (lambda x: np.cumsum(x), np.float32, ("(add)", 1)),
    "of integers": (lambda x: np.cumsum(x), np.int32, ("(add)", 1)),
    "gradient": (grad(lambda x: (np.cumsum(x) ** 2).sum()), np.float64, ("(add)", 2)),
    "a loop": (running, np.float64, ("(add)", 1)),
    "kept": (lambda x: x[x > 0.3], np.float64, ("of what is kept", 1)),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SCANS)
def test_scans(name: str, few_parts: None) -> None:
    fun, dtype, (shown, count) = SCANS[name]
    case = compiled(fun, np.ones(5, dtype))
    plan = case.program.plan()
    assert plan.count(shown) == count and "in order" not in plan, plan
    at_sizes(case, lambda n: [(10 * RNG.normal(size=n)).astype(dtype)], rtol=1e-5 if dtype == np.float32 else 1e-9)


@pytest.mark.slow
def test_gradient_of_a_product() -> None:
    """Its forward sweep is a scan that also stores what each step had before, its reverse sweep a recurrence."""
    case = compiled(grad(lambda x: (np.cumprod(x) ** 2).sum()), np.ones(5))
    assert "a scan (mul)" in case.program.plan() and "a scan (affine)" in case.program.plan()
    at_sizes(case, lambda n: [RNG.uniform(0.99, 1.01, n)])


def test_loops_that_are_no_scans() -> None:
    """What one iteration stores another one reads, or the carried value is used otherwise."""
    def dependent(x: Any) -> Any:
        out, total = x.copy(), 0.0
        for i in range(1, len(x)):
            total += out[i - 1]
            out[i] = total
        return out

    def logistic(x: Any) -> Any:
        out, total = x.copy(), 0.0
        for i in range(len(x)):
            total += x[i] * total * total + 0.1
            out[i] = total
        return out
    for fun in (dependent, logistic):
        case = compiled(fun, np.ones(5))
        assert "a scan" not in case.program.plan()
        compare(dataclasses.replace(case, given=[RNG.uniform(0, 0.1, 100)]), SimulatedDriver(checked=True))


# --- recurrences ------------------------------------------------------------------------------------------

def filtered(x: Any, a: Any) -> Any:
    """Of two arrays, whose lengths are compared before the loop; backwards; of integers, which wrap."""
    out, state, number = np.zeros(len(x)), 0.25, 12345
    for i in range(len(x)):
        out[i] = state * 2
        state = (x[i] * state - 3 * state) / 2 + state + a[i]
    back, later = np.zeros(len(x)), 1.0
    for i in range(len(x) - 1, -1, -1):
        later = x[i] - a[i] * later
        back[i] = np.sin(later)
    drawn = np.zeros(len(x), np.int64)
    for i in range(len(x)):
        number = number * 6364136223846793005 + i
        drawn[i] = number
    return out, back, state, drawn


def in_memory(x: Any, a: Any, first: int) -> Any:
    """What an iteration reads the one before has stored: forwards, backwards, along the rows of a matrix."""
    out, back, rows = x.copy(), x.copy(), np.stack((x, a))
    for i in range(1, len(x)):
        out[i] = a[i] * out[i - 1] + x[i]
    for i in range(len(x) - 2, -1, -1):
        back[i] += 0.5 * back[i + 1]
    for i in range(first, len(x)):
        rows[1, i] = rows[1, i - 3 + 2] - rows[0, i]
    return out, back, rows


@pytest.mark.slow
def test_recurrences_in_memory(few_parts: None) -> None:
    case = compiled(in_memory, np.ones(5), np.ones(5), 1)
    assert case.program.plan().count("a scan (affine)") == 3
    at_sizes(case, lambda n: [RNG.normal(size=n), RNG.uniform(-1, 1, n), 5], (5, 33, 2500))

    def others(x: Any) -> Any:
        """The element before the last one; an element that is not the last one's."""
        y, z = x.copy(), x.copy()
        for i in range(2, len(x)):
            y[i] = 0.5 * y[i - 2] + 1
        for i in range(1, len(x)):
            z[i] = 0.5 * z[i - 1] + z[len(x) - 1 - i]
        return y, z
    case = compiled(others, np.ones(5))
    assert "a scan" not in case.program.plan()
    at_sizes(case, lambda n: [RNG.normal(size=n)], (33,))


@pytest.mark.slow
@pytest.mark.long
def test_a_multiple_of_zero_keeps_its_sign() -> None:
    def doubled(x: Any, n: Any) -> Any:
        for _ in range(n):
            x += x
        return x
    found = jit(doubled, target="cuda-sim")
    for n in (0, 1, 3, 40):
        for x in (-0.0, 0.0, -1.5):
            assert float(found(x, n)).hex() == (x * 2.0 ** n).hex()


@pytest.mark.slow
def test_recurrences(few_parts: None) -> None:
    """Also where composed maps are of no use: factors that grow, infinite terms, values that cancel."""
    case = compiled(filtered, np.ones(5), np.ones(5))
    assert case.program.plan().count("a scan (affine)") == 3
    for k, scale in enumerate((0.9, 50.0)):
        at_sizes(case, lambda n, s=scale: [RNG.uniform(-s, s, n), RNG.uniform(-1, 1, n)], (33, 2500)[k:])

    def infinite(n: int) -> Any:
        x = RNG.uniform(-1, 1, n)
        x[n // 3] = np.inf
        return [x, np.zeros(n)]
    at_sizes(case, infinite, (2500,))
    slope = compiled(grad(lambda x, a: filtered(x, a)[2]), np.ones(5), np.ones(5))
    at_sizes(slope, lambda n: [RNG.uniform(-1, 1, n), RNG.normal(size=n)], (2500,))

    def unstable(x: Any) -> Any:
        state = 1.0
        for i in range(len(x)):
            state = x[i] * state - 0.5                 # stays at 1, but for what composed maps lose
        return state
    at_sizes(compiled(unstable, np.ones(5)), lambda n: [np.full(n, 1.5)], (2500,))


# --- searches ---------------------------------------------------------------------------------------------

def with_ties(n: int, dtype: Any, nans: int = 0) -> Any:
    x = RNG.integers(-20, 20, n).astype(dtype)
    x[RNG.integers(0, n, nans) if n else []] = np.nan if nans else 0
    return x


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_searches(dtype: Any) -> None:
    """Of equal elements, and of NaNs, the first."""
    case = compiled(lambda x: (x.argmax(), np.argmin(x)), np.ones(5, dtype))
    assert case.program.plan().count("reduced by arg") == 2
    sizes = (*SIZES, 70000) if dtype is np.float64 else SIZES          # more than one thread has to itself
    for nans in (0, 3) if np.dtype(dtype).kind == "f" else (0,):
        at_sizes(case, lambda n, nans=nans: [with_ties(n, dtype, nans)], sizes)
    low = -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min
    at_sizes(case, lambda n: [np.full(n, low, dtype)], (40,))
    rows = compiled(lambda x: x.argmax(axis=1), np.ones((5, 5), dtype))
    assert "a warp for each iteration" in rows.program.plan()
    at_sizes(rows, lambda n: [with_ties(3 * n, dtype).reshape(3, n)])


# --- additions --------------------------------------------------------------------------------------------

def add_at(x: Any, index: Any, n: int) -> Any:
    z = np.ones(n, x.dtype)
    np.add.at(z, index, x)
    return z


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_additions(dtype: Any) -> None:
    """To few elements and to many, of numbers and of rows; in order if that is asked for."""
    for deterministic in (False, True):
        case = compiled(add_at, np.ones(5, dtype), np.zeros(5, np.int64), 7, deterministic=deterministic)
        shown = "adds the arrays of the threads" if deterministic else "by atomics"
        assert shown in case.program.plan()
        for most in (7, 50):
            at_sizes(case, lambda n, most=most: [RNG.normal(size=n).astype(dtype), RNG.integers(-most, most, n), most],
                     rtol=1e-5 if dtype == np.float32 else 1e-9)


@pytest.mark.slow
@pytest.mark.long
def test_gradients_of_gathers() -> None:
    for fun in (lambda x, i: (x[i] ** 2).sum(), lambda x, i: (x.reshape(-1, 4)[i] ** 3).sum()):
        case = compiled(lambda x, i, f=fun: grad(f)(x, i), np.ones(8), np.zeros(5, np.int64))
        assert "by atomics" in case.program.plan()
        at_sizes(case, lambda n: [RNG.normal(size=40), RNG.integers(0, 10, n)])


# --- overwriting ------------------------------------------------------------------------------------------

def stored(x: Any, index: Any, v: Any) -> Any:
    """Numbers, rows, places of two indices, a mask, and what the gradient stores."""
    def loss(x: Any, v: Any) -> Any:
        y = x.copy()
        y[index] = v
        return (y ** 2).sum()
    y, rows, z = x.copy(), np.zeros((len(x), 3), x.dtype), np.zeros((5, len(x)), bool)
    y[index] = v
    rows[index] = np.stack((v, v + 1, v * 2), axis=1)
    z[index % 5, index] = v > 0
    return y, rows, z, grad(loss, (0, 1))(x, v)


@pytest.mark.slow
def test_the_last_store_counts() -> None:
    """Of several to one element, in any order of threads."""
    case = compiled(stored, np.ones(5), np.zeros(5, np.int64), np.ones(5))
    assert case.program.plan().count("finds the last store") >= 4
    at_sizes(case, lambda n: [RNG.normal(size=40), RNG.integers(-40, 40, n), RNG.normal(size=n)])


# --- sorting ----------------------------------------------------------------------------------------------

@pytest.mark.slow
def test_sorts() -> None:
    """All elements of a level at once; stable, NaN last; along an axis, and in gradients."""
    order = OnDevice(jit(lambda x: (np.argsort(x), np.sort(x)), target="cuda-sim"))
    for n in (0, 1, 2, 31, 32, 33, 300):
        for x in (with_ties(n, np.float64, 3), with_ties(n, np.int32)):
            places, values = order(x)
            np.testing.assert_array_equal(places, np.argsort(x, kind="stable"))
            np.testing.assert_array_equal(values, np.sort(x))
    matrix = with_ties(200, np.float32).reshape(5, 40)
    rows = OnDevice(jit(lambda x: (np.sort(x, axis=1), np.sort(x, axis=0)), target="cuda-sim"))
    for found, axis in zip(rows(matrix), (1, 0)):
        np.testing.assert_array_equal(found, np.sort(matrix, axis=axis))
    x, c = RNG.normal(size=40), np.arange(40.0)
    slope = OnDevice(jit(grad(lambda x: (np.sort(x) * c).sum()), target="cuda-sim"))
    np.testing.assert_array_equal(slope(x), np.argsort(np.argsort(x)))
    assert "reads an element" not in jit(np.sort, target="cuda-sim").inspect("plan", x)


# --- rows -------------------------------------------------------------------------------------------------

@pytest.mark.slow
def test_scans_along_rows() -> None:
    """A warp for each row, which has both scans; of values that are computed, in both directions."""
    def rows(x: Any) -> Any:
        return np.cumsum(np.exp(x), axis=1), np.cumprod(x[:, ::-1], axis=1)
    case = compiled(rows, np.ones((5, 5)))
    assert case.program.plan().count("a warp for each iteration") == 1
    at_sizes(case, lambda n: [RNG.normal(size=(3, n))], SIZES[:-1])
    slope = compiled(grad(lambda x: (np.cumsum(x, axis=1) ** 2).sum()), np.ones((5, 5)))
    at_sizes(slope, lambda n: [RNG.normal(size=(3, n))], SIZES[:-1])
