"""Simple loops of large functions as vectors (``lowering/function/loop_vectors.py``)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.function import region_outlining

from jitad import jit, value_and_grad

LENGTHS = (0, 1, 7, 8, 9, 16, 17, 40)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_outlining, "SIZE", 12)
    monkeypatch.setattr(region_outlining, "LEAST", 12)


def vector_loops(text: str) -> int:
    return len(re.findall(r"^vectors\d+:", text, re.MULTILINE))


def sums(a: Any, b: Any, x: float) -> Any:
    s = t = u = x
    for i in range(len(a)):
        s += math.sin(a[i]) * x
        t -= a[i] / (1.5 + x * x)
        u += 0.5
    for i in range(len(b)):
        s += math.tanh(b[i] * t)
    for i in range(len(b)):
        t += math.sqrt(abs(b[i])) if b[i] > s else -b[i]
    for i in range(len(b)):
        u += math.atan2(b[i], x) + max(b[i], t)
    return s * t + u


def stores(a: Any, b: Any, x: float) -> Any:
    n = len(a)
    c, d, e = np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(n):
        c[i] = math.cos(a[i]) * x
    for i in range(n):
        d[n - 1 - i] = c[i] * c[i] + a[n - 1 - i]
    for i in range(n):
        e[i] = d[i] * x + c[i]
        d[i] = e[i] + a[i]
    s = 0.0
    for i in range(n):
        s += e[i] * d[n - 1 - i]
    return s


def running(a: Any, b: Any, x: float) -> Any:
    """No loop is simple: each reads what an earlier iteration stored, or skips elements."""
    n = len(a)
    c, d = np.zeros(n + 1), np.zeros(2 * n + 1)
    for i in range(n):
        c[i + 1] = c[i] * x + a[i]
    for i in range(n):
        d[2 * i] = c[i] * a[i]
    for i in range(n - 1):
        c[i] = c[i + 1] * x
    s = 1.0
    for i in range(n):
        s = s * c[i] + d[i]
    return s


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("program, least, fastmath", [
    (sums, 4, False), (sums, 4, True), (stores, 4, False), (running, 0, False)])
def test_values_and_gradients(program: Callable[..., Any], least: int, fastmath: bool,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    """``least``: the number of vector loops, 0 if there must be none."""
    r = np.random.default_rng(0)
    calls = [(r.uniform(-1.0, 1.0, n), r.uniform(-1.0, 1.0, n + 3), 0.75) for n in LENGTHS]
    derived = jit(value_and_grad(program, (0, 1, 2)), fastmath=fastmath)
    results = [derived(*call) for call in calls]
    found = vector_loops(derived.inspect("llvm", *calls[0]))
    assert found >= least and (least or not found)
    monkeypatch.setattr(region_outlining, "LEAST", 10**9)
    whole = jit(value_and_grad(program, (0, 1, 2)), fastmath=fastmath)
    for call, (value, slopes) in zip(calls, results, strict=True):
        assert value == pytest.approx(program(*call), rel=1e-12)
        for slope, expected in zip(slopes, whole(*call)[1], strict=True):
            np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-13)
