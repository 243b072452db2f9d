"""Checks of one function: branches to code that raises an exception, and the addition to indices from the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.graph import Block, Op, Value
from ...ir.ops import OPS, ORDERS
from ...ir.types import F64, I64, Scalar
from ..builder.function_builder import FunctionBuilder, likely
from ..math import casts
from ..planning.wrapped_indices import WrappedIndex


class Checks:
    """Lowers the checks of one function.

    ``_postponed``: checks of the block, each with an earlier one that need not be tested if this one holds; ``_first``
    are those earlier ones.  ``late``: checks, each with the later check of an index that fails if they would
    (``planning/deferred_casts.py``).  ``_open``: those of the block that have not been tested.
    """

    def __init__(self, fn: FunctionBuilder, late: Mapping[Op, Op]) -> None:
        self.fn, self.code, self.late, self._open = fn, fn.code, late, list[Op]()
        self._postponed: dict[Op, Op] = {}
        self._first: set[Op] = set()

    def begin(self, block: Block) -> None:
        """Called at the start of each block, before its checks."""
        self._postponed = _postponed_checks(block)
        self._first = set(self._postponed.values())

    def check(self, op: Op) -> None:
        """``check``: raise the exception unless the condition holds.

        A test for NaN is left to the next check if that fails for NaN as well, which then tells which one failed.
        """
        if op in self._first:
            return
        if op in self.late:
            self._open.append(op)
            return
        condition = self.fn.scalar(op.operands[0])
        if len(op.operands) == 1 and op not in self._postponed and not self._open:
            self.fn.require(condition, op.attrs["exc"] + 1)
        else:
            self._test(op, condition, self._open)

    def _test(self, op: Op, condition: str, before: Sequence[Op] = ()) -> None:
        """Raise the exception of a check unless its condition holds, or that of a check before it which fails."""
        fn, code = self.fn, self.code
        bad, go_on = code.label("bad"), code.label("ok")
        code.branch(condition, go_on, bad, likely(fn.writer))
        code.start(bad)
        for earlier in before:
            self._test(earlier, fn.scalar(earlier.operands[0]))
        if (first := self._postponed.get(op)) is not None:
            fn.require(fn.scalar(first.operands[0]), first.attrs["exc"] + 1)
        self.fail(op.attrs["exc"], op.operands[1:])
        code.start(go_on)

    def wrap(self, op: Op, wrapped: WrappedIndex) -> None:
        """``check`` of an index that may count from the end: see ``planning/wrapped_indices.py``."""
        fn, code = self.fn, self.code
        i, n = fn.scalar(wrapped.index), fn.scalar(wrapped.size)
        rare, bad, go_on = (code.label(hint) for hint in ("wrap", "bad", "ok"))
        fn.values[wrapped.place] = place = code.phi("i64", go_on, "place")
        fn.values.update(dict.fromkeys(wrapped.tests, "true"))
        code.add_incoming(place, i)
        code.branch(self._inside(i, n, wrapped.unsigned), go_on, rare, likely(fn.writer))
        code.start(rare)
        from_end = code.arith("add", "i64", i, n, hint="n")
        code.add_incoming(place, from_end)
        code.branch(self._inside(from_end, n, wrapped.unsigned), go_on, bad, likely(fn.writer))
        code.start(bad)
        for earlier in self._open:
            self._test(earlier, fn.scalar(earlier.operands[0]))
        # Nothing behind the addition reads the index itself, or the common path would copy it to another register.
        opaque = code.call("i64", 'asm "", "=r,0"', ("i64", from_end))
        fn.values[wrapped.index] = index = code.arith("sub", "i64", opaque, n)
        if wrapped.place in op.operands:
            fn.values[wrapped.place] = code.select(code.icmp("slt", "i64", index, "0"), "i64", from_end, index)
        self.fail(op.attrs["exc"], op.operands[1:])
        fn.values |= {wrapped.index: i, wrapped.place: place}
        code.start(go_on)
        self._open = [earlier for earlier in self._open if self.late[earlier] is not op]

    def add_if_negative(self, place: Value, index: Value, size: Value) -> None:
        """An index that may count from the end, without a check: see ``planning/wrapped_indices.py``."""
        fn, code = self.fn, self.code
        i, n = fn.scalar(index), fn.scalar(size)
        rare, go_on = code.label("wrap"), code.label("ok")
        fn.values[place] = phi = code.phi("i64", go_on, "place")
        code.add_incoming(phi, i)
        code.branch(code.icmp("sge", "i64", i, "0", hint="c"), go_on, rare, likely(fn.writer))
        code.start(rare)
        code.add_incoming(phi, code.arith("add", "i64", i, n, hint="n"))
        code.jump(go_on)
        code.start(go_on)

    def _inside(self, i: str, n: str, unsigned: bool) -> str:
        """The condition ``0 <= i < n``; ``unsigned``: ``n`` is not negative."""
        code = self.code
        if unsigned:
            return code.icmp("ult", "i64", i, n, hint="c")
        low, high = code.icmp("sge", "i64", i, "0", hint="c"), code.icmp("slt", "i64", i, n, hint="c")
        return code.arith("and", "i1", low, high, hint="c")

    def fail(self, exc: int, operands: Sequence[Value]) -> None:
        """Store the message's operands in the context and fail."""
        fn, code = self.fn, self.code
        for i, v in enumerate(operands):
            assert isinstance(v.type, Scalar)
            code.store("i64", _bits(fn, v.type, fn.scalar(v)), fn.field(f"operand{i}"))
        fn.fail(exc + 1)


def _postponed_checks(block: Block) -> dict[Op, Op]:
    """The checks whose condition, a range of a float, is false for NaN, each with the test for NaN before it."""
    found: dict[Op, Op] = {}
    before: Op | None = None
    for op in block.ops:
        if op.name != "check":
            before = None if OPS[op.name].effect else before
            continue
        if before is not None and _tested_for_nan(before) in _compared(op):
            found[op] = before
        before = op if len(op.operands) == 1 and _tested_for_nan(op) is not None else None
    return found


def _tested_for_nan(op: Op) -> Value | None:
    """The scalar ``v`` of a check ``not isnan(v)``."""
    inverted = op.operands[0].op
    test = inverted.operands[0].op if inverted is not None and inverted.name == "not" else None
    return test.operands[0] if test is not None and test.name == "isnan" else None


def _compared(op: Op) -> list[Value]:
    """The operands of the comparisons that must all hold for the condition of a check; those with NaN do not."""
    condition = op.operands[0].op
    tests = [condition] if condition is None or condition.name != "and" else [v.op for v in condition.operands]
    return [v for test in tests if test is not None and test.name in (*ORDERS, "eq")
            for v in test.operands]


def _bits(fn: FunctionBuilder, t: Scalar, x: str) -> str:
    """A scalar as 64 bits: ints and bools are extended, floats are the bits of a double."""
    if t.is_float:
        wide = casts.cast(fn, t, F64, x)
        return fn.code.cast("bitcast", "double", wide, "i64")
    return casts.cast(fn, t, I64, x)
