"""Reverse mode: the forward sweep is the function's own graph, the reverse sweep is that graph reversed.

Notation.  ``x_bar`` is the adjoint of ``x``, ``B_bar`` the block of the reverse sweep for block ``B``.  While
``B_bar`` is written, ``env`` holds the adjoints known so far of the values that are live at that point of ``B``.

The reverse sweep is first written as if it could read forward values directly.  ``frames.py`` then finds a home for
each.  A block is reversed as follows (``_block``):

1. ``env`` at the end of ``B``: the adjoints of the values live there.  If ``B_bar`` has one incoming edge they are
   available; with several, or in a loop, each becomes a parameter of ``B_bar``, and an edge that has none passes zero.
2. The terminator, if it is a call: the callee's reverse sweep.
3. The ops in reverse order; each adds to the adjoints of its operands (``derivatives.py``).
4. A jump to the reverse blocks of ``B``'s predecessors.  The adjoint of a parameter is added to that of the argument
   on each edge.

The predecessor is known from the condition of the branch, or from a tag, a parameter added to ``B``.  A loop is
reversed by its trip count, which is known, or counted by a parameter added to the loop.  Loops and branches without
active values are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.aliasing.liveness import Liveness
from ..ir.builder import Builder
from ..ir.clone import clone_function
from ..ir.graph import Block, Edge, Function, Module, Op, Value
from ..ir.signature import signature
from ..ir.types import BOOL, I64, Array, Stack, carries_adjoint
from ..passes.analysis.loops import loop_forest
from ..passes.buffers.final_loads import settled
from .activity import active, call_results
from .adjoints import Adjoints, Env
from .control_tape import LoopBack, Ways
from .expand import expand


class ThereAndBack(Adjoints):
    """``base`` followed by its reverse sweep in one function ``func``, which still reads forward values directly.

    ``wrt`` are parameters by index.  ``accumulate``: the adjoints of array parameters, except those that it consumes,
    start from given values (added parameters), not from zero.  Results: ``pivot`` is the block in which the forward
    sweep ends with the results ``results``; ``seeds`` are the parameters of ``first_bar`` for the result cotangents;
    ``last_bar`` is the block in which the cotangents of ``wrt``, ``cotangents``, are known.
    """

    def __init__(self, module: Module, base: Function, name: str, wrt: Sequence[int], accumulate: bool) -> None:
        self.module, self.wrt, self.accumulate = module, tuple(wrt), accumulate
        self.func, _ = clone_function(base, name)
        expand(self.func)
        self.pivot = _single_return(self.func)
        self.results = list(self.pivot.term.operands) if self.pivot and self.pivot.term else []
        self.forest = loop_forest(self.func)
        self.forward = list(self.forest.dom.order)
        self.settled = settled(self.func, self.forest)
        self.liveness = Liveness(self.func)
        super().__init__(active(self.func, [self.func.params[i] for i in self.wrt]))
        self.bar: dict[Block, Block] = {}
        self.home: dict[Block, Block] = {}              # reverse block → the forward block that it reverses
        self.pending: dict[Block, list[tuple[Block, Edge, Env]]] = {}
        self.ways = Ways(module, self.func, self.forest, self.active)
        self.preds, self.loops = self.ways.preds, self.ways.loops
        self._write()

    # --- the reverse sweep --------------------------------------------------------------------------

    def _write(self) -> None:
        func = self.func
        self.first_bar = func.new_block("back")
        self.seeds = [self.first_bar.add_param(t, "seed") for t in func.result_types if carries_adjoint(t)]
        self.accumulators: list[Value] = []
        self.cotangents: list[Value] = []
        self.late: list[Op] = []                         # ops at the end (``late_cotangents``)
        self.env = {}
        if self.accumulate:
            self._start_accumulators()
        if self.pivot is None:                           # the function always raises
            self.last_bar = self.first_bar
            return
        self.bar[self.pivot] = self.first_bar
        self.b.at(self.first_bar)
        self.home[self.first_bar] = self.pivot
        for v, seed in zip((v for v in self.results if carries_adjoint(v.type)), self.seeds):
            if v in self.active:
                self.add(v, seed)
        self._body(self.pivot)
        for block in reversed(self.forward):
            if block in self.pending and block is not self.pivot:
                self._block(block)
        self._finish()

    def _start_accumulators(self) -> None:
        for i in self.wrt:
            p = self.func.params[i]
            if isinstance(p.type, Array) and i not in self.func.own:
                acc = self.first_bar.add_param(p.type, "acc")
                self.accumulators.append(acc)
                self.env[p] = acc

    def _finish(self) -> None:
        entry = self.func.entry
        assert entry in self.bar, "the backward sweep must come back to the entry"
        for i in self.wrt:
            p = self.func.params[i]
            self.cotangents.append(self.env[p] if p in self.env else self.zero(p))
        self.last_bar = self.b.block

    def _block(self, block: Block) -> None:
        incoming = self.pending[block]
        bar = self.bar[block]
        loop = self.forest.loop_of(block)
        back = self.loops.get(loop) if loop is not None and loop.latch is block else None
        if back is None and len(incoming) == 1:
            self.env = dict(incoming[0][2])
        else:
            wanted = dict.fromkeys(v for _, _, env in incoming for v in env)
            if back is not None:                             # adjoints that the loop does not use need no parameter
                around = self._around(back)
                inside = back.loop.blocks
                agreed = {v: g for v, g in incoming[0][2].items() if v not in around and v.block not in inside}
                wanted |= around
            else:
                agreed = {v: incoming[0][2][v] for v in wanted if len({env.get(v) for _, _, env in incoming}) == 1}
            wanted = {v: None for v in wanted if v not in agreed}
            self.env = agreed | {v: bar.add_param(v.type, v.hint and v.hint + "_bar") for v in wanted}
            given = {} if back is not None or block.term is None else {
                p: a for e in block.term.edges for a, p in _passed_on(e)}
            for source, edge, env in incoming:
                edge.args += [self._passed(source, env, v, given.get(v, v)) for v in wanted]
            if back is not None:
                back.carried = list(wanted)
        self.b.at(bar)
        if back is not None:
            back.index = self.b.sub(self.b.sub(back.trip, 1), back.count)
            self._only_from_outside(back)
        self._body(block)

    def _only_from_outside(self, back: LoopBack) -> None:
        """Select the adjoints of arrays that leave the loop but are not carried.

        The last iteration receives them from outside; the others use zeros of the array's own size.
        """
        around, b = self._around(back), self.b
        for v in [v for v in self.env if v not in around and isinstance(v.type, Array) and v.block in back.loop.blocks]:
            back.outside.add(v)
            zero, joined = self.func.new_block(), self.func.new_block()
            self.home[zero] = self.home[joined] = back.loop.latch or back.loop.head
            v_bar = joined.add_param(v.type)
            assert back.count is not None
            b.branch(b.eq(back.count, 0), joined, [self.env[v]], zero, [])
            b.at(zero)
            b.jump(joined, [self.zero(v)])
            b.at(joined)
            self.env[v] = v_bar

    def _around(self, back: LoopBack) -> dict[Value, None]:
        """The values whose adjoints the reverse loop carries: back edge arguments, and values used from outside."""
        loop = back.loop
        edge = loop.back_edge()
        used = {v for b in loop.blocks for op in b.all_ops() for v in op.used()}
        invariant = {v: None for v in self.liveness.before(loop.head) if v in self.active and v in used}
        around = [a for a, p in zip(edge.args, loop.head.params) if p in self.active and a in self.active]
        return dict.fromkeys(around) | invariant

    def _passed(self, source: Block, env: Env, v: Value, like: Value) -> Value:
        """The adjoint of ``v`` as it leaves ``source``, with exactly the type of ``v``.

        If there is none, it is zero, of the size of ``like``: a successor's parameter is defined on the path through
        that successor only, its argument on all paths.
        """
        here = self.b
        self.b = Builder(source)
        value = self.b.typed(env[v] if v in env else self._zero_outside(source, like), v.type)
        self.b = here
        return value

    def _zero_outside(self, source: Block, v: Value) -> Value:
        """Zero for an edge into the reverse loop: the exit edge passes the sizes of an array defined in the loop."""
        inside = self.forest.loop_of(v.block)
        at = self.forest.loop_of(self.home[source])
        while at is not None and at is not inside:
            at = at.parent
        if not isinstance(v.type, Array) or inside is None or at is inside:
            return self.zero(v)
        assert inside.latch is not None and inside.exit is not None
        sizes: list[Value] = []
        for n in Builder(inside.latch).dims(v):
            if n.const is not None:
                sizes.append(self.b.const(n.const, I64))
                continue
            inside.exit_edge().args.append(n)
            sizes.append(inside.exit.add_param(I64, "size"))
        return self.b.typed(self.b.fill(self.b.const(0.0, v.type.dtype), *sizes), v.type)

    def _body(self, block: Block) -> None:
        if block.term is not None and block.term.name == "call":
            self._call_backward(block)
        self._arguments(block)
        before = self.b.loc
        for op in reversed(block.ops):
            self.b.loc = op.loc
            self.op(op)
        self.b.loc = before
        if block is not self.func.entry:
            self._go_back(block)

    def _arguments(self, block: Block) -> None:
        """Add the adjoints of the successors' parameters to those of this block's arguments.

        A latch has received its own already: there the head's parameters can be arguments themselves.
        """
        loop = self.forest.loop_of(block)
        if loop is not None and loop.latch is block and loop in self.ways.lively:
            return
        for edge in block.term.edges if block.term else ():
            for a, p in _passed_on(edge):
                if p in self.env:
                    self.add(a, self.env.pop(p))

    def _go_back(self, block: Block) -> None:
        """End ``B_bar`` with a jump to the reverse blocks of ``B``'s predecessors."""
        here = self.b.block
        self.home.setdefault(here, block)
        env = {v: g for v, g in self.env.items()
               if v.owner is block or self.liveness.is_live_before(v, block) or self._kept_everywhere(v)}
        loop = self.forest.loop_of(block)
        if loop is not None and loop.head is block:
            self._next_iteration(self.loops[loop], env)
            return
        to = self.ways.back_from(block)
        latch = self.preds[block][0][0]
        if to is not None and to[0] is not latch and len(self.preds[block]) == 1:
            env = self._renamed(latch, env, block)           # skips a loop: its results came from before it
        if to is not None and len(self.preds[block]) > 1:    # skips a branch: no parameter is active
            env = {v: g for v, g in env.items() if v.owner is not block}
        if to is not None:
            self._leave([self._edge_to(p, env) for p in to], None)
        else:
            incoming = [p for p, _ in self.preds[block]]
            edges = [self._edge_to(p, dict(env)) for p in incoming]
            self._leave(edges, self.ways.tags[block])

    def _kept_everywhere(self, v: Value) -> bool:
        return (self.accumulate and v.owner is self.func.entry and isinstance(v.type, Array)
                and v.index not in self.func.own)

    def _leave(self, edges: list[Edge], selector: Value | None) -> None:
        b = self.b
        if selector is None:
            b._end("jump", edges=edges)
        elif selector.type == BOOL:
            b._end("branch", [selector], edges[::-1])        # true: the second predecessor
        else:
            b._end("switch", [selector], edges)

    def _edge_to(self, pred: Block, env: Env) -> Edge:
        """An edge into ``pred_bar``; its arguments are set when ``pred_bar`` is written."""
        loop = self.forest.loop_of(pred)
        back = self.loops.get(loop) if loop is not None and loop.latch is pred else None
        bar = self._bar(pred)
        edge = Edge(bar)
        source = self.b.block
        if back is not None:                                 # from a loop's exit into its last iteration
            assert back.loop.exit is not None
            env = self._renamed(pred, env, back.loop.exit)
            back.top = bar
            back.count = bar.add_param(I64, "count")
            edge.args.append(self.b.const(0))
            back.entry = (source, edge)
        self.pending.setdefault(pred, []).append((source, edge, env))
        return edge

    def _bar(self, block: Block) -> Block:
        if block not in self.bar:
            bar = self.bar[block] = self.func.new_block(f"{block.name}_bar")
            self.home[bar] = block
        return self.bar[block]

    def _renamed(self, pred: Block, env: Env, to: Block) -> Env:
        """Add the adjoints of ``to``'s parameters to those of the latch's arguments, as one sum outside the loop."""
        assert pred.term is not None
        before, self.env = self.env, dict(env)
        edge = next(e for e in pred.term.edges if e.block is to)
        gone = [(a, self.env.pop(p)) for a, p in zip(edge.args, to.params) if p in self.env]
        for a, p_bar in gone:
            self.add(a, p_bar)
        renamed, self.env = self.env, before
        return renamed

    def _next_iteration(self, back: LoopBack, env: Env) -> None:
        """End ``head_bar``: continue with another reverse iteration if there is one, else leave by the preheader."""
        loop, b = back.loop, self.b
        assert back.count is not None and back.top is not None and loop.latch is not None and loop.preheader is not None
        source = b.block
        around = self._renamed(loop.latch, env, loop.head)
        following = b.add(back.count, 1)
        edge = Edge(back.top, [following])
        edge.args += [b.undef(v.type) if v in back.outside else self._passed(source, around, v, v)
                      for v in back.carried]
        back.back = (source, edge)
        out = Edge(self._bar(loop.preheader))
        self.pending.setdefault(loop.preheader, []).append((source, out, env))
        b._end("branch", [b.lt(following, back.trip)], [edge, out])

    def _call_backward(self, block: Block) -> None:
        """Call the callee's reverse sweep: primals, result cotangents, accumulators, its stack → cotangents."""
        if block not in self.ways.tapes:
            for r in call_results(block):
                self.env.pop(r, None)
            return
        term, b = block.term, self.b
        assert term is not None
        tape = self.ways.tapes[block]
        results = [r for r in call_results(block) if r is not tape and carries_adjoint(r.type)]
        seeds = [self.b.typed(self.env.pop(r), r.type) if r in self.env else self.zero(r) for r in results]
        base = signature(self.module, term.attrs["base"])
        assert base is not None
        primals = [v for i, v in enumerate(term.operands) if i not in base.own and not isinstance(v.type, Stack)]
        wrt = [term.operands[i] for i in term.attrs["wrt"]]
        types = [base.params[i] for i in term.attrs["wrt"]]
        accumulators, seen = [], set()
        for i in base.accumulated(term.attrs["wrt"]):
            v = term.operands[i]
            start = self.env.pop(v, None) if v not in seen else None
            accumulators.append(self.b.typed(start if start is not None else b.zeros_like(v), base.params[i]))
            seen.add(v)
        callee = self.module.derive(term.attrs["base"], "bwd", term.attrs["wrt"])
        with b.located(term.loc):
            cotangents = b.call_then(callee, [*primals, *seeds, *accumulators, tape], types)
        self.home[b.block] = block
        for v, g in zip(wrt, cotangents):
            self.add(v, g)


def _single_return(func: Function) -> Block | None:
    """The only block that returns (several are joined in a new one); None if every path raises."""
    returning = [b for b in func.blocks if b.term is not None and b.term.name == "return"]
    if len(returning) <= 1:
        return returning[0] if returning else None
    joined = func.new_block("done")
    params = [joined.add_param(t) for t in func.result_types]
    for block in returning:
        assert block.term is not None
        edge = Edge(joined, block.term.operands)
        block.term = Op("jump", (), edges=[edge], loc=block.term.loc)
        block.term.block = block
    Builder(joined).ret(params)
    return joined


def _passed_on(edge: Edge) -> list[tuple[Value, Value]]:
    """(argument, parameter) for each argument of an edge, without the results of a call."""
    return [(a, p) for p, a in edge.passed()]
