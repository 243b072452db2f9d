"""Tables for the terminal, the summary over all programs, and the description of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from .case import FAST, NEEDS, OURS, family
from .measure import geometric_mean, median, ratio, readable

_console = Console(highlight=False)


def say(text: str) -> None:
    _console.print(text, markup=False)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
               platform.processor()) if os.path.exists("/proc/cpuinfo") else platform.processor()
    try:
        gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    except (OSError, IndexError):
        gcc = "none"
    versions = {}
    for module in ("numpy", "llvmlite", "numba", "jax", "torch", "enzyme-ad", "casadi", "drjit"):
        try:
            versions[module] = importlib.metadata.version(module)
        except importlib.metadata.PackageNotFoundError:
            pass
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.platform(terse=True), "gcc": gcc,
            "python": platform.python_version(), "threads": 1, **versions}


# --- one case ---------------------------------------------------------------------------------------

def rows(case: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Peer, time, the peer's time over ours with its interval, first call."""
    ours = case["seconds"].get(OURS)
    for label, times in case["seconds"].items():
        over = ""
        if ours and label != OURS:
            r, low, high = ratio(times, ours)
            over = f"{r:.2f}× ({low:.2f} to {high:.2f})"
        first = case["first"].get(label)
        yield label, readable(median(times)), over, readable(first) if first else ""
    for label, why in case["cannot"].items():
        yield label, "–", why, ""


def show_case(case: dict[str, Any]) -> None:
    unit = f", {case['unit']}" if case["unit"] else ""
    table = Table(title=f"{case['group']}, {case['kind']}{unit}", title_justify="left", title_style="bold")
    table.add_column("")
    table.add_column("time", justify="right")
    table.add_column("over jitad (95 %)")
    table.add_column("first call", justify="right")
    for row in rows(case):
        table.add_row(*row)
    for name, value in case["facts"].items():
        table.add_row(name, f"{value:.4g}", "", "")
    _console.print(table)


# --- all of them ------------------------------------------------------------------------------------

def every(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in results["benchmarks"].values():
        yield from part["cases"]


def best(case: dict[str, Any], kin: str) -> list[float] | None:
    """The times of the fastest peer of a family; C in strict arithmetic, as ours is (``exactly`` has the other)."""
    found = [times for label, times in case["seconds"].items() if family(label) == kin and label != "C -ffast-math"]
    return min(found, key=median) if found else None


TIMED = ("value", "gradient", "hessian", "step")         # kinds of which a mean makes sense


def against(results: dict[str, Any], kin: str, kinds: tuple[str, ...] = TIMED) -> dict[str, float]:
    """Our time over that of the best of a family, for each case that has both."""
    out = {}
    for case in every(results):
        ours, theirs = case["seconds"].get(OURS), best(case, kin)
        if case["kind"] in kinds and ours and theirs:
            out[f"{case['group']}, {case['kind']}"] = median(ours) / median(theirs)
    return out


def exactly(results: dict[str, Any], ours: str, theirs: str) -> dict[str, float]:
    """The time of one label over that of another."""
    return {f"{case['group']}, {case['kind']}": median(case["seconds"][ours]) / median(case["seconds"][theirs])
            for case in every(results) if ours in case["seconds"] and theirs in case["seconds"]}


def gradient_over_value(results: dict[str, Any]) -> dict[str, float]:
    """What a gradient (value included) takes over the value, by program."""
    times: dict[tuple[str, str], float] = {}
    for case in every(results):
        if OURS in case["seconds"]:
            times[case["group"], case["kind"]] = median(case["seconds"][OURS])
    return {group: t / times[group, "value"] for (group, kind), t in times.items()
            if kind == "gradient" and (group, "value") in times}


def means(results: dict[str, Any]) -> list[tuple[str, float, float, str, int]]:
    """(against, geometric mean, worst, the worst's name, how many)."""
    found = [(kin, against(results, kin)) for kin in NEEDS]
    found.append(("C -ffast-math, with fastmath", exactly(results, FAST, "C -ffast-math")))
    found.append(("Numba, values", against(results, "Numba", ("value",))))
    found.append(("gradient / value", gradient_over_value(results)))
    lines = []
    for name, ratios in found:
        if ratios:
            worst = max(ratios, key=lambda k: ratios[k])
            lines.append((name, geometric_mean(list(ratios.values())), ratios[worst], worst, len(ratios)))
    return lines


def summary(results: dict[str, Any]) -> None:
    table = Table(title="jitad's time over …", title_justify="left", title_style="bold")
    for column in ("", "geometric mean", "worst", "", "programs"):
        table.add_column(column)
    for name, mean, worst, where, count in means(results):
        table.add_row(name, f"{mean:.3g}", f"{worst:.3g}", where, str(count))
    _console.print(table)
