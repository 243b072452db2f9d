"""Which values are still needed where: backward dataflow over blocks.

``live_in[B]``   values defined outside ``B`` that ``B`` or something after it reads
                 (parameters of ``B`` are its own, so they are not in it);
``live_out[B]``  the union of ``live_in`` over the successors of ``B``, less what the edges pass: values that the
                 successors *see directly*;
``at_end[B]``    ``live_out[B]`` and the arguments of the edges that leave ``B``: what the end of ``B`` must still hold.

Every set is a dict with ``None`` values, so that its order is the same in each run.
"""

from __future__ import annotations

from ..ir.graph import Block, Function, Value
from .dominance import reverse_postorder

ValueSet = dict[Value, None]


class Liveness:
    def __init__(self, func: Function) -> None:
        order = reverse_postorder(func)
        reads = {b: _reads(b) for b in order}
        own = {b: _defined(b) for b in order}
        self.live_in: dict[Block, ValueSet] = {b: {} for b in order}
        self.live_out: dict[Block, ValueSet] = {b: {} for b in order}
        preds: dict[Block, list[Block]] = {b: [] for b in order}
        for b in order:
            for s in b.successors():
                preds[s].append(b)
        todo = dict.fromkeys(reversed(order))
        while todo:
            b = next(iter(todo))
            del todo[b]
            out: ValueSet = {}
            for s in b.successors():
                out |= self.live_in[s]
            self.live_out[b] = out
            here = reads[b] | {v: None for v in out if v not in own[b]}
            if len(here) != len(self.live_in[b]):        # sets only grow
                self.live_in[b] = here
                todo |= dict.fromkeys(preds[b])
        self.at_end: dict[Block, ValueSet] = {
            b: self.live_out[b] | {a: None for e in (b.term.edges if b.term else ()) for a in e.args} for b in order}


def _defined(block: Block) -> set[Value]:
    return {*block.params, *(r for op in block.ops for r in op.results)}


def _reads(block: Block) -> ValueSet:
    """Values read in the block that are defined elsewhere."""
    return {v: None for op in block.all_ops() for v in op.used() if v.block is not block}
