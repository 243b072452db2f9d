"""Checks many small programs ``f(x: float) -> float`` at once.

The interpreter must agree with CPython, and finite differences must confirm the first and second derivative (reverse,
and forward over reverse).  One module compiles the values and gradients of all programs, since separate compilations
would take most of the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jitad import grad, jit, jvp, pipeline, value_and_grad
from jitad.errors import UnsupportedError
from jitad.semantics.evaluate import Evaluator
from tests import tracing

Program = Callable[[Any], Any]
AT = (0.7, 1.3)


def differences(f: Program, x: float) -> tuple[float, float]:
    """First and second central difference."""
    h, k = 1e-5, 1e-4
    return (f(x + h) - f(x - h)) / (2 * h), (f(x + k) - 2 * f(x) + f(x - k)) / k ** 2


def check(f: Program, at: Sequence[float] = AT) -> None:
    """Checks the program in the interpreter: value, gradient by reverse mode, and second derivative by forward mode."""
    traced = tracing.trace(lambda x: (f(x), *jvp(grad(f), (x,), (1.0,))), at[0])
    meant = [tracing.run(traced, x, by=Evaluator) for x in at]
    pipeline.run(traced.module, [traced.root], stop="adjoint")
    for x, by_definition in zip(at, meant):
        value, first, second = results = tracing.run(traced, x)
        assert results == pytest.approx(by_definition, rel=1e-9, abs=1e-12), f"{f.__name__} at {x} means something else"
        expect_value(f, x, value)
        d, dd = differences(f, x)
        assert first == pytest.approx(d, rel=1e-5, abs=1e-5), f"gradient of {f.__name__} at {x}"
        assert second == pytest.approx(dd, rel=1e-4, abs=1e-4), f"second derivative of {f.__name__} at {x}"


def check_compiled(programs: Sequence[Program], at: Sequence[float] = AT) -> None:
    """All programs, in one module."""
    together = jit(lambda x: tuple([value_and_grad(f)(x) for f in programs]))
    for x in at:
        for f, (value, first) in zip(programs, together(x), strict=True):
            expect_value(f, x, value)
            assert first == pytest.approx(differences(f, x)[0], rel=1e-5, abs=1e-5), f"gradient of {f.__name__} at {x}"


def expect_value(f: Program, x: float, value: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = f(x)
    assert value == pytest.approx(want, rel=1e-10, abs=1e-12), f"{f.__name__}({x})"


def refuses(f: Program, message: str, hint: str = "", x: Any = 0.7) -> None:
    """Asserts that ``f`` is refused while tracing, with a message that shows its file and an alternative."""
    with pytest.raises(UnsupportedError, match=message) as e:
        tracing.trace(f, x)
    assert e.value.loc is not None and e.value.loc.file == f.__code__.co_filename, e.value
    assert hint in e.value.hint


def values(*xs: float) -> np.ndarray:
    return np.array(xs, dtype=float)
