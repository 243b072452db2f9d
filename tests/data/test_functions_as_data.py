"""Functions as run-time values: chosen by ``if``, carried through loops, stored, returned, passed on.

Each program is compared with CPython, its derivatives with finite differences and with each other (see ``choices``).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import pytest

from jitad import grad, jit, jvp
from jitad.frontend.operations.builtin import unroll
from tests import choices
from tests.choices import differentiable, program, refused

pytestmark = pytest.mark.any_level


@differentiable((0.7,), (-0.4,))
def builtins_by_an_if(x):
    f = math.sin if x > 0 else math.exp
    return f(x) * x


@differentiable((0.7,), (-0.4,))
def a_lambda_or_a_function(x):
    def cube(v):
        return v * v * v
    f = cube if x > 0 else lambda v: 2.0 * v
    return f(x) + f(f(x))


@differentiable((1.3, 3), (1.3, 4))
def captures_what_is_differentiated(x, n):
    if n % 2 == 0:
        a = x * x
        f = lambda v: v + a                                # noqa: E731
    else:
        b = x + 2.0
        f = lambda v: v * b * x                            # noqa: E731
    return f(x)


@differentiable((1.3, 4), (0.5, 5), (0.5, 0))
def carried_through_a_loop(x, n):
    f = math.sin
    total = 0.0
    for i in range(n):
        total += f(x + i)
        if i == 1:
            f = math.cos
        elif i == 3:
            k = x * i
            f = lambda v: v * k                            # noqa: E731, B023
    return total + f(x)


@differentiable((1.3,), (0.1,), (-2.0,))
def in_a_while_until_it_is_another(x):
    f = lambda v: v * 1.5                                  # noqa: E731
    y = abs(x) + 0.1
    steps = 0
    while y < 20.0:
        y = f(y)
        steps += 1
        if y > 4.0:
            f = lambda v: v * v                            # noqa: E731
    return y * x


@differentiable((2.0, 1), (2.0, 2), (2.0, 7))
def three_of_them(x, n):
    if n == 1:
        f = np.sin
    elif n == 2:
        f = np.exp
    else:
        f = np.tanh
    return f(x) / x


@differentiable((2.0, 1.0), (2.0, -1.0))
def stored_in_a_tuple_a_list_and_a_dict(x, y):
    f = math.sin if y > 0 else math.cos
    pair = (f, 2.0)
    items = [f, lambda v: v * y]
    table = {"f": f, "g": items[1]}
    return pair[0](x) * pair[1] + items[0](x) + items[1](x) + table["f"](y) * table["g"](x)


class Layer(NamedTuple):
    w: float
    act: object

    def __call__(self, x):
        return self.act(self.w * x)


@differentiable((0.3, 1.0), (0.3, -1.0))
def in_a_named_tuple(x, y):
    layer = Layer(x, math.tanh if y > 0 else math.sin)
    return layer.act(layer.w) + layer.w


@differentiable((0.3, 1.0), (0.3, -1.0))
def returned_from_a_function(x, y):
    def pick(c):
        if c > 0:
            return lambda v: v * c
        return math.sin
    f = pick(y)
    g = pick(-y)
    return f(x) + 2.0 * g(x)


@differentiable((0.3, 5), (0.3, 0))
def passed_to_a_recursive_function(x, n):
    def run(f, v, k):
        if k == 0:
            return v
        return run(f, f(v), k - 1)
    f = math.sin if n > 3 else math.cos
    return run(f, x, n)


def ping(k, v, f, g):
    if k == 0:
        return f(v)
    return ping(k - 1, f(v), g, f)


@differentiable((0.3, 4), (0.3, 5))
def two_that_take_turns(x, n):
    return ping(n, x, math.sin, lambda v: v * x)


def step_a(v, k):
    return (step_b, v * 1.1) if k % 3 == 0 else (step_a, v + 0.5)


def step_b(v, k):
    return (step_a, v * v * 0.1)


@differentiable((1.2, 0), (1.2, 1), (1.2, 6))
def a_state_machine(x, n):
    state = step_a
    for k in range(n):
        state, x = state(x, k)
    return x


class Scale:
    def __init__(self, k):
        self.k = k

    def up(self, x):
        return x * self.k

    def down(self, x):
        return x / self.k


@differentiable((1.2, 1.0), (1.2, -1.0))
def bound_methods(x, y):
    s = Scale(x + 2.0)
    f = s.up if y > 0 else s.down
    s.k = s.k * 2.0
    return f(x)


@differentiable((1.2, 1.0), (1.2, -1.0))
def partials(x, y):
    def power(a, b):
        return a * a * b
    f = functools.partial(power, x) if y > 0 else functools.partial(power, b=y)
    return f(3.0)


@jit
def squared(x):
    return x * x


@differentiable((1.2, 1.0), (1.2, -1.0))
def jitted_functions(x, y):
    f = squared if y > 0 else math.sqrt
    return f(x)


@differentiable((0.8, 1.0), (0.8, -1.0))
def derivatives_among_them(x, y):
    f = grad(squared) if y > 0 else squared
    g = grad(math.sin if y > 0 else lambda v: v * v * x)
    return f(x) * g(x)


@differentiable((0.8, 1.0), (0.8, -1.0))
def the_derivative_of_a_choice_at_a_captured_variable(x, y):
    def inner(v):
        f = (lambda w: w * x) if y > 0 else (lambda w: w * w * x)
        return f(v) * v
    return grad(inner)(x) + jvp(inner, (x,), (1.0,))[1]


@differentiable((1.0, 1.0), (1.0, -1.0))
def no_perturbation_confusion(x, y):
    f = (lambda v: x * v) if y > 0 else (lambda v: x + v)
    return x * grad(lambda v: f(v))(1.0)


@program((3.0, 2), (3.0, 0))
def late_binding_of_a_loop_variable(x, n):
    f = None
    i = 10
    for i in range(n):
        f = lambda v: v + i                                # noqa: E731, B023
    return f(x) if f is not None else x * i


@differentiable((3.0, 2), (3.0, 5))
def a_value_bound_by_a_default(x, n):
    f = lambda v: v                                        # noqa: E731
    for i in range(n):
        if i == 1:
            f = lambda v, k=i * x: v + k                   # noqa: E731
    return f(x)


@differentiable((3.0, 1.0), (3.0, -1.0))
def sees_later_assignments(x, y):
    a = 1.0
    f = (lambda: a * x) if y > 0 else (lambda: a + x)
    a = x * 2.0
    return f()


@differentiable((1.5, 1.0), (1.5, -1.0))
def writes_a_captured_variable(x, y):
    total = 0.0

    def add(v):
        nonlocal total
        total += v

    def twice(v):
        nonlocal total
        total += 2.0 * v * x
    f = add if y > 0 else twice
    f(x)
    f(x * x)
    return total


@differentiable((np.array([0.5, 2.0, 1.0]), 1.0), (np.array([0.5, 2.0, 1.0]), -1.0))
def on_arrays(a, y):
    f = np.sum if y > 0 else np.prod
    g = np.exp if y < 0 else (lambda v: v * a)
    return f(g(a)) + f(a)


@program((np.array([0.5, 2.0, 1.0]), 1.0), (np.array([0.5, 2.0, 1.0]), -1.0))
def arrays_that_a_variant_captures_stay_the_same(a, y):
    b = a.copy()
    c = a * 2.0
    f = (lambda i: b[i]) if y > 0 else (lambda i: c[i] + b[i])
    b[0] = 100.0
    c[1] = 7.0
    return f(0), f(1), b, c


@program((1.0,), (-1.0,))
def writes_through_a_variant(x):
    b = np.zeros(3)
    c = np.ones(2)

    def one(v):
        b[0] += v

    def other(v):
        c[1] -= v
    f = one if x > 0 else other
    f(2.0)
    f(3.0)
    return b, c


@differentiable((1.0, 2), (1.0, 3))
def compared_and_tested(x, n):
    f = math.sin if n == 2 else math.cos
    y = 5.0 if f is math.sin else x
    if f:
        y = y * 2.0
    g = f if n == 2 else (lambda v: v) if x > 5.0 else Scale(x)
    if callable(f) and not callable(Scale(x)):
        y = y + 1.0
    return y * f(x) + (1.0 if callable(g) else 2.0)


def takes_nothing():
    return 1.0


@program((1.0, 2), (1.0, 3))
def a_wrong_call_on_one_path(x, n):
    f = takes_nothing if n == 2 else (lambda v: v)
    return f(x)


@program((1.0, 2), (1.0, 3))
def not_callable_on_one_path(x, n):
    f = math.sin if n == 2 else None
    return f(x)


@differentiable((0.4, 2), (0.4, 3))
def composed(x, n):
    def compose(f, g):
        return lambda v: f(g(v))
    h = compose(math.sin, math.exp) if n == 2 else compose(math.cos, lambda v: v * x)
    return h(x)


@differentiable((0.4,), (1.4,))
def in_nested_branches(x):
    if x > 0:
        if x > 1:
            f, g = math.sin, math.cos
        else:
            f, g = (lambda v: v * x), math.sin
    else:
        f, g = abs, abs
    return f(x) * g(x) + f(g(x))


@differentiable((0.4, 3), (0.4, 2))
def applied_by_map_and_in_comprehensions(x, n):
    f = math.sin if n == 3 else (lambda v: v * v)
    return sum(map(f, [x, 2.0 * x])) + sum([f(k * x) for k in unroll(range(3))]) + sum(f(x * i) for i in range(n))


@differentiable((0.4, 3), (0.4, 2))
def classes_to_construct(x, n):
    C = Scale if n == 3 else Double
    return C(x).up(x) + C(2.0).down(x)


class Double:
    def __init__(self, k):
        self.k = 2.0 * k

    def up(self, x):
        return x + self.k

    def down(self, x):
        return x - self.k * x


@refused("one of several", 1.0)
def a_variable_of_one_of_two_frames_changes(x):
    def make(a):
        def get():
            return a

        def put(v):
            nonlocal a
            a = v
        return get, put
    g1, s1 = make(1.0)
    g2, s2 = make(2.0)
    g = g1 if x > 0 else g2
    s1(5.0)
    return g()


@pytest.mark.parametrize("fun, args", choices.cases(__name__, "value", "derivative"))
def test_value(fun, args):
    choices.check_value(fun, args)


@pytest.mark.long
@pytest.mark.parametrize("fun, args", choices.cases(__name__, "derivative"))
def test_derivatives(fun, args):
    choices.check_derivatives(fun, args)


@pytest.mark.parametrize("fun, args, message", choices.cases(__name__))
def test_refused(fun, args, message):
    choices.check_refused(fun, args, message)


@pytest.mark.parametrize("fun, args", [(carried_through_a_loop, (1.3, 4)), (a_state_machine, (1.2, 6)),
                                       (captures_what_is_differentiated, (1.3, 4)),
                                       (derivatives_among_them, (0.8, 1.0)),
                                       (passed_to_a_recursive_function, (0.3, 5))])
def test_machine_code(fun, args):
    choices.check_compiled(fun, args)
