"""Outer-loop vectorisation (Nuzman and Zaks 2008): ``LANES`` iterations of an outer loop execute together.

``for i in points: for k in parts: for r in range(short): s[r] += q[k, r] * c[i]`` spends its time on entering and
leaving loops that are too short for vectors.  If control flow is the same in every iteration of the outer loop, the
iterations can execute together.  A scalar that differs between them becomes an array of lanes.  An array that an
iteration makes gets an additional last axis.  What iterations add to a shared array is summed over the lanes first.
A sum that inner loops continue has its terms stored, and added up in order behind the chunk.
``lane_kinds.py`` classifies the values, and ``lane_rules.py`` has the rule of each op.

The loop is strip-mined into chunks of ``LANES`` iterations, followed by the original loop for what they leave::

    ^chunks(c, carried…)    executes LANES iterations, from c * LANES on, or the last ones of the loop
    rest                    the original loop, if there are less than LANES iterations, and from the first chunk on in
                            which a check fails; if only checks can lead there, its inner loops are marked cold: LLVM
                            would spend a tenth of its time on vectorising them

If the number of iterations is not known, there may be less than a chunk of them, as of samples around a loop over data:
the loops inside the original one are tried too.  Ten samples of a logistic regression take 0.22 of the time.  A loop
inside that has as many iterations as the one around, as over a square matrix, is as short there, and is left; one that
divides keeps LLVM's vectors, as the sum over nine age groups takes 1.4 of the time without.

The last chunk may overlap the one before.  Lanes whose iteration has been executed compute it again, and then add
nothing and store what is there: an element that only its own iteration reads has its final value already.  A test in
each chunk costs less than a second copy of the code, and the remainder, one by one, took two thirds of the time of 24
iterations.

A check of a varying condition, in an inner loop too, must hold in all lanes.  If it fails in one, the results of the
chunk are discarded, and the original loop executes it again and raises in the right iteration.  So nothing may be
stored before such a check to shared arrays that the loop reads.
"""

from __future__ import annotations

from ...ir.graph import Block, Function, Module
from ..analysis.cost import LANES
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest
from .lane_chunks import LaneChunks
from .lane_kinds import Kinds, NoLanes
from .lane_profit import pays, reads_rows, runs_along_rows, sizes_to_test, vectors_inside
from .nest_fission import NestFission
from .nest_regions import find_region

NARROW = 8
"""The lanes of the chunks for fewer than ``LANES`` iterations.  If their number is not constant, at least one chunk of
these is required at run time."""
SHORT = 60
"""The most ops of a loop with a version for few iterations: of eight columns a machine takes 0.66 of the time, its
gradient 0.52 (Intel Xeon with AVX-512)."""


def outer_loop(module: Module, heads: set[Block] | None = None) -> None:
    """Vectorise every such loop, or those of ``heads``.

    Expects normal form: loops are rotated, closed, and have a preheader.
    """
    for func in module.functions.values():
        taken: set[Block] = set()
        later: set[Block] = set()
        _in_order(func, taken, later, heads, module.fastmath)
        if later:
            _in_order(func, taken, taken, later, module.fastmath)


def _in_order(func: Function, taken: set[Block], later: set[Block], heads: set[Block] | None, fastmath: bool) -> None:
    """Vectorise the loops of ``heads``, or all; enters the blocks of those that are vectorised in ``taken``.

    A loop whose lanes access rows is left for ``later``, after loops inside whose lanes access neighbours: the product
    of two matrices by loops takes half of the time.
    """
    seen = set(taken)
    while (found := _next(func, seen, heads)) is not None:
        forest, loop, known = found
        if heads is None or not loop.blocks & taken:
            _try(func, forest, loop, known, (seen, taken, later), fastmath)


def _next(func: Function, seen: set[Block], heads: set[Block] | None) -> tuple[LoopForest, Loop, Counted] | None:
    """The next counted loop with inner loops that is not in ``seen``, outer loops first."""
    forest = loop_forest(func)
    for loop in reversed(forest.loops) if not forest.irreducible else ():
        if loop.head in seen or not loop.children or heads is not None and loop.head not in heads:
            continue
        seen.add(loop.head)
        known = counted(loop)
        if known is not None and known.iv.index == 0 and loop.exit is not None and \
                (known.trip.const is None or known.trip.const >= NARROW):
            return forest, loop, known
    return None


def _try(func: Function, forest: LoopForest, loop: Loop, known: Counted, sets: tuple[set[Block], ...],
         fastmath: bool) -> None:
    """Vectorise a loop, or a nest in it, if possible and profitable; ``sets``: ``seen``, ``taken`` and ``later``."""
    if _together(func, forest, loop, known, sets, fastmath):
        return
    region = find_region(forest, loop, known)
    if region is None:
        return
    _, taken, later = sets
    parts = NestFission(func, loop, known, region)
    parts.prepare()
    forest = loop_forest(func)
    nest = forest.innermost[parts.before]
    count = counted(nest)
    assert count is not None
    if not _together(func, forest, nest, count, sets, fastmath, apart=True):
        parts.undo()
    elif later is not taken and nest.head in later:
        parts.undo()
        later.remove(nest.head)
        later.add(loop.head)
    else:
        parts.finish()


def _together(func: Function, forest: LoopForest, loop: Loop, known: Counted, sets: tuple[set[Block], ...],
              fastmath: bool, apart: bool = False) -> bool:
    """Vectorise a loop if possible and profitable, at once or later; returns False if not.

    With ``apart`` the loop has been split off for that, which costs more than what LLVM would gain along inner loops.
    """
    seen, taken, later = sets
    count = len(func.blocks)
    try:
        kinds = Kinds(forest, loop, known, forest.dom.in_order(loop.blocks))
        short = pays(forest, kinds, fastmath)
        if short is None or apart and vectors_inside(forest, kinds, fastmath):
            return False
        if later is not taken and reads_rows(forest, kinds):
            later.add(loop.head)
            return True
        widths = _widths(kinds, known)
        if short.get(known.trip, LANES) < min(widths):         # over a square, which is too small whenever it is short
            seen.add(loop.head)
            taken.add(loop.head)
            return True
        chunks, *narrow = [LaneChunks(func, loop, known, kinds, width) for width in widths]
        for each in (chunks, *narrow):
            each.run()
        sizes = sizes_to_test(loop, chunks.lanes.made)
    except NoLanes:
        del func.blocks[count:]
        return False
    chunks.enter(sizes, short, *narrow)
    if loop.parent is None and "threads" in func.attrs:
        func.attrs["lanes"] = True                              # each thread needs as many iterations
    tried = loop.blocks if apart or known.trip.const is not None else {loop.head}
    done = {*func.blocks[count:], *tried, *chunks.cold}
    seen |= done
    taken |= done
    return True


def _widths(kinds: Kinds, known: Counted) -> list[int]:
    """The numbers of lanes in the versions of a loop: a short one along rows, which may have few elements, has two."""
    if known.trip.const is not None:
        return [LANES if known.trip.const >= LANES else NARROW]
    return [LANES, NARROW] if sum(len(b.ops) for b in kinds.blocks) <= SHORT and runs_along_rows(kinds) else [LANES]
