"""The worked examples of the field's papers: known programs with known values and derivatives.

Each is a program, a point and the expected value, first derivative and higher ones, and is run through every mode:
compiled and by the reference interpreter, ``grad`` and ``jvp``, nested as deep as the orders given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import grad, hvp, jit, jvp, value_and_grad, vjp

Function = Callable[..., Any]


# --- programs of one number -----------------------------------------------------------------------

def polynomial(x: float) -> float:
    return 2 * x + x ** 3


def cube(x: float) -> float:
    return x ** 3


def quintic(x: float) -> float:
    return x ** 5 + 2 * x


def branches(x: float) -> float:
    if x > 0:
        return -x ** 2
    else:
        return x ** 2


def halve(t: float) -> float:
    while t > 1:
        t = t / 2
    return t


def square_up(r: float) -> float:
    while r < 100:
        r = r ** 2
    return r


def multiply_up(r: float) -> float:
    while r < 100:
        r = r * r
    return r


def x_sin_x(x: float) -> float:
    return x * math.sin(x)


def sin_x_x(x: float) -> float:
    return math.sin(x) * x


def sharing(x: float) -> float:
    for _ in jitad.unroll(range(30)):
        x = x + x
    return x + x


def confusion(x: float) -> float:
    return x * grad(lambda y: x + y)(1.0)


def confusion_recursive(x: float) -> float:
    def inner(y: float, n: int) -> float:
        if n == 0:
            return x + y
        return inner(y, n - 1)
    return x * grad(inner)(1.0, 3)


@dataclass(frozen=True)
class Example:
    """``expected``: the value, then the derivatives of each order."""

    function: Function
    at: float
    expected: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.function.__name__} at {self.at}"


EXAMPLES = [
    Example(polynomial, 3.0, (33.0, 29.0, 18.0)),
    Example(cube, 4.0, (64.0, 48.0, 24.0, 6.0)),
    Example(quintic, -3.0, (-249.0, 407.0, -540.0, 540.0, -360.0)),
    Example(branches, 3.0, (-9.0, -6.0)),
    Example(branches, -3.0, (9.0, -6.0)),
    Example(branches, 0.0, (0.0, 0.0)),
    Example(halve, 10.0, (0.625, 0.0625)),
    Example(halve, 8.0, (1.0, 0.125)),
    Example(halve, 1.0, (1.0, 1.0)),
    Example(halve, 0.5, (0.5, 1.0)),
    Example(square_up, 4.0, (256.0, 256.0)),
    Example(multiply_up, 3.0, (6561.0, 17496.0, 40824.0, 81648.0)),
    Example(x_sin_x, 2.0, (2 * math.sin(2), math.sin(2) + 2 * math.cos(2))),
    Example(sin_x_x, 2.0, (2 * math.sin(2), math.sin(2) + 2 * math.cos(2))),
    Example(confusion, 1.0, (1.0, 1.0)),
    Example(confusion_recursive, 1.0, (1.0, 1.0)),
    Example(sharing, 1.0, (2.0 ** 31, 2147483648.0)),
]


def forward(f: Function) -> Function:
    """The derivative of a function of one number, by forward mode."""
    return lambda x: jvp(f, (x,), (1.0,))[1]


def backward(f: Function) -> Function:
    """The same by the pullback of reverse mode."""
    return lambda x: vjp(f, x)[1](1.0)[0]


def compiled(f: Function, *args: Any) -> Any:
    return jit(f)(*args)


RUNS = pytest.mark.parametrize("run", [compiled, jitad.interpret], ids=["compiled", "interpreted"])


def derivative(f: Function, modes: tuple[Function, ...]) -> Function:
    for mode in modes:
        f = mode(f)
    return f


def mode_orders(order: int) -> list[tuple[Function, ...]]:
    """Reverse alone, forward alone, each over the other."""
    alternating = (grad, forward) * order
    pure = [(grad,) * order, (forward,) * order, (backward,) * order]
    mixed = [alternating[:order], alternating[1:order + 1]] if order > 1 else []
    return pure + mixed


CASES = [pytest.param(e, order, modes, id=f"{e}, order {order}, {'+'.join(m.__name__ for m in modes) or 'value'}")
         for e in EXAMPLES for order in range(len(e.expected)) for modes in (mode_orders(order) if order else [()])]


@RUNS
@pytest.mark.parametrize("example, order, modes", CASES)
def test_every_mode_and_order(example: Example, order: int, modes: tuple[Function, ...], run: Function) -> None:
    got = run(derivative(example.function, modes), example.at)
    assert got == pytest.approx(example.expected[order], rel=1e-12)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if len(e.expected) > 1], ids=str)
def test_options_of_jit(example: Example) -> None:
    f = jit(example.function, grad=True)
    assert f.value_and_grad(example.at) == pytest.approx(example.expected[:2], rel=1e-12)
    assert f.grad(example.at) == pytest.approx(example.expected[1], rel=1e-12)
    assert value_and_grad(f)(example.at) == pytest.approx(example.expected[:2], rel=1e-12)


# --- programs of several numbers ------------------------------------------------------------------

@RUNS
def test_tree(run: Function) -> None:
    """The product l·r·v over the tree 5(3, 4), every leaf below 3 and 4 being x: 60 x⁴."""
    def value(x: float, vs: Any, left: Any, right: Any, i: int) -> float:
        if left[i] < 0:
            return x
        return value(x, vs, left, right, left[i]) * value(x, vs, left, right, right[i]) * vs[i]

    vs = np.array([5.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0])
    left, right = np.array([1, 3, 5, -1, -1, -1, -1]), np.array([2, 4, 6, -1, -1, -1, -1])
    assert run(value_and_grad(value), 2.0, vs, left, right, 0) == (960.0, 1920.0)
    assert run(grad(grad(value)), 2.0, vs, left, right, 0) == pytest.approx(720.0 * 4.0)


def product(x: Any) -> float:
    return x[0] ** 2 * x[1] ** 2


def product_while(x: Any) -> float:
    i, out = 0, 1.0
    while i < 2:
        out = out * x[i] * x[i]
        i += 1
    return out


def product_for(x: Any) -> float:
    out = 1.0
    for i in range(2):
        out *= x[i] ** 2
    return out


@RUNS
@pytest.mark.parametrize("f", [product, product_while, product_for])
def test_hessian_vector_product(f: Function, run: Function) -> None:
    x, v = np.array([2.0, 3.0]), np.array([4.0, 5.0])
    np.testing.assert_allclose(run(grad(f), x), [36, 24])
    np.testing.assert_allclose(run(lambda x, v: hvp(f, (x,), (v,)), x, v), [192, 136])
    np.testing.assert_allclose(run(lambda x, v: jvp(grad(f), (x,), (v,))[1], x, v), [192, 136])
    np.testing.assert_allclose(run(grad(lambda x, v: grad(f)(x) @ v), x, v), [192, 136])


def test_hessian_vector_product_outside_compiled_code() -> None:
    np.testing.assert_allclose(hvp(product, (np.array([2.0, 3.0]),), (np.array([4.0, 5.0]),)), [192, 136])


@RUNS
def test_mutation(run: Function) -> None:
    """In-place products, overwriting after reading, and ``continue`` in a loop."""
    def product(x: Any) -> float:
        out = 1.0
        for i in range(len(x)):
            if x[i] < 0:
                continue
            out *= x[i]
        return out

    def in_place(x: Any, y: Any) -> float:
        a = x.copy()
        a *= y
        first = a[0]
        a[0] = 5.0
        return first * a.sum()
    np.testing.assert_allclose(run(grad(product), np.array([2.0, 2.0, 2.0])), [4, 4, 4])
    np.testing.assert_allclose(run(grad(product), np.array([2.0, -7.0, 3.0])), [3, 0, 2])
    dx, dy = run(grad(in_place, argnums=(0, 1)), np.array([2.0, 3.0]), np.array([7.0, 11.0]))
    np.testing.assert_allclose(dx, [7 * 38, 14 * 11])
    np.testing.assert_allclose(dy, [2 * 38, 14 * 3])


@RUNS
def test_partial_derivative(run: Function) -> None:
    def f(x: float, y: float) -> float:
        return x ** 3 * y ** 4
    assert run(jit(f, grad="x").grad, 2.0, 3.0) == 972.0
    assert run(jit(f, grad=1).grad, 2.0, 3.0) == 864.0
    assert run(jit(f, grad=("x", "y")).grad, 2.0, 3.0) == (972.0, 864.0)


def rotate(q: Any, v: Any) -> Any:
    """``v`` rotated by the quaternion ``q``, whose real part is last, and scaled by the square of its length."""
    x, y, z, w = q
    stretch, along = w * w - x * x - y * y - z * z, 2 * (x * v[0] + y * v[1] + z * v[2])
    return (stretch * v[0] + along * x + 2 * w * (y * v[2] - z * v[1]),
            stretch * v[1] + along * y + 2 * w * (z * v[0] - x * v[2]),
            stretch * v[2] + along * z + 2 * w * (x * v[1] - y * v[0]))


@RUNS
def test_rotation(run: Function) -> None:
    q, v = (1.1, 2.2, 3.3, 4.4), (5.5, 6.6, 7.7)
    np.testing.assert_allclose(run(rotate, q, v), (71.874, 303.468, 279.51))
    dq, dv = run(grad(lambda q, v: rotate(q, v)[0], argnums=(0, 1)), q, v)
    np.testing.assert_allclose(dq, (91.96, 58.08, -77.44, 38.72))
    np.testing.assert_allclose(dv, (4.84, -24.2, 26.62))


@RUNS
def test_atan2(run: Function) -> None:
    assert run(grad(math.atan2, argnums=(0, 1)), 1.0, 2.0) == pytest.approx((0.4, -0.2))


def zero_at_zero(x: float) -> float:
    if x == 0:
        return 0.0
    return x


@RUNS
def test_branchwise_derivative(run: Function) -> None:
    """The derivative of the branch taken is 0 at 0, though the function's is 1."""
    assert run(grad(zero_at_zero), 0.0) == 0.0
    assert run(grad(zero_at_zero), 1.0) == 1.0


