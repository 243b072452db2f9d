"""The table of derivatives: complete, and each line checked by itself.

A new elementwise op is found and checked without a line here; one with attributes or indices needs a line in
``SAMPLES``.
Forward against central differences, reverse against forward transposed, and both once more on the derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad.ad import differentiate
from jitad.ad.derivatives import BILINEAR, EXPANDED, LINEAR, PARTIALS, STRUCTURAL, WEIGHTS, ZERO
from jitad.cps import to_cps
from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Function, Module, Value
from jitad.ir.ops import OPS
from jitad.ir.types import F32, F64, I64, Array, Type, is_float, parse
from jitad.ir.verify import verify

# Ranges in which an op is smooth and of moderate size; by default (0.4, 1.6).
DOMAIN = {"acosh": (1.5, 2.5), "atanh": (-0.7, 0.7), "asin": (-0.7, 0.7), "acos": (-0.7, 0.7), "tan": (0.4, 1.1)}
MATRIX, VECTOR, CUBE = Array(F64, (None, None)), Array(F64, (None,)), Array(F64, (None, None, None))
SHAPES = {MATRIX: (3, 4), VECTOR: (3,), CUBE: (2, 3, 4)}

Emit = Callable[..., Value]


def _at(b: Builder, *numbers: int) -> list[Value]:
    return [b.const(n) for n in numbers]


# op → the types of its operands (or example values), and how to emit it
SAMPLES: dict[str, list[tuple[list[Any], Emit]]] = {
    "select": [([VECTOR, VECTOR, VECTOR], lambda b, c, x, y: b.select(b.gt(c, 0.9), x, y)),
               ([F64, VECTOR, F64], lambda b, c, x, y: b.select(b.gt(c, 0.9), x, y))],
    "cast": [([VECTOR], lambda b, x: b.cast(b.cast(x, dtype=F32), dtype=F64))],
    "fill": [([F64], lambda b, x: b.fill(x, *_at(b, 2, 3)))],
    "broadcast_to": [([F64], lambda b, x: b.broadcast_to(x, *_at(b, 2, 3))),
                     ([VECTOR], lambda b, x: b.broadcast_to(x, b.const(2), *b.dims(x))),
                     ([np.full((3, 1), 0.7)], lambda b, x: b.broadcast_to(x, b.dims(x)[0], b.const(4)))],
    "get": [([VECTOR], lambda b, a: b.get(a, 1)), ([MATRIX], lambda b, a: b.get(a, 1))],
    "set": [([VECTOR, F64], lambda b, a, v: b.set(b.copy(a), v, b.const(1))),
            ([MATRIX, np.ones(4)], lambda b, a, v: b.set(b.copy(a), v, b.const(1)))],
    "add_at": [([VECTOR, F64], lambda b, a, v: b.add_at(b.copy(a), v, b.const(1)))],
    "slice": [([MATRIX], lambda b, a: b.slice(a, *_at(b, 0, 2, 2, 3, 2, -2)))],
    "set_slice": [([MATRIX, np.ones((2, 2))], lambda b, a, v: b.set_slice(b.copy(a), v, *_at(b, 0, 2, 3, -2)))],
    "add_slice": [([MATRIX, np.ones((2, 2))], lambda b, a, v: b.add_slice(b.copy(a), v, *_at(b, 0, 2, 3, -2)))],
    "take": [([MATRIX, np.array([[0, 2], [2, 2]])], lambda b, a, i: b.take(a, i))],
    "put": [([VECTOR, np.ones(4), np.array([0, 2, 2, 1])], lambda b, a, v, i: b.put(b.copy(a), v, i)),
            ([MATRIX, np.ones((3, 4)), np.array([0, 2, 2])], lambda b, a, v, i: b.put(b.copy(a), v, i))],
    "add_put": [([VECTOR, np.ones(4), np.array([0, 2, 2, 1])], lambda b, a, v, i: b.add_put(b.copy(a), v, i))],
    "reshape": [([MATRIX], lambda b, a: b.reshape(a, *_at(b, 2, 6)))],
    "transpose": [([CUBE], lambda b, a: b.transpose(a, perm=(2, 0, 1)))],
    "concat": [([MATRIX, MATRIX], lambda b, x, y: b.concat(x, y, axis=1))],
    "copy": [([VECTOR], lambda b, a: b.copy(a))],
    "as_type": [([VECTOR], lambda b, a: b.as_type(a, type=Array(F64, (3,))))],
    "sum": [([CUBE], lambda b, a: b.sum(a, axes=(0, 2))), ([CUBE], lambda b, a: b.sum(a, axes=(0, 1, 2)))],
    "cumsum": [([MATRIX], lambda b, a: b.cumsum(a, axis=1))],
    "cumprod": [([MATRIX], lambda b, a: b.cumprod(a, axis=0))],
    "prod": [([MATRIX], lambda b, a: b.prod(a, axes=(1,))), ([CUBE], lambda b, a: b.prod(a, axes=(0, 1, 2)))],
    "max": [([MATRIX], lambda b, a: b.max(a, axes=(1,))), ([MATRIX], lambda b, a: b.max(a, axes=(0, 1)))],
    "min": [([MATRIX], lambda b, a: b.min(a, axes=(0,)))],
    "matmul": [([np.ones(x), np.ones(y)], lambda b, x, y, ta=ta, tb=tb: b.matmul(x, y, ta=ta, tb=tb))
               for x, y, ta, tb in [
                   ((3,), (3,), False, False), ((2, 3), (3,), False, False), ((3, 2), (3,), True, False),
                   ((3,), (3, 2), False, False), ((3,), (2, 3), False, True), ((2, 3), (3, 4), False, False),
                   ((3, 2), (3, 4), True, False), ((2, 3), (4, 3), False, True), ((3, 2), (4, 3), True, True),
                   ((2, 2, 3), (2, 3, 4), False, False), ((2, 3, 2), (2, 4, 3), True, True)]],
}

# Additional operands of elementwise ops.
SPECIAL: dict[str, list[tuple[list[Any], Emit]]] = {"div": [([VECTOR], lambda b, x: b.div(1.0, x))]}


def _samples(name: str) -> list[tuple[list[Any], Emit]]:
    """The lines of ``SAMPLES``; for an elementwise op scalars, arrays, arrays that broadcast, and special cases."""
    if name in SAMPLES:
        return SAMPLES[name]
    count = len(PARTIALS[name])
    kinds: list[list[Any]] = [[F64] * count, [MATRIX] * count]
    if count == 2:
        kinds += [[MATRIX, F64], [F64, VECTOR], [np.ones((3, 1)), np.ones((1, 4))], [MATRIX, np.ones((3, 1))]]
    return [(k, lambda b, *xs: b.emit(name, *xs)) for k in kinds] + SPECIAL.get(name, [])


def _example(spec: Any, name: str, rng: np.random.Generator) -> Any:
    low, high = DOMAIN.get(name, (0.4, 1.6))
    if isinstance(spec, np.ndarray):
        return rng.uniform(low, high, spec.shape) if spec.dtype.kind == "f" else spec
    return rng.uniform(low, high, SHAPES[spec]) if isinstance(spec, Array) else float(rng.uniform(low, high))


def _type(x: Any) -> Type:
    if not isinstance(x, np.ndarray):
        return F64
    return Array(F64 if x.dtype.kind == "f" else I64, tuple(1 if d == 1 else None for d in x.shape))


def _flat(values: Any) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])


DIFFERENTIABLE = sorted({*PARTIALS, *WEIGHTS, *LINEAR, *BILINEAR, *EXPANDED})
CASES = [(name, i) for name in DIFFERENTIABLE for i in range(len(_samples(name)))]


def test_every_op_has_one_place() -> None:
    tables = [set(t) for t in (PARTIALS, WEIGHTS, LINEAR, BILINEAR, ZERO, STRUCTURAL, EXPANDED)]
    assert set().union(*tables) == set(OPS)
    assert sum(map(len, tables)) == len(OPS), "an op stands in two tables"
    assert all(OPS[name].elementwise for name in PARTIALS)


@pytest.mark.parametrize(("name", "i"), CASES)
def test_derivative(name: str, i: int) -> None:
    specs, emit = _samples(name)[i]
    rng = np.random.default_rng(sum(map(ord, name)) + i)
    args = [_example(s, name, rng) for s in specs]
    module = Module()
    func = module.add(Function("f", [_type(x) for x in args], []))
    b = Builder(func.entry)
    y = emit(b, *func.params)
    func.result_types = [y.type]
    b.ret([y])
    to_cps(module)
    wrt = [k for k, t in enumerate(func.param_types) if is_float(t)]
    vjp, jvp = module.derive("f", "vjp", wrt), module.derive("f", "jvp", wrt)
    over, second = (module.derive(vjp, kind, wrt) for kind in ("jvp", "vjp"))
    differentiate(module)
    verify(module, linear=False)
    run = Interpreter(module).run
    directions = [rng.normal(size=np.shape(args[k])) if np.shape(args[k]) else float(rng.normal()) for k in wrt]

    def moved(step: float) -> list[Any]:
        return [a + step * directions[wrt.index(k)] if k in wrt else a for k, a in enumerate(args)]

    def slope(f: Callable[[list[Any]], np.ndarray]) -> np.ndarray:
        eps = 1e-2 if name == "cast" else 1e-5
        return (f(moved(eps)) - f(moved(-eps))) / (2 * eps)
    value, tangent = run(jvp, [*args, *directions])
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if name == "cast" else {"rtol": 1e-6, "atol": 1e-7}      # by way of f32
    np.testing.assert_allclose(_flat([tangent]), slope(lambda at: _flat(run("f", at))), **tolerance)
    ct = rng.normal(size=np.shape(value)) if np.shape(value) else float(rng.normal())
    gradient = run(vjp, [*args, ct])[1:]
    exact = {"rtol": 1e-5} if name == "cast" else {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(_flat(gradient) @ _flat(directions), np.sum(np.asarray(ct) * tangent), **exact)
    forward = _flat(run(over, [*args, ct, *directions])[-len(wrt):])
    np.testing.assert_allclose(forward, slope(lambda at: _flat(run(vjp, [*at, ct])[1:])), rtol=1e-5, atol=1e-5)
    zero = np.zeros(np.shape(value)) if np.shape(value) else 0.0
    reverse = _flat(run(second, [*args, ct, zero, *directions])[-len(wrt):])
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)


def _at_point(name: str, *args: Any) -> list[Any]:
    module = Module()
    func = module.add(Function("f", [parse("f64")] * len(args), [F64]))
    b = Builder(func.entry)
    b.ret([b.emit(name, *func.params)])
    vjp = module.derive("f", "vjp", range(len(args)))
    differentiate(module)
    with np.errstate(all="ignore"):
        return [float(g) for g in Interpreter(module).run(vjp, [*args, 1.0])[1:]]


def test_second_derivative_of_power_where_the_exponent_is_zero() -> None:
    """∂²/∂x∂y x^y = x^(y−1) (1 + y log x), which is 1/x at y = 0."""
    module = Module()
    func = module.add(Function("f", [F64, F64], [F64]))
    b = Builder(func.entry)
    b.ret([b.pow(*func.params)])
    second = module.derive(module.derive("f", "vjp", (0, 1)), "vjp", (0, 1))
    differentiate(module)
    assert Interpreter(module).run(second, [2.0, 0.0, 1.0, 0.0, 1.0, 0.0])[-2:] == [0.0, 0.5]


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("abs", (0.0,), [0.0]), ("maximum", (1.0, 1.0), [0.5, 0.5]), ("minimum", (1.0, 1.0), [0.5, 0.5]),
    ("sqrt", (0.0,), [np.inf]), ("hypot", (0.0, 0.0), [0.0, 0.0]), ("pow", (0.0, 2.0), [0.0, 0.0]),
    ("pow", (-2.0, 3.0), [12.0, 0.0]), ("pow", (0.0, 0.0), [0.0, 0.0]), ("pow", (0.0, 1.0), [1.0, 0.0]),
])
def test_kinks_have_the_documented_value(name: str, args: tuple[float, ...], expected: list[float]) -> None:
    assert _at_point(name, *args) == expected
