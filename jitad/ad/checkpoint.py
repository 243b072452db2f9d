"""Cuts loops of which reverse mode would save every iteration into segments that are recomputed in the reverse sweep.

A loop with state ``s`` becomes a loop over segments: ``s = segment(k, s)``, where ``segment`` is a function with the
rule ``checkpoint`` (``rules.py``).  The state at the start of each segment is saved, and the frames of the iterations
of one segment at a time.  Each iteration runs forward twice and in reverse once.

* A counted loop of ``n`` iterations has ⌈n / ⌈√n⌉⌉ segments of ⌈√n⌉ iterations: 2 √n states.
* A ``while`` loop has segments of 1, 2, 3, … iterations, √(2n) of them, the longest of √(2n): 2 √(2n) states.
  Counting it first would reduce that to 2 √n, for one more run of the whole loop.

With a given number of states (``binomial.py``) the loop becomes one call.

Only loops that would otherwise save something are cut, the outermost ones of those.  A trial derivative determines
them (``_keeping``).  A loop that only feeds reductions saves nothing anyway.

Source: Griewank and Walther, *Evaluating Derivatives* (2008), chapter 12; segments of √n are Chen et al. (2016).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import DifferentiationError
from ..ir.builder import Builder
from ..ir.clone import clone_blocks, clone_op
from ..ir.graph import Block, Function, Module, Value
from ..ir.types import BOOL, F64, I64, Stack, is_float
from ..passes.analysis.cfg import merge_chains, remove_unreachable
from ..passes.analysis.loops import Counted, Loop, counted, loop_forest, raising_blocks
from .binomial import Binomial, ruled
from .reverse import ThereAndBack
from .storage.frames import Frames

_MARK = "checkpoint_loop"


def checkpoint_loops(module: Module, names: Iterable[str] | None = None) -> set[str]:
    """Cut the loops of functions with the attribute ``checkpoint`` that are differentiated, once; returns their names.

    ``names``: the derivatives that are about to be made, of functions whose callees are all made.
    """
    found: set[str] = set()
    if not any("checkpoint" in f.attrs for f in module.functions.values()):
        return found
    for name, ways in _differentiated(module, module.derived if names is None else names).items():
        func = module.functions[name]
        states = func.attrs.pop("checkpoint", None)
        if states is not None:
            for loop in _chosen(module, func, ways):
                Cut(module, func, loop).run(states)
                found.add(name)
    return found


def _differentiated(module: Module, names: Iterable[str]) -> dict[str, set[tuple[tuple[int, ...], bool]]]:
    """The functions that reverse mode may meet: for each the (parameters, True if it is split into two functions)."""
    found: dict[str, set[tuple[tuple[int, ...], bool]]] = {}
    for d in map(module.derived.__getitem__, names):
        if d.base in module.functions:
            found.setdefault(d.base, set()).add((d.wrt, d.kind != "vjp"))
    todo = list(found)
    while todo:
        for callee in _callees(module, todo.pop()):
            if callee not in found:
                params = module.functions[callee].params
                found[callee] = {(tuple(i for i, p in enumerate(params) if is_float(p.type)), True)}
                todo.append(callee)
    return found


def _callees(module: Module, name: str) -> Iterable[str]:
    names = module.functions[name].callees()
    if name in module.rules:
        names += module.rules[name].functions
    return [n for n in dict.fromkeys(names) if n in module.functions]


# --- choice of loops ------------------------------------------------------------------------------

def _chosen(module: Module, func: Function, ways: Iterable[tuple[tuple[int, ...], bool]]) -> list[Loop]:
    """The outermost loops for which the reverse sweep would save something."""
    forest = loop_forest(func)
    marked = {i: loop for i, loop in enumerate(forest.loops) if loop.latch is not None and loop.exit is not None}
    if not marked:
        return []
    for i, loop in marked.items():
        assert loop.latch is not None and loop.latch.term is not None
        loop.latch.term.attrs[_MARK] = i
    kept = {marked[i] for wrt, split in ways for i in _keeping(module, func, wrt, split)}
    for loop in marked.values():
        assert loop.latch is not None and loop.latch.term is not None
        del loop.latch.term.attrs[_MARK]
    found, todo = [], list(forest.roots)
    while todo:
        loop = todo.pop()
        if loop in kept and not _holds_frames(loop):
            found.append(loop)
        else:
            todo += loop.children
    return found


def _holds_frames(loop: Loop) -> bool:
    """True if the loop reads or carries a stack, as loops of derivatives do."""
    values = {v for b in loop.blocks for op in b.all_ops() for v in op.used() if v.block not in loop.blocks}
    return any(isinstance(v.type, Stack) for v in (*values, *loop.head.params, *loop.exit_edge().args))


def _keeping(module: Module, func: Function, wrt: tuple[int, ...], split: bool) -> set[int]:
    """The marks of the loops that save something, found by a derivative that is discarded."""
    derived = dict(module.derived)
    try:
        sweep = ThereAndBack(module, func, "trial", wrt, accumulate=split)
        if sweep.pivot is None:
            return set()
        frames = Frames(sweep, split)
        frames.place()
    except DifferentiationError:                             # the derivative itself reports it
        return set()
    finally:
        module.derived = derived
    loops = [loop for loop, values in frames.kept.items() if loop is not None and values]
    return {loop.latch.term.attrs[_MARK] for loop in loops if loop.latch is not None and loop.latch.term is not None
            and _MARK in loop.latch.term.attrs}


# --- cutting one loop -----------------------------------------------------------------------------

class Cut:
    """``loop`` of ``func`` as a loop over segments.

    ``state``: the head's parameters except the index of a counted loop.  ``outside``: the values from outside that
    the loop reads.  ``left``: the values that an iteration passes to the next one or to the code after the loop.
    """

    def __init__(self, module: Module, func: Function, loop: Loop) -> None:
        assert loop.latch is not None and loop.exit is not None and loop.preheader is not None
        self.module, self.func, self.loop = module, func, loop
        self.known: Counted | None = counted(loop)
        region = loop.region(raising_blocks(loop_forest(func).dom))
        self.region = [b for b in func.blocks if b in region]
        self.state = [p for p in loop.head.params if self.known is None or p is not self.known.iv]
        used = dict.fromkeys(v for b in self.region for op in b.all_ops() for v in op.used() if v.block not in region)
        self.constants = [v for v in used if v.op is not None and v.op.name == "const"]
        self.outside = [v for v in used if v.op is None or v.op.name != "const"]
        self.next = [loop.back_edge().args[p.index] for p in self.state]
        self.results = list(loop.exit_edge().args)
        self.left = list(dict.fromkeys(v for v in (*self.next, *self.results) if v.block in region))

    @property
    def counted(self) -> bool:
        return self.known is not None

    def found(self, results: Sequence[Value]) -> dict[Value, Value]:
        """Map the values that the loop leaves to the results of a segment."""
        return dict(zip(self.left, results if self.counted else results[2:]))

    def run(self, states: str | int) -> None:
        """Cut the loop.  ``states``: ``"sqrt"``, or the number of states that may be saved."""
        segment = self._segment()
        if isinstance(states, int):
            self._call(Binomial(self, segment), states)
        else:
            self._loop_over(self._with_rule(segment))
        remove_unreachable(self.func)
        merge_chains(self.func)

    # --- a segment ----------------------------------------------------------------------------------

    def _segment(self) -> Function:
        """The function that runs a segment.

        Of a counted loop: (first index, number of iterations, state…, outside…) → left….  Of other loops: (greatest
        number of iterations, state…, outside…) → (continue, number of iterations, left…).
        """
        first = [I64] if self.known else []
        types = [*first, I64, *(p.type for p in self.state), *(v.type for v in self.outside)]
        left = [v.type for v in self.left]
        name = self.module.unique_name(f"{self.func.name}.segment")
        segment = self.module.add(Function(name, types, [*([] if self.known else [BOOL, I64]), *left]))
        segment.loc = self.func.loc
        params = segment.params[len(first):]
        count, state, outside = params[0], params[1:1 + len(self.state)], params[1 + len(self.state):]
        b = Builder(segment.entry)
        values: dict[Value, Value] = dict(zip(self.outside, outside))
        for v in self.constants:
            assert v.op is not None
            copy = clone_op(v.op, values)
            copy.block = segment.entry
            segment.entry.ops.append(copy)
        blocks = clone_blocks(self.region, segment, values)
        for block in blocks.values():
            for op in block.all_ops():
                op.replace_uses(values)
        head, latch = blocks[self.loop.head], blocks[self._latch]
        at = self._count_from(segment.params[0], head, values) if self.known else head.add_param(I64, "j")
        arguments = dict(zip(self.state, state))
        b.jump(head, [arguments[p] if p in arguments else b.const(0) for p in self.loop.head.params]
               + ([] if self.known else [b.const(0)]))
        self._end(segment, latch, head, at, count, values)
        return segment

    @property
    def _latch(self) -> Block:
        assert self.loop.latch is not None
        return self.loop.latch

    def _count_from(self, start: Value, head: Block, values: dict[Value, Value]) -> Value:
        """Make the copy's index count from zero; other readers of the index read ``start`` plus it."""
        assert self.known is not None
        j = values[self.known.iv]
        ops, head.ops = head.ops, []
        it = Builder(head).add(start, j)
        head.ops += ops
        for block in head.func.blocks:
            for op in block.all_ops():
                if op is not it.op:
                    op.replace_uses({j: it})
        values[self.known.iv] = it
        return j

    def _end(self, segment: Function, latch: Block, head: Block, j: Value, count: Value,
             values: dict[Value, Value]) -> None:
        """Write the latch: another iteration if the segment has one."""
        term = latch.term
        assert term is not None
        latch.term = None
        b = Builder(latch)
        following = b.add(j, 1)
        go_on = b.lt(following, count)
        left = [values[v] for v in self.left]
        if self.known is None:
            wish = term.operands[0] if term.edges[0].block is head else b.not_(term.operands[0])
            go_on, left = b.and_(wish, go_on), [wish, following, *left]
        back = next(e for e in term.edges if e.block is head)
        args = [following if p is j else a for a, p in zip(back.args, head.params)]
        done = segment.new_block("done")
        b.branch(go_on, head, args if self.known else [*back.args, following], done, left)
        Builder(done).ret([done.add_param(v.type) for v in left])

    def _with_rule(self, segment: Function) -> Function:
        """The function that is called; the reverse sweep recomputes ``segment``."""
        name = self.module.unique_name(f"{segment.name}.checkpoint")
        over = self.module.add(Function(name, segment.param_types, segment.result_types))
        over.loc = segment.loc
        b = Builder(over.entry)
        b.ret(b.call_then(segment.name, over.params, over.result_types))
        return ruled(self.module, over, segment)

    # --- the loop over segments ---------------------------------------------------------------------

    def _loop_over(self, over: Function) -> None:
        assert self.loop.exit is not None
        entry, b = self._instead()
        size, segments = self._sizes(b)
        head = self.func.new_block("segments")
        k = head.add_param(I64, "k")
        state = [head.add_param(p.type, p.hint) for p in self.state]
        b.jump(head, [b.const(0), *(entry[p.index] for p in self.state)])
        b.at(head)
        if self.known is not None:
            assert size is not None
            start = b.mul(k, size)
            args = [start, b.minimum(size, b.sub(self.known.trip, start))]
        else:
            args = [b.add(k, 1)]
        results = b.call_then(over.name, [*args, *state, *self.outside], over.result_types)
        following = b.add(k, 1)
        go_on = b.lt(following, segments) if segments is not None else results[0]
        found = self.found(results)
        b.branch(go_on, head, [following, *(found.get(v, v) for v in self.next)],
                 self.loop.exit, [found.get(v, v) for v in self.results])

    def _call(self, binomial: Binomial, states: int) -> None:
        """Replace the loop by one call that saves ``states`` states."""
        assert self.loop.exit is not None
        entry, b = self._instead()
        given = [*(entry[p.index] for p in self.state), *self.outside]
        if self.known is not None:
            over, counts = binomial.steps, [b.const(0), self.known.trip, b.const(states)]
        else:
            over, counts = binomial.whole(states), []
        found = self.found(b.call_then(over.name, [*counts, *given], over.result_types))
        b.jump(self.loop.exit, [found.get(v, v) for v in self.results])

    def _instead(self) -> tuple[list[Value], Builder]:
        """Remove the loop's entry edge; returns its arguments and a builder in its place."""
        before, entry = self.loop.preheader, self.loop.entry_edge().args
        assert before is not None
        before.term = None
        return entry, Builder(before)

    def _sizes(self, b: Builder) -> tuple[Value | None, Value | None]:
        """For a counted loop the number of iterations of a segment, and the number of segments; else (None, None)."""
        if self.known is None:
            return None, None
        n = self.known.trip
        size = b.cast(b.ceil(b.sqrt(b.cast(n, dtype=F64))), dtype=I64)
        return size, b.floordiv(b.sub(b.add(n, size), 1), size)
