"""Text and back: for every op, every terminator, and random programs."""

import sys

import pytest

from jitad.errors import Loc
from jitad.ir import types as T
from jitad.ir.builder import Builder
from jitad.ir.graph import Derived, ExcInfo, Filled, Function, Module, Op, Operand, Rule
from jitad.ir.ops import OPS, TERMINATORS
from jitad.ir.text import ParseError, parse_module, print_function, print_module
from tests.ir import irgen


def round_trip(module: Module) -> str:
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    return text


EVERYTHING = '''\
exception 0 IndexError "index {0} is out of bounds for \\"π\\"\\n" at "a file.py":12
exception 1 class "pkg.mod:outer.<locals>.Bad" args (1, "x", (None, True, -inf, 1e-300))
exception 2 ValueError
exception 3 KeyError args (operand 1, filled "{0:.2f} of {1}", (operand 0,)) texts (0,)
external @"f elsewhere"(f64, own f64[?, 3], i64) -> (f64, stack)
derived @f.vjp.0 = vjp @f wrt (0,)
derived @f.jvp.0.2 = jvp @f wrt (0, 2)
rule @f = vjp @f.fwd, @"f bwd" wrt (0,)
rule @g = checkpoint @f wrt ()

func @f(%x: f64, %a: own f64[?, 3], %b: f64[?, 3]) -> (f64, f64[?, 3], i64[2]) {inline = "always", n = [1, 2.5]} {
^entry:
  %0 = const 2 : i64
  %1 = const -0.0 : f64
  %c = const nan : f32
  %2 = const True : bool
  %3 = undef : f32[1, ?]
  %c.1 = cast %a : f32[?, 3]
  %4 = empty %0 : i64[2]
  %5 = transpose {perm = (1, 0)} %a : f64[3, ?]
  %6 = sum {axes = (0, 1), acc = True} %a : f64
  %7 = stack_empty : stack
  %8 = push %7, %x, %a : stack
  %9, %10, %11 = pop %8 : stack, f64, f64[?, 3]
  %12 = as_type %4 : i64[2]
  check {exc = 0} %2, %x, %0
  switch %0, ^head(%x, %4), ^b2, ^b3

^head(%s: f64, %13: i64[2]):
  branch %2, ^head(%s, %4), ^b4(%s)

^b2:
  raise {exc = 1} %x

^b3:
  call @f(%x, %a, %b) -> ^b5(%0)

^b4(%14: f64):
  jump ^b6

^b5(%15: f64, %16: f64[?, 3], %17: i64[2], %18: i64):
  return %15, %16, %17

^b6:
  raise {exc = 2}
}

func @"odd name"() -> () {
^entry:
  return
}
'''


def test_text_is_printed_as_it_was_read() -> None:
    assert print_module(parse_module(EVERYTHING)) == EVERYTHING
    names = {op.name for f in parse_module(EVERYTHING).functions.values() for op in f.all_ops()}
    assert names.issuperset(TERMINATORS)


def test_what_was_read_is_what_was_meant() -> None:
    m = parse_module(EVERYTHING)
    f = m.functions["f"]
    assert m.exceptions[0] == ExcInfo("IndexError", 'index {0} is out of bounds for "π"\n', Loc("a file.py", 12))
    assert m.exceptions[1].cls.__qualname__ == "outer.<locals>.Bad"
    assert m.exceptions[1].args == (1, "x", (None, True, float("-inf"), 1e-300))
    assert m.exceptions[3].args == (Operand(1), Filled("{0:.2f} of {1}"), (Operand(0),))
    assert m.derived["f.jvp.0.2"] == Derived("f", "jvp", (0, 2))
    assert m.rules == {"f": Rule("vjp", ("f.fwd", "f bwd"), (0,)), "g": Rule("checkpoint", ("f",), ())}
    assert f.own == {1} and f.attrs == {"inline": "always", "n": [1, 2.5]}
    assert f.result_types == [T.F64, T.Array(T.F64, (None, 3)), T.Array(T.I64, (2,))]
    by_name = {op.name: op for op in f.entry.ops}
    assert by_name["cast"].attrs == {"dtype": T.F32} and by_name["empty"].attrs == {"dtype": T.I64}
    assert by_name["pop"].attrs == {"types": (T.F64, T.Array(T.F64, (None, 3)))}
    assert [e.block for e in f.entry.term.edges] == f.blocks[1:4]
    assert all(op.block is b for b in f.blocks for op in b.all_ops())


@pytest.mark.parametrize("name", OPS)
def test_every_op(name: str) -> None:
    """Any op with some operands and attributes, well-typed or not."""
    m = Module()
    f = m.add(Function("f", [T.F64, T.Array(T.I64, (None, 1)), T.STACK]))
    b = Builder(f.entry)
    attrs = {"axis": 1, "axes": (0, 2), "type": T.F32, "dtype": T.BOOL, "types": (T.I64,), "value": 2.5, "exc": 0}
    for types in ([], [T.F64], [T.STACK, T.I64]):
        op = Op(name, f.params, types, dict(attrs))
        op.block = f.entry
        f.entry.ops.append(op)
    b.ret([])
    round_trip(m)


