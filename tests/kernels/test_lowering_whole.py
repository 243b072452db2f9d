"""Loops over sixteen elements as whole vectors (``lowering/builder/fixed_width_vectors.py``)."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.builder import fixed_width_vectors

from jitad import grad, interpret, jit
from jitad.passes.analysis.cost import LANES

N = LANES
Program = Callable[..., Any]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each loop over sixteen elements, True if it became vectors."""
    outcomes: list[bool] = []
    vectors = fixed_width_vectors.vectors

    def seen(*args: Any) -> Any:
        outcomes.append((result := vectors(*args)) is not None)
        return result
    monkeypatch.setattr(fixed_width_vectors, "vectors", seen)
    return outcomes


def check(f: Program, *args: Any, rtol: float = 1e-12) -> None:
    got, want = jit(f, static_shapes=True)(*args), f(*args)
    meant = interpret(f, *args)
    for g, w, m in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want, meant)), strict=True):
        np.testing.assert_allclose(g, w, rtol=rtol)
        np.testing.assert_allclose(g, m, rtol=rtol)


X, Y = np.linspace(-1.5, 2.1, N), np.cos(np.arange(N) * 1.7)


def elementwise(x: Any, y: Any) -> Any:
    return x * y - x / (y * y + 2.0) + -y * 3.0, np.where(x > y, x, y * 2.0), np.maximum(x, y) + np.abs(x)


def functions(x: Any, y: Any) -> Any:
    return np.exp(x) + np.tanh(y), np.log(x * x + 1.0), np.sqrt(np.abs(y)) + np.floor(x)


def reductions(x: Any, y: Any) -> Any:
    return np.sum(x), np.sum(x * y), np.all(x > -2.0), np.any(y > 5.0), np.sum(np.sin(x))


def whole_numbers(x: Any, y: Any) -> Any:
    k = np.arange(N) * 3 + 1
    return k, k * 2 - k, x * np.arange(N), (x > 0) & (y > 0)


def apart(x: Any, y: Any) -> Any:
    """Elements that are not adjacent, in reverse, and of a matrix column."""
    m = np.reshape(np.concatenate((x, y)), (2, N))
    return m.T[:, 0] + m.T[:, 1] * 2.0, x[::-1] - y, np.concatenate((x, y))[::2] * 1.5


@pytest.mark.parametrize("f", [elementwise, functions, reductions, whole_numbers, apart], ids=lambda f: f.__name__)
def test_values(f: Program, found: list[bool]) -> None:
    check(f, X, Y)
    assert any(found)


def test_single_precision(found: list[bool]) -> None:
    check(lambda x, y: (np.exp(x) * y, np.sum(x * y, dtype=np.float32)), X.astype(np.float32), Y.astype(np.float32),
          rtol=2e-6)
    assert all(found)


def test_sums_of_programs_keep_their_order() -> None:
    x = np.array([1e16, 1.0, -1e16, 1.0] * 4)
    total = 0.0
    for v in x:
        total += v

    def f(x: Any) -> Any:
        s = 0.0
        for v in x:
            s = s + v
        return s
    assert jit(f, static_shapes=True)(x) == total


def test_what_one_element_stores_and_another_reads() -> None:
    def shift(x: Any) -> Any:
        a = np.concatenate((x, x))
        a[1:N + 1] = a[0:N] + 1.0
        a[0:N] = a[2:N + 2] * 2.0
        a[0:N] += a[N:2 * N]
        return a
    check(shift, X)


def test_loops_of_programs() -> None:
    def f(x: Any, y: Any) -> Any:
        a = x.copy()
        for i in range(1, N):
            a[i] = a[i] * 0.5 + a[i - 1] * y[i]
        return a
    check(f, X, Y)


@pytest.mark.slow
@pytest.mark.parametrize("make", [elementwise, functions, reductions, apart], ids=lambda f: f.__name__)
def test_derivatives(make: Program) -> None:
    def f(x: Any, y: Any) -> Any:
        total = 0.0
        for part in make(x, y):
            total = total + np.sum(part * 1.0) ** 2
        return total
    g = jit(f, grad=(0, 1), static_shapes=True)
    slopes, d, h = g.grad(X, Y), np.sin(np.arange(N)), 1e-6
    along = (f(X + h * d, Y - h * d) - f(X - h * d, Y + h * d)) / (2 * h)
    assert np.dot(slopes[0] - slopes[1], d) == pytest.approx(along, rel=1e-6, abs=1e-6)
    second = jit(lambda x, y: np.dot(grad(lambda x: np.dot(grad(f)(x, y), d))(x), d), static_shapes=True)(X, Y)
    turned = (np.dot(g.grad(X + h * d, Y)[0], d) - np.dot(g.grad(X - h * d, Y)[0], d)) / (2 * h)
    assert second == pytest.approx(turned, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    """A few random statements over arrays of sixteen numbers, some of which are written in place."""
    rng = np.random.default_rng(seed)
    names, lines = ["x", "y"], ["def f(x, y):"]
    forms = ("{a} * {b}", "np.exp(-{a} * {a})", "np.where({a} > {b}, {a}, {b} * 0.5)", "{a} + np.sum({b})",
             "{a}[::-1] - {b}", "np.sin({a}) / (2.0 + np.cos({b}))", "np.minimum({a}, {b}) + {a}[3]")
    for k in range(8):
        a, b = (names[int(rng.integers(len(names)))] for _ in "ab")
        if k % 4 == 3:
            lines += [f"    v{k} = {a}.copy()", f"    v{k}[1:] += {b}[:-1] * 0.5", f"    v{k}[0:8] = v{k}[8:16]"]
        else:
            lines.append(f"    v{k} = {forms[int(rng.integers(len(forms)))].format(a=a, b=b)}")
        names.append(f"v{k}")
    scope: dict[str, Any] = {"np": np}
    source = "\n".join([*lines, f"    return {', '.join(names[-3:])}"])
    name = f"<whole {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), scope)
    check(scope["f"], X, Y, rtol=1e-10)
