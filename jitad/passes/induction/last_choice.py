"""The last choice: a value that a loop chooses among its iterations is computed again from the iteration it came from.

::

    ^loop(i, best):                              ^loop(i, best, last):             last begins as −1
      d = f(i)                                     d = f(i)
      c = lt d, best                               c = lt d, best
      next = select c, d, best       becomes       next = select c, d, best
      …                                            it = select c, i, last
      branch …, ^loop(j, next), ^exit(next)        branch …, ^loop(j, next, it), ^exit(it)
    ^exit(nearest):                              ^exit(it):
                                                   branch it < 0, ^go(best at entry), ^chosen
                                                 ^chosen:
                                                   again = f(it)
                                                   jump ^go(again)
                                                 ^go(nearest):

The derivative of the loop is that of one iteration.  Reverse mode would look for this iteration in a loop of its own,
and the forward sweep would save for it which way each comparison went.  So this runs before differentiation, and only
for functions that are differentiated.  The nearest of eight centres takes half of the time with its gradient.

The iteration has computed the same before, so its loads are in bounds and nothing raises.  If every iteration computes
it, and if its partial derivatives are finite, the first iteration is taken in place of none, and the result selected:
loops around it may then run in lanes (``outer_loop``).

Notation: a *choice* is a carried float that is replaced as a whole or kept; its *links* are the values that are either
the old or the new one on the way to the back edge.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, Scalar, is_float_scalar
from ...ir.uses import EDGE, ops_of, uses
from ..analysis.cfg import substitute
from ..analysis.loops import Counted, Loop, counted, loop_forest

LONGEST = 64
"""The most ops that are computed again, and the most values that are looked at for links."""
COMPARISONS = frozenset("lt le gt ge eq ne".split())
SMOOTH = frozenset("add sub mul neg get cast const".split())
"""Ops whose partial derivatives are finite numbers for finite operands."""

Uses = dict[Value, list[tuple[Op, int]]]


def last_choice(module: Module) -> bool:
    """Rewrite the choices of every innermost loop; expects normal form.  Returns True if there were any."""
    changed = False
    for func in module.functions.values() if module.derived else ():
        forest = loop_forest(func)
        left = forest.open_loops()
        mapping: dict[Value, Value] = {}
        for loop in forest.loops:
            known = counted(loop)
            if known is None or loop.children or loop in left or loop.exit is None \
                    or len(forest.dom.preds[loop.exit]) != 1:
                continue
            for choice in _choices(loop, known, forest.dom):
                mapping |= choice.rewrite(func)
                changed = True
        substitute(func, mapping)
    return changed


def _choices(loop: Loop, known: Counted, dom: Dominators) -> list[_Choice]:
    """The choices of a loop; none if it carries anything else that may have a derivative."""
    others = [p for p in loop.head.params if not (isinstance(p.type, Scalar) and not p.type.is_float)]
    if not others or not all(isinstance(p.type, Scalar) for p in others) or \
            any(b.term is None or b.term.name not in ("jump", "branch") for b in loop.blocks):
        return []
    used = uses(ops_of(loop.blocks))
    found = [_Choice(loop, known, dom, used, p) for p in others]
    return found if all(choice.holds() for choice in found) else []


class _Choice:
    """One choice, ``p``; ``new``: what replaces it; ``slice``: the ops of an iteration that compute ``new``."""

    new: Value
    slice: list[Op]

    def __init__(self, loop: Loop, known: Counted, dom: Dominators, used: Uses, p: Value) -> None:
        self.loop, self.known, self.dom, self.used, self.p = loop, known, dom, used, p
        self.following = loop.back_edge().args[p.index]
        self.links: dict[Value, bool] = {p: True}
        self.left = LONGEST                              # values to be looked at
        self.numbers: dict[Value, Value] = {}

    # --- analysis -------------------------------------------------------------------------------------

    def holds(self) -> bool:
        """True if ``p`` is a choice, read by comparisons alone, of a value that depends on the counter alone."""
        if self.following is self.p or not self._is_link(self.following) or self.left < 0:
            return False
        links = [v for v, is_link in self.links.items() if is_link]
        leaves = [v for v, is_link in self.links.items() if not is_link]
        if len(leaves) != 1 or not all(map(self._only_compared, links)):
            return False
        self.new = leaves[0]
        found = self._slice()
        self.slice = found or []
        return bool(found)

    def _is_link(self, v: Value) -> bool:
        """True if ``v`` may be the old value; enters it, and what it may be, in ``links``."""
        known = self.links.get(v)
        if known is None:
            self.left -= 1
            if self.left < 0:                            # there are too many, and ``holds`` is False
                return False
            found = [self._is_link(o) for o in self._alternatives(v)]
            known = self.links[v] = any(found)
            if not known:                                # what a new value is chosen from does not matter
                for o in self._alternatives(v):
                    self.links.pop(o, None)
        return known

    def _alternatives(self, v: Value) -> list[Value]:
        """The values of which ``v`` is one: the operands of a selection, or the arguments of a block's parameter."""
        if v.block not in self.loop.blocks or v.block is self.loop.head and v.op is None:
            return []
        if v.op is not None:
            return v.op.operands[1:] if v.op.name == "select" else []
        return [a for a in self.dom.arguments(v) if a is not None]

    def _only_compared(self, v: Value) -> bool:
        for op, i in self.used.get(v, ()):
            if i == EDGE:
                if not all(self.links.get(q) or e.block is self.loop.exit and v is self.following
                           for e in op.edges for q, a in e.passed() if a is v):
                    return False
            elif op.name not in COMPARISONS and not (op.name == "select" and i > 0 and self.links.get(op.result)):
                return False
        return True

    def _slice(self) -> list[Op] | None:
        """The ops that compute ``new`` from the counter, in order; None if it needs more than that."""
        found: dict[Op, None] = {}
        todo = [self.new]
        while todo:
            v = todo.pop()
            if v.block not in self.loop.blocks or v is self.known.iv:
                continue
            op = v.op
            if op is None or OPS[op.name].effect or OPS[op.name].consumes or len(op.results) != 1 \
                    or not isinstance(v.type, Scalar) or len(found) > LONGEST:
                return None
            if op.name == "get" and self._is_made_again(op.operands[0]):
                return None
            if op not in found:
                found[op] = None
                todo += op.operands
        return [op for b in self.dom.in_order(self.loop.blocks) for op in b.ops if op in found]

    def _is_made_again(self, array: Value) -> bool:
        """True if each iteration of the loop around this one has its own array, scratch that it does not carry.

        Its cotangent would be scattered into, at an index that depends on data, and not stay in lanes or registers.
        """
        around = self.loop.parent
        return around is not None and array.block in around.blocks and array.owner is not around.head

    # --- rewriting ------------------------------------------------------------------------------------

    def rewrite(self, func: Function) -> dict[Value, Value]:
        """Carry the number of the chosen iteration; returns what takes the place of the results behind the loop."""
        loop, exit = self.loop, self.loop.exit
        assert exit is not None and loop.preheader is not None and loop.latch is not None
        results = [q for q, a in loop.exit_edge().passed() if a is self.following]
        start = loop.entry_edge().args[self.p.index]
        self.numbers[self.p] = loop.head.add_param(I64, "last")
        loop.entry_edge().args.append(_ahead(loop.preheader, -1))
        number = self._number(self.following)
        loop.back_edge().args.append(number)
        last = exit.add_param(I64, "last")
        loop.exit_edge().args.append(number)
        always = self.dom.dominates(self.new.block, loop.latch) and all(op.name in SMOOTH for op in self.slice)
        final = self._selected(exit, last, start) if always else self._branched(func, exit, last, start)
        return dict.fromkeys(results, final)

    def _number(self, v: Value) -> Value:
        """The number of the iteration from which ``v`` comes."""
        if v not in self.numbers:
            if not self.links[v]:
                self.numbers[v] = self.known.iv
            elif v.op is not None:
                c, x, y = v.op.operands
                number = Op("select", [c, self._number(x), self._number(y)], [I64], loc=v.op.loc)
                v.block.ops.insert(v.block.ops.index(v.op) + 1, number)
                number.block, self.numbers[v] = v.block, number.result
            else:
                edges = [(edge, self._number(a)) for edge in self.dom.incoming(v.block)
                         if (a := edge.argument(v)) is not None]
                self.numbers[v] = v.block.add_param(I64, "last")
                for edge, number_there in edges:
                    edge.args.append(number_there)
        return self.numbers[v]

    def _again(self, b: Builder, number: Value, none: Value | None = None) -> Value:
        """The chosen value, computed at the end of a block.

        ``none``: true if there is none.  It is then computed of ones, so that no derivative is a product of its
        cotangent, a zero, with an infinite number.
        """
        values = {self.known.iv: number}

        def enter(v: Value, value: Value) -> None:
            if none is not None and is_float_scalar(v.type) and v.const is None:
                values[v] = b.select(none, b.const(1.0, v.type), value)
        for v in dict.fromkeys(v for op in self.slice for v in op.operands if v.block not in self.loop.blocks):
            enter(v, v)
        for op in self.slice:
            copy = clone_op(op, values)
            copy.block = b.block
            b.block.ops.append(copy)
            if op.name == "get":
                enter(op.result, copy.result)
        return values.get(self.new, self.new)

    def _selected(self, exit: Block, last: Value, start: Value) -> Value:
        ops, term, exit.ops, exit.term = exit.ops, exit.term, [], None
        b = Builder(exit, self.slice[-1].loc)
        zero = b.const(0)
        none = b.lt(last, zero)
        final = b.select(none, start, self._again(b, b.maximum(last, zero), none))
        exit.ops += ops
        exit.term = term
        return final

    def _branched(self, func: Function, exit: Block, last: Value, start: Value) -> Value:
        chosen, go = func.new_block("chosen"), func.new_block("go")
        final = go.add_param(self.p.type, self.p.hint)
        go.ops, go.term, exit.ops, exit.term = exit.ops, exit.term, [], None
        for op in go.all_ops():
            op.block = go
        b = Builder(exit, self.slice[-1].loc)
        b.branch(b.lt(last, b.const(0)), go, [start], chosen, [])
        b = Builder(chosen, self.slice[-1].loc)
        b.jump(go, [self._again(b, last)])
        return final


def _ahead(preheader: Block, value: int) -> Value:
    """A constant at the end of a block that is complete."""
    term, preheader.term = preheader.term, None
    constant = Builder(preheader).const(value)
    preheader.term = term
    return constant
