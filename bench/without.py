"""The worth of each optional pass: ``python -m bench --without outer_loop,licm [names]``, or ``--without all``.

Each benchmark compiles its programs with all passes and then without each of the named ones, and times those whose
optimised IR differs, in turns with the program that has all passes.  ``passes.json`` beside ``results.json`` holds
the times; a table pass × benchmark is printed, and ``--write-docs`` puts it into ``docs/performance.md``.  ``--keep``
continues an earlier run.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import acting, measure, report
from bench.case import FAST, OURS, UNCHECKED, Bench, Case, Program, family, warm
from bench.measure import geometric_mean
from jitad import compiler
from jitad.ir.text import print_module
from jitad.pipeline import OPTIONAL

FILE = "passes.json"
ALONE = "none"                          # of peers: the name of no family
MATTERS = 0.03                          # a change that is less is not shown
ONLY = {"algebra"}                      # passes that run under ``fastmath`` alone
Found = dict[str, Any]
InProcess = Callable[[str], dict[str, Any] | None]


def passes(text: str) -> tuple[str, ...]:
    """The passes that the command line names."""
    names = OPTIONAL if text == "all" else tuple(name.strip() for name in text.split(","))
    if unknown := [name for name in names if name not in OPTIONAL]:
        raise ValueError(f"no optional pass {', '.join(unknown)}: there are {', '.join(OPTIONAL)}")
    return names


def run(names: tuple[str, ...], options: Namespace, in_process: InProcess) -> int:
    """Measure, keep and show; ``in_process`` runs a benchmark with ``--one``, which comes to ``measured``."""
    file: Path = options.out / FILE
    found: Found = {"machine": report.machine(), "quick": options.quick, "times": {}}
    if options.keep and file.exists():
        found["times"] = json.loads(file.read_text())["times"]
    failed = []
    for name in names:
        report.say(name)
        part = in_process(name)
        if part is None:
            failed.append(name)
        else:
            found["times"][name] = part["cases"]
        file.write_text(json.dumps(found, indent=1) + "\n")
    show(found)
    report.say(str(file))
    if failed:
        report.say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


# --- one benchmark --------------------------------------------------------------------------------

@dataclass
class Watched(Case):
    """A case of our programs alone, which notes the optimised IR that each of them compiled to."""

    code: dict[str, str] = field(default_factory=dict)

    def wanted(self, label: str) -> bool:
        return family(label) == OURS and label != UNCHECKED

    def add(self, label: str, make: Callable[[], Program], apart: bool = False) -> None:
        warm(OURS)
        _texts.clear()
        super().add(label, make, apart)
        if label in self.programs:
            self.code[label] = hashlib.sha256("".join(_texts).encode()).hexdigest()


class Watching(Bench):
    def case(self, group: str, kind: str, **settings: Any) -> Watched:
        return Watched(group, kind, peers=self.peers, **settings)


_texts: list[str] = []                  # the IR of what has been compiled since the last program was added


def measured(module: str, names: tuple[str, ...], bench: Bench) -> list[dict[str, Any]]:
    """The cases of a benchmark: seconds of the programs with all passes (``""``) and without each of the named ones.

    A program whose optimised IR is the same without a pass is not measured: its name is in ``same``.  The others
    alternate with the program that has all passes, in one process.
    """
    if module.startswith("bench.ordinary"):
        return acting.measured(module, tuple(n for n in names if n not in ONLY), bench)
    with compiler.observed(lambda stage, m: _texts.append(print_module(m)) if stage == "optimized" else None):
        return _measured(module, names, bench)


def _measured(module: str, names: tuple[str, ...], bench: Bench) -> list[dict[str, Any]]:
    watching = Watching(bench.data, bench.peers, bench.quick, bench.rounds)
    _cases(module, "", watching)                # what is compiled once for a process counts in no first call
    before = _cases(module, "", watching)
    known: list[dict[str, Any]] = [
        {"group": c.group, "kind": c.kind, "seconds": {}, "first": {}, "same": []} for c in before]
    for left_out in names:
        for case, other, part in zip(before, _cases(module, left_out, watching), known, strict=True):
            for label in case.code.keys() & other.code.keys():
                if (label == FAST) == (left_out in ONLY):
                    _compare(case, other, label, part, left_out, bench.rounds)
    return known


def _compare(case: Watched, other: Watched, label: str, part: dict[str, Any], left_out: str, rounds: int) -> None:
    """Adds to ``part`` the times of a program without a pass and with all, in turns unless the code is the same."""
    part["first"].setdefault(left_out, []).append([other.first[label], case.first[label]])
    if case.code[label] == other.code[label]:
        part["same"].append(left_out)
        return
    pair = {"with": case.programs[label], "without": other.programs[label]}
    trials = {name: measure.tried(program, case.least) for name, program in pair.items()}
    times = measure.turns(pair, trials, rounds)
    part["seconds"].setdefault(left_out, []).append([times["without"], times["with"]])


def _cases(module: str, left_out: str, bench: Bench) -> list[Watched]:
    """The cases of a benchmark, compiled without a pass; its functions are loaded anew."""
    os.environ["JITAD_WITHOUT"] = left_out
    for name in [n for n in sys.modules if n.startswith(("bench.programs", "bench.learning", "bench.compiler",
                                                         "examples"))]:
        del sys.modules[name]
    return list(importlib.import_module(module).cases(bench))


# --- the table ------------------------------------------------------------------------------------

def ratios(found: Found, benchmark: str, left_out: str, what: str) -> list[float]:
    """Times without a pass over times with all, of each case of a benchmark; ``what``: "seconds" or "first"."""
    cases = found["times"].get(benchmark, ())
    of = min if what == "seconds" else float
    pairs = [pair for case in cases for pair in case[what].get(left_out, ())]
    same = [1.0 for case in cases if what == "seconds" for name in case["same"] if name == left_out]
    return [of(without) / of(known) for without, known in pairs] + same


def table(found: Found) -> Iterator[tuple[str, ...]]:
    """The heads; then a pass a row: its name, each benchmark's mean ratio, mean and maximum of all cases, first calls.

    Benchmarks that no pass affects have no column.
    """
    benchmarks = [name for name, cases in found["times"].items() if cases]
    shown = [name for name in benchmarks if any(_cell(ratios(found, name, p, "seconds")) for p in OPTIONAL)]
    yield "without", *shown, "all", "most", "first call"
    for left_out in OPTIONAL:
        if any(ratios(found, name, left_out, "first") for name in benchmarks):
            each = {name: ratios(found, name, left_out, "seconds") for name in benchmarks}
            first = [r for name in benchmarks for r in ratios(found, name, left_out, "first")]
            every = _cell(sum(each.values(), []), always=True)
            most = max(sum(each.values(), []), default=1.0)
            yield left_out, *(_cell(each[name]) for name in shown), every, f"{most:.2f}", _cell(first, always=True)


def _cell(values: list[float], always: bool = False) -> str:
    mean = geometric_mean(values) if values else 1.0
    return f"{mean:.2f}" if values and (always or abs(mean - 1) > MATTERS) else ""


def show(found: Found) -> None:
    heads, *rows = table(found)
    shown = Table(title="Time without a pass over time with all", title_justify="left", title_style="bold")
    for head in heads:
        shown.add_column(head, justify="left" if head == "without" else "right")
    for row in rows:
        shown.add_row(*row)
    Console(highlight=False, width=30 + 14 * len(heads)).print(shown)


def kept(folder: Path) -> Found | None:
    """The results of an earlier measurement."""
    file = folder / FILE
    return json.loads(file.read_text()) if file.exists() else None
