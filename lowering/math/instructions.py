"""Constructors of rules: one LLVM instruction or intrinsic, or one function of libm, by kind of dtype."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.types import Scalar
from ..llvm import types
from . import libm
from .options import Emitter, Rule


def _suffix(t: Scalar) -> str:
    return t.name if t.is_float else f"i{1 if t.is_bool else t.bits}"


def intrinsic(e: Emitter, name: str, t: Scalar, xs: Sequence[str], f: str = "",
              extra: tuple[str, str] | None = None) -> str:
    """Call ``llvm.name`` overloaded on ``t``; ``extra`` is a last argument with its type."""
    of = types.register(t)
    args = [(of, x) for x in xs] + ([extra] if extra else [])
    callee = e.writer.declare(f"llvm.{name}.{_suffix(t)}", of, ", ".join([kind for kind, _ in args]))
    return e.code.call(of, callee, *args, flags=f)


def math_function(name: str) -> Rule:
    """The rule of a function of libm or libdevice."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        of = types.register(t)
        callee = libm.declare(e.target, e.writer, name, t, len(xs))
        return e.code.call(of, callee, *((of, x) for x in xs), flags=f)
    return rule


def by_intrinsic(floats: str, ints: str = "", extra: tuple[str, str] | None = None) -> Rule:
    """The rule of an LLVM intrinsic; ``ints`` is its name for integers."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        return intrinsic(e, floats, t, xs, f) if t.is_float else intrinsic(e, ints, t, xs, "", extra)
    return rule


def binary(floats: str, ints: str = "", bools: str = "") -> Rule:
    """The rule of an LLVM instruction with two operands, by kind of dtype."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        if t.is_float:
            return e.code.arith(floats, types.register(t), *xs, flags=f)
        return e.code.arith(bools if t.is_bool else ints, types.register(t), *xs)
    return rule


def compare(floats: str, signed: str, unsigned: str) -> Rule:
    """The rule of a comparison; bools are unsigned."""
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        if t.is_float:
            return e.code.fcmp(floats, types.register(t), xs[0], xs[1], hint="c")
        return e.code.icmp(signed if t.is_signed else unsigned, types.register(t), xs[0], xs[1], hint="c")
    return rule


def by_kind(floats: Rule, signed: Rule, unsigned: Rule | None = None, bools: Rule | None = None) -> Rule:
    def rule(e: Emitter, t: Scalar, xs: list[str], f: str) -> str:
        chosen = floats if t.is_float else bools if t.is_bool else signed if t.is_signed else unsigned
        assert chosen is not None, t
        return chosen(e, t, xs, f)
    return rule
