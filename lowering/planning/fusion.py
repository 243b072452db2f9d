"""Decides which arrays are stored and which are computed element by element where they are read.

*Lazy*: never stored.  A *site* (an op that loops, or that reads one element) computes an element when it needs it.
*Stored*: has a buffer.  An array is stored if something needs its memory (``_READS_MEMORY``, an edge, a call), or
if computing it at its sites would repeat work or would read a buffer after it was overwritten.

Pure views (slice, transpose, …) of stored arrays may be lazy for any number of readers in any block, because the
linearity of arrays preserves the memory that they view.  An *expression* (it computes, or reads without being a view)
is lazy if all its readers are computed in one site in its own block, and nothing consumes its operands before that
site.  The site itself may consume them if each element reads only what it then replaces (``own_places``).

Functions without a vector version have loops of their own, so that others become vectors.

*Reuse*: a stored elementwise result takes over the buffer of an operand that has no later reader.
*Accumulation*: ``add(c, matmul(a, b))`` that reuses ``c`` is one matrix product that accumulates into ``c``.  An
``ordered`` product is accumulated by an ``ordered`` addition only.  Its ``c`` is stored, so that there is a buffer; if
something else reads that, the sums begin at 0, and ``c`` is added last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ...ir.aliasing.alias_classes import AliasClasses, ClassSummary, holds_arrays, is_array
from ...ir.aliasing.live_arrays import LiveArrays, Origins
from ...ir.graph import Block, Function, Op, Value
from ...ir.ops import CONSUMING, ELEMENTWISE, OPS
from ...ir.types import Array
from ...passes.analysis.cost import INDEX_MAPS, element_cost
from .op_traits import (
    ON_DEMAND,
    exchanges,
    inserts_ones,
    is_block,
    is_by_vector,
    is_called,
    is_flat,
    is_full,
    is_gather,
    is_strided,
    is_transcendental,
    is_turned,
    same_axes,
)
from .own_places import is_apart, is_own_place, reads_own_places

_READS_MEMORY = {"push", "matmul", "jump", "branch", "switch", "call", "return", "raise"}
POINTWISE = ELEMENTWISE | {"copy"}
MOST_PARTS = 2        # reads of other places in what is updated: one operation has two, which store one array
CHEAP = 3             # cost up to which a value is recomputed rather than stored


@dataclass
class Plan:
    """The lazy values, the buffers that are reused, and the groups that share a nest."""

    roots: AliasClasses
    lazy: set[Value] = field(default_factory=set)
    reuse: dict[Value, Value] = field(default_factory=dict)
    accumulate: dict[Value, Op] = field(default_factory=dict)     # an add's result → the product that it absorbs
    deferred: set[Op] = field(default_factory=set)                # those products
    groups: dict[Op, list[Op]] = field(default_factory=dict)      # each member of a group → all (``fusion_groups.py``)
    passing: set[Value] = field(default_factory=set)              # values read by their group only, so not stored
    known: dict[Value, Sequence[Value]] | None = None             # the leaves found, while ``lazy`` does not change

    def leaves(self, v: Value) -> Sequence[Value]:
        """The stored arrays from which an element of ``v`` is computed, each once."""
        return self._leaves(v, {} if self.known is None else self.known)

    def _leaves(self, v: Value, known: dict[Value, Sequence[Value]]) -> Sequence[Value]:
        if v not in self.lazy:
            return (v,) if is_array(v) else ()
        found = known.get(v)
        if found is None:
            below = (self._leaves(x, known) for x in v.op.operands) if v.op is not None else ()
            found = known[v] = tuple(dict.fromkeys(chain.from_iterable(below)))
        return found

    def reads(self, op: Op) -> Sequence[Value]:
        """The stored arrays that ``op`` reads when it runs."""
        lazy, results = self.lazy, op.results
        if op in self.deferred or (results and results[0] in lazy) or op.name == "dim":
            return ()
        operands = op.used()
        if results and results[0] in self.accumulate:
            operands = [*operands, *self.accumulate[results[0]].operands]
        found: list[Value] = []
        for v in operands:
            if v in lazy:
                found += self.leaves(v)
            elif isinstance(v.type, Array):
                found.append(v)
        return found


def plan(func: Function, summaries: Mapping[str, ClassSummary] | None = None) -> Plan:
    """Decide for each array of ``func`` whether it is stored; ``summaries`` tell what its callees share."""
    roots = AliasClasses(func, summaries)
    return _Planner(func, roots).run() if holds_arrays(func) else Plan(roots)


DEEPEST = 32
"""Nesting limit of lazy values, since Python's stack is limited.  A group keeps intermediates in registers as well."""


