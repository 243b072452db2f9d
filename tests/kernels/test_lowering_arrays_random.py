"""Random straight-line and looping array programs: lazy values, updates, reuse of buffers, against the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from jitad.lowering.jit.invoke import invoke

from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Function, Module, Value
from jitad.ir.types import F64, I64, Array, Scalar
from jitad.ir.verify import VerifyError, verify

ROWS, COLUMNS = 5, 3
VECTOR, MATRIX, INDEX = Array(F64, (None,)), Array(F64, (None, None)), Array(I64, (None,))
UNARY = ["neg", "exp", "tanh", "abs", "sin", "stop"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]


class Random:
    """Grows a function; ``pool`` holds the float values that may be used, with their shapes."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.module, self.func = Module(), Function("f", [VECTOR, VECTOR, MATRIX, INDEX, F64])
        self.module.add(self.func)
        self.b = Builder(self.func.entry)
        x, y, m, self.index, s = self.func.params
        self.n, self.k = self.b.dim(m, axis=0), self.b.dim(m, axis=1)
        self.pool: list[tuple[Value, str]] = [(x, "n"), (y, "k"), (m, "nk"), (s, "")]
        self.fresh: list[tuple[Value, str]] = []           # made by an op, and may be consumed

    def pick(self, shape: str) -> Value:
        found = [v for v, s in self.pool if s == shape]
        return self.r.choice(found[-4:]) if found else self.b.fill(0.5, *self.sizes(shape))

    def sizes(self, shape: str) -> list[Value]:
        return [self.n if c == "n" else self.k for c in shape]

    def put(self, v: Value, shape: str) -> None:
        if isinstance(v.type, Array) or isinstance(v.type, Scalar):
            self.pool.append((v, shape))

    def step(self) -> None:
        self.r.choice([self.unary, self.binary, self.binary, self.broadcast, self.view, self.reduce, self.update,
                       self.update, self.gather, self.scan, self.product])()

    def unary(self) -> None:
        shape = self.r.choice(["n", "k", "nk", "kn"])
        self.put(self.b.emit(self.r.choice(UNARY), self.pick(shape)), shape)

    def binary(self) -> None:
        shape = self.r.choice(["n", "k", "nk", "nk", "kn"])
        other = self.r.choice([shape, ""])
        self.put(self.b.emit(self.r.choice(BINARY), self.pick(shape), self.pick(other)), shape)

    def broadcast(self) -> None:
        if self.r.random() < 0.5:
            self.put(self.b.mul(self.pick("nk"), self.pick("k")), "nk")
        else:
            column = self.b.reshape(self.pick("n"), self.n, 1)
            self.put(self.b.select(self.b.lt(column, self.pick("nk")), column, self.pick("nk")), "nk")

    def view(self) -> None:
        b, kind = self.b, self.r.randrange(5)
        if kind == 0:
            self.put(b.transpose(self.pick("nk"), perm=(1, 0)), "kn")
        elif kind == 1:
            self.put(b.transpose(self.pick("kn"), perm=(1, 0)), "nk")
        elif kind == 2:
            self.put(b.get(self.pick("nk"), self.r.randrange(ROWS)), "k")
        elif kind == 3:
            self.put(b.slice(self.pick("n"), b.sub(self.n, 1), self.n, -1), "n")
        else:
            column = b.slice(self.pick("nk"), 0, self.n, 1, self.r.randrange(COLUMNS), 1, 1)
            self.put(b.reshape(column, self.n), "n")

    def reduce(self) -> None:
        op = self.r.choice(["sum", "max", "min"])
        axes, shape = self.r.choice([((0,), "k"), ((1,), "n"), ((0, 1), "")])
        self.put(self.b.emit(op, self.pick("nk"), axes=axes), shape)

    def scan(self) -> None:
        self.put(self.b.cumsum(self.pick("nk"), axis=self.r.randrange(2)), "nk")

    def gather(self) -> None:
        shape = self.r.choice(["n", "nk"])
        self.put(self.b.take(self.pick(shape), self.index), shape)

    def product(self) -> None:
        kind, b = self.r.randrange(3), self.b
        if kind == 0:
            self.put(b.matmul(self.pick("nk"), self.pick("k")), "n")
        elif kind == 1:
            self.put(b.matmul(self.pick("n"), self.pick("nk")), "k")
        else:
            square = b.matmul(self.pick("nk"), self.pick("nk"), ta=True)
            self.put(b.add(self.pick("nk"), b.matmul(self.pick("nk"), square)), "nk")

    def update(self) -> None:
        b, kind = self.b, self.r.randrange(6)
        shape = "n" if kind in (0, 1) else "nk"
        a = self.target(shape)
        i, j = self.r.randrange(ROWS), self.r.randrange(COLUMNS)
        if kind == 0:
            out = b.emit(self.r.choice(["set", "add_at"]), a, self.pick(""), b.const(i))
        elif kind == 1:
            out = b.emit(self.r.choice(["put", "add_put"]), a, self.pick("n"), self.index)
        elif kind == 2:
            out = b.emit(self.r.choice(["set", "add_at"]), a, self.pick("k"), b.const(i))
        elif kind == 3:
            out = b.emit(self.r.choice(["set", "add_at"]), a, self.pick(""), b.const(i), b.const(j))
        elif kind == 4:
            column = b.reshape(self.pick("n"), self.n, 1)
            out = b.emit(self.r.choice(["set_slice", "add_slice"]), a, column, *map(b.const, (0, 1, j, 1)))
        else:
            whole = self.r.choice(["set_slice", "add_slice"])
            out = b.emit(whole, a, self.pick("nk"), *map(b.const, (0, 1, 0, 1)))
        self.put(out, shape)

    def target(self, shape: str) -> Value:
        """An array to consume: a copy, or a value of the pool itself, which the verifier may refuse."""
        v = self.pick(shape)
        if v.op is None or self.r.random() < 0.5:
            return self.b.copy(v)
        self.pool = [(w, s) for w, s in self.pool if w is not v]
        return v

    def loop(self) -> None:
        """A counted loop that carries three values and continues with them."""
        b, func = self.b, self.func
        carried = [(self.b.copy(self.pick(s)) if s else self.pick(s), s) for s in ("n", "nk", "")]
        head, body, done = (func.new_block(f"{name}{len(func.blocks)}") for name in ("head", "body", "done"))
        i = head.add_param(I64)
        params = [(head.add_param(v.type), s) for v, s in carried]
        b.jump(head, [b.const(0), *(v for v, _ in carried)])
        b.at(head)
        b.branch(b.lt(i, self.r.randrange(4)), body, [], done, [])
        b.at(body)
        before = self.pool
        self.pool = before[:4] + params
        for _ in range(5):
            self.step()
        last = [b.as_type(v, type=p.type) if isinstance(p.type, Array) else v
                for (p, s) in params for v in [self.pick(s)]]
        b.jump(head, [b.add(i, 1), *last])
        b.at(done)
        self.pool = before + params

    def finish(self) -> Module:
        results = [self.pick(s) for s in ("n", "k", "nk", "", "nk")]
        self.func.result_types = [v.type for v in results]
        self.b.ret(results)
        return self.module


def programs(seed: int) -> Module | None:
    """The first program of this seed that the verifier accepts."""
    for attempt in range(20):
        g = Random(1000 * seed + attempt)
        for _ in range(8):
            g.step()
        g.loop()
        for _ in range(6):
            g.step()
        try:
            verify(g.finish())
            return g.module
        except VerifyError:
            continue
    return None


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_random_array_programs(seed: int) -> None:
    module = programs(seed)
    if module is None:
        pytest.skip("no legal program for this seed")
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=ROWS), rng.normal(size=COLUMNS), rng.normal(size=(ROWS, COLUMNS)),
            rng.integers(0, ROWS, ROWS), 0.7]
    want = Interpreter(module).run("f", args)
    for got, w in zip(invoke(module, "f", args), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-9, atol=1e-9)
