"""Alias analysis against what happens: arrays of the interpreter share memory only where the analysis says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from unittest import mock

import numpy as np
import pytest

from jitad import pipeline
from jitad.ir.aliasing.alias_classes import AliasClasses, class_summaries, is_array
from jitad.ir.aliasing.consumption import consumed_values, in_memory
from jitad.ir.aliasing.liveness import Liveness
from jitad.ir.aliasing.may_alias import MayAlias, Summaries
from jitad.ir.builder import Builder
from jitad.ir.dominance import dominators
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Block, Function, Module, Op, Value
from jitad.ir.ops import OPS, Memory
from jitad.ir.text import parse_module
from jitad.ir.types import F64, I64, Array, Type, from_numpy
from tests.derivatives import test_derivative_table as table
from tests.ir import irgen

# --- the column of the op table -------------------------------------------------------------------------


class Watch(Interpreter):
    """Notes of each op whether its result is in an operand's memory."""

    def __init__(self, module: Module) -> None:
        super().__init__(module, in_place=True)
        self.found: list[tuple[str, bool, bool]] = []

    def _execute(self, op: Op, values: dict[Value, Any]) -> None:
        operands = [values[v] for v in op.operands]
        super()._execute(op, values)
        if op.results and isinstance(result := values[op.results[0]], np.ndarray):
            shares = [isinstance(x, np.ndarray) and np.shares_memory(x, result) for x in operands]
            self.found.append((op.name, any(shares[:1]), any(shares[1:])))


A, I, B = np.ones((2, 3)), np.ones((2, 3), np.int64), np.ones((2, 3), bool)
# Operands and attributes for ops without a derivative; those of them that yield no array, or what is on a stack.
DISCRETE: dict[str, tuple[list[Any], dict[str, Any]]] = {
    **{name: ([A, A], {}) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: ([I, I], {}) for name in ("and", "or", "xor", "shl", "shr")},
    **{name: ([A], {}) for name in ("isnan", "isinf", "isfinite", "stop")},
    **{name: ([B], {"axes": (1,)}) for name in ("all", "any")},
    **{name: ([A], {"axis": 1}) for name in ("argmax", "argmin")},
    **{name: ([I], {}) for name in ("clz", "popcount")},
    "not": ([B], {}), "nonzero": ([B[0]], {}), "iota": ([3], {}), "empty": ([2, 3], {"dtype": F64})}
NO_ARRAY = {"const", "dim", "check", "undef", "stack_empty", "push", "pop"}


def type_of(x: Any) -> Type:
    """The type of an argument; a size 1 is in the type of an array."""
    if not isinstance(x, np.ndarray):
        return F64 if isinstance(x, float) else I64
    dtype = from_numpy(x.dtype)
    assert dtype is not None
    return Array(dtype, tuple(1 if d == 1 else None for d in x.shape))


def samples(name: str) -> Iterator[tuple[list[Any], table.Emit]]:
    """Arguments, and how to emit the op."""
    if name in DISCRETE:
        args, attrs = DISCRETE[name]
        yield args, lambda b, *xs: b.emit(name, *xs, **attrs)
        return
    for i, (specs, emit) in enumerate(table._samples(name)):
        rng = np.random.default_rng(i)
        yield [table._example(s, name, rng) for s in specs], emit


@pytest.mark.parametrize("name", sorted(set(OPS) - NO_ARRAY))
def test_results_share_what_the_table_says(name: str) -> None:
    for args, emit in samples(name):
        module = Module()
        func = module.add(Function("f", [type_of(x) for x in args], []))
        b = Builder(func.entry)
        b.ret([emit(b, *func.params)])
        watch = Watch(module)
        watch.run("f", args)
        for op, first, others in watch.found:
            assert (first, others) == (OPS[op].memory is not Memory.NEW, False), op


# --- random programs ------------------------------------------------------------------------------------


