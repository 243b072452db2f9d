"""Indices that may count from the end (``lowering/planning/wrapped_indices.py``): which are accepted."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.jit.invoke import Compiled
from jitad.lowering.planning.wrapped_indices import wrapped_indices

from jitad import check_grads, grad, interpret, jit
from jitad.ir.builder import Builder
from jitad.ir.dominance import dominators
from jitad.ir.graph import ExcInfo, Function, Module
from jitad.ir.types import I64, Array

LOW, HIGH = -2**63, 2**63 - 1
EDGES = [LOW, LOW + 1, LOW + 5, -6, -5, -4, -1, 0, 1, 4, 5, 6, HIGH - 5, HIGH - 1, HIGH]


def element(read_before: bool, sized: bool = False) -> tuple[Module, Function]:
    """(i, n) → the place of index ``i`` among ``n``; the size is that of an array, or a number."""
    module = Module()
    module.exceptions.append(ExcInfo("IndexError", "index {} among {}"))
    func = module.add(Function("f", [I64, Array(I64, (None,)) if sized else I64], [I64, I64]))
    b = Builder(func.entry)
    i, n = func.params[0], b.dims(func.params[1])[0] if sized else func.params[1]
    place = b.select(b.lt(i, 0), b.add(i, n), i)
    before = b.mul(place, 3) if read_before else i
    b.check(b.and_(b.ge(place, 0), b.lt(place, n)), 0, i, n)
    b.ret([place, before])
    return module, func


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize("n", [LOW, -3, -1, 0, 1, 5, HIGH - 2, HIGH])
def test_sizes_and_indices(n: int, read_before: bool) -> None:
    """The size may be any number, since only the front end knows that it is one."""
    module, func = element(read_before)
    assert bool(wrapped_indices(dominators(func))) is not read_before
    f = Compiled(module, "f")
    for i in EDGES:
        place = i if i >= 0 else (i + n + 2**63) % 2**64 - 2**63
        if 0 <= place < n:
            assert f(i, n)[0] == place
        else:
            with pytest.raises(IndexError, match=f"index {i} among {n}"):
                f(i, n)


@pytest.mark.parametrize("made", ["fill", "iota"])
@pytest.mark.parametrize("ahead", [False, True])
def test_a_size_of_an_array_that_is_made(ahead: bool, made: str) -> None:
    """The comparison is unsigned behind the allocation: a negative size has failed there."""
    module, func = element(False)
    check = next(i for i, op in enumerate(func.entry.ops) if op.name == "check")
    Builder(func.entry).emit(made, *[func.entry.ops[0].result] * (made == "fill"), func.params[1])
    func.entry.ops.insert(check if ahead else check + 1, func.entry.ops.pop())
    assert [w.unsigned for w in wrapped_indices(dominators(func)).values()] == [ahead]


def test_a_size_of_an_array() -> None:
    module, func = element(False, sized=True)
    assert [w.unsigned for w in wrapped_indices(dominators(func)).values()] == [True]
    f = Compiled(module, "f")
    for n in (0, 1, 5):
        for i in EDGES:
            if -n <= i < n:
                assert f(i, np.zeros(n, np.int64))[0] == i % n
            else:
                with pytest.raises(IndexError):
                    f(i, np.zeros(n, np.int64))


def gather(x: Any, at: Any, m: int) -> float:
    s = 0.0
    for k in range(len(at)):
        s = 2.0 * s + x[at[k]]
    return s


def scatter(x: Any, at: Any, m: int) -> float:
    y = np.zeros(m)
    for k in range(len(at)):
        y[at[k]] += x[k]
    return y[0] + 2.0 * y[-1] + 3.0 * y[m // 2]


def two_axes(x: Any, at: Any, m: int) -> float:
    rows = np.zeros((m, 3))
    for k in range(len(at)):
        rows[at[k], k % 3] += x[k]
        rows[k % m, at[k]] -= x[k]
    return rows[0, 0] + 2.0 * rows[m - 1, 1] + 3.0 * rows[m // 2, 2]


def shifted(x: Any, at: Any, m: int) -> float:
    s = 0.0
    for k in range(len(at)):
        if -99 < at[k] < 99:
            s = 2.0 * s + x[at[k] - 1] * x[at[k] + 1]
    return s


@pytest.mark.parametrize("f", [gather, scatter, two_axes, shifted])
def test_programs(f: Callable[..., float]) -> None:
    x = np.array([0.5, -1.25, 2.0, 3.5, -0.75, 1.5])
    compiled, slopes = jit(f), jit(f, grad=0)
    for last in (-7, -6, -5, -3, -1, 0, 2, 4, 5, 6, HIGH, LOW):
        at = np.array([0, 1, -1, 2, -2, last])
        try:
            want = f(x, at, 6)
        except IndexError as error:
            for g in (compiled, slopes.grad):
                with pytest.raises(IndexError, match=re.escape(str(error))):
                    g(x, at, 6)
            continue
        assert compiled(x, at, 6) == want
        h = 1e-6 * np.eye(6)
        differences = [(f(x + e, at, 6) - f(x - e, at, 6)) / 2e-6 for e in h]
        assert slopes.grad(x, at, 6) == pytest.approx(differences, abs=1e-7)


def test_no_selection_is_left() -> None:
    compiled = jit(gather)
    compiled(np.ones(3), np.array([0, -1]), 1)
    body = compiled.inspect("llvm").split("@jitad.entry")[0]
    assert "select" not in body and "ashr" not in body


def table(x, y, counts, most):
    """Casts to indices, with a limit and a summand, and another check in between."""
    total = 0.0
    for i in range(len(x)):
        j = int(x[i])
        k = int(y[i] * 2.0) + 1
        if j > most:
            j = most
        total += counts[j, k]
    return total


NAN, INF = float("nan"), float("inf")


@pytest.mark.slow
@pytest.mark.long
def test_casts_to_indices_raise_in_order() -> None:
    """The check of an index implies that the float fitted; which check fails first is found out afterwards."""
    f, counts = jit(table), np.arange(20.0).reshape(4, 5)
    good = np.array([0.5, 3.9, -1.0, 3.0])
    assert f(good, np.array([0.9, 1.6, 0.2, -0.2]), counts, 9) == table(good, [0.9, 1.6, 0.2, -0.2], counts, 9)
    assert "cvttsd2si64" in f.inspect("llvm")
    for x in (1.0, 4.0, -5.0, NAN, INF, -2.0**63, 2.0**63, -1e300):
        for y in (1.0, 2.0, -4.0, NAN, -INF, 2.0**62, -2.0**62, 4.6e18):
            for most in (9, 2):
                args = np.array([1.0, x]), np.array([0.0, y]), counts, most
                assert _outcome(f, *args) == _outcome(interpret, f, *args), (x, y, most)
    for x, message in ((NAN, "NaN"), (7.0, "index 1 is out of bounds for axis 0 with size 1")):      # y ends there
        with pytest.raises((ValueError, IndexError), match=message):
            f(np.array([1.0, x]), np.array([0.0]), counts, 9)
    for dtype in (np.float32, np.float64):
        g = jit(lambda x, a: a[int(x[0])])
        assert g(np.array([2.7], dtype), counts[1]) == 7.0
        with pytest.raises(ValueError, match="NaN"):
            g(np.array([NAN], dtype), counts[1])


def _outcome(call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except (ValueError, OverflowError, IndexError) as e:
        return type(e), str(e)


@pytest.mark.parametrize("n", [-1, 0, 3])
def test_a_message_with_the_place_itself(n: int) -> None:
    """A remainder near its range becomes such a place, which is the index that the message names."""
    module = Module()
    module.exceptions.append(ExcInfo("IndexError", "index {} among {}"))
    func = module.add(Function("f", [I64, I64], [I64]))
    b = Builder(func.entry)
    i, size = func.params
    place = b.select(b.lt(i, 0), b.add(i, size), i)
    b.check(b.and_(b.ge(place, 0), b.lt(place, size)), 0, place, size)
    b.ret([place])
    assert wrapped_indices(dominators(func))
    f = Compiled(module, "f")
    for i in range(-4, 5):
        expected = i + n if i < 0 else i
        if 0 <= expected < n:
            assert f(i, n)[0] == expected
        else:
            with pytest.raises(IndexError, match=f"index {expected} among {n}"):
                f(i, n)


def spread(x, w, n):
    """Adds to the cells around each place; the reverse sweep computes the cells again."""
    cells = np.zeros(n)
    for i in range(len(x)):
        place = x[i] * n
        k = int(place)
        cells[k] += w[i] * (1.0 - (place - k))
        cells[(k + 1) % n] += w[i] * (place - k)
    return np.sum(cells * cells)


def gradient_of_cells():
    """The gradient of ``spread`` is right; returns its LLVM IR for the processor at hand."""
    rng = np.random.default_rng(0)
    x, w = rng.uniform(0.0, 1.0, 37), rng.normal(size=37)
    f = jit(spread, grad=(0, 1))
    for got, want in zip(f.grad(x, w, 8), interpret(grad(spread, argnums=(0, 1)), x, w, 8), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    check_grads(f, (x, w, 8), order=1, modes=("rev",))
    return f.grad.inspect("llvm")


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction of x86")
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_cells_are_computed_again_by_the_instruction(cpu):
    """Without AVX-512 vectors of indices are slower.  A process keeps the processor of its first code."""
    program = f"from {__name__} import gradient_of_cells; print(gradient_of_cells())"
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          env=os.environ | {"JITAD_CPU": cpu, "PYTHONPATH": os.pathsep.join(sys.path)}).stdout
    assert "fptosi" not in text and "cvttsd2si64" in text
