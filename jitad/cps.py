"""Normalises control flow to the form that differentiation and the optimiser require.

Postconditions (checked by ``check_cps``):

* every block is reachable, and a block with a jump as its only predecessor has been merged with that block;
* there is no *critical* edge (from a block with several successors, or a call, to a block with several
  predecessors) except the back edges of loops;
* each loop is **rotated**: it has one preheader that jumps to the head, and one latch, which is the only source of a
  back edge.  Unless the loop never ends, the latch is the only block that leaves it, by
  ``branch c, ^head(…), ^exit(…)`` in either order; the exit block has no other predecessor;
* each loop is **closed**: values that it defines are used outside only as arguments of its exit edge.

Blocks that only raise (``loops.raising_blocks``) count as inside: a loop may leave to them from anywhere, since they
do not return.  ``passes/loops/loop_simplify.py`` normalises a single loop.
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
"""The maximum number of ops of a raising block that is copied for each edge to it."""


def to_cps(module: Module) -> None:
    for func in module.functions.values():
        normalise(func)


def normalise(func: Function) -> None:
    """Brings one function into the normal form, inner loops first."""
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
        for loop in forest.loops:                            # inner ones first
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
        remove_unreachable(func)                         # restores the order of blocks


def _copy_raises(func: Function) -> None:
    """Gives each edge to a block that ends in ``raise`` its own copy, so that loops do not share one."""
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
    """Raises ``CompileError`` with a list of all violations if a function is not in the normal form."""
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
