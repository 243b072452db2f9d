"""Scalar replacement of aggregates: splits small arrays of known shape into scalars, which stay in registers.

``y + h * np.array([…])`` with three elements becomes three multiplications and three additions without memory.  The
pass runs before differentiation, so that adjoints are scalars and saved values are floats.  It runs again afterwards,
for arrays that were passed to calls of derivatives.

A *web* is the set of values that one array variable takes: those that updates, edges and block parameters connect.
A web is split completely or not at all.  It is split if that saves more than it costs.  Uses of single elements
(arithmetic, reads at constant indices, sums, products) count in favour, uses that need memory (calls, results, indices
known at run time) against.  Each use has a weight by its loop depth.  Where an op needs a split array in memory, the
array is built before that op.

``array_sroa_ops.py`` has the rules of the ops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, dims_of, dtype_of
from ..analysis.cfg import Mapping, remove_unreachable, resolve, substitute
from ..analysis.cost import frequency
from ..analysis.loops import loop_forest
from .array_sroa_ops import (
    Elements,
    build,
    elements,
    expand,
    expandable,
    indices_of,
    is_small,
    read,
    scalar_ops,
    scatter,
    scatters,
)

MOST_GROWTH = 4000
MEAN_GROWTH = 6
"""A function keeps all its arrays if splitting yields more than ``MOST_GROWTH`` scalar ops, and on average more than
``MEAN_GROWTH`` for each op that is replaced."""
FEW = 9
"""The most elements of a row or a small matrix that are loaded one by one without a cost: a loop over them loads them
as well."""
ROUNDS = 8
"""The most rounds of weighing webs against each other.  Any number of rounds gives a correct program."""
UPDATES = frozenset("set add_at set_slice add_slice copy".split())
"""Ops whose result has the elements of their first operand, except some."""


def array_sroa(module: Module, derived: bool = False) -> bool:
    """Split small arrays in every function; returns True if a function has changed.

    ``derived``: derivatives have been generated already.
    """
    changed = False
    for func in module.functions.values():
        if any(is_small(v.type) for v in func.defined()):
            before = len(func.blocks)
            remove_unreachable(func)
            changed |= len(func.blocks) < before
            plan = Plan(func, derived)
            if plan.split:
                Rewriter(func, plan).run()
                changed = True
    return changed


# --- which arrays ---------------------------------------------------------------------------------

class Plan:
    """The arrays that are split (``split``), and the ops that are replaced by scalar ops (``ops``)."""

    def __init__(self, func: Function, derived: bool) -> None:
        self.func = func
        self.forest = loop_forest(func)
        self.blocks = self.forest.dom.order
        self.expandable = {op for b in self.blocks for op in b.ops if expandable(op, derived)}
        self.split = self._candidates()
        self.web = self._webs()
        self.members: dict[Value, list[Value]] = {}
        for v, web in self.web.items():
            self.members.setdefault(web, []).append(v)
        for v in self._indexed_at_run_time():
            if v in self.split:
                self.drop(self.web[v])
        for _ in range(ROUNDS):
            if not _Weighing(self).drops():
                break
        self.ops = {op for op in self.expandable if self.is_replaced(op)}
        if sum(map(scalar_ops, self.ops)) > max(MOST_GROWTH, MEAN_GROWTH * len(self.ops)):
            self.split, self.ops = set(), set()

    def is_replaced(self, op: Op) -> bool:
        """True if an expandable op is replaced: it makes a split array, or a scalar from one."""
        if isinstance(op.result.type, Array):
            return op.result in self.split
        return any(v in self.split for v in op.operands)

    def drop(self, web: Value) -> None:
        """Keep the arrays of a web in memory."""
        self.split.difference_update(self.members[web])

    def _candidates(self) -> set[Value]:
        found = {r for op in self.expandable for r in op.results if isinstance(r.type, Array)}
        edges = [e for b in self.blocks for e in _edges(b)]
        return found | {p for e in edges for p, _ in e.passed() if is_small(p.type)}

    def _webs(self) -> dict[Value, Value]:
        """A representative of the web of each candidate (union-find)."""
        above: dict[Value, Value] = {v: v for v in self.split}

        def root(v: Value) -> Value:
            while above[v] is not v:
                above[v] = v = above[above[v]]
            return v
        for x, y in self._connected():
            if x in above and y in above:
                above[root(x)] = root(y)
        return {v: root(v) for v in above}

    def _connected(self) -> Iterator[tuple[Value, Value]]:
        for b in self.blocks:
            for op in b.ops:
                if op.name in UPDATES and op in self.expandable:
                    yield op.operands[0], op.result
            for e in _edges(b):
                yield from e.passed()

    def _indexed_at_run_time(self) -> Iterator[Value]:
        for b in self.blocks:
            for op in b.ops:
                if OPS[op.name].indices and op not in self.expandable:
                    yield op.operands[0]


class _Weighing:
    """One backward walk that weighs the webs: the uses of an array are decided before the array."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.weight: dict[Block, int] = {b: frequency(plan.forest, b) for b in plan.blocks}
        self.gain = {plan.web[v]: 0 for v in plan.split}
        self.left = {web: len(plan.members[web]) for web in self.gain}

    def drops(self) -> bool:
        """Drop the webs that do not pay; returns True if there were any."""
        plan, before = self.plan, len(self.plan.split)
        for b in reversed(plan.blocks):
            weight = self.weight[b]
            self._term(b, weight)
            for op in reversed(b.ops):
                if op.results and op.results[0] in plan.split:
                    self._decide(op)
                self._uses(op, weight)
        for web in [web for web, n in self.gain.items() if n <= 0 and web in plan.split]:
            plan.drop(web)
        return len(plan.split) < before

    def _term(self, b: Block, weight: int) -> None:
        plan = self.plan
        assert b.term is not None
        for v in b.term.operands:
            if v in plan.split:
                self.gain[plan.web[v]] -= weight
        for e in b.term.edges:
            for p, v in e.passed():
                if p in plan.split and v not in plan.split:
                    self.gain[plan.web[p]] -= weight

    def _decide(self, op: Op) -> None:
        """Drop the web of ``op`` if this is its last member and the web does not pay.

        All uses of a web without block parameters are known at its first op.
        """
        web = self.plan.web[op.result]
        for v in op.operands:
            if is_small(v.type) and v not in self.plan.split and not self._loads_are_free(v):
                self.gain[web] -= self.weight[v.block]                    # its elements are loaded
        self.left[web] -= 1
        if self.left[web] == 0 and self.gain[web] <= 0:
            self.plan.drop(web)

    def _loads_are_free(self, v: Value) -> bool:
        """True if loading the elements of an array counts as free.

        It is a parameter or a view, outside loops; or a row or window of few elements, as a point.
        """
        if v.op is not None and v.op.name in ("get", "slice") and math.prod(n or 0 for n in dims_of(v.type)) <= FEW:
            return True
        return self.weight[v.block] == 1 and (v.op is None or OPS[v.op.name].view)

    def _uses(self, op: Op, weight: int) -> None:
        plan = self.plan
        known = op in plan.expandable and plan.is_replaced(op)
        for i, v in enumerate(op.operands):
            if v in plan.split and not (known and i == 0 and op.name in UPDATES):
                self.gain[plan.web[v]] += weight if known or (i == 1 and scatters(op)) else -weight


