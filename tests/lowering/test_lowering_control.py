"""Control flow in compiled code: edges, calls, recursion, failures, interrupts; random programs."""

import ctypes
from collections.abc import Callable

import pytest
from jitad.lowering.jit.invoke import Compiled, invoke
from jitad.lowering.llvm import context
from jitad.lowering.math.options import Options

from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Edge, ExcInfo, Function, Module
from jitad.ir.types import BOOL, F64, I64
from tests.ir import irgen


def module_with(name: str, params: list, results: list, write: Callable[[Builder, Function], None]) -> Module:
    module = Module()
    func = module.add(Function(name, params, results))
    write(Builder(func.entry), func)
    return module


def add_loop(b: Builder, func: Function, n: object, start: object) -> tuple[object, object, object, object]:
    """A rotated loop over ``range(n)`` that carries one f64: (head, index, carried value, exit's parameter)."""
    head, done = func.new_block("head"), func.new_block("done")
    i, x, out = head.add_param(I64), head.add_param(F64), done.add_param(F64)
    b.jump(head, [b.const(0), start])
    b.at(head)
    return head, i, x, out


def test_both_edges_of_a_branch_to_one_block() -> None:
    def write(b: Builder, f: Function) -> None:
        join = f.new_block("join")
        out = join.add_param(F64)
        b.branch(f.params[0], join, [b.const(1.0)], join, [b.const(2.0)])
        b.at(join)
        b.ret([out])
    module = module_with("f", [BOOL], [F64], write)
    assert invoke(module, "f", [True]) == [1.0]
    assert invoke(module, "f", [False]) == [2.0]


def test_switch_goes_to_the_last_edge_when_out_of_range() -> None:
    def write(b: Builder, f: Function) -> None:
        join, other = f.new_block("join"), f.new_block("other")
        out = join.add_param(I64)
        ten, twenty, thirty = b.const(10), b.const(20), b.const(30)
        b.switch(f.params[0], [Edge(join, [ten]), Edge(join, [twenty]), Edge(other, [])])
        b.at(other)
        b.jump(join, [thirty])
        b.at(join)
        b.ret([out])
    f = Compiled(module_with("f", [I64], [I64], write), "f")
    assert [f(i)[0] for i in (0, 1, 2, 3, -1)] == [10, 20, 30, 30, 30]


def fibonacci() -> Module:
    def write(b: Builder, f: Function) -> None:
        base, step = f.new_block("base"), f.new_block("step")
        b.branch(b.lt(f.params[0], 2), base, [], step, [])
        b.at(base)
        b.ret([f.params[0]])
        b.at(step)
        [x] = b.call_then("fib", [b.sub(f.params[0], 1)], [I64])
        [y] = b.call_then("fib", [b.sub(f.params[0], 2)], [I64])
        b.ret([b.add(x, y)])
    return module_with("fib", [I64], [I64], write)


def test_recursion() -> None:
    assert invoke(fibonacci(), "fib", [20]) == [6765]


def test_recursion_that_is_too_deep_raises() -> None:
    def write(b: Builder, f: Function) -> None:
        [x] = b.call_then("f", [b.add(f.params[0], 1)], [I64])
        b.ret([b.mul(x, x)])
    with pytest.raises(RecursionError):
        invoke(module_with("f", [I64], [I64], write), "f", [0])


def test_raise_leaves_through_callers() -> None:
    module = Module()
    exc = module.exception(ExcInfo("ZeroDivisionError", "at {0}"))
    inner, outer = module.add(Function("inner", [I64], [I64])), module.add(Function("outer", [I64], [I64]))
    b = Builder(inner.entry)
    bad, good = inner.new_block("bad"), inner.new_block("good")
    b.branch(b.eq(inner.params[0], 7), bad, [], good, [])
    b.at(bad)
    b.raise_(exc, [inner.params[0]])
    b.at(good)
    b.ret([b.mul(inner.params[0], 2)])
    b.at(outer.entry)
    [x] = b.call_then("inner", [b.add(outer.params[0], 1)], [I64])
    b.ret([x])
    f = Compiled(module, "outer")
    assert f(1) == [4]
    with pytest.raises(ZeroDivisionError, match="at 7"):
        f(6)


