"""Every elementwise op, compiled, against its NumPy meaning on the edge cases of every dtype."""

import itertools
import math

import numpy as np
import pytest
from jitad.lowering.jit.invoke import Compiled
from jitad.lowering.math import ops

from jitad.ir.builder import Builder
from jitad.ir.evaluate.fold import wrap
from jitad.ir.evaluate.meaning import MEANING
from jitad.ir.graph import ExcInfo, Function, Module, Value
from jitad.ir.ops import OPS, result_types
from jitad.ir.type_rules import TypeRuleError
from jitad.ir.types import BOOL, F32, F64, I32, I64, SCALARS, Scalar

FLOATS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, 7.25, -7.25, 100.0, 1e-20, 1e20, -1e20, 2.0 ** 31,
          math.inf, -math.inf, math.nan]
INTS = [0, 1, -1, 2, -2, 3, 5, -7, 31, 32, 63, 64, 100, "min", "max"]
SPECIAL = ("cast", "select", "const")


def samples(t: Scalar) -> list:
    if t.is_float:
        return [t.np.type(x) for x in FLOATS]
    if t.is_bool:
        return [np.False_, np.True_]
    info = np.iinfo(t.np)
    return [t.np.type({"min": info.min, "max": info.max}[x] if isinstance(x, str) else wrap(x, t)) for x in INTS]


def applicable(t: Scalar) -> list[tuple[str, int]]:
    """(op, number of operands) of the elementwise ops that take ``t``."""
    found = []
    for name, definition in OPS.items():
        if not definition.elementwise or name in SPECIAL:
            continue
        for n in (1, 2):
            try:
                result_types(name, [Value(t, None, 0)] * n, {})
            except TypeRuleError:
                continue
            found.append((name, n))
            break
    return found


def all_ops(t: Scalar, names: list[tuple[str, int]]) -> Compiled:
    """One function that returns every op in ``names`` of its two arguments."""
    module = Module()
    func = module.add(Function("f", [t, t]))
    b = Builder(func.entry)
    out = [b.emit_op(name, func.params[:n]).result for name, n in names]
    func.result_types = [v.type for v in out]
    b.ret(out)
    return Compiled(module, "f")


def test_the_table_is_complete() -> None:
    elementwise = {name for name, d in OPS.items() if d.elementwise}
    assert elementwise == (set(ops.TABLE) - {"fmod"}) | {"cast", "select"}


def close(name: str, got: np.generic, want: np.generic) -> bool:
    if name == "pow" and np.isposinf(got) and np.isnan(want):
        return True                                  # (-inf) ** 0.5 is inf in C and Python; NumPy takes a root
    if name in ("lgamma", "digamma", "polygamma", "erf", "erfc"):
        return bool(np.isclose(got, want, rtol=1e-5 if got.dtype == np.float32 else 1e-10, atol=1e-6, equal_nan=True))
    if got.dtype.kind == "f" and name not in EXACT:
        return bool(np.isclose(got, want, rtol=4 * np.finfo(got.dtype).eps, atol=0, equal_nan=True))
    return bool(got == want) or (got.dtype.kind == "f" and bool(np.isnan(got) and np.isnan(want)))


EXACT = ("add", "sub", "mul", "div", "floordiv", "mod", "neg", "abs", "sign", "maximum", "minimum", "copysign", "floor",
         "ceil", "trunc", "round", "sqrt", "stop")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("t", SCALARS.values(), ids=str)
def test_every_op_means_what_numpy_means(t: Scalar) -> None:
    names = applicable(t)
    f = all_ops(t, names)
    wrong = []
    with np.errstate(all="ignore"):
        for x, y in itertools.product(samples(t), repeat=2):
            for (name, n), got in zip(names, f(x, y)):
                want = MEANING[name]({}, *(x, y)[:n])
                if not close(name, got, want):
                    wrong.append(f"{name}({', '.join(map(str, (x, y)[:n]))}) = {got}, not {want}")
    assert not wrong, sorted(set(wrong))


@pytest.mark.parametrize("name", ["floordiv", "mod", "abs", "sign", "copysign", "round", "maximum"])
def test_signs_of_zero(name: str) -> None:
    t = SCALARS["f64"]
    n = 1 if name in ("abs", "sign", "round") else 2
    f = all_ops(t, [(name, n)])
    with np.errstate(all="ignore"):
        for x, y in itertools.product([0.0, -0.0, 3.0, -3.0, 0.4, -0.4], repeat=2):
            want = MEANING[name]({}, *map(np.float64, (x, y)[:n]))
            if name != "maximum" and not np.isnan(want):
                assert np.signbit(f(x, y)[0]) == np.signbit(want), (x, y)


@pytest.mark.parametrize("source", SCALARS.values(), ids=str)
def test_cast(source: Scalar) -> None:
    module = Module()
    func = module.add(Function("f", [source], list(SCALARS.values())))
    b = Builder(func.entry)
    b.ret([b.cast(func.params[0], dtype=t) for t in SCALARS.values()])
    f = Compiled(module, "f")
    with np.errstate(all="ignore"):
        for x in samples(source):
            for t, got in zip(SCALARS.values(), f(x)):
                assert np.array_equal(got, MEANING["cast"]({"dtype": t}, x), equal_nan=t.is_float), (x, t)
                if not source.is_float or not t.is_int or t.low <= np.trunc(x) <= t.high:
                    assert np.array_equal(got, x.astype(t.np), equal_nan=t.is_float), (x, t)


@pytest.mark.parametrize("t", SCALARS.values(), ids=str)
def test_select_and_constants(t: Scalar) -> None:
    module = Module()
    func = module.add(Function("f", [BOOL, t], [t] * (1 + len(samples(t)))))
    b = Builder(func.entry)
    c, x = func.params
    zero = b.const(0, t)
    b.ret([b.emit_op("select", [c, x, zero]).result, *(b.const(s.item(), t) for s in samples(t))])
    f = Compiled(module, "f")
    for s in samples(t):
        assert np.array_equal(f(True, s)[0], s, equal_nan=t.is_float)
        assert f(False, s)[0] == 0
    assert np.array_equal(f(True, samples(t)[0])[1:], samples(t), equal_nan=t.is_float)


def test_a_failed_check_raises_with_its_operands() -> None:
    module = Module()
    exc = module.exception(ExcInfo("ValueError", "{0} {1} {2} {3}"))
    func = module.add(Function("f", [F64, I64, I32, F32], [F64]))
    b = Builder(func.entry)
    x, i, j, y = func.params
    b.check(b.gt(x, 0.0), exc, x, i, j, y)
    b.ret([x])
    f = Compiled(module, "f")
    assert f(1.5, 2, 3, 4.0) == [1.5]
    with pytest.raises(ValueError, match=r"-1.5 -2 7 0.25"):
        f(-1.5, -2, 7, 0.25)
