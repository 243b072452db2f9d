"""Redirects edges past empty blocks that end in a jump.

Runs before ``cps`` brings control flow into normal form.  Blocks on critical edges are removed as well, so that exits
of a loop with the same target become one exit.
"""

from __future__ import annotations

from ...ir.graph import Function, Module
from ..analysis.cfg import go_past, merge_chains, passes_on, remove_unreachable, shared_params


def jump_threading(module: Module) -> None:
    for func in module.functions.values():
        thread_jumps(func)


def thread_jumps(func: Function) -> None:
    """Redirect the edges of one function, except those of calls."""
    shared = shared_params(func)
    for b in func.blocks:
        assert b.term is not None
        for edge in b.term.edges if b.term.name != "call" else ():
            steps = 0
            while passes_on(edge.block) and edge.block not in shared and steps < len(func.blocks):
                go_past(edge)
                steps += 1
    remove_unreachable(func)
    merge_chains(func)
