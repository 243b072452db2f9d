"""Loop buffers: values that are dead at the end of an iteration reuse their memory in the next, others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from jitad.lowering.memory.loop_buffers import Scratch

from bench.compiler.complexity import kept
from bench.learning import neural_ode
from jitad import check_grads, grad, interpret, jit, value_and_grad, vjp
from jitad.frontend.captured.options import Options
from jitad.ir.builder import Builder
from jitad.ir.graph import Function, Module, Value
from jitad.ir.types import F64, I64, STACK
from jitad.ir.verify import verify
from tests.lowering.test_lowering_memory import ARGS, VEC, agree, function, loop

RNG = np.random.default_rng(5)
W, U = RNG.normal(0, 0.5, (3, 9)), RNG.normal(0, 0.5, (3, 9))
V, X = RNG.normal(0, 0.5, (9, 3)), RNG.normal(0, 0.5, (8, 3))
B = RNG.normal(0, 0.5, 9)                 # tanh of a sum does not reuse the sum's memory row by row
KEPT = 8000                                                     # bytes of an array of ``ARGS``


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The slots that are allocated."""
    found: list[str] = []
    plain = Scratch.slot

    def slot(self: Scratch, v: Value) -> str:
        name = plain(self, v)
        found.extend([name] if name else [])
        return name
    monkeypatch.setattr(Scratch, "slot", slot)
    yield found


# --- memory of a loop -------------------------------------------------------------------------------------

def pushing(after: Callable[[Builder, Value], Value]) -> Module:
    """A loop that pushes an array made from a temporary, which ``after`` then reads; and a loop that pops."""
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def there(i: Value, s: Value, p: Value) -> list[Value]:
            t = b.cumsum(b.mul(p, 0.001), axis=0)
            q = b.sin(b.add(t, b.get(t, b.const(3))))
            return [b.emit_op("push", [s, q]).result, b.add(q, after(b, t))]

        def back(i: Value, s: Value, total: Value) -> list[Value]:
            below, (q,) = b.pop(s, [VEC])
            return [below, b.add(b.mul(total, 0.5), q)]
        stack, last = loop(b, n, [b.emit_op("stack_empty", []).result, x], there)
        b.ret(loop(b, n, [stack, last], back)[1:])
    return function([I64, VEC, VEC], [VEC], write)


def popped(b: Builder, n: Value, stack: Value) -> Value:
    """The weighted sum of all pushed values."""
    def back(i: Value, s: Value, total: Value) -> list[Value]:
        below, (u,) = b.pop(s, [F64])
        return [below, b.add(b.mul(total, 0.9), u)]
    return loop(b, n, [stack, b.const(0.0)], back)[1]


def mean(b: Builder, v: Value) -> Value:
    return b.mul(b.sum(v, axes=(0,)), 1e-3)


def test_temporaries_do_not_pile_up(slots: list[str]) -> None:
    """Only pushed and carried values are kept, and two words."""
    compiled = agree(pushing(lambda b, t: b.get(t, b.const(2))), 100, *ARGS[1:])
    assert slots
    assert compiled.peak < 100 * (2 * KEPT + 200) + 20 * KEPT


def test_inner_loops_use_what_they_used_when_they_ran_before(slots: list[str]) -> None:
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def inner(i: Value, s: Value, a: Value) -> list[Value]:
            t = b.cumsum(b.mul(x, b.mul(a, 1e-6)), axis=0)
            u = b.add(b.get(t, b.const(3)), b.sum(t, axes=(0,)))
            return [b.emit_op("push", [s, u]).result, b.sin(u)]

        def outer(i: Value, s: Value, a: Value) -> list[Value]:
            return loop(b, b.const(3), [s, a], inner)

        stack, last = loop(b, n, [b.emit_op("stack_empty", []).result, b.const(0.3)], outer)
        b.ret([popped(b, b.mul(n, 3), stack), last])
    compiled = agree(function([I64, VEC, VEC], [F64, F64], write), 100, *ARGS[1:])
    assert slots
    assert compiled.peak < 300 * 32 + 4 * KEPT


