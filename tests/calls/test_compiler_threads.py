"""LLVM is used in threads of its own: no handler of a signal raises between its steps, and nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding.ffi as ffi
import numpy as np
import pytest

from jitad import aot, jit
from jitad.compiler_threads import uninterrupted

Calls = list[tuple[str, threading.Thread]]


class Alarm(Exception):
    pass


def waves(x, n):
    s = 0.0
    for i in range(n):
        s += np.sin(x * i).sum()
    return s


@pytest.fixture
def handled() -> Iterator[None]:
    """A handler of SIGUSR1 that raises."""
    def handler(number: int, frame: Any) -> None:
        raise Alarm
    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The calls of LLVM, each with the thread that makes it."""
    seen: Calls = []
    call = ffi._lib_fn_wrapper.__call__

    def noted(self: Any, *args: Any) -> Any:
        seen.append((self._cfn.__name__, threading.current_thread()))
        return call(self, *args)
    monkeypatch.setattr(ffi._lib_fn_wrapper, "__call__", noted)
    return seen


def main_calls(calls: Calls) -> list[str]:
    return [name for name, thread in calls if thread is threading.main_thread()]


def test_the_main_thread_does_not_use_llvm(calls: Calls) -> None:
    compiled = jit(waves, grad="x")
    compiled.grad(np.ones(3), 2)
    assert "sin" in compiled.inspect("llvm", np.ones(3), 2) and compiled.inspect("asm", np.ones(3), 2)
    assert len(calls) > 50 and main_calls(calls) == []


def test_the_main_thread_builds_no_library(calls: Calls, tmp_path: Path) -> None:
    aot.build(tmp_path / "waves.o", [aot.export(waves, "f64[n], i64", grad=0)], emit="obj")
    assert len(calls) > 50
    assert set(main_calls(calls)) <= {"LLVMPY_DisposeModule"}                           # it drops the finished module


def test_a_signal_at_each_call_of_llvm(calls: Calls, handled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler's exception is raised, and the function compiles afterwards."""
    wanted = jit(waves)(np.ones(3), 4)
    count = len(calls)
    call = ffi._lib_fn_wrapper.__call__
    at = -1

    def signalling(self: Any, *args: Any) -> Any:
        result = call(self, *args)
        if len(calls) == at:
            signal.raise_signal(signal.SIGUSR1)
        return result
    monkeypatch.setattr(ffi._lib_fn_wrapper, "__call__", signalling)
    for step in range(1, count, 7):
        compiled = jit(waves)
        at = len(calls) + step
        with pytest.raises(Alarm):
            compiled(np.ones(3), 4)
        assert compiled(np.ones(3), 4) == wanted


def test_what_a_handler_raises_comes_after_the_work(handled: None) -> None:
    done = []

    @uninterrupted
    def work() -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGUSR1)
        done.append(threading.current_thread())
    with pytest.raises(Alarm):
        work()
    assert len(done) == 1 and done[0] is not threading.main_thread()


def test_results_and_errors_of_the_work() -> None:
    assert uninterrupted(lambda a, b=1: a + b)(2, b=3) == 5
    with pytest.raises(ZeroDivisionError) as info:
        uninterrupted(lambda: 1 // 0)()
    assert info.traceback[-1].name == "<lambda>"


_LATE = """
import atexit
import numpy as np
from jitad import jit
atexit.register(lambda: print(jit(lambda x: np.sin(x).sum())(np.zeros(3))))
"""


def test_a_function_compiles_at_the_end_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.0"] and not done.stderr


def test_without_further_threads_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(threading.Thread, "start", start)
    assert uninterrupted(threading.current_thread)() is threading.main_thread()
