"""Which values are still needed where: backward dataflow over blocks.

``live_in[B]``   values defined outside ``B`` that ``B`` or something after it reads
                 (parameters of ``B`` are its own, so they are not in it);
``live_out[B]``  the union of ``live_in`` over the successors of ``B``, less what the edges pass: values that the
                 successors *see directly*;
``at_end[B]``    ``live_out[B]`` and the arguments of the edges that leave ``B``: what the end of ``B`` must still hold.

Every set is a dict with ``None`` values, so that its order is the same in each run.  Inside, sets are bits of integers,
and become dicts (to be read only: blocks with equal sets share one) when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ...ir.dominance import reverse_postorder
from ...ir.graph import Block, Function, Value

ValueSet = dict[Value, None]


class Liveness:
    """Of all values, or of those that are ``wanted``."""

    def __init__(self, func: Function, wanted: Callable[[Value], bool] | None = None) -> None:
        self._wanted = wanted
        self._order = reverse_postorder(func)
        self._values: list[Value] = []                   # those read outside the block that defines them
        self._number: dict[Value, int] = {}
        self._decoded: dict[int, ValueSet] = {}
        reads = {b: self._reads(b) for b in self._order}
        defined = dict.fromkeys(self._order, 0)
        for i, v in enumerate(self._values):
            defined[v.block] |= 1 << i
        self._in = self._solve(reads, defined)

    def before(self, block: Block) -> ValueSet:
        """``live_in`` of one block."""
        return self._decode(self._in[block])

    @cached_property
    def live_in(self) -> dict[Block, ValueSet]:
        return {b: self._decode(mask) for b, mask in self._in.items()}

    @cached_property
    def live_out(self) -> dict[Block, ValueSet]:
        return {b: self._decode(self._out(b)) for b in self._order}

    @cached_property
    def at_end(self) -> dict[Block, ValueSet]:
        return {b: self.live_out[b] | {a: None for e in (b.term.edges if b.term else ()) for a in e.args
                                       if self._wanted is None or self._wanted(a)} for b in self._order}

    def _solve(self, reads: dict[Block, int], defined: dict[Block, int]) -> dict[Block, int]:
        """Sweep from the end until nothing moves: about as often as loops nest."""
        self._in = dict.fromkeys(self._order, 0)
        changed = True
        while changed:
            changed = False
            for b in reversed(self._order):
                here = reads[b] | self._out(b) & ~defined[b]
                if here != self._in[b]:
                    self._in[b], changed = here, True
        return self._in

    def _out(self, block: Block) -> int:
        mask = 0
        for e in block.term.edges if block.term else ():
            mask |= self._in[e.block]
        return mask

    def _reads(self, block: Block) -> int:
        """Values read in the block that are defined elsewhere."""
        mask = 0
        for op in block.all_ops():
            for v in op.used():
                if v.block is not block and (self._wanted is None or self._wanted(v)):
                    number = self._number.get(v)
                    if number is None:
                        number = self._number[v] = len(self._values)
                        self._values.append(v)
                    mask |= 1 << number
        return mask

    def _decode(self, mask: int) -> ValueSet:
        found = self._decoded.get(mask)
        if found is None:
            found = self._decoded[mask] = {}
            digits = bin(mask)[:1:-1]                    # finding the ones in text is quicker than in the number
            at = digits.find("1")
            while at >= 0:
                found[self._values[at]] = None
                at = digits.find("1", at + 1)
        return found
