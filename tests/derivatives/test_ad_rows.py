"""Loops with many saved scalars keep them in rows (``ad/storage/rows.py``): the derivatives are the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from jitad.lowering.function import region_outlining

from bench.compiler.compiling import loaded
from bench.compiler.program_kinds import KINDS
from jitad import interpret, jit, value_and_grad
from jitad.ad.storage import rows


def long_body(x: float, y: float, a: Any, n: int) -> float:
    """Floats, ints and bools that are saved at the loop's level, in branches and around an inner loop."""
    k, s = 0, 0.0
    for i in range(n):
        u = np.sin(x) * 0.7 + y * a[i]
        v = np.tanh(u * x) + np.exp(-y * u)
        if u > v * k:
            w = u * v + np.cos(u)
            k = k + i
        else:
            w = np.sin(v) * x
            y = y * w
        for j in range(k % 3):
            w = np.tanh(w * u) + v * j
        x, y = np.sin(w) * 0.5 + x * v * 0.1, y * 0.3 + np.cos(u * w) * v
        s = s + x * y * w * k
    return s + x


ARGS = (0.5, 0.25, np.array([0.3, -0.7, 1.1, 0.4, -0.2]), 5)


def texts(f: Any, stage: str = "adjoint") -> str:
    text: str = value_and_grad(f, (0, 1, 2)).inspect(stage, *ARGS)
    return text


@pytest.mark.slow
def test_derivatives_of_first_and_second_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MANY", 2)
    f = jit(long_body, grad=(0, 1, 2))
    value, slopes = f.value_and_grad(*ARGS)
    assert value == pytest.approx(long_body(*ARGS), rel=1e-12)
    want = interpret(value_and_grad(long_body, (0, 1, 2)), *ARGS)[1]
    for slope, expected in zip(slopes, want, strict=True):
        np.testing.assert_allclose(slope, expected, rtol=1e-9)

    def along(x: float, y: float) -> Any:
        return f.grad(x, y, *ARGS[2:])[0]
    second, h = jit(along, grad=(0, 1)).grad(*ARGS[:2]), 1e-6
    for k, step in enumerate(h * np.eye(2)):
        up, down = (along(*(np.array(ARGS[:2]) + sign * step)) for sign in (1, -1))
        assert second[k] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-7)


def test_values_are_saved_where_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    many = texts(jit(long_body))
    monkeypatch.setattr(rows, "MANY", 2)
    few = texts(jit(long_body))
    assert few.count(" = empty ") < many.count(" = empty ")
    stores = [i for i, line in enumerate(few.splitlines()) if " = set " in line]
    assert len(stores) > 4 and stores[-1] - stores[0] > 4 * len(stores)       # not one after another at the latch


@pytest.mark.long
@pytest.mark.slow
def test_the_longest_block_does_not_grow_with_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_OPT", "0")
    monkeypatch.setenv("JITAD_WITHOUT", "fission")           # its loops stay whole, since LLVM makes vectors of them
    for name, size in (("SIZE", 50), ("LEAST", 200)):
        monkeypatch.setattr(region_outlining, name, size)
    monkeypatch.setattr(rows, "MANY", 16)

    def longest(kind: str, count: int) -> int:
        program = loaded(KINDS[kind](count, 1), np)
        text = value_and_grad(program, (0, 1)).inspect("llvm", *ARGS)
        assert ".region." in text
        return max(part.count("\n") for part in re.split(r"^(?:\S+:.*|define .*)$", text, flags=re.MULTILINE))
    for kind in ("a long loop body", "ifs in a loop", "call sites", "statements"):
        assert longest(kind, 160) < 1.4 * longest(kind, 80), kind
