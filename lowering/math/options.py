"""Options of the lowering, the interface of emitters that rules need, and the flags of float ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ...ir.types import Scalar
from ..llvm.code import Code
from ..llvm.emit import Writer
from ..llvm.target import Target


@dataclass(frozen=True)
class Options:
    """Options of the lowering.

    ``level``: 0 to debug, 1 by default, 3 for all of LLVM's optimisations.  ``fastmath``: LLVM's ``fast``.
    ``written_out``: LLVM's passes would change nothing, and are skipped.  ``strips``: loops inside of others poll too.
    ``restart``: without ``strips``, code returns ``context.LONG`` instead of running such a loop for long.
    """

    fastmath: bool = False
    flush: bool = False                   # subnormal numbers are taken for zero (``float_state``)
    level: int = 1
    poll: bool = True
    strips: bool = False
    restart: bool = False
    blas: bool = True                     # call the BLAS of NumPy's wheel for large matrix products
    written_out: bool = False


class Emitter(Protocol):
    """The part of a ``FunctionBuilder`` that a rule needs."""

    @property
    def code(self) -> Code: ...

    writer: Writer
    target: Target
    options: Options


Rule = Callable[[Emitter, Scalar, list[str], str], str]

ACCUMULATE = "reassoc nsz contract"      # for sums whose order the compiler may choose
# Fast math without LLVM's ``nnan`` and ``ninf``: with them a NaN or an infinity that LLVM sees, as in ``x / (n - 1)``
# for an array of one element, is poison, and a branch or an index that depends on it may do anything.
UNCONTRACTED = "reassoc nsz arcp afn"
FAST = UNCONTRACTED + " contract"
CHAINED = "nsz contract afn"                         # on a recurrence, without what may lengthen it


def float_flags(options: Options, attrs: dict[str, Any]) -> str:
    """The fast-math flags of a float op; an ``exact`` one is computed twice, with the same bits."""
    if attrs.get("exact"):
        return ""
    if options.fastmath:
        return CHAINED if attrs.get("chained") else UNCONTRACTED if attrs.get("apart") else FAST
    return ACCUMULATE if attrs.get("acc") else "" if attrs.get("apart") else "contract"
