"""Activity analysis: the values that depend on the differentiated inputs and reach the result.

*Varied*: a float (or stack) that depends on a seed.  *Useful*: one on which a float result depends.
*Active*: both.  Stacks are always useful, so that every adjoint frame that one sweep pushes is popped by another.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.graph import Block, Function, Op, Value
from ..ir.types import Stack, carries_adjoint
from .derivatives import PARTIALS, ZERO


def differentiable_operands(op: Op) -> list[Value]:
    """The operands through which a derivative passes."""
    if op.name in ZERO:
        return []
    partials = PARTIALS.get(op.name)
    if partials is not None:
        return [v for v, d in zip(op.operands, partials) if d is not None and carries_adjoint(v.type)]
    return [v for v in op.operands if carries_adjoint(v.type)]


def _edges_into(func: Function) -> list[tuple[Value, Value]]:
    """(argument, parameter) for every edge, without the results of calls."""
    pairs: list[tuple[Value, Value]] = []
    for block in func.blocks:
        for edge in block.term.edges if block.term else ():
            pairs += [(a, p) for p, a in edge.passed()]
    return pairs


def call_results(block: Block) -> list[Value]:
    """The parameters of the continuation that receive the results of the call that ends ``block``."""
    assert block.term is not None and block.term.name == "call"
    return block.term.edges[0].results


def _reach(seeds: Iterable[Value], flows: dict[Value, list[Value]]) -> set[Value]:
    found = set(seeds)
    todo = list(found)
    while todo:
        for v in flows.get(todo.pop(), ()):
            if v not in found:
                found.add(v)
                todo.append(v)
    return found


def _flows(func: Function) -> dict[Value, list[Value]]:
    """Map each value that carries a derivative to the values into which it flows."""
    flows: dict[Value, list[Value]] = {}
    def note(source: Value, target: Value) -> None:
        if carries_adjoint(source.type) and carries_adjoint(target.type):
            flows.setdefault(source, []).append(target)
    for a, p in _edges_into(func):
        note(a, p)
    for block in func.blocks:
        for op in block.ops:
            for v in differentiable_operands(op):
                for r in op.results:
                    note(v, r)
        if block.term is not None and block.term.name == "call":
            for v in block.term.operands:
                for r in call_results(block):
                    note(v, r)
    return flows


def holds_nothing(v: Value) -> bool:
    """True if ``v`` is a stack without frames, or an undefined one."""
    return v.op is not None and v.op.name in ("undef", "stack_empty")


def varied(func: Function, seeds: Iterable[Value]) -> set[Value]:
    """The values that depend on ``seeds``; stacks that hold anything count as varied too."""
    return _varied(func, seeds, _flows(func))


def _varied(func: Function, seeds: Iterable[Value], flows: dict[Value, list[Value]]) -> set[Value]:
    stacks = [r for op in func.all_ops() for r in op.results if isinstance(r.type, Stack)]
    return _reach([*seeds, *(s for s in stacks if not holds_nothing(s))], flows)


def active(func: Function, seeds: Iterable[Value]) -> set[Value]:
    """The values that depend on ``seeds`` and reach a result of the function."""
    flows = _flows(func)
    backward: dict[Value, list[Value]] = {}
    for source, targets in flows.items():
        for t in targets:
            backward.setdefault(t, []).append(source)
    results = [v for b in func.blocks if b.term is not None and b.term.name == "return"
               for v in b.term.operands if carries_adjoint(v.type)]
    stacks = {v for b in func.blocks for v in [*b.params, *(r for op in b.ops for r in op.results)]
              if isinstance(v.type, Stack) and not holds_nothing(v)}
    useful = _reach([*results, *stacks], backward)
    return (_varied(func, seeds, flows) & useful) | stacks
