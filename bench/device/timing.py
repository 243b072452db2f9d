"""Times of work on a device: of a whole queue of calls, since a single one is shorter than the way to the device."""

from __future__ import annotations

import time
from collections.abc import Callable

ROUNDS = 7
LEAST = 0.05                     # seconds of a round

Run = Callable[[], object]


def seconds(run: Run, wait: Run, rounds: int = ROUNDS, least: float = LEAST) -> float:
    """The time of one call: the shortest of several rounds, each of which ends when the device has done its work."""
    def spent(count: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        return time.perf_counter() - start
    spent(1)
    count, took = 1, spent(1)
    while took < least:
        count = max(2 * count, int(1.2 * count * least / max(took, 1e-9)))
        took = spent(count)
    return min([took, *(spent(count) for _ in range(rounds - 1))]) / count
