"""Reverse mode, there and back: the forward sweep is the function's own graph, the backward sweep that graph reversed.

Notation.  ``x_bar`` is the adjoint of ``x``, ``B_bar`` the backward block of ``B``.  ``env`` holds, while ``B_bar`` is being
written, the adjoints known so far of the values that are live at that point of ``B``.

The backward sweep is written *naively*: it reads forward values as if they were still there.  ``frames.py`` then finds
each a home.  One block goes back like this (``_block``):

1. ``env`` at the end of ``B``: the adjoints of the values live there.  With one way into ``B_bar`` they are at hand; with
   several, or in a loop, each becomes a parameter of ``B_bar``, and a way in that has none passes zero.
2. The terminator, when it is a call: the callee's backward sweep.
3. The ops, last first; each adds to the adjoints of its operands (``derivatives.py``).
4. On to ``B``'s predecessors.  The adjoint of a parameter goes to the argument that each edge gave it.

Which predecessor it was is known from the branch that decided it, or from a tag, a parameter added to ``B``.  A loop is
counted down: its trip count is known, or counted by a parameter added to the loop.  Loops and branches in which
nothing is active are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DifferentiationError
from ..ir.builder import Builder
from ..ir.clone import clone_function
from ..ir.graph import Block, Edge, Function, Module, Op, Value
from ..ir.types import BOOL, I64, STACK, Array, Stack, Type, carries_adjoint, dims_of
from ..passes.liveness import Liveness
from ..passes.loops import Loop, LoopForest, counted
from .activity import active, call_results, differentiable_operands
from .derivatives import BILINEAR, LINEAR, PARTIALS, REFUSED, WEIGHTS, ZERO, spread
from .expand import expand

Env = dict[Value, Value]
_DIAMONDS = ([[False, True], [True, False]], [[True, False], [False, True]])


class LoopBack:
    """What pairs a loop with its backward loop, which counts up (as every counted loop does) while ``index``, the
    forward iteration that it is about, goes down from ``trip - 1``."""

    def __init__(self, loop: Loop, iv: Value, trip: Value) -> None:
        self.loop, self.iv, self.trip = loop, iv, trip
        self.top: Block | None = None                       # latch_bar, where the backward iteration starts
        self.count: Value | None = None                     # its first parameter
        self.index: Value | None = None
        self.carried: list[Value] = []                      # whose adjoints are parameters of latch_bar, after index
        self.outside: set[Value] = set()                    # of those, arrays that only the last iteration gives an adjoint
        self.entry: tuple[Block, Edge] | None = None        # from exit_bar into latch_bar
        self.back: tuple[Block, Edge] | None = None         # from head_bar into latch_bar


class ThereAndBack:
    """``base`` with its backward sweep behind it, in one function ``func`` that still reads across.

    ``wrt`` are parameters by index.  ``accumulate``: array parameters' adjoints start from values given
    (parameters added behind), not from zero.  Afterwards: ``pivot`` is the block in which the forward sweep ends, its
    results ``results``; ``seeds`` the parameters of ``first_bar`` that take the result cotangents;
    ``last_bar`` the block in which the cotangents of ``wrt``, ``cotangents``, are known.
    """

    def __init__(self, module: Module, base: Function, name: str, wrt: Sequence[int], accumulate: bool) -> None:
        self.module, self.wrt, self.accumulate = module, tuple(wrt), accumulate
        self.func, _ = clone_function(base, name)
        expand(self.func)
        self.b = Builder()
        self.pivot = _single_return(self.func)
        self.results = list(self.pivot.term.operands) if self.pivot and self.pivot.term else []
        self.forest = LoopForest(self.func)
        self.forward = list(self.forest.dom.order)
        self.preds = {b: [(p, e) for p, e in es if p in self.forest.dom.idom]
                      for b, es in self.func.predecessors().items() if b in self.forest.dom.idom}
        self.live_in = Liveness(self.func).live_in
        self.active = active(self.func, [self.func.params[i] for i in self.wrt])
        self.bar: dict[Block, Block] = {}
        self.home: dict[Block, Block] = {}              # backward block → the forward block it reverses
        self.pending: dict[Block, list[tuple[Block, Edge, Env]]] = {}
        self.loops: dict[Loop, LoopBack] = {}
        self.tapes: dict[Block, Value] = {}             # block that ends in an active call → its stack
        self.tags: dict[Block, Value] = {}
        self.env: Env = {}
        self._lively = self._lively_loops()
        self._augment()
        self._write()

    # --- what the forward sweep must tell the backward sweep ----------------------------------------

    def _is_lively(self, block: Block) -> bool:
        """Whether something active is defined here, or called for."""
        return (any(p in self.active for p in block.params) or any(r in self.active for op in block.ops for r in op.results)
                or self._active_call(block))

    def _active_call(self, block: Block) -> bool:
        term = block.term
        return (term is not None and term.name == "call" and any(v in self.active for v in term.operands)
                and any(r in self.active for r in call_results(block)))

    def _lively_loops(self) -> set[Loop]:
        return {loop for loop in self.forest.loops if any(self._is_lively(b) for b in loop.blocks)}

    def _augment(self) -> None:
        for loop in reversed(self.forest.loops):
            if loop in self._lively:
                self.loops[loop] = self._count(loop)
        for block in self.forward:
            if self._active_call(block):
                self._call_forward(block)
        for block in self.forward:
            if len(self.preds[block]) > 1 and block not in self._heads() and self._reversed_preds(block) is None:
                self.tags[block] = self._tag(block)

    def _heads(self) -> set[Block]:
        return {loop.head for loop in self.forest.loops}

    def _count(self, loop: Loop) -> LoopBack:
        """How often a loop runs: known, or counted as it runs."""
        assert loop.preheader is not None and loop.latch is not None, "not in cps form"
        b = self.b
        known = counted(loop)
        if known is not None:
            return LoopBack(loop, known.iv, known.trip)
        iv = loop.head.add_param(I64, "count")
        b.at(loop.preheader)
        loop.entry_edge().args.append(b.const(0))
        b.at(loop.latch)
        following = b.add(iv, 1)
        loop.back_edge().args.append(following)
        if loop.exit is None:                              # it ends by raising: nothing comes back
            return LoopBack(loop, iv, iv)
        loop.exit_edge().args.append(following)
        return LoopBack(loop, iv, loop.exit.add_param(I64, "trip"))

    def _call_forward(self, block: Block) -> None:
        """``call g`` → ``call g.fwd``, which returns its stack behind its results."""
        term = block.term
        assert term is not None
        term.attrs["wrt"] = tuple(i for i, v in enumerate(term.operands) if v in self.active)
        term.attrs["base"] = term.attrs["callee"]
        results = call_results(block)
        after = term.edges[0].block
        assert len(self.preds[after]) == 1, "a call's continuation has one predecessor"
        tape = Value(STACK, after, len(results), "tape")
        after.params.insert(len(results), tape)
        for i, p in enumerate(after.params):
            p.index = i
        self.tapes[block] = tape
        term.attrs["callee"] = self.module.derive(term.attrs["base"], "fwd", term.attrs["wrt"])

    def _reversed_preds(self, block: Block) -> list[Block] | None:
        """Where to go back to from a block that is no loop head, when that needs no tag."""
        incoming = [p for p, _ in self.preds[block]]
        if len(incoming) == 1:
            loop = self.forest.loop_of(incoming[0])
            if loop is not None and loop.exit is block and loop not in self._lively:
                assert loop.preheader is not None
                return [loop.preheader]
            return incoming
        above = self.forest.dom.idom[block]
        assert above is not None
        if not any(p in self.active for p in block.params) and not any(self._is_lively(b) for b in self._between(above, block)):
            return [above]
        return None

    def _between(self, above: Block, block: Block) -> set[Block]:
        """The blocks on paths from ``above`` (its immediate dominator) to ``block``, without both."""
        found: set[Block] = set()
        todo = [p for p, _ in self.preds[block]]
        while todo:
            b = todo.pop()
            if b is not above and b not in found:
                found.add(b)
                todo += [p for p, _ in self.preds[b]]
        return found

    def _tag(self, block: Block) -> Value:
        """Which way ``block`` was entered: the number of its predecessor (a bool where there are two)."""
        incoming = self.preds[block]
        above = self.forest.dom.idom[block]
        if len(incoming) == 2 and above is not None and above.term is not None and above.term.name == "branch":
            sides = [e.block for e in above.term.edges]
            dom = self.forest.dom
            order = [[dom.dominates(s, p) for p, _ in incoming] for s in sides]
            if order in _DIAMONDS and all(len(self.preds[s]) == 1 for s in sides):
                if order[0][0]:
                    self.preds[block] = incoming[::-1]       # true: the second predecessor
                return above.term.operands[0]
        two = len(incoming) == 2
        tag = block.add_param(BOOL if two else I64, "way")
        for i, (p, e) in enumerate(incoming):
            self.b.at(p)
            e.args.append(self.b.const(bool(i) if two else i))
        return tag

    # --- the backward sweep -------------------------------------------------------------------------

    def _write(self) -> None:
        func = self.func
        self.first_bar = func.new_block("back")
        self.seeds = [self.first_bar.add_param(v.type, "seed") for v in self.results if carries_adjoint(v.type)]
        self.accumulators: list[Value] = []
        self.cotangents: list[Value] = []
        if self.pivot is None:                           # the function always raises
            self.last_bar = self.first_bar
            self.b.at(self.last_bar)
            self.cotangents = [self.b.zeros_like(func.params[i]) for i in self.wrt]
            return
        self.env = {}
        self.bar[self.pivot] = self.first_bar
        self.b.at(self.first_bar)
        self.home[self.first_bar] = self.pivot
        if self.accumulate:
            self._start_accumulators()
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
            if isinstance(p.type, Array):
                acc = self.first_bar.add_param(p.type, "acc")
                self.accumulators.append(acc)
                self.env[p] = acc

    def _finish(self) -> None:
        entry = self.func.entry
        assert entry in self.bar, "the backward sweep must come back to the entry"
        for i in self.wrt:
            p = self.func.params[i]
            self.cotangents.append(self.env[p] if p in self.env else self._zero(p))
        self.last_bar = self.b.block

    def _zero(self, v: Value) -> Value:
        return self.b.stack_empty() if isinstance(v.type, Stack) else self.b.zeros_like(v)

    def _block(self, block: Block) -> None:
        incoming = self.pending[block]
        bar = self.bar[block]
        loop = self.forest.loop_of(block)
        back = self.loops.get(loop) if loop is not None and loop.latch is block else None
        if back is None and len(incoming) == 1:
            self.env = dict(incoming[0][2])
        else:
            wanted = dict.fromkeys(v for _, _, env in incoming for v in env)
            if back is not None:                             # what only passes by the loop needs no parameter
                around = self._around(back)
                agreed = {v: g for v, g in incoming[0][2].items() if v not in around and v.block not in back.loop.blocks}
                wanted |= around
            else:
                agreed = {v: incoming[0][2][v] for v in wanted if len({env.get(v) for _, _, env in incoming}) == 1}
            wanted = {v: None for v in wanted if v not in agreed}
            self.env = agreed | {v: bar.add_param(v.type, v.hint and v.hint + "_bar") for v in wanted}
            for source, edge, env in incoming:
                edge.args += [self._passed(source, env, v) for v in wanted]
            if back is not None:
                back.carried = list(wanted)
        self.b.at(bar)
        if back is not None:
            back.index = self.b.sub(self.b.sub(back.trip, 1), back.count)  # type: ignore[arg-type]
            self._only_from_outside(back)
        self._body(block)

    def _only_from_outside(self, back: LoopBack) -> None:
        """An array that leaves the loop but is not carried has an adjoint in the last iteration; in others zeros of its own size."""
        around, b = self._around(back), self.b
        for v in [v for v in self.env if v not in around and isinstance(v.type, Array) and v.block in back.loop.blocks]:
            back.outside.add(v)
            zero, joined = self.func.new_block(), self.func.new_block()
            self.home[zero] = self.home[joined] = back.loop.latch or back.loop.head
            v_bar = joined.add_param(v.type)
            assert back.count is not None
            b.branch(b.eq(back.count, 0), joined, [self.env[v]], zero, [])
            b.at(zero)
            b.jump(joined, [b.zeros_like(v)])
            b.at(joined)
            self.env[v] = v_bar

    def _around(self, back: LoopBack) -> dict[Value, None]:
        """The values whose adjoints the backward loop carries: arguments of the back edge, and what it uses from outside."""
        loop = back.loop
        edge = loop.back_edge()
        used = {v for b in loop.blocks for op in b.all_ops() for v in op.used()}
        invariant = {v: None for v in self.live_in[loop.head] if v in self.active and v in used}
        return {a: None for a, p in zip(edge.args, loop.head.params) if p in self.active and a in self.active} | invariant

    def _passed(self, source: Block, env: Env, v: Value) -> Value:
        """The adjoint of ``v`` as it leaves ``source``, of the very type of ``v``."""
        here = self.b
        self.b = Builder(source)
        value = self._as(env[v], v.type) if v in env else self._zero_outside(source, v)
        self.b = here
        return value

    def _zero_outside(self, source: Block, v: Value) -> Value:
        """Zero for a way into the backward loop: the sizes of an array defined in the loop leave it with the exit edge."""
        inside = self.forest.loop_of(v.block)
        at = self.forest.loop_of(self.home[source])
        while at is not None and at is not inside:
            at = at.parent
        if not isinstance(v.type, Array) or inside is None or at is inside:
            return self._zero(v)
        assert inside.latch is not None and inside.exit is not None
        sizes: list[Value] = []
        for n in Builder(inside.latch).dims(v):
            if n.const is not None:
                sizes.append(self.b.const(n.const, I64))
                continue
            inside.exit_edge().args.append(n)
            sizes.append(inside.exit.add_param(I64, "size"))
        return self.b.fill(self.b.const(0.0, v.type.dtype), *sizes)

    def _as(self, value: Value, type: Type) -> Value:
        return self.b.as_type(value, type=type) if isinstance(type, Array) and value.type != type else value

    def _body(self, block: Block) -> None:
        if block.term is not None and block.term.name == "call":
            self._call_backward(block)
        self._arguments(block)
        for op in reversed(block.ops):
            with self.b.located(op.loc):
                self._op(op)
        if block is not self.func.entry:
            self._go_back(block)

    def _arguments(self, block: Block) -> None:
        """Adjoints of the successors' parameters, passed under the parameters' names, go to this block's arguments.

        A latch has had its own already: there the head's parameters can be arguments themselves.
        """
        loop = self.forest.loop_of(block)
        if loop is not None and loop.latch is block and loop in self._lively:
            return
        for edge in block.term.edges if block.term else ():
            skip = len(edge.block.params) - len(edge.args)
            for a, p in zip(edge.args, edge.block.params[skip:]):
                if p in self.env:
                    self.add(a, self.env.pop(p))

    def _go_back(self, block: Block) -> None:
        """End ``B_bar``: on to the predecessors of ``B``."""
        here = self.b.block
        self.home.setdefault(here, block)
        env = {v: g for v, g in self.env.items() if v.owner is block or v in self.live_in[block] or self._kept_everywhere(v)}
        loop = self.forest.loop_of(block)
        if loop is not None and loop.head is block:
            self._next_iteration(self.loops[loop], env)
            return
        to = self._reversed_preds(block)
        latch = self.preds[block][0][0]
        if to is not None and to[0] is not latch and len(self.preds[block]) == 1:
            env = self._renamed(latch, env, block)           # past a loop: what left it came from before it
        if to is not None and len(self.preds[block]) > 1:    # passed over: nothing of the parameters is active
            env = {v: g for v, g in env.items() if v.owner is not block}
        if to is not None:
            self._leave([self._edge_to(p, env) for p in to], None)
        else:
            incoming = [p for p, _ in self.preds[block]]
            edges = [self._edge_to(p, dict(env)) for p in incoming]
            self._leave(edges, self.tags[block])

    def _kept_everywhere(self, v: Value) -> bool:
        return self.accumulate and v.owner is self.func.entry and isinstance(v.type, Array)

    def _leave(self, edges: list[Edge], selector: Value | None) -> None:
        b = self.b
        if selector is None:
            b._end("jump", edges=edges)
        elif selector.type == BOOL:
            b._end("branch", [selector], edges[::-1])        # true: the second predecessor
        else:
            b._end("switch", [selector], edges)

    def _edge_to(self, pred: Block, env: Env) -> Edge:
        """A way into ``pred_bar``; its arguments are filled in when ``pred_bar`` is written."""
        loop = self.forest.loop_of(pred)
        back = self.loops.get(loop) if loop is not None and loop.latch is pred else None
        bar = self._bar(pred)
        edge = Edge(bar)
        source = self.b.block
        if back is not None:                                 # from the exit of a loop into its last iteration
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
        """Adjoints of parameters given to the arguments that the latch passed: one sum here instead of one an iteration."""
        assert pred.term is not None
        before, self.env = self.env, dict(env)
        edge = next(e for e in pred.term.edges if e.block is to)
        gone = [(a, self.env.pop(p)) for a, p in zip(edge.args, to.params) if p in self.env]
        for a, p_bar in gone:
            self.add(a, p_bar)
        renamed, self.env = self.env, before
        return renamed

    def _next_iteration(self, back: LoopBack, env: Env) -> None:
        """End ``head_bar``: another iteration back while there is one, else out by the preheader."""
        loop, b = back.loop, self.b
        assert back.count is not None and back.top is not None and loop.latch is not None and loop.preheader is not None
        source = b.block
        around = self._renamed(loop.latch, env, loop.head)
        following = b.add(back.count, 1)
        edge = Edge(back.top, [following])
        edge.args += [b.undef(v.type) if v in back.outside else self._passed(source, around, v) for v in back.carried]
        back.back = (source, edge)
        out = Edge(self._bar(loop.preheader))
        self.pending.setdefault(loop.preheader, []).append((source, out, env))
        b._end("branch", [b.lt(following, back.trip)], [edge, out])

    # --- ops ----------------------------------------------------------------------------------------

    def wants(self, x: Value) -> bool:
        return x in self.active

    def add(self, x: Value, contribution: Value) -> None:
        """``x_bar += contribution``, summed over what broadcasting repeated."""
        if x not in self.active:
            return
        if not isinstance(x.type, Stack):
            contribution = self._as(self._unbroadcast(contribution, x), x.type)
        have = self.env.get(x)
        self.env[x] = contribution if have is None else self.b.emit("add", have, contribution, acc=True)

    def _unbroadcast(self, g: Value, x: Value) -> Value:
        have, want = dims_of(g.type), dims_of(x.type)
        extra = len(have) - len(want)
        axes = tuple(i for i in range(len(have)) if i < extra or (want[i - extra] == 1 and have[i] != 1))
        if axes:
            g = self.b.sum(g, axes=axes, acc=True)
        if not want or len(dims_of(g.type)) == len(want):
            return g if len(have) >= len(want) else self.b.broadcast_to(g, *self.b.dims(x))
        return self.b.reshape(g, *self.b.dims(x)) if dims_of(g.type) else self.b.broadcast_to(g, *self.b.dims(x))

    def update(self, x: Value, how: str, v: Value, at: Sequence[Value]) -> None:
        if x in self.active:
            have = self.env.get(x)
            x_bar = have if have is not None else self.b.zeros_like(x)
            self.env[x] = self.b.emit(how, x_bar, v, *at, acc=True)

    def _op(self, op: Op) -> None:
        if op.name == "push":
            return self._push(op)
        if op.name == "pop":
            return self._pop(op)
        ct = self.env.pop(op.results[0], None) if len(op.results) == 1 else None
        if ct is None or op.name in ZERO or not any(v in self.active for v in differentiable_operands(op)):
            return None
        if op.name in PARTIALS:
            return self._elementwise(op, ct)
        if op.name in WEIGHTS:
            a = op.operands[0]
            return self.add(a, self.b.mul(WEIGHTS[op.name](self.b, op), spread(self.b, ct, a, op.attrs["axes"])))
        rule = LINEAR.get(op.name) or BILINEAR.get(op.name)
        if rule is None:
            raise DifferentiationError(REFUSED.get(op.name, f"{op.name} has no derivative"), op.loc)
        return rule(self, op, ct)

    def _elementwise(self, op: Op, ct: Value) -> None:
        b = self.b
        for x, partial in zip(op.operands, PARTIALS[op.name]):
            if partial is None or x not in self.active:
                continue
            slope = partial(b, op.result, *op.operands) if callable(partial) else partial
            if slope == 1.0:
                self.add(x, ct)
            elif slope == -1.0:
                self.add(x, b.neg(ct))
            else:
                self.add(x, b.mul(slope, ct))

    def _push(self, op: Op) -> None:
        """The adjoint of ``push`` is ``pop``; every float of a frame has its place in the adjoint's frame."""
        below, *kept = op.operands
        ct = self.env.pop(op.result, None)
        if ct is None:
            return
        floats = [v for v in kept if carries_adjoint(v.type)]
        stack_bar, bars = self.b.pop(ct, [v.type for v in floats])
        self.env[below] = stack_bar
        for v, v_bar in zip(floats, bars):
            self.add(v, v_bar)

    def _pop(self, op: Op) -> None:
        """The adjoint of ``pop`` is ``push``."""
        below, *values = op.results
        bars = [self._as(self.env.pop(v), v.type) if v in self.env else self._zero(v)
                for v in values if carries_adjoint(v.type)]
        stack_bar = self.env.pop(below, None)
        if stack_bar is None:
            stack_bar = self.b.stack_empty()
        self.env[op.operands[0]] = self.b.push(stack_bar, *bars)

    def _call_backward(self, block: Block) -> None:
        """The callee's backward sweep: primal arguments, result cotangents, accumulators, its stack → cotangents."""
        if block not in self.tapes:
            for r in call_results(block):
                self.env.pop(r, None)
            return
        term, b = block.term, self.b
        assert term is not None
        tape = self.tapes[block]
        results = [r for r in call_results(block) if r is not tape and carries_adjoint(r.type)]
        seeds = [self._as(self.env.pop(r), r.type) if r in self.env else self._zero(r) for r in results]
        base = self.module.functions[term.attrs["base"]]
        primals = [v for i, v in enumerate(term.operands) if i not in base.own]
        wrt = [term.operands[i] for i in term.attrs["wrt"]]
        params = [base.params[i] for i in term.attrs["wrt"]]
        accumulators, seen = [], set()
        for v, p in zip(wrt, params):
            if isinstance(p.type, Array):
                start = self.env.pop(v, None) if v not in seen else None
                accumulators.append(self._as(start, p.type) if start is not None else b.zeros_like(v))
                seen.add(v)
        callee = self.module.derive(term.attrs["base"], "bwd", term.attrs["wrt"])
        with b.located(term.loc):
            cotangents = b.call_then(callee, [*primals, *seeds, *accumulators, tape], [p.type for p in params])
        self.home[b.block] = block
        for v, g in zip(wrt, cotangents):
            self.add(v, g)


def _single_return(func: Function) -> Block | None:
    """The one block that returns (several are joined in a new one); ``None`` when every path raises."""
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

