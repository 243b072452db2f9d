"""Captured lists and dicts are constants: they can be read in every way, and copied."""

from __future__ import annotations

import copy
import functools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from jitad import UnsupportedError, grad, jit

pytestmark = pytest.mark.any_level

LIST, FLOATS = [1.5, 2.0], [1.0, 2.0, 3.0]
DICT = {"a": 1.5, "w": np.array([1.0, 2.0]), "l": [1.0, 2.0], "n": {"p": np.ones(2)}}
NUMBERED, FUNCTIONS, NAMES = {0: 1.0, 5: 2.0}, {0: math.sin, 5: math.cos}, {0: "a", 5: "b"}
A = np.array([3.0, 1.0, 2.0])


class Model:
    items = [1.0, 2.0]
    table = {"k": 3.0}

    def __init__(self, v: float) -> None:
        self.v = v

    def at(self, n: int) -> Any:
        return self.items[n] * self.v + self.table.get("q", self.v) + self.table.get("k", 0.0)


def taken(**kwargs: Any) -> Any:
    return kwargs["w"] * kwargs["a"]


def updated(x: float) -> Any:
    d: dict[str, Any] = {}
    d.update(DICT)
    d["a"] += x
    return d["w"] * x + d["n"]["p"], d["a"]


def changed(x: float) -> Any:
    a, b, c, d, e = LIST.copy(), LIST[:], list(LIST), copy.copy(LIST), LIST * 2
    a.append(x)
    b[0] = c[1] = d[0] = e[3] = x
    return a, b, c, d, e, LIST


def changed_dicts(x: float) -> Any:
    a, b, c, d = DICT.copy(), dict(DICT, extra=x), copy.deepcopy(DICT), DICT | {"b": x}
    a["a"] = b["a"] = d["a"] = x
    c["w"][0] = x
    c["l"].append(x)
    return a, b, c, d, DICT["a"]


def matched(x: float) -> Any:
    match DICT:
        case {"w": w, "l": [p, q], **rest}:
            return w * x + p * q, len(rest), rest["n"]["p"] * x


def stored(a: Any) -> Any:
    a = a.copy()
    a += FLOATS
    a[1:] = FLOATS[1:]
    return a


@pytest.mark.parametrize(("fun", "arg"), [
    (lambda x: LIST + [x], 1.5), (lambda x: [x] + LIST + LIST, 1.5), (lambda x: LIST * 2, 1.5),
    (lambda x: DICT | {"b": x}, 1.5), (lambda x: {"b": x} | DICT, 1.5), (lambda x: dict(DICT), 1.5),
    (lambda x: dict(DICT, b=x), 1.5), (lambda x: {**DICT, "b": x}["w"] * x, 1.5), (lambda x: taken(**DICT), 1.5),
    (lambda x: (DICT.get("zz", x), DICT.get("a", x), DICT.get("none")), 1.5),
    (lambda n: (LIST[n], [LIST, [3.0, 4.0]][n][n], LIST[-n]), 1), (lambda n: NUMBERED[n], 5),
    (lambda n: FUNCTIONS[n](1.0), 5), (lambda n: NAMES[n] == "b", 5), (lambda n: Model(2.0).at(n), 1),
    (lambda x: functools.reduce(lambda s, v: s * x + v, LIST), 1.5),
    (lambda a: (a * FLOATS, FLOATS - a, float(a @ FLOATS), float(np.dot(FLOATS, a))), A),
    (lambda a: (a == FLOATS, FLOATS != a, a > FLOATS, FLOATS <= a), A),
    (updated, 1.5), (changed, 1.5), (changed_dicts, 1.5), (matched, 1.5), (stored, A)])
def test_as_in_python(fun: Any, arg: Any) -> None:
    assert repr(jit(fun)(arg)) == repr(fun(arg))


def test_gradient() -> None:
    def loss(x: Any) -> Any:
        return sum(v * x for v in LIST + [x]) + DICT.get("zz", x) * x + LIST[int(x)] * x
    assert grad(loss)(1.5) == 3.5 + 4 * 1.5 + 2.0


@pytest.mark.parametrize(("fun", "kind"), [
    (lambda n: LIST[n], IndexError), (lambda n: DICT[n], KeyError), (lambda n: {"a": n}[n], KeyError),
    (lambda n: NUMBERED[n], KeyError), (lambda n: LIST + (1.0,), TypeError), (lambda n: LIST - LIST, TypeError)])
def test_errors_are_pythons(fun: Any, kind: type) -> None:
    for call in (fun, jit(fun)):
        with pytest.raises(kind):
            call(7)


