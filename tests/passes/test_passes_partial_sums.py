"""Sums that begin anew in an outer loop, under fast math; ``tests/filetests/partial_sums`` has the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.text import parse_module
from jitad.ir.verify import verify
from jitad.passes.nests.partial_sums import partial_sums


def windows(x: Any, k: Any) -> float:
    """The iterations of the outer loop are independent but for the last sum, which no inner loop continues."""
    total = 0.0
    for i in range(len(x) - len(k) + 1):
        s = 0.0
        for a in range(k.shape[0]):
            for b in range(k.shape[1]):
                s += k[a, b] * x[i + a, b]
        total += s * s
    return total


def all_elements(x: Any, k: Any) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * k[0, 0]
    return total


def all_windows(x: Any, k: Any) -> float:
    total = 0.0
    for i in range(len(x) - len(k) + 1):
        for a in range(k.shape[0]):
            for b in range(k.shape[1]):
                total += k[a, b] * x[i + a, b]
    return total


@pytest.mark.parametrize("f, split", [(windows, False), (all_elements, True), (all_windows, True)])
def test_sums_under_fast_math(f: Callable[..., float], split: bool) -> None:
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=(40, 3)), rng.normal(size=(5, 3))
    for fastmath in (False, True):
        module = parse_module(jit(f).inspect("cps", x, k))
        module.fastmath = fastmath
        assert partial_sums(module) == (fastmath and split)
        verify(module)
        assert Interpreter(module).run(next(iter(module.functions)), [x, k])[0] == pytest.approx(f(x, k), rel=1e-12)
    assert jit(f, fastmath=True)(x, k) == pytest.approx(f(x, k), rel=1e-12)
