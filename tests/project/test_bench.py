"""The harness of the benchmarks, on made-up results: means and targets, changes, the page, the documentation."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import acting, compare, figures, measure, one_core, page, targets, without
from bench.__main__ import NAMES
from bench.case import FAST, OURS, UNCHECKED, Bench, Case
from bench.ordinary.signals import fir_stored
from jitad import jit

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.02, 0.98)
VOID = {"link", "meta", "img", "source", "br"}


def case(group: str, kind: str, seconds: dict[str, float], **more: Any) -> dict[str, Any]:
    times = {label: [t * n for n in NOISE] for label, t in seconds.items()}
    return {"group": group, "kind": kind, "unit": "", "steps": 0, "cannot": {}, "facts": {}, "apart": [],
            "first": {label: 0.1 for label in seconds}, "memory": {label: 4_000_000 for label in seconds},
            "cpu over wall": {label: 1.0 for label in seconds}, "seconds": times, **more}


def results() -> dict[str, Any]:
    loop = {OURS: 1e-3, FAST: 0.9e-3, UNCHECKED: 0.98e-3, "C": 1e-3, "C -ffast-math": 0.5e-3, "JAX scan": 4e-3,
            "JAX library": 1e-5, "PyTorch": 1.0}
    return {"machine": {"cpu": "a <fast> one", "cores": 2, "gcc": "gcc 12", "python": "3.11"}, "benchmarks": {
        "lorenz": {"title": "Lorenz & others", "cases": [
            case("Lorenz", "value", loop, apart=["JAX library"]),
            case("Lorenz", "gradient", {**loop, OURS: 2e-3, "C": 1e-3}, apart=["JAX library"], steps=1000,
                 cannot={"CasADi": "TypeError: a < b & c"})]},
        "compiling": {"title": "Compile time", "cases": [
            case(f"{n} statements", "compile", {OURS: n * 1e-3, "JAX": n * 2e-3}, first={}) for n in (10, 100, 1000)]},
        "complexity": {"title": "Cost", "cases": [], "panels": [
            {"title": "seconds", "x": "steps", "curves": [
                {"label": "a loop", "sizes": [10, 100], "costs": [1.0, 10.0], "slope": 1.0}]}]},
        "gmm": {"title": "Mixture", "cases": [], "missing": "needs a file"}}}


def scaled(found: dict[str, Any], change: dict[str, float]) -> dict[str, Any]:
    """The results with the times of some labels multiplied."""
    out = copy.deepcopy(found)
    for part in out["benchmarks"].values():
        for one in part["cases"]:
            one["seconds"] = {label: [t * change.get(label, 1.0) for t in times]
                              for label, times in one["seconds"].items()}
    return out


# --- means and targets ----------------------------------------------------------------------------------

def row(found: dict[str, Any], name: str) -> targets.Target:
    return next(t for t in targets.rows(found) if t.name == name)


def test_targets() -> None:
    by_hand = row(results(), "jitad / C by hand")
    assert by_hand.mean == pytest.approx(2 ** 0.5) and by_hand.worst == "Lorenz, gradient" and not by_hand.reached
    assert by_hand.beyond() == pytest.approx({"Lorenz, gradient": 2.0})
    assert row(results(), "jitad / boundscheck=False").mean == pytest.approx((1 / 0.98 * 2 / 0.98) ** 0.5)
    assert row(results(), "gradient with value / value").found == pytest.approx({"Lorenz": 2.0})
    assert row(results(), "compile time's exponent in program size").mean == pytest.approx(1.0)
    assert row(results(), "jitad / JAX, first call").reached


def test_another_program_is_in_no_mean() -> None:
    assert row(results(), "jitad / JAX").found == pytest.approx({"Lorenz, value": 0.25, "Lorenz, gradient": 0.5})


def test_a_target_from_below() -> None:
    steps = {"networks": {"title": "", "cases": [case("char-RNN", "step", {OURS: 1.0, "PyTorch cells": 14.0})]}}
    target = row({"machine": {}, "benchmarks": steps}, "PyTorch / jitad, char-RNN")
    assert target.mean == pytest.approx(14) and target.reached and target.asked == "≥ 12.8, each ≥ 12.8"


def test_who_has_more_than_one_thread() -> None:
    found = results()
    found["benchmarks"]["lorenz"]["cases"][0]["cpu over wall"]["JAX scan"] = 1.9
    assert targets.busiest(found) == ("Lorenz, value: JAX scan", 1.9)


# --- what moved -----------------------------------------------------------------------------------------

def test_nothing_moved() -> None:
    assert compare.show(results(), results()) == 0


def test_a_regression(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.show(results(), scaled(results(), {OURS: 1.2})) == 5
    assert "SLOWER  Lorenz, gradient: 1.20×" in capsys.readouterr().out


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.show(results(), scaled(results(), {OURS: 0.5})) == 0
    assert "faster  Lorenz, gradient: 0.50×" in capsys.readouterr().out


def test_a_change_within_the_slack_is_no_news() -> None:
    assert compare.show(results(), scaled(results(), {OURS: 1.04})) == 0


def test_noise_is_no_regression() -> None:
    noisy = results()
    for part in noisy["benchmarks"].values():
        for one in part["cases"]:
            one["seconds"][OURS] = [t * f for t, f in zip(one["seconds"][OURS], (0.6, 1.9, 1.1, 0.7, 1.6, 1.2, 0.8))]
    assert compare.show(results(), noisy) == 0


def test_a_slower_machine_is_no_regression() -> None:
    slow = {label: 3.0 for one in targets.every(results()) for label in one["seconds"]}
    assert compare.show(results(), scaled(results(), slow)) == 0


def test_without_a_peer_only_the_same_machine_compares() -> None:
    alone = {"machine": {"cpu": "one"}, "benchmarks": {"x": {"title": "", "cases": [case("x", "value", {OURS: 1.0})]}}}
    slower = scaled(alone, {OURS: 1.5})
    assert compare.show(alone, slower) == 1
    assert compare.show(alone, {**slower, "machine": {"cpu": "another"}}) == 0


def test_more_memory_is_a_regression(capsys: pytest.CaptureFixture[str]) -> None:
    more = results()
    more["benchmarks"]["lorenz"]["cases"][1]["memory"][OURS] = 8_000_000
    assert compare.show(results(), more) == 1
    assert "MORE    Lorenz, gradient: memory: 2.00×" in capsys.readouterr().out


def test_a_quick_run_is_not_compared_with_a_full_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.show(results(), {**results(), "quick": True}) == 1
    assert "not compared" in capsys.readouterr().out


def test_an_interval_holds_the_ratio() -> None:
    value, low, high = measure.ratio([2 * n for n in NOISE], list(NOISE))
    assert value == pytest.approx(2) and low <= 2 <= high


# --- the page -------------------------------------------------------------------------------------------

class Reader(HTMLParser):
    """Checks that elements close in order; collects links and their targets."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.links += [found[name] for name in ("href", "src", "srcset") if name in found]
        self.ids += [found["id"]] if "id" in found else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.slow
