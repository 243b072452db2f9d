"""Memory of compiled code: allocations of a loop or function are released, unless they are still used."""

import ctypes
import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from jitad.lowering.jit.invoke import Compiled
from jitad.lowering.llvm import context

from jitad import check_grads, jit
from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Function, Module, Value
from jitad.ir.types import BOOL, F64, I64, Array, Type
from jitad.ir.verify import verify

VEC = Array(F64, (None,))
KIB = 1024


def loop(b: Builder, n: Value, inits: Sequence[Value], body: Callable[..., Sequence[Value]]) -> list[Value]:
    """A rotated loop over ``range(n)``, n at least 1; ``body(i, *carried)`` returns the next values."""
    func = b.func
    head, done = func.new_block(), func.new_block()
    i = head.add_param(I64)
    carried = [head.add_param(v.type) for v in inits]
    outs = [done.add_param(v.type) for v in inits]
    b.jump(head, [b.const(0), *inits])
    b.at(head)
    nexts = list(body(i, *carried))
    following = b.add(i, 1)
    b.branch(b.lt(following, n), head, [following, *nexts], done, nexts)
    b.at(done)
    return outs


def function(params: list[Type], results: list[Type], write: Callable[[Builder, Function], None]) -> Module:
    module = Module()
    func = module.add(Function("f", params, results))
    write(Builder(func.entry), func)
    verify(module)
    return module


def agree(module: Module, *args: object) -> Compiled:
    """Checks compiled code against the interpreter; returns the compiled function."""
    want = Interpreter(module).run("f", list(args))
    compiled = Compiled(module, "f")
    for x, y in zip(compiled(*args), want):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    return compiled


ARGS = (1000, np.linspace(0.0, 1.0, 1000), np.linspace(2.0, 3.0, 1000))


def test_carried_arrays_that_are_exchanged() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params
        b.ret(loop(b, n, [x, y], lambda i, p, q: [q, b.add(b.mul(p, 0.5), q)]))
    assert agree(function([I64, VEC, VEC], [VEC, VEC], write), *ARGS).peak < 200 * KIB


def test_three_generations_of_one_array() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params
        b.ret(loop(b, n, [x, y, y, y], lambda i, p, q, r, s: [b.sin(b.add(p, s)), p, q, r]))
    assert agree(function([I64, VEC, VEC], [VEC] * 4, write), *ARGS).peak < 400 * KIB


def test_an_array_that_grows() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params
        one = b.emit_op("fill", [b.const(1.5), b.const(1)]).result
        start = b.as_type(one, type=VEC)
        b.ret(loop(b, n, [start], lambda i, p: [b.concat(p, b.as_type(one, type=VEC), axis=0)]))
    assert agree(function([I64, VEC, VEC], [VEC], write), *ARGS).peak < 200 * KIB


def test_one_that_is_carried_only_sometimes() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def body(i: Value, p: Value, q: Value) -> list[Value]:
            then, other, join = (f.new_block() for _ in range(3))
            out = join.add_param(VEC)
            b.branch(b.eq(b.mod(i, 3), 0), then, [], other, [])
            b.at(then)
            b.jump(join, [b.exp(b.neg(b.add(p, q)))])
            b.at(other)
            b.jump(join, [q])
            b.at(join)
            return [out, p]
        b.ret(loop(b, n, [x, y], body))
    assert agree(function([I64, VEC, VEC], [VEC, VEC], write), *ARGS).peak < 400 * KIB


def test_nested_loops() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def outer(i: Value, p: Value, q: Value) -> list[Value]:
            r, s = loop(b, b.const(5), [q, p], lambda j, u, v: [v, b.cos(b.add(u, v))])
            return [b.add(r, s), r]
        b.ret(loop(b, b.floordiv(n, 10), [x, y], outer))
    assert agree(function([I64, VEC, VEC], [VEC, VEC], write), *ARGS).peak < 400 * KIB


def test_an_array_updated_in_place_stays() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params
        start = b.copy(x)
        b.ret(loop(b, n, [start], lambda i, p: [b.add_at(p, b.sum(b.mul(b.get(y, i), y), axes=(0,)), i)]))
    assert agree(function([I64, VEC, VEC], [VEC], write), *ARGS).peak < 30 * KIB


