"""Functions of libm, or of libdevice on a GPU, as they are declared in modules."""

from __future__ import annotations

from ...ir.types import Scalar
from ..llvm import types
from ..llvm.emit import Writer
from ..llvm.target import ANY_GPU, Target
from . import libmvec

_CALL = """define internal {of} @{own}({of} %x) noinline {attributes} {{
  %y = call {of} {plain}({of} %x)
  ret {of} %y
}}
"""
_PURE = "memory(none) nounwind willreturn nocallback nosync"


def declare(target: Target, writer: Writer, name: str, t: Scalar, arity: int) -> str:
    """``@name`` of a function, declared free of effects, with its vector versions if the target has any."""
    known = writer.math.get((name, t))
    if known is None:
        known = writer.math[name, t] = _declare(target, writer, name, t, arity)
    return known


def _declare(target: Target, writer: Writer, name: str, t: Scalar, arity: int) -> str:
    if target.triple == ANY_GPU:
        full = f"gpu.{name}.{t.name}"
    else:
        full = ("__nv_" if target.is_gpu else "") + name + ("f" if t.name == "f32" else "")
    own = f"jitad.{full}" if name in libmvec.REPLACED and not target.is_gpu else ""
    vector = "" if target.is_gpu else libmvec.attribute(writer, full, target, own)
    of = types.register(t)
    if own and vector:
        plain = writer.declare(full, of, of, writer.attributes(_PURE))
        return writer.function(own, _CALL.format(of=of, own=own, plain=plain, attributes=f"{_PURE} {vector}"))
    return writer.declare(full, of, ", ".join([of] * arity), writer.attributes(f"{_PURE} {vector}".rstrip()))
