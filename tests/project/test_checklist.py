"""Features of the languages in the field's papers, a program each: values as in CPython, derivatives as defined.

First and second derivatives by the compiler, in reverse and forward over reverse, against the reference semantics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jitad import checkpoint, custom_jvp, grad, interpret, jvp, stop_gradient, value_and_grad, vjp, vmap
from tests import tracing

Program = Callable[..., Any]
LINES: list[Any] = []
A = np.array([0.3, 0.5, -0.2])


def line(text: str, *args: Any) -> Callable[[Program], Program]:
    """A line of the list; derivatives are taken by the program's first argument, a float."""
    def note(f: Program) -> Program:
        LINES.append(pytest.param(f, args, id=text))
        return f
    return note


@line("let, lambda, application, pairs", 1.3)
def pairs(x):
    p = (lambda a: (a, a * a))(x)
    first, (second, third) = p[0], (p[1], p)
    return first * second + third[1]


@dataclass
class Left:
    x: float


@dataclass
class Right:
    y: float
    k: int


@line("sums with case", 1.3, 2)
def sums(x, n):
    s = Left(x * 2) if n > 1 else Right(x, n)
    match s:
        case Left(a):
            return a * a
        case Right(y, k):
            return y * k


@line("mutable references", 0.7, 3)
def references(x, n):
    count, cell = 0.0, [x, 1.0]

    def add(v):
        nonlocal count
        count = count + v * v
    for _ in range(n):
        cell[0] = math.sin(cell[0]) + cell[1]
        cell[1] *= x
        add(cell[0])
    return count * cell[1]


@line("loops as tail recursion", 0.7, 6)
def tail_recursion(x, n):
    def loop(i, total):
        return total if i == n else loop(i + 1, total * x + 1.0)
    return loop(0, 0.0)


@line("mutual recursion", 0.7, 5)
def mutual(x, n):
    def even(k, a):
        return a if k == 0 else odd(k - 1, math.sin(a))

    def odd(k, a):
        return a * x if k == 0 else even(k - 1, a * a)
    return even(n, x)


@line("functions chosen, held in tuples, carried through loops", 0.8, 3)
def functions(x, n):
    f = math.sin if n > 2 else math.cos
    both = (lambda y: f(y) * x, lambda z: z * z)
    t = x
    for _ in range(n):
        h = both[1] if t > 0.5 else both[0]
        t = h(t) + f(t)
    return t


@line("continuations", 0.7, 3)
def continuations(x, n):
    def product(k, then):
        return then(1.0) if k == 0 else product(k - 1, lambda r: then(r * x + k))
    return product(n, lambda r: r * r)


@line("trees as arrays of child indices", 2.0)
def tree(x):
    values, left, right = np.array([5.0, 3.0, 4.0]), np.array([1, -1, -1]), np.array([2, -1, -1])

    def walk(i):
        return x * values[i] if left[i] < 0 else walk(left[i]) * walk(right[i]) * values[i]
    return walk(0)


@line("a loop with a counter and several states, over an array", 0.7, A)
def states(x, a):
    s, p, k = 0.0, 1.0, 0
    for v in a:
        s, p, k = s + v * p, p * x + v, k + 1
    return s * p + k


@line("n conditionals in a row", 0.9)
def conditionals(x):
    y = x * 1.1 if x > 0.1 else x - 1
    y = y * y if y > 0.5 else y
    if y < 0.9:
        y = math.sin(y)
    else:
        y = y * x
    if x < -1:
        return y
    elif x > 0:
        y += x
    return y * y


@line("early return, break and else of loops", 0.9, 7)
def leaving(x, n):
    t = x
    while t < 3:
        t = t * 1.5
        if t > 50:
            break
    else:
        t += x
    for i in range(n):
        t = t * 1.3 + x
        if t > 9:
            return t * i
    return t


