"""A program with other last bits in its constants.

Numbers that grow or cancel beyond what a float holds need not come from the arguments: where the constants' last bits
decide, two ways of computing the same need not agree.
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
        part = 0.75 + 0.25 * math.cos(1e4 * node.value + 1)      # of one sign: a bound is left on one side only
        return ast.copy_location(ast.Constant(node.value * (1 + self.by * part)), node)


def shaken_constants(source: str, by: float) -> str:
    """``source`` with its float literals larger by up to this part of theirs; equal ones by the same."""
    return ast.unparse(_Shake(by).visit(ast.parse(source)))
