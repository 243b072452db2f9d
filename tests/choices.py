"""Programs with run-time functions and unions: compared with CPython, and differentiated in every way.

A test file marks its programs with ``@program(arguments, …)`` or ``@differentiable(arguments, …)`` (of these the first
argument is differentiated) or ``@refused(message, *arguments)``, and asks for them with ``cases``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import grad, interpret, jvp, value_and_grad
from jitad.api import jit
from jitad.errors import JitadError
from tests import tracing

Program = Callable[..., Any]
_MARKED: list[tuple[str, Program, tuple[Any, ...]]] = []


def _marker(kind: str) -> Callable[..., Callable[[Program], Program]]:
    def marker(*arguments: Any) -> Callable[[Program], Program]:
        def note(fun: Program) -> Program:
            _MARKED.extend((kind, fun, args) for args in arguments)
            return fun
        return note
    return marker


program = _marker("value")
differentiable = _marker("derivative")


def refused(message: str, *args: Any) -> Callable[[Program], Program]:
    def note(fun: Program) -> Program:
        _MARKED.append((message, fun, args))
        return fun
    return note


def cases(module: str, *kinds: str) -> list[Any]:
    """The marked programs of a test file with their arguments; of no kind: those that are refused, and the message."""
    mine = [(kind, fun, args) for kind, fun, args in _MARKED if fun.__module__ == module]
    if not kinds:
        return [pytest.param(fun, args, kind, id=fun.__name__) for kind, fun, args in mine
                if kind not in ("value", "derivative")]
    return [pytest.param(fun, args, id=f"{fun.__name__}-{k}") for k, (kind, fun, args) in enumerate(mine)
            if kind in kinds]


def check_value(fun: Program, args: tuple[Any, ...]) -> None:
    """The traced program means what CPython means: its value, or its exception and what that says."""
    want = tracing.outcome(fun, *args)
    got = tracing.outcome(interpret, fun, *args)
    if isinstance(got, Exception) and not tracing.agree(got, want):
        raise got
    assert tracing.agree(got, want), f"{got!r} != {want!r}"
    if isinstance(want, Exception):
        assert str(got).splitlines()[0] == str(want)


def check_refused(fun: Program, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(JitadError, match=message) as e:
        tracing.trace(fun, *args)
    assert "line" in str(e.value)


def check_derivatives(fun: Program, args: tuple[Any, ...]) -> None:
    """First and second derivative along one direction: reverse, forward, and finite differences of CPython.

    As the reference semantics has them, and as the compiler makes them.
    """
    x, *rest = args
    direction = np.random.default_rng(0).normal(size=np.shape(x)) if np.ndim(x) else 1.0

    def along(s: Any, x: Any, d: Any, *rest: Any) -> Any:
        return fun(x + s * d, *rest)

    def first(s: Any, *more: Any) -> Any:
        return grad(along)(s, *more)

    def tangent(s: Any, *more: Any) -> Any:
        return jvp(lambda u: along(u, *more), (s,), (1.0,))[1]

    given = (x, direction, *rest)
    value, slope = interpret(value_and_grad(along), 0.0, *given)
    assert value == pytest.approx(fun(*args))
    assert slope == pytest.approx(_difference(lambda s: fun(x + s * direction, *rest)), rel=1e-5, abs=1e-7)
    assert interpret(tangent, 0.0, *given) == pytest.approx(slope)
    bent = _difference(lambda s: interpret(first, s, *given))
    assert interpret(grad(first), 0.0, *given) == pytest.approx(bent, rel=1e-5, abs=1e-6)
    meant, made = tracing.meant_and_made(
        lambda *a: (value_and_grad(along)(*a), tangent(*a), grad(first)(*a)), 0.0, *given)
    assert np.hstack(made) == pytest.approx(np.hstack(meant), rel=1e-9, abs=1e-12)


def _difference(f: Callable[[float], float], h: float = 1e-4) -> float:
    """The derivative at 0, to fourth order."""
    return (8.0 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12.0 * h)


def check_compiled(fun: Program, args: tuple[Any, ...]) -> None:
    """Machine code agrees with the interpreter on value and gradient."""
    value, slope = jit(value_and_grad(fun))(*args)
    assert value == pytest.approx(fun(*args))
    np.testing.assert_allclose(slope, interpret(grad(fun), *args), rtol=1e-12)


def same_result(got: Any, want: Any) -> None:
    assert tracing.agree(got, want), f"{got!r} != {want!r}"
