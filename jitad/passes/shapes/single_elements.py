"""Computes a single element of an expression from the elements of its operands.

``softmax(row)[label]`` and ``t[np.argmin(t)]`` need one element.  The cotangent of such an array would be zeros with
one number in it, and so would those of all arrays that it is computed from::

    p := div(e, s)                          q := get(e, i)
    y := get(p, i)           becomes        y := div(q, s)

Nothing else reads the array, or, if there are derivatives, only the search for the element.  The element is read where
the array is computed, not in a loop further in, and no operand is updated: reading it later would take a copy.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar
from ...ir.uses import users
from ..analysis.cfg import substitute
from ..analysis.loops import LoopForest, loop_forest

SEARCHES = frozenset(("argmin", "argmax"))
MOST_READS = 2
"""The most elements that are computed so."""
MOST_OPS = 24
"""The largest expression that is computed again."""

Readers = Mapping[Value, list[Op]]


def single_elements(module: Module) -> bool:
    """Rewrite all such reads; returns True if there were any."""
    return any([_rewrite(func, bool(module.derived)) for func in module.functions.values()
                if any(map(_reads_one, func.all_ops()))])


def _reads_one(op: Op) -> bool:
    """True for an element of an array that elementwise arithmetic computes."""
    return op.name == "get" and isinstance(op.result.type, Scalar) and _is_arithmetic(op.operands[0])


def _is_arithmetic(v: Value) -> bool:
    return v.op is not None and isinstance(v.type, Array) and OPS[v.op.name].elementwise


def _rewrite(func: Function, derived: bool) -> bool:
    readers, forest, values = users(func.all_ops()), loop_forest(func), dict[Value, Value]()
    for block in func.blocks:
        if not any(map(_reads_one, block.ops)):
            continue
        ops, term, block.ops, block.term = block.ops, block.term, [], None
        for op in ops:
            tree = _tree(op, readers, forest, derived) if _reads_one(op) else set()
            if tree:
                values[op.result] = _element(Builder(block, op.loc), tree, op.operands[0], op.operands[1:], {})
            else:
                block.ops.append(op)
        block.term = term
    substitute(func, values)
    return bool(values)


def _tree(read: Op, readers: Readers, forest: LoopForest, derived: bool) -> set[Op]:
    """The arithmetic that computes an array of which only elements are needed; none if it is not worthwhile."""
    assert read.block is not None
    v, loop = read.operands[0], forest.innermost.get(read.block)
    searched = derived and any(op.name in SEARCHES for op in readers[v])
    few = sum(map(_reads_one, readers[v])) <= MOST_READS and forest.innermost.get(v.block) is loop
    if not few or any(op.edges or not (_reads_one(op) or searched and op.name in SEARCHES) for op in readers[v]):
        return set()
    tree: set[Op] = set()
    todo = [v]
    while todo:
        w = todo.pop()
        if not isinstance(w.type, Array) or w.op in tree:
            continue
        if w.op is not None and _is_arithmetic(w) and forest.innermost.get(w.block) is loop:
            tree.add(w.op)
            todo += w.op.operands
        elif any(_may_update(op, w) for op in readers[w]):
            return set()
    costly = searched and any(OPS[op.name].transcendental for op in tree)
    return tree if len(tree) <= MOST_OPS and not costly else set()


def _may_update(op: Op, v: Value) -> bool:
    """True if what an op leads to, or the op itself, may store to an array in place."""
    consumed = [op.operands[i] for i in OPS[op.name].consumes] if op.name in OPS else []
    return bool(op.edges) or op.name == "call" or v in consumed


def _element(b: Builder, tree: set[Op], v: Value, at: list[Value], known: dict[Value, Value]) -> Value:
    """Emit the element of ``v``, which is broadcast to what has it at the indices ``at``."""
    if not isinstance(v.type, Array):
        return v
    if v not in known:
        at = [b.const(0) if n == 1 else i for n, i in zip(v.type.dims, at[len(at) - v.type.rank:], strict=True)]
        known[v] = b.get(v, *at) if v.op is None or v.op not in tree else \
            b.emit(v.op.name, *(_element(b, tree, x, at, known) for x in v.op.operands), **v.op.attrs)
    return known[v]
