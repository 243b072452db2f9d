"""Objects from outside: their attributes are read where this version of CPython keeps them, whatever is done to them.

The random objects are changed by statements, and CPython says what a function of them comes to.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.llvm import cpython_layout as layout

from jitad import jit

pytestmark = pytest.mark.any_level

NEW = [f"new{i}" for i in range(40)]


class Plain:
    kind = 1.0

    def __init__(self, w: float, q: float | None = None) -> None:
        self.w = w
        if q is not None:
            self.q = q


class Other:
    kind = 2.0

    def __init__(self, w: float) -> None:
        self.z, self.w = 0.5, w


class Base:
    __slots__ = ("s",)


class Mixed(Base):
    """A slot, then a dict."""

    kind = 3.0

    def __init__(self, w: float) -> None:
        self.s, self.w = 2.0 * w, w


class Lean:
    """No weak references."""

    __slots__ = ("__dict__",)
    kind = 4.0

    def __init__(self, w: float) -> None:
        self.w = w


class Late:
    """Attributes come after others have been made."""

    kind = 5.0

    def __init__(self, w: float) -> None:
        self.w = w


def value(x: float) -> float:
    return box.w * x + getattr(box, "q", 0.25) + getattr(box, "s", 0.125) + box.kind


def presence(x: float) -> float:
    return (3.0 if hasattr(box, "q") else 5.0) * x + (7.0 if hasattr(box, "new7") else 11.0) + getattr(box, "z", 13.0)


box: Any = Plain(1.0)
CLASSES: tuple[Callable[[float], Any], ...] = (Plain, Other, Mixed, Lean, Late)
STATES: dict[str, Callable[[Any], object]] = {
    "as made": lambda v: None,
    "its dict asked for": vars,
    "its dict replaced": lambda v: setattr(v, "__dict__", dict(vars(v))),
    "its dict replaced by one of other keys": lambda v: setattr(v, "__dict__", {"one": 1, "two": 2, **vars(v)}),
    "many attributes": lambda v: [setattr(v, n, 1.0) for n in NEW],
    "a key that is no string": lambda v: vars(v).update({1: 2.0}),
    "attribute deleted and set": lambda v: [delattr(v, "w"), setattr(v, "w", 4.5)],
    "dict cleared": lambda v: [vars(v).clear(), setattr(v, "w", 5.5)],
    "copied": lambda v: globals().update(box=copy.copy(v)),
}


@pytest.mark.parametrize("make", CLASSES)
def test_attributes_are_read_by_machine_code(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an object in any state."""
    assert layout.ATTRIBUTES
    for state, change in STATES.items():
        monkeypatch.setitem(globals(), "box", make(2.0))
        change(box)
        f = jit(value)
        assert [f(1.5), f(1.5), f(1.5)] == [value(1.5)] * 3, state
        box.w = 3.0
        with monkeypatch.context() as m:
            m.setattr("jitad.calling.dispatch.Dispatcher.__call__", None)
            assert f(2.5) == value(2.5), state


STATEMENTS: tuple[Callable[[random.Random], object], ...] = (
    lambda r: setattr(box, "w", r.random()),
    lambda r: setattr(box, "q", r.random()),
    lambda r: setattr(box, "z", r.random()),
    lambda r: box.__dict__.pop("q", None),
    lambda r: [delattr(box, n) for n in ("q", "z") if n in box.__dict__],
    lambda r: delattr(box, "q") if hasattr(box, "q") else None,
    lambda r: setattr(box, r.choice(NEW), r.random()),
    lambda r: setattr(r.choice(others), r.choice(("q", "z", *NEW[:9])), r.random()),
    lambda r: setattr(box, "__dict__", dict(box.__dict__)),
    lambda r: setattr(box, "__dict__", others[0].__dict__),
    lambda r: setattr(box, "__class__", Late if type(box) is Plain else Plain if type(box) is Late else type(box)),
    lambda r: globals().update(box=r.choice(CLASSES)(r.random())),
    lambda r: globals().update(box=r.choice(others)),
    lambda r: globals().update(box=copy.copy(box)),
    lambda r: others.append(box),
    lambda r: setattr(type(box), "kind", r.random()),
    lambda r: gc.collect() if r.random() < 0.05 else None,
)
others: list[Any] = [Plain(1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_objects_that_change_in_every_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(seed)
    monkeypatch.setitem(globals(), "box", Plain(1.0))
    monkeypatch.setitem(globals(), "others", [Plain(1.0, 2.0), Late(3.0)])
    for cls in CLASSES:
        monkeypatch.setattr(cls, "kind", r.random())
    functions = [(f, jit(f)) for f in (value, presence)]
    for step in range(150):
        r.choice(STATEMENTS)(r)
        for f, compiled in functions:
            assert compiled(1.5) == compiled(1.5) == pytest.approx(f(1.5), rel=1e-14), (step, f.__name__, vars(box))


def test_an_attribute_that_others_of_its_class_are_given_first() -> None:
    """It was missing when the function was compiled, and has a place since another object got it."""
    class Local:
        def __init__(self) -> None:
            self.w = 1.0
    one, two = Local(), Local()

    def f(x: float) -> float:
        return getattr(one, "late", 1.5) * x * one.w
    compiled: Any = jit(f)
    assert compiled(1.0) == compiled(1.0) == 1.5
    two.late = 5.0                                                                     # type: ignore[attr-defined]
    assert compiled(1.0) == compiled(1.0) == compiled(1.0) == 1.5
    one.late = 7.0                                                                     # type: ignore[attr-defined]
    assert compiled(1.0) == compiled(1.0) == 7.0


IMMORTAL = 2 ** 32 - 1


def test_references_that_are_counted_in_32_bits() -> None:
    """The count of an immortal object stays as it is, and one of more than 32 bits stays right, while an array is held;
    the word of both is the same."""
    held = np.ones(100_000)
    count = layout.u64(id(held))

    def f(n: int) -> float:
        s = 0.0
        for i in range(n):
            s += held[i % len(held)]
        return s
    compiled, seen, stop = jit(f), set(), threading.Event()
    compiled(10)

    def watch() -> None:
        while not stop.is_set():
            seen.add(layout.u64(id(held)))
    thread = threading.Thread(target=watch)
    extra = IMMORTAL - count
    ctypes.c_uint64.from_address(id(held)).value = IMMORTAL
    thread.start()
    try:
        compiled(3_000_000)
    finally:
        stop.set()
        thread.join()
        ctypes.c_uint64.from_address(id(held)).value -= extra
    assert min(seen) >= IMMORTAL - 5 and layout.u64(id(held)) == count


def test_attributes_that_are_arrays_outlive_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "box", Plain(1.0))
    box.w = np.arange(3.0)

    def f(x: float) -> Any:
        return box.w * x
    compiled = jit(f)
    for k in range(50):
        box.w = np.full(3, float(k))
        assert compiled(2.0).tolist() == [2.0 * k] * 3
