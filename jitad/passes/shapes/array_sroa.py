"""Takes small arrays apart: an array whose few elements the type counts becomes scalars, which stay in registers.

``y + h * np.array([…])`` with three elements is three additions and no memory.  Before differentiation, so that the
adjoints are scalars and what is kept for the way back are floats; and once more after it, for the arrays that calls of
derivatives have passed on.

A *web* is what one variable holds: the values of an array that updates, edges and the parameters of blocks connect.
A web is taken apart as a whole, where that saves more than it costs: uses that know single elements (arithmetic, reads
at constant indices, sums, products) against uses that need memory (calls, results, indices known at run time), each
counted by how deep in loops it stands.  Where an array is needed in memory all the same, it is built there.

The ops are in ``array_sroa_ops.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, dims_of, dtype_of
from ..analysis.cfg import Mapping, remove_unreachable, resolve, substitute
from ..analysis.loops import loop_forest
from .array_sroa_ops import (
    Elements,
    build,
    elements,
    expand,
    expandable,
    is_small,
    places,
    read,
    scatter,
    scatters,
    work,
)

MOST_GROWTH = 4000
MEAN_GROWTH = 6
"""A function keeps its arrays if more scalar ops than this, and more of them for each op, would come of it."""
ROUNDS = 8
"""Of weighing webs against each other.  Where they stop makes no difference to what a program means."""
UPDATES = frozenset("set add_at set_slice add_slice copy".split())
"""Ops whose result is what their first operand was, but for some elements."""
LOOP = 8
"""How often a loop is taken to run."""


def array_sroa(module: Module, derived: bool = False) -> bool:
    """Take small arrays apart in every function; whether there were any.  ``derived``: derivatives have been made."""
    changed = False
    for func in module.functions.values():
        if any(is_small(v.type) for v in func.defined()):
            remove_unreachable(func)
            plan = Plan(func, derived)
            if plan.apart:
                Rewriter(func, plan).run()
                changed = True
    return changed


# --- which arrays ---------------------------------------------------------------------------------

class Plan:
    """``apart``: the arrays of which only the elements remain.  ``ops``: those that are written out."""

    def __init__(self, func: Function, derived: bool) -> None:
        self.func = func
        self.forest = loop_forest(func)
        self.blocks = self.forest.dom.order
        self.expandable = {op for b in self.blocks for op in b.ops if expandable(op, derived)}
        self.apart = self._candidates()
        self.web = self._webs()
        self.members: dict[Value, list[Value]] = {}
        for v, web in self.web.items():
            self.members.setdefault(web, []).append(v)
        for v in self._indexed_at_run_time():
            if v in self.apart:
                self.drop(self.web[v])
        for _ in range(ROUNDS):
            if not _Weighing(self).drops():
                break
        self.ops = {op for op in self.expandable if self.written_out(op)}
        if sum(map(work, self.ops)) > max(MOST_GROWTH, MEAN_GROWTH * len(self.ops)):
            self.apart, self.ops = set(), set()

    def written_out(self, op: Op) -> bool:
        """Whether an op that may be is: it makes an array of elements, or a scalar of one."""
        if isinstance(op.result.type, Array):
            return op.result in self.apart
        return any(v in self.apart for v in op.operands)

    def drop(self, web: Value) -> None:
        """Leave the arrays of a web in memory."""
        self.apart.difference_update(self.members[web])

    def _candidates(self) -> set[Value]:
        found = {r for op in self.expandable for r in op.results if isinstance(r.type, Array)}
        edges = [e for b in self.blocks for e in _edges(b)]
        return found | {p for e in edges for p, _ in e.passed() if is_small(p.type)}

    def _webs(self) -> dict[Value, Value]:
        """For each candidate one value of its web, the same for all of them."""
        above: dict[Value, Value] = {v: v for v in self.apart}

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
    """One walk from the end to the beginning: what uses an array is decided before the array is."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.weight: dict[Block, int] = {b: LOOP ** min(plan.forest.depth(b), 4) for b in plan.blocks}
        self.gain = {plan.web[v]: 0 for v in plan.apart}
        self.left = {web: len(plan.members[web]) for web in self.gain}

    def drops(self) -> bool:
        """Drop the webs that do not pay; whether there were any."""
        plan, before = self.plan, len(self.plan.apart)
        for b in reversed(plan.blocks):
            weight = self.weight[b]
            self._term(b, weight)
            for op in reversed(b.ops):
                if op.results and op.results[0] in plan.apart:
                    self._decide(op)
                self._uses(op, weight)
        for web in [web for web, n in self.gain.items() if n <= 0 and web in plan.apart]:
            plan.drop(web)
        return len(plan.apart) < before

    def _term(self, b: Block, weight: int) -> None:
        plan = self.plan
        assert b.term is not None
        for v in b.term.operands:
            if v in plan.apart:
                self.gain[plan.web[v]] -= weight
        for e in b.term.edges:
            for p, v in e.passed():
                if p in plan.apart and v not in plan.apart:
                    self.gain[plan.web[p]] -= weight

    def _decide(self, op: Op) -> None:
        """At the first op of a web without parameters all its uses are known."""
        web = self.plan.web[op.result]
        for v in op.operands:
            if is_small(v.type) and v not in self.plan.apart and not self._is_there(v):
                self.gain[web] -= self.weight[v.block]                    # it is read first
        self.left[web] -= 1
        if self.left[web] == 0 and self.gain[web] <= 0:
            self.plan.drop(web)

    def _is_there(self, v: Value) -> bool:
        """Whether an array in memory costs nothing to be known by element: it is read once, and not just made."""
        return self.weight[v.block] == 1 and (v.op is None or OPS[v.op.name].view)

    def _uses(self, op: Op, weight: int) -> None:
        plan = self.plan
        known = op in plan.expandable and plan.written_out(op)
        for i, v in enumerate(op.operands):
            if v in plan.apart and not (known and i == 0 and op.name in UPDATES):
                self.gain[plan.web[v]] += weight if known or (i == 1 and scatters(op)) else -weight


