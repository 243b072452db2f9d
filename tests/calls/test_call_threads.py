"""Calls from several threads, nested calls, interrupts, deep recursion; memory and the speed of a call."""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jitad.lowering.python import callable as native_callable
from jitad.lowering.python.unbox import Argument

from jitad import jit
from jitad.calling.handle import Handle
from jitad.ir.graph import Module
from jitad.ir.types import F64, I64, Array
from jitad.pytree import LEAF, flatten
from tests.calls import entries
from tests.calls.entries import enter, function, leaf


def counted_loop() -> Module:
    """``s = sin(s) + 1``, n times."""
    module, func, b = function("i64", "f64")
    head, before, after = func.new_block("head"), func.new_block("before"), func.new_block("after")
    it, s, out = head.add_param(I64), head.add_param(F64), after.add_param(F64)
    b.branch(b.lt(0, func.params[0]), before, [], after, [b.const(0.0)])
    b.at(before)
    b.jump(head, [b.const(0), b.const(0.0)])
    b.at(head)
    following, total = b.add(it, 1), b.add(b.sin(s), 1.0)
    b.branch(b.lt(following, func.params[0]), head, [following, total], after, [total])
    b.at(after)
    b.ret([out])
    return module


def endless_loop() -> Module:
    """``while x > 0: x = x + 1``."""
    module, func, b = function("f64", "f64")
    head, after = func.new_block("head"), func.new_block("after")
    x = head.add_param(F64)
    b.jump(head, func.params)
    b.at(head)
    following = b.add(x, 1.0)
    b.branch(b.gt(following, 0.0), head, [following], after, [])
    b.at(after)
    b.ret([x])
    return module


def depth() -> Module:
    """``r(n) = 0 if n <= 0 else r(n - 1) + 1``."""
    module, func, b = function("i64", "i64")
    stop, go, back = func.new_block("stop"), func.new_block("go"), func.new_block("back")
    below = back.add_param(I64)
    b.branch(b.le(func.params[0], 0), stop, [], go, [])
    b.at(stop)
    b.ret([b.const(0)])
    b.at(go)
    b.call("f", [b.sub(func.params[0], 1)], back)
    b.at(back)
    b.ret([b.add(below, 1)])
    return module


def in_thread(fun: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(fun()))
    thread.start()
    thread.join()
    return results[0]


def test_deep_recursion_raises_in_every_thread() -> None:
    f = enter(depth())

    def both() -> int:
        with pytest.raises(RecursionError):
            f(10**9)
        return int(f(1000))
    assert both() == in_thread(both) == both() == 1000


@pytest.mark.slow
def test_threads_run_side_by_side() -> None:
    """While one thread runs a long body, another makes progress."""
    f = enter(counted_loop())
    ticks = 0
    worker = threading.Thread(target=f, args=(30_000_000,))
    worker.start()
    while worker.is_alive():
        ticks += 1
        time.sleep(0.001)
    assert ticks > 10


def test_many_threads_get_their_own_memory() -> None:
    module, func, b = function("f64[?] f64", "f64[?]")
    b.ret([b.mul(b.mul(func.params[0], func.params[1]), func.params[1])])
    f = enter(module)
    wrong: list[float] = []

    def work(k: float) -> None:
        a = np.arange(5000.0)
        for _ in range(50):
            if not np.array_equal(f(a, k), a * k * k):
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_list_emptied_by_another_thread_does_no_harm() -> None:
    module, func, b = function("f64[?] f64", "f64")
    b.ret([b.sum(b.sin(b.mul(func.params[0], func.params[1])), axes=(0,))])
    structure = flatten([1.0])[1]
    f = enter(module, [Argument(0, structure, (leaf(Array(F64, (None,))),)), Argument(1, LEAF, (leaf(F64),))])
    for _ in range(5):
        box = [np.ones(300_000)]
        worker = threading.Thread(target=lambda box=box: f(box, 0.5))
        worker.start()
        while worker.is_alive():
            box.clear()


