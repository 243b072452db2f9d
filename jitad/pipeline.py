"""The list of passes, in order, stage by stage.

``run`` takes a traced module (stage "ir") to the stage "optimized", in place.  A pass has the name of its file in
``passes/`` (``cps`` and ``differentiate`` are ``cps.py`` and ``ad/``).  ``JITAD_DEBUG=1`` verifies the module after
each pass that may have changed it and after each stage, with ``JITAD_VERIFY=stages`` after each stage only.
``JITAD_WITHOUT=outer_loop,licm`` leaves out optional passes, at each of their positions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .ad import differentiate
from .ad.initial_loads import initial_loads
from .cps import to_cps
from .errors import switched_on
from .ir.graph import Module
from .ir.verify import Verifier, verify
from .passes.algebra.algebra import algebra
from .passes.algebra.arg_reductions import arg_reductions
from .passes.algebra.chain_reassociation import chain_reassociation
from .passes.algebra.dot_products import dot_products
from .passes.algebra.doubled_halves import doubled_halves
from .passes.algebra.equal_terms import equal_terms
from .passes.algebra.index_bounds import index_bounds
from .passes.algebra.outer_products import outer_products
from .passes.algebra.rank_one_updates import rank_one_updates
from .passes.algebra.recursion_batching import recursion_batching
from .passes.algebra.repeated_sums import repeated_sums
from .passes.analysis.cfg import remove_unreachable
from .passes.branches.branch_fusion import branch_fusion
from .passes.branches.code_sinking import code_sinking
from .passes.branches.correlated_branches import correlated_branches, nest_joins
from .passes.branches.if_conversion import if_conversion
from .passes.branches.join_folding import join_folding
from .passes.branches.jump_threading import jump_threading
from .passes.branches.loop_unswitch import loop_unswitch
from .passes.branches.rare_updates import rare_updates
from .passes.branches.safe_arguments import safe_arguments
from .passes.branches.zero_iterations import zero_iterations
from .passes.buffers.array_contraction import array_contraction
from .passes.buffers.covered_boxes import covered_boxes
from .passes.buffers.double_buffering import double_buffering
from .passes.buffers.loop_idioms import loop_idioms
from .passes.buffers.own_starts import own_starts
from .passes.buffers.slice_loops import slice_loops
from .passes.buffers.table_starts import table_starts
from .passes.choices.extreme_places import extreme_places
from .passes.choices.extreme_reductions import extreme_reductions
from .passes.choices.last_choice import last_choice
from .passes.choices.unread_choices import unread_choices
from .passes.cleanup.base_case_inlining import base_case_inlining
from .passes.cleanup.code_hoisting import code_hoisting
from .passes.cleanup.common_arithmetic import common_arithmetic
from .passes.cleanup.cse import cse
from .passes.cleanup.dce import dce
from .passes.cleanup.inline import inline
from .passes.cleanup.powers import powers
from .passes.cleanup.rules import needed_rules
from .passes.cleanup.similar_loops import similar_loops
from .passes.cleanup.simplify import simplify
from .passes.induction.border_splitting import border_splitting
from .passes.induction.break_bounds import break_bounds
from .passes.induction.index_set_splitting import index_set_splitting
from .passes.induction.induction_variables import induction_variables
from .passes.induction.invariant_tables import invariant_tables
from .passes.induction.loop_bounds import loop_bounds
from .passes.induction.loop_counters import loop_counters
from .passes.induction.residue_classes import residue_classes
from .passes.induction.strength_reduction import strength_reduction
from .passes.induction.triangle_blocks import triangle_blocks
from .passes.loops.branch_accesses import branch_accesses
from .passes.loops.check_elimination import check_elimination
from .passes.loops.condition_pre import condition_pre
from .passes.loops.equal_lengths import equal_lengths
from .passes.loops.fuse_accumulate import fuse_accumulate
from .passes.loops.licm import licm
from .passes.loops.loop_pre import loop_pre
from .passes.loops.loop_versioning import loop_versioning
from .passes.loops.peel import peel
from .passes.loops.scalar_promotion import scalar_promotion
from .passes.loops.unroll import unroll
from .passes.loops.zero_cotangents import zero_cotangents
from .passes.loops.zero_init_elimination import first_loads, zero_init_elimination
from .passes.memory.array_order import array_order
from .passes.memory.column_blocks import column_blocks
from .passes.memory.column_major import column_major
from .passes.memory.copy_insertion import copy_insertion
from .passes.memory.dead_stores import cleared_sums, dead_stores, overwritten_stores
from .passes.memory.load_speculation import load_speculation
from .passes.memory.loop_load_elimination import loop_load_elimination
from .passes.memory.neighbour_updates import neighbour_updates
from .passes.memory.predictive_commoning import predictive_commoning
from .passes.nests.check_hoisting import check_hoisting
from .passes.nests.interchange import interchange
from .passes.nests.matrix_products import matrix_products
from .passes.nests.packing import packing
from .passes.nests.panels import panels
from .passes.nests.partial_sums import partial_sums
from .passes.nests.scalarise import scalarise
from .passes.nests.window_adjoints import window_adjoints
from .passes.parallel.outline import outline
from .passes.parallel.privatisation import privatisation
from .passes.shapes.array_sroa import array_sroa
from .passes.shapes.equal_sizes import equal_sizes
from .passes.shapes.shape_inference import retype_all
from .passes.shapes.shape_specialise import end_at_failures, shape_specialise
from .passes.shapes.short_axes import short_axes
from .passes.shapes.single_elements import single_elements
from .passes.shapes.size_numbering import size_numbering, sizes_ahead
from .passes.shapes.size_versions import inlined_sizes, size_versions
from .passes.shapes.stride_specialise import stride_specialise
from .passes.vectorise.batch import batch
from .passes.vectorise.check_strips import check_strips
from .passes.vectorise.fission import fission
from .passes.vectorise.outer_loop import outer_loop
from .passes.vectorise.predicate import predicate

Pass = Callable[[Module, Sequence[str]], object]
"""A pass returns False if it has changed nothing; after any other result it may have."""


@dataclass(frozen=True)
class Step:
    """A pass that needs no roots, and the cleanup that its output needs, which runs only if it has changed anything."""

    change: Callable[[Module], object]
    cleanup: tuple[Pass, ...] = ()
    fastmath: bool = False                              # runs under ``fastmath`` only

    def __call__(self, module: Module, roots: Sequence[str]) -> object:
        if self.fastmath and not module.fastmath:
            return False
        changed = self.change(module)
        if self.cleanup and not changed:
            return False
        for clean in self.cleanup:
            clean(module, roots)
        return changed


def _then(change: Callable[[Module], bool], *cleanup: Pass, fastmath: bool = False) -> Step:
    return Step(change, cleanup, fastmath)


_SIMPLIFY, _CSE, _LICM, _DCE = Step(simplify), Step(cse), Step(licm), dce
_ALGEBRA = Step(algebra, fastmath=True)
_STORED_ONCE = _then(first_loads, _DCE, Step(zero_init_elimination))


def _all_reachable(module: Module, roots: Sequence[str]) -> None:
    for func in module.functions.values():
        remove_unreachable(func)


def _array_sroa(derived: bool) -> Step:
    return _then(lambda module: array_sroa(module, derived), _SIMPLIFY, _CSE, _DCE)


def _scalarise(derived: bool) -> Step:
    return _then(lambda module: scalarise(module, derived), _SIMPLIFY)


def _on_nests(change: Callable[[Module], bool]) -> Step:
    """A pass on nests, and the removal of what no longer changes in the loops that went inside."""
    return _then(change, _SIMPLIFY, _LICM, _DCE)


def _nest_joins(module: Module, stored: bool = False) -> bool:
    """A join for each branch, for passes that look for one: they serve vectors."""
    return not module.gpu and nest_joins(module, stored)


def _triangle_blocks(module: Module) -> bool:
    """Divides triangles that no lanes compute, so that some of their rows may be lanes."""
    heads = triangle_blocks(module)
    if heads:
        outer_loop(module, heads)
    return bool(heads)


def _similar_loops(module: Module) -> bool:
    """Merges similar loops of long functions into one function, which is called in their places."""
    return similar_loops(module, _remove_checks)


def _remove_checks(module: Module) -> None:
    """Normal form, and what removes the checks that always hold."""
    to_cps(module)
    simplify(module)
    cse(module)
    licm(module, checks_in_place=True)
    loop_counters(module)
    induction_variables(module)
    check_elimination(module)


# (stage, name, pass): the last entry of a stage completes it.
PIPELINE: list[tuple[str, str, Pass]] = [
    ("cps", "rules", needed_rules),
    ("cps", "simplify", _SIMPLIFY),
    ("cps", "inline", inline),
    ("cps", "base_case_inlining", Step(base_case_inlining)),
    ("cps", "dce", _DCE),
    ("cps", "simplify", _SIMPLIFY),
    ("cps", "similar_loops", Step(_similar_loops)),
    ("cps", "recursion_batching", Step(recursion_batching)),
    ("cps", "size_numbering", Step(size_numbering)),
    ("cps", "cps", Step(to_cps)),
    ("adjoint", "simplify", _SIMPLIFY),
    ("adjoint", "size_versions", _then(size_versions, _SIMPLIFY, Step(retype_all), _SIMPLIFY)),
    ("adjoint", "last_choice", _then(lambda module: last_choice(module, indirect=True), _SIMPLIFY, _DCE)),
    ("adjoint", "loop_counters", _then(loop_counters, _SIMPLIFY)),      # a while loop may be unrolled as well
    ("adjoint", "unroll", Step(unroll)),
    ("adjoint", "simplify", _SIMPLIFY),
    ("adjoint", "cse", _CSE),
    ("adjoint", "break_bounds", _then(break_bounds, _SIMPLIFY, _CSE)),
    ("adjoint", "index_bounds", _then(index_bounds, _SIMPLIFY)),
    ("adjoint", "index_set_splitting", _then(index_set_splitting, _SIMPLIFY, _CSE)),
    ("adjoint", "licm", lambda module, roots: licm(module, checks_in_place=True)),
    ("adjoint", "loop_counters", Step(loop_counters)),
    ("adjoint", "induction_variables", Step(induction_variables)),
    ("adjoint", "check_elimination", Step(check_elimination)),
    ("adjoint", "equal_sizes", Step(equal_sizes)),
    ("adjoint", "simplify", _SIMPLIFY),
    ("adjoint", "loop_bounds", _then(loop_bounds, _SIMPLIFY, _CSE, _LICM)),
    ("adjoint", "fuse_accumulate", _then(fuse_accumulate, _DCE)),
    ("adjoint", "licm", _LICM),
    ("adjoint", "unroll", _then(unroll, _SIMPLIFY, _LICM)),     # again: bodies are smaller without their checks
    ("adjoint", "index_set_splitting", _then(index_set_splitting, _SIMPLIFY, _CSE, _LICM)),    # borders are hoisted now
    ("adjoint", "residue_classes", _then(residue_classes, _SIMPLIFY, _CSE, _LICM)),
    ("adjoint", "border_splitting",
     _then(border_splitting, _SIMPLIFY, _CSE, Step(check_elimination), _SIMPLIFY, _LICM)),
    ("adjoint", "peel",
     _then(peel, Step(check_elimination), _SIMPLIFY, _CSE, _LICM, Step(check_elimination), _SIMPLIFY)),
    ("adjoint", "check_hoisting", _then(check_hoisting, _SIMPLIFY, _CSE)),
    ("adjoint", "load_speculation", _then(load_speculation, _SIMPLIFY, _CSE, _LICM)),
    ("adjoint", "code_hoisting", lambda module, roots: code_hoisting(module) if module.underived() else False),
    ("adjoint", "licm", lambda module, roots: licm(module, speculative=True) if module.underived() else False),
    ("adjoint", "correlated_branches", lambda module, roots: _nest_joins(module, stored=True)),
    ("adjoint", "branch_accesses", _then(branch_accesses, _SIMPLIFY)),
    ("adjoint", "cse", lambda module, roots: cse(module, past_stores=True)),
    ("adjoint", "common_arithmetic", Step(common_arithmetic)),
    ("adjoint", "scalar_promotion", _then(scalar_promotion, _SIMPLIFY)),    # arrays became scalars
    ("adjoint", "dce", _DCE),
    ("adjoint", "dead_stores", Step(overwritten_stores)),
    ("adjoint", "loop_idioms", _then(loop_idioms, _SIMPLIFY, _DCE)),
    ("adjoint", "invariant_tables", _then(invariant_tables, _SIMPLIFY, _DCE)),
    ("adjoint", "column_major", _then(column_major, _SIMPLIFY)),
    ("adjoint", "slice_loops", _then(slice_loops, _SIMPLIFY, _CSE, _LICM)),
    ("adjoint", "array_contraction", _then(array_contraction, _SIMPLIFY, _CSE, _DCE)),
    ("adjoint", "scalarise", _scalarise(derived=False)),
    ("adjoint", "interchange", _on_nests(lambda module: interchange(module, derived=False))),
    ("adjoint", "initial_loads", _then(initial_loads, _SIMPLIFY)),
    ("adjoint", "zero_init_elimination", _then(first_loads, _SIMPLIFY)),
    ("adjoint", "matrix_products", _then(matrix_products, _SIMPLIFY, _LICM, _DCE, Step(overwritten_stores))),
    ("adjoint", "loop_idioms", _then(loop_idioms, _SIMPLIFY, _DCE)),                # rows of products are copied now
    ("adjoint", "packing", _then(packing, _SIMPLIFY, _CSE)),
    ("adjoint", "privatisation", _then(privatisation, _DCE)),
    ("adjoint", "shape_specialise",
     _then(shape_specialise, _SIMPLIFY, _then(end_at_failures, _SIMPLIFY, _DCE), _CSE)),
    ("adjoint", "short_axes", _then(short_axes, _SIMPLIFY, _CSE, _DCE)),
    ("adjoint", "single_elements", _then(single_elements, _SIMPLIFY, _CSE, _DCE)),
    ("adjoint", "array_sroa", _array_sroa(derived=False)),
    ("adjoint", "last_choice", _then(last_choice, _SIMPLIFY, _DCE)),
    ("adjoint", "batch", Step(batch)),
    ("adjoint", "matrix_products", _on_nests(lambda module: matrix_products(module, by_vectors=True))),
    ("adjoint", "correlated_branches", lambda module, roots: bool(module.derived) and _nest_joins(module)),
    ("adjoint", "differentiate", Step(differentiate)),
    ("optimized", "simplify", _SIMPLIFY),
    ("optimized", "dce", _DCE),
    ("optimized", "inline", inline),
    ("optimized", "size_versions", Step(inlined_sizes)),
    ("optimized", "simplify", _SIMPLIFY),
    ("optimized", "size_numbering", _then(sizes_ahead, _SIMPLIFY)),
    ("optimized", "cse", _CSE),
    ("optimized", "equal_terms", _then(equal_terms, _DCE)),
    ("optimized", "doubled_halves", _then(doubled_halves, _DCE)),
    ("optimized", "correlated_branches", _then(correlated_branches, _SIMPLIFY, _CSE)),
    ("optimized", "array_sroa", _array_sroa(derived=True)),
    ("optimized", "code_hoisting", Step(code_hoisting)),
    ("optimized", "licm", lambda module, roots: _CSE(module, roots) if licm(module, speculative=True) else None),
    ("optimized", "condition_pre", Step(condition_pre)),
    ("optimized", "repeated_sums", _then(repeated_sums, _ALGEBRA, _CSE, _SIMPLIFY, _DCE, fastmath=True)),
    ("optimized", "unread_choices", _then(unread_choices, _SIMPLIFY, _DCE)),
    ("optimized", "powers", _then(powers, _CSE, fastmath=True)),
    ("optimized", "algebra", _ALGEBRA),
    ("optimized", "dce", _DCE),
    ("optimized", "algebra", _ALGEBRA),                   # after dce, since operands of cancelled terms are gone
    ("optimized", "dce", lambda module, roots: dce(module, roots) if module.fastmath else False),
    ("optimized", "zero_cotangents", Step(zero_cotangents)),
    ("optimized", "cps", Step(to_cps)),
    ("optimized", "common_arithmetic", _then(common_arithmetic, _SIMPLIFY)),
    ("optimized", "dead_stores", _then(dead_stores, _SIMPLIFY, _DCE)),
    ("optimized", "scalar_promotion", Step(scalar_promotion)),
    ("optimized", "scalarise", _scalarise(derived=True)),
    ("optimized", "rank_one_updates", _on_nests(rank_one_updates)),
    ("optimized", "interchange", _on_nests(lambda module: interchange(module, derived=True))),
    ("optimized", "zero_init_elimination", Step(zero_init_elimination)),
    ("optimized", "batch", Step(batch)),
    ("optimized", "branch_fusion", _then(lambda module: branch_fusion(module, ahead=True), _CSE, _SIMPLIFY)),
    ("optimized", "if_conversion", lambda module, roots: if_conversion(module, around=True)),   # lanes do not branch
    ("optimized", "dce", _DCE),                           # sums that are selects now would still be read
    ("optimized", "table_starts", _then(table_starts, _SIMPLIFY, _DCE)),
    ("optimized", "covered_boxes", _then(covered_boxes, _SIMPLIFY, _DCE)),
    ("optimized", "partial_sums", Step(lambda module: partial_sums(module, uncounted=True))),
    ("optimized", "window_adjoints", _on_nests(window_adjoints)),
    ("optimized", "partial_sums", Step(partial_sums)),
    ("optimized", "triangle_blocks", lambda module, roots: _triangle_blocks(module) if module.parallel else False),
    ("optimized", "outline", lambda module, roots: outline(module) if module.parallel else False),
    ("optimized", "predicate", Step(predicate)),
    ("optimized", "loop_load_elimination", lambda module, roots: loop_load_elimination(module, stored=True)),
    ("optimized", "loop_pre", Step(loop_pre)),          # lanes read no element at an index that a lane has chosen
    ("optimized", "neighbour_updates", _then(lambda module: neighbour_updates(module, last=True),
                                             _then(dead_stores, _SIMPLIFY, _DCE))),
    ("optimized", "outer_loop", Step(outer_loop)),
    ("optimized", "triangle_blocks", Step(_triangle_blocks)),
    ("optimized", "simplify", _SIMPLIFY),
    ("optimized", "panels", _then(panels, _SIMPLIFY, _LICM)),
    ("optimized", "loop_unswitch", _then(loop_unswitch, _all_reachable, _SIMPLIFY, _CSE)),
    ("optimized", "neighbour_updates", _then(neighbour_updates, _STORED_ONCE)),
    ("optimized", "loop_versioning", Step(loop_versioning)),
    ("optimized", "equal_lengths", _then(equal_lengths, Step(condition_pre), _SIMPLIFY)),
    ("optimized", "column_blocks", _then(column_blocks, _SIMPLIFY, _CSE)),
    ("optimized", "correlated_branches", Step(_nest_joins)),
    ("optimized", "branch_accesses", _then(lambda module: branch_accesses(module, derived=True), _SIMPLIFY)),
    ("optimized", "loop_pre", Step(loop_pre)),
    ("optimized", "correlated_branches", Step(_nest_joins)),
    ("optimized", "branch_fusion", _then(branch_fusion, _CSE, _SIMPLIFY)),
    ("optimized", "if_conversion", Step(if_conversion)),
    ("optimized", "scalar_promotion", Step(scalar_promotion)),
    ("optimized", "safe_arguments", _then(safe_arguments, _CSE)),
    ("optimized", "check_strips", Step(check_strips)),
    ("optimized", "stride_specialise", Step(stride_specialise)),
    ("optimized", "zero_iterations", Step(zero_iterations)),
    ("optimized", "zero_cotangents", lambda module, roots: zero_cotangents(module, paths=True)),
    ("optimized", "fission", Step(fission)),
    ("optimized", "outer_products", outer_products),
    ("optimized", "dot_products", Step(dot_products)),
    ("optimized", "arg_reductions", Step(arg_reductions)),
    ("optimized", "simplify", _SIMPLIFY),
    ("optimized", "dce", _DCE),
    ("optimized", "loop_load_elimination", Step(loop_load_elimination)),
    ("optimized", "predictive_commoning", _then(predictive_commoning, _DCE)),
    ("optimized", "chain_reassociation", lambda module, roots: chain_reassociation(module, module.fastmath)),
    ("optimized", "extreme_places", _then(extreme_places, _SIMPLIFY, _DCE)),
    ("optimized", "extreme_reductions", Step(extreme_reductions)),
    ("optimized", "dead_stores", Step(cleared_sums)),
    ("optimized", "strength_reduction", Step(strength_reduction)),
    ("optimized", "code_sinking", _then(code_sinking, _SIMPLIFY)),
    ("optimized", "join_folding", _then(join_folding, _SIMPLIFY, _DCE)),
    ("optimized", "jump_threading", _then(jump_threading, _SIMPLIFY, _CSE, _DCE)),
    ("optimized", "rare_updates", Step(rare_updates)),
    ("optimized", "array_order", Step(array_order)),
    ("optimized", "double_buffering", Step(double_buffering)),
    ("optimized", "own_starts", Step(own_starts)),
    ("optimized", "copy_insertion", copy_insertion),
]

STAGES = ("ir", "cps", "adjoint", "optimized")

# On a GPU a thread executes one iteration, so loops stay as they are written, and independent ones become functions.
# These passes serve vectors, caches and latencies, or turn loops over elements into arrays in memory.
NOT_ON_GPU = frozenset("""
    similar_loops recursion_batching scalarise interchange matrix_products packing panels partial_sums privatisation
    rank_one_updates batch predicate window_adjoints outer_loop loop_unswitch neighbour_updates branch_fusion
    if_conversion
    equal_lengths check_strips stride_specialise fission outer_products dot_products arg_reductions
    border_splitting safe_arguments
    index_set_splitting residue_classes invariant_tables dead_stores load_speculation loop_load_elimination
    chain_reassociation strength_reduction code_sinking join_folding jump_threading extreme_places
    loop_bounds extreme_reductions rare_updates column_blocks column_major own_starts short_axes single_elements
    triangle_blocks table_starts covered_boxes double_buffering loop_idioms slice_loops array_contraction
    predictive_commoning
