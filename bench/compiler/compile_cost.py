"""Processor time and memory of compiling gradients, by program length, for programs of eight kinds.

``python -m bench.compiler.compile_cost`` compiles each program (``program_kinds.py``) in a process of its own, prints
each slope of cost against size on logarithmic scales, and draws
``docs/_static/compile_cost.png``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bench import memory
from bench.compiler.compiling import loaded
from bench.compiler.complexity import OUT, Curve, draw, panel
from bench.compiler.program_kinds import KINDS
from jitad import jit

SIZES = (100, 300, 1000, 3000)          # statements


def cost(kind: str, count: int, seed: int) -> tuple[float, int]:
    """Seconds of processor time and bytes of the first value and gradient, after those of a short program."""
    call(kind, 12, seed + 1)
    start = time.process_time()
    grown = memory.growth(lambda: call(kind, count, seed))
    return time.process_time() - start, grown or 0


def call(kind: str, count: int, seed: int) -> Any:
    f = jit(loaded(KINDS[kind](count, seed), np), grad=(0, 1))
    return f.value_and_grad(0.5, 0.25, np.linspace(0.1, 0.5, 50), 3)


def curves(kinds: list[str], sizes: tuple[int, ...], rounds: int) -> tuple[list[Curve], list[Curve]]:
    """For each kind, the medians of time and memory over several programs of each size."""
    times, bytes_ = [], []
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for kind in kinds:
            times.append(Curve(kind, 1.0))
            bytes_.append(Curve(kind, 1.0))
            for count in sizes:
                found = list(pool.map(cost, [kind] * rounds, [count] * rounds, range(rounds)))
                seconds, grown = np.median(np.array(found), axis=0)
                times[-1].add(count, float(seconds))
                bytes_[-1].add(count, float(grown))
                print(f"{kind:20} {count:5} {seconds:8.2f} s {grown / 1e6:8.1f} MB", flush=True)
    return times, bytes_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help="of " + ", ".join(KINDS))
    parser.add_argument("--most", type=int, default=SIZES[-1], help="statements")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    times, bytes_ = curves(options.kinds, tuple(n for n in SIZES if n <= options.most), options.rounds)
    found = [panel("first value and gradient, seconds", "statements", times),
             panel("first value and gradient, bytes", "statements", bytes_)]
    for curve in (*times, *bytes_):
        print(f"{curve.label:20} slope {curve.slope():.2f}")
    draw(found, options.out / "compile_cost.png")


if __name__ == "__main__":
    main()