def test_the_page(tmp_path: Path) -> None:
    page.write(results(), tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    assert not reader.open and len(reader.ids) == len(set(reader.ids))
    assert {link[1:] for link in reader.links if link.startswith("#")} == set(reader.ids)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in reader.links), "it needs nothing else"
    assert "a &lt;fast&gt; one" in text and "a &lt; b &amp; c" in text and "needs a file" in text
    assert {p.name for p in tmp_path.glob("*.png")} == {"speed.png", "ratio.png", "memory.png", "curves.png"}


# --- the documentation ----------------------------------------------------------------------------------

def test_pages_are_filled() -> None:
    text = "a\n<!-- figures: targets -->\nold\n<!-- end of figures -->\n<!-- figures: readme -->\nold\n" \
           "<!-- end of figures -->\nb\n"
    filled, missing = figures.filled(text, results())
    assert "| jitad / C by hand | ≤ 1.15, each ≤ 1.5 | 1.41 | 2 | Lorenz, gradient | 2 | no |" in filled
    assert missing == ["readme"] and filled.count("old") == 1
    assert figures.filled(filled, results())[0] == filled


def test_every_place_for_figures_is_known() -> None:
    for name in figures.PAGES:
        text = (figures.ROOT / name).read_text(encoding="utf-8")
        marked = re.findall(r"<!-- figures: (\w+) -->", text)
        assert marked and set(marked) <= figures.BLOCKS.keys(), name
        assert text.count("<!-- end of figures -->") == len(marked)


