"""The loop over chunks of ``predicate``: the blocks of a loop for ``LANES`` elements together, under active masks."""

from __future__ import annotations

from fractions import Fraction

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import OPS
from ...ir.types import BOOL, I64, Array, Scalar, Stack, dtype_of
from ...ir.uses import ops_of, users
from ..analysis.cost import LANES
from ..analysis.loops import Counted, Loop, LoopForest, counted
from .batch import add_up_all, counts, note_next, passed_on, store, terms_where
from .batch_rules import NoRows, Rows, check_sizes

_FREE = ("const", "undef", "stack_empty")
Mask = Value | None                       # a bool for each element; ``None``: all are active


class MaskedChunks:
    """Emits the body of a loop for a chunk: blocks in order, each with its active mask.

    ``mass``: the fraction of elements that enter a block, if each edge of a branch takes an equal share.  A block with
    the mass of its dominator is reached by all elements that reach the dominator.
    ``incoming``: the edges to a block so far, each with mass, mask and arguments.
    """

    def __init__(self, func: Function, forest: LoopForest, loop: Loop, known: Counted, stores: dict[Op, Value],
                 sums: dict[Value, dict[Op, Value]], decided: dict[Value, int]) -> None:
        self.func, self.forest, self.loop, self.known, self.stores = func, forest, loop, known, stores
        self.sums, self.decided = sums, decided
        self.adding = {op: total for chain in sums.values() for op, total in chain.items()}
        self.whole: set[Loop] = set()                  # the inner loops that all elements enter
        self.terms: dict[Op, Value] = {}               # addition → rows of its terms
        self.frames: dict[Value, list[Value]] = {}     # stack → rows of numbers that are how many frames are on it
        self.order = forest.dom.in_order(loop.blocks)
        self.mass: dict[Block, Fraction] = {}
        self.masks: dict[Block, Mask] = {}
        self.incoming: dict[Block, list[tuple[Fraction, Mask, list[Value]]]] = {}
        self.head = func.new_block(loop.head.name)
        self.it = self.head.add_param(I64, known.iv.hint)
        self.params = {p: self.head.add_param(p.type, p.hint) for p in loop.head.params[1:]}
        assert loop.latch is not None and loop.latch.term is not None
        b = self.b = Builder(self.head, loop.latch.term.loc)
        reached, test = b.mul(self.it, LANES), loop.latch.term.operands[0]
        whole = known.trip.const is not None and known.trip.const % LANES == 0
        start = reached if whole else b.minimum(reached, b.sub(known.trip, LANES))
        self.done = None if whole else b.sub(reached, start)
        last, used = {p: op for op, p in stores.items()}, users(ops_of(loop.blocks))
        last |= {p: list(chain)[-1] for p, chain in sums.items()}
        self.updated = {v: p for p, op in last.items() for v in passed_on(loop, op.result, used)}
        bound = {*loop.head.params, known.next, test, *(op.result for op in (*stores, *self.adding)), *self.updated}
        self.rows = Rows(b, known.iv, start, b.const(LANES), bound)
        note_next(self.rows, known, stores)
        self.skipped = {known.next.op, test.op}
        self.checked: list[Op] = []                    # the checks that the counter is below a size
        self.new: dict[Value, Value] = {known.next: known.trip}

    def run(self) -> Edge:
        """Emit the loop over chunks; nothing else changes, except that ops are added to the preheader.

        Returns the edge to the exit of the loop.
        """
        loop, b = self.loop, self.b
        assert loop.preheader is not None and loop.preheader.term is not None and loop.exit is not None
        self.mass[loop.head], self.masks[loop.head] = Fraction(1), None
        if any(self._reads_counter(op) for block in self.order for op in block.ops):
            self.rows.rows[self.known.iv] = b.add(self.rows.start, b.iota(self.rows.length))
        self._blocks(loop)
        add_up_all(b, self.sums, self.terms, self.params, LANES, self.done)
        leaving = [self._outside(v) for v in loop.exit_edge().args]
        again = [b.add(self.it, 1), *map(self._outside, loop.back_edge().args[1:])]
        before = Builder(loop.preheader, loop.preheader.term.loc)
        count = before.floordiv(before.add(self.known.trip, LANES - 1), LANES)
        end = b.block
        b.branch(b.lt(again[0], count), self.head, again, loop.exit, leaving)
        assert end.term is not None
        return end.term.edges[1]

    def _outside(self, v: Value) -> Value:
        if v in self.updated:
            return self.params[self.updated[v]]
        if v in self.new:
            return self.new[v]
        if v.block in self.loop.blocks:
            raise NoRows
        return v

    # --- blocks -------------------------------------------------------------------------------------

    def _blocks(self, loop: Loop) -> None:
        """Emit the blocks of a loop, in order; an inner loop is emitted at its head."""
        for block in self.order:
            inner = self.forest.innermost[block]
            if inner is loop:
                if block is not loop.head:
                    if self.decided and block not in self.incoming:
                        continue                         # a branch that is decided leads elsewhere
                    self._start(block)
                self._ops(block)
                if block is not loop.latch:
                    self._leave(block)
            elif inner.head is block and inner.parent is loop and (block in self.incoming or not self.decided):
                self._inner(inner)

    def _ops(self, block: Block) -> None:
        all_active = self.masks[block] is None and self.forest.innermost[block] is self.loop
        for op in block.ops:
            if op in self.skipped:
                continue
            if op in self.stores:
                if not all_active:
                    raise NoRows
                array = self.stores[op]
                self.params[array] = store(self.rows, op, self.params[array], self.done)
            elif op in self.adding and self.forest.innermost[block] is self.loop:
                terms, m = self.rows.all_of(op.operands[op.operands[0] is self.adding[op]]), self.masks[block]
                self.terms[op] = terms if m is None else terms_where(self.b, op, m, terms)
            elif all_active and self._is_bounds_check(op):
                if op.name == "check" and op not in self.checked:
                    self._check_all()
            elif op.name == "check" and self.checked:
                raise NoRows                             # its order with the earlier checks would change
            elif op.name in ("push", "pop"):
                self._frame(op, block)
            elif all_active or OPS[op.name].elementwise or op.name in _FREE or self._is_column(op, block):
                self.rows.add(op)
            else:
                raise NoRows

    def _frame(self, op: Op, block: Block) -> None:
        """Push or pop a frame of rows, in each iteration of an inner loop: see ``_frames``."""
        rows, below = self.rows, self.rows.flat(op.operands[0])
        values = op.operands[1:] if op.name == "push" else op.results[1:]
        if self.mass[block] != 1 or self.forest.innermost[block] is self.loop or any(
                not isinstance(v.type, Scalar) for v in values):
            raise NoRows
        if op.name == "push":
            rows.same[op.result] = self.b.push(below, *map(rows.all_of, values))
        else:
            rows.same[op.results[0]], found = self.b.pop(below, [Array(dtype_of(v.type), (LANES,)) for v in values])
            rows.rows.update(zip(values, found))

    def _reads_counter(self, op: Op) -> bool:
        """True if an op computes with the number of the element."""
        return self.known.iv in op.operands and OPS[op.name].elementwise and op not in self.skipped and \
            not self._is_bounds_check(op)

    def _is_column(self, op: Op, block: Block) -> bool:
        """True for a read that each element makes in each iteration of an inner loop, in its row or at the same index.

        All elements have made the first one, so their rows exist; an active element makes this one.
        """
        inner = self.forest.innermost[block]
        if op.name != "get" or self.mass[block] != 1 or inner not in self.whole:
            return False
        if counted(inner) is not None:                   # all elements leave together: ``outer_loop``
            return False
        others = [v for v in op.operands if v not in self.rows.firsts]
        return isinstance(op.result.type, Scalar) and op.operands[0].block not in self.loop.blocks and \
            len(others) >= len(op.operands) - 1 and not any(v in self.rows.rows or v in self.rows.bound for v in others)

    def _is_bounds_check(self, op: Op) -> bool:
        """True if ``op`` is part of a check that the counter is below a size."""
        if op.name == "check":
            found = op.operands[0].op
            return found is not None and self._compares(found)
        return self._compares(op) and all(u.name == "check" for b in self.order for u in b.all_ops()
                                          if op.result in u.used())

    def _compares(self, op: Op) -> bool:
        return op.name == "lt" and counts(self.loop, op.operands[0]) and op.operands[1].block not in self.loop.blocks

    def _check_all(self) -> None:
        """Emit the checks that the counter is below sizes, for the whole chunk."""
        self.checked = [op for block in self.order if self.forest.innermost[block] is self.loop for op in block.ops
                        if op.name == "check" and self._is_bounds_check(op)]
        check_sizes(self.rows, self.checked, self._outside)

    def _start(self, block: Block) -> None:
        """Emit the start of a block: its active mask, and its parameters."""
        incoming = self.incoming.get(block)
        if not incoming:
            raise NoRows
        self.mass[block] = sum((mass for mass, _, _ in incoming), Fraction(0))
        above = self.forest.dom.idom[block]
        if len(incoming) > 1 and above in self.mass and self.mass[above] == self.mass[block]:
            self.masks[block] = self.masks[above]            # all elements of the dominator arrive
        else:
            self.masks[block] = self._either([m for _, m, _ in incoming])
        for i, p in enumerate(block.params):
            args = [(m, args[i]) for _, m, args in incoming if not args[i].undefined] or [(None, incoming[0][2][i])]
            self._set_param(p, args)

    def _either(self, masks: list[Mask]) -> Mask:
        out = masks[0]
        for m in masks[1:]:
            out = None if out is None or m is None else self.b.or_(out, m)
        return out

    def _set_param(self, p: Value, args: list[tuple[Mask, Value]]) -> None:
        """Set a parameter: each element selects the argument of the edge that it takes."""
        first = args[-1][1]
        if p in self.updated:
            return
        if all(v is first for _, v in args) and first not in self.rows.rows:
            self.rows.same[p] = self.rows.flat(first)
            return
        if not isinstance(p.type, Scalar):
            raise NoRows
        out = self.rows.all_of(first)
        for m, v in args[:-1]:
            assert m is not None
            out = self.b.select(m, self.rows.all_of(v), out)
        self.rows.rows[p] = out

    def _leave(self, block: Block) -> None:
        term, m, mass = block.term, self.masks[block], self.mass[block]
        assert term is not None
        if term.name == "jump":
            return self._edge(term.edges[0], mass, m)
        if term.name == "branch" and term.operands[0] in self.decided:
            return self._edge(term.edges[self.decided[term.operands[0]]], mass, m)
        if term.name == "branch":
            c = self.rows.all_of(term.operands[0])
            sides = [c, self.b.not_(c)]
        elif term.name == "switch":
            sides = self._cases(self.rows.all_of(term.operands[0]), len(term.edges))
        else:
            raise NoRows
        for edge, taken in zip(term.edges, sides):
            self._edge(edge, mass / len(sides), taken if m is None else self.b.and_(m, taken))

    def _cases(self, selector: Value, n: int) -> list[Value]:
        """The masks of the elements that take edge 0, 1, … of a switch; the last edge takes all others."""
        sides = [self.b.eq(selector, k) for k in range(n - 1)]
        rest = self.b.not_(sides[0])
        for side in sides[1:]:
            rest = self.b.and_(rest, self.b.not_(side))
        return [*sides, rest]

    def _edge(self, edge: Edge, mass: Fraction, m: Mask) -> None:
        if edge.block not in self.loop.blocks:               # a block that raises
            raise NoRows
        self.incoming.setdefault(edge.block, []).append((mass, m, list(edge.args)))

    # --- inner loops --------------------------------------------------------------------------------

    def _inner(self, loop: Loop) -> None:
        """Emit an inner loop, which repeats while any element is active; inactive elements keep their values."""
        b, rows, incoming = self.b, self.rows, self.incoming.get(loop.head, [])
        if loop.exit is None or loop.latch is None or len(incoming) != 1:
            raise NoRows
        mass, m, args = incoming[0]
        back = self._back(loop, args)                        # of the reverse sweep: the frames that each element has
        flat = self._alike(loop, args) if back is None else {k for k, p in enumerate(loop.head.params) if p in back}
        flat |= {k for k, p in enumerate(loop.head.params) if isinstance(p.type, Stack)}
        first = [rows.flat(v) if k in flat else rows.all_of(v) for k, v in enumerate(args)]
        if back is not None:
            ((count, trips),) = back.items()
            first[count.index] = b.emit("max", trips, axes=(0,))
        if m is None:
            self.whole.add(loop)
        body = self.func.new_block(loop.head.name)
        enter, skip = self._enter(body, first, m)
        states = [body.add_param(v.type) for v in first]
        active = inside = body.add_param(Array(BOOL, (LANES,)), "active")
        b.at(body)
        for k, (p, state) in enumerate(zip(loop.head.params, states)):
            (rows.same if k in flat else rows.rows)[p] = state
        if back is not None:
            active = b.and_(inside, b.ge(trips, states[count.index]))
        self.mass[loop.head], self.masks[loop.head] = Fraction(1), active
        self._blocks(loop)
        if self.mass[loop.latch] != 1:
            raise NoRows
        following = [states[k] if p in (back or ()) else rows.flat(v) if k in flat else
                     b.select(active, rows.all_of(v), states[k])
                     for k, (p, v) in enumerate(zip(loop.head.params, loop.back_edge().args))]
        if back is None:
            inside = b.and_(active, self._repeats(loop))
            more = b.emit("any", inside, axes=(0,))
        else:
            following[count.index] = b.sub(states[count.index], 1)
            more = b.gt(following[count.index], 0)
        following.append(inside)
        left = self._results(loop, body, enter, active, following)
        b.branch(more, body, following, self.func.new_block("exit"), list(left.values()))
        self._behind(body, skip, left)
        for v in loop.exit_edge().args:
            if v.block in loop.blocks and v not in left:
                rows.same[v] = b.undef(v.type) if v.undefined else b.again(rows.flat(v))
        self._note_frames(loop, args)
        self._edge(loop.exit_edge(), mass, m)

    def _enter(self, body: Block, first: list[Value], m: Mask) -> tuple[Block, Block | None]:
        """Enter the inner loop, if any element is active; returns the block ahead of it, and the one that skips it."""
        b = self.b
        if m is None:
            before = b.block
            b.jump(body, [*first, b.broadcast_to(b.const(True), self.rows.length)])
            return before, None
        enter, skip = self.func.new_block("preheader"), self.func.new_block("skip")
        b.branch(b.emit("any", m, axes=(0,)), enter, [], skip, [])
        b.at(enter)
        b.jump(body, [*first, m])
        return enter, skip

    def _results(self, loop: Loop, body: Block, enter: Block, active: Value, following: list[Value]
                 ) -> dict[Value, Value]:
        """The results of an inner loop, as each element has left it: values that the loop carries.

        What it does not carry yet is carried as well, and added to ``following``.
        """
        rows, found = self.rows, dict[Value, Value]()
        carried = {rows.rows[v]: now for v, now in zip(loop.back_edge().args, following) if v in rows.rows}
        for v in dict.fromkeys(v for v in loop.exit_edge().args if v.block in loop.blocks):
            if isinstance(v.type, Stack):
                found[v] = rows.flat(v)
                continue
            if v not in rows.rows and (rows.flat(v).const is not None or v.undefined):
                continue                                         # the same for all, whenever they leave
            now = rows.all_of(v)
            if now not in carried:
                assert enter.term is not None
                enter.term.edges[0].args.append(_zeros(enter, now))
                carried[now] = self.b.select(active, now, body.add_param(now.type))
                following.append(carried[now])
            found[v] = carried[now]
        return found

    def _behind(self, body: Block, skip: Block | None, left: dict[Value, Value]) -> None:
        """Place the builder behind an inner loop, with its results: elements that skip it read none."""
        b = self.b
        assert body.term is not None
        after = body.term.edges[1].block
        results = [after.add_param(state.type) for state in left.values()]
        if skip is not None:
            joined = self.func.new_block("after")
            b.at(after)
            b.jump(joined, results)
            results = [joined.add_param(v.type) for v in results]
            b.at(skip)
            b.jump(joined, [_zeros(skip, state) for state in left.values()])
            after = joined
        for v, result in zip(left, results):
            (self.rows.same if isinstance(v.type, Stack) else self.rows.rows)[v] = result
        b.at(after)

    # --- frames of the reverse sweep ------------------------------------------------------------------

    def _note_frames(self, loop: Loop, args: list[Value]) -> None:
        """Note how many frames each element has on a stack that a loop makes: one for each of its iterations.

        A parameter counts these from 0, and its last value leaves the loop.
        """
        again = loop.back_edge().args
        pushed = {op.result for block in loop.blocks for op in block.ops if op.name == "push"}
        counts = [self.rows.rows[v] for p, first, v in zip(loop.head.params, args, again)
                  if first.const == 0 and _is_next(v, p) and v in self.rows.rows and v in loop.exit_edge().args]
        for p, first, v in zip(loop.head.params, args, again):
            if {v} == pushed and v.op is not None and v.op.operands[0] is p and v in loop.exit_edge().args and \
                    first.op is not None and first.op.name == "stack_empty":
                self.frames[self.rows.flat(v)] = counts

    def _back(self, loop: Loop, args: list[Value]) -> dict[Value, Value] | None:
        """The counter of a loop that pops the frames of each element, and how many these are; None for other loops.

        An element waits until the frames are popped that only others have.  So the counter may not be read.
        """
        pops = [op for block in loop.blocks for op in block.ops if op.name == "pop"]
        if not pops:
            return None
        known, (pop, *others), left = counted(loop), pops, loop.exit_edge().args
        if known is None or others or pop.attrs.get("zeros") or pop.operands[0].owner is not loop.head or \
                loop.back_edge().args[pop.operands[0].index] is not pop.results[0]:
            raise NoRows
        assert loop.latch is not None and loop.latch.term is not None
        term, used = loop.latch.term, users(ops_of(loop.blocks))
        test, trips = term.operands[0].op, self.rows.rows.get(known.trip)
        assert test is not None
        frames = self.frames.get(self.rows.flat(args[pop.operands[0].index]), ())
        if used[known.iv] != [known.next.op] or {*used[known.next]} != {test, term} or used[test.result] != [term] or \
                known.next in left or pop.results[0] in left or not any(trips is found for found in frames):
            raise NoRows
        assert known.next.op is not None and trips is not None
        self.skipped |= {known.next.op, test}
        return {known.iv: trips}

    def _alike(self, loop: Loop, args: list[Value]) -> set[int]:
        """The parameters that count, by the same steps from the same start, and do not leave the loop."""
        again, leaving, found = loop.back_edge().args, loop.exit_edge().args, set[int]()
        for k, (p, first, v) in enumerate(zip(loop.head.params, args, again)):
            while (merged := {x for x in self.forest.dom.arguments(v) if x is not None and not x.undefined}
                   if v.op is None and v.block in loop.blocks and v.block is not loop.head else set()):
                if len(merged) > 1:
                    break
                (v,) = merged
            op = v.op
            if p.type == I64 and first not in self.rows.rows and again[k] not in leaving and op is not None and \
                    op.name == "add" and op.operands[0] is p and op.operands[1].const is not None:
                found.add(k)
        return found

    def _repeats(self, loop: Loop) -> Value:
        """The mask of the elements for which the latch goes back to the head."""
        assert loop.latch is not None and loop.latch.term is not None
        c = self.rows.all_of(loop.latch.term.operands[0])
        return c if loop.latch.term.edges[0].block is loop.head else self.b.not_(c)


def _is_next(v: Value, p: Value) -> bool:
    """True if ``v`` is one more than ``p``."""
    return p.type == I64 and v.op is not None and v.op.name == "add" and v.op.operands[0] is p and \
        v.op.operands[1].const == 1


def _zeros(block: Block, like: Value) -> Value:
    """Emit zeros at the end of a block, of the type of the rows ``like``, or an empty stack."""
    b = Builder(block)
    if isinstance(like.type, Stack):
        return b.stack_empty()
    return b.broadcast_to(b.const(0, dtype_of(like.type)), b.const(LANES))
