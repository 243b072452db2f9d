"""Every differentiable rule: reverse against forward against finite differences, in a random direction.

The IR that a rule emits is differentiated and run by the interpreter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitad
from jitad import jit
from jitad.ad import differentiate
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.types import is_float
from jitad.ir.verify import verify
from tests.arrays import test_numpy_api_values as values
from tests.rulecontext import trace

RNG = np.random.default_rng(7)
V = np.array([0.3, -0.7, 1.6, 0.9])
P = np.array([1.3, 0.7, 2.6, 1.9])                    # in the domain of everything but arcsin and its like
M = RNG.uniform(0.2, 0.9, (3, 4))
T = RNG.uniform(0.2, 0.9, (2, 3, 4))


def random_like(x: Any) -> Any:
    return np.asarray(RNG.standard_normal(np.shape(x)))[()]


def check(fun: Any, *args: Any) -> None:
    """Asserts δtᵀ·F(x, δx) = R(x, δt)·δx, and that both agree with finite differences."""
    t, _, _ = trace(fun, args)
    wrt = [i for i, p in enumerate(t.function.params) if is_float(p.type)]
    names = [t.module.derive("f", kind, wrt) for kind in ("vjp", "jvp")]
    differentiate(t.module)
    verify(t.module, linear=False)
    run = Interpreter(t.module).run
    out = run("f", list(args))
    floats = [i for i, x in enumerate(out) if np.asarray(x).dtype.kind == "f"]
    assert floats, "the case has no derivative"
    dx, dt = [random_like(args[i]) for i in wrt], [random_like(out[i]) for i in floats]
    gradients = run(names[0], [*args, *dt])[len(out):]
    tangents = run(names[1], [*args, *dx])[len(out):]

    def moved(by: float) -> list[Any]:
        at = list(args)
        for i, d in zip(wrt, dx):
            at[i] = at[i] + by * d
        return [np.asarray(run("f", at)[i]) for i in floats]
    step = 1e-6
    numeric = [(up - down) / (2 * step) for up, down in zip(moved(step), moved(-step))]
    for tangent, number in zip(tangents, numeric, strict=True):
        np.testing.assert_allclose(tangent, number, rtol=2e-6, atol=2e-6)
    forward = sum(float(np.sum(c * x)) for c, x in zip(dt, tangents))
    backward = sum(float(np.sum(g * d)) for g, d in zip(gradients, dx, strict=True))
    assert backward == pytest.approx(forward, rel=1e-9, abs=1e-9)


FLAT = {np.rint, np.floor, np.ceil, np.trunc, np.isnan, np.isinf, np.isfinite, np.logical_not, np.invert}
INSIDE = {np.arcsin, np.arccos, np.arctanh}
OUTSIDE = {np.log, np.log2, np.log10, np.sqrt, np.arccosh, np.log1p, np.reciprocal}


@pytest.mark.parametrize("ufunc", [f for f in values.UNARY if f not in FLAT], ids=lambda f: f.__name__)
def test_unary(ufunc: Any) -> None:
    x = V / 2 if ufunc in INSIDE else P + 0.5 if ufunc in OUTSIDE else V
    check(lambda do, a: do(ufunc, a), x)
    check(lambda do, a: do(ufunc, a) * a, x)


BINARY = [np.add, np.subtract, np.multiply, np.divide, np.remainder, np.power, np.maximum, np.minimum, np.fmax, np.fmin,
          np.fmod, np.arctan2, np.hypot, np.copysign, np.logaddexp, np.logaddexp2, np.float_power]


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("x, y", [(P, P[::-1] + 0.05), (M, P), (P, M[:, :1].copy()), (T, M), (1.7, P), (P, 0.6)],
                         ids=["same", "rank", "column", "three", "scalar", "to scalar"])
def test_binary(ufunc: Any, x: Any, y: Any) -> None:
    check(lambda do, a, b: do(ufunc, a, b), x, y)


SHAPES = [f for i, f in enumerate(values.SHAPES) if np.asarray(values.plain(f, M)[0] if isinstance(
    values.plain(f, M), (tuple, list)) else values.plain(f, M)).dtype.kind == "f"]
CONSTANT = ("zeros_like", "ones_like", "full_like")


@pytest.mark.parametrize("i", range(len(SHAPES)))
def test_shapes(i: int) -> None:
    if any(name in SHAPES[i].__code__.co_names for name in CONSTANT) or "float32" in SHAPES[i].__code__.co_names:
        return
    check(lambda do, a: SHAPES[i](do, a * a), M)


SCANS = [f for f in values.SCANS if np.asarray(values.plain(f, M)).dtype.kind == "f"]


@pytest.mark.parametrize("i", range(len(SCANS)))
def test_scans_and_selections(i: int) -> None:
    if "float32" in SCANS[i].__code__.co_names or "round" in SCANS[i].__code__.co_names:
        return
    check(lambda do, a: SCANS[i](do, a * a + a), M)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)], ids=str)
@pytest.mark.parametrize("f", [np.sum, np.prod, np.max, np.min, np.mean, np.std, np.var, np.ptp, np.linalg.norm],
                         ids=lambda f: f.__name__)
def test_reductions(f: Any, axis: Any) -> None:
    if f is np.linalg.norm and axis == (0, 2):
        return
    check(lambda do, a: do(f, a, axis=axis, keepdims=True) * a, T)


@pytest.mark.parametrize("m, n", [p for p in values.PRODUCTS if 0 not in p[0]], ids=str)
def test_products(m: Any, n: Any) -> None:
    check(lambda do, x, y: x @ y, RNG.standard_normal(m), RNG.standard_normal(n))


@pytest.mark.parametrize("case", values.EINSUMS, ids=lambda c: c[0])
def test_einsum(case: Any) -> None:
    text, *operands = case
    check(lambda do, *xs: do(np.einsum, text, *xs), *operands)


def test_transposed_products() -> None:
    for f in (lambda do, x, y: x.T @ y, lambda do, x, y: x @ y.T, lambda do, x, y: (y.T @ x).T):
        check(f, M, M + 1)
    check(lambda do, x, y: do(np.tensordot, x, y, ((0, 1), (1, 2))), M, T)
    check(lambda do, x, y: do(np.outer, x, y), V, P)


@pytest.mark.parametrize("n", [2, 3, 4, 7, -1, -2, 0.5, 2.5, 0])
def test_powers(n: Any) -> None:
    check(lambda do, a: a ** n, P)
    check(lambda do, a: a ** n, 1.7)


AT = np.array([2, -3, 0, 2])
INDICES: list[Any] = [0, -1, slice(1, 3), slice(None, None, -1), (slice(None), 1),
                      (slice(None, None, 2), slice(3, 0, -2)), None,
                      (0, None), AT, (AT, 1), (AT, AT), (slice(None), AT), (AT, slice(1, 3)), M > 0.5,
                      np.array([True, False, True]), (slice(0, 2), AT)]


@pytest.mark.parametrize("i", range(len(INDICES)))
def test_indexing(i: int) -> None:
    from jitad.frontend.arrays import table
    from jitad.frontend.values.values import context
    index = INDICES[i]
    check(lambda do, a: (a * a)[index], M)
    if index is not AT and not (isinstance(index, tuple) and any(x is AT for x in index)):
        check(lambda do, a, v: table.setitem(context(), a * a, index, v), M, 2.5)
        check(lambda do, a, v: table.setitem(context(), a * a, index, v), M, RNG.standard_normal(M[index].shape))


def test_special_functions() -> None:
    import math

    import scipy.special as special
    for f in (special.erf, special.erfc, special.gammaln, special.expit, special.logsumexp, special.softmax,
              special.log_softmax):
        check(lambda do, a, f=f: do(f, a), P)
    check(lambda do, a, b: do(special.xlogy, a, b), P, P + 1)
    for g in (math.erf, math.lgamma, math.sqrt, math.log, math.atan, abs):
        check(lambda do, a, g=g: do(g, a), 1.3)


def test_at_their_kinks() -> None:
    """Ties of maximum are split in halves; Python's ``max`` takes the branch; expit at 0 has its derivative."""
    import scipy.special as special

    from jitad.ir.types import F64
    kinks: list[tuple[Any, float]] = [
        (lambda do, a: do(np.maximum, a, 1.0), 0.5), (lambda do, a: do(np.abs, a - 1.0), 0.0),
        (lambda do, a: do(np.logaddexp, a, 1.0), 0.5), (lambda do, a: do(special.expit, a - 1.0), 0.25),
        (lambda do, a: do(max, a, 1.0), 1.0)]
    for fun, expected in kinks:
        t, _, _ = trace(fun, (1.0,))
        name = t.module.derive("f", "vjp", [0])
        differentiate(t.module)
        assert t.function.result_types == [F64]
        assert Interpreter(t.module).run(name, [1.0, 1.0])[1] == expected


@pytest.mark.slow
def test_sinc_near_zero() -> None:
    """-π²/3 · x and its slope, to the last digits: the quotient has lost them there."""
    for x in (0.0, 1e-12, -1e-8, 1e-5, 1e-3):
        a = np.pi * x
        assert jitad.grad(np.sinc)(x) == pytest.approx(np.pi * (-a / 3 + a ** 3 / 30), rel=1e-12)
        assert jitad.hessian(np.sinc)(x) == pytest.approx(np.pi ** 2 * (-1 / 3 + a ** 2 / 10), rel=1e-9)
    for x in (0.0318, 0.0319, 0.5, -2.3):                 # where the series ends, and beyond
        a = np.pi * x
        slope = np.cos(a) / x - np.sin(a) / (a * x)
        assert jit(np.sinc)(x) == pytest.approx(np.sinc(x), rel=1e-15)
        assert jitad.grad(np.sinc)(x) == pytest.approx(slope, rel=1e-11)
    np.testing.assert_allclose(jitad.grad(lambda a: np.sinc(a).sum())(np.array([0.0, 1e200])), [0.0, 0.0], atol=1e-199)
