"""What one waits for: importing jitad, and the first call of the mixture's gradient. Each in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys

from bench.harness import HERE, has, options, report

IMPORT = """
import time
import numpy, llvmlite.binding
start = time.perf_counter()
import jitad
print(time.perf_counter() - start)
"""
FIRST_CALL = """
import time
from pathlib import Path
from bench.gmm import gmm_objective, load_adbench
from jitad import jit
problem = load_adbench(Path(r"{data}/adbench/gmm/gmm_d10_K25.txt"))
jit(lambda x: x * x)(1.0)
f = jit(gmm_objective, grad=True)
start = time.perf_counter()
f.value_and_grad(*problem)
print(time.perf_counter() - start)
"""
FIRST_CALL_JAX = """
import time
from pathlib import Path
from bench.gmm import in_jax, load_adbench
import jax
problem = load_adbench(Path(r"{data}/adbench/gmm/gmm_d10_K25.txt"))
jax.jit(lambda x: x * x)(1.0)
f = in_jax(*problem)
start = time.perf_counter()
f()
print(time.perf_counter() - start)
"""


def fresh(program: str, rounds: int) -> float:
    """The median of what the program prints, each time in a new process."""
    command = [sys.executable, "-c", "import bench\n" + program]
    runs = [subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True) for _ in range(rounds)]
    return statistics.median(float(r.stdout.split()[-1]) for r in runs)


def main() -> None:
    opts = options()
    first = {"jitad": fresh(FIRST_CALL.format(data=opts.data), opts.rounds)}
    if has("jax"):
        first["JAX"] = fresh(FIRST_CALL_JAX.format(data=opts.data), opts.rounds)
    report("startup", {"import, beyond numpy and llvmlite": {"jitad": fresh(IMPORT, opts.rounds)},
                       "first call of the mixture's gradient": first})


if __name__ == "__main__":
    main()
