"""Inlines small functions, and functions with one call site.

Callees are processed before callers, so that calls inside an inlined function have been inlined already.  Recursive
functions are not inlined, nor are functions with the attribute ``inline = "never"``, nor functions with a derivative
rule until the derivative is generated.  ``inline = "always"`` overrides the limits of size.
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

TINY = 16
"""Functions of at most this many ops are inlined at every call."""
SMALL = 60
"""Functions of at most this many ops are inlined if all their calls come to at most ``LARGEST_CALLER`` ops."""
FEW = 600
"""Larger functions are inlined if all their calls come to at most this many ops.  A helper that reads six elements
of a matrix has 110 before checks of indices are removed, for which its caller has to be known: a filter of images with
three calls took twice as long, its gradient six times.
"""
LIBRARY = os.path.join(PACKAGE, "frontend", "arrays", "library") + os.sep
"""The folder of NumPy functions written in Python.  Their exceptions are reported at the user's call."""
LARGEST_CALLER = 4000
"""The most ops of a function after inlining.  Callees with ``inline = "always"`` are exempt, and single calls in which
the caller or the callee is small."""


def inline(module: Module, roots: Iterable[str] | None = None) -> set[str]:
    """Inline throughout a module; returns the names of the functions that were inlined into.

    ``roots`` are called from outside, so they stay even if they have one call site.  Without ``roots``, any function
    may be called from outside, and all stay.
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
            if _wanted(module.functions[callee], size[callee], graph.calls[callee], once, size[name]):
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
    for name, func in module.functions.items():          # once at the end, or a chain of calls would be walked again
        if name in changed:                              # for each of its calls
            remove_unreachable(func)
            merge_chains(func)
    return changed & module.functions.keys()


class _Sizes(dict[str, int]):
    """The number of ops of each function, by name, without constants, jumps and returns; counted on demand."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def __missing__(self, name: str) -> int:
        ops = self.module.functions[name].all_ops()
        self[name] = found = sum(op.name not in ("const", "jump", "return") for op in ops)
        return found


def _callee(block: Block) -> str | None:
    return block.call.attrs["callee"] if block.call is not None else None


def _wanted(callee: Function, size: int, calls: int, once: bool, caller_size: int) -> bool:
    wish = callee.attrs.get("inline")
    if wish in ("always", "never"):
        return bool(wish == "always")
    if once and min(size, caller_size) <= SMALL:         # the result is hardly larger than one of the two
        return True
    if not once and size > TINY and size * calls > (LARGEST_CALLER if size <= SMALL else FEW):
        if size <= SMALL:                                # LLVM would do it
            callee.attrs["inline"] = "never"
        return False
    return size + caller_size <= LARGEST_CALLER


def _raise_at(module: Module, body: list[Block], loc: Loc) -> None:
    """Move the source position of exceptions that library code in ``body`` raises to ``loc``, its call."""
    fresh: dict[int, int] = {}
    for op in (op for b in body for op in b.all_ops()):
        number = op.attrs.get("exc")
        if number is None or not module.exceptions[number].loc.file.startswith(LIBRARY):
            continue
        if number not in fresh:
            fresh[number] = module.exception(replace(module.exceptions[number], loc=loc))
        op.attrs = {**op.attrs, "exc": fresh[number]}


def splice(block: Block, callee: Function) -> list[Block]:
    """Replace the call at the end of ``block`` by a copy of the callee's blocks, which are returned."""
    return _replace_call(block, list(clone_blocks(callee.blocks, block.func, {}).values()))


def _absorb(block: Block, callee: Function) -> list[Block]:
    """Like ``splice``, for the only call of a function: its blocks are moved, so that chains of calls take linear time.
    """
    for b in callee.blocks:
        b.func = block.func
    block.func.blocks += callee.blocks
    return _replace_call(block, callee.blocks)


def _replace_call(block: Block, body: list[Block]) -> list[Block]:
    """Replace the call at the end of ``block`` by ``body``, whose returns become jumps to the call's continuation."""
    call = block.term
    assert call is not None and call.name == "call"
    edge = call.edges[0]
    for b in body:
        if b.term is not None and b.term.name == "return":
            set_term(b, "jump", edges=[Edge(edge.block, [*b.term.operands, *edge.args])])
    set_term(block, "jump", edges=[Edge(body[0], list(call.operands))])
    return body
