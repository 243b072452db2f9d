"""Functions of the standard library on user values, and builtins over structures, as in Python."""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError, jit

pytestmark = pytest.mark.any_level

CASES: list[tuple[Any, ...]] = [
    (lambda x: [a * b for a, b in itertools.product((x, 1.0), (2.0, 3.0))], 2.0),
    (lambda x: list(itertools.chain((x, 1.0), [2.0], {"k": 1})), 2.0),
    (lambda x: list(itertools.chain.from_iterable([(x,), (1.0, 2.0)])), 2.0),
    (lambda x: [sum(c) for c in itertools.combinations((x, 1.0, 2.0), 2)], 2.0),
    (lambda x: [list(p) for p in itertools.permutations([x, 1.0])], 2.0),
    (lambda x: list(itertools.accumulate((x, 1.0, 2.0))), 2.0),
    (lambda x: list(itertools.accumulate((x, 1.0, 2.0), operator.mul, initial=3.0)), 2.0),
    (lambda x: list(itertools.starmap(lambda a, b: a - b, ((x, 1.0), (2.0, x)))), 2.0),
    (lambda x: list(itertools.islice((x, 1.0, 2.0), 1, None)) + list(list(itertools.pairwise((x, 1.0)))[0]), 2.0),
    (lambda x: list(itertools.zip_longest((x, 1.0), (2.0,), fillvalue=x)), 2.0),
    (lambda x: list(itertools.repeat(x, 3)), 2.0),
    (lambda x: functools.reduce(operator.mul, (x, 2.0, 3.0)), 2.0),
    (lambda x: (operator.add(x, 1), operator.neg(x), operator.lt(x, 3), operator.getitem([x, 1.0], 1)), 2.0),
    (lambda x: sorted((("b", x), ("a", 1.0)), key=lambda p: p[0], reverse=True), 2.0),
    (lambda x: list(zip([x, 2.0], (3.0, 4.0), strict=True)), 1.0),
    (lambda a: max((v for v in a), default=3.0), np.zeros(0)),
    (lambda a: min((v for v in a), default=3.0), np.array([2.0, 1.0])),
    (lambda n: (range(n)[1], range(2, n)[-1], range(10)[n], 2 in range(n), n in range(1, 9, 3)), 4),
    (lambda x: (int("3"), float("2.5"), x), 1.0),
    (lambda a: np.sin(a, out=np.zeros(3)), np.ones(3)),
    (lambda x: x + len("".join("F[+F]" if c == "F" else c for c in "F-F")), 1.0),
    (lambda x: x + len("-".join(["a", "b"]) + "".join(map(str.upper, "abc")) + "".join({"k": x})), 1.0),
    (lambda x: x + len("".join(sorted("cab"))) + len(", ".join(str(i) for i in range(3))), 1.0),
]


def outcome(fun: Any, *args: Any) -> Any:
    result = fun(*copy.deepcopy(args))
    return [x.item() if isinstance(x, np.generic) else x.tolist() if isinstance(x, np.ndarray) else x
            for x in (result if isinstance(result, (list, tuple)) else [result])]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_as_in_python(case: tuple[Any, ...]) -> None:
    fun, *args = case
    assert outcome(jit(fun), *args) == outcome(fun, *args)


def copies(x: float) -> Any:
    pair = [x, [1.0]]
    shallow, deep = copy.copy(pair), copy.deepcopy(pair)
    pair[0] = 5.0
    pair[1][0] = 7.0
    return pair, shallow, deep


def wrapped(x: float) -> Any:
    def twice(fun: Any) -> Any:
        @functools.wraps(fun)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return 2 * fun(*args, **kwargs)
        return inner

    @twice
    def step(y: float) -> float:
        return y + x
    return step(1.0)


def into(a: Any) -> Any:
    out = np.zeros(4)
    same = np.add(a, 1, out=out[1:])
    same[0] = 9.0
    return out


@pytest.mark.parametrize(("fun", "arg"), [(copies, 2.0), (wrapped, 2.0), (into, np.ones(3))])
def test_programs(fun: Any, arg: Any) -> None:
    assert repr(jit(fun)(arg)) == repr(fun(arg))


def test_errors_are_pythons() -> None:
    for fun, args, kind in [
            (lambda x: list(zip([x], (1.0, 2.0), strict=True)), (1.0,), ValueError),
            (lambda a, b: sum(x * y for x, y in zip(a, b, strict=True)), (np.ones(2), np.ones(3)), ValueError),
            (lambda n: range(n)[n], (3,), IndexError),
            (lambda x: [x] + x, (1.0,), TypeError), (lambda x: "a" + x, (1.0,), TypeError),
            (lambda x: None * x, (1.0,), TypeError), (lambda x: [x] + (x,), (1.0,), TypeError),
            (lambda x: -[x], (1.0,), TypeError), (lambda x: [x] * [x], (1.0,), TypeError),
            (lambda a: np.sin(a, out=np.zeros(3, int)), (np.ones(3),), TypeError),
            (lambda a: np.sin(a, out=np.zeros(2)), (np.ones(3),), ValueError)]:
        for call in (fun, jit(fun)):
            with pytest.raises(kind):
                call(*args)


def test_arguments_without_a_place() -> None:
    for fun, what in [(lambda a: np.sin(a, where=a > 0), "the argument `where` of `np.sin`"),
                      (lambda a: a.sum(where=a > 0).foo, "has no attribute"),
                      (lambda a: "".join("x" for v in a), "a length that is only known at run time"),
                      (lambda a: "".join(str(a[0]) for k in range(2)), "`str` cannot be called with")]:
        with pytest.raises((UnsupportedError, AttributeError), match=what):
            jit(fun)(np.ones(3))
