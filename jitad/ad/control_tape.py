"""What the forward sweep must tell the backward sweep: which way it came.

A block with several predecessors is gone back from by the condition of the branch above it, or by a *tag*: a
parameter that each way in sets.  A loop that is not counted already counts its iterations.  A call returns its stack.
Loops and branches in which nothing is active are passed over, and need none of this.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.graph import Block, Edge, Function, Module, Value
from ..ir.types import BOOL, I64, STACK, Stack
from ..passes.analysis.loops import Loop, LoopForest, counted
from .activity import call_results

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
        # of those, arrays that only the last iteration gives an adjoint
        self.outside: set[Value] = set()
        self.entry: tuple[Block, Edge] | None = None        # from exit_bar into latch_bar
        self.back: tuple[Block, Edge] | None = None         # from head_bar into latch_bar


class Ways:
    """Adds tags, counts and stacks to ``func``, and knows the way back.

    ``preds``: the ways into each block, in the order that its tag numbers them.  ``loops``: what pairs each lively
    loop with its backward loop.  ``tapes``: for a block that ends in an active call, the stack that the call returns.
    """

    def __init__(self, module: Module, func: Function, forest: LoopForest, active: set[Value]) -> None:
        self.module, self.forest, self.active = module, forest, active
        self.b = Builder()
        reachable = forest.dom.idom
        self.preds: dict[Block, list[tuple[Block, Edge]]] = {
            b: [(p, e) for p, e in es if p in reachable] for b, es in func.predecessors().items() if b in reachable}
        self.loops: dict[Loop, LoopBack] = {}
        self.tapes: dict[Block, Value] = {}
        self.tags: dict[Block, Value] = {}
        self.lively = {loop for loop in forest.loops if any(self._is_lively(b) for b in loop.blocks)}
        self._augment()

    def _is_lively(self, block: Block) -> bool:
        """Whether something active is defined here, or called for."""
        defined = [*block.params, *(r for op in block.ops for r in op.results)]
        return any(v in self.active for v in defined) or self._active_call(block)

    def _active_call(self, block: Block) -> bool:
        """One that an adjoint goes through; of a stack there always is one, though nothing needs the call's results:
        what it pops has been pushed, and the adjoint of that expects a frame."""
        term = block.term
        if term is None or term.name != "call" or not any(v in self.active for v in term.operands):
            return False
        return any(r in self.active for r in call_results(block)) or any(
            isinstance(v.type, Stack) and v in self.active for v in term.operands)

    def _augment(self) -> None:
        heads = {loop.head for loop in self.forest.loops}
        for loop in reversed(self.forest.loops):
            if loop in self.lively:
                self.loops[loop] = self._count(loop)
        for block in self.forest.dom.order:
            if self._active_call(block):
                self._call_forward(block)
        for block in self.forest.dom.order:
            if len(self.preds[block]) > 1 and block not in heads and self.back_from(block) is None:
                self.tags[block] = self._tag(block)

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

    def back_from(self, block: Block) -> list[Block] | None:
        """Where to go back to from a block that is no loop head, when that needs no tag."""
        incoming = [p for p, _ in self.preds[block]]
        if len(incoming) == 1:
            loop = self.forest.loop_of(incoming[0])
            if loop is not None and loop.exit is block and loop not in self.lively:
                assert loop.preheader is not None
                return [loop.preheader]
            return incoming
        above = self.forest.dom.idom[block]
        assert above is not None
        lively = any(p in self.active for p in block.params) or any(map(self._is_lively, self._between(above, block)))
        return None if lively else [above]

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
