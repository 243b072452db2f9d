"""Medians, quantiles, reductions that skip NaN, covariances: values, derivatives, errors."""

from __future__ import annotations

import warnings

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


@pytest.fixture(autouse=True)
def _numpy_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def data(n: int, nan: bool):
    r = np.random.default_rng(n)
    a, m = r.normal(size=n).round(1), r.normal(size=(n, 3)).round(1)
    if nan:
        a[1] = m[0, 1] = m[-1, 0] = m[-1, 1] = np.nan
    return a, m, r.integers(1, 6, n), r.normal(size=n)


# --- quantiles ------------------------------------------------------------------------------------

def ranked(a, m, i, q):
    return (np.median(a), np.median(m), np.median(m, axis=0), np.median(m, axis=-1, keepdims=True), np.median(i),
            np.median(m, axis=(0, 1), keepdims=True), np.median([3, 1, 2]), np.percentile(a, 30),
            np.percentile(m, [25, 50, 99.0], axis=0), np.quantile(a, q), np.quantile(m, 0.3, axis=1, keepdims=True),
            np.quantile(m, q.reshape(2, -1), axis=1), np.percentile(i, 0), np.percentile(a, 100),
            np.quantile(m, q, keepdims=True), np.nanmedian(a), np.nanmedian(m, axis=1), np.nanquantile(m, 0.25, axis=0),
            np.nanpercentile(m, [1, 80.0]))


def of_floats(c, q):
    return np.median(c), np.quantile(c, 0.4), np.quantile(c, q), np.percentile(c, q.astype(np.float32))


@pytest.mark.long
@pytest.mark.slow
def test_quantiles_are_numpys():
    f, q = jit(ranked), np.array([0, 0.1, 0.5, 0.77, 0.9, 1])
    for n in (2, 3, 4, 33):
        for nan in (False, True):
            a, m, i, w = data(n, nan)
            assert_alike(f(a, m, i, q), ranked(a, m, i, q), **LAST_DIGITS)
    c = a.astype(np.float32)
    assert_alike(jit(of_floats)(c, q), of_floats(c, q), rtol=1e-6)
    assert np.isnan(jit(np.median)(a[:0])) and jit(np.median)(np.array([4.0])) == 4.0


