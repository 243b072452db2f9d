"""Random small IR programs: well-typed, terminating, with branches, loops, calls, array updates and early exits.

``generate(seed)`` makes a module whose function ``main`` takes ``arguments(seed)``.  Arrays are used as values
(nothing is copied before an update), so programs satisfy ``verify(linear=False)`` until ``copy_insertion`` has run.
``outcome`` runs one and gives its results or its exception, ``same`` compares two outcomes: so that

    before = outcome(module, args); some_pass(module); assert same(before, outcome(module, args))

tests any pass.  ``smooth=True`` keeps to differentiable ops and leaves out early raises.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Edge, ExcInfo, Function, Module, Value
from jitad.ir.types import F64, I64, Array, Type

VEC, MAT, INDEX = Array(F64, (None,)), Array(F64, (None, 3)), Array(I64, (None,))
MAIN = (F64, F64, I64, VEC, VEC, MAT)
RESULTS = (F64, F64, VEC, MAT)

Scope = dict[Type, list[Value]]


def generate(seed: int, statements: int = 8, arrays: bool = True, calls: bool = True, smooth: bool = False,
             small: bool = False) -> Module:
    """A module with ``main``, the same for equal arguments.  ``small``: sizes are 3, and in the types."""
    return _Generator(random.Random(seed), statements, arrays, calls, smooth, small).module


def arguments(seed: int, arrays: bool = True, small: bool = False) -> list[Any]:
    """Arguments for the ``main`` of any generated module."""
    rng = np.random.default_rng(seed)
    n = 3 if small else int(rng.integers(1, 6))
    scalars = [float(rng.normal()), float(rng.normal()), int(rng.integers(0, 5))]
    return scalars + ([rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, 3))] if arrays else [])


Outcome = list[Any] | tuple[str, str]


def outcome(module: Module, args: Sequence[Any], name: str = "main", in_place: bool = False) -> Outcome:
    """The results, or the name and message of the exception raised."""
    try:
        return Interpreter(module, in_place).run(name, args, budget=200_000)
    except (ValueError, IndexError, ZeroDivisionError) as e:
        return type(e).__name__, str(e)


def same(a: Any, b: Any, rtol: float = 1e-12) -> bool:
    """True if two outcomes agree up to rounding, including the number in an exception's message."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        x, y = (float(o[1].rpartition(" ")[2]) if isinstance(o, tuple) else None for o in (a, b))
        return x is not None and y is not None and a[0] == b[0] and bool(np.isclose(x, y, rtol=rtol))
    return len(a) == len(b) and all(
        np.shape(x) == np.shape(y) and np.allclose(x, y, rtol=rtol, atol=rtol, equal_nan=True) for x, y in zip(a, b))


