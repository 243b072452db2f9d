"""The verifier of the loop level.

It checks the invariants of ``ir/verify`` on functions, blocks, values, types and control flow, and besides:

Regions
  * A ``for`` has one region: a block of no function's list, ended by ``yield``, with an i64 parameter and one for each
    carried value, of its type; ``yield`` passes values of these types.  No other op has regions.
  * A value that is defined in a region is used in that region only, after its definition.
  * ``reductions`` names a kind for each carried value; a loop that is ``independent`` carries reductions only.
Memory
  * Every access is to an element of the buffer's type.  An edge passes a buffer of the alias set of its parameter,
    and a view has the set of its buffer.
  * No buffer is written that may be a parameter which the function borrows.
  * No buffer is used after it, or the buffer of which it is a view, was given to a callee that owns it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from ..ir.dominance import Dominators
from ..ir.graph import Block, Edge, Function, Module, Op, Value
from ..ir.ops import TERMINATORS
from ..ir.types import I64, Type
from ..ir.verify import FunctionVerifier, VerifyError, Violation
from .ops import OPS, REDUCTIONS, masked, result_types
from .text import LoopPrinter, print_function
from .types import Buffer, as_types, is_buffer, type_of


def verify(module: Module) -> None:
    """Raise ``VerifyError`` with all violations, unless there is none."""
    violations: list[Violation] = []
    for func in module.functions.values():
        checker = LoopVerifier(module, func)
        if checker.run():
            for message, op, v in memory_faults(module, func):
                checker.fail(message, op, v)
        violations += checker.violations
    if violations:
        raise VerifyError(violations, print_function(module.functions[violations[0].function]))


class LoopVerifier(FunctionVerifier):
    """The checks of one function but for memory."""

    ops = OPS
    printer = LoopPrinter
    ends = (*TERMINATORS, "yield")
    fits: ClassVar[set[tuple[Any, ...]]] = set()

    def __init__(self, module: Module, func: Function) -> None:
        super().__init__(module, func)
        self.within: dict[Block, Op] = {}            # a region → its op

    def contents(self, block: Block, seen: set[Op], name: str) -> None:
        super().contents(block, seen, name)
        if block.term is not None and (block.term.name == "yield") != (block in self.within):
            self.fail("yield ends the region of a loop, and nothing else", block.term)

    def regions(self, op: Op, seen: set[Op]) -> None:
        if len(op.regions) != (op.name == "for"):
            self.fail(f"{op.name} has {len(op.regions)} regions", op)
        for region in op.regions:
            if region in self.func.blocks or region in self.within or region.func is not self.func:
                self.fail("its region stands in two places or belongs elsewhere", op)
                continue
            self.within[region] = op
            self.contents(region, seen, "a region")

    def rule(self, op: Op) -> list[Type]:
        return as_types(result_types(op.name, op.operands, op.attrs))

    def forgets(self, known: Type, declared: Type) -> bool:
        return known == declared

    def op(self, op: Op) -> None:
        super().op(op)
        if op.name == "for":
            self._for(op)
        elif OPS[op.name].view and _alias(op.operands[0]) != _alias(op.results[0]):
            self.fail("a view has the alias set of its buffer", op)

    def _for(self, op: Op) -> None:
        (body,), carried = op.regions, [v.type for v in op.operands[3:]]
        self.types(op, body.params, [I64, *carried], "the loop carries")
        kinds = op.attrs.get("reductions", ())
        if any(k not in REDUCTIONS for k in kinds) or (kinds and len(kinds) != len(carried)):
            self.fail(f"carries {len(carried)} values with reductions {kinds}", op)
        if op.attrs.get("independent") and carried and not kinds:
            self.fail("an independent loop carries reductions only", op)
        for inner in body.ops:
            self.op(inner)
        assert body.term is not None
        if body.term.edges:
            self.fail("yield has no edges", body.term)
        self.types(body.term, body.term.operands, carried, "the loop carries")

    def edge(self, op: Op, edge: Edge, results: Sequence[Type]) -> None:
        super().edge(op, edge, results)
        for param, v in edge.passed():
            if _alias(param) != _alias(v):
                self.fail("passes a buffer of another alias set than its parameter's", op, v)

    # --- definition before use -----------------------------------------------------------------------

    def dominance(self) -> None:
        tree = Dominators(self.func)
        for block in self.func.blocks:
            if block in tree.reachable:
                self._region(block, tree, ())

    def _region(self, block: Block, tree: Dominators, around: tuple[tuple[Block, int], ...]) -> None:
        """Check the uses in a block; ``around``: the blocks that enclose it, and where in each it stands."""
        for i, op in enumerate(block.all_ops()):
            here = (*around, (block, i))
            for v in op.used():
                if v not in self.defined:
                    self.fail("a value of another function, or of none", op, v)
                elif not self._before(v, here, tree):
                    self.fail(f"{self.named(v)} is not defined on every path to here", op, v)
            for region in op.regions:
                self._region(region, tree, here)

    def _before(self, v: Value, here: tuple[tuple[Block, int], ...], tree: Dominators) -> bool:
        """True if ``v`` is defined at a place, which is given from the outermost block to the innermost."""
        home, at = self.defined[v]
        for block, i in here:
            if block is home:
                return at < i
        outermost = here[0][0]
        return home in tree.reachable and tree.dominates(home, outermost)


def _alias(v: Value) -> int | None:
    t = type_of(v)
    return t.alias if isinstance(t, Buffer) else None


# --- memory ---------------------------------------------------------------------------------------------

Fault = tuple[str, Op, Value]
Origins = dict[Value, frozenset[Value]]


def memory_faults(module: Module, func: Function) -> Iterator[Fault]:
    """Writes to borrowed memory, and uses of memory after a callee may have taken it."""
    origins = origins_of(func)
    borrowed = {p for i, p in enumerate(func.params) if is_buffer(p) and i not in func.own}
    for op in (op for block in func.blocks for op in block.nested_ops()):
        for v in written(op):
            if origins[v] & borrowed:
                yield "writes to memory that the function borrows", op, v
    roots = _view_roots(func)
    dead = _given(module, func, roots)
    for block in func.blocks:
        gone = dead[block]
        for op in block.nested_ops():
            for v in op.used():
                if roots.get(v, v) in gone:
                    yield "used after its memory was given up", op, v
            gone = gone.difference(op.results)           # made anew, in a later iteration


def written(op: Op) -> Iterator[Value]:
    """The buffers that an op writes."""
    definition = OPS.get(op.name)
    skipped = masked(op.name, op.attrs)
    for i in definition.writes if definition else ():
        yield op.operands[i + skipped]


def origins_of(func: Function) -> Origins:
    """The values that may have made the memory of each buffer: parameters, allocations, calls, frames."""
    found: Origins = {v: frozenset({v}) for v in _made(func)}
    changed = True
    while changed:
        changed = False
        for v, sources in _sources(func):
            new = frozenset().union(*(found.get(s, frozenset()) for s in sources))
            if new != found.get(v):
                found[v], changed = new, True
    return found


def _made(func: Function) -> Iterator[Value]:
    yield from filter(is_buffer, func.params)
    for block in func.blocks:
        for op in block.nested_ops():
            if op.name in ("alloc", "undef", "pop"):
                yield from filter(is_buffer, op.results)
            elif op.name == "call":
                yield from filter(is_buffer, op.edges[0].results)


def _sources(func: Function) -> Iterator[tuple[Value, list[Value]]]:
    """Each buffer that is made from others, and these: views, carried values, parameters of blocks."""
    passed: dict[Value, list[Value]] = {}
    for block in func.blocks:
        for op in block.nested_ops():
            if op.name == "for":
                body = op.regions[0]
                assert body.term is not None
                for param, result, first, last in zip(body.params[1:], op.results, op.operands[3:], body.term.operands):
                    if is_buffer(param):
                        passed[param] = passed[result] = [first, last]
            elif op.name in OPS and OPS[op.name].view:
                passed[op.results[0]] = [op.operands[0]]
            for edge in op.edges:
                for param, v in edge.passed():
                    if is_buffer(param):
                        passed.setdefault(param, []).append(v)
    yield from passed.items()


def _view_roots(func: Function) -> dict[Value, Value]:
    """For each view the buffer of which it is a view, through other views."""
    found: dict[Value, Value] = {}
    for block in Dominators(func).preorder():
        for op in block.nested_ops():
            if op.name in OPS and OPS[op.name].view:
                found[op.results[0]] = found.get(op.operands[0], op.operands[0])
    return found


def _given(module: Module, func: Function, roots: dict[Value, Value]) -> dict[Block, frozenset[Value]]:
    """The buffers that callees own at the start of each block, as views and parameters of blocks do not name them."""
    start: dict[Block, frozenset[Value]] = {b: frozenset() for b in func.blocks}
    changed = any(b.term is not None and b.term.name == "call" for b in func.blocks)
    while changed:
        changed = False
        for block in func.blocks:
            term = block.term
            assert term is not None
            made = {r for op in block.nested_ops() for r in op.results}
            after = (start[block] - made) | _taken(module, term, roots)
            for edge in term.edges:
                new = start[edge.block] | (after - {*edge.block.params})
                if new != start[edge.block]:
                    start[edge.block], changed = new, True
    return start


def _taken(module: Module, term: Op, roots: dict[Value, Value]) -> frozenset[Value]:
    """The buffers that the callee of a terminator owns."""
    callee = module.functions.get(term.attrs["callee"]) if term.name == "call" else None
    given = [term.operands[i] for i in callee.own] if callee is not None else []
    return frozenset(roots.get(v, v) for v in given if is_buffer(v))
