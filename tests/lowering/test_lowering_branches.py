"""Branches that stay branches: around divisions that few iterations need, and where an extreme is replaced."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from jitad.lowering.function import control
from jitad.lowering.jit.cpu import target
from jitad.lowering.planning.row_accesses import stays_scalar

from jitad import interpret, jit, vjp
from jitad.ir.dominance import Dominators
from jitad.passes.analysis.loops import Loop

VECTORS = re.compile(r"fdiv [a-z ]*<")


def suppressed(boxes: Any, limit: float) -> int:
    keep = np.ones(len(boxes), dtype=np.bool_)
    for i in range(len(boxes)):
        if not keep[i]:
            continue
        size = (boxes[i, 2] - boxes[i, 0]) * (boxes[i, 3] - boxes[i, 1])
        for j in range(i + 1, len(boxes)):
            if keep[j]:
                width = min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0])
                height = min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1])
                if width > 0.0 and height > 0.0:
                    other = (boxes[j, 2] - boxes[j, 0]) * (boxes[j, 3] - boxes[j, 1])
                    if width * height / (size + other - width * height) > limit:
                        keep[j] = False
    return int(np.sum(keep))


def quotients(x: Any, y: Any, z: Any, limit: float) -> float:
    """The same branches, but the elements are neighbours."""
    found = np.zeros(len(x))
    count = 0
    for i in range(len(x)):
        if x[i] > 0.0:
            d = y[i] - 0.1
            if d > 0.0:
                q = z[i] / d
                if q > limit:
                    found[i] = q
                    count += 1
    return count + np.sum(found)


def water(h: Any) -> float:
    left, right, low, high, total = 0, len(h) - 1, 0.0, 0.0, 0.0
    while left < right:
        if h[left] < h[right]:
            if h[left] > low:
                low = h[left]
            else:
                total += low - h[left]
            left += 1
        else:
            if h[right] > high:
                high = h[right]
            else:
                total += high - h[right]
            right -= 1
    return total


def own_code(f: Any, *args: Any) -> str:
    return str(jit(f).inspect("llvm", *args)).split("@jitad.entry(")[0]


@pytest.mark.slow
def test_rare_divisions_of_columns_are_not_vectors() -> None:
    start = np.sort(np.random.default_rng(3).uniform(0.0, 20.0, 60))
    boxes = np.stack([start, start, start + 1.0, start + 1.0], axis=1)
    assert not VECTORS.search(own_code(suppressed, boxes, 0.5))
    assert jit(suppressed)(boxes, 0.5) == suppressed(boxes, 0.5) == interpret(suppressed, boxes, 0.5)


def test_divisions_of_neighbours_may_be_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    scalar: list[bool] = []

    def seen(loop: Loop, dom: Dominators) -> bool:
        scalar.append(stays_scalar(loop, dom))
        return scalar[-1]
    monkeypatch.setattr(control, "stays_scalar", seen)
    x, y, z = np.random.default_rng(4).normal(0.0, 1.0, (3, 100))
    np.testing.assert_allclose(jit(quotients)(x, y, z, 0.5), quotients(x, y, z, 0.5))
    assert scalar and not any(scalar)


def test_the_largest_so_far_is_not_selected() -> None:
    h = np.random.default_rng(5).uniform(0.0, 1.0, 200)
    assert "select" not in own_code(water, h)
    assert jit(water)(h) == water(h) == interpret(water, h)


def larger(x: Any, y: Any) -> Any:
    most = x.copy()
    for row in y:
        for j in range(len(most)):
            if row[j] > most[j]:
                most[j] = row[j]
    return most


def largest(x: Any, y: Any) -> Any:
    return np.max(y, axis=0) + x


@pytest.mark.parametrize("f", [larger, largest])
def test_a_stored_choice_is_no_masked_store(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of what was there before or something else stores whole vectors: masked ones take 12 cycles on an AMD."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=37), rng.normal(size=(5, 37))
    np.testing.assert_array_equal(jit(f)(x, y), interpret(f, x, y))
    monkeypatch.setenv("JITAD_CPU", "x86-64-v3")
    assert not re.search(r"vp?maskmov\w+\s+%[xy]mm\d+, %[xy]mm\d+, ", jit(f).inspect("asm", x, y))


def near(x: Any, limit: float) -> float:
    total = 0.0
    for i in range(len(x)):
        if x[i] < limit:
            total += x[i] * x[i]
    return total


def test_terms_left_out_are_masked_under_fast_math() -> None:
    """The selection between a term and 0 needs no constant in a register; -0.0 would be one."""
    x = np.random.default_rng(6).normal(0.0, 1.0, 100)
    fast, strict = jit(near, fastmath=True), jit(near)
    np.testing.assert_allclose([fast(x, 0.5), strict(x, 0.5)], near(x, 0.5), rtol=1e-13)
    assert not re.search(r"select .*-0\.0", fast.inspect("llvm"))
    assert re.search(r"select .*-0\.0", strict.inspect("llvm"))


def shifted(line: Any, angle: float, shift: float) -> float:
    total = 0.0
    for i in range(len(line)):
        x = angle * i + shift
        if x >= 0.0 and x < len(line) - 1:
            k = int(x)
            total += (line[k] + (x - k) * (line[k + 1] - line[k])) ** 2
    return total


@pytest.mark.skipif(not target().fast_gathers, reason="this machine has no fast gathers of 512 bits")
def test_interpolation_has_the_widest_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ``x86-64-v4`` LLVM prefers 256 bits, of which two gathers take as long as one of 512."""
    line = np.random.default_rng(7).normal(size=301)
    f = jit(shifted, fastmath=True)
    np.testing.assert_allclose(f(line, 0.93, -4.2), shifted(line, 0.93, -4.2), rtol=1e-13)
    monkeypatch.setenv("JITAD_CPU", "x86-64-v4")
    assert re.search(r"vgatherqpd.*zmm", f.inspect("asm", line, 0.93, -4.2))
    by_arrays = jit(lambda x, at: np.sum((x[at + 1] - x[at]) ** 2))
    assert re.search(r"vgatherqpd.*zmm", by_arrays.inspect("asm", line, np.arange(0, 300, 7)))


@pytest.mark.slow
def test_merges_of_sorted_parts_select() -> None:
    """Either part is as likely to have the smaller element: a branch would be mispredicted half of the time."""
    x = np.random.default_rng(0).normal(size=50)
    compiled = jit(lambda x: np.argsort(x))
    assert np.array_equal(compiled(x), np.argsort(x, kind="stable"))
    assert "rare" not in str(compiled.inspect("optimized", x))


def restarted(x: float, rows: Any) -> Any:
    """A pullback that may be replaced: the loop then has no back edge from its latch."""
    f = 0.0137
    back = vjp(math.sin, 0.4)[1]
    for _ in range(divmod(rows.shape[1], 3)[0]):
        f = back(x if f < 0.5 else f)[0]
        if f:
            back = x
    return f


def test_a_loop_whose_latch_does_not_lead_to_its_head() -> None:
    rows = np.ones((2, 3))
    assert jit(restarted)(0.7647, rows) == pytest.approx(restarted(0.7647, rows))
