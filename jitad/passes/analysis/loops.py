"""Natural loops, their nesting, and counted loops.

A *back edge* goes to a block that dominates its source.  The loop of a head consists of the blocks from which a back
edge to the head can be reached without passing the head.  The docstring of ``cps.py`` describes the normal form.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.dominance import Dominators, dominators
from ...ir.graph import Block, Edge, Function, Op, Value

MOST_FIRST = 2
"""The most first iterations that ``peel`` takes: stencils look back by one or two."""
MOST_LAST = 1
"""The most last iterations.  One is always left behind the first copies, which pass on only if there is another."""


@dataclass(eq=False)
class Loop:
    """A natural loop.

    ``blocks``: those of the loop and of inner loops; blocks that only raise are not among them.
    ``latch``: the only source of back edges, or ``None`` if there are several (``latches``).
    ``preheader``: the only block that enters the loop, if there is one and it ends in a jump.
    ``exit``: the block to which the latch leaves, if no other block leaves.  Edges to blocks that only raise do not
    count.
    """

    head: Block
    blocks: set[Block]
    latches: list[Block]
    parent: Loop | None = None
    children: list[Loop] = field(default_factory=list)
    depth: int = 1
    latch: Block | None = None
    preheader: Block | None = None
    exit: Block | None = None

    def __repr__(self) -> str:
        return f"<loop {self.head}>"

    def region(self, raising: set[Block]) -> set[Block]:
        """The loop's blocks and the raising blocks that hang off them."""
        region = set(self.blocks)
        todo = [s for b in self.blocks for s in b.successors() if s in raising]
        while todo:
            block = todo.pop()
            region.add(block)
            todo += block.successors()
        return region

    def back_edge(self) -> Edge:
        """The edge of the latch that goes to the head."""
        return self._latch_edge(self.head)

    def exit_edge(self) -> Edge:
        """The edge of the latch that leaves the loop."""
        assert self.exit is not None
        return self._latch_edge(self.exit)

    def entry_edge(self) -> Edge:
        """The edge of the preheader."""
        assert self.preheader is not None and self.preheader.term is not None
        return self.preheader.term.edges[0]

    def _latch_edge(self, to: Block) -> Edge:
        assert self.latch is not None and self.latch.term is not None
        return next(e for e in self.latch.term.edges if e.block is to)


@dataclass(frozen=True)
class Counted:
    """A loop whose iterations are ``iv`` = 0, 1, … ``trip`` − 1; there is at least one, as the loop is rotated.

    ``next`` is ``iv + 1``.  The latch repeats the loop while ``next < trip``.
    """

    iv: Value
    next: Value
    trip: Value


def loop_forest(func: Function) -> LoopForest:
    """The loops of a function, cached with the dominator tree as long as control flow does not change."""
    dom = dominators(func)
    if dom.forest is None:
        dom.forest = LoopForest(func, dom)
    found: LoopForest = dom.forest
    return found


