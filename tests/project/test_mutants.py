"""Mutants of the benchmark's programs (``fuzzing/mutants.py``): the optional passes change no result.

``make mutants`` runs others.
"""

from __future__ import annotations

import pytest

from tests.fuzzing.mutants import check, mutant
from tests.fuzzing.planted import planted

pytestmark = pytest.mark.slow


@pytest.mark.long
@pytest.mark.parametrize("seed", range(48))
def test_passes_change_no_result(seed: int) -> None:
    m = mutant(seed)
    different = check(m)
    assert not different, f"{different}\n{m.source}"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1016))
def test_nor_under_fast_math(seed: int) -> None:
    m = mutant(seed)
    different = check(m, fastmath=True)
    assert not different, f"{different}\n{m.source}"


@pytest.mark.parametrize("bug", ["exchanged_terms", "lost_adjoint"])
def test_planted_bugs_are_found(bug: str) -> None:
    with planted(bug):
        assert any(check(mutant(seed)) for seed in range(5, 29))


def test_a_mutant_follows_from_its_seed() -> None:
    assert all(mutant(seed).source == mutant(seed).source for seed in range(20))
