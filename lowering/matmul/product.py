"""The description of a matrix product that is passed to the kernels."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.types import Scalar


@dataclass(frozen=True)
class Product:
    """``c (+)= a · b``: pointers, the sizes of the product, which operands are stored transposed, and whether to add.

    ``a`` is stored [m, k] or, under ``ta``, [k, m]; ``b`` [k, n] or, under ``tb``, [n, k].  ``stride``: the distance
    from row to row of the matrix in a product with a vector; "" if its rows are contiguous.  ``ordered``: the products
    of each sum are added in their order, as in a program's loops.
    """

    t: Scalar
    a: str
    b: str
    c: str
    m: str
    n: str
    k: str
    ta: bool
    tb: bool
    add: bool
    stride: str = ""
    ordered: bool = False

    @property
    def kind(self) -> str:
        flags = ("t" if self.ta else "n") + ("t" if self.tb else "n") + (".add" if self.add else "")
        flags += ".strided" if self.stride else ""
        sizes = (".row" if self.m == "1" else "") + (".column" if self.n == "1" else "")
        return f"jitad.matmul.{self.t}.{flags}{sizes}"
