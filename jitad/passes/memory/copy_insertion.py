"""Makes every array update possible in place: puts a ``copy`` where a value that is worked on may still be needed.

Afterwards ``verify(linear=True)`` holds.  An array is *taken* by an op that consumes it, by a call that owns the
parameter, and by an edge to a parameter that is consumed somewhere behind (so that inside a loop it can be worked on).
What is taken must be the function's own, and nothing that may share its memory may be needed later.

Phases:
 1. parameters of inner functions that are consumed become ``own``: their callers give them up, or copy;
 2. a copy where the value taken is itself needed later, is borrowed, or is a part of another array;
 3. by what may share memory (``aliasing``): a copy where something else would be hurt, on edges too (where that is one
    part or two of the array, rows or slices, of these); and ``copy`` ops go whose operand nothing needs any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.linearity import State
from ...ir.ops import OPS
from ...ir.signature import signature
from ..analysis.cfg import landing, merge_chains, substitute
from ..analysis.liveness import Liveness
from .aliasing import WHOLE_VIEWS, Sharing, Summaries, consumed_values, in_memory

MOST_ROWS = 2
"""More of them are not copied instead of their array."""


def copy_insertion(module: Module, roots: Iterable[str] | None = None) -> None:
    """Insert the copies.  With ``roots``, functions that only this module calls may come to own parameters."""
    funcs = [f for f in module.functions.values() if any(in_memory(v) for op in f.all_ops() for v in op.used())]
    if roots is not None:
        _own_parameters(module, set(roots))
    for func in funcs:
        _copy_what_is_live(module, func)
    summaries = Summaries(module)
    for func in funcs:
        _Placer(module, summaries, func).run()


def _owned(module: Module, call: Op) -> list[int]:
    known = signature(module, call.attrs["callee"])
    return sorted(known.own) if known is not None else []


def _own_parameters(module: Module, roots: set[str]) -> None:
    """Give functions the parameters they consume, until that makes no caller consume one of its own."""
    keep = roots | {d.base for n, d in module.derived.items() if n not in module.functions}
    changed = True
    while changed:
        changed = False
        for name, func in module.functions.items():
            if name in keep:
                continue
            consumed = consumed_values(func, lambda call: _owned(module, call))
            own = {i for i, p in enumerate(func.params) if p in consumed}
            if not own <= func.own:
                func.own |= own
                changed = True


def _taken(module: Module, op: Op) -> list[int]:
    """Which operands an op or a call takes."""
    if op.name == "call":
        return [i for i in _owned(module, op) if in_memory(op.operands[i])]
    definition = OPS.get(op.name)
    return list(definition.consumes) if definition is not None else []


def _is_part(v: Value) -> bool:
    """Whether ``v`` is a view that is not its array's whole memory in order."""
    return v.op is not None and OPS[v.op.name].view and v.op.name not in WHOLE_VIEWS


def _is_row(v: Value) -> bool:
    """Whether ``v`` is a part of an array that is read, in whatever shape: an element of an array of arrays, or a
    slice."""
    while v.op is not None and v.op.name in WHOLE_VIEWS:
        v = v.op.operands[0]
    return v.op is not None and v.op.name in ("get", "slice")


def _copy_before(block: Block, position: int, v: Value) -> Value:
    op = Op("copy", [v], [v.type])
    op.block = block
    block.ops.insert(position, op)
    return op.result


# --- phase 2 --------------------------------------------------------------------------------------

def _copy_what_is_live(module: Module, func: Function) -> None:
    borrowed = {p for i, p in enumerate(func.params) if i not in func.own}
    at_end = Liveness(func, in_memory).at_end
    for block in func.blocks:
        assert block.term is not None
        live = set(at_end[block])
        for position in range(len(block.ops), -1, -1):
            op = block.ops[position] if position < len(block.ops) else block.term
            live.difference_update(op.results)
            for i in _taken(module, op):
                v = op.operands[i]
                if v in live or v in borrowed or _is_part(v) or v in op.operands[:i] or v in op.operands[i + 1:]:
                    op.operands[i] = _copy_before(block, position, v)
            live.update(op.operands)


# --- phase 3 --------------------------------------------------------------------------------------

