"""What functions written here ask of the tracer (``stdlib`` has the rules)."""

from __future__ import annotations

from typing import NoReturn


def refuse(what: str, hint: str) -> NoReturn:
    """``UnsupportedError`` at the user's line, while tracing."""
    raise NotImplementedError(f"{what}: {hint}")


def axis_of(axis: int, ndim: int) -> int:
    """An axis counted from the front; refused where it is only known at run time."""
    return range(ndim)[axis]
