"""Inserts copies, so that every array update can be done in place.

Afterwards ``verify(linear=True)`` holds.  An array is *taken* by an op that consumes it, by a call whose callee owns
the parameter, and by an edge to a parameter that is consumed later, so that a loop can update it in place.  The memory
of a taken array must belong to the function, and no live value may share it::

    b := set(a, v, i)                     a' := copy(a)
    … a is read later          becomes    b := set(a', v, i)

Phases:

1. Parameters of inner functions that are consumed become ``own``: callers give them up, or pass a copy.
2. A taken value is copied if it is itself live afterwards, borrowed, or a part of another array.  A part of an array
   that is taken is copied where it is read if it is pushed on a stack, as otherwise the whole would be copied.
3. A taken value is copied if a live value may share its memory (``may_alias``), on edges too.  If these values are at
   most ``MOST_ROWS`` rows or slices of it, they are copied instead.  ``copy`` ops with dead operands are removed.

Elements of a row that are read behind the store of another row in its place are read from the row, ahead of phase 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.aliasing.consumption import consumed_operands, consumed_values, in_memory
from ...ir.aliasing.liveness import Liveness
from ...ir.aliasing.may_alias import MayAlias, Pairs, Summaries
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import CONSUMING, OPS, Memory, result_types
from ...ir.uses import array_users
from ..analysis.cfg import landing, merge_chains, substitute
from ..analysis.loops import loop_forest

MOST_ROWS = 2
"""The most rows or slices that are copied instead of their array."""


def copy_insertion(module: Module, roots: Iterable[str] | None = None) -> None:
    """Insert the copies.  With ``roots``, functions that only this module calls may own parameters."""
    funcs = [f for f in module.functions.values() if any(in_memory(v) for op in f.all_ops() for v in op.used())]
    if roots is not None:
        _own_parameters(module, set(roots))
    for func in funcs:
        _read_rows_ahead(func)
        _copy_pushed_rows(module, func)
        _copy_live_values(module, func)
    summaries = Summaries(module)
    for func in funcs:
        _Placer(module, summaries, func).run()


def _read_rows_ahead(func: Function) -> None:
    """Read a row ahead of the store of another one in its place, if elements of the old one are read behind."""
    stores = [op for op in func.all_ops() if op.name == "set" and in_memory(op.operands[1])]
    readers = array_users(func.all_ops()) if stores else {}
    for store in stores:
        (v, _, *index), block = store.operands, store.block
        assert block is not None
        dom = loop_forest(func).dom
        others = [op for op in readers[v] if op is not store and op.block in dom.number] if block in dom.number else []
        behind = [op for op in others if op is block.term or dom.comes_first(store, op)]
        if behind and all(op.name == "get" and len(op.operands) > len(index) + 1 and all(
                x is y for x, y in zip(op.operands[1:], index)) for op in behind):
            row = Op("get", [v, *index], result_types("get", [v, *index], {}), loc=store.loc)
            row.block = block
            block.ops.insert(block.ops.index(store), row)
            for op in behind:
                op.operands = [row.result, *op.operands[len(index) + 1:]]


def _own_parameters(module: Module, roots: set[str]) -> None:
    """Phase 1: let functions own the parameters that they consume, up to a fixed point over callers."""
    keep = roots | {d.base for n, d in module.derived.items() if n not in module.functions}
    changed = True
    while changed:
        changed = False
        for name, func in module.functions.items():
            if name in keep:
                continue
            consumed = consumed_values(func, module)
            own = {i for i, p in enumerate(func.params) if p in consumed}
            if not own <= func.own:
                func.own |= own
                changed = True


def _is_part(v: Value) -> bool:
    """True if ``v`` is a view, but not one of all elements of its array in order."""
    return v.op is not None and OPS[v.op.name].memory is Memory.PART


def _is_row(v: Value) -> bool:
    """True if ``v`` is a row or a slice of an array, possibly reshaped."""
    while v.op is not None and OPS[v.op.name].memory is Memory.WHOLE:
        v = v.op.operands[0]
    return v.op is not None and v.op.name in ("get", "slice")


def _array(v: Value) -> Value:
    """The array of which ``v`` is a view."""
    while v.op is not None and OPS[v.op.name].view:
        v = v.op.operands[0]
    return v


def _copy_before(block: Block, position: int, v: Value) -> Value:
    op = Op("copy", [v], [v.type])
    op.block = block
    block.ops.insert(position, op)
    return op.result


def _copy_rows(func: Function, rows: Iterable[Value]) -> None:
    """Copy each row right after the op that reads it, for all of its uses."""
    own: dict[Value, Value] = {}
    for v in rows:
        assert v.op is not None
        own[v] = _copy_before(v.block, v.block.ops.index(v.op) + 1, v)
    copies = {v.op for v in own.values()}
    for op in func.all_ops() if own else ():
        if op not in copies:
            op.replace_uses(own)


# --- phase 2 --------------------------------------------------------------------------------------

def _copy_pushed_rows(module: Module, func: Function) -> None:
    """The first part of phase 2: rows on stacks, of arrays that are updated."""
    pushed = (v for op in func.all_ops() if op.name == "push" for v in op.operands[1:])
    rows = [v for v in dict.fromkeys(pushed) if in_memory(v) and _is_row(v)]
    if rows:
        consumed = consumed_values(func, module)
        _copy_rows(func, [v for v in rows if _array(v) in consumed])


def _copy_live_values(module: Module, func: Function) -> None:
    """Phase 2 for one function."""
    borrowed = {p for i, p in enumerate(func.params) if i not in func.own}
    consuming = [b for b in func.blocks if b.term is not None and (
        b.term.name == "call" or any([op.name in CONSUMING for op in b.ops]))]
    liveness = Liveness(func, in_memory) if consuming else None
    for block in consuming:
        assert block.term is not None and liveness is not None
        later = {a for e in block.term.edges for a in e.args}                # what the rest of the block reads
        for position in range(len(block.ops), -1, -1):
            op = block.ops[position] if position < len(block.ops) else block.term
            for i in consumed_operands(module, op):
                v = op.operands[i]
                if v in later or liveness.is_live_after(v, block) or v in borrowed or _is_part(v) \
                        or v in op.operands[:i] or v in op.operands[i + 1:]:
                    op.operands[i] = _copy_before(block, position, v)
            later.update(op.operands)


# --- phase 3 --------------------------------------------------------------------------------------

class _Placer:
    """Phase 3 for one function."""

    def __init__(self, module: Module, summaries: Summaries, func: Function) -> None:
        self.module, self.func = module, func
        consumed = consumed_values(func, module)
        self.sharing = MayAlias(func, summaries, consumed)
        self.consumed = consumed
        self.borrowed = self.sharing.bits(p for i, p in enumerate(func.params) if i not in func.own)
        self.elided: dict[Value, Value] = {}
        self.copies: list[tuple[Block, int, Op, int]] = []
        self.edge_copies: list[tuple[Block, Edge, int]] = []
        self.rows: list[Value] = []                           # rows that are copied where they are read
        self.detached = 0                                     # the bits of these rows

    def run(self) -> None:
        for block in list(self.func.blocks):
            if block in self.sharing.states:
                self._block(block)
        for block, position, op, i in reversed(self.copies):
            op.operands[i] = _copy_before(block, position, op.operands[i])
        self._copy_on_edges()
        _copy_rows(self.func, self.rows)
        gone = {v.op for v in self.elided}
        for block in self.func.blocks if gone else ():
            block.ops = [op for op in block.ops if op not in gone]
        substitute(self.func, self.elided)
        merge_chains(self.func)

    def _block(self, block: Block) -> None:
        sharing, state = self.sharing, self.sharing.states[block].copy()
        needed = self._needed_after(block)
        for position, op in enumerate(block.ops):
            if op.name in CONSUMING:
                for i in OPS[op.name].consumes:
                    self._take(state, block, position, op, i, needed[position])
            if op.name == "copy" and self._is_removable(state, op, needed[position]):
                self.elided[op.result] = op.operands[0]
                self._rename(state, op)
            else:
                sharing.step(state, op)
        assert block.term is not None
        if block.term.name == "call":
            for i in consumed_operands(self.module, block.term):
                self._take(state, block, len(block.ops), block.term, i, needed[len(block.ops)])
        for edge in block.term.edges:
            self._edge(state, block, edge)

    def _needed_after(self, block: Block) -> dict[int, int]:
        """The bits of the values that are live after each op that consumes or copies, and after the terminator.

        Not after each op, since the bits of one may take a kilobyte.
        """
        sharing = self.sharing
        assert block.term is not None
        wanted = [op.name in CONSUMING or op.name == "copy" for op in block.ops]
        first = wanted.index(True) if True in wanted else len(wanted)
        live = sharing.liveness.bits_after(block) | sharing.bits(a for e in block.term.edges for a in e.args)
        needed = {len(block.ops): live}
        live |= sharing.bits(block.term.operands)
        scalars = sharing.number.keys().isdisjoint
        for position in range(len(wanted) - 1, first - 1, -1):
            op = block.ops[position]
            if not scalars(op.results):
                live &= ~sharing.bits(op.results)
            if wanted[position]:
                needed[position] = live
            if not scalars(op.operands):
                live |= sharing.bits(op.operands)
        return needed

    def _can_give(self, state: Pairs, v: Value, needed: int) -> bool:
        """True if the memory of ``v`` belongs to the function, and no value in ``needed`` shares it."""
        gone = self.sharing.with_self(state, v) & ~self.detached
        return not gone & (needed | self.borrowed) and not _is_part(v)

    def _detach(self, state: Pairs, block: Block, v: Value, needed: int) -> bool:
        """Mark the live rows of ``v`` to be copied, instead of ``v`` itself; returns True if that suffices."""
        shared = self.sharing.with_self(state, v) & needed & ~self.detached
        rows = [w for w, n in self.sharing.number.items() if shared >> n & 1 and w is not v]
        if len(rows) > MOST_ROWS or not all(_is_row(w) and w.block is block for w in rows):
            return False
        bits = self.sharing.bits(rows)
        if not self._can_give(state, v, needed & ~bits):
            return False
        self.detached |= bits
        self.rows += rows
        return True

    def _is_removable(self, state: Pairs, op: Op, needed: int) -> bool:
        """True if a copy is of a value that is dead afterwards, so that it can be removed."""
        return op.result in self.consumed and self._can_give(state, op.operands[0], needed)

    def _take(self, state: Pairs, block: Block, position: int, op: Op, i: int, needed: int) -> None:
        others = self.sharing.bits(w for j, w in enumerate(op.operands) if j != i)
        v = op.operands[i]
        if not self._can_give(state, v, needed | others) and not self._detach(state, block, v, needed | others):
            self.copies.append((block, position, op, i))

    def _rename(self, state: Pairs, copy: Op) -> None:
        """Update the sharing state for a copy that is removed: its result is its operand."""
        n, v = self.sharing.number[copy.result], copy.operands[0]
        shared = self.sharing.with_self(state, v) & ~(1 << n)
        state.forget(n)
        state.share(n, shared)

    def _edge(self, state: Pairs, block: Block, edge: Edge) -> None:
        offset = edge.offset
        needed = self.sharing.liveness.bits_before(edge.block) | self.sharing.bits(
            a for p, a in edge.passed() if p not in self.consumed)
        for i, a in enumerate(edge.args):
            if edge.block.params[offset + i] in self.consumed:
                if self._can_give(state, a, needed) or self._detach(state, block, a, needed):
                    needed |= self.sharing.bits((a,))
                else:
                    self.edge_copies.append((block, edge, i))

    def _copy_on_edges(self) -> None:
        """Insert the copies of edges.

        They go to the source block if that ends in a jump, or if the edge is a back edge; otherwise to a new block on
        the edge.
        """
        order = {b: i for i, b in enumerate(self.func.blocks)}
        spots: dict[int, Block] = {}
        for block, edge, i in self.edge_copies:
            term = block.term
            assert term is not None
            if id(edge) not in spots:
                alone = term.name == "jump" or (term.name == "branch" and order.get(edge.block, 0) <= order[block])
                spots[id(edge)] = block if alone else landing(edge, self.func)
            spot = spots[id(edge)]
            assert spot.term is not None
            if spot is block:
                edge.args[i] = _copy_before(block, len(block.ops), edge.args[i])
            else:
                args, results = spot.term.edges[0].args, len(spot.params)
                args[results + i] = _copy_before(spot, len(spot.ops), args[results + i])
