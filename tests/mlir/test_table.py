"""Every op has a text; every elementwise op, on scalars and on vectors, means what NumPy means, in every dtype."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from jitad.ir.evaluate.meaning import MEANING
from jitad.ir.graph import Function, Module, Value
from jitad.ir.ops import OPS as IR_OPS
from jitad.ir.types import BOOL, F64, SCALARS, Scalar
from jitad.loop_level.build.writer import Writer
from jitad.loop_level.ops import OPS
from jitad.loop_level.text import parse_module
from jitad.loop_level.types import Buffer, Vector, type_of
from jitad.loop_level.verify import verify
from jitad.mlir.arithmetic import SPECIAL, TABLE
from jitad.mlir.function import COVERED
from jitad.mlir.text import print_mlir
from jitad.mlir.types import NoText
from tests.lowering.test_lowering_scalar import applicable, close, samples
from tests.mlir.running import Compiled, compiled
from tests.mlir.tools import accept, needs_mlir

LANES = 4


def test_every_op_has_a_text() -> None:
    assert not OPS.keys() - COVERED
    assert {name for name, op in IR_OPS.items() if op.elementwise} == {*TABLE, *SPECIAL}


def machine_code(*functions: Function) -> Compiled:
    module = Module()
    for f in functions:
        module.add(f)
    verify(module)
    text = print_mlir(module)
    accept([text])
    return compiled([module], [text])[0]


def ended(w: Writer, results: list[Value]) -> Function:
    w.func.result_types = [v.type for v in results]
    w.end("return", results)
    w.finish()
    return w.func


def all_ops(name: str, types: list[Scalar], todo: list[tuple[str, int, dict[str, Any]]], lanes: bool) -> Function:
    """A function that returns each op of its first parameters; with ``lanes`` of vectors, whose lanes it returns."""
    w = Writer(Function(name, types))
    xs = [w.do("splat", [p], lanes=LANES).result for p in w.func.params] if lanes else w.func.params
    results = [w.do(op, xs[:n], **attrs).result for op, n, attrs in todo]
    return ended(w, [stored(w, v) for v in results] if lanes else results)


def stored(w: Writer, v: Value) -> Value:
    """A new buffer with the lanes of a vector."""
    t = type_of(v)
    assert isinstance(t, Vector)
    b = w.do("alloc", [w.const(LANES)], kind="result", type=Buffer(t.dtype, (LANES,))).result
    w.do("store", [v, b, w.const(0)])
    return b


@pytest.mark.slow
@pytest.mark.long
@needs_mlir
@pytest.mark.parametrize("t", SCALARS.values(), ids=str)
def test_every_op_means_what_numpy_means(t: Scalar) -> None:
    todo = [(name, n, {}) for name, n in applicable(t)]
    code = machine_code(*(all_ops(name, [t, t], todo, name == "lanes") for name in ("scalars", "lanes")))
    wrong = set()
    with np.errstate(all="ignore"):
        for x, y in itertools.product(samples(t), repeat=2):
            for (op, n, _), one, many in zip(todo, code.run("scalars", [x, y]), code.run("lanes", [x, y])):
                want = MEANING[op]({}, *(x, y)[:n])
                wrong |= {f"{op}({(x, y)[:n]}) = {g}, not {want}" for g in (one, *many) if not close(op, g, want)}
    assert not wrong, sorted(wrong)


@needs_mlir
@pytest.mark.parametrize("t", SCALARS.values(), ids=str)
def test_cast(t: Scalar) -> None:
    todo = [("cast", 1, {"dtype": to}) for to in SCALARS.values()]
    code = machine_code(*(all_ops(name, [t], todo, name == "lanes") for name in ("scalars", "lanes")))
    with np.errstate(all="ignore"):
        for x in samples(t):
            for to, one, many in zip(SCALARS.values(), code.run("scalars", [x]), code.run("lanes", [x])):
                want = MEANING["cast"]({"dtype": to}, x)
                assert np.array_equal([one, *many], [want] * (1 + LANES), equal_nan=to.is_float), (x, to)


@needs_mlir
@pytest.mark.parametrize("t", SCALARS.values(), ids=str)
def test_select_and_constants(t: Scalar) -> None:
    functions = []
    for name in ("scalars", "lanes"):
        w = Writer(Function(name, [BOOL, t]))
        c, x = ([w.do("splat", [p], lanes=LANES).result for p in w.func.params] if name == "lanes" else w.func.params)
        zero = w.const(t.np.type(0).item(), t)
        zeros = w.do("splat", [zero], lanes=LANES).result if name == "lanes" else zero
        chosen = w.do("select", [c, x, zeros]).result
        known = [w.const(s.item(), t) for s in samples(t)]
        functions.append(ended(w, [stored(w, chosen) if name == "lanes" else chosen, *known]))
    code = machine_code(*functions)
    for s, c, name in itertools.product(samples(t), (False, True), ("scalars", "lanes")):
        got, *known = code.run(name, [c, s])
        want = s if c else t.np.type(0)
        assert np.array_equal(np.ravel(got), [want] * np.size(got), equal_nan=t.is_float)
        assert np.array_equal(known, samples(t), equal_nan=t.is_float)


@needs_mlir
def test_signs_of_zero() -> None:
    todo = [(op, n, {}) for op, n in applicable(F64) if op in ("floordiv", "mod", "abs", "sign", "copysign", "round")]
    code = machine_code(all_ops("scalars", [F64, F64], todo, False))
    with np.errstate(all="ignore"):
        for x, y in itertools.product(map(np.float64, (0.0, -0.0, 3.0, -3.0, 0.4, -0.4)), repeat=2):
            for (op, n, _), got in zip(todo, code.run("scalars", [x, y])):
                want = MEANING[op]({}, *(x, y)[:n])
                assert np.isnan(want) or np.signbit(got) == np.signbit(want), (op, x, y)




def test_refusals() -> None:
    """All that has no text: vectors in frames."""
    text = """
func @f(%x: f64) -> (stack) {
^entry:
  %s = stack_empty
  %v = splat {lanes = 4} %x
  %t = push %s, %v
  return %t
}
"""
    with pytest.raises(NoText, match=r"vector f64\[4\] in a frame"):
        print_mlir(parse_module(text))
