"""No frame is pushed by an iteration that passes on all cotangents as they are.

A loop that is not counted pushes a frame in each iteration, which the reverse loop pops.  On the paths of a
``continue``, of a test that fails, or of a letter that is skipped, the next iteration receives the same active values
as this one: the reverse iteration does nothing.  It is neither counted nor popped then::

    ^latch(%s, %w):                                 ^latch(%s, %w, %idle):
      %n1 = add %n, 1                                 %rests = and %idle, %c
      %t1 = push %t, %w                               branch %rests, ^rest, ^push
      branch %c, ^loop(%s, %n1, %t1), …             ^push:
                                                      %n1 = add %n, 1
                                                      %t1 = push %t, %w
                                                      jump ^end(%n1, %t1)
                                                    ^rest:
                                                      jump ^end(%n, %t)
                                                    ^end(%n2, %t2):
                                                      branch %c, ^loop(%s, %n2, %t2), …

The last iteration is always pushed, since the reverse loop receives the cotangents of what leaves the loop in it.  So
a path that leaves the loop is not idle: if no other is, as behind a ``break`` that nothing was changed before, nothing
is tested.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..ir.builder import Builder
from ..ir.graph import Block, Function, Op, Value
from ..ir.types import BOOL
from ..passes.analysis.loops import Loop
from .control_tape import LoopBack


class Idle:
    """Finds the iterations of ``loop`` that pass on the ``given`` parameters of the head as they are.

    ``levels`` are the innermost loops of blocks, ``order`` numbers blocks such that dominators come first.
    """

    def __init__(self, func: Function, loop: Loop, given: tuple[Value, ...], levels: Mapping[Block, Loop],
                 order: Mapping[Block, int]) -> None:
        self.loop, self.given, self.levels, self.order = loop, given, levels, order
        self.preds = func.predecessors()
        self.known: dict[tuple[Block, tuple[Value, ...], Value | None], Value | bool] = {}

    def tested(self, passed: tuple[Value, ...], way: Value | None) -> Value | bool:
        """Whether ``passed``, which are known at the latch, are what is given: a bool that is known there too.

        ``way``: the number of the exit by which the loop is left, if there is one; it is negative if it goes on.
        """
        if way is not None and way.const is not None and way.const >= 0:
            return False
        other = [v for v, p in zip(passed, self.given) if v is not p]
        if not other:
            return True
        if any(self.levels.get(v.block) is not self.loop for v in other):
            return False
        join = max((v.block for v in other), key=self.order.__getitem__)
        if join is self.loop.head or any(v.op is not None for v in other if v.block is join):
            return False
        if (join, passed, way) not in self.known:
            self.known[join, passed, way] = self._from_edges(join, passed, way)
        return self.known[join, passed, way]

    def _from_edges(self, join: Block, passed: tuple[Value, ...], way: Value | None) -> Value | bool:
        edges = [e for _, e in self.preds[join]]
        sent = [dict(e.passed()) for e in edges]
        if any(v not in args for args in sent for v in passed if v.block is join):
            return False                                     # the result of a call
        ways = [None if way is None else args.get(way, way) for args in sent]
        flags = [self.tested(tuple(args.get(v, v) for v in passed), to) for args, to in zip(sent, ways)]
        if len(set(flags)) == 1 and isinstance(flags[0], bool):
            return flags[0]
        flag = join.add_param(BOOL, "idle")
        for (pred, edge), each in zip(self.preds[join], flags):
            edge.args.append(Builder(pred).const(each, BOOL) if isinstance(each, bool) else each)
        return flag


def skip_frames(back: LoopBack, push: Op, idle: Idle, bars: Collection[Block]) -> None:
    """Push the frame of the iterations of ``back`` that are not idle, and of the last."""
    loop, count = back.loop, back.iv
    latch, term = loop.latch, loop.latch.term if loop.latch is not None else None
    edge = loop.back_edge()
    following = edge.args[count.index]
    if latch is None or term is None or term.name != "branch" or following.op is None or following.block is not latch \
            or any(back.index in op.used() for b in bars for op in b.all_ops()):
        return
    test = term.operands[0].op
    numbered = test is not None and term.edges[0] is edge and test.name == "lt" and test.operands[1].const == 0
    way = test.operands[0] if test is not None and numbered and test.operands[0].op is None else None
    flag = idle.tested(tuple(edge.args[p.index] for p in idle.given), way)
    if flag is False:
        return
    b = Builder(latch)
    goes_on = term.operands[0] if term.edges[0] is edge else b.emit("not", term.operands[0])
    rests = goes_on if flag is True else b.emit("and", goes_on, flag)
    pushing, resting, end = (loop.head.func.new_block(name) for name in ("push", "rest", "end"))
    moved = [following.op, push]
    latch.ops = [op for op in latch.ops if op not in moved]
    latch.term = None
    b.branch(rests, resting, [], pushing, [])
    for op in moved:
        op.block = pushing
    pushing.ops = moved
    Builder(pushing).jump(end, [following, push.result])
    Builder(resting).jump(end, [count, push.operands[0]])
    chosen = {v: end.add_param(v.type, v.hint) for v in (following, push.result)}
    end.term, term.block = term, end
    for e in term.edges:
        e.args = [chosen.get(v, v) for v in e.args]
