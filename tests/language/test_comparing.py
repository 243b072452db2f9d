"""Comparisons of structures, including captured constants; strings made from run-time values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitad
from jitad import UnsupportedError, jit

pytestmark = pytest.mark.any_level

LIST, NESTED, TUPLE, DICT, SET = [1.5, 2.0], [[1, 2], [3]], (1.5, 2.0), {"a": 1.5}, {"a"}
WEIGHTS = {"W0": 1.0, "W1": 2.0}


@pytest.mark.parametrize("fun", [
    lambda x: ([x, 2.0] == LIST, LIST == [x, 3.0], LIST != [x, 2.0], [x] == LIST, list(LIST) == LIST, [x, 1.0] < LIST),
    lambda x: ([[1, 2], [3]] == NESTED, [x, 2.0] in [LIST], [x, 3.0] in [LIST]),
    lambda x: ((x, 2.0) == TUPLE, [x] == None, [x] == (x,), [x] == "a", LIST == (x, 2.0), (x,) != [x]),  # noqa: E711
    lambda x: ({"a": x} == DICT, DICT == {"a": 2 * x}, DICT != {"a": x}, {"b": x} == DICT, {"a": x} == [x]),
    lambda x: ({"a": x, "b": 2.0} == {"b": 2.0, "a": x}, {"a": [x]} == {"a": LIST[:1]}),
    lambda x: ({"a": x}.keys() == DICT.keys(), DICT.keys() == {"b": x}.keys(), {"a": x}.keys() == {"a": 1.0}.keys()),
    lambda x: ({"a": x}.keys() == SET, {"a": x}.keys() <= {"a", "b"}),
])
def test_structures_and_constants(fun: Any) -> None:
    assert jit(fun)(1.5) == fun(1.5)


def test_ranges() -> None:
    def alike(n: int) -> Any:
        return (range(n) == range(3), range(3) != range(n), range(n) == range(n), range(n, 0) == range(5, 1),
                range(0, n, 7) == range(0, 1, 3), range(1, n) == range(1, 3, 1), range(n) == 3, range(n) != range(n, 3))

    def bounds(n: int) -> Any:
        r = range(1, n, 2)
        return r.start, r.stop, r.step
    for n in (3, 4):
        assert jit(alike)(n) == alike(n)
        assert jit(bounds)(n) == bounds(n)


@pytest.mark.parametrize("fun", [
    lambda n: f"{n}" == "3", lambda n: f"{n}" != "3", lambda n: f"{n}" in ("3", "4"), lambda n: "3" in f"{n}",
    lambda n: f"{n}" < "4", lambda n: [f"{n}"] == ["3"], lambda n: (f"{n}" if n > 2 else "3") == "3",
    lambda n: f"{n}" == f"{n}", lambda n: len(f"{n}"), lambda n: f"{n}"[0], lambda n: f"{n}".startswith("3"),
    lambda n: [c for c in f"{n}"], lambda n: f"{n}" * 2, lambda n: f"{n}" + "a" == "3a"])
def test_strings_made_from_run_time_values_are_not_looked_at(fun: Any) -> None:
    with pytest.raises(UnsupportedError, match="run-time values|known at run time"):
        jit(fun)(3)


def test_no_case_matches_such_a_string_unseen() -> None:
    def chosen(n: int) -> float:
        match f"{n}":
            case "3":
                return 1.0
            case _:
                return 2.0
    with pytest.raises(UnsupportedError, match="a comparison with a string made from run-time values"):
        jit(chosen)(3)


def test_what_is_known_of_such_a_string() -> None:
    def known(n: int) -> Any:
        text = f"{n}"
        return (isinstance(text, str), type(text) is str, text is None, text != None, not text, text == 3,  # noqa: E711
                hasattr(text, "upper"))
    assert jit(known)(3) == known(3)


def test_such_strings_are_joined_in_messages() -> None:
    def checked(n: int) -> int:
        text = f"{n} is above {{5}}"
        text += " by {" + f"{n - 5}" + "}"
        if n > 5:
            raise ValueError(text)
        return n
    assert jit(checked)(4) == 4
    for fun in (checked, jit(checked)):
        with pytest.raises(ValueError, match=r"^8 is above \{5\} by \{3\}$"):
            fun(8)


def test_keys_made_in_a_loop() -> None:
    def total(weights: Any) -> Any:
        return sum(weights[f"W{i}"] for i in range(2))

    def written_out(weights: Any) -> Any:
        return sum(weights[f"W{i}"] for i in jitad.unroll(range(2)))
    with pytest.raises(UnsupportedError, match=r"for i in jitad.unroll"):
        jit(total)(WEIGHTS)
    assert jit(written_out)(WEIGHTS) == 3.0


@pytest.mark.parametrize("fun", [lambda a: zip(a, a)[0], lambda a: enumerate(a)[0], lambda a: map(abs, a)[0],
                                 lambda a: reversed(a)[0], lambda a: {"k": a}.keys()[0], lambda a: {"k": a}.items()[0]])
def test_no_items(fun: Any) -> None:
    for call in (fun, jit(fun)):
        with pytest.raises(TypeError, match="not subscriptable"):
            call(np.ones(3))
