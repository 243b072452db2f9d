"""``flush_subnormals``: subnormal numbers are zero in compiled code, and nowhere else."""

from __future__ import annotations

import ctypes
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from jitad.kernels import blas
from jitad.lowering.jit import cpu
from jitad.lowering.llvm import context, float_state
from jitad.lowering.llvm.emit import Writer
from jitad.lowering.math.options import Options

import jitad
from jitad import jit
from tests.loops.test_parallel import use_threads
from tests.several_threads import little_work

LEAST = 2.0 ** -1074
SMALL = 3e-308                # normal; a tenth of it is subnormal
FLUSHES = float_state.can_flush(cpu.target().triple)
pytestmark = pytest.mark.skipif(not FLUSHES, reason="this processor has no state in which subnormal numbers are zero")


@cache
def routines() -> cpu.Native:
    """The routines of ``float_state`` under names that Python can look up."""
    writer = Writer(cpu.target().triple, cpu.target().layout)
    float_state.define(writer)
    writer.function("get", "define i64 @get() {\n  %x = call i64 @jitad.floats()\n  ret i64 %x\n}\n")
    writer.function("set", "define void @set(i64 %x) {\n  call void @jitad.set_floats(i64 %x)\n  ret void\n}\n")
    return cpu.Native(writer.text(), Options(level=0), ["get", "set"], {})


def state() -> int:
    """The state of this thread, without the flags of exceptions that occurred."""
    found: int = ctypes.CFUNCTYPE(ctypes.c_int64)(routines().address("get"))()
    return found & ~0x3F if cpu.target().triple.startswith("x86") else found


def set_state(value: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(routines().address("set"))(value)


def exact() -> bool:
    """True if Python computes with subnormal numbers."""
    return SMALL * float("0.1") > 0.0 and float("5e-324") * 2.0 == 1e-323


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """Each test leaves the state as it was."""
    before = state()
    yield
    assert state() == before and exact()


def tenth(x: Any) -> Any:
    return x * 0.1


def tenths(n: int, x: float) -> float:
    total = 0.0
    for _ in range(n):
        total += x * 0.1
    return total


# --- values -------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("options", "flushed"), [
    ({}, False), ({"flush_subnormals": False}, False), ({"flush_subnormals": True}, True), ({"fastmath": True}, True),
    ({"flush_subnormals": True, "fastmath": True}, True), ({"flush_subnormals": False, "fastmath": True}, False)])
def test_results_and_operands_are_zero_with_the_option_alone(options: dict[str, Any], flushed: bool) -> None:
    fun, twice, total = jit(tenth, **options), jit(lambda x: x + x, **options), jit(tenths, **options)
    if options != {"fastmath": True}:
        assert fun(SMALL) == (0.0 if flushed else tenth(SMALL))
        assert twice(LEAST) == (0.0 if flushed else 2 * LEAST)
    assert total(3, SMALL) == (0.0 if flushed else tenths(3, SMALL))
    array = np.full(100, SMALL)
    assert np.array_equal(fun(array), np.zeros(100) if flushed else array * 0.1)
    single = np.full(100, 1.2e-38, np.float32)
    assert np.array_equal(fun(single), np.zeros(100, np.float32) if flushed else single * np.float32(0.1))
    assert fun(1.5) == tenth(1.5)


@pytest.mark.slow
def test_calls_of_a_few_operations_are_not_delayed_by_fastmath() -> None:
    """Long straight code is."""
    def many(x: float) -> float:
        for k in jitad.unroll(range(1, 200)):
            x = x * (1.0 + 1e-3 * k) / (1.0 + 1e-3 * math.cos(x))
        return x
    assert jit(tenth, fastmath=True)(SMALL) == tenth(SMALL)
    state_changes = [jit(f, fastmath=True).inspect("llvm", 1.0).count("asm") for f in (tenth, many)]
    assert state_changes == [0, 1]


def test_comparisons_see_zero() -> None:
    def sign(x: float) -> int:
        return 1 if x > 0 else 0
    assert jit(sign)(LEAST) == 1 and jit(sign, flush_subnormals=True)(LEAST) == 0


def steep(x: float) -> float:
    return (x * 1e-200) * (x * 1e-110)


def mixture(means: np.ndarray, points: np.ndarray) -> float:
    """A mixture most of whose weights underflow at each point."""
    total = 0.0
    for x in points:
        terms = np.exp(-0.5 * np.sum((means - x) ** 2, axis=1))
        total += np.log(np.sum(terms) + 1.0)
    return total


