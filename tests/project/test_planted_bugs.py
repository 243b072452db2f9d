"""Random programs find bugs: seven are planted, each is found in under a minute, from a new seed.

``make planted`` also reduces and shows the findings.
"""

from __future__ import annotations

import time

import pytest

from tests.fuzzing.planted import BUGS, hunt

MINUTE = 60.0

@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_found_in_under_a_minute(bug: str) -> None:
    seed = int(time.time() * 1000) % 10 ** 9
    # Processor time is measured: other tests run at the same time.
    finding, campaign = hunt(bug, seed, seconds=5 * MINUTE, workers=1, keep=True)
    print(f"{bug}, seed {seed}: {campaign.progress()}")
    assert finding is not None and campaign.processor < MINUTE, f"seed {seed}: {campaign.progress()}"
    assert finding.verdict.what == "wrong"
