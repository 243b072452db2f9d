"""Unrolls counted loops with a small constant trip count completely.

Runs before differentiation, so that carried values stay in registers and indices become constants.  Inner loops come
first: the loop around an unrolled one may then be small enough itself.  Of a nest over a triangle, as in De Boor's
recursion or a factorisation of three columns, the outer loop comes first: it makes the inner trip counts constants.

Branches that the counter decides, as of a table of substitutions with ``if c == d``, leave the side that is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from ...ir.clone import clone_blocks
from ...ir.dominance import Dominators, dominators
from ...ir.evaluate.fold import integer
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, Scalar, is_float
from ..analysis.cfg import merge_chains, remove_unreachable, set_term
from ..analysis.loops import Loop, counted, loop_forest, raising_blocks

MOST_ITERATIONS = 8
"""The largest trip count of a loop that is unrolled.  With 4 or 16 none of 159 ordinary programs has other code."""
MOST_STEPS = 16
"""The same for loops of integers alone, as over the bits of a number: LLVM then makes vectors of the loop around it.
Sixteen bits in reverse take 0.3 of the time.  Sums of floats are left to ``outer_loop``, which is faster.
"""
MOST_OPS = 200
"""The most ops of all iterations together.

Of 159 ordinary programs, values and gradients, 50 in place of 100 changes none; 200 changes six, which take 0.52, 0.65
(``edges: kernels``), 0.67, 1.00 (``rbf``), 0.88 and 0.99 (``sample: ifs``) of their time (AMD EPYC).
"""
MOST_OPS_WITH_LEAVING = 400
"""The same with the ops that then leave the loop around, as the logarithms of the parameters of a mixture."""
MOST_OPS_OF_NEST = 240
"""The same for a nest whose inner trip counts change: De Boor's recursion for points in space has 216."""

MOST_LOOKUPS, MOST_OPS_OF_LOOKUPS = 16, 400
"""The same for loops that look something up in a tuple or an array of literals.

``cx[k]`` is a chain of selections, or a load, unless ``k`` is constant.  A step of a lattice Boltzmann method with nine
velocities took twice as long as C.
"""
LARGE = 2**31
"""Numbers from which products might not fit into an integer."""
LEAST_LOOKUPS = 3
"""Selections among constants by the counter: a wrapped or clamped index has one or two."""


def unroll(module: Module) -> bool:
    """Unroll every such loop; returns True if there were any."""
    done = False
    for func in module.functions.values():
        while _unroll_innermost(func):
            done = True
    return done


def _unroll_innermost(func: Function) -> bool:
    """Unroll the small loops that contain no other loop, or else one small triangle; returns True if there were any."""
    dom = dominators(func)
    raising = raising_blocks(dom)
    done = False
    for loop in loop_forest(func).loops:
        trip = _trip(loop)
        if trip is not None and not (loop.children and done):
            region = loop.region(raising)
            blocks = dom.in_order(region)
            calls = any(b.call for b in blocks)
            small = _ops_of_nest(loop, dom, {}) <= MOST_OPS_OF_NEST if loop.children else _is_small(loop, blocks, trip)
            if not calls and small:
                _unroll_loop(func, loop, blocks, trip)
                done = True
                if loop.children:                       # the loops around it hold blocks that are gone
                    break
    if done:
        remove_unreachable(func)
        merge_chains(func)
    return done


def _trip(loop: Loop) -> int | None:
    """The trip count of a loop with one exit, if it is a small constant."""
    found = counted(loop) if loop.exit is not None else None
    trip = _integer(found.trip, {}) if found is not None else None
    return trip if trip is not None and 1 <= trip <= MOST_LOOKUPS else None


def _integer(v: Value, counters: Mapping[Value, int]) -> int | None:
    """The value of an integer that is computed from small constants and counters."""
    if v in counters:
        return counters[v]
    if v.type != I64 or v.op is None or v.const is not None:
        return v.const if v.type == I64 and v.const is not None and abs(v.const) < LARGE else None
    xs = [_integer(operand, counters) for operand in v.op.operands]
    found = integer(v.op.name, xs, I64) if xs and None not in xs else None
    return found if found is not None and abs(found) < LARGE else None


def _ops_of_nest(loop: Loop, dom: Dominators, counters: Mapping[Value, int], around: Set[Value] = frozenset()) -> int:
    """The ops of all iterations of a nest, for counters of the loops around; more than allowed if not known.

    What depends on counters alone is a constant in each iteration, and does not count.
    """
    known = counted(loop) if loop.exit is not None else None
    trip = _integer(known.trip, counters) if known is not None else None
    if known is None or trip is None or trip > MOST_ITERATIONS:
        return MOST_OPS_OF_NEST + 1
    own = loop.blocks.difference(*[inner.blocks for inner in loop.children])
    fixed = {*around, known.iv}
    ops, each = 0, sum(_stays(op, fixed) for b in dom.in_order(own) for op in b.all_ops())
    for iteration in range(trip):
        ops += each
        for inner in loop.children:
            if ops <= MOST_OPS_OF_NEST:
                ops += _ops_of_nest(inner, dom, {**counters, known.iv: iteration}, fixed)
    return ops


