"""The machine for which code is generated."""

from __future__ import annotations

from dataclasses import dataclass

ANY_GPU = "gpu"
"""The triple of code for no particular GPU, which calls mathematical functions by names such as ``@gpu.sin.f64``."""
_VECTORS = (("+avx512f", 512), ("+avx2", 256), ("+sse2", 128), ("+neon", 128), ("+simd128", 128))
BLAS, LIBMVEC = "blas", "libmvec"


@dataclass(frozen=True)
class Target:
    """A target machine; ``features`` is LLVM's list (``"+avx2,-avx512f"``).

    ``libraries``: the libraries besides libm that code may call, if they are found.
    """

    triple: str
    layout: str
    cpu: str = ""
    features: str = ""
    libraries: frozenset[str] = frozenset({BLAS, LIBMVEC})

    @property
    def is_gpu(self) -> bool:
        return self.triple.startswith(("nvptx", ANY_GPU))

    @property
    def has_short_pointers(self) -> bool:
        """True if pointers have 32 bits; words for addresses have 64 everywhere."""
        return self.triple.startswith("wasm32")

    @property
    def vector_bits(self) -> int:
        """The width of the widest vectors that the processor is known to have, or 0."""
        have = self.features.split(",")
        return next((bits for feature, bits in _VECTORS if feature in have), 0)

    @property
    def fast_gathers(self) -> bool:
        """True if elements at any indices are loaded into vectors of 512 bits faster than one by one.

        AMD's processors with AVX-512 load them one by one themselves.
        """
        return self.vector_bits == 512 and not self.cpu.startswith("znver")

    @property
    def fast_roots(self) -> bool:
        """True if vectors of 256 bits are divided, and their roots taken, so much faster than numbers one by one that
        other operations may become slower for it: so it is on AMD's processors.
        """
        return self.vector_bits >= 256 and self.cpu.startswith("znver")

    @property
    def full_width(self) -> str:
        """The attribute of a function whose loops are to use the widest vectors.

        LLVM prefers 256 bits on Intel's processors with AVX-512.  A vector function takes much the same time for 512,
        and vectors of 512 bits that are written out would be split and joined.
        """
        return ' "prefer-vector-width"="512"' if self.vector_bits == 512 else ""
