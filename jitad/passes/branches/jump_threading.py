"""Sends an edge that decides a later branch straight to the target of that branch.

A *dispatch* block tests its parameters, and does nothing else.  ``cps`` makes them: a ``break`` passes a number to the
latch of its loop, which tests it, and so does the exit block; ``and`` and ``or`` pass a bool to a join::

    ^found:                                           ^found:
      jump ^latch(1, %undef, %i)                        jump ^then(%i)
    ^else:                                            ^else:
      %c = lt %next, %n                                 %c = lt %next, %n
      %code = select %c, -1, 0             becomes      branch %c, ^loop(%next), ^none(%undef)
      jump ^latch(%code, %next, %undef)
    ^latch(%e, %x, %y):
      %again = lt %e, 0
      branch %again, ^loop(%x), ^exit(%e, %y)
    ^exit(%e1, %y1):
      %never = eq %e1, 0
      branch %never, ^none(%y1), ^then(%y1)

Each iteration takes one branch less, and arrays that only one of the exits needs are not passed along
(``copy_insertion`` would copy what stands for them).  Loops then have several exits, so this is the last pass that
changes control flow.  A loop keeps its one latch: the edge that continues it stays where it is, and is simplified if
no other comes with it.
"""

from __future__ import annotations

from ...ir.dominance import dominators
from ...ir.evaluate.fold import fold
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import Scalar
from ..analysis.cfg import Mapping, merge_chains, remove_unreachable, set_term
from ..analysis.loops import loop_forest

TESTS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "not", "and", "or", "select", "const"})

Choice = tuple[Value | None, list[Edge]]
"""The targets of an edge: the only one of the edges, or the first or second as a condition says."""


def jump_threading(module: Module) -> bool:
    """Redirect the decided edges of all functions; returns True if there were any."""
    return any([thread_jumps(func) for func in module.functions.values()])


def thread_jumps(func: Function) -> bool:
    """Redirect the edges of one function until none is decided: each redirection leaves a test behind."""
    threaded = False
    while _Round(func).run():
        threaded = True
        remove_unreachable(func)
        merge_chains(func)
    return threaded


class _Round:
    """One visit of all dispatch blocks.

    ``readers``: the other blocks that read a value of each.  ``touched``: blocks whose edges or predecessors have
    changed, so that what is known of them no longer holds; dispatch blocks that depend on them wait for the next round.
    """

    def __init__(self, func: Function) -> None:
        self.func, self.dom = func, dominators(func)
        self.heads = {loop.head for loop in loop_forest(func).loops}
        found = [b for b in func.blocks[1:] if b.params and b not in self.heads and _only_tests(b)]
        self.readers: dict[Block, dict[Value, dict[Block, None]]] = {b: {} for b in found}
        self.sources: dict[Block, list[tuple[Block, Edge]]] = {b: [] for b in found}
        self.touched: set[Block] = set()
        for b in func.blocks if found else ():
            for op in b.all_ops():
                for v in op.used():
                    if (home := v.block) is not b and home in self.readers:
                        self.readers[home].setdefault(v, {})[b] = None
            assert b.term is not None
            for e in b.term.edges:
                if e.block in self.sources:
                    self.sources[e.block].append((b, e))

    def run(self) -> bool:
        """Redirect the decided edges to each dispatch block; returns True if there are any."""
        return any([self._redirect(b, edges) for b, edges in self.sources.items()])

    def _redirect(self, dispatch: Block, edges: list[tuple[Block, Edge]]) -> bool:
        concerned = {dispatch, *dispatch.successors(), *(b for b, _ in edges)}
        others = {b for blocks in self.readers[dispatch].values() for b in blocks}
        if (concerned | others) & self.touched or any(b.term is None or b.term.name == "call" for b, _ in edges):
            return False
        chosen = [(b, e, c) for b, e in edges if (c := _choice(e)) is not None]
        away = [(b, e, c) for b, e, c in chosen if not any(self._continues(t, dispatch) for t in c[1])]
        if len(away) + 1 >= len(edges):
            away = chosen
        if not away or not self._close(dispatch):
            return False
        if others:                                           # the edges have got more arguments
            away = [(b, e, c) for b, e, _ in away if (c := _choice(e)) is not None]
        changed = any([_take(b, e, c) for b, e, c in away])
        if changed or others:
            self.touched |= concerned | others
        return changed or bool(others)

    def _close(self, dispatch: Block) -> bool:
        """Pass what other blocks read of a dispatch block as parameters of its targets; returns False if it cannot be.

        It can be if each reader is dominated by a target that nothing else leads to.
        """
        assert dispatch.term is not None
        ends = [e for e in dispatch.term.edges if len(self.dom.preds[e.block]) == 1]
        moves: dict[int, list[tuple[Value, Block]]] = {}
        for v, blocks in self.readers[dispatch].items():
            for b in blocks:
                k = next((k for k, e in enumerate(ends) if self.dom.dominates(e.block, b)), None)
                if k is None or v.op is not None:
                    return False
                moves.setdefault(k, []).append((v, b))
        for k, found in moves.items():
            own: Mapping = {}
            for v, b in found:
                if v not in own:
                    own[v] = ends[k].block.add_param(v.type, v.hint)
                    ends[k].args.append(v)
                for op in b.all_ops():
                    op.replace_uses(own)
        return True

    def _continues(self, edge: Edge, dispatch: Block) -> bool:
        """True for an edge back to the head of a loop."""
        return edge.block in self.heads and self.dom.dominates(edge.block, dispatch)


