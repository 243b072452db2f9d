"""The report as one static HTML page without external files."""

from __future__ import annotations

import base64
import html
import io
import re
from pathlib import Path
from typing import Any

from bench import targets
from bench.case import OURS
from bench.pictures import PICTURES, scheme
from bench.report import HEADS, rows

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --line: #ddd; --soft: #707070; --ours: #fdeef4;
  --yes: #1c7c3c; --no: #b3261e }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --paper: #15181c; --line: #3a3f46; --soft: #9aa0a6; --ours: #33222a;
    --yes: #6fcf8b; --no: #ff8a80 }
}
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--paper) }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem }
.scroll { overflow-x: auto; margin: .4rem 0 1.4rem }
table { border-collapse: collapse; min-width: 60% }
td, th { padding: .18rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
th { font-weight: 600; color: var(--soft) }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
img { display: block; width: 100%; height: auto }
tr.ours td { font-weight: 600; background: var(--ours) }
tr.reached td:last-child { color: var(--yes) } tr.missed td:last-child { color: var(--no) }
caption { text-align: left; font-weight: 600; padding: .3rem 0 }
.why, footer { color: var(--soft) } .why { max-width: 34rem }
nav { columns: 14rem; margin: 1rem 0 } nav a { display: block; padding: .1rem 0; break-inside: avoid }
.scroll picture { display: block; min-width: 40rem } td.s { white-space: nowrap }
a { color: inherit }
"""
ABOUT = """One core. The programs of a table compute the same, which is checked before anything is timed, and take
turns; times are medians, intervals 95 % bootstraps of the ratio. Memory is what a call adds to the resident set.
† another program that gives the same result: shown, and in no mean."""


def anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _table(case: dict[str, Any]) -> str:
    unit = f", {case['unit']}" if case["unit"] else ""
    lines = [f"<table><caption>{html.escape(case['group'] + ', ' + case['kind'] + unit)}</caption>"
             "<tr>" + "".join(f"<th>{head}</th>" for head in HEADS) + "</tr>"]
    for label, *cells in rows(case):
        name = html.escape(label)
        if cells[0] == "–":
            lines.append(f'<tr><td>{name}</td><td class="why" colspan="4">{html.escape(cells[1])}</td></tr>')
            continue
        ours = ' class="ours"' if label == OURS else ""
        numbers = "".join(f'<td class="n">{html.escape(cell)}</td>' for cell in cells)
        lines.append(f"<tr{ours}><td>{name}</td>{numbers}</tr>")
    lines += [f'<tr><td>{html.escape(k)}</td><td class="n">{v:.4g}</td></tr>' for k, v in case["facts"].items()]
    return _scrolling("\n".join([*lines, "</table>"]))


def _summary(results: dict[str, Any]) -> str:
    lines = ["<table><tr>" + "".join(f"<th>{html.escape(head)}</th>" for head in targets.HEADS) + "</tr>"]
    for target in targets.rows(results):
        cells = "".join(f'<td class="s">{html.escape(cell)}</td>' for cell in target.cells())
        lines.append(f'<tr class="{"reached" if target.reached else "missed"}">{cells}</tr>')
    return _scrolling("\n".join([*lines, "</table>"]))


def _scrolling(content: str) -> str:
    """A container that scrolls a wide table or picture."""
    return f'<div class="scroll">{content}</div>'


def _picture(name: str, results: dict[str, Any], out: Path) -> str | None:
    """An image inside the page, for light and dark; the light one is also saved as a file."""
    import matplotlib.pyplot as plt

    draw, caption = PICTURES[name]
    images = {}
    for colours in ("light", "dark"):
        with scheme(colours):
            figure = draw(results)
            if figure is None:
                return None
            memory = io.BytesIO()
            figure.savefig(memory, format="png", dpi=130)
            plt.close(figure)
        if colours == "light":
            (out / f"{name}.png").write_bytes(memory.getvalue())
        images[colours] = f"data:image/png;base64,{base64.b64encode(memory.getvalue()).decode()}"
    return _scrolling(f'<picture><source media="(prefers-color-scheme: dark)" srcset="{images["dark"]}">'
            f'<img alt="{html.escape(caption)}" src="{images["light"]}"></picture>')


def write(results: dict[str, Any], out: Path) -> None:
    """Writes ``out/index.html``, and each picture as a PNG beside it."""
    machine = ", ".join(f"{k} {v}" for k, v in results["machine"].items())
    which, share = targets.busiest(results)
    one = f" Allowed all cores, no program took more than {share:.2f} times its time on the clock ({which or 'none'})."
    sections = {"What is to be shown": _summary(results)}
    for name, (_, caption) in PICTURES.items():
        if image := _picture(name, results, out):
            sections[caption] = image
    for part in results["benchmarks"].values():
        body = "\n".join(_table(case) for case in part["cases"])
        if "missing" in part:
            body += f'<p class="why">Left out: {html.escape(part["missing"])}</p>'
        if body:
            sections[part["title"]] = body
    links = "".join(f'<a href="#{anchor(title)}">{html.escape(title)}</a>' for title in sections)
    content = "\n".join(f'<h2 id="{anchor(title)}">{html.escape(title)}</h2>\n{body}'
                        for title, body in sections.items())
    (out / "index.html").write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>jitad: benchmarks</title><style>{STYLE}</style></head><body>\n<h1>jitad: benchmarks</h1>\n"
        f"<p>{ABOUT}{html.escape(one)}</p>\n<nav>{links}</nav>\n{content}\n"
        f"<footer><p>{html.escape(machine)}</p></footer>\n</body></html>\n", encoding="utf-8")