@pytest.mark.slow
def test_gradients() -> None:
    plain, flushed = (jit(steep, grad=True, flush_subnormals=flush) for flush in (False, True))
    assert plain.grad(2.0) == pytest.approx(4e-310, rel=1e-6) and flushed.grad(2.0) == 0.0
    assert flushed.value_and_grad(2.0) == (0.0, 0.0)
    assert jitad.grad(flushed)(2.0) == jitad.vjp(flushed, 2.0)[1](1.0)[0] == 0.0      # the option is kept
    norm = [jit(lambda a: np.sqrt(np.sum(a * a)), grad=True, flush_subnormals=flush) for flush in (False, True)]
    at = np.array([3e-160, 4e-160])
    assert norm[0].grad(at) == pytest.approx(np.array([0.6, 0.8]), rel=1e-4) and np.all(np.isinf(norm[1].grad(at)))
    rng = np.random.default_rng(0)
    means, points = rng.normal(size=(20, 4)) * 20, rng.normal(size=(30, 4)) * 20
    value, slopes = jit(mixture, grad=True).value_and_grad(means, points)
    assert np.any(slopes != 0)
    other, flat = jit(mixture, grad=True, flush_subnormals=True).value_and_grad(means, points)
    assert other == pytest.approx(value, rel=1e-14) and np.allclose(flat, slopes, rtol=1e-12, atol=1e-300)


def test_the_default_is_bit_for_bit_the_reference() -> None:
    xs = np.ldexp(np.linspace(1.0, 2.0, 64), -1030)
    for f in (lambda a: np.sum(a * 0.37 + 2 * LEAST), lambda a: np.sum(a[0] * 0.25 - a[1])):
        assert jit(f)(xs) == jitad.interpret(f, xs) != 0


def test_an_option_of_the_outer_function_decides() -> None:
    inner = jit(tenth, flush_subnormals=True)
    assert jit(lambda x: inner(x) + 0.0)(SMALL) == tenth(SMALL)
    assert jit(lambda x: jit(tenth)(x) + 0.0, flush_subnormals=True)(SMALL) == 0.0
    assert jit(lambda x: jit(tenth, flush_subnormals=True)(x) + 0.0)(SMALL) == tenth(SMALL)


# --- the caller's state -------------------------------------------------------------------------------

@pytest.mark.slow
def test_every_way_out_restores_the_state() -> None:
    def picky(x: float, a: np.ndarray, i: int) -> float:
        if x < 0:
            raise ValueError("negative")
        return x * a[i]

    def deep(n: int, x: float) -> float:
        return x if n == 0 else deep(n - 1, x) + tenth(x) * 3.0
    f, g = jit(picky, grad=True, flush_subnormals=True), jit(deep, grad="x", flush_subnormals=True)
    a = np.ones(3)
    for fun in (f, f.grad, f.value_and_grad):
        for args, error in (((1.0, a, 2), None), ((-1.0, a, 2), ValueError), ((1.0, a, 3), IndexError)):
            if error is None:
                fun(*args)
            else:
                with pytest.raises(error):
                    fun(*args)
            assert exact()
    assert g(100, SMALL) == SMALL and exact()
    with pytest.raises(RecursionError):
        g(10 ** 9, 1.0)
    assert exact()
    assert g.grad(10, 1.0) == pytest.approx(4.0) and exact()
    with pytest.raises(MemoryError):
        jit(lambda n: np.sum(np.cumsum(np.zeros(n))), flush_subnormals=True)(1 << 44)


def test_the_state_of_the_caller_is_whatever_it_was() -> None:
    """Another library may have set it."""
    before = state()
    flushing = before | float_state.FLUSH["x86_64" if cpu.target().triple.startswith("x86") else "aarch64"]
    flush, plain = jit(tenth, flush_subnormals=True), jit(tenth)
    flush(1.0), plain(1.0)
    try:
        set_state(flushing)
        results = flush(SMALL), plain(SMALL), state()
    finally:
        set_state(before)
    assert results == (0.0, 0.0, flushing)


def long_walk(n: int, x: float) -> float:
    total = 0.0
    for i in range(n):
        total = total * 0.5 + x * 0.1 + i % 2 * 1e-310
    return total


