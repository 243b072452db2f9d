"""Outcomes of calls, and their comparison."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jitad.errors import DifferentiationError, JitadError, ShapeError, TypeInferenceError, UnsupportedError
from tests.fuzzing import plain
from tests.fuzzing.values import flatten, flatten_like, is_float, unflatten

REFUSALS = (UnsupportedError, TypeInferenceError, DifferentiationError, ShapeError)
# Python's `**` raises OverflowError where compiled code computes inf; the others mean that the program has no type.
NO_MEANING = (OverflowError, TypeError, NameError)
TELLING = (AssertionError, IndexError, KeyError, ValueError, ZeroDivisionError)         # their messages are compared
Function = Callable[..., Any]


def outcome(fun: Function, *args: Any) -> Any:
    """The result of a call, or the exception that it raises."""
    try:
        return fun(*args)
    except JitadError as e:
        if isinstance(e, REFUSALS):
            raise
        return e
    except Exception as e:
        return e


def meaningless(want: Any) -> bool:
    """True if an outcome means that the program has no type, also if a float or a float array is used as an index."""
    return isinstance(want, NO_MEANING) or isinstance(want, IndexError) and (
        "scalar variable" in str(want) or "only integers" in str(want))


def agree(got: Any, want: Any, rtol: float) -> bool:
    """True if two outcomes are the same: structure, types, values, or the exception with its message."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        return type(got) is type(want) and (type(got) not in TELLING or str(got).strip() == str(want).strip())
    got_leaves, got_structure = flatten(got)
    want_leaves, want_structure = flatten(want)
    return got_structure == want_structure and all(_close(x, y, rtol) for x, y in zip(got_leaves, want_leaves))


def _close(x: Any, y: Any, rtol: float) -> bool:
    if np.shape(x) != np.shape(y):
        return False
    if isinstance(x, float) and isinstance(y, float):            # a fast path for the most frequent case
        return x == y or x != x and y != y or abs(x - y) <= rtol * (1 + 2 * abs(y)) < np.inf
    if np.asarray(x).dtype != np.asarray(y).dtype:
        return False
    return np.allclose(x, y, rtol, rtol * (1 + largest(y)), equal_nan=True)


def as_floats(x: Any) -> Any:
    """An outcome with integers converted to floats."""
    if isinstance(x, Exception):
        return x
    leaves, structure = flatten(x)
    return unflatten(structure, [np.asarray(v, float)[()] if np.asarray(v).dtype.kind == "i" else v for v in leaves])


def array_references(x: Any) -> list[int]:
    return [sys.getrefcount(leaf) for leaf in flatten(x)[0] if isinstance(leaf, np.ndarray)]


def largest(x: Any) -> float:
    x = np.asarray(x)
    x = np.abs(x[np.isfinite(x)]) if x.dtype.kind == "f" else x * 0
    return float(np.max(x, initial=0.0))


def is_number(x: Any) -> bool:
    return isinstance(x, (float, np.floating))


def finite(x: Any) -> bool:
    return all(x is None or np.all(np.isfinite(x)) and largest(x) < 1e6 for x in flatten(x)[0])


def has_nan(x: Any) -> bool:
    return not isinstance(x, Exception) and any(is_float(v) and bool(np.any(np.isnan(v))) for v in flatten(x)[0])


def shaken(at: tuple[Any, ...], by: float) -> tuple[Any, ...]:
    """Arguments with changed last bits: each number by a fraction of ``by``, equal ones by the same fraction."""
    def other(x: Any) -> Any:
        if not is_float(x):
            return x
        return x * (1 + by * np.cos(1e4 * x + 1)).astype(x.dtype) if isinstance(x, np.ndarray) else x * (1 + by)
    leaves, structure = flatten(at)
    return unflatten(structure, [other(x) for x in leaves])


def steady(f: Function, at: tuple[Any, ...], value: Any) -> bool:
    """True if ``value``, the result of ``f``, is insensitive to the last bits of the arguments."""
    return all(agree(outcome(f, *shaken(at, by)), value, 1e-6) for by in (1e-13, -1e-13))


def difference(f: Function, at: tuple[Any, ...], direction: tuple[Any, ...]) -> tuple[float, bool]:
    """The central difference in a direction, and a flag: True if the neighbourhood is smooth."""
    leaves, structure = flatten(at)
    steps = flatten_like(structure, direction)
    value = f(*at)
    try:
        sides = [(f(*unflatten(structure, plain.moved(leaves, steps, e))) - value) / e
                 for e in (1e-6, -1e-6, 4e-6, -4e-6)]
    except (ArithmeticError, *TELLING):                       # at the edge of a domain
        return math.nan, False
    central = (sides[0] + sides[1]) / 2
    near = 1e-3 * (1 + abs(central))
    from_right, from_left = ((4 * sides[i] - sides[i + 2]) / 3 for i in (0, 1))      # except for a third derivative
    return central, bool(np.isfinite(central) and abs(central) < 1e5 and all(abs(s - central) < near for s in sides)
                         and abs(from_right - from_left) < near / 10)
