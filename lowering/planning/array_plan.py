"""Plans the arrays of one function: which are stored, which are computed in their readers, which share a loop nest."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.aliasing.alias_classes import ClassSummary, holds_arrays
from ...ir.graph import Function
from . import fusion
from .fusion import Plan
from .fusion_groups import find_groups, readers_of


def plan(func: Function, summaries: Mapping[str, ClassSummary] | None = None) -> Plan:
    """Decide which arrays are stored, in which buffers, and in which loop nests.

    ``summaries`` tell which arrays callees share with their arguments.
    """
    decided = fusion.plan(func, summaries)
    if not holds_arrays(func):
        return decided
    readers = readers_of(decided, func)
    for block in func.blocks:
        find_groups(decided, block, readers)
    decided.known = None                                 # views become lazy, and members while their group is written
    return decided
