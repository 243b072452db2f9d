"""Turns sums of outer products into products of matrices: additions ``A += outer(x, y)`` are deferred.

An outer product reads and writes all of ``A`` for one multiplication per element.  The adjoint of ``W`` for ``W @ x``
in a loop or a recursion is a sum of outer products.  The pass lets ``A`` carry a *log* (``outer_product_log.py``): the
pending vectors ``x`` and ``y``, as the rows of two arrays ``xs`` and ``ys``, and the number of rows ``used``.  When the
log is full, and at the end, it emits ``A += xs[:used].T @ ys[:used]``, which reads and writes ``A`` once.

A log holds ``ROWS`` rows, so memory does not grow with the number of terms.  If ``A`` is small, the log has no rows,
and each term is added at once.  Only sums that may be reordered (``acc``) are changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from ...ir.expression_keys import same
from ...ir.graph import Block, Function, Module, Op
from ...ir.types import Type, dims_of
from ..analysis.accumulator_webs import Region, Web
from ..analysis.callgraph import CallGraph
from ..analysis.loops import Loop, counted, loop_forest
from . import outer_product_log
from .outer_product_log import LogInsertion, box, factors

SHORT = 4
"""Loops with at most this constant trip count are not changed."""


def outer_products(module: Module, roots: Iterable[str] | None = None) -> None:
    """Defer the additions in every function; expects normal form.

    Functions in ``roots`` keep their parameters; without ``roots``, the functions that no other function calls.
    """
    if not any(_has_terms(f) for f in module.functions.values()):
        return
    for members in _recursive(module, roots):
        while (found := _first(Region.of_functions(module, members))) is not None:
            LogInsertion(*found).run()
    for func in module.functions.values():
        if _has_terms(func):
            _in_loops(module, func)


def _has_terms(func: Function) -> bool:
    return any(is_term(op) for op in func.all_ops())


# --- candidates -----------------------------------------------------------------------------------

def is_term(op: Op) -> bool:
    """True if an op adds an outer product to a sum that may be reordered."""
    if op.name not in ("add", "add_slice") or not op.attrs.get("acc") or factors(op.operands[1]) is None:
        return False
    return op.name == "add" or [v.const for v in op.operands[2:]] == [0, 1, 0, 1]


def _first(region: Region) -> tuple[Region, Web] | None:
    """The first web of the region that has terms, with the region."""
    for op in _large_terms(region.blocks):
        if (web := region.web(op, is_term)) is not None and _of_one_size(region, web):
            return region, web
    return None


def _large_terms(blocks: Iterable[Block]) -> Iterator[Op]:
    return (op for block in blocks for op in block.ops if is_term(op) and not _is_small(op.result.type))


def _of_one_size(region: Region, web: Web) -> bool:
    """True if all terms cover the whole matrix, or all one part of it, whose sizes are known before the loop."""
    boxes = [box(op) for op in web.adds]
    if boxes[0] is None:
        return boxes == [None] * len(boxes)
    return region.loop is not None and all(
        here is not None and all(n.const is not None or n.block not in region.blocks and same(n, first)
                                 for n, first in zip(here, boxes[0])) for here in boxes)


def _is_small(t: Type) -> bool:
    dims = [n for n in dims_of(t) if n is not None]
    return len(dims) == 2 and prod(dims) < outer_product_log.SMALL


def _recursive(module: Module, roots: Iterable[str] | None) -> Iterator[list[Function]]:
    """The sets of mutually recursive functions with terms, if all of a set may get more parameters."""
    graph = CallGraph(module)
    groups: dict[int, list[Function]] = {}
    for name in graph.order:
        if name in graph.recursive:
            groups.setdefault(graph.component[name], []).append(module.functions[name])
    fixed = {n for rule in module.rules.values() for n in rule.functions}
    fixed |= {n for n, func in module.functions.items() if "threads" in func.attrs}
    for members in groups.values():
        names = {f.name for f in members}
        called = {n for caller, callees in graph.callees.items() if caller not in names for n in callees}
        keep = fixed | (names - called if roots is None else set(roots))
        if not names & keep and any(_has_terms(f) for f in members):
            yield members


def _in_loops(module: Module, func: Function) -> None:
    """Transform the sums of loops, outer loops first."""
    found = True
    while found:
        found = False
        for loop in reversed(loop_forest(func).loops):
            if is_long(loop) and any(_large_terms(loop.blocks)) and (
                    match := _first(Region.of_loop(module, loop))) is not None:
                LogInsertion(*match).run()
                found = True
                break


def is_long(loop: Loop) -> bool:
    """True if a loop may have more than ``SHORT`` iterations, and a preheader and an exit."""
    if loop.preheader is None or loop.exit is None:
        return False
    known = counted(loop)
    return known is None or (known.trip.const or SHORT + 1) > SHORT
