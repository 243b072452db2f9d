"""Compile times of gradients by program size: 10 to 3,000 statements, 30 nested calls, and programs of eight kinds.

Times the first call of value and gradient, alternating with JAX, each time for a new program.  Programs of each kind
(``program_kinds.py``) are compiled at 100 to 3,000 statements, with the *slope*: the exponent of the time between the
two largest sizes, 1 where time is linear.
"""

from __future__ import annotations

import linecache
import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench import one_core
from bench.case import Bench, Case
from bench.compiler.program_kinds import KINDS
from jitad import jit

TITLE = "Compile time of value and gradient"
FORMS = ("sin({a}) * {b}", "{a} * {b} + {c}", "exp(-{a} * {a})", "{a} / (1.5 + {b} * {b})", "tanh({a} + {b}) - {c}")


def statements(count: int, seed: int) -> str:
    """Straight-line code: each statement uses some of the last results."""
    r = random.Random(seed)
    lines, names = ["def program(x, y):"], ["x", "y"]
    for i in range(count):
        a, b, c = (r.choice(names[-6:]) for _ in range(3))
        lines.append(f"    v{i} = {r.choice(FORMS).format(a=a, b=b, c=c)} * {1 + r.randint(0, 9) / 100}")
        names.append(f"v{i}")
    return "\n".join([*lines, f"    return {names[-1]} + {names[-2]}"]) + "\n"


def calls(count: int, seed: int) -> str:
    """Functions that call one another, each with a loop of two rounds and a branch."""
    r = random.Random(seed)
    lines = ["def f0(x, y):", "    return sin(x) * y"]
    for i in range(1, count):
        lines += [f"def f{i}(x, y):", f"    return f{i - 1}(x * {1 + r.randint(0, 9) / 100}, y) + cos(y + {i})"]
    return "\n".join([*lines, "def program(x, y):", f"    return f{count - 1}(x, y)"]) + "\n"


def loaded(source: str, functions: Any) -> Callable[..., Any]:
    """The program of a source text, with ``sin`` and the like from ``functions``."""
    name = f"<compiling {hash(source)} {time.perf_counter_ns()}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {n: getattr(functions, n) for n in ("sin", "cos", "exp", "tanh")}
    exec(compile(source, name, "exec"), scope)
    program: Callable[..., Any] = scope["program"]
    return program


def ours(source: str) -> float:
    f = jit(loaded(source, np), grad=(0, 1))
    start = one_core.now()
    f.value_and_grad(0.5, 0.25)
    return one_core.now() - start


def of_kind(kind: str, count: int, seed: int) -> float:
    """Seconds of the first value and gradient of a program with ``count`` statements."""
    f = jit(loaded(KINDS[kind](count, seed), np), grad=(0, 1))
    a = np.linspace(0.1, 0.5, 50)
    start = one_core.now()
    f.value_and_grad(0.5, 0.25, a, 3)
    return one_core.now() - start


def kinds(bench: Bench) -> Iterator[Case]:
    """The cases of the eight kinds, of jitad alone."""
    sizes = (100, 300) if bench.quick else (100, 300, 1000, 3000)
    for kind in KINDS:
        before = 0.0
        for count in sizes:
            case = bench.case(f"{kind}: {count}", "compile")
            times = case.samples["jitad"] = [of_kind(kind, count, turn) for turn in range(1 if count >= 1000 else 3)]
            now = sorted(times)[len(times) // 2]
            if count == sizes[-1]:
                case.facts["slope"] = math.log(now / before) / math.log(count / sizes[-2])
            before = now
            yield case


def in_jax(source: str) -> float:
    import jax
    import jax.numpy as jnp

    f = jax.jit(jax.value_and_grad(loaded(source, jnp), (0, 1)))
    start = one_core.now()
    jax.block_until_ready(f(0.5, 0.25))
    return one_core.now() - start


PATIENCE = 10.0             # seconds that JAX may take for the programs of a size; above, it is not measured again


def cases(bench: Bench) -> Iterator[Case]:
    sizes = (10, 100, 300) if bench.quick else (10, 30, 100, 300, 1000, 3000)
    programs: list[tuple[str, Callable[[int, int], str], int]] = [("30 nested calls", calls, 30)]
    programs += [(f"{n} statements", statements, n) for n in sizes]
    ours(statements(5, 0))
    too_long = ""
    for name, make, count in programs:
        case = bench.case(name, "compile")
        spent = 0.0
        for turn in range(3 if count >= 1000 else bench.rounds):
            case.samples.setdefault("jitad", []).append(ours(make(count, turn)))
            if case.wanted("JAX") and not too_long and spent < PATIENCE:
                case.samples.setdefault("JAX", []).append(in_jax(make(count, turn)))
                spent += case.samples["JAX"][-1]
        if too_long:
            case.cannot["JAX"] = too_long
        elif spent > PATIENCE and name.endswith("statements"):
            too_long = f"not tried: {name} took it {max(case.samples['JAX']):.0f} s"
        yield case
    yield from kinds(bench)