class _Generator:
    def __init__(self, rng: random.Random, statements: int, arrays: bool, calls: bool, smooth: bool,
                 small: bool) -> None:
        self.rng, self.statements, self.arrays, self.smooth = rng, statements, arrays, smooth
        self.vec, self.mat = (Array(t.dtype, (3,) * t.rank) for t in (VEC, MAT)) if small else (VEC, MAT)
        main, results = (tuple({VEC: self.vec, MAT: self.mat}.get(t, t) for t in ts) for ts in (MAIN, RESULTS))
        self.module = Module()
        self.b = Builder()
        self.callees: list[Function] = []
        self.too_large = self.module.exception(ExcInfo("ValueError", "too large: {0}"))
        self.results: tuple[Type, ...] = ()
        if calls:
            self._recursive()
            for i in range(rng.randint(0, 2)):
                self._function(f"helper{i}", (F64, self.vec, I64) if arrays else (F64, I64), (F64,), statements // 2)
        self._function("main", main if arrays else MAIN[:3], results if arrays else RESULTS[:2], statements)

    def _function(self, name: str, params: tuple[Type, ...], results: tuple[Type, ...], statements: int) -> None:
        func = self.module.add(Function(name, params, results))
        self.b.at(func.entry)
        self.results = results
        scope: Scope = {F64: [], I64: [], self.vec: [], self.mat: []}
        for p in func.params:
            scope[p.type].append(p)
        if self.arrays and not scope[self.mat]:
            scope[self.mat].append(self.b.fill(scope[F64][0], self._size(scope), 3))
        for _ in range(statements):
            self._statement(scope, 2)
        self._return(scope)
        self.callees.append(func)

    def _recursive(self) -> None:
        """@again(x, n): n recursive steps of x, then a return through all levels with their values."""
        func = self.module.add(Function("again", (F64, I64), (F64,), ("x", "n")))
        b, (x, n) = self.b, func.params
        done, more, back = func.new_block(), func.new_block(), func.new_block()
        b.at(func.entry)
        b.branch(b.le(n, 0), done, [], more, [])
        b.at(done)
        b.ret([x])
        b.at(more)
        b.call("again", [b.sin(b.mul(x, 1.5)), b.sub(n, 1)], back, [b.cos(x)])
        r, c = back.add_param(F64), back.add_param(F64)
        b.at(back)
        b.ret([b.add(b.mul(r, c), x)])
        self.callees.append(func)

    def _return(self, scope: Scope) -> None:
        """Returns sums of recent values, so that errors in them show."""
        out = []
        for t in self.results:
            recent = scope[t][-3:]
            total = recent[0]
            for v in recent[1:]:
                total = self.b.add(total, v)
            out.append(total)
        self.b.ret(out)

    # --- statements -----------------------------------------------------------------------------------

    def _statement(self, scope: Scope, depth: int) -> None:
        kinds: list[Callable[[Scope, int], None]] = [self._scalar, self._scalar, self._integer]
        if self.arrays:
            kinds += [self._elementwise, self._update, self._update, self._read, self._reduce]
        if depth:
            kinds += [self._if, self._for, self._while]
        if self.callees:
            kinds.append(self._call)
        if not self.smooth:
            kinds.append(self._check)
        self.rng.choice(kinds)(scope, depth)

    def _pick(self, scope: Scope, t: Type) -> Value:
        values = scope[t]
        return self.rng.choice(values[-4:] if self.rng.random() < 0.7 else values)

    def _size(self, scope: Scope) -> Value:
        return self.b.dim(self._pick(scope, self.vec), axis=0)

    def _index(self, scope: Scope) -> Value:
        return self.b.mod(self._pick(scope, I64), self._size(scope))

    def _scalar(self, scope: Scope, depth: int) -> None:
        scope[F64].append(self._float_op(scope, F64))

    def _float_op(self, scope: Scope, t: Type) -> Value:
        b, x, y = self.b, self._pick(scope, t), self._pick(scope, t)
        choices: list[Callable[[], Value]] = [
            lambda: b.add(x, y), lambda: b.sub(x, y), lambda: b.mul(b.sin(x), y), lambda: b.tanh(x), lambda: b.cos(x),
            lambda: b.div(x, b.add(b.mul(y, y), 1.0)), lambda: b.sqrt(b.add(b.mul(x, x), 1.0)),
            lambda: b.exp(b.neg(b.abs(x))), lambda: b.mul(x, round(self.rng.uniform(-2, 2), 2)),
            lambda: b.add(x, float(self.rng.randint(-2, 2))), lambda: b.maximum(x, y),
            lambda: b.select(b.lt(x, y), x, y), lambda: b.log1p(b.mul(x, x))]
        if not self.smooth:
            choices += [lambda: b.floor(x), lambda: b.floordiv(x, b.add(b.abs(y), 0.5)), lambda: b.copysign(x, y),
                        lambda: b.mod(x, b.add(b.abs(y), 0.5)), lambda: b.sign(x)]
        return self.rng.choice(choices)()

    def _integer(self, scope: Scope, depth: int) -> None:
        b, x, y = self.b, self._pick(scope, I64), self._pick(scope, I64)
        kinds: list[Callable[[], Value]] = [
            lambda: b.mod(b.add(x, y), 7), lambda: b.mod(b.mul(x, 3), 5), lambda: b.sub(x, 1), lambda: b.minimum(x, y),
            lambda: b.floordiv(x, 2), lambda: b.xor(x, y), lambda: b.clz(x), lambda: b.popcount(x),
            lambda: b.select(b.lt(x, y), x, y),
            lambda: b.const(self.rng.randint(-3, 6))]
        scope[I64].append(self.rng.choice(kinds)())

    def _elementwise(self, scope: Scope, depth: int) -> None:
        t = self.rng.choice([self.vec, self.mat])
        kinds: list[Callable[[], Value]] = [
            lambda: self._float_op(scope, t), lambda: self.b.mul(self._pick(scope, t), self._pick(scope, F64)),
            lambda: self.b.copy(self._pick(scope, t)), lambda: self.b.zeros_like(self._pick(scope, t))]
        scope[t].append(self.rng.choice(kinds)())

    def _update(self, scope: Scope, depth: int) -> None:
        """Stores or adds an element, a row, a slice, or elements at index arrays."""
        b, name = self.b, self.rng.choice(["set", "add_at"])
        v, m = self._pick(scope, self.vec), self._pick(scope, self.mat)
        x, i = self._pick(scope, F64), self._index(scope)
        kinds: list[Callable[[], tuple[Type, Value]]] = [
            lambda: (self.vec, b.emit(name, v, x, i)),
            lambda: (self.mat, b.emit(name, m, x, i, self.rng.randrange(3))),
            lambda: (self.mat, b.emit(name, m, b.get(self._pick(scope, self.mat), self._index(scope)), i)),
            lambda: (self.vec, b.emit(name.replace("_at", "") + "_slice", v, b.slice(
                self._pick(scope, self.vec), i, b.sub(self._size(scope), i), 1), b.const(0), b.const(1))),
            lambda: (self.vec, b.emit("put" if name == "set" else "add_put", v, self._pick(scope, self.vec), b.mod(
                b.mul(b.iota(self._size(scope)), 2), self._size(scope))))]
        t, result = self.rng.choice(kinds)()
        scope[t].append(result)

    def _read(self, scope: Scope, depth: int) -> None:
        b = self.b
        kinds: list[Callable[[], Value]] = [
            lambda: b.get(self._pick(scope, self.vec), self._index(scope)),
            lambda: b.get(self._pick(scope, self.mat), self._index(scope), self.rng.randrange(3)),
            lambda: b.sum(b.get(self._pick(scope, self.mat), self._index(scope)), axes=(0,))]
        scope[F64].append(self.rng.choice(kinds)())

    def _reduce(self, scope: Scope, depth: int) -> None:
        b, v, w, m = self.b, self._pick(scope, self.vec), self._pick(scope, self.vec), self._pick(scope, self.mat)
        kinds: list[Callable[[], Value]] = [
            lambda: b.sum(v, axes=(0,)), lambda: b.max(v, axes=(0,)), lambda: b.matmul(v, w),
            lambda: b.sum(m, axes=(0, 1)), lambda: b.sum(m, axes=(1,)), lambda: b.take(v, b.mod(b.iota(
                self._size(scope)), self._size(scope))), lambda: b.cumsum(v, axis=0)]
        result = self.rng.choice(kinds)()
        scope[result.type].append(result)

    def _check(self, scope: Scope, depth: int) -> None:
        x = self._pick(scope, F64)
        self.b.check(self.b.lt(x, 4.0), self.too_large, x)

    def _call(self, scope: Scope, depth: int) -> None:
        callee = self.rng.choice(self.callees)
        args = [self._pick(scope, t) for t in callee.param_types]
        if callee.name == "again":
            args[1] = self.b.mod(args[1], 4)
        for result in self.b.call_then(callee.name, args, callee.result_types):
            scope[result.type].append(result)

    # --- control --------------------------------------------------------------------------------------

    def _suite(self, scope: Scope, depth: int) -> Scope:
        inner = {t: list(values) for t, values in scope.items()}
        for _ in range(self.rng.randint(1, 3)):
            self._statement(inner, depth - 1)
        return inner

    def _carried(self, scope: Scope) -> list[Type]:
        types = [t for t in (F64, I64, self.vec, self.mat) if scope[t]]
        return [self.rng.choice(types) for _ in range(self.rng.randint(1, 3))]

    def _if(self, scope: Scope, depth: int) -> None:
        b, func = self.b, self.b.func
        types = self._carried(scope)
        sides = [func.new_block() for _ in range(self.rng.choice([2, 2, 3]))]
        join = func.new_block()
        params = [join.add_param(t) for t in types]
        if len(sides) == 2:
            b.branch(b.lt(self._pick(scope, F64), self._pick(scope, F64)), sides[0], [], sides[1], [])
        else:
            b.switch(self._pick(scope, I64), [Edge(s) for s in sides])
        for side in sides:
            b.at(side)
            inner = self._suite(scope, depth)
            if side is sides[0] and self.rng.random() < 0.15:
                self._return(inner)
            else:
                b.jump(join, [self._pick(inner, t) for t in types])
        b.at(join)
        for p in params:
            scope[p.type].append(p)

    def _for(self, scope: Scope, depth: int) -> None:
        """for it in range(n): …, sometimes with a break."""
        b, func = self.b, self.b.func
        types = self._carried(scope)
        head, body, leave = func.new_block("head"), func.new_block("body"), func.new_block("leave")
        n = b.mod(self._pick(scope, I64), 5)
        b.jump(head, [b.const(0), *(self._pick(scope, t) for t in types)])
        it, *state = [head.add_param(t) for t in (I64, *types)]
        after = [leave.add_param(t) for t in types]
        b.at(head)
        b.branch(b.lt(it, n), body, [], leave, state)
        b.at(body)
        inner = self._inside(scope, [it, *state])
        inner = self._suite(inner, depth)
        if self.rng.random() < 0.3:
            on = func.new_block()
            b.branch(b.gt(self._pick(inner, F64), 1.0), leave, [self._pick(inner, t) for t in types], on, [])
            b.at(on)
        b.jump(head, [b.add(it, 1), *(self._pick(inner, t) for t in types)])
        b.at(leave)
        for p in after:
            scope[p.type].append(p)

    def _while(self, scope: Scope, depth: int) -> None:
        """while k < 4 and x < 2: …; values of its header are used after it."""
        b, func = self.b, self.b.func
        types = [F64, *self._carried(scope)]
        head, body, leave = func.new_block("head"), func.new_block("body"), func.new_block("leave")
        b.jump(head, [b.const(0), *(self._pick(scope, t) for t in types)])
        k, *state = [head.add_param(t) for t in (I64, *types)]
        b.at(head)
        b.branch(b.and_(b.lt(k, 4), b.lt(state[0], 2.0)), body, [], leave, [])
        b.at(body)
        inner = self._suite(self._inside(scope, state), depth)
        b.jump(head, [b.add(k, 1), *(self._pick(inner, t) for t in types)])
        b.at(leave)
        for p in state:
            scope[p.type].append(p)

    @staticmethod
    def _inside(scope: Scope, more: Sequence[Value]) -> Scope:
        inner = {t: list(values) for t, values in scope.items()}
        for v in more:
            inner[v.type].append(v)
        return inner
