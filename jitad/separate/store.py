"""The separate code of one function of the user, which its dispatcher holds; imports nothing of the compiler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Shared:
    """``units``: the code (``units.Unit``), by the text of the part, the derivatives that are called, and the options.

    ``compilations`` and ``seconds`` count what was compiled.
    """

    units: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    compilations: int = 0
    seconds: float = 0.0
