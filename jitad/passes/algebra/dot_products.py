"""Writes dot products of vectors as sums of products.

``matmul`` reads its operands from memory.  The operands of a sum are computed where they are read::

    x = slice a, 0, n, 1, i, 1, 1        (a column)
    y = exp b                            →    t = mul x, y;  s = sum t
    s = matmul x, y

So a column or an expression is not stored for it, and other reductions over the same arrays share its loop.  The terms
are added in the same manner.  It runs last, since other passes look for products.
"""

from __future__ import annotations

from ...ir.graph import Module, Op
from ...ir.types import Array, is_float_scalar


def dot_products(module: Module) -> None:
    for func in module.functions.values():
        for block in func.blocks:
            if any(map(_is_dot, block.ops)):
                block.ops = [new for op in block.ops for new in (_terms_and_sum(op) if _is_dot(op) else [op])]


def _is_dot(op: Op) -> bool:
    return op.name == "matmul" and is_float_scalar(op.result.type)


def _terms_and_sum(op: Op) -> list[Op]:
    terms = Op("mul", op.operands, [_larger(op)], loc=op.loc)
    terms.block = op.block
    op.name, op.operands, op.attrs = "sum", [terms.result], {"axes": (0,)}
    return [terms, op]


def _larger(op: Op) -> Array:
    """The type of the terms: one of the operands may have its size in its type.

    By the rule of types, a size of 1 does not decide.
    """
    types = [v.type for v in op.operands if isinstance(v.type, Array)]
    return max(types, key=lambda t: t.dims[0] or 1.5)