def test_results_of_calls_move_down() -> None:
    """The callee makes its second result first, and a temporary between them."""
    module = Module()
    g = module.add(Function("g", [VEC, VEC], [VEC, VEC]))
    b = Builder(g.entry)
    x, y = g.params
    second = b.add(b.get(b.cumsum(y, axis=0), b.const(3)), x)
    middle = b.cumsum(b.mul(second, second), axis=0)
    first = b.cumsum(b.div(middle, 1e9), axis=0)
    b.ret([first, second])
    f = module.add(Function("f", [I64, VEC, VEC], [VEC, VEC]))
    b.at(f.entry)
    n, x, y = f.params

    def body(i: Value, p: Value, q: Value) -> list[Value]:
        r, s = b.call_then("g", [p, q], [VEC, VEC])
        return [b.div(s, 1e6), b.div(r, 1e6)]
    b.ret(loop(b, n, [x, y], body))
    verify(module)
    assert agree(module, *ARGS).peak < 200 * KIB


def test_one_array_returned_twice() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params
        z = b.cumsum(b.add(x, y), axis=0)
        b.ret([z, b.copy(z), b.get(z, b.const(4)), x])
    agree(function([I64, VEC, VEC], [VEC, VEC, F64, VEC], write), *ARGS)


def test_frames_keep_what_they_hold() -> None:
    """Forward: a new array is pushed in every iteration.  Reverse: they are popped."""
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def there(i: Value, s: Value, p: Value) -> list[Value]:
            q = b.sin(b.add(p, 0.25))
            return [b.emit_op("push", [s, q, i, b.lt(i, 3)]).result, b.mul(q, 2.0)]

        def back(i: Value, s: Value, total: Value) -> list[Value]:
            below, (q, j, small) = b.pop(s, [VEC, I64, BOOL])
            weight = b.select(small, b.cast(j, dtype=F64), 1.0)
            return [below, b.add(b.mul(total, 0.5), b.mul(q, weight))]
        stack, last = loop(b, n, [b.emit_op("stack_empty", []).result, x], there)
        _, total = loop(b, n, [stack, last], back)
        b.ret([total])

    compiled = agree(function([I64, VEC, VEC], [VEC], write), 100, *ARGS[1:])
    assert compiled.peak < 3000 * KIB


def test_a_stack_that_dies_in_the_iteration_is_given_back() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def body(i: Value, p: Value) -> list[Value]:
            q = b.sin(p)
            stack = b.emit_op("push", [b.emit_op("stack_empty", []).result, q]).result
            _, (r,) = b.pop(stack, [VEC])
            return [b.add(r, y)]
        b.ret(loop(b, n, [x], body))
    assert agree(function([I64, VEC, VEC], [VEC], write), *ARGS).peak < 200 * KIB


def test_too_large_is_a_memory_error() -> None:
    def write(b: Builder, f: Function) -> None:
        a = b.cumsum(b.emit_op("fill", [b.const(1.0), f.params[0], f.params[0]]).result, axis=0)
        b.ret([b.get(a, b.const(0), b.const(0))])
    compiled = Compiled(function([I64], [F64], write), "f")
    assert compiled(10) == [1.0]
    for n in (1 << 20, 1 << 31, 1 << 32, 1 << 40, (1 << 61) + 1, (1 << 63) - 1):
        with pytest.raises(MemoryError):
            compiled(n)
    assert compiled(10) == [1.0]


def test_small_arrays_become_registers() -> None:
    def write(b: Builder, f: Function) -> None:
        n, x = f.params

        def body(i: Value, p: Value, v: Value) -> list[Value]:
            force = b.mul(b.sub(p, b.get(x, b.const(0))), -0.01)
            w = b.add(v, force)
            return [b.add(p, w), w]
        zero = b.emit_op("fill", [b.const(0.0), b.const(3)]).result
        one = b.emit_op("fill", [b.const(1.0), b.const(3)]).result
        p, v = loop(b, n, [zero, one], body)
        b.ret([b.sum(b.mul(p, v), axes=(0,))])
    compiled = agree(function([I64, Array(F64, (None, 3))], [F64], write), 100, np.ones((2, 3)))
    assert compiled.peak == 0
    assert "alloca" not in compiled.native.llvm


def test_small_arrays_that_are_exchanged_become_registers() -> None:
    """A state that each iteration computes again from the previous one and a borrowed start, and that is returned."""
    three = Array(F64, (3,))

    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def body(i: Value, p: Value, q: Value) -> list[Value]:
            turned = b.emit_op("empty", [b.const(3)], dtype=F64).result
            for k in range(3):
                x = b.sub(b.get(p, b.const((k + 1) % 3)), b.mul(b.get(q, b.const(k)), 0.1))
                turned = b.set(turned, x, b.const(k))
            return [turned, p]
        b.ret(loop(b, n, [x, y], body))
    compiled = agree(function([I64, three, three], [three, three], write), 100, np.arange(3.0), np.ones(3))
    assert compiled.peak <= 4 * 64
    assert "alloca [3 x double]" not in compiled.native.llvm


