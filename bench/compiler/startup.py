"""Start-up times: importing jitad, and the first call of the mixture's gradient, each in new processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.case import HERE, Bench, Case

TITLE = "What one waits for"


def importing(data: Path) -> float:
    """The time of ``import jitad`` without NumPy and llvmlite."""
    import llvmlite.binding  # noqa: F401
    import numpy  # noqa: F401

    start = time.perf_counter()
    import jitad  # noqa: F401
    return time.perf_counter() - start


def warm(x: float) -> float:
    return x * x


def first_call(data: Path) -> float:
    """The time to trace, derive, compile and run, after another function was compiled."""
    from bench.learning.gmm import gmm_objective, load_adbench
    from jitad import jit

    problem = load_adbench(data / "adbench/gmm/gmm_d10_K25.txt")
    jit(warm)(1.0)
    objective = jit(gmm_objective, grad=True)
    start = time.perf_counter()
    objective.value_and_grad(*problem)
    return time.perf_counter() - start


def first_call_in_jax(data: Path) -> float:
    import jax

    from bench.learning.gmm import in_jax, load_adbench

    problem = load_adbench(data / "adbench/gmm/gmm_d10_K25.txt")
    jax.jit(warm)(1.0)
    objective = in_jax(*problem, True)
    start = time.perf_counter()
    objective()
    return time.perf_counter() - start


def fresh(what: Callable[[Path], float], data: Path, rounds: int) -> list[float]:
    """The results of the function in ``rounds`` new processes."""
    program = f"import pathlib, sys, bench.compiler.startup as s; print(s.{what.__name__}(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", program, str(data)]
    runs = [subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=True)
            for _ in range(rounds)]
    return [float(r.stdout.split()[-1]) for r in runs]


def cases(bench: Bench) -> Iterator[Case]:
    data = bench.file("adbench/gmm/gmm_d10_K25.txt").parents[2]
    first = bench.case("GMM d10_K25, gradient", "first call")
    first.samples["jitad"] = fresh(first_call, data, bench.rounds)
    if first.wanted("JAX"):
        first.samples["JAX"] = fresh(first_call_in_jax, data, bench.rounds)
    yield first
    imported = bench.case("import jitad, beyond numpy and llvmlite", "import")
    imported.samples["jitad"] = fresh(importing, data, bench.rounds)
    yield imported
