"""Regions: the nests of a loop that can move into a loop before it (``nest_fission``).

The chain of blocks through which every iteration goes cuts the loop into segments.  A segment is *free* if its control
flow and its values depend on the counter and on loop-invariant values alone.  The *region* that moves is a run of free
segments.  Only the ops of blocks in the chain may depend on what the loop carries: they stay, behind the region.
Where a branch is the same in all iterations, such as one that skips inner loops without iterations, its sides have
chains of their own, and a region may be the beginning of a side.

Nothing ahead of the region's end may raise, so that the region reads nothing that the loop would not read, but for
checks that are the same in all iterations: these fail in the first, before anything else happens.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...ir.graph import Block, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Scalar
from ...ir.uses import ops_of
from ..analysis.cfg import is_pure
from ..analysis.loops import Counted, Loop, LoopForest

MOST = 4
"""The most values of an iteration that are stored."""


@dataclass
class Region:
    """``blocks``, the first of which every iteration enters, and ``end``, to which they lead, or one of its sides.

    ``ahead``: ops of blocks before that the region reads, in order.  ``moving``: the values that move, besides those of
    the first block.  ``again``: ops of the region that are cheaper to repeat than to store.  ``stored``: all others
    that the rest of the loop reads.  ``bound``: values that depend on what the loop carries.
    """

    blocks: list[Block]
    end: Block
    ahead: list[Op]
    moving: set[Value]
    again: list[Op]
    stored: list[Value]
    bound: set[Value]


def values_of(block: Block) -> list[Value]:
    """The parameters of a block and the results of its ops."""
    return [*block.params, *(v for op in block.ops for v in op.results)]


class Segments:
    """The segments of a loop; ``runs``: the candidates for regions, in order.

    A run has its blocks, of which the first stays, the block that follows, and what is bound at its end.
    """

    def __init__(self, forest: LoopForest, loop: Loop, known: Counted) -> None:
        self.forest, self.loop, self.known = forest, loop, known
        self.order = forest.dom.in_order(loop.blocks)
        self.bound = {*loop.head.params} - {known.iv}
        self.varying = {known.iv}                               # with what is bound: it differs between iterations
        self.runs: list[tuple[list[Block], Block, set[Value]]] = []
        assert loop.latch is not None
        self.chain = self._chain(loop.head, [loop.latch])
        self._find(self.chain, loop.blocks, [])

    def _chain(self, first: Block, ends: list[Block]) -> list[Block]:
        """The blocks outside inner loops on every way from ``first`` to the ends, in order."""
        found, dom = list[Block](), self.forest.dom
        block: Block | None = ends[0]
        while block is not None:
            if self.forest.innermost[block] is self.loop and all(dom.dominates(block, end) for end in ends):
                found.append(block)
            block = dom.idom[block] if block is not first else None
        return found[::-1]

    def _find(self, chain: list[Block], inside: Collection[Block], guard: list[Block]) -> None:
        """Enter the runs of a chain, or, behind a ``guard``, those that begin with it, until something may raise."""
        of, run, checked = self._cut(chain, inside), guard, False
        for c, following in zip(chain, chain[1:]):
            self._spread(of[c], self.bound)
            self._spread(of[c], self.varying)
            free = self._is_free(of[c], following)
            before, checked = checked, checked or not all(is_pure(op) for b in of[c] for op in b.ops)
            if free:
                run = [*run, *of[c]]
                if any(self.forest.innermost[b] is not self.loop for b in of[c]):
                    self.runs = [f for f in self.runs if f[0][0] is not run[0]] + [(run, following, set(self.bound))]
                continue
            if not guard and not before:
                self._sides(of[c])
            self.bound.update(following.params, *map(values_of, of[c][1:]))
            run = []
            if guard or checked or any(b.term is not None and b.term.name == "call" for b in of[c]):
                return

    def _cut(self, chain: list[Block], inside: Collection[Block]) -> dict[Block, list[Block]]:
        """The blocks of each segment, in order."""
        of: dict[Block, list[Block]] = {c: [] for c in chain}
        first = dict(zip(chain, chain))
        for block in self.order:
            if block in inside:
                above = self.forest.dom.idom[block]
                if block not in first and above is not None:
                    first[block] = first[above]
                of[first[block]].append(block)
        return of

    def _sides(self, blocks: list[Block]) -> None:
        """Look for runs on the sides of the uniform branch that a segment begins with."""
        first, dom = blocks[0], self.forest.dom
        term = first.term
        assert term is not None
        if term.name != "branch" or not self.is_uniform(term) or not all(map(is_pure, first.ops)):
            return
        entered = [e.block for op in ops_of(blocks) for e in op.edges]
        for side in [e.block for e in term.edges if e.block in blocks and entered.count(e.block) == 1]:
            inside = [b for b in blocks if dom.dominates(side, b)]
            ends = [b for b in inside if any(s not in inside for s in b.successors())]
            if self.forest.innermost[side] is self.loop and ends:
                self._find(self._chain(side, ends), inside, [first])

    def _is_free(self, blocks: list[Block], following: Block) -> bool:
        """True if a segment is free, and leads to ``following``."""
        terms = [b.term for b in blocks if b.term is not None]
        after = {e.block for t in terms for e in t.edges} - set(blocks)
        return after == {following} and self.bound.isdisjoint(v for b in blocks[1:] for v in values_of(b)) and all(
            t.name in ("jump", "branch", "switch") and self.is_uniform(t) for t in terms) and all(
            is_pure(op) or op.name == "check" and self.is_uniform(op) for b in blocks for op in b.ops)

    def _spread(self, blocks: list[Block], found: set[Value]) -> None:
        """Add to a set of values those that depend on it."""
        before = -1
        while len(found) > before:
            before = len(found)
            for block in blocks:
                for op in block.ops:
                    if not found.isdisjoint(op.operands):
                        found.update(op.results)
                for edge in block.term.edges if block.term and block is not self.loop.latch else ():
                    found.update(p for p, a in edge.passed() if a in found)

    def is_uniform(self, op: Op) -> bool:
        """True if the operands are the same in all iterations."""
        return self.bound.isdisjoint(op.operands) and self.varying.isdisjoint(op.operands)


def find_region(forest: LoopForest, loop: Loop, known: Counted) -> Region | None:
    """The first region of a loop in normal form, if it has one, and the rest reads few scalars of it."""
    if loop.latch is None or not loop.children:
        return None
    segments = Segments(forest, loop, known)
    for blocks, end, bound in segments.runs:
        region = _region(segments, blocks, end, bound)
        if region is not None:
            return region
    return None


def _region(segments: Segments, blocks: list[Block], end: Block, bound: set[Value]) -> Region | None:
    loop = segments.loop
    first, *others = blocks
    moving = {v for b in others for v in values_of(b)} - bound
    moving |= {p for p in end.params if p not in bound}
    moving.discard(segments.known.next)                     # it stays, in the first block
    ahead = _ahead(segments, blocks, bound)
    inside = set(others)
    sunk = [op for b in others for op in b.ops if op.results and op.results[0] in bound]
    read = {v for b in loop.blocks - inside for op in ops_of([b]) if b is not first or op is not first.term
            for v in op.used()} | {v for op in sunk for v in op.used()}
    again = _again(others, read & moving, moving)
    kept = {v for op in again for v in op.results}
    read = {*read, *(v for op in again for v in op.operands)} & moving - kept
    stored = [v for b in (*others, end) for v in values_of(b) if v in read]
    if ahead is None or not 0 < len(stored) <= MOST or not all(isinstance(v.type, Scalar) for v in stored):
        return None
    if any(p in bound for b in others for p in b.params) or any(
            not _has_one_source(blocks, end, p) for p in end.params if p in bound):
        return None
    return Region(blocks, end, ahead, moving, again, stored, bound)


def _has_one_source(blocks: list[Block], end: Block, p: Value) -> bool:
    """True if all edges from the region pass the same value of ahead of it to a parameter."""
    args = {a for op in ops_of(blocks) for e in op.edges if e.block is end for a in [e.args[p.index]]}
    return len(args) == 1 and all(a.block not in blocks[1:] for a in args)


def _ahead(segments: Segments, blocks: list[Block], bound: set[Value]) -> list[Op] | None:
    """The ops of earlier blocks that the region needs; ``None`` if it needs what cannot be repeated."""
    inside, found = set(blocks), dict[Op, None]()
    moves = [op for op in ops_of(blocks) if bound.isdisjoint(op.results)]
    todo = [v for op in moves for v in op.used() if v not in bound]
    while todo:
        v = todo.pop()
        if v.op is None and v.block is blocks[0] and v.block is not segments.loop.head:
            return None                                     # an inner loop ahead has computed it
        if v.block in inside or v.block not in segments.loop.blocks or v is segments.loop.head.params[0]:
            continue
        if v.op is None or v.block not in segments.chain or not is_pure(v.op) or OPS[v.op.name].consumes:
            return None
        if v.op not in found:
            found[v.op] = None
            todo += v.op.operands
    return [op for c in segments.chain for op in c.ops if op in found]


def _again(others: list[Block], read: set[Value], moving: set[Value]) -> list[Op]:
    """The cheap ops among those read whose operands do not move, in order."""
    found: list[Op] = []
    there: set[Value] = set()
    for op in (op for b in others for op in b.ops):
        cheap = OPS[op.name].cost < EXPENSIVE and len(op.results) == 1 and isinstance(op.result.type, Scalar)
        if cheap and is_pure(op) and op.result in moving and all(v not in moving or v in there for v in op.operands):
            there.add(op.result)
            found.append(op)
    wanted = set(read)
    needed: list[Op] = []
    for op in reversed(found):
        if op.result in wanted:
            needed.append(op)
            wanted.update(op.operands)
    return needed[::-1]
