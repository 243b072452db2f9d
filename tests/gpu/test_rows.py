"""Nests that go through the same rows become one kernel, in which a warp has a row, or a block; sums of columns."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.device import rows
from jitad.lowering.gpu.device.emitter import Emitter
from jitad.lowering.gpu.host import launch_builder
from jitad.lowering.gpu.image import WARP

from jitad import grad
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.programs import compare, compiled

pytestmark = pytest.mark.any_level

RNG = np.random.default_rng(6)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def normalised(x: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(axis=1, keepdims=True) + 1e-5)


def log_softmax(x: Any) -> Any:
    s = x - x.max(axis=-1, keepdims=True)
    return s - np.log(np.exp(s).sum(axis=-1, keepdims=True))


def running_share(x: Any) -> Any:
    return np.cumsum(x, axis=1) / x.sum(axis=1, keepdims=True), x.argmax(axis=1)


# The kernels of a program, its number of axes, and whether values come near 0.
PROGRAMS: dict[str, tuple[Any, int, int]] = {
    "softmax": (softmax, 2, 1),
    "softmax, three axes": (softmax, 3, 1),
    "its gradient": (grad(lambda x: (softmax(x) ** 2).sum()), 2, 2),
    "normalised": (normalised, 2, 1),
    "log_softmax": (log_softmax, 2, 1),
    "running share": (running_share, 2, 1),
}


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """From three rows on, a warp has one; fewer have a block each.  In a warp 128 elements of f64 are kept, or fewer
    of several arrays."""
    monkeypatch.setattr(launch_builder, "ENOUGH_THREADS", 3 * WARP)
    monkeypatch.setattr(rows, "ROOM", 8 << 10)


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows(name: str, few_rows: None) -> None:
    fun, axes, kernels = PROGRAMS[name]
    for dtype in (np.float64, np.float32):
        case = compiled(fun, np.ones((5,) * axes, dtype))
        made = [k.name for k in case.program.image.kernels]
        assert len([name for name in made if not name.endswith(("_finish", "_block"))]) <= kernels
        assert "a warp for each iteration" in case.program.plan()
        shapes = [(rows, n) for n in (1, 31, 33, 1025) for rows in (2, 3)] if dtype == np.float64 else [(0, 4), (9, 40)]
        for order, shape in enumerate(shapes):
            x = RNG.uniform(0.5, 2.0, (2, *shape)[3 - axes:]).astype(dtype)
            driver = SimulatedDriver(checked=True, order=order)
            compare(dataclasses.replace(case, given=[x]), driver, 1e-8 if dtype == np.float64 else 1e-4)


@pytest.mark.parametrize("name", ["softmax", "normalised", "log_softmax", "its gradient"])
def test_a_row_is_read_once(name: str, few_rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later loops find each element in shared memory: what they would read from memory may be anything.

    But for elements beyond those that are kept.
    """
    where = Emitter.where

    def nothing_there(e: Emitter, condition: str, t: Any, otherwise: Any, value: Any) -> str:
        return where(e, condition, t, otherwise if isinstance(otherwise, str) else "0x7FF8000000000000", value)
    monkeypatch.setattr(Emitter, "where", nothing_there)
    fun = PROGRAMS[name][0]
    case = compiled(fun, np.ones((5, 5)))
    assert "addrspace(3) @rows" in case.program.image.text
    for n in (2, 5):
        x = RNG.uniform(0.5, 2.0, (n, 32))
        compare(dataclasses.replace(case, given=[x]), SimulatedDriver(checked=True), 1e-8)
    with pytest.raises(AssertionError, match="nan"):
        compare(dataclasses.replace(case, given=[np.ones((5, 129))]), SimulatedDriver())


def test_arrays_that_are_read_again(few_rows: None) -> None:
    """By a later iteration of the host, or behind its loop: they have to be in memory as well."""
    def left(x: Any, n: int) -> Any:
        e, q = x * 0.5, x
        while n > 0:
            e = np.exp(x - x.max(axis=1, keepdims=True))
            q = e / e.sum(axis=1, keepdims=True)
            n -= 1
        return e.sum() + 2 * q[1]

    def in_place(x: Any, n: int) -> Any:
        y, total = x * 0.5, 0.0
        for _ in range(n):
            y[:] = y - y.max(axis=1, keepdims=True)
            y[:] = np.exp(y) / np.exp(y).sum(axis=1, keepdims=True)
            total = total + y[1, 2]
        return total
    for fun in (left, in_place):
        compare(compiled(fun, RNG.normal(size=(5, 40)), 3), SimulatedDriver(checked=True))


@pytest.mark.slow
def test_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warps of a block share the iterations for 32 columns, unless there are many columns."""
    def columns(x: Any) -> Any:
        best = x.argmax(axis=0), x.max(axis=0) - x.min(axis=0), x.var(axis=0), x.sum(axis=0, keepdims=True)
        return best, grad(lambda b: ((x.astype(np.float64) + b) ** 2).sum())(np.ones(x.shape[1]))
    monkeypatch.setattr(launch_builder, "ENOUGH_THREADS", 100)
    for dtype in (np.float64, np.int32):
        case = compiled(columns, np.ones((5, 5), dtype))
        assert case.program.plan().count("whose iterations the warps of a block share") >= 5
        for order, shape in enumerate([(1, 1), (40, 31), (300, 33), (3, 110)][:4 if dtype == np.float64 else 2]):
            x = RNG.integers(-9, 9, shape).astype(dtype)
            compare(dataclasses.replace(case, given=[x]), SimulatedDriver(checked=True, order=order))


@pytest.mark.slow
def test_nests_that_stay_apart() -> None:
    """One reads another row, or the columns, of what another one stores; or they have other sizes."""
    def shifted(x: Any) -> Any:
        e = x - x.max(axis=1, keepdims=True)
        return e + e[::-1].sum(axis=1, keepdims=True)

    def columns(x: Any) -> Any:
        e = x - x.max(axis=1, keepdims=True)
        return e / e.sum(axis=0)

    def other_sizes(x: Any) -> Any:
        m = x.max(axis=1)
        return m[:, None] * np.ones((1, 3)) + x[:, :3], x[1:].sum(axis=1) - m[1:]
    for fun in (shifted, columns, other_sizes):
        compare(compiled(fun, RNG.normal(size=(40, 40))), SimulatedDriver(checked=True, order=2))
