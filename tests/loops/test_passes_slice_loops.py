"""Slices that overlap as loops, and loops that fill or copy: the values and derivatives of the program, at any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit
from jitad.passes.buffers import loop_idioms, slice_loops

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


PROGRAMS = (rod, copied, shrinking, backwards, bounded, scratch, rows, longer)


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
    (rod, slice_loops), (copied, slice_loops), (backwards, slice_loops), (scratch, loop_idioms), (rows, loop_idioms)))
def test_the_pass_finds_them(program: Callable[..., Any], passes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    u, c = RNG.uniform(0.2, 1.0, 9), np.array([0.7, 0.4])
    name = passes.__name__.rsplit(".", 1)[-1]
    with_it = jit(program).inspect("optimized", u, c)
    monkeypatch.setenv("JITAD_WITHOUT", name)
    assert jit(program).inspect("optimized", u, c) != with_it
