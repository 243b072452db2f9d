"""Computes results that depend on merged loops after the reverse sweep.

A loop that was merged into its reverse loop (``recompute_plan.py``) has its final values only after that loop.  The
results are then computed from these values at the very end: op by op, and through the join that follows every loop,
which merges the path that bypasses the loop if it has no iteration.  So are parts of cotangents
(``late_cotangents.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Value
from ...ir.ops import OPS
from ...passes.analysis.loops import Loop
from ...passes.analysis.ssa import Reaching
from ..reverse import ThereAndBack

AtEnd = Callable[[Value], Value]


def _behind(sweep: ThereAndBack, merged: Collection[Loop]) -> dict[Block, tuple[Loop, Block]]:
    """The joins after the loops: each with its loop and the block on the path that bypasses it."""
    found: dict[Block, tuple[Loop, Block]] = {}
    for loop in merged:
        assert loop.exit is not None and loop.exit.term is not None
        if loop.exit.term.name != "jump":
            continue
        join = loop.exit.term.edges[0].block
        around = [p for p, _ in sweep.preds[join] if p is not loop.exit]
        if len(around) == 1 and around[0] in sweep.bar and around[0].term is not None and around[0].term.name == "jump":
            found[join] = (loop, around[0])
    return found


def late_values(sweep: ThereAndBack, merged: Collection[Loop]) -> set[Value]:
    """The forward values that depend on values of merged loops, by data (block parameters on any argument)."""
    late = {p for loop in merged if loop.exit is not None
            for p, a in zip(loop.exit.params, loop.exit_edge().args) if a.block in loop.blocks}
    for block in sweep.forward:
        for pred, edge in sweep.preds[block]:
            late |= {p for p, a in edge.passed() if a in late}
            if pred.term is not None and any(v in late for v in pred.term.operands):
                late |= set(block.params)
        for op in block.ops:
            if any(v in late for v in op.operands):
                late |= set(op.results)
    return late


def computable(sweep: ThereAndBack, result: Value, merged: Collection[Loop]) -> bool:
    """True if a result can be computed at the end."""
    late, joins = late_values(sweep, merged), _behind(sweep, merged)
    exits = {loop.exit: loop for loop in merged}
    todo, seen = [result], {result}
    while todo:
        v = todo.pop()
        if v not in late:
            continue
        op = v.op
        if op is not None:
            if OPS[op.name].effect or OPS[op.name].consumes or sweep.forest.loop_of(v.block) is not None:
                return False
            following = op.operands
        elif v.block in joins:
            loop, around = joins[v.block]
            inside = _argument(loop.exit, v)
            if _argument(around, v) in late or inside.owner is not loop.exit or _starts_late(loop, late):
                return False
            following = []
        elif v.block in exits:
            if not _certain(sweep, exits[v.block]) or _starts_late(exits[v.block], late):
                return False
            following = []
        else:
            return False
        todo += [u for u in following if u not in seen]
        seen.update(following)
    return True


def _starts_late(loop: Loop, late: Container[Value]) -> bool:
    """True if the loop's initial values come from another merged loop, whose pass runs after this one's."""
    return any(a in late for a in loop.entry_edge().args)


def _certain(sweep: ThereAndBack, loop: Loop) -> bool:
    """True if the loop is on every path to the end."""
    assert sweep.pivot is not None and loop.preheader is not None
    return sweep.forest.dom.dominates(loop.preheader, sweep.pivot)


def _argument(pred: Block | None, p: Value) -> Value:
    assert pred is not None and pred.term is not None
    return pred.term.edges[0].args[p.index]


def reads(sweep: ThereAndBack, results: Sequence[Value], merged: Collection[Loop]) -> list[Value]:
    """The values that computing the results at the end reads and that are available before."""
    late, joins = late_values(sweep, merged), _behind(sweep, merged)
    found: list[Value] = []
    todo, seen = list(results), set(results)
    while todo:
        v = todo.pop()
        if v not in late:
            found.append(v)
            continue
        following = v.op.operands if v.op is not None else [_argument(joins[v.block][1], v)] if v.block in joins else []
        todo += [u for u in following if u not in seen]
        seen.update(following)
    return found


def values_at_end(sweep: ThereAndBack, left: Mapping[Loop, Mapping[Value, Value]], b: Builder) -> AtEnd:
    """Maps a forward value to the same computed at ``b``, from the final values of the merged loops."""
    late, joins = late_values(sweep, left), _behind(sweep, left)
    known: dict[Value, Value] = {}
    for loop, values in left.items():
        if _certain(sweep, loop):
            known |= values
    preds = sweep.func.predecessors()
    bypass = {sweep.bar[loop.preheader]: sweep.bar[loop.exit] for loop in sweep.loops
              if loop.preheader in sweep.bar and loop.exit in sweep.bar}

    def again(v: Value) -> Value:
        if v not in late or v in known:
            return known.get(v, v)
        op = v.op
        if op is None:
            loop, around = joins[v.block]
            assert loop.preheader is not None
            inside, outside = _argument(loop.exit, v), _argument(around, v)
            defs = {sweep.bar[loop.preheader]: left[loop][inside], sweep.bar[around]: outside}
            others = {at: to for at, to in bypass.items() if at not in defs}
            known[v] = Reaching(preds, defs, [sweep.first_bar], others).at_end(b.block)
        else:
            copy = clone_op(op, {u: again(u) for u in op.operands})
            copy.block = b.block
            b.block.ops.append(copy)
            known[v] = copy.result
        return known[v]

    return again
