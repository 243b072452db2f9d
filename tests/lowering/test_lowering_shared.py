"""Array code in which values are used several times, or nested many times, compiles in linear time.

Names may have any letters that Python allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import jit, unroll

X = np.linspace(0.1, 0.9, 50)


def logistic(x: Any, n: int) -> Any:
    for _ in unroll(range(n)):
        x = 3.7 * x * (1.0 - x)
    return np.sum(x)


def waves(x: Any, n: int) -> Any:
    for _ in unroll(range(n)):
        x = np.sin(x) * np.cos(x) + x
    return np.sum(x)


def turns(x: Any, n: int) -> Any:
    a, b = x, 1.0 - x
    for _ in unroll(range(n)):
        a, b = b, a * 0.5 + b * a * 0.25
    return np.sum(a)


def chain(x: Any, n: int) -> Any:
    for k in unroll(range(n)):
        x = x * 0.5 + 0.1 * k
    return np.sum(x)


@pytest.mark.parametrize("fun, n", [(logistic, 24), (waves, 16), (turns, 40), (chain, 250)])
def test_shared_values(fun: Any, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_OPT", "0")
    monkeypatch.setenv("JITAD_DEBUG", "0")
    compiled = jit(fun, static="n", grad=True)
    value, gradient = compiled.value_and_grad(X, n)          # it was exponential: hours
    assert value == pytest.approx(fun(X, n), rel=1e-9)
    for k in (0, 31):
        step = np.zeros(50)
        step[k] = 1e-6
        slope = (fun(X + step, n) - fun(X - step, n)) / 2e-6
        if fun is not logistic:                              # which is chaos
            assert gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def σ(x: Any) -> Any:
    return x * x + 1


def test_names_of_other_alphabets() -> None:
    assert jit(σ)(2.0) == 5.0
