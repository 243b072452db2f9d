"""``jitad.random``: the published vectors, one stream on every target, distributions, and derivatives."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import scipy

import jitad
from jitad import grad, interpret, jit, value_and_grad, vmap
from jitad.errors import UnsupportedError
from jitad.random import Generator, default_rng, philox

# The vectors published with Random123, the authors' library: counter, key, result.
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)


@pytest.mark.parametrize("counter, key, expected", KNOWN)
def test_published_vectors(counter: Any, key: Any, expected: Any) -> None:
    assert philox(counter, key) == expected
    assert interpret(philox, counter, key) == expected
    assert jit(philox)(counter, key) == expected
    many = philox(tuple(np.full(3, c) for c in counter), key)
    assert [list(w) for w in many] == [[w] * 3 for w in expected]


def draws(seed: int, n: int, mu: float) -> Any:
    """A draw from each distribution."""
    rng = Generator(seed)
    total = 0.0
    for _ in range(n):
        total += rng.normal(mu, 2.0) * rng.random() + rng.integers(-3, n + 1)
    first, second = rng.spawn(2)
    names = np.array([10.0, 20.0, 30.0])
    names_twice = np.concatenate((names, names))
    rng.shuffle(names_twice)
    return (total, rng.random(n), rng.normal(mu, np.array([1.0, 2.0])), rng.uniform(-1.0, 3.0, (2, n)),
            rng.exponential(mu, 3), rng.exponential(), rng.integers(10, size=(n, 2)), rng.integers(1, 6, endpoint=True),
            rng.permutation(n), rng.permutation(names), names_twice, first.random(), second.integers(1 << 40),
            rng.fold_in(n).random(2), rng.choice(4), rng.choice(names, 5), rng.choice(n, size=(2, 1), replace=False),
            rng.choice(3, 4, p=np.array([0.2, 0.0, 1.8])), rng.choice(names, p=np.array([0.0, 1.0, 0.0])), rng)


@pytest.mark.slow
def test_one_stream_on_every_target() -> None:
    want = jitad.random.Generator(1 << 40), draws(-12345678901, 4, 1.5)[:-1]
    for run in (jit(draws), lambda *a: interpret(draws, *a)):
        *got, rng = run(-12345678901, 4, 1.5)
        for x, y in zip(got, want[1], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)
            assert np.asarray(x).dtype == np.asarray(y).dtype and np.shape(x) == np.shape(y)
        assert isinstance(rng, Generator) and rng == draws(-12345678901, 4, 1.5)[-1]


def test_a_number_does_not_depend_on_how_draws_are_grouped() -> None:
    whole = Generator(7).random(6)
    rng = Generator(7)
    np.testing.assert_array_equal(whole, [rng.random(), *rng.random(3), *rng.random((2, 1))[:, 0]])
    assert whole[4] == Generator(7, 4).random()
    assert rng.counter == 6


def test_a_generator_goes_in_and_out() -> None:
    @jit
    def step(rng, x):
        rng = rng.copy()
        return x + rng.normal(), rng

    rng, reference = default_rng(3), default_rng(3)
    for _ in range(3):
        value, rng = step(rng, 1.0)
        assert value == pytest.approx(1.0 + reference.normal(), rel=1e-15)
    assert rng == reference


def test_an_argument_is_read_only() -> None:
    @jit
    def draw(rng):
        return rng.random()
    with pytest.raises(UnsupportedError, match=r"(?s)belongs to the caller.*return rng.random\(\).*x.copy\(\)"):
        draw(Generator(1))


def test_numpys_generator_is_refused_with_a_pointer_here() -> None:
    with pytest.raises(UnsupportedError, match="jitad.random.default_rng"):
        jit(lambda x: x + np.random.default_rng(0).normal())(1.0)


def test_without_a_seed_the_system_gives_one() -> None:
    assert default_rng().seed != default_rng().seed
    with pytest.raises(UnsupportedError, match="at each call"):
        jit(lambda: default_rng().random())()


def test_errors() -> None:
    for f in (lambda n: Generator(0).integers(3, n), lambda n: Generator(0).choice(n, 4, replace=False),
              lambda n: Generator(0).choice(n + 5, 4, replace=False, p=np.ones(n + 5))):
        for run in (f, jit(f)):
            with pytest.raises(ValueError, match=r"low >= high|without replacement|either p"):
                run(3)


# --- distributions ----------------------------------------------------------------------------------

N = 200_000


@pytest.mark.slow
@pytest.mark.parametrize("name, cdf", (("random", "uniform"), ("standard_normal", "norm"),
                                       ("standard_exponential", "expon")))
def test_distributions(name: str, cdf: str) -> None:
    x = getattr(Generator(2024), name)(N)
    assert scipy.stats.kstest(x, cdf).pvalue > 1e-3
    assert abs(scipy.stats.pearsonr(x[:-1], x[1:]).statistic) < 4 / math.sqrt(N)
    other = getattr(Generator(2025), name)(N)
    assert abs(scipy.stats.pearsonr(x, other).statistic) < 4 / math.sqrt(N)


def test_uniform_numbers_are_below_one_and_use_all_bits() -> None:
    x = Generator(1).random(N)
    assert x.min() >= 0 and x.max() < 1
    bits = (x * 2.0 ** 53).astype(np.int64)
    share = [(bits >> k & 1).mean() for k in range(53)]
    assert max(abs(s - 0.5) for s in share) < 5 / (2 * math.sqrt(N))


@pytest.mark.parametrize("bound", (6, 1000))
def test_integers_are_equally_likely(bound: int) -> None:
    counts = np.bincount(Generator(5).integers(bound, size=N), minlength=bound)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_integers_of_large_ranges() -> None:
    for low, high in ((-(2 ** 62), 2 ** 62 - 1), (0, 2 ** 33), (5, 6)):
        x = Generator(9).integers(low, high, 2000)
        assert x.min() >= low and x.max() < high
        if high - low > 1:
            assert abs((x.astype(float).mean() - (low + high) / 2) / (high - low)) < 5 / math.sqrt(12 * 2000)
        assert x[3] == Generator(9, 3).integers(low, high)


def test_orders_are_equally_likely() -> None:
    rng = Generator(11)
    counts = Counter(tuple(rng.permutation(3).tolist()) for _ in range(3000))
    assert len(counts) == 6 and scipy.stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_choice_follows_its_probabilities() -> None:
    p = np.array([0.1, 0.0, 0.6, 0.3])
    counts = np.bincount(Generator(4).choice(4, N, p=p), minlength=4)
    assert counts[1] == 0 and scipy.stats.chisquare(counts[p > 0], p[p > 0] * N).pvalue > 1e-3


def test_streams_are_apart() -> None:
    parent = Generator(0)
    streams = [parent.copy(), *parent.spawn(3), *(parent.fold_in(i) for i in range(3))]
    x = np.corrcoef([s.random(20_000) for s in streams])
    assert np.abs(x - np.eye(len(streams))).max() < 5 / math.sqrt(20_000)
    assert len({s.seed for s in streams}) == len(streams)


# --- derivatives ------------------------------------------------------------------------------------

def walk(mu, sigma, n):
    """A random walk whose step depends on the position."""
    rng, x = default_rng(8), 0.3
    for _ in range(n):
        if rng.random() < 0.8:
            x += rng.normal(mu * x, sigma)
    return x + np.sum(rng.normal(mu, sigma, 3) ** 2) + rng.uniform(mu, sigma) + rng.exponential(sigma)


@pytest.mark.slow
@pytest.mark.long
def test_parameters_are_differentiated() -> None:
    jitad.check_grads(lambda mu, sigma: walk(mu, sigma, 6), (0.2, 0.5), modes=("rev",))
    assert jit(walk)(0.2, 0.5, 6) == pytest.approx(walk(0.2, 0.5, 6), rel=1e-13)


def test_dropout() -> None:
    def loss(w, x, rng):
        kept = rng.copy().random(len(x)) < 0.5
        return np.sum(np.where(kept, w * x, 0.0))
    x = np.arange(1.0, 9.0)
    rng = Generator(6)
    kept = rng.copy().random(8) < 0.5
    np.testing.assert_array_equal(grad(loss)(np.ones(8), x, rng), np.where(kept, x, 0.0))
    assert 0 < kept.sum() < 8


def test_expectation_by_samples() -> None:
    """d/dσ E[(μ + σz)²] = 2σ."""
    def second_moment(sigma, seed):
        return np.mean(default_rng(seed).normal(0.0, sigma, 100_000) ** 2)
    value, slope = value_and_grad(second_moment)(1.5, 0)
    assert value == pytest.approx(2.25, rel=0.03) and slope == pytest.approx(3.0, rel=0.03)


# --- batches ----------------------------------------------------------------------------------------

def three_steps(i, mu):
    rng, x = default_rng(3).fold_in(i), mu
    for _ in range(3):
        x += rng.normal(mu, 0.1)
    return x


@pytest.mark.slow
def test_vmap_over_streams() -> None:
    i = np.arange(5)
    got = jit(vmap(three_steps, (0, None)))(i, 1.0)
    slopes = jit(vmap(grad(three_steps, 1), (0, None)))(i, 1.0)
    np.testing.assert_allclose(got, [three_steps(int(k), 1.0) for k in i], rtol=1e-14)
    np.testing.assert_allclose(slopes, np.full(5, 4.0))


@pytest.mark.slow
def test_vmap_over_generators() -> None:
    def draw(rng):
        rng = rng.copy()
        return rng.normal(size=2), rng
    x, after = jit(vmap(draw))(Generator(np.arange(3), np.zeros(3, int)))
    np.testing.assert_allclose(x, [Generator(k).normal(size=2) for k in range(3)], rtol=1e-14)
    np.testing.assert_array_equal(after.counter, [2, 2, 2])