def _only_tests(b: Block) -> bool:
    return (b.term is not None and b.term.name in ("branch", "switch") and all(
        op.name in TESTS and isinstance(op.result.type, Scalar) for op in b.ops)
            and not any(a.op in b.ops for e in b.term.edges for a in e.args if a.op is not None))


def _take(source: Block, edge: Edge, chosen: Choice) -> bool:
    """Let ``edge`` of ``source`` lead where ``chosen`` says, if that takes no other terminator than a jump's."""
    condition, targets = chosen
    term = source.term
    assert term is not None
    if condition is None:
        edge.block, edge.args = targets[0].block, targets[0].args
        return True
    if term.name != "jump" or targets[0].block is targets[1].block:
        return False
    for side, target in enumerate(targets):
        target.args = [_chosen(a, condition, side) for a in target.args]
    set_term(source, "branch", [condition], targets)
    return True


def _chosen(v: Value, condition: Value, side: int) -> Value:
    """The value of ``v`` on one side of a branch on ``condition``."""
    op = v.op
    return op.operands[1 + side] if op is not None and op.name == "select" and op.operands[0] is condition else v


def _choice(edge: Edge) -> Choice | None:
    """The target of what comes along ``edge`` to the dispatch block, if that is known or depends on one selection."""
    mapping: Mapping = dict(edge.passed())
    number = _evaluated(edge.block, mapping)
    if number is not None:
        return None, [_target(edge.block, number, mapping)]
    for param, arg in edge.passed():
        op = arg.op
        if op is None or op.name != "select" or None in (op.operands[1].const, op.operands[2].const):
            continue
        sides = [{**mapping, param: v} for v in op.operands[1:]]
        numbers = [_evaluated(edge.block, side) for side in sides]
        if None not in numbers:
            return op.operands[0], [_target(edge.block, n, side) for n, side in zip(numbers, sides) if n is not None]
    return None


def _evaluated(dispatch: Block, mapping: Mapping) -> int | None:
    """The number of the edge that the dispatch block takes if its parameters have the values of ``mapping``."""
    known = dict(mapping)
    for op in dispatch.ops:
        found = fold(op.name, [known.get(v, v) for v in op.operands], op.attrs)
        if isinstance(found, Value):
            known[op.result] = found
        elif found is not None:
            known[op.result] = Op("const", [], [found[1]], {"value": found[0], "type": found[1]}).result
    term = dispatch.term
    assert term is not None
    selector = known.get(term.operands[0], term.operands[0]).const
    if selector is None:
        return None
    if term.name == "branch":
        return 0 if selector else 1
    return int(selector) if 0 <= selector < len(term.edges) else len(term.edges) - 1


def _target(dispatch: Block, number: int, mapping: Mapping) -> Edge:
    """The edge of that number, with the arguments that ``mapping`` passes on."""
    assert dispatch.term is not None
    edge = dispatch.term.edges[number]
    return Edge(edge.block, [mapping.get(a, a) for a in edge.args])
