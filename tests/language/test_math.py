"""The module ``math``, every function of it: its values, errors and derivatives."""

from __future__ import annotations

import math
from typing import Any

import pytest

from jitad import interpret
from tests import tracing
from tests.small_programs import check

FLOATS = ("acos", "asin", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "degrees", "erf", "erfc", "exp", "exp2",
          "expm1", "fabs", "floor", "frexp", "gamma", "isfinite", "isinf", "isnan", "lgamma", "log", "log10", "log1p",
          "log2", "modf", "radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "asinh")
PAIRS = ("atan2", "copysign", "dist", "fmod", "hypot", "isclose", "pow", "remainder")
INTEGERS = {"comb": (9, 4), "factorial": (11,), "gcd": (84, -36), "isqrt": (99,), "lcm": (6, -4), "perm": (9, 4)}
OTHERS = {"acosh": (1.7,), "ldexp": (0.7, -3), "fsum": ([0.7, 1.3],), "prod": ([0.7, 1.3],),
          "sumprod": ([0.7, 1.3], [1.1, 2.0])}
REFUSED = ("nextafter", "ulp", "fma")
CONSTANTS = {"pi", "e", "tau", "inf", "nan"}


def test_the_lists_are_complete() -> None:
    known = {*FLOATS, *PAIRS, *INTEGERS, *OTHERS, *REFUSED, *CONSTANTS}
    assert {n for n in dir(math) if not n.startswith("_")} <= known


def calls_of_math() -> list[tuple[str, tuple[Any, ...]]]:
    listed = [(n, (x,)) for n in FLOATS for x in (0.7, 0.2)]
    listed += [(n, (x, 1.3)) for n in PAIRS for x in (0.7, 8.2) if n != "dist"] + [("dist", ([0.7, 2.0], [1.3, -1.0]))]
    listed += list(INTEGERS.items()) + [(n, args) for n, args in OTHERS.items() if hasattr(math, n)]
    return listed + [("gamma", (x,)) for x in (-0.5, -1.5, 12.3)] + [("modf", (-3.7,)), ("frexp", (-0.0,)),
                                                                     ("isqrt", (2 ** 62 - 1,)), ("perm", (4,))]


def test_math() -> None:
    for name, args in calls_of_math():
        f = getattr(math, name)
        got = interpret(lambda *xs, f=f: f(*xs), *args)
        assert got == pytest.approx(f(*args), rel=1e-12), name
        assert type(got) is type(f(*args)), name


@pytest.mark.parametrize("name, args", (("sqrt", (-1.0,)), ("acos", (2.0,)), ("gamma", (-2.0,)), ("factorial", (-1,)),
                                        ("comb", (-1, 2)), ("isqrt", (-1,)), ("remainder", (1.0, 0.0)),
                                        ("fmod", (1.0, 0.0)), ("log", (0.0,)), ("pow", (-8.0, 0.5)),
                                        ("pow", (0.0, -1.0))))
def test_domains_of_math(name: str, args: tuple[Any, ...]) -> None:
    f = getattr(math, name)
    with pytest.raises(ValueError):
        f(*args)
    with pytest.raises(ValueError):
        tracing.run(tracing.trace(lambda *xs: f(*xs), *args), *args)


def derivatives_of_math(x):
    fraction, whole = math.modf(x * 3.7)
    mantissa, exponent = math.frexp(x * 3.7)
    return fraction * x + whole + mantissa * exponent + math.ldexp(x, 3) * x + math.remainder(x * 7, 3.0) * x


@pytest.mark.slow
def test_derivatives_of_math() -> None:
    check(derivatives_of_math)
    for name in FLOATS:
        f = getattr(math, name)
        if isinstance(f(0.3), float) and name not in ("ceil", "floor", "trunc", "lgamma", "gamma"):
            check(f, at=(0.3,))


@pytest.mark.parametrize("args", [(-2.0, 3.0), (-2.0, -1.0), (0.0, 0.0), (0.0, 0.5), (-math.inf, 0.3), (0.0, -math.inf),
                                  (math.nan, 0.0), (-1.0, math.inf)])
def test_powers_within_their_domain(args: tuple[float, float]) -> None:
    assert interpret(lambda x, y: math.pow(x, y), *args) == math.pow(*args)
    assert interpret(lambda x: math.pow(x, args[1]), args[0]) == math.pow(*args)
