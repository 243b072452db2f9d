"""Small programs before and after the passes that clean up."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from jitad import jit
from jitad.cps import check_cps, to_cps
from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Module
from jitad.ir.text import parse_module
from jitad.ir.verify import verify
from jitad.passes.analysis.loops import LoopForest
from jitad.passes.cleanup.cse import cse
from jitad.passes.cleanup.dce import dce
from jitad.passes.cleanup.inline import inline
from jitad.passes.cleanup.simplify import simplify
from jitad.passes.loops.licm import licm
from jitad.passes.loops.unroll import unroll
from jitad.passes.shapes.size_numbering import size_numbering
from tests.ir.irgen import outcome


def names(module: Module, name: str = "f") -> Counter[str]:
    verify(module, linear=False)
    return Counter(op.name for op in module.functions[name].all_ops())


def in_loops(module: Module, name: str = "f") -> set[str]:
    """The ops that stand in a loop."""
    verify(module, linear=False)
    check_cps(module.functions[name])
    forest = LoopForest(module.functions[name])
    return {op.name for loop in forest.loops for b in loop.blocks for op in b.ops}


# A loop over n with carried ``a`` and ``b``; the result is ``{result}``.
LOOP = """
exception 0 IndexError "index"
exception 1 ValueError "value"

func @f(%n: i64, %x: f64, %v: f64[?], %k: i64) -> (f64) {{
^entry:
  %zero = const 0 : i64
  jump ^head(%zero, %x, %x)
^head(%it: i64, %a: f64, %b: f64):
  %c = lt %it, %n : bool
  branch %c, ^body, ^done
^body:
  {body}
  %one = const 1 : i64
  %next = add %it, %one : i64
  jump ^head(%next, %a2, %b2)
^done:
  return {result}
}}
"""
TWO = "%a2 = mul %a, %x : f64\n  %b2 = sin %b : f64"


def looped(body: str, result: str = "%a") -> Module:
    module = parse_module(LOOP.format(body=body, result=result))
    simplify(module)
    to_cps(module)
    return module


def test_dce_drops_what_only_feeds_itself() -> None:
    module = looped(TWO)
    dce(module)
    assert names(module)["sin"] == 0 and names(module)["mul"] == 1


def test_dce_drops_loops_that_compute_nothing() -> None:
    module = looped(TWO, "%x")
    dce(module)
    simplify(module)
    assert set(names(module)) <= {"return", "const", "lt"}


def test_dce_keeps_loops_that_may_raise() -> None:
    module = looped("%low = lt %x, %a : bool\n  check {exc = 1} %low\n  " + TWO, "%x")
    dce(module)
    assert names(module)["check"] == 1


def test_dce_keeps_what_derivatives_are_made_from() -> None:
    module = parse_module("""
func @f(%x: f64) -> (f64) {
^entry:
  return %x
}

func @g(%x: f64) -> (f64) {
^entry:
  return %x
}
""")
    gradient = module.derive("f", "vjp", (0,))
    dce(module, [gradient])
    assert list(module.functions) == ["f"] and list(module.derived) == [gradient]


def test_cse_counts_operands_without_order_but_keeps_arrays_apart() -> None:
    module = parse_module("""
