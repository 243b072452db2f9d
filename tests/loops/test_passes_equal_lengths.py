"""Loops in two versions, one for arrays of equal lengths: same values, same errors, right derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit

RNG = np.random.default_rng(0)


def forest(x: Any, feature: Any, threshold: Any, left: Any, right: Any, leaf: Any) -> float:
    """A walk down each tree, whose nodes have an array for each attribute."""
    total = 0.0
    for i in range(len(x)):
        for t in range(len(feature)):
            node = 0
            while feature[t, node] >= 0:
                node = left[t, node] if x[i, feature[t, node]] <= threshold[t, node] else right[t, node]
            total += leaf[t, node] * x[i, 0]
    return total


def springs(x: Any, y: Any, z: Any, first: Any, second: Any, rest: Any) -> float:
    """Pairs of particles that have an array for each coordinate."""
    energy = 0.0
    for k in range(len(first)):
        i, j = first[k], second[k]
        d = math.sqrt((x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 + (z[i] - z[j]) ** 2)
        energy += 0.5 * (d - rest[k]) ** 2
    return energy


def trees(count: int = 3, nodes: int = 15) -> tuple[Any, ...]:
    inner = nodes // 2
    feature = np.full((count, nodes), -1)
    feature[:, :inner] = RNG.integers(0, 4, (count, inner))
    left, right = (np.tile(2 * np.arange(nodes) + k, (count, 1)) for k in (1, 2))
    return RNG.normal(size=(20, 4)), feature, RNG.normal(size=(count, nodes)), left, right, \
        RNG.normal(size=(count, nodes))


def particles(n: int = 12) -> tuple[Any, ...]:
    first = RNG.integers(-n, n, 40)
    second = (first + RNG.integers(1, n, 40)) % n
    return *RNG.normal(size=(3, n)), first, second, RNG.uniform(0.5, 1.0, 40)


def longer(a: Any, by: int = 2) -> Any:
    """The same, with elements behind the last of each row that nothing reads."""
    return np.concatenate([a, np.zeros((*a.shape[:-1], by), a.dtype)], axis=-1)


@pytest.mark.long
@pytest.mark.slow
def test_trees() -> None:
    args = trees()
    fast = jit(forest, grad=(0, 2, 5))
    assert "^fast" in jit(forest).inspect("optimized", *args)
    for k in range(1, 6):
        wide = [longer(a) if i == k else a for i, a in enumerate(args)]
        for given in (args, wide):
            assert jit(forest)(*given) == pytest.approx(forest(*given), rel=1e-12)
            value, (x_bar, threshold_bar, leaf_bar) = fast.value_and_grad(*given)
            assert value == pytest.approx(forest(*given), rel=1e-12) and not threshold_bar.any()
            leaves = [forest(x[None], *given[1:]) / x[0] for x in given[0]]
            np.testing.assert_allclose(x_bar[:, 0], leaves, rtol=1e-10)
            assert leaf_bar.shape == given[5].shape
    for k, name in ((2, "threshold"), (3, "left"), (4, "right")):
        short = [a[:, :5] if i == k else a for i, a in enumerate(args)]
        with pytest.raises(IndexError) as wanted:
            forest(*short)
        with pytest.raises(IndexError) as found:
            jit(forest)(*short)
        assert str(found.value) == str(wanted.value), name


@pytest.mark.slow
def test_particles() -> None:
    args = particles()
    numbers, rest = (0, 1, 2, 5), args[3:5]
    check_grads(lambda x, y, z, r: springs(x, y, z, *rest, r), (*args[:3], args[5]), modes=("rev",))
    fast = jit(springs, grad=numbers)
    value, bars = fast.value_and_grad(*args)
    assert value == pytest.approx(springs(*args), rel=1e-12)
    positive = [a % 12 if k in (3, 4) else a for k, a in enumerate(args)]
    for k in range(3):                                          # negative indices count from other ends
        wide = [longer(a) if i == k else a for i, a in enumerate(args)]
        assert fast(*wide) == pytest.approx(springs(*wide), rel=1e-12)
        wide = [longer(a) if i == k else a for i, a in enumerate(positive)]
        for bar, other in zip(bars, fast.value_and_grad(*wide)[1]):
            np.testing.assert_allclose(other[:len(bar)], bar, rtol=1e-10, atol=1e-14)
            assert not other[len(bar):].any()
    for k in range(3):
        short = [a[:6] if i == k else a for i, a in enumerate(args)]
        with pytest.raises(IndexError, match="6"):
            fast(*short)


@pytest.mark.slow
def test_sizes_of_what_the_loop_makes() -> None:
    """Sizes that are not known before the loop are not compared there."""
    def rows(x: Any, at: Any) -> float:
        total = 0.0
        for k in range(len(at)):
            part = x[:at[k]]
            total += part[at[k] - 1] * x[at[k] - 1]
        return total
    x, at = np.arange(1.0, 9.0), np.array([2, 8, 1, 5])
    assert jit(rows)(x, at) == rows(x, at)
    check_grads(lambda x: rows(x, at), (x,), modes=("rev",))


@pytest.mark.slow
def test_a_check_on_one_side_says_nothing_of_the_other() -> None:
    """Each side checks its index: nothing is read ahead of the branch."""
    def signed(x: Any, y: Any, at: Any, sign: Any) -> float:
        total = 0.0
        for k in range(len(at)):
            j = at[k]
            if sign[k] > 0:
                total += x[j] * y[j]
            else:
                total -= x[j] + y[j] * sign[k]
        return total
    x, y, sign = RNG.normal(size=(3, 9))
    at = RNG.integers(-9, 9, 9)
    assert jit(signed)(x, y, at, sign) == pytest.approx(signed(x, y, at, sign), rel=1e-12)
    for far in (9, -10, 10 ** 12, -10 ** 12):
        for k in (int(np.argmax(sign)), int(np.argmin(sign))):
            wild = at.copy()
            wild[k] = far
            with pytest.raises(IndexError, match=str(far)):
                jit(signed)(x, y, wild, sign)
