"""Walks in loops have no safepoints, but count what they have run (``lowering/threads/walks.py``)."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def inserted(x: Any, width: int) -> Any:
    best = np.zeros(width)
    for k in range(len(x)):
        p = width - 1
        while p > 0 and best[p - 1] < x[k]:
            best[p] = best[p - 1]
            p -= 1
        best[p] = x[k]
    return best


def searched(x: Any, t: Any) -> float:
    total = 0.0
    for i in range(len(t)):
        k = 0
        while k < len(x) - 1 and x[k + 1] < t[i]:
            k += 1
        total += x[k] * t[i]
    return total


def sorted_windows(x: Any) -> float:
    """Both loops in the outermost one have few iterations."""
    window, total = np.zeros(5), 0.0
    for i in range(len(x) - 4):
        for k in range(5):
            window[k] = x[i + k]
        for a in range(1, 5):
            v, b = window[a], a - 1
            while b >= 0 and window[b] > v:
                window[b + 1] = window[b]
                b -= 1
            window[b + 1] = v
        total += window[2]
    return total


def unbounded(x: Any, t: Any) -> float:
    """The bound is not tested in each iteration."""
    total = 0.0
    for i in range(len(t)):
        k = 0
        while x[k] < t[i]:
            k = k + 1 if x[k] != 0.5 else 0
        total += k
    return total


X, T = np.linspace(0.0, 1.0, 40), np.random.default_rng(2).uniform(0.0, 1.0, 300)


@pytest.mark.parametrize(("f", "args", "polls"), [
    (inserted, (T, 6), 1), (searched, (X, T), 1), (sorted_windows, (T,), 1), (unbounded, (X, T), 2)],
    ids=lambda p: getattr(p, "__name__", ""))
def test_values_and_polls(f: Callable[..., Any], args: tuple[Any, ...], polls: int) -> None:
    compiled = jit(f)
    np.testing.assert_array_equal(compiled(*args), f(*args))
    body = compiled.inspect("llvm").split("@jitad.entry(")[0]
    assert body.count(" call preserve_mostcc i32 @jitad.ask") == polls


def endless(x: Any, n: int) -> float:
    total = 0.0
    while total >= 0.0:
        p = n
        while p > 0 and x[p] < 2.0:
            p -= 1
        total += p
    return total


@pytest.mark.slow
def test_walks_count() -> None:
    """A million iterations of a loop with long walks would take minutes."""
    compiled, x = jit(endless), np.zeros(10**6)
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt
    before = signal.signal(signal.SIGALRM, stop)
    compiled.inspect("llvm", x, len(x) - 1)
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled(x, len(x) - 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - start < 20.0
