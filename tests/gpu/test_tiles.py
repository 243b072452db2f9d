"""Kernels that read arrays across their lines, through tiles in shared memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jitad import grad
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.programs import compare, compiled

pytestmark = pytest.mark.any_level

RNG = np.random.default_rng(4)
SHAPES = ((0, 5), (1, 1), (31, 33), (32, 32), (5, 1025), (130, 3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_transpositions(dtype: Any) -> None:
    case = compiled(lambda x: x.T.copy() + 1, np.ones((3, 4), dtype))
    assert "32 × 32 iterations a block" in case.program.plan()
    for order, shape in enumerate(SHAPES):
        x = RNG.integers(0, 100, shape).astype(dtype)
        compare(dataclasses.replace(case, given=[x]), SimulatedDriver(checked=True, order=order))


def test_other_reads_across() -> None:
    """With reads along lines besides; of three axes; of several arrays; in gradients."""
    def several(x: Any, y: Any) -> Any:
        both = np.stack((x, y))
        return x + x.T * y.T, np.transpose(both, (2, 1, 0)) * 2, np.transpose(both, (1, 0, 2)) + 1

    def loss(x: Any, y: Any) -> Any:
        return (np.sin(x.T) * y).sum()
    x, y = RNG.normal(size=(2, 40, 40))
    for fun, count in ((several, 2), (lambda x, y: grad(loss)(x, y), 1)):
        case = compiled(fun, x, y)
        assert case.program.plan().count("loaded across") >= count, case.program.plan()
        compare(case, SimulatedDriver(checked=True, order=3))
