"""Violated invariants, with the line of IR and a caret, and the error that lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import CompileError, Loc


@dataclass(frozen=True)
class Violation:
    """A violated invariant; ``where`` shows the line of IR and a caret."""

    message: str
    function: str
    where: str
    loc: Loc

    def __str__(self) -> str:
        at = f" ({self.loc})" if self.loc.line else ""
        return f"@{self.function}: {self.message}{at}" + (f"\n{self.where}" if self.where else "")


class VerifyError(CompileError):
    """IR that violates invariants; ``violations`` lists them all."""

    def __init__(self, violations: Sequence[Violation], text: str = "") -> None:
        self.violations = list(violations)
        count = f"{len(violations)} violation{'s' if len(violations) > 1 else ''} of the IR's invariants"
        super().__init__("\n".join([f"{count}:", *map(str, violations), *([text] if text else [])]))
