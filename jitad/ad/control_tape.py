"""The control tape: what the forward sweep records of its control flow for the reverse sweep.

From a block with several predecessors, the reverse sweep branches by the condition of the branch above it, or by a
*tag*: a parameter that each incoming edge sets.  A loop that is not counted counts its iterations.  A call returns
its stack.  Loops and branches without active values are skipped, and record nothing.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.graph import Block, Edge, Function, Module, Value
from ..ir.types import BOOL, I64, STACK, Stack
from ..passes.analysis.loops import Loop, LoopForest, counted
from .activity import call_results

_DIAMONDS = ([[False, True], [True, False]], [[True, False], [False, True]])


class LoopBack:
    """Pairs a loop with its reverse loop.

    The reverse loop counts up, as every counted loop does, while ``index``, the forward iteration that it reverses,
    goes down from ``trip - 1``.
    """

    def __init__(self, loop: Loop, iv: Value, trip: Value) -> None:
        self.loop, self.iv, self.trip = loop, iv, trip
        self.top: Block | None = None                       # latch_bar, where the reverse iteration starts
        self.count: Value | None = None                     # its first parameter
        self.index: Value | None = None
        self.carried: list[Value] = []                      # values whose adjoints are parameters of latch_bar
        # arrays among them that receive an adjoint from the last iteration only
        self.outside: set[Value] = set()
        self.entry: tuple[Block, Edge] | None = None        # from exit_bar into latch_bar
        self.back: tuple[Block, Edge] | None = None         # from head_bar into latch_bar


class Ways:
    """Adds tags, counts and stacks to ``func``, and determines the control flow of the reverse sweep.

    ``preds``: the incoming edges of each block, in the order of its tag's numbers.  ``loops``: maps each lively loop to
    its ``LoopBack``.  ``tapes``: for a block that ends in an active call, the stack that the call returns.
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
        """True if the block defines an active value, or ends in an active call."""
        defined = [*block.params, *(r for op in block.ops for r in op.results)]
        return any(v in self.active for v in defined) or self._active_call(block)

    def _active_call(self, block: Block) -> bool:
        """True if the block ends in a call through which an adjoint flows.

        A call with an active stack always is one, even if its results are not needed: the adjoint of the push of a
        frame that it pops expects a frame.
        """
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
        """Determine the trip count of a loop, or add a parameter that counts it."""
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
        if loop.exit is None:                              # it ends by raising: there is no reverse sweep
            return LoopBack(loop, iv, iv)
        loop.exit_edge().args.append(following)
        return LoopBack(loop, iv, loop.exit.add_param(I64, "trip"))

    def _call_forward(self, block: Block) -> None:
        """Rewrite ``call g`` to ``call g.fwd``, which returns its stack after its results."""
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
        """The predecessors to which the reverse sweep goes from a block that is no loop head, or None to use a tag."""
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
        """The tag of ``block``: the number of the predecessor from which it was entered (a bool if there are two)."""
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
