"""Functions built by recursion and in loops, each capturing another: continuations, compositions, folds.

Each program is compared with CPython, its derivatives with finite differences and with each other (see ``choices``).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from jitad import grad, jit
from tests import choices
from tests.choices import differentiable, program, refused

pytestmark = pytest.mark.any_level


def identity(v):
    return v


# --- continuations -----------------------------------------------------------------------------------

def factorial(n, k):
    return k(1.0) if n == 0 else factorial(n - 1, lambda v: k(n * v))


@program((5,), (0,))
def factorial_by_continuations(n):
    return factorial(n, lambda v: v)


def power(x, n, k):
    if n == 0:
        return k(1.0)
    return power(x, n - 1, lambda v: k(x * v))


@differentiable((1.3, 4), (1.3, 0))
def power_by_continuations(x, n):
    return power(x, n, identity)


def fib(n, x, k):
    if n < 2:
        return k(x * n)
    return fib(n - 1, x, lambda a: fib(n - 2, x, lambda b: k(a + b * x)))


@differentiable((1.1, 4))
def fib_by_continuations(x, n):
    return fib(n, x, lambda v: v * v)


def even(n, x, yes, no):
    return yes(x) if n == 0 else odd(n - 1, x * 1.5, yes, no)


def odd(n, x, yes, no):
    return no(x) if n == 0 else even(n - 1, x, lambda v: yes(v) + x, lambda v: no(v) * x)


@differentiable((1.2, 3))
def two_continuations(x, n):
    return even(n, x, math.sin, math.exp)


# --- functions made of functions -----------------------------------------------------------------------

@differentiable((0.7, 3), (0.7, 0))
def composed_in_a_loop(x, n):
    f = math.sin
    for i in range(n):
        f = (lambda g, k: lambda v: g(v) * x + k)(f, i)
    return f(x)


def build(x, n):
    if n == 0:
        return lambda v: v * x
    g = build(x, n - 1)
    if n % 2:
        return lambda v: math.sin(g(v))
    return lambda v: g(v) + n


@differentiable((0.7, 3))
def composed_by_recursion(x, n):
    return build(x, n)(x) + build(2.0 * x, 2)(1.0)


@differentiable((0.7, 5), (0.7, 2))
def until_it_is_large(x, n):
    f = identity
    total = x + 1.0
    while total < n:
        def g(v, f=f, k=total):
            return f(v * k) + x
        f = g
        total = f(total) * 0.5 + total
    return f(x)


@differentiable((np.array([0.5, 2.0, 1.0, -0.3]),))
def a_list_of_closures(a):
    def nil():
        return 0.0
    tail = nil
    for v in a:
        tail = (lambda head, rest: lambda: head * head + 0.5 * rest())(v, tail)
    return tail()


@differentiable((0.5, 3))
def an_array_of_the_caller_is_captured(x, n):
    return _with_table(x, n, TABLE)


TABLE = np.array([1.0, 2.0, 3.0])


def _with_table(x, n, table):
    def make(i, k):
        return k if i == n else make(i + 1, lambda v: k(v * table[i % 3]))
    return make(0, identity)(x)


@program((1.0, 3), (1.0, 0))
def compared_and_tested(x, n):
    f = math.sin
    for _ in range(n):
        f = (lambda g: lambda v: g(v) + 1.0)(f)
    if f is math.sin:
        return -1.0
    return 2.0 if callable(f) and f else x


@program((1.0, 3), (1.0, 0))
def none_before_the_first(x, n):
    f = None
    for _ in range(n):
        f = (lambda g: lambda v: v if g is None else g(v) + 1.0)(f)
    return 0.0 if f is None else f(x)


@differentiable((0.6, 4))
def a_derivative_inside(x, n):
    f = math.sin
    for _ in range(n):
        f = (lambda g: lambda v: g(v) * v)(f)
    return f(x) + x


@differentiable((0.6, 4), (0.6, 0), (0.6, -1))
def beside_values_of_other_kinds(x, n):
    a = None if n < 0 else 3.0 if n == 0 else math.sin
    for i in range(4):
        if callable(a):
            a = (lambda g, k: lambda v: g(v) * 0.5 + k)(a, x * i)
    if a is None:
        return x * x
    return a(x) if callable(a) else a * x


def church(n):
    if n == 0:
        return lambda f: lambda v: v
    m = church(n - 1)
    return lambda f: lambda v: f(m(f)(v))


@differentiable((1.1, 3), (1.1, 0))
def numerals(x, n):
    return church(n)(lambda v: v * x + 0.5)(x)


# --- refused -------------------------------------------------------------------------------------------

@refused("may be assigned again", 1.0, 3)
def captures_a_variable_that_changes(x, n):
    f = identity
    k = x
    for _ in range(n):
        f = (lambda g: lambda v: g(v) + k)(f)              # noqa: B023
        k = k + 1.0
    return f(x)


@refused("may be changed", 1.0, 3)
def captures_an_array_that_changes(x, n):
    a = np.zeros(3)
    f = identity
    for _ in range(n):
        f = (lambda g: lambda v: g(v) + a[0])(f)
        a[0] = a[0] + 1.0
    return f(x)


@pytest.mark.parametrize("fun, args", choices.cases(__name__, "value", "derivative"))
def test_value(fun, args):
    choices.check_value(fun, args)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fun, args", choices.cases(__name__, "derivative"))
def test_derivatives(fun, args):
    choices.check_derivatives(fun, args)


@pytest.mark.parametrize("fun, args, message", choices.cases(__name__))
def test_refused(fun, args, message):
    choices.check_refused(fun, args, message)


@pytest.mark.slow
@pytest.mark.parametrize("fun, args", [(fib_by_continuations, (1.1, 6)), (composed_by_recursion, (0.7, 5))])
def test_machine_code(fun, args):
    choices.check_compiled(fun, args)


def test_many():
    """Time and memory, also of the gradient, are those of as many nodes: only values that it reads are saved."""
    f = jit(grad(nested))
    assert f(1.0, 10_000) == 10_000.0
    assert jit(power_by_continuations)(1.0, 10_000) == 1.0


def nested(x, n):
    f = identity
    for _ in range(n):
        f = (lambda g: lambda v: g(v) * x)(f)
    return f(1.0)


def test_too_deep():
    with pytest.raises(RecursionError):
        jit(power_by_continuations)(1.0, 100_000_000)
