"""``check_strips``: indices computed from floats and from elements, with what fails in a later strip."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.llvm.target import Target

from jitad import jit
from jitad.aot import export
from jitad.aot.exports import programs
from jitad.ir.text import print_module

N = 1500                                     # three strips, the last one partial


@pytest.fixture(autouse=True)
def _fast_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this processor has: the code is correct on all."""
    monkeypatch.setattr(Target, "fast_gathers", True)


def bilinear(image: Any, y: Any, x: Any) -> float:
    total = 0.0
    for k in range(len(y)):
        i = int(math.floor(y[k]))
        j = int(x[k])
        fy, fx = y[k] - i, x[k] - j
        upper = (1.0 - fx) * image[i, j] + fx * image[i, j + 1]
        lower = (1.0 - fx) * image[i + 1, j] + fx * image[i + 1, j + 1]
        value = (1.0 - fy) * upper + fy * lower
        total += value * value * 0.5 + (upper - lower) * (upper - lower)
    return total


def chosen(table: Any, at: Any, w: Any) -> Any:
    out = np.zeros(len(at))
    for k in range(len(at)):
        v = table[at[k]]
        out[k] = ((v * w[k] + 1.0) * v - 2.0) * v * w[k] + (v - w[k]) * (v - w[k]) * 0.25
    return out


def stepped(table: Any, t: Any, start: float, width: float) -> float:
    total = 0.0
    for k in range(len(t)):
        u = (t[k] - start) / width
        i = int(u)
        f = u - i
        a, b, c = table[i - 1], table[i], table[i + 1]
        total += b + 0.5 * f * (c - a + f * (a - 2.0 * b + c) * (1.0 - f) * (2.0 - f))
    return total


def differences(table: Any, at: Any, w: Any) -> Any:
    out = np.zeros(len(at))
    for k in range(len(at)):
        d = table[at[k]] - w[k]
        out[k] = d * d + w[k]
    return out


def bent(image: Any, y: Any, turn: float) -> float:
    """Coordinates that take long to compute."""
    total = 0.0
    for k in range(len(y)):
        v = y[k] * (1.0 + turn * y[k] * (0.5 - turn * y[k])) + turn * (y[k] - 1.0) / (1.0 + y[k] * y[k])
        u = 0.5 * v + turn * v * v / (1.0 + v * v)
        i, j = int(v), int(u)
        s, t = v - i, u - j
        total += s * t * image[i, j] + (1.0 - s) * image[i + 1, j] * (1.0 - t) + image[i, j + 1]
    return total


def rows(start: Any, at: Any, table: Any) -> float:
    """The number of iterations is read: they are few."""
    total = 0.0
    for i in range(len(start) - 1):
        row = 0.0
        for k in range(start[i], start[i + 1]):
            d = table[at[k]] - table[i]
            row += math.sqrt(d * d + 1.0)
        total += row * row
    return total


def springs(table: Any, ends: Any, w: Any) -> float:
    energy = 0.0
    for k in range(len(ends)):
        a, b = ends[k, 0], ends[k, 1]
        dx, dy = table[a, 0] - table[b, 0], table[a, 1] - table[b, 1]
        stretch = math.sqrt(dx * dx + dy * dy) - w[k]
        energy += stretch * stretch
    return energy


def quotient(table: Any, ends: Any, w: Any) -> float:
    """One division is not worth it."""
    total = 0.0
    for k in range(len(ends)):
        total += table[ends[k, 0], 0] / (w[k] * w[k] + 1.5)
    return total


def invariant(table: Any, ends: Any, w: Any) -> float:
    """Two divisions, which fast math makes multiplications."""
    total, scale, unit = 0.0, math.exp(w[0]) + 0.5, math.exp(w[1]) + 0.25
    for k in range(len(ends)):
        v = table[ends[k, 0], 0]
        total += v / scale - (v * v + w[k]) / unit
    return total


def cells(table: Any, ends: Any, w: Any) -> float:
    """Casts of floats are made one by one."""
    total = 0.0
    for k in range(len(ends)):
        v = table[int(w[k] * w[k]), 0]
        total += math.sqrt(v * v + 1.0) - math.sqrt(v * v + 2.0)
    return total


def arguments(name: str) -> list[Any]:
    r = np.random.default_rng(3)
    return {"bilinear": [r.standard_normal((9, 7)), r.uniform(0, 7.9, N), r.uniform(0, 5.9, N)],
            "bent": [r.standard_normal((9, 7)), r.uniform(0, 6.0, N), 0.03],
            "differences": [r.standard_normal(40), r.integers(-40, 40, N), r.standard_normal(N)],
            "chosen": [r.standard_normal(40), r.integers(-40, 40, N), r.standard_normal(N)],
            "stepped": [r.standard_normal(30), r.uniform(1, 2, N), 0.95, 0.04]}[name]


