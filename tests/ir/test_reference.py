"""The reference semantics: the derivative of each primitive on its own, and programs of every kind.

Derivatives are compared with central differences and with those of ``ad``, which shares no code with it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitad
from jitad import grad, jit, jvp, value_and_grad, vjp
from jitad.ad import derivatives, differentiate
from jitad.cps import to_cps
from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.evaluate.meaning import STATEFUL
from jitad.ir.graph import Function, Module
from jitad.ir.ops import OPS
from jitad.ir.types import is_float
from jitad.pytree import flatten
from jitad.semantics.differentiate import DISCRETE, RULES
from jitad.semantics.evaluate import Evaluator
from jitad.semantics.partials import PARTIALS
from jitad.semantics.primitives import DERIVATIVES_ONLY, STRUCTURAL
from jitad.semantics.symbolic import EXPANDED
from tests.derivatives import test_derivative_table as table

# --- primitives -------------------------------------------------------------------------------------


def test_every_op_has_one_place() -> None:
    """Each op is in one of the tables of ``semantics``, or on the list of ops without a derivative."""
    tables = [set(t) for t in (PARTIALS, STRUCTURAL, set(RULES) - set(DERIVATIVES_ONLY), EXPANDED, DISCRETE,
                               STATEFUL)]
    missing = set(OPS) - set().union(*tables)
    assert not missing, f"ops without a place in jitad/semantics: {missing}"
    assert sum(map(len, tables)) == len(OPS), "an op stands in two tables, or a table names what is no op"


def _module(name: str, i: int) -> tuple[Module, list[Any], list[int]]:
    """A function of one op, its arguments, and the indices of the differentiated ones."""
    specs, emit = table._samples(name)[i]
    rng = np.random.default_rng(sum(map(ord, name)) + i)
    args = [table._example(s, name, rng) for s in specs]
    module = Module()
    func = module.add(Function("f", [table._type(x) for x in args], []))
    b = Builder(func.entry)
    y = emit(b, *func.params)
    func.result_types = [y.type]
    b.ret([y])
    return module, args, [k for k, t in enumerate(func.param_types) if is_float(t)]


def _like(rng: np.random.Generator, xs: list[Any]) -> list[Any]:
    return [rng.normal(size=np.shape(x)) if np.shape(x) else float(rng.normal()) for x in xs]


@pytest.mark.parametrize(("name", "i"), table.CASES)
def test_primitive(name: str, i: int) -> None:
    """To second order, reverse and forward, against ``ad``; the first order against differences too."""
    module, args, wrt = _module(name, i)
    names = [module.derive("f", "vjp", wrt), module.derive("f", "jvp", wrt)]
    names += [module.derive(names[0], kind, wrt) for kind in ("jvp", "vjp")]
    rng = np.random.default_rng(i)
    values = Evaluator(module).run("f", args)
    directions, cts = _like(rng, [args[k] for k in wrt]), _like(rng, values)
    given = [[*args, *cts], [*args, *directions], [*args, *cts, *directions],
             [*args, *cts, *_like(rng, values), *directions]][:len(names)]
    meant = [Evaluator(module).run(n, xs) for n, xs in zip(names, given)]

    def moved(step: float) -> list[Any]:
        return [x + step * directions[wrt.index(k)] if k in wrt else x for k, x in enumerate(args)]
    eps, loose = (1e-2, 1e-4) if name == "cast" else (1e-5, 1e-6)                # cast goes by way of f32
    up, down = (table._flat(Evaluator(module).run("f", moved(s))) for s in (eps, -eps))
    np.testing.assert_allclose(table._flat(meant[1][1:]), (up - down) / (2 * eps), rtol=loose, atol=loose)
    to_cps(module)
    differentiate(module)
    exact = 1e-5 if name == "cast" else 1e-10
    for n, xs, results in zip(names, given, meant):
        for got, want in zip(Interpreter(module).run(n, xs), results, strict=True):
            np.testing.assert_allclose(got, want, rtol=exact, atol=exact, err_msg=n)


SPECIAL = np.array([0.0, 1.0, -1.0, 2.0, -2.0, 0.5, np.inf, -np.inf, np.nan])
ELEMENTWISE = sorted(PARTIALS)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_primitive_at_special_points(name: str) -> None:
    """At kinks, poles, ends of domains, infinities and NaN, and pairs of those: finite results are equal."""
    count = len(PARTIALS[name])
    args = [x.ravel() for x in np.meshgrid(*[SPECIAL] * count)]
    module = Module()
    func = module.add(Function("f", [table.VECTOR] * count, [table.VECTOR]))
    b = Builder(func.entry)
    b.ret([b.emit(name, *func.params)])
    first = module.derive("f", "vjp", range(count))
    ones, nothing = np.ones(len(args[0])), np.zeros(len(args[0]))
    asked = [(first, [*args, ones])]
    for i in range(count):                               # each row of the second derivatives apart
        rows = [ones if i == k else nothing for k in range(count)]
        asked.append((module.derive(first, "vjp", range(count)), [*args, ones, nothing, *rows]))
    meant = [Evaluator(module).run(n, xs) for n, xs in asked]
    to_cps(module)
    differentiate(module)
    for (n, xs), results in zip(asked, meant):
        for got, want in zip(Interpreter(module).run(n, xs), results, strict=True):
            finite = np.isfinite(got) | np.isfinite(want)
            np.testing.assert_allclose(np.where(finite, got, 0), np.where(finite, want, 0), rtol=1e-12, err_msg=n)


# --- programs -----------------------------------------------------------------------------------------

class Pair(NamedTuple):
    a: Any
    b: float


def newton(c: float) -> float:
    x = c
    while abs(x * x - c) > 1e-9:
        x = x - (x * x - c) / (2 * x)
    return x


def fold(xs: Any, c: float) -> float:
    """A recursion that is not a tail recursion."""
    def go(i: int) -> float:
        if i == len(xs):
            return c
        return math.sin(xs[i] * go(i + 1)) + c
    return go(0)


def updates(xs: Any) -> float:
    a = np.zeros(len(xs) + 1)
    for i in range(len(xs)):
        a[i + 1] = a[i] * 0.5 + xs[i] ** 2
        a[0] += xs[i]
    return a.sum() * a[-1]


def columns(m: Any) -> float:
    return ((m @ m.T).max(axis=0) * np.cumprod(m, axis=1)[:, -1]).sum() + np.prod(m[:2]) + m[m > 0.5].sum()


def structures(p: Any) -> Any:
    total = p["pair"].a.sum() * p["pair"].b
    return {"total": total, "each": [p["pair"].a * 2, (p["count"], None)]}


def inner_loop_of_derivatives(x: float, n: int) -> float:
    for _ in range(n):
        x = x - 0.1 * grad(lambda y: (y * y - 2) ** 2)(x)
    return x


def halve(x: Any) -> Any:
    y = x
    while (y * y).sum() > 0.1:
        y = np.sin(y) * 0.8
    return y


def pullback_in_a_derivative(x: Any) -> Any:
    """The pullback belongs to the outer variable: the inner derivative captures it."""
    pull = vjp(halve, x)[1]
    return grad(lambda z: (pull(z * z)[0] * z).sum())(x)


def pullbacks_chosen_and_passed_on(x: Any, n: int) -> float:
    pull, other = vjp(halve, x)[1], vjp(halve, x * 2)[1]

    def again(k: int, pull: Any, c: Any) -> float:
        return c.sum() if k == 0 else again(k - 1, pull, pull(c)[0])
    return again(n, pull if n > 2 else other, x)


X = np.array([0.3, -1.2, 0.9, 0.4])
M = np.random.default_rng(0).uniform(0.1, 1.2, (3, 4))
PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (newton, (3.0,)), (fold, (X, 0.7)), (updates, (X,)), (columns, (M,)), (inner_loop_of_derivatives, (1.0, 7)),
    (grad(newton), (3.0,)), (grad(fold, argnums=(0, 1)), (X, 0.7)), (grad(updates), (X,)), (grad(columns), (M,)),
    (grad(grad(newton)), (3.0,)), (grad(inner_loop_of_derivatives), (1.0, 7)),
    (value_and_grad(grad(inner_loop_of_derivatives)), (1.0, 7)),
    (lambda x: jvp(grad(updates), (x,), (x * 2,)), (X,)), (lambda x: vjp(grad(fold, argnums=0), x, 0.5)[1](x), (X,)),
    (jitad.hessian(updates), (X,)), (jitad.jacfwd(lambda x: np.cumsum(x) * x), (X,)),
    (jitad.jacrev(lambda x: np.outer(x, x)), (X,)), (structures, ({"pair": Pair(X, 2.0), "count": 3},)),
    (grad(lambda p: structures(p)["total"]), ({"pair": Pair(X, 2.0), "count": 3},)),
    (pullback_in_a_derivative, (X,)), (pullbacks_chosen_and_passed_on, (X, 3)),
    (lambda x: jvp(pullback_in_a_derivative, (x,), (x,))[1], (X,)),
    (grad(lambda x: jitad.stop_gradient(x) * x), (3.0,)), (lambda x: x.astype(np.float32) * np.float32(3), (X,)),
    (grad(lambda x: (x * np.float32(0.3)).sum()), (X.astype(np.float32),)),
]


def close(got: Any, want: Any) -> None:
    """Equal structures, types and dtypes; numbers up to rounding."""
    x, y = flatten(got), flatten(want)
    assert x[1] == y[1]
    for a, b in zip(x[0], y[0], strict=True):
        assert type(a) is type(b)
        if a is not None:
            tolerance = 1e-5 if np.asarray(a).dtype == np.float32 else 1e-9
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.long
@pytest.mark.parametrize(("f", "args"), PROGRAMS, ids=lambda x: getattr(x, "__name__", ""))
def test_agrees_with_compiled_code(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    close(jitad.interpret(f, *args), jit(f)(*args))


@pytest.mark.slow
def test_takes_jitted_functions_and_their_derivatives() -> None:
    f = jit(fold, grad=("xs", "c"))
    close(jitad.interpret(f, X, 0.7), f(X, 0.7))
    close(jitad.interpret(f.grad, X, 0.7), f.grad(X, 0.7))
    close(jitad.interpret(f.value_and_grad, X, c=0.7), f.value_and_grad(X, 0.7))
    close(jitad.interpret(grad(f), X, 0.7), grad(f)(X, 0.7))
    power = jit(lambda x, n: x * np.ones((2,) * n).sum(), static="n")
    assert jitad.interpret(power, 3.0, 2) == 12.0 == jitad.interpret(power, 3.0, n=2)
    assert jitad.interpret(Line(2.0).at, 3.0) == 6.0
    assert jitad.interpret(Line(2.0).steep.grad, 3.0) == Line(2.0).steep.grad(3.0)


@dataclass
class Line:
    slope: float

    @jit
    def at(self, x: float) -> float:
        return x * self.slope

    @jit(grad="x")
    def steep(self, x: float) -> float:
        return x * x * self.slope


@pytest.mark.slow
def test_errors_are_those_of_compiled_code() -> None:
    def read(x: Any, i: int) -> float:
        return x[i] * 2

    def positive(x: float) -> float:
        if x < 0:
            raise ValueError(f"{x} is negative")
        return math.sqrt(x)

    def summed(x: float, a: Any) -> float:
        """The loop of the check is needed for neither value nor derivative, but the check is."""
        s = 0.0
        for v in a:
            s += math.sin(x * v)
        for i in range(3):
            if s > i + 0.1:
                raise ValueError(f"more than {i}")
        return s

    def endless(x: float) -> float:
        return endless(x * 0.5) + 1
    for f, args in [(read, (X, 4)), (positive, (-1.0,)), (grad(read), (X, 9)), (grad(positive), (-1.0,)),
                    (grad(summed), (1.0, X * X)), (value_and_grad(summed), (1.0, X * X)),
                    (endless, (1.0,)), (grad(endless), (1.0,))]:
        with pytest.raises(Exception) as meant:
            jitad.interpret(f, *args)
        with pytest.raises(type(meant.value)) as made:
            jit(f)(*args)
        assert str(made.value) == str(meant.value)


@pytest.mark.slow
def test_deep_recursion() -> None:
    def down(x: float, n: int) -> float:
        return x if n == 0 else math.sin(down(x, n - 1)) * 1.001
    value, slope = jitad.interpret(value_and_grad(down), 0.3, 4000)
    close((value, slope), jit(value_and_grad(down))(0.3, 4000))
    assert sys.getrecursionlimit() <= 10_000


@pytest.mark.long
@pytest.mark.slow
def test_long_loops() -> None:
    """Linear in their length: otherwise they would not end."""
    def loop(x: float, n: int) -> float:
        s = 0.0
        for i in range(n):
            s = s * 0.99 + math.sin(x * i)
        return s

    def fill(x: float, n: int) -> float:
        a = np.zeros(n)
        for i in range(1, n):
            a[i] = a[i - 1] * 0.9 + x
        return a.sum()
    close(jitad.interpret(value_and_grad(loop), 1.1, 10_000), jit(value_and_grad(loop))(1.1, 10_000))
    close(jitad.interpret(value_and_grad(fill), 1.1, 1000), jit(value_and_grad(fill))(1.1, 1000))


def test_a_planted_error_in_a_derivative_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The derivative of tanh in ``ad``, made slightly wrong, disagrees with the reference semantics."""
    def f(x: float) -> float:
        return math.tanh(x * 1.5)
    meant = jitad.interpret(grad(f), 0.4)
    monkeypatch.setitem(derivatives.PARTIALS, "tanh", (lambda b, y, x: b.sub(1.0, b.mul(y, x)),))
    assert jitad.interpret(grad(f), 0.4) == meant
    with pytest.raises(AssertionError):
        close(jit(grad(f))(0.4), meant)
