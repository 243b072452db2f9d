"""Dicts whose keys are objects of the user's classes, from outside or among the arguments."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from jitad import UnsupportedError, jit

pytestmark = pytest.mark.any_level


class Key:
    def __init__(self, n: float) -> None:
        self.n = n


class Valued(Key):
    other = Key(5.0)

    def __hash__(self) -> int:
        return hash(self.n)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Valued) and self.n == other.n


class Table:
    def __init__(self, key: Key) -> None:
        self.key, self.table = key, {key: 4.0}

    def at(self, x: float) -> float:
        return self.table[self.key] * x


KEYS = "a, b, c = Key(1.0), Key(2.0), Key(3.0); d = {a: 2.0, b: 3.0}; long = {Key(k): 1.0 for k in range(99)} | d"
BY_KEY = {
    "item": "d[a]", "item of many": "long[a]", "get": "d.get(c, 9.0)", "in": "(1.0 if c in d else 2.0)",
    "in many": "(1.0 if c in long else 2.0)", "in a set": "(1.0 if c in {a, b} else 2.0)",
    "pair": "{(a, 1): d[b]}[a, 1]",
    "made here": "sum({a: 1.0, b: x, c: 2.0}.values())", "each": "sum(d[k] for k in d)",
    "attributes": "sum(k.n * v for k, v in d.items())", "which": "sum(1.0 if k is a else 3.0 for k in d)",
    "which, by ==": "sum(1.0 if k == a else 3.0 for k in d)", "the same": "(1.0 if a == b else 2.0)",
    "removed": "{a: x, b: 2.0 * x}.pop(a)", "a list of them": "sum(d[k] for k in [a, b])", "copied": "dict(d)[b]",
}
REBOUND = ("", "a = b", "c = b", "c = Key(1.0)", "d[a] = 10.0", "d[c] = 7.0; long[c] = 8.0", "a = Key(2.0)",
           "d[a] = long[a] = 6.0", "del d[b]", "d = {b: 1.0, **d}")


@pytest.mark.parametrize("read", BY_KEY)
def test_dicts_whose_keys_are_objects(read: str) -> None:
    """They are told apart as Python does, also when other objects come in their place."""
    source = f"def f(x):\n    return ({BY_KEY[read]}) * x\n"
    name = f"<keys {read}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"Key": Key, "__name__": "keys"}
    exec(compile(source, name, "exec"), space)
    exec(KEYS, space)
    f, called, slope = space["f"], jit(space["f"]), jit(space["f"], grad=True).value_and_grad
    for statement in REBOUND:
        exec(statement, space)
        for _ in range(2):
            expected = outcome(f)
            assert outcome(called) == outcome(lambda x: slope(x)[0]) == expected, statement


def outcome(f: Callable[[float], Any]) -> Any:
    try:
        return f(1.5)
    except KeyError as e:
        return type(e)


def test_objects_as_keys_in_arguments_and_results() -> None:
    a, b = Key(1.0), Key(2.0)
    both: Any = jit(lambda d, k, x: d[k] * x)
    assert both({a: 2.0, b: 3.0}, b, 2.0) == 6.0 and both({a: 2.0, b: 5.0}, a, 2.0) == 4.0
    made: Any = jit(lambda x: {a: x, b: 2.0 * x})
    assert made(3.0) == {a: 3.0, b: 6.0}
    assert [jit(Table(k).at)(2.0) for k in (a, b)] == [8.0, 8.0]


def test_objects_as_keys_that_are_refused() -> None:
    table: dict[Any, float] = {(v := Valued(1.0)): 2.0, (k := Key(1.0)): 3.0}

    def look(key: Any, x: float) -> float:
        return table[key] * x
    with pytest.raises(UnsupportedError, match="an object of class Valued, which says itself what it is equal to"):
        jit(lambda x: table[v] * x)(1.0)
    with pytest.raises(UnsupportedError, match="an object of class Key, chosen at run time or passed"):
        jit(lambda x: look(k, x))(1.0)
    with pytest.raises(UnsupportedError, match="an object of class Key, chosen at run time or passed"):
        jit(lambda x: {k: 1.0, v.other: 2.0}[k if x > 0.0 else v.other])(1.0)
