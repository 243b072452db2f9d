"""Skips loops of the reverse sweep that would add multiples of a cotangent that is zero.

The cotangent of a value that a minimum, a maximum or a branch did not choose is zero: ``select(c, x, 0.0)``.  If the
value was computed in a loop, such as the distance to a centre that is not the nearest, the reverse loop adds zeros::

    head:  jump loop(0, a)                            head:  branch z != 0.0, enter, skip
    loop(i, b):  c = add_at b, z * w[i], i    →       enter: jump loop(0, a)       skip: jump join(a)
                 branch more, loop(i + 1, c), exit(c)        … exit(c): jump join(c)

A loop qualifies if all that it passes on is what it received, with additions of values that *vanish* with the
cotangent: products with it, quotients, sums and selections of such values.  Where a factor is infinite the product
would be NaN; the derivative of what was not chosen is zero.  Loops over the windows of a convolution are left alone:
there ``window_adjoints`` makes vectors.

A loop may also begin with cotangents that are all zero, and pass on nothing but multiples of them: the reverse sweep of
a path whose end does not count, as the price of an option that is not exercised.  It is skipped then, unless it has
become vectors before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Function, Module, Value
from ...ir.types import dtype_of
from ...ir.uses import EDGE, uses
from ..analysis.affine import AffineForms
from ..analysis.cfg import set_term
from ..analysis.loops import Loop, counted, loop_forest
from ..analysis.vanishing import any_nonzero, is_zero, kept_if_zero, may_be_zero, read_behind, without


def zero_cotangents(module: Module, paths: bool = False) -> None:
    """Skip loops, before those that can be are vectorised; or the ``paths`` of the reverse sweep that are left."""
    for func in module.functions.values():
        if any(op.attrs.get("acc") for op in func.all_ops()):          # there is a reverse sweep
            forest = loop_forest(func)
            for loop in forest.loops:
                if loop.preheader is None or loop.exit is None or loop.latch is not loop.head:
                    continue
                if paths:
                    _skip_path(func, loop)
                elif any(op.name == "add_at" for op in loop.head.ops) and not _adds_to_windows(loop):
                    _skip_loop(func, loop, forest.dom)


def _skip_loop(func: Function, loop: Loop, dom: Dominators) -> None:
    for z in dict.fromkeys(v for op in loop.head.ops for v in op.operands if v.block not in loop.blocks):
        kept = kept_if_zero(loop, [z]) if may_be_zero(z, dom) else None
        if kept is not None and _leaves_unchanged(func, loop, kept):
            return _guard(func, loop, [z], kept)


def _adds_to_windows(loop: Loop) -> bool:
    """True if the next iteration around the loop adds to the next window, as in a convolution (``window_adjoints``)."""
    known = [counted(x) for x in (loop, loop.parent) if x is not None]
    steps = [AffineForms().of(op.operands[-1]).coefficient for op in loop.head.ops if op.name == "add_at"]
    return len(known) == 2 and any(all(k is not None and abs(step(k.iv)) == 1 for k in known) for step in steps)


def _skip_path(func: Function, loop: Loop) -> None:
    """Skip a loop if all cotangents that it receives are zero."""
    back, grown = loop.back_edge().args, True
    start = {p: a for p, a in loop.entry_edge().passed() if may_be_zero(a)
             or is_zero(a) and dtype_of(a.type).is_float and not _is_sum(back[p.index], p)}
    kept, vanishing = dict[Value, Value](), set[Value]()
    while grown:                                             # without those that do not stay zero
        kept, vanishing = without(loop.head, start)
        lasting = {p: a for p, a in start.items() if back[p.index] in vanishing or is_zero(back[p.index])}
        start, grown = lasting, len(lasting) < len(start)
    zs = [a for a in dict.fromkeys(start.values()) if not is_zero(a)]
    if not zs or not any(op.attrs.get("acc") for op in loop.head.ops) or not all(op.results for op in loop.head.ops):
        return
    leaving = [a for a in (*loop.exit_edge().args, *read_behind(func, loop)) if a in vanishing]
    if _leaves_unchanged(func, loop, kept, vanishing) and _are_cotangents(func, loop, leaving):
        _guard(func, loop, zs, kept)


def _is_sum(v: Value, p: Value) -> bool:
    """True if ``v`` is ``p`` with additions of cotangents."""
    todo = [v]
    while todo:
        v = todo.pop()
        if v is p:
            return True
        todo += v.op.operands if v.op is not None and v.op.name == "add" and v.op.attrs.get("acc") else []
    return False


def _are_cotangents(func: Function, loop: Loop, values: Iterable[Value]) -> bool:
    """True if only cotangents are computed from ``values`` behind the loop.

    A number of the program that is zero may become NaN in the loop, and has to.
    """
    todo = list(values)
    if not todo:
        return True
    read, seen = uses(op for b in func.blocks if b is not loop.head for op in b.all_ops()), set[Value]()
    assert loop.exit is not None
    todo += [p for p, a in loop.exit_edge().passed() if a in todo]
    while todo:
        v = todo.pop()
        if v in seen:
            continue
        seen.add(v)
        for op, number in read.get(v, ()):
            if number == EDGE:
                todo += [p for e in op.edges for p, a in e.passed() if a is v]
            elif op.name in ("mul", "neg", "div", "select"):
                todo += op.results
            elif not op.attrs.get("acc") and (op.name, number) != ("set", 1):
                return False
    return True


def _leaves_unchanged(func: Function, loop: Loop, kept: dict[Value, Value], zero: Collection[Value] = ()) -> bool:
    """True if the loop passes on what it received, or values that are ``zero``, and later code reads nothing else."""
    back = loop.back_edge()
    unchanged = {p for p in loop.head.params if kept.get(back.args[p.index]) is p}
    return all(kept.get(a) in unchanged or a in zero for a in (*loop.exit_edge().args, *read_behind(func, loop)))


def _guard(func: Function, loop: Loop, zs: Iterable[Value], kept: dict[Value, Value]) -> None:
    """Branch around the loop if ``zs`` are zero.  The code behind the loop moves to a block where both ways meet."""
    before, edge, outside = loop.preheader, loop.entry_edge(), loop.exit
    assert before is not None and before.term is not None and outside is not None
    enter, skip, join = (func.new_block(name) for name in ("nonzero", "zero", "behind"))
    b = Builder(skip, before.term.loc)
    leaving = read_behind(func, loop)
    passed = [edge.args[kept[a].index] if a in kept else b.const(0.0, dtype_of(a.type))
              for a in (*loop.exit_edge().args, *leaving)]
    joined = {v: join.add_param(v.type, v.hint) for v in (*outside.params, *leaving)}
    _move(outside, join, joined, [x for x in func.blocks if x not in loop.blocks])
    set_term(outside, "jump", edges=[Edge(join, [*outside.params, *leaving])])
    set_term(enter, "jump", edges=[edge])
    b.jump(join, passed)
    before.term = None
    b.at(before)
    b.branch(any_nonzero(b, zs), enter, [], skip, [])


def _move(source: Block, target: Block, params: dict[Value, Value], behind: list[Block]) -> None:
    """Move the code of a block, and let it and the code behind it read the parameters of ``target``."""
    target.ops, target.term = source.ops, source.term
    source.ops, source.term = [], None
    for op in target.all_ops():
        op.block = target
    for block in behind:
        for op in block.all_ops():
            op.replace_uses(params)
