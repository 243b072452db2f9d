"""Remainders by numbers that are no literals: of a number that is less than its divisor, no division is made.

::

    branch 0 <= x < d, ^ok(x), ^divide          ; %r = mod %x, %d
    ^divide:  …  jump ^ok(remainder)
    ^ok(r):

Nearly all such remainders are of neighbours on a periodic grid or in a ring, which seldom wrap, or of numbers that are
always large, as a hash is: a branch on it is predicted, and a division takes 10 to 18 cycles.  Literals have no
division, and one that gives the quotient too is made anyway.  Streaming on a lattice took 1.6 times as long.

A division of numbers that are not negative, as most are, needs no correction by signs: a greatest common divisor takes
0.75 of the time.
"""

from __future__ import annotations

from ...ir.graph import Op
from ...ir.types import I64
from ...ir.uses import ops_of
from ...passes.analysis.loops import LoopForest
from ...passes.analysis.ranges import Ranges
from ..builder.function_builder import FunctionBuilder, unlikely
from ..math import ops


def small_remainders(forest: LoopForest) -> dict[Op, bool]:
    """The remainders in question, in loops, each with True if its divisor is known not to be negative."""
    ranges = Ranges()
    divided = {tuple(op.operands) for op in ops_of(forest.dom.order) if op.name == "floordiv"}
    return {op: bool(op.attrs.get("unsigned")) or ranges.interval(op.operands[1])[0] >= 0
            for loop in forest.loops for op in ops_of(loop.blocks)
            if op.name == "mod" and op.result.type == I64 and op.operands[1].const is None
            and tuple(op.operands) not in divided}


def remainder(fn: FunctionBuilder, op: Op, positive: bool) -> str:
    """Emit a remainder; ``positive``: the divisor is not negative."""
    code = fn.code
    x, d = (fn.scalar(v) for v in op.operands)
    inside = code.icmp("ult", "i64", x, d, hint="c")
    if not positive:
        inside = code.arith("and", "i1", code.icmp("sgt", "i64", d, "0", hint="c"), inside)
    divide, go_on = code.label("divide"), code.label("ok")
    result = code.phi("i64", go_on, "r")
    code.add_incoming(result, x)
    code.branch(inside, go_on, divide)
    code.start(divide)
    if positive and not op.attrs.get("unsigned"):
        safe = code.select(code.icmp("eq", "i64", d, "0", hint="c"), "i64", "1", d)
        r = code.arith("srem", "i64", x, safe)
        divided = code.select(code.icmp("slt", "i64", r, "0", hint="c"), "i64", code.arith("add", "i64", r, d), r)
    elif positive:
        divided = ops.scalar(fn, op, [x, d])
    else:
        usual, rare = code.label("usual"), code.label("rare")
        code.branch(code.icmp("slt", "i64", code.arith("or", "i64", x, d), "0", hint="c"), rare, usual,
                    unlikely(fn.writer))
        code.start(rare)
        code.add_incoming(result, ops.scalar(fn, op, [x, d]))
        code.jump(go_on)
        code.start(usual)
        divided = code.arith("urem", "i64", x, code.select(code.icmp("eq", "i64", d, "0", hint="c"), "i64", "1", d))
    code.add_incoming(result, divided)
    code.jump(go_on)
    code.start(go_on)
    return result
