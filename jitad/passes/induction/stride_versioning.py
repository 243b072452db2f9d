"""Gives loops that step by a value known at run time a version that is counted, and has no checks of what is stepped.

::

    ^preheader:                              ^preheader:
      jump ^loop(%start)                       branch (0 <= start <= bound < n and step > 0), ^fast, ^checked
    ^loop(%j):                    becomes    ^fast:     trip = (bound - start) // step + 1; the loop, ``trip`` times
      check 0 <= j < n                       ^checked:  the original loop
      …
      %k = add %j, %step
      branch %k <= %bound, ^loop(%k), …

A sieve's inner loop, ``while j <= n: …; j += i``, is such a loop.  A counted loop need not poll, and may be vectorised.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import BOOL, I64
from ..analysis.cfg import own_exit, set_term
from ..analysis.loops import Loop, counted, loop_forest

FAR = 2**61
"""A bound of the stepped value and its step: their sum does not wrap."""
LARGEST = 60
"""The most ops of a loop that is copied."""


@dataclass(frozen=True)
class Stride:
    """A loop that is repeated while ``index + step`` is below ``bound``, or equal to it if ``inclusive``."""

    index: Value
    step: Value
    bound: Value
    inclusive: bool

    def step_at(self, b: Builder) -> Value:
        """The step where ``b`` builds; a constant may be defined in the loop."""
        return b.again(self.step)


def stride_versioning(module: Module) -> None:
    """Give every such innermost loop a counted version; expects normal form."""
    for func in module.functions.values():
        forest = loop_forest(func)
        unclosed = forest.open_loops() if forest.loops else set()
        for loop in forest.loops:
            if not loop.children and loop.exit is not None and counted(loop) is None and loop not in unclosed:
                stride = _stride(loop)
                if stride is not None and sum(len(b.ops) for b in loop.blocks) <= LARGEST:
                    _split(func, loop, stride, forest.dom.in_order(loop.blocks))


def _stride(loop: Loop) -> Stride | None:
    latch = loop.latch
    if loop.preheader is None or latch is None or latch.term is None or latch.term.name != "branch":
        return None
    test = latch.term.operands[0].op
    if test is None or test.name not in ("lt", "le") or latch.term.edges[0].block is not loop.head:
        return None
    following, bound = test.operands
    if bound.block in loop.blocks or following.op is None or following.op.name != "add" or bound.type != I64:
        return None
    for index, step in (following.op.operands, following.op.operands[::-1]):
        if index.owner is loop.head and loop.back_edge().args[index.index] is following and (
                step.block not in loop.blocks or step.const is not None):
            return Stride(index, step, bound, test.name == "le")
    return None


def _settled(blocks: list[Block], index: Value) -> dict[Op, bool]:
    """The comparisons of the index, as it is or counted from the end, which hold or do not if it is in bounds."""
    places, found = {index}, dict[Op, bool]()
    checked = {v for b in blocks for op in b.ops if op.name == "check" for v in op.operands[:1]}
    checked |= {v for c in checked if c.op is not None and c.op.name == "and" for v in c.op.operands}
    for op in (op for b in blocks for op in b.ops):
        zero = len(op.operands) == 2 and op.operands[1].const == 0
        if op.name == "select" and op.operands[2] is index and found.get(op.operands[0].op or op) is False:
            places.add(op.result)
        elif op.name in ("lt", "ge") and op.operands[0] in places and zero:
            found[op] = op.name == "ge"
        elif op.name == "lt" and op.operands[0] in places and op.result in checked \
                and op.operands[1].block not in blocks:
            found[op] = True
    return found


def _split(func: Function, loop: Loop, stride: Stride, order: list[Block]) -> None:
    """Add the version, if the index is checked against sizes that do not change."""
    preheader, latch, leave = loop.preheader, loop.latch, loop.exit
    assert preheader is not None and latch is not None and latch.term is not None and leave is not None
    settled = _settled(order, stride.index)
    sizes = [op.operands[1] for op, holds in settled.items() if op.name == "lt" and holds]
    if not sizes:
        return
    values: dict[Value, Value] = {}
    blocks = clone_blocks(order, func, values)
    entry, fast, slow = loop.entry_edge(), func.new_block("fast"), func.new_block("checked")
    latch.term.attrs["cold"] = True                          # the lowering keeps its code small
    holds = _holds(preheader, loop, stride, sizes)
    set_term(preheader, "branch", [holds], [Edge(fast), Edge(slow)])
    set_term(slow, "jump", edges=[Edge(loop.head, list(entry.args))])
    _count(fast, blocks[loop.head], blocks[latch], stride, entry)
    for op, truth in settled.items():
        twin = values[op.result].op
        assert twin is not None
        twin.name, twin.operands, twin.attrs = "const", [], {"value": truth, "type": BOOL}
    for end in (latch, blocks[latch]):
        own_exit(func, end, leave)


def _holds(preheader: Block, loop: Loop, stride: Stride, sizes: list[Value]) -> Value:
    """Emit the test that the index is in bounds in all iterations, and that it does not wrap."""
    start = loop.entry_edge().args[stride.index.index]
    preheader.term = None
    b = Builder(preheader, loop.head.ops[0].loc if loop.head.ops else loop.head.func.loc)
    below = "le" if stride.inclusive else "lt"
    step = stride.step_at(b)
    tests = [b.ge(start, 0), b.emit(below, start, stride.bound), b.ge(step, 1), b.le(step, FAR),
             b.le(stride.bound, FAR)]
    for size in dict.fromkeys(sizes):
        tests.append(b.emit("lt" if stride.inclusive else "le", stride.bound, size))
    holds = tests[0]
    for test in tests[1:]:
        holds = b.and_(holds, test)
    return holds


def _count(fast: Block, head: Block, latch: Block, stride: Stride, entry: Edge) -> None:
    """Enter the copy with its trip count, and let it count."""
    assert latch.term is not None
    b = Builder(fast, latch.term.loc)
    step = stride.step_at(b)
    way = b.sub(stride.bound, entry.args[stride.index.index])
    trip = b.add(b.emit("floordiv", way if stride.inclusive else b.sub(way, 1), step), 1)
    counter = head.add_param(I64, "it")
    set_term(fast, "jump", edges=[Edge(head, [*entry.args, b.const(0)])])
    term, latch.term = latch.term, None
    b = Builder(latch, term.loc)
    following = b.add(counter, 1)
    term.operands = [b.lt(following, trip)]
    next(e for e in term.edges if e.block is head).args.append(following)
    latch.term = term
