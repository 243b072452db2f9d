"""``min`` and ``max`` of floats in recurrences: bit by bit what Python gives, with NaN and zeros of both signs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit, spec

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-310, -1e-310])


def second(u: Any, t: Any, w: Any) -> Any:
    out, left = np.zeros(len(u)), -1.0
    for j in range(len(u)):
        left = min(u[j], left + 1.0, abs(t[j]))
        out[j] = left
    return out


def largest(u: Any, t: Any, w: Any) -> Any:
    out, left = np.zeros(len(u)), 1.0
    for j in range(len(u)):
        left = max(u[j], left - 1.0, t[j] + 0.0)
        out[j] = left
    return out


def branches(u: Any, t: Any, w: Any) -> Any:
    out, left = np.zeros(len(u)), -1.0
    for j in range(len(u)):
        best = u[j] + 1.0
        if best > left + 1.0:
            best = left + 1.0
        if t[j] * t[j] < best:
            best = t[j] * t[j]
        left = best
        out[j] = left
    return out


def four(u: Any, t: Any, w: Any) -> Any:
    out, left = np.zeros(len(u)), -1.0
    for j in range(len(u)):
        left = min(u[j], left + 1.0, abs(t[j]), t[j] + 1.0)
        out[j] = left
    return out


def first(u: Any, t: Any, w: Any) -> Any:
    out, left = np.zeros(len(u)), -1.0
    for j in range(len(u)):
        left = min(left + 1.0, u[j], abs(t[j]))
        out[j] = left
    return out


def inside(u: Any, t: Any, w: Any) -> Any:
    out, left = np.zeros(len(u)), -1.0
    for j in range(len(u)):
        left = min(abs(t[j]), min(u[j], left + 1.0))
        out[j] = left
    return out


def loaded(u: Any, t: Any, w: Any) -> Any:
    out, left = np.zeros(len(u)), -1.0
    for j in range(len(u)):
        left = min(u[j], left + w, t[j])
        out[j] = left
    return out


def costs(u: Any, t: Any, w: Any) -> Any:
    out, left = np.zeros(len(u)), -1.0
    for j in range(len(u)):
        left = min(u[j], left + w, t[j] + (0.0 if u[j] == t[j] else w))
        out[j] = left
    return out


REWRITTEN: list[Callable[..., Any]] = [second, branches, four]


@pytest.mark.parametrize("f", [*REWRITTEN, largest, first, inside, loaded, costs])
def test_values_are_those_of_python(f: Callable[..., Any]) -> None:
    rng, compiled = np.random.default_rng(0), jit(f)
    for _ in range(40):
        u, t = rng.choice(SPECIAL, (2, 40))
        w = rng.choice([-0.0, 0.0, 1.0, np.nan])
        want, got = np.array(f(u.tolist(), t.tolist(), float(w))), compiled(u, t, w)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got)[got == 0], np.signbit(want)[want == 0])


@pytest.mark.parametrize("f", [*REWRITTEN, first, inside, loaded])
def test_the_late_operand_comes_last(f: Callable[..., Any]) -> None:
    text = jit(f).inspect("optimized", spec("f64[:]"), spec("f64[:]"), 1.0)
    late = re.search(r"(%\w+) = (?:add|sub) %left, ", text)
    assert late is not None
    stored = re.search(r"= set %\w+, (%\w+), ", text)
    assert stored is not None
    last = re.search(rf"{stored[1]} = select %\w+, {late[1]}, ", text)
    assert (last is not None) is (f in REWRITTEN)


def test_costs_from_outside_are_tested_ahead() -> None:
    """Two versions of the loop: one for a cost that is not zero, in which the late operand comes last."""
    text = jit(costs).inspect("optimized", spec("f64[:]"), spec("f64[:]"), 1.0)
    assert len(re.findall(r"\n\^loop\S*\(", text)) == 2 and text.count("branch {cold = True}") == 1
    stored = re.findall(r"= set %\S+, (%\S+), ", text)
    last = [re.search(rf"{v} = select %\S+, (%\S+), ", text) for v in stored]
    late = set(re.findall(r"(%\S+) = add %left\S*, ", text))
    assert sorted(found is not None and found[1] in late for found in last) == [False, True]
