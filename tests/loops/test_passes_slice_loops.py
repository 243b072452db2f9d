"""Slices that overlap, loops that fill or copy, and scratch arrays: values and derivatives, at any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit
from jitad.passes.buffers import array_contraction, covered_boxes, loop_idioms, slice_loops

RNG = np.random.default_rng(0)


def rod(u: Any, c: Any) -> Any:
    now = u.copy()
    for _ in range(3):
        now[1:-1] += c[0] * (now[:-2] - 2.0 * now[1:-1] + now[2:])
    return np.sum(now * now)


def copied(u: Any, c: Any) -> Any:
    now = u.copy()
    for _ in range(3):
        new = now.copy()
        new[2:-1] = now[2:-1] * c[0] + c[1] * now[1:-2] * now[3:]
        now = new
    return np.sum(now ** 2)


def shrinking(u: Any, c: Any) -> Any:
    now = u
    for _ in range(3):
        if len(now) > 1:
            now = c[0] * now[1:] - c[1] * now[:-1]
    return np.sum(now ** 2)


def backwards(u: Any, c: Any) -> Any:
    now = u.copy()
    now[1:] = c[0] * now[:-1] + now[1:]                      # no element may be replaced before it is read
    now[:-1] = c[1] * now[1:] - now[:-1]
    return np.sum(now * now)


def bounded(u: Any, c: Any) -> Any:
    k = min(3, len(c))                                       # not the start that a slice has, however long
    now = u.copy()
    if len(u) > 2 * k:
        now[k:] = c[0] * now[k:] + now[:len(u) - k] * now[k:]
    return np.sum(now * now)


def scratch(u: Any, c: Any) -> Any:
    z = np.zeros(len(c))
    s = 0.0
    for i in range(len(u)):
        for j in range(len(z)):
            z[j] = 0.5
        for j in range(len(z)):
            z[j] += u[i] * c[j]
        for j in range(len(z)):
            s += z[j] * z[j]
    return s


def rows(u: Any, c: Any) -> Any:
    table = np.outer(u, c)
    z = np.zeros(len(c))
    s = 0.0
    for i in range(len(u)):
        for j in range(len(c)):
            z[j] = table[i, j]
        z[0] += s
        s += z[0] * 0.1 + np.sum(z * c)
    return s


def longer(u: Any, c: Any) -> Any:
    now = u.copy()
    kept = np.zeros(len(c))
    for _ in range(2):
        for i in range(len(kept)):
            kept[i] = now[i]                                 # raises if there are not so many
        now[0] = kept[1] * now[0]
    return np.sum(now) + np.sum(kept * c)


def copied_back(u: Any, c: Any) -> Any:
    now, new = u.copy(), np.zeros(len(u))
    for _ in range(3):
        for i in range(1, len(u) - 1):
            new[i] = now[i] + c[0] * (now[i - 1] - 2.0 * now[i] + now[i + 1])
        for i in range(1, len(u) - 1):
            now[i] = new[i]
    return np.sum(now * now)


def membrane(u: Any, c: Any) -> Any:
    now = np.outer(u, u)
    n, m = now.shape
    around = np.zeros((n, m))
    for _ in range(2):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                around[i, j] = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4.0 * now[i, j]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                now[i, j] += c[0] * around[i, j]
    return np.sum(now * now)


def decays(u: Any, c: Any) -> Any:
    now, rate = u.copy(), np.zeros(len(u))
    for _ in range(3):
        for i in range(len(u)):
            rate[i] = c[0] * now[i] * now[i]
        for i in range(len(u)):
            now[i] -= c[1] * rate[i]
    return np.sum(now)


def read_again(u: Any, c: Any) -> Any:
    now, new = u.copy(), np.zeros(len(u))
    for _ in range(2):
        for i in range(1, len(u)):
            new[i] = c[0] * now[i - 1] + c[1] * new[i - 1]   # of this step, and at the start of what was copied
        for i in range(1, len(u)):
            now[i] = new[i]
        new[0] = now[0]
    return np.sum(now * now) + new[0]


def from_copy(u: Any, c: Any) -> Any:
    now = u.copy()
    for _ in range(3):
        old = now.copy()
        for i in range(1, len(u) - 1):
            now[i] = c[0] * old[i] + c[1] * old[i - 1] * old[i + 1]
    return np.sum(now * now)


PROGRAMS = (copied_back, membrane, decays, read_again, from_copy, rod, copied, shrinking, backwards, bounded, scratch,
            rows, longer)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("n", (1, 2, 3, 4, 9, 40))
def test_values_and_derivatives(program: Callable[..., Any], n: int) -> None:
    u, c = RNG.uniform(0.2, 1.0, n), np.array([0.7, 0.4])
    if program is longer and n < 2:
        for call in (program, jit(program), grad(program)):
            with pytest.raises(IndexError, match="index 1 is out of bounds for axis 0 with size 1"):
                call(u, c)
        return
    value, derivative = jit(program, grad=(0, 1)).value_and_grad(u, c)
    assert np.isclose(value, program(u, c), rtol=1e-12)
    check_grads(program, (u, c), order=1)
    for got, want in zip(derivative, interpret(grad(program, argnums=(0, 1)), u, c)):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("program", "passes"), (
    (copied_back, array_contraction), (membrane, array_contraction), (decays, array_contraction),
    (from_copy, covered_boxes), (rod, slice_loops), (copied, slice_loops), (backwards, slice_loops),
    (scratch, loop_idioms), (rows, loop_idioms)))
def test_the_pass_finds_them(program: Callable[..., Any], passes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    u, c = RNG.uniform(0.2, 1.0, 9), np.array([0.7, 0.4])
    name = passes.__name__.rsplit(".", 1)[-1]
    with_it = jit(program).inspect("optimized", u, c)
    monkeypatch.setenv("JITAD_WITHOUT", name)
    assert jit(program).inspect("optimized", u, c) != with_it
