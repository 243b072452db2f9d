"""Branch fusion: two sides of a branch that call the same functions call them once, with selected arguments.

The stable forms of the logistic function, of ``log(1 + exp(z))`` and of a soft minimum choose by an ``if`` between two
formulas with the same transcendental functions::

    ^loop: … branch c, ^then, ^else              ^loop: … p = select c, a, b;  e = exp p
    ^then: x = exp a;  check {exc = 0} …;        →        check {exc = 0} (select c, …, True)
           y = mul x, 2.0; jump ^join(y)                  y = mul e, 2.0;  z = sub 1.0, e
    ^else: x = exp b;  z = sub 1.0, x; jump ^join(z)      v = select c, y, z
    ^join(v): …                                           …

Cheap arithmetic of both sides is computed in any case, a check of a side applies only if it is taken, and stores of
both sides to one element become one store.  ``fission`` then finds a loop without branches, and makes vectors of the
functions.

The loop must be counted.  The pass runs after differentiation, ahead of ``if_conversion``, which takes the branches
without such functions, and would call the functions of both sides.  So it runs twice: ahead of lanes, where only
branches without checks of indices on their sides are fused, since ``loop_versioning`` comes later, but those in loops
around others too; then in the innermost loops that are left.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import Scalar
from ..analysis.branches import Arms, arms_of, compares_floats
from ..analysis.cfg import Mapping, resolve, substitute
from ..analysis.loops import counted, loop_forest

MOST = 60
"""The largest cost of the cheap arithmetic of both sides, as in ``if_conversion``: three transcendental functions."""

LONGEST = 400
"""The most ops of a loop.  Longer ones are not split for vectors, and each fusion looks at the function again."""


def branch_fusion(module: Module, ahead: bool = False) -> bool:
    """Fuse such branches in every innermost counted loop; expects normal form.  Returns True if there are any.

    ``ahead``: of lanes.
    """
    changed = False
    for func in module.functions.values():
        if any(OPS[op.name].vector for op in func.all_ops() if op.name in OPS):
            while (found := _next(func, ahead)) is not None:
                found.run()
                changed = True
    return changed


def _next(func: Function, ahead: bool) -> _Fusion | None:
    """The next branch that can be fused.  The forest is built anew, as a fusion changes control flow."""
    forest = loop_forest(func)
    for loop in forest.loops:
        cold = loop.latch and loop.latch.term and loop.latch.term.attrs.get("cold")
        short = sum(len(b.ops) for b in loop.blocks) <= LONGEST
        if short and (ahead or not loop.children) and not cold and counted(loop) is not None:
            for arms in arms_of(loop, forest.dom):
                fusion = _Fusion(func, arms)
                if fusion.pays() and not (ahead and fusion.checks_indices()):
                    return fusion
    return None


class _Fusion:
    """Fuses the two blocks between a branch and its join."""

    def __init__(self, func: Function, arms: Arms) -> None:
        self.func, self.arms, self.head, self.join = func, arms, arms.head, arms.join
        assert self.head.term is not None
        self.condition = self.head.term.operands[0]
        self.blocks = [e.block for e in self.head.term.edges]
        self.mapping: Mapping = {}

    def pays(self) -> bool:
        """True if both sides call the same functions, and do nothing else that is expensive."""
        if len(set(self.blocks)) != 2 or set(self.blocks) != set(self.arms.between) or any(
                b.params or b.term is None or b.term.name != "jump" for b in self.blocks):
            return False
        first, second = ([op.name for op in b.ops if OPS[op.name].vector] for b in self.blocks)
        if not first or first != second:
            return False
        ops = [op for b in self.blocks for op in b.ops]
        stores = self._stores()
        cheap = sum(OPS[op.name].cost for op in ops if not OPS[op.name].vector)
        return cheap <= MOST and all(op.name == "check" or _is_scalar(op) or op in stores for op in ops) and all(
            isinstance(p.type, Scalar) or x is y or x.op in stores
            for p, x, y in zip(self.join.params, *self._passed()))

    def checks_indices(self) -> bool:
        return any(op.name == "check" and not compares_floats(op.operands[0]) for b in self.blocks for op in b.ops)

    def _passed(self) -> list[list[Value]]:
        """The arguments that each side passes to the join."""
        return [b.term.edges[0].args for b in self.blocks if b.term is not None]

    def _stores(self) -> set[Op | None]:
        """The stores of both sides to one element, which are all that the sides do to its array."""
        found: set[Op | None] = set()
        for x, y in zip(*self._passed()):
            a, b = x.op, y.op
            if a is not None and b is not None and a.name == b.name == "set" and a.block is self.blocks[0] and \
                    b.block is self.blocks[1] and isinstance(a.operands[1].type, Scalar) and \
                    a.operands[0] is b.operands[0] and a.operands[2:] == b.operands[2:] and \
                    all(v.block not in self.blocks for v in (a.operands[0], *a.operands[2:])) and \
                    all(_uses(v, self.blocks) == 1 for v in (x, y)):
                found |= {a, b}
        return found

    def run(self) -> None:
        """Compute both sides at the end of ``head``, which then takes the place of the join."""
        term, passed, stores = self.head.term, self._passed(), self._stores()
        assert term is not None
        self.head.term = None
        b = Builder(self.head, term.loc)
        rest = [list(block.ops) for block in self.blocks]
        while True:
            calls = [self._cheap(b, ops, side, stores) for side, ops in enumerate(rest)]
            if calls[0] is None or calls[1] is None:
                break
            self._call(b, calls[0], calls[1])
        args = []
        for x, y in zip(*passed):
            if x.op in stores and x.op is not None and y.op is not None:
                stored = self._chosen(b, x.op.operands[1], y.op.operands[1])
                args.append(b.emit("set", x.op.operands[0], stored, *x.op.operands[2:]))
            else:
                args.append(self._chosen(b, x, y))
        self._merge(args)
        substitute(self.func, self.mapping)

    def _merge(self, args: list[Value]) -> None:
        """Let the code of the join follow in ``head``."""
        self.mapping.update(zip(self.join.params, args))
        for op in self.join.all_ops():
            op.block = self.head
        self.head.ops += self.join.ops
        self.head.term = self.join.term
        gone = {*self.blocks, self.join}
        self.func.blocks[:] = [block for block in self.func.blocks if block not in gone]

    def _cheap(self, b: Builder, ops: list[Op], side: int, stores: set[Op | None]) -> Op | None:
        """Emit the ops of a side up to the next call, which is returned; ``ops`` are those that are left."""
        while ops:
            op = ops.pop(0)
            if op in stores:
                continue
            if OPS[op.name].vector:
                return op
            b.loc = op.loc
            copy = clone_op(op, {})
            copy.operands = [resolve(self.mapping, v) for v in op.operands]
            if op.name == "check":
                # Under fast math the side that is not taken may compute anything: a selection does not look at it.
                either = [copy.operands[0], b.const(True)]
                copy.operands[0] = b.select(self.condition, either[side], either[1 - side])
            copy.block = self.head
            self.head.ops.append(copy)
            self.mapping.update(zip(op.results, copy.results))
        return None

    def _call(self, b: Builder, x: Op, y: Op) -> None:
        b.loc = x.loc
        result = b.emit_op(x.name, self._pairs(b, x.operands, y.operands), **x.attrs).result
        self.mapping[x.result] = self.mapping[y.result] = result

    def _pairs(self, b: Builder, xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
        return [self._chosen(b, x, y) for x, y in zip(xs, ys, strict=True)]

    def _chosen(self, b: Builder, x: Value, y: Value) -> Value:
        x, y = resolve(self.mapping, x), resolve(self.mapping, y)
        return x if x is y else b.emit_op("select", [self.condition, x, y]).result


def _is_scalar(op: Op) -> bool:
    """True for a constant, and for a function of scalars that is cheap or is to be fused."""
    definition = OPS[op.name]
    return op.name == "const" or definition.elementwise and isinstance(op.result.type, Scalar) and \
        (definition.cost <= EXPENSIVE or definition.vector)


def _uses(v: Value, blocks: Sequence[Block]) -> int:
    return sum(list(op.used()).count(v) for b in blocks for op in b.all_ops())
