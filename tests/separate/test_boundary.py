"""Functions that were taken out of a program are known to it by their signatures."""

from __future__ import annotations

from jitad import pipeline
from jitad.ir.text import parse_module
from jitad.ir.verify import verify

PROGRAM = """
external @f(own f64[?], f64) -> (f64[?], f64)
derived @p.vjp.0.1 = vjp @p wrt (0, 1)

func @p(%a: f64[?], %x: f64) -> (f64) {
^entry:
  %two = const 2.0 : f64
  %y = mul %x, %two
  %c = copy %a
  call @f(%c, %y) -> ^after
^after(%b: f64[?], %z: f64):
  %s = sum {axes = (0,)} %b : f64
  %r = add %s, %z
  return %r
}
"""


def test_derivatives_of_external_functions_are_external() -> None:
    """The sweeps have the signatures that follow from the function's; the array that it owns is not passed again."""
    module = parse_module(PROGRAM)
    verify(module)
    pipeline.run(module, ["p.vjp.0.1"])
    verify(module)
    calls = [(op.attrs["callee"], [str(v.type) for v in op.operands]) for f in module.functions.values()
             for op in f.all_ops() if op.name == "call"]
    assert calls == [("f.fwd.0.1", ["f64[?]", "f64"]), ("f.bwd.0.1", ["f64", "f64[?]", "f64", "stack"])]
    assert list(module.functions) == ["p.vjp.0.1"] and list(module.external) == ["f"]
