"""All kinds of dataclasses and NamedTuples, in arguments, results and gradients."""

from __future__ import annotations

import collections
import dataclasses
import enum
import gc
import math
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

from jitad import jit

pytestmark = pytest.mark.any_level


@dataclasses.dataclass
class Plain:
    w: Any
    b: Any = 0.5


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any
    b: Any


@dataclasses.dataclass(slots=True)
class Slots:
    w: Any
    b: Any


@dataclasses.dataclass
class Derived(Plain):
    c: Any = 2.0


@dataclasses.dataclass
class Checked:
    w: Any
    b: Any

    def __post_init__(self) -> None:
        self.w = np.asarray(self.w)


@dataclasses.dataclass
class Lazy:
    """Its attribute is computed on access."""

    w: Any
    b: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return 7.0


class Named(NamedTuple):
    w: Any
    b: Any


MAKES = [Plain, Frozen, Slots, Derived, Checked, Lazy, Named]


@pytest.mark.parametrize("make", MAKES)
def test_values_results_and_gradients(make: type) -> None:
    @jit(grad=True)
    def f(p, x):
        return np.sum(p.w * x) * p.b

    @jit
    def scaled(p, k):
        return [p, {"again": (p, k)}]
    x = np.arange(4.0)
    for n in range(12):
        p = make(np.ones(4) * n, 3.0)
        assert f(p, x) == 18.0 * n
        g = f.grad(p, x)
        assert type(g) is make and np.array_equal(g.w, 3 * x) and g.b == 6.0 * n
        first, rest = scaled(p, n)
        for q in (first, rest["again"][0]):
            assert type(q) is make and np.array_equal(q.w, p.w) and q.b == 3.0 and q.w is not p.w
        assert rest["again"][1] == n


def test_deep_nests_keep_even_counts() -> None:
    @jit
    def total(x):
        s = 0.0
        for part in x["parts"]:
            s += np.sum(part.w) * part.b.w
        return s, x
    value = {"parts": [Plain(np.ones(3), Named(2.0, None)), Plain(np.ones(3), Named(2.0, None))], "text": "t"}
    assert total(value)[0] == 12.0
    held = [value, value["parts"], *value["parts"], value["parts"][0].w, value["parts"][0].b]
    gc.collect()
    before = [sys.getrefcount(h) for h in held]
    for _ in range(200):
        total(value)
    assert [sys.getrefcount(h) for h in held] == before


def test_misses_let_go_what_they_held() -> None:
    f = jit(lambda p, x: p.w * x)
    p = Plain(np.ones(3), np.zeros(2))
    f(p, 1.0), f(p, 2)
    before = sys.getrefcount(p.w), sys.getrefcount(p.b)
    for _ in range(50):
        f(p, 1.0), f(p, 2), f(p, np.float32(1))
    assert (sys.getrefcount(p.w), sys.getrefcount(p.b)) == before


def test_missing_attributes_raise_as_python_does() -> None:
    f = jit(lambda p: p.w * 1.0)
    assert f(Plain(2.0)) == 2.0
    broken = Plain(2.0)
    del broken.w
    with pytest.raises(AttributeError):
        f(broken)


def test_other_types_in_a_field_compile_anew() -> None:
    f = jit(lambda p: p.w * p.b)
    assert f(Plain(2.0, 3.0)) == 6.0 and f(Plain(2, 3)) == 6 and f(Frozen(2.0, 3.0)) == 6.0
    assert len(f.signatures) == 3


def test_subclasses_of_containers_are_taken() -> None:
    f = jit(lambda d: (d["a"], d))
    d = collections.OrderedDict(b=1.0, a=2.0)
    for _ in range(3):
        value, made = f(d)
        assert value == 2.0 and list(made.items()) == [("b", 1.0), ("a", 2.0)]


def test_dicts_are_read_by_key() -> None:
    f = jit(lambda d: d["a"] - d["b"])
    assert f({"a": 3.0, "b": 1.0}) == 2.0 and f({"b": 1.0, "a": 3.0}) == 2.0


def test_dicts_are_walked_in_their_order() -> None:
    """Also with the same keys in another order; the machine code of the first order accepted the second."""
    f = jit(lambda d: (list(d.values())[0], d))
    text = "".join(("b", "c"))                                   # equal to the literal, but another object
    for _ in range(3):
        for d in ({"a": 1.0, "bc": 2.0}, {"bc": 2.0, "a": 1.0}, {"a": 3.0, text: 4.0}):
            first, back = f(d)
            assert first == next(iter(d.values())) and list(back.items()) == list(d.items())
    assert f.stats["compilations"] == 2


def test_keys_that_are_equal_and_yet_two() -> None:
    f = jit(lambda d: [math.copysign(v, k) for k, v in d.items()][0])
    g = jit(lambda d: next(iter(d)))
    for _ in range(3):
        assert [f({k: 1.0}) for k in (0.0, -0.0)] == [1.0, -1.0]
        assert [repr(g({k: 1.0})) for k in (1, 1.0, True, (1,), (1.0,))] == ["1", "1.0", "True", "(1,)", "(1.0,)"]


class Colour(str, enum.Enum):                # noqa: UP042 (``str`` of a member of a StrEnum is its text)
    RED = "red"
    BLUE = "blue"


class Loud(str):
    def __str__(self) -> str:
        return self.upper()


def test_kinds_of_strings() -> None:
    """Strings of other classes count by their contents, not by ``__str__``; members of enumerations are themselves."""
    f = jit(lambda x, c: x if c == "red" else -x)
    g = jit(lambda x, c: (x if c is Colour.RED else -x, c))
    for _ in range(3):
        for c in ("red", Colour.RED, Loud("red"), Colour.BLUE, "RED", "Colour.RED"):
            assert f(1.0, c) == (1.0 if c == "red" else -1.0)
            value, back = g(1.0, c)
            assert value == (1.0 if c is Colour.RED else -1.0) and back == c and isinstance(c, type(back))
    assert jit(lambda d: d["c"] is Colour.RED)({"c": Colour.RED})
