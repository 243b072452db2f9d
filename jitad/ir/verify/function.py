"""The invariants of a function: its blocks, values, types and control flow."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Any, ClassVar

from ..dominance import Dominators, dominators
from ..graph import Block, Edge, Function, Module, Op, Value
from ..ops import ELEMENTWISE, OPS, TERMINATORS, result_types
from ..signature import signature
from ..text.printer import FunctionPrinter
from ..type_rules import TypeRuleError
from ..types import BOOL, I64, Array, Scalar, Stack, Type
from .violations import Violation


class FunctionVerifier:
    """The checks of one function, whose ops are those of ``ops``."""

    ops: Container[str] = OPS
    printer = FunctionPrinter
    ends: Container[str] = TERMINATORS
    fits: ClassVar[set[tuple[Any, ...]]] = set()
    """The ops on scalars that were found to follow their rules (``scalar``): most ops of most programs."""

    def __init__(self, module: Module, func: Function) -> None:
        self.module, self.func = module, func
        self.violations: list[Violation] = []
        self.defined: dict[Value, tuple[Block, int]] = {}      # value → where: -1 for parameters
        self._printer: FunctionPrinter | None = None

    def run(self) -> bool:
        """Check the function; returns True if there is no violation."""
        self._blocks()
        if self.violations:
            return False
        for block in self.func.blocks:
            for op in block.ops:
                self.op(op)
            assert block.term is not None
            self._terminator(block.term)
        self.dominance()
        return not self.violations

    def fail(self, message: str, op: Op | None = None, value: Value | None = None) -> None:
        """Record a violation, at an op and under one of its values."""
        where, loc = "", self.func.loc
        if op is not None:
            self._printer = self._printer or self.printer(self.func)
            line = self._printer.op(op)
            name = self._printer.value(value) if value is not None else op.name
            places = [m.start() for m in re.finditer(re.escape(name) + r"(?![\w.])", line)] or [0]
            caret = " " * places[-1] + "^" * len(name)          # the last one, since operands follow results
            where, loc = f"    {line}\n    {caret}", op.loc if op.loc.line else loc
        self.violations.append(Violation(message, self.func.name, where, loc))

    # --- structure ------------------------------------------------------------------------------------

    def _blocks(self) -> None:
        func = self.func
        for i in func.own:
            if not 0 <= i < len(func.params) or isinstance(func.params[i].type, Scalar):
                self.fail(f"owns parameter {i}, which is no array or stack")
        blocks: set[Block] = set()
        ops: set[Op] = set()
        for block in func.blocks:
            if block in blocks or block.func is not func:
                self.fail(f"{block} stands in two places or belongs elsewhere")
            blocks.add(block)
            self.contents(block, ops, f"{block.name or f'^b{func.blocks.index(block)}'}")
        for op in func.all_ops():
            for edge in op.edges:
                if edge.block not in blocks:
                    self.fail("leads to a block of another function", op)
                elif edge.block is func.entry:
                    self.fail("leads to the entry block", op)

    def contents(self, block: Block, seen: set[Op], name: str) -> None:
        """Check the form of a block: its ops, in their places, and its terminator."""
        self.place(block, block, -1, block.params)
        known, ends, place = self.ops, self.ends, self.place
        for i, op in enumerate(block.ops):
            if op.name not in known or op.name in ends or op.edges:
                self._no_operation(op)
            if op in seen or op.block is not block:
                self.fail("stands in two places or belongs to another block", op)
            seen.add(op)
            place(block, op, i, op.results)
            if op.regions or op.name == "for":
                self.regions(op, seen)
        if block.term is None:
            self.fail(f"{name} has no terminator")
        elif block.term.name not in self.ends or block.term.results:
            self.fail("not a terminator", block.term)
        else:
            if block.term in seen or block.term.block is not block:
                self.fail("stands in two places or belongs to another block", block.term)
            seen.add(block.term)

    def regions(self, op: Op, seen: set[Op]) -> None:
        """Check the form of an op's regions: at this level it has none."""
        if op.regions:
            self.fail("an operation with regions", op)

    def _no_operation(self, op: Op) -> None:
        if op.name in self.ends:
            self.fail("a terminator among the operations", op)
        elif op.name not in self.ops:
            self.fail(f"no such operation: {op.name}", op)
        else:
            self.fail("an operation with edges", op)

    def place(self, block: Block, owner: Op | Block, index: int, values: Sequence[Value]) -> None:
        """Note where values are defined, and check that they point back there."""
        defined, at, i = self.defined, (block, index), 0
        for v in values:
            if v in defined or v.owner is not owner or v.index != i:
                self.fail(f"{v} stands in two places or belongs elsewhere", owner if isinstance(owner, Op) else None)
            defined[v] = at
            i += 1

    # --- types ----------------------------------------------------------------------------------------

    def op(self, op: Op) -> None:
        """Check the types of an op that is not a terminator."""
        for v in op.operands:
            if v not in self.defined:
                return                                          # reported by ``dominance``
        if (key := self.scalar(op)) in self.fits:
            return
        try:
            expected = self.rule(op)
        except (TypeRuleError, TypeError, ValueError, AttributeError) as e:
            self.fail(f"{op.name}: {e}", op)
            return
        types = [r.type for r in op.results]
        if types != expected and (len(types) != len(expected) or not all(map(self.forgets, expected, types))):
            self.fail(f"has type {_list(types)}, its rule says {_list(expected)}", op)
        elif op.name == "const" and not _is_constant(op.attrs["value"], types[0]):
            self.fail(f"{op.attrs['value']!r} is no {types[0]}", op)
        elif key is not None:
            self.fits.add(key)
        if op.name == "check":
            self._exception(op, op.operands[1:])

    def scalar(self, op: Op) -> tuple[Any, ...] | None:
        """All on which the rule of an elementwise op on scalars depends: its name and types; None for other ops."""
        if op.attrs or op.name not in ELEMENTWISE:
            return None
        key = (op.name, *[v.type for v in op.operands], None, *[v.type for v in op.results])
        return key if all(type(t) is Scalar for t in key[1:] if t is not None) else None

    def rule(self, op: Op) -> list[Type]:
        """The result types by the op's rule; raises ``TypeRuleError``."""
        return result_types(op.name, op.operands, op.attrs)

    def forgets(self, known: Type, declared: Type) -> bool:
        """True if ``declared`` is ``known``, possibly with sizes forgotten."""
        if isinstance(known, Array) and isinstance(declared, Array):
            return (known.dtype == declared.dtype and known.rank == declared.rank
                    and all(d is None or d == k for k, d in zip(known.dims, declared.dims)))
        return known == declared

    def _exception(self, op: Op, values: Sequence[Value]) -> None:
        number = op.attrs.get("exc")
        if not isinstance(number, int) or not 0 <= number < len(self.module.exceptions):
            self.fail(f"no exception number {number}", op)
        if len(values) > 4:
            self.fail("more than four values for the message", op, values[4])
        for v in values:
            if not isinstance(v.type, Scalar):
                self.fail(f"the message takes scalars, not {v.type}", op, v)

    def _terminator(self, op: Op) -> None:
        if op.name == "call":
            self._call(op)
            return
        if op.name == "return":
            self.types(op, op.operands, self.func.result_types, "the function returns")
        elif op.name == "raise":
            self._exception(op, op.operands)
        else:
            self.types(op, op.operands, _TAKES[op.name], "the terminator takes")
        least, most = _EDGES[op.name]
        if not least <= len(op.edges) <= most:
            self.fail(f"has {len(op.edges)} edges", op)
        for edge in op.edges:
            self.edge(op, edge, [])

    def _call(self, op: Op) -> None:
        callee = signature(self.module, str(op.attrs.get("callee")))
        if callee is None:
            self.fail(f"no function @{op.attrs.get('callee')}", op)
            return
        self.types(op, op.operands, callee.params, "the callee takes")
        if len(op.edges) != 1:
            self.fail(f"has {len(op.edges)} edges", op)
        for edge in op.edges:
            self.edge(op, edge, callee.results)

    def edge(self, op: Op, edge: Edge, results: Sequence[Type]) -> None:
        """Check the types of an edge's arguments, and of the ``results`` of the call that it leaves."""
        params = [p.type for p in edge.block.params]
        if params[:len(results)] != list(results):
            self.fail(f"the callee returns {_list(results)}, the block takes {_list(params)}", op)
        else:
            self.types(op, edge.args, params[len(results):], "the block takes")

    def types(self, op: Op, values: Sequence[Value], types: Sequence[Type], who: str) -> None:
        """Check that values have these types; ``who`` begins the message."""
        if len(values) != len(types):
            self.fail(f"{who} {len(types)} values ({_list(types)}), here are {len(values)}", op)
            return
        for v, t in zip(values, types):
            if v.type != t:
                self.fail(f"{who} {t}, here is {v.type}", op, v)

    # --- definition before use ------------------------------------------------------------------------

    def dominance(self) -> None:
        """Check that every value is defined before its use."""
        tree, get = dominators(self.func), self.defined.get
        for block in self.func.blocks:
            dominating: dict[Block | None, bool] = {block: True}        # blocks known to dominate this one
            for i, op in enumerate(block.ops):
                for v in op.operands:
                    home, at = get(v, _NOWHERE)
                    if at >= i if home is block else not dominating.get(home):
                        self._use(op, v, block, i, tree, dominating)
            if block.term is not None:
                for v in block.term.used():
                    if not dominating.get(get(v, _NOWHERE)[0]):
                        self._use(block.term, v, block, len(block.ops), tree, dominating)

    def _use(self, op: Op, v: Value, block: Block, index: int, tree: Dominators,
             dominating: dict[Block | None, bool]) -> None:
        """Check a use in an op at ``index`` in ``block``, and note the block of the value if it is sound."""
        home, at = self.defined.get(v, _NOWHERE)
        if home is None:
            self.fail("a value of another function, or of none", op, v)
        elif block in tree.reachable and (at >= index if home is block else not _dominates(tree, home, block)):
            self.fail(f"{self.named(v)} is not defined on every path to here", op, v)
        elif home is not block:
            dominating[home] = True

    def named(self, v: Value) -> str:
        """The name of a value in the text."""
        self._printer = self._printer or self.printer(self.func)
        return self._printer.value(v)


_NOWHERE = None, 0


def _dominates(tree: Dominators, home: Block, block: Block) -> bool:
    return home in tree.reachable and block in tree.reachable and tree.dominates(home, block)


_TAKES: dict[str, tuple[Type, ...]] = {"jump": (), "branch": (BOOL,), "switch": (I64,)}
_EDGES = {"jump": (1, 1), "branch": (2, 2), "switch": (1, 1 << 30), "return": (0, 0), "raise": (0, 0)}


def _is_constant(value: Any, t: Type) -> bool:
    if not isinstance(t, Scalar):
        return False
    if t.is_bool:
        return isinstance(value, bool)
    if t.is_int:
        return type(value) is int and t.low <= value <= t.high
    return isinstance(value, float)


def _list(types: Sequence[Type | Stack]) -> str:
    return ", ".join(map(str, types)) or "nothing"
