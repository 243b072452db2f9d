"""Compile cost is linear in the size of the program: counts calls of Python functions, which do not vary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest

from bench.compiler.compiling import calls, loaded, statements
from bench.compiler.program_kinds import KINDS
from jitad import jit


def ifs(count: int, seed: int) -> str:
    lines = [f"    if x > {i / count}:\n        y = y * sin(x)\n    else:\n        x = x + y" for i in range(count)]
    return "\n".join(["def program(x, y):", *lines, "    return x + y", ""])


def loops(count: int, seed: int) -> str:
    lines = [f"    while x > {i + 1}:\n        x = x * 0.9 + sin(y)" for i in range(count)]
    return "\n".join(["def program(x, y):", *lines, "    return x + y", ""])


def arrays(count: int, seed: int) -> str:
    lines = [f"    x = x * 0.5 * x + {i} * y" for i in range(count)]
    return "\n".join(["def program(x, y):", *lines, "    return x.sum()", ""])


def recursions(count: int, seed: int) -> str:
    """No function is contained in another, so that each has one derivative."""
    lines = [f"def f{i}(x, y):\n    return f{i - 1}(x, 2.0) if y < 1 else sin(f{i}(x, y - 1)) + x"
             for i in range(1, count + 1)]
    return "\n".join(["def f0(x, y):\n    return x * y", *lines,
                      f"def program(x, y):\n    return f{count}(x, y)", ""])


def conditions(count: int, seed: int) -> str:
    """Each condition is used twice in the next one."""
    lines = [f"    c = (c and x > {i}) or (c and y < {i})\n    x = x + 1.0 if c else x * 0.5" for i in range(count)]
    return "\n".join(["def program(x, y):", "    f = sin if x > y else (lambda v: v)", "    c = f is sin or x > 3",
                      *lines, "    return f(x) + y", ""])


def small_arrays(count: int, seed: int) -> str:
    lines = [f"    z = z * 0.5 + {i} * z[::-1] * y" for i in range(count)]
    return "\n".join(["def program(x, y):", "    z = np.array([x, y, 1.0])", *lines, "    return z.sum()", ""])


def views(count: int, seed: int) -> str:
    """Each adjoint is read where another one is written."""
    lines = [f"    b = z[1:]\n    b[0] += {i} * x[0]" for i in range(count)]
    return "\n".join(["def program(x, y):", "    z = x * y", *lines, "    return z.sum()", ""])


def work(make: Callable[[int, int], str], count: int, seed: int) -> int:
    """The number of Python functions that run while the gradient is compiled."""
    source, x = make(count, seed), np.ones(5) if make in (arrays, views) else 0.5
    more = (np.ones(5), 3) if make in KINDS.values() else ()
    called = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call"
    program = loaded(source, np)
    program.__globals__["np"] = np
    f = jit(program, grad=(0, 1))
    sys.setprofile(seen)
    try:
        f.value_and_grad(x, 0.25, *more)
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("make, size", [(statements, 25), (calls, 10), (ifs, 5), (loops, 4), (arrays, 25),
                                        (small_arrays, 15), (views, 10), (recursions, 4),
                                        (KINDS["loops"], 30), (KINDS["ifs in a loop"], 40),
                                        (KINDS["loops over an array"], 24), (KINDS["array statements"], 40)])
def test_twice_the_program_costs_twice_the_work(make: Callable[[int, int], str], size: int) -> None:
    with mock.patch.dict(os.environ, JITAD_DEBUG="0", JITAD_OPT="0"):
        work(make, size, 0)
        once, twice, again = (work(make, n * size, 1) for n in (1, 2, 4))
    assert again - twice < 2.4 * (twice - once)


@pytest.mark.slow
def test_conditions_that_are_made_of_others_are_looked_at_once() -> None:
    with mock.patch.dict(os.environ, JITAD_DEBUG="0", JITAD_OPT="0"):
        work(conditions, 8, 0)
        once, twice = (work(conditions, n, 1) for n in (7, 14))
    assert twice < 3 * once