@pytest.mark.parametrize("parallel", [False, True])
def test_signal_handlers_run_in_the_state_of_the_caller(parallel: bool, three_threads: None) -> None:
    """They call compiled code too, which has its own."""
    other = jit(tenth, flush_subnormals=True)
    other(1.0)
    seen: list[Any] = []

    def handler(*_: Any) -> None:
        seen.append((exact(), other(SMALL), exact()))
        if len(seen) == 3:
            raise KeyboardInterrupt
    f = jit(shared_walk if parallel else long_walk, flush_subnormals=True, parallel=parallel)
    f(10, SMALL)
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            f(10 ** 12, SMALL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(seen) >= 3 and set(seen) == {(True, 0.0, True)}


def shared_walk(n: int, x: float) -> float:
    total = 0.0
    for i in range(n):
        total += np.sin(i * 1e-3) * x * 0.1
    return total


@pytest.mark.slow
def test_python_threads_have_their_own_state() -> None:
    """The lock is released during the long call."""
    f, seen = jit(long_walk, flush_subnormals=True), []
    f(10, SMALL)
    thread = threading.Thread(target=lambda: seen.append((f(200_000_000, SMALL), exact())))
    thread.start()
    checks = []
    while thread.is_alive():
        checks.append(exact())
        time.sleep(0.01)
    thread.join()
    assert all(checks) and checks and seen == [(0.0, True)]


# --- worker threads ----------------------------------------------------------------------------------

@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three threads, even for little work."""
    monkeypatch.setattr(context, "threads", lambda: 3)
    use_threads(3)
    with little_work():
        yield
    use_threads(1)


def rows(a: np.ndarray) -> np.ndarray:
    out = np.zeros(len(a))
    for i in range(len(a)):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * 0.125
        out[i] = total
    return out


@pytest.mark.slow
def test_all_threads_of_a_parallel_loop_flush_and_restore(three_threads: None) -> None:
    a = np.full((64, 300), 1.25 * 2.0 ** -1022)        # an eighth is subnormal and exact: fused additions do not show
    flush, plain = (jit(rows, parallel=True, flush_subnormals=flag) for flag in (True, False))
    for _ in range(3):
        assert np.all(flush(a) == 0.0)
        assert np.array_equal(plain(a), rows_in_order(a))        # on the same threads


def rows_in_order(a: np.ndarray) -> np.ndarray:
    return np.array([sum((float(x) * 0.125 for x in row), 0.0) for row in a])


@pytest.mark.slow
def test_all_threads_of_a_nest_flush_and_restore(three_threads: None) -> None:
    a = np.full(2_000_000, SMALL)
    flush, plain = (jit(lambda a: np.sqrt(a * 0.1), parallel=True, flush_subnormals=flag) for flag in (True, False))
    for _ in range(2):
        assert np.all(flush(a) == 0.0)
        assert np.array_equal(plain(a), np.sqrt(a * 0.1))


@pytest.mark.skipif(blas.library() is None, reason="no BLAS")
def test_blas_runs_with_subnormal_numbers() -> None:
    """It may create threads, which NumPy uses too."""
    a, x = np.full((600, 600), 1e-200), np.full(600, 1e-113)
    got = jit(lambda a, x: a @ x, flush_subnormals=True)(a, x)
    assert np.array_equal(got, a @ x) and np.all((got > 0) & (got < 2e-308))
    text = jit(lambda a, x: a @ x, flush_subnormals=True).inspect("asm", a, x)
    assert text.count("ldmxcsr" if cpu.target().triple.startswith("x86") else "FPCR") >= 4


# --- code for other processors -------------------------------------------------------------------------

def assembly(triple: str, made: Callable[[Writer], None]) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    writer = Writer(triple)
    made(writer)
    unit = llvm.parse_assembly(writer.text())
    return str(llvm.Target.from_triple(triple).create_target_machine().emit_assembly(unit))


def test_the_state_of_other_processors() -> None:
    def made(writer: Writer) -> None:
        float_state.define(writer)
        writer.function("f", "define i64 @f(ptr %p) {\n  %x = call i64 @jitad.callers_floats(ptr %p)\n  ret i64 %x\n}")
    text = assembly("aarch64-unknown-linux-gnu", made)
    assert "FPCR" in text and "msr" in text and "mrs" in text
    assert "xcsr" in assembly("x86_64-unknown-linux-gnu", made)
    other = "powerpc64le-unknown-linux-gnu"
    assert not float_state.can_flush(other) and "mtfs" not in assembly(other, made)


def test_a_processor_without_the_state_refuses_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float_state, "can_flush", lambda triple: False)
    with pytest.raises(jitad.UnsupportedError, match="flush_subnormals"):
        jit(tenth, flush_subnormals=True)(1.0)
    assert jit(tenth, fastmath=True)(SMALL) == tenth(SMALL)
