"""Many variables and arrays of a module, which an entry point reads all together."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.llvm import cpython_layout
from jitad.lowering.planning.run_length import of_function

from jitad import jit
from jitad.calling.dispatch import Dispatcher
from jitad.ir.text import parse_module

NAMES = [f"v{i}" for i in range(8)]


def made(kind: str) -> tuple[Callable[[float], Any], dict[str, Any]]:
    """A function that reads eight variables of a module, floats or arrays, and the module's dict."""
    reads = NAMES if kind == "floats" else [f"{n}[0]" for n in NAMES]
    source = f"def f(x):\n    return {' + '.join(f'{i + 1}.0 * x * {r}' for i, r in enumerate(reads))}\n"
    name = f"<eight {kind}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {n: float(i) if kind == "floats" else np.full(3, float(i)) for i, n in enumerate(NAMES)}
    exec(compile(source, name, "exec"), space)
    return space["f"], space


def moved(space: dict[str, Any]) -> None:
    """The variables in another order, in the same dict."""
    values = [space.pop(n) for n in NAMES]
    space.update(reversed(list(zip(NAMES, values))))


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a new name": lambda s: s.__setitem__("other", 1.0),
    "a value": lambda s: s.__setitem__("v3", 10.0 + 0 * s["v3"]),
    "another order": moved,
    "away and back": lambda s: s.__setitem__("v2", s.pop("v2")),
    "two exchanged": lambda s: s.update(v1=s["v6"], v6=s["v1"]),
    "a larger table": lambda s: s.update({f"other{i}": i for i in range(100)}),
    "a smaller table": lambda s: [s.pop(f"other{i}") for i in range(100)] and s.update({"last": 1}),
    "the last one away, another there": lambda s: (s.popitem(), s.__setitem__("more", 2.0)),
    "a value again": lambda s: s.__setitem__("v7", 3.0 + s["v7"]),
}


@pytest.mark.parametrize("kind", ["floats", "arrays"])
def test_variables_of_a_module_that_changes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names may come and go, and the dict may be replaced inside; few calls come to Python for that."""
    assert cpython_layout.VERSIONS_KNOWN
    f, space = made(kind)
    called = jit(f)
    calls = []
    original = Dispatcher.__call__
    monkeypatch.setattr(Dispatcher, "__call__", lambda self, /, *a, **k: calls.append(a) or original(self, *a, **k))
    for change in CHANGES.values():
        for _ in range(3):
            assert called(0.5) == f(0.5)
        change(space)
        assert called(0.5) == f(0.5)
    assert called.stats["compilations"] == 1 and len(calls) < 12
    del space["v4"]
    with pytest.raises(Exception, match="v4"):
        called(0.5)
    space["v4"] = 2.0 if kind == "floats" else np.full(3, 2.0)
    assert called(0.5) == f(0.5)


def test_a_version_is_asked_for_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a new name the keys are compared, until a call comes to Python, or the interpreter has a use for it."""
    f, space = made("floats")
    called, asked = jit(f), []
    original = cpython_layout.ask_for_version
    called(0.5)
    monkeypatch.setattr(cpython_layout, "ask_for_version", lambda *a: (asked.append(a), original(*a)))
    space["other"] = 1
    for _ in range(3 * 4096):
        called(0.5)
    assert len(asked) == 1
    assert cpython_layout.u32(cpython_layout.keys_of(space) + cpython_layout.KEYS_VERSION)
    space["another"] = 1
    for _ in range(40):
        f(0.5)                                         # the interpreter gives the keys a version by itself
    for _ in range(3 * 4096):
        called(0.5)
    assert len(asked) == 1


IN_PLACE: dict[str, Callable[[Any], object]] = {
    "shape": lambda a: setattr(a, "shape", (3, 1)), "size": lambda a: a.resize(5, refcheck=False),
    "rank and size": lambda a: a.resize((3, 2), refcheck=False), "dtype": lambda a: setattr(a, "dtype", np.int64),
    "flags": lambda a: a.setflags(align=False), "strides": lambda a: setattr(a, "strides", (0,)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("change", IN_PLACE)
def test_arrays_that_change_in_place(change: str) -> None:
    """Machine code tests the type, rank, layout and sizes of each of many arrays at each call."""
    f, space = made("arrays")
    called = jit(f)
    assert called(0.5) == f(0.5)
    for name in ("v7", "v0", "v4"):
        space[name] = space[name].copy()
        IN_PLACE[change](space[name])
        expected = f(0.5)
        if np.shape(expected):                         # elements of two axes are rows
            np.testing.assert_array_equal(called(0.5), expected)
        else:
            assert called(0.5) == expected
        space[name] = np.full(3, 7.0)
        assert called(0.5) == f(0.5)


@pytest.mark.parametrize("body, expected", [
    ("%x = get %a, %i\n  return %x", "short"), ("%x = sum {axes = (0,)} %a\n  return %x", "sizes")])
def test_reading_elements_takes_no_time(body: str, expected: str) -> None:
    """So the entry holds no array, and needs no polling for signals."""
    module = parse_module(f"func @f(%a: f64[?], %i: i64) -> (f64) {{\n^entry:\n  {body}\n}}\n")
    assert of_function(module.functions["f"]) == expected


def test_a_mistake_of_the_tracer_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not a refusal ends the trace: no other attempt is made, with captured numbers as constants."""
    f, _ = made("floats")
    attempts = []

    def broken(*args: Any) -> Any:
        attempts.append(args)
        raise AssertionError("of the tracer")
    monkeypatch.setattr("jitad.frontend.trace.trace_program._read", broken)
    with pytest.raises(AssertionError, match="of the tracer"):
        jit(f)(0.5)
    assert len(attempts) == 1
