"""``python -m bench [names] [--peers numba,jax,…] [--quick] [--compare old.json]``: run, report, compare."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import compare, figures, measure, one_core, page, report, without
from bench.case import HERE, OUT, Bench, Missing
from bench.ordinary import FIELDS

# The benchmarks by folder, in the order in which they are run and reported.
FOLDERS = (
    ("compiler", ("call_overhead",)),
    ("programs", ("recurrence", "lorenz", "kepler", "nbody", "heat", "factor", "black_scholes", "chain")),
    ("learning", ("mlp", "neural_ode")),
    ("programs", ("vmap", "hessian_product")),
    ("learning", ("gmm",)),
    ("programs", ("ba",)),
    ("learning", ("lstm", "networks", "trees", "subnormals")),
    ("programs", ("random_numbers",)),
    ("compiler", ("threads", "parallel", "compiling", "complexity", "startup")),
    ("ordinary", FIELDS))
MODULES = {name: f"bench.{folder}.{name}" for folder, names in FOLDERS for name in names}
NAMES = tuple(MODULES)

LONGEST = 900                   # seconds, at most, for a benchmark


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--peers", help="families of peers, with commas: c,numba,jax,pytorch,enzyme,casadi,dr.jit")
    parser.add_argument("--quick", action="store_true", help="smaller problems, fewer rounds")
    parser.add_argument("--rounds", type=int, help="rounds in which the programs take turns")
    parser.add_argument("--cpu-time", action="store_true", help="processor time: for a machine that does other work")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, default=OUT, help="where results.json, the pictures and the page go")
    parser.add_argument("--keep", action="store_true", help="leave the other benchmarks in results.json as they are")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="what moved since; fails on a regression")
    parser.add_argument("--without", metavar="PASSES",
                        help="what optional passes are worth: names with commas, each is left out in turn, or all")
    parser.add_argument("--write-docs", action="store_true",
                        help="measure nothing: fill the documentation's figures from results.json in --out")
    parser.add_argument("--list", action="store_true", help="the benchmarks, a line each")
    parser.add_argument("--one", help=argparse.SUPPRESS)            # in this process; writes its results to --out
    options = parser.parse_args()
    unknown = [n for n in options.names if n not in NAMES]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}: there are {', '.join(NAMES)}")
    if options.without is not None:
        options.peers = without.ALONE
        try:
            without.passes(options.without)
        except ValueError as e:
            parser.error(str(e))
    return options


def run_one(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Runs a benchmark in this process."""
    one_core.choose_clock(options.cpu_time)
    module = importlib.import_module(MODULES[name])
    peers = frozenset(options.peers.lower().split(",")) if options.peers else None
    bench = Bench(options.data, peers, options.quick, options.rounds or (5 if options.quick else 9))
    part: dict[str, Any] = {"title": module.TITLE, "cases": []}
    try:
        if options.without is not None:
            part["cases"] = without.measured(MODULES[name], without.passes(options.without), bench)
            return part
        for case in module.cases(bench):
            part["cases"].append(measured := measure.run(case, bench.rounds))
            report.show_case(measured)
        if hasattr(module, "panels"):
            part["panels"] = module.panels(*((4, 3) if bench.quick else (6, 5)))
    except Missing as e:
        part["missing"] = str(e)
        report.say(f"{name}: left out, {e}")
    return part


def run_all(names: tuple[str, ...], options: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Runs each benchmark in a process of its own, so that none inherits memory or threads.

    ``results.json`` is written after each.
    """
    file = options.out / "results.json"
    results: dict[str, Any] = {"machine": report.machine(), "quick": options.quick, "cpu time": options.cpu_time,
                               "benchmarks": {}}
    if options.keep and file.exists():
        results["benchmarks"] |= json.loads(file.read_text())["benchmarks"]
    failed, start = [], time.monotonic()
    for number, name in enumerate(names, 1):
        minutes, seconds = divmod(round(time.monotonic() - start), 60)
        report.say(f"[{number}/{len(names)}] {name}, {minutes}:{seconds:02} so far")
        part = in_process(name, names, options)
        if part is None:
            failed.append(name)
        else:
            results["benchmarks"][name] = part
        file.write_text(json.dumps(results, indent=1) + "\n")
    results["benchmarks"] = {name: results["benchmarks"][name] for name in NAMES if name in results["benchmarks"]}
    return results, failed


def in_process(name: str, names: tuple[str, ...], options: argparse.Namespace) -> dict[str, Any] | None:
    """The results of ``--one name``, run in a process of its own; None if it fails or takes too long."""
    part = options.out / "parts" / f"{name}.json"
    part.parent.mkdir(parents=True, exist_ok=True)
    part.unlink(missing_ok=True)
    given = [a for a in sys.argv[1:] if a not in names]
    try:
        status = subprocess.run([sys.executable, "-m", "bench", *given, "--one", name], timeout=LONGEST).returncode
    except subprocess.TimeoutExpired:
        report.say(f"{name} took more than {LONGEST} seconds")
        return None
    if status or not part.exists():
        report.say(f"{name} ended with status {status}")
        return None
    found: dict[str, Any] = json.loads(part.read_text())
    return found


def main() -> int:
    options = command_line()
    if options.list:
        for name in NAMES:
            print(f"{name:16} {importlib.import_module(MODULES[name]).TITLE}")
        return 0
    if options.write_docs:
        results = json.loads((options.out / "results.json").read_text())
        report.say("\n".join(figures.write(results | {"passes": without.kept(options.out)})))
        return 0
    if options.one:
        part = run_one(options.one, options)
        (options.out / "parts" / f"{options.one}.json").write_text(json.dumps(part))
        sys.stdout.flush()
        os._exit(0)                     # libraries of peers may crash at the interpreter's exit
    names = tuple(options.names) or NAMES
    if options.without is not None:
        return without.run(names, options, lambda name: in_process(name, names, options))
    results, failed = run_all(names, options)
    report.summary(results)
    page.write(results, options.out)
    report.say(f"{options.out / 'results.json'}, {options.out / 'index.html'}")
    moved = compare.show(json.loads(options.compare.read_text()), results) if options.compare else 0
    if failed:
        report.say(f"failed: {', '.join(failed)}")
    return 1 if failed or moved else 0


if __name__ == "__main__":
    sys.exit(main())
