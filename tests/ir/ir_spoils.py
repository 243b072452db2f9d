"""Mutations of valid IR: each breaks one invariant of a module in place, at a random position."""

from __future__ import annotations

import random
from collections.abc import Callable

from jitad.ir.builder import Builder
from jitad.ir.graph import Block, Derived, Edge, Function, Module, Op, Rule, Value
from jitad.ir.ops import OPS
from jitad.ir.types import F32, F64, I64, STACK, Array, Scalar

Spoil = Callable[[random.Random, Module], bool]     # changes the module; returns False if there is nothing to change
SPOILS: list[Spoil] = []


def spoil(f: Spoil) -> Spoil:
    SPOILS.append(f)
    return f


def functions(m: Module) -> list[Function]:
    return list(m.functions.values())


def blocks(m: Module) -> list[Block]:
    return [b for f in functions(m) for b in f.blocks]


def ops(m: Module, *names: str) -> list[Op]:
    return [op for b in blocks(m) for op in b.ops if not names or op.name in names]


def terms(m: Module, *names: str) -> list[Op]:
    return [b.term for b in blocks(m) if b.term is not None and (not names or b.term.name in names)]


def stack_in(f: Function) -> Value:
    """A stack defined at the top of ``f``: a value that hardly any op accepts."""
    op = Op("stack_empty", [], [STACK])
    op.block = f.entry
    f.entry.ops.insert(0, op)
    return op.result


def a_result(f: Function) -> Value | None:
    return next((op.results[0] for op in f.all_ops() if op.results), None)


# --- structure ----------------------------------------------------------------------------------------

@spoil
def no_terminator(rng: random.Random, m: Module) -> bool:
    rng.choice(blocks(m)).term = None
    return True


@spoil
def terminator_among_the_operations(rng: random.Random, m: Module) -> bool:
    block = rng.choice(blocks(m))
    op = Op("return", [])
    op.block = block
    block.ops.append(op)
    return True


@spoil
def operation_as_terminator(rng: random.Random, m: Module) -> bool:
    block = rng.choice([b for b in blocks(m) if b.ops])
    block.term = block.ops.pop()
    return True


@spoil
def operation_with_an_edge(rng: random.Random, m: Module) -> bool:
    op = rng.choice(ops(m))
    assert op.block is not None
    op.edges = [Edge(op.block.func.blocks[-1])]
    return True


@spoil
def unknown_operation(rng: random.Random, m: Module) -> bool:
    rng.choice(ops(m)).name = "frobnicate"
    return True


@spoil
def operation_twice(rng: random.Random, m: Module) -> bool:
    op = rng.choice(ops(m))
    assert op.block is not None
    op.block.ops.append(op)
    return True


@spoil
def operation_in_another_block(rng: random.Random, m: Module) -> bool:
    op = rng.choice(ops(m))
    rng.choice([b for b in blocks(m) if b is not op.block]).ops.append(op)
    return True


@spoil
def wrong_block_of_an_operation(rng: random.Random, m: Module) -> bool:
    op = rng.choice(ops(m) + terms(m))
    op.block = rng.choice([b for b in blocks(m) if b is not op.block])
    return True


@spoil
def block_twice(rng: random.Random, m: Module) -> bool:
    block = rng.choice(blocks(m))
    block.func.blocks.append(block)
    return True


@spoil
def block_of_another_function(rng: random.Random, m: Module) -> bool:
    f, g = rng.sample(functions(m), 2)
    f.blocks.append(g.blocks[-1])
    return True


@spoil
def no_blocks(rng: random.Random, m: Module) -> bool:
    rng.choice(functions(m)).blocks.clear()
    return True


@spoil
def value_with_two_owners(rng: random.Random, m: Module) -> bool:
    f = rng.choice(functions(m))
    results = [op for op in f.all_ops() if op.results]
    if len(results) < 2:
        return False
    a, b = rng.sample(results, 2)
    b.results = a.results
    return True


