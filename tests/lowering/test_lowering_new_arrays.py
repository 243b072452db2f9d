"""Arrays that an op makes are none of those that it reads, though a loop passes one for the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit


def best_paths(start: Any, move: Any, steps: int) -> Any:
    score = start
    for _ in range(steps):
        score = np.max(score[:, None] + move, axis=0)
    return score


def two_in_turns(start: Any, move: Any, steps: int) -> Any:
    """Each of two arrays is made of both."""
    x, y = start.copy(), 2.0 * start
    for _ in range(steps):
        x, y = np.sum(y[:, None] * move, axis=0) + x, np.max(x[:, None] - y * move, axis=0)
    return x - y


def in_place_at_times(start: Any, move: Any, steps: int) -> Any:
    """What an iteration makes is updated in place by the next one, or read beside it."""
    x, kept = start.copy(), start.copy()
    for t in range(steps):
        if t % 2 == 0:
            kept = x
            x = np.sum(x[:, None] * move, axis=0)
        else:
            x[1:] += kept[:-1] + x[:-1]
    return x * kept


START, MOVE = np.random.default_rng(5).normal(0.0, 1.0, 6), np.random.default_rng(6).normal(0.0, 0.3, (6, 6))


@pytest.mark.slow
@pytest.mark.parametrize("f", [best_paths, two_in_turns, in_place_at_times])
def test_agrees_with_numpy_and_the_interpreter(f: Callable[..., Any]) -> None:
    jitted = jit(f)
    for steps in (0, 1, 4):
        expected = f(START, MOVE, steps)
        np.testing.assert_allclose(jitted(START, MOVE, steps), expected, rtol=1e-12)
        np.testing.assert_allclose(interpret(f, START, MOVE, steps), expected, rtol=1e-12)
    check_grads(jit(lambda a, b: np.sum(f(a, b, 4) ** 2)), (START, MOVE), order=1)


def test_the_new_array_and_those_of_its_class_have_scopes_of_their_own() -> None:
    text = jit(best_paths).inspect("llvm", START, MOVE, 3)
    assert text.count("call void @llvm.experimental.noalias.scope.decl") == 2


def test_no_scopes_where_no_array_of_the_class_is_read() -> None:
    """Of an array that no loop passes for another one, addresses are known to differ already."""
    text = jit(lambda a: np.max(a + 1.0, axis=0)).inspect("llvm", MOVE)
    assert "call void @llvm.experimental.noalias.scope.decl" not in text