class LoopForest:
    """The loops of a function.  ``loops``: all, inner loops first.  ``roots``: the outermost loops."""

    def __init__(self, func: Function, dom: Dominators | None = None) -> None:
        self.dom = dom or Dominators(func)
        self.innermost: dict[Block, Loop] = {}
        self.loops: list[Loop] = []
        # Targets of retreating edges that do not dominate their source: loops with two entries.
        self.irreducible = [s for b, s in self.dom.back if not self.dom.dominates(s, b)]
        heads = {s for _, s in self.dom.back}
        for head in (b for b in reversed(self.dom.order) if b in heads) if heads else ():
            latches = [p for p in dict.fromkeys(self.dom.preds[head]) if self.dom.dominates(head, p)]
            if latches:
                self._add(head, latches)
        self.loops.sort(key=lambda loop: len(loop.blocks))
        self.roots = [loop for loop in self.loops if loop.parent is None]
        for loop in reversed(self.loops):                    # parents first
            loop.depth = loop.parent.depth + 1 if loop.parent else 1
        raising = raising_blocks(self.dom) if self.loops else set()
        for loop in self.loops:
            self._shape(loop, raising)

    def loop_of(self, block: Block) -> Loop | None:
        """The innermost loop that contains ``block``."""
        return self.innermost.get(block)

    def depth(self, block: Block) -> int:
        loop = self.loop_of(block)
        return loop.depth if loop else 0

    def open_loops(self) -> set[Loop]:
        """Loops that are not closed: a block outside reads a value that they define.

        The arguments of an exit edge are read inside the loop.  A block reads no other values than of loops whose heads
        dominate it, so most blocks need no search: those loops are all around them.
        """
        found: set[Loop] = set()
        innermost, idom, heads = self.innermost.get, self.dom.idom, {loop.head for loop in self.loops}
        above: dict[Block | None, int] = {None: 0}           # the number of heads that dominate a block
        for b in self.dom.order if self.loops else ():
            above[b] = above[idom[b]] + (b in heads)
            for block in _sources(b) if above[b] > self.depth(b) else ():
                home = innermost(block)
                while home is not None and b not in home.blocks:
                    found.add(home)
                    home = home.parent
        return found

    def _add(self, head: Block, latches: list[Block]) -> None:
        """Add a loop by a backward walk from its latches.  Heads come in postorder, so inner loops are known."""
        loop = Loop(head, {head}, latches)
        todo = list(latches)
        inner: dict[Loop, None] = {}
        while todo:
            block = todo.pop()
            if block in loop.blocks:
                continue
            known = self.innermost.get(block)
            if known is None:
                loop.blocks.add(block)
                todo += self.dom.preds[block]
                continue
            while known.parent is not None:
                known = known.parent
            inner[known] = None
            loop.blocks |= known.blocks
            todo += (p for p in self.dom.preds[known.head] if p not in known.blocks)
        for child in inner:
            child.parent = loop
            loop.children.append(child)
        for block in loop.blocks:
            self.innermost.setdefault(block, loop)
        self.loops.append(loop)

    def _shape(self, loop: Loop, raising: set[Block]) -> None:
        if len(loop.latches) == 1:
            loop.latch = loop.latches[0]
        entries = [p for p in self.dom.preds[loop.head] if p not in loop.blocks]
        if len(entries) == 1 and entries[0].term is not None and entries[0].term.name == "jump":
            loop.preheader = entries[0]
        exits = [(b, s) for b in loop.blocks for s in b.successors() if s not in loop.blocks and s not in raising]
        if len(exits) == 1 and exits[0][0] is loop.latch:
            loop.exit = exits[0][1]


def _sources(b: Block) -> set[Block]:
    """The other blocks whose values ``b`` reads."""
    read = set[Value]().union(*[op.operands for op in b.ops], b.term.used() if b.term is not None else ())
    found = {owner.block if type(owner := v.owner) is Op else owner for v in read}
    found.discard(b)
    return found    # type: ignore[return-value]


def raising_blocks(dom: Dominators) -> set[Block]:
    """Blocks with one predecessor that raise, or all of whose successors are such blocks.

    Each hangs off its predecessor.  An edge from a loop to such a block is no exit of the loop.
    """
    if dom.raising is not None:
        return dom.raising
    found = dom.raising = set()
    for b in reversed(dom.order):
        assert b.term is not None
        edges = b.term.edges
        ends = found.issuperset([e.block for e in edges]) if found and edges else b.term.name == "raise"
        if ends and len(dom.preds[b]) == 1:
            found.add(b)
    return found


def counted(loop: Loop) -> Counted | None:
    """The counter and trip count of a rotated loop, or ``None``.

    The loop counts from 0 by 1 while the next index is below a loop-invariant value.
    """
    latch = loop.latch
    if latch is None or loop.preheader is None or latch.term is None or latch.term.name != "branch":
        return None
    if loop.entry_edge().block is not loop.head:           # changed since the loop was found
        return None
    test = latch.term.operands[0].op
    if test is None or test.name != "lt" or latch.term.edges[0].block is not loop.head:
        return None
    if latch.term.edges[1].block is loop.head:
        return None
    following, trip = test.operands
    step = following.op
    if trip.block in loop.blocks or step is None or step.name != "add" or step.block not in loop.blocks:
        return None
    for iv, one in (step.operands, step.operands[::-1]):
        if iv.owner is loop.head and one.const == 1 and loop.back_edge().args[iv.index] is following:
            if loop.entry_edge().args[iv.index].const == 0:
                return Counted(iv, following, trip)
    return None


