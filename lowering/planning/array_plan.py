"""Plans the arrays of one function: which are stored, which are computed where they are read, which share a loop."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.graph import Function
from . import fusion
from .alias import Summary, holds_arrays
from .fusion import Plan
from .fusion_groups import find_groups, readers_of


def plan(func: Function, summaries: Mapping[str, Summary] | None = None) -> Plan:
    """Decide what is stored, where, and together with what; ``summaries`` tell what callees share."""
    decided = fusion.plan(func, summaries)
    if not holds_arrays(func):
        return decided
    readers = readers_of(decided, func)
    for block in func.blocks:
        find_groups(decided, block, readers)
    return decided
