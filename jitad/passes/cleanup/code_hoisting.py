"""Computes a transcendental function once ahead of several branches, one after another, that need it on one side each.

The iterations of a short loop that has been written out are such branches, as of the echoes that arrive in time::

    ^here:    branch c, ^then, ^join                ^here:    x = pow a, n;  branch c, ^then, ^join
    ^then:    x = pow a, n; …             becomes   ^then:    …
    ^join:    branch d, ^then.1, ^join.1            ^join:    branch d, ^then.1, ^join.1
    ^then.1:  y = pow a, n; …                       ^then.1:  …

``licm`` can then take it out of the loop around.  Sides of ``elif`` do not count, as only one of them is executed.
It is marked as ``speculated`` in a program that is still to be differentiated, as in ``licm``.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...ir.dominance import Dominators, dominators
from ...ir.expression_keys import key
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Scalar
from ..analysis.cfg import substitute

FEW = 4
"""Of fewer branches none may need the op."""


def code_hoisting(module: Module) -> bool:
    """Hoist in every function; returns True if an op has moved."""
    marks = {"speculated": True} if module.underived() else {}
    return any([_of_function(func, marks) for func in module.functions.values()])


def _of_function(func: Function, marks: dict[str, bool]) -> bool:
    groups: dict[Hashable, list[Op]] = {}
    for op in func.all_ops():
        if op.name in OPS and OPS[op.name].transcendental and all(
                isinstance(v.type, Scalar) for v in (op.result, *op.operands)):
            groups.setdefault(key(op), []).append(op)
    groups = {k: ops for k, ops in groups.items() if len(ops) >= FEW}
    if not groups:
        return False
    dom, values = dominators(func), dict[Value, Value]()
    for ops in groups.values():
        _hoist(dom, ops, marks, values)
    substitute(func, values)
    return bool(values)


def _hoist(dom: Dominators, ops: list[Op], marks: dict[str, bool], values: dict[Value, Value]) -> None:
    """Move one of equal ops to where all of them are dominated, if enough branches there have one on a side."""
    blocks = [op.block for op in ops if op.block is not None]
    common = blocks[0]
    while not all(dom.dominates(common, b) for b in blocks):
        above = dom.idom[common]
        assert above is not None
        common = above
    if common in blocks or len({_branch(dom, common, b) for b in blocks} - {None}) < FEW:
        return
    first, *others = ops
    for op in ops:
        assert op.block is not None
        op.block.ops.remove(op)
    first.block, first.attrs = common, {**first.attrs, **marks}
    common.ops.append(first)
    values.update((op.result, first.result) for op in others)


def _branch(dom: Dominators, common: Block, block: Block) -> Block | None:
    """The block that decides whether ``block`` is executed once ``common`` is, if it is only one."""
    found: Block | None = None
    while block is not common:
        above = dom.idom[block]
        assert above is not None
        if dom.preds[block] == [above] and above.term is not None and len(above.term.edges) > 1:
            if found is not None:
                return None
            found = above
        block = above
    return found