class Judge(Interpreter):
    """Compares all live arrays at the start of each block."""

    def __init__(self, module: Module) -> None:
        super().__init__(module, in_place=True)
        summaries, classes = Summaries(module), class_summaries(module.functions)
        self.alias = {f: MayAlias(f, summaries) for f in module.functions.values()}
        self.classes = {f: AliasClasses(f, classes) for f in module.functions.values()}
        self.live = {f: Liveness(f, is_array) for f in module.functions.values()}
        self.pairs = 0

    def _execute(self, op: Op, values: dict[Value, Any]) -> None:
        if op.block is not None and op is op.block.ops[0]:
            self._judge(op.block, values)
        super()._execute(op, values)

    def _judge(self, block: Block, values: dict[Value, Any]) -> None:
        alias, classes = self.alias[block.func], self.classes[block.func]
        live = [*filter(is_array, block.params), *self.live[block.func].before(block)]
        for v, w in combinations([v for v in live if isinstance(values[v], np.ndarray)], 2):
            if np.shares_memory(values[v], values[w]):
                self.pairs += 1
                assert alias.with_self(alias.states[block], v) & alias.bits([w]), (block.func, v, w)
                assert classes.same(v, w) or (classes.on_stack(v) and classes.on_stack(w)), (block.func, v, w)


def derived(seed: int) -> tuple[Module, list[Any]]:
    """A module with derivatives, and what ``main`` is called with."""
    module = irgen.generate(seed, statements=12, smooth=True)
    wrt = [i for i, t in enumerate(irgen.MAIN) if str(t)[0] == "f"]
    gradient = module.derive("main", "vjp", wrt)
    pipeline.run(module, ["main", gradient])
    args = irgen.arguments(seed)
    weights = [np.ones_like(y) for y in Interpreter(module).run("main", args)]
    module.functions["root"] = module.functions[gradient]
    return module, [*args, *weights]


def found(seeds: range) -> int:
    """The pairs that were compared."""
    pairs = 0
    for seed in seeds:
        module, args = derived(seed)
        judge = Judge(module)
        judge.run("root", args, budget=200_000)
        pairs += judge.pairs
    return pairs


@pytest.mark.slow
def test_arrays_share_memory_where_it_says_so() -> None:
    assert found(range(12)) > 0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ["get", "slice"])
def test_a_wrong_row_is_found(name: str) -> None:
    wrong = dataclasses.replace(OPS[name], memory=Memory.NEW)
    with mock.patch.dict(OPS, {name: wrong}), pytest.raises(AssertionError):
        found(range(40))


# --- the three questions differ -------------------------------------------------------------------------

EXCHANGE = """
func @f(%n: i64, %m: i64) -> (f64[?], f64[?]) {
^entry:
  %zero = const 0 : i64
  %one = const 1 : i64
  %half = const 0.5 : f64
  %u0 = fill %half, %m : f64[?]
  %v0 = fill %half, %m : f64[?]
  jump ^head(%zero, %u0, %v0)
^head(%t: i64, %u: f64[?], %v: f64[?]):
  %c = lt %t, %n : bool
  branch %c, ^body, ^done
^body:
  %row = slice %v, %zero, %one, %one : f64[?]
  %w = set %u, %half, %zero : f64[?]
  %s = sum {axes = (0,)} %row
  %t1 = add %t, %one : i64
  jump ^head(%t1, %v, %w)
^done:
  return %u, %v
}
"""


def test_arrays_that_change_places_share_at_no_point_and_are_one_class() -> None:
    func = parse_module(EXCHANGE).functions["f"]
    alias, classes, consumed = MayAlias(func, Summaries(Module())), AliasClasses(func), consumed_values(func)
    named = {v.hint: v for v in func.defined()}
    u, v, w, row = (named[name] for name in ("u", "v", "w", "row"))
    pairs = alias.states[u.block].copy()
    assert not alias.with_self(pairs, u) & alias.bits([v])
    for op in row.block.ops:
        alias.step(pairs, op)
    here = alias.bits([u, v, w, row])
    assert alias.with_self(pairs, row) & here == alias.bits([row, v])
    assert alias.with_self(pairs, w) == alias.bits([w])
    assert all(classes.same(u, x) for x in filter(in_memory, func.defined()))
    assert consumed == {named["u0"], named["v0"], u, v, w}


def test_live_values_among_some_and_blocks_in_order() -> None:
    for seed in range(6):
        func = irgen.generate(seed).functions["main"]
        live, dom = Liveness(func), dominators(func)
        assert dom.in_order({*dom.order[::2]}) == dom.order[::2]
        values = [*func.defined()]
        for block in dom.order:
            before = [*live.before(block)]
            assert live.among(reversed(values), block) == before
            assert live.among(values[::3], block) == [v for v in before if v in values[::3]]
