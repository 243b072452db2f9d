"""Indices of an array are checked by the kernel that uses them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jitad import grad
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.programs import Case, compare, compiled

pytestmark = pytest.mark.any_level

RNG = np.random.default_rng(8)
X, W, ROWS, BOX = RNG.normal(size=40), RNG.normal(size=40), RNG.normal(size=(40, 7)), RNG.normal(size=(40, 6, 5))
I, J = RNG.integers(-40, 40, 300), RNG.integers(-6, 6, 300)


def two_arrays(x: Any, i: Any, j: Any) -> Any:
    return np.sin(x[i, j]).sum(axis=-1) * 2


def in_a_loop(x: Any, i: Any, n: int) -> Any:
    total = 0.0
    for _ in range(n):
        total += (x[i] * 2).sum()
    return total


# A program, arguments with indices first among its int arrays, and the size that indices are compared with.
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], int]] = {
    "elements": (lambda x, i: x[i] * 2, (X, I), 40),
    "a sum": (lambda x, i: (x[i] ** 2).sum(), (X, I), 40),
    "of two arrays": (lambda x, w, i: x[i] * w[i], (X, W, I), 40),
    "a gradient": (lambda x, i: grad(lambda x: (x[i] ** 3).sum())(x), (X, I), 40),
    "a gradient of few": (lambda x, i: grad(lambda x: (x[i] ** 3).sum())(x), (X[:8], I % 8), 8),
    "rows": (lambda x, i: np.tanh(x[i]), (ROWS, I), 40),
    "columns": (lambda x, i: x.T[:, i] + 1, (ROWS, I), 40),
    "a table of indices": (lambda x, i: x[i] + 1, (X, I.reshape(20, 15)), 40),
    "i32": (lambda x, i: x[i], (X, I.astype(np.int32)), 40),
    "computed indices": (lambda x, i: x[2 * i - 1], (X, I // 3 % 18), 40),
    "two arrays of indices": (two_arrays, (BOX, I, J), 40),
    "a loop of the host": (in_a_loop, (X, I, 3), 40),
}
BEFORE = {"a loop of the host", "two arrays of indices"}
"""Programs whose checks stay: they stand before the loop, or before the check that there are as many of both."""


def without_extremes(case: Case) -> bool:
    return "reduced by maximum" not in case.program.plan() or "checks indices, if no kernel does" in case.program.plan()


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_checks_are_in_the_kernel(name: str) -> None:
    fun, args, size = PROGRAMS[name]
    case = compiled(fun, *args)
    if name not in BEFORE:
        assert without_extremes(case), case.program.plan()
    assert "gradient" not in name or "by atomics" in case.program.plan()
    compare(case, SimulatedDriver(checked=True, order=1))
    at = next(k for k, x in enumerate(case.given) if isinstance(x, np.ndarray) and x.dtype.kind == "i")
    for place, wrong in ((0, size), (170, -size - 1), (299, 1 << 30)):
        given = [x.copy() if isinstance(x, np.ndarray) else x for x in case.given]
        given[at].flat[place] = wrong if "computed" not in name else wrong * 2
        compare(dataclasses.replace(case, given=given), SimulatedDriver(checked=True, order=place), one_wrong=True)
        none = [x[:0] if isinstance(x, np.ndarray) and x.dtype.kind == "i" else x for x in given]
        compare(dataclasses.replace(case, given=none), SimulatedDriver(checked=True))


def test_rows_without_elements() -> None:
    """No kernel uses the indices: they are checked all the same."""
    case = compiled(PROGRAMS["rows"][0], ROWS, I)
    wrong = np.where(np.arange(300) == 7, 40, I)
    for x, i in ((ROWS[:, :0], I), (ROWS[:, :0], wrong), (ROWS, wrong)):
        compare(dataclasses.replace(case, given=[x.copy(), i]), SimulatedDriver(checked=True), one_wrong=True)


def test_the_first_check_is_told() -> None:
    """A check stays where it is if something may raise between it and the use of the indices."""
    def then(x: Any, i: Any, w: Any) -> Any:
        y = x[i]
        if len(w) != 40:
            raise ValueError("other sizes")
        return y * w.sum()
    wrong = np.where(np.arange(300) == 7, 50, I)
    case = compiled(then, X, I, W)
    for i, w in ((I, W), (wrong, W), (wrong, W[:3]), (I, W[:3])):
        compare(dataclasses.replace(case, given=[X, i, w.copy()]), SimulatedDriver(checked=True), one_wrong=True)


def test_unchecked_accesses_stay_behind_the_checks() -> None:
    """Indices that are stored before they are checked, and used from there."""
    def stored(x: Any, i: Any) -> Any:
        k = i * 1
        first = x[k] * 2
        return first + x[k].sum(), k
    case = compiled(stored, X, I)
    wrong = np.where(np.arange(300) == 7, 50, I)
    for i in (I, wrong):
        compare(dataclasses.replace(case, given=[X, i]), SimulatedDriver(checked=True), one_wrong=True)