def test_generated_tables_have_as_many_cells_as_heads() -> None:
    for block in ("targets", "shortfalls", "programs"):
        lines = str(figures.BLOCKS[block](results())).splitlines()
        assert len({line.count("|") for line in lines}) == 1


def test_what_a_pass_is_worth() -> None:
    """A row per pass that was left out; small effects are omitted, and benchmarks without any."""
    def timed(same: list[str], **ratios: float) -> dict[str, Any]:
        seconds = {name: [[[r * n for n in NOISE], list(NOISE)]] for name, r in ratios.items()}
        return {"group": "", "kind": "", "seconds": seconds, "same": same,
                "first": {name: [[ratios.get(name, 1.0), 1.0]] for name in (*ratios, *same)}}
    times = {"lorenz": [timed([], licm=2.0, algebra=1.5)] * 2, "gmm": [timed([], licm=1.01), timed(["licm"])],
             "startup": []}
    text = figures.BLOCKS["passes"](results() | {"passes": {"times": times}})
    assert text is not None and text.splitlines() == [
        "| without | lorenz | all | most | first call |", "| --- | --- | --- | --- | --- |",
        "| licm | 2.00 | 1.42 | 2.00 | 1.42 |", "| algebra | 1.50 | 1.50 | 1.50 | 1.50 |"]
    assert without.passes("licm, outer_loop") == ("licm", "outer_loop") and len(without.passes("all")) > 20
    with pytest.raises(ValueError, match="no optional pass copy_insertion: there are rules, simplify, "):
        without.passes("copy_insertion")


def test_passes_that_act_on_an_ordinary_program() -> None:
    """Those that change its IR; what does not act can be left out without another result."""
    text = jit(fir_stored).inspect("ir", np.arange(8.0), np.ones(3))
    found, optimised = acting.acting(text)
    assert {"simplify", "scalar_promotion"} <= found and "check_strips" not in found
    assert acting.optimised(text, "check_strips") == optimised == acting.optimised(text, "")
    assert acting.optimised(text, "scalar_promotion") != optimised
    kinds = [(v.group, v.kind) for v in acting.variants("bench.ordinary.signals", Bench(None, None, True, 1))]
    assert {("fir", "value"), ("fir", "gradient"), ("fir: stored", "gradient")} <= set(kinds)


# --- cases ----------------------------------------------------------------------------------------------

def test_a_case_refuses_results_that_differ() -> None:
    made = Case("x", "value")
    made.add(OURS, lambda: lambda: 1.0)
    made.add("C", lambda: lambda: 1.1)
    with pytest.raises(AssertionError, match="C differs from jitad"):
        made.check()


def test_a_peer_that_cannot_is_kept_with_its_reason() -> None:
    def refuse() -> Any:
        raise TypeError("no loops\nhere")
    made = Case("x", "value", peers=frozenset({"c"}))
    made.add("C", refuse)
    made.add("Enzyme", refuse)
    assert made.cannot == {"C": "TypeError: no loops"} and not made.programs


def test_importing_the_harness_pins_nothing() -> None:
    cores = "os.sched_getaffinity(0)" if hasattr(os, "sched_getaffinity") else "0"
    code = f"import os; before = {cores}, dict(os.environ); import bench; assert ({cores}, dict(os.environ)) == before"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert os.environ.get("XLA_FLAGS") != one_core.SETTINGS["XLA_FLAGS"]


def test_measuring_a_case() -> None:
    made = Case("x", "value", least=1e-5, per=2.0)
    made.add(OURS, lambda: lambda: sum(range(10)))
    found = measure.run(made, 3)
    assert len(found["seconds"][OURS]) == 3 and found["cpu over wall"][OURS] > 0 and OURS in found["memory"]


def test_benchmarks_are_there() -> None:
    there = {p.stem for p in (figures.ROOT / "bench").rglob("*.py") if "\nTITLE = " in p.read_text(encoding="utf-8")}
    assert there == set(NAMES)