@spoil
def parameter_with_wrong_index(rng: random.Random, m: Module) -> bool:
    rng.choice([b for b in blocks(m) if b.params]).params[0].index += 1
    return True


@spoil
def result_with_wrong_owner(rng: random.Random, m: Module) -> bool:
    op = rng.choice([op for op in ops(m) if op.results])
    assert op.block is not None
    op.results[0].owner = op.block
    return True


@spoil
def wrong_name_of_a_function(rng: random.Random, m: Module) -> bool:
    rng.choice(functions(m)).name += "x"
    return True


@spoil
def owned_scalar(rng: random.Random, m: Module) -> bool:
    f = rng.choice(functions(m))
    f.own.add(next(i for i, p in enumerate(f.params) if isinstance(p.type, Scalar)))
    return True


@spoil
def owned_parameter_that_is_not_there(rng: random.Random, m: Module) -> bool:
    f = rng.choice(functions(m))
    f.own.add(len(f.params))
    return True


@spoil
def edge_to_the_entry(rng: random.Random, m: Module) -> bool:
    op = rng.choice([t for t in terms(m) if t.edges])
    assert op.block is not None
    op.edges[-1].block = op.block.func.entry
    return True


@spoil
def edge_to_another_function(rng: random.Random, m: Module) -> bool:
    op = rng.choice([t for t in terms(m) if t.edges])
    assert op.block is not None
    op.edges[0].block = Block(op.block.func)
    return True


# --- values and dominance -----------------------------------------------------------------------------

@spoil
def value_of_another_function(rng: random.Random, m: Module) -> bool:
    f, g = rng.sample(functions(m), 2)
    value = a_result(g)
    op = rng.choice([op for op in f.all_ops() if op.operands])
    if value is None:
        return False
    op.operands[rng.randrange(len(op.operands))] = value
    return True


@spoil
def value_of_no_function(rng: random.Random, m: Module) -> bool:
    op = rng.choice([op for op in ops(m) + terms(m) if op.operands])
    i = rng.randrange(len(op.operands))
    op.operands[i] = Value(op.operands[i].type, op, 0)
    return True


@spoil
def operation_behind_its_use(rng: random.Random, m: Module) -> bool:
    pairs = [(b, i, j) for b in blocks(m) for j, user in enumerate(b.ops) for i in range(j)
             if any(v.owner is b.ops[i] for v in user.operands)]
    if not pairs:
        return False
    block, i, j = rng.choice(pairs)
    block.ops.insert(j, block.ops.pop(i))
    return True


@spoil
def operation_that_uses_itself(rng: random.Random, m: Module) -> bool:
    candidates = [op for op in ops(m) for v in op.operands if op.results and v.type == op.results[0].type]
    if not candidates:
        return False
    op = rng.choice(candidates)
    i = next(i for i, v in enumerate(op.operands) if v.type == op.results[0].type)
    op.operands[i] = op.results[0]
    return True


@spoil
def value_of_one_branch_used_behind_the_join(rng: random.Random, m: Module) -> bool:
    for f in functions(m):
        b = Builder(f.entry)
        old = f.entry.term
        f.entry.term = None
        side, other, join = f.new_block(), f.new_block(), f.new_block()
        b.branch(b.const(True), side, [], other, [])
        b.at(side)
        v = b.const(1)
        b.jump(join)
        b.at(other)
        b.jump(join)
        b.at(join)
        b.emit_op("neg", [v])
        assert old is not None
        join.term, old.block = old, join
    return True


@spoil
def value_of_the_loop_used_in_its_head(rng: random.Random, m: Module) -> bool:
    heads = [b for b in blocks(m) if b.name == "head"]
    if not heads:
        return False
    head = rng.choice(heads)
    assert head.term is not None
    body = head.term.edges[0].block
    later = Builder(body).const(1)
    op = Op("copy", [later], [later.type])
    op.block = head
    head.ops.insert(0, op)
    return True


# --- types --------------------------------------------------------------------------------------------

