"""The differentiation functions: inside traced code and outside, interpreted and compiled, nested and on structures."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from jitad.lowering.llvm import context

import jitad
from jitad import grad, hessian, hvp, jacfwd, jacrev, jit, jvp, linearize, pytree, stop_gradient, value_and_grad, vjp
from jitad.errors import DifferentiationError

pytestmark = pytest.mark.any_level


def cubic(x: Any) -> Any:
    return 2 * x + x ** 3


def product(x: Any, y: Any) -> Any:
    return x * x * y * y


def signed_square(x: Any) -> Any:
    return -x ** 2 if x > 0 else x ** 2


def halve(t: Any) -> Any:
    while t > 1:
        t = t / 2
    return t


def close(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert isinstance(got, tuple) and len(got) == len(expected)
        for g, e in zip(got, expected):
            close(g, e)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_orders() -> None:
    assert grad(cubic)(3.0) == 29
    assert grad(grad(cubic))(3.0) == 18
    assert grad(grad(grad(cubic)))(3.0) == 6
    assert value_and_grad(cubic)(3.0) == (33.0, 29.0)
    assert jvp(cubic, (3.0,), (2.0,)) == (33.0, 58.0)
    assert [grad(halve)(x) for x in (10.0, 8.0, 1.0, 0.5)] == [0.0625, 0.125, 1, 1]
    assert [grad(signed_square)(x) for x in (3.0, -3.0, 0.0)] == [-6, -6, 0]


def test_argnums() -> None:
    assert grad(product)(2.0, 3.0) == 36
    assert grad(product, 1)(2.0, 3.0) == grad(product, "y")(2.0, 3.0) == grad(product, -1)(2.0, 3.0) == 24
    assert grad(product, (1, 0))(2.0, 3.0) == (24, 36)
    assert grad(product, ("x",))(2.0, 3.0) == (36,)
    assert grad(product, "y")(2.0, y=3.0) == grad(product, 1)(2.0, y=3.0) == 24
    assert value_and_grad(product, (0, 1))(2.0, 3.0) == (36, (36, 24))


def test_argnums_that_name_nothing_or_one_argument_twice() -> None:
    for argnums, message in (((), "names no argument"), ((0, "x"), "names an argument twice")):
        with pytest.raises(DifferentiationError, match=message):
            grad(product, argnums)(1.0, 2.0)


def test_arguments_left_to_their_defaults() -> None:
    def f(x: Any, /, k: Any = 2.0, *, scale: Any = 3.0) -> Any:
        return x * k * k * scale
    assert grad(f, "k")(5.0) == grad(f, 1)(5.0) == 60 and grad(f, "scale")(5.0) == 20
    assert grad(f, ("scale", 0))(5.0, 1.0) == (5, 3) and grad(grad(f, "k"), "k")(5.0) == 30
    assert jit(lambda x: grad(f, "scale")(x))(5.0) == 20 and jit(f, grad="scale").grad(5.0) == 20
    assert grad(functools.partial(f, k=4.0), "k")(5.0) == 120 and grad(functools.partial(f, 5.0), "k")() == 60
    assert jit(lambda x: grad(functools.partial(f, k=x), "k")(5.0))(4.0) == 120
    with pytest.raises(DifferentiationError, match="no argument named 'x'"):
        grad(lambda y, k=1.0: y, "x")(1.0)


def test_options_of_jitted_functions() -> None:
    @jit(static="n")
    def power(x: Any, n: int) -> Any:
        out = 1.0
        for _ in jitad.unroll(range(n)):
            out = out * x
        return out

    @jit(boundscheck=False)
    def at(x: Any, i: int) -> Any:
        return x[i]
    assert grad(power)(2.0, 3) == 12 and grad(grad(power))(2.0, n=3) == 12
    assert jvp(at, (np.ones(3), 1), (np.ones(3), None)) == (1, 1)
    close(jitad.vmap(power, in_axes=(0, None))(np.arange(3.0), 2), [0, 1, 4])
    assert "check" not in grad(at).inspect("ir", np.ones(3), 0)


def test_both_arguments_the_same() -> None:
    assert grad(lambda x: grad(product)(x, x))(3.0) == 6 * 9
    x = np.array([1.0, 2.0])
    close(grad(lambda a, b: (a * b * b).sum())(x, x), x ** 2)


def test_perturbations_stay_apart() -> None:
    assert grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0) == 1
    assert grad(lambda x: x * jvp(lambda y: x * y, (2.0,), (1.0,))[1])(3.0) == 6
    assert jit(lambda x: jvp(lambda u: u * grad(lambda v: u * v * v)(u), (x,), (1.0,))[1])(2.0) == 24


def test_perturbations_through_closures_and_maps() -> None:
    def tower(x: Any) -> Any:
        return jvp(lambda y: x * y * y, (x,), (1.0,))[1]             # 2 x²
    assert grad(tower)(3.0) == 12 and grad(grad(tower))(3.0) == 4
    assert grad(lambda x: grad(lambda y: grad(lambda z: x * y * z * z)(y))(x))(2.0) == 16
    e = np.arange(3.0)
    assert grad(lambda x: jitad.vmap(lambda e: jvp(lambda z: z * x * e, (x,), (1.0,))[1])(e).sum())(2.0) == 3
    assert grad(lambda x: jvp(lambda s: jitad.vmap(lambda e: s * e * x)(e).sum() * s, (x,), (1.0,))[1])(2.0) == 24

    def curried(x: Any) -> Any:
        inner = grad(lambda y: x * y ** 2)
        return (lambda f: f(x))(inner)
    assert grad(curried)(3.0) == 12


def test_inside_traced_code() -> None:
    @jit
    def newton(x: float) -> float:
        for _ in range(20):
            x = x - cubic_minus(x) / grad(cubic_minus)(x)
        return x

    def cubic_minus(x: Any) -> Any:
        return x ** 3 - 2
    assert newton(1.0) == pytest.approx(2 ** (1 / 3))


def test_own_derivative() -> None:
    def f(x: Any) -> Any:
        if x < 1:
            return x * x
        return grad(lambda y: y ** 3)(x)
    assert jit(f)(0.5) == 0.25 and jit(f)(2.0) == 12 and grad(f)(2.0) == 12


def test_hessians() -> None:
    assert hvp(product, (2.0, 3.0), (4.0, 5.0)) == (192, 136)
    close(hvp(lambda x: (x ** 3).sum(), (np.arange(3.0),), (np.ones(3),)), 6 * np.arange(3.0))
    close(hessian(lambda x: (x ** 3).sum() + x[0] * x[1])(np.arange(3.0)), [[0, 1, 0], [1, 6, 0], [0, 0, 12.0]])
    assert hessian(cubic)(3.0) == 18


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians(jacobian: Any) -> None:
    a, x = np.arange(6.0).reshape(2, 3), np.array([1.0, -2.0, 0.5])
    close(jacobian(lambda x: np.sin(x) * 2)(x), np.diag(2 * np.cos(x)))
    close(jacobian(lambda x, m: m @ x)(x, a), a)
    close(jacobian(lambda m, x: m @ x, 1)(a, x), a)
    close(jacobian(lambda x: x.sum())(x), np.ones(3))
    close(jacobian(lambda s: s * np.arange(3.0))(2.0), np.arange(3.0))
    assert jacobian(cubic)(3.0) == 29
    assert jacobian(lambda m: m[0] * m[1])(a).shape == (3, 2, 3)


def test_pullbacks() -> None:
    out, pullback = vjp(product, 2.0, 3.0)
    assert out == 36 and pullback(1.0) == (36, 24) and pullback(2.0) == (72, 48)
    x = np.arange(3.0)
    out, pullback = vjp(lambda x, k: (x * x, [x.sum()], k), x, 3)
    close(out[0], x * x)
    dx, dk = pullback((np.ones(3), [1.0], None))
    close(dx, 2 * x + 1)
    assert dk is None

    @jit
    def both(x: Any) -> Any:
        y, pull = vjp(lambda x: (x * x, x), x)
        x = x * 0                            # the pullback keeps the values of its creation
        return pull((y[0], x))[0], pull(y)[0]
    close(both(x), (2 * x ** 3, 2 * x ** 3 + x))
    with pytest.raises(DifferentiationError, match="another structure"):
        vjp(lambda x: (x, x), 1.0)[1](1.0)
    with pytest.raises(ValueError, match="has size 4 where its value has size 3"):
        vjp(lambda x: x * 2, x)[1](np.ones(4))


def test_linearize() -> None:
    out, linear = linearize(product, 2.0, 3.0)
    assert out == 36 and linear(1.0, 0.0) == 36 and linear(0.0, 2.0) == 48


class Pair(NamedTuple):
    w: Any
    n: int


@dataclasses.dataclass
class Net:
    layers: Any
    scale: float
    name: str = "net"


def test_what_a_function_changes_it_changes_once() -> None:
    """For all derivatives, and however often it runs."""
    def derivatives(x: Any) -> Any:
        calls, log, m = [0], np.zeros(8), 1.0

        def product(z: Any) -> Any:
            nonlocal m
            m = m * 2.0
            log[calls[0]] = m
            calls[0] += 1
            return (z * z).sum() * m
        found = [d(product)(x).sum() for d in (grad, jacrev, jacfwd, hessian)]
        found.append(jvp(product, (x,), (x,))[1])
        found.append(hvp(product, (x,), (x,)).sum())
        linear = linearize(lambda z: (z * z).sum() * calls[0], x)[1]
        return found, log, calls, m, linear(x)
    x = np.array([0.5, 1.5])
    found, log, calls, m, last = jit(derivatives)(x)
    assert found == pytest.approx([2 * 4, 4 * 4, 8 * 4, 16 * 4, 32 * 5.0, 64 * 4])
    assert (log.tolist(), calls, m, last) == ([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 0.0, 0.0], [6], 64.0, 30.0)


def test_linearize_is_of_what_the_function_was_before_it_ran() -> None:
    """And the linear function changes nothing, so that its results do not vary."""
    def counted(x: float) -> Any:
        held = [1.0]

        def product(z: float) -> float:
            held[0] += z
            return held[0] * z
        y, linear = linearize(product, x)
        return y, linear(1.0), linear(1.0), held[0]
    assert jit(counted)(0.5) == (0.75, 2.0, 2.0, 1.5)


def test_linearize_is_of_what_the_function_captured_then() -> None:
    """Not its variables and objects when the linear function is called."""
    def number(x: float) -> float:
        s = x * 2.0
        linear = linearize(lambda z: z * z * s, x)[1]
        s = 7.0
        return linear(1.0) + 0.0 * s

    def array(x: float) -> float:
        a = np.array([0.5, 1.0]) * x
        linear = linearize(lambda z: np.dot(a, a * z), x)[1]
        a += 1.0
        return linear(1.0)

    def recursive(x: float) -> float:
        held = [x]

        def power(z: float, k: int = 2) -> float:
            return z * held[0] if k <= 0 else power(z, k - 1) * z
        linear = linearize(power, x)[1]
        held[0] = 100.0
        return linear(1.0)

    def chosen(x: float) -> float:
        a = np.array([0.5, 1.0])
        linear = linearize(lambda z: z * a, x)[1]
        for _ in range(3):
            a = a * 2.0
            if x > 0:
                linear = linearize(lambda z, a=a: z * a, x)[1]
        a[0] = 100.0
        return linear(1.0).sum()

    for fun, want in ((number, 1.96), (array, 1.25 * 0.49), (recursive, 3 * 0.7 ** 3), (chosen, 12.0)):
        assert jit(fun)(0.7) == pytest.approx(want), fun.__name__
    assert jit(grad(array))(0.7) == pytest.approx(2 * 1.25 * 0.7)


def test_structures() -> None:
    def loss(p: Any) -> Any:
        return (p["w"] * p["b"][0]).sum() + p["b"][1] ** 2 * p["n"]
    g = grad(loss)({"w": np.ones(3), "b": [np.arange(3.0), 4.0], "n": 3})
    close(g["w"], np.arange(3.0))
    close(g["b"][0], np.ones(3))
    assert g["b"][1] == 24 and g["n"] is None
    assert grad(lambda p: p.w * p.n)(Pair(2.0, 3)) == Pair(3.0, None)
    net = grad(lambda net: net.layers[0] * net.layers[1] * net.scale)(Net((2.0, 3.0), 5.0))
    assert net == Net((15.0, 10.0), 6.0, None)
    single = np.arange(3, dtype=np.float32)
    assert grad(lambda x: (x * x).sum())(single).dtype == np.float32


class Model:
    def __init__(self, a: float) -> None:
        self.a, self.inner = a, {"b": [1.0]}
        self.own = self

    def loss(self, x: Any) -> Any:
        return self.a * self.own.inner["b"][0] * x * x

    @jit
    def jitted(self, x: Any) -> Any:
        return self.a * x * x

    def __call__(self, x: Any) -> Any:
        return self.a * x


def test_methods_of_objects_that_have_changed() -> None:
    """Code compiled for a method is dropped when the contents of its object change."""
    model = Model(1.0)
    for a in (1.0, 2.0, 1.0):
        model.a = a
        assert grad(model.loss)(1.0) == grad(model.jitted)(1.0) == 2 * a and grad(model)(1.0) == a
        assert value_and_grad(model.loss)(1.0) == (a, 2 * a) and vjp(model.loss, 1.0)[1](1.0) == (2 * a,)
        assert jvp(model.loss, (1.0,), (1.0,)) == (a, 2 * a) and hessian(model.loss)(1.0) == 2 * a
        assert grad(model.loss) is grad(model.loss) and grad(model) is grad(model)
    model.inner["b"][0] = 3.0
    assert grad(model.loss)(1.0) == 6.0
    assert set(vars(model)) == {"a", "inner", "own"}


def test_strings_have_none_in_a_gradient() -> None:
    def loss(net: Net) -> Any:
        return net.layers[0] ** 2 * (net.scale if net.name == "net" else 0.0)

    def named(net: Net) -> Any:
        return {"out": loss(net), "kind": "loss"}
    net = Net((2.0, 3), 5.0)
    expected = Net((20.0, None), 4.0, None)
    assert grad(loss)(net) == expected == vjp(named, net)[1]({"out": 1.0, "kind": None})[0]
    assert vjp(named, net)[1]({"out": 1.0, "kind": "loss"})[0] == expected
    for jacobian in (jacrev, jacfwd):
        assert jacobian(named)(net) == {"out": expected, "kind": None}
    for name in (None, "net"):
        assert jvp(named, (net,), (Net((1.0, None), 1.0, name),))[1] == {"out": 24.0, "kind": None}
    assert hessian(loss)(net).layers[0] == Net((10.0, None), 4.0, None)
    jitad.check_grads(named, (net,), order=1)


def test_aux() -> None:
    def f(x: Any) -> Any:
        return x * x, {"twice": 2 * x, "array": x * np.ones(3), "n": 3}
    (value, aux), g = value_and_grad(f, has_aux=True)(3.0)
    assert value == 9 and g == 6 and aux["twice"] == 6 and aux["n"] == 3
    close(aux["array"], np.full(3, 3.0))
    g, aux = grad(f, has_aux=True)(3.0)
    assert g == 6 and aux["twice"] == 6


def test_results_that_are_arguments() -> None:
    x = np.arange(3.0)
    close(vjp(lambda x: x, x)[1](np.ones(3))[0], np.ones(3))
    close(vjp(lambda x: x[1:], x)[1](np.ones(2))[0], [0, 1, 1])
    close(vjp(lambda x: (x, x, x.T), x)[1]((np.ones(3),) * 3)[0], np.full(3, 3.0))
    assert grad(lambda x: x)(2.0) == 1 and grad(lambda x: 3.0)(2.0) == 0
    assert grad(lambda x: x[0])(np.array([2.0])) == [1]


def test_captured_values() -> None:
    scale, table = 3.0, np.arange(3.0)
    assert grad(lambda x: scale * x)(2.0) == 3
    close(grad(lambda x: (table * x).sum())(np.ones(3)), table)

    def outer(s: Any) -> Any:
        values = np.zeros(3)
        values[0] = s
        return grad(lambda x: x * values[0])(5.0)
    assert jit(outer)(2.0) == 2 and grad(outer)(2.0) == 1


def test_stop_gradient() -> None:
    assert grad(lambda x: x * stop_gradient(x))(3.0) == 3
    assert grad(lambda x: stop_gradient((x, [x]))[1][0] * x)(3.0) == 3
    assert stop_gradient(3.0) == 3.0


def test_stop_gradient_in_derivatives_of_derivatives() -> None:
    """``f = x³ + x y`` with ``y = stop_gradient(x²)``: at every order ``y`` is a constant of its level."""
    def f(x: Any) -> Any:
        return x ** 3 + x * stop_gradient(x * x)

    def slope(x: Any) -> Any:
        return 3 * x ** 2 + x * x
    assert grad(f)(2.0) == jvp(f, (2.0,), (1.0,))[1] == 16
    assert grad(grad(f))(2.0) == hessian(f)(2.0) == jacfwd(jacfwd(f))(2.0) == grad(jacfwd(f))(2.0) == 12
    assert grad(lambda x: stop_gradient(grad(f)(x)) * x)(2.0) == 16
    assert grad(lambda x: grad(lambda y: y * stop_gradient(x))(x))(2.0) == 0
    assert grad(lambda x: grad(lambda y: x * stop_gradient(y) + y)(x))(2.0) == 0
    assert grad(lambda x: grad(lambda y: x * y * stop_gradient(y))(x))(2.0) == 2        # of x·y₀ by x, y₀ fixed
    assert hvp(lambda v: (v * stop_gradient(v)).sum(), (np.ones(2),), (np.ones(2),)).tolist() == [0, 0]


def test_stop_gradient_in_loops_recursion_and_structures() -> None:
    def loop(x: Any, n: int) -> Any:
        y = x
        for i in range(n):
            y = stop_gradient(y) * x if i % 2 else y * x
        return y

    def deep(x: Any, n: int) -> Any:
        return x if n == 0 else deep(x, n - 1) * stop_gradient(x) + x
    x = np.array([2.0, 3.0])

    def written(x: Any) -> Any:
        a = x.copy()
        a[0] = stop_gradient(a[1]) * a[0]
        return (a * stop_gradient({"a": a})["a"]).sum()
    assert grad(loop)(2.0, 5) == 64 and jvp(lambda x: loop(x, 3), (2.0,), (1.0,))[1] == 16
    assert grad(deep)(2.0, 3) == jvp(lambda x: deep(x, 3), (2.0,), (1.0,))[1] == 15
    assert grad(written)(x).tolist() == [18, 3]


def test_of_functions_that_always_raise() -> None:
    def f(x: Any, a: Any) -> Any:
        if x > 0:
            raise KeyError
        raise ValueError

    def g(x: Any, a: Any) -> Any:
        return f(x, a) * a.sum() if x != 0 else a * x           # called: two sweeps, with an accumulator
    a = np.ones(2)
    for of in (grad(f), grad(f, 1), lambda x, a: jvp(f, (x, a), (1.0, a)), lambda x, a: vjp(g, x, a)[1](a)):
        with pytest.raises(KeyError):
            of(1.0, a)


def test_refusals() -> None:
    with pytest.raises(DifferentiationError, match="returns one float"):
        grad(lambda x: x * np.ones(3))(1.0)
    with pytest.raises(DifferentiationError, match="holds no float"):
        grad(lambda n: n * 2.0)(3)
    with pytest.raises(DifferentiationError, match="no argument named 'z'"):
        grad(product, "z")(1.0, 2.0)
    with pytest.raises(DifferentiationError, match="no argument number 5"):
        grad(product, 5)(1.0, 2.0)
    with pytest.raises(DifferentiationError, match="one float, not tuple"):
        grad(lambda x: (x, x))(1.0)
    with pytest.raises(TypeError, match="argnums"):
        grad(product, 1.5)
    with pytest.raises(TypeError, match="takes a function"):
        grad(3)


def test_methods_and_wrappers() -> None:
    class Model:
        def __init__(self, w: float) -> None:
            self.w = w

        def loss(self, x: Any) -> Any:
            return self.w * x * x
        @jit
        def jitted(self, x: Any, k: Any = 2.0) -> Any:
            return self.w * x * k
    one, two = Model(1.0), Model(2.0)
    assert grad(one.jitted)(3.0) == 2 and grad(two.jitted, "k")(3.0) == 6
    assert grad(one.loss)(3.0) == 6 and grad(two.loss)(3.0) == 12
    assert grad(jit(cubic))(3.0) == 29
    assert grad(math.sin)(0.0) == 1


def test_one_compilation_for_one_function() -> None:
    assert grad(cubic) is grad(cubic) and grad(grad(cubic)) is grad(grad(cubic))
    assert grad(cubic) is not grad(cubic, has_aux=True)


def test_the_interpreter_agrees() -> None:
    x = np.array([0.5, -1.5])
    for f in (grad(lambda x: np.tanh(x).sum()), hessian(lambda x: np.sin(x[0] * x[1])), jacrev(lambda x: x * x[::-1])):
        close(jitad.interpret(f, x), f(x))


def test_frames_are_taken_apart_as_they_were_put_together() -> None:
    """Forward mode widens the frames of a recursion whose result is unused; the code that pops them must know."""
    def count(k, z, u):
        return 0.0 if k <= 0 else count(k - 1, math.sin(z), u) + z

    def unused(x, n):
        hessian(lambda u: count(n, x, u))(0.5)
        return x * x
    slope = jit(grad(lambda x, n: jvp(lambda x: unused(x, n), (x,), (0.6,))[1]))
    for dirt in (0.0, 7.7):
        slope(1.0, 2)
        context.soil(dirt)
        assert slope(1.0, 2) == 1.2


# --- has_aux --------------------------------------------------------------------------------------

def matrices(x: Any) -> Any:
    (by_rows, aux), (by_columns, _) = (t(with_aux, (0, 1), has_aux=True)(x, 2.0) for t in
                                       (jitad.jacrev, jitad.jacfwd))
    return by_rows, by_columns, aux, jitad.hessian(lambda x: ((x ** 3).sum(), x * 2), has_aux=True)(x)


def with_aux(x: Any, k: Any) -> Any:
    return {"a": np.sin(x) * k, "b": 2.0 * k}, (x.sum() * k, 3)


def both_ways(x: Any) -> Any:
    out, pull, aux = jitad.vjp(with_aux, x, 2.0, has_aux=True)
    return out, pull({"a": np.ones(2), "b": 1.0}), aux, jitad.jvp(with_aux, (x, 2.0), (np.ones(2), 0.5), has_aux=True)


def leaves_equal(a: Any, b: Any) -> None:
    flat = [pytree.flatten(v)[0] for v in (a, b)]
    assert len(flat[0]) == len(flat[1])
    for x, y in zip(*flat):
        np.testing.assert_allclose(x, y)


@pytest.mark.slow
def test_what_comes_beside_the_result() -> None:
    x = np.array([1.0, 2.0])
    want = {"a": np.sin(x) * 2, "b": 4.0}, (6.0, 3)
    out, pulled, aux, (pushed, dot, aux2) = both_ways(x)
    leaves_equal((out, aux), want)
    leaves_equal((pushed, aux2), want)
    leaves_equal(pulled, (np.cos(x) * 2, 2.0 + np.sin(x).sum()))
    leaves_equal(dot, {"a": np.cos(x) * 2 + np.sin(x) * 0.5, "b": 1.0})
    by_rows, by_columns, aux, (second, doubled) = matrices(x)
    leaves_equal(by_rows, {"a": (np.diag(np.cos(x) * 2), np.sin(x)), "b": (np.zeros(2), 2.0)})
    leaves_equal(by_rows, by_columns)
    leaves_equal((aux, second, doubled), ((6.0, 3), np.diag(6 * x), 2 * x))
    for f in (both_ways, matrices):
        for run in (jit(f), lambda x, f=f: jitad.interpret(f, x)):
            leaves_equal(run(x), f(x))


@pytest.mark.parametrize("second", [
    lambda f, x: jitad.vjp(f, x, has_aux=True)[2], lambda f, x: jitad.jvp(f, (x,), (1.0,), has_aux=True)[2],
    lambda f, x: jitad.jacrev(f, has_aux=True)(x)[1], lambda f, x: jitad.jacfwd(f, has_aux=True)(x)[1],
    lambda f, x: jitad.hessian(f, has_aux=True)(x)[1]], ids=["vjp", "jvp", "jacrev", "jacfwd", "hessian"])
def test_what_comes_beside_the_result_is_differentiated_by_who_is_around(second: Any) -> None:
    def f(y: Any) -> Any:
        return y ** 2, y ** 3
    assert grad(lambda x: second(f, x))(2.0) == pytest.approx(12.0)
    assert jitad.jvp(lambda x: second(f, x), (2.0,), (1.0,))[1] == pytest.approx(12.0)
    assert grad(lambda x: jitad.vjp(f, x, has_aux=True)[1](x)[0])(2.0) == pytest.approx(8.0)


def test_has_aux_takes_a_function_that_returns_a_pair() -> None:
    for wrong in (lambda: jitad.vjp(np.sin, 1.0, has_aux=True), lambda: jitad.jvp(np.sin, (1.0,), (1.0,), has_aux=True),
                  lambda: jitad.jacrev(np.sin, has_aux=True)(1.0),
                  lambda: jit(lambda x: jitad.jacfwd(lambda y: (y, y, y), has_aux=True)(x))(1.0),
                  lambda: jit(lambda x: jitad.vjp(lambda y: [y, y], x, has_aux=True)[0])(1.0),
                  lambda: jitad.hessian(np.sin, has_aux=True)(1.0)):
        with pytest.raises(TypeError, match=r"with has_aux takes a function that returns \(value, aux\)"):
            wrong()
    with pytest.raises(DifferentiationError, match="the cotangent has another structure than its value, "):
        jitad.vjp(with_aux, np.ones(2), 2.0, has_aux=True)[1](1.0)


def test_a_pullback_with_aux_goes_through_a_loop() -> None:
    @jit
    def f(x):
        y, pull, aux = jitad.vjp(lambda x: (np.sin(x), x * 2), x, has_aux=True)
        for _ in range(3):
            aux += pull(1.0)[0]
        return aux
    assert f(0.5) == pytest.approx(1.0 + 3 * np.cos(0.5))
    assert grad(f)(0.5) == pytest.approx(2.0 - 3 * np.sin(0.5))