@pytest.mark.parametrize("fun", [lambda x: LIST.append(x), lambda x: DICT.update(a=x), lambda x: DICT["l"].append(x)])
def test_they_are_not_changed(fun: Any) -> None:
    with pytest.raises(UnsupportedError, match="which is a constant here"):
        jit(fun)(1.5)


@dataclass
class Settings:
    rate: float = 0.1
    weights: Any = None
    seen: list[float] = field(default_factory=list)


class Plain:
    def __init__(self) -> None:
        self.v, self.settings = 2.0, SETTINGS

    def twice(self) -> Any:
        return 2 * self.v


SETTINGS = Settings(weights=np.ones(2), seen=[1.0])
PLAIN = Plain()


def copies_of_objects(x: float) -> Any:
    a, b, c, d = copy.copy(SETTINGS), copy.deepcopy(SETTINGS), copy.copy(PLAIN), copy.deepcopy(PLAIN)
    a.rate = b.rate = c.v = d.settings.rate = x
    b.weights[0] = x
    b.seen.append(x)
    return a, b, c.twice(), d.settings, SETTINGS, PLAIN.v, c is PLAIN, c.settings is SETTINGS


def test_copies_of_objects_may_be_changed() -> None:
    assert repr(jit(copies_of_objects)(1.5)) == repr(copies_of_objects(1.5))


@pytest.mark.parametrize("fun", [
    lambda a: (np.finfo(a.dtype).eps * a, np.finfo(float).tiny + a, np.iinfo(np.int64).max),
    lambda a: (np.issubdtype(a.dtype, np.floating), np.issubdtype(a.dtype, np.integer)),
    lambda a: (np.isscalar(a), np.isscalar(a[0]), np.isscalar(2), np.isscalar("a"), np.isscalar(None))])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_numpy_says_of_types(fun: Any, dtype: Any) -> None:
    assert repr(jit(fun)(A.astype(dtype))) == repr(fun(A.astype(dtype)))


class Weights(NamedTuple):
    w: Any
    b: float
    inner: tuple[Any, ...] = ()


SHARED = np.ones(2)
ARRAYS, TUPLES = [SHARED, SHARED], ((SHARED, 1.0), (np.zeros(2), 2.0))
WEIGHTS = Weights(SHARED, 3.0, (SHARED, 2.0))
HOLDER = {"t": (SHARED, 2.0), "n": WEIGHTS}


def outer_product(x: Any, given: Any = WEIGHTS) -> Any:
    return given.w * x + given.inner[0]


@pytest.mark.parametrize("fun", [
    lambda x: WEIGHTS.w * x + WEIGHTS.b, lambda x: WEIGHTS.inner[0] * x, lambda x: WEIGHTS._asdict()["w"] * x,
    lambda x: WEIGHTS._replace(b=x).w * x, lambda x: getattr(WEIGHTS, "w") * x, outer_product,          # noqa: B009
    lambda x: HOLDER["n"].w * x + HOLDER["t"][0], lambda x: (TUPLES[0] if x > 1 else TUPLES[1])[0] * x,
    lambda x: sum(ARRAYS) * x, lambda x: np.sum(ARRAYS) * x, lambda x: np.array(ARRAYS) * x,
    lambda x: np.stack(ARRAYS) * x, lambda x: np.concatenate(ARRAYS) * x, lambda x: np.max(ARRAYS) * x,
    lambda x: np.asarray(ARRAYS) * x, lambda x: math.prod(ARRAYS) * x, lambda x: np.vstack([p[0] for p in TUPLES]) * x,
    lambda x: max(TUPLES, key=lambda p: -p[1])[0] * x, lambda x: functools.reduce(np.add, ARRAYS) * x])
def test_arrays_in_structures_are_as_they_are_at_the_call(fun: Any) -> None:
    compiled = jit(fun)
    assert np.array_equal(compiled(1.5), fun(1.5))
    SHARED[:] = [5.0, 7.0]
    try:
        assert np.array_equal(compiled(1.5), fun(1.5))
    finally:
        SHARED[:] = 1.0


@pytest.mark.parametrize("fun", [
    lambda x: max((1, 2, 3), key=lambda v: -v) * x, lambda x: min(3, 1, 2, key=lambda v: -v) * x,
    lambda x: max(("a", "bbb", "cc"), key=lambda s: len(s)) == "bbb", lambda x: max(("a", "bbb"), key=len) == "bbb",
    lambda x: max((), default=3) * x, lambda x: sum((1, 2, 3), 4) * x])
def test_extremes_of_constants_by_a_key(fun: Any) -> None:
    assert jit(fun)(1.5) == fun(1.5)
