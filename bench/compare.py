"""What moved between two runs, beyond noise."""

from __future__ import annotations

from typing import Any

from .case import OURS
from .measure import median, ratio
from .report import say
from .targets import best, every

SLACK = 0.05            # a change smaller than this is no news even where the interval excludes 1


def _by_name(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{c['group']}, {c['kind']}": c for c in every(results) if OURS in c["seconds"]}


def moved(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, float, float, float]]:
    """(case, change, and its 95 % interval) of each case that became faster or slower.

    Where both runs timed C, our time counts relative to it, so that a faster machine is no progress.
    """
    before, found = _by_name(old), []
    for name, case in _by_name(new).items():
        if name not in before:
            continue
        scale = 1.0
        c_then, c_now = best(before[name], "C"), best(case, "C")
        if c_then and c_now:
            scale = median(before[name]["seconds"][c_then]) / median(case["seconds"][c_now])
        r, low, high = (x * scale for x in ratio(case["seconds"][OURS], before[name]["seconds"][OURS]))
        if (low > 1 and r > 1 + SLACK) or (high < 1 and r < 1 - SLACK):
            found.append((name, r, low, high))
    return sorted(found, key=lambda entry: -entry[1])


def show(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Say what moved; the number of regressions."""
    changes = moved(old, new)
    for name, r, low, high in changes:
        say(f"{'SLOWER' if r > 1 else 'faster'}  {name}: {r:.2f}× ({low:.2f} to {high:.2f})")
    if not changes:
        say("nothing moved beyond noise")
    return sum(r > 1 for _, r, _, _ in changes)
