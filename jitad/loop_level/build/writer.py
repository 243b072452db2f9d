"""Appends ops to a function of the loop level; folds what is known, and keeps constants at its head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import NOWHERE
from ...ir.evaluate.fold import fold
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.types import I64, Scalar
from ..ops import OPS, result_types
from ..types import as_types

LoopBody = Callable[[Value, list[Value]], Sequence[Value]]


class Writer:
    """The place where ops are appended: the end of ``block``; each gets the location ``loc``."""

    def __init__(self, func: Function) -> None:
        self.func, self.block, self.loc = func, func.entry, NOWHERE
        self._constants: dict[tuple[str, Scalar], Value] = {}

    def do(self, name: str, operands: Sequence[Value] = (), **attrs: Any) -> Op:
        """Append an op with any number of results."""
        return self._append(Op(name, operands, as_types(result_types(name, operands, attrs)), attrs, loc=self.loc))

    def of(self, type: Scalar, name: str, operands: Sequence[Value], attrs: dict[str, Any] | None = None) -> Value:
        """Append an op of which the type of the result is known, as for most ops of nests; the verifier checks it."""
        return self._append(Op(name, operands, (type,), attrs, loc=self.loc)).result

    def _append(self, op: Op) -> Op:
        op.block = self.block
        self.block.ops.append(op)
        return op

    def emit(self, name: str, *operands: Value, **attrs: Any) -> Value:
        """Append an op with one result, or return what is known of it."""
        known = fold(name, operands, attrs) if name in _FOLDED else None
        if isinstance(known, Value):
            return known
        if known is not None:
            return self.const(*known)
        return self.do(name, operands, **attrs).result

    def const(self, value: Any, type: Scalar = I64) -> Value:
        """A constant scalar, one for each value and type in a function."""
        key = repr(value), type
        if key not in self._constants:
            op = Op("const", (), [type], {"value": value, "type": type})
            op.block = self.func.entry
            op.result.hint = f"c{value}" if type is I64 and value >= 0 else ""
            self._constants[key] = op.result
        return self._constants[key]

    def finish(self) -> None:
        """Put the constants at the head of the function."""
        made = [v.op for v in self._constants.values()]
        self.func.entry.ops[:0] = [op for op in made if op is not None]

    def end(self, name: str, operands: Sequence[Value] = (), edges: Sequence[Edge] = (), **attrs: Any) -> None:
        """End the block with a terminator."""
        op = self.block.term = Op(name, operands, (), attrs, edges, self.loc)
        op.block = self.block

    def loop(self, count: Value, body: LoopBody, start: Sequence[Value] = (), **attrs: Any) -> list[Value]:
        """Append a loop over 0, 1, …, ``count`` − 1; returns the carried values after it.

        ``body`` takes the induction variable and the carried values, and returns the next ones.  A loop of one
        iteration is its body.
        """
        zero, one = self.const(0), self.const(1)
        if count.const == 1:
            return list(body(zero, list(start)))
        op = Op("for", [zero, count, one, *start], [v.type for v in start], attrs, loc=self.loc)
        region = Block(self.func)
        op.regions = (region,)
        iv = region.add_param(I64, "i")
        carried = [region.add_param(v.type) for v in start]
        outer, self.block = self.block, region
        self.end("yield", list(body(iv, carried)))
        self.block = outer
        return self._append(op).results


_FOLDED = frozenset(name for name in OPS if name in ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge"))
