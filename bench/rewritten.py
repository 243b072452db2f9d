"""The time of ordinary programs that are written in other ways: ``python -m bench.rewritten [field …]``.

Each program, value and gradient, is timed in turns with each of its rewritings (``rewritings.py``), and must give the
same numbers.  Prints, for each way of writing, the mean ratio and the programs that are more than 1.15 of their time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from bench import acting, measure, one_core
from bench.case import OURS, Bench, Program, warm
from bench.ordinary import FIELDS
from bench.ordinary.program import Ordinary
from bench.rewritings import REWRITINGS, rewritten
from jitad import jit

BOUND = 1.15                            # of the time of the program as it is
LEAST = 0.01                            # seconds of a round
RTOL = 1e-7                             # of gradients: sums in another order

Pair = tuple[str, Program, Program]


def pairs(p: Ordinary, way: str) -> Iterator[Pair]:
    """The value and the gradient of a program as it is and rewritten, both compiled; none if it stays as it is."""
    found = rewritten(p.function, way)
    if found is None:
        return
    other, more = found
    for label, make in (("", jit), ("'", lambda f: jit(f, grad=p.grad).value_and_grad)):
        if label and not p.grad:
            continue
        f, g, args, longer = make(p.function), make(other), tuple(p.args), (*p.args, *more)
        _compare(f"{p.name}{label}, {way}", f(*args), g(*longer), p.rtol if not label else RTOL)
        yield f"{p.name}{label}", partial(f, *args), partial(g, *longer)


def _compare(name: str, expected: Any, found: Any, rtol: float) -> None:
    if isinstance(expected, tuple):
        for x, y in zip(expected, found, strict=True):
            _compare(name, x, y, rtol)
    elif not np.allclose(found, expected, rtol=rtol, atol=rtol):
        raise ArithmeticError(f"{name}: {found} is not {expected}")


def ratio(pair: Pair, rounds: int) -> float:
    """The least time of the rewritten program over that of the program."""
    programs = {"as it is": pair[1], "rewritten": pair[2]}
    times = measure.turns(programs, {k: measure.tried(f, LEAST) for k, f in programs.items()}, rounds)
    return min(times["rewritten"]) / min(times["as it is"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fields", nargs="*", default=list(FIELDS), help="of " + ", ".join(FIELDS))
    parser.add_argument("--ways", default=",".join(REWRITINGS), help="of " + ", ".join(REWRITINGS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    bench = Bench(None, frozenset(), True, options.rounds)
    one_core.choose_clock(cpu_time=True)
    warm(OURS)
    programs = [p for name in options.fields for p in acting.programs(f"bench.ordinary.{name}", bench)]
    for way in options.ways.split(","):
        found = {pair[0]: ratio(pair, options.rounds) for p in programs for pair in pairs(p, way)}
        slow = sorted(((r, name) for name, r in found.items() if r > BOUND), reverse=True)
        mean = measure.geometric_mean(list(found.values())) if found else 1.0
        print(f"{way:12} {len(found):4} programs, mean {mean:.3f}, {len(slow)} above {BOUND}: "
              + ", ".join(f"{name} {r:.2f}" for r, name in slow), flush=True)


if __name__ == "__main__":
    main()