def _edges(block: Block) -> list[Edge]:
    return block.term.edges if block.term is not None else []


# --- taking them apart ----------------------------------------------------------------------------

class Rewriter:
    """``parts``: the elements of arrays that are apart, and of those in memory that some op knows by element."""

    def __init__(self, func: Function, plan: Plan) -> None:
        self.func, self.plan, self.forest = func, plan, plan.forest
        self.parts: dict[Value, Elements] = {}
        self.built: dict[tuple[Value, Block], Value] = {}    # arrays in memory, and for which block
        self.results: Mapping = {}                           # what scalars that ops gave are now
        self.read_first = self._known_by_element()
        self.built_first = self._needed_elsewhere()
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

    def _known_by_element(self) -> set[Value]:
        """Arrays in memory that ops written out, or parameters that are apart, are made of."""
        apart = self.plan.apart
        found = {v for op in self.plan.ops for v in op.operands if is_small(v.type)}
        found |= {v for b in self.plan.blocks for e in _edges(b) for p, v in e.passed() if p in apart}
        return found - apart

    def _needed_elsewhere(self) -> set[Value]:
        """Arrays that are needed in memory in another loop than the one in which they are made."""
        loop_of = self.forest.loop_of
        return {op.operands[i] for b in self.plan.blocks for op in b.all_ops() for i in self._in_memory(op)
                if loop_of(op.operands[i].block) is not loop_of(b)}

    def _in_memory(self, op: Op) -> list[int]:
        """The operands that are apart, but that this op needs in memory."""
        if op in self.plan.ops:
            return []
        return [i for i, v in enumerate(op.operands) if v in self.plan.apart and not (i == 1 and scatters(op))]

    # --- blocks ---------------------------------------------------------------------------------------

    def _split_params(self, block: Block) -> None:
        if not any(p in self.plan.apart for p in block.params):
            return
        params, block.params = block.params, []
        for p in params:
            if p in self.plan.apart:
                scalar = dtype_of(p.type)
                self.parts[p] = elements([block.add_param(scalar, p.hint) for _ in places(p.type)], dims_of(p.type))
            else:
                p.index = len(block.params)
                block.params.append(p)

    def _split_args(self, edge: Edge) -> None:
        params = self.params[edge.block]
        args = zip(params[len(params) - len(edge.args):], edge.args)
        edge.args = [x for p, v in args for x in (self.parts[v].flat if p in self.plan.apart else (v,))]

    def _block(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        self.b.at(block)
        for p in self.params[block]:
            self._made(p)
        for op in ops:
            self.b.loc = op.loc
            self._op(block, op)
            for r in op.results:
                self._made(r)
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
        elif scatters(op) and op.operands[1] in self.plan.apart:
            self.results[op.result] = scatter(self.b, op, self.parts[op.operands[1]])
        else:
            self._with_arrays(block, op)
            block.ops.append(op)

    def _elements(self, v: Value) -> Elements:
        return elements([resolve(self.results, v)]) if isinstance(v.type, Scalar) else self.parts[v]

    def _made(self, v: Value) -> None:
        """An array is there: read the elements that are asked for, or build what other loops need in memory."""
        if v in self.read_first:
            self.parts[v] = read(self.b, resolve(self.results, v))
        if v in self.built_first:
            self.built[v, v.block] = self._build(v)

    def _with_arrays(self, block: Block, op: Op) -> None:
        """Give an op the arrays that it needs in memory."""
        for i in self._in_memory(op):
            v = op.operands[i]
            home = v.block if v in self.built_first else block
            if (v, home) not in self.built:
                self.built[v, home] = self._build(v)
            op.operands[i] = self.built[v, home]

    def _build(self, v: Value) -> Value:
        assert isinstance(v.type, Array)
        return build(self.b, self.parts[v], v.type)