""".split())

# Passes that every program needs; all others only improve the code.
NEEDED = ("inline", "cps", "differentiate", "copy_insertion", "dce")
OPTIONAL = tuple(dict.fromkeys(name for _, name, _ in PIPELINE if name not in NEEDED))
# What ``JITAD_WITHOUT`` takes besides: separate compilation (``separate/``), which comes before the passes.
SEPARATE = "separate"


def left_out() -> frozenset[str]:
    """The passes in the comma-separated list ``JITAD_WITHOUT``; raises ``ValueError`` if one cannot be left out."""
    names = frozenset(name for name in map(str.strip, os.environ.get("JITAD_WITHOUT", "").split(",")) if name)
    if needed := sorted(names & set(NEEDED)):
        raise ValueError(f"JITAD_WITHOUT: no program compiles without {', '.join(needed)}")
    if unknown := sorted(names - {*OPTIONAL, SEPARATE}):
        raise ValueError(f"JITAD_WITHOUT: no pass {', '.join(unknown)}: there are {', '.join(OPTIONAL)}")
    return names


def run(module: Module, roots: Iterable[str], observe: Callable[[str, Module], None] | None = None,
        stop: str | None = None, gpu: bool = False) -> dict[str, float]:
    """Take ``module`` to stage ``stop`` (default: the last); returns the seconds spent in each pass.

    ``roots`` are the functions, or derivatives to be generated, that are called from outside.  Functions that they do
    not reach are dropped.  ``observe(stage, module)`` is called when a stage is complete.  With ``gpu`` the passes of
    ``NOT_ON_GPU`` are left out, and every independent loop is outlined.
    """
    names, without = list(roots), left_out()
    debug, seldom = switched_on("JITAD_DEBUG"), os.environ.get("JITAD_VERIFY") == "stages"
    if gpu:
        module.parallel = module.gpu = True
        without |= NOT_ON_GPU
    seconds: dict[str, float] = {}
    verifier = Verifier()
    if debug:
        verifier.verify(module)
    for stage in STAGES:
        for _, name, run_pass in (entry for entry in PIPELINE if entry[0] == stage and entry[1] not in without):
            start = time.perf_counter()
            unchanged = run_pass(module, names) is False
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
            if debug and name == "copy_insertion":
                verify(module)
            elif debug and not (seldom or unchanged):
                verifier.verify(module)
        if debug and stage != STAGES[-1]:
            verifier.verify(module)
        if observe is not None:
            observe(stage, module)
        if stage == stop:
            break
    return seconds
