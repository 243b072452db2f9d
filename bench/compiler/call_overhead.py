"""Times of calls of small functions.

A scalar function; functions of three arrays of 8 numbers, and of a tree of a hundred numbers; functions without
captured values, and with one or ten captured numbers, ten captured arrays, or ten attributes of an object.
The time of the loop around the calls is subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.measure import seconds
from jitad import jit

TITLE = "Calls"
LOOP = 1000


def scalar(x: float) -> float:
    return math.sin(x)


def arrays(a: Any, b: Any, c: Any) -> float:
    return a[0] * b[1] + c[7]


def tree(parameters: Any) -> float:
    return parameters["w0"][0] + parameters["w9"][9]


C0, C1, C2, C3, C4, C5, C6, C7, C8, C9 = (0.5 * k for k in range(10))
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9 = (np.full(8, 0.5 * k) for k in range(10))


def nothing(x: float) -> float:
    return 2.0 * x


def one_number(x: float) -> float:
    return C1 * x


def ten_numbers(x: float) -> float:
    return x * C0 + C1 + C2 + C3 + C4 + C5 + C6 + C7 + C8 + C9


def ten_arrays(x: float) -> Any:
    return x * A0[0] + A1[0] + A2[0] + A3[0] + A4[0] + A5[0] + A6[0] + A7[0] + A8[0] + A9[0]


class Model:
    """An object with ten attributes, of which programs read one or ten."""

    def __init__(self) -> None:
        self.c0, self.c1, self.c2, self.c3, self.c4, self.c5, self.c6, self.c7, self.c8, self.c9 = (
            0.5 * k for k in range(10))

    def one(self, x: float) -> float:
        return self.c1 * x

    def ten(self, x: float) -> float:
        return (x * self.c0 + self.c1 + self.c2 + self.c3 + self.c4 + self.c5 + self.c6 + self.c7 + self.c8 + self.c9)


def repeated(function: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """A loop of ``LOOP`` calls with the same arguments."""
    names = [f"a{i}" for i in range(len(args))]
    scope = {"loop": range(LOOP), "f": function} | dict(zip(names, args))
    exec(f"def run():\n for _ in loop: r = f({', '.join(names)})\n return r", scope)
    run: Callable[[], Any] = scope["run"]                              # type: ignore[assignment]
    return run


def in_numba(function: Any) -> Any:
    import numba
    return numba.njit(function)


def in_jax(function: Any, *args: Any) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp
    return repeated(jax.jit(function), *jax.tree.map(jnp.asarray, args))


def cases(bench: Bench) -> Iterator[Case]:
    empty = min(seconds(lambda: [None for _ in range(LOOP)], 20) / 20 for _ in range(5)) / LOOP
    three = (np.arange(8.0), np.arange(8.0) + 1, np.ones(8))
    hundred = {f"w{i}": [float(10 * i + j) for j in range(10)] for i in range(10)}

    def case(name: str) -> Case:
        made = bench.case(name, "call", per=LOOP, rtol=1e-12)
        made.facts["seconds of an empty iteration, not subtracted"] = empty
        return made
    one = case("sin of a float")
    one.add("jitad", lambda: repeated(jit(scalar), 0.7))
    one.add("Python math.sin", lambda: repeated(math.sin, 0.7))
    one.add("Numba", lambda: repeated(in_numba(scalar), 0.7))
    one.add("JAX", lambda: in_jax(lambda x: __import__("jax").numpy.sin(x), 0.7))
    yield one
    many = case("three arrays of 8")
    many.add("jitad", lambda: repeated(jit(arrays), *three))
    many.add("Python", lambda: repeated(arrays, *three))
    many.add("Numba", lambda: repeated(in_numba(arrays), *three))
    many.add("JAX", lambda: in_jax(arrays, *three))
    yield many
    leaves = case("a dict of ten lists of ten floats")
    leaves.add("jitad", lambda: repeated(jit(tree), hundred))
    leaves.add("Python", lambda: repeated(tree, hundred))
    leaves.add("Numba", lambda: repeated(in_numba(tree), hundred))
    leaves.add("JAX", lambda: in_jax(tree, hundred))
    yield leaves
    model = Model()
    for name, function in (("nothing from outside", nothing), ("a number from outside", one_number),
                           ("ten numbers from outside", ten_numbers), ("ten arrays from outside", ten_arrays),
                           ("a method that reads an attribute", model.one),
                           ("a method that reads ten attributes", model.ten)):
        reading = case(name)
        reading.add("jitad", lambda function=function: repeated(jit(function), 0.7))
        reading.add("Python", lambda function=function: repeated(function, 0.7))
        yield reading
