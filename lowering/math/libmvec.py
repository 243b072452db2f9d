"""Vector versions of libm's functions, so that loops over ``exp`` and similar functions vectorise.

glibc's libmvec provides them for x86-64 under the names of the vector function ABI (``_ZGVeN8v_exp``: AVX-512, eight
lanes, one vector argument).  LLVM's loop vectoriser calls one in place of a scalar call if the scalar function
carries a ``vector-function-abi-variant`` attribute and is declared free of memory effects (errno is not part of our
meaning).  A few are replaced by our own (``own.py``).

Accuracy: libmvec promises at most 4 ulp, scalar libm stays below 1.  An element computed in a vector may therefore
differ in its last bits from the same element computed alone (a loop's remainder, a scalar call).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from ...ir.graph import Op, Value
from ..llvm.emit import Writer
from ..llvm.target import LIBMVEC, Target
from . import own

LIBRARY = "libmvec.so.1"
SYMBOLS = "_ZGV"       # prefix of the names of its functions

# Functions that libmvec may have, by the number of arguments.  Each is looked up: most came with glibc 2.35.
_UNARY = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
          "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt")
_BINARY = ("pow", "atan2", "hypot")
_ARITY = {name: 1 for name in _UNARY} | {name: 2 for name in _BINARY}

# LLVM turns calls of these into intrinsics if it knows or may assume that their argument is not negative.  An
# intrinsic has no vector version and is split into scalar calls.  So the functions are called by names of our own.
REPLACED = ("log", "log2", "log10")

# The ABI's letter and the bits of a vector, for each x86-64 level that a vector call may need.
_LEVELS = (("avx512f", "e", 512), ("avx2", "d", 256), ("sse2", "b", 128))


# The ops of ``ir.ops`` that these functions compute.
OPS = frozenset(_ARITY)

DEEP, BESIDE = 5, 3
"""The fewest functions one behind another for two vectors at a time, and the most functions for each of these."""


@dataclass(frozen=True)
class Variant:
    """One vector version of a libm function."""

    symbol: str
    lanes: int
    arity: int
    element: str      # "double" or "float"


@cache
def library() -> ctypes.CDLL | None:
    """libmvec, or None if the C library does not come with it (musl, macOS, old glibc)."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        return None


@cache
def variants(scalar: str, features: str) -> tuple[Variant, ...]:
    """The vector versions of a libm function (``exp``, ``expf``) that a target with LLVM ``features`` can call."""
    name, element, bits = (scalar[:-1], "float", 32) if scalar not in _ARITY else (scalar, "double", 64)
    lib = library()
    if lib is None or name not in _ARITY:
        return ()
    have, arity = features.split(","), _ARITY[name]
    found = (Variant(f"_ZGV{letter}N{width // bits}{'v' * arity}_{scalar}", width // bits, arity, element)
             for feature, letter, width in _LEVELS if f"+{feature}" in have)
    return tuple(v for v in found if hasattr(lib, v.symbol))


def attribute(writer: Writer, scalar: str, target: Target, name: str = "") -> str:
    """The attribute that makes loops over a libm function vectorise; ``""`` if the target has no vector version of it.

    ``name`` is the name under which it is called, if that is not ``scalar``.

    The vector versions are declared and kept, since nothing but this attribute mentions them until the vectoriser runs.
    """
    found = [_ours(scalar, v, target.features) for v in variants(scalar, target.features)]
    if LIBMVEC not in target.libraries:
        found = [v for v in found if v.symbol.startswith(own.PREFIX) and own.stands_alone(scalar)]
    if any(v.lanes * (64 if v.element == "double" else 32) == 512 for v in found):
        writer.vector_stack = " alignstack(64)"      # else vectors spilled across a call straddle two cache lines
    for v in found:
        vector = f"<{v.lanes} x {v.element}>"
        writer.declare(v.symbol, vector, ", ".join([vector] * v.arity), "memory(none) nounwind willreturn")
        writer.keep(v.symbol)
    writer.vector_versions[name or scalar] = [(v.lanes, v.symbol) for v in found]
    names = ",".join(f"_ZGV_LLVM_N{v.lanes}{'v' * v.arity}_{name or scalar}({v.symbol})" for v in found)
    return f'"vector-function-abi-variant"="{names}"' if names else ""


def _ours(scalar: str, v: Variant, features: str) -> Variant:
    """Our own version in place of libmvec's if there is one for this target, else ``v``."""
    fits = own.suits(scalar, v.lanes, features.split(","))
    return replace(v, symbol=own.name(scalar, v.lanes)) if fits else v


def masks_tails(features: str) -> bool:
    """True if a loop over these functions should run its last, partial vector under a mask.

    A scalar remainder costs several times a vector call.  AVX-512 masks any element type at no cost.
    """
    return library() is not None and all(f"+{f}" in features.split(",") for f in ("avx512f", "avx512bw", "avx512vl"))


def masked(writer: Writer, ops: Iterable[Op], group: str = "") -> str:
    """Loop metadata that asks for a masked tail; ``ops``: those of the body; ``group`` as for ``loop_note``.

    Two vectors at a time hide the latency of functions of functions: the processor does not look far enough ahead to
    begin with the next vector.
    """
    two = ('!"llvm.loop.interleave.count", i32 2',) if _is_chain(ops) else ()
    return writer.loop('!"llvm.loop.vectorize.predicate.enable", i1 true', '!"llvm.loop.unroll.runtime.disable"',
                       *two, *writer.apart(group))


def _is_chain(ops: Iterable[Op]) -> bool:
    """True if functions wait for one another: a chain of ``DEEP``, and few that do not belong to it."""
    depth, count = dict[Value, int](), 0
    for op in ops:
        level = max((depth.get(v, 0) for v in op.operands), default=0) + (op.name in OPS)
        count += op.name in OPS
        depth.update(dict.fromkeys(op.results, level))
    deepest = max(depth.values(), default=0)
    return deepest >= DEEP and count <= BESIDE * deepest