@line("dictionaries, strings, None", 0.5)
def records(x):
    p = {"w": x, "b": x * x, "how": "twice", "rest": None}
    total = 0.0
    for key, value in p.items():
        if key in ("w", "b"):
            total += value * (2.0 if p["how"] == "twice" else 1.0)
    return total * total if p["rest"] is None else total


@line("keyword and default arguments", 0.3)
def arguments(x):
    def f(a, b=2.0, *rest, c=1.0, **more):
        return a * b + c * sum(rest) + more.get("d", 0.5) * a
    return f(x) + f(x, x, x, x, c=x, d=x * x)


@line("arrays written in place, views", 0.7)
def views(x):
    a = np.array([1.0, 2.0, 3.0]) * x
    v = a[1:]
    v *= a[0]
    a[0] = v[1] * v[0]
    v[0] += a[0]
    return (a * a).sum()


@line("map, comprehensions, sum", 0.7, A)
def folds(x, a):
    return sum(v * x for v in a) + sum([math.sin(x * k) for k in (1, 2, 3)]) + product(map(lambda v: v * v * x, a))


def product(values):
    total = 1.0
    for v in values:
        total *= v
    return total


@line("grad in grad, of captured variables", 0.6)
def nested(x):
    return x * grad(lambda y: x * y * y * grad(lambda z: x * z * y * z)(y))(x)


@line("grad in a loop", 0.6, 3)
def descent(x, n):
    for _ in range(n):
        x = x - 0.1 * grad(lambda y, x=x: math.sin(y * x))(x)
    return x


@line("grad in a recursion, of itself", 0.6, 1)
def of_itself(x, n):
    return x * x if n == 0 else grad(lambda y: y * of_itself(y * 0.5, n - 1))(x)


@line("forward mode within reverse", 0.4)
def forward_within(x):
    return jvp(lambda a: math.exp(a * a) * x, (x,), (x,))[1]


@line("a pullback as a value", 0.4, 2)
def pullback(x, n):
    y, pull = vjp(lambda z: descent(z, 1) * x, x)
    total = y
    for _ in range(n):
        total += pull(total)[0]
    return total


@line("vmap of control flow", 0.4, A)
def mapped(x, a):
    def f(v):
        while v < 1:
            v = v * 1.7 + x * x
        return v
    return vmap(f)(a + 1e-3 * x).sum() * vmap(grad(f))(a).sum()


@custom_jvp
def softplus(x):
    return math.log1p(math.exp(x))


@softplus.defjvp
def _softplus(primals, tangents):
    return softplus(primals[0]), tangents[0] / (1 + math.exp(-primals[0]))


@line("rules, checkpoints, constants", 0.4, 3)
def rules(x, n):
    step = checkpoint(lambda s: softplus(s * x) * stop_gradient(2.0))
    s = x
    for _ in range(n):
        s = step(s)
    return s


@pytest.mark.parametrize(("f", "args"), LINES)
def test_line(f: Program, args: tuple[Any, ...]) -> None:
    x, *rest = args

    def bent(x: Any, *rest: Any) -> Any:
        return jvp(lambda y: grad(f)(y, *rest), (x,), (1.0,))[1]
    meant, made = tracing.meant_and_made(
        lambda x, *rest: (value_and_grad(f)(x, *rest), grad(grad(f))(x, *rest), bent(x, *rest)), x, *rest)
    (value, slope), curve, again = meant
    assert again == pytest.approx(curve, rel=1e-9)
    assert np.hstack([*made[0], *made[1:]]) == pytest.approx(np.hstack([value, slope, curve, again]), rel=1e-9)
    h = 1e-5
    up, down = interpret(f, x + h, *rest), interpret(f, x - h, *rest)
    assert slope == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-7)
    if not {"grad", "jvp", "vjp", "vmap", "checkpoint", "descent"} & set(f.__code__.co_names):
        assert value == pytest.approx(f(x, *rest), rel=1e-12)
