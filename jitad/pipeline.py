"""The pass pipeline: all passes from stage "ir" to machine code, in order, by stage.

``run`` transforms a traced module (stage "ir") to the stage "optimized", in place.  ``JITAD_DEBUG=1`` verifies after
each pass.  ``JITAD_WITHOUT=lanes,licm`` omits optional passes by name, at all their positions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from .ad import differentiate
from .ad.checkpoint import checkpoint_loops
from .cps import to_cps
from .ir.graph import Module
from .ir.reverify import Verifier
from .ir.verify import verify
from .passes.algebra.algebra import algebra
from .passes.algebra.hoist_transpose import turn
from .passes.algebra.outer_products import outer
from .passes.algebra.recursion_batching import ahead
from .passes.cleanup.base_case_inlining import peel
from .passes.cleanup.cse import cse
from .passes.cleanup.dce import dce
from .passes.cleanup.inline import inline
from .passes.cleanup.jump_threading import thread
from .passes.cleanup.rules import needed_rules
from .passes.cleanup.simplify import simplify
from .passes.loops.check_elimination import facts
from .passes.loops.fuse_accumulate import accumulate
from .passes.loops.induction_variables import closed_form
from .passes.loops.licm import licm
from .passes.loops.loop_versioning import version
from .passes.loops.unroll import unroll
from .passes.loops.zero_init_elimination import first_write
from .passes.memory.copy_insertion import uniqueness
from .passes.parallel.outline import parallel
from .passes.shapes.array_sroa import scalars
from .passes.shapes.shape_inference import retype_forgotten
from .passes.shapes.shape_specialise import end_at_failures, known_sizes
from .passes.shapes.size_numbering import sizes
from .passes.shapes.stride_specialise import strides
from .passes.vectorise.batch import batch
from .passes.vectorise.fission import fission
from .passes.vectorise.outer_loop import lanes
from .passes.vectorise.predicate import mask

Pass = Callable[[Module, Sequence[str]], object]


def _plain(run_pass: Callable[[Module], object]) -> Pass:
    return lambda module, roots: run_pass(module)


def _under_fastmath(run_pass: Callable[[Module], None]) -> Pass:
    return lambda module, roots: run_pass(module) if module.fastmath else None


def _known_sizes(module: Module, roots: Sequence[str]) -> None:
    if known_sizes(module):
        simplify(module)
        if end_at_failures(module):
            simplify(module)
            dce(module, roots)
        cse(module)


def _scalars(derived: bool) -> Pass:
    """``scalars`` with the cleanup passes it needs; these run only if it changed anything."""
    def run_pass(module: Module, roots: Sequence[str]) -> None:
        if scalars(module, derived):
            simplify(module)
            cse(module)
            dce(module, roots)
    return run_pass


_SIMPLIFY, _CSE, _LICM, _DCE = _plain(simplify), _plain(cse), _plain(licm), dce
_ALGEBRA = _under_fastmath(algebra)

# (stage, name, pass): a stage ends with the last pass of its name.
PIPELINE: list[tuple[str, str, Pass]] = [
    ("cps", "rules", needed_rules),
    ("cps", "simplify", _SIMPLIFY),
    ("cps", "inline", inline),
    ("cps", "peel", _plain(peel)),
    ("cps", "dce", _DCE),
    ("cps", "simplify", _SIMPLIFY),
    ("cps", "ahead", _plain(ahead)),
    ("cps", "sizes", _plain(sizes)),
    ("cps", "thread", _plain(thread)),
    ("cps", "cps", _plain(to_cps)),
    ("adjoint", "simplify", _SIMPLIFY),
    ("adjoint", "unroll", _plain(unroll)),
    ("adjoint", "simplify", _SIMPLIFY),
    ("adjoint", "cse", _CSE),
    ("adjoint", "licm", lambda module, roots: licm(module, checks_in_place=True)),
    ("adjoint", "closed_form", _plain(closed_form)),
    ("adjoint", "facts", _plain(facts)),
    ("adjoint", "simplify", _SIMPLIFY),
    ("adjoint", "accumulate", _plain(accumulate)),
    ("adjoint", "licm", _LICM),
    ("adjoint", "dce", _DCE),
    ("adjoint", "known_sizes", _known_sizes),
    ("adjoint", "scalars", _scalars(derived=False)),
    ("adjoint", "batch", _plain(batch)),
    ("adjoint", "differentiate", _plain(differentiate)),
    ("optimized", "simplify", _SIMPLIFY),
    ("optimized", "dce", _DCE),
    ("optimized", "inline", inline),
    ("optimized", "simplify", _SIMPLIFY),
    ("optimized", "retype", _plain(retype_forgotten)),
    ("optimized", "cse", _CSE),
    ("optimized", "scalars", _scalars(derived=True)),
    ("optimized", "licm", _LICM),
    ("optimized", "algebra", _ALGEBRA),
    ("optimized", "dce", _DCE),
    ("optimized", "algebra", _ALGEBRA),                   # again, after dead operands of cancelled terms are gone
    ("optimized", "dce", _DCE),
    ("optimized", "cps", _plain(to_cps)),
    ("optimized", "first_write", _plain(first_write)),
    ("optimized", "batch", _plain(batch)),
    ("optimized", "mask", _plain(mask)),
    ("optimized", "parallel", lambda module, roots: parallel(module) if module.parallel else None),
    ("optimized", "lanes", _plain(lanes)),
    ("optimized", "simplify", _SIMPLIFY),
    ("optimized", "version", _plain(version)),
    ("optimized", "strides", _plain(strides)),
    ("optimized", "fission", _plain(fission)),
    ("optimized", "outer", outer),
    ("optimized", "turn", _plain(turn)),
    ("optimized", "simplify", _SIMPLIFY),
    ("optimized", "dce", _DCE),
    ("optimized", "uniqueness", uniqueness),
]

STAGES = ("ir", "cps", "adjoint", "optimized")

# Passes that every program needs; all other passes only improve the code.
NEEDED = ("inline", "cps", "differentiate", "uniqueness", "dce")
OPTIONAL = tuple(dict.fromkeys(name for _, name, _ in PIPELINE if name not in NEEDED))

PASSES_BY_NAME: dict[str, Callable[[Module], object]] = {
    "rules": lambda module: needed_rules(module, list(module.functions)),
    "simplify": simplify, "inline": inline, "peel": peel, "dce": dce, "thread": thread, "cps": to_cps,
    "sizes": sizes, "cse": cse,
    "facts": facts, "licm": licm, "closed_form": closed_form, "accumulate": accumulate,
    "checkpoint": checkpoint_loops, "differentiate": differentiate, "adjoint": differentiate,
    "uniqueness": uniqueness, "first_write": first_write, "unroll": unroll, "batch": batch, "lanes": lanes,
    "mask": mask, "parallel": parallel, "version": version, "strides": strides, "fission": fission,
    "outer": outer, "turn": turn, "ahead": ahead, "algebra": algebra,
    "known_sizes": known_sizes, "scalars": scalars, "retype": retype_forgotten,
}


def left_out() -> frozenset[str]:
    """The passes that ``JITAD_WITHOUT`` names, separated by commas; raises ``ValueError`` for an invalid name."""
    names = frozenset(name for name in map(str.strip, os.environ.get("JITAD_WITHOUT", "").split(",")) if name)
    if needed := sorted(names & set(NEEDED)):
        raise ValueError(f"JITAD_WITHOUT: no program compiles without {', '.join(needed)}")
    if unknown := sorted(names - set(OPTIONAL)):
        raise ValueError(f"JITAD_WITHOUT: no pass {', '.join(unknown)}: there are {', '.join(OPTIONAL)}")
    return names


def run(module: Module, roots: Iterable[str], observe: Callable[[str, Module], None] | None = None,
        stop: str | None = None) -> dict[str, float]:
    """Transforms ``module`` up to stage ``stop`` (default: the last); returns the seconds that each pass took.

    ``roots`` are the functions, or derivatives to be made, that are called from outside; functions that they do not
    reach are dropped.  ``observe(stage, module)`` is called after each stage.
    """
    names, debug, without = list(roots), os.environ.get("JITAD_DEBUG") == "1", left_out()
    seconds: dict[str, float] = {}
    verifier = Verifier()
    if debug:
        verifier.verify(module)
    for stage in STAGES:
        for _, name, run_pass in (entry for entry in PIPELINE if entry[0] == stage and entry[1] not in without):
            start = time.perf_counter()
            run_pass(module, names)
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
            if debug and name == "uniqueness":
                verify(module)
            elif debug:
                verifier.verify(module)
        if observe is not None:
            observe(stage, module)
        if stage == stop:
            break
    return seconds