class _Placer:
    """Phase 3 for one function."""

    def __init__(self, module: Module, summaries: Summaries, func: Function) -> None:
        self.module, self.func = module, func
        consumed = consumed_values(func, lambda call: _owned(module, call))
        self.sharing = Sharing(func, summaries, consumed)
        self.consumed = consumed
        self.liveness = Liveness(func, in_memory)
        self.borrowed = self.sharing.bits(p for i, p in enumerate(func.params) if i not in func.own)
        self.elided: dict[Value, Value] = {}
        self.copies: list[tuple[Block, int, Op, int]] = []
        self.edge_copies: list[tuple[Block, Edge, int]] = []
        self.rows: list[Value] = []                           # copied where they are read, and
        self.detached = 0                                     # …their bits

    def run(self) -> None:
        for block in list(self.func.blocks):
            if block in self.sharing.states:
                self._block(block)
        for block, position, op, i in reversed(self.copies):
            op.operands[i] = _copy_before(block, position, op.operands[i])
        self._copy_on_edges()
        self._copy_rows()
        gone = {v.op for v in self.elided}
        for block in self.func.blocks if gone else ():
            block.ops = [op for op in block.ops if op not in gone]
        substitute(self.func, self.elided)
        merge_chains(self.func)

    def _block(self, block: Block) -> None:
        sharing, state = self.sharing, self.sharing.states[block].copy()
        needed = self._needed_after(block)
        for position, op in enumerate(block.ops):
            for i in OPS[op.name].consumes:
                self._take(state, block, position, op, i, needed[position])
            if self._goes(state, op, needed[position]):
                self.elided[op.result] = op.operands[0]
                self._rename(state, op)
            else:
                sharing.step(state, op)
        assert block.term is not None
        if block.term.name == "call":
            for i in _taken(self.module, block.term):
                self._take(state, block, len(block.ops), block.term, i, needed[-1])
        for edge in block.term.edges:
            self._edge(state, block, edge)

    def _needed_after(self, block: Block) -> list[int]:
        """For each op, and then the terminator, the bits of what is read after it."""
        sharing = self.sharing
        assert block.term is not None
        live = sharing.bits(self.liveness.at_end[block])
        needed = [live]
        live |= sharing.bits(block.term.operands)
        for op in reversed(block.ops):
            needed.append(live & ~sharing.bits(op.results))
            live = needed[-1] | sharing.bits(op.operands)
        needed.reverse()
        return needed

    def _can_give(self, state: State, v: Value, needed: int) -> bool:
        """Whether the memory of ``v`` is the function's own and free to be worked on."""
        gone = self.sharing.with_self(state, v) & ~self.detached
        return not gone & (needed | self.borrowed) and not _is_part(v)

    def _detach(self, state: State, block: Block, v: Value, needed: int) -> bool:
        """Let rows of ``v`` that are needed have memory of their own: copying them is less than copying all of it."""
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

    def _goes(self, state: State, op: Op, needed: int) -> bool:
        """Whether an op is a copy of what nothing needs any more."""
        return op.name == "copy" and op.result in self.consumed and self._can_give(state, op.operands[0], needed)

    def _take(self, state: State, block: Block, position: int, op: Op, i: int, needed: int) -> None:
        others = self.sharing.bits(w for j, w in enumerate(op.operands) if j != i)
        v = op.operands[i]
        if not self._can_give(state, v, needed | others) and not self._detach(state, block, v, needed | others):
            self.copies.append((block, position, op, i))

    def _rename(self, state: State, copy: Op) -> None:
        """The result of a copy that goes is its operand from now on."""
        n, v = self.sharing.number[copy.result], copy.operands[0]
        shared = self.sharing.with_self(state, v) & ~(1 << n)
        state.forget(n)
        state.share(n, shared)

    def _edge(self, state: State, block: Block, edge: Edge) -> None:
        offset = edge.offset
        live = self.sharing.bits(self.liveness.before(edge.block))
        kept = [a for p, a in edge.passed() if p not in self.consumed]
        for i, a in enumerate(edge.args):
            if edge.block.params[offset + i] in self.consumed:
                needed = live | self.sharing.bits(kept)
                if self._can_give(state, a, needed) or self._detach(state, block, a, needed):
                    kept.append(a)
                else:
                    self.edge_copies.append((block, edge, i))

    def _copy_rows(self) -> None:
        """Right behind the op that reads a row, for all that uses it."""
        own: dict[Value, Value] = {}
        for v in self.rows:
            assert v.op is not None
            own[v] = _copy_before(v.block, v.block.ops.index(v.op) + 1, v)
        copies = {v.op for v in own.values()}
        for op in self.func.all_ops() if own else ():
            if op not in copies:
                op.replace_uses(own)

    def _copy_on_edges(self) -> None:
        """In the block before where that only jumps or the edge goes back, else in a block on the edge."""
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
