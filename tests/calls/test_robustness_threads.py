"""Many threads, processes and calls: no wrong result, crash, partial state, or growing memory."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitad import jit, pipeline

pytestmark = pytest.mark.any_level

THREADS = 8


def polynomial(x, n):
    s = 0.0 * x
    for i in range(n):
        s = s * 0.5 + np.sin(x * i)
    return s


def energy(p):
    return np.sum(p["w"] * p["w"]) + p["b"] ** 2


def failing(x):
    if x > 1:
        raise ValueError(f"{x} is too large")
    return x * x


def nested(n, x):
    return x if n <= 0 else nested(n - 1, x) * 1.5


def together(work: Callable[[int], None], count: int = THREADS, seconds: float = 60) -> None:
    """Runs ``work(k)`` in many threads at once; raises the first error here."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(k: int) -> None:
        try:
            start.wait()
            work(k)
        except BaseException as e:
            errors.append(e)
    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(seconds)
        assert not t.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


@pytest.mark.slow
def test_one_function_for_all_at_its_first_call() -> None:
    for _ in range(3):
        compiled = jit(polynomial, grad=True)
        wanted = polynomial(0.3, 5)

        def work(k: int, f: Any = compiled, wanted: Any = wanted) -> None:
            for _ in range(50):
                assert abs(f(0.3, 5) - wanted) < 1e-12 and f.grad(0.3, 5) == f.value_and_grad(0.3, 5)[1]
        together(work)
        assert compiled.stats["compilations"] == 1


TURNS = 70                          # for each thread: each rare event occurs at least once


@pytest.mark.slow
def test_everything_at_once() -> None:
    """Calls, new signatures, gradients, errors, recursion, forgetting, collections, functions made and dropped."""
    shared = jit(polynomial, grad=True)
    trees, errors, deep = jit(energy, grad=True), jit(failing), jit(nested, grad="x")

    def work(k: int) -> None:
        kinds: list[Any] = [0.25, np.float32(0.25), np.full(3, 0.25), np.full((2, 2), 0.25), np.full(5000, 0.25)]
        for turn in range(k + 1, k + 1 + TURNS):
            x = kinds[turn % len(kinds)]
            assert np.allclose(shared(x, 4), polynomial(np.asarray(x, float), 4), rtol=1e-5)
            gradient = trees.grad({"w": np.full(k + 1, 2.0), "b": float(turn)})
            assert gradient["w"].tolist() == [4.0] * (k + 1) and gradient["b"] == 2.0 * turn
            with pytest.raises(ValueError, match=f"{k + 2}.0 is too large"):
                errors(k + 2.0)
            assert deep.grad(k, 1.0) == 1.5 ** k
            if turn % 40 == k:
                shared.recompile()
            if turn % 50 == k:
                assert jit(lambda v, c=float(k): v + c)(1.0) == 1.0 + k
            if turn % 60 == k:
                gc.collect()
    together(work)


@pytest.mark.long
@pytest.mark.parametrize("k", range(len(pipeline.PIPELINE)), ids=[name for _, name, _ in pipeline.PIPELINE])
def test_a_pass_that_fails_leaves_nothing_half_made(monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    entries = list(pipeline.PIPELINE)
    stage, name, run_pass = entries[k]

    def broken(*args: Any) -> None:
        run_pass(*args)                                      # after the pass, and not before
        raise RuntimeError("injected")
    entries[k] = stage, name, broken
    check_injected(monkeypatch, pipeline, "PIPELINE", entries)


@pytest.mark.parametrize(("module", "name"), [
    ("frontend.trace.trace_program", "trace"), ("lowering.jit.cpu", "compile_module"), ("lowering.jit.cpu", "Native"),
    ("lowering.python.entry_point", "write"), ("compiler", "Failures")])
def test_a_stage_that_fails_leaves_nothing_half_made(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("injected")
    check_injected(monkeypatch, importlib.import_module(f"jitad.{module}"), name, broken)


def check_injected(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, replacement: Any) -> None:
    """With the replacement, compilation fails each time; without it, the same object works."""
    compiled = jit(energy, grad=True)
    p = {"w": np.ones(2), "b": 3.0}
    with monkeypatch.context() as patch:
        patch.setattr(module, name, replacement)
        for call in (compiled, compiled.grad, compiled):
            with pytest.raises(RuntimeError, match="injected"):
                call(p)
        assert not compiled.signatures
    assert compiled(p) == 11.0 and compiled.grad(p)["b"] == 6.0 and len(compiled.signatures) == 1


# --- processes ----------------------------------------------------------------------------------------

@jit(grad=True)
def module_level(x, n):
    return polynomial(x, n)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_while_other_threads_run() -> None:
    """Compiled code works in the child, and so does compiling, even if a thread of the parent was compiling."""
    wanted, stop = module_level(0.3, 5), threading.Event()

    def busy() -> None:
        while not stop.is_set():
            jit(lambda x: np.sin(x) * x)(1.0)
    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(4):
            child = os.fork()
            if child == 0:
                ok = module_level(0.3, 5) == wanted and nested(3, 1.0) == jit(nested)(3, 1.0)
                os._exit(0 if ok else 1)
            end = time.perf_counter() + 20
            while (status := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.perf_counter() < end:
                time.sleep(0.01)
            if status == (0, 0):
                os.kill(child, 9)
                os.waitpid(child, 0)
            assert status == (child, 0), "the child hangs" if status == (0, 0) else "the child failed"
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_functions_are_sent_to_processes() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(module_level, (0.3, 5)) == module_level(0.3, 5)


# --- memory -------------------------------------------------------------------------------------------

def resident() -> int:
    """The bytes of memory that this process has touched."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def grows(work: Callable[[], Any], count: int) -> int:
    """The growth of memory in bytes over this number of calls, after a tenth as many to warm up."""
    for _ in range(count // 10):
        work()
    gc.collect()
    before = resident()
    for _ in range(count):
        work()
    gc.collect()
    return resident() - before


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_memory_does_not_grow() -> None:
    scalar, tree, errors, deep = jit(polynomial, grad=True), jit(energy, grad=True), jit(failing), jit(nested, grad="x")
    a, p = np.ones(100), {"w": np.ones(50), "b": 2.0}
    kinds: list[Any] = [1, 0.5, np.float32(0.5), np.ones(3)]

    def caught() -> None:
        try:
            errors(2.0)
        except ValueError:
            pass
    assert grows(lambda: scalar(0.5, 2), 1_000_000) < 1 << 20
    for work, count in ((lambda: scalar(a, 3), 50_000), (lambda: tree(p), 50_000), (lambda: tree.grad(p), 50_000),
                        (lambda: scalar.value_and_grad(0.5, 3), 100_000), (lambda: deep.grad(50, 1.0), 10_000),
                        (caught, 5_000), (lambda: [scalar(x, 2) for x in kinds], 10_000)):
        assert grows(work, count) < 2 << 20


COMPILED_AGAIN = """
import gc, os
from jitad import jit

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def compiled(count):
    for _ in range(count):
        assert jit(lambda x: x * 2.0 + 1.0)(1.0) == 3.0
    gc.collect()

compiled(30)
before = resident()
compiled(60)
print(resident() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_memory_does_not_grow_with_compilations(tmp_path: Path) -> None:
    """Functions that are dropped release their compiled code, except what LLVM and caches keep.

    A process of its own: in one that has compiled thousands of functions, the allocator's free lists and LLVM's
    tables grow in steps that have nothing to do with these.
    """
    script = tmp_path / "compiled_again.py"
    script.write_text(COMPILED_AGAIN)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 60 * 100_000
