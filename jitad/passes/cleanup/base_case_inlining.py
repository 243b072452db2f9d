"""Inlines the base case of a recursive function into its recursive calls.

A function over a tree begins with ``if t is None: return 0.0``, and half of all calls execute only that.  Where a
recursive function starts with a cheap test and one side of it returns at once, the pass copies the test and that side
to the recursive calls::

    call @f(x) -> ^k          becomes        branch c(x), ^quick, ^slow
                                             ^quick: jump ^k(result)
                                             ^slow:  call @f(x) -> ^k

There is then one call for each node and none for the empty children of a leaf.  The derivative saves no frame for
these either.
"""

from __future__ import annotations

from ...ir.clone import clone_op
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ..analysis.callgraph import CallGraph
from ..analysis.cfg import set_term

CHEAP = frozenset(name for name, op in OPS.items()
                  if op.cost <= 1 and (op.elementwise or name in ("get", "dim", "const")))
LONGEST = 8
"""The most ops that are copied to a call."""


def base_case_inlining(module: Module) -> None:
    """Inline the base cases of all recursive functions of a module."""
    graph = CallGraph(module)
    endings = {name: found for name in graph.recursive if name not in module.rules
               and (found := _ending(module.functions[name])) is not None}
    for name in graph.recursive:
        for block in list(module.functions[name].blocks):
            term = block.term
            if term is not None and term.name == "call" and term.attrs["callee"] in endings \
                    and graph.component[term.attrs["callee"]] == graph.component[name]:
                _guard(block, module.functions[term.attrs["callee"]], endings[term.attrs["callee"]])


def _ending(func: Function) -> int | None:
    """The index of the edge of the function's first branch that returns at once, if only one of the two does."""
    term = func.entry.term
    if func.attrs.get("inline") == "never" or term is None or term.name != "branch" or not _cheap(func.entry.ops):
        return None
    short = [_returns(edge.block, len(func.entry.ops)) for edge in term.edges]
    return short.index(True) if short.count(True) == 1 else None


def _cheap(ops: list[Op]) -> bool:
    return len(ops) <= LONGEST and all(op.name in CHEAP for op in ops)


def _returns(block: Block, count: int) -> bool:
    """True if ``block`` reaches a return by jumps alone, through few and cheap ops.

    ``count``: the ops that will be copied anyway; the total must not exceed ``LONGEST``.
    """
    while block.term is not None:
        count += len(block.ops)
        if count > LONGEST or not _cheap(block.ops) or block.term.name not in ("jump", "return"):
            return False
        if block.term.name == "return":
            return True
        block = block.term.edges[0].block
    return False


def _guard(block: Block, callee: Function, side: int) -> None:
    """Insert the test before the call that ends ``block``; ``side`` is the edge of the base case."""
    call, test = block.term, callee.entry.term
    assert call is not None and test is not None
    quick, slow = block.func.new_block("quick"), block.func.new_block("slow")
    values: dict[Value, Value] = dict(zip(callee.params, call.operands))
    _copy(callee.entry.ops, block, values)
    results = _copy_path(test.edges[side], quick, values)
    after = call.edges[0]
    set_term(quick, "jump", edges=[Edge(after.block, [*results, *after.args])])
    slow.term, call.block = call, slow
    edges = [Edge(quick, []), Edge(slow, [])]
    set_term(block, "branch", [values.get(v, v) for v in test.operands], edges if side == 0 else edges[::-1])


def _copy_path(edge: Edge, into: Block, values: dict[Value, Value]) -> list[Value]:
    """Copy the ops from ``edge`` up to the return; returns the values that are returned."""
    while True:
        values.update(zip(edge.block.params, [values.get(a, a) for a in edge.args]))
        _copy(edge.block.ops, into, values)
        term = edge.block.term
        assert term is not None
        if term.name == "return":
            return [values.get(v, v) for v in term.operands]
        edge = term.edges[0]


def _copy(ops: list[Op], into: Block, values: dict[Value, Value]) -> None:
    for op in ops:
        copy = clone_op(op, values)
        copy.block = into
        into.ops.append(copy)
