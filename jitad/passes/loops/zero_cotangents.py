"""Skips loops and iterations of the reverse sweep that would add multiples of a cotangent that is zero.

The cotangent of a value that a minimum, a maximum or a branch did not choose is zero: ``select(c, x, 0.0)``.  If the
value was computed in a loop, such as the distance to a centre that is not the nearest, the reverse loop adds zeros::

    head:  jump loop(0, a)                            head:  branch z != 0.0, enter, skip
    loop(i, b):  c = add_at b, z * w[i], i    →       enter: jump loop(0, a)       skip: jump join(a)
                 branch more, loop(i + 1, c), exit(c)        … exit(c): jump join(c)

A loop qualifies if all that it passes on is what it received, with additions of values that *vanish* with the
cotangent: products with it, quotients, sums and selections of such values.  Where a factor is infinite the product
would be NaN; the derivative of what was not chosen is zero.  Loops over the windows of a convolution are left alone:
there ``window_adjoints`` makes vectors.

An iteration is skipped in the same way, if the loop cannot be vectorised anyway.  It has received a cotangent from a
later iteration: as a scalar, if a running minimum keeps one of many candidates, or in an array, if a table of minima is
filled, or as the sum of both.  All but the iterations on the best path then find zeros::

    loop(i, z, b):  g = select m, z, 0.0                  loop(i, z, b):  g = select m, z, 0.0
                    y = select m, 0.0, z                                  branch g != 0.0, work, skip
                    c = add_at b, g * w[i], i      →      work: y = …, c = …;  jump next(y, c)
                    branch more, loop(i + 1, y, c), …     skip: jump next(z, b)
                                                          next(y, c): branch more, loop(i + 1, y, c), …

So is an iteration that gives back what it has received, ``select(m, 0.0, z)`` to the same element, where a relaxation
(``if x < d[j]: d[j] = x``) has kept it.

If a branch joins with a cotangent that is zero on one side, as that of a pair of atoms out of reach, this side leads
past its multiples where they are added at indices that are read, so that there are no vectors::

    inner: jump join(g)     outer: jump join(0.0)     inner: c = add_at b, g * x, j;  jump next(c)
    join(z):  c = add_at b, z * x, j             →    outer: jump next(b)
              branch more, loop(c), exit(c)           next(c): branch more, loop(c), exit(c)

A loop may also begin with cotangents that are all zero, and pass on nothing but multiples of them: the reverse sweep of
a path whose end does not count, as the price of an option that is not exercised.  It is skipped then, unless it has
become vectors before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import Scalar, dtype_of, is_float_scalar
from ...ir.uses import EDGE, uses
from ..analysis.affine import AffineForms
from ..analysis.branches import is_scattered
from ..analysis.cfg import set_term
from ..analysis.loops import Loop, counted, loop_forest


def zero_cotangents(module: Module, iterations: bool = False) -> None:
    """Skip loops, before those that can be are vectorised; or ``iterations`` of the loops that are left."""
    for func in module.functions.values():
        if any(op.attrs.get("acc") for op in func.all_ops()):          # there is a reverse sweep
            forest = loop_forest(func)
            for loop in forest.loops:
                if loop.preheader is None or loop.exit is None or loop.latch is not loop.head:
                    continue
                adds = any(op.name == "add_at" for op in loop.head.ops)
                if adds and not iterations:
                    if not _adds_to_windows(loop):
                        _skip_loop(func, loop, forest.dom)
                elif iterations and not (adds and _skip_iterations(func, loop)):
                    _skip_path(func, loop)
            for loop in loop_forest(func).loops if iterations else ():
                _skip_multiples(func, loop)


def _skip_loop(func: Function, loop: Loop, dom: Dominators) -> None:
    for z in dict.fromkeys(v for op in loop.head.ops for v in op.operands if v.block not in loop.blocks):
        kept = _kept(loop, [z]) if _may_be_zero(z, dom) else None
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
    start = {p: a for p, a in loop.entry_edge().passed() if _may_be_zero(a)
             or _is_zero(a) and dtype_of(a.type).is_float and not _is_sum(back[p.index], p)}
    kept, vanishing = dict[Value, Value](), set[Value]()
    while grown:                                             # without those that do not stay zero
        kept, vanishing = _without(loop.head, start)
        lasting = {p: a for p, a in start.items() if back[p.index] in vanishing or _is_zero(back[p.index])}
        start, grown = lasting, len(lasting) < len(start)
    zs = [a for a in dict.fromkeys(start.values()) if not _is_zero(a)]
    if not zs or not any(op.attrs.get("acc") for op in loop.head.ops) or not all(op.results for op in loop.head.ops):
        return
    leaving = [a for a in (*loop.exit_edge().args, *_read_behind(func, loop)) if a in vanishing]
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


def _skip_iterations(func: Function, loop: Loop) -> bool:
    if loop.head.term is not None and loop.head.term.attrs.get("cold"):
        return False
    for v in sorted((v for op in loop.head.ops for v in op.results), key=lambda v: not _may_be_zero(v)):
        zs = _received(loop, v)
        kept = _kept(loop, zs) if zs else None
        if kept is not None and _Iteration(func, loop, zs, kept).run():
            return True
    zs = _all_received(loop)
    return _kept(loop, zs) is not None and _Iteration(func, loop, zs, *_without(loop.head, zs)).run()


def _may_be_zero(v: Value, dom: Dominators | None = None) -> bool:
    """True for a selection with a zero, or of such values, by branches too if ``dom`` is given."""
    op = v.op
    if op is not None and op.name == "add" and op.operands[0] is op.operands[1]:      # the adjoint of a square
        return _may_be_zero(op.operands[0], dom)
    if dom is not None and v.owner in dom.preds and is_float_scalar(v.type):
        joined = dom.arguments(v)
        return len(joined) > 1 and all(a is not None and (_is_zero(a) or _may_be_zero(a)) for a in joined)
    return op is not None and op.name == "select" and is_float_scalar(v.type) and \
        (any(map(_is_zero, op.operands[1:])) or all(map(_may_be_zero, op.operands[1:])))


def _is_zero(v: Value) -> bool:
    return v.const is not None and v.const == 0


def _received(loop: Loop, v: Value) -> list[Value]:
    """The cotangent ``v``, or what it is the sum of, if these are zero in the iterations that nothing has chosen."""
    terms, todo = list[Value](), [v]
    while todo:
        z = todo.pop()
        if z.op is not None and z.op.name == "add" and z.op.attrs.get("acc"):
            todo += z.op.operands[::-1]
        elif z.op is not None and z.block is loop.head and (_may_be_zero(z) or _is_received(loop, z)):
            terms.append(z)
        else:
            return []
    return terms if any(_is_received(loop, z) for z in terms) else []


def _all_received(loop: Loop) -> list[Value]:
    """The cotangents of all states of a table, elements and carried numbers, if iterations select what they pass on."""
    back, ops = loop.back_edge().args, loop.head.ops
    loads = [op.result for op in ops if op.name == "get" and op.operands[0].owner is loop.head
             and any(_cleared(other, op.result) for other in ops)]
    carried = [p for p in loop.head.params if _may_be_zero(back[p.index])]
    return [*loads, *carried] if any(_is_received(loop, z) for z in loads) else []


def _is_received(loop: Loop, z: Value) -> bool:
    """True if ``z`` is a cotangent that later iterations pass on by selection, so that the loop has no vectors."""
    op, back = z.op, loop.back_edge().args
    assert op is not None
    if op.name == "select" and _may_be_zero(z):              # a scalar that is used up where it was chosen
        return any(v.owner is loop.head and back[v.index] is not v or v.op is not None and v.op.name == "get"
                   and _is_received(loop, v) for v in op.operands[1:])
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
    return bool(added) and all(map(_may_be_zero, added))


def _skip_multiples(func: Function, loop: Loop) -> None:
    """Lead edges that pass a zero to a join in an innermost loop past the additions of its multiples."""
    dom = loop_forest(func).dom
    for join in dom.in_order(loop.blocks - {loop.head}) if not loop.children else ():
        if any(b.call for b in dom.preds[join]) or \
                not any(is_scattered(op, loop) for op in join.ops if op.name == "add_at"):
            continue
        edges = list(dom.incoming(join))
        for z in join.params:
            zeros = [e for e in edges if _is_zero(e.args[z.index])]
            if zeros and len(zeros) < len(edges) and dtype_of(z.type).is_float and _lead_past(func, join, z, zeros):
                break


def _lead_past(func: Function, join: Block, z: Value, zeros: Sequence[Edge]) -> bool:
    """Split ``join`` behind the multiples of ``z``, and lead ``zeros`` there; returns False if nothing is added."""
    kept, _ = _without(join, [z], ahead=True)
    adds = {op for op in join.ops if op.name == "add_at" and op.result in kept}
    work = _needed(join, [v for op in adds for v in op.operands]) | adds
    work |= {op for op in join.ops if op.result in kept}
    rest = [op for op in join.ops if op not in work]
    others = [*rest, *(op for b in func.blocks if b is not join for op in b.all_ops())]
    term = join.term
    assert term is not None
    read = dict.fromkeys(v for op in (*others, term) for v in op.used()
                         if v.owner is join or v.op in work)
    if not adds or any(v is z or v.op is not None and v not in kept for v in read):
        return False                                         # what the other side computes here is read behind
    behind = func.new_block("next")
    params = {v: behind.add_param(v.type, v.hint) for v in read}
    for e in zeros:
        passed = dict(e.passed())
        e.block, e.args = behind, [passed.get(kept.get(v, v), kept.get(v, v)) for v in read]
    join.ops, behind.ops = [op for op in join.ops if op in work], rest
    behind.term, join.term, term.block = term, None, behind
    for op in rest:
        op.block = behind
    Builder(join, term.loc).jump(behind, list(read))
    for op in (*others, term):
        op.replace_uses(params)
    return True


def _needed(block: Block, values: Iterable[Value]) -> set[Op]:
    """The ops of a block that compute ``values``."""
    found, todo = set[Op](), list(values)
    while todo:
        op = todo.pop().op
        if op is not None and op.block is block and op not in found:
            found.add(op)
            todo += op.operands
    return found


def _kept(loop: Loop, zs: Collection[Value]) -> dict[Value, Value] | None:
    """For each value that equals a parameter of the loop if ``zs`` are zero, that parameter.

    None if the loop adds nothing to an array.
    """
    if not all(op.results for op in loop.head.ops):
        return None                                      # a check
    kept, _ = _without(loop.head, zs)
    return kept if any(v.op is not None and v.op.name == "add_at" for v in kept) else None


def _without(block: Block, zs: Collection[Value], ahead: bool = False) -> tuple[dict[Value, Value], set[Value]]:
    """For each value that equals a parameter of the block if ``zs`` are zero, that parameter; and what vanishes.

    ``ahead``: for each that equals a value from before the block too, that value.
    """
    vanishing = set(zs)
    kept = {p: p for p in block.params if p not in vanishing}
    moved = dict[Value, Op]()                            # arrays without an element, which may be put back
    for op in block.ops:
        if len(op.results) != 1 or op.result in vanishing:
            continue
        to = _added_to(op, vanishing)
        if _vanishes(op, vanishing):
            vanishing.add(op.result)
        elif to is not None and (to in kept or ahead and to.block is not block):
            kept[op.result] = kept.get(to, to)
        elif (same := next((v for z in zs if (v := _selected(op, z, kept) or _cleared(op, z)) is not None), None)):
            kept[op.result] = kept[same]
        elif op.name == "set" and op.operands[0] in kept and any(_clears_chosen(op, z) for z in zs):
            moved[op.result] = op
        elif op.name == "add_at" and (cleared := moved.get(op.operands[0])) is not None and \
                op.operands[2:] == cleared.operands[2:] and any(_is_the_other(op.operands[1], z) for z in zs):
            kept[op.result] = kept[cleared.operands[0]]
    return kept, vanishing


def _clears_chosen(op: Op, z: Value) -> bool:
    """True if ``op`` clears the element that was loaded, and selected as ``z`` or else 0."""
    return z.op is not None and z.op.name == "select" and any(_cleared(op, v) is not None for v in z.op.operands[1:])


def _is_the_other(v: Value, z: Value) -> bool:
    """True for ``select c, 0, x`` beside ``z = select c, x, 0``, or the other way round."""
    if v.op is None or v.op.name != "select" or z.op is None or z.op.name != "select":
        return False
    (c, *mine), (d, *others) = v.op.operands, z.op.operands
    return c is d and all(x is y or _is_zero(x) and _is_zero(y) for x, y in zip(mine, reversed(others)))


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
    return same[0] if len(same) == 1 and all(u is v or _is_zero(u) and _is_zero(v) for u, v in pairs) else None


def _cleared(op: Op, z: Value) -> Value | None:
    """The array of which ``op`` clears the element that was loaded as ``z``, a zero."""
    load = z.op
    if op.name != "set" or load is None or load.name != "get" or not _is_zero(op.operands[1]):
        return None
    return op.operands[0] if [op.operands[0], *op.operands[2:]] == load.operands else None


def _leaves_unchanged(func: Function, loop: Loop, kept: dict[Value, Value], zero: Collection[Value] = ()) -> bool:
    """True if the loop passes on what it received, or values that are ``zero``, and later code reads nothing else."""
    back = loop.back_edge()
    unchanged = {p for p in loop.head.params if kept.get(back.args[p.index]) is p}
    return all(kept.get(a) in unchanged or a in zero for a in (*loop.exit_edge().args, *_read_behind(func, loop)))


def _vanishes(op: Op, vanishing: set[Value]) -> bool:
    if op.name == "mul":
        return any(v in vanishing for v in op.operands)
    if op.name in ("add", "sub", "neg"):
        return all(v in vanishing for v in op.operands)
    if op.name == "div":
        return op.operands[0] in vanishing
    if op.name == "select":
        return all(v in vanishing or _is_zero(v) for v in op.operands[1:])
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


def _guard(func: Function, loop: Loop, zs: Iterable[Value], kept: dict[Value, Value]) -> None:
    """Branch around the loop if ``zs`` are zero.  The code behind the loop moves to a block where both ways meet."""
    before, edge, outside = loop.preheader, loop.entry_edge(), loop.exit
    assert before is not None and before.term is not None and outside is not None
    enter, skip, join = (func.new_block(name) for name in ("nonzero", "zero", "behind"))
    b = Builder(skip, before.term.loc)
    leaving = _read_behind(func, loop)
    passed = [edge.args[kept[a].index] if a in kept else b.const(0.0, dtype_of(a.type))
              for a in (*loop.exit_edge().args, *leaving)]
    joined = {v: join.add_param(v.type, v.hint) for v in (*outside.params, *leaving)}
    _move(outside, join, joined, [x for x in func.blocks if x not in loop.blocks])
    set_term(outside, "jump", edges=[Edge(join, [*outside.params, *leaving])])
    set_term(enter, "jump", edges=[edge])
    b.jump(join, passed)
    before.term = None
    b.at(before)
    b.branch(_any_nonzero(b, zs), enter, [], skip, [])


def _any_nonzero(b: Builder, zs: Iterable[Value]) -> Value:
    return reduce(b.or_, (b.ne(z, b.const(0.0, dtype_of(z.type))) for z in zs))


def _read_behind(func: Function, loop: Loop) -> list[Value]:
    """The values of the loop that later code reads directly, not as parameters of its exit."""
    return list(dict.fromkeys(v for b in func.blocks if b not in loop.blocks for op in b.all_ops() for v in op.used()
                              if v.block in loop.blocks))


def _move(source: Block, target: Block, params: dict[Value, Value], behind: list[Block]) -> None:
    """Move the code of a block, and let it and the code behind it read the parameters of ``target``."""
    target.ops, target.term = source.ops, source.term
    source.ops, source.term = [], None
    for op in target.all_ops():
        op.block = target
    for block in behind:
        for op in block.all_ops():
            op.replace_uses(params)


class _Iteration:
    """Branches around the rest of an iteration if ``zs``, which it has computed, are zero.

    ``first``: the ops that are needed in any case: those of ``zs`` and of the counter.  What is ``vanishing`` is zero.
    """

    def __init__(self, func: Function, loop: Loop, zs: Sequence[Value], kept: dict[Value, Value],
                 vanishing: Collection[Value] = ()) -> None:
        self.func, self.loop, self.zs, self.kept, self.vanishing = func, loop, zs, kept, vanishing
        assert loop.head.term is not None
        self.term = loop.head.term
        read = (v for e in self.term.edges for v in e.args if v.op is not None and v.block is loop.head)
        self.passed = list(dict.fromkeys((*read, *_read_behind(func, loop))))
        others = (v for v in self.passed if v not in kept and v not in vanishing)
        self.first = _needed(loop.head, (*zs, *self.term.operands, *others))

    def run(self) -> bool:
        """Rewrite the loop; returns False if nothing can be skipped."""
        head = self.loop.head
        rest = [op for op in head.ops if op not in self.first]
        own = {v for op in rest for v in op.results}
        if any(op.name in ("set", "add_at") for op in self.first) or not any(op.name == "add_at" for op in rest):
            return False
        work, skip, latch = (self.func.new_block(name) for name in ("work", "skip", "next"))
        head.ops = [op for op in head.ops if op in self.first]
        work.ops = rest
        for op in rest:
            op.block = work
        passed = [v for v in self.passed if v in own]
        set_term(work, "jump", edges=[Edge(latch, passed)])
        b = Builder(skip, self.term.loc)
        b.jump(latch, [self.kept[v] if v in self.kept else b.const(0.0, dtype_of(v.type)) for v in passed])
        params = {v: latch.add_param(v.type, v.hint) for v in passed}
        for op in (self.term, *(op for b in self.func.blocks if b not in (head, work, skip) for op in b.all_ops())):
            op.replace_uses(params)
        latch.term, self.term.block, head.term = self.term, latch, None
        b.at(head)
        b.branch(_any_nonzero(b, self.zs), work, [], skip, [])
        return True