func @f(%x: f64, %y: f64, %n: i64) -> (f64, f64[?], f64[?]) {
^entry:
  %a = add %x, %y : f64
  %b = add %y, %x : f64
  %c = mul %a, %b : f64
  %zero = const 0 : i64
  %p = fill %x, %n : f64[?]
  %q = fill %x, %n : f64[?]
  %r = fill %y, %n : f64[?]
  %s = fill %y, %n : f64[?]
  %p2 = set %p, %c, %zero : f64[?]
  %t = add %r, %s : f64[?]
  %u = add %t, %q : f64[?]
  return %c, %p2, %u
}
""")
    cse(module)
    assert names(module)["add"] == 3 and names(module)["fill"] == 3


def test_cse_does_not_reach_into_a_loop() -> None:
    module = looped("%s = sin %x : f64\n  %a2 = mul %a, %s : f64\n  %b2 = sin %b : f64")
    func = module.functions["f"]
    exit_block = next(b for b in func.blocks if b.term is not None and b.term.name == "return")
    sine = next(op for op in func.all_ops() if op.name == "sin" and op.operands[0] is func.params[1])
    exit_block.term = None
    b = Builder(exit_block)
    b.ret([b.emit_op("sin", [func.params[1]]).result])
    cse(module)
    assert sine.block is not exit_block
    in_loops(module)


def test_licm_moves_arithmetic_and_checked_reads() -> None:
    module = looped("""%s = sin %x : f64
  %m = dim {axis = 0} %v : i64
  %inside = lt %k, %m : bool
  check {exc = 0} %inside
  %w = get %v, %k : f64
  %sw = mul %s, %w : f64
  %a2 = mul %a, %sw : f64
  %b2 = sin %b : f64""", "%a")
    dce(module)
    licm(module)
    assert in_loops(module) == {"mul", "add", "lt"}


def test_licm_leaves_a_read_behind_a_check_that_stays() -> None:
    body = """%low = lt %a, %x : bool
  check {{exc = {0}}} %low
  %m = dim {{axis = 0}} %v : i64
  %inside = lt %k, %m : bool
  check {{exc = 0}} %inside
  %w = get %v, %k : f64
  %a2 = mul %a, %w : f64
  %b2 = sin %b : f64"""
    for exc, early, moves in ((1, True, False), (0, True, True), (0, False, False)):
        module = looped(body.format(exc), "%a")
        licm(module, checks_in_place=early)
        assert ("get" not in in_loops(module)) is moves


def test_licm_leaves_reads_that_are_not_always_made() -> None:
    body = """%low = lt %k, %it : bool
  branch %low, ^yes, ^no
^yes:
  %w = get %v, %k : f64
  jump ^go(%w)
^no:
  jump ^go(%x)
^go(%g: f64):
  %a2 = mul %a, %g : f64
  %b2 = sin %b : f64"""
    module = looped(body, "%a")
    licm(module)
    assert "get" in in_loops(module)


CALLS = """
func @f(%x: f64, %n: i64) -> (f64) {
^entry:
  call @small(%x) -> ^a
^a(%y: f64):
  call @deep(%y, %n) -> ^b(%x)
^b(%z: f64, %keep: f64):
  %r = add %z, %keep : f64
  return %r
}

func @small(%x: f64) -> (f64) {
^entry:
  %zero = const 0.0 : f64
  %c = lt %x, %zero : bool
  branch %c, ^less, ^more
^less:
  return %zero
^more:
  return %x
}

func @deep(%x: f64, %n: i64) -> (f64) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %c = lt %zero, %n : bool
  branch %c, ^down, ^end
^down:
  %m = sub %n, %one : i64
  %y = sin %x : f64
  call @deep(%y, %m) -> ^back
^back(%z: f64):
  return %z
^end:
  return %x
}
"""


def test_inline_spares_recursion() -> None:
    module = parse_module(CALLS)
    inline(module, ["f"])
    assert names(module)["call"] == 1
    dce(module, ["f"])
    assert list(module.functions) == ["f", "deep"]


def test_inline_heeds_what_is_asked() -> None:
    module = parse_module(CALLS)
    module.functions["small"].attrs["inline"] = "never"
    inline(module, ["f"])
    assert names(module)["call"] == 2


@pytest.mark.parametrize("ops, calls, left", [(10, 300, 0), (40, 90, 0), (40, 200, 200), (70, 5, 0), (70, 20, 20)])
def test_a_function_is_inlined_at_all_of_its_calls_or_at_none(ops: int, calls: int, left: int) -> None:
    callee = "".join(f"  %v{i + 1} = sin %v{i} : f64\n" for i in range(ops))
    caller = "".join(f"  call @g(%x{i}) -> ^b{i}\n^b{i}(%x{i + 1}: f64):\n" for i in range(calls))
    module = parse_module(f"""
func @g(%v0: f64) -> (f64) {{
^entry:
{callee}  return %v{ops}
}}

