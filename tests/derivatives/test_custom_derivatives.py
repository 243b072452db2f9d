"""Functions that define their own derivative: ``custom_vjp``, ``custom_jvp``."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitad
from jitad import (
    DifferentiationError,
    UnsupportedError,
    check_grads,
    custom_jvp,
    custom_vjp,
    grad,
    hessian,
    hvp,
    interpret,
    jacfwd,
    jacrev,
    jit,
    jvp,
    stop_gradient,
    value_and_grad,
    vjp,
)
from tests import tracing

pytestmark = pytest.mark.any_level

X = np.array([0.5, -1.25, 2.0])


# A rule with a wrong derivative (twice the right one) shows which rule is used.

@custom_vjp
def product(x: Any, y: Any) -> Any:
    return np.sin(x) * y


def product_fwd(x: Any, y: Any) -> Any:
    return np.sin(x) * y, (x, y)


def product_bwd(kept: Any, ct: Any) -> Any:
    x, y = kept
    return 2 * np.cos(x) * y * ct, np.sin(x) * ct


product.defvjp(product_fwd, product_bwd)


@custom_jvp
def total(x: Any) -> Any:
    return np.exp(x).sum()


@total.defjvp
def total_rule(primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return total(x), 2 * (np.exp(x) * dx).sum()


def test_reverse_mode_of_a_vjp_rule_is_the_rule() -> None:
    assert product(1.0, 2.0) == np.sin(1.0) * 2.0
    assert grad(product, (0, 1))(1.0, 2.0) == pytest.approx((4 * np.cos(1.0), np.sin(1.0)))
    out, pull = vjp(product, 1.0, 2.0)
    assert (out, *pull(3.0)) == pytest.approx((2 * np.sin(1.0), 12 * np.cos(1.0), 3 * np.sin(1.0)))


def test_only_some_arguments_and_the_same_one_twice() -> None:
    assert grad(product, 1)(1.0, 2.0) == pytest.approx(np.sin(1.0))
    assert grad(lambda x: product(x, x))(0.7) == pytest.approx(2 * np.cos(0.7) * 0.7 + np.sin(0.7))
    assert grad(lambda x: product(1.0, x) + product(x, 1.0))(0.7) == pytest.approx(np.sin(1.0) + 2 * np.cos(0.7))


def test_second_derivatives_differentiate_the_rules() -> None:
    assert grad(grad(product))(1.0, 2.0) == pytest.approx(-4 * np.sin(1.0))
    assert hessian(product)(1.0, 2.0) == pytest.approx(-4 * np.sin(1.0))
    assert hvp(lambda x: product(x, 2.0), (1.0,), (0.5,)) == pytest.approx(-2 * np.sin(1.0))
    assert grad(grad(grad(product)))(1.0, 2.0) == pytest.approx(-4 * np.cos(1.0))


def test_forward_mode_of_a_vjp_rule_is_refused_by_name() -> None:
    with pytest.raises(DifferentiationError, match=r"forward mode through `product`(.|\n)*def product"):
        jvp(product, (1.0, 2.0), (1.0, 0.0))
    with pytest.raises(DifferentiationError, match="defjvp"):
        jacfwd(lambda x: product(x, 1.0))(2.0)


def test_both_modes_of_a_jvp_rule() -> None:
    np.testing.assert_allclose(grad(total)(X), 2 * np.exp(X))
    out, dot = jvp(total, (X,), (np.ones(3),))
    assert (out, dot) == pytest.approx((np.exp(X).sum(), 2 * np.exp(X).sum()))
    np.testing.assert_allclose(jacrev(total)(X), jacfwd(total)(X))
    np.testing.assert_allclose(hessian(total)(X), np.diag(2 * np.exp(X)))
    np.testing.assert_allclose(jacrev(grad(total))(X), np.diag(2 * np.exp(X)))


@pytest.mark.slow
def test_a_right_rule_passes_the_checker() -> None:
    @custom_jvp
    def log1pexp(x: float) -> float:
        return np.log(1.0 + np.exp(x))

    @log1pexp.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return log1pexp(x), (1 - 1 / (1 + np.exp(x))) * dx
    check_grads(log1pexp, (0.3,), order=3)
    assert grad(log1pexp)(1000.0) == 1.0


def test_rules_by_argument() -> None:
    @custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * x * y
    f.defjvps(lambda dx, out, x, y: 2 * x * y * dx, lambda dy, out, x, y: out / y * dy)
    check_grads(f, (1.5, 2.5), order=2)
    f.defjvps(lambda dx, out, x, y: 2 * x * y * dx, None)
    assert grad(f, (0, 1))(1.5, 2.5) == (7.5, 0.0)


def test_none_is_a_zero_cotangent() -> None:
    @custom_vjp
    def f(x: Any, w: Any) -> Any:
        return (x * w["a"]).sum() + w["b"]
    f.defvjp(lambda x, w: (f(x, w), x), lambda x, ct: (None, {"a": ct * x, "b": None}))
    dx, dw = grad(f, (0, 1))(X, {"a": X + 1, "b": 2.0})
    np.testing.assert_array_equal(dx, np.zeros(3))
    np.testing.assert_array_equal(dw["a"], X)
    assert dw["b"] == 0.0


class Point(NamedTuple):
    x: float
    y: np.ndarray
    n: int


def test_pytrees_in_and_out() -> None:
    @custom_vjp
    def f(p: Point) -> Any:
        return {"s": p.x * p.y, "n": p.n, "t": (p.x,)}

    def fwd(p: Point) -> Any:
        return f(p), [p, {"k": 3}]

    def bwd(kept: Any, ct: Any) -> Any:
        p, more = kept
        return (Point((ct["s"] * p.y).sum() + more["k"] * ct["t"][0], ct["s"] * p.x, None),)
    f.defvjp(fwd, bwd)

    def loss(p: Point) -> Any:
        out = f(p)
        return (out["s"] ** 2).sum() * out["n"] + out["t"][0]
    got = grad(loss)(Point(1.5, X, 4))
    assert got.x == pytest.approx(8 * 1.5 * (X ** 2).sum() + 3)
    np.testing.assert_allclose(got.y, 8 * 1.5 ** 2 * X)
    assert got.n is None


def test_in_loops_branches_and_recursion() -> None:
    @jit(grad=True)
    def loop(x: float) -> float:
        s = 0.0
        for i in range(4):
            s += product(x * i, s + 1) if i % 2 else product(s, x)
        while s < 3:
            s = s * 2 + product(x, 1.0)
        return s

    @jit
    def deep(x: float, n: int) -> float:
        return x if n == 0 else product(deep(x, n - 1), x)

    def reference(x: Any, n: int) -> tuple[float, float]:
        """Value and gradient with the factor 2 of the rule."""
        if n == 0:
            return x, 1.0
        v, d = reference(x, n - 1)
        return np.sin(v) * x, 2 * np.cos(v) * x * d + np.sin(v)
    assert value_and_grad(deep)(0.9, 5) == pytest.approx(reference(0.9, 5))
    assert loop.grad(0.4) == pytest.approx(interpret(loop.grad, 0.4))


def test_arguments_that_are_not_differentiated() -> None:
    @functools.partial(custom_vjp, nondiff_argnums=(0, 2))
    def apply(fun: Any, x: Any, n: int) -> Any:
        return fun(x) ** n
    apply.defvjp(lambda fun, x, n: (fun(x) ** n, x), lambda fun, n, x, ct: (ct * 10 * n,))
    assert grad(lambda x: apply(np.sin, x, 3))(1.0) == 30.0
    assert grad(lambda x: apply(fun=np.sin, x=x, n=2))(1.0) == 20.0

    @functools.partial(custom_jvp, nondiff_argnums=(1,))
    def power(x: Any, n: Any) -> Any:
        return x ** n

    @power.defjvp
    def rule(n: Any, primals: Any, tangents: Any) -> Any:
        return power(primals[0], n), 10 * n * tangents[0]
    assert grad(power)(2.0, 3) == 30 and jvp(lambda x: power(x, 2), (1.0,), (1.0,)) == (1.0, 20.0)
    with pytest.raises(DifferentiationError, match="`power` has a derivative of its own, which says nothing"):
        grad(power, 1)(2.0, 3.0)
    assert grad(lambda n: power(2.0, stop_gradient(n)) + n)(3.0) == 1.0


def test_what_a_function_captures() -> None:
    @jit
    def g(x: float, s: float) -> Any:
        f = custom_vjp(lambda y: s * y)
        f.defvjp(lambda y: (s * y, y), lambda kept, ct: (100 * s * ct,))
        return grad(f)(x)
    assert g(2.0, 3.0) == 300.0

    def outer(s: float, x: float) -> Any:
        f = custom_vjp(lambda y: s * y)
        f.defvjp(lambda y: (s * y, None), lambda kept, ct: (s * ct,))
        return f(x)
    assert grad(outer, 1)(2.0, 3.0) == 2.0
    with pytest.raises(DifferentiationError, match="that it captures"):
        grad(outer, 0)(2.0, 3.0)


TABLE = np.array([1.0, 2.0, 4.0])


def test_rules_that_use_arrays_from_outside() -> None:
    @custom_vjp
    def look(x: Any) -> Any:
        return x * TABLE[1]
    look.defvjp(lambda x: (x * TABLE[1], TABLE), lambda kept, ct: (ct * (kept + X).sum(),))
    assert grad(look)(2.0) == pytest.approx((TABLE + X).sum())
    assert grad(lambda x: look(look(x)))(2.0) == pytest.approx((TABLE + X).sum() ** 2)


def test_arrays_of_any_size_and_in_single_precision() -> None:
    @custom_vjp
    def clip(x: Any) -> Any:
        return np.clip(x, -1.0, 1.0)
    clip.defvjp(lambda x: (clip(x), None), lambda kept, ct: (ct,))
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    got = grad(lambda x: (clip(x) * x).sum())(x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, x + np.clip(x, -1, 1))
    assert jacrev(clip)(np.zeros((2, 1))).shape == (2, 1, 2, 1)


def test_an_argument_can_be_used_up_behind_it() -> None:
    @custom_vjp
    def double(x: Any) -> Any:
        return x * 2
    double.defvjp(lambda x: (x * 2, x), lambda x, ct: (ct * 2 + 0 * x,))

    @jit(grad=True)
    def f(x: Any) -> Any:
        y = x.copy()
        for i in range(3):
            z = double(y)
            y[i] = z[i] * x[0]
        return (y * z).sum()
    check_grads(f, (X,), order=1, modes=("rev",))


def test_by_the_interpreter_too() -> None:
    assert interpret(grad(product, (0, 1)), 1.0, 2.0) == grad(product, (0, 1))(1.0, 2.0)
    np.testing.assert_allclose(interpret(hessian(total), X), hessian(total)(X))


# --- errors show the rule's line --------------------------------------------------------------------

def _f(x: Any) -> Any:
    return x * 2.0


@pytest.mark.parametrize("fwd, bwd, message", [
    (lambda x: x * 2.0, lambda kept, ct: (ct,), r"forward rule of `_f` returns \*(.|\n)*return \(result, res"),
    (lambda x: ((x, x), None), lambda kept, ct: (ct,), "result of the forward rule is"),
    (lambda x: (x, None), lambda kept, ct: ct, "backward rule of `_f` returns"),
    (lambda x: (x, None), lambda kept, ct: (ct, ct), "return a tuple of 1"),
    (lambda x: (x, None), lambda kept, ct: ({"a": ct},), "should be like"),
    (lambda x: (x, None), lambda kept, ct: (np.ones(3),), "a rule gives f64"),
])
def test_wrong_structures(fwd: Any, bwd: Any, message: str) -> None:
    f = custom_vjp(_f)
    f.defvjp(fwd, bwd)
    with pytest.raises(DifferentiationError, match=message) as caught:
        grad(f)(1.0)
    assert "test_custom_derivatives.py" in str(caught.value)


def test_a_cotangent_of_another_size_is_an_error_when_it_runs() -> None:
    @custom_vjp
    def f(x: Any) -> Any:
        return x.sum()
    f.defvjp(lambda x: (x.sum(), None), lambda kept, ct: (np.zeros(5),))
    with pytest.raises(ValueError, match="a rule gives an array of size 5 where 3 is needed"):
        grad(f)(X)


def test_wrong_tangents() -> None:
    f = custom_jvp(_f)
    f.defjvp(lambda primals, tangents: primals[0])
    with pytest.raises(DifferentiationError, match="return \\(result, tangent"):
        grad(f)(1.0)
    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents))
    with pytest.raises(DifferentiationError, match="the tangent of the result is"):
        grad(f)(1.0)


def test_without_a_rule() -> None:
    with pytest.raises(DifferentiationError, match=r"without a rule(.|\n)*_f.defvjp"):
        custom_vjp(_f)(1.0)
    with pytest.raises(TypeError, match="takes a function"):
        custom_jvp(3)
    with pytest.raises(TypeError, match="takes functions"):
        custom_jvp(_f).defjvp(3)


def test_it_may_not_change_what_it_captures() -> None:
    def outer(x: float) -> Any:
        seen = [0.0]

        def keep(y: float) -> float:
            seen[0] = y
            return y
        h = custom_vjp(keep)
        h.defvjp(lambda y: (y, None), lambda kept, ct: (ct,))
        return h(x) + seen[0]
    with pytest.raises(UnsupportedError, match="changes what it is given or captures"):
        grad(outer)(1.0)


def test_rules_may_not_change_what_they_capture() -> None:
    """The effect would be unpredictable: a rule runs whenever its derivative is taken.  It may change its arguments."""
    def forward(x: float) -> Any:
        seen = [0.0, np.zeros(2)]

        def fwd(y: float) -> Any:
            seen[0] = y
            return y * y, y
        h = custom_vjp(lambda y: y * y)
        h.defvjp(fwd, lambda y, ct: (2 * y * ct,))
        return h(x) + seen[0]

    def backward(x: float) -> Any:
        seen = [0.0, np.zeros(2)]

        def bwd(y: float, ct: float) -> Any:
            seen[1][0] = ct
            return (2 * y * ct,)
        h = custom_vjp(lambda y: y * y)
        h.defvjp(lambda y: (y * y, y), bwd)
        return grad(h)(x) + seen[1].sum()

    def tangent(x: float) -> Any:
        count = 0

        def rule(primals: Any, tangents: Any) -> Any:
            nonlocal count
            count += 1
            return primals[0] ** 2, 2 * primals[0] * tangents[0]
        h = custom_jvp(lambda y: y * y)
        h.defjvp(rule)
        return jvp(h, (x,), (1.0,))[1] + count
    for fun, rule in ((forward, "fwd"), (backward, "bwd"), (tangent, "rule")):
        with pytest.raises(UnsupportedError, match="changes what it captures") as found:
            jit(fun)(1.0)
        assert found.value.loc.file == __file__ and f"def {rule}" in str(found.value)

    def given(x: float) -> Any:
        def bwd(kept: Any, ct: float) -> Any:
            kept[0] *= 2
            kept[1][:] = kept[0]
            kept.append(ct)
            return (kept[1].sum() * kept[2],)
        h = custom_vjp(lambda y: y * y)
        h.defvjp(lambda y: (y * y, [y, np.zeros(1)]), bwd)
        return grad(h)(x)
    assert jit(given)(0.7) == pytest.approx(1.4)


@pytest.mark.slow
def test_recursive_functions_with_a_rule() -> None:
    @custom_vjp
    def power(x: float, n: int) -> float:
        return x if n == 0 else power(x, n - 1) * x
    power.defvjp(lambda x, n: (power(x, n), (x, n)), lambda kept, ct: (7 * ct * power(*kept), None))
    assert grad(power)(2.0, 3) == 7 * 16 and grad(grad(power))(2.0, 3) == 49 * 16

    @custom_jvp
    def h(x: float) -> float:
        return np.tanh(x)
    h.defjvp(lambda p, t: (h(p[0]), (1 - h(p[0]) ** 2) * t[0]))

    def even(x: float, n: int) -> float:
        return x if n == 0 else odd(h(x), n - 1)

    def odd(x: float, n: int) -> float:
        return x * x if n == 0 else even(h(x) * x, n - 1)
    check_grads(even, (0.7, 5), order=2)


def test_made_in_compiled_code() -> None:
    @jit
    def g(x: float) -> Any:
        @custom_vjp
        def square(y: float) -> float:
            return y * y
        square.defvjp(lambda y: (square(y), y), lambda y, ct: (ct * 5 * y,))
        return grad(square)(x)
    assert g(3.0) == 15.0


def test_dicts_that_rules_return_are_matched_by_their_keys() -> None:
    """In any order: by position, the derivative of one would be that of another."""
    @custom_vjp
    def f(d: Any) -> Any:
        return {"x": d["a"] ** 2, "y": 3 * d["b"]}
    f.defvjp(lambda d: ({"y": 3 * d["b"], "x": d["a"] ** 2}, d["a"]),
             lambda a, ct: ({"b": 3 * ct["y"], "a": 2 * a * ct["x"]},))

    @custom_jvp
    def g(d: Any) -> Any:
        return {"x": d["a"] ** 2, "y": 3 * d["b"]}
    g.defjvp(lambda p, dp: ({"y": 3 * p[0]["b"], "x": p[0]["a"] ** 2},
                            {"y": 3 * dp[0]["b"], "x": 2 * p[0]["a"] * dp[0]["a"]}))
    p = {"a": 1.5, "b": 2.0}
    for rule in (f, g):
        value, gradient = value_and_grad(lambda d, r=rule: r(d)["x"] + 7 * r(d)["y"])(p)
        assert (value, gradient) == (44.25, {"a": 3.0, "b": 21.0})
    assert jvp(g, (p,), ({"b": 1.0, "a": 10.0},)) == ({"x": 2.25, "y": 6.0}, {"x": 30.0, "y": 3.0})
    assert interpret(lambda d: jvp(g, (d,), (d,))[1], p) == {"x": 4.5, "y": 6.0}


def test_calls_without_floats_have_no_derivative_and_ask_for_none() -> None:
    @custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))

    @custom_jvp
    def half(x: Any) -> Any:
        return x * 0.5

    half.defjvp(lambda primals, tangents: (half(primals[0]), 0.5 * tangents[0]))

    @custom_vjp
    def whole(x: Any) -> Any:
        return int(x)

    whole.defvjp(lambda x: (whole(x), x), lambda x, ct: (x * ct,))
    assert (square(3), half(3), whole(2.5)) == (9, 1.5, 2)
    assert square(np.arange(3)).tolist() == [0, 1, 4]
    assert grad(lambda x: x * square(3) + x * half(3) + x * whole(x))(2.5) == 12.5
    assert jvp(lambda x: x * half(3) + half(x), (2.0,), (1.0,))[1] == 2.0

    def captures(x: Any) -> Any:
        @custom_vjp
        def times(n: Any) -> Any:
            return n * x

        times.defvjp(lambda n: (n * x, None), lambda kept, ct: (None,))
        return times(3)

    assert jit(captures)(2.0) == 6.0
    with pytest.raises(DifferentiationError, match="says nothing of a value that it uses"):
        grad(captures)(2.0)


def test_positions_are_integers_that_are_known() -> None:
    for positions in ("x", 1.0, (0, 1.0), True):
        with pytest.raises(TypeError, match="nondiff_argnums takes positions, not"):
            custom_jvp(lambda x: x, nondiff_argnums=positions)
    with pytest.raises(TypeError, match="not an int that is only known at run time"):
        jit(lambda x, n: grad(lambda y, z: y * z, n)(x, x))(2.0, 1)
    assert jit(lambda x, n: grad(lambda y, z: y * z * z, n)(x, x), static="n")(2.0, 1) == 8.0


@dataclass
class Branch:
    w: float
    following: Branch | None = None


def test_a_tree_of_tangents() -> None:
    """It raised an IndexError in the compiler, and was refused later."""
    def f(tree: Any, x: float) -> float:
        return tree.w * x
    whole, known = jitad.custom_jvp(f), jitad.custom_jvp(f, nondiff_argnums=(0,))
    whole.defjvp(lambda primals, tangents: (
        f(*primals), 10.0 * (primals[0].w * tangents[1] + tangents[0].w * primals[1])))
    known.defjvp(lambda tree, primals, tangents: (f(tree, *primals), 100.0 * tree.w * tangents[0]))
    for rule, slope in (whole, 30.0), (known, 300.0):
        assert rule(Branch(3.0), 2.0) == jit(lambda tree, x, rule=rule: rule(tree, x))(Branch(3.0), 2.0) == 6.0
        assert jitad.grad(lambda tree, x, rule=rule: rule(tree, x), 1)(Branch(3.0), 2.0) == slope
    assert jitad.grad(lambda tree, x: whole(tree, x))(Branch(3.0), 2.0).w == 20.0


# --- unions --------------------------------------------------------------------------------------------

@dataclass
class Held:
    x: Any


@dataclass
class Chain:
    head: float
    tail: Chain | None


P = np.array([0.5, 0.75, -0.25])


def held(x: Any) -> Any:
    """``None``, or an object that holds a float or an array."""
    h = Held(P * x)
    if x > 0:
        h.x = x * P[0]
    return None if x > 0.5 else h


def held_tangent(x: Any, dx: Any) -> Any:
    h = Held(P * dx)
    if x > 0:
        h.x = dx * P[0]
    return None if x > 0.5 else h


def square(h: Any) -> Any:
    return 1.0 if h is None else np.sum(h.x * h.x)


def weighed(g: Any, h: Any) -> Any:
    return square(g) * (2.0 if h is None else np.sum(h.x))


def weighed_tangent(g: Any, h: Any, dg: Any, dh: Any) -> Any:
    first = 0.0 if g is None else 2 * np.sum(g.x * dg.x)
    return first * (2.0 if h is None else np.sum(h.x)) + square(g) * (0.0 if h is None else np.sum(dh.x))


def weighed_cotangents(kept: Any, ct: Any) -> Any:
    g, h = kept
    return (None if g is None else Held(2 * ct * (2.0 if h is None else np.sum(h.x)) * g.x),
            None if h is None else Held(ct * square(g) * (h.x * 0 + 1)))


weighed_forward, weighed_back = custom_jvp(weighed), custom_vjp(weighed)
weighed_forward.defjvp(lambda primals, tangents: (weighed(*primals), weighed_tangent(*primals, *tangents)))
weighed_back.defvjp(lambda g, h: (weighed(g, h), (g, h)), weighed_cotangents)

half = custom_vjp(lambda h: 0.5 * square(h))            # its cotangent has the structure of its argument
half.defvjp(lambda h: (0.5 * square(h), h), lambda h, ct: (h,))

held_forward, held_back = custom_jvp(held), custom_vjp(held)
held_forward.defjvp(lambda primals, tangents: (held(*primals), held_tangent(*primals, *tangents)))

held_back.defvjp(lambda x: (held(x), x), lambda x, ct: (
    0.0 if ct is None else ct.x * P[0] if isinstance(ct.x, float) else np.sum(ct.x * P),))


def product_of_unions(rule: Any) -> Any:
    """Each argument has a tag of its own, even if another call passes one value twice."""
    def fun(x: Any) -> Any:
        g, h = held(x), held(0.3 - 3 * x * x)
        return (rule(g, g) + rule(g, h) + rule(h, g)) * x
    return fun


def tree_or_array(x: Any) -> Any:
    return Chain(x, Chain(x * x, None)) if x > 0 else P * x


def heads(tree: Any) -> Any:
    return tree.head * tree.tail.head if isinstance(tree, Chain) else np.sum(tree * tree)


heads_forward = custom_jvp(heads)
heads_forward.defjvp(lambda primals, tangents: (heads(primals[0]), heads_tangent(primals[0], tangents[0])))


def heads_tangent(tree: Any, d: Any) -> Any:
    if isinstance(tree, Chain):
        return tree.head * d.tail.head + d.head * tree.tail.head
    return 2 * np.sum(tree * d)


two_heads = custom_jvp(lambda tree: tree.head * tree.tail.head)
two_heads.defjvp(lambda primals, tangents: (
    primals[0].head * primals[0].tail.head,
    primals[0].head * tangents[0].tail.head + tangents[0].head * primals[0].tail.head))

UNIONS = [
    (product_of_unions(weighed), product_of_unions(weighed_forward)),
    (product_of_unions(weighed), product_of_unions(weighed_back)),
    (lambda x: 0.5 * square(held(x)), lambda x: half(held(x))),
    (lambda x: square(held(x)), lambda x: square(held_forward(x))),
    (lambda x: square(held(x)), lambda x: square(held_back(x))),
    (lambda x: heads(tree_or_array(x)), lambda x: heads_forward(tree_or_array(x))),
    (lambda x: 3 * x * x, lambda x: two_heads(Chain(x, Chain(3 * x, None)))),
]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(UNIONS)))
def test_arguments_and_results_of_several_kinds(number: int) -> None:
    plain, ruled = UNIONS[number]
    compiled, h = jit(value_and_grad(ruled)), 1e-4
    for x in (0.25, -0.4, 0.8):
        slope, bent = (plain(x + h) - plain(x - h)) / (2 * h), (plain(x + h) - 2 * plain(x) + plain(x - h)) / h ** 2
        for found in (compiled(x), interpret(value_and_grad(ruled), x)):
            assert found == pytest.approx((plain(x), slope), rel=1e-5, abs=1e-7)
        assert tracing.meant_and_made(grad(grad(ruled)), x) == pytest.approx([bent] * 2, rel=1e-4, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("number", (0, 3, 5, 6))
def test_forward_mode_of_several_kinds(number: int) -> None:
    ruled = UNIONS[number][1]
    for x in (0.25, -0.4, 0.8):
        slope = interpret(grad(ruled), x)
        assert tracing.meant_and_made(lambda x: jvp(ruled, (x,), (1.0,))[1], x) == pytest.approx([slope] * 2)


def test_kinds_in_another_order_are_refused() -> None:
    def array_first(x: Any) -> Any:
        h = Held(x * P[0])
        if x <= 0:
            h.x = P * x
        return None if x > 0.5 else h
    rule = custom_vjp(held)
    rule.defvjp(lambda x: (array_first(x), x), lambda x, ct: (x,))
    with pytest.raises(UnsupportedError, match="several kinds, and they come in another order"):
        grad(lambda x: square(rule(x)))(0.3)
    rule = custom_vjp(square)
    rule.defvjp(lambda h: (square(h), h), lambda h, ct: (None if h is None else array_first(np.sum(h.x)),))
    with pytest.raises(DifferentiationError, match="is needed(.|\n)*in the same order"):
        grad(lambda x: rule(held(x)))(0.3)


def test_a_cotangent_of_another_kind_is_an_error() -> None:
    rule = custom_vjp(square)
    rule.defvjp(lambda h: (square(h), h), lambda h, ct: (held(0.3 - square(h)),))
    with pytest.raises(ValueError, match="a derivative of another kind than its value"):
        grad(lambda x: rule(held(x)))(-0.3)
    with pytest.raises(ValueError, match="a derivative of another kind than its value"):
        interpret(grad(lambda x: rule(held(x))), -0.3)


# --- functions among the arguments that are not differentiated --------------------------------------

@functools.partial(custom_vjp, nondiff_argnums=(0,))
def settled(step: Any, w: Any, start: Any) -> Any:
    """The fixed point of ``step(w, ·)``; differentiated by the implicit function theorem."""
    before, x = start, step(w, start)
    while np.max(np.abs(x - before)) > 1e-13:
        before, x = x, step(w, x)
    return x


def settled_fwd(step: Any, w: Any, start: Any) -> Any:
    x = settled(step, w, start)
    return x, (w, x)


def adjoint_step(step: Any, packed: Any, u: Any) -> Any:
    w, x, ct = packed
    return ct + vjp(lambda x: step(w, x), x)[1](u)[0]


def settled_bwd(step: Any, kept: Any, ct: Any) -> Any:
    w, x = kept

    def around(packed: Any, u: Any) -> Any:
        return adjoint_step(step, packed, u)
    u = settled(around, (w, x, ct), ct)
    return vjp(lambda w: step(w, x), w)[1](u)[0], np.zeros_like(x)


def settled_bwd_by_partial(step: Any, kept: Any, ct: Any) -> Any:
    w, x = kept
    u = settled(functools.partial(adjoint_step, step), (w, x, ct), ct)
    return vjp(lambda w: step(w, x), w)[1](u)[0], None


def of_a_lambda(w: Any) -> Any:
    return settled(lambda w, x: 0.5 * (x + w / x), w, w)


def of_an_inner_function(w: Any) -> Any:
    half = 0.5

    def heron(w: Any, x: Any) -> Any:
        return half * (x + w / x)
    return settled(heron, w, w)


def of_a_partial(w: Any) -> Any:
    return settled(functools.partial(lambda half, w, x: half * (x + w / x), 0.5), w, w)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("bwd", [settled_bwd, settled_bwd_by_partial])
@pytest.mark.parametrize("root", [of_a_lambda, of_an_inner_function, of_a_partial])
def test_a_fixed_point_of_a_function_that_is_made_on_the_way(root: Any, bwd: Any) -> None:
    settled.defvjp(settled_fwd, bwd)
    want = [2 ** 0.5, 0.5 * 2 ** -0.5, -0.25 * 2 ** -1.5, 0.375 * 2 ** -2.5, -0.9375 * 2 ** -3.5]
    f = root
    for derivative in want:
        assert f(2.0) == pytest.approx(derivative)
        assert jit(f)(2.0) == pytest.approx(derivative)
        assert interpret(f, 2.0) == pytest.approx(derivative)
        f = grad(f)
    with pytest.raises(DifferentiationError, match="`settled` is differentiated more than 4 times"):
        f(2.0)


@pytest.mark.slow
def test_a_fixed_point_of_arrays_with_what_the_function_captures() -> None:
    settled.defvjp(settled_fwd, settled_bwd)
    a = np.array([[0.2, 0.1], [0.0, 0.3]])

    def rest(w: Any, scale: Any) -> Any:
        return settled(lambda w, x: scale * (a @ np.tanh(x)) + w, w, np.zeros(2))

    def plain(w: Any, scale: Any) -> Any:
        x = np.zeros(2)
        for _ in range(60):
            x = scale * (a @ np.tanh(x)) + w
        return x
    w = np.array([1.0, -0.5])
    np.testing.assert_allclose(rest(w, 0.9), plain(w, 0.9))
    for run in (jacrev(rest), jit(jacrev(rest)), lambda w, k: interpret(jacrev(rest), w, k)):
        np.testing.assert_allclose(run(w, 0.9), jacfwd(plain)(w, 0.9))
    np.testing.assert_allclose(grad(grad(lambda k: rest(k * w, 0.9).sum()))(1.0),
                               grad(grad(lambda k: plain(k * w, 0.9).sum()))(1.0))
    with pytest.raises(DifferentiationError, match="which says nothing of a value that it uses"):
        grad(lambda k: rest(w, k).sum())(0.9)


def test_a_function_given_from_outside() -> None:
    settled.defvjp(settled_fwd, settled_bwd)
    def heron(w: Any, x: Any) -> Any:
        return 0.5 * (x + w / x)
    assert settled(heron, 2.0, 2.0) == pytest.approx(2 ** 0.5)
    assert grad(settled, 1)(heron, 2.0, 2.0) == pytest.approx(0.5 * 2 ** -0.5)
    assert jit(settled, static=0)(heron, 2.0, 2.0) == pytest.approx(2 ** 0.5)


def test_functions_made_on_the_way_in_forward_mode() -> None:
    @functools.partial(custom_jvp, nondiff_argnums=(0, 2))
    def applied(f: Any, x: Any, g: Any) -> Any:
        return g(f(x))

    @applied.defjvp
    def rule(f: Any, g: Any, primals: Any, tangents: Any) -> Any:
        y, dy = jvp(lambda x: g(f(x)), primals, tangents)
        return y, 3 * dy

    def outer(x: Any, k: Any) -> Any:
        def inner(x: Any) -> Any:
            return np.sin(x) * k
        return applied(inner, x, lambda y: y * k)
    x, k = 0.7, 2.0
    for run in (outer, jit(outer)):
        assert run(x, k) == pytest.approx(4 * np.sin(x))
    assert grad(outer)(x, k) == jvp(lambda x: outer(x, k), (x,), (1.0,))[1] == pytest.approx(12 * np.cos(x))
    assert grad(grad(outer))(x, k) == pytest.approx(-12 * np.sin(x))
    np.testing.assert_allclose(jitad.vmap(lambda x: grad(outer)(x, k))(X), 12 * np.cos(X))


@pytest.mark.slow
def test_rules_of_which_no_derivative_is_asked_are_not_compiled() -> None:
    settled.defvjp(settled_fwd, settled_bwd)
    compiled = jit(of_a_lambda)
    assert compiled(2.0) == pytest.approx(2 ** 0.5)
    assert "custom_vjp.bwd" in compiled.inspect("ir") and "bwd" not in compiled.inspect("cps")
    once, twice = jit(grad(of_a_lambda)), jit(grad(grad(of_a_lambda)))
    assert once(2.0) * 2 * 2 ** 0.5 == pytest.approx(1.0) and twice(2.0) < 0
    assert once.inspect("cps").count(".bwd(") < twice.inspect("cps").count(".bwd(")