@pytest.mark.slow
def test_random_programs() -> None:
    for seed in range(40):
        round_trip(irgen.generate(seed))


def test_names_are_stable_and_distinct() -> None:
    m = Module()
    f = m.add(Function("f", [T.F64] * 5, [], ["x", "x", "0", "a b", "x.1"]))
    f.new_block("b7"), f.new_block("entry")
    for block in f.blocks:
        Builder(block).ret([])
    text = round_trip(m)
    assert text.startswith("func @f(%x: f64, %x.1: f64, %_0: f64, %a_b: f64, %x_1: f64)")
    assert "^b1:" in text and "^entry.1:" in text


def test_types_may_be_left_out() -> None:
    m = parse_module("""
        func @f(%a: f64[?, 3], %i: i64) -> (f64) {
        ^b0:
          %one = const 1.0
          %r = get %a, %i         ; a row
          %s = sum {axes = (0,)} %r
          %t = add %s, %one
          return %t
        }""")
    assert "%r = get %a, %i : f64[3]" in print_module(m)


def test_values_and_blocks_may_be_used_above_their_definition() -> None:
    text = """
        func @f(%x: f64) -> (f64) {
        ^b0:
          jump ^b2
        ^b1:
          %z = sin %y : f64
          return %z
        ^b2:
          %y = cos %x
          jump ^b1
        }"""
    f = parse_module(text).functions["f"]
    assert f.blocks[1].ops[0].operands == [f.blocks[2].ops[0].result]


def test_locations() -> None:
    m = Module()
    f = m.add(Function("f", [T.F64], [T.F64], ["x"]))
    f.loc = Loc("file.py", 1)
    b = Builder(f.entry, Loc("file.py", 12))
    b.ret([b.sin(f.params[0])])
    assert "%0 = sin %x : f64  ; file.py:12" in print_module(m, locations=True)
    assert "file.py" not in print_function(f)
    read = parse_module(print_module(m), "text.ir").functions["f"]
    assert [op.loc.line for op in read.all_ops()] == [3, 4]


def line(op: str) -> str:
    return f"func @f(%x: f64) -> (f64) {{\n^b0:\n  {op}\n  return %x\n}}"


@pytest.mark.parametrize("text, message, caret", [
    (line("%y = foo %x"), "no such operation: foo", "foo"),
    (line("%y = sin %z"), "write the result types", "sin"),
    (line("%y = sin %z : f64"), "no value %z", "%z"),
    (line("%y = sin %x, %x"), "takes 1 operands", "sin"),
    (line("%x = sin %x"), "a second definition of %x", "%x"),
    (line("%y = sin %x : f65"), "not a type: f65", "f65"),
    (line("%y = sin %x : f64[]"), "rank 1 or more", "f64"),
    (line("%y = sin %x : f64, f64"), "1 results with 2 types", "sin"),
    (line("%y sin %x"), "expected '='", "sin"),
    (line("jump ^b7"), "an operation after the terminator", "return"),
    (line("§"), "expected 'a block'", "§"),
    ("func @f() -> () {\n^b0:\n  jump ^b7\n}", "no block ^b7", "^b7"),
    ("func @f() -> () {\n^b0:\n  return\n^b0:\n  return\n}", "a second block ^b0", "^b0"),
    ("func @f() -> () {\n^b0(%x: f64):\n  return\n}", "entry block's parameters are the function's", "%x"),
    ("func @f() -> () {\n^b0:\n  return\n", "expected a block", ""),
    ("exception 1 ValueError", "expected number 0", "1"),
    ("function", "expected 'func'", "function"),
    (line("return %x") + line("return %x"), "an operation after", "return"),
])
def test_errors_point_at_the_place(text: str, message: str, caret: str) -> None:
    with pytest.raises(ParseError) as e:
        parse_module(text)
    head, shown, marks = str(e.value).split("\n")
    assert message.replace("'a block'", "a block") in head
    start = marks.index("^")
    assert shown[start:start + len(marks) - start] == caret or not caret


def calls_to_print(ops: int) -> int:
    """The Python and C functions called while a block of so many ops is printed."""
    m = Module()
    f = m.add(Function("f", [T.F64], [T.F64]))
    b = Builder(f.entry)
    v = f.params[0]
    for _ in range(ops):
        v = b.mul(v, f.params[0])
    b.ret([v])
    counted = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        print_module(m)
    finally:
        sys.setprofile(before)
    return counted


def test_printing_takes_a_few_calls_an_op() -> None:
    assert calls_to_print(3000) - calls_to_print(1000) < 2000 * 40
