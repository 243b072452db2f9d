"""NumPy's functions for sorted search, counting and sets: values, derivatives, errors."""

from __future__ import annotations

import numpy as np
import pytest

import jitad
from jitad import jit
from tests.alike import assert_alike, assert_raises_alike

LAST_DIGITS = {"rtol": 1e-12, "atol": 1e-13}


@pytest.fixture(autouse=True)
def _compile_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_OPT", "0")
    monkeypatch.setenv("JITAD_DEBUG", "0")               # the traced code is ordinary Python


# --- searching ------------------------------------------------------------------------------------

def searching(a, v, k):
    return (np.searchsorted(a, v), a.searchsorted(v, "right"), np.searchsorted(a, v.reshape(2, -1), side="left"),
            np.searchsorted(k, v), np.searchsorted(a, 0.5), np.searchsorted(a[::-1], v, sorter=np.arange(len(a))[::-1]),
            np.digitize(v, a), np.digitize(v, a[::-1], right=True), np.digitize(0.3, a))


@pytest.mark.slow
def test_positions_are_numpys():
    f, search, digitize = jit(searching), jit(np.searchsorted), jit(np.digitize)
    for n in (2, 3, 4, 5, 8, 33):
        r = np.random.default_rng(n)
        a, k = np.sort(r.normal(size=n)), np.sort(r.integers(-3, 3, n))
        v = np.concatenate((r.normal(size=4), a[[0, -1, n // 2]], [np.inf, -np.inf, 2.0]))
        assert_alike(f(a, v, k), searching(a, v, k))
        b = np.concatenate((a, [np.nan, np.nan]))
        v[3] = np.nan
        assert_alike(search(b, v), np.searchsorted(b, v))
        assert_alike(digitize(v, a), np.digitize(v, a))
    assert_alike(search(a[:0], v), np.searchsorted(a[:0], v))


def test_the_edges_of_bins_may_end_with_nan():
    digitize, v = jit(np.digitize), np.array([-1.0, 0.5, 2.0, np.inf, np.nan])
    for edges in (np.array([0.0, 1.0, np.nan]), np.array([np.nan, 1.0, 0.0]), np.ones(3)):
        assert_alike(digitize(v, edges), np.digitize(v, edges))


def interpolating(v, xp, fp, k):
    return (np.interp(v, xp, fp), np.interp(v, xp, fp, left=-5, right=7.5), np.interp(v, xp + 0.5, fp, period=3.0),
            np.interp(0.3, xp, fp), np.interp(v.reshape(2, -1), [-1, 0, 2], [1, 0, 5]), np.interp(k, xp, fp))


@pytest.mark.slow
def test_interpolation_is_numpys():
    f = jit(interpolating)
    for n in (2, 3, 8):
        r = np.random.default_rng(n)
        xp, fp = np.sort(r.normal(size=n)), r.normal(size=n)
        v = np.concatenate((2 * r.normal(size=5), xp[[0, -1, n // 2]], [50.0, -50.0]))
        assert_alike(f(v, xp, fp, np.arange(3)), interpolating(v, xp, fp, np.arange(3)), **LAST_DIGITS)
    xp, fp = np.arange(4.0), np.array([1.0, np.inf, np.inf, 2.0])
    v = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, np.nan])
    assert_alike(jit(np.interp)(v, xp, fp), np.interp(v, xp, fp))
    assert_alike(jit(np.interp)(v, xp[:1], fp[:1]), np.interp(v, xp[:1], fp[:1]))


@pytest.mark.slow
def test_interpolation_is_differentiated_in_everything():
    r = np.random.default_rng(6)
    v, xp, fp = r.normal(size=4), np.sort(r.normal(size=5)), r.normal(size=5)

    def f(v, xp, fp):
        return (np.interp(v, xp, fp) ** 2).sum()
    jitad.check_grads(f, (v, xp, fp))
    jitad.check_grads(lambda x, xp, fp: np.interp(x, xp, fp, period=3.0), (7.0, xp, fp), order=1)
    assert jitad.interpret(f, v, xp, fp) == pytest.approx(f(v, xp, fp))
    slope = jitad.grad(lambda x: np.interp(x, np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 5.0])))
    assert [slope(x) for x in (-1.0, 0.0, 1.0, 1.5, 2.0)] == [0, 1, 4, 4, 0]           # at a point, of the next piece


# --- counting -------------------------------------------------------------------------------------

def counting(a, w, e, i):
    return (np.bincount(i), np.bincount(i, w, 9), np.bincount(i, minlength=3), np.bincount(i > 2), np.histogram(a),
            np.histogram(a, 4), np.histogram(a, 7, (-1.0, 1)), np.histogram(a, e), np.histogram(a, 5, density=True),
            np.histogram(a, 3, weights=w), np.histogram(a, e, weights=w, density=True), np.histogram(i, 3),
            np.histogram(i, [0, 1, 3]), np.histogram(a, 3, weights=i), np.histogram_bin_edges(a, 3),
            np.histogram(a, len(e)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value")
def test_counts_are_numpys():
    f = jit(counting)
    for n in (2, 5, 40):
        r = np.random.default_rng(n)
        a, w, i = r.normal(size=n).round(1), r.normal(size=n), r.integers(0, 6, n)
        e = np.sort(r.normal(size=5))
        a[0] = e[-1]
        assert_alike(f(a, w, e, i), counting(a, w, e, i), **LAST_DIGITS)
    a[:] = 3.0
    assert_alike(f(a, w, e, i), counting(a, w, e, i), **LAST_DIGITS)
    assert_alike(jit(np.bincount)(i[:0]), np.bincount(i[:0]))
    assert_alike(jit(np.histogram)(a[:0]), np.histogram(a[:0]), **LAST_DIGITS)
    for edges in (e[:0], e[:1], e[[0, 0, 1]]):
        assert_alike(jit(np.histogram)(a, edges), np.histogram(a, edges))


@pytest.mark.slow
def test_sums_of_weights_are_differentiated():
    r = np.random.default_rng(2)

    def f(a, w):
        found, edges = np.histogram(a, 3, weights=w, density=True)
        return (found ** 2 * edges[1:]).sum() + (np.bincount(np.array([1, 0, 1, 4, 0]), w) ** 3).sum()
    jitad.check_grads(f, (r.normal(size=5), r.normal(size=5)))


# --- sets -----------------------------------------------------------------------------------------

def comparing(a, b, i, m):
    return (np.unique(a), np.unique(a, True, True, True), np.unique(m), np.unique(a, equal_nan=False),
            np.unique(i.reshape(2, -1), return_inverse=True), np.unique([2, 1, 2]), np.isin(a, b), np.isin(i, [1, 2]),
            np.isin(2, i), np.unique(i.reshape(2, -1) % 2, axis=1, return_index=True, return_inverse=True),
            np.isin(i.reshape(2, -1), a, invert=True), np.intersect1d(a, b, return_indices=True), np.union1d(a, i),
            np.intersect1d(i, a), np.setdiff1d(a, b), np.setdiff1d(i, [3, 4]))


@pytest.mark.slow
def test_sets_are_numpys():
    f = jit(comparing)
    for n in (2, 4, 34):
        r = np.random.default_rng(n)
        a, b = r.normal(size=n).round(1), r.normal(size=n + 3).round(1)
        i, m = r.integers(0, 6, n), r.random(n) < 0.5
        a[0] = b[0]
        assert_alike(f(a, b, i, m), comparing(a, b, i, m))
        a[-2:] = b[1] = np.nan
        assert_alike(f(a, b, i, m), comparing(a, b, i, m))
    assert_alike(jit(np.unique)(a[:0]), np.unique(a[:0]))


@pytest.mark.slow
@pytest.mark.long
def test_the_values_of_sets_are_differentiated():
    a, b = np.array([3.0, 1.0, 3.0, 2.0]), np.array([2.0, 5.0, 3.0])

    def f(a, b):
        return np.unique(a) @ np.array([1.0, 10.0, 100.0]) + np.intersect1d(a, b).sum() + np.setdiff1d(b, a)[0] ** 2
    da, db = jitad.grad(f, (0, 1))(a, b)
    assert da.tolist() == [101.0, 1.0, 0.0, 11.0] and db.tolist() == [0.0, 10.0, 0.0]


# --- errors ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("wrong", [
    lambda a: np.searchsorted(a, 1.0, "middle"), lambda a: np.searchsorted(a[None], 1.0),
    lambda a: np.searchsorted(a, 1.0, sorter=[0]), lambda a: np.searchsorted(a, 5.0, sorter=[0, 1, 5]),
    lambda a: np.digitize(a, np.array([1.0, 3.0, 2.0])), lambda a: np.interp(1.0, a[:0], a[:0]),
    lambda a: np.interp(1.0, a, a[:2]), lambda a: np.interp(a, a, a, period=0.0), lambda a: np.bincount([0, -1]),
    lambda a: np.bincount([0, 1], a), lambda a: np.bincount([1], minlength=-1), lambda a: np.histogram(a, 0),
    lambda a: np.histogram(a, [1.0, 0.0]), lambda a: np.histogram(a, 3, (2, 1)),
    lambda a: np.histogram(a, weights=a[:2]), lambda a: np.histogram(a, a[None]),
    lambda a: np.histogram(a, 2.5), lambda a: np.histogram(a * np.inf),
    lambda a: np.isin(a, a, kind="other")])
def test_errors_are_numpys(wrong):
    assert_raises_alike(wrong, np.array([2.0, 1.0, 3.0]))


@pytest.mark.parametrize("fun, message", [
    (lambda a: np.histogram(a, "auto"), "an estimate of the number of bins"),
    (lambda a: np.unique(a, bogus=1), "bogus")])
def test_what_is_refused(fun, message):
    with pytest.raises((jitad.UnsupportedError, TypeError), match=message):
        jit(fun)(np.array([2.0, 1.0, 3.0]))
