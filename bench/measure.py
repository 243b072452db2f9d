"""Interleaved timing, and statistics of times: medians, ratios and their bootstrap intervals."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import memory, one_core
from bench.case import Case, Program

RESAMPLES = 2000
SLOW, VERY_SLOW = 1.0, 4.0      # slower programs have 3 and 2 rounds
SHORT = 0.1                     # faster programs have one untimed call before each round


def seconds(program: Program, count: int) -> float:
    """The time of ``count`` calls."""
    repeated = range(count)
    now = one_core.now
    start = now()
    for _ in repeated:
        program()
    return now() - start


def calibrated(program: Program, least: float) -> int:
    """The number of calls that take at least ``least`` seconds; warms the program up.

    The first call is not counted: it may compile, and a program that seems slow would be timed by single, cold calls.
    """
    program()
    count, spent = 1, seconds(program, 1)
    while spent < least:
        count = max(2 * count, int(1.2 * count * least / max(spent, 1e-9)))
        spent = seconds(program, count)
    return count


@dataclass
class Trial:
    """Properties of a program before it is timed: calls per round, seconds per round, processor use, bytes touched."""

    count: int
    wall: float
    busy: float
    memory: int | None

    def rounds(self, wanted: int) -> int:
        """The number of rounds to time."""
        return min(wanted, 2 if self.wall > VERY_SLOW else 3 if self.wall > SLOW else wanted)


def tried(program: Program, least: float) -> Trial:
    """Measures a program once: one call gives the memory; a slow program is not called again before it is timed."""
    trials = []
    used = memory.growth(lambda: trials.append(one_core.trial(program, 1)))
    count = 1
    if trials[0].wall < SLOW:
        count = calibrated(program, least)
        trials.append(one_core.trial(program, count))
    return Trial(count, trials[-1].wall, trials[-1].cpu / trials[-1].wall, used)


def turns(programs: dict[str, Program], trials: dict[str, Trial], rounds: int) -> dict[str, list[float]]:
    """Seconds of one call, ``rounds`` times for each program; in a round they alternate, each time in another order.

    So no program always runs after the one that has filled the caches.
    """
    order = np.random.default_rng(0)
    times: dict[str, list[float]] = {name: [] for name in programs}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            for name in map(str, order.permutation(list(programs))):
                program = programs[name]
                if turn < trials[name].rounds(rounds):
                    if trials[name].wall < SHORT:
                        program()           # the order does not matter then: its data are in the cache
                    times[name].append(seconds(program, trials[name].count) / trials[name].count)
    finally:
        gc.enable()
    return times


def run(case: Case, rounds: int) -> dict[str, Any]:
    """Checks and measures a case; returns plain data, with times in seconds and memory in bytes."""
    case.check() if case.results else None
    trials = {label: tried(program, case.least) for label, program in case.programs.items()}
    samples = turns(case.programs, trials, rounds) | case.samples
    return {"group": case.group, "kind": case.kind, "unit": case.unit, "steps": case.steps, "cannot": case.cannot,
            "facts": case.facts, "apart": sorted(case.apart), "first": case.first,
            "memory": {label: trial.memory for label, trial in trials.items()},
            "cpu over wall": {label: trial.busy for label, trial in trials.items()},
            "seconds": {k: [t / case.per for t in ts] for k, ts in samples.items()}}


def median(times: Sequence[float]) -> float:
    return float(np.median(times))


def ratio(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """median(a) / median(b) with its 95 % interval by a percentile bootstrap (Efron 1979).

    Rounds are resampled; pairs that were measured together stay together.
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


def size(count: float) -> str:
    """A number of bytes in a suitable unit."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.3g} B"


def readable(t: float) -> str:
    """A number of seconds in a suitable unit."""
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if t * scale >= 1:
            return f"{t * scale:.3g} {unit}"
    return f"{t * 1e9:.3g} ns"
