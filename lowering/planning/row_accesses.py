"""Finds the innermost loops whose iterations access different elements, whatever the rows.

::

    ^loop(%k, %g, …):                     an array that is written is accessed at one last index, which
      %x = get %a, %k                     moves with the counter: in another iteration it is another one
      %g1 = add_at %g, …, %i, %k
      %g2 = add_at %g1, …, %j, %k         also if %i and %j are equal

LLVM would compare the addresses of all pairs of rows at run time, which takes longer than a short loop.  The adjoint
of a recurrent cell adds to three rows of one matrix, for three gates.
"""

from __future__ import annotations

from collections.abc import Container

from ...ir.aliasing.alias_classes import AliasClasses, is_array
from ...ir.dominance import Dominators
from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, is_float
from ...passes.analysis.affine import Affine, AffineForms
from ...passes.analysis.loops import Loop, counted

_WRITES = ("set", "add_at")
SHORT = 8
"""The most elements of an array that are not worth a vector."""
LITTLE = 8
"""The most float operations on an element of a column that are not worth gathering it."""


def accesses_rows(loop: Loop, roots: AliasClasses) -> bool:
    """True if no element that one iteration writes is accessed by another one."""
    head = loop.head
    known = counted(loop) if loop.blocks == {head} else None
    if known is None or not any(op.name in _WRITES for op in head.ops) or not all(map(_is_simple, head.ops)):
        return False
    accesses = [op for op in head.ops if op.name == "get" or op.name in _WRITES]
    updated = _updated(head)
    bases = {op: updated.get(op.operands[0], op.operands[0]) for op in accesses}
    written = {roots.find(op.operands[0]) for op in accesses if op.name in _WRITES}
    if any(map(roots.on_stack, written)) and sum(map(roots.on_stack, set(bases.values()))) > 1:
        return False
    back = loop.back_edge().args
    if any(is_array(p) and updated.get(back[p.index], back[p.index]) is not p for p in head.params):
        return False
    forms = AffineForms()
    seen: dict[Value, tuple[Value, Affine]] = {}
    for op in accesses:
        root = roots.find(op.operands[0])
        if root not in written:
            continue
        *ahead, last = op.operands[OPS[op.name].indices:]
        form = forms.of(last)
        base, first = seen.setdefault(root, (bases[op], form))
        if base is not bases[op] or not form.is_same(first) or not form.coefficient(known.iv):
            return False
        if any(_changes(v, head) for v in (*ahead, *(a for a, _ in form.terms if a is not known.iv))):
            return False
    return True


def _is_simple(op: Op) -> bool:
    """True if an op computes a scalar, or accesses one element."""
    if op.name in _WRITES:
        return isinstance(op.operands[1].type, Scalar)
    if len(op.results) != 1 or not isinstance(op.result.type, Scalar):
        return False
    return op.name in ("const", "get") or OPS[op.name].elementwise


def _updated(head: Block) -> dict[Value, Value]:
    """For each array that a block updates, the array that the updates start from."""
    found: dict[Value, Value] = {}
    for op in head.ops:
        if op.name in _WRITES:
            found[op.result] = found.get(op.operands[0], op.operands[0])
    return found


def _changes(v: Value, head: Block) -> bool:
    return v.block is head and v.const is None


def is_short(loop: Loop) -> bool:
    """True if a loop of one block updates an array of at most ``SHORT`` elements, from a varying index on.

    What is stored as a masked vector is not forwarded to loads of its elements, which wait until it is in the cache.
    """
    known = counted(loop)
    if known is None or known.trip.const is not None or loop.blocks != {loop.head}:
        return False
    updates = [op for op in loop.head.ops if op.name in _WRITES]
    arrays = [op.operands[0].type for op in updates]
    return bool(updates) and all(isinstance(t, Array) and (t.dims[-1] or SHORT + 1) <= SHORT for t in arrays) and all(
        _changes(op.operands[-1], loop.head) for op in updates)


def sums_columns(loop: Loop, ordered: Container[Op]) -> bool:
    """True if a loop of one block does little but add up elements of a column, by additions in order.

    A vector of them is gathered, multiplied, and taken apart again, while scalars only wait for the sum.
    """
    known = counted(loop)
    if known is None or loop.blocks != {loop.head} or any(op.name in _WRITES for op in loop.head.ops):
        return False
    sums = [back.op for p, back in loop.back_edge().passed() if p is not known.iv]
    if not sums or any(op is None or op not in ordered or op.attrs.get("acc") for op in sums):
        return False
    forms = AffineForms()
    columns = [op for op in loop.head.ops if op.name == "get" and not forms.of(op.operands[-1]).coefficient(known.iv)]
    return any(forms.of(v).coefficient(known.iv) for op in columns for v in op.operands[1:-1]) and LITTLE >= sum(
        OPS[op.name].cost for op in loop.head.ops if OPS[op.name].elementwise and is_float(op.result.type))


def stays_scalar(loop: Loop, dom: Dominators) -> bool:
    """True if an innermost loop reads columns behind a condition, divides behind two, and writes only behind three.

    LLVM would divide in each iteration, and gather elements whether they are needed or not.  Greedy suppression of
    overlapping boxes takes 0.2 to 0.8 of the time.  Where elements are neighbours, vectors are faster.
    """
    known, depth = counted(loop), {loop.head: 0}
    for b in dom.in_order(loop.blocks):
        parent = dom.idom[b]
        if b is not loop.head and parent is not None:
            depth[b] = depth[parent] + (len(dom.preds[b]) == 1 and len(parent.successors()) > 1)
    ops = [(depth[b], op) for b in loop.blocks for op in b.ops]
    writes = [level for level, op in ops if op.name in _WRITES]
    if known is None or not writes or min(writes) < 3 or all(
            level < 2 or op.name not in ("div", "sqrt") for level, op in ops):
        return False
    forms = AffineForms()
    return any(level and op.name == "get" and not forms.of(op.operands[-1]).coefficient(known.iv)
               and any(forms.of(v).coefficient(known.iv) for v in op.operands[1:]) for level, op in ops)
