"""Similar loops of long functions become one function, and compute what they computed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bench.compiler.compiling import loaded
from jitad import check_grads, hvp, jit, jvp, vmap
from jitad.passes.cleanup import similar_loops


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two loops are many."""
    monkeypatch.setattr(similar_loops, "MANY", 2)
    monkeypatch.setattr(similar_loops, "LEAST", 2)
    yield


def numbers(x: Any, v: Any, n: int) -> Any:
    """Numbers that differ, or that are equal everywhere, at one use or at two."""
    y = x
    for _ in range(n):
        y = np.sin(y * 1.25) + 0.5 * y - 1.25
    for _ in range(n):
        y = np.sin(y * 0.75) + 0.5 * y - 0.75
    for _ in range(n):
        y = np.sin(y * 2.0) + 0.5 * y - 2.0
    return y


def sums(x: Any, v: Any, n: int) -> Any:
    """The size of the array is read inside; one value from outside stands for two others."""
    s = t = 0.0
    for i in range(len(v)):
        s += v[i] * np.tanh(x * v[i] + x)
    for i in range(len(v)):
        t += v[i] * np.tanh(s * v[i] + x)
    return s * t


def read_later(x: Any, v: Any, n: int) -> Any:
    """What the last iteration leaves is read after the loop, or was set before it."""
    y = z = x
    i = 0
    for i in range(n):  # noqa: B007
        z = y * 0.5
        y = np.cos(z) * x
    first, j = y * z + i, 0
    for j in range(n):  # noqa: B007
        z = y * 0.25
        y = np.cos(z) * first
    return y * z + j


def stores(x: Any, v: Any, n: int) -> Any:
    """Arrays that a loop changes; one of them is read later as it was."""
    a = np.zeros(5)
    for i in range(5):
        a[i] = a[i] + x * i
    b, y = a * 2.0 + 1.0, a[3]
    for i in range(5):
        b[i] = b[i] + y * i
    return np.sum(a * a / b)


def nests(x: Any, v: Any, n: int) -> Any:
    y = z = 0.0
    for i in range(len(v)):
        for j in range(i):
            if v[i] > 0.3 * x:
                y += np.exp(-(v[i] - v[j]) ** 2 * x)
    for i in range(len(v)):
        for j in range(i):
            if v[i] > 0.2 * x:
                z += np.exp(-(v[i] - v[j]) ** 2 * y)
    return y + z


def early_ends(x: Any, v: Any, n: int) -> Any:
    y = x
    for _ in range(n):
        y = y * 1.5 + 0.1
        if y > 3.0:
            break
    for _ in range(n):
        y = y * 0.5 + 0.1
        if y > 2.0:
            break
    while y < 5.0:
        y = y * 1.25
    while y < 9.0:
        y = y * 1.75
    return y


def narrow(x: Any, v: Any, n: int) -> Any:
    """Numbers of two types."""
    u = v.astype(np.float32)
    y, z = np.float32(0.0), x
    for i in range(len(u)):
        y = y + np.float32(0.1) * u[i]
        z = z + 0.1 * y
    for i in range(len(u)):
        y = y + np.float32(0.3) * u[i]
        z = z + 0.3 * y
    return z


def integers(x: Any, v: Any, n: int) -> Any:
    """Numbers that select code stay literals: the two have one function, or two."""
    y, k = x, 0
    for i in range(n):
        k = (k * 3 + i) % 7
        y = y * 0.9 + v[k % 4] ** 2
    for i in range(n):
        k = (k * 3 + i) % 7
        y = y * 0.8 + v[k % 4] ** 2
    for i in range(n):
        k = (k * 5 + i) % 7
        y = y * 0.8 + v[k % 4] ** 3
    return y


PROGRAMS = [numbers, sums, read_later, stores, nests, early_ends, narrow, integers]
V = np.array([0.3, 1.2, -0.7, 0.9, 0.4])


