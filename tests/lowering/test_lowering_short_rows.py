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


def over_axes(a: Any) -> Any:
    largest = np.max(a * a, axis=(0, 2), initial=0.0)
    return np.sum(a, axis=(0, 1)), largest, np.prod(a, axis=(0, 1)), np.any(a > 1.0, axis=(0, 1))


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 2), (1, 1, 5), (2, 2, 12), (3, 3, 3), (5, 4, 1), (2, 7, 9)])
def test_several_axes_whose_rows_are_combined_in_memory(shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(sum(shape)).normal(size=shape)
    if a.size > 9:
        a[-1, -1, 0] = np.nan
    for found, wanted in zip(jit(over_axes)(a), over_axes(a)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
