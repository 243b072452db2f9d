"""Bugs that are planted in the compiler, to test that random programs find them: ``make planted``.

Each is a plausible mistake in one place; workers are forked while it is present.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from jitad import pipeline
from jitad.ad import derivatives
from jitad.ad.adjoints import Adjoints
from jitad.ad.storage.frames import Frames
from jitad.ir.builder import Builder
from jitad.ir.graph import Module, Op, Value
from jitad.ir.types import Array
from jitad.passes.branches.if_conversion import _Conversion
from jitad.passes.loops import scalar_promotion
from jitad.passes.memory.copy_insertion import _Placer
from tests.fuzzing.campaign import Campaign, Finding, Options

Plant = Callable[[ExitStack], None]


def wrong_rule(patches: ExitStack) -> None:
    """The derivative of sqrt is 1 / y, not 1 / 2y."""
    patches.enter_context(mock.patch.dict(derivatives.PARTIALS, sqrt=(lambda b, y, x: b.div(1.0, y),)))


def lost_adjoint(patches: ExitStack) -> None:
    """A contribution to the adjoint of an array replaces earlier ones instead of being added."""
    right = Adjoints.add

    def add(self: Adjoints, x: Value, contribution: Value) -> None:
        if isinstance(x.type, Array):
            self.env.pop(x, None)
        right(self, x, contribution)
    patches.enter_context(mock.patch.object(Adjoints, "add", add))


def swapped_branch(patches: ExitStack) -> None:
    """A branch on ``<=`` goes the wrong way."""
    def swap(module: Module, roots: Any) -> None:
        for func in module.functions.values():
            for block in func.blocks:
                term = block.term
                if term is not None and term.name == "branch" and term.operands[0].op is not None \
                        and term.operands[0].op.name == "le":
                    term.edges.reverse()
    first = next(i for i, (_, name, _) in enumerate(pipeline.PIPELINE) if name == "cps")
    passes = [*pipeline.PIPELINE[:first], ("cps", "swap", swap), *pipeline.PIPELINE[first:]]
    patches.enter_context(mock.patch.object(pipeline, "PIPELINE", passes))


def missing_frame(patches: ExitStack) -> None:
    """A loop saves the values of all iterations in one place: those of the last iteration remain."""
    right = Frames._indexed_frame

    def frame(self: Any, back: Any, v: Value, end: Value, trip: Value, iv: Value) -> Any:
        return right(self, back, v, end, trip, Builder(back.loop.latch).const(0))
    patches.enter_context(mock.patch.object(Frames, "_indexed_frame", frame))


def aliasing_error(patches: ExitStack) -> None:
    """An array is updated in place although a view of it is read later."""
    right = _Placer._can_give
    patches.enter_context(mock.patch.object(
        _Placer, "_can_give", lambda self, state, v, needed: right(self, state, v, 0)))


def exchanged_terms(patches: ExitStack) -> None:
    """A conditional sum, as it is made for vectors, adds its terms where the condition says not to."""
    right = _Conversion._conditional_sum

    def exchanged(self: Any, b: Any, condition: Value, swapped: bool, start: Value, terms: Any) -> Value:
        return right(self, b, condition, not swapped, start, terms)
    patches.enter_context(mock.patch.object(_Conversion, "_conditional_sum", exchanged))


def wrong_privatisation(patches: ExitStack) -> None:
    """An element that a loop updates is carried as a scalar although the loop reads other elements too."""
    right = scalar_promotion._is_access

    def is_access(op: Op, found: Any, loop: Any) -> bool:
        found.index = []
        return right(op, found, loop)
    patches.enter_context(mock.patch.object(scalar_promotion, "_is_access", is_access))


BUGS: dict[str, Plant] = {f.__name__: f for f in (
    wrong_rule, lost_adjoint, swapped_branch, missing_frame, aliasing_error,
    exchanged_terms, wrong_privatisation)}


@contextmanager
def planted(name: str) -> Iterator[None]:
    with ExitStack() as patches:
        BUGS[name](patches)
        yield


FOCUS = {"wrong_rule": ("sqrt",), "exchanged_terms": ("sum behind a condition",),
         "wrong_privatisation": ("element beside another one",)}
"""Constructs that the programs of a hunt have, for bugs that few programs show otherwise."""


def hunt(name: str, seed: int, seconds: float = 60.0, workers: int = 2,
         keep: bool = False) -> tuple[Finding | None, Campaign]:
    """The first finding of a run with this bug planted (``keep``: not reduced), and the run."""
    with planted(name):
        campaign = Campaign(Options(seed, seconds, workers=workers, keep=keep, findings=1,
                                    focus=FOCUS.get(name, ())), lambda text: None)
        found = campaign.run()
    return (found[0] if found else None), campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing.planted", description=__doc__)
    parser.add_argument("bugs", nargs="*", default=list(BUGS), help=", ".join(BUGS))
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: from the clock")
    options, missed = parser.parse_args(), 0
    for name in options.bugs:
        finding, campaign = hunt(name, options.seed)
        print(f"--- {name}, seed {options.seed}: {BUGS[name].__doc__}")
        if finding is None:
            missed += 1
            print(f"not found: {campaign.progress()}")
        else:
            which = finding.program.seed - options.seed + 1
            print(f"found after {finding.seconds:.1f} s, in program {which}\n{finding.text()}")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
