"""Predication (if-conversion): elements of a loop execute together under a mask, with inner loops of unknown length.

``for i: out[i] = f(x[i])`` with a ``while`` in ``f`` computes one element at a time, and functions such as ``sin`` take
one argument at a time.  This pass strip-mines the loop into chunks of ``CHUNK`` elements that execute together:

* A scalar becomes an array, with an element for each element of the chunk.
* A condition becomes an *active mask*, a bool for each element.  Both sides of a branch are executed.  Where they join,
  each element selects the value of its own side.
* An inner loop repeats while any element is active.  Elements that have left it keep their values.
* Sums are added up after each chunk, in order.
* A check that the counter is below a size is tested once for each chunk.
* What inner loops count, from the same start, is one number for all active elements: ``z[i, t]`` is part of a column.
* A branch ahead of an inner loop whose condition does not change, as ``0 < steps``, is decided ahead of the loop, which
  stays for the other side, if what follows cannot be masked.

Inactive elements still cost their part of each iteration.  So the last few active elements of a chunk continue one by
one (``predicate_tail``).

The pass applies to loops whose inner loops call functions with vector versions, so that an iteration is expensive.
Ops that must not execute for inactive elements (other reads at an index, checks, calls) may not occur under a mask.
Only scalars may be carried by inner loops, or merged where paths join.
"""

from __future__ import annotations

from fractions import Fraction

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import BOOL, I64, Array, Scalar
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest
from .batch import add_up, store, stores_of, sums_of
from .batch_rules import NoRows, Rows
from .fission import VECTOR_FUNCTIONS
from .predicate_tail import finish

CHUNK = 32
"""The number of elements in a chunk: enough to keep the vector units busy."""
FEW = 8
"""With fewer active elements than this, one by one is as fast."""

Mask = Value | None                       # a bool for each element; ``None``: all are active


def predicate(module: Module) -> None:
    """Predicate every such loop; expects normal form: loops are rotated, closed, and have a preheader."""
    for func in module.functions.values():
        if any(op.name in VECTOR_FUNCTIONS for op in func.all_ops()):
            forest = loop_forest(func)
            for loop in forest.loops:
                known = counted(loop)
                if known is not None and known.iv.index == 0 and _pays(loop):
                    _in_chunks(func, forest, loop, known)


def _pays(loop: Loop) -> bool:
    """True if the loop has inner loops, all innermost, and one of them calls a function with a vector version."""
    inner = loop.children
    return (not any(c.children for c in inner)
            and any(op.name in VECTOR_FUNCTIONS for c in inner for b in c.blocks for op in b.ops))


def _in_chunks(func: Function, forest: LoopForest, loop: Loop, known: Counted) -> None:
    """Replace the loop by a loop over chunks, if each of its ops can be predicated."""
    sums = sums_of(loop)
    stores = stores_of(loop, set(sums.values()))
    if stores is None or loop.exit is None or loop.preheader is None or loop.preheader.term is None:
        return
    assumed = _decided(forest, loop)
    for decided in ({}, assumed) if assumed else ({},):      # with masks alone, no other side is left to the loop
        count = len(func.blocks)
        try:
            chunks = _Chunks(func, forest, loop, known, stores, sums, decided)
            leaving = chunks.run()
        except NoRows:
            del func.blocks[count:]
            continue
        if decided:
            return _version(func, loop, chunks.head, leaving, decided)
        loop.preheader.term.edges = [Edge(chunks.head, list(loop.preheader.term.edges[0].args))]
        func.blocks = [b for b in func.blocks if b not in loop.blocks]
        return


def _decided(forest: LoopForest, loop: Loop) -> dict[Value, int]:
    """The conditions that do not change in the loop, and the number of the edge that leads to an inner loop."""
    found: dict[Value, int] = {}
    for block in loop.blocks:
        term = block.term
        if term is not None and term.name == "branch" and forest.innermost[block] is loop and \
                (condition := term.operands[0]).block not in loop.blocks:
            sides = [k for k, edge in enumerate(term.edges) if edge.block in loop.blocks and any(
                forest.dom.dominates(edge.block, inner.head) for inner in loop.children)]
            if len(sides) == 1 and found.setdefault(condition, sides[0]) != sides[0]:
                return {}
    return found


def _version(func: Function, loop: Loop, chunks: Block, leaving: Edge, decided: dict[Value, int]) -> None:
    """Enter the chunks if all conditions hold that were assumed, else the loop; both have an exit of their own."""
    before, behind = loop.preheader, loop.exit
    assert before is not None and before.term is not None and behind is not None
    enter, args, b = before.term, before.term.edges[0].args, Builder(before, before.term.loc)
    before.term = None
    holds = b.const(True)
    for condition, side in decided.items():
        holds = b.and_(holds, b.not_(condition) if side else condition)
    starts = [func.new_block("preheader"), func.new_block("preheader")]
    b.branch(holds, starts[0], [], starts[1], [])
    for block, head in zip(starts, (chunks, loop.head)):
        b.at(block)
        b.loc = enter.loc
        b.jump(head, list(args))
    for edge in (leaving, loop.exit_edge()):
        left = func.new_block("exit")
        b.at(left)
        b.jump(behind, [left.add_param(v.type, v.hint) for v in behind.params])
        edge.block = left


