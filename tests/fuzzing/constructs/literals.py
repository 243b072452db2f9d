"""A program with changed last bits in its constants.

Numbers may grow or cancel beyond the precision of a float because of constants alone.  If the last bits of the
constants decide, two ways of computing the same result may differ.
"""

from __future__ import annotations

import ast
import math


class _Shake(ast.NodeTransformer):
    def __init__(self, by: float) -> None:
        self.by = by

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if type(node.value) is not float:
            return node
        part = 0.75 + 0.25 * math.cos(1e4 * node.value + 1)      # of one sign: a bound is passed on one side only
        return ast.copy_location(ast.Constant(node.value * (1 + self.by * part)), node)


def shaken_constants(source: str, by: float) -> str:
    """``source`` with larger float literals, by up to this fraction; equal ones by the same fraction."""
    return ast.unparse(_Shake(by).visit(ast.parse(source)))
