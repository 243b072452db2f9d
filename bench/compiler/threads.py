"""Two threads in a long scalar loop, which runs without the GIL: two calls in parallel and in sequence.

The best rounds of each are compared.  The capacity of the machine for two threads at that time is measured in the same
way, by SHA-256 of ``hashlib``, which runs without the GIL too: if the machine does other work as well, neither gains.
``python -m bench.compiler.threads`` prints both speed-ups.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench import one_core
from bench.case import Bench, Case
from jitad import jit

TITLE = "Two threads"
STEPS = 3_000_000


@jit(grad=True)
def recurrence(x: float, n: int) -> float:
    for _ in range(n):
        x = x * 0.5 + np.sin(x)
    return x


def side_by_side(work: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def one_after_the_other(work: Callable[[], Any]) -> None:
    work()
    work()


def seconds(run: Callable[[Callable[[], Any]], None], work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run(work)
    return time.perf_counter() - start


def samples(work: Callable[[], Any], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds in parallel and in sequence, interleaved."""
    work()
    pairs = [(seconds(side_by_side, work), seconds(one_after_the_other, work)) for _ in range(rounds)]
    together, apart = zip(*pairs)
    return list(together), list(apart)


def works(n: int) -> dict[str, Callable[[], Any]]:
    text = bytes(10 * n)
    return {"value": lambda: recurrence(0.3, n), "gradient": lambda: recurrence.grad(0.3, n),
            "sha256": lambda: hashlib.sha256(text).digest()}


def cases(bench: Bench) -> Iterator[Case]:
    programs = works(STEPS // 10 if bench.quick else STEPS)
    with one_core.unpinned():
        together, apart = samples(programs.pop("sha256"), bench.rounds)
    possible = min(apart) / min(together)
    for kind, work in programs.items():
        case = Case("a scalar loop", f"{kind} in two threads", unit="call", per=2.0)
        with one_core.unpinned():
            together, apart = samples(work, bench.rounds)
        case.samples = {"jitad": together, "jitad one after the other": apart}
        case.facts |= {"speed-up": min(apart) / min(together), "speed-up of SHA-256": possible}
        yield case


if __name__ == "__main__":
    for name, program in works(STEPS).items():
        with one_core.unpinned():
            at_once, in_turn = samples(program, 25)
        print(f"{name}: {min(in_turn) / min(at_once):.2f} times as fast in two threads "
              f"({min(at_once) * 1e3:.1f} ms, one after the other {min(in_turn) * 1e3:.1f} ms)")