def always_runs(forest: LoopForest, inner: Loop, end: Block) -> bool:
    """True if each path to ``end``, in an iteration of the loop around, passes ``inner``, a counted loop, or the test
    that it has an iteration.
    """
    before, known = inner.preheader, counted(inner)
    if before is None or known is None:
        return False
    while not forest.dom.dominates(before, end):
        guard = forest.dom.idom.get(before)
        past = forest.loop_of(guard) if guard is not None else None          # a loop that comes first
        while past is not None and past.parent is not forest.loop_of(end):
            past = past.parent
        if past is not None and end not in past.blocks:
            guard = past.preheader
        if guard is None or guard.term is None or guard.term.name == "switch" or \
                forest.loop_of(guard) is not forest.loop_of(end):
            return False
        is_test = guard.term.name == "branch" and forest.dom.dominates(guard.term.edges[0].block, before) \
            and _tests_trip(guard.term.operands[0], known.trip, forest.dom)
        if not is_test and _leads_past(forest, guard, before, end):
            return False
        before = guard
    return True


def _leads_past(forest: LoopForest, guard: Block, before: Block, end: Block) -> bool:
    """True if a path from ``guard`` to ``end``, in one iteration of the loop around, does not pass ``before``."""
    around, seen, todo = forest.loop_of(end), {before}, [guard]
    while todo:
        fresh = [b for b in todo.pop().successors() if b not in seen and (around is None or b is not around.head)]
        if end in fresh:
            return True
        seen.update(fresh)
        todo += fresh
    return False


def _tests_trip(v: Value, trip: Value, dom: Dominators) -> bool:
    """True for ``0 < trip``, also if it has been computed ahead: other paths to the join pass what is undefined."""
    if v.op is None and v.block in dom.preds:
        beside = dom.arguments(trip) if trip.op is None and trip.block is v.block else None
        pairs = {(x, beside[k] if beside else trip) for k, x in enumerate(dom.arguments(v))}
        tests = [(x, n) for x, n in pairs if x is None or not x.undefined]
        return len(tests) == 1 and len(tests) < len(pairs) and tests[0][0] is not None and tests[0][1] is not None and \
            tests[0][0].op is not None and _tests_trip(tests[0][0], tests[0][1], dom)
    return v.op is not None and v.op.name == "lt" and v.op.operands[0].const == 0 and v.op.operands[1] is trip


def exit_values(loop: Loop, known: Counted) -> list[int | Value] | None:
    """The values that the exit receives: carried ones by position, values from outside; ``None`` if anything else."""
    back, found = loop.back_edge().args, list[int | Value]()
    for v in loop.exit_edge().args:
        at = next((i for i, a in enumerate(back) if a is v and i != known.iv.index), None)
        if at is None and v.block in loop.blocks:
            return None
        found.append(v if at is None else at)
    return found


def reads_trip_count(loop: Loop) -> bool:
    """True if the number of iterations is read from memory in each iteration of the loop around.

    Such a loop is short, as over a row of a sparse matrix.
    """
    known = counted(loop) if loop.parent is not None else None
    todo, seen = [known.trip] if known is not None else [], set[Value]()
    while todo:
        v = todo.pop()
        if v not in seen and v.op is not None and loop.parent is not None and v.op.block in loop.parent.blocks:
            if v.op.name == "get":
                return True
            seen.add(v)
            todo += v.op.operands
    return False


def stepped(loop: Loop, p: Value) -> tuple[Value, int] | None:
    """(amount, sign) if each iteration adds a loop-invariant amount to ``p``, or subtracts it."""
    op = loop.back_edge().args[p.index].op
    if op is None or op.block not in loop.blocks or op.name not in ("add", "sub"):
        return None
    x, y = op.operands
    if op.name == "add" and y is p:
        x, y = y, x
    if x is not p or (y.block in loop.blocks and y.const is None):
        return None
    return y, 1 if op.name == "add" else -1
