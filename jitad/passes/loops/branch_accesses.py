"""Takes accesses of arrays out of branches in loops: loads move ahead of the branch, stores behind it.

::

    branch c, ^then, ^else                      x = get a, i-1;  y = get a, i+1
    ^then: x = get a, i-1                       branch c, ^then, ^else
           g1 = set g, x, i     becomes         ^then: jump ^join(x)
    ^else: y = get a, i+1                       ^else: jump ^join(y)
           g2 = set g, y, i                     ^join(v): g1 = set g, v, i
    ^join(g3)

What is left on the sides is arithmetic, which LLVM vectorises with selects; it masks conditional accesses, which takes
longer than the branch.  A loop around others becomes lanes only without conditional stores: a layer of windows with
``if s > 0.0: y[i] = s`` takes 0.1 to 0.25 of the time.  The derivative has this form too: adjoints are loaded ahead of
the branch and added behind it.  It still computes the derivative of the side that was taken only, so infinities of the
other do not get into it.

A load moves if its index is in bounds whether the branch takes its side or not: control flow ahead of the branch,
earlier checks and loop counters imply it (``facts.Walk``).  ``branch_stores`` moves the updates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...ir.dominance import Dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS, ORDERS
from ...ir.types import I64, Array, Scalar
from ...ir.uses import ops_of
from ..analysis.affine import Affine, AffineForms
from ..analysis.branches import Arms, arms_of, compares_floats, is_scattered
from ..analysis.facts import Walk
from ..analysis.loops import Loop, counted, loop_forest
from ..analysis.sizes import Size, Solver
from .branch_stores import decides, sink_updates

MOST = 12
"""The most loads that move ahead of one branch."""
LARGEST = 200
"""The most ops of a loop that is looked at for slow updates."""
LATE = EXPENSIVE
"""The cost of an update beyond which the next iteration should not wait for it."""
LEAST = 12
"""The cost of sides that keep their updates if these are at indices that are read: about that of a misprediction."""
LEAST_CHOSEN = 4
"""The same if a branch before has chosen the indices: a store and a load that waits for it are spared as well."""


def branch_accesses(module: Module, derived: bool = False) -> bool:
    """Rewrite the branches in loops; expects normal form.  Returns True if there are any.

    ``derived``: after differentiation, when checks of floats are left to ``fission``, and a store of one side stays
    there if its index is read, or the condition does not change in the loop.  Sums of innermost loops move if they are
    the only updates, and the loads that are left are fast under a mask.
    """
    changed = False
    for func in module.functions.values():
        forest = loop_forest(func)
        loops = [loop for loop in forest.loops if len(loop.blocks) > 1]
        if branches := [arms for loop in loops for arms in arms_of(loop, forest.dom)]:
            changed = _rewrite(func, branches, forest.dom, derived, module.fast_gathers) or changed
        if loops:
            for op in func.all_ops():
                op.attrs.pop("inside", None)             # of loads that stay, too: equal loads are one again
    return changed


def _rewrite(func: Function, branches: Sequence[Arms], dom: Dominators, derived: bool, fast_gathers: bool) -> bool:
    safe = dict[Op, set[Block]]()
    arms = {a.head: a for a in branches if _may_move(a, dom, derived)}
    if arms:
        hoist = _Hoist(func, arms)
        hoist.run()
        safe = hoist.safe
    sums = set(arms.values())
    if derived:
        sums = {a for a in sums if fast_gathers and not (a.loop.children or _updates(a))}
        safe = {op: heads for op, heads in safe.items() if not any(
            is_scattered(op, arms[b].loop) or _is_invariant(arms[b]) for b in heads)}
    return sink_updates(func, branches, safe, sums) or bool(arms)


class BoundsWalk(Walk):
    """A walk that knows if indices are in bounds, by the sizes of arrays."""

    def __init__(self, func: Function) -> None:
        super().__init__(func)
        self.solver = Solver(func)
        self.dims: dict[Size, Value] = {}                    # canonical size → the first value of it
        for op in ops_of(self.dom.order):
            if op.name == "dim":
                first = self.dims.setdefault(self.solver.size((op.operands[0], op.attrs["axis"])), op.result)
                if first is not op.result:
                    self.ranges.is_now(op.result, first)

    def in_bounds(self, array: Value, index: list[Value], inside: Collection[int] = ()) -> bool:
        """True if the index is known to be in bounds here; ``inside`` are axes of which it is."""
        if not isinstance(array.type, Array) or len(index) != array.type.rank:
            return False
        for axis, v in enumerate(index):
            if axis in inside:
                continue
            size, form = self._size(array, axis), self.ranges.form(v)
            if size is None or not all(map(self.prover.proves, (form, size.minus(form).plus(Affine(-1))))):
                return False
        return True

    def _size(self, array: Value, axis: int) -> Affine | None:
        """The form of a size, or ``None`` if no value of the function has it."""
        size = self.solver.size((array, axis))
        if isinstance(size, int):
            return Affine(size)
        v = size if isinstance(size, Value) else self.dims.get(size)
        return self.ranges.form(v) if v is not None else None


def _may_move(arms: Arms, dom: Dominators, derived: bool) -> bool:
    """True if the accesses of a branch may move."""
    return not (_may_raise(arms, derived) or _scatters(arms) or _relaxes(arms, dom) or _is_awaited(arms, dom)
                or _is_unswitched(arms)) \
        and (not arms.loop.children or _updates(arms))


class _Hoist(BoundsWalk):
    """Moves loads ahead of branches.

    ``arms``: by the block that branches.  ``safe``: for each update of an element, the branching blocks at which its
    index is known to be in bounds.
    """

    def __init__(self, func: Function, arms: dict[Block, Arms]) -> None:
        super().__init__(func)
        self.arms = arms
        self.safe: dict[Op, set[Block]] = {}

    def end(self, block: Block) -> None:
        if block not in self.arms:
            return
        moved, stay = 0, decides(self.arms[block])           # its updates do
        for b in self.arms[block].between:
            for op in list(b.ops):
                if op.name in ("set", "add_at") and self.in_bounds(op.operands[0], op.operands[2:]):
                    self.safe.setdefault(op, set()).add(block)
                elif op.name == "get" and moved < MOST and self._may_move(op, block):
                    if all(self._bring(v, block) for v in op.operands[1:]):
                        _move(op, block)
                        moved += 1
                for v in op.operands[2:] if op.name in ("set", "add_at") and not stay else ():
                    self._bring(v, block)

    def _may_move(self, load: Op, block: Block) -> bool:
        array, inside = load.operands[0], load.attrs.get("inside", ())
        return isinstance(load.result.type, Scalar) and self._is_above(array, block) and self.in_bounds(
            array, load.operands[1:], inside)

    def _is_above(self, v: Value, block: Block) -> bool:
        return self.dom.dominates(v.block, block)

    def _bring(self, v: Value, block: Block) -> bool:
        """Make an index available at the end of ``block``, if simple operations compute it; returns True if it is."""
        if self._is_above(v, block):
            return True
        op = v.op
        if op is None or v.type != I64 or not (op.name == "const" or OPS[op.name].elementwise
                                               and OPS[op.name].cost < EXPENSIVE):
            return False
        if not all(self._bring(u, block) for u in op.operands):
            return False
        _move(op, block)
        return True


def _may_raise(arms: Arms, derived: bool) -> bool:
    """True if a side has a check, which prevents vectors: the branch stays, and may well be the faster form.

    Those of floats that are left at the end do not (``fission``).
    """
    return any(OPS[op.name].effect and not (derived and op.name == "check" and compares_floats(op.operands[0]))
               for b in arms.between for op in b.ops)


def _updates(arms: Arms) -> bool:
    """True if a side updates an element.  A sum alone would wait for what an inner loop has decided."""
    return any(op.name in ("set", "add_at") for b in arms.between for op in b.ops)


def _is_invariant(arms: Arms) -> bool:
    """True if the condition does not change in the loop."""
    assert arms.head.term is not None
    condition = arms.head.term.operands[0]
    return condition.const is not None or condition.block not in arms.loop.blocks


def _is_unswitched(arms: Arms) -> bool:
    """True if ``loop_unswitch`` does better: the sides update unlike numbers of elements, and the condition changes
    neither in the loop nor in the one around it, whose iterations may be lanes either way.

    Behind the join each iteration would make the updates of both sides.
    """
    assert arms.head.term is not None
    condition, loop = arms.head.term.operands[0], arms.loop
    if loop.children or loop.parent is None or condition.const is not None or condition.block in loop.parent.blocks:
        return False
    first, *rest = (e.block for e in arms.head.term.edges)
    updates = [sum(op.name in ("set", "add_at") for op in b.ops) if b is not arms.join else 0 for b in (first, *rest)]
    return 0 not in updates and len(set(updates)) > 1 and len(arms.between) == len(updates)


def _scatters(arms: Arms) -> bool:
    """True if costly sides update elements at indices that are read, as forces between neighbours in a list.

    The updates prevent vectors: behind the join they would be made for every pair, also those that are out of reach.
    So are those of a list that an iteration fills, one element for each condition that holds: behind the join the next
    condition would wait for the store.  Cheaper sides are worth a misprediction less.
    """
    updates = [op for b in arms.between for op in b.ops if op.name in ("set", "add_at")]
    least = LEAST_CHOSEN if any(_is_chosen(op, arms.loop) for op in updates) else LEAST
    if sum(OPS[op.name].cost for b in arms.between for op in b.ops) <= least:
        return False
    return least < LEAST or any(is_scattered(op, arms.loop) for op in updates)


def _is_chosen(update: Op, loop: Loop) -> bool:
    """True if the index is what a branch before it in the same iteration has chosen."""
    return any(v.op is None and v.block in loop.blocks and v.block is not loop.head for v in update.operands[2:])


def _relaxes(arms: Arms, dom: Dominators) -> bool:
    """True if an element is replaced by a smaller or larger value that takes long to compute from other elements.

    As in a fast sweep for distances: behind the join each iteration would wait for what the one before has stored.
    The branch is predicted, and most iterations store nothing.  So it is along the edges of a graph, however the value
    is computed: their ends are read, so that there are no vectors, and one may have been stored just before.
    """
    stores = [op for b in arms.between for op in b.ops if op.name == "set"]
    test = arms.head.term.operands[0].op if arms.head.term is not None and stores else None
    if test is None or test.name not in ORDERS or sum(len(b.ops) for b in arms.loop.blocks) > LARGEST:
        return False
    for op in stores:
        array, new, *index = op.operands
        old = next((v.op for v in test.operands if v is not new), None)
        if new in test.operands and old is not None and old.name == "get" and old.operands == [array, *index] \
                and _delay(arms, dom, [array], new) > (0 if is_scattered(op, arms.loop) else LATE):
            return True
    return False


def _is_awaited(arms: Arms, dom: Dominators) -> bool:
    """True if the next iteration reads what a side updates, and each takes long to compute it from what it reads.

    As the links of a chain, of which only those that are too long move their ends: behind the join, each would wait for
    the one before.
    """
    loop, forms = arms.loop, AffineForms()
    known = counted(loop)
    updates = [op for b in arms.between for op in b.ops if op.name in ("set", "add_at")]
    if known is None or not updates or sum(len(b.ops) for b in loop.blocks) > LARGEST:
        return False
    loads = [op for b in loop.blocks for op in b.ops if op.name == "get"]

    def is_next(read: Sequence[Value], updated: Sequence[Value]) -> bool:
        forward = [(forms.of(i), forms.of(j)) for i, j in zip(read, updated, strict=True)]
        return all(j.minus(i) == Affine(i.coefficient(known.iv)) for i, j in forward)
    for op in updates:
        array = _before(op.operands[0], loop, dom)
        read = [x for x in loads if len(x.operands) == len(op.operands) - 1 and is_next(x.operands[1:], op.operands[2:])
                and _before(x.operands[0], loop, dom) is array]
        if read and _delay(arms, dom, [x.operands[0] for x in read], op.operands[1]) > LATE:
            return True
    return False


def _before(array: Value, loop: Loop, dom: Dominators) -> Value:
    """The array that the iteration begins with, of which updates have made ``array``."""
    for _ in range(LARGEST):
        if array.op is not None and array.op.name in ("set", "add_at"):
            array = array.op.operands[0]
        elif array.op is None and array.block in loop.blocks and array.block is not loop.head and \
                (first := dom.arguments(array)[0]) is not None:
            array = first
        else:
            break
    return array


def _delay(arms: Arms, dom: Dominators, arrays: Collection[Value], v: Value) -> int:
    """The cost of the longest path from elements of arrays to a value that is computed from them in the loop."""
    delays = dict[Value, int]()
    for block in dom.in_order(arms.loop.blocks):
        for p in block.params if block is not arms.loop.head else ():
            arrive = [delays[a] for a in dom.arguments(p) if a in delays]
            delays |= {p: max(arrive)} if arrive else {}
        for op in block.ops:
            arrive = [delays[u] for u in op.operands if u in delays]
            if op.name == "get" and op.operands[0] in arrays:
                arrive.append(0)
            delays |= dict.fromkeys(op.results, max(arrive) + OPS[op.name].cost) if arrive else {}
    return delays.get(v, 0)


def _move(op: Op, block: Block) -> None:
    assert op.block is not None
    op.block.ops.remove(op)
    op.block = block
    block.ops.append(op)