def test_what_is_carried_on_stays() -> None:
    """A carried value is computed from its values one and two iterations before."""
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def there(i: Value, s: Value, p: Value, q: Value) -> list[Value]:
            t = b.cumsum(b.mul(b.add(b.add(p, b.mul(q, 0.5)), y), 1e-3), axis=0)
            pushed = b.emit_op("push", [s, b.sub(mean(b, p), b.mul(mean(b, t), mean(b, q)))]).result
            return [pushed, t, p]
        stack, p, q = loop(b, n, [b.emit_op("stack_empty", []).result, x, y], there)
        b.ret([popped(b, n, stack), p, q])
    agree(function([I64, VEC, VEC], [F64, VEC, VEC], write), 20, *ARGS[1:])


def test_what_an_inner_loop_leaves_stays() -> None:
    """The inner loop computes it, the outer one carries it, and the inner one computes the next before it is read."""
    def write(b: Builder, f: Function) -> None:
        n, x, y = f.params

        def outer(i: Value, s: Value, p: Value) -> list[Value]:
            head, done = f.new_block(), f.new_block()
            j, inside = head.add_param(I64), head.add_param(s.type)
            out, left = done.add_param(s.type), done.add_param(VEC)
            b.jump(head, [b.const(0), s])
            b.at(head)
            t = b.cumsum(b.mul(b.add(y, b.cast(b.add(i, j), dtype=F64)), 1e-3), axis=0)
            pushed = b.emit_op("push", [inside, b.sub(mean(b, t), mean(b, p))]).result
            following = b.add(j, 1)
            b.branch(b.lt(following, b.const(3)), head, [following, pushed], done, [pushed, t])
            b.at(done)
            return [out, left]
        stack, p = loop(b, n, [b.emit_op("stack_empty", []).result, x], outer)
        b.ret([popped(b, b.mul(n, 3), stack), p])
    agree(function([I64, VEC, VEC], [F64, VEC], write), 20, *ARGS[1:])


# --- arguments that a callee owns -------------------------------------------------------------------------

@pytest.mark.parametrize("pushes", [False, True])
def test_what_a_callee_takes_over_is_not_used_again(pushes: bool) -> None:
    """A small array into which the callee writes its result, which the next iteration reads."""
    module = Module()
    g = module.add(Function("g", [VEC, VEC], [VEC]))
    g.own = {0}
    g.attrs["inline"] = "never"
    b = Builder(g.entry)
    b.ret([b.add(*g.params)])
    f = module.add(Function("f", [I64, VEC], [VEC, F64]))
    b.at(f.entry)
    n, x = f.params

    def body(i: Value, *carried: Value) -> list[Value]:
        *stacks, r, s = carried
        z = b.set(b.emit_op("fill", [b.add(s, 1.0), b.const(3)]).result, s, b.const(0))
        (q,) = b.call_then("g", [b.as_type(z, type=VEC), x], [VEC])
        pushed = [b.emit_op("push", [k, s]).result for k in stacks]
        return [*pushed, q, b.add(b.mul(s, 0.5), b.sum(r, axes=(0,)))]
    start = [b.emit_op("stack_empty", []).result] if pushes else []
    b.ret(loop(b, n, [*start, x, b.const(0.0)], body)[len(start):])
    verify(module)
    agree(module, 7, np.arange(3.0))


def test_what_a_callee_takes_over_and_pushes_is_not_used_again() -> None:
    module = Module()
    g = module.add(Function("g", [VEC, VEC, STACK], [STACK]))
    g.own = {0}
    g.attrs["inline"] = "never"
    b = Builder(g.entry)
    p, x, s = g.params
    b.ret([b.emit_op("push", [s, b.add(p, x)]).result])
    f = module.add(Function("f", [I64, VEC], [VEC]))
    b.at(f.entry)
    n, x = f.params

    def there(i: Value, s: Value) -> list[Value]:
        z = b.cumsum(b.mul(x, b.cast(i, dtype=F64)), axis=0)
        return b.call_then("g", [z, x, s], [STACK])

    def back(i: Value, s: Value, total: Value) -> list[Value]:
        below, (q,) = b.pop(s, [VEC])
        return [below, b.add(b.mul(total, 0.5), q)]
    (s,) = loop(b, n, [b.emit_op("stack_empty", []).result], there)
    b.ret(loop(b, n, [s, x], back)[1:])
    verify(module)
    agree(module, 7, np.arange(3.0))


