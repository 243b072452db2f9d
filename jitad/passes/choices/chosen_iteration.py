"""The part of an iteration that computes one value, to be computed again for the iteration with another number.

It is a list of ops, or blocks with their control flow where a value depends on it, as the sum of an inner loop does.
An iteration that has computed the value has loaded the same elements and passed the same checks, so checks are left
out, and a branch that leads to the value by one side only is taken.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar
from ..analysis.loops import Loop

LONGEST = 64
"""The most ops that are computed again."""


class ChosenIteration:
    """The ops that compute ``new`` in an iteration of ``loop``.

    ``ops``: in order.  ``blocks``: the blocks with their control flow, in order; empty if it does not matter.
    ``found``: False if ``new`` needs more than the counter ``iv`` and values from outside of the loop.
    ``derived``: True after differentiation.
    """

    def __init__(self, loop: Loop, iv: Value, dom: Dominators, new: Value, derived: bool = False) -> None:
        self._loop, self._iv, self._dom, self._new, self._derived = loop, iv, dom, new, derived
        self._needed: set[Op] = set()
        self._params = {iv}
        self.blocks: list[Block] = []
        self.found = self._find()
        self.ops = [op for b in dom.in_order(loop.blocks) for op in b.ops if op in self._needed] if self.found else []

    def _find(self) -> bool:
        todo = [self._new]
        while todo:
            v = todo.pop()
            if v.block not in self._loop.blocks or v in self._params or v.op in self._needed:
                continue
            if v.op is None:
                if v.block is self._loop.head or not isinstance(v.type, Scalar) or not self._enter_blocks(todo):
                    return False
                self._params.add(v)
                todo += self._arguments(v)
            elif not self._is_pure(v.op) or len(self._needed) == LONGEST:
                return False
            else:
                self._needed.add(v.op)
                todo += v.op.operands
        return True

    def _is_pure(self, op: Op) -> bool:
        """True if the op may be computed again; an array may be one that the iteration has made."""
        if OPS[op.name].effect or OPS[op.name].consumes or len(op.results) != 1 \
                or not isinstance(op.result.type, (Scalar, Array)):
            return False
        return op.name != "get" or self._derived or not is_scratch(self._loop, op.operands[0])

    def is_indirect(self) -> bool:
        """True if elements are read at indices that are computed from elements."""
        loaded = set[Value]()
        for op in self.ops:
            if op.name == "get" and not loaded.isdisjoint(op.operands[1:]):
                return True
            if op.name == "get" or not loaded.isdisjoint(op.operands):
                loaded.add(op.result)
        return False

    def _enter_blocks(self, todo: list[Value]) -> bool:
        """Enter the blocks that lead to ``new``, and on which value each of them depends; False if that is too many."""
        if self.blocks:
            return True
        found, walk = {self._new.block}, [self._new.block]
        while walk:
            block = walk.pop()
            new = [p for p in self._dom.preds[block] if p not in found] if block is not self._loop.head else []
            found.update(new)
            walk += new
        if len(found) > LONGEST or not found <= self._loop.blocks:
            return False
        self.blocks = self._dom.in_order(found)
        todo += [v for b in self.blocks if len(self._edges(b)) > 1 and b.term is not None for v in b.term.operands]
        return True

    def _edges(self, block: Block) -> list[Edge]:
        """The edges by which a block leads to ``new``."""
        if block is self._new.block or block.term is None:
            return []
        return [e for e in block.term.edges if e.block in self.blocks and e.block is not self._loop.head]

    def _arguments(self, p: Value) -> list[Value]:
        return [a for b in self.blocks for e in self._edges(b) if e.block is p.block
                for q, a in e.passed() if q is p]

    # --- copies ---------------------------------------------------------------------------------------

    def continue_at(self, go: Block, b: Builder, number: Value) -> None:
        """Compute the value for the iteration ``number``, from where ``b`` stands, and jump to ``go`` with it."""
        values = {self._iv: number}
        if self.blocks:
            b.jump(self._copy_blocks(go, b.func, values), [number])
        else:
            b.jump(go, [self.compute(b, number)])

    def compute(self, b: Builder, number: Value) -> Value:
        """The value for the iteration ``number``, if control flow does not matter."""
        values = {self._iv: number}
        for op in self.ops:
            copy_op(op, b, values)
        return values.get(self._new, self._new)

    def _copy_blocks(self, go: Block, func: Function, values: dict[Value, Value]) -> Block:
        """Copy the blocks, of which the last jumps to ``go``; returns the first."""
        copies = {old: func.new_block(old.name) for old in self.blocks}
        for old, copy in copies.items():
            values |= {p: copy.add_param(p.type, p.hint) for p in old.params if p in self._params}
            for op in old.ops:
                if op in self._needed:
                    copy_op(op, Builder(copy), values)
        for old, copy in copies.items():
            edges = [(copies[e.block], [values.get(a, a) for p, a in e.passed() if p in self._params])
                     for e in self._edges(old)]
            at = Builder(copy, self.ops[-1].loc)
            if old is self._new.block:
                at.jump(go, [values.get(self._new, self._new)])
            elif len(edges) == 1:
                at.jump(*edges[0])
            else:
                assert old.term is not None
                condition, = old.term.operands
                at.branch(values.get(condition, condition), *edges[0], *edges[1])
        return copies[self._loop.head]


def is_scratch(loop: Loop, array: Value) -> bool:
    """True if each iteration of the loop around has its own array, which neither it nor ``loop`` carries.

    Its cotangent would be scattered into, at an index that depends on data, and not stay in lanes or registers.
    """
    around = loop.parent
    return around is not None and array.block in around.blocks - loop.blocks and array.owner is not around.head


def copy_op(op: Op, b: Builder, values: dict[Value, Value]) -> Value:
    """Copy an op with one result to where ``b`` stands; enters the copy's result in ``values``."""
    copy = clone_op(op, values)
    copy.block = b.block
    b.block.ops.append(copy)
    return copy.result
