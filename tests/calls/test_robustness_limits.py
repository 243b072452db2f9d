"""Limits of the machine: recursion, memory, sizes, interrupts.  Compiled code raises at the user's line and goes on."""

from __future__ import annotations

import math
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from jitad import grad, jit, unroll


def nested(n, x):
    return x if n <= 0 else np.sin(nested(n - 1, x)) * 1.5


def sines(x, w, n):
    return x if n == 0 else np.sin(sines(x, w, n - 1)) + w


def even(n, a):
    return a.sum() if n <= 0 else odd(n - 1, a * 0.5)


def odd(n, a):
    return 3 * a.sum() if n <= 0 else even(n - 1, a + 1)


def squares(n, x):
    a = np.full(n, x)
    b = np.cumsum(a * a)
    return b[n - 1]


def last_frame(error: BaseException) -> traceback.FrameSummary:
    return traceback.extract_tb(error.__traceback__)[-1]


# --- recursion ----------------------------------------------------------------------------------------

DEEP = [(jit(nested, grad="x"), 0.5), (jit(even, grad="a"), np.ones(3))]


def recurses() -> list[str]:
    """Deep recursion of values and gradients, a small one after each."""
    seen = []
    for compiled, x in DEEP:
        for call in (compiled, compiled.grad):
            small = call(5, x)
            for depth in (10**6, 10**12)[:1 if compiled is DEEP[1][0] else 2]:
                try:
                    assert np.all(np.isfinite(call(depth, x)))
                except (RecursionError, MemoryError) as e:
                    seen.append(type(e).__name__)
                    assert last_frame(e).filename == __file__
                assert np.array_equal(call(5, x), small)
    return seen


def in_threads(work: Callable[[], None], stack: int, count: int = 1) -> None:
    """Runs ``work`` in new threads with stacks of this size."""
    before = threading.stack_size(stack)
    threads = [threading.Thread(target=work) for _ in range(count)]
    try:
        for t in threads:
            t.start()
    finally:
        threading.stack_size(before)
    for t in threads:
        t.join()


@pytest.mark.slow
def test_recursion_a_million_deep() -> None:
    assert "RecursionError" in recurses()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 19, 1 << 26])
def test_recursion_in_threads_of_any_stack(size: int) -> None:
    recurses()                                                        # compiled
    seen: list[list[str]] = []
    in_threads(lambda: seen.append(recurses()), size, 2)
    assert len(seen) == 2 and all("RecursionError" in s for s in seen)


def test_frames_of_a_recursion_are_small() -> None:
    """A function of two numbers, with its gradient, recurses 100,000 deep in the usual eight megabytes."""
    found: list[Any] = []

    def work() -> None:
        found.append(jit(sines, grad="w").value_and_grad(0.5, 0.1, 100_000))
    in_threads(work, 8 << 20)
    ((value, slope),) = found
    loop, along = 0.5, 0.0
    for _ in range(100_000):
        loop, along = math.sin(loop) + 0.1, along * math.cos(loop) + 1.0
    assert value == pytest.approx(loop, rel=1e-12) and slope == pytest.approx(along, rel=1e-9)


@pytest.mark.slow
def test_a_thread_with_too_little_stack_for_any_recursion() -> None:
    recurses()
    seen: list[Any] = []

    def work() -> None:
        try:
            seen.append(DEEP[0][0](5, 0.5))
        except RecursionError as e:
            seen.append(e)
    in_threads(work, 32768)
    assert len(seen) == 1


def test_a_recursion_error_names_the_function() -> None:
    with pytest.raises(RecursionError, match="in compiled code") as info:
        DEEP[0][0](10**12, 0.5)
    assert last_frame(info.value).name == "nested"


def large_frame(n, x):
    """More small arrays than fit into the part of the stack that is left for functions."""
    if n <= 0:
        return x
    parts = [np.zeros(64) for _ in range(280)]
    for part in parts:
        part[n % 64] = x
    y = large_frame(n - 1, x * 0.5)
    for part in parts:
        y = y + part[(n * 7) % 64]
    return y


@pytest.mark.slow
def test_recursion_with_large_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_OPT", "0")
    compiled = jit(large_frame)
    assert compiled(5, 1.0) == large_frame(5, 1.0)
    with pytest.raises(RecursionError):
        compiled(10**6, 1.0)


# --- memory and sizes -----------------------------------------------------------------------------------

def test_a_memory_error_names_the_line() -> None:
    compiled = jit(squares, grad="x")
    for call in (compiled, compiled.grad):
        for n in (10**13, 2**62, 2**63 - 1):
            with pytest.raises(MemoryError) as info:
                call(n, 2.0)
            assert (last_frame(info.value).filename, last_frame(info.value).name) == (__file__, "squares")
        assert call(3, 2.0) == 12.0


