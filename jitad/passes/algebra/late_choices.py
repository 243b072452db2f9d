"""Lets choices of coefficients wait until the end of what the next iteration waits for.

An envelope follower rises faster than it falls: ``rate = a if size > level else r`` has to wait for ``level``, and the
products with ``rate`` wait for the choice.  Both are computed meanwhile, and one of the results is chosen::

    c = gt size, level                        c = gt size, level
    rate = select c, a, r                     x = mul a, level
    next = mul rate, level        becomes     y = mul r, level
                                              next = select c, x, y

The results are the same bit for bit.  Only sums and products are computed twice, at most ``MOST`` of them.
"""

from __future__ import annotations

from ...ir.graph import Block, Op, Value
from ...ir.types import is_float_scalar
from ...ir.uses import counts, ops_of
from ..analysis.loops import Loop

TWICE = frozenset({"add", "sub", "mul", "neg"})
MOST = 8
"""The most operations that are computed twice.  These are fewer than what the processor computes while it waits."""

Choice = tuple[Value, Value, Value]
"""A condition, and the values if it is true and if it is false."""


def late_choices(loop: Loop, late: set[Value], region: set[Block]) -> None:
    """Delay the choices in the latch of an innermost loop; ``late``: what its iterations carry and wait for.

    ``region``: the blocks that read what the loop computes.
    """
    block = loop.latch
    if block is None:
        return
    choices, chain = _chosen(block, late, {v for v in loop.back_edge().args if is_float_scalar(v.type)})
    if not 0 < len(chain) <= MOST:
        return
    following: dict[Value, Choice] = {}
    ops, block.ops = block.ops, []
    for op in ops:
        if op in chain:
            c = next(choices[v][0] for v in op.operands if v in choices)
            x, y = (_copy(block, op, [following.get(v, choices.get(v, (c, v, v)))[k] for v in op.operands])
                    for k in (1, 2))
            following[op.result] = c, x, y
            op.name, op.operands, op.attrs = "select", [c, x, y], {}
        block.ops.append(op)
    read = counts(ops_of(region))
    block.ops = [op for op in block.ops if op.name != "select" or op.result in read]


def _chosen(block: Block, late: set[Value], passed: set[Value]) -> tuple[dict[Value, Choice], list[Op]]:
    """The values that one late condition decides on, and the sums and products of them that lead to ``passed``."""
    waits = set(late)
    choices: dict[Value, Choice] = {}
    chain: list[Op] = []
    for op in block.ops:
        waiting = not waits.isdisjoint(op.operands)
        chosen = {choices[v][0] for v in op.operands if v in choices}
        if op.name == "select" and is_float_scalar(op.result.type) and op.operands[0] in waits \
                and waits.isdisjoint(op.operands[1:]):
            choices[op.result] = op.operands[0], op.operands[1], op.operands[2]
        elif op.name in TWICE and len(chosen) == 1 and is_float_scalar(op.result.type):
            chain.append(op)
            if op.result not in passed:
                choices[op.result] = chosen.pop(), op.result, op.result
        if waiting:
            waits.update(op.results)
    leading = set(passed)
    for op in reversed(chain):
        if op.result in leading:
            leading.update(op.operands)
    return choices, [op for op in chain if op.result in leading]


def _copy(block: Block, op: Op, operands: list[Value]) -> Value:
    made = Op(op.name, operands, [op.result.type], dict(op.attrs), loc=op.loc)
    made.block = block
    block.ops.append(made)
    return made.result