def test_small_arrays_on_a_stack_are_kept() -> None:
    three = Array(F64, (3,))

    def write(b: Builder, f: Function) -> None:
        n, x = f.params
        empty = b.emit_op("stack_empty", []).result
        stack, last = loop(b, n, [empty, x], lambda i, s, p: [b.emit_op("push", [s, p]).result, b.add(b.sin(p), 0.5)])

        def back(i: Value, s: Value, q: Value) -> list[Value]:
            below, (p,) = b.pop(s, [three])
            return [below, b.mul(b.add(q, p), 0.5)]
        b.ret(loop(b, n, [stack, last], back)[1:])
    agree(function([I64, three], [three], write), 50, np.arange(3.0))


def test_functions_may_be_called_as_our_routines_are():
    def keep(a, n):
        return a if n == 0 else keep(a * 1.5 + n, n - 1)[1:]

    def recycle(a, n):
        while n > 0:
            a = np.sin(keep(a, 3))
            n -= 1
        return a
    np.testing.assert_allclose(jit(recycle)(np.ones(50), 4), recycle(np.ones(50), 4))


@pytest.mark.parametrize("advice", ["MADV_HUGEPAGE", "MADV_DONTFORK"])
def test_a_kernel_that_takes_no_advice(monkeypatch: pytest.MonkeyPatch, advice: str) -> None:
    """A kernel without huge pages refuses the request for them, which does not mean lack of memory."""
    monkeypatch.setattr(mmap, advice, 9999)
    before = len(context._all)
    assert context.new() and len(context._all) == before + 1
    assert len(context._all[-1][1]) > context._SMALLEST


def test_a_page_that_is_present_lies_in_front_of_each_arena() -> None:
    jit(lambda n: np.sum(np.arange(n) * 2.0))(5)
    for made, region in context._all:
        start = ctypes.addressof(ctypes.c_char.from_buffer(region))
        assert made.arena_base == start + mmap.PAGESIZE
        assert made.arena_end < start + len(region)


def test_arenas_are_bounded_by_the_memory_that_may_be_used(tmp_path: Path) -> None:
    """A gradient of a loop without end raises MemoryError, where the system would end a process that takes all."""
    physical = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    meminfo, group = tmp_path / "meminfo", tmp_path / "memory.max"

    def bound(free: int, most: int | str) -> int:
        meminfo.write_text(f"MemTotal: 1 kB\nMemAvailable:   {free >> 10} kB\n")
        group.write_text(f"{most}\n")
        return context.bound(str(meminfo), str(group))

    assert abs(bound(physical, "max") / physical - 7 / 8) < 1e-3
    assert abs(bound(physical // 10, "max") / physical - 1 / 2) < 1e-3
    assert abs(bound(physical, 1 << 30) / (1 << 30) - 7 / 8) < 1e-3
    assert bound(physical, 1 << 20) == 16 << 20
    assert abs(context.bound(str(tmp_path / "none"), str(tmp_path / "none")) / physical - 7 / 8) < 1e-3


def ragged(x, start, w):
    total = 0.0
    for i in range(len(start) - 1):
        a = np.zeros(x.shape[1])
        for p in range(start[i], start[i + 1]):
            a += x[p] * w[p]
        total += np.dot(a, a) + a[0]
    return total


def kept_before(x, start, w):
    """As ``ragged``; each part also begins with the one before, which is still read."""
    last, total = x[0], 0.0
    for i in range(len(start) - 1):
        a = last * 0.5
        if start[i] < start[i + 1]:
            for p in range(start[i], start[i + 1]):
                a = a + x[p] * w[p] + last
        else:
            a = last
        total += np.dot(a, last)
        last = a
    return total


@pytest.mark.slow
@pytest.mark.parametrize("f", [ragged, kept_before])
def test_copies_are_updated_in_place_where_another_path_passes_on_the_original(f: Callable[..., float]) -> None:
    """Zeros are filled once; a part without rows reads them, and another one updates its copy."""
    x, w, start = np.sin(np.arange(45.0)).reshape(9, 5), np.cos(np.arange(9.0)), np.array([0, 3, 3, 3, 7, 7, 9])
    compiled = jit(f, grad=(0, 2))
    assert compiled(x, start, w) == pytest.approx(f(x, start, w), rel=1e-13)
    check_grads(lambda x, w: compiled(x, start, w), (x, w), order=1)
    if f is ragged:
        assert str(compiled.inspect("loops", x, start, w)).count("= alloc ") == 2
