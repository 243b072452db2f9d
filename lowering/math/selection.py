"""Selections, by LLVM's instruction or by a mask where LLVM would branch; the values from which reductions start."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.types import Scalar
from ..llvm import types
from .options import Emitter


def select(e: Emitter, t: Scalar, condition: str, x: str, y: str, note: str = "") -> str:
    of = types.register(t)
    return e.code.select(condition, of, x, y, note)


BEST = ("lt", "le", "gt", "ge")
"""Reductions that select by a comparison."""


def neutral(role: str, t: Scalar) -> str:
    """The value that changes nothing in a reduction."""
    if role in ("minimum", "lt", "le"):
        return types.literal(math.inf if t.is_float else True if t.is_bool else t.high, t)
    if role in ("maximum", "gt", "ge"):
        return types.literal(-math.inf if t.is_float else False if t.is_bool else t.low, t)
    value = {"mul": 1, "and": -1}.get(role, 0)
    return types.literal(-0.0 if t.is_float and value == 0 else value, t)


_MASKS = {"eq": (0, False), "lt": (1, False), "le": (2, False), "ne": (4, False), "gt": (1, True), "ge": (2, True)}
"""The number of a comparison in x86 instructions, and whether its operands are swapped."""


def selects_by_mask(e: Emitter) -> bool:
    """True if ``select_by_mask`` may be used, and pays: with AVX-512 LLVM selects by registers of masks."""
    return e.target.triple.startswith("x86_64") and e.target.vector_bits == 256


def select_by_mask(e: Emitter, comparison: str, t: Scalar, xs: Sequence[str]) -> str:
    """A selection of ``xs[2]`` or ``xs[3]`` by the comparison of ``xs[0]`` with ``xs[1]``, which branches nowhere.

    It is made of intrinsics: LLVM makes the selection of scalars of one of vectors.
    """
    of, lanes, suffix = types.register(t), 128 // t.bits, "ps" if t.bits == 32 else "pd"
    vector = f"<{lanes} x {of}>"
    a, b, x, y = ((vector, e.code.insert_element(vector, "poison", of, v, 0)) for v in xs)
    number, swapped = _MASKS[comparison]
    compare = e.writer.declare(f"llvm.x86.sse{'' if t.bits == 32 else '2'}.cmp.s{suffix[1]}", vector,
                               f"{vector}, {vector}, i8")
    blend = e.writer.declare(f"llvm.x86.sse41.blendv{suffix}", vector, f"{vector}, {vector}, {vector}")
    first, second = (b, a) if swapped else (a, b)
    mask = e.code.call(vector, compare, first, second, ("i8", str(number)))
    return e.code.extract_element(of, vector, e.code.call(vector, blend, y, x, (vector, mask)), 0)


def inverse_comparison(e: Emitter, name: str, t: Scalar, xs: Sequence[str]) -> str:
    """The negation of a comparison of floats, which holds if one of them is NaN."""
    return e.code.fcmp("uge" if name == "lt" else "ule", types.register(t), xs[0], xs[1], hint="c")
