"""Cotangents that read a loop's sum: their parts are added behind the loop's reverse sweep, which is its only pass."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jitad
from jitad import jit
from jitad.ir.text import parse_module
from jitad.passes.analysis.loops import LoopForest


def discounted(rate, scale, bound, x):
    total = 0.0
    for i in range(len(x)):
        t = x[i]
        while t > bound:
            t *= 0.5 * scale
        total += t * scale
    return math.exp(-rate) * total / (len(x) + 1)


def likelihood(rate, scale, bound, x):
    total, variance = 0.0, scale * scale                   # the cotangent of the variance goes on to that of the scale
    for i in range(len(x)):
        t = x[i]
        while t * variance > bound:
            t *= 0.4 * scale
        total += t * variance * rate
    return -0.5 * total / variance - len(x) * math.log(scale)


def two_sums(rate, scale, bound, x):
    first, second = 0.0, 0.0
    for i in range(len(x)):
        t = x[i]
        while t > bound:
            t *= 0.5 * scale
        first += t * rate
        second += t * t
    return first * rate + second * scale * rate + first


def read_by_the_loop(rate, scale, bound, x):
    total = 0.0
    for i in range(len(x)):
        t = x[i]
        while t > bound:
            t *= 0.5 * scale
        total += t * rate
    return math.sqrt(total * total + 1.0) * rate           # what each iteration receives depends on the total


def on_one_path(rate, scale, bound, x):
    total = 0.0
    for i in range(len(x)):
        t = x[i]
        while t > bound:
            t *= 0.5 * scale
        total += t
    return total * rate if rate > 0.5 else total * scale * rate


PASSES = {discounted: 1, likelihood: 1, two_sums: 1, read_by_the_loop: 2, on_one_path: 2}
NUMBERS = (0.7, 0.9, 0.3)


@pytest.mark.long
@pytest.mark.parametrize("f", PASSES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 9])
def test_gradient_is_that_of_differences_and_of_the_interpreter(f, n):
    args = (*NUMBERS, np.random.default_rng(n).uniform(0.0, 3.0, n))
    expected = [(f(*_moved(args, k, 1e-6)) - f(*_moved(args, k, -1e-6))) / 2e-6 for k in range(2)]
    by_definition = jitad.interpret(lambda *a: jitad.grad(f, (0, 1))(*a), *args)
    for parallel in (False, True):
        value, gradient = jit(f, grad=(0, 1), parallel=parallel).value_and_grad(*args)
        assert value == pytest.approx(f(*args), rel=1e-12)
        assert gradient == pytest.approx(expected, rel=1e-6, abs=1e-8)
        assert gradient == pytest.approx(by_definition, rel=1e-12)


@pytest.mark.parametrize("f", PASSES, ids=lambda f: f.__name__)
def test_passes_over_the_rows(f):
    compiled = jit(f, grad=(0, 1))
    compiled.value_and_grad(*NUMBERS, np.ones(3))
    assert _loops(compiled.value_and_grad) == PASSES[f]


def test_cotangent_of_an_array():
    def weighted(w, x):
        total = 0.0
        for i in range(len(x)):
            t = x[i]
            while t > 0.3:
                t *= 0.5 * w[1]
            total += t * w[0]
        return math.exp(-w[0]) * total * w[2]

    w, x = np.array([0.7, 0.9, 1.3]), np.random.default_rng(3).uniform(0.0, 3.0, 9)
    compiled = jit(weighted, grad=True)
    value, gradient = compiled.value_and_grad(w, x)
    steps = 1e-6 * np.eye(3)
    assert value == pytest.approx(weighted(w, x), rel=1e-12)
    assert gradient == pytest.approx([(weighted(w + h, x) - weighted(w - h, x)) / 2e-6 for h in steps], rel=1e-6)
    assert _loops(compiled.value_and_grad) == 1


def test_second_derivative():
    def slope(rate, scale, bound, x):
        return jitad.grad(discounted)(rate, scale, bound, x)

    args = (*NUMBERS, np.random.default_rng(5).uniform(0.0, 3.0, 9))
    expected = [(slope(*_moved(args, k, 1e-6)) - slope(*_moved(args, k, -1e-6))) / 2e-6 for k in range(2)]
    assert jit(slope, grad=(0, 1)).grad(*args) == pytest.approx(expected, rel=1e-6)


def _moved(args, k, step):
    return (*args[:k], args[k] + step, *args[k + 1:])


def _loops(method):
    """The number of loops in the derivative that are in no other loop."""
    module = parse_module(method.inspect("adjoint"))
    derivative = next(func for name, func in module.functions.items() if ".vjp." in name)
    return len(LoopForest(derivative).roots)
