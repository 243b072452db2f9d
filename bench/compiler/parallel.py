"""Loops on several threads: ``jit(parallel=True)`` against one thread, Numba's ``prange``, and C with OpenMP.

All rounds are interleaved, and the best ones are compared: if the machine does other work as well, a loop is as slow
as its slowest share, and medians measure the other work.  ``python -m bench.compiler.parallel`` prints the table.  The
harness, which uses one core, runs it in a process of its own with all cores.  ``--ordinary`` prints that of the
programs of ``bench/ordinary`` instead, at their size (some 10 to 300 µs a call).

Processor time is the time of one thread, over that of the calling thread or of all the others together, whichever is
more.  On a busy machine it is a lower bound of the speed-up: the caller takes shares that others have not begun.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench import one_core
from bench.case import Bench, Case, Program, error_line
from bench.peers.common import c_call, compiled
from bench.programs import black_scholes, kepler, nbody
from bench.programs import vmap as elements
from jitad import grad, jit, vmap

TITLE = "Several threads: independent loops, their gradients, vmap"
ONE, SEVERAL = "jitad", "jitad parallel"


@dataclass
class Problem:
    """``call(f)``: a program of the jitted ``function``; ``others``: how the peers' programs are made."""

    name: str
    function: Callable[..., Any]
    call: Callable[[Any], Program]
    grad: Any = False
    others: dict[str, Callable[[], Program]] = field(default_factory=dict)


def of_value(*args: Any) -> Callable[[Any], Program]:
    return lambda f: lambda: f(*args)


def of_gradient(*args: Any) -> Callable[[Any], Program]:
    return lambda f: lambda: f.value_and_grad(*args)


def c_program(source: str, name: str, *args: Any) -> Callable[[], Program]:
    return lambda: c_call(getattr(compiled(source, "-fopenmp", "-ffast-math"), name), *args)


def options_in_numba(*options: Any) -> Program:
    import numba
    one = numba.njit(black_scholes.price)

    @numba.njit(parallel=True)
    def run(S: Any, K: Any, T: Any, r: Any, v: Any) -> float:
        total = 0.0
        for i in numba.prange(len(S)):
            total += one(S[i], K[i], T[i], r[i], v[i])
        return total
    return lambda: run(*options)


def kepler_in_numba(e: Any, M: Any) -> Program:
    import numba
    solve = numba.njit(kepler.solve)

    @numba.njit(parallel=True)
    def run(e: Any, M: Any) -> float:
        total = 0.0
        for i in numba.prange(len(e)):
            total += math.cos(solve(e[i], M[i]))
        return total
    return lambda: run(e, M)


def bodies_in_numba(x: Any, v: Any, m: Any) -> Program:
    import numba

    @numba.njit(parallel=True)
    def run(x: Any, v: Any, m: Any) -> float:
        total = 0.0
        for i in numba.prange(len(m)):
            pull = 0.0
            for j in range(i):
                dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
                pull += m[j] / math.sqrt(dx * dx + dy * dy + dz * dz + nbody.SOFT)
            total += m[i] * (0.5 * (v[i, 0] ** 2 + v[i, 1] ** 2 + v[i, 2] ** 2) - pull)
        return total
    return lambda: run(x, v, m)