func @f(%x0: f64) -> (f64) {{
^entry:
{caller}  return %x{calls}
}}
""")
    inline(module, ["f"])
    assert names(module)["call"] == left


def chain(count: int) -> Module:
    """f calls f1, which calls f2, …: each once."""
    text = ["""func @f(%x: f64) -> (f64) {
^entry:
  call @f1(%x) -> ^b
^b(%y: f64):
  return %y
}"""]
    for i in range(1, count):
        text.append(f"""func @f{i}(%x: f64) -> (f64) {{
^entry:
  %y = sin %x : f64
  call @f{i + 1}(%y) -> ^b
^b(%z: f64):
  %r = add %z, %x : f64
  return %r
}}""")
    text.append(f"func @f{count}(%x: f64) -> (f64) {{\n^entry:\n  %y = cos %x : f64\n  return %y\n}}")
    return parse_module("\n\n".join(text))


def test_a_function_with_one_call_moves_to_it() -> None:
    module, before = chain(5), outcome(chain(5), [0.5], "f")
    inline(module, ["f"])
    assert list(module.functions) == ["f"] and names(module)["call"] == 0
    assert outcome(module, [0.5], "f") == before


def test_what_may_be_called_from_outside_stays() -> None:
    module = chain(5)
    inline(module)
    assert len(module.functions) == 6 and names(module)["call"] == 0
    module = chain(5)
    inline(module, ["f", "f3"])
    assert list(module.functions) == ["f", "f3"]


def test_a_large_function_is_inlined_into_a_small_one_that_alone_calls_it() -> None:
    module = chain(2)
    long = module.functions["f2"]
    b = Builder(long.entry)
    x = long.entry.ops[0].result
    for _ in range(5000):
        x = b.sin(x)
    assert long.entry.term is not None
    long.entry.term.operands = [x]
    inline(module, ["f"])
    assert list(module.functions) == ["f"]


def test_sizes_are_known_through_loops() -> None:
    module = parse_module("""
func @f(%v: f64[?], %n: i64, %x: f64) -> (i64, f64[?]) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  jump ^head(%zero, %v)
^head(%it: i64, %w: f64[?]):
  %c = lt %it, %n : bool
  branch %c, ^body, ^done
^body:
  %w2 = set %w, %x, %it : f64[?]
  %w3 = mul %w2, %x : f64[?]
  %next = add %it, %one : i64
  jump ^head(%next, %w3)
^done:
  %size = dim {axis = 0} %w : i64
  return %size, %w
}
""")
    size_numbering(module)
    verify(module, linear=False)
    func = module.functions["f"]
    size, = (op for op in func.all_ops() if op.name == "dim" and op.operands[0] is func.params[0])
    assert any(b.term is not None and b.term.operands[:1] == [size.result] for b in func.blocks)


def test_simplify_decides_and_joins() -> None:
    module = parse_module("""
func @f(%x: f64, %p: bool) -> (f64) {
^entry:
  %two = const 2 : i64
  %three = const 3 : i64
  %c = lt %two, %three : bool
  branch %c, ^a, ^b
^a:
  %np = not %p : bool
  branch %np, ^left, ^right
^left:
  jump ^join(%x, %x)
^right:
  %y = mul %x, %x : f64
  jump ^join(%y, %x)
^b:
  jump ^join(%x, %x)
^join(%r: f64, %same: f64):
  %s = add %r, %same : f64
  return %s
}
""")
    simplify(module)
    dce(module)
    found = names(module)
    assert found["not"] == found["lt"] == 0 and found["branch"] == 1
    assert len(module.functions["f"].blocks) == 4
    assert all(len(b.params) <= 1 for b in module.functions["f"].blocks[1:])


def test_simplify_turns_an_empty_fork_into_a_select() -> None:
    module = parse_module("""
