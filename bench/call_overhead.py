"""What a call costs: a scalar function, and one with three arrays of 8 numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.harness import agree, has, options, report, seconds, turns
from jitad import jit


def scalar(x: float) -> float:
    return math.sin(x)


def arrays(a: Any, b: Any, c: Any) -> float:
    return a[0] * b[1] + c[7]


def calls(programs: dict[str, Any], arguments: dict[str, tuple[Any, ...]], rounds: int) -> dict[str, float]:
    """Median seconds of a call, the loop around it subtracted."""
    loops = {}
    for name, program in programs.items():
        names = [f"a{i}" for i in range(len(arguments[name]))]
        scope = {"loop": range(1000), "f": program} | dict(zip(names, arguments[name]))
        exec(f"def run():\n for _ in loop: f({', '.join(names)})", scope)
        loops[name] = scope["run"]
    empty = min(seconds(lambda: [None for _ in range(1000)], 20) / 20 for _ in range(5))
    return {name: max(t - empty, 0.0) / 1000 for name, t in turns(loops, rounds).items()}


def main() -> None:
    opts = options()
    xs = (0.7,)
    three = (np.arange(8.0), np.arange(8.0) + 1, np.ones(8))
    one = {"jitad": jit(scalar), "math.sin": math.sin}
    many = {"jitad": jit(arrays), "Python": arrays}
    given = dict.fromkeys((*one, "Numba"), xs), dict.fromkeys((*many, "Numba"), three)
    if has("numba"):
        import numba
        one["Numba"], many["Numba"] = numba.njit(scalar), numba.njit(arrays)
    if has("jax"):
        import jax
        import jax.numpy as jnp
        one["JAX"], many["JAX"] = jax.jit(jnp.sin), jax.jit(arrays)
        given[0]["JAX"], given[1]["JAX"] = (jnp.asarray(0.7),), tuple(map(jnp.asarray, three))
    rows = {}
    for name, programs, arguments in (("scalar", one, given[0]), ("three arrays of 8", many, given[1])):
        agree({k: f(*arguments[k]) for k, f in programs.items()}, 1e-12)
        rows[name] = calls(programs, arguments, opts.rounds)
    report("call_overhead", rows)


if __name__ == "__main__":
    main()