def problems(quick: bool) -> Iterator[Problem]:
    rng, n = np.random.default_rng(0), 10 ** 5 if quick else 10 ** 6
    options = [rng.uniform(a, b, n) for a, b in ((50, 150), (50, 150), (0.2, 2), (0.0, 0.1), (0.1, 0.5))]
    greeks = [np.empty(n) for _ in black_scholes.FIRST]
    yield Problem("Black-Scholes, value", black_scholes.total, of_value(*options), others={
        "C -fopenmp": c_program("black_scholes", "black_scholes", n, *options),
        "Numba parallel": lambda: options_in_numba(*options)})
    yield Problem("Black-Scholes, gradient", black_scholes.total, of_gradient(*options), black_scholes.FIRST, {
        "C -fopenmp": c_program("black_scholes", "black_scholes_gradient", n, *options, *greeks)})
    bodies = 500 if quick else 2000
    x, v, m = rng.normal(size=(bodies, 3)), rng.normal(size=(bodies, 3)), rng.uniform(0.5, 1, bodies)
    yield Problem("N-body, value", nbody.energy, of_value(x, v, m), others={
        "C -fopenmp": c_program("nbody", "nbody", bodies, x, v, m), "Numba parallel": lambda: bodies_in_numba(x, v, m)})
    yield Problem("N-body, gradient", nbody.energy, of_gradient(x, v, m), (0, 1))
    e, M = rng.uniform(0.1, 0.9, n // 50), rng.uniform(0, 6, n // 50)
    yield Problem("Kepler, value", kepler.kepler, of_value(e, M), others={
        "C -fopenmp": c_program("kepler", "kepler", len(e), e, M), "Numba parallel": lambda: kepler_in_numba(e, M)})
    yield Problem("Kepler, gradient", kepler.kepler, of_gradient(e, M), (0, 1))
    yield Problem("Kepler mapped", lambda m, e: vmap(elements.anomaly)(m, e), of_value(M, e))
    yield Problem("Kepler's gradients mapped", lambda m, e: vmap(grad(elements.anomaly, (0, 1)))(m, e), of_value(M, e))
    yield Problem("GMM, gradient", *mixture(200 if quick else 1000))


def mixture(points: int) -> tuple[Any, Callable[[Any], Program], int]:
    from examples.gmm import Mixture, Prior, gmm_objective
    rng, d, components = np.random.default_rng(1), 64, 25
    parameters = Mixture(rng.normal(size=components), rng.normal(size=(components, d)),
                         0.1 * rng.normal(size=(components, d * (d + 1) // 2)))
    return gmm_objective, of_gradient(parameters, rng.normal(size=(points, d)), Prior(1.0, 0)), 0


def ordinary_problems() -> Iterator[Problem]:
    from bench.acting import programs as programs_of
    from bench.ordinary import FIELDS
    for field_name in FIELDS:
        for p in programs_of(f"bench.ordinary.{field_name}", Bench(None, None, False, 1)):
            yield Problem(f"{p.name}, value", p.function, of_value(*p.args))
            if p.grad:
                yield Problem(f"{p.name}, gradient", p.function, of_gradient(*p.args), p.grad)


def programs(problem: Problem) -> tuple[dict[str, Program], dict[str, str]]:
    """Programs by label, compiled and checked to give the same result; and the reasons why peers are left out."""
    made, cannot = {}, {}
    for label, make in {ONE: lambda: problem.call(jit(problem.function, grad=problem.grad)),
                        SEVERAL: lambda: problem.call(jit(problem.function, grad=problem.grad, parallel=True)),
                        **problem.others}.items():
        try:
            program = make()
            program()
        except Exception as e:
            if label in (ONE, SEVERAL):
                raise
            cannot[label] = error_line(e)
            continue
        made[label] = program
    expected = flat(made[ONE]())
    for label, program in made.items():
        got = flat(program())[:len(expected)]
        atol = 1e-7 * np.abs(expected).max()
        np.testing.assert_allclose(got, expected[:len(got)], rtol=1e-7, atol=atol, err_msg=label)
    return made, cannot


def flat(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return np.concatenate([flat(x) for x in result])
    return np.ravel(np.asarray(result, float))


def samples(made: dict[str, Program], rounds: int, least: float = 0.002) -> dict[str, list[float]]:
    """Seconds per call, interleaved."""
    times: dict[str, list[float]] = {label: [] for label in made}
    counts = {label: max(1, int(least / max(seconds(p, 1), 1e-7))) for label, p in made.items()}
    for _ in range(rounds):
        for label, program in made.items():
            times[label].append(seconds(program, counts[label]))
    return times


def seconds(program: Program, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        program()
    return (time.perf_counter() - start) / count


def undisturbed(made: dict[str, Program], rounds: int, least: float = 0.02) -> float:
    """The speed-up of two threads by processor time; the best rounds are compared."""
    def busiest(program: Program, count: int) -> float:
        everyone, mine = time.process_time(), time.thread_time()
        for _ in range(count):
            program()
        everyone, mine = time.process_time() - everyone, time.thread_time() - mine
        return max(mine, everyone - mine) / count
    count = max(1, int(least / max(busiest(made[ONE], 1), 1e-7)))
    one, two = zip(*[(busiest(made[ONE], count), busiest(made[SEVERAL], count)) for _ in range(rounds)])
    return min(one) / min(two)


Measured = tuple[str, dict[str, list[float]], dict[str, str], float]


def measured(chosen: Iterable[Problem], rounds: int) -> Iterator[Measured]:
    for problem in chosen:
        made, cannot = programs(problem)
        yield problem.name, samples(made, rounds), cannot, undisturbed(made, 7)


def cases(bench: Bench) -> Iterator[Case]:
    quick = ["--quick"] * bench.quick
    command = [sys.executable, "-m", "bench.compiler.parallel", "--json", str(bench.rounds), *quick]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        name, times, cannot, possible = json.loads(line)
        case = Case("several threads", name, unit="call")
        case.samples, case.cannot = times, cannot
        case.facts |= {"speed-up": min(times[ONE]) / min(times[SEVERAL]), "speed-up by processor time": possible}
        yield case


def use_all_cores() -> None:
    """Reverts the settings of ``import bench``, before libraries that depend on them are loaded."""
    cores = one_core.all_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    os.environ.update({f"{library}_NUM_THREADS": str(len(cores)) for library in ("OMP", "NUMBA", "JITAD")})
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")          # waiting threads take no processor time


def main(arguments: list[str]) -> None:
    use_all_cores()
    quick = "--quick" in arguments
    if "--json" in arguments:
        for found in measured(problems(quick), int(arguments[arguments.index("--json") + 1])):
            print(json.dumps(found), flush=True)
        return
    chosen = ordinary_problems() if "--ordinary" in arguments else problems(quick)
    for name, times, cannot, possible in measured(chosen, 40):
        best = {label: min(t) for label, t in times.items()}
        print(f"{name:28}" + "  ".join(f"{label} {1e3 * t:.3f} ms" for label, t in best.items())
              + f"  speed-up {best[ONE] / best[SEVERAL]:.2f}, by processor time {possible:.2f}",
              *(f"({k}: {v})" for k, v in cannot.items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
