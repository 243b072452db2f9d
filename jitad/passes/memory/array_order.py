"""Puts operations on arrays ahead of the arithmetic of scalars between them, so that they may share a nest.

::

    s := sum(w)                       s := sum(w)
    y := log(s)            becomes    v := select(c, t, w)
    v := select(c, t, w)              y := log(s)

A nest computes a sum and other arrays in one pass, but nothing behind a use of the sum (``planning/fusion_groups.py``).
Only arithmetic without effects is passed by: a check may be what the array's elements are read under.  Other
reductions stay, and end the nest as before: with all of a derivative's in one, forces by rows took 1.25 times as long.
"""

from __future__ import annotations

from ...ir.graph import Block, Module, Op
from ...ir.ops import OPS
from ...ir.types import Scalar

MOVED = frozenset("broadcast_to slice reshape transpose".split())
"""What is moved besides elementwise arithmetic."""
MOST_WAITING = 64
"""The most scalars that an operation passes by: each one is looked at."""


def array_order(module: Module) -> bool:
    """Reorder the ops of all blocks; returns True if any op has moved."""
    return any([_reorder(block) for func in module.functions.values() for block in func.blocks])


def _reorder(block: Block) -> bool:
    moved = False
    waiting: list[Op] = []                               # arithmetic of scalars behind the last op on arrays
    done: list[Op] = []
    for op in block.ops:
        if _is_scalar(op):
            waiting.append(op)
            continue
        if 0 < len(waiting) <= MOST_WAITING and _is_arithmetic(op):
            needed = _needed(op, waiting)
            moved |= len(needed) < len(waiting)
            done += [*needed, op]
            waiting = [w for w in waiting if w not in needed]
        else:
            done += [*waiting, op]
            waiting = []
    block.ops = [*done, *waiting]
    return moved


def _is_scalar(op: Op) -> bool:
    """True for arithmetic of scalars, sizes and constants."""
    return (OPS[op.name].elementwise or op.name in ("const", "dim")) and isinstance(op.results[0].type, Scalar)


def _is_arithmetic(op: Op) -> bool:
    """True for elementwise arithmetic of arrays, and the parts that it reads."""
    return OPS[op.name].elementwise or op.name in MOVED


def _needed(op: Op, waiting: list[Op]) -> list[Op]:
    """The ops among ``waiting`` that ``op`` depends on, in order."""
    found: list[Op] = []
    used = set(op.operands)
    for w in reversed(waiting):
        if w.result in used:
            found.append(w)
            used.update(w.operands)
    return found[::-1]