class Alarm(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_signals_interrupt_a_loop_without_end() -> None:
    def handler(number: int, frame: Any) -> None:
        raise Alarm
    f = enter(endless_loop())
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Alarm):
                f(1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert f(-5.0) == -5.0


def test_a_handler_may_call_compiled_code() -> None:
    loop, short = enter(endless_loop()), enter(depth())
    seen: list[int] = []

    def handler(number: int, frame: Any) -> None:
        seen.append(short(100))
        raise Alarm
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            loop(1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [100]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_process_goes_on_with_memory_of_its_own() -> None:
    module, func, b = function("f64[?]", "f64[?]")
    b.ret([b.cumsum(func.params[0], axis=0)])
    f = enter(module)
    a = np.ones(20_000)
    assert f(a)[-1] == 20_000.0
    child = os.fork()
    if child == 0:
        os._exit(0 if all(f(a)[-1] == 20_000.0 for _ in range(3)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert f(a)[-1] == 20_000.0


def test_memory_error_when_the_arena_is_full() -> None:
    module, func, b = function("i64", "f64")
    b.ret([b.sum(b.cumsum(b.fill(b.const(1.0), func.params[0]), axis=0), axes=(0,))])
    f = enter(module)
    assert f(3) == 6.0
    with pytest.raises(MemoryError):
        f(2**45)
    assert f(3) == 6.0


# --- the object -----------------------------------------------------------------------------------

def test_the_object_is_collected_with_its_cycle() -> None:
    class Owner:
        pass
    owner = Owner()
    made = native_callable.make(lambda self, *args: args, owner)
    owner.made, made.attribute = made, owner                                     # type: ignore[attr-defined]
    gone = weakref.ref(made), weakref.ref(owner)
    assert made(1, 2) == (1, 2) and vars(made) == {"attribute": owner}
    del made, owner
    gc.collect()
    assert gone[0]() is None and gone[1]() is None


def test_an_empty_object_refuses_calls() -> None:
    with pytest.raises(TypeError):
        native_callable.Jit()()
    with pytest.raises(TypeError):
        type("Sub", (native_callable.Jit,), {})


def test_nothing_leaks() -> None:
    module, func, b = function("f64[?] f64", "f64[?] f64")
    b.ret([b.mul(func.params[0], func.params[1]), func.params[1]])
    f = enter(module, result=flatten((1, 2))[1])
    a = np.arange(50.0)
    for _ in range(100):
        f(a, 2.0)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(2000):
        f(a, 2.0)
    assert sys.getallocatedblocks() - before < 50


# --- speed: bench/compiler/call_overhead.py measures the cost of a call; this is its composition -------------------

def entry_code() -> tuple[int, int]:
    """The numbers of instructions and of calls in the last entry, including rare paths."""
    found = re.search(r"^entry:\n(.*?)^\.Lfunc_end", entries._kept[-1][0].asm, re.MULTILINE | re.DOTALL)
    assert found is not None
    code = re.findall(r"^\t([a-z]\w*)", found[1], re.MULTILINE)
    return len(code), sum(name.startswith("call") for name in code)


def test_a_scalar_call_is_a_few_instructions() -> None:
    """One call on the usual path: the function that makes the float."""
    module, func, b = function("f64", "f64")
    b.ret([b.mul(func.params[0], func.params[0])])
    f = enter(module)
    assert f(0.5) == 0.25
    instructions, calls = entry_code()
    assert instructions <= 85 and calls <= 5


def test_arrays_are_taken_apart_in_place() -> None:
    module, func, b = function("f64[?] f64[?] f64[?]", "f64")
    x, y, z = func.params
    b.ret([b.sum(b.add(b.mul(x, y), z), axes=(0,))])
    f, x = enter(module), np.arange(8.0)
    assert f(x, x, x) == (x * x + x).sum()
    instructions, calls = entry_code()
    assert instructions <= 300 and calls <= 9          # one is the body, which is not inlined


SMALLEST = """
import threading
import numpy as np
import jitad
from jitad import jit
f = jit(lambda x, k=1.0: np.sum(np.sin(x)) * k, grad=True)
a = np.zeros((3, 3))
out = []
{before}
def work():
    going.wait()
    {work}
    out.append(True)
going = threading.Event()
threading.stack_size(32768)
thread = threading.Thread(target=work)
thread.start()
{after}
going.set()
thread.join()
assert out == [True]
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("work", "before", "after"), [
    ("assert (f.grad(a) == 1.0).all()", "", "assert threading.stack_size() == 32768"),
    ("assert (f.grad(a) == 1.0).all()", "", "threading.stack_size(0)"),
    ("assert f(a.T) == 0.0 and [f(a, k=2.0) for _ in range(12)] == [0.0] * 12", "f(a)", "threading.stack_size(0)"),
    ("assert f.inspect('asm') and f.visualize(a) and jitad.spec('f64')", "f(a)", ""),
    ("assert jitad.interpret(f, a) == 0.0 and (jitad.grad(lambda x: (x * x).sum())(a) == 0.0).all()", "", ""),
    ("with jitad.debug_nondifferentiable() as report: jit(np.abs)(a)\n    assert report[0].count == 9", "", ""),
])
def test_compiling_in_a_thread_with_the_smallest_stack(work: str, before: str, after: str) -> None:
    """In a process of its own, since a crash would end this one, and the compiler must not be imported yet."""
    path = Path(tempfile.mkdtemp()) / "program.py"
    path.write_text(SMALLEST.format(work=work, before=before, after=after))
    subprocess.run([sys.executable, "-W", "ignore", str(path)], check=True, timeout=60)


def test_what_only_a_list_keeps_alive_is_held_through_tuples() -> None:
    """Layers as a list of tuples, one of which another thread replaces during the call."""
    @jit
    def total(layers, n):
        weights, bias = layers[0]
        s = 0.0
        for _ in range(n):
            for i in range(len(weights)):
                s += weights[i] * bias["b"]
        return s
    layers = [(np.ones(1000), {"b": 1.0})]
    assert total(layers, 2) == 2000.0
    alive, seen = weakref.ref(layers[0][0]), []
    thread = threading.Thread(target=lambda: seen.append(total(layers, 200_000)))
    thread.start()
    time.sleep(0.02)
    layers.clear()
    assert not thread.is_alive() or alive() is not None
    thread.join()
    assert seen in ([2e8], []) and alive() is None


def test_keys_and_properties_may_change_what_is_being_read() -> None:
    """A key's ``__hash__`` and a property are user code: they run while the arguments are read."""
    values: list[Any] = []
    armed = False

    def disarm() -> None:
        nonlocal armed
        if armed:
            armed = False
            values.clear()
            for size in range(1, 40):
                [0.5] * size

    class Key:
        def __hash__(self) -> int:
            disarm()
            return 1

    @dataclasses.dataclass
    class Record:
        x: float
    Record.x = property(lambda self: (disarm(), self._x)[1],  # type: ignore[assignment, attr-defined]
                        lambda self, value: setattr(self, "_x", value))
    key = Key()
    first = jit(lambda v: v[1][0].sum() + v[1][1])
    for head in ({key: 1.0}, Record(2.0)):
        for turn in range(6):
            values[:] = [head, [np.ones(300), 2.0]]
            armed = turn > 1
            assert first(values) == 302.0


STALE = """
import threading, numpy as np
from jitad import jit
def nested(n, x):
    return x if n <= 0 else np.sin(nested(n - 1, x)) * 1.5
f = jit(nested)
def run(n):
    try:
        f(n, 0.5)
    except RecursionError:
        print("refused")
def thread(size, work, *args):
    threading.stack_size(size)
    t = threading.Thread(target=work, args=args)
    t.start()
    t.join()
thread(1 << 29, run, 5)
for _ in range(4):
    thread(1 << 23, int)
thread(100 << 20, run, 10**7)
"""

LATE = """
import builtins, os, numpy as np
from jitad import jit
@jit
def f(a):
    b = a
    for i in range(3):
        b = (b @ a) * 0.5
    return b.sum()
f(np.ones((40, 40)))
class Last:
    call, a = staticmethod(f), np.ones((40, 40))
    def __del__(self):
        os.write(1, b"%d " % self.call(self.a))
builtins.one, np.two = Last(), Last()
np.kept = jit(lambda x: x * 2.0)(np.ones(1 << 18))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("program", "wanted"), [(STALE, "refused"), (LATE, "12800000 12800000")])
def test_at_the_end_of_threads_and_of_the_interpreter(tmp_path: Path, program: str, wanted: str) -> None:
    """A thread may have the address of an earlier one with a larger stack; destructors run after modules are gone."""
    file = tmp_path / "program.py"
    file.write_text(program)
    ran = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and ran.stdout.strip() == wanted, ran.stderr


def test_a_handler_may_call_for_the_first_time_while_another_function_wakes() -> None:
    with Handle._lock:
        assert jit(lambda x: x + 1.0)(1.0) == 2.0