SIZES: list[tuple[Callable[..., Any], type[Exception]]] = [
    (lambda n: np.zeros(-n), ValueError), (lambda n: np.ones((2, -n)).sum(), ValueError),
    (lambda n: np.zeros(n * 10**14)[0], MemoryError), (lambda n: np.zeros((n * 2**40, 2**30)).sum(), MemoryError),
    (lambda n: np.full((n * 2**32, n * 2**32), 1.0).sum(), MemoryError),
    (lambda n: (np.zeros(n * 10**14) * 2.0).sum(), MemoryError), (lambda n: np.eye(n * 2**40).sum(), MemoryError),
    (lambda n: np.arange(n * 10**17).sum(), MemoryError), (lambda n: np.linspace(0, 1, -n), ValueError),
    (lambda n: np.linspace(0, 1, n * 10**17).sum(), MemoryError), (lambda n: np.ones(6).reshape(n, 0), ValueError),
    (lambda n: np.repeat(np.ones(3), n * 2**61).sum(), MemoryError), (lambda n: np.identity(-n), ValueError),
    (lambda n: np.tile(np.ones(3), n * 2**62).sum(), MemoryError), (lambda n: np.empty(n * 2**62).shape, MemoryError),
    (lambda n: np.pad(np.ones(3), n * 2**62 - 1 + 2**62), MemoryError),
    (lambda n: np.broadcast_to(1.0, n * 2**62).shape, MemoryError),
    (lambda n: np.repeat(np.ones(4), n * 2**62).shape, MemoryError),
    (lambda n: np.broadcast_to(1.0, (2**40, 2**40)).reshape(-1)[n], MemoryError),
    (lambda n: np.diag(np.ones(3), n * 2**62 - 1 + 2**62), MemoryError),
    (lambda n: np.zeros(0).reshape(n * 2**62, 4)[5, n], ValueError),         # products that are right modulo 2**64
    (lambda n: np.ones(6).reshape(n * 9, 6148914691236517206)[5, n], ValueError),
    (lambda n: np.ones(8).reshape(n * 2**62 + 2, 4)[5, n], ValueError),
    (lambda n: np.zeros(0).reshape(n * 2**32, 2**32, -1), ValueError),
    (lambda n: np.zeros(0).reshape(n - 1, -1), ValueError),
]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
def test_sizes_near_the_largest(dtype: Any) -> None:
    fused, kept = jit(lambda n: np.zeros(n, dtype).sum()), jit(lambda n: np.zeros(n, dtype))
    assert fused(2**44 - 1) == 0
    for n in (2**44, 2**60 - 1, 2**60, 2**61, 2**62 + 1, 2**63 - 1):
        for call in (fused, kept):
            with pytest.raises(MemoryError):
                call(n)
    with pytest.raises(MemoryError):
        jit(lambda n: np.zeros((n, n), dtype).sum())(2**32)


