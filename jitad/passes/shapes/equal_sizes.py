"""Makes sizes that a check compares one value, from the check on; the check comes ahead of what it does not need.

Slices of two arrays, or of one array by different expressions, have sizes that only the check of an operation with
both tells to be equal.  What computes the operands is then in front of the check, and cannot share a nest::

    a = slice x, 0, n                      check (eq n, m)
    b = mul a, 2.0                         a = slice x, 0, n
    c = slice y, 1, m            becomes   b = mul a, 2.0
    check (eq n, m)                        c = slice y, 1, n
    d = add b, c                           d = add b, c
    e = broadcast_to d, m

Array operations have no effect, so that nothing tells whether they were executed when the check fails.
"""

from __future__ import annotations

from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import CONSUMING, EFFECTS
from ...ir.types import Array
from ..analysis.cfg import substitute
from ..analysis.loops import loop_forest
from ..analysis.sizes import Solver
from .shape_specialise import equalities

GIVEN = {"slice": slice(2, None, 3), "fill": slice(1, None), "broadcast_to": slice(1, None)}
"""The operands that are sizes of the result."""


def equal_sizes(module: Module) -> bool:
    """Move the checks of sizes, and use them, in every function; returns True if anything has changed."""
    return any([_use(func) for func in module.functions.values()
                if any(op.name == "check" and any(_computed(*xy) for xy in equalities(op)) for op in func.all_ops())])


def _computed(x: Value, y: Value) -> bool:
    """True for computed sizes.  Those of whole arrays stay: passes compare an index with the size of its own array."""
    return None not in (x.op, y.op) and x.const is None and y.const is None and \
        any(v.op is not None and v.op.name != "dim" for v in (x, y))


def _use(func: Function) -> bool:
    changed = any([_move_checks(block) for block in func.blocks])
    scope = _Scope(func)
    for block in scope.forest.dom.preorder():
        for op in block.ops:
            changed |= scope.rewrite(op)
            for x, y in equalities(op) if op.name == "check" else ():
                scope.learn(x, y, block)
    same = _of_own_size(func)
    substitute(func, same)
    return changed or bool(same)


def _move_checks(block: Block) -> bool:
    """Put each check of sizes, with all that it needs, ahead of other operations without an effect."""
    before, out, start = block.ops, list[Op](), 0
    for op in before:
        if op.name == "check" and any(_computed(*xy) for xy in equalities(op)):
            needed = _needed(op, out[start:])
            out[start:] = [*(x for x in out[start:] if x in needed), op, *(x for x in out[start:] if x not in needed)]
            start += len(needed) + 1
        else:
            out.append(op)
            if op.name in EFFECTS or op.name in CONSUMING:
                start = len(out)
    block.ops = out
    return out != before


def _needed(check: Op, ops: list[Op]) -> set[Op]:
    """Those of ``ops`` on which a check depends."""
    found, todo = set[Op](), [v.op for v in check.operands]
    inside = set(ops)
    while todo:
        op = todo.pop()
        if op in inside and op not in found:
            found.add(op)
            todo += [v.op for v in op.operands]
    return found


class _Scope:
    """The sizes that are known to be others, each in the blocks that its check dominates."""

    def __init__(self, func: Function) -> None:
        self.forest = loop_forest(func)
        self._known: dict[Value, tuple[Value, Block]] = {}

    def learn(self, x: Value, y: Value, block: Block) -> None:
        if not _computed(x, y):
            return
        x, y = self._here(x, block), self._here(y, block)
        if x is not y:
            assert x.op is not None and y.op is not None
            first, later = (x, y) if self.forest.dom.comes_first(x.op, y.op) else (y, x)
            self._known[later] = first, block

    def rewrite(self, op: Op) -> bool:
        """Use what is known for the sizes of the result of ``op``."""
        if op.name not in GIVEN or not isinstance(op.result.type, Array) or op.block is None:
            return False
        new = [self._here(v, op.block) for v in op.operands]
        operands = list(op.operands)
        operands[GIVEN[op.name]] = new[GIVEN[op.name]]
        changed, op.operands = operands != op.operands, operands
        return changed

    def _here(self, v: Value, block: Block) -> Value:
        """The size that ``v`` is known to be in ``block``; loops stay closed."""
        while v in self._known:
            first, since = self._known[v]
            assert first.block is not None
            loop = self.forest.loop_of(first.block)
            if not self.forest.dom.dominates(since, block) or loop is not None and block not in loop.blocks:
                break
            v = first
        return v


def _of_own_size(func: Function) -> dict[Value, Value]:
    """The results of ``broadcast_to`` that have the sizes of their operands, with these."""
    solver, found = Solver(func), dict[Value, Value]()
    for op in func.all_ops():
        if op.name == "broadcast_to" and op.operands[0].type == op.result.type and isinstance(op.result.type, Array) \
                and all(_is_size(solver, op.operands[0], k, n) for k, n in enumerate(op.operands[1:])):
            found[op.result] = op.operands[0]
    return found


def _is_size(solver: Solver, array: Value, axis: int, n: Value) -> bool:
    if n.op is not None and n.op.name == "dim":
        return solver.size((array, axis)) == solver.size((n.op.operands[0], n.op.attrs["axis"]))
    return solver.size((array, axis)) == (n if n.const is None else n.const)
