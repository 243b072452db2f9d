"""Long blocks cut into functions (``lowering/function/block_outlining.py``): short parts give the same results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from jitad.lowering.function import block_outlining
from jitad.lowering.math.options import Options

from bench.compiler.compiling import loaded, statements
from jitad import hessian, interpret, jit, pipeline, value_and_grad
from tests.ir import irgen
from tests.lowering.test_lowering_random import compiled


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_outlining, "SIZE", 3)
    monkeypatch.setattr(block_outlining, "LEAST", 6)


def count(text: str) -> int:
    """The number of parts."""
    return len(re.findall(r"^define .*\.part\.", text, re.MULTILINE))


@pytest.mark.parametrize("arrays", [False, True], ids=["scalars", "arrays"])
@pytest.mark.parametrize("seed", range(200, 212))
def test_random_programs(seed: int, arrays: bool) -> None:
    module, args = irgen.generate(seed, arrays=arrays), irgen.arguments(seed, arrays=arrays)
    want = irgen.outcome(module, args)
    pipeline.run(module, ["main"])
    assert irgen.same(want, compiled(module, "main", args, Options(level=0)), 1e-9)


@pytest.mark.slow
def test_derivatives() -> None:
    f = loaded(statements(40, 3), np)
    g = jit(value_and_grad(f, (0, 1)), boundscheck=True)
    at, h = np.array([0.5, 0.25]), 1e-6
    value, slopes = g(*map(float, at))
    assert count(g.inspect("llvm")) > 20
    assert value == pytest.approx(interpret(f, *map(float, at)), rel=1e-12)
    second = jit(hessian(f, (0, 1)))(*map(float, at))
    for k, step in enumerate(h * np.eye(2)):
        assert slopes[k] == pytest.approx((f(*(at + step)) - f(*(at - step))) / (2 * h), rel=1e-6)
        up, down = (np.array(g(*map(float, at + s * step))[1]) for s in (1, -1))
        assert [row[k] for row in second] == pytest.approx((up - down) / (2 * h), rel=1e-5)


def test_every_type_crosses() -> None:
    def f(x: float, n: int, a: Any) -> Any:
        flag, k, small = x > 0.5, n * 3 + 1, np.float32(x) * np.float32(1.5)
        odd = np.int32(n) * np.int32(7)
        y = x * 2.0 + n
        b = np.zeros(4)
        b[1] = y * a[0]
        b[2] = y * y + a[1] * small
        z = y + k + (1.0 if flag else 2.0)
        return z, flag, k, small, odd, b[1] + b[2] * a[2]
    g = jit(f)
    for x in (0.25, 0.75):
        assert g(x, 5, np.arange(3.0)) == pytest.approx(f(x, 5, np.arange(3.0)), rel=1e-6)
    assert count(g.inspect("llvm")) > 1


def test_blocks_in_loops_stay() -> None:
    def f(x: Any) -> Any:
        s = 0.0
        for i in range(len(x)):
            y = x[i] * 2.0
            z = np.sin(y) * y + x[i]
            s += z * z * y + np.cos(z) / (1.0 + y * y)
        return s
    g, x = jit(f), np.linspace(0, 1, 7)
    assert g(x) == pytest.approx(f(x))
    within = re.findall(r"^define [^\n]*\.part\..*?^}", g.inspect("llvm"), re.MULTILINE | re.DOTALL)
    assert "@sin" not in "".join(within)


def test_what_fails_between_parts() -> None:
    def f(x: Any, i: int) -> Any:
        y = np.sin(x[i]) * x[i + 1] * 2.0
        z = y * y + x[i]
        return z * z + y * x[i + 2] / (z + 1.0)
    g, x = jit(f), np.arange(5.0)
    assert g(x, 1) == pytest.approx(f(x, 1))
    with pytest.raises(IndexError):
        g(x, 3)


def test_a_function_that_calls_itself() -> None:
    def f(x: float, n: int) -> float:
        if n == 0:
            return x
        y = np.sin(x) * x + n * 0.5
        z = y * y + x * 0.25
        return f(z * 0.1 + y * 0.2, n - 1) * y + z
    g = jit(value_and_grad(f))
    value, slope = g(0.7, 6)
    assert count(g.inspect("llvm")) > 1
    assert value == pytest.approx(f(0.7, 6))
    assert slope == pytest.approx((f(0.7 + 1e-6, 6) - f(0.7 - 1e-6, 6)) / 2e-6, rel=1e-6)


def test_passes_leave_parts_alone() -> None:
    g = jit(value_and_grad(loaded(statements(20, 1), np), (0, 1)))
    g(0.5, 0.25)
    within = re.findall(r"^define [^\n]*\.part\..*?^}", g.inspect("llvm"), re.MULTILINE | re.DOTALL)
    assert len(within) > 10
    assert all(re.search(r"\.at = getelementptr inbounds i64, ptr", part) for part in within)     # as it was written


def test_parts_call_functions_of_the_module() -> None:
    """``log``, for which LLVM finds vector versions, may be a function of the module."""
    def f(x: float) -> float:
        y = np.log(x * x + 1.0) * x + 0.5
        z = np.log(y * y + x) + y * x
        return np.log(z * z + y) * z + x
    g = jit(f)
    assert g(0.7) == pytest.approx(f(0.7), rel=1e-14)
    text = g.inspect("llvm")
    assert count(text) > 1
    assert not re.search(r"^define internal [^\n]*@jitad\.log", text, re.MULTILINE)


def test_no_parts_on_a_gpu() -> None:
    assert "part" not in jit(lambda x: np.sin(x) * x + np.cos(x) * np.exp(x) * x + x * x).inspect("ptx", 1.0)