# --- programs ---------------------------------------------------------------------------------------------

def step(x: Any) -> Any:
    """The sum before the tanh is a temporary."""
    return np.tanh(x @ U + B) @ V + 0.5 * x


def layers(x: Any, n: int) -> float:
    """Only temporaries and values in frames."""
    for _ in range(n):
        x = step(x)
    return (x * x).sum()


def views(x: Any, n: int) -> float:
    """Used through a transpose, a slice and a row."""
    total = 0.0
    for i in range(n):
        a = x @ W
        b = x @ W * 1.1
        total += np.sin(a.T).sum() + (b[1:] * b[:-1]).sum() * 0.1 + (a[i % 8] ** 3).sum() * 0.01
        x = step(x)
    return total + (x * x).sum()


def carried(x: Any, n: int) -> float:
    """Temporaries are read an iteration later, and after the loop."""
    before, last = x @ W, x @ W
    for _ in range(n):
        a = x @ W
        x = step(np.tanh(a + B * before) @ V)
        before, last = a, np.cos(before + a)
    return (x * x).sum() + (before * last).sum()


def now_and_then(x: Any, n: int) -> float:
    """Carried in some iterations only."""
    state = x @ W
    for i in range(n):
        a = np.tanh(x @ W + B)
        b = a @ V
        if i % 3 == 1:
            state = a
        x = b + 0.1 * (state @ V)
    return (x * x).sum() + (state * state).sum()


def left(x: Any, n: int) -> float:
    """Continue, break and return."""
    total = 0.0
    for i in range(n):
        a = x @ W
        if a[0, 0] > 5.0:
            return (a * a).sum()
        if i % 4 == 2:
            x = x * 0.9
            continue
        x = step(x + a[0, 0])
        total += (a * a).sum()
        if i == 6:
            return total + (a * x[0, 0]).sum()
        if total > 400.0:
            break
    return total + (x * x).sum()


def nested(x: Any, n: int) -> float:
    total = 0.0
    for i in range(n):
        a = x @ W
        for j in range(i % 3):
            b = np.tanh(a + B * j)
            a = a + 0.1 * ((b @ V) @ W)
            total += (np.sin(x @ W) * b).sum()
        x = np.tanh(a @ V) + 0.1 * x
    return total + (x * x).sum()


def descend(x: Any, n: int) -> Any:
    if n == 0:
        return x
    for k in range(2):
        x = np.tanh(x @ W + B * k) @ V + 0.5 * descend(x * 0.7, n - 1)
    return x


def recursion(x: Any, n: int) -> float:
    return (descend(x, min(n, 3)) ** 2).sum()