def _edges(block: Block) -> Sequence[Edge]:
    return block.term.edges if block.term is not None else ()


# --- splitting ------------------------------------------------------------------------------------

class Rewriter:
    """Splits the arrays of a plan.

    ``parts``: the elements of split arrays, and of arrays in memory whose elements are loaded.
    """

    def __init__(self, func: Function, plan: Plan) -> None:
        self.func, self.plan, self.forest = func, plan, plan.forest
        self.parts: dict[Value, Elements] = {}
        self.built: dict[tuple[Value, Block], Value] = {}    # (split array, block) → the array in memory there
        self.results: Mapping = {}                           # scalar results of replaced ops → their new values
        self.loaded = self._loaded_arrays()
        self.built_early = self._arrays_for_other_loops()
        self.params = {b: list(b.params) for b in plan.blocks}
        self.b = Builder()

    def run(self) -> None:
        for block in self.plan.blocks:
            self._split_params(block)
        for block in self.plan.blocks:
            self._block(block)
        for block in self.plan.blocks:
            for edge in _edges(block):
                self._split_args(edge)
        substitute(self.func, self.results)

    def _loaded_arrays(self) -> set[Value]:
        """Arrays in memory whose elements a replaced op or a split parameter needs."""
        split = self.plan.split
        found = {v for op in self.plan.ops for v in op.operands if is_small(v.type)}
        found |= {v for b in self.plan.blocks for e in _edges(b) for p, v in e.passed() if p in split}
        return found - split

    def _arrays_for_other_loops(self) -> set[Value]:
        """Split arrays that are needed in memory in another loop than the one that makes them."""
        loop_of = self.forest.loop_of
        return {op.operands[i] for b in self.plan.blocks for op in b.all_ops() for i in self._in_memory(op)
                if loop_of(op.operands[i].block) is not loop_of(b)}

    def _in_memory(self, op: Op) -> list[int]:
        """The indices of split operands that this op needs in memory."""
        if op in self.plan.ops:
            return []
        return [i for i, v in enumerate(op.operands) if v in self.plan.split and not (i == 1 and scatters(op))]

    # --- blocks ---------------------------------------------------------------------------------------

    def _split_params(self, block: Block) -> None:
        if not any(p in self.plan.split for p in block.params):
            return
        params, block.params = block.params, []
        for p in params:
            if p in self.plan.split:
                scalar = dtype_of(p.type)
                self.parts[p] = elements([block.add_param(scalar, p.hint) for _ in indices_of(p.type)], dims_of(p.type))
            else:
                p.index = len(block.params)
                block.params.append(p)

    def _split_args(self, edge: Edge) -> None:
        params = self.params[edge.block]
        args = zip(params[len(params) - len(edge.args):], edge.args)
        edge.args = [x for p, v in args for x in (self.parts[v].flat if p in self.plan.split else (v,))]

    def _block(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        self.b.at(block)
        for p in self.params[block]:
            self._defined(p)
        for op in ops:
            self.b.loc = op.loc
            self._op(block, op)
            for r in op.results:
                self._defined(r)
        assert block.term is not None
        self.b.loc = block.term.loc
        self._with_arrays(block, block.term)

    def _op(self, block: Block, op: Op) -> None:
        if op in self.plan.ops:
            found = expand(self.b, op, [self._elements(v) for v in op.operands])
            if isinstance(op.result.type, Array):
                self.parts[op.result] = found
            else:
                self.results[op.result] = found.item()
        elif scatters(op) and op.operands[1] in self.plan.split:
            self.results[op.result] = scatter(self.b, op, self.parts[op.operands[1]])
        else:
            self._with_arrays(block, op)
            block.ops.append(op)

    def _elements(self, v: Value) -> Elements:
        return elements([resolve(self.results, v)]) if isinstance(v.type, Scalar) else self.parts[v]

    def _defined(self, v: Value) -> None:
        """Called after the definition of ``v``: load its elements, or build it in memory, if that is needed."""
        if v in self.loaded:
            self.parts[v] = read(self.b, resolve(self.results, v))
        if v in self.built_early:
            self.built[v, v.block] = self._build(v)

    def _with_arrays(self, block: Block, op: Op) -> None:
        """Replace the split operands that an op needs in memory by arrays that are built."""
        for i in self._in_memory(op):
            v = op.operands[i]
            home = v.block if v in self.built_early else block
            if (v, home) not in self.built:
                self.built[v, home] = self._build(v)
            op.operands[i] = self.built[v, home]

    def _build(self, v: Value) -> Value:
        assert isinstance(v.type, Array)
        return build(self.b, self.parts[v], v.type)
