"""What the lowering asks of a target: where mathematical functions come from, and what the processor has."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.types import Scalar
from ..vector_math import libmvec
from . import types
from .emit import Writer

_CALL = """define internal {of} @{own}({of} %x) noinline {attributes} {{
  %y = call {of} {plain}({of} %x)
  ret {of} %y
}}
"""
_PURE = "memory(none) nounwind willreturn nocallback nosync"
_VECTORS = (("+avx512f", 512), ("+avx2", 256), ("+sse2", 128), ("+neon", 128))


@dataclass(frozen=True)
class Target:
    """``features``: LLVM's list (``"+avx2,-avx512f"``)."""

    triple: str
    layout: str
    cpu: str = ""
    features: str = ""

    @property
    def is_gpu(self) -> bool:
        return self.triple.startswith("nvptx")

    @property
    def vector_bits(self) -> int:
        """Of the widest vectors that the processor is known to have, or 0."""
        have = self.features.split(",")
        return next((bits for feature, bits in _VECTORS if feature in have), 0)

    def math(self, writer: Writer, name: str, t: Scalar, arity: int) -> str:
        """``@name`` of a function of libm, or of libdevice on a GPU, declared as free of effects."""
        full = ("__nv_" if self.is_gpu else "") + name + ("f" if t.name == "f32" else "")
        own = f"jitad.{full}" if name in libmvec.REPLACED and not self.is_gpu else ""
        vector = "" if self.is_gpu else libmvec.attribute(writer, full, self.features, own)
        of = types.register(t)
        if own and vector:
            plain = writer.declare(full, of, of, writer.attributes(_PURE))
            return writer.function(own, _CALL.format(of=of, own=own, plain=plain, attributes=f"{_PURE} {vector}"))
        return writer.declare(full, of, ", ".join([of] * arity), writer.attributes(f"{_PURE} {vector}".rstrip()))