func @f(%x: f64, %y: f64, %p: bool) -> (f64) {
^entry:
  branch %p, ^left, ^right
^left:
  jump ^join(%x)
^right:
  jump ^join(%y)
^join(%r: f64):
  return %r
}
""")
    simplify(module)
    assert names(module) == {"select": 1, "return": 1}


def unrolled(text: str) -> Module:
    """The program in normal form with its short loops written out, verified."""
    module = parse_module(text)
    simplify(module)
    to_cps(module)
    unroll(module)
    simplify(module)
    verify(module, linear=False)
    check_cps(module.functions["f"])
    return module


def test_short_loops_are_written_out() -> None:
    text = LOOP.format(body="""%low = le %a, %x : bool
  check {exc = 1} %low
  %w = cast %it : f64
  %a2 = mul %a, %w : f64
  %b2 = add %b, %a : f64""", result="%b").replace("lt %it, %n", "lt %it, %trip").replace(
        "%zero = const 0 : i64", "%zero = const 0 : i64\n  %trip = const TRIP : i64")
    for trip, left in ((3, 0), (4, 0), (9, 1)):
        plain = parse_module(text.replace("TRIP", str(trip)))
        module = unrolled(text.replace("TRIP", str(trip)))
        assert len(LoopForest(module.functions["f"]).loops) == left
        for x in (-0.5, 0.5):
            args = [0, x, [0.0], 0]
            assert outcome(plain, args, "f") == outcome(module, args, "f")


TRIANGLE = """
func @f(%a: f64[?], %x: f64) -> (f64[?]) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %n = const SIZE : i64
  jump ^head(%zero, %a)
^head(%i: i64, %b: f64[?]):
  %more = lt %i, %n : bool
  branch %more, ^body, ^exit
^body:
  %m = sub %n, %i : i64
  jump ^inner(%zero, %b)
^inner(%j: i64, %c: f64[?]):
  %more.1 = lt %j, %m : bool
  branch %more.1, ^body.1, ^exit.1
^body.1:
  %k = add %j, %one : i64
  %u = get %c, %j : f64
  %v = get %c, %k : f64
  %w = mul %x, %u : f64
  %y = add %w, %v : f64
  %d = set %c, %y, %j : f64[?]
  jump ^inner(%k, %d)
^exit.1:
  %next = add %i, %one : i64
  jump ^head(%next, %c)
^exit:
  return %b
}
"""


def test_a_short_triangle_is_written_out() -> None:
    for size, left in ((3, 0), (6, 0), (8, 2), (9, 2)):
        plain = parse_module(TRIANGLE.replace("SIZE", str(size)))
        module = unrolled(TRIANGLE.replace("SIZE", str(size)))
        assert len(LoopForest(module.functions["f"]).loops) == left
        args = [[0.5 * k for k in range(10)], 0.3]
        assert str(outcome(plain, args, "f")) == str(outcome(module, args, "f"))


def test_what_was_just_stored_is_not_read() -> None:
    module = parse_module("""
func @f(%x: f64, %i: i64, %n: i64) -> (f64, f64[?]) {
^entry:
  %a = fill %x, %n : f64[?]
  %y = sin %x : f64
  %b = set %a, %y, %i : f64[?]
  %r = get %b, %i : f64
  return %r, %b
}
""")
    simplify(module)
    assert names(module)["get"] == 0


def test_an_array_xor_itself_is_not_itself() -> None:
    module = parse_module("""
func @f(%a: bool[?], %k: i64[?], %b: bool, %n: i64) -> (bool[?], i64[?], bool, i64, bool[?]) {
^entry:
  %p = xor %a, %a : bool[?]
  %q = xor %k, %k : i64[?]
  %r = xor %b, %b : bool
  %s = xor %n, %n : i64
  %t = and %a, %a : bool[?]
  return %p, %q, %r, %s, %t
}
""")
    args = [np.array([True, False]), np.array([5, -1]), True, 7]
    before = Interpreter(module).run("f", args)
    simplify(module)
    assert names(module) == {"xor": 2, "const": 2, "return": 1}
    after = Interpreter(module).run("f", args)
    assert [np.asarray(x).tolist() for x in before] == [np.asarray(x).tolist() for x in after] == [
        [False, False], [0, 0], False, 0, [True, False]]


def test_zeros_of_either_sign_are_two_constants() -> None:
    def chosen(c: float) -> float:
        x = 0.0 if c > 0 else -0.0
        return math.copysign(1.0, x)

    def left(c: float, n: int) -> float:
        x = -0.0
        while n > 0:
            n -= 1
            c += math.sin(c)
            if c > 3:
                x = 0.0
                break
        return math.copysign(1.0, x)
    for c in (1.0, -1.0):
        assert jit(chosen)(c) == chosen(c)
        assert jit(left)(c, 3) == left(c, 3)