@spoil
def operand_of_a_type_that_no_rule_takes(rng: random.Random, m: Module) -> bool:
    op = rng.choice([op for op in ops(m) if op.operands])
    assert op.block is not None
    op.operands[rng.randrange(len(op.operands))] = stack_in(op.block.func)
    return True


@spoil
def operand_missing(rng: random.Random, m: Module) -> bool:
    fixed = [op for op in ops(m) if OPS[op.name].elementwise or OPS[op.name].arity]
    rng.choice(fixed).operands.pop()
    return True


@spoil
def operand_too_many(rng: random.Random, m: Module) -> bool:
    op = rng.choice([op for op in ops(m) if OPS[op.name].elementwise or OPS[op.name].arity is not None])
    assert op.block is not None
    op.operands.append(stack_in(op.block.func))
    return True


@spoil
def result_of_another_type(rng: random.Random, m: Module) -> bool:
    op = rng.choice([op for op in ops(m) if op.results])
    v = op.results[0]
    v.type = F32 if v.type != F32 else F64
    return True


@spoil
def size_that_is_not_known(rng: random.Random, m: Module) -> bool:
    arrays = [op for op in ops(m) if op.results and isinstance(op.results[0].type, Array)]
    if not arrays:
        return False
    v = rng.choice(arrays).results[0]
    assert isinstance(v.type, Array)
    v.type = Array(v.type.dtype, (*v.type.dims[:-1], 17))
    return True


@spoil
def result_missing(rng: random.Random, m: Module) -> bool:
    results = [op for op in ops(m) if op.results]
    rng.choice(results).results = []
    return True


@spoil
def attribute_missing(rng: random.Random, m: Module) -> bool:
    with_attrs = [op for op in ops(m) if op.attrs]
    op = rng.choice(with_attrs)
    del op.attrs[rng.choice(list(op.attrs))]
    return True


@spoil
def constant_of_another_type(rng: random.Random, m: Module) -> bool:
    op = rng.choice(ops(m, "const"))
    wrong = {"f": [1, True, None], "i": [1.0, True, 1 << 63], "b": [1, 0.0]}
    op.attrs["value"] = rng.choice(wrong[str(op.results[0].type)[0]])
    return True


@spoil
def condition_that_is_no_bool(rng: random.Random, m: Module) -> bool:
    branches = terms(m, "branch")
    if not branches:
        return False
    op = rng.choice(branches)
    assert op.block is not None
    op.operands = [op.block.func.params[0]]
    return True


@spoil
def branch_with_one_edge(rng: random.Random, m: Module) -> bool:
    branches = terms(m, "branch")
    if branches:
        rng.choice(branches).edges.pop()
    return bool(branches)


@spoil
def edges_behind_a_return(rng: random.Random, m: Module) -> bool:
    op = rng.choice(terms(m, "return"))
    assert op.block is not None
    func = op.block.func
    stop = func.new_block()
    Builder(stop).ret([Builder(stop).undef(t) for t in func.result_types])
    op.edges = [Edge(stop)]
    return True


@spoil
def argument_missing(rng: random.Random, m: Module) -> bool:
    edges = [e for t in terms(m) for e in t.edges if e.args]
    rng.choice(edges).args.pop()
    return True


@spoil
def argument_too_many(rng: random.Random, m: Module) -> bool:
    op = rng.choice([t for t in terms(m) if t.edges])
    assert op.block is not None
    rng.choice(op.edges).args.append(op.block.func.params[0])
    return True


@spoil
def argument_of_another_type(rng: random.Random, m: Module) -> bool:
    places = [(t, e) for t in terms(m) for e in t.edges if e.args]
    op, edge = rng.choice(places)
    assert op.block is not None
    edge.args[rng.randrange(len(edge.args))] = stack_in(op.block.func)
    return True


@spoil
def block_parameter_too_many(rng: random.Random, m: Module) -> bool:
    op = rng.choice([t for t in terms(m) if t.edges])
    op.edges[0].block.add_param(F64)
    return True


@spoil
def returned_value_missing(rng: random.Random, m: Module) -> bool:
    rng.choice(terms(m, "return")).operands.pop()
    return True


