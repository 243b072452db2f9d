"""Common-subexpression elimination: value numbering down the dominator tree.

An op is replaced by an equal op that dominates it, unless that op is in a loop that does not contain the first: loops
stay closed.  Arrays that are updated in place later keep their identity: two equal ``fill`` ops are two arrays.

With ``past_stores`` a load is equal to one ahead of stores of other elements, as that of ``x[i, 0]`` behind a store of
``x[j, 1]``.  This is not done before ``fuse_accumulate``, which looks for the load that a store follows.
"""

from __future__ import annotations

from collections.abc import Hashable

from ...ir import expression_keys
from ...ir.aliasing.consumption import consumed_values
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ..analysis.cfg import resolve, substitute
from ..analysis.loops import LoopForest, loop_forest

KEPT = frozenset("push pop".split())
"""Ops that are not merged: a push and a pop are paired by their positions."""


def cse(module: Module, past_stores: bool = False) -> None:
    for func in module.functions.values():
        number_values(func, past_stores)


def number_values(func: Function, past_stores: bool = False) -> None:
    forest = loop_forest(func)
    dom = forest.dom
    consumed = consumed_values(func)
    mapping: dict[Value, Value] = {}
    known: dict[Hashable, list[Op]] = {}                 # equal ops, each dominating the next
    unaffected = mapping.keys().isdisjoint
    for block in dom.preorder():
        kept = []
        for op in block.ops:
            if mapping and not unaffected(op.operands):
                op.operands = [resolve(mapping, v) for v in op.operands]
            key = _key(op, consumed, past_stores)
            if key is not None:
                alike = known.get(key)
                if alike is None:
                    known[key] = [op]
                else:
                    earlier = _visible(alike, block, dom, forest)
                    if earlier is not None:
                        mapping.update(zip(op.results, earlier.results))
                        continue
                    alike.append(op)
            kept.append(op)
        block.ops = kept
    substitute(func, mapping)


def _visible(candidates: list[Op], block: Block, dom: Dominators, forest: LoopForest) -> Op | None:
    """The innermost candidate that dominates ``block`` and whose loop, if any, contains ``block``.

    Candidates that do not dominate ``block`` are removed from the list.
    """
    while candidates:
        home = candidates[-1].block
        assert home is not None
        if not dom.dominates(home, block):
            candidates.pop()                             # preorder: it dominates no later block either
            continue
        break
    for op in reversed(candidates):
        assert op.block is not None
        loop = forest.loop_of(op.block)
        if loop is None or block in loop.blocks:
            return op
    return None


def _key(op: Op, consumed: set[Value], past_stores: bool) -> Hashable | None:
    """A key that is equal for equal ops; ``None`` if the op keeps its identity."""
    definition = OPS[op.name]
    if definition.effect or definition.consumes or op.name in KEPT or not consumed.isdisjoint(op.results):
        return None
    if past_stores and op.name == "get":
        return expression_keys.key(op, [_before_other_stores(op), *op.operands[1:]])
    return expression_keys.key(op)


def _before_other_stores(load: Op) -> Value:
    """The array of a load, ahead of the stores behind which it comes whose element is another one."""
    array, *index = load.operands
    while (store := array.op) is not None and store.name in ("set", "add_at"):
        if not any(x.const is not None and y.const is not None and x.const != y.const
                   for x, y in zip(index, store.operands[2:])):
            break
        array = store.operands[0]
    return array
