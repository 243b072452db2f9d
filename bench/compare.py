"""Compares two runs: lists changes larger than noise.

Our time is relative to a reference that both runs have timed in the same rounds: C, or else the fastest peer.  So a
faster machine is not an improvement, and a busy one not a regression.  If there is no such peer, times are compared
directly, provided that the machine is the same.  The interval is a bootstrap over the rounds of both runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.case import OURS
from bench.measure import RESAMPLES, median
from bench.report import say
from bench.targets import best, every, name_of

SLACK = 0.05            # smaller changes are not reported, even if the interval excludes 1
LEVEL = 99              # per cent: with a hundred cases, 95 would give five false alarms
REFERENCES = ("C", "Numba", "Enzyme", "JAX", "Dr.Jit", "CasADi", "PyTorch", "NumPy", "Python")
Case = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """New over old, with its interval; ``what``: the time or the memory of a case."""

    what: str
    ratio: float
    low: float
    high: float

    @property
    def slower(self) -> bool:
        return self.low > 1 and self.ratio > 1 + SLACK

    @property
    def faster(self) -> bool:
        return self.high < 1 and self.ratio < 1 - SLACK


def comparable(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """The reason why two runs cannot be compared, or None."""
    if bool(old.get("quick")) != bool(new.get("quick")):
        return "one run is quick and the other is not: their problems differ in size"
    return None


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Time and memory of each case in both runs, largest slowdown first."""
    before = {name_of(c): c for c in every(old) if OURS in c["seconds"]}
    alike = old["machine"].get("cpu") == new["machine"].get("cpu") and old.get("cpu time") == new.get("cpu time")
    found = []
    for case in every(new):
        then = before.get(name_of(case))
        if then is None or OURS not in case["seconds"]:
            continue
        if (change := time_of(then, case, alike)) is not None:
            found.append(change)
        found += memory_of(then, case)
    return sorted(found, key=lambda change: -change.ratio)


def time_of(then: Case, now: Case, alike: bool) -> Change | None:
    """The change of our time relative to the reference; None if the runs cannot be compared."""
    reference = next((label for kin in REFERENCES if (label := best(then, kin)) and label in now["seconds"]), None)
    if reference is None and not alike:
        return None
    rng = np.random.default_rng(0)
    fresh, fresh_samples = relative(now, reference, rng)
    stale, stale_samples = relative(then, reference, rng)
    low, high = np.percentile(fresh_samples / stale_samples, [50 - LEVEL / 2, 50 + LEVEL / 2])
    return Change(name_of(now), fresh / stale, float(low), float(high))


def relative(case: Case, reference: str | None, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """The median of our times over the reference's, and resampled ratios; both times of a round stay together."""
    ours = np.asarray(case["seconds"][OURS])
    rounds = rng.integers(0, len(ours), (RESAMPLES, len(ours)))
    value, samples = median(ours), np.median(ours[rounds], axis=1)
    if reference is None:
        return value, samples
    theirs = np.asarray(case["seconds"][reference])
    if len(theirs) != len(ours):
        rounds = rng.integers(0, len(theirs), (RESAMPLES, len(theirs)))
    return value / median(theirs), samples / np.median(theirs[rounds], axis=1)


def memory_of(then: Case, now: Case) -> list[Change]:
    """The change of the memory that a call touches, which varies by a few pages only."""
    a, b = (case.get("memory", {}).get(OURS) or 0 for case in (then, now))
    if max(a, b) < NOISE_BYTES:
        return []
    ratio = max(b, NOISE_BYTES) / max(a, NOISE_BYTES)
    return [Change(f"{name_of(now)}: memory", ratio, ratio, ratio)]


NOISE_BYTES = 1 << 20


def show(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Prints the changes; returns the number of regressions."""
    if why := comparable(old, new):
        say(f"not compared: {why}")
        return 1
    found = changes(old, new)
    for c in found:
        if c.slower or c.faster:
            word = ("MORE" if c.slower else "less") if c.what.endswith("memory") else "SLOWER" if c.slower else "faster"
            say(f"{word:6}  {c.what}: {c.ratio:.2f}× ({c.low:.2f} to {c.high:.2f})")
    worse = sum(c.slower for c in found)
    say(f"{len(found)} compared: {worse} worse, {sum(c.faster for c in found)} better, the others within noise")
    return worse
