"""Computes parts of cotangents that read a loop's results after the loop's reverse sweep.

In ``return f(w) * s``, behind a loop that computes ``s``, the cotangent of ``w`` reads ``s`` and the loop's reverse
sweep does not::

    ^back(seed):      x = mul s, seed;  y = mul x, f'(w);  s_bar = mul f(w), seed;  jump ^loop_bar(y, s_bar)
    …
    ^last(w_bar: …):

The part ``y`` of the cotangent is only added to in the reverse sweep, so it can be added in ``^last`` as well.  Nothing
before the loop's reverse sweep needs its values then, and the two loops may be merged (``recompute_plan.py``)::

    ^back(seed):      s_bar = mul f(w), seed;  jump ^loop_bar(0, s_bar)
    …
    ^last(w_bar': …):  x = mul s, seed;  y = mul x, f'(w);  w_bar = add {acc} w_bar', y

The cotangent may also be an array, to which the first block adds an element.

*Parts* of a value of the reverse sweep: what the detached ops would have added to it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ...ir.builder import Builder
from ...ir.dominance import blocks_from
from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import Scalar
from ...passes.analysis.loops import Loop
from ..reverse import ThereAndBack
from . import late_results

SUMS = ("add_at", "add_slice", "add_put")


@dataclass(frozen=True)
class Part:
    """The op ``name`` adds ``added``, its operands behind the first; ``number`` orders the parts."""

    number: int
    name: str
    added: tuple[Value, ...]
    attrs: dict[str, Any]


def detach(sweep: ThereAndBack, loops: Collection[Loop]) -> bool:
    """Move what reads results of ``loops`` from the first reverse block to ``sweep.late``; False if that cannot be."""
    detached = _Detached(sweep)
    if not detached.find(late_results.late_values(sweep, loops)) \
            or not all(late_results.computable(sweep, v, loops) for v in detached.reads) or not detached.trace():
        return False
    detached.move()
    return True


def reads(sweep: ThereAndBack) -> list[Value]:
    """The forward values that the detached ops read."""
    forward = set(sweep.forward)
    return [*dict.fromkeys(v for op in sweep.late for v in op.operands if v.block in forward)]


class _Detached:
    """The ops to detach, and the values that lack their results."""

    def __init__(self, sweep: ThereAndBack) -> None:
        self.sweep, self.first, self.last = sweep, sweep.first_bar, sweep.last_bar
        self.ops: dict[Op, None] = {}                        # of the first block
        self.moved: dict[Op, None] = {}                      # of the last block, which read values that lack parts
        self.values: dict[Value, None] = {}                  # the results of ``ops``
        self.parts: dict[Value, tuple[Part, ...]] = {}
        self.without: dict[Value, Value] = {}                # for sums with a detached value: the other operand
        self.reads: list[Value] = []
        self.order = blocks_from(self.first)

    def find(self, late: set[Value]) -> bool:
        """Find the ops of the first block that read ``late`` values; False if there is none, or one has to stay."""
        for op in self.first.ops:
            if any(v in late or v in self.values for v in op.operands):
                if op.name in SUMS and self._adds(op) and not late.intersection(op.operands):
                    continue
                if not _is_scalar(op):
                    return False
                self.ops[op], self.values[op.result] = None, None
                self.parts[op.result] = (Part(len(self.values), "add", (op.result,), {"acc": True}),)
        self.reads = [v for op in self.ops for v in op.operands if v not in self.values]
        return bool(self.ops) and self.first is not self.last

    def _adds(self, op: Op) -> bool:
        """True if nothing but what is added is a detached value."""
        return op.operands[1] in self.values and not any(v in self.values for v in (op.operands[0], *op.operands[2:]))

    def trace(self) -> bool:
        """Find the parts of all values; False if a part is read before the last block, or depends on the path."""
        for block in self.order:
            if not all(self._op(op) for op in block.ops if op not in self.ops):
                return False
            if block.term is None:
                continue
            if any(self.parts.get(v) for v in block.term.operands):
                return False
            for p, a in (pair for edge in block.term.edges for pair in edge.passed()):
                self.parts.setdefault(p, self.parts.get(a, ()))
        return all(self.parts[p] == self.parts.get(a, ()) for block in self.order if block.term is not None
                   for edge in block.term.edges for p, a in edge.passed())

    def _op(self, op: Op) -> bool:
        """Note the parts of an op's result; False if the op has to know them."""
        lacking = [i for i, v in enumerate(op.operands) if self.parts.get(v) or v.op in self.moved]
        if not lacking:
            return True
        array, *added = op.operands
        if op.name in SUMS and lacking == [0] and array.op not in self.moved:
            self.parts[op.result] = self.parts[array]
        elif op.name in SUMS and op.block is self.first and self._adds(op):
            part = Part(len(self.parts), op.name, tuple(added), op.attrs)
            self.parts[op.result], self.without[op.result] = (*self.parts.get(array, ()), part), array
        elif op.block is self.last:
            self.moved[op] = None
            return _is_scalar(op) or op.name in SUMS
        elif op.name == "add" and op.attrs.get("acc") and _is_scalar(op):
            parts = (part for v in op.operands for part in self.parts.get(v, ()))
            self.parts[op.result] = tuple(sorted(parts, key=lambda part: part.number))
            kept = [v for v in op.operands if v not in self.values]
            if len(kept) < 2:
                self.without[op.result] = kept[0] if kept else op.operands[0]
        else:
            return False
        return True

    # --- moving ---------------------------------------------------------------------------------------

    def move(self) -> None:
        """Move the ops, and complete the values that the last block reads."""
        sweep, b = self.sweep, Builder(self.first)
        self.first.ops = [op for op in self.first.ops if op not in self.ops]
        self.last.ops = [op for op in self.last.ops if op not in self.moved]
        left = {v: b.const(0.0, v.type) for v in self.values}                          # type: ignore[arg-type]
        for v, other in self.without.items():
            left[v] = left.get(other, other)
        for block in self.order:
            block.ops = [op for op in block.ops if not (op.results and op.result in self.without)]
            for op in block.all_ops():
                op.replace_uses(left)
        sweep.late = [*self.ops]
        read = dict.fromkeys([*(v for op in self.moved for v in op.operands), *sweep.cotangents])
        complete = {v: self._complete(v, left.get(v, v)) for v in read if v not in self.values and self.parts.get(v)}
        for op in self.moved:
            op.replace_uses(complete)
        sweep.late += self.moved
        sweep.cotangents = [complete.get(v, v) for v in sweep.cotangents]

    def _complete(self, v: Value, lacking: Value) -> Value:
        """Emit the sum of a value and of its parts."""
        for part in self.parts[v]:
            added = Op(part.name, [lacking, *part.added], [v.type], dict(part.attrs))
            added.block = self.last
            self.sweep.late.append(added)
            lacking = added.result
        return lacking


def _is_scalar(op: Op) -> bool:
    """True for elementwise ops on scalars, which may run later."""
    return OPS[op.name].elementwise and all(isinstance(v.type, Scalar) for v in (*op.results, *op.operands))


def place(sweep: ThereAndBack, at_end: late_results.AtEnd, block: Block) -> None:
    """Append the detached ops to ``block``, where they read the final values of merged loops."""
    for op in sweep.late:
        op.replace_uses({v: at_end(v) for v in op.operands})
        op.block = block
        block.ops.append(op)