@spoil
def returned_value_of_another_type(rng: random.Random, m: Module) -> bool:
    op = rng.choice(terms(m, "return"))
    assert op.block is not None
    op.operands[0] = stack_in(op.block.func)
    return True


@spoil
def result_type_too_many(rng: random.Random, m: Module) -> bool:
    rng.choice(functions(m)).result_types.append(F64)
    return True


@spoil
def number_of_no_exception(rng: random.Random, m: Module) -> bool:
    checks = ops(m, "check")
    if checks:
        rng.choice(checks).attrs["exc"] = rng.choice([len(m.exceptions), -1, None])
    return bool(checks)


@spoil
def raise_without_exception(rng: random.Random, m: Module) -> bool:
    f = rng.choice(functions(m))
    block = f.new_block()
    Builder(block).raise_(len(m.exceptions))
    return True


@spoil
def message_with_too_many_values(rng: random.Random, m: Module) -> bool:
    f = rng.choice(functions(m))
    block = f.new_block()
    b = Builder(block)
    b.raise_(0, [b.const(i) for i in range(5)])
    return True


# --- calls and derivatives ----------------------------------------------------------------------------

@spoil
def call_of_nothing(rng: random.Random, m: Module) -> bool:
    rng.choice(terms(m, "call")).attrs["callee"] = "nowhere"
    return True


@spoil
def call_with_an_argument_missing(rng: random.Random, m: Module) -> bool:
    rng.choice(terms(m, "call")).operands.pop()
    return True


@spoil
def call_with_an_argument_of_another_type(rng: random.Random, m: Module) -> bool:
    op = rng.choice(terms(m, "call"))
    assert op.block is not None
    op.operands[0] = stack_in(op.block.func)
    return True


@spoil
def call_whose_block_takes_other_results(rng: random.Random, m: Module) -> bool:
    rng.choice(terms(m, "call")).edges[0].block.params[0].type = I64
    return True


@spoil
def call_with_two_edges(rng: random.Random, m: Module) -> bool:
    op = rng.choice(terms(m, "call"))
    op.edges *= 2
    return True


@spoil
def derivative_of_nothing(rng: random.Random, m: Module) -> bool:
    m.derived["d"] = Derived("nowhere", "vjp", (0,))
    return True


@spoil
def derivative_of_itself(rng: random.Random, m: Module) -> bool:
    m.derived["d"] = Derived("d", "vjp", (0,))
    return True


@spoil
def derivative_of_no_kind(rng: random.Random, m: Module) -> bool:
    m.derived["d"] = Derived("main", "grad", (0,))
    return True


@spoil
def rule_that_names_nothing(rng: random.Random, m: Module) -> bool:
    m.rules["main"] = Rule("checkpoint", ("nowhere",), ())
    return True


@spoil
def rule_of_nothing(rng: random.Random, m: Module) -> bool:
    m.rules["nowhere"] = Rule("checkpoint", ("main",), ())
    return True


@spoil
def rule_of_no_kind(rng: random.Random, m: Module) -> bool:
    m.rules["main"] = Rule("chain", ("main",), (0,))
    return True


@spoil
def rule_with_functions_of_other_types(rng: random.Random, m: Module) -> bool:
    m.rules["main"] = rng.choice([Rule("vjp", ("main", "main"), (0,)), Rule("jvp", ("main",), (0,)),
                                  Rule("checkpoint", ("main",), (2,))])
    return True


@spoil
def derivative_by_a_parameter_that_has_none(rng: random.Random, m: Module) -> bool:
    m.derived["d"] = Derived("main", "vjp", rng.choice([(2,), (0, 99), (1, 0), (0, 0), (-1,)]))
    return True


@spoil
def call_of_a_derivative_with_other_arguments(rng: random.Random, m: Module) -> bool:
    op = rng.choice(terms(m, "call"))
    op.attrs["callee"] = m.derive(op.attrs["callee"], "vjp", [0])
    return True
