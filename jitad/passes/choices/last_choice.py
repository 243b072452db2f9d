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

The iteration has computed the same before, so its loads are in bounds and nothing raises (``chosen_iteration``).  If
every iteration computes it without control flow, and if its partial derivatives are finite, the first iteration is
taken in place of none, and the result selected: loops around it may then run in lanes (``outer_loop``).

Loops that data end, and loops around those whose choices have been rewritten, carry more than the number of an
iteration (``choice_sources``).

Notation: a *choice* is a carried float that is replaced as a whole or kept; its *links* are the values that are either
the old or the new one on the way to the back edge.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import COMPARISONS
from ...ir.types import I64, Scalar, is_float_scalar
from ...ir.uses import EDGE, ops_of, uses
from ..analysis.cfg import substitute
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest
from .choice_sources import Sources
from .chosen_iteration import LONGEST, ChosenIteration, copy_op
from .undefined_arguments import merge_undefined

SMOOTH = frozenset("add sub mul neg get cast const".split())
"""Ops whose partial derivatives are finite numbers for finite operands."""

Uses = dict[Value, list[tuple[Op, int]]]


def last_choice(module: Module, indirect: bool = False) -> bool:
    """Rewrite the choices of every loop, inner loops first; expects normal form.  Returns True if any was made.

    With ``indirect`` only those that read elements at indices which are elements themselves.
    """
    changed = False
    for func in module.functions.values() if module.derived else ():
        around = _rewrite(func, indirect, None)
        while around:
            changed = True
            if not indirect:
                merge_undefined(func)
            around = _rewrite(func, indirect, around) if not indirect else set()
    return changed


def _rewrite(func: Function, indirect: bool, around: set[Block | None] | None) -> set[Block | None]:
    """Rewrite the choices of loops without choices inside; returns the heads of the loops around them, or None.

    ``around``: the heads of loops around those that have been rewritten: only these are looked at.
    """
    forest = loop_forest(func)
    left = forest.open_loops()
    mapping: dict[Value, Value] = {}
    rewritten, changed = set[Loop](), set[Block | None]()
    for loop in forest.loops:                                # inner loops first
        if not rewritten.isdisjoint(loop.children):
            rewritten.add(loop)                              # its blocks are no longer those of the forest
        elif loop not in left and loop.exit is not None and loop.preheader is not None \
                and len(forest.dom.preds[loop.exit]) == 1 and (around is None or loop.head in around):
            for choice in _choices(loop, forest, around is not None):
                if indirect and not choice.is_indirect():
                    continue
                mapping |= choice.rewrite(func)
                for other in forest.loops if choice.behind is not None else ():
                    if other.preheader is loop.exit:
                        other.preheader = choice.behind
                rewritten.add(loop)
                changed.add(loop.parent.head if loop.parent is not None else None)
    substitute(func, mapping)
    return changed


def _choices(loop: Loop, forest: LoopForest, again: bool) -> Sequence[_Choice | Sources]:
    """The choices of a loop; none if it carries anything else that may have a derivative.

    ``again``: the choices of a loop inside have been rewritten.
    """
    others = [p for p in loop.head.params if not (isinstance(p.type, Scalar) and not p.type.is_float)]
    if not others or not all(isinstance(p.type, Scalar) for p in others) or \
            any(b.term is None or b.term.name not in ("jump", "branch", "switch") for b in loop.blocks):
        return []
    known = counted(loop)
    used = uses(ops_of(loop.blocks))
    found: Sequence[_Choice | Sources] = [Sources(loop, forest, used, p) for p in others] \
        if again or known is None else [_Choice(loop, known, forest.dom, used, p) for p in others]
    return [choice for choice in found if choice.results] if all(choice.holds() for choice in found) else []


class _Choice:
    """One choice, ``p``; ``new``: what replaces it; ``iteration``: what computes ``new``; ``results``: what follows.

    ``behind``: the block to which what follows the loop has moved, if it has.
    """

    behind: Block | None = None
    new: Value
    iteration: ChosenIteration

    def __init__(self, loop: Loop, known: Counted, dom: Dominators, used: Uses, p: Value) -> None:
        self.loop, self.known, self.dom, self.used, self.p = loop, known, dom, used, p
        self.following = loop.back_edge().args[p.index]
        self.results = [q for q, a in loop.exit_edge().passed() if a is self.following]
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
        self.iteration = ChosenIteration(self.loop, self.known.iv, self.dom, self.new)
        return self.iteration.found and bool(self.iteration.ops)

    def is_indirect(self) -> bool:
        return self.iteration.is_indirect()

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

    # --- rewriting ------------------------------------------------------------------------------------

    def rewrite(self, func: Function) -> dict[Value, Value]:
        """Carry the number of the chosen iteration; returns what takes the place of the results behind the loop."""
        loop, exit = self.loop, self.loop.exit
        assert exit is not None and loop.preheader is not None and loop.latch is not None
        start = loop.entry_edge().args[self.p.index]
        self.numbers[self.p] = loop.head.add_param(I64, "last")
        loop.entry_edge().args.append(_ahead(loop.preheader, -1))
        number = self._number(self.following)
        loop.back_edge().args.append(number)
        last = exit.add_param(I64, "last")
        loop.exit_edge().args.append(number)
        always = self.dom.dominates(self.new.block, loop.latch) and not self.iteration.blocks \
            and all(op.name in SMOOTH and isinstance(op.result.type, Scalar) for op in self.iteration.ops)
        final = self._selected(exit, last, start) if always else self._branched(func, exit, last, start)
        return dict.fromkeys(self.results, final)

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

    def _selected(self, exit: Block, last: Value, start: Value) -> Value:
        """The value at ``exit`` without a branch.

        If there is no chosen iteration, the first is computed, of ones, so that no derivative is a product of its
        cotangent, a zero, with an infinite number.
        """
        ops, term, exit.ops, exit.term = exit.ops, exit.term, [], None
        b = Builder(exit, self.iteration.ops[-1].loc)
        zero = b.const(0)
        none = b.lt(last, zero)
        values = {self.known.iv: b.maximum(last, zero)}
        read = dict.fromkeys(v for op in self.iteration.ops for v in op.operands if v.block not in self.loop.blocks)
        for v in read:
            if is_float_scalar(v.type) and v.const is None:
                values[v] = b.select(none, b.const(1.0, v.type), v)
        for op in self.iteration.ops:
            again = copy_op(op, b, values)
            if op.name == "get" and is_float_scalar(again.type):
                values[op.result] = b.select(none, b.const(1.0, again.type), again)
        final = b.select(none, start, values.get(self.new, self.new))
        exit.ops += ops
        exit.term = term
        return final

    def _branched(self, func: Function, exit: Block, last: Value, start: Value) -> Value:
        chosen, go = func.new_block("chosen"), func.new_block("go")
        self.behind = go
        final = go.add_param(self.p.type, self.p.hint)
        go.ops, go.term, exit.ops, exit.term = exit.ops, exit.term, [], None
        for op in go.all_ops():
            op.block = go
        b = Builder(exit, self.iteration.ops[-1].loc)
        b.branch(b.lt(last, b.const(0)), go, [start], chosen, [])
        self.iteration.continue_at(go, Builder(chosen, b.loc), last)
        return final


def _ahead(preheader: Block, value: int) -> Value:
    """A constant at the end of a block that is complete."""
    term, preheader.term = preheader.term, None
    constant = Builder(preheader).const(value)
    preheader.term = term
    return constant
