"""The verifier accepts valid IR, and refuses IR with any of many mutations (``ir_spoils.py``)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from jitad.ir import verify as verify_module
from jitad.ir.graph import Function, Module, Value
from jitad.ir.ops import OPS, result_types
from jitad.ir.text import parse_module, print_module
from jitad.ir.type_rules import TypeRuleError
from jitad.ir.types import BOOL, F32, F64, I64, STACK, Array
from jitad.ir.verify import Verifier, VerifyError, verify
from tests.ir import irgen
from tests.ir.ir_spoils import SPOILS, Spoil

SEEDS = range(12)


def fresh(seed: int) -> Module:
    """A random module with a call and a branch, printed and parsed."""
    return parse_module(print_module(irgen.generate(seed, statements=14)))


@pytest.mark.parametrize("seed", range(30))
def test_good_modules_pass(seed: int) -> None:
    verify(irgen.generate(seed), linear=False)


@pytest.mark.long
@pytest.mark.parametrize("damage", SPOILS, ids=lambda f: f.__name__)
def test_every_damage_is_found(damage: Spoil) -> None:
    applied = 0
    for seed in SEEDS:
        m, verifier = fresh(seed), Verifier()
        verifier.verify(m)
        if damage(random.Random(seed), m):
            applied += 1
            with pytest.raises(VerifyError) as e:
                verify(m, linear=False)
            assert e.value.violations
            with pytest.raises(VerifyError) as again:
                verifier.verify(m)
            assert str(again.value) == str(e.value)
    assert applied >= 3


def test_what_has_not_changed_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function is verified again if a callee's types change; invalid functions stay invalid."""
    looked_at: list[str] = []
    verifier = verify_module.FunctionVerifier
    right = verifier.run
    monkeypatch.setattr(verifier, "run", lambda self: looked_at.append(self.func.name) or right(self))
    m = parse_module("""
func @g(%x: f64) -> (f64) {
^entry:
  return %x
}
func @f(%x: f64) -> (f64) {
^entry:
  %c = const 1 : i64
  call @g(%x) -> ^b1
^b1(%r: f64):
  return %r
}""")
    verifier = Verifier()
    for expected in ({"g", "f"}, set()):
        verifier.verify(m)
        assert set(looked_at) == expected
        looked_at.clear()
    m.functions["g"].params[0].type = F32
    m.functions["g"].result_types[0] = F32
    for _ in range(2):
        with pytest.raises(VerifyError, match="the callee takes f32, here is f64"):
            verifier.verify(m)
    m.functions["g"].params[0].type = m.functions["g"].result_types[0] = F64
    constant = m.functions["f"].blocks[0].ops[0]
    constant.attrs["value"] = True                                  # equal to 1, and no i64
    with pytest.raises(VerifyError, match="True is no i64"):
        verifier.verify(m)


def test_all_violations_are_listed_with_line_and_caret() -> None:
    m = parse_module("""
func @f(%x: f64, %n: i64) -> (f64) {
^b0:
  %y = sin %x : f32
  %z = add %x, %n : f64
  jump ^b1(%n)
^b1(%r: f64):
  return %r, %x
}""", "f.ir")
    with pytest.raises(VerifyError) as e:
        verify(m)
    assert [v.loc.line for v in e.value.violations] == [4, 5, 6, 8]
    text = str(e.value)
    assert "4 violations" in text
    assert "    jump ^b1(%n)\n             ^^" in text
    assert "the block takes f64, here is i64 (f.ir:6)" in text


def test_derivatives_to_be_made_have_signatures() -> None:
    verify(parse_module("""
derived @f.vjp.0 = vjp @f wrt (0,)
derived @g = jvp @f.vjp.0 wrt (0, 3)
func @f(%x: f64, %n: i64, %a: f64[?]) -> (f64, i64, f64[?]) {
^b0:
  %c = copy %a
  return %x, %n, %c
}
func @h(%x: f64, %n: i64, %a: f64[?]) -> (f64) {
^b0:
  call @f.vjp.0(%x, %n, %a, %x, %a) -> ^b1
^b1(%y: f64, %m: i64, %b: f64[?], %x_bar: f64):
  call @g(%x, %n, %a, %x, %a, %x, %x) -> ^b2
^b2(%p: f64, %q: i64, %r: f64[?], %s: f64, %t: f64, %u: f64[?], %v: f64):
  return %v
}"""), linear=False)


def random_operands(rng: random.Random) -> Iterator[tuple[str, list[Value]]]:
    arrays = [Array(F64, (None,)), Array(F64, (3, None)), Array(I64, (1,)), Array(BOOL, (None,))]
    types = [F64, F32, I64, BOOL, STACK, *arrays]
    f = Function("f", types)
    for name in OPS:
        for _ in range(60):
            yield name, [rng.choice(f.params) for _ in range(rng.randint(0, 5))]


def test_type_rules_refuse_in_one_way_only() -> None:
    """Whatever the operands and attributes: a type, or ``TypeRuleError``."""
    rng = random.Random(0)
    attrs = {"axis": 0, "axes": (0,), "type": F64, "dtype": I64, "types": (F64,), "value": 1.0, "perm": (0,), "exc": 0}
    for name, operands in random_operands(rng):
        some = {k: v for k, v in attrs.items() if rng.random() < 0.8}
        try:
            result_types(name, operands, some)
        except TypeRuleError:
            pass
