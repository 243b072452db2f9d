"""The verifier: checks that a module is well-formed.  This docstring lists everything that passes may rely on.

``verify`` reports all violations of these invariants together, each with its line of IR and a caret.

Module
  * A function is entered under its own name (a derivative that has been made stays in the list of derivatives).
  * A derivative to be made has a base that exists, a kind, and float parameters, in ascending order, as ``wrt``.
  * A rule belongs to a function that exists, and its functions exist and have the types of its kind (``graph.Rule``).
Function
  * It has blocks; each block, op and value occurs once and points back to its place (owner, index, block, func).
  * No edge enters the first block.  Edges lead to blocks of the same function.
  * ``own`` names parameters that are arrays or stacks.
Block
  * It ends in one terminator; none of its ops is a terminator, and only terminators have edges.
Values
  * Every operand and edge argument is defined in the same function, and on every path before its use
    (its definition dominates it).  In unreachable blocks it need only be defined somewhere.
Types
  * Every op is in the table, and its result types are those of its rule, possibly with sizes forgotten (``?``).
  * A constant has a Python value of its type's kind, in its type's range.
  * An edge has as many arguments as its block has parameters, of the same types; after a call, the results come first.
  * A call names a function of the module, or one to be derived, and has arguments of its parameters' types.
  * ``branch`` takes a bool and two edges, ``switch`` an i64 and one edge or more, ``jump`` one edge, ``return`` values
    of the function's result types, ``raise`` at most four scalars.
  * ``check`` and ``raise`` carry the number of an exception of the module.
Memory (``linear``): see ``linearity.py``.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import CompileError, Loc
from .aliasing.may_alias import Summaries
from .dominance import Dominators, dominators
from .graph import Block, Edge, Function, Module, Op, Rule, Value
from .linearity import faults
from .ops import OPS, TERMINATORS, result_types
from .signature import signature
from .text.printer import FunctionPrinter, print_function
from .type_rules import TypeRuleError
from .types import BOOL, I64, Array, Scalar, Stack, Type, carries_adjoint


@dataclass(frozen=True)
class Violation:
    """A violated invariant; ``where`` shows the line of IR and a caret."""

    message: str
    function: str
    where: str
    loc: Loc

    def __str__(self) -> str:
        at = f" ({self.loc})" if self.loc.line else ""
        return f"@{self.function}: {self.message}{at}" + (f"\n{self.where}" if self.where else "")


class VerifyError(CompileError):
    """IR that violates invariants; ``violations`` lists them all."""

    def __init__(self, violations: Sequence[Violation], text: str = "") -> None:
        self.violations = list(violations)
        count = f"{len(violations)} violation{'s' if len(violations) > 1 else ''} of the IR's invariants"
        super().__init__("\n".join([f"{count}:", *map(str, violations), *([text] if text else [])]))


def verify(module: Module, linear: bool = True, only: Container[str] | None = None) -> None:
    """Raise ``VerifyError`` unless every invariant holds; with ``linear`` those of memory too.

    ``only``: the functions to verify, if all others are known to be well-formed.
    """
    violations = list(_module(module))
    if violations:
        raise VerifyError(violations)
    sound: list[FunctionVerifier] = []
    for func in module.functions.values():
        if only is not None and func.name not in only:
            continue
        checker = FunctionVerifier(module, func)
        if checker.run():
            sound.append(checker)
        violations += checker.violations
    if linear and not violations:
        summaries = Summaries(module)
        for checker in sound:
            for message, op, value in faults(checker.func, module, summaries):
                checker.fail(message, op, value)
            violations += checker.violations
    if violations:
        broken = module.functions.get(violations[0].function)
        raise VerifyError(violations, print_function(broken) if broken else "")


def _module(module: Module) -> Iterator[Violation]:
    def violation(name: str, message: str) -> Violation:
        return Violation(message, name, "", module.functions[name].loc if name in module.functions else Loc())

    for name, func in module.functions.items():
        if name != func.name:
            yield violation(name, f"is a function that calls itself @{func.name}")
        if not func.blocks:
            yield violation(name, "has no blocks")
            return
    for name, derived in module.derived.items():
        if name in module.functions:
            continue
        if derived.kind not in ("vjp", "jvp", "fwd", "bwd", "keep"):
            yield violation(name, f"no kind of derivative: {derived.kind!r}")
            continue
        base = signature(module, derived.base)
        if base is None:
            yield violation(name, f"derived from @{derived.base}, which does not exist")
        elif list(derived.wrt) != sorted(set(derived.wrt)) or not all(
                0 <= i < len(base.params) and carries_adjoint(base.params[i]) for i in derived.wrt):
            yield violation(name, f"{derived.wrt} are not float parameters of @{derived.base}, in order")
    for name, rule in module.rules.items():
        yield from (violation(name, message) for message in _rule(module, name, rule))


def _rule(module: Module, name: str, rule: Rule) -> Iterator[str]:
    """Messages about the differences between a function and its rule (``graph.Rule``)."""
    known = [signature(module, f) for f in (name, *rule.functions)]
    if any(s is None for s in known):
        yield f"its rule names a function that does not exist: {', '.join(rule.functions)}"
        return
    base, *found = [s for s in known if s is not None]
    if list(rule.wrt) != sorted(set(rule.wrt)) or not all(
            0 <= i < len(base.params) and carries_adjoint(base.params[i]) for i in rule.wrt):
        yield f"{rule.wrt} in its rule are not float parameters, in order"
        return
    wrt, seeds = tuple(base.params[i] for i in rule.wrt), tuple(t for t in base.results if carries_adjoint(t))
    have = [(s.params, s.results) for s in found]
    tangents = (base.params + wrt, base.results + seeds)
    if rule.kind == "vjp" and len(have) in (2, 3):
        residuals = have[0][1][len(base.results):]
        want = [(base.params, base.results + residuals), (base.params + residuals + seeds, wrt), tangents][:len(have)]
    elif rule.kind == "jvp":
        want = [tangents]
    elif rule.kind == "checkpoint":
        want = [(base.params, base.results)]
    else:
        yield f"no such rule: {rule.kind!r} of {len(have)} functions"
        return
    if have != want:
        yield f"its rule's functions have other types than a rule of kind {rule.kind!r} has"


ELEMENTWISE = frozenset(name for name, op in OPS.items() if op.elementwise)


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
