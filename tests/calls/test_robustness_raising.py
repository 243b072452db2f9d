"""Exceptions in compiled code: class, arguments and message as in Python, at the user's line."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError, grad, interpret, jit, vmap
from tests.calls.raising import FUNCTIONS, Plain, Told, deep, with_a_value

pytestmark = pytest.mark.any_level


def raised(fun: Any, *args: Any) -> BaseException:
    try:
        fun(*args)
    except Exception as e:
        return e
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_in_python(fun: Any) -> None:
    expected = raised(fun, 2.5)
    compiled = jit(fun, grad=True)
    for call in (compiled, compiled, compiled.grad, compiled.value_and_grad, lambda x: interpret(fun, x)):
        found = raised(call, 2.5)
        assert type(found) is type(expected)
        assert found.args == expected.args and str(found) == str(expected)
        assert list(map(type, found.args)) == list(map(type, expected.args))
        assert vars(found) == vars(expected)
    for call in (compiled, compiled.grad):
        last, wanted = (traceback.extract_tb(e.__traceback__)[-1] for e in (raised(call, 2.5), expected))
        assert (last.filename, last.lineno, last.name) == (wanted.filename, wanted.lineno, wanted.name)
    if fun is not deep:
        assert compiled(0.5) == 0.5 and compiled.grad(0.5) == 1.0


def test_values_of_every_type() -> None:
    @jit
    def f(i, b, x, y):
        raise Plain(i, b, x, y)
    found = raised(f, -(2**63), True, np.float32(0.1), 1e300)
    assert found.args == (-(2**63), True, float(np.float32(0.1)), 1e300)
    assert [type(a) for a in found.args] == [int, bool, float, float]


@dataclass
class Node:
    op: str
    child: Node | None


def text(node, x):
    if x < 0:
        raise ValueError(node.op)
    return x


def text_among_others(node, x):
    if x < 0:
        raise ValueError(x, node.op, [node.op, "a"])
    return x


def text_in_a_message(node, x):
    if x < 0:
        raise KeyError(f"{{{node.op!r}}} at {x:.2f}: " + node.op + f"{node.op:>4}")
    return x


def text_joined(node, x):
    if x < 0:
        raise AssertionError("unknown " + node.op)
    return x


def text_of_the_users(node, x):
    if x < 0:
        raise Plain(node.op, x)
    return x


def text_of_one_of_two(node, x):
    op = node.op if node.child is None else "with a child"
    if x < 0:
        raise ValueError(f"{op}?")
    return x


@pytest.mark.parametrize("fun", [text, text_among_others, text_in_a_message, text_joined, text_of_the_users,
                                 text_of_one_of_two], ids=lambda f: f.__name__)
def test_strings_that_are_known_at_run_time_only(fun: Any) -> None:
    compiled = jit(fun, grad="x")
    for node in (Node("+", None), Node("{neither}", Node("-", None))):
        expected = raised(fun, node, -1.5)
        for call in (compiled, compiled.grad, lambda *args: interpret(fun, *args)):
            found = raised(call, node, -1.5)
            assert type(found) is type(expected) and found.args == expected.args and str(found) == str(expected)
        assert compiled(node, 2.0) == 2.0
    assert len(compiled.signatures) == 1


def test_more_than_fits_is_refused() -> None:
    def many(x):
        raise Plain(x, x + 1, x + 2, x + 3, x + 4)

    def array(x):
        raise Plain("sizes", np.zeros(2) + x)

    def caused(x):
        raise ValueError("bad") from KeyError("worse")

    def keywords(x):
        raise Told(x, 3, unit="ft")
    for fun, what in ((many, "at most 4 numbers"), (array, "an array"), (caused, "the cause of an exception"),
                      (keywords, "keyword-only arguments of Told")):
        with pytest.raises(UnsupportedError, match=what):
            jit(fun)(1.0)


def test_an_exception_whose_class_refuses_its_arguments() -> None:
    def wrong(x):
        if x > 1:
            raise Told(x)
        return x
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        jit(wrong)(2.0)


def test_inside_derivatives_of_derivatives() -> None:
    def inner(x):
        if x > 2:
            raise Told(x, 2)
        return x ** 3
    second = jit(lambda x: grad(grad(inner))(x))
    assert second(1.0) == 6.0
    assert raised(second, 3.0).args == ("3.0 exceeds 2",)


def test_inside_vmap() -> None:
    for call in (jit(vmap(with_a_value)), jit(lambda a: vmap(grad(with_a_value))(a)),
                 jit(lambda a: grad(lambda b: vmap(with_a_value)(b).sum())(a))):
        found = raised(call, np.array([0.5, 2.5, 3.5]))
        assert type(found) is Plain and found.args == (2.5,)
        assert traceback.extract_tb(found.__traceback__)[-1].name == "with_a_value"
        assert call(np.array([0.5, 0.75])).shape == (2,)


def test_the_path_not_taken_costs_nothing() -> None:
    @jit(grad=True)
    def total(a):
        s = 0.0
        for x in a:
            if x < 0:
                raise AssertionError(f"negative: {x}")
            s += np.sqrt(x)
        return s
    a = np.array([1.0, 4.0])
    assert total(a) == 3.0 and total.grad(a).tolist() == [0.5, 0.25]
    for call in (total, total.grad):
        with pytest.raises(AssertionError, match="negative: -4.0"):
            call(-a[::-1])


def scaled(x, n):
    s = 0.0
    for i in range(n):
        scale = n * 2 + 1
        if i > 2:
            raise ValueError(f"too many for {scale}")
        s = s + np.sin(x[i] * scale)
    return s


def scaled_by_a_product(x, n):
    s = x.sum()
    for i in range(n):
        scale, product = n * 2 + 1, x[0] * x[1]
        if i > 2:
            halves = s * 0.5
            raise ValueError(f"too many for {scale} and {product}" if n > 0 else f"{halves}")
        s = s * 0.9 + (x * x)[i] * scale * product
    return s


@pytest.mark.parametrize("fun", [scaled, scaled_by_a_product])
@pytest.mark.parametrize("parallel", [False, True])
def test_numbers_from_before_a_loop_that_is_run_again(fun: Any, parallel: bool) -> None:
    """The exception belongs to the recomputed copy of the iteration, which no longer precedes it."""
    f, x = jit(fun, grad=True, parallel=parallel), np.array([0.4, 0.5, 2.0])
    for call in (f, f.grad, f.value_and_grad):
        assert str(raised(call, x, 5)) == str(raised(fun, x, 5))
    for n in (0, 2, 3):
        assert np.isclose(f(x, n), fun(x, n))
        assert np.allclose(f.grad(x, n), interpret(grad(fun), x, n))
