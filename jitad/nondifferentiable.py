"""``debug_nondifferentiable``: reports points without a derivative at which a program is evaluated.

In its context, every call is evaluated by the reference semantics (``semantics.kinks``) instead of machine code: op by
op as traced, and slowly.
"""

from __future__ import annotations

import contextvars
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .calling.dispatch import calls_go_to
from .errors import Loc, NondifferentiableWarning
from .reference import watch
from .semantics.kinks import COMPARISONS


@dataclass
class Kink:
    """An operation evaluated at a point without a derivative.

    ``op``: the operator or function name; ``file``, ``line``, ``function``: its location; ``values``: its operands at
    the first such evaluation; ``count``: the number of such elements over all evaluations.
    """

    op: str
    file: str
    line: int
    function: str
    values: tuple[float, ...]
    count: int

    def __str__(self) -> str:
        shown = [f"{v:g}" for v in self.values]
        what = f"{self.op}({', '.join(shown)})" if self.op.isalnum() else f"{shown[0]} {self.op} {shown[1]}"
        said = f"the branch at {what}" if self.op in COMPARISONS.values() else what
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{said} has no derivative{times} ({self.file}:{self.line}, in {self.function})"


class Report(list[Kink]):
    """The points found, in the order of their first evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[str, Loc], Kink] = {}

    def tell(self, op: str, loc: Loc, values: tuple[float, ...], count: int) -> None:
        known = self._known.get((op, loc))
        if known is None:
            known = self._known[op, loc] = Kink(op, loc.file, loc.line, loc.function, values, 0)
            self.append(known)
        known.count += count

    def __str__(self) -> str:
        return "\n".join(map(str, self))


@contextmanager
def debug_nondifferentiable() -> Iterator[Report]:
    """Reports each primitive and each branch that is evaluated exactly where it has no derivative.

    In the context, derivatives are evaluated by the reference semantics, slowly; so are values, as if they were
    differentiated by all their floats.  Reports the points that the derivative depends on, with their source lines:
    ``abs`` at 0, ``max`` of equal values, ``x == 0`` at 0, and so on.  Yields a ``Report``, a list of ``Kink``; at the
    end of the context each becomes a ``NondifferentiableWarning`` at its line.
    """
    report = Report()
    outer = _reports.get()
    token = _reports.set((*outer, report))
    try:
        with calls_go_to(_watched):
            yield report
    finally:
        _reports.reset(token)
        for kink in report if not outer else ():             # only the outermost context warns
            warnings.warn_explicit(str(kink), NondifferentiableWarning, kink.file, kink.line)


_reports: contextvars.ContextVar[tuple[Report, ...]] = contextvars.ContextVar("jitad_reports", default=())


def _watched(fun: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def tell(op: str, loc: Loc, values: tuple[float, ...], count: int) -> None:
        for report in _reports.get():
            report.tell(op, loc, values, count)
    return watch(fun, args, kwargs, tell)
