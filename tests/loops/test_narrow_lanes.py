"""Outer loops of eight to fifteen iterations, in chunks of eight lanes: same values, same errors, right derivatives."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from jitad import interpret, jit, value_and_grad
from jitad.passes.vectorise import outer_loop as outer_loop_pass

from .test_passes_outer_loop import PROGRAMS, data, same

RNG = np.random.default_rng(8)
COUNTS = (0, 1, 7, 8, 9, 12, 15, 16, 17, 24)


def interactions(start: Any, index: Any, value: Any, v: Any) -> float:
    """A factorisation machine: a sum over a list of rows for each column."""
    total = 0.0
    for i in range(len(start) - 1):
        for f in range(v.shape[1]):
            a, b = 0.0, 0.0
            for p in range(start[i], start[i + 1]):
                t = v[index[p], f] * value[p]
                a += t
                b += t * t
            total += 0.5 * (a * a - b)
    return total


def rows(columns: int) -> list[Any]:
    start = np.array([0, 3, 3, 4, 9])
    return [start, RNG.integers(-5, 5, 9), RNG.uniform(0.5, 1.5, 9), RNG.normal(size=(5, columns))]


@pytest.mark.slow
@pytest.mark.parametrize("columns", COUNTS)
def test_columns(columns: int) -> None:
    args, fast = rows(columns), jit(interactions, grad=3)
    text = fast.inspect("optimized", *args)
    if columns != 1:
        assert "f64[16]" in text
        assert "f64[8]" in text
    assert fast(*args) == pytest.approx(interactions(*args), rel=1e-12, abs=1e-12)
    value, bar = fast.value_and_grad(*args)
    expected, wanted = interpret(value_and_grad(interactions, 3), *args)
    assert value == pytest.approx(expected, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(bar, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_sums_are_in_order_and_count_once() -> None:
    """To the bit, though the last two chunks overlap."""
    for columns in (8, 9, 12, 15):
        args = rows(columns)
        args[3] = np.round(4.0 * RNG.normal(size=(5, columns)))
        args[2] = np.ones(9)
        assert jit(interactions)(*args) == interactions(*args)


@pytest.mark.parametrize("columns", [8, 15])
def test_an_index_out_of_range(columns: int) -> None:
    args = rows(columns)
    args[1][5] = 7
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
        jit(interactions)(*args)


@pytest.mark.parametrize("columns", [7, 8, 12])
def test_a_constant_number_of_columns(columns: int) -> None:
    args, fast = rows(columns), jit(interactions, static_shapes=True)
    assert ("f64[8]" in fast.inspect("optimized", *args)) is (columns >= 8)
    assert fast(*args) == pytest.approx(interactions(*args), rel=1e-12)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("widths", [[8], [16, 8]], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_of_lanes(name: str, widths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer_loop_pass, "_widths", lambda kinds, known: widths)
    f = PROGRAMS[name]
    fast = jit(f)
    for n in COUNTS:
        args = data(n)
        same(fast(*args), f(*args))


def shares(contact: Any, people: Any, weight: Any) -> Any:
    out = np.zeros(len(people))
    for i in range(len(people)):
        total = 0.0
        for k in range(len(people)):
            total += contact[i, k] * weight[k] / people[k]
        out[i] = total
    return out


def weighted(contact: Any, people: Any, weight: Any) -> Any:
    out = np.zeros(len(people))
    for i in range(len(people)):
        total = 0.0
        for k in range(len(people)):
            total += contact[i, k] * weight[k] * people[k]
        out[i] = total
    return out


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("function", [shares, weighted])
def test_squares_shorter_than_a_chunk(function: Any, n: int) -> None:
    args = RNG.normal(size=(n, n)), RNG.uniform(0.5, 1.5, n), RNG.normal(size=n)
    np.testing.assert_allclose(jit(function)(*args), function(*args), rtol=1e-13, atol=1e-13)


def test_loops_that_divide_keep_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop behind the chunks is left scalar if it is as short as a chunk, unless it divides."""
    monkeypatch.setenv("JITAD_WITHOUT", "column_blocks")
    args = RNG.normal(size=(9, 9)), RNG.uniform(0.5, 1.5, 9), RNG.normal(size=9)
    assert "cold = True" in jit(weighted).inspect("optimized", *args)
    text = jit(shares).inspect("optimized", *args)
    assert "f64[16]" in text
    assert "cold = True" not in text


def nearest(x: Any, y: Any, cx: Any, cy: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        best = np.float32(1e30)
        for c in range(len(cx)):
            dx, dy = x[i] - cx[c], y[i] - cy[c]
            d = dx * dx + dy * dy
            if d < best:
                best = d
        total += best
    return total


def test_the_least_of_float32_stays_in_registers() -> None:
    """Its comparison has another type: the array of the lanes is replaced in place all the same."""
    rng = np.random.default_rng(2)
    args = [rng.normal(size=n).astype(np.float32) for n in (70, 70, 9, 9)]
    f = jit(nearest)
    assert math.isclose(f(*args), nearest(*args), rel_tol=1e-6)
    assert re.search(r"fcmp .*<16 x float>", f.inspect("llvm", *args))
