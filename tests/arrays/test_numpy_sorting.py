"""NumPy's sorting: values, order of equals, NaN; derivatives; refusals."""

from __future__ import annotations

import numpy as np
import pytest

import jitad
from jitad import jit
from tests.alike import assert_alike, assert_raises_alike

SIZES = (1, 2, 3, 4, 5, 6, 7, 9, 31, 100)


@pytest.fixture(autouse=True)
def _compile_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_OPT", "0")
    monkeypatch.setenv("JITAD_DEBUG", "0")               # the traced code is ordinary Python


def sorting(a, m, i, b):
    c = a.copy()
    c.sort()
    m0 = m.copy()
    m0.sort(axis=0)
    return (np.sort(a), np.argsort(a, kind="stable"), np.sort(m, axis=0), np.argsort(m, axis=-1, stable=True),
            np.sort(m, axis=None), np.argsort(m, 0, "stable"), np.sort(i), np.argsort(b, kind="stable"), np.sort(b),
            np.sort(a.astype(np.float32)), np.sort([3, 1, 2]), a.argsort(kind="stable"), c, m0, np.lexsort((i, b, a)),
            np.sort(i.astype(np.int32)[::-1]))


@pytest.mark.long
@pytest.mark.slow
def test_sorting_is_numpys():
    f = jit(sorting)
    for n in SIZES[1:]:
        r = np.random.default_rng(n)
        a, m = r.normal(size=n).round(1), r.normal(size=(n, 3)).round(1)
        i, b = r.integers(-3, 3, n), r.random(n) < 0.5
        assert_alike(f(a, m, i, b), sorting(a, m, i, b))
        a[::3], a[1], m[-1, 1] = np.nan, np.inf, np.nan
        assert_alike(f(a, m, i, b), sorting(a, m, i, b))
    assert_alike(f(a[:0], m[:0], i[:0], b[:0]), sorting(a[:0], m[:0], i[:0], b[:0]))


def test_every_order_of_few():
    """All arrays of up to six numbers out of three, including zeros of both signs."""
    f = jit(np.argsort)
    for n in range(7):
        for k in range(3 ** n):
            a = np.array([(-0.0, 0.0, 1.0)[k // 3 ** j % 3] for j in range(n)])
            if n != 1:
                assert f(a).tolist() == np.argsort(a, kind="stable").tolist()


@pytest.mark.slow
def test_sizes_around_powers_of_two():
    f = jit(lambda a: (np.sort(a), np.argsort(a)))
    r = np.random.default_rng(0)
    for n in (8, 15, 16, 17, 63, 64, 65, 1000, 1023, 1025, 5000):
        for a in (r.normal(size=n), r.integers(0, 9, n).astype(float), np.arange(n) * 1.0, -np.arange(n) * 1.0):
            assert_alike(f(a), (np.sort(a), np.argsort(a, kind="stable")))


def partitions(a, m, k):
    b = a.copy()
    b.partition(k)
    return np.partition(a, k), np.take_along_axis(a, np.argpartition(a, k), 0), np.partition(m, (0, 1), axis=1), b


@pytest.mark.slow
def test_partitions_are_in_order():
    a, m = np.random.default_rng(3).normal(size=12), np.random.default_rng(4).normal(size=(4, 5))
    assert_alike(jit(partitions)(a, m, 3), (np.sort(a), np.sort(a), np.sort(m, axis=1), np.sort(a)))


# --- derivatives ----------------------------------------------------------------------------------

def weighted(m):
    u = np.sort(m, axis=0)
    return (u[0] * np.sin(u[1])).sum()


@pytest.mark.slow
def test_derivatives_go_to_the_elements():
    m = np.random.default_rng(1).normal(size=(4, 3))
    jitad.check_grads(weighted, (m,))
    assert jitad.interpret(weighted, m) == pytest.approx(weighted(m))
    gradient = jitad.grad(lambda a: (np.sort(a) * np.array([1.0, 2.0, 3.0])).sum())
    assert gradient(np.array([2.0, 5.0, 2.0])).tolist() == [1.0, 3.0, 2.0]                # of equals, as they come
    assert_alike(jitad.vmap(gradient)(m), np.stack([np.argsort(np.argsort(row)) + 1.0 for row in m]))


def test_a_gradient_keeps_nothing_of_the_steps():
    text = jit(jitad.grad(lambda a: (np.sort(a) ** 2).sum())).inspect("optimized", np.arange(5.0))
    assert "push" not in text and text.count("add_put") == 1


# --- errors ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("wrong", [
    lambda a: np.sort(a, kind="bogo"), lambda a: np.sort(a, order="x"), lambda a: np.sort(a, axis=1),
    lambda a: np.argsort(a, kind="stable", stable=True), lambda a: np.partition(a, 3),
    lambda a: np.partition(a, [0, -4]), lambda a: np.lexsort(()), lambda a: np.lexsort((a, a[:2])),
    lambda a: np.sort(a[0])])
def test_errors_are_numpys(wrong):
    assert_raises_alike(wrong, np.array([2.0, 1.0, 3.0]))


def test_an_argument_is_not_sorted_in_place():
    with pytest.raises(jitad.UnsupportedError, match="belongs to the caller") as e:
        jit(lambda a: a.sort())(np.arange(3.0))
    assert e.value.loc.file == __file__
