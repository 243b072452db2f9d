"""Pullbacks and linear maps as values: called often, saved, returned, carried, chosen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import grad, hessian, jit, jvp, linearize, pipeline, value_and_grad, vjp, vmap
from jitad.calling.signature import signature
from jitad.compiler import traced
from jitad.errors import DifferentiationError, UnsupportedError
from jitad.frontend.captured.options import Options
from jitad.ir.evaluate.interp import Interpreter

pytestmark = pytest.mark.any_level

X = np.array([0.5, 1.2, -0.3])


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def decay(x: Any) -> Any:
    """A loop of unknown length, over an array."""
    y = x
    while (y * y).sum() > 0.1:
        y = np.sin(y) * 0.8
    return y


def power(x: Any, n: Any) -> Any:
    return 1.0 if n == 0 else x * power(x, n - 1)


def test_called_often() -> None:
    @jit
    def rows(x: Any) -> Any:
        y, pull = vjp(decay, x)
        out = np.zeros((3, 3))
        for i in range(3):
            unit = np.zeros(3)
            unit[i] = 1.0
            out[i] = pull(unit)[0]
        return y, out, pull(y)[0] + pull(y)[0]
    y, jacobian, twice = rows(X)
    expected = jitad.jacrev(decay)(X)
    close(y, jit(decay)(X))
    close(jacobian, expected)
    close(twice, 2 * y @ expected)


def test_returned_kept_and_passed_on() -> None:
    def make(x: Any) -> Any:
        y, pull = vjp(lambda x, k: (decay(x) * k, k * k), x, 2.0)
        return {"value": y, "pull": (pull, 3.0)}

    def use(pull: Any, seed: Any) -> Any:
        dx, dk = pull((seed, 1.0))
        return dx.sum() + dk

    @jit
    def program(x: Any) -> Any:
        made, other = make(x), make(x * 2)
        pull, k = made["pull"]
        return use(pull, x) * k + use(other["pull"][0], made["value"][0])

    def by_hand(x: Any) -> Any:
        y = vjp(lambda x, k: (decay(x) * k, k * k), x, 2.0)
        first, second = y[1]((x, 1.0)), vjp(lambda x, k: (decay(x) * k, k * k), x * 2, 2.0)[1]((y[0][0], 1.0))
        return (first[0].sum() + first[1]) * 3 + second[0].sum() + second[1]
    close(program(X), by_hand(X))


def test_later_writes_do_not_reach_it() -> None:
    @jit
    def program(x: Any) -> Any:
        x = x.copy()
        y, pull = vjp(lambda x: x * x, x)
        x[:] = 0
        return pull(np.ones(3))[0]
    close(program(X), 2 * X)
    x = X.copy()
    _, pull = vjp(lambda x: x * x, x)
    _, linear = linearize(lambda x: x * x, x)
    x[:] = 0
    close(pull(np.ones(3))[0], 2 * X)
    close(linear(np.ones(3)), 2 * X)


def test_of_functions_that_change_what_they_capture() -> None:
    """Their other results have no cotangent."""
    def array(x: float) -> float:
        log = np.zeros(3)

        def product(z: float) -> float:
            log[0] = z * z
            return log[0] * z
        _, pull = vjp(product, x)
        return pull(1.0)[0] + 10.0 * log[0]

    def others(x: float) -> Any:
        total, held = x, [1.0, np.ones(2)]

        def scaled(z: float, a: Any) -> Any:
            nonlocal total
            total = total * z + a.sum()
            held[0] += z
            held[1] = held[1] * held[0]
            return total * held[0], a * held[1]
        (_, v), pull = vjp(scaled, x, np.array([x, 1.0]))
        by_z, by_a = pull((1.0, np.array([1.0, 2.0])))
        return by_z, by_a, v, total, held
    assert jit(array)(0.7) == pytest.approx(3 * 0.49 + 4.9)
    z, s = 0.7, 1.7
    total = z * z + s
    by_z, by_a, v, now, held = jit(others)(z)
    close(by_z, z * s + total + z + 2.0)
    close(by_a, [2 * s, 3 * s])
    close([*v, now, held[0], *held[1]], [z * s, s, total, s, s, s])
    assert jitad.interpret(array, 0.7) == pytest.approx(jit(array)(0.7))


def test_chosen_and_carried() -> None:
    def f(x: Any) -> Any:
        return power(x, 3) + math.sin(x)

    @jit
    def chosen(x: Any) -> Any:
        if x > 1:
            _, pull = vjp(f, x)
        else:
            _, pull = vjp(f, 2 * x)
        return pull(1.0)[0]
    close([chosen(2.0), chosen(0.5)], [12 + np.cos(2), 3 + np.cos(1)])

    @jit
    def carried(x: Any, n: int) -> Any:
        """The pullback of the last step but one, and the composition of all."""
        y, pull = vjp(f, x)
        before, total = pull, 0.0
        for _ in range(n):
            before = pull
            y, pull = vjp(f, y * 0.1)
            total += before(1.0)[0]
        return before(1.0)[0], total
    x, seen = 1.3, []
    for _ in range(5):
        seen.append(3 * x * x + np.cos(x))
        x = 0.1 * (x ** 3 + np.sin(x))
    close(carried(1.3, 4), (seen[3], sum(seen[:4])))
    assert carried(1.3, 0)[1] == 0
    with pytest.raises(UnsupportedError):
        jit(lambda x: vjp(np.sin, x)[1] if x > 1 else vjp(np.cos, x)[1])(1.0)


def test_made_in_a_loop_and_used_after_it() -> None:
    """The values of the last iteration stay, whatever memory is used in between."""
    @jit
    def last(x: Any, n: int) -> Any:
        for i in range(n):
            _, pull = vjp(decay, x * (1.0 + i))
            other = np.ones(50) * i
        more = np.zeros(2000) + other[0]
        return pull(x)[0] + 0 * more[:3]

    @jit
    def listed(x: Any) -> Any:
        total = np.zeros(3)
        for pull in [vjp(decay, x * k)[1] for k in (1.0, 2.0, 3.0)]:
            total += pull(x)[0]
        return total

    def alone(k: float) -> Any:
        return vjp(decay, X * k)[1](X)[0]
    for n in (1, 3, 10):
        close(last(X, n), alone(float(n)))
    close(listed(X), alone(1.0) + alone(2.0) + alone(3.0))


@pytest.mark.slow
def test_derivatives_of_pullbacks() -> None:
    def slope(x: Any) -> Any:
        return vjp(decay, x)[1](x)[0].sum()
    jitad.check_grads(slope, (X,), order=2, modes=("rev", "fwd"))

    def through_recursion(x: Any) -> Any:
        y, pull = vjp(power, x, 4)
        return y * pull(y)[0]
    assert grad(through_recursion)(1.5) == pytest.approx(44 * 1.5 ** 10)
    assert jvp(through_recursion, (1.5,), (1.0,))[1] == pytest.approx(44 * 1.5 ** 10)
    assert grad(grad(through_recursion))(1.5) == pytest.approx(440 * 1.5 ** 9)
    assert grad(lambda x: vjp(lambda y: x * y * y, 3.0)[1](x)[0])(2.0) == 24       # of what it captured, too
    close(vmap(lambda x: vjp(power, x, 3)[1](1.0)[0])(X), 3 * X * X)
    close(hessian(lambda x: vjp(np.sin, x)[1](x)[0].sum())(X), np.diag(-2 * np.sin(X) - X * np.cos(X)))


@pytest.mark.slow
def test_reverse_mode_of_pullbacks_called_often_or_never() -> None:
    """Results of a pullback that a program holds are added up, or not used at all."""
    def rows(x: Any) -> Any:
        _, pull = vjp(decay, x)
        out = np.zeros((3, 3))
        for i in range(3):
            unit = np.zeros(3)
            unit[i] = 1.0
            out[i] = pull(unit)[0]
        return (out * out).sum()

    def passed_on(x: Any, n: int) -> Any:
        def again(k: int, pull: Any, c: Any) -> Any:
            return c.sum() if k == 0 else again(k - 1, pull, pull(c)[0]) * (2.0 if k > 1 else pull(c)[0].sum())
        return again(n, vjp(decay, x)[1], x)

    def chosen(x: Any, n: int) -> Any:
        first, second = vjp(decay, x)[1], vjp(decay, x * 2)[1]
        pull = first if n > 2 else second
        return (pull(x)[0] * x).sum() if n > 0 else x.sum()

    def captured(x: Any, n: int) -> Any:
        pull = vjp(decay, x)[1]
        inner = vjp(lambda y: pull(y * y)[0] * y, x)[1]
        return inner(x)[0] @ inner(x * n)[0]
    for f, args in [(rows, (X,)), (passed_on, (X, 2)), (passed_on, (X, 0)), (chosen, (X, 3)), (chosen, (X, 1)),
                    (chosen, (X, 0)), (captured, (X, 2))]:
        close(differentiated(grad(f), *args), jitad.interpret(grad(f), *args))
    close(grad(chosen)(X, 3), jitad.interpret(grad(chosen), X, 3))


def differentiated(f: Any, *args: Any) -> Any:
    """The array that a program without constants returns, with its derivatives by ``ad``."""
    sig, leaves = signature(args, {}, frozenset(), False)
    program = traced(f.py_func, sig, Options())
    pipeline.run(program.module, [program.root], stop="adjoint")
    return Interpreter(program.module).run(program.root, [*leaves, *program.consts])[0]


def test_trees() -> None:
    def f(p: Any, n: Any) -> Any:
        return {"y": p["w"] * p["b"][0], "n": n + 1, "s": p["b"][1] ** 2}

    @jit
    def program(p: Any, n: int) -> Any:
        out, pull = vjp(f, p, n)
        return out, pull({"y": out["y"], "n": None, "s": 1.0}), pull({"y": None, "n": None, "s": 2.0})
    p = {"w": X, "b": [2.0, 3.0], "k": 5}
    out, (dp, dn), (only, _) = program(p, 4)
    close(dp["w"], out["y"] * 2)
    assert dn is None and dp["k"] is None and dp["b"][1] == 6 and dp["b"][0] == pytest.approx((out["y"] * X).sum())
    close(only["w"], np.zeros(3))
    assert only["b"] == [0.0, 12.0] and out["n"] == 5


def test_dicts_are_matched_by_their_keys() -> None:
    """In any order: by position, the gradient of one would be that of another."""
    def f(x: Any) -> Any:
        return {"a": x, "b": 2 * x}

    def g(d: Any) -> Any:
        return d["a"] * d["b"] ** 2
    backwards = {"b": 10.0, "a": 1.0}
    assert vjp(f, 1.0)[1](backwards) == jit(lambda x, ct: vjp(f, x)[1](ct))(1.0, backwards) == (21.0,)
    p = {"a": 3.0, "b": 2.0}
    assert jvp(g, (p,), (backwards,)) == (12.0, 124.0)
    assert jitad.interpret(lambda p, dp: jvp(g, (p,), (dp,)), p, backwards) == (12.0, 124.0)
    assert jitad.linearize(g, p)[1](backwards) == 124.0
    assert jitad.hvp(g, (p,), (backwards,)) == {"a": 40.0, "b": 64.0}
    with pytest.raises(DifferentiationError, match="another structure"):
        vjp(f, 1.0)[1]({"a": 1.0, "c": 1.0})


def test_cotangents_that_do_not_fit() -> None:
    def pulls(seed: Any) -> Any:
        return jit(lambda x, seed: vjp(lambda x: (x * 2, 1), x)[1](seed))(X, seed)
    close(pulls((X, None))[0], 2 * X)
    with pytest.raises(DifferentiationError, match="another structure"):
        pulls(X)
    with pytest.raises(ValueError, match="has size 4 where its value has size 3"):
        pulls((np.ones(4), 0))
    with pytest.raises(DifferentiationError, match="for a value of type"):
        pulls((1.0, 0))
    with pytest.raises(TypeError, match="takes one argument"):
        jit(lambda x: vjp(np.sin, x)[1](1.0, 2.0))(1.0)
    with pytest.raises(DifferentiationError, match="holds no float"):
        jit(lambda n: vjp(lambda n: n * 2.0, n)[1](1.0))(3)
    with pytest.raises(UnsupportedError, match="as a result"):
        jit(lambda x: vjp(np.sin, x))(1.0)


def test_the_forward_sweep_runs_once() -> None:
    def program(x: Any) -> Any:
        y, pull = vjp(power, x, 6)
        return y, pull(1.0)[0], pull(2.0)[0]
    text = jit(program).inspect("adjoint", 1.5)
    body = text.split("func ")[1]
    assert body.startswith("@program") and body.count(".fwd.0(") == 1 and body.count(".bwd.0(") == 2
    close(jit(program)(1.5), (1.5 ** 6, 6 * 1.5 ** 5, 12 * 1.5 ** 5))
    close(jitad.interpret(program, 1.5), (1.5 ** 6, 6 * 1.5 ** 5, 12 * 1.5 ** 5))


def test_what_was_pushed_is_popped_in_place() -> None:
    """For a small function, nothing is saved on a stack."""
    text = jit(lambda x: vjp(lambda x: np.sin(x) * x, x)[1](1.0)).inspect("optimized", 1.5)
    assert "push" not in text and "pop" not in text


def test_memory_is_given_back() -> None:
    """A million pullbacks in a loop, none of which is saved."""
    @jit
    def program(n: int) -> Any:
        total = 0.0
        for i in range(n):
            y, pull = vjp(power, 1.0 + 1.0 / (i + 1), 20)
            total += pull(1.0)[0] + y
        return total
    value, _ = value_and_grad(lambda x: power(x, 20))(1.0)
    assert program(1) > value
    program(200_000)
