"""Tables for the terminal, the summary over all programs, and the description of the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import one_core, targets
from bench.case import OURS, family
from bench.measure import median, ratio, readable, size

_console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def say(text: str) -> None:
    _console.print(text, markup=False)


def machine() -> dict[str, Any]:
    """The machine and the versions that the figures were measured on."""
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
    if code := os.environ.get("JITAD_CPU"):
        cpu += f", code for {code}"
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.platform(terse=True), "gcc": gcc,
            "python": platform.python_version(), "threads": 1, "date": time.strftime("%Y-%m-%d"),
            **versions}


# --- one case ---------------------------------------------------------------------------------------

HEADS = ("", "time", "over jitad (95 %)", "first call", "memory")


def rows(case: dict[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    """Rows: peer, time, the peer's time over ours with its interval, first call, memory of a call."""
    ours = case["seconds"].get(OURS)
    for label, times in case["seconds"].items():
        over = ""
        if ours and label != OURS:
            r, low, high = ratio(times, ours)
            over = f"{r:.2f}× ({low:.2f} to {high:.2f})"
        first, shown = case["first"].get(label), f"{label} †" if label in case.get("apart", ()) else label
        yield shown, readable(median(times)), over, readable(first) if first else "", memory(case, label)
    for label, why in case["cannot"].items():
        yield label, "–", why, "", ""


def memory(case: dict[str, Any], label: str) -> str:
    """The memory that a call touches besides its arguments, with the part per step if the program is a loop."""
    used = case.get("memory", {}).get(label)
    if used is None or family(label) == "C":                # C writes into arrays that it is given
        return ""
    return size(used) + (f", {used / case['steps']:.3g} B a step" if case.get("steps") else "")


def show_case(case: dict[str, Any]) -> None:
    unit = f", {case['unit']}" if case["unit"] else ""
    table = Table(title=f"{case['group']}, {case['kind']}{unit}", title_justify="left", title_style="bold")
    for head in HEADS:
        table.add_column(head, justify="right" if head in ("time", "first call", "memory") else "left")
    for row in rows(case):
        table.add_row(*row)
    for name, value in case["facts"].items():
        table.add_row(name, f"{value:.4g}")
    _console.print(table)
    if case["apart"]:
        say("† another program that gives the same result: in no mean")


# --- all cases --------------------------------------------------------------------------------------

def summary(results: dict[str, Any]) -> None:
    """Prints the targets and their results, and statistics of all programs."""
    table = Table(title="What is to be shown", title_justify="left", title_style="bold")
    for head in targets.HEADS:
        table.add_column(head)
    for target in targets.rows(results):
        table.add_row(*target.cells(), style=None if target.reached else "yellow")
    _console.print(table)
    which, share = targets.busiest(results)
    if which:
        verdict = "one thread" if share <= one_core.MOST else "MORE THAN ONE THREAD"
        say(f"processor time over time on the clock, all cores allowed: at most {share:.2f} ({which}): {verdict}")
