"""``round`` to digits and to tens, against Python's and NumPy's."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from jitad import grad, interpret, jit
from tests.calls.entries import same


@pytest.mark.parametrize("digits", [1, 2, 3, 8, 12, 15, 22, 400, -1, -2, -5, -400, 0])
def test_round_to_digits_is_pythons(digits: int) -> None:
    """It rounds the exact value of a float, not its product with a power of ten."""
    rounded = jit(lambda x, digits: round(x, digits), static="digits")
    draw, unit = random.Random(digits), 10.0 ** min(abs(digits), 9)
    floats = [2.675, -7.55, 0.125, -0.05, 1.005, 1e300, -1e16, 4503599627370497.5, 123456789.12345678, -0.0, 5e-324,
              25.0, -35.0, 15.000000000000002, 250.0, 5.0, 8.5e-6, -65721107472.779724, 5.7143261472874975,
              5355.3810765170165, math.inf]
    for _ in range(200):
        half = draw.randrange(-10**6, 10**6) + 0.5
        floats += [half / unit, half * unit, half * 10, draw.uniform(-1e4, 1e4),
                   math.ldexp(half, draw.randrange(-60, 60))]
    for x in floats:
        expected = round(x, digits)
        assert str(rounded(x, digits)) == str(expected), x
    assert np.isnan(rounded(math.nan, digits))


@pytest.mark.parametrize("digits", [-2, -3, -11, -15, 3, 11])
def test_what_a_product_loses_decides(digits: int) -> None:
    """Also without fused operations, as in the interpreter and on old processors."""
    f = lambda x: round(x, digits)                                                             # noqa: E731
    draw, rounded = random.Random(digits), jit(f)
    for n in range(400):
        x = (draw.randrange(2 ** 51, 2 ** 52) + 0.5) * 10.0 ** -digits
        x = math.nextafter(x, draw.choice([-math.inf, math.inf])) if n % 3 else x
        assert rounded(x) == round(x, digits), x
        assert n % 20 or interpret(f, x) == round(x, digits), x


@pytest.mark.slow
def test_round_of_whole_numbers_and_of_numpy() -> None:
    rounded = jit(lambda x, digits: round(x, digits), static="digits")
    for digits in (-1, -2, -18, -19, -30, 0, 3, None):
        for x in (0, 5, 15, 25, -5, -15, -25, 50, 150, 250, 449, -451, 10 ** 18, 5 * 10 ** 17, True):
            assert same(rounded(x, digits), round(x, digits)), (x, digits)
        for made in (np.float64(2.675), np.float32(2.5), np.int32(25), np.int64(35)):
            if digits is None or -18 < digits:
                expected = round(made, digits)
                assert same(rounded(made, digits), expected.item() if isinstance(
                    expected, (np.float64, np.int64)) else expected), (made, digits)
    tens = jit(lambda a: (np.round(a, -1), a.round(-2), np.round(a, 1)))
    for a in (np.array([175, -175, 125, 5, -5, 0]), np.array([15, 25, -150], np.int32)):
        assert same(tens(a), (np.round(a, -1), a.round(-2), np.round(a, 1)))
    assert grad(lambda x: round(x, 2) * x)(2.675) == 2.67 and grad(lambda x: round(x, 3))(1e18) == 0


def test_numbers_too_large_for_int32() -> None:
    narrow = jit(lambda n: np.int32(n))
    assert same(narrow(-5), np.int32(-5)) and same(narrow(np.int64(2 ** 32 + 1)), np.int32(1))
    with pytest.raises(OverflowError, match="Python integer 2147483648 out of bounds for int32"):
        narrow(2 ** 31)