def _stays(op: Op, fixed: set[Value]) -> bool:
    """True unless an op is a constant, or one of its operands, if the ``fixed`` values are constants."""
    among = [v in fixed or v.const is not None for v in op.operands]
    if op.name == "const" or all(among) and op.results and isinstance(op.result.type, Scalar) and op.name != "get":
        fixed.update(op.results)
        return False
    return not (op.name in ("and", "or") and any(among) or op.name == "select" and among[0])


def _is_small(loop: Loop, blocks: list[Block], trip: int) -> bool:
    """True if the iterations together are few ops: those that are constants in each of them do not count."""
    known = counted(loop)
    assert known is not None
    ops = [op for b in blocks for op in b.all_ops() if op.name != "const"]
    fixed, lookups = {known.iv}, 0
    for op in ops:
        if op.results and all(v in fixed or v.const is not None for v in op.operands):
            fixed.update(op.results)
            lookups += op.name == "select"
        elif op.name == "get" and all(v in fixed or v.const is not None for v in op.operands[1:]) \
                and _is_literal(op.operands[0]):
            fixed.update(op.results)
            lookups += LEAST_LOOKUPS
    leaving = _leaving(loop, known.iv, ops)
    staying = trip * (len(ops) - len(leaving))
    whole = all(isinstance(v.type, Scalar) and not is_float(v.type) for op in ops for v in op.results)
    if trip <= (MOST_STEPS if whole else MOST_ITERATIONS) \
            and staying <= MOST_OPS and trip * len(ops) <= MOST_OPS_WITH_LEAVING:
        return True
    if trip <= MOST_ITERATIONS and any(b.term is not None and b.term.name == "branch" and b.term.operands[0] in fixed
                                       for b in blocks if b is not loop.latch) and \
            _ops_taken(loop, blocks, known.iv, trip) <= MOST_OPS:
        return True
    size = sum(1 for op in ops if not op.results or op.results[0] not in fixed)
    return lookups >= LEAST_LOOKUPS and trip * size <= MOST_OPS_OF_LOOKUPS


def _ops_taken(loop: Loop, blocks: Sequence[Block], iv: Value, trip: int) -> int:
    """The ops of all iterations that are left where the counter is a constant, on the sides that it takes then."""
    total = 0
    for iteration in range(trip):
        values: dict[Value, Any] = {iv: iteration}
        reached = {loop.head}
        for block in (b for b in blocks if b in reached):
            for op in block.all_ops():
                xs = [values.get(v, v.const) for v in op.operands]
                known = integer(op.name, xs, t) if op.results and op.operands and None not in xs and \
                    isinstance(t := op.operands[0].type, Scalar) and not t.is_float else None
                if known is not None:
                    values[op.result] = known
                elif op.name not in ("const", "jump"):
                    total += 1
            term = block.term
            assert term is not None
            taken = values.get(term.operands[0]) if term.name == "branch" else None
            reached.update(block.successors() if taken is None else [term.edges[not taken].block])
        if total > MOST_OPS:
            break
    return total


def _leaving(loop: Loop, iv: Value, ops: Sequence[Op]) -> set[Op]:
    """The ops that leave the loop around once the counter is a constant, as logarithms of parameters in a sum."""
    around = loop.parent
    if around is None:
        return set()
    found: set[Op] = set()
    inside = {iv}
    for op in ops:
        if op.name in ("get", "check") or op.name in OPS and OPS[op.name].elementwise:
            if all(v in inside or v.block not in around.blocks for v in op.operands):
                found.add(op)
                inside.update(op.results)
    return found


def _is_literal(array: Value) -> bool:
    """True for an array of a literal size whose elements are stored one by one, all of them constants."""
    for _ in range(MOST_LOOKUPS + 1):
        op = array.op
        if op is None or op.name != "set":
            return op is not None and op.name == "empty"
        if any(v.const is None for v in op.operands[1:]):
            return False
        array = op.operands[0]
    return False


def _unroll_loop(func: Function, loop: Loop, blocks: list[Block], trip: int) -> None:
    """Replace the loop by ``trip`` copies of its blocks; the last goes to the exit."""
    back, leave, latch = loop.back_edge(), loop.exit_edge(), loop.latch
    edge = loop.entry_edge()
    assert latch is not None
    for iteration in range(trip):
        values: dict[Value, Value] = {}
        copies = clone_blocks(blocks, func, values)
        edge.block = copies[loop.head]
        following = leave if iteration == trip - 1 else back
        edge = Edge(following.block, [values.get(a, a) for a in following.args])
        set_term(copies[latch], "jump", edges=[edge])
