"""The narrowest integer type that holds a saved integer.

The reverse sweep reads the number of the path that an iteration took, among three or more.  In eight bytes these
numbers fill eight times the memory that they need, and a large array of them is memory which the operating system
clears first.  So are directions, states and remainders saved, whose range follows from how they are computed::

    ^join(%way):                                  ^join(%way):
      %frames2 = set %frames1, %way, %i             %narrow = cast {dtype = i8} %way
                                        becomes     %frames2 = set %frames1, %narrow, %i
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.graph import Block, Edge, Value
from ..ir.types import I8, I16, I32, I64, Scalar
from ..passes.analysis.ranges import Ranges

NARROW = (I8, I16, I32)
MOST = 32
"""The most values that are followed through joins."""


def narrowest(v: Value, preds: Mapping[Block, Sequence[tuple[Block, Edge]]]) -> Scalar | None:
    """The narrowest type for an integer ``v`` of 64 bits, if a narrower one holds all its values."""
    if v.type != I64:
        return None
    ranges, todo, seen = Ranges(), [v], {v}
    low, high = 0, 0
    while todo:
        u = todo.pop()
        if isinstance(u.owner, Block):
            incoming = [e.argument(u) for _, e in preds.get(u.owner, ())]
            if not incoming or None in incoming or len(seen) > MOST:
                return None
            new = [w for w in incoming if w is not None and w not in seen]
            seen.update(new)
            todo += new
        elif u.op is not None and u.op.name != "undef":          # undefined where nothing reads it
            least, most = ranges.interval(u)
            low, high = min(low, least), max(high, most)
    return next((t for t in NARROW if t.low <= low and high <= t.high), None)
