"""The results of an iteration whose cotangents are zero: which values *vanish* with them, and which stay as they were.

Products with a zero, quotients, sums and selections of such values vanish.  An array to which only vanishing values are
added is *kept*.  Where a factor is infinite the product would be NaN; the derivative of what was not chosen is zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Op, Value
from ...ir.types import Scalar, dtype_of, is_float_scalar
from .loops import Loop


def may_be_zero(v: Value, dom: Dominators | None = None) -> bool:
    """True for a selection with a zero, or of such values, by branches too if ``dom`` is given.

    The derivative of ``np.minimum`` is a product with a selection of constants: 1, 0, or a half for two equal values.
    """
    op = v.op
    if op is not None and op.name == "mul" and is_float_scalar(v.type) and any(map(_is_switch, op.operands)):
        return True
    if op is not None and op.name == "add" and op.operands[0] is op.operands[1]:      # the adjoint of a square
        return may_be_zero(op.operands[0], dom)
    if dom is not None and v.owner in dom.preds and is_float_scalar(v.type):
        joined = dom.arguments(v)
        return len(joined) > 1 and all(a is not None and (is_zero(a) or may_be_zero(a)) for a in joined)
    return op is not None and op.name == "select" and is_float_scalar(v.type) and \
        (any(map(is_zero, op.operands[1:])) or all(map(may_be_zero, op.operands[1:])))


def _is_switch(v: Value) -> bool:
    """True for a selection of constants one of which is zero."""
    op = v.op
    if op is None or op.name != "select":
        return False
    sides, switches = op.operands[1:], list(map(_is_switch, op.operands[1:]))
    return all(x.const is not None or y for x, y in zip(sides, switches)) and any((*switches, *map(is_zero, sides)))


def is_zero(v: Value) -> bool:
    return v.const is not None and v.const == 0


def without(block: Block, zs: Collection[Value], ahead: bool = False) -> tuple[dict[Value, Value], set[Value]]:
    """For each value that equals a parameter of the block if ``zs`` are zero, that parameter; and what vanishes.

    ``ahead``: for each that equals a value from before the block too, that value.
    """
    vanishing = set(zs)
    kept = {p: p for p in block.params if p not in vanishing}
    cleared: dict[Value, Value] = {}                     # an array without an element that will be added again
    for op in block.ops:
        if len(op.results) != 1 or op.result in vanishing:
            continue
        to = _added_to(op, vanishing)
        if _vanishes(op, vanishing):
            vanishing.add(op.result)
        elif to is not None and (to in kept or ahead and to.block is not block):
            kept[op.result] = kept.get(to, to)
        elif to in cleared:
            cleared[op.result] = cleared[to]
        elif same := next((v for z in zs if (v := _selected(op, z, kept) or cleared_array(op, z)) in kept), None):
            kept[op.result] = kept[same]
        elif any((x := _source(z)) is not None and cleared_array(op, x) in kept for z in zs):
            cleared[op.result] = kept[op.operands[0]]
        elif any(_restores(op, z, cleared) for z in zs):
            kept[op.result] = cleared[op.operands[0]]
    return kept, vanishing


def _source(z: Value) -> Value | None:
    """The element ``x`` of ``z = select(c, x, 0)`` or ``select(c, 0, x)``."""
    if z.op is None or z.op.name != "select":
        return None
    loads = [v for v in z.op.operands[1:] if v.op is not None and v.op.name == "get"]
    return loads[0] if len(loads) == 1 and any(map(is_zero, z.op.operands[1:])) else None


def _restores(op: Op, z: Value, cleared: Collection[Value]) -> bool:
    """True if ``op`` adds the element to where it has been cleared, unless ``z`` has selected it.

    If ``z`` is zero although it has, the element is zero.
    """
    x, value = _source(z), op.operands[1].op if op.name == "add_at" and op.attrs.get("acc") else None
    if x is None or value is None or value.name != "select" or op.operands[0] not in cleared:
        return False
    assert x.op is not None and z.op is not None
    return value.operands[0] is z.op.operands[0] and op.operands[2:] == x.op.operands[1:] and all(
        is_zero(mine) and other is x or mine is x and is_zero(other)
        for mine, other in zip(value.operands[1:], z.op.operands[1:]))


def _selected(op: Op, z: Value, kept: dict[Value, Value]) -> Value | None:
    """The value that a selection yields if ``z`` is zero: one value from both sides, or what ``z`` does not select."""
    if op.name != "select":
        return None
    c, x, y = op.operands
    if x in kept and y in kept and kept[x] is kept[y]:
        return x
    if z.op is None or z.op.name != "select" or z.op.operands[0] is not c:
        return None
    other = z.op.operands[2:0:-1]                            # select c, z, 0 beside select c, 0, z
    pairs = list(zip((x, y), other))
    same = [u for u, v in pairs if u is v and u in kept]
    return same[0] if len(same) == 1 and all(u is v or is_zero(u) and is_zero(v) for u, v in pairs) else None


def cleared_array(op: Op, z: Value) -> Value | None:
    """The array of which ``op`` clears the element that was loaded as ``z``, a zero."""
    load = z.op
    if op.name != "set" or load is None or load.name != "get" or not is_zero(op.operands[1]):
        return None
    return op.operands[0] if [op.operands[0], *op.operands[2:]] == load.operands else None


def _vanishes(op: Op, vanishing: set[Value]) -> bool:
    if op.name == "mul":
        return any(v in vanishing for v in op.operands)
    if op.name in ("add", "sub", "neg"):
        return all(v in vanishing for v in op.operands)
    if op.name == "div":
        return op.operands[0] in vanishing
    if op.name == "select":
        return all(v in vanishing or is_zero(v) for v in op.operands[1:])
    return False


def _added_to(op: Op, vanishing: set[Value]) -> Value | None:
    """The value to which an op of the reverse sweep adds what vanishes.

    The program's own additions have no ``acc``: there a product with zero may be NaN, and has to be.
    """
    if not op.attrs.get("acc"):
        return None
    if op.name == "add_at" and op.operands[1] in vanishing:
        return op.operands[0]
    if op.name == "add":
        return next((v for v, other in (op.operands, op.operands[::-1]) if other in vanishing), None)
    return None


def any_nonzero(b: Builder, zs: Iterable[Value]) -> Value:
    return reduce(b.or_, (b.ne(z, b.const(0.0, dtype_of(z.type))) for z in zs))


def read_behind(func: Function, loop: Loop) -> list[Value]:
    """The values of the loop that later code reads directly, not as parameters of its exit."""
    return list(dict.fromkeys(v for b in func.blocks if b not in loop.blocks for op in b.all_ops() for v in op.used()
                              if v.block in loop.blocks))


def needed_ops(block: Block, values: Iterable[Value]) -> set[Op]:
    """The ops of a block that compute ``values``."""
    found, todo = set[Op](), list(values)
    while todo:
        op = todo.pop().op
        if op is not None and op.block is block and op not in found:
            found.add(op)
            todo += op.operands
    return found


def kept_if_zero(loop: Loop, zs: Collection[Value]) -> dict[Value, Value] | None:
    """For each value that equals a parameter of the loop if ``zs`` are zero, that parameter.

    None if the loop adds nothing to an array.
    """
    if not all(op.results for op in loop.head.ops):
        return None                                      # a check
    kept, vanishing = without(loop.head, zs)
    kept |= {a: p for p, a in zip(loop.head.params, loop.back_edge().args) if p in zs and a in vanishing}
    return kept if any(v.op is not None and v.op.name == "add_at" for v in kept) else None


# --- iterations that receive zeros --------------------------------------------------------------------

@dataclass(frozen=True)
class ZeroIteration:
    """An iteration of a loop of one block that changes nothing if the cotangents ``zs`` are zero.

    ``kept``: see ``kept_if_zero``.  ``passed``: the values of an iteration that are read behind it, those in ``behind``
    not as parameters.  ``first``: the ops that are needed in any case, those of ``zs`` and of the counter.
    """

    zs: Sequence[Value]
    kept: dict[Value, Value]
    passed: list[Value]
    behind: list[Value]
    first: set[Op]


def zero_iteration(func: Function, loop: Loop) -> ZeroIteration | None:
    """What an iteration of a loop is that has received zeros from later ones, and would add multiples of them."""
    values = [v for op in loop.head.ops for v in op.results]
    chosen = [v for v in values if v.op is not None and v.op.name == "select"]     # zero whenever what it selects is
    for zs in (*(_received(loop, v) for v in dict.fromkeys((*chosen, *values))), _all_received(loop)):
        kept = kept_if_zero(loop, zs) if zs else None
        if kept is not None and (zero := _idle(func, loop, zs, kept)) is not None:
            return zero
    return None


def _idle(func: Function, loop: Loop, zs: Sequence[Value], kept: dict[Value, Value]) -> ZeroIteration | None:
    head = loop.head
    assert head.term is not None
    read = (v for e in head.term.edges for v in e.args if v.op is not None and v.block is head)
    behind = read_behind(func, loop)
    passed = list(dict.fromkeys((*read, *behind)))
    first = needed_ops(head, (*zs, *head.term.operands, *(v for v in passed if v not in kept)))
    if any(op.name in ("set", "add_at") for op in first) or \
            not any(op.name == "add_at" for op in head.ops if op not in first):
        return None
    return ZeroIteration(zs, kept, passed, behind, first)


def _received(loop: Loop, v: Value) -> list[Value]:
    """The cotangent ``v``, or what it is the sum of, if these are zero in the iterations that nothing has chosen."""
    terms, todo = list[Value](), [v]
    while todo:
        z = todo.pop()
        if z.op is not None and z.op.name == "add" and z.op.attrs.get("acc"):
            todo += z.op.operands[::-1]
        elif z.op is not None and z.block is loop.head and (may_be_zero(z) or _is_received(loop, z)):
            terms.append(z)
        else:
            return []
    return terms if any(_is_received(loop, z) for z in terms) else []


def _all_received(loop: Loop) -> list[Value]:
    """All cotangents that later iterations pass on by selection, if a table of minima has several beside each other."""
    loads = [op.result for op in loop.head.ops if op.name == "get"]
    found = [v for v in loads if _is_received(loop, v)]
    unused = [v for v in loads if v not in found and any(cleared_array(op, v) is not None for op in loop.head.ops)]
    return [*found, *unused, *(p for p in loop.head.params if _is_passed_on(loop, p))] if found else []


def _is_received(loop: Loop, z: Value) -> bool:
    """True if ``z`` is a cotangent that later iterations pass on by selection, so that the loop has no vectors."""
    op, back = z.op, loop.back_edge().args
    assert op is not None
    if op.name == "select" and may_be_zero(z):              # a scalar that is used up where it was chosen
        return any(v.owner is loop.head and back[v.index] is not v or v.op is not None and v.op.name == "get"
                   and v.block is loop.head and _is_received(loop, v) for v in op.operands[1:])
    if op.name != "get" or not isinstance(z.type, Scalar) or not z.type.is_float:
        return False
    array, name = op.operands[0], op.operands[0]             # an array with elements that are cleared and added to
    if array.owner is not loop.head:
        return False
    added = []
    for user in loop.head.ops:
        if user.operands and user.operands[0] is name and user.name in ("set", "add_at"):
            name = user.result
            added += [user.operands[1]] if user.name == "add_at" else []
    return bool(added) and all(_may_add_zero(loop, v) for v in added)


def _may_add_zero(loop: Loop, v: Value) -> bool:
    """True for a value that may be zero, or the sum of it and such a value of the iteration before."""
    if v.op is not None and v.op.name == "add" and v.op.attrs.get("acc"):
        return all(may_be_zero(x) or _is_passed_on(loop, x) for x in v.op.operands) and any(
            map(may_be_zero, v.op.operands))
    return may_be_zero(v)


def _is_passed_on(loop: Loop, p: Value) -> bool:
    return p.owner is loop.head and may_be_zero(loop.back_edge().args[p.index])
