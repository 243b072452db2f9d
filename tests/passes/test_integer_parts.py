"""Bounds of integer parts from comparisons of floats: the checks that cannot fail are dropped, and no others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit

A = np.arange(10.0, 17.0)
VALUES = (math.nan, math.inf, -math.inf, 1e300, -1e300, 2.0**63, -2.0**63, -0.0, 0.0, -0.3, -0.5, -0.7, -1.0, -1.5, 0.3,
          0.5, 1.0, 5.0, 5.5, 5.999, 6.0, 6.5, 7.0, 7.5, -6.5, -7.0, -7.5)


def within(y: float, n: int) -> bool:
    return y >= 0.0 and y < n


def not_outside(y: float, n: int) -> bool:
    return not (y < 0.0 or y >= n)


def not_above(y: float, n: int) -> bool:
    return 0 <= y and not y > n - 1


def from_half(y: float, n: int) -> bool:
    return y > -0.5 and y < n


def up_to_zero(y: float, n: int) -> bool:
    return y > -0.5 and y < 0.0


def after_minus_one(y: float, n: int) -> bool:
    return -1.0 < y <= n - 1


def from_below(y: float, n: int) -> bool:
    return y < n and -3.0 <= y


def only_below(y: float, n: int) -> bool:
    return y < n


def only_above(y: float, n: int) -> bool:
    return y >= 0.0


def finite(y: float, n: int) -> bool:
    return bool(np.isfinite(y)) and y < n


def truncated(y: float) -> int:
    return int(y)


def floored(y: float) -> int:
    return math.floor(y)


def floored_array(y: float) -> Any:
    return np.floor(y).astype(np.int64)


def next_one(y: float) -> int:
    return int(y) + 1


GUARDS = (within, not_outside, not_above, from_half, up_to_zero, after_minus_one, from_below, only_below, only_above,
          finite)
PARTS = (truncated, floored, next_one)


def element(guard: Callable[[float, int], bool], part: Callable[[float], Any]) -> Callable[[Any, float], Any]:
    def f(a: Any, y: float) -> Any:
        if guard(y, len(a)):
            return a[part(y)]
        return -1.0
    return f


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return float(f(*args))
    except ValueError:
        return ValueError
    except (OverflowError, IndexError):            # Python's integers have no bound: it looks for the element
        return IndexError


@pytest.mark.parametrize("part", PARTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("guard", GUARDS, ids=lambda f: f.__name__)
def test_as_in_python(guard: Callable[[float, int], bool], part: Callable[[float], Any]) -> None:
    f = element(guard, part)
    native = jit(f)
    for y in VALUES:
        assert outcome(native, A, y) == outcome(f, A, y), y


@pytest.mark.parametrize("guard", [only_above, within, not_outside], ids=lambda f: f.__name__)
def test_casts_of_arrays_are_not_checked_before(guard: Callable[[float, int], bool]) -> None:
    f = jit(element(guard, floored_array))
    for y in (1e300, 2.0**63, math.inf):
        assert outcome(f, A, y) == (IndexError if guard is only_above else -1.0), y
    assert outcome(f, A, 3.5) == 13.0


@pytest.mark.parametrize(("guard", "part", "checks"), [
    (within, truncated, 0), (within, floored, 0), (not_above, truncated, 0), (within, next_one, 1),
    (after_minus_one, truncated, 1)], ids=lambda x: getattr(x, "__name__", str(x)))
def test_checks_left(guard: Callable[[float, int], bool], part: Callable[[float], Any], checks: int) -> None:
    text = str(jit(element(guard, part)).inspect("optimized", A, 1.0))
    assert text.count("  check ") == checks


WHOLE = (lambda y: round(y) * 1.0, lambda y: y - math.floor(y), lambda y: math.ceil(y) / 2)
EDGES = (0.0, -0.0, -0.3, -0.5, 0.5, 1.5, 2.5, 2.0**52 + 0.5, 2.0**63 - 1024, -2.0**63, -2.0**63 - 2048, 2.0**63,
         math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("f", WHOLE)
def test_whole_floats_stay_floats(f: Callable[[float], float]) -> None:
    """Within 64 bits; a negative zero becomes zero, as the integer 0 does."""
    native = jit(f, grad=True)
    for y in EDGES:
        if -2.0**63 <= y < 2.0**63:
            assert (native(y), math.copysign(1.0, native(y))) == (f(y), math.copysign(1.0, f(y))), y
            assert native.grad(y) == (1.0 if f(0.25) == 0.25 else 0.0)
        else:
            with pytest.raises(ValueError if math.isnan(y) else OverflowError):
                native(y)
    assert ": i64" not in str(native.inspect("optimized", 1.0))


def beside(a: Any, y: float) -> float:
    i = math.floor(y)
    return a[i] + a[i + 1] if i >= 0 and i + 1 < len(a) else -1.0


def test_the_integer_part_of_a_float_is_not_the_largest_integer() -> None:
    """So the next one does not wrap around, and the branch has tested both indices."""
    native = jit(beside)
    for y in (-1.0, 0.0, 1.5, len(A) - 1.5, len(A) - 1.0, 2.0**63 - 1024):
        assert native(A, y) == beside(A, y)
    text = str(native.inspect("optimized"))
    assert text.count("  check ") == 2              # NaN, and a float beyond 64 bits
