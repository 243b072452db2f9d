"""Timing in turns, and what the times say: medians, ratios and their bootstrap intervals."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .case import Case, Program

RESAMPLES = 2000
SLOW, FEW = 1.0, 3              # a program that takes more than this many seconds has only so many turns


def seconds(program: Program, count: int) -> float:
    """The time of ``count`` calls."""
    repeated = range(count)
    start = time.perf_counter()
    for _ in repeated:
        program()
    return time.perf_counter() - start


def calibrated(program: Program, least: float) -> int:
    """How many calls take at least ``least`` seconds; the program is warm then.

    The first call is not counted: it may compile, and a program that seems slow would be timed by single, cold calls.
    """
    program()
    count, spent = 1, seconds(program, 1)
    while spent < least:
        count = max(2 * count, int(1.2 * count * least / max(spent, 1e-9)))
        spent = seconds(program, count)
    return count


def turns(programs: dict[str, Program], rounds: int = 9, least: float = 0.01) -> dict[str, list[float]]:
    """Seconds of one call, ``rounds`` times for each program; in a round they take turns (A B C A B C …)."""
    counts = {name: calibrated(program, least) for name, program in programs.items()}
    slow = {name: counts[name] == 1 and seconds(program, 1) > SLOW for name, program in programs.items()}
    times: dict[str, list[float]] = {name: [] for name in programs}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            for name, program in programs.items():
                if turn >= FEW and slow[name]:
                    continue
                times[name].append(seconds(program, counts[name]) / counts[name])
    finally:
        gc.enable()
    return times


def run(case: Case, rounds: int) -> dict[str, Any]:
    """Check a case, time it, and say all about it as plain data."""
    case.check() if case.results else None
    samples = turns(case.programs, rounds, case.least) if case.programs else {}
    samples |= case.samples
    return {"group": case.group, "kind": case.kind, "unit": case.unit, "cannot": case.cannot, "facts": case.facts,
            "first": case.first, "seconds": {k: [t / case.per for t in ts] for k, ts in samples.items()}}


def median(times: Sequence[float]) -> float:
    return float(np.median(times))


def ratio(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """median(a) / median(b) with its 95 % interval: rounds are resampled, pairs together where they were measured
    together (percentile bootstrap: Efron 1979).
    """
    x, y = np.asarray(a), np.asarray(b)
    rng = np.random.default_rng(0)
    i = rng.integers(0, len(x), (RESAMPLES, len(x)))
    j = i if len(x) == len(y) else rng.integers(0, len(y), (RESAMPLES, len(y)))
    resampled = np.median(x[i], axis=1) / np.median(y[j], axis=1)
    low, high = np.percentile(resampled, [2.5, 97.5])
    return float(np.median(x) / np.median(y)), float(low), float(high)


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def readable(t: float) -> str:
    """Seconds, in the unit that suits."""
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if t * scale >= 1:
            return f"{t * scale:.3g} {unit}"
    return f"{t * 1e9:.3g} ns"