@pytest.mark.parametrize(("fun", "kind"), SIZES, ids=range(len(SIZES)))
def test_sizes_without_sense(fun: Callable[..., Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        jit(fun)(1)


def test_numbers_at_the_end_of_their_range() -> None:
    def count(start, stop, step):
        n = 0
        for _ in range(start, stop, step):
            n += 1
        return n
    compiled = jit(count)
    for args in ((0, 2**63 - 1, 2**62), (0, -2**63, -2**62), (-2**62, 2**62 - 1, 2**61), (0, 10, 3), (9, 0, -3),
                 (5, 5, 2)):
        assert compiled(*args) == len(range(*args))
    length = jit(lambda n: n.bit_length())
    assert [length(n) for n in (-2**63, 1 - 2**63, 2**63 - 1, -5, -4, -1, 0, 1)] == [64, 63, 63, 3, 3, 1, 0, 1]


# --- interrupts -----------------------------------------------------------------------------------------

class Alarm(Exception):
    pass


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """A context that raises ``Alarm`` after this time, and again each second: one in a ``__del__`` is lost."""
    def handler(number: int, frame: Any) -> None:
        raise Alarm
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def steps(n, x):
    s = 1.0
    for _ in range(n):
        s = np.sin(s * x)
    return s


def until(n, x):
    while x > 0 and n > 9:
        x = x + 1e-300
    return x


def table(n, x):
    s = 0.0
    for i in range(n):
        for j in range(n):
            s += x * j * i
    return s


def inner_sines(n, x):
    s = 1.0
    for _ in range(3):
        for _ in range(n):
            s = np.sin(s * x)
    return s


def inner_walk(n, x):
    s = 0.0
    for i in range(3):
        k = i
        while k < n and s < 1e300:
            s += x
            k += 1
    return s


def inner_array(n, x):
    s = 0.0
    for i in range(3):
        s += (np.arange(n) * (x + i)).sum()
    return s


def fused(n, x):
    return (np.arange(n) * x).sum()


def grid(n, x):
    a = np.arange(n) * x
    return (a.reshape(-1, 1) * a).max()


def large_arrays(n, x):
    a = np.linspace(0.0, x, 10**6)
    for _ in range(n):
        a = np.sin(a)
    return a.sum()


def doubling(n, x):
    return x if n <= 0 else doubling(n - 1, x) + doubling(n - 1, x * 1.1)


LONG = [(steps, 10**12, True), (until, 10, False), (table, 10**6, True), (inner_sines, 10**12, True),
        (inner_walk, 10**12, False), (inner_array, 10**13, False), (fused, 10**13, False), (grid, 10**7, False),
        (large_arrays, 10**5, False), (doubling, 60, True)]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize(("fun", "n", "gradient"), LONG, ids=[f.__name__ for f, _, _ in LONG])
def test_signals_are_answered(fun: Any, n: int, gradient: bool) -> None:
    compiled = jit(fun, grad="x")
    for call in (compiled, compiled.grad) if gradient else (compiled,):
        before = call(3, 0.5)
        for _ in range(2):
            with pytest.raises((Alarm, MemoryError)), alarm(0.05):
                start = time.thread_time()
                try:
                    call(n, 0.5)
                finally:
                    assert time.thread_time() - start < 3                # of its own work, however busy the machine
        assert call(3, 0.5) == before


@pytest.mark.slow
def test_an_interrupt_while_compiling_leaves_nothing_half_made() -> None:
    """At any moment: the function compiles afterwards."""
    def work(a, b):
        s = 0.0
        for i in range(len(a)):
            s += np.sum(np.tanh(b * a[i])) if a[i] > 0 else a[i] * s
        return s
    a, b = np.array([1.0, -2.0]), np.ones(3)
    wanted = jit(work, grad=True).grad(a, b)
    interrupted = 0
    for k in range(1, 7):
        compiled = jit(work, grad=True)
        try:
            with alarm(0.006 * k):
                compiled.grad(a, b)
        except Alarm:
            interrupted += 1
        assert np.array_equal(compiled.grad(a, b), wanted)
    assert interrupted


@pytest.mark.slow
def test_steps_of_a_range_may_be_longer_than_all_of_it() -> None:
    def steps(a: int, b: int, s: int) -> tuple[int, int]:
        last = count = 0
        for i in range(a, b, s):
            last = i
            count += 1
        return last, count
    most = 2**63 - 1
    fast = jit(steps)
    for a, b, s in ((0, 10, most), (10, 0, -most), (10, 0, -most - 1), (0, most, 2**62), (most - 10, most, 4),
                    (most, 0, -2**62), (0, -most - 1, 3), (0, 15, 16), (0, 16, 16), (0, 17, 16), (16, 0, -16)):
        assert fast(a, b, s) == steps(a, b, s)
        if s >= -most:
            assert jit(lambda a, b, s=s: steps(a, b, s))(a, b) == steps(a, b, s)


@pytest.mark.slow
def test_long_chains_that_are_redone_on_the_way_back() -> None:
    """In a recursive function, values that the reverse sweep needs are saved or recomputed."""
    def last(x: Any, n: int) -> Any:
        if n <= 0:
            return x
        y, k = last(x * 0.5, n - 1), n
        for i in unroll(range(500)):
            k = i - k
        return y * k

    def every(x: Any, n: int) -> Any:
        if n <= 0:
            return x
        y, k, s = every(x * 0.5, n - 1), n, 0.0
        for i in unroll(range(500)):
            k = i - k
            s = s * 0.5 + y * k
        return s
    for f in (last, every):
        assert jit(grad(f))(0.7, 2) == pytest.approx(f(1.0, 2) - f(0.0, 2), rel=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_products_of_sizes_beyond_all_memory(rank):
    """Of arrays that are made in place, by routines that multiply one or two sizes, and of more sizes."""
    f = jit(lambda n: [np.ones((n,) * rank) * k for k in (1.0, 2.0, 3.0, 4.0)])
    for got, want in zip(f(3), (1.0, 2.0, 3.0, 4.0)):
        np.testing.assert_array_equal(got, np.full((3,) * rank, want))
    for n in (2**61, 2**62 + 1, 2**62 // rank, 2**40 if rank > 1 else 2**61 + 1):
        with pytest.raises(MemoryError):
            f(n)
