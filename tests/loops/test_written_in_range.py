"""``library.marks.in_range`` holds: functions without index checks have indices in ``[0, size)``.

The checks are inserted here, stricter than the compiler's (negative indices are refused too), and the functions are
called with unusual arguments: NaN and infinities anywhere, unsorted points and edges, empty arrays.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from jitad import jit
from jitad.frontend.arrays.library.ordering import ranking
from jitad.frontend.arrays.rules import basic_indexing, indexing, lengths, promotion

OUT = "an index of {} where there are {}"


@pytest.fixture
def _tested(monkeypatch: pytest.MonkeyPatch) -> None:
    element, in_range = basic_indexing.element, indexing.in_range

    def tested_element(t: Any, item: Any, n: Any, axis: int) -> Any:
        at = element(t, item, n, axis)
        if t.options.in_range:
            t.check(t.builder.and_(t.builder.ge(at, 0), t.builder.lt(at, n)), "AssertionError", OUT, at, n)
        return at

    def tested_array(t: Any, item: Any, n: Any, axis: int) -> Any:
        at = in_range(t, item, n, axis)
        if t.options.in_range and promotion.rank(at):
            e, axes = t.builder, tuple(range(promotion.rank(at)))
            none = e.eq(lengths.count(t, at), 0)
            for worst, fits in ((e.min(at, axes=axes), "ge"), (e.max(at, axes=axes), "lt")):
                t.check(e.or_(none, e.emit(fits, worst, n if fits == "lt" else e.const(0))), "AssertionError", OUT,
                        worst, n)
        return at
    monkeypatch.setattr(basic_indexing, "element", tested_element)
    monkeypatch.setattr(indexing, "in_range", tested_array)
    monkeypatch.setattr(ranking, "FEW", 20)
    monkeypatch.setenv("JITAD_OPT", "0")
    monkeypatch.setenv("JITAD_DEBUG", "0")


PROGRAMS = [
    lambda a, b, i: (np.argsort(a), np.nanmedian(b), np.unique(i), np.interp(b, a, a), np.bincount(np.abs(i), a)),
    lambda a, b, i: (np.searchsorted(a, b, "right"), np.isin(a, b), np.histogram(b, 5, (-1, 1)), np.histogram(b, a)),
]


def strange(r: np.random.Generator, n: int) -> np.ndarray:
    x = r.normal(size=n)
    a = (x, r.integers(-2, 3, n) * 1.0, np.sort(x), x * 1e308)[r.integers(4)]
    a[r.random(n) < r.random() - 0.5] = np.nan
    a[r.random(n) < 0.02] = (np.inf, -np.inf, 0.0)[r.integers(3)]
    return a


@pytest.mark.slow
@pytest.mark.usefixtures("_tested")
@pytest.mark.parametrize("program", PROGRAMS)
def test_indices_are_in_range(program: Any) -> None:
    f, r = jit(program), np.random.default_rng(0)
    assert OUT[:11] in f.inspect("ir", np.ones(4), np.ones(3), np.ones(4, int))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(1000):
            n, m = r.integers(0, 60, 2)
            try:
                f(strange(r, n), strange(r, m), r.integers(-5, 9, n))
            except ValueError:                       # nothing to interpolate in, or unsorted edges
                pass


def test_extremes_of_the_same_indices_are_found_once() -> None:
    @jit
    def f(x: Any, w: Any, n: int) -> Any:
        return np.bincount(x, minlength=n), np.bincount(x, weights=w, minlength=n), np.max(x, initial=7)
    x, w = np.array([3, 1, 3]), np.array([0.5, 1.0, 2.0])
    for found, wanted in zip(f(x, w, 5), (np.bincount(x, minlength=5), np.bincount(x, w, 5), 7)):
        np.testing.assert_array_equal(found, wanted)
    text = f.inspect("optimized", x, w, 5)
    assert text.count(" = max ") == text.count(" = min ") == 1 and "copy" not in text