def sizes(x: Any, n: int) -> float:
    """Growing, shrinking and empty."""
    total = 0.0
    for i in range(n):
        k = (i * 5) % 9
        a = np.tanh(x[:k] @ W + B)
        b = np.concatenate((a, a[: k // 2]))
        total += (b @ V).sum() + (np.sin(b @ V) * 0.1).sum()
        x = np.tanh(x @ W) @ V
    return total + (x * x).sum()


def until(x: Any, n: int) -> float:
    """A loop that is not counted."""
    while (x * x).sum() > 1e-3 * n:
        x = 0.5 * np.tanh(np.tanh(x @ W + B) @ V)
        n += 8
    return (x * x).sum()


PROGRAMS = [layers, views, carried, now_and_then, left, nested, recursion, sizes, until]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., float], slots: list[str]) -> None:
    compiled = jit(f, grad=True)
    for n in (7, 1, 0, 12):
        value, slope = compiled.value_and_grad(X, n)
        expected = interpret(lambda x, n=n: value_and_grad(f)(x, n), X)
        np.testing.assert_allclose(value, f(X, n), rtol=1e-12)
        np.testing.assert_allclose(slope, expected[1], rtol=1e-9, atol=1e-12)
    assert slots
    check_grads(lambda x: f(x, 7), (X,), order=1, modes=("rev",))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("options", [{"checkpoint": True}, {"checkpoint": 3}, {"parallel": True}], ids=str)
@pytest.mark.parametrize("f", [carried, left, nested], ids=lambda f: f.__name__)
def test_options_change_nothing(f: Callable[..., float], options: dict[str, Any]) -> None:
    plain, other = jit(f, grad=True), jit(f, grad=True, **options)
    for n in (9, 4):
        np.testing.assert_allclose(other.grad(X, n), plain.grad(X, n), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [layers, carried, sizes], ids=lambda f: f.__name__)
def test_second_order(f: Callable[..., float]) -> None:
    def second(x: Any) -> Any:
        return grad(lambda x: (grad(lambda x: f(x, 4))(x) ** 2).sum())(x)
    np.testing.assert_allclose(jit(second)(X), interpret(second, X), rtol=1e-8, atol=1e-10)


@pytest.mark.long
@pytest.mark.slow
def test_pullbacks_that_are_kept() -> None:
    """Two forward sweeps before the first reverse sweep; and sweeps in a loop."""
    def f(x: Any) -> Any:
        one, back = vjp(lambda x: carried(x, 5), x)
        two, other = vjp(lambda x: layers(x, 6), x * one)
        total = back(two)[0] + other(one)[0]
        for i in range(3):
            value, pull = vjp(lambda x: views(x, 3), x * (1.0 + 0.1 * i))
            third, unused = vjp(lambda x: views(x, 4), x)
            total = total + pull(value + third)[0]
        return total
    np.testing.assert_allclose(jit(f)(X), interpret(f, X), rtol=1e-9)


@pytest.mark.slow
def test_parallel_iterations() -> None:
    """Each iteration has a loop that pushes to the arena of its thread."""
    def f(scales: Any, n: int) -> float:
        total = 0.0
        for i in range(len(scales)):
            total += layers(X * scales[i], n) + views(X * scales[i], n)
        return total
    scales, both = np.linspace(0.5, 1.5, 12), [jit(f, grad=True, parallel=option) for option in (False, True)]
    alone, several = [g.grad(scales, 4) for g in both]
    np.testing.assert_allclose(several, alone, rtol=1e-9)


def test_an_exception_in_the_middle() -> None:
    def f(x: Any, n: int) -> float:
        for i in range(n):
            a = x @ W
            if i == 5:
                raise ValueError("five")
            x = np.tanh(a + B) @ V + 0.5 * x
        return (x * x).sum()
    compiled = jit(f, grad=True)
    before = compiled.grad(X, 5)
    for _ in range(3):
        with pytest.raises(ValueError, match="five"):
            compiled.grad(X, 9)
        np.testing.assert_array_equal(compiled.grad(X, 5), before)


@pytest.mark.slow
def test_a_step_of_a_neural_ode_keeps_what_is_pushed() -> None:
    """Four slopes: each saves the results of its tanh and its argument, two numbers per point."""
    points, hidden = 64, 32

    def loss(w: Any, b: Any, v: Any, c: Any, y: Any, n: int) -> float:
        return neural_ode.loss((w, b, v, c), y, y, n)
    args = [RNG.normal(0, 0.5, shape) for shape in ((2, hidden), hidden, (hidden, 2), 2, (points, 2))]
    few, many = kept(loss, (0, 1, 2, 3), Options(), [(*args, n) for n in (20, 60)])
    assert (many - few) / 40 < 4 * 8 * points * (hidden + 2 * 2) + 1000
