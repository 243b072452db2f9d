"""Functions that a version for small sizes calls have versions for them too, and so have their derivative rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest

from jitad import check_grads, checkpoint, custom_jvp, custom_vjp, interpret, jit, value_and_grad
from jitad.ir.types import Array
from jitad.passes.shapes.callee_versions import CalleeVersions


def filtered(z: Any, f: Any, q: Any) -> float:
    """A Kalman filter whose matrices have one size, by an inverse, a solution and a determinant in each step."""
    x, p, total = np.zeros(len(q)), np.eye(len(q)), 0.0
    for t in range(len(z)):
        p = f @ p @ f.T + q
        s = p + np.eye(len(q))
        y = z[t] - f @ x
        gain = p @ np.linalg.inv(s)
        x = f @ x + gain @ y
        p = p - gain @ p
        total += y @ np.linalg.solve(s, y) + math.log(np.linalg.det(s))
    return total


@custom_vjp
def whitened(a: Any, b: Any) -> Any:
    return np.linalg.solve(a, b) * 2.0


def whitened_forward(a: Any, b: Any) -> Any:
    x = whitened(a, b)
    return x, (a, x)


def whitened_backward(residuals: Any, ct: Any) -> Any:
    a, x = residuals
    u = np.linalg.solve(a.T, ct)
    return -np.outer(u, x), 2.0 * u


whitened.defvjp(whitened_forward, whitened_backward)


@custom_jvp
def unit(a: Any, b: Any) -> Any:
    return a @ b / np.sqrt(1.0 + b @ b)


@unit.defjvp
def unit_rule(primals: Any, tangents: Any) -> Any:
    (a, b), (da, db) = primals, tangents
    r = np.sqrt(1.0 + b @ b)
    return unit(a, b), (da @ b + a @ db) / r - a @ b * (b @ db) / r ** 3


@checkpoint
def twisted(a: Any, b: Any) -> Any:
    return np.sin(a @ np.linalg.solve(a + 4.0 * np.eye(len(b)), b))


def over_rows(step: Callable[[Any, Any], Any]) -> Callable[..., float]:
    def f(z: Any, f: Any, q: Any) -> float:
        total = 0.0
        for t in range(len(z)):
            total += np.sum(np.cos(step(f + q, z[t])))
        return total
    return f


PROGRAMS = {"filtered": filtered, "custom_vjp": over_rows(whitened), "custom_jvp": over_rows(unit),
            "checkpoint": over_rows(twisted), "several": over_rows(lambda a, b: whitened(a, unit(a, b)) + unit(a, b))}


def arguments(rng: np.random.Generator, n: int, k: int) -> tuple[Any, ...]:
    return rng.normal(size=(n, k)), np.eye(k) + 0.1 * rng.normal(size=(k, k)), 2.0 * np.eye(k)


@contextmanager
def copies() -> Iterator[list[str]]:
    """A context with the list of the functions that are copied for literal sizes."""
    choose, found = CalleeVersions._copy, []

    def noting(self: CalleeVersions, func: Any, types: Any, order: int | None) -> str | None:
        name = choose(self, func, types, order)
        assert name is None or any(None not in t.dims for t in self.module.functions[name].param_types
                                   if isinstance(t, Array))
        found.extend([] if name is None else [name])
        return name
    with mock.patch.object(CalleeVersions, "_copy", noting):
        yield found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_for_these_sizes_and_others(name: str) -> None:
    rng, f = np.random.default_rng(0), PROGRAMS[name]
    compiled, defined = jit(f, grad=(0, 1, 2)), value_and_grad(f, (0, 1, 2))
    with copies() as found:
        for n, k in ((20, 2), (3, 2), (4, 5)):
            args = arguments(rng, n, k)
            value, bars = compiled.value_and_grad(*args)
            assert value == pytest.approx(f(*args), rel=1e-10)
            for bar, expected in zip(bars, interpret(defined, *args)[1] if n < 20 else ()):
                np.testing.assert_allclose(bar, expected, rtol=1e-9, atol=1e-12)
    assert found
    assert compiled.value_and_grad.stats["compilations"] == 1
    check_grads(f, arguments(rng, 17, 3), order=1, modes=("rev",))


@pytest.mark.slow
def test_a_singular_matrix_is_told() -> None:
    z, f, q = arguments(np.random.default_rng(1), 18, 3)
    compiled = jit(over_rows(whitened), grad=(0, 1))
    compiled.value_and_grad(z, f, q)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        compiled.value_and_grad(z, -q, q)


@pytest.mark.slow
def test_forward_mode_has_its_rules() -> None:
    """Versions that are not differentiated in reverse mode only leave functions with a rule as they are."""
    check_grads(over_rows(unit), arguments(np.random.default_rng(2), 17, 2), order=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["filtered", "custom_vjp"])
def test_values(name: str) -> None:
    rng, f = np.random.default_rng(3), PROGRAMS[name]
    compiled = jit(f)
    for n, k in ((16, 2), (5, 6)):
        args = arguments(rng, n, k)
        assert compiled(*args) == pytest.approx(f(*args), rel=1e-10)
