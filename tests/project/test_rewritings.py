"""Ways to rewrite a program for the benchmark: another text, the same numbers."""

import math

import numpy as np
import pytest

from bench.rewritings import REWRITINGS, rewritten


def program(x, y, limit):
    """Something for each way."""
    total, worst = 0.5, 0.0
    for i in range(len(x)):
        scale = 0.25
        for j in range(1, y.shape[1] - 1, 2):
            scale += abs(y[i, j] - y[i, j - 1]) ** 2 * min(x[i], limit)
        if scale > 0.75:
            total += math.sqrt(scale) * x[i]
            worst = max(worst, scale)
    return total - worst


def bare(x):
    return x


@pytest.mark.parametrize("way", REWRITINGS)
def test_each_way_is_another_text_with_the_same_numbers(way):
    rng = np.random.default_rng(0)
    args = rng.normal(size=5), rng.normal(size=(5, 8)), 0.8
    found = rewritten(program, way)
    assert found is not None
    other, more = found
    assert other(*args, *more) == pytest.approx(program(*args), rel=1e-13)
    assert rewritten(bare, way) is None
