"""Requests of the library's functions to the compiler that traces them; each has a rule in ``stdlib``."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, NoReturn, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
IN_RANGE: set[CodeType] = set()


def in_range(fun: F) -> F:
    """Marks a function whose indices are always within ``[0, size)``, so that no bounds checks are traced.

    This is for inner loops over arrays of the function's own, which take half the time without the checks.  The mark
    holds for the function's own code, not for its callees.  ``tests/loops/test_written_in_range.py`` calls the marked
    functions.
    """
    IN_RANGE.add(fun.__code__)
    return fun


def constant(x: Any) -> Any:
    """Returns ``x`` (a number or an array) as a constant to differentiation."""
    return x


def on_device() -> bool:
    """True in code for a GPU, where many threads want another algorithm than one does; plain Python is none."""
    return False


def positive_part(x: Any) -> Any:
    """``jitad.relu``: the maximum of ``x`` and 0."""
    found = np.asarray(x)
    found = np.where(found <= 0, found.dtype.type(0), found)
    if found.ndim:
        return found
    return type(x)(found) if isinstance(x, (bool, int, float)) else found[()]


def refuse(what: str, instead: str) -> NoReturn:
    """Refuses the call while tracing; the error names the user's line."""
    raise NotImplementedError(what, instead)


def axis_of(axis: int, ndim: int) -> int:
    """The axis counted from the front; refused if the axis is only known at run time."""
    return range(ndim)[axis]
