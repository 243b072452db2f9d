"""Writes sums of arrays over a loop as loops over elements, which ``interchange`` and ``matrix_products`` can take.

``for k: s += w[k] * x[k]`` with rows ``x[k]`` reads and writes all of ``s`` in each iteration, as the loops do that add
to elements ``s[j]``; an array is only another way to write them::

    ^loop(k, s):                          ^loop(k, s):
      r := get(x, k)                        ^inner(j, t):
      v := w * r                 becomes      u := add_at(t, w * get(x, k, j), j)
      s' := add(s, v)                         again ^inner(j + 1, u)
      again ^loop(k + 1, s')                again ^loop(k + 1, u)

The loop must carry the array alone, and the addend must be cheap arithmetic on rows, slices and scalars, without
broadcasting.  If the array is empty, the loop is passed by.  Sums of slices that move, as of a convolution, are
written as loops after differentiation only.  ``reduction_loops``, ``row_loops`` and ``array_steps`` have others.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import I64, Array, Scalar
from ...ir.uses import users
from ..analysis.loops import Loop, loop_forest
from .array_steps import array_steps
from .reduction_loops import reduction_loops
from .regular import Regular
from .row_loops import row_loops

MOST_AXES = 2
"""The most axes of an array that is added up: images by a kernel have two."""


def scalarise(module: Module, derived: bool) -> bool:
    """Rewrite every such loop of normal form; returns True if there was one.  ``derived``: after differentiation."""
    changed = False
    for func in module.functions.values():
        changed |= derived and row_loops(module, func)
        changed |= reduction_loops(module, func, derived)
        if any(op.name == "add" and isinstance(op.result.type, Array) for op in func.all_ops()):
            changed |= _scalarise(func, derived)
        if not derived:
            changed |= array_steps(module, func)
    return changed


def _scalarise(func: Function, derived: bool) -> bool:
    regular = Regular(loop_forest(func))
    readers = users(func.all_ops())
    found = [(loop, op) for loop in regular.known if loop.blocks == {loop.head}
             and (op := _sum(loop, readers)) is not None and (derived or not _has_windows(loop))]
    for loop, op in found:
        _rewrite(func, regular, loop, op)
    return bool(found)


def _sum(loop: Loop, readers: dict[Value, list[Op]]) -> Op | None:
    """The addition of a cheap array to the only value that a loop carries."""
    head, back = loop.head, loop.back_edge()
    if len(head.params) != 2 or loop.exit_edge().args != [back.args[1]]:
        return None
    array, op = head.params[1], back.args[1].op
    t = array.type
    if op is None or op.name != "add" or op.attrs or op.block is not head or array not in op.operands:
        return None
    if not isinstance(t, Array) or not t.dtype.is_float or not 1 <= t.rank <= MOST_AXES or 1 in t.dims:
        return None
    addend = op.operands[1] if op.operands[0] is array else op.operands[0]
    if readers[array] != [op] or not isinstance(addend.type, Array):
        return None
    if any(OPS[x.name].effect or OPS[x.name].consumes for x in head.ops) or _reduces(loop):
        return None
    return op if _is_cheap(addend, loop, t, []) else None


def _reduces(loop: Loop) -> bool:
    """True if a scalar of the loop is computed from a whole array of the loop, as the square of a row is."""
    return any(isinstance(v.type, Array) and v.op is not None and v.block is loop.head
               for op in loop.head.ops if isinstance(op.result.type, Scalar) for v in op.operands)


def _has_windows(loop: Loop) -> bool:
    """True if the loop reads slices that move, whose adjoints overlap: see ``interchange``."""
    return any(op.name == "slice" and any(v.block in loop.blocks and v.const is None for v in op.operands[1:])
               for op in loop.head.ops)


def _is_cheap(v: Value, loop: Loop, t: Array, seen: list[Value]) -> bool:
    """True if an element of ``v`` is cheap to compute from elements of arrays from outside the loop, and scalars."""
    if isinstance(v.type, Scalar):
        return True
    seen.append(v)
    if not isinstance(v.type, Array) or v.type.rank != t.rank or 1 in v.type.dims or len(seen) > len(loop.head.ops):
        return False
    if v.block not in loop.blocks:
        return True
    op = v.op
    if op is None or OPS[op.name].cost >= EXPENSIVE:
        return False
    if op.name in ("get", "slice"):
        return op.operands[0].block not in loop.blocks
    if op.name in ("broadcast_to", "fill"):
        return isinstance(op.operands[0].type, Scalar)
    return OPS[op.name].elementwise and all(_is_cheap(x, loop, t, seen) for x in op.operands)


def _element(b: Builder, v: Value, loop: Loop, at: list[Value]) -> Value:
    """Emit the element of ``v`` at the indices ``at``."""
    if isinstance(v.type, Scalar):
        return v
    if v.block not in loop.blocks:
        return b.get(v, *at)
    op = v.op
    assert op is not None
    if op.name == "get":
        return b.get(*op.operands, *at)
    if op.name == "slice":
        a, *spec = op.operands
        starts, steps = spec[::3], spec[2::3]
        return b.get(a, *(b.add(start, b.mul(i, step)) for start, step, i in zip(starts, steps, at, strict=True)))
    if op.name in ("broadcast_to", "fill"):
        return op.operands[0]
    return b.emit(op.name, *(_element(b, x, loop, at) for x in op.operands), **op.attrs)


def _rewrite(func: Function, regular: Regular, loop: Loop, op: Op) -> None:
    head, before, behind = loop.head, loop.preheader, loop.exit
    assert before is not None and before.term is not None and behind is not None and head.term is not None
    start, (counter, array) = loop.entry_edge().args[1], head.params
    addend = op.operands[1] if op.operands[0] is array else op.operands[0]
    trip = regular.known[loop].trip
    b = Builder(before, op.loc)
    before.term = None
    sizes = b.dims(start)
    some = b.const(True)
    for n in sizes:
        some = b.and_(some, b.lt(0, n))
    enter, skip, leave = func.new_block("preheader"), func.new_block("skip"), func.new_block("exit")
    result = leave.add_param(array.type, array.hint)
    b.branch(some, enter, [], skip, [])
    for end, value in ((skip, start), (leave, result)):
        b.at(end)
        b.jump(behind, [value])
    b.at(enter)
    b.jump(head, [b.const(0), start])
    head.term = None
    head.ops = [x for x in head.ops if all(isinstance(r.type, Scalar) for r in x.results)]
    b.at(head)
    _inner(b, loop, addend, array, sizes, [])
    following = b.add(counter, 1)
    total = b.block.params[0]
    b.branch(b.lt(following, trip), head, [following, total], leave, [total])


def _inner(b: Builder, loop: Loop, addend: Value, array: Value, sizes: list[Value], at: list[Value]) -> None:
    """Emit the loops over the elements, and continue behind them, in a block whose parameter is the array."""
    func = b.func
    head, behind = func.new_block("loop"), func.new_block("exit")
    i, inside = head.add_param(I64, "it"), head.add_param(array.type, array.hint)
    passed = behind.add_param(array.type, array.hint)
    b.jump(head, [b.const(0), array])
    b.at(head)
    if len(at) + 1 < len(sizes):
        _inner(b, loop, addend, inside, sizes, [*at, i])
        updated = b.block.params[0]
    else:
        updated = b.emit("add_at", inside, _element(b, addend, loop, [*at, i]), *at, i)
    following = b.add(i, 1)
    b.branch(b.lt(following, sizes[len(at)]), head, [following, updated], behind, [updated])
    b.at(behind)
    assert passed.block is behind
