"""The figures in the documentation, from one ``results.json``: ``python -m bench --write-docs``.

A page has a section for each, between ``<!-- figures: NAME -->`` and ``<!-- end of figures -->``: the text that
``BLOCKS`` makes of the results under this name.  A section whose programs were not measured does not change.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import targets, without
from bench.case import FAST, OURS
from bench.measure import geometric_mean, median, readable
from bench.report import memory
from bench.targets import best, every, name_of, over

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/benchmarks.md", "docs/performance.md")
PLACE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
FAMILIES = ("C", "Enzyme", "Numba", "JAX", "PyTorch", "CasADi", "Dr.Jit")
Results = dict[str, Any]


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ("---",) * len(heads), *rows))


def wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def machine(results: Results) -> str:
    m = results["machine"]
    of = ", ".join(f"{name} {m[name]}" for name in ("python", "numpy", "llvmlite", "numba", "jax", "torch", "enzyme-ad",
                                                    "casadi", "drjit") if name in m)
    quick = "in a quick run, with smaller problems, " if results.get("quick") else ""
    clock = "processor time" if results.get("cpu time") else "time on the clock"
    share = targets.busiest(results)[1]
    return wrapped(f"Measured {quick}{m.get('date', 'once')} on {m['cpu']}, {m['cores']} cores of which one is used, "
                   f"{clock}; {m['gcc']}; {of}. With all cores to use, no program took more than {share:.2f} times "
                   "its time on the clock in processor time.")


def of_targets(results: Results) -> str:
    return table(targets.HEADS, [t.cells() for t in targets.rows(results)])


def shortfalls(results: Results) -> str:
    """Programs that miss the target for each, or, if the mean misses, the target for the mean."""
    rows = [(t.name, ", ".join(f"{program} {ratio:.2g}" for program, ratio in list(t.beyond().items())[:12]))
            for t in targets.rows(results) if not t.reached]
    return table(("missed against", "by these, the farthest first"), rows) if rows else "Nothing falls short."


def programs(results: Results) -> str:
    """A line per case: our time, and the ratios of the peers' times to it."""
    rows = []
    for case in every(results):
        if OURS not in case["seconds"] or not any(best(case, kin) for kin in FAMILIES):
            continue
        unit = f" {case['unit']}" if case["unit"] else ""
        peers = tuple(f"{over(case, label, OURS):.2f}×" if (label := best(case, kin)) else "" for kin in FAMILIES)
        fast = f"{over(case, 'C -ffast-math', FAST):.2f}×" if {"C -ffast-math", FAST} <= case["seconds"].keys() else ""
        rows.append((name_of(case), readable(median(case["seconds"][OURS])) + unit, peers[0], fast, *peers[1:],
                     memory(case, OURS)))
    return table(("", "jitad", "C", "fast math", *FAMILIES[1:], "memory"), rows)


def ratio(results: Results) -> str | None:
    """A paragraph on the time of gradients relative to values."""
    found = targets.gradient_over_value(results)
    if not found:
        return None
    low, high = (pick(found, key=lambda k: found[k]) for pick in (min, max))
    by_hand = targets.gradient_over_value(results, label="C")
    text = (f"The gradient, value included, takes {geometric_mean(list(found.values())):.2g} times as long as the "
            f"value alone in the geometric mean over {len(found)} programs; the least is {found[low]:.2g} ({low}), "
            f"the most {found[high]:.2g} ({high}).")
    if by_hand:
        text += f" In hand-written C it is {geometric_mean(list(by_hand.values())):.2g} over {len(by_hand)} programs."
    return wrapped(text)


def readme(results: Results) -> str | None:
    """The figures of the first page."""
    cases = {name_of(case): case for case in every(results)}

    def times(name: str, kin: str) -> str:
        label = best(cases[name], kin)
        assert label is not None
        return f"{over(cases[name], label, OURS):.2g}×"
    try:
        cells, layer = (f"{1 / targets.over(cases['char-RNN, step'], OURS, label):.2g}×"
                        for label in ("PyTorch cells", "PyTorch layer"))
        gmm, lstm = "GMM d64_K25, gradient", "LSTM l4_c4096, gradient"
        text = (f"Gradients measured on one thread, the peers' time over jitad's ([how](docs/benchmarks.md), "
                f"[what falls short](docs/performance.md)): ADBench's Gaussian mixture by hand in C "
                f"{times(gmm, 'C')}, Enzyme {times(gmm, 'Enzyme')}, JAX {times(gmm, 'JAX')}, PyTorch "
                f"{times(gmm, 'PyTorch')}; its LSTM in C {times(lstm, 'C')}, Enzyme {times(lstm, 'Enzyme')}, JAX "
                f"{times(lstm, 'JAX')}; a tree of a million nodes by recursion in C {times('tree, gradient', 'C')}; "
                f"a TreeLSTM in PyTorch {times('TreeLSTM, step', 'PyTorch')}; a char-RNN in PyTorch {layer} (its fused "
                f"layer) to {cells}. A call from a loop in Python takes "
                f"{readable(median(cases['sin of a float, call']['seconds'][OURS]))}, one of `math.sin` "
                f"{readable(median(cases['sin of a float, call']['seconds']['Python math.sin']))}.")
    except (KeyError, AssertionError):
        return None
    return wrapped(text)


def passes(results: Results) -> str | None:
    """A table of the speed-up by each optional pass."""
    if not (found := results.get("passes")):
        return None
    heads, *rows = without.table(found)
    return table(heads, rows)


BLOCKS: dict[str, Callable[[Results], str | None]] = {
    "machine": machine, "targets": of_targets, "shortfalls": shortfalls, "programs": programs, "ratio": ratio,
    "readme": readme, "passes": passes}


def filled(text: str, results: Results) -> tuple[str, list[str]]:
    """The page with its figures, and the names of sections without results."""
    missing = []

    def place(match: re.Match[str]) -> str:
        block = BLOCKS[match[2]](results)
        if block is None:
            missing.append(match[2])
            return match[0]
        return f"{match[1]}{block}\n{match[3]}"
    return PLACE.sub(place, text), missing


def write(results: Results, root: Path = ROOT) -> list[str]:
    """Updates the pages; returns a line for each change."""
    said = []
    for name in PAGES:
        page = root / name
        before = page.read_text(encoding="utf-8")
        after, missing = filled(before, results)
        page.write_text(after, encoding="utf-8")
        said.append(f"{name}: {'written' if after != before else 'as it was'}"
                    + (f"; not measured: {', '.join(missing)}" if missing else ""))
    return said