def endless() -> Module:
    """A loop until a number is negative, which it never is."""
    def write(b: Builder, f: Function) -> None:
        head, done = f.new_block("head"), f.new_block("done")
        i = head.add_param(I64)
        b.jump(head, [f.params[0]])
        b.at(head)
        following = b.add(b.and_(i, 1023), 1)
        b.branch(b.ge(following, 0), head, [following], done, [])
        b.at(done)
        b.ret([i])
    return module_with("f", [I64], [I64], write)


def test_a_loop_that_does_not_count_polls() -> None:
    asked = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t)
    def handler(_: int) -> int:
        asked.append(1)
        return int(len(asked) == 3)

    f = Compiled(endless(), "f")
    state = context.Context.from_address(f.context)
    state.poll = ctypes.cast(handler, ctypes.c_void_p).value
    with pytest.raises(KeyboardInterrupt):
        f(5)
    assert len(asked) == 3


@pytest.mark.parametrize("level", [0, 1, 3])
def test_levels(level: int) -> None:
    def write(b: Builder, f: Function) -> None:
        n, x = f.params
        head, i, s, out = add_loop(b, f, n, x)
        following, y = b.add(i, 1), b.sin(b.mul(s, 1.1))
        b.branch(b.lt(following, n), head, [following, y], f.blocks[-1], [y])
        b.at(f.blocks[-1])
        b.ret([out])
    module = module_with("f", [I64, F64], [F64], write)
    want = Interpreter(module).run("f", [10, 0.3])
    assert irgen.same(want, invoke(module, "f", [10, 0.3], Options(level=level)))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_random_scalar_programs(seed: int) -> None:
    module, args = irgen.generate(seed, arrays=False), irgen.arguments(seed, arrays=False)
    want = irgen.outcome(module, args)
    try:
        got = invoke(module, "main", args)
    except (ValueError, IndexError, ZeroDivisionError) as e:
        got = type(e).__name__, str(e)
    assert irgen.same(want, got, 1e-9)


def test_a_counted_loop_polls_between_strips() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x = f.params
        head, i, s, out = add_loop(b, f, n, x)
        following, y = b.add(i, 1), b.add(s, b.cast(i, dtype=F64))
        b.branch(b.lt(following, n), head, [following, y], f.blocks[-1], [y])
        b.at(f.blocks[-1])
        b.ret([out])
    f = Compiled(module_with("f", [I64, F64], [F64], write), "f")
    asked = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t)
    def handler(_: int) -> int:
        asked.append(1)
        return int(len(asked) > 4)

    context.Context.from_address(f.context).poll = ctypes.cast(handler, ctypes.c_void_p).value
    for n in (1, 2, 1000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000):
        asked.clear()
        assert f(n, 0.5) == [n * (n - 1) / 2 + 0.5]
        assert len(asked) == (n - 1) >> 20
    with pytest.raises(KeyboardInterrupt):
        f(10 ** 12, 0.0)


@pytest.mark.parametrize("nested", [False, True])
def test_a_counted_loop_with_two_exits_polls(nested: bool) -> None:
    """It does so between strips, or by what it has run: a search that ends early counts for little."""
    def write(b: Builder, f: Function) -> None:
        n, last = f.params
        outer, head, done = f.new_block("outer"), f.new_block("head"), f.new_block("done")
        latch, out = f.new_block("latch"), f.new_block("out")
        k, i, total = outer.add_param(I64), head.add_param(I64), done.add_param(I64)
        if nested:
            b.jump(outer, [b.const(0)])
            b.at(outer)
        b.jump(head, [b.const(0)])
        b.at(head)
        b.branch(b.eq(i, last), done, [i], latch, [])
        b.at(latch)
        following = b.add(i, 1)
        b.branch(b.lt(following, n), head, [following], done, [b.const(-1)])
        b.at(done)
        if nested:
            again = b.add(k, 1)
            b.branch(b.lt(again, 20), outer, [again], out, [])
            b.at(out)
        else:
            f.blocks.remove(outer)
            f.blocks.remove(out)
        b.ret([total])
    f = Compiled(module_with("f", [I64, I64], [I64], write), "f")
    asked = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t)
    def handler(_: int) -> int:
        asked.append(1)
        return 0

    context.Context.from_address(f.context).poll = ctypes.cast(handler, ctypes.c_void_p).value
    for last, polls in ((2_500_000, 19 if nested else 2), (100, 0), (-1, 19 if nested else 2)):
        asked.clear()
        assert f(3_000_000, last) == [last]
        assert len(asked) == polls
