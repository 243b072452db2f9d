"""If-conversion: a branch between two formulas becomes a ``select`` of their values where LLVM may vectorise the loop.

::

    ^loop: … branch c, ^then, ^else              ^loop: … x = mul a, b;  y = sub a, b
    ^then: x = mul a, b; jump ^join(x)    becomes       v = select c, x, y
    ^else: y = sub a, b; jump ^join(y)                  …
    ^join(v): …

Where a side adds to a value that the other side passes unchanged, the term is selected: ``add s, (select c, t, -0.0)``.
So a conditional sum remains a reduction.  Where both sides compute the same op and share an operand, the other operand
is selected: ``mul (select c, a, b), s`` is one product, and does not make ``s`` wait for the selection.

LLVM vectorises such a branch itself, but moves loads into the sides where only one reads them, and then masks them.
Both sides must be arithmetic on scalars and functions that have vector versions.  A check of floats on a side applies
if the side is taken; ``fission`` tests it ahead, strip by strip.  So a likelihood that takes the logarithm of one of
two numbers becomes vectors.  The loop must be counted and innermost, and have nothing that prevents vectors: no
effects, no condition that depends on a value of the iteration before.  There a branch that is predicted well is faster,
as the next iteration need not wait for the select.  For the same reason no selection is made of an integer whose next
one is computed from it, unless by a reduction: numbers read digit by digit, ``v = 10 * v + d``, took 2.8 times as long.
Only lanes of a loop around may still be vectors.  (Floats take several cycles for each operation anyway, to which a
selection adds little, but not if the whole side is on the way from one iteration to the next: ``LONGEST_CHAIN``.)

In other innermost loops sides of a few cheap operations are converted if none of them, nor the condition, depends on
the iteration before, whose result the selection then does not delay; and those on integers in any case: counters, steps
of a walk, the choice of a direction.  LLVM makes a table of jumps of a chain of such branches, which data mispredict: a
random walk on a lattice took 1.9 times as long.  The next node of a tree (``2 * n + 1`` or ``2 * n + 2``) and the
halves of a bisection are such integers: with branches they took 2.9 times as long.

Where a branch is left for its cost, the loop has no vectors, and all is taken back: the branches inside would be
computed in vain (``_convert``).

Before ``outer_loop`` it also converts branches in loops around others: lanes do not branch, and a conditional sum over
paths of a random walk then takes an eighth of the time.  It does not where no loop around can become lanes, since it
passes a stack on or has a branch that stays (``_branching``).

The pass runs after differentiation.  A select would have the derivative of both sides, and 0 · ∞ is no number.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dominance import Dominators, strongly_connected
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS, ORDERS
from ...ir.types import Scalar, Stack, dtype_of, is_float_scalar
from ..analysis.affine import AffineForms
from ..analysis.branches import compares_floats, extreme_of
from ..analysis.cfg import resolve, substitute
from ..analysis.loops import Loop, LoopForest, counted, loop_forest
from .selections import Selections, Side, apart_of, ops_of_sides

INTEGER_OPS = frozenset({"const", "add", "sub", "neg", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not",
                         "clz", "popcount", "select", "minimum", "maximum"})

MOST = 100
"""The largest cost of both sides: a vector of four elements computes both sides of four iterations.  With 60, an
exponential and a logarithm on one side stayed a branch, and took 1.7 times as long."""

REDUCTIONS = (frozenset({"add", "sub"}), frozenset({"mul"}), frozenset({"minimum"}), frozenset({"maximum"}),
              frozenset({"and"}), frozenset({"or"}), frozenset({"xor"}))

MOST_MASKED = 30
"""The largest cost of sides that LLVM may still mask itself, as they load or store."""

MOST_AHEAD = 8
"""The largest cost of both sides where they only save a branch.  Without one, edit distances take half of the time."""

LONGEST_CHAIN = 4
"""The most float operations on a side by which the next iteration waits for this one: they take as long as a
misprediction.  The adjoint of balls that rarely bounce took 2.5 times as long."""

MOST_FORESEEN = 24
"""The most values from which an index that is tested ahead is computed."""

MOST_INTEGERS = 16
"""The most integer operations on both sides where they only save a branch: half the price of a misprediction."""


def if_conversion(module: Module, around: bool = False) -> None:
    """Convert what can be converted in every innermost counted loop; expects normal form.

    ``around``: in counted loops around others too, of which lanes may execute several iterations together.
    """
    for func in module.functions.values():
        forest = loop_forest(func)
        branching = _branching(func, forest) if around else set()
        for loop in forest.loops:
            if len(loop.blocks) > 1 and not _is_cold(loop) and (not loop.children or around and _may_be_vector(loop)):
                heads = [b for b in forest.dom.in_order(loop.blocks) if forest.innermost[b] is loop]
                blocks = forest.dom.in_order(loop.blocks)
                lanes = around and loop.parent is not None and _may_be_vector(loop.parent) and any(
                    outer not in branching and not _is_ordered(outer) and not _overwrites(blocks, outer, forest.dom)
                    for outer in _around(loop))
                if around and not lanes:                            # ``loop_unswitch`` has versions of the others
                    heads = [b for b in heads if b.term and b.term.operands and b.term.operands[0].block in loop.blocks]
                _convert(func, loop, blocks, heads, lanes)


def _is_ordered(loop: Loop) -> bool:
    """True if iterations pass a stack on, as those of a reverse sweep."""
    return any(isinstance(p.type, Stack) for p in loop.head.params)


def _overwrites(blocks: list[Block], outer: Loop, dom: Dominators) -> bool:
    """True if iterations of ``outer`` store to the same elements in ``blocks``: they cannot execute together."""
    known, forms = counted(outer), AffineForms()
    return known is not None and any(
        op.name == "set" and not any(v is known.iv for index in op.operands[2:] for v, _ in forms.of(index).terms)
        and _is_passed_on(op.operands[0], outer, dom) for b in blocks for op in b.ops)


def _is_passed_on(array: Value, loop: Loop, dom: Dominators) -> bool:
    """True if an array that is updated comes from the iteration before."""
    seen = set[Value]()
    while array.block in loop.blocks and array not in seen:
        seen.add(array)
        if array.op is not None:
            if array.op.name not in ("set", "add_at"):
                return False
            array = array.op.operands[0]
        elif array.owner is loop.head:
            return True
        else:
            term = dom.preds[array.block][0].term
            array = next((a for e in (term.edges if term else ()) for p, a in e.passed() if p is array), array)
    return False


def _around(loop: Loop) -> list[Loop]:
    """The loops around a loop, from the inside."""
    return [] if loop.parent is None else [loop.parent, *_around(loop.parent)]


def _branching(func: Function, forest: LoopForest) -> set[Loop]:
    """The loops that lanes cannot execute: a loop inside branches on a float that it carries, and keeps the branch."""
    found = set[Loop]()
    for loop in forest.loops:
        if loop.parent is not None and len(loop.blocks) > 1 and loop.parent not in found:
            blocks = forest.dom.in_order(loop.blocks)
            heads = [b for b in blocks if forest.innermost[b] is loop and b.term is not None
                     and b.term.name == "branch" and compares_floats(b.term.operands[0])]
            if heads and _Conversion(func, loop, blocks, True, True).leaves(heads):
                found.update(_around(loop))
    return found


def _convert(func: Function, loop: Loop, blocks: list[Block], heads: list[Block], lanes: bool) -> None:
    """Convert branches of a loop: all that LLVM needs for vectors, unless one of them costs too much."""
    before = func.blocks[:], [(b, b.ops[:], b.term) for b in blocks]
    conversion = _Conversion(func, loop, blocks, _may_be_vector(loop, blocks), lanes)
    if not conversion.run(heads):
        func.blocks[:], contents = before
        for b, ops, term in contents:
            b.ops, b.term = ops, term
            for op in b.all_ops():
                op.block = b
        _Conversion(func, loop, blocks, False, lanes).run(heads)


def _is_cold(loop: Loop) -> bool:
    return loop.latch is not None and loop.latch.term is not None and bool(loop.latch.term.attrs.get("cold"))


def _may_be_vector(loop: Loop, blocks: Sequence[Block] = ()) -> bool:
    """True if no op of the loop prevents vectors for certain; lanes, of loops around others, may check."""
    if loop.children:
        return counted(loop) is not None and all(op.name == "check" or _is_harmless(op) or not OPS[op.name].effect
                                                 for b in loop.blocks for op in b.ops)
    ops = [op for b in loop.blocks for op in b.ops]
    foreseen = any(OPS[op.name].vector for op in ops)
    if counted(loop) is None or not all(_is_harmless(op) or foreseen and _is_foreseen(op, loop) for op in ops):
        return False
    return all(op.name != "check" or op.operands[0].const is True for op in ops) or _may_be_split(loop, blocks, ops)


def _may_be_split(loop: Loop, blocks: Sequence[Block], ops: list[Op]) -> bool:
    """True if ``fission`` may make vectors of a loop with checks: of functions that take long, beside sums alone.

    The nearest of a few spheres that a ray hits, each of which is tested for a root, took twice as long in strips.
    """
    carried = _carried(blocks, loop, arrays=False)
    return any(OPS[op.name].vector or op.name in ("sqrt", "div") for op in ops) and not any(
        v in carried for op in ops if op.name in ORDERS for v in op.operands)


def _is_harmless(op: Op) -> bool:
    if op.name == "check":
        return op.operands[0].const is True or compares_floats(op.operands[0])
    return op.name in ("set", "add_at") or not OPS[op.name].effect and all(
        isinstance(v.type, Scalar) for v in op.results)


def _is_foreseen(check: Op, loop: Loop) -> bool:
    """True if a check compares an index that the loop loads at its counter: ``check_strips`` tests it ahead."""
    known = counted(loop)
    if check.name != "check" or known is None:
        return False
    todo, seen = [check.operands[0]], {known.iv}
    while todo:
        v = todo.pop()
        if v in seen or v.const is not None or v.block not in loop.blocks:
            continue
        seen.add(v)
        if v.op is None or not isinstance(v.type, Scalar) or v.type.is_float or len(seen) > MOST_FORESEEN:
            return False
        todo += v.op.operands[v.op.name == "get":]
    return True


def _carried(blocks: Sequence[Block], loop: Loop, arrays: bool) -> set[Value]:
    """The values that depend on scalars that the loop carries, or ``arrays``, but not on its counter alone."""
    known = counted(loop)
    found = {p for p in loop.head.params
             if (arrays or isinstance(p.type, Scalar)) and (known is None or p is not known.iv)}
    for b in blocks:
        for op in b.ops:
            if not found.isdisjoint(op.operands):
                found.update(op.results)
        for e in b.term.edges if b.term else ():
            found.update(p for p, a in e.passed() if a in found)
    return found


def _chained(blocks: list[Block]) -> set[Value]:
    """The scalars on cycles through what the loop carries, other than reductions."""
    following: dict[Value, list[Value]] = {v: [] for b in blocks for v in b.params if isinstance(v.type, Scalar)}
    for b in blocks:
        for op in b.ops:
            results = [v for v in op.results if isinstance(v.type, Scalar)]
            following |= {v: [] for v in results}
            for v in op.operands:
                if v in following:
                    following[v] += results
        for e in b.term.edges if b.term is not None else ():
            for p, a in e.passed():
                if a in following and p in following:
                    following[a].append(p)
    found: set[Value] = set()
    for cycle in strongly_connected(following, following):
        names = {v.op.name for v in cycle if v.op is not None and v.op.name != "select"}
        if not any(names <= kind for kind in REDUCTIONS):
            found.update(cycle)
    return found


class _Conversion(Selections):
    """Converts the branches of one loop, inner ones first.

    ``vectors``: the iterations may be vectors.  ``lanes``: a loop around may run in lanes.
    """

    def __init__(self, func: Function, loop: Loop, blocks: list[Block], vectors: bool, lanes: bool) -> None:
        super().__init__(func, blocks)
        self.loop, self.vectors, self.lanes = loop, vectors, lanes
        self.carried = _carried(blocks, loop, arrays=not self.vectors)
        self._chains: set[Value] | None = None

    @property
    def chained(self) -> set[Value]:
        """The chains of the loop as it was before the first branch is converted, if they matter."""
        if self._chains is None:
            self._chains = _chained(self.blocks) if self.vectors and not self.lanes else set()
        return self._chains

    def convert(self, head: Block, sides: list[Side]) -> None:
        self._chains = self.chained
        super().convert(head, sides)

    def leaves(self, heads: list[Block]) -> bool:
        """True if one of these branches joins again, and depends on what the loop carries."""
        return any(self._meet(sides) and not self._known(head, sides)
                   for head in heads if head.term is not None for sides in [[self._side(e) for e in head.term.edges]])

    def run(self, heads: list[Block]) -> bool:
        """Convert the branches of the blocks ``heads``, which come in order.

        Returns False if one of them is left for its cost, so that an innermost loop will have no vectors: then the
        others would be computed in vain.  The change has to be taken back.
        """
        for head in reversed(heads):
            if head.term is not None and head.term.name == "branch":
                sides = [self._side(e) for e in head.term.edges]
                pays = self._pays if self.vectors else self._runs_ahead
                if self._meet(sides) and (self._known(head, sides) and pays(sides) or _are_few_integers(sides)):
                    self.convert(head, sides)
                elif self.vectors and not self.loop.children and self._meet(sides) and \
                        _costs(apart_of(ops_of_sides(sides))) > MOST_MASKED:
                    return False
        substitute(self.func, self.mapping)
        return True

    def _known(self, head: Block, sides: list[Side]) -> bool:
        """True if the condition need not wait for the iteration before, or vectors do without it."""
        assert head.term is not None
        return head.term.operands[0] not in self.carried or self.vectors and self._is_extreme(head, sides)

    def _side(self, edge: Edge) -> Side:
        block = edge.block
        own = self.incoming[block] == 1 and block in self.loop.blocks and block.term is not None
        return (block, block.term.edges[0]) if own and block.term and block.term.name == "jump" else (None, edge)

    def _meet(self, sides: list[Side]) -> bool:
        """True if both sides lead to one block of the loop, not its head."""
        join = sides[0][1].block
        return join is sides[1][1].block and join is not self.loop.head and join in self.loop.blocks

    def _is_extreme(self, head: Block, sides: list[Side]) -> bool:
        """True if the branch updates a smallest or largest value, which becomes a reduction."""
        assert head.term is not None
        apart = [(x, y) for x, y in zip(*(edge.args for _, edge in sides))
                 if resolve(self.mapping, x) is not resolve(self.mapping, y)]
        return len(apart) == 1 and apart[0][1].owner is self.loop.head and dtype_of(apart[0][1].type).is_float and (
            extreme_of(head.term.operands[0], *apart[0]) is not None)

    def _pays(self, sides: list[Side]) -> bool:
        """True if both sides are cheap arithmetic on scalars, and differ only in scalars that are not chained."""
        join = sides[0][1].block
        ops = apart_of(ops_of_sides(sides))
        if _costs(ops) > MOST or not all(op.name == "check" or _is_arithmetic(op) for op in ops):
            return False
        late = self._delays(ops)
        return all(
            isinstance(p.type, Scalar) and not (p in self.chained and (_is_integer(p) or max(
                late.get(resolve(self.mapping, v), 0) for v in (x, y)) > LONGEST_CHAIN))
            or resolve(self.mapping, x) is resolve(self.mapping, y)
            for p, x, y in zip(join.params, *(edge.args for _, edge in sides)))

    def _delays(self, ops: list[Op]) -> dict[Value, int]:
        """The cost of the longest path by which results wait for what the loop carries."""
        found = dict[Value, int]()
        for op in ops:
            operands = [resolve(self.mapping, v) for v in op.operands]
            arrive = [found.get(v, 0) for v in operands if v in found or v in self.chained]
            if arrive:
                found |= dict.fromkeys(op.results, max(arrive) + OPS[op.name].cost * (op.name not in ("neg", "select")))
        return found

    def _runs_ahead(self, sides: list[Side]) -> bool:
        """True if both sides are a few operations on floats that need not wait for the iteration before.

        The selection is then ready before it is needed, while a branch may be mispredicted.
        """
        join = sides[0][1].block
        ops = ops_of_sides(sides)
        apart = apart_of(ops)
        return _costs(apart) <= MOST_AHEAD and all(map(_is_arithmetic, apart)) and not any(
            v in self.carried for op in ops for v in op.operands) and all(
            x is y or is_float_scalar(p.type) and not {x, y} & self.carried
            for p, x, y in zip(join.params, *(edge.args for _, edge in sides)))


def _are_few_integers(sides: list[Side]) -> bool:
    """True if each side has a few cheap operations on integers of its own, and the sides differ in integers.

    A side that decides the next branch by a constant, as ``break`` does, leads past it (``jump_threading``).
    """
    join = sides[0][1].block
    if not all(_is_integer(x) or x is y for x, y in zip(*(edge.args for _, edge in sides))):
        return False
    test = join.term.operands[0] if join.term is not None and join.term.name in ("branch", "switch") else None
    tested = () if test is None else (test, *(test.op.operands if test.op is not None else ()))
    if any(p in tested and (x.const is not None or y.const is not None)
           for p, x, y in zip(join.params, *(edge.args for _, edge in sides))):
        return False
    ops = apart_of(ops_of_sides(sides))
    return len(ops) <= MOST_INTEGERS and all(map(_is_cheap_integer, ops))


def _is_integer(v: Value) -> bool:
    return isinstance(v.type, Scalar) and not v.type.is_float


def _is_cheap_integer(op: Op) -> bool:
    """True for integers, and for the comparison of floats in ``free[j] and x[j] < best``."""
    return op.name in INTEGER_OPS and _is_integer(op.result) and (
        op.name in ORDERS or all(map(_is_integer, op.operands)))


def _costs(ops: list[Op]) -> float:
    return sum(OPS[op.name].cost for op in ops)


def _is_arithmetic(op: Op) -> bool:
    definition = OPS[op.name]
    cheap = definition.elementwise and (definition.cost <= EXPENSIVE or definition.vector or _is_of_bits(op))
    return op.name == "const" or bool(cheap) and isinstance(op.result.type, Scalar)


def _is_of_bits(op: Op) -> bool:
    """True for a quotient or remainder of integers by a power of two, which is a shift or a mask."""
    by = op.operands[-1].const
    return op.name in ("floordiv", "mod") and isinstance(by, int) and by > 0 and not by & (by - 1)
