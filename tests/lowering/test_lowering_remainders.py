"""Remainders in loops by what is no literal (``lowering/function/remainders.py``)."""

from __future__ import annotations

import numpy as np
import pytest

from jitad import jit

LOW, HIGH = -2**63, 2**63 - 1
NUMBERS = np.array([LOW, LOW + 1, LOW + 3, -8, -7, -6, -1, 0, 1, 6, 7, 8, HIGH - 1, HIGH])


@jit
def by_a_number(x: np.ndarray, d: np.ndarray) -> np.ndarray:
    out = np.zeros(len(x), dtype=np.int64)
    divisor = d[0]
    for i in range(len(x)):
        out[i] = x[i] % divisor
    return out


@jit
def by_a_size(x: np.ndarray, of: np.ndarray) -> np.ndarray:
    out = np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        out[i] = x[i] % len(of)
    return out


@jit
def by_a_size_and_quotients(x: np.ndarray, of: np.ndarray) -> np.ndarray:
    out = np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        out[i] = (x[i] & HIGH) % len(of) + len(x) * (x[i] // len(of))
    return out


@pytest.mark.parametrize("d", [LOW, -7, -1, 0, 1, 2, 7, HIGH])
def test_remainders_by_a_number(d: int) -> None:
    with np.errstate(all="ignore"):
        assert by_a_number(NUMBERS, np.array([d])).tolist() == (NUMBERS % np.int64(d)).tolist()


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_remainders_by_a_size(n: int) -> None:
    of = np.zeros(n)
    assert by_a_size(NUMBERS, of).tolist() == (NUMBERS % n).tolist()
    with np.errstate(all="ignore"):
        wanted = (NUMBERS & HIGH) % n + len(NUMBERS) * (NUMBERS // n)
    assert by_a_size_and_quotients(NUMBERS, of).tolist() == wanted.tolist()


def test_a_size_of_none() -> None:
    with np.errstate(all="ignore"):
        assert by_a_size(NUMBERS, np.zeros(0)).tolist() == (NUMBERS % np.int64(0)).tolist()
