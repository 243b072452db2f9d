"""Builds the loop level from the IR of the stage "optimized", as ``lowering/planning`` decides.

Blocks and terminators stay.  An array that control flow carries becomes a buffer, which edges, calls and frames pass.
An op on scalars stays; one with an array among its operands or results becomes loops (``_RULES``), or nothing if its
result is lazy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import CompileError
from ...ir.aliasing.alias_classes import ClassSummary, class_summaries, is_array
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array
from ...lowering.planning.buffer_placement import LOCAL_LIMIT
from ..types import lowered
from . import nests, products, reductions, shapes, updates
from .cleanup import fold_sizes, remove_unused
from .state import FunctionState, State
from .structure import structure_loops

Rule = Callable[[State, Op], None]

_RULES: dict[str, Rule] = {
    "dim": shapes.dim, "undef": shapes.undef, "empty": shapes.empty, "get": shapes.get, "concat": shapes.concat,
    "nonzero": shapes.nonzero,
    **{name: nests.store for name in ("fill", "iota", "copy", "broadcast_to", "transpose", "take", "slice", "reshape",
                                      "as_type")},
    "set": updates.at_index, "add_at": updates.at_index, "set_slice": updates.in_slice, "add_slice": updates.in_slice,
    "put": updates.at_indices, "add_put": updates.at_indices,
    **{name: reductions.fold for name in ("sum", "prod", "max", "min", "all", "any")},
    "argmax": reductions.arg, "argmin": reductions.arg, "cumsum": reductions.scan, "cumprod": reductions.scan,
    "matmul": products.matmul,
}
_STACKS = ("stack_empty", "push", "pop")
COVERED = frozenset(_RULES) | {*_STACKS, "const", "check"} | {name for name, op in OPS.items() if op.elementwise}
"""The ops of the IR that have a form at this level."""


class NotCovered(CompileError):
    """An op of the IR that has no form at the loop level."""


def to_loops(module: Module, local: int = LOCAL_LIMIT, device: bool = False) -> Module:
    """A module of the loop level with the same functions; ``module`` is unchanged.  Raises ``NotCovered``.

    ``local``: the most elements of a buffer in the stack frame.  ``device``: see ``State``.
    """
    out = Module()
    out.exceptions = module.exceptions
    summaries = class_summaries(module.functions)
    for func in module.functions.values():
        out.add(_Function(func, summaries, local, device).build())
    return out


class _Function:
    """Builds one function."""

    def __init__(self, func: Function, summaries: Mapping[str, ClassSummary], local: int, device: bool) -> None:
        self.func = func
        self.fn = FunctionState(func, summaries, local, device)
        self.blocks: dict[Block, Block] = {}

    def build(self) -> Function:
        out, fn = self.fn.out, self.fn
        out.result_types = [lowered(t) for t in self.func.result_types]
        out.own, out.attrs, out.loc = set(self.func.own), dict(self.func.attrs), self.func.loc
        order = fn.forest.dom.order
        for block in order:
            self.blocks[block] = made = out.entry if block is self.func.entry else out.new_block(block.name)
            made.name = block.name
            for p in block.params:
                fn.values[p] = made.add_param(fn.type(p), p.hint)
        for block in order:
            self._block(block)
        structure_loops(out, fn.writer)
        fn.writer.finish()
        fold_sizes(out)
        remove_unused(out)
        return out

    def _block(self, block: Block) -> None:
        fn = self.fn
        fn.writer.block = self.blocks[block]
        for p in filter(is_array, block.params):
            fn.measure(p, fn.values[p])
        for op in block.ops:
            fn.writer.loc = op.loc
            _op(fn, op)
        term = block.term
        assert term is not None
        fn.writer.loc = term.loc
        edges = [Edge(self.blocks[e.block], [self._passed(v, p) for p, v in e.passed()]) for e in term.edges]
        fn.writer.end(term.name, [fn.values[v] for v in term.operands], edges, **term.attrs)

    def _passed(self, v: Value, p: Value) -> Value:
        """The argument for a block's parameter."""
        return self.fn.renamed(v, p) if is_array(v) else self.fn.scalar(v)


def _op(fn: FunctionState, op: Op) -> None:
    """Build one op that is not a terminator."""
    if op.name not in COVERED:
        raise NotCovered(f"{op.name} has no form at the loop level")
    if op.name in _STACKS:
        _stack(fn, op)
    elif op.name == "check":
        fn.writer.do("check", [fn.scalar(v) for v in op.operands], **op.attrs)
    elif is_array(op.result) or any(map(is_array, op.operands)):
        array(fn, op)
    elif op.name == "const":
        fn.values[op.result] = fn.writer.const(op.attrs["value"], op.attrs["type"])
    elif op.name == "undef":
        fn.values[op.result] = fn.writer.do("undef", type=op.result.type).result
    else:
        fn.values[op.result] = fn.writer.do(op.name, [fn.scalar(v) for v in op.operands], **op.attrs).result
        fn.values[op.result].hint = op.result.hint


def _stack(fn: FunctionState, op: Op) -> None:
    attrs = op.attrs | ({"types": tuple(fn.type(r) for r in op.results[1:])} if op.name == "pop" else {})
    made = fn.writer.do(op.name, [fn.values[v] for v in op.operands], **attrs)
    for v, x in zip(op.results, made.results, strict=True):
        if isinstance(v.type, Array):
            fn.measure(v, x)
        else:
            fn.values[v] = x


def array(fn: State, op: Op) -> None:
    """Build an op with an array among its operands or results, unless its result is computed where it is read."""
    plan, v = fn.plan, op.result
    if is_array(v):
        fn.set_sizes(v, shapes.result_sizes(fn, op))
        if shapes.view(fn, op):
            plan.lazy.discard(v)
            return
    if v in plan.lazy or op in plan.deferred:
        return
    group = plan.groups.get(op, [op])
    if len(group) > 1:
        if op is group[-1]:
            nests.group(fn, group)
    elif v in plan.accumulate:
        products.accumulate(fn, op)
    elif OPS[op.name].elementwise:
        nests.store(fn, op)
    else:
        _RULES[op.name](fn, op)
