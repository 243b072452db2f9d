"""The loop over chunks of ``predicate``: the blocks of a loop for ``LANES`` elements together, under active masks."""

from __future__ import annotations

from fractions import Fraction

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.ops import OPS
from ...ir.types import BOOL, I64, Array, Scalar, dtype_of
from ..analysis.cost import LANES
from ..analysis.loops import Counted, Loop, LoopForest, counted
from .batch import add_up_all, store
from .batch_rules import NoRows, Rows

Mask = Value | None                       # a bool for each element; ``None``: all are active


class MaskedChunks:
    """Emits the body of a loop for a chunk: blocks in order, each with its active mask.

    ``mass``: the fraction of elements that enter a block, if each edge of a branch takes an equal share.  A block with
    the mass of its dominator is reached by all elements that reach the dominator.
    ``incoming``: the edges to a block so far, each with mass, mask and arguments.
    """

    def __init__(self, func: Function, forest: LoopForest, loop: Loop, known: Counted, stores: set[Op],
                 sums: dict[Op, Value], decided: dict[Value, int]) -> None:
        self.func, self.forest, self.loop, self.known, self.stores = func, forest, loop, known, stores
        self.sums, self.decided = sums, decided
        self.whole: set[Loop] = set()                  # the inner loops that all elements enter
        self.terms: dict[Op, Value] = {}               # addition → rows of its terms
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
        bound = {*loop.head.params, known.next, test, *(op.result for op in (*stores, *self.sums))}
        self.rows = Rows(b, known.iv, start, b.const(LANES), bound)
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
        if self.sums:
            self.new |= add_up_all(b, self.sums, self.terms, self.params, LANES, self.done)
        leaving = [self._outside(v) for v in loop.exit_edge().args]
        again = [b.add(self.it, 1), *(self.new[v] for v in loop.back_edge().args[1:])]
        before = Builder(loop.preheader, loop.preheader.term.loc)
        count = before.floordiv(before.add(self.known.trip, LANES - 1), LANES)
        end = b.block
        b.branch(b.lt(again[0], count), self.head, again, loop.exit, leaving)
        assert end.term is not None
        return end.term.edges[1]

    def _outside(self, v: Value) -> Value:
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
                self.new[op.result] = store(self.rows, op, self.params[op.operands[0]])
            elif op in self.sums and all_active:
                self.terms[op] = self.rows.all_of(op.operands[op.operands[0] is self.sums[op]])
            elif all_active and self._is_bounds_check(op):
                if op.name == "check" and op not in self.checked:
                    self._check_all()
            elif op.name == "check" and self.checked:
                raise NoRows                             # its order with the earlier checks would change
            elif all_active or OPS[op.name].elementwise or op.name in ("const", "undef") or self._is_column(op, block):
                self.rows.add(op)
            else:
                raise NoRows

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
        return isinstance(op.result.type, Scalar) and op.operands[0].block not in self.loop.blocks and \
            op.operands.count(self.known.iv) <= 1 and \
            not any(v in self.rows.rows or v in self.rows.bound for v in op.operands if v is not self.known.iv)

    def _is_bounds_check(self, op: Op) -> bool:
        """True if ``op`` is part of a check that the counter is below a size."""
        if op.name == "check":
            found = op.operands[0].op
            return found is not None and self._compares(found)
        return self._compares(op) and all(u.name == "check" for b in self.order for u in b.all_ops()
                                          if op.result in u.used())

    def _compares(self, op: Op) -> bool:
        return op.name == "lt" and op.operands[0] is self.known.iv and op.operands[1].block not in self.loop.blocks

    def _check_all(self) -> None:
        """Emit the checks of a chunk: it must end below every size.

        If it does not, the first element out of bounds has the size as its index.  Of several sizes, the least fails
        first; of equal ones, that of the first check.
        """
        b = self.b
        self.checked = [op for block in self.order if self.forest.innermost[block] is self.loop for op in block.ops
                        if op.name == "check" and self._is_bounds_check(op)]
        sizes = [op.operands[0].op.operands[1] for op in self.checked if op.operands[0].op is not None]
        for k, (op, size) in enumerate(zip(self.checked, sizes)):
            with b.located(op.loc):
                holds = b.le(b.add(self.rows.start, self.rows.length), size)
                for other in dict.fromkeys(sizes[k + 1:]):
                    holds = b.or_(holds, b.lt(other, size)) if other is not size else holds
                b.emit_op("check", [holds, *(size if v is self.known.iv else self._outside(v)
                                             for v in op.operands[1:])], **op.attrs)

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
            args = [(m, args[i]) for _, m, args in incoming if not _is_undef(args[i])] or [(None, incoming[0][2][i])]
            self._set_param(p, args)

    def _either(self, masks: list[Mask]) -> Mask:
        out = masks[0]
        for m in masks[1:]:
            out = None if out is None or m is None else self.b.or_(out, m)
        return out

    def _set_param(self, p: Value, args: list[tuple[Mask, Value]]) -> None:
        """Set a parameter: each element selects the argument of the edge that it takes."""
        first = args[-1][1]
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
        b, incoming = self.b, self.incoming.get(loop.head, [])
        if loop.exit is None or loop.latch is None or len(incoming) != 1 or any(
                not isinstance(p.type, Scalar) for p in loop.head.params):
            raise NoRows
        mass, m, args = incoming[0]
        alike = self._alike(loop, args)                      # counters; all others have rows
        first = [self.rows.flat(v) if k in alike else self.rows.all_of(v) for k, v in enumerate(args)]
        if m is None:
            self.whole.add(loop)
        body = self.func.new_block(loop.head.name)
        enter, skip = self._enter(body, first, m)
        states = [body.add_param(v.type) for v in first]
        active = body.add_param(Array(BOOL, (LANES,)), "active")
        b.at(body)
        for k, (p, state) in enumerate(zip(loop.head.params, states)):
            (self.rows.same if k in alike else self.rows.rows)[p] = state
        self.mass[loop.head], self.masks[loop.head] = Fraction(1), active
        self._blocks(loop)
        if self.mass[loop.latch] != 1:
            raise NoRows
        following = [self.rows.flat(v) if k in alike else b.select(active, self.rows.all_of(v), old)
                     for k, (v, old) in enumerate(zip(loop.back_edge().args, states))]
        more = b.and_(active, self._repeats(loop))
        following.append(more)
        left = self._results(loop, body, enter, active, following)
        b.branch(b.emit("any", more, axes=(0,)), body, following, self.func.new_block("exit"), list(left.values()))
        self._behind(body, skip, left)
        for v in loop.exit_edge().args:
            if v.block in loop.blocks and v not in left:
                self.rows.same[v] = b.undef(v.type) if _is_undef(v) else b.again(self.rows.flat(v))
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
            if not isinstance(v.type, Scalar):
                raise NoRows
            if v not in rows.rows and (rows.flat(v).const is not None or _is_undef(v)):
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
        b, rows = self.b, self.rows.rows
        assert body.term is not None
        after = body.term.edges[1].block
        rows |= {v: after.add_param(state.type) for v, state in left.items()}
        if skip is not None:
            joined = self.func.new_block("after")
            b.at(after)
            b.jump(joined, [rows[v] for v in left])
            rows |= {v: joined.add_param(state.type) for v, state in left.items()}
            b.at(skip)
            b.jump(joined, [_zeros(skip, state) for state in left.values()])
            after = joined
        b.at(after)

    def _alike(self, loop: Loop, args: list[Value]) -> set[int]:
        """The parameters that count, by the same steps from the same start, and do not leave the loop."""
        again, leaving, found = loop.back_edge().args, loop.exit_edge().args, set[int]()
        for k, (p, first, v) in enumerate(zip(loop.head.params, args, again)):
            while (merged := {x for x in self.forest.dom.arguments(v) if x is not None and not _is_undef(x)}
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


def _is_undef(v: Value) -> bool:
    return v.op is not None and v.op.name == "undef"


def _zeros(block: Block, like: Value) -> Value:
    """Emit zeros at the end of a block, of the type of the rows ``like``."""
    b = Builder(block)
    return b.broadcast_to(b.const(0, dtype_of(like.type)), b.const(LANES))