class _Planner:
    """The analysis state of one function.

    ``users``: readers of each array with the operand's index (−1: an edge).  ``at``: index of an op in its block.
    Of each lazy value: ``sites`` that compute it; ``many`` is True if a site computes an element more than once.
    """

    def __init__(self, func: Function, roots: AliasClasses) -> None:
        self.func, self.roots = func, roots
        self.plan = Plan(roots)
        self.sites: dict[Value, set[Op]] = {}
        self.cost: dict[Value, int] = {}
        self.many: dict[Value, bool] = {}
        self.depth: dict[Value, int] = {}
        self.users: dict[Value, list[tuple[Op, int]]] = {}
        self.at: dict[Op, int] = {}
        self.consumed: dict[Block, tuple[list[int], list[Value]]] = {}       # the positions and the arrays
        for block in func.blocks:
            self._scan(block)

    def _scan(self, block: Block) -> None:
        positions, consumed = self.consumed[block] = [], []
        users = self.users
        for position, op in enumerate(block.all_ops()):
            self.at[op] = position
            for i, v in enumerate(op.operands):
                if isinstance(v.type, Array):
                    users.setdefault(v, []).append((op, i))
            for edge in op.edges:
                for v in filter(is_array, edge.args):
                    users.setdefault(v, []).append((op, -1))
            if op.name in CONSUMING:
                positions += [position for _ in OPS[op.name].consumes]
                consumed += [op.operands[i] for i in OPS[op.name].consumes]
            for v in op.results:
                if isinstance(v.type, Array):
                    self.cost[v] = self._cost(op)

    def _cost(self, op: Op) -> int:
        if op.name not in ON_DEMAND:
            return 0
        cost = element_cost(op)
        for v in op.operands:
            if (below := self.cost.get(v)) and v.block is op.block:
                cost += below
        return cost

    def run(self) -> Plan:
        for block in reversed(self.func.blocks):     # readers in later blocks first; one not yet decided is a site
            for op in reversed(block.ops):
                if len(op.results) == 1 and isinstance(op.results[0].type, Array):
                    self._decide(op, op.results[0])
        self.plan.known = {}
        for block in self.func.blocks:
            for op in block.ops:
                if op.name == "add" and is_array(op.result) and op.result not in self.plan.lazy:
                    self._accumulate(op)
        self._reuse()
        return self.plan

    # --- lazy or stored -------------------------------------------------------------------------------

    def _decide(self, op: Op, v: Value) -> None:
        if op.name not in ON_DEMAND or is_called(op) or is_turned(op) or \
                (op.name == "reshape" and not inserts_ones(op)):
            return
        users = [use for use in self.users.get(v, ()) if use[0].name != "dim"]
        for u, i in users:
            if not self._accepts(u, i):
                return
        sites = self.sites[v] = self._sites(users)
        if OPS[op.name].vector and any(map(is_called, sites)):
            return
        products = [s for s in sites if s.name == "matmul"]
        if products and not exchanges(op) and not (is_block(op) and all(map(is_by_vector, products))):
            return
        self.many[v], deepest, lazy = False, 0, self.plan.lazy
        for u, i in users:
            self.many[v] = self.many[v] or self._repeats(v, u, i)
            if len(u.results) == 1 and u.results[0] in lazy:
                deepest = max(deepest, self.depth[u.results[0]])
        self.depth[v] = 1 + deepest
        if self.depth[v] <= DEEPEST and (self._is_view(op) or self._fits(op, v)):
            self.plan.lazy.add(v)

    def _is_view(self, op: Op) -> bool:
        """True if linearity alone preserves the memory that ``op`` reads, whatever reads its result."""
        if not any(is_array(v) for v in op.operands):
            return op.name in INDEX_MAPS
        view: bool = OPS[op.name].view
        return view

    def _accepts(self, user: Op, i: int) -> bool:
        """True if ``user`` can read its operand ``i`` element by element."""
        if user.name in ELEMENTWISE:
            return not user.attrs.get("ordered")                                     # its buffer is accumulated into
        if user.name == "matmul":
            return exchanges(user.operands[i].op) or is_by_vector(user) and is_block(user.operands[i].op)
        if user.name in _READS_MEMORY or i < 0:
            return False
        if user.name == "reshape" and not inserts_ones(user):
            return False
        return i not in OPS[user.name].consumes

    def _sites(self, users: list[tuple[Op, int]]) -> set[Op]:
        sites: set[Op] = set()
        for u, _ in users:
            if len(u.results) == 1 and u.results[0] in self.plan.lazy:
                sites |= self.sites[u.results[0]]
            else:
                sites.add(u)
        return sites

    def _repeats(self, v: Value, user: Op, i: int) -> bool:
        """True if ``user`` may read an element of ``v`` more than once for each of its own elements."""
        if len(user.results) == 1 and user.results[0] in self.plan.lazy and self.many[user.results[0]]:
            return True
        if user.name in ELEMENTWISE:
            return self._spreads(v, user.result)
        if user.name in ("take", "put", "add_put") and i > 0:
            return not is_gather(user) and i == len(user.operands) - 1     # an index is read for each element of a row
        if user.name in ("take", "nonzero", "cumsum", "cumprod", "argmax", "argmin"):
            return True
        if user.name == "broadcast_to":
            return self._spreads(v, user.result)
        alone = len(self.users[v]) == 1
        return not alone and user.name in ("slice", "transpose", "get")

    def _spreads(self, v: Value, result: Value) -> bool:
        """True if broadcasting ``v`` to ``result`` repeats elements along an axis that is not one of its innermost."""
        assert isinstance(v.type, Array) and isinstance(result.type, Array)
        if v.type.dims == result.type.dims:
            return False
        if v.type.rank < result.type.rank and any(d != 1 for d in v.type.dims):
            return True
        wide = [a == 1 and b != 1 for a, b in zip(v.type.dims, result.type.dims[result.type.rank - v.type.rank:])]
        trailing = True
        for spread, d in zip(reversed(wide), reversed(v.type.dims)):
            if spread and not trailing:
                return True
            trailing = trailing and (spread or d == 1)
        return False

    def _fits(self, op: Op, v: Value) -> bool:
        """True if the expression ``v`` may be computed at its sites."""
        sites = self.sites[v] or set()
        for s in sites:
            if s.block is not op.block:
                return False
        if (self.many[v] or len(sites) > 1) and self.cost[v] > CHEAP:
            return False
        if len(sites) > 1 and op.name not in INDEX_MAPS and sum(self._costs_a_load(x, v) for x in op.operands) > 1:
            return False
        if len(sites) == 1 and self._reads_what_is_updated(v, *sites):
            return False
        here, last = self.at[op], max((self.at[s] for s in sites), default=0)
        overwritten = self._overwritten(op, here, last)
        if any(p < last for p in overwritten):
            return False
        if not overwritten:
            return True
        return len(sites) == 1 and all(reads_own_places(s, v, self.plan.lazy, self.roots) for s in sites)

    def _costs_a_load(self, x: Value, v: Value) -> bool:
        """True if each element of ``v`` loads one of the operand ``x``; one that is smaller stays in the cache."""
        return is_full(x) and (is_strided(x) or not self._spreads(x, v))

    def _overwritten(self, op: Op, here: int, last: int) -> list[int]:
        """The positions of updates, after ``here`` and up to ``last``, of what ``op`` reads."""
        assert op.block is not None
        positions, consumed = self.consumed[op.block]
        within = range(bisect_right(positions, here), bisect_right(positions, last))
        read = [o for o in op.operands if is_array(o)] if within else []
        return [positions[k] for k in within
                if any(self.roots.same(o, consumed[k]) and not is_apart(o, consumed[k]) for o in read)]

    def _reads_what_is_updated(self, v: Value, site: Op) -> bool:
        """True if ``site`` updates an array with ``v``, and several parts of ``v`` read other places in its memory.

        These parts would have to be stored.  So ``v`` is stored itself, unless they are needed in memory anyway.
        """
        if len(site.operands) < 2 or site.operands[1] is not v or 0 not in OPS[site.name].consumes:
            return False
        root, expressions, todo, parts = self.roots.find(site.operands[0]), {v}, [v], 0
        while todo and len(expressions) <= DEEPEST:
            op = todo.pop().op
            for x in op.operands if op is not None else ():
                if not is_array(x) or x in expressions or is_own_place(x, site):
                    continue
                if self.roots.find(x) is root:
                    parts += not is_apart(x, site.operands[0]) and op is not None and not self._is_view(op)
                elif x.op is not None and x.block is site.block and x.op.name in ON_DEMAND \
                        and all(self._accepts(u, i) for u, i in self.users[x] if u.name != "dim"):
                    expressions.add(x)
                    todo.append(x)
        return parts > MOST_PARTS

    # --- accumulation and reuse -----------------------------------------------------------------------

    def _accumulate(self, op: Op) -> None:
        """Record ``add(c, matmul(a, b))`` as a candidate; ``_reuse`` drops it unless ``c`` can be reused."""
        for c, m in (op.operands, reversed(op.operands)):
            product = m.op
            if product is None or product.name != "matmul" or product.block is not op.block or not is_array(m):
                continue
            if product.attrs.get("ordered") and not op.attrs.get("ordered"):         # begins at 0
                continue
            if c.type != m.type or c in self.plan.lazy or len(self.users[m]) != 1 or c is m:
                continue
            overwritten = self._overwritten(product, self.at[product], self.at[op] - 1)
            if not overwritten and not any(self.roots.same(o, c) for o in product.operands):
                self.plan.accumulate[op.result] = product
                self.plan.reuse[op.result] = c
                return

    def _reuse(self) -> None:
        blocks = [block for block in self.func.blocks if self._has_elementwise(block)]
        live_out = self._live_out() if blocks else {}
        origins = Origins(self.func, self.plan.reuse)
        for block in blocks:
            live = LiveArrays(self.roots, origins, live_out[block])
            for op in reversed(list(block.all_ops())):
                live.remove(op.results)
                reads = self.plan.reads(op)
                if len(op.results) == 1 and is_array(op.results[0]) and op.results[0] not in self.plan.lazy:
                    self._take_over(op, live, reads)
                    reads = self.plan.reads(op) if op.name == "add" else reads       # it may not accumulate after all
                live.add(reads)
        self.plan.deferred = set(self.plan.accumulate.values())

    def _has_elementwise(self, block: Block) -> bool:
        """True if a stored result of ``block`` may take over a buffer."""
        return any(op.name in POINTWISE and is_array(op.result)
                   and op.result not in self.plan.lazy for op in block.ops)

    def _take_over(self, op: Op, live: LiveArrays, reads: Iterable[Value]) -> None:
        result = op.result
        wanted = self.plan.reuse.pop(result, None)
        if op.name not in POINTWISE or self._is_dear_by_rows(op):
            return
        for v in [wanted] if wanted is not None else dict.fromkeys(reads):
            if self._fits_buffer(v, result) and not live.shares(v) and self.roots.owned(v) \
                    and self._pointwise(op, v, self.roots.find(v), set()):
                live.union(v, result)
                self.plan.reuse[result] = v
                return
        if wanted is not None:
            del self.plan.accumulate[result]

    def _is_dear_by_rows(self, op: Op) -> bool:
        """True if ``op`` computes transcendental functions row by row.

        Each row then ends with a masked store.  A later load from the same memory, that of the next row, waits until
        the store is done.  For rows of 50 numbers this takes half of the time.
        """
        t = op.result.type
        assert isinstance(t, Array)
        return t.rank > 1 and is_transcendental(self.plan.lazy, op) \
            and not is_flat(self.plan.lazy, op.operands, t)

    def _fits_buffer(self, v: Value, result: Value) -> bool:
        a, b = v.type, result.type
        assert isinstance(a, Array) and isinstance(b, Array)
        return a.dtype is b.dtype and same_axes(v, result)

    def _pointwise(self, op: Op, target: Value, root: Value, seen: set[Op]) -> bool:
        """True if each element of ``op`` reads the root of ``target`` at its own index only.

        ``seen`` holds the ops that were already checked.
        """
        if op in seen:
            return True
        seen.add(op)
        find, lazy = self.roots.find, self.plan.lazy
        for v in op.operands:
            if not isinstance(v.type, Array):
                continue
            if v not in lazy:
                if find(v) is root and not (v is target and same_axes(v, op.result)):
                    return False
            elif root in map(find, self.plan.leaves(v)):
                inner = v.op
                if inner is None or inner.name not in POINTWISE or not same_axes(v, op.result) \
                        or not self._pointwise(inner, target, root, seen):
                    return False
        return True

    def _live_out(self) -> dict[Block, set[Value]]:
        """The stored arrays that are read after each block."""
        reads: dict[Block, set[Value]] = {}
        made: dict[Block, set[Value]] = {}
        for block in dict.fromkeys(s for b in self.func.blocks for s in b.successors()):
            made[block] = {v for op in block.ops for v in op.results}.union(block.params)
            reads[block] = set().union(*map(self.plan.reads, block.all_ops())) - made[block]
        live_in = {b: set(r) for b, r in reads.items()}
        out: dict[Block, set[Value]] = {b: set() for b in self.func.blocks}
        changed = True
        while changed:
            changed = False
            for block in reversed(self.func.blocks):
                out[block] = set().union(*(live_in[s] for s in block.successors()))
                if block not in live_in:                     # the entry, to which nothing leads
                    continue
                new = reads[block] | (out[block] - made[block])
                if new != live_in[block]:
                    live_in[block], changed = new, True
        return out
