"""Loops in two versions: the one without checks is taken only where it does what the loop does."""

from __future__ import annotations

import numpy as np
import pytest

from jitad import jit


def chosen_by_an_asserted_condition(a, wanted, n):
    s = 0.0
    for i in range(n):
        j = i - 10
        below = j < 0
        if wanted[i] > 0:
            assert below
        moved = j + 100
        k = moved if below else j
        assert k < 50
        s += a[i]
    return s


def test_a_choice_by_a_condition_that_a_check_wants() -> None:
    """The version in which ``below`` is asserted is one in which ``k`` is ``moved``."""
    a = np.ones(20)
    for wanted in (a, -a):
        with pytest.raises(AssertionError):
            jit(chosen_by_an_asserted_condition)(a, wanted, 5)
