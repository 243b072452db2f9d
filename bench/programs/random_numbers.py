"""A million random numbers in an array: ``jitad.random`` against NumPy's generator (PCG64, ziggurat)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.case import Bench, Case, Program
from jitad.random import Generator

TITLE = "Random numbers, a million in an array"
DRAWS: dict[str, tuple[int, ...]] = {"random": (), "standard_normal": (), "standard_exponential": (),
                                     "integers": (0, 1000), "permutation": ()}


def drawing(rng: Any, name: str, n: int) -> Program:
    """Draws ``n`` numbers and returns none, since each generator has different ones."""
    draw, args = getattr(rng, name), DRAWS[name]

    def run() -> None:
        draw(n) if name == "permutation" else draw(*args, size=n)
    return run


def cases(bench: Bench) -> Iterator[Case]:
    n = 100_000 if bench.quick else 1_000_000
    for name in DRAWS:
        case = bench.case(name, "value", per=n, unit="a number")
        case.add("jitad", functools.partial(drawing, Generator(1), name, n))
        case.add("NumPy", functools.partial(drawing, np.random.default_rng(1), name, n))
        yield case
