"""Live values, by backward dataflow over blocks.

``live_in[B]``   values defined outside ``B`` that ``B`` or a later block reads, so without the parameters of ``B``;
``live_out[B]``  the union of ``live_in`` over the successors of ``B``: values that the successors read directly, not
                 as block parameters.

Each set is a dict with ``None`` values, so that its order is the same in each run.  Internally, a set is a bit set in
an integer.  It is decoded on demand, and blocks with equal sets share one dict, which must not be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..dominance import reverse_postorder
from ..graph import Block, Function, Op, Value

ValueSet = dict[Value, None]


class Liveness:
    """Liveness of all values, or of those for which ``wanted`` holds.

    ``number`` gives some values the numbers 0, 1, 2, …, which then are those of their bits.
    """

    def __init__(self, func: Function, wanted: Callable[[Value], bool] | None = None,
                 number: Mapping[Value, int] | None = None) -> None:
        self._wanted = wanted
        self._order = reverse_postorder(func)
        self._values: list[Value] = list(number or ())   # and those read outside their defining block
        self._number: dict[Value, int] = dict(number or {})
        self._decoded: dict[int, ValueSet] = {}
        reads = {b: self._reads(b) for b in self._order}
        defined = dict.fromkeys(self._order, 0)
        for i, v in enumerate(self._values):
            defined[v.block] |= 1 << i
        self._in = self._solve(reads, defined)

    def before(self, block: Block) -> ValueSet:
        """``live_in`` of one block."""
        return self._decode(self._in[block])

    def among(self, values: Iterable[Value], block: Block) -> list[Value]:
        """Those of ``values`` that are in ``live_in`` of the block, in the order of ``before``."""
        mask, number = self._in[block], self._number
        live = (n for v in values if (n := number.get(v)) is not None and mask >> n & 1)
        return [self._values[n] for n in sorted(live)]

    def bits_before(self, block: Block) -> int:
        """The bits of ``live_in`` of one block."""
        return self._in[block]

    def bits_after(self, block: Block) -> int:
        """The bits of ``live_out`` of one block."""
        return self._out(block)

    def is_live_before(self, v: Value, block: Block) -> bool:
        """True if ``v`` is in ``live_in`` of the block."""
        number = self._number.get(v)
        return number is not None and bool(self._in.get(block, 0) >> number & 1)

    def is_live_after(self, v: Value, block: Block) -> bool:
        """True if ``v`` is in ``live_out`` of the block."""
        number = self._number.get(v)
        return number is not None and bool(self._out(block) >> number & 1)

    def _solve(self, reads: dict[Block, int], defined: dict[Block, int]) -> dict[Block, int]:
        """Sweep in postorder until a fixed point; the number of sweeps is about the depth of loops."""
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
        """The bits of values that the block reads and another block defines."""
        mask, wanted, numbers = 0, self._wanted, self._number
        read = dict.fromkeys([v for op in block.ops for v in op.operands])
        if block.term is not None:
            read.update(dict.fromkeys(block.term.used()))
        for v in read:
            owner = v.owner
            if owner is block or type(owner) is Op and owner.block is block:     # a property is a call
                continue
            if wanted is None or wanted(v):
                number = numbers.get(v)
                if number is None:
                    number = numbers[v] = len(self._values)
                    self._values.append(v)
                mask |= 1 << number
        return mask

    def _decode(self, mask: int) -> ValueSet:
        found = self._decoded.get(mask)
        if found is None:
            found = self._decoded[mask] = {}
            digits = bin(mask)[:1:-1]                    # finding ones is faster in a string than in an int
            at = digits.find("1")
            while at >= 0:
                found[self._values[at]] = None
                at = digits.find("1", at + 1)
        return found
