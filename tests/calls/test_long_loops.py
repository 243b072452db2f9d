"""Calls in which an inner loop runs for long are repeated with code that polls in all loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jitad.lowering.threads import safepoints

from jitad import jit
from tests.calls.test_robustness_limits import inner_walk

FEW = 40


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of more than ``FEW`` iterations are long."""
    monkeypatch.setattr(safepoints, "LONGEST", FEW)


def pairs(n, x):
    s = 0.0
    for i in range(n):
        for j in range(n):
            s += np.sin(x * i) * j
    return s


def triangle(n, x):
    s = x
    for i in range(n):
        for j in range(i + 1):
            s = s * 0.99 + x * j
    return s


def first_below(n, x):
    total = 0.0
    for i in range(3):
        for j in range(n):
            if x * j > 20.07 + i:
                break
            total += x * x
    return total


def branch(n, x):
    s = 0.0
    if x > 0.4:
        for _ in range(2):
            for j in range(n):
                s += x * j
    else:
        for _ in range(3):
            for j in range(n):
                s -= x * x * j
    return s


def arrays(n, x):
    a = np.zeros(n)
    for i in range(5):
        for j in range(n):
            a[j] = a[j] * x + i
    return a.sum()


PROGRAMS = [pairs, triangle, first_below, inner_walk, branch, arrays]


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=[f.__name__ for f in PROGRAMS])
@pytest.mark.parametrize("parallel", [False, True])
def test_the_result_is_the_same(program: Any, parallel: bool) -> None:
    f = jit(program, grad="x", parallel=parallel)
    for x in (0.3, 0.5):
        for n in (7, 100, 8):
            assert f(n, x) == pytest.approx(program(n, x), rel=1e-13)
            value, slope = f.value_and_grad(n, x)
            assert value == pytest.approx(program(n, x), rel=1e-13)
            assert slope == pytest.approx((program(n, x + 1e-6) - program(n, x - 1e-6)) / 2e-6, rel=1e-5)
    assert f.stats["compilations"] <= 4                  # two each for the value and the gradient


def test_it_is_compiled_anew_once(few: None) -> None:
    f = jit(pairs)
    assert f(FEW, 0.5) == pytest.approx(pairs(FEW, 0.5)) and f.stats["compilations"] == 1
    for n in (FEW + 1, FEW + 2, 3):
        assert f(n, 0.5) == pytest.approx(pairs(n, 0.5))
        assert f.stats["compilations"] == 2


def test_arguments_by_name_and_errors() -> None:
    def scaled(n, x, table):
        s = 0.0
        for _ in range(3):
            for j in range(n):
                s += x * table[j]
        return s
    table = np.ones(60)
    f = jit(scaled)
    for call in ({"n": 50, "x": 0.5}, {"x": 0.5, "n": 50}, {"x": 2.0, "n": 60}):
        assert f(**call, table=table) == 3.0 * call["n"] * call["x"]
    with pytest.raises(IndexError):
        f(61, 0.5, table)
    assert f(60, 0.5, table) == 90.0


@pytest.mark.slow
def test_code_from_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JITAD_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        f = jit(pairs, cache=True)
        for n in (5, 100, 6):
            assert f(n, 0.5) == pytest.approx(pairs(n, 0.5))
    assert f.stats["compilations"] == 0


@pytest.mark.slow
def test_functions_with_code_of_their_own() -> None:
    inner = jit(pairs, separate=True)

    def outer(n, x):
        return inner(n, x) + inner(n, x * x)
    f = jit(outer, grad="x")
    for n in (5, 100, 6):
        assert f(n, 0.5) == pytest.approx(pairs(n, 0.5) + pairs(n, 0.25))
        slope = (outer(n, 0.5 + 1e-6) - outer(n, 0.5 - 1e-6)) / 2e-6
        assert f.grad(n, 0.5) == pytest.approx(slope, rel=1e-5)
