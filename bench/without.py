"""The worth of each optional pass: ``python -m bench --without outer_loop,licm [names]``, or ``--without all``.

Each benchmark runs with all passes and then with each of the named ones left out, our programs alone.  What was found
is in ``passes.json`` beside ``results.json`` after each run, a table pass × benchmark comes of it, and
``--write-docs`` puts that into ``docs/performance.md``.  ``--keep`` goes on with what is there.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import report
from bench.case import FAST, OURS
from bench.measure import geometric_mean, median
from jitad.pipeline import OPTIONAL

FILE = "passes.json"
ALONE = "none"                          # of peers: the name of no family
MATTERS = 0.03                          # a change that is less is not shown
ONLY = {"algebra": FAST}                # passes that run under an option alone
Found = dict[str, Any]
InProcess = Callable[[str], dict[str, Any] | None]


def passes(text: str) -> tuple[str, ...]:
    """The passes that the command line names."""
    names = OPTIONAL if text == "all" else tuple(name.strip() for name in text.split(","))
    if unknown := [name for name in names if name not in OPTIONAL]:
        raise ValueError(f"no optional pass {', '.join(unknown)}: there are {', '.join(OPTIONAL)}")
    return names


def run(names: tuple[str, ...], options: Namespace, in_process: InProcess) -> int:
    """Measure, keep and show; ``in_process`` runs a benchmark."""
    file: Path = options.out / FILE
    found: Found = {"machine": report.machine(), "quick": options.quick, "times": {}}
    if options.keep and file.exists():
        found["times"] = json.loads(file.read_text())["times"]
    failed = []
    for name in names:
        for left_out in ("", *passes(options.without)):
            report.say(f"{name}, {'without ' + left_out if left_out else 'with all passes'}")
            os.environ["JITAD_WITHOUT"] = left_out
            part = in_process(name)
            if part is None:
                failed.append(f"{name} without {left_out}" if left_out else name)
            else:
                found["times"].setdefault(name, {})[left_out] = part["cases"]
            file.write_text(json.dumps(found, indent=1) + "\n")
    show(found)
    report.say(str(file))
    if failed:
        report.say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def ratios(found: Found, benchmark: str, left_out: str, what: str) -> list[float]:
    """Times without a pass over times with all, of each case of a benchmark; ``what``: "seconds" or "first"."""
    times, label = found["times"].get(benchmark, {}), ONLY.get(left_out, OURS)
    before = {(case["group"], case["kind"]): case[what].get(label) for case in times.get("", ())}
    pairs = [(case[what].get(label), before.get((case["group"], case["kind"]))) for case in times.get(left_out, ())]
    of = median if what == "seconds" else float
    return [of(after) / of(known) for after, known in pairs if after and known]


def table(found: Found) -> Iterator[tuple[str, ...]]:
    """The heads; then a pass a row: its name, each benchmark's mean ratio, the mean of all cases, of first calls."""
    benchmarks = [name for name in found["times"] if ratios(found, name, "", "seconds")]
    yield "without", *benchmarks, "all", "first call"
    for left_out in OPTIONAL:
        if any(left_out in found["times"][name] for name in benchmarks):
            each = [ratios(found, name, left_out, "seconds") for name in benchmarks]
            first = [r for name in benchmarks for r in ratios(found, name, left_out, "first")]
            yield left_out, *map(_cell, each), _cell(sum(each, []), always=True), _cell(first, always=True)


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
    """What was measured before."""
    file = folder / FILE
    return json.loads(file.read_text()) if file.exists() else None
