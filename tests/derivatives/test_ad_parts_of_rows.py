"""Gradients of programs that read parts of rows: they are added to the adjoint of the array, not to one of the row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(3)
A = RNG.uniform(0.5, 1.5, (5, 6))
CUBE = RNG.uniform(0.5, 1.5, (3, 4, 5))


def cholesky(a: Any) -> Any:
    n = len(a)
    l = np.zeros((n, n))
    for j in range(n):
        l[j, j] = math.sqrt(a[j, j] + n - (l[j, :j] * l[j, :j]).sum())
        for i in range(j + 1, n):
            l[i, j] = (a[i, j] - (l[i, :j] * l[j, :j]).sum()) / l[j, j]
    return l.sum()


def growing_parts(a: Any) -> Any:
    total = 0.0
    for i in range(len(a)):
        total += (a[i, :i + 1] ** 2).sum() * a[i, i:].sum()
    return total


def row_and_parts(a: Any) -> Any:
    """The row is used as a whole, before and behind its parts."""
    total = 0.0
    for i in range(len(a)):
        row = a[i]
        total += np.sin(row).sum() * row[1:3].sum()
        total += (row[::2] * row[::-2]).sum() + row.sum() * row[3]
    return total


def row_of_another_loop(a: Any) -> Any:
    total, first = 0.0, a[0]
    for i in range(1, len(a)):
        total += (first[i - 1:i + 1] * a[i, 1:3]).sum()
    return total


def rows_written_between(a: Any) -> Any:
    out = a.copy()
    for i in range(1, len(a)):
        out[i, 1:] = out[i - 1, :-1] * out[i, 1:]
        out[i, 0] = out[i, 2:].sum() * 0.1
    return (out * out).sum()


def row_seen_before_a_write(a: Any) -> Any:
    out = a.copy()
    total = 0.0
    for i in range(len(a) - 1):
        row = out[i]
        row[1:3] *= 2.0
        total += row[:2].sum() * row[2:].sum()
    return total + out.sum()


def parts_of_planes(c: Any) -> Any:
    total = 0.0
    for k in range(len(c)):
        total += (c[k, 1:, :-1] * c[k, :-1, 1:]).sum() + (c[k, 1, ::-1] * c[k, 2]).sum()
    return total


def condition_on_a_part(a: Any) -> Any:
    total = 0.0
    for i in range(len(a)):
        if a[i, :2].sum() > 2.0:
            total += (a[i, 2:] ** 3).sum()
        else:
            total -= a[i, 1:4].sum() * a[i, 0]
    return total


PROGRAMS = [growing_parts, row_and_parts, row_of_another_loop, rows_written_between, row_seen_before_a_write,
            condition_on_a_part]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_against_differences_and_forward_mode(f: Callable[..., Any]) -> None:
    check_grads(f, (A,), modes=("fwd", "rev"))
    assert jit(f)(A) == pytest.approx(f(A))


@pytest.mark.slow
def test_a_factorisation_and_a_cube() -> None:
    square = A[:, :5] @ A[:, :5].T
    check_grads(cholesky, (square,), modes=("fwd", "rev"))
    check_grads(parts_of_planes, (CUBE,), modes=("fwd", "rev"))


@pytest.mark.parametrize("f", [cholesky, growing_parts], ids=lambda f: f.__name__)
def test_no_adjoint_of_a_row_is_made(f: Callable[..., Any]) -> None:
    text = jit(f, grad=True).grad.inspect("optimized", A[:, :5])
    loops = text[text.index("_bar"):]
    assert "add_slice" in loops
    assert not any(" = fill " in line and line.endswith(" : f64[?]") for line in loops.splitlines())
