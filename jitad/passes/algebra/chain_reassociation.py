"""Sums, products, minima and maxima take the operand that the next iteration waits for last.

::

    ^loop(i, left, …):                                ^loop(i, left, …):
      x = add left, one                                 x = add left, one
      y = minimum above, x               becomes        z = minimum above, diagonal
      z = minimum y, diagonal                           y = minimum x, z
      branch …, ^loop(j, z, …)                          branch …, ^loop(j, y, …)

Each iteration takes as long as the ops between a carried value and its next one, if nothing else is slower: the rest of
an expression is computed meanwhile.  LLVM may not reassociate such chains of floats
(``lowering/planning/recurrences.py``), since it does not know which operand is late.  Integers wrap, so the order of
their sums and products does not matter.

A product with two loop-invariant factors, as cotangents have, takes their product, even if another op reads the first
one too.  Other products stay: in rotations of a chain of joints, which would take 1.15 times as long, more values would
wait in registers.

Cotangents may be summed up in any order, so their sums and products are taken so too.  Without ``fastmath`` other sums
and products of floats stay in their order.  So do selections, Python's ``min`` and ``max``, unless neither NaN nor the
sign of a zero depends on it (``late_extremes.py``).  NumPy's minimum and maximum do not depend on it.  The late one is
their second operand: machine code examines the sign and NaN of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...ir.graph import Block, Module, Op, Value
from ...ir.ops import ORDERS
from ...ir.types import Array, Scalar, dtype_of
from ...ir.uses import counts, ops_of
from ..analysis.loops import Loop, loop_forest, raising_blocks
from .late_choices import late_choices
from .late_extremes import late_extremes, versions

SUMS, PRODUCTS, EXTREMES = frozenset({"add", "sub"}), frozenset({"mul"}), frozenset({"minimum", "maximum"})
EXTREME = {True: "minimum", False: "maximum"}
"""By: the selection takes its first alternative if that is the lesser."""


def chain_reassociation(module: Module, floats: bool = True) -> None:
    """Reassociate the chains of every innermost loop; sums and products of ``floats`` only under ``fastmath``."""
    for func in module.functions.values():
        nonzero = {} if floats else versions(func, _late)
        forest = loop_forest(func)
        for loop in forest.loops:
            if not loop.children and loop.latch is not None:
                _lanes(loop)
                region = loop.region(raising_blocks(forest.dom))
                _reassociate(loop, forest.dom.in_order(loop.blocks), region, floats, nonzero.get(loop.head, ()))


def _lanes(loop: Loop) -> None:
    """The largest elements that lanes have seen are the second operand, as those of scalars are."""
    for p, a in loop.back_edge().passed():
        op = a.op if isinstance(a.type, Array) and dtype_of(a.type).is_float and None not in a.type.dims else None
        if op is not None and op.name in EXTREMES and sum(v is p for v in op.operands) == 1 and "acc" not in op.attrs:
            op.attrs["late"] = True
            if op.operands[0] is p:
                op.operands.reverse()


def _reassociate(loop: Loop, order: list[Block], region: set[Block], floats: bool, nonzero: Collection[Value]) -> None:
    """Reassociate in the blocks of one loop; ``region``: these, and blocks that raise; ``nonzero``: values that are not
    zero there.
    """
    late = _late(loop, order)
    if not late:
        return
    late_choices(loop, late, region)
    bars, waited = _cotangents(loop, order), _waited_for(loop, late)

    def is_free(v: Value) -> bool:
        return _is_number(v) and (floats or v in bars or not dtype_of(v.type).is_float)

    _name_extremes(order, region, is_free)
    late_extremes(order, late, counts(ops_of(region)), nonzero)
    once = {v for v, number in counts(ops_of(region)).items() if number == 1} - late
    for b in order:
        for op in list(b.ops):
            if len(op.results) != 1 or not _is_number(op.result):
                continue
            allowed = op.name in EXTREMES or is_free(op.result) if op.name in EXTREMES | SUMS else \
                op.name in PRODUCTS and op.result in waited and is_free(op.result)
            if allowed and sum(v in late for v in op.operands) == 1:
                _pull(op, late, once, loop)
                if op.name in EXTREMES and op.operands[0] in late:
                    op.operands.reverse()
            if not late.isdisjoint(op.operands):
                late.add(op.result)
        _pass_on(b, late, loop)


def _waited_for(loop: Loop, late: set[Value]) -> set[Value]:
    """The values of an iteration from which the next ones of the ``late`` parameters of the head are computed."""
    passed: dict[Value, list[Value]] = {}
    for e in (e for b in loop.blocks for e in (b.term.edges if b.term is not None else ())):
        for p, a in e.passed():
            passed.setdefault(p, []).append(a)
    todo = [a for p in late for a in passed.get(p, ()) if a.block in loop.blocks]
    found = set(todo)
    while todo:
        v = todo.pop()
        new = v.op.operands if v.op is not None else passed.get(v, []) if v.owner is not loop.head else []
        new = [a for a in new if a not in found and a.block in loop.blocks]
        found.update(new)
        todo += new
    return found


def _cotangents(loop: Loop, order: list[Block]) -> set[Value]:
    """Sums of cotangents, and what is computed from these."""
    found: set[Value] = set()
    for _ in range(2):                                       # again for what the head receives
        for b in order:
            for op in b.ops:
                if op.attrs.get("acc") or not found.isdisjoint(op.operands):
                    found.update(op.results)
            for e in b.term.edges if b.term is not None else ():
                found |= {p for p, a in e.passed() if a in found}
    return found


def _is_number(v: Value) -> bool:
    return isinstance(v.type, Scalar) and (v.type.is_int or v.type.is_float)


def _late(loop: Loop, order: list[Block]) -> set[Value]:
    """The parameters of the head whose next value waits for one of them; what is loaded anew does not."""
    carried = {p: a for p, a in loop.back_edge().passed() if _is_number(p) and a is not p
               and a.owner is not loop.head and not _steps(p, a.op, loop)}
    while carried:
        waiting = set(carried)
        for b in order:
            for op in b.ops:
                if not waiting.isdisjoint(op.operands):
                    waiting.update(v for v in op.results if isinstance(v.type, Scalar))
            _pass_on(b, waiting, loop)
        kept = {p: a for p, a in carried.items() if a in waiting}
        if len(kept) == len(carried):
            break
        carried = kept
    return set(carried)


def _pass_on(b: Block, late: set[Value], loop: Loop) -> None:
    for e in b.term.edges if b.term is not None else ():
        late |= {p for p, a in e.passed() if a in late and e.block is not loop.head}


def _steps(p: Value, following: Op | None, loop: Loop) -> bool:
    """True if each iteration adds a constant or loop-invariant value to ``p``, which is never waited for."""
    return following is not None and following.name in ("add", "sub") and p in following.operands and all(
        v is p or v.const is not None or v.block not in loop.blocks for v in following.operands)


def _name_extremes(order: list[Block], region: set[Block], is_number: Callable[[Value], bool]) -> None:
    """Make selections of the lesser or the larger of two numbers, Python's ``min`` and ``max``, ops of their own."""
    named = False
    for op in (op for b in order for op in b.ops if op.name == "select" and is_number(op.result)):
        condition, x, y = op.operands
        test = condition.op
        if test is not None and test.name in ORDERS and set(test.operands) == {x, y}:
            op.name = EXTREME[(test.name in ("lt", "le")) is (test.operands[0] is x)]
            op.operands, op.attrs = [x, y], {}
            named = True
    if named:
        read = counts(ops_of(region))
        for b in order:
            b.ops = [op for op in b.ops if op.name not in ORDERS or op.result in read]


