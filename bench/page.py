"""Pictures, and one static HTML page that needs nothing else."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Any

from . import targets
from .case import OURS, family
from .measure import median
from .report import HEADS, rows
from .targets import every, gradient_over_value

COLOURS = {"C": "#888888", "Numba": "#00a3e0", "JAX": "#5e97f6", "PyTorch": "#ee4c2c", "Enzyme": "#7a4fbf",
           "Python": "#ffd43b", "NumPy": "#4dabcf", "CasADi": "#2b8a3e", "Dr.Jit": "#a0522d"}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse; margin: .5rem 0 1.5rem }
td, th { padding: .2rem .8rem; border-bottom: 1px solid #ddd; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums }
img { max-width: 100% }
tr.ours td { font-weight: 600 }
caption { text-align: left; font-weight: 600; padding: .3rem 0 }
.why { color: #888 }
"""


def _figure(height: float) -> tuple[Any, Any]:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    return plt.subplots(figsize=(9, height), layout="constrained")


def speed(results: dict[str, Any]) -> Any:
    """The peers' times over ours, a row for each case, a dot for each peer."""
    cases = [c for c in every(results) if OURS in c["seconds"] and len(c["seconds"]) > 1]
    figure, axes = _figure(1.2 + 0.28 * len(cases))
    seen = set()
    for y, case in enumerate(cases):
        ours = median(case["seconds"][OURS])
        for label, times in case["seconds"].items():
            kin = family(label)
            if label == OURS:
                continue
            axes.plot(median(times) / ours, y, "o", color=COLOURS.get(kin, "#444444"), alpha=0.85,
                      label=None if kin in seen else kin)
            seen.add(kin)
    axes.axvline(1, color="#1a1a1a", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(cases)), [f"{c['group']}, {c['kind']}" for c in cases], fontsize=8)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlabel("the peer's time over jitad's (right of the line: jitad is faster)")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)
    return figure


def ratios(results: dict[str, Any]) -> Any:
    """What a gradient takes over the value."""
    found = gradient_over_value(results)
    figure, axes = _figure(1.2 + 0.28 * len(found))
    axes.barh(list(found), list(found.values()), color="#5e97f6")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("time of value and gradient over that of the value")
    axes.grid(axis="x", alpha=0.3)
    return figure


PICTURES = {"speed": (speed, "The peers' times over jitad's"), "ratio": (ratios, "What a gradient costs")}


def _table(case: dict[str, Any]) -> str:
    unit = f", {case['unit']}" if case["unit"] else ""
    lines = [f"<table><caption>{html.escape(case['group'] + ', ' + case['kind'] + unit)}</caption>"
             "<tr>" + "".join(f"<th>{head}</th>" for head in HEADS) + "</tr>"]
    for label, time, over, first, memory in rows(case):
        name = html.escape(label)
        if time == "–":
            lines.append(f'<tr><td>{name}</td><td class="why" colspan="4">{html.escape(over)}</td></tr>')
            continue
        ours = ' class="ours"' if label == OURS else ""
        lines.append(f'<tr{ours}><td>{name}</td><td class="n">{time}</td><td class="n">{over}</td>'
                     f'<td class="n">{first}</td><td class="n">{memory}</td></tr>')
    lines += [f'<tr><td>{html.escape(k)}</td><td class="n">{v:.4g}</td></tr>' for k, v in case["facts"].items()]
    return "\n".join([*lines, "</table>"])


def _summary(results: dict[str, Any]) -> str:
    lines = ["<table><tr>" + "".join(f"<th>{html.escape(head)}</th>" for head in targets.HEADS) + "</tr>"]
    for target in targets.rows(results):
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in target.cells())
        lines.append(f'<tr class="{"reached" if target.reached else "missed"}">{cells}</tr>')
    return "\n".join([*lines, "</table>"])


def _picture(figure: Any, file: Path) -> str:
    """Save the figure, and give it as an image inside the page."""
    import matplotlib.pyplot as plt

    memory = io.BytesIO()
    figure.savefig(memory, format="png", dpi=130)
    plt.close(figure)
    file.write_bytes(memory.getvalue())
    return f"data:image/png;base64,{base64.b64encode(memory.getvalue()).decode()}"


def write(results: dict[str, Any], out: Path) -> None:
    """``out/index.html`` with everything, and each picture as a PNG beside it."""
    machine = ", ".join(f"{k} {v}" for k, v in results["machine"].items())
    body = ["<h1>jitad: benchmarks</h1>", f"<p>{html.escape(machine)}. One thread; programs take turns; medians, "
            "with 95 % bootstrap intervals of the ratio. Results are compared before anything is timed.</p>",
            _summary(results)]
    for name, (draw, caption) in PICTURES.items():
        body.append(f'<h2>{caption}</h2><img alt="{caption}" src="{_picture(draw(results), out / f"{name}.png")}">')
    for part in results["benchmarks"].values():
        body.append(f"<h2>{html.escape(part['title'])}</h2>")
        body += [_table(case) for case in part["cases"]]
        if "missing" in part:
            body.append(f'<p class="why">{html.escape(part["missing"])}</p>')
    page = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>jitad: benchmarks</title>' \
           f"<style>{STYLE}</style></head><body>" + "\n".join(body) + "</body></html>\n"
    (out / "index.html").write_text(page)
