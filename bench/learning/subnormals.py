"""The Gaussian mixture's gradient where most weights are subnormal numbers, and where none is.

The problems differ in the components' log weights alone: all but one component lie ``GAP`` below it at each point, so
their weights are about ``exp(-GAP)``.  Adjoints are products with these weights.  Processors that leave subnormal
numbers to microcode take many times longer for them; ``flush_subnormals`` takes them for zero.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.case import FAST, OURS, Bench, Case
from bench.learning.gmm import in_jax, in_torch
from bench.peers.common import add_c
from examples.gmm import Mixture, Prior, gmm_objective
from jitad import jit

TITLE = "Subnormal numbers: the Gaussian mixture's gradient"
GAP = {"ordinary weights": 500.0, "subnormal weights": 725.0}
FLAVOURS: dict[str, dict[str, bool]] = {
    OURS: {}, "jitad flush_subnormals": {"flush_subnormals": True}, FAST: {"fastmath": True}}


def problem(gap: float, points: int, components: int = 25, d: int = 32) -> tuple[Mixture, np.ndarray, Prior]:
    """Components close to one another, the first of which has the largest weight at every point."""
    rng = np.random.default_rng(0)
    alphas = np.where(np.arange(components) == 0, 0.0, -gap)
    icf = rng.normal(size=(components, d + d * (d - 1) // 2)) * 1e-3
    mixture = Mixture(alphas, rng.normal(size=(components, d)) * 0.1, icf)
    return mixture, rng.normal(size=(points, d)), Prior(1.0, 0)


def cases(bench: Bench) -> Iterator[Case]:
    for kind, gap in GAP.items():
        case = bench.case("mixture d32_K25, gradient", kind, rtol=1e-8)
        yield gradient(case, problem(gap, 100 if bench.quick else 1000))


def gradient(case: Case, made: tuple[Mixture, np.ndarray, Prior]) -> Case:
    mixture, points, prior = made
    (n, d), K, bars = points.shape, len(mixture.alphas), [np.empty_like(a) for a in mixture]
    for label, options in FLAVOURS.items():
        f = jit(gmm_objective, grad=True, **options)
        case.add(label, lambda f=f: lambda: f.value_and_grad(*made))
    inputs, work = (d, K, n, *mixture, points, float(prior.gamma), prior.m), np.empty(2 * K * d + d + K)
    add_c(case, "gmm", "gmm_gradient", *inputs, *bars, work, results=lambda v: (v, bars), flavours={"C": ()})
    case.add("JAX", lambda: in_jax(*made, True))
    case.add("PyTorch", lambda: in_torch(*made, True))
    return case
