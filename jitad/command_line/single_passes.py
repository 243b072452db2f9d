"""Each pass by itself, for ``jitad opt`` and for tests: without the cleanup that follows it in the pipeline.

A pass that stands in the pipeline in several forms has one form here, or does one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..ad.checkpoint import checkpoint_loops
from ..ir.graph import Module
from ..passes.algebra.chain_reassociation import chain_reassociation
from ..passes.branches.correlated_branches import correlated_branches, nest_joins
from ..passes.cleanup.cse import cse
from ..passes.cleanup.rules import needed_rules
from ..passes.loops.branch_accesses import branch_accesses
from ..passes.loops.licm import licm
from ..passes.loops.zero_cotangents import zero_cotangents
from ..passes.memory.dead_stores import cleared_sums, dead_stores, overwritten_stores
from ..passes.memory.loop_load_elimination import loop_load_elimination
from ..passes.memory.neighbour_updates import neighbour_updates
from ..passes.nests.interchange import interchange
from ..passes.nests.matrix_products import matrix_products
from ..passes.nests.scalarise import scalarise
from ..passes.parallel.outline import outline
from ..passes.shapes.array_sroa import array_sroa
from ..passes.shapes.size_numbering import size_numbering, sizes_ahead
from ..passes.shapes.size_versions import size_versions
from ..pipeline import PIPELINE, Step


def _rules(module: Module) -> None:
    """Drops derivative rules of functions that are never differentiated, and the functions that only such rules use."""
    needed_rules(module, list(module.functions))


def _dead_stores(module: Module) -> None:
    """Stores that nothing reads, those that a sum overwrites among them."""
    dead_stores(module)
    overwritten_stores(module)
    cleared_sums(module)


def _sizes(module: Module) -> None:
    """One value for each size, computed ahead of the branches that lead to it."""
    size_numbering(module)
    sizes_ahead(module)


def _zero_cotangents(module: Module) -> None:
    """Skips loops and paths of the reverse sweep that would add multiples of a cotangent that is zero."""
    for paths in (False, True):
        zero_cotangents(module, paths)


def _correlated(module: Module) -> None:
    """A join for each branch, and one branch for two on the same condition."""
    nest_joins(module)
    correlated_branches(module)


def _interchanged(module: Module) -> None:
    """Loop interchange: the loop over neighbouring elements goes inside, in derivatives too."""
    interchange(module, derived=True)


def _neighbours(module: Module) -> None:
    """Sums of neighbouring elements: those that the next iteration reads, then all others."""
    for last in (True, False):
        neighbour_updates(module, last)


def _products(module: Module) -> None:
    """Products of matrices by loops, and by products of matrices and vectors."""
    for by_vectors in (False, True):
        matrix_products(module, by_vectors)


def _late_extremes(module: Module) -> None:
    """Chain reassociation in strict mode: Python's minima and maxima too, where NaN and −0 allow it."""
    chain_reassociation(module, floats=False)


def _scalarised(module: Module) -> None:
    """Sums of rows and slices over a loop, written as loops over their elements."""
    scalarise(module, derived=True)


PASSES_BY_NAME: dict[str, Callable[..., object]] = {
    **{name: run_pass.change if isinstance(run_pass, Step) else run_pass for _, name, run_pass in PIPELINE},
    "rules": _rules, "interchange": _interchanged, "matrix_products": _products, "scalarise": _scalarised,
    "array_sroa": array_sroa, "branch_accesses": branch_accesses, "checkpoint": checkpoint_loops,
    "zero_cotangents": _zero_cotangents, "dead_stores": _dead_stores, "outline": outline,
    "correlated_branches": _correlated, "cse": partial(cse, past_stores=True),
    "size_versions": size_versions, "size_numbering": _sizes, "licm": licm, "neighbour_updates": _neighbours,
    "chain_reassociation": chain_reassociation, "late_extremes": _late_extremes,
    "loop_load_elimination": loop_load_elimination,
}
"""Functions of a module, by the names of passes."""
