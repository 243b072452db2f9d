"""The worth of each optional pass to the ordinary programs.

There are hundreds of these, formulations and gradients included, so machine code is made for few of them.  The IR of a
program is taken through the pipeline once, and a pass *acts* if it changes the IR at any of its positions.  A program
whose optimised IR is another one without a pass that acts is compiled both ways and timed.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from bench import measure
from bench.case import OURS, Bench, Program, warm
from bench.ordinary.program import Ordinary
from jitad import jit
from jitad.ir.text import parse_module, print_module
from jitad.pipeline import OPTIONAL, PIPELINE, run

LEAST = 0.02                            # seconds of a round


@dataclass(frozen=True)
class Collector(Bench):
    """Takes the programs of a field instead of making cases of them."""

    programs: list[Ordinary] = field(default_factory=list)


@dataclass
class Variant:
    """A formulation of a program, or its gradient."""

    group: str
    kind: str
    make: Callable[[], Any]             # a jitted function
    args: tuple[Any, ...]

    def text(self) -> str:
        return str(self.make().inspect("ir", *self.args))

    def compiled(self, left_out: str) -> tuple[Program, float]:
        """The program without a pass, compiled, and the seconds of its first call."""
        os.environ["JITAD_WITHOUT"] = left_out
        f, args = self.make(), self.args
        start = time.process_time()
        f(*args)
        first = time.process_time() - start
        os.environ["JITAD_WITHOUT"] = ""
        return lambda: f(*args), first


def programs(module: str, bench: Bench) -> list[Ordinary]:
    """The programs of a field."""
    collector = Collector(bench.data, bench.peers, bench.quick, bench.rounds)
    list(importlib.import_module(module).cases(collector))
    return collector.programs


def variants(module: str, bench: Bench) -> Iterator[Variant]:
    """The programs of a field in all formulations, values and gradients."""
    for p in programs(module, bench):
        for name, f in {"": p.function, **p.formulations}.items():
            group, args = f"{p.name}: {name}" if name else p.name, tuple(p.others.get(name, p.args))
            yield Variant(group, "value", lambda f=f: jit(f), args)                        # type: ignore[misc]
            if p.grad:
                yield Variant(group, "gradient", lambda f=f, p=p:                          # type: ignore[misc]
                              jit(f, grad=p.grad).value_and_grad, args)


def acting(text: str) -> tuple[set[str], str]:
    """The optional passes that change the IR at any of their positions, and the optimised IR."""
    module = parse_module(text)
    roots, found, before = [next(iter(module.functions))], set(), text
    for _, name, run_pass in PIPELINE:
        run_pass(module, roots)
        after = print_module(module)
        if after != before and name in OPTIONAL:
            found.add(name)
        before = after
    return found, before


def optimised(text: str, left_out: str) -> str:
    """The optimised IR without a pass."""
    module = parse_module(text)
    os.environ["JITAD_WITHOUT"] = left_out
    run(module, [next(iter(module.functions))])
    os.environ["JITAD_WITHOUT"] = ""
    return print_module(module)


def measured(module: str, names: tuple[str, ...], bench: Bench) -> list[dict[str, Any]]:
    """Seconds with and without each of the named passes, as ``without.measured``."""
    warm(OURS)
    cases = []
    for variant in variants(module, bench):
        text = variant.text()
        found, known = acting(text)
        differ = [name for name in names if name in found and optimised(text, name) != known]
        part: dict[str, Any] = {"group": variant.group, "kind": variant.kind, "seconds": {}, "first": {},
                                "same": [name for name in names if name not in differ]}
        if differ:
            _time(variant, differ, part, bench.rounds)
        cases.append(part)
    return cases


def _time(variant: Variant, differ: list[str], part: dict[str, Any], rounds: int) -> None:
    programs, first = {}, {}
    for name in ["", *differ]:
        programs[name], first[name] = variant.compiled(name)
    trials = {name: measure.tried(program, LEAST) for name, program in programs.items()}
    times = measure.turns(programs, trials, rounds)
    for name in differ:
        part["seconds"][name] = [[times[name], times[""]]]
        part["first"][name] = [[first[name], first[""]]]
