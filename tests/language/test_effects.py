"""Functions with effects, or whose results change from call to call, never run while tracing, on any path."""

from __future__ import annotations

import atexit
import bisect
import collections
import ctypes
import decimal
import functools
import gc
import itertools
import math
import operator
import re
import signal
import struct
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError, interpret, jit


class Holder:
    value = 1.0


class Listed(list):
    made = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        Listed.made += 1


HELD = Holder()
COUNTED = collections.Counter("a")
NUMBERS = [1.0, 2.0]
ARRAY = np.ones(2)
BS, ONE_B = re.compile("b+"), re.compile("b")


def given() -> Iterator[float]:
    yield from (1.0, 2.0, 3.0)


LEFT = [iter([1.0, 2.0]), itertools.count(), given(), zip([1.0], [2.0]), map(float, "12")]

EFFECTS: dict[str, Callable[[], Any]] = {
    "warnings.warn": lambda: warnings.warn("negative", stacklevel=1),
    "sys.exit": lambda: sys.exit(1),
    "signal.alarm": lambda: signal.alarm(100),
    "signal.setitimer": lambda: signal.setitimer(signal.ITIMER_REAL, 100),
    "gc.collect": lambda: gc.collect(),
    "gc.disable": lambda: gc.disable(),
    "atexit.register": lambda: atexit.register(print),
    "sys.setrecursionlimit": lambda: sys.setrecursionlimit(5000),
    "sys.getrecursionlimit": lambda: sys.getrecursionlimit(),
    "sys.settrace": lambda: sys.settrace(None),
    "sys.audit": lambda: sys.audit("jitad"),
    "print": lambda: print("negative"),
    "c_int": lambda: ctypes.c_int(3),
    "ReferenceType": lambda: weakref.ref(Holder),
    "Counter.update": lambda: COUNTED.update("abc"),
    "Listed": lambda: Listed(),
    "SimpleNamespace": lambda: types.SimpleNamespace(a=1),
    "__setattr__": lambda: HELD.__setattr__("value", 2.0),
    "constant here": lambda: setattr(HELD, "value", 2.0),
    "changes a list": lambda: NUMBERS.append(3.0),
    "changes a list ": lambda: list(map(NUMBERS.append, (3.0,))),
    "changes a list  ": lambda: list.sort(NUMBERS),
    "pack_into": lambda: struct.pack_into("d", bytearray(8), 0, 1.0),
    "operator.call": lambda: operator.call(print, "negative"),
    "may not be written": lambda: np.add(ARRAY, 1.0, ARRAY),
    "cache_clear": lambda: kept.cache_clear(),
}


@functools.cache
def kept(n: int) -> float:
    return float(n)


@pytest.mark.parametrize("name", EFFECTS)
def test_no_effect_while_tracing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    effect = EFFECTS[name]

    def f(x):
        if x < 0:
            effect()
        return x
    state = (gc.isenabled(), sys.getrecursionlimit(), dict(COUNTED), list(NUMBERS), HELD.value, Listed.made)
    for run in (jit(f), functools.partial(interpret, f)):
        with warnings.catch_warnings(record=True) as said, pytest.raises(UnsupportedError) as info:
            warnings.simplefilter("always")
            run(1.0)
        assert name.strip() in str(info.value) and "Instead: " in str(info.value) and not said
    assert state == (gc.isenabled(), sys.getrecursionlimit(), dict(COUNTED), list(NUMBERS), HELD.value, Listed.made)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert capsys.readouterr().out == ""


class Ranked:
    """Its comparisons are user code in Python: they are traced, and do not run while tracing."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __lt__(self, other: Any) -> Any:
        if max(self.value, other.value) > 100:
            print("large")
        return self.value < other.value

    def __gt__(self, other: Any) -> Any:
        return other < self

    def __eq__(self, other: Any) -> Any:
        if max(self.value, other.value) > 100:
            print("large")
        return self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


RANKED, LARGE = [Ranked(2.0), Ranked(1.0)], [Ranked(1.0), Ranked(200.0)]


@pytest.mark.parametrize("compare", [
    lambda xs: sorted(xs)[0].value, lambda xs: max(xs).value, lambda xs: min(xs).value, lambda xs: Ranked(1.5) in xs,
    lambda xs: xs[1] in xs, lambda xs: min(xs[0], xs[1]).value, lambda xs: sorted(xs, key=lambda x: x)[1].value])
def test_comparisons_of_the_users_are_traced(compare: Callable[[Any], Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert jit(lambda x: x * compare(RANKED))(2.0) == 2 * compare(RANKED)
    with pytest.raises(UnsupportedError, match="`print`"):
        jit(lambda x: compare(LARGE) if x < 0 else x)(1.0)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("k", range(len(LEFT)))
@pytest.mark.parametrize("walk", [sum, max, any, all, math.prod, math.fsum, list, tuple, next, sorted, set, dict,
                                  lambda it: 1.0 in it, lambda it: [x for x in it], lambda it: "".join(it),
                                  lambda it: np.array(list(it)), lambda it: (*it,), lambda it: it.__next__(),
                                  lambda it: functools.reduce(max, it), lambda it: dict.fromkeys(it),
                                  lambda it: list(zip(it, (1.0, 2.0))), lambda it: list(enumerate(it)),
                                  lambda it: frozenset(it), lambda it: min(it, default=0.0), lambda it: bytes(it)])
def test_what_is_walked_once_is_not_used_up(k: int, walk: Callable[[Any], Any]) -> None:
    iterator = LEFT[k]

    def f(x):
        if x < 0:
            walk(iterator)
        return x
    with pytest.raises((UnsupportedError, AttributeError)):          # a generator has its `__next__` in C
        jit(f)(1.0)
    assert next(LEFT[k], None) is not None
    LEFT[:] = [iter([1.0, 2.0]), itertools.count(), given(), zip([1.0], [2.0]), map(float, "12")]


def test_what_is_pure_is_computed_while_tracing() -> None:
    @jit
    def f(x):
        text = "a,b".upper().split(",")
        table = str.maketrans("ab", "cd")
        assert text[0].rjust(3) == "  A" and b"ab".hex() == "6162" and int.from_bytes(b"\x02", "big") == 2
        assert BS.findall("abbab") == ["bb", "b"] and len(table) == 2
        assert decimal.Decimal("1.5") + 1 == decimal.Decimal("2.5") and struct.calcsize("d") == 8
        scale = math.ulp(1.0) * bisect.bisect_left(NUMBERS, 1.5) + (3).bit_length() + len(repr(0.5))
        scale += NUMBERS.index(2.0)
        return x * scale * operator.itemgetter(1)((1.0, 2.0)) * COUNTED.get("a", 0)
    assert f(1.0) == pytest.approx(12.0)
    assert jit(lambda x: x * len("a b".split()) * kept(3))(2.0) == 12.0


def test_a_list_that_text_gives_is_new_at_each_call() -> None:
    def f(x):
        words = "a b".split()
        words.append("c")
        found = ONE_B.findall("abb")
        found.append("c")
        return x * len(words) * len(found)
    assert jit(f)(1.0) == f(1.0) == 9.0


def test_an_array_to_write_into_by_position() -> None:
    def f(a, x):
        b = np.zeros(3)
        c = np.multiply(a, x, b)
        c[0] = 7.0
        return b, np.negative(a, b) is b
    for got, want in zip(jit(f)(np.ones(3), 2.0), f(np.ones(3), 2.0)):
        np.testing.assert_array_equal(got, want)
