"""Counts loops by ``while`` whatever they step by; they end, raise and go on for ever as in Python."""

import signal

import numpy as np
import pytest

from jitad import check_grads, jit
from jitad.ir.text.parser import parse_module
from jitad.passes.analysis.loops import counted, loop_forest

LARGE = 2**62
RNG = np.random.default_rng(0)


def marked(n, k):
    """Sets every ``k``-th of eight elements from the second on."""
    a = np.zeros(8)
    j = 1
    while j < n:
        a[j] = j
        j += k
    return a, j


def down(x, start, k):
    s = 0.0
    while start >= 0:
        s = s * 2 + x[start]
        start -= k
    return s


def outcome(f, *args):
    try:
        return str(f(*args))
    except IndexError as error:
        return str(error)


@pytest.mark.parametrize("k", [-3, -1, 1, 2, 7, LARGE])
def test_steps_known_at_run_time(k):
    assert all(outcome(jit(marked), n, k) == outcome(marked, n, k) for n in (1, 5, 8, 9))
    x = np.arange(1.0, 9.0)
    if k > 0:
        assert all(outcome(jit(down), x, start, k) == outcome(down, x, start, k) for start in (-1, 0, 5, 7, 8))


def test_a_loop_that_never_ends_is_interrupted():
    def refuse(*_):
        raise KeyboardInterrupt

    f = jit(marked)
    f(8, 1)
    before = signal.signal(signal.SIGALRM, refuse)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            f(8, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def every_other(x):
    s, i = 0.0, 1
    while i < len(x) - 1:
        s += x[i - 1] * x[i] * x[i + 1]
        i += 2
    return s


def every_k(x, k):
    s, i = 0.0, 0
    while i < len(x):
        s += np.exp(-x[i] * x[i])
        i += k
    return s


def small_products(a):
    s, i = np.zeros((3, 3)), 0
    while i < 3:
        j = 0
        while j < 3:
            k = 0
            while k < 3:
                s[i, j] += a[i, k] * a[k, j]
                k += 1
            j += 1
        i += 1
    return s[0, 1] * s[2, 2]


def small_products_of_many(many):
    s, t = 0.0, 0
    while t < len(many):
        s += small_products(many[t])
        t += 1
    return s


def loops(function, *args):
    """The loops, counted or not, that are differentiated."""
    module = parse_module(jit(function).inspect("adjoint", *args))
    return [counted(loop) for func in module.functions.values() for loop in loop_forest(func).loops]


@pytest.mark.parametrize("function, args", [(every_other, ()), (every_k, (3,))])
def test_loops_that_step_are_counted(function, args):
    x = RNG.normal(size=31)
    check_grads(lambda x: function(x, *args), (x,), order=1)
    found = loops(function, x, *args)
    assert found and None not in found


def test_small_nests_by_while_are_unrolled():
    many = RNG.normal(size=(4, 3, 3))
    check_grads(small_products_of_many, (many,), order=1)
    assert len(loops(small_products_of_many, many)) == 1
