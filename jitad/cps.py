"""Brings control flow into the normal form that differentiation and the optimiser expect.

In normal form (``check_cps`` states it as code):

* Every block is reachable.  A block whose only predecessor jumps to it has been merged into that predecessor.
* There is no *critical* edge except the back edges of loops.  An edge is critical if it goes from a block with several
  successors, or from a call, to a block with several predecessors.
* Each loop is **rotated**.  It has one preheader, which jumps to the head, and one latch.  The latch is the only source
  of a back edge.  Unless the loop never ends, the latch is also the only block that leaves the loop, by
  ``branch c, ^head(…), ^exit(…)`` with the edges in either order.  The exit block has no other predecessor.
* Each loop is **closed**: a value that it defines is read outside only as an argument of its exit edge.

Blocks that only raise (``loops.raising_blocks``) count as part of the loop.  Any block of a loop may branch to them,
since control does not come back.  ``passes/loops/loop_simplify.py`` transforms a single loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from .errors import CompileError
from .ir.clone import clone_blocks
from .ir.graph import Block, Function, Module
from .passes.analysis.cfg import incoming, merge_chains, remove_unreachable, split_critical_edges
from .passes.analysis.loops import Loop, loop_forest, raising_blocks
from .passes.loops.loop_simplify import LoopShaper, has_shape
from .passes.loops.loop_tables import Surroundings

LARGEST_RAISE = 20
"""The most ops in a raising block that is copied for each edge to it."""


def to_cps(module: Module) -> None:
    """Bring every function into the normal form."""
    for func in module.functions.values():
        normalise(func)


def normalise(func: Function) -> None:
    """Bring one function into the normal form, inner loops before outer ones."""
    remove_unreachable(func)
    _copy_raises(func)
    merge_chains(func)
    split_critical_edges(func, calls_only=True)
    done: set[Block] = set()
    while True:
        forest = loop_forest(func)
        if forest.irreducible:
            raise CompileError(f"@{func.name}: a loop with two entries at {forest.irreducible[0]}")
        unclosed = forest.open_loops() if forest.loops else set()
        ready: list[Loop] = []
        for loop in forest.loops:                            # inner loops first
            if loop.head not in done and all(c.head in done for c in loop.children):
                if loop not in unclosed and has_shape(loop, forest.dom):
                    done.add(loop.head)
                else:
                    ready.append(loop)
        if not ready:
            break
        around = Surroundings(func, forest.dom)
        done |= {LoopShaper(around, loop).run() for loop in ready}
        remove_unreachable(func)
    merge_chains(func)
    if split_critical_edges(func):
        remove_unreachable(func)                         # restores reverse postorder


def _copy_raises(func: Function) -> None:
    """Copy a block that ends in ``raise`` for each edge to it, so that no two loops share such a block."""
    count = incoming(func)
    for b in list(func.blocks):
        assert b.term is not None
        for edge in b.term.edges:
            target = edge.block
            assert target.term is not None
            if target.term.name == "raise" and count[target] > 1 and len(target.ops) <= LARGEST_RAISE:
                count[target] -= 1
                edge.block = clone_blocks([target], func, {})[target]


# --- the postconditions ---------------------------------------------------------------------------

def check_cps(func: Function) -> None:
    """Raise a ``CompileError`` that lists each violation of the normal form, if there is any."""
    problems = list(_problems(func))
    if problems:
        raise CompileError(f"@{func.name} is not in cps form:\n" + "\n".join(problems))


def _problems(func: Function) -> Iterator[str]:
    forest = loop_forest(func)
    for b in func.blocks:
        if b not in forest.dom.reachable:
            yield f"{b} is unreachable"
            return
    backs = {(latch, loop.head) for loop in forest.loops for latch in loop.latches}
    count = incoming(func)
    for b in func.blocks:
        assert b.term is not None
        for s in b.successors():
            if count[s] == 1 and b.term.name == "jump":
                yield f"{b} jumps to {s}, to which nothing else leads"
            fork = len(b.term.edges) > 1 or b.term.name == "call"
            if count[s] > 1 and fork and (b, s) not in backs:
                yield f"the edge {b} to {s} is critical"
    raising = raising_blocks(forest.dom)
    for head in forest.irreducible:
        yield f"a loop with two entries at {head}"
    for loop in forest.loops:
        yield from _loop_problems(func, loop, raising, count)


def _loop_problems(func: Function, loop: Loop, raising: set[Block], count: dict[Block, int]) -> Iterator[str]:
    if loop.preheader is None:
        yield f"{loop} has no preheader"
    if loop.latch is None:
        yield f"{loop} has the latches {loop.latches}"
        return
    leaving = [(b, s) for b in loop.blocks for s in b.successors() if s not in loop.blocks and s not in raising]
    yield from (f"{loop} leaves from {b}, not from its latch" for b, _ in leaving if b is not loop.latch)
    assert loop.latch.term is not None
    if loop.latch.term.name != ("branch" if leaving else "jump"):
        yield f"{loop} has a latch that ends in {loop.latch.term.name}"
    yield from (f"the exit block {s} of {loop} has other predecessors" for _, s in leaving if count[s] != 1)
    inside = loop.region(raising)
    for b in func.blocks:
        if b not in inside:
            for op in b.all_ops():
                yield from (f"{loop} defines {v}, read in {b}" for v in op.used() if v.block in inside)
