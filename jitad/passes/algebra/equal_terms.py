"""Adds two terms of a cotangent that are one product, grouped in two ways, by a factor.

The derivative of ``c * c * c`` has a term of each factor::

    %2 = mul %square, %g                   (c * c) * g      %2 = mul %square, %g
    %3 = mul %c, %g                                     →   %6 = mul %2, 3.0
    %4 = add {acc} %3, %3
    %5 = mul %c, %4                        c * (2 * c * g)
    %6 = add {acc} %2, %5

Likewise that of ``-0.5 * d * d``, which is ``−(d * g)``.  Both are equal but for the rounding of a cotangent, and for
numbers at the ends of the range.  Only sums of the reverse sweep are changed.

Notation: the *product* of a value is a coefficient and its factors, which are values that are no products.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import dtype_of
from ...ir.uses import users
from ..analysis.cfg import Mapping, substitute

MOST = 8
"""The most factors of a product, which bounds the time for long chains."""

LEAST = 2.0 ** -12
"""Coefficients between this and its inverse hardly change for which inputs a product overflows."""


@dataclass(frozen=True)
class _Product:
    coefficient: float
    factors: frozenset[tuple[Value, int]]                  # each with its multiplicity


def equal_terms(module: Module) -> bool:
    """Rewrite all of them; returns True if there were any."""
    return any([_Terms(func).rewrite() for func in module.functions.values()
                if any(_is_sum(op) for op in func.all_ops())])


def _is_sum(op: Op) -> bool:
    """True for a sum of two different products of the reverse sweep."""
    return op.name == "add" and bool(op.attrs.get("acc")) and op.operands[0] is not op.operands[1] and all(
        v.op is not None and v.op.name in ("mul", "neg", "add") and v.type == op.result.type for v in op.operands)


def _is_plain(coefficient: float) -> bool:
    """True if a product with a coefficient is 0 or not finite only where it is without one."""
    return LEAST <= abs(coefficient) <= 1.0 / LEAST


class _Terms:
    def __init__(self, func: Function) -> None:
        self.func, self.readers = func, users(func.all_ops())
        self.products: dict[Value, _Product | None] = {}

    def rewrite(self) -> bool:
        mapping: Mapping = {}
        for block in self.func.blocks:
            if any(_is_sum(op) for op in block.ops):
                self._rewrite(block, mapping)
        substitute(self.func, mapping)
        return bool(mapping)

    def _rewrite(self, block: Block, mapping: Mapping) -> None:
        ops, block.ops, term, block.term = block.ops, [], block.term, None
        for op in ops:
            total = self._product(op.result) if _is_sum(op) else None
            if total is not None:
                mapping[op.result] = self._scaled(Builder(block, op.loc), op, total)
            else:
                block.ops.append(op)
        block.term = term

    def _product(self, v: Value, depth: int = MOST) -> _Product | None:
        """The product of a value; ``None`` if the value is a factor itself."""
        if v not in self.products:
            self.products[v] = self._of(v, depth - 1) if depth else None
        return self.products[v]

    def _parts(self, v: Value, depth: int) -> _Product:
        if isinstance(v.const, float) and _is_plain(v.const):
            return _Product(v.const, frozenset())
        return self._product(v, depth) or _Product(1.0, frozenset({(v, 1)}))

    def _of(self, v: Value, depth: int) -> _Product | None:
        op = v.op
        if op is None or op.name not in ("mul", "neg", "add") or any(x.type != v.type for x in op.operands):
            return None
        x = self._parts(op.operands[0], depth)
        if op.name == "neg":
            return _Product(-x.coefficient, x.factors)
        y = self._parts(op.operands[1], depth)
        if op.name == "add":
            c = x.coefficient + y.coefficient
            return _Product(c, x.factors) if op.attrs.get("acc") and x.factors == y.factors and _is_plain(c) else None
        factors = Counter(dict(x.factors))
        factors.update(dict(y.factors))
        c = x.coefficient * y.coefficient
        return _Product(c, frozenset(factors.items())) if sum(factors.values()) <= MOST and _is_plain(c) else None

    def _scaled(self, b: Builder, op: Op, total: _Product) -> Value:
        """The sum as a multiple of a term, or of a factor of one, that takes few ops of its own."""
        terms = [*op.operands, *(x for v in op.operands if v.op is not None for x in v.op.operands)]
        scales = {v: total.coefficient / p.coefficient for v in terms
                  if (p := self._product(v)) is not None and p.factors == total.factors}
        base, k = min(scales.items(), key=lambda known: self._own_ops(known[0]) + (known[1] != 1.0))
        if abs(k) == 1.0:
            return base if k > 0 else b.neg(base)
        return b.emit_op("add", [base, base], acc=True).result if k == 2.0 else \
            b.mul(base, b.const(k, dtype_of(base.type)))

    def _own_ops(self, v: Value) -> int:
        """The number of ops that compute ``v`` for one reader only."""
        op = v.op
        if op is None or self._product(v) is None or len(set(self.readers[v])) > 1:
            return 0
        return 1 + sum(map(self._own_ops, set(op.operands)))