@RUNS
def test_reverse_derivative_of_the_dot_product(run: Function) -> None:
    def dot(x: Any, y: Any) -> float:
        return x[0] * y[0] + x[1] * y[1]

    def pulled(x: Any, y: Any) -> Any:
        return vjp(dot, x, y)[1](2.0)
    np.testing.assert_allclose(run(pulled, (1.0, 2.0), (3.0, 4.0)), ((6.0, 8.0), (2.0, 4.0)))


@RUNS
def test_forward_from_double_reverse(run: Function) -> None:
    """The pullback is linear in its cotangent; its own pullback is the pushforward."""
    def pushforward(x: float, tangent: float) -> float:
        return vjp(lambda cotangent: vjp(lambda x: x * x, x)[1](cotangent)[0], 0.0)[1](tangent)[0]
    assert run(pushforward, 3.0, 2.0) == 12.0


@RUNS
def test_gradient_descent(run: Function) -> None:
    def loss(w: float, a: float, b: float) -> float:
        return (w * a - b) ** 2

    def descend(w: float, a: float, b: float) -> tuple[float, int]:
        steps = 0
        while loss(w, a, b) >= 1e-6:
            w -= 0.1 * grad(loss)(w, a, b)
            steps += 1
        return w, steps
    w, steps = run(descend, 0.0, 2.0, 6.0)
    assert (steps, w) == (6, pytest.approx(2.999808, abs=1e-12))


def test_sharing_is_kept() -> None:
    """Thirty bindings, each used twice, cost only thirty additions in the reverse sweep."""
    assert jit(grad(sharing))(1.0) == 2.0 ** 31              # 2³⁰ would not end


def own_derivative(x: float) -> float:
    if x < 1:
        return x ** 2
    return grad(lambda y: own_derivative(y - 1))(x)


@pytest.mark.slow
def test_own_derivative() -> None:
    """A function defined by its own derivative, to the order given by the argument."""
    f = jit(own_derivative)
    assert [f(x) for x in (0.5, 1.5, 2.5, 3.5)] == [0.25, 1.0, 2.0, 0.0]
    assert grad(own_derivative)(1.5) == 2.0
    with pytest.raises(RecursionError, match="differentiated more than"):
        f(9.5)


def test_own_derivative_has_every_order_by_definition() -> None:
    assert [jitad.interpret(own_derivative, x) for x in (0.5, 1.5, 2.5, 3.5, 9.5)] == [0.25, 1.0, 2.0, 0.0, 0.0]
    assert jitad.interpret(grad(own_derivative), 1.5) == 2.0

