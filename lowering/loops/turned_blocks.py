"""Four columns of some rows of a matrix, in registers: the rows are loaded as vectors of four, and transposed.

::

    a0 a1 a2 a3 | e0 e1 e2 e3          a0 b0 a2 b2 | e0 f0 e2 f2          a0 b0 c0 d0 | e0 f0 g0 h0
    b0 b1 b2 b3 | f0 f1 f2 f3    →     a1 b1 a3 b3 | e1 f1 e3 f3    →     a1 b1 c1 d1 | e1 f1 g1 h1
    c0 c1 c2 c3 | g0 g1 g2 g3          c0 d0 c2 d2 | g0 h0 g2 h2          a2 b2 c2 d2 | e2 f2 g2 h2
    d0 d1 d2 d3 | h0 h1 h2 h3          c1 d1 c3 d3 | g1 h1 g3 h3          a3 b3 c3 d3 | e3 f3 g3 h3

Rows four apart are put side by side as they are loaded, so that the shuffles stay within groups of four elements.  A
step within 128 bits does not cross what processors call lanes: it takes pairs of f64, or of two neighbouring f32.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.types import Scalar
from ..builder.function_builder import FunctionBuilder
from ..llvm.types import memory, width

SIDE = 4
# By the bits of an element: what the first step takes of two rows, and which columns the second step then makes.
_STEPS = {64: (((0, 4, 2, 6), (1, 5, 3, 7)), (0, 2, 1, 3)), 32: (((0, 4, 1, 5), (2, 6, 3, 7)), (0, 1, 2, 3))}
_PAIRS = (0, 1, 4, 5), (2, 3, 6, 7)


def turn(fn: FunctionBuilder, t: Scalar, begin: str, length: str, to: str, rows: int, note: str) -> bool:
    """Store the columns of four elements of each of ``rows`` rows, which are ``length`` apart, one after another.

    Returns False for sizes that have no such vectors.
    """
    if t.bits not in _STEPS or t.is_bool or rows % SIDE or rows & (rows - 1):
        return False
    first, order = _STEPS[t.bits]
    groups = max(1, min(rows, fn.target.vector_bits // t.bits) // SIDE)
    for top in range(0, rows, SIDE * groups):
        a, b, c, d = (_side_by_side(fn, t, [_row(fn, t, begin, length, top + r + SIDE * g) for g in range(groups)])
                      for r in range(SIDE))
        halves = [_picked(fn, t, groups, x, y, picks) for picks in first for x, y in ((a, b), (c, d))]
        columns = [_picked(fn, t, groups, x, y, picks) for x, y in (halves[:2], halves[2:]) for picks in _PAIRS]
        for k, column in zip(order, columns):
            at = fn.address(t, to, str(k * rows + top))
            fn.code.store(_kind(t, SIDE * groups), column, at, width(t), note)
    return True


def _row(fn: FunctionBuilder, t: Scalar, begin: str, length: str, row: int) -> str:
    return fn.code.load(_kind(t, SIDE), fn.address(t, begin, fn.mul(length, str(row))), width(t))


def _side_by_side(fn: FunctionBuilder, t: Scalar, parts: list[str]) -> str:
    """The elements of vectors of four, one after another; their number is a power of two."""
    lanes = SIDE
    while len(parts) > 1:
        lanes, mask = 2 * lanes, _mask(range(2 * lanes))
        parts = [fn.code.shuffle(_kind(t, lanes), _kind(t, lanes // 2), x, y, mask)
                 for x, y in zip(parts[::2], parts[1::2])]
    return parts[0]


def _picked(fn: FunctionBuilder, t: Scalar, groups: int, x: str, y: str, picks: Iterable[int]) -> str:
    """Of each group of four, these elements of two vectors: from 4 on those of ``y``."""
    kind, chosen = _kind(t, SIDE * groups), list(picks)
    mask = _mask(SIDE * g + k % SIDE + k // SIDE * SIDE * groups for g in range(groups) for k in chosen)
    return fn.code.shuffle(kind, kind, x, y, mask)


def _kind(t: Scalar, lanes: int) -> str:
    return f"<{lanes} x {memory(t)}>"


def _mask(elements: Iterable[int]) -> str:
    numbers = [f"i32 {k}" for k in elements]
    return f"<{len(numbers)} x i32> <{', '.join(numbers)}>"
