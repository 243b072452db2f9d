"""The pictures: speed against peers, costs of gradients, memory, cost against length, inputs and program size.

Each function draws one from the results, or returns None without results for it.  ``SCHEMES`` has the colours of a
light and of a dark page.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import OURS
from bench.measure import median
from bench.targets import TIMED, best, every, gradient_over_value, name_of

COLOURS = {"C": "#8a8a8a", "Enzyme": "#9467e0", "Numba": "#00a3c8", "JAX": "#4c8bf5", "PyTorch": "#ee5c3c",
           "CasADi": "#2f9e57", "Dr.Jit": "#c07030", "NumPy": "#4dabcf", "Python": "#d8a800"}
OTHERS, OUR_COLOUR = "#a0a0a0", "#d6336c"
SCHEMES: dict[str, dict[str, Any]] = {
    "light": {"figure.facecolor": "#ffffff", "axes.facecolor": "#ffffff", "text.color": "#1a1a1a"},
    "dark": {"figure.facecolor": "#15181c", "axes.facecolor": "#15181c", "text.color": "#e6e6e6",
             "legend.facecolor": "#20242a", "legend.edgecolor": "#444444", "grid.color": "#666666"}}
ROW = 0.23                              # inches a row

Figure, Axes, Results = Any, Any, dict[str, Any]


@contextlib.contextmanager
def scheme(name: str) -> Iterator[None]:
    import matplotlib
    matplotlib.use("Agg")
    colours = dict(SCHEMES[name])
    for part in ("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"):
        colours[part] = colours["text.color"]
    with matplotlib.rc_context(colours):
        yield


def figure(height: float, panels: int = 1) -> tuple[Figure, Any]:
    import matplotlib.pyplot as plt
    return plt.subplots(1, panels, figsize=(9, height), layout="constrained")


def rows_of(axes: Axes, names: list[str]) -> None:
    """Labels the rows of a picture, from the top."""
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)


# --- speed --------------------------------------------------------------------------------------------

def speed(results: Results) -> Figure | None:
    """A row for each case, a dot for the fastest peer of each family: its time over ours."""
    cases = [c for c in every(results) if OURS in c["seconds"] and any(best(c, kin) for kin in COLOURS)]
    if not cases:
        return None
    drawn, axes = figure(1.3 + ROW * len(cases))
    for kin, colour in COLOURS.items():
        found = [(y, label) for y, case in enumerate(cases) if (label := best(case, kin))]
        if found:
            over = [median(cases[y]["seconds"][label]) / median(cases[y]["seconds"][OURS]) for y, label in found]
            axes.plot(over, [y for y, _ in found], "o", color=colour, markersize=5, alpha=0.9, label=kin)
    axes.axvline(1, color=OUR_COLOUR, linewidth=1.2)
    axes.set_xscale("log")
    axes.set_xlabel("the peer's time over jitad's (right of the line jitad is faster)")
    rows_of(axes, [name_of(c) for c in cases])
    drawn.legend(loc="outside upper center", ncols=len(COLOURS), fontsize=8, frameon=False)
    return drawn


def ratios(results: Results) -> Figure | None:
    """The time of value and gradient relative to the value, by program."""
    found = gradient_over_value(results)
    if not found:
        return None
    drawn, axes = figure(1.0 + ROW * len(found))
    axes.barh(range(len(found)), list(found.values()), color=OUR_COLOUR, height=0.6)
    axes.axvline(2.5, linestyle=":", color=OTHERS)
    axes.set_xlabel("time of value and gradient over that of the value (dotted: 2.5)")
    rows_of(axes, list(found))
    return drawn


# --- memory -------------------------------------------------------------------------------------------

def memory(results: Results) -> Figure | None:
    """The memory that a call of a gradient touches besides its arguments, a row for each program."""
    cases = [c for c in every(results) if c["kind"] in TIMED and c["kind"] != "value"
             and (c["memory"].get(OURS) or 0) > 0 and len(c["memory"]) > 1]
    if not cases:
        return None
    drawn, axes = figure(1.3 + ROW * len(cases))
    kins = {OURS: OUR_COLOUR, **{kin: colour for kin, colour in COLOURS.items() if kin != "C"}}
    for kin, colour in kins.items():
        found = []
        for y, case in enumerate(cases):
            label = OURS if kin == OURS else best(case, kin)
            if label and case["memory"].get(label):
                found.append((case["memory"][label], y))
        if found:
            axes.plot([bytes_ for bytes_, _ in found], [y for _, y in found], "D" if kin == OURS else "o", color=colour,
                      markersize=5, alpha=0.9, label=kin)
    axes.set_xscale("log")
    axes.set_xlabel("bytes by which one call raises the resident set, its results included")
    rows_of(axes, [name_of(c) for c in cases])
    drawn.legend(loc="outside upper center", ncols=len(kins), fontsize=8, frameon=False)
    return drawn


# --- cost against size --------------------------------------------------------------------------------

def curves(results: Results) -> Figure | None:
    """Time and memory of gradients against length, time over the value's against inputs; compile time against size."""
    found = [*(panel for part in results["benchmarks"].values() for panel in part.get("panels", ())),
             *compile_panel(results)]
    return panels(found) if found else None


def compile_panel(results: Results) -> Iterator[dict[str, Any]]:
    cases = [c for c in every(results) if c["benchmark"] == "compiling" and c["group"].endswith("statements")]
    found = []
    for label in (OURS, "JAX"):
        costs = {int(c["group"].split()[0]): median(c["seconds"][label]) for c in cases if label in c["seconds"]}
        if costs:
            found.append({"label": label, "sizes": list(costs), "costs": list(costs.values())})
    if found:
        yield {"title": "first call, seconds", "x": "statements of the program", "curves": found}


def panels(found: list[dict[str, Any]]) -> Figure:
    """Curves on logarithmic scales, two panels a row."""
    import matplotlib.pyplot as plt

    rows = -(-len(found) // 2)
    drawn, grid = plt.subplots(rows, 2, figsize=(9, 3.6 * rows), layout="constrained", squeeze=False)
    for axes in list(grid.flat)[len(found):]:
        axes.remove()
    for axes, panel in zip(grid.flat, found):
        floor, _ = panel.get("range", (1e-9, None))              # position of 0
        for curve in panel["curves"]:
            slope = f": {curve['slope']:.2f}" if "slope" in curve else ""
            axes.plot(curve["sizes"], np.maximum(curve["costs"], floor), "o-", markersize=3,
                      label=curve["label"] + slope)
        axes.set(title=panel["title"], xlabel=panel["x"], xscale="log", yscale="log")
        if "range" in panel:
            axes.set_ylim(*panel["range"])
        axes.grid(alpha=0.3)
        sloped = any("slope" in curve for curve in panel["curves"])
        axes.legend(fontsize=7, title="slope" if sloped else None, title_fontsize=7)
    return drawn


PICTURES = {"speed": (speed, "The peers' times over jitad's"), "ratio": (ratios, "What a gradient costs"),
            "memory": (memory, "Memory of a gradient"), "curves": (curves, "Cost against length, inputs and size")}