class _Chunks:
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
        start, test = b.mul(self.it, CHUNK), loop.latch.term.operands[0]
        length = b.minimum(b.sub(known.trip, start), CHUNK)
        bound = {*loop.head.params, known.next, test, *(op.result for op in (*stores, *self.sums))}
        self.rows = Rows(b, known.iv, start, length, bound)
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
        self._blocks(loop)
        if self.sums:
            self.new |= add_up(self.rows, self.sums, self.terms, self.params)
        leaving = [self._outside(v) for v in loop.exit_edge().args]
        again = [b.add(self.it, 1), *(self.new[v] for v in loop.back_edge().args[1:])]
        before = Builder(loop.preheader, loop.preheader.term.loc)
        count = before.floordiv(before.add(self.known.trip, CHUNK - 1), CHUNK)
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
            not any(v in self.rows.rows or v in self.rows.bound and v is not self.known.iv for v in op.operands)

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
        again, leaving = loop.back_edge().args, loop.exit_edge().args
        made = [v for v in dict.fromkeys(leaving) if v.block in loop.blocks]
        extra = [v for v in made if v not in again]          # results that are not carried yet are carried as well
        carried = [*again, *extra]
        alike = self._alike(loop, args)                      # counters; all others have rows
        first = [self.rows.flat(v) if k in alike else self.rows.all_of(v) for k, v in enumerate(args)]
        first += [self._zeros(v) for v in extra]
        if m is None:
            self.whole.add(loop)
        body = self.func.new_block(loop.head.name)
        after = self._enter(loop, body, first, m, [carried.index(v) for v in made])
        states = [body.add_param(v.type) for v in first]
        active = body.add_param(Array(BOOL, (None,)), "active")
        b.at(body)
        for k, (p, state) in enumerate(zip(loop.head.params, states)):
            (self.rows.same if k in alike else self.rows.rows)[p] = state
        self.mass[loop.head], self.masks[loop.head] = Fraction(1), active
        self._blocks(loop)
        if self.mass[loop.latch] != 1:
            raise NoRows
        following = [self.rows.flat(v) if k in alike else b.select(active, self.rows.all_of(v), old)
                     for k, (v, old) in enumerate(zip(carried, states))]
        more = b.and_(active, self._repeats(loop))
        many = b.ge(b.emit("sum", b.cast(more, dtype=I64), axes=(0,)), FEW)
        rest = self.func.new_block("rest")
        b.branch(many, body, [*following, more], rest, [*following, more])
        left = [rest.add_param(v.type) for v in following]
        waiting = rest.add_param(more.type, "active")
        b.at(rest)
        self._rest(loop, left, waiting, made, [left[carried.index(v)] for v in made], after[0])
        b.at(after[-1])
        self.rows.rows |= dict(zip(made, after[-1].params))
        self._edge(loop.exit_edge(), mass, m)

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

    def _rest(self, loop: Loop, states: list[Value], active: Value, made: list[Value], results: list[Value],
              after: Block) -> None:
        """Emit the code after the loop, for when few elements are active: they continue one by one."""
        b, some, none = self.b, self.func.new_block("some"), self.func.new_block("none")
        b.branch(b.emit("any", active, axes=(0,)), some, [], none, [])
        b.at(none)
        b.jump(after, results)
        b.at(some)
        blocks = [x for x in self.order if x in loop.blocks]
        finish(self.rows, loop, blocks, states[:len(loop.head.params)], active, made, results, after)

    def _zeros(self, v: Value) -> Value:
        if not isinstance(v.type, Scalar):
            raise NoRows
        return self.b.broadcast_to(self.b.const(0, v.type), self.rows.length)

    def _enter(self, loop: Loop, body: Block, first: list[Value], m: Mask, kept: list[int]) -> list[Block]:
        """Enter the inner loop, if any element is active.

        Returns the block to which the loop leaves, and the block where both paths join, if that is another.
        """
        b, types = self.b, [first[k].type for k in kept]
        left = self.func.new_block("exit")
        results = [left.add_param(t) for t in types]
        if m is None:
            b.jump(body, [*first, b.broadcast_to(b.const(True), self.rows.length)])
            return [left]
        enter, skip, after = (self.func.new_block(n) for n in ("preheader", "skip", "after"))
        for t in types:
            after.add_param(t)
        b.branch(b.emit("any", m, axes=(0,)), enter, [], skip, [])
        b.at(enter)
        b.jump(body, [*first, m])
        b.at(skip)
        b.jump(after, [first[k] for k in kept])
        b.at(left)
        b.jump(after, results)
        return [left, after]

    def _repeats(self, loop: Loop) -> Value:
        """The mask of the elements for which the latch goes back to the head."""
        assert loop.latch is not None and loop.latch.term is not None
        c = self.rows.all_of(loop.latch.term.operands[0])
        return c if loop.latch.term.edges[0].block is loop.head else self.b.not_(c)


def _is_undef(v: Value) -> bool:
    return v.op is not None and v.op.name == "undef"