def _pull(op: Op, late: set[Value], once: set[Value], loop: Loop) -> None:
    """Let the late operand of the late operand of ``op`` become its own; ``once``: values that one op reads."""
    side = op.operands[1] in late
    inner, other = op.operands[side], op.operands[1 - side]
    below = inner.op
    if below is None or below.name not in SUMS | PRODUCTS | EXTREMES or below.block is not op.block \
            or sum(v in late for v in below.operands) != 1:
        return
    deep = below.operands[1] in late
    last, early = below.operands[deep], below.operands[1 - deep]
    fixed = all(v.block not in loop.blocks for v in (early, other))
    if not (fixed if op.name in PRODUCTS else inner in once):
        return
    if op.name in EXTREMES | PRODUCTS:
        if below.name == op.name:
            _replace(op, below if inner in once else None, op.name, [early, other], op.name, last, 0)
    elif below.name in SUMS:
        # op = ±last ± early ± other
        sign_inner = -1 if op.name == "sub" and side else 1
        sign_other = -1 if op.name == "sub" and not side else 1
        sign_last = -sign_inner if below.name == "sub" and deep else sign_inner
        sign_early = -sign_inner if below.name == "sub" and not deep else sign_inner
        if sign_early > 0:
            pair, name = [early, other], "add" if sign_other > 0 else "sub"
        elif sign_other > 0:
            pair, name = [other, early], "sub"
        else:
            return _replace(op, below, "add", [early, other], "sub", last, 1) if sign_last > 0 else None
        _replace(op, below, name, pair, "add" if sign_last > 0 else "sub", last, 0)


def _replace(op: Op, below: Op | None, first: str, pair: list[Value], name: str, last: Value, position: int) -> None:
    """Compute ``first`` of the early operands ahead of ``op``, which then takes it, and ``last`` as the other operand.

    ``position``: the operand number of what is computed first.  ``below``, which only ``op`` has read, is dropped.
    """
    block = op.block
    assert block is not None
    if below is not None:
        block.ops.remove(below)
    early = Op(first, pair, [op.result.type], dict(op.attrs), loc=op.loc)
    early.block = block
    block.ops.insert(block.ops.index(op), early)
    op.name, op.operands = name, [early.result, last] if position == 0 else [last, early.result]