def strips(f: Callable[..., Any], args: list[Any]) -> int:
    return str(jit(f).inspect("optimized", *args)).count("wide = True")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [bilinear, chosen, stepped, differences, bent], ids=lambda f: f.__name__)
def test_values(f: Callable[..., Any]) -> None:
    args = arguments(f.__name__)
    assert strips(f, args) == 1
    for n in (0, 1, 31, 512, 513, N):
        part = [a[:n] if isinstance(a, np.ndarray) and len(a) == N else a for a in args]
        np.testing.assert_allclose(jit(f)(*part), f(*part), rtol=1e-10, atol=1e-13)


@pytest.mark.long
@pytest.mark.parametrize("where", [0, 511, 700, N - 1])
@pytest.mark.parametrize(("name", "position", "value", "error"), [
    ("bilinear", 1, 8.0, IndexError), ("bilinear", 2, math.nan, ValueError), ("bilinear", 2, math.inf, OverflowError),
    ("bilinear", 1, -1e30, OverflowError), ("chosen", 1, 40, IndexError), ("chosen", 1, -41, IndexError),
    ("bent", 1, 20.0, IndexError), ("bent", 1, math.nan, ValueError), ("bent", 2, 1e30, OverflowError),
    ("stepped", 1, 2.5, IndexError), ("stepped", 1, math.nan, ValueError)])
def test_errors(name: str, position: int, value: float, error: type[Exception], where: int) -> None:
    f, args = globals()[name], arguments(name)
    if isinstance(args[position], float):
        args[position] = value
    else:
        args[position][where] = value
    with pytest.raises(error) as native:
        jit(f)(*args)
    if error is IndexError:
        message = str(native.value)
        with pytest.raises(error) as plain:
            f(*args)
        assert message.split(" with size")[0] == str(plain.value).split(" with size")[0]


def test_short_rows_are_left() -> None:
    args = [np.array([0, 3, 5, 5, 9]), np.array([1, 0, 2, 3, 3, 0, 1, 2, -1]), np.array([0.5, 1.0, -2.0, 4.0])]
    f = jit(rows, fastmath=True)
    assert "wide = True" not in f.inspect("optimized", *args)
    np.testing.assert_allclose(f(*args), rows(*args), rtol=1e-12)


def test_a_library_serves_processors_without_fast_gathers() -> None:
    program = next(programs(export(chosen, "f64[:], i64[:], f64[:]")))
    assert "wide" not in print_module(program.module)


def test_negative_indices_count_from_the_end() -> None:
    args = arguments("bilinear")
    args[1][600] = -1.5                                             # rows -2 and -1
    np.testing.assert_allclose(jit(bilinear)(*args), bilinear(*args), rtol=1e-12)


def test_floats_that_take_long_are_kept() -> None:
    """Each is computed once in the strips; short ones, and elements, are computed again."""
    text = str(jit(bent).inspect("optimized", *arguments("bent")))
    assert text.count("empty") == 2
    fast = text[text.index("^passing"):text.index("wide = True")]
    assert fast.count("= div ") == 0
    assert "empty" not in str(jit(stepped).inspect("optimized", *arguments("stepped")))


@pytest.mark.parametrize(("f", "fastmath", "expected"), [
    (springs, False, True), (springs, True, True), (quotient, False, False), (quotient, True, False),
    (invariant, False, True), (invariant, True, False), (cells, False, False)])
def test_roots_and_divisions_pay_without_fast_gathers(f: Callable[..., Any], fastmath: bool, expected: bool,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "fast_gathers", False)
    r = np.random.default_rng(4)
    args = [r.standard_normal((40, 2)), r.integers(-40, 40, (N, 2)), r.standard_normal(N)]
    for fast_roots in (False, True):
        monkeypatch.setattr(Target, "fast_roots", fast_roots)
        text = str(jit(f, fastmath=fastmath).inspect("optimized", *args))
        assert ("^indices" in text) == (expected and fast_roots)
        assert "wide = True" not in text


@pytest.mark.slow
@pytest.mark.parametrize("where", [None, 0, 511, 700, N - 1])
def test_springs_without_fast_gathers(where: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "fast_gathers", False)
    monkeypatch.setattr(Target, "fast_roots", True)
    r, f = np.random.default_rng(4), jit(springs)
    args = [r.standard_normal((40, 2)), r.integers(-40, 40, (N, 2)), r.standard_normal(N)]
    for n in (0, 1, 31, 512, 513, N):
        np.testing.assert_allclose(f(args[0], args[1][:n], args[2]), springs(args[0], args[1][:n], args[2]), rtol=1e-12)
    if where is not None:
        args[1][where, 1] = 40
        with pytest.raises(IndexError):
            f(*args)
