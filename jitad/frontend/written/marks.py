"""What functions of this package may ask of the compiler that traces them: each of these has a rule in ``stdlib``."""

from __future__ import annotations

from typing import Any, NoReturn


def constant(x: Any) -> Any:
    """``x`` (a number or an array), which differentiation takes for a constant."""
    return x


def refuse(what: str, instead: str) -> NoReturn:
    """Refuse the call while tracing, at the user's line."""
    raise NotImplementedError(what, instead)


def axis_of(axis: int, ndim: int) -> int:
    """An axis counted from the front; refused where it is only known at run time."""
    return range(ndim)[axis]
