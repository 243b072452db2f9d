"""Tables of minima: the gradient follows the best path, whatever the lengths, and past strips of zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import grad, interpret, jit

RNG = np.random.default_rng(0)


def edits(a: Any, b: Any, w: Any) -> Any:
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        d[i, 0] = i * w[0]
    for j in range(1, m + 1):
        d[0, j] = j * w[1]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0.0 if a[i - 1] == b[j - 1] else w[2]
            d[i, j] = min(d[i - 1, j] + w[0], d[i, j - 1] + w[1], d[i - 1, j - 1] + cost)
    return d[n, m]


def upwards(a: Any, b: Any, w: Any) -> Any:
    """From the end of both words, so that the reverse sweep counts up; the sum of two paths."""
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1))
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            cost = w[0] if a[i] == b[j] else w[2]
            d[i, j] = min(d[i + 1, j] + w[0], d[i, j + 1] + w[1], d[i + 1, j + 1] + cost)
    return d[0, 0] + (d[n // 2, m // 2] if n > 1 and m > 1 else 0.0) * w[1]


def matched(a: Any, b: Any, w: Any) -> Any:
    """The best local match: the largest of all elements."""
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            score = w[2] if a[i - 1] == b[j - 1] else -w[0]
            d[i, j] = max(0.0, d[i - 1, j - 1] + score, d[i - 1, j] - w[1], d[i, j - 1] - w[1])
            best = max(best, d[i, j])
    return best


def rows(a: Any, b: Any, w: Any) -> Any:
    """Two rows in turns."""
    above = w[1] * np.arange(len(b) + 1.0)
    for i in range(len(a)):
        row = np.zeros(len(b) + 1)
        row[0] = (i + 1) * w[0]
        for j in range(len(b)):
            cost = 0.0 if a[i] == b[j] else w[2]
            row[j + 1] = min(above[j + 1] + w[0], row[j] + w[1], above[j] + cost)
        above = row
    return above[-1]


def one_row(a: Any, b: Any, w: Any) -> Any:
    """One row, of which the element that the row above had before is carried."""
    row = w[1] * np.arange(len(b) + 1.0)
    for letter in a:
        corner = row[0]
        row[0] += w[0]
        for j in range(1, len(b) + 1):
            above = row[j]
            row[j] = np.minimum(np.minimum(above + w[0], row[j - 1] + w[1]), corner + w[2] * (letter != b[j - 1]))
            corner = above
    return row[-1]


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(1, 1), (1, 9), (3, 8), (7, 9), (10, 10), (4, 17), (25, 31), (2, 40)])
@pytest.mark.parametrize("f", [edits, upwards, matched, rows, one_row])
def test_gradients_are_right(f: Callable[..., Any], sizes: tuple[int, int]) -> None:
    a, b = (RNG.integers(0, 3, n) for n in sizes)
    for w in ([1.0, 1.3, 1.7], [0.3, 2.0, np.inf], [1.0, np.nan, 2.0]):
        weights = np.array(w)
        got = jit(f, grad=2).grad(a, b, weights)
        np.testing.assert_allclose(got, interpret(grad(f, argnums=2), a, b, weights), rtol=1e-12)


@pytest.mark.parametrize("f", [edits, rows, one_row])
def test_zeros_are_skipped_in_strips(f: Callable[..., Any]) -> None:
    a, b = RNG.integers(0, 3, 30), RNG.integers(0, 3, 30)
    text = jit(f, grad=2).grad.inspect("optimized", a, b, np.ones(3))
    probe = text[text.index("^probe:"):].partition("\n\n")[0]
    assert "= any {axes = (0,)}" in probe and probe.count("= slice") == 1 and "= get" not in probe      # one comparison
