"""Skips iterations of the reverse sweep that would add multiples of cotangents that are zero.

The loop cannot be vectorised anyway: it has received the cotangents from a later iteration.  As a scalar, if a running
minimum keeps one of many candidates, or in an array, if a table of minima is filled, or as the sum of both.  All but
the iterations on the best path then find zeros::

    loop(i, z, b):  g = select m, z, 0.0                  loop(i, z, b):  g = select m, z, 0.0
                    y = select m, 0.0, z                                  branch g != 0.0, work, skip
                    c = add_at b, g * w[i], i      →      work: y = …, c = …;  jump next(y, c)
                    branch more, loop(i + 1, y, c), …     skip: jump next(z, b)
                                                          next(y, c): branch more, loop(i + 1, y, c), …

Where an iteration then only reads a cotangent and counts, zeros are skipped eight at a time.

If a branch joins with a cotangent that is zero on one side, as that of a pair of atoms out of reach, this side leads
past its multiples where they are added at indices that are read, or both at one index and at others, or the loop
carries a product, so that there are no vectors::

    inner: jump join(g)     outer: jump join(0.0)     inner: c = add_at b, g * x, j;  jump next(c)
    join(z):  c = add_at b, z * x, j             →    outer: jump next(b)
              branch more, loop(c), exit(c)           next(c): branch more, loop(c), exit(c)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import I64, Scalar, dtype_of
from ..analysis.affine import AffineForms
from ..analysis.branches import is_scattered
from ..analysis.cfg import set_term
from ..analysis.loops import Counted, Loop, counted, loop_forest
from ..analysis.vanishing import ZeroIteration, any_nonzero, is_zero, needed_ops, without, zero_iteration

STRIP = 8
"""The elements that are compared at once where an iteration only looks for one that is not zero."""


def zero_iterations(module: Module) -> None:
    """Skip such iterations of loops of one block, and such sides of branches."""
    for func in module.functions.values():
        if any(op.attrs.get("acc") for op in func.all_ops()):          # there is a reverse sweep
            for loop in loop_forest(func).loops:
                if loop.preheader is not None and loop.exit is not None and loop.latch is loop.head \
                        and any(op.name == "add_at" for op in loop.head.ops):
                    _skip_iterations(func, loop)
            for loop in loop_forest(func).loops:
                _skip_multiples(func, loop)


def _skip_iterations(func: Function, loop: Loop) -> None:
    assert loop.head.term is not None
    zero = zero_iteration(func, loop) if not loop.head.term.attrs.get("cold") else None
    if zero is not None:
        _Iteration(func, loop, zero).run()


def _skip_multiples(func: Function, loop: Loop) -> None:
    """Lead edges that pass a zero to a join in an innermost loop past the additions of its multiples."""
    dom = loop_forest(func).dom
    for join in dom.in_order(loop.blocks - {loop.head}) if not loop.children else ():
        if any(b.call for b in dom.preds[join]) or not _prevents_vectors(join, loop):
            continue
        edges = list(dom.incoming(join))
        for z in join.params:
            zeros = [e for e in edges if is_zero(e.args[z.index])]
            if zeros and len(zeros) < len(edges) and dtype_of(z.type).is_float and _lead_past(func, join, z, zeros):
                break


def _prevents_vectors(join: Block, loop: Loop) -> bool:
    """True if updates are at indices that are read, or of one array at an index that stays and at others.

    The second is a point and its neighbours: iterations meet in one element.
    """
    updates = [op for op in join.ops if op.name == "add_at"]
    stays = {op: all(v.block not in loop.blocks or v.const is not None for v in op.operands[2:]) for op in updates}
    return any(is_scattered(op, loop) or op.operands[0].op in stays and stays[op] is not stays[op.operands[0].op]
               for op in updates) or bool(updates) and any(
        isinstance(p.type, Scalar) and p.type.is_float and _recurs(p, loop) for p in loop.head.params)


def _recurs(p: Value, loop: Loop) -> bool:
    """True if the next ``p`` is a product of this one, so that each iteration waits for the one before."""
    preds = loop.head.func.predecessors()
    todo, seen = [(loop.back_edge().args[p.index], False)], set[tuple[Value, bool]]()
    while todo:
        v, product = todo.pop()
        if (v, product) in seen or v.block not in loop.blocks:
            continue
        seen.add((v, product))
        if v is p and product:
            return True
        if v.op is not None:
            todo += [(u, product or v.op.name in ("mul", "div")) for u in v.op.operands]
        elif v.block is not loop.head:
            todo += [(a, product) for _, e in preds[v.block] if (a := e.argument(v)) is not None]
    return False


def _lead_past(func: Function, join: Block, z: Value, zeros: Sequence[Edge]) -> bool:
    """Split ``join`` behind the multiples of ``z``, and lead ``zeros`` there; returns False if nothing is added."""
    kept, _ = without(join, [z], ahead=True)
    adds = {op for op in join.ops if op.name == "add_at" and op.result in kept}
    if any(len(op.results) != 1 for op in join.ops):
        return False                                         # a check may guard the additions, and both sides need it
    work = needed_ops(join, [v for op in adds for v in op.operands]) | adds
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


class _Iteration:
    """Branches around the rest of an iteration if the cotangents that it has received are zero."""

    def __init__(self, func: Function, loop: Loop, zero: ZeroIteration) -> None:
        self.func, self.loop, self.zero = func, loop, zero
        assert loop.head.term is not None
        self.term, self.known = loop.head.term, counted(loop)

    def run(self) -> None:
        head, zero = self.loop.head, self.zero
        rest = [op for op in head.ops if op not in zero.first]
        own = {v for op in rest for v in op.results}
        work, skip, latch = (self.func.new_block(name) for name in ("work", "skip", "next"))
        head.ops = [op for op in head.ops if op in zero.first]
        work.ops = rest
        for op in rest:
            op.block = work
        passed = [v for v in zero.passed if v in own]
        set_term(work, "jump", edges=[Edge(latch, passed)])
        set_term(skip, "jump", edges=[Edge(latch, [zero.kept[v] for v in passed])])
        params = {v: latch.add_param(v.type, v.hint) for v in passed}
        for op in (self.term, *(op for b in self.func.blocks if b not in (head, work, skip) for op in b.all_ops())):
            op.replace_uses(params)
        latch.term, self.term.block, head.term = self.term, latch, None
        b = Builder(head, self.term.loc)
        b.branch(any_nonzero(b, zero.zs), work, [], skip, [])
        self._skip_strips(skip, work, latch)

    def _skip_strips(self, skip: Block, work: Block, latch: Block) -> None:
        """Lead from an iteration with a zero past strips of zeros side by side, which one comparison tells."""
        known, load = self.known, self.zero.zs[0].op
        assert skip.term is not None and work.term is not None
        kept = dict(skip.term.edges[0].passed())
        if known is None or load is None or not self._only_counts(known, kept) or not self._reads_a_row(known, load) \
                or any(op.name in ("check", "call") for op in (*self.zero.first, *work.ops)):
            return
        strips, probe, leave = (self.func.new_block(name) for name in ("strips", "probe", "leave"))
        at, found = strips.add_param(I64), leave.add_param(I64)
        following = latch.add_param(I64)
        onward = skip.term.edges[0]
        set_term(leave, "jump", edges=[Edge(latch, [*onward.args, found])])
        work.term.edges[0].args.append(known.next)
        set_term(skip, "jump", edges=[Edge(strips, [known.next])])
        b = Builder(strips, load.loc)
        b.branch(b.le(b.add(at, STRIP), known.trip), probe, [], leave, [at])
        b.at(probe)
        array, *others, first = load.operands
        step = AffineForms().of(first).coefficient(known.iv)
        lowest = b.add(first, b.mul(b.sub(at, known.iv), b.const(step)))
        lowest = b.sub(lowest, b.const(STRIP - 1)) if step < 0 else lowest
        one = b.const(1)
        part = b.slice(array, *(v for k in others for v in (k, one, one)), lowest, b.const(STRIP), one)
        row = b.reshape(part, b.const(STRIP)) if others else part
        found_one = b.emit("any", b.ne(row, b.const(0.0, dtype_of(row.type))), axes=(0,))
        b.branch(found_one, leave, [at], strips, [b.add(at, STRIP)])
        self.term.replace_uses({known.next: following})
        b.at(latch)
        latch.term = None
        self.term.operands[0] = b.lt(following, known.trip)
        latch.term = self.term

    def _only_counts(self, known: Counted, kept: dict[Value, Value]) -> bool:
        """True if an iteration that is skipped changes nothing but the counter; ``kept``: what it passes for others."""
        back, leave = self.term.edges
        others = [(p, kept.get(v, v)) for p, v in back.passed() if p is not known.iv]
        return not self.zero.behind and known.iv not in leave.args and all(
            v is p or v.block not in self.loop.blocks for p, v in others) and all(
            v in self.zero.kept or v is known.next for v in self.zero.passed) and (
            known.trip.const is None or known.trip.const > STRIP)

    def _reads_a_row(self, known: Counted, load: Op) -> bool:
        """True if the next iterations load the next elements of a row, up or down, and carry the other cotangents."""
        forms = AffineForms()
        index = [forms.of(v) for v in load.operands[1:]]
        steps = [form.coefficient(known.iv) for form in index]
        return load.name == "get" and all(z.owner is self.loop.head for z in self.zero.zs[1:]) \
            and load.operands[0].owner is self.loop.head \
            and abs(steps[-1]) == 1 and not any(steps[:-1]) and all(
                v is known.iv or v.block not in self.loop.blocks for form in index for v, _ in form.terms)
