"""Reductions over several axes: each row is reduced by itself."""

from typing import Any

import numpy as np
import pytest

from jitad import jit


def weighted(a: Any, w: Any) -> Any:
    return np.sum(a * w), np.max(a * w, initial=-9.0), np.prod(1.0 + 0.1 * a * w), np.any(a > w), np.all(a > w)


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
@pytest.mark.parametrize("columns", [0, 1, 3, 8, 12, 33])
def test_reductions_over_rows_of_any_length(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows + columns)
    a, w = rng.normal(size=(2, rows, columns)), rng.normal(size=columns)
    for found, wanted in zip(jit(weighted)(a, w), weighted(a, w)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)


def test_a_sum_of_negative_zeros_is_as_it_was() -> None:
    def total(a: Any, w: Any) -> Any:
        return np.sum(a * w)
    found = jit(total)(np.full((3, 5), -0.0), np.ones(5))
    assert found == 0.0 and not np.signbit(found)
