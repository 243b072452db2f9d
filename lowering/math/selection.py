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


def select_by_mask(e: Emitter, t: Scalar, mask: str, x: str, y: str) -> str:
    """A selection that branches nowhere, of ``x`` where the sign of the mask's first lane is set.

    It is made of intrinsics: LLVM makes the selection of scalars of one of vectors.
    """
    of, vector, suffix = *_vector(t), "ps" if t.bits == 32 else "pd"
    blend = e.writer.declare(f"llvm.x86.sse41.blendv{suffix}", vector, f"{vector}, {vector}, {vector}")
    ys, xs = ((vector, e.code.insert_element(vector, "poison", of, v, 0)) for v in (y, x))
    return e.code.extract_element(of, vector, e.code.call(vector, blend, ys, xs, (vector, mask)), 0)


def comparison_mask(e: Emitter, comparison: str, t: Scalar, xs: Sequence[str]) -> str:
    """The mask of a comparison of two floats, made by one of vectors."""
    of, vector = _vector(t)
    suffix = f"sse{'' if t.bits == 32 else '2'}.cmp.{'ss' if t.bits == 32 else 'sd'}"
    number, swapped = _MASKS[comparison]
    compare = e.writer.declare(f"llvm.x86.{suffix}", vector, f"{vector}, {vector}, i8")
    first, second = ((vector, e.code.insert_element(vector, "poison", of, v, 0))
                     for v in (reversed(xs) if swapped else xs))
    return e.code.call(vector, compare, first, second, ("i8", str(number)))


def bool_mask(e: Emitter, t: Scalar, condition: str) -> str:
    """The mask of a bool."""
    bits, (_, vector) = f"i{t.bits}", _vector(t)
    whole = f"<{128 // t.bits} x {bits}>"
    lane = e.code.cast("sext", "i1", condition, bits)
    return e.code.cast("bitcast", whole, e.code.insert_element(whole, "poison", bits, lane, 0), vector)


def _vector(t: Scalar) -> tuple[str, str]:
    """The types of a float in a register, and of a register."""
    of = types.register(t)
    return of, f"<{128 // t.bits} x {of}>"


def inverse_comparison(e: Emitter, name: str, t: Scalar, xs: Sequence[str]) -> str:
    """The negation of a comparison of floats, which holds if one of them is NaN."""
    return e.code.fcmp("uge" if name == "lt" else "ule", types.register(t), xs[0], xs[1], hint="c")
