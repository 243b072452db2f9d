"""What functions of this package may ask of the compiler that traces them: each of these has a rule in ``stdlib``."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
IN_RANGE: set[CodeType] = set()


def in_range(fun: F) -> F:
    """A function whose indices are within ``[0, size)`` whatever it is given: they are not tested where it is traced.

    That is for inner loops over arrays of its own, which are half as long without the tests; it holds for the code of
    the function alone, not for what it calls.  ``tests/test_written_in_range.py`` calls the functions that are marked.
    """
    IN_RANGE.add(fun.__code__)
    return fun


def constant(x: Any) -> Any:
    """``x`` (a number or an array), which differentiation takes for a constant."""
    return x


def positive_part(x: Any) -> Any:
    """``jitad.relu``: ``x`` where it is positive, and 0."""
    found = np.asarray(x)
    found = np.where(found <= 0, found.dtype.type(0), found)
    if found.ndim:
        return found
    return type(x)(found) if isinstance(x, (bool, int, float)) else found[()]


def refuse(what: str, instead: str) -> NoReturn:
    """Refuse the call while tracing, at the user's line."""
    raise NotImplementedError(what, instead)


def axis_of(axis: int, ndim: int) -> int:
    """An axis counted from the front; refused where it is only known at run time."""
    return range(ndim)[axis]