@pytest.mark.slow
@pytest.mark.long
def test_quantiles_of_many():
    """Arrays that are not fully sorted by selection: even, repeated, periodic, sorted, mostly NaN."""
    def quantiles(a, q):
        return np.median(a), np.quantile(a, q), np.nanmedian(a), np.nanquantile(a, q), np.quantile(a, 0.001)
    f, r = jit(quantiles), np.random.default_rng(0)
    for n in (501, 2000, 5000):
        x = r.normal(size=n)
        for a in (x, np.sort(x), r.integers(0, 3, n) * 1.0, np.arange(n) % 7.0, np.zeros(n), np.where(x > 0, np.inf, x),
                  np.where(x > -1, np.nan, x), np.repeat(x[:n // 500 + 1], 500)[:n]):
            for q in (np.array([0.0, 0.3, 1.0]), np.linspace(0.2, 0.8, 6)):
                assert_alike(f(a, q), quantiles(a, q), **LAST_DIGITS)
    a = r.integers(0, 40, 1000).astype(float)
    chosen = np.argsort(a, kind="stable")[499:501]
    assert sorted(jitad.grad(np.median)(a).nonzero()[0]) == sorted(chosen)


@pytest.mark.long
@pytest.mark.slow
def test_quantiles_are_differentiated():
    _, m, _, w = data(6, False)
    m += np.arange(18).reshape(6, 3) / 100
    jitad.check_grads(lambda m, w: ((np.median(m, axis=0) ** 3).sum()
                                    + (np.quantile(m, [0.3, 0.1 + w[0] ** 2 / 9]) ** 2).sum()), (m, w), order=1)
    curved = jitad.hessian(lambda a: np.median(a) ** 3 + np.quantile(a, 0.25) ** 2)(np.array([3.0, 1.0, 2.0]))
    assert curved.tolist() == [[0, 0, 0], [0, 0.5, 0.5], [0, 0.5, 12.5]]
    assert jitad.grad(np.median)(np.array([3.0, 1.0, 1.0, 2.0])).tolist() == [0.0, 0.0, 0.5, 0.5]
    assert jitad.grad(np.nanmedian)(np.array([3.0, np.nan, 1.0, 2.0])).tolist() == [0.0, 0.0, 0.0, 1.0]
    rows = jitad.vmap(jitad.grad(np.median))(m.T)
    assert_alike(rows, np.stack([jitad.grad(np.median)(row) for row in m.T]))


# --- NaN skipped ----------------------------------------------------------------------------------

def skipping(a, m, i):
    return (np.nanmax(a), np.nanmin(m, axis=0), np.nanmax(m, axis=1, keepdims=True), np.nanmax(i), np.nanargmax(a),
            np.nanargmin(m, axis=1), np.nanargmax(i), np.nanstd(a), np.nanvar(m, axis=1), np.nanvar(i),
            np.nanvar(m, ddof=1, axis=0, keepdims=True), np.nanstd(m, correction=1), np.nancumsum(m, axis=1),
            np.nancumprod(a), np.nancumsum(i))


def of_rows(m):
    return np.nanmax(m, axis=1), np.nanmin(m), np.nanstd(m, axis=1), np.nanmedian(m, axis=1)


def single(c):
    return np.nanmax(c), np.nanstd(c), np.nancumsum(c)


@pytest.mark.slow
def test_nan_is_skipped():
    f = jit(skipping)
    for n in (3, 5, 20):
        for nan in (False, True):
            a, m, i, _ = data(n, nan)
            assert_alike(f(a, m, i), skipping(a, m, i), **LAST_DIGITS)
    m[0] = np.nan
    assert_alike(jit(of_rows)(m), of_rows(m), **LAST_DIGITS)
    c = a.astype(np.float32)
    assert_alike(jit(single)(c), single(c), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_what_is_nan_has_no_derivative():
    m = data(4, False)[1] + np.arange(12).reshape(4, 3) / 100

    def f(m):
        m = np.where(np.arange(12).reshape(4, 3) == 4, np.nan, m)
        return (np.nanmax(m, axis=0) ** 2).sum() + np.nanstd(m, axis=1).sum() + (np.nancumprod(m, axis=0) ** 2).sum()
    jitad.check_grads(f, (m,))
    m[1] = np.nan
    assert np.isfinite(jitad.grad(lambda m: np.nansum(np.nanstd(m, axis=1)))(m)).all()


# --- covariances ----------------------------------------------------------------------------------

def together(a, m, i, w):
    return (np.cov(a), np.cov(w, a), np.cov(m), np.cov(m, rowvar=False, bias=True), np.cov(m.T, aweights=np.abs(w)),
            np.cov(m.T, aweights=np.abs(w), fweights=i), np.cov(w, fweights=i, ddof=0), np.cov(m, m[:, ::-1]),
            np.corrcoef(m.T), np.corrcoef(w, a), np.corrcoef(w), np.corrcoef(m, rowvar=False))


def test_covariances_are_numpys():
    f = jit(together)
    for n in (3, 20):
        assert_alike(f(*data(n, False)), together(*data(n, False)), **LAST_DIGITS)


@pytest.mark.slow
@pytest.mark.long
def test_covariances_are_differentiated():
    _, m, _, w = data(4, False)
    jitad.check_grads(lambda m, w: (np.cov(m[:, 0], w) ** 2).sum() + np.corrcoef(m.T)[0, 2] ** 2, (m, w))


# --- errors ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("wrong", [
    lambda a: np.quantile(a, 1.5), lambda a: np.percentile(a, [50, -1.0]), lambda a: np.percentile(a[:0], 50),
    lambda a: np.median(a, axis=1), lambda a: np.nanargmax(a * np.nan), lambda a: np.nanmax(a, axis=2),
    lambda a: np.nanvar(a, ddof=1, correction=1), lambda a: np.nanvar(a, dtype=int), lambda a: np.cov(a[None, None]),
    lambda a: np.cov(a, ddof=0.5), lambda a: np.cov(a, fweights=[1, 2]), lambda a: np.cov(a, aweights=[1, 2, -1])])
def test_errors_are_numpys(wrong):
    assert_raises_alike(wrong, np.array([2.0, 1.0, 3.0]))


@pytest.mark.slow
def test_methods_that_interpolate():
    def quantiles(a, q):
        return [np.quantile(a, q, method=m)
                for m in ("hazen", "weibull", "median_unbiased", "interpolated_inverted_cdf")]
    f, q = jit(quantiles), np.array([0.0, 0.01, 0.2, 0.5, 0.9, 0.99, 1.0])
    for n in (2, 7, 40):
        a = data(n, False)[0]
        assert_alike(tuple(f(a, q)), tuple(quantiles(a, q)), **LAST_DIGITS)


def test_other_methods_are_refused():
    with pytest.raises(jitad.UnsupportedError, match="does not interpolate") as e:
        jit(lambda a: np.quantile(a, 0.5, method="nearest"))(np.arange(3.0))
    assert e.value.loc.file == __file__
    with pytest.raises(jitad.UnsupportedError, match="`where` of `np.nanmax`"):
        jit(lambda a: np.nanmax(a, where=a > 1))(np.arange(3.0))


@pytest.mark.slow
def test_results_go_to_an_array_that_is_there():
    @jit
    def f(m):
        out = np.zeros(3)
        np.median(m, axis=0, out=out)
        np.nanmax(m, 0, out)
        return out
    m = np.arange(6.0).reshape(2, 3)
    assert f(m).tolist() == [3.0, 4.0, 5.0]
