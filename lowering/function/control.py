"""Control flow of one function: blocks, their parameters and terminators.

A block parameter is a phi for each of its parts, or no phi if all edges pass the same name.  Back edges of loops poll
for interrupts and release memory.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ...ir.graph import Block, Edge, Op
from ...ir.types import Array
from ...passes.analysis.branches import reads_at_floats
from ...passes.analysis.loops import Loop, counted
from ..builder.function_builder import FunctionBuilder, unlikely
from ..llvm import context, types
from ..llvm.types import Lowered
from ..math import libmvec
from ..memory import arena
from ..memory.loop_buffers import Scratch
from ..planning.fma_control import has_free_sums
from ..planning.row_accesses import is_short, stays_scalar, sums_columns
from ..threads import parallel_calls
from ..threads.safepoints import Polling
from .checks import Checks


class Flow:
    """Lowers the control flow of one function.

    ``apart``: sums that are not contracted, as those of loops in order (``fma_control.py``).
    ``_incoming``: for each block the edges lowered so far, as (LLVM block of origin, arguments).
    """

    def __init__(self, fn: FunctionBuilder, polling: Polling, scratch: Scratch, checks: Checks,
                 apart: Container[Op]) -> None:
        self.fn, self.code, self.polling, self.scratch, self.checks = fn, fn.code, polling, scratch, checks
        self.apart = apart
        self.labels: dict[Block, str] = {}
        self._incoming: dict[Block, list[tuple[str, list[Lowered]]]] = {}
        self._phis: dict[Block, list[list[str | None]]] = {}
        self._mark = ""
        self._recyclers: dict[Block, arena.Recycler] = {}
        self._slots: dict[Block, arena.Slots] = {}

    # --- start and end of the function -------------------------------------------------------------

    def enter(self) -> str:
        """Name the parameters; returns them as LLVM text."""
        fn, code = self.fn, self.code
        texts, i = ["ptr noalias %ctx"], 0
        values: list[Lowered] = []
        for v in fn.func.params:
            parts = []
            for t in types.parts_of(v.type):
                pointer = "ptr noalias" if t == "ptr" and isinstance(v.type, Array) else t
                texts.append(f"{pointer} %arg{i}")
                fn.parameters[f"%arg{i}"] = t
                parts.append(f"%arg{i}")
                i += 1
            values.append(types.assemble(v.type, parts))
        if fn.func.name in fn.module.recursive:
            self._guard_recursion()
        self._mark = code.alloca("i64")
        top = code.load("i64", fn.field("arena_top"), hint="mark")
        code.store("i64", top, self._mark)
        self._arrive(fn.func.entry, values)
        code.jump(self._label(fn.func.entry))
        return ", ".join(texts)

    def _guard_recursion(self) -> None:
        """Compare the machine stack with its limit, and count towards the next poll."""
        code, fn = self.code, self.fn
        here = code.cast("ptrtoint", "ptr", code.alloca("i8", 1, 1), "i64", hint="sp")
        limit = code.load("i64", fn.field("stack_limit"), hint="limit")
        fn.require(code.icmp("ugt", "i64", here, limit, hint="c"), fn.shortage(context.RECURSION))
        if self.polling.active:
            self.polling.poll(1, fn.field("polls"))

    # --- blocks ---------------------------------------------------------------------------------------

    def _label(self, block: Block) -> str:
        if block not in self.labels:
            self.labels[block] = self.code.label(f"{_plain(block.name)}.")
        return self.labels[block]

    def begin(self, block: Block) -> None:
        """Start ``block`` and give its parameters their values."""
        label = self._label(block)
        self.code.start(label)
        self.fn.block = block
        self.checks.begin(block)
        incoming = self._incoming.get(block, [])
        complete = len(incoming) == len(self.fn.places.preds[block]) + (block is self.fn.func.entry)
        phis: list[list[str | None]] = []
        known: dict[tuple[str, ...], str] = {}
        for p in block.params:
            columns = [types.split(args[p.index]) for _, args in incoming]
            parts: list[str] = []
            own: list[str | None] = []
            for k, t in enumerate(types.parts_of(p.type)):
                names = [column[k] for column in columns]
                if len(set(names)) == 1 and (complete or self.fn.places.is_fixed(p, k)):
                    parts.append(names[0])
                    own.append(None)
                    continue
                if complete and (t, *names) in known:               # sizes of arrays that are made together
                    parts.append(known[t, *names])
                    own.append(None)
                    continue
                phi = known[t, *names] = self.code.phi(t, label)
                for (source, _), name in zip(incoming, names):
                    self.code.add_incoming(phi, name, source)
                parts.append(phi)
                own.append(phi)
            phis.append(own)
            self.fn.values[p] = types.assemble(p.type, parts)
        self._phis[block] = phis

    def _arrive(self, block: Block, args: list[Lowered]) -> None:
        """Record an edge from the current LLVM block to ``block`` with ``args``."""
        if block not in self._phis:
            self._incoming.setdefault(block, []).append((self.code.here, args))
            return
        for phis, arg in zip(self._phis[block], args):
            for phi, name in zip(phis, types.split(arg)):
                if phi is not None:
                    self.code.add_incoming(phi, name)

    # --- edges ------------------------------------------------------------------------------------------

    def _go(self, edge: Edge, results: Sequence[Lowered] = ()) -> None:
        """End the current LLVM block by taking ``edge``; ``results`` are those of a call."""
        args = [*results, *(self.fn.values[v] for v in edge.args)]
        self.polling.leave(self.polling.left(self.fn.block, edge.block))
        loop = self.fn.places.heads.get(edge.block)
        if loop is not None and self.fn.block in loop.blocks:
            if weight := self.polling.weight(loop):
                self.polling.poll(weight)
            self._slots[loop.head].fill(args)
            if loop.head in self._recyclers:
                self._recyclers[loop.head].next(args)
        elif loop is not None:
            args = self._enter_loop(loop, args)
        self._arrive(edge.block, args)
        self.code.jump(self._label(edge.block), self.note([edge]))

    def note(self, edges: Sequence[Edge]) -> str:
        """Metadata for a terminator if one of its ``edges`` is a back edge, else ``""``."""
        for e in edges:
            loop = self.fn.places.heads.get(e.block)
            if loop is not None and self.fn.block in loop.blocks:
                term = self.fn.block.term
                if term is not None and term.attrs.get("cold"):
                    return self.fn.writer.loop_note(cold=True)
                branches = len(loop.blocks) > 1 and not loop.children and counted(loop) is not None
                in_order = not self.fn.options.fastmath and sums_columns(loop, self.apart)
                if in_order or is_short(loop):
                    return self.fn.writer.loop_note(scalar=True)
                if branches and stays_scalar(loop, self.fn.forest.dom):
                    return self.fn.writer.loop('!"llvm.loop.vectorize.width", i32 1')
                if loop.children and all(_is_long(child) for child in loop.children):
                    return self.fn.writer.around()
                sums = has_free_sums(loop, self.fn.options.fastmath)
                gathers = self.fn.target.fast_gathers and not loop.children and reads_at_floats(loop)
                if gathers or term is not None and term.attrs.get("wide"):
                    self.fn.width = self.fn.target.full_width
                return self._masked(loop) or self.fn.writer.loop_note(branches, self.fn.group, sums)
        return ""

    def _masked(self, loop: Loop) -> str:
        """Metadata for a loop whose tail should be masked if LLVM vectorises it, else ``""``."""
        if loop.blocks != {loop.head} or not libmvec.masks_tails(self.fn.target.features):
            return ""
        if all(op.name not in libmvec.OPS for op in loop.head.ops):
            return ""
        self.fn.width = self.fn.target.full_width
        return libmvec.masked(self.fn.writer, loop.head.ops, self.fn.group)

    def _plain_edge(self, edge: Edge) -> bool:
        """True if ``_go`` would emit nothing but a jump."""
        loop = self.fn.places.heads.get(edge.block)
        if self.polling.left(self.fn.block, edge.block):
            return False
        if loop is None:
            return True
        recycled = loop.head in self._recyclers and bool(self.fn.allocating & loop.blocks)
        if self.fn.block not in loop.blocks or recycled or self._slots[loop.head].slots:
            return False
        return not self.polling.weight(loop)

    def _enter_loop(self, loop: Loop, args: list[Lowered]) -> list[Lowered]:
        if loop.head not in self._slots:
            self._slots[loop.head] = arena.Slots(self.fn, loop)
        self._slots[loop.head].fill(args)
        if arena.recycles(self.fn, loop):
            if loop.head not in self._recyclers:
                self._recyclers[loop.head] = arena.Recycler(self.fn, loop)
            self._recyclers[loop.head].enter()
        else:
            self.scratch.enter(loop)
        return self.polling.enter(loop, args)

    # --- terminators --------------------------------------------------------------------------------------

    def terminate(self, block: Block) -> None:
        """Lower the terminator of ``block``."""
        op = block.term
        assert op is not None
        if op.name == "jump":
            self._go(op.edges[0])
        elif op.name in ("branch", "switch"):
            self._choose(op)
        elif op.name == "call":
            self._call(op)
        elif op.name == "return":
            self._return(op)
        else:
            self.checks.fail(op.attrs["exc"], op.operands)

    def _choose(self, op: Op) -> None:
        """Lower a branch or switch.  An edge that needs code, or whose target occurs twice, gets a block of its own."""
        loop = self.fn.places.heads.get(op.edges[0].block)
        if loop is not None and loop in self.polling.strips and self.fn.block in loop.blocks:
            args = [self.fn.values[v] for v in op.edges[0].args]
            self._arrive(loop.head, args)
            note = self.note([loop.back_edge()])
            self.polling.end_strip(loop, self._label(loop.head), note, args, lambda: self._go(op.edges[1]))
            return
        code = self.code
        selector = self.fn.scalar(op.operands[0])
        targets = [e.block for e in op.edges]
        detours: list[tuple[str, Edge]] = []
        labels: list[str] = []
        kept = _keeps_branch(op)
        for e in op.edges:
            if targets.count(e.block) == 1 and self._plain_edge(e) and not (kept and e is op.edges[0]):
                self._arrive(e.block, [self.fn.values[v] for v in e.args])
                labels.append(self._label(e.block))
            else:
                labels.append(code.label("edge"))
                detours.append((labels[-1], e))
        if op.name == "branch":
            note = unlikely(self.fn.writer) if op.attrs.get("rare") else self.note(op.edges)
            code.branch(selector, labels[0], labels[1], note)
        else:
            code.switch(selector, labels)
        for label, e in detours:
            code.start(label)
            if kept and e is op.edges[0]:
                code.call_void('asm sideeffect "", ""', note=" memory(none) nounwind")
            self._go(e)

    def _call(self, op: Op) -> None:
        """Lower a call and the jump to its continuation."""
        outside = self.fn.module.external.get(op.attrs["callee"])
        if outside is not None:
            return self._go(op.edges[0], self.fn.call_external(outside, [self.fn.values[v] for v in op.operands]))
        callee = self.fn.module.functions[op.attrs["callee"]]
        if "threads" in op.attrs and not self.fn.target.is_gpu:
            return self._go(op.edges[0], parallel_calls.call(self.fn, op))
        self._go(op.edges[0], self.fn.call(callee, [self.fn.values[v] for v in op.operands]))

    def _return(self, op: Op) -> None:
        fn, code = self.fn, self.code
        values = arena.keep_results(fn, op, self._mark, [fn.values[v] for v in op.operands])
        struct = types.result_struct(fn.func.result_types)
        out = code.insert(struct, "poison", "i32", "0", 0, hint="r")
        parts = [(t, x) for v, value in zip(op.operands, values)
                 for t, x in zip(types.parts_of(v.type), types.split(value))]
        for i, (t, x) in enumerate(parts, 1):
            out = code.insert(struct, out, t, x, i, hint="r")
        code.ret(struct, out)


def _keeps_branch(op: Op) -> bool:
    """True for a rare branch that LLVM would make selections of in spite of its weight: it computes the likely side
    ahead, if the other one computes nothing.
    """
    if not op.attrs.get("rare"):
        return False
    update, other = (e.block for e in op.edges)
    return not update.ops and bool(other.ops) and other not in update.successors()


def _plain(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() or c in "._" else "_" for c in name) or "b"


def _is_long(loop: Loop) -> bool:
    """True if a loop's number of iterations is unknown."""
    known = counted(loop)
    return known is None or known.trip.const is None
