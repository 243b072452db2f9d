"""Puts small functions, and those called from one place, into their callers.

Callees come before callers, so that what is inlined has been inlined into already.  A function that may call itself
stays; so does one with ``inline = "never"``, or with a rule for its derivative until that is made; ``"always"``
overrides sizes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from ...errors import PACKAGE, Loc
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Function, Module
from ..analysis.callgraph import CallGraph
from ..analysis.cfg import merge_chains, remove_unreachable, set_term

SMALL = 60
"""Functions of at most this many ops are inlined everywhere."""
LIBRARY = os.path.join(PACKAGE, "frontend", "arrays", "library") + os.sep
"""The functions of NumPy that are written in Python: what they raise is reported where the user calls them."""
"""Where functions of the library are: what they raise is raised, to the user, where they are called."""
LARGEST_CALLER = 4000
"""A function is not made larger than this, but by what asks to be inlined and by what is about its own size."""


def inline(module: Module, roots: Iterable[str] | None = None) -> set[str]:
    """Inline throughout a module; yields the names of what was inlined into.  ``roots`` are called from outside, so one
    call site is not their only use; without them any function may be, and stays.
    """
    graph = CallGraph(module)
    used = {*(roots or ()), *(d.base for d in module.derived.values())}.union(
        *(r.functions for r in module.rules.values()))
    size = _Sizes(module)
    changed: set[str] = set()
    for name in graph.order:
        func = module.functions[name]
        for block in list(func.blocks):
            callee = _callee(block)
            if callee is None or callee not in module.functions or callee in graph.recursive or callee in module.rules:
                continue
            assert block.term is not None
            at = block.term.loc
            once = graph.calls[callee] == 1 and callee not in used
            if _wanted(module.functions[callee], size[callee], once, size[name]):
                written = module.functions[callee].loc.file.startswith(LIBRARY)
                if once and roots is not None:
                    body = _absorb(block, module.functions.pop(callee))
                    module.derived.pop(callee, None)
                else:
                    body = splice(block, module.functions[callee])
                if written:
                    _raise_at(module, body, at)
                size[name] += size[callee]
                changed.add(name)
    for name, func in module.functions.items():          # not before: what is in a chain of calls would be walked again
        if name in changed:                              # for each of them
            remove_unreachable(func)
            merge_chains(func)
    return changed & module.functions.keys()


class _Sizes(dict[str, int]):
    """By name, how many ops a function has that cost something; counted when it is first asked for."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def __missing__(self, name: str) -> int:
        ops = self.module.functions[name].all_ops()
        self[name] = found = sum(op.name not in ("const", "jump", "return") for op in ops)
        return found


def _callee(block: Block) -> str | None:
    return block.term.attrs["callee"] if block.term is not None and block.term.name == "call" else None


def _wanted(callee: Function, size: int, once: bool, caller_size: int) -> bool:
    wish = callee.attrs.get("inline")
    if wish in ("always", "never"):
        return bool(wish == "always")
    if once and min(size, caller_size) <= SMALL:         # what comes out is hardly larger than one of them was
        return True
    return (once or size <= SMALL) and size + caller_size <= LARGEST_CALLER


def _raise_at(module: Module, body: list[Block], loc: Loc) -> None:
    """What code of the library raises is raised at ``loc``, where it was called."""
    fresh: dict[int, int] = {}
    for op in (op for b in body for op in b.all_ops()):
        number = op.attrs.get("exc")
        if number is None or not module.exceptions[number].loc.file.startswith(LIBRARY):
            continue
        if number not in fresh:
            fresh[number] = module.exception(replace(module.exceptions[number], loc=loc))
        op.attrs = {**op.attrs, "exc": fresh[number]}


def splice(block: Block, callee: Function) -> list[Block]:
    """Replace the call at the end of ``block`` by a copy of the callee's blocks, which come back."""
    return _lead_through(block, list(clone_blocks(callee.blocks, block.func, {}).values()))


def _absorb(block: Block, callee: Function) -> list[Block]:
    """The same for the only call of a function, whose blocks are not needed elsewhere: chains of calls cost no more
    than what is in them.
    """
    for b in callee.blocks:
        b.func = block.func
    block.func.blocks += callee.blocks
    return _lead_through(block, callee.blocks)


def _lead_through(block: Block, body: list[Block]) -> list[Block]:
    """Put ``body`` in place of the call at the end of ``block``: its returns are jumps to where the call goes on."""
    call = block.term
    assert call is not None and call.name == "call"
    edge = call.edges[0]
    for b in body:
        if b.term is not None and b.term.name == "return":
            set_term(b, "jump", edges=[Edge(edge.block, [*b.term.operands, *edge.args])])
    set_term(block, "jump", edges=[Edge(body[0], list(call.operands))])
    return body