@pytest.mark.slow
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(f: Callable[..., Any], n: int) -> None:
    given = jit(f, grad=(0, 1))
    assert float(given(0.8, V, n)) == pytest.approx(float(f(0.8, V, n)), rel=1e-6 if f is narrow else 1e-13)
    if f is not narrow:
        check_grads(lambda x, v: f(x, v, n), (0.8, V), order=1)
    fresh = jit(f, grad=(0, 1))
    with pytest.MonkeyPatch.context() as m:
        m.setenv("JITAD_WITHOUT", "similar_loops")
        expected = fresh.grad(0.8, V, n)
    for got, want in zip(given.grad(0.8, V, n), expected):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_loops_are_merged(f: Callable[..., Any]) -> None:
    text = jit(f).inspect("cps", 0.8, V, 3)
    if f is integers:                                        # an index that is not known to be in bounds
        assert f"@{f.__name__}.loop" not in text
        return
    calls = text.count("  call ")
    assert calls >= 2 and text.count("func @") < 1 + calls
    assert str(jit(f).inspect("ir", 0.8, V, 3)).count("func @") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_other_transformations() -> None:
    def f(v: Any) -> Any:
        return numbers(v[0], v, 3) * sums(v[1], v, 3)
    given = jit(lambda v, u: (jvp(f, (v,), (u,)), hvp(f, (v,), (u,))[1]))
    with pytest.MonkeyPatch.context() as m:
        m.setenv("JITAD_WITHOUT", "similar_loops")
        expected = jit(lambda v, u: (jvp(f, (v,), (u,)), hvp(f, (v,), (u,))[1]))(V, V[::-1].copy())
    (value, tangent), second = given(V, V[::-1].copy())
    np.testing.assert_allclose([value, tangent], expected[0], rtol=1e-12)
    np.testing.assert_allclose(second, expected[1], rtol=1e-12)
    rows = np.array([V, V * 0.5, V + 0.1])
    np.testing.assert_allclose(jit(vmap(f))(rows), [f(row) for row in rows], rtol=1e-12)


@pytest.mark.usefixtures("few")
def test_exceptions_name_the_line_of_their_own_loop() -> None:
    @jit
    def f(v: Any, k: Any, m: Any) -> Any:
        s = 0.0
        for i in range(len(k)):
            s += v[k[i]]
        for i in range(len(m)):
            s += v[m[i]]
        return s
    good, bad = np.array([0, 1]), np.array([1, 7])
    line = f.__wrapped__.__code__.co_firstlineno
    for args, at in (((V, bad, good), 4), ((V, good, bad), 6)):
        with pytest.raises(IndexError) as found:
            f(*args)
        assert found.traceback[-1].lineno + 1 == line + at


def generated(count: int, seed: int) -> str:
    """Loops of five kinds, in which names and numbers vary."""
    r = random.Random(seed)
    forms = ("sin(x) * {c}", "x / (1.5 + y * y) * {c}", "tanh(x + {c}) - {c}", "exp(-x * x) * {c}", "x + {c} * a[i]")
    lines = ["def program(x, y, a, n):", "    s = 0.0"]
    for _ in range(count):
        p, q = r.sample("xys", 2)
        lines += ["    for i in range(len(a)):",
                  f"        {p} = 0.9 * {p} + " + r.choice(forms).format(c=r.randint(1, 9) / 100) + f" * tanh({q})",
                  f"        {q} = {q} * 0.5"]
    return "\n".join([*lines, "    return x + y + s", ""])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_many_loops(seed: int) -> None:
    program = loaded(generated(300, seed), np)
    f = jit(program, grad=(0, 1, 2))
    text = f.inspect("cps", 0.8, 0.3, V, 3)
    assert 200 < text.count("  call ") <= 300 and text.count("func @") < 40
    value, grads = f.value_and_grad(0.8, 0.3, V, 3)
    assert value == pytest.approx(program(0.8, 0.3, V, 3), rel=1e-12)
    with pytest.MonkeyPatch.context() as m:
        m.setenv("JITAD_WITHOUT", "similar_loops")
        m.setenv("JITAD_OPT", "0")
        expected = jit(program, grad=(0, 1, 2)).grad(0.8, 0.3, V, 3)
    for got, want in zip(grads, expected):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-14)
    assert math.isfinite(value)
