"""Loops over the bits or the digits of a number have no safepoint (``lowering/threads/bit_loops.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit


def ones(x: int) -> int:
    count = 0
    while x:
        x &= x - 1
        count += 1
    return count


def bits(x: int) -> int:
    count = 0
    while x > 0:
        count += x & 1
        x >>= 1
    return count


def digits(x: int) -> int:
    total = 0
    while 0 < x:
        total += x % 10
        x //= 10
    return total


def halved(x: int) -> int:
    """Endless for a negative number."""
    count = 0
    while x != 0:
        x >>= 1
        count += 1
    return count


def downwards(x: int) -> int:
    count = 0
    while x > 0:
        x -= 3
        count += x & 1
    return count


def rotated(x: int, y: int) -> int:
    """The number that is tested is another one than that which loses a bit."""
    count = 0
    while x > 0:
        x, y = y, x >> 1
        count += 1
    return count


def polls(f: Callable[..., int], *args: Any) -> bool:
    body = jit(f).inspect("llvm", *args).split("@jitad.entry(")[0]
    return " call preserve_mostcc i32 @jitad.ask" in body


@pytest.mark.parametrize("f", [ones, bits, digits], ids=lambda f: f.__name__)
def test_loops_that_end_soon(f: Callable[[int], int]) -> None:
    assert not polls(f, 5)
    compiled = jit(f)
    for x in (0, 1, 7, 1234567890123, 2 ** 62, 2 ** 63 - 1, *((-1, -8, -2 ** 63) if f is bits or f is digits else ())):
        assert compiled(x) == f(x)
    if f is ones:
        assert [compiled(x) for x in (-1, -2 ** 63)] == [64, 1]


@pytest.mark.parametrize("f, args", [(halved, (5,)), (downwards, (5,)), (rotated, (5, 9))],
                         ids=lambda p: getattr(p, "__name__", str(p)))
def test_other_loops_poll(f: Callable[..., int], args: tuple[int, ...]) -> None:
    assert polls(f, *args)
    assert jit(f)(*args) == f(*args)


def test_bits_of_an_array_are_counted_by_one_instruction_each() -> None:
    def total(x: Any) -> int:
        found = 0
        for i in range(len(x)):
            v = x[i]
            while v:
                v &= v - 1
                found += 1
        return found
    x = np.random.default_rng(0).integers(-2 ** 63, 2 ** 63 - 1, 1000)
    compiled = jit(total)
    assert compiled(x) == sum(int(v).bit_count() if v >= 0 else (int(v) & (2 ** 64 - 1)).bit_count() for v in x)
    assert "llvm.ctpop" in compiled.inspect("llvm", x)
