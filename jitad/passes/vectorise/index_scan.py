"""Tests all data-dependent indices of a loop before the loop, so that the loop can be vectorised.

An index that is loaded, as in ``x[at[k]]``, is checked in each iteration.  A check may end the loop, so nothing in the
loop is vectorised, however expensive.  The index arrays can be read on their own, which is cheap and is vectorised::

    ^preheader:  jump ^scan(0, true)
    ^scan(i, holds):                     # holds and 0 <= at[i] < len(x), for all i
    ^scanned:    branch holds, ^enter, ^checked
    ^loop(i):    s += exp(x[at[i]])      # the original without these checks
    ^checked:    a copy of the original, which raises in the right iteration, or counts negative indices from the end

*Foreseen* values are integers that depend on the counter, loop-invariant values, and elements of arrays that the loop
does not update, at indices that do not depend on elements themselves.  Such elements may be read before any check of
the loop: all checks are of floats, or compare an element with a loop-invariant value, and no proof that a counter is
in range can rest on either.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import BOOL, I64, Scalar
from ..analysis.cfg import own_exit
from ..analysis.loops import Counted, Loop, counted, loop_forest

_COMPARISONS = frozenset({"lt", "le", "gt", "ge"})
_ARITHMETIC = frozenset({"add", "sub", "mul", "maximum", "minimum"})
LEAST = 32
"""Loops with at most this constant trip count are left: the scan would cost as much as it saves."""
LARGEST = 120
"""The most ops of a loop that is copied."""


def index_scan(module: Module) -> None:
    """Give every such loop that calls vector functions a version without checks of indices; expects normal form."""
    for func in module.functions.values():
        if not any(_has_vector_functions(b) for b in func.blocks):
            continue
        forest = loop_forest(func)
        unclosed = forest.open_loops()
        for loop in forest.loops:
            known = counted(loop)
            if known is None or loop.blocks != {loop.head} or loop.exit is None or loop in unclosed:
                continue
            if (known.trip.const or LEAST + 1) > LEAST and len(loop.head.ops) <= LARGEST:
                if _has_vector_functions(loop.head):
                    _Scan(func, loop, known).run()


def _has_vector_functions(block: Block) -> bool:
    return any(OPS[op.name].vector for op in block.ops)


class _Scan:
    """``wanted``: the comparisons that the scan tests, and how they must turn out."""

    def __init__(self, func: Function, loop: Loop, known: Counted) -> None:
        self.func, self.loop, self.known, self.head = func, loop, known, loop.head
        self.wanted: dict[Value, bool] = {}
        self.kinds: dict[Value, bool | None] = {known.iv: False}

    def run(self) -> None:
        for op in self.head.ops:
            if op.name == "select" and _tests_sign(op) and self._is_foreseen_test(op.operands[0]):
                self.wanted[op.operands[0]] = False
        checks = [op for op in self.head.ops if op.name == "check"]
        decided = [op for op in checks if self._want(op.operands[0])]
        if decided and all(op in decided or _is_of_floats(op.operands[0]) for op in checks):
            self._split(decided)

    # --- foreseen values ------------------------------------------------------------------------------

    def _want(self, condition: Value) -> bool:
        """Add the comparisons that ``condition`` is a conjunction of; returns False if one is not foreseen."""
        op = condition.op
        if op is not None and op.name == "and" and op.block is self.head:
            return all([self._want(v) for v in op.operands])
        if not self._is_foreseen_test(condition) or self.wanted.get(condition) is False:
            return False
        self.wanted[condition] = True
        return True

    def _is_foreseen_test(self, condition: Value) -> bool:
        """True if ``condition`` compares a foreseen value that depends on an element with a loop-invariant one."""
        op = condition.op
        if op is None or op.block is not self.head or op.name not in _COMPARISONS or op.operands[0].type != I64:
            return False
        x, y = op.operands
        return any(self._kind(v) is True and self._is_invariant(u) for v, u in ((x, y), (y, x)))

    def _is_invariant(self, v: Value) -> bool:
        return v.block is not self.head or v.const is not None

    def _kind(self, v: Value) -> bool | None:
        """True if a foreseen value depends on an element, false if not; ``None`` if the value is not foreseen."""
        if v not in self.kinds:
            self.kinds[v] = False if self._is_invariant(v) else None if v.op is None else self._kind_of(v.op)
        return self.kinds[v]

    def _kind_of(self, op: Op) -> bool | None:
        if op.name == "get":
            array, *indices = op.operands
            plain = all(self._kind(i) is False for i in indices)
            return True if plain and array.block is not self.head and _is_int(op.result) else None
        if op.name == "select":
            chosen = self._chosen(op)
            return None if chosen is None else self._kind(chosen)
        if op.name not in _ARITHMETIC and not (op.name == "cast" and _is_int(op.operands[0])):
            return None
        kinds = [self._kind(v) for v in op.operands]
        return None if None in kinds or not _is_int(op.result) else any(kinds)

    def _chosen(self, select: Op) -> Value | None:
        """The operand that a selection is sure to choose in the version without checks."""
        test = select.operands[0]
        truth = self.wanted.get(test) if test.const is None else bool(test.const)
        return None if truth is None else select.operands[1 if truth else 2]

    # --- the scan and the two versions ------------------------------------------------------------------

    def _split(self, decided: list[Op]) -> None:
        func, head, leave = self.func, self.head, self.loop.exit
        preheader = self.loop.preheader
        assert preheader is not None and preheader.term is not None and leave is not None
        args = list(self.loop.entry_edge().args)
        copy = clone_blocks([head], func, {})[head]
        scan, scanned, enter, checked = (func.new_block(n) for n in ("scan", "scanned", "enter", "checked"))
        b = Builder(preheader, decided[0].loc)
        preheader.term = None
        b.jump(scan, [b.const(0), b.const(True)])
        self._write_scan(b, scan, scanned)
        b.at(scanned)
        b.branch(scanned.add_param(BOOL, "holds"), enter, [], checked, [])
        b.at(enter)
        b.jump(head, args)
        b.at(checked)
        b.jump(copy, args)
        assert copy.term is not None
        copy.term.attrs["cold"] = True
        self._settle(decided)
        for end in (head, copy):
            own_exit(func, end, leave)

    def _write_scan(self, b: Builder, scan: Block, scanned: Block) -> None:
        """Emit the loop that tests all wanted comparisons."""
        i, holds = scan.add_param(I64, self.known.iv.hint), scan.add_param(BOOL, "holds")
        values = {self.known.iv: i}
        b.at(scan)
        for condition, truth in self.wanted.items():
            found = self._emit(condition, values, b)
            holds = b.and_(holds, found if truth else b.not_(found))
        following = b.add(i, 1)
        b.branch(b.lt(following, self.known.trip), scan, [following, holds], scanned, [holds])

    def _emit(self, v: Value, values: dict[Value, Value], b: Builder) -> Value:
        """Emit a foreseen value, provided that indices are not negative."""
        op = v.op
        if v in values or v.block is not self.head or op is None:
            return values.get(v, v)
        chosen = self._chosen(op) if op.name == "select" else None
        if chosen is not None:
            values[v] = self._emit(chosen, values, b)
        elif op.name == "const":
            values[v] = b.const(op.attrs["value"], op.attrs["type"])
        else:
            values[v] = b.emit(op.name, *(self._emit(u, values, b) for u in op.operands), **op.attrs)
        return values[v]

    def _settle(self, decided: list[Op]) -> None:
        """Remove the checks that hold, and replace the wanted comparisons by constants."""
        self.head.ops = [op for op in self.head.ops if op not in decided]
        for condition, truth in self.wanted.items():
            op = condition.op
            assert op is not None
            op.name, op.operands, op.attrs = "const", [], {"value": truth, "type": BOOL}


def _is_int(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_int


def _tests_sign(select: Op) -> bool:
    """True for ``select(i < 0, i + n, i)``: an index that may count from the end."""
    test = select.operands[0].op
    return (select.result.type == I64 and test is not None and test.name == "lt" and test.operands[1].const == 0
            and test.operands[0] is select.operands[2])


def _is_of_floats(condition: Value) -> bool:
    """True if all that a condition compares are floats."""
    todo = [condition]
    while todo:
        op = todo.pop().op
        if op is None:
            return False
        if op.name in ("and", "or", "not") and op.result.type == BOOL:
            todo += op.operands
        elif not all(isinstance(v.type, Scalar) and v.type.is_float for v in op.operands):
            return False
    return True
