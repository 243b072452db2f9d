"""What one waits for: importing jitad, and the first call of the mixture's gradient.  Each in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from bench.harness import HERE, has, options, report


def importing() -> float:
    """``import jitad`` beyond NumPy and llvmlite."""
    import llvmlite.binding  # noqa: F401
    import numpy  # noqa: F401

    start = time.perf_counter()
    import jitad  # noqa: F401
    return time.perf_counter() - start


def warm(x: float) -> float:
    return x * x


def first_call() -> float:
    """Trace, derive, compile and run, after another function was compiled."""
    from bench.gmm import gmm_objective, load_adbench
    from jitad import jit

    problem = load_adbench(options().data / "adbench/gmm/gmm_d10_K25.txt")
    jit(warm)(1.0)
    objective = jit(gmm_objective, grad=True)
    start = time.perf_counter()
    objective.value_and_grad(*problem)
    return time.perf_counter() - start


def first_call_in_jax() -> float:
    import jax

    from bench.gmm import in_jax, load_adbench

    problem = load_adbench(options().data / "adbench/gmm/gmm_d10_K25.txt")
    jax.jit(warm)(1.0)
    objective = in_jax(*problem)
    start = time.perf_counter()
    objective()
    return time.perf_counter() - start


def fresh(what: Callable[[], float]) -> float:
    """The median of what the function yields, each time in a new process."""
    program = f"import bench.startup as s; print(s.{what.__name__}())"
    command = [sys.executable, "-c", program, *sys.argv[1:]]
    runs = [subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=True)
            for _ in range(options().rounds)]
    return statistics.median(float(r.stdout.split()[-1]) for r in runs)


def main() -> None:
    first = {"jitad": fresh(first_call)} | ({"JAX": fresh(first_call_in_jax)} if has("jax") else {})
    report("startup", {"import, beyond numpy and llvmlite": {"jitad": fresh(importing)},
                       "first call of the mixture's gradient": first})


if __name__ == "__main__":
    main()
