"""Launches of products of matrices: by the device's library, or as a generated kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..driver import Matrix, Product
from ..image import Kernel
from ..kernels.tiles import TILE
from ..tensor_cores import has_tensor_cores
from .device_array import DeviceArray
from .launches import MOST_BLOCKS, blocks_for
from .runtime import Runtime, arguments

LEAST_TILED = 16
"""Rows and columns from which a product is computed in tiles: a smaller one would leave most of a tile empty."""
LEAST_OF_LIBRARY = LEAST_TILED * LEAST_TILED
"""Elements of the matrix that is multiplied by a vector from which the library is called."""
MOST_OF_LIBRARY = (1 << 31) - 1
"""The largest size that the library takes."""


@dataclass(frozen=True)
class ProductLaunch:
    """``out = a @ b``: takes out, a, b.

    ``tiles``: the kernel for large floating-point matrices.  ``turned``: a, or b, is stored with its last two axes
    exchanged.  ``adds``: ``out += a @ b``.  ``library``: the driver has ``product``.  ``rounded``: the kernel for
    large matrices that rounds their elements to ``format``, for devices with tensor cores.
    """

    kernel: Kernel
    tiles: Kernel | None
    turned: tuple[bool, bool]
    adds: bool
    library: bool
    rounded: Kernel | None = None
    format: str = ""

    def __call__(self, rt: Runtime, out: DeviceArray, a: DeviceArray, b: DeviceArray) -> None:
        count = out.count()
        if not count:
            return
        if self.library and self._by_library(rt, out, a, b):
            return
        given = [rt.status, *arguments([out, a, b])]
        if self.tiles is None or min(out.shape[-2:]) < LEAST_TILED:
            rt.driver.launch(rt.loaded, self.kernel, blocks_for(count, self.kernel.block, MOST_BLOCKS), given)
            return
        rows, cols = (-(-n // TILE) for n in out.shape[-2:])
        groups = out.shape[0] if len(out.shape) == 3 else 1
        kernel = self.rounded if self.rounded is not None and has_tensor_cores(rt.driver.arch) else self.tiles
        rt.driver.launch(rt.loaded, kernel, min(groups * rows * cols, MOST_BLOCKS), given)

    def _by_library(self, rt: Runtime, out: DeviceArray, a: DeviceArray, b: DeviceArray) -> bool:
        """Let the library do it, if it pays, and if the library takes such matrices."""
        run: Callable[[Product], None] | None = getattr(rt.driver, "product", None)
        if run is None:                                  # a driver for tests
            return False
        product = Product(out.dtype, matrix(out, column=len(b.shape) == 1), matrix(a, self.turned[0]),
                          matrix(b, self.turned[1], column=len(b.shape) == 1), self.adds,
                          self.format)
        whole = product.a.rows * product.a.cols if len(b.shape) == 1 else product.b.rows * product.b.cols
        vector = len(out.shape) == 1
        if whole < LEAST_OF_LIBRARY if vector else min(out.shape[-2:]) < LEAST_TILED:
            return False
        every = (product.out, product.a, product.b)
        if not product.a.cols or max(max(x.rows, x.cols, x.line, x.count) for x in every) > MOST_OF_LIBRARY:
            return False
        if any(not x.is_stored for x in every) or not product.out.along_rows:
            return False
        run(product)
        return True


def matrix(x: DeviceArray, turned: bool = False, column: bool = False) -> Matrix:
    """An array of rank 1, 2 or 3 as a matrix, or as several; ``column``: of rank 1 as a column."""
    shape, steps = list(x.shape), list(x.steps())
    if len(shape) == 1:
        shape, steps = ([*shape, 1], [*steps, 1]) if column else ([1, *shape], [steps[0] * shape[0], *steps])
    batch, stride = (shape[0], steps[0]) if len(shape) == 3 else (1, 0)
    rows, cols, down, right = *shape[-2:], *steps[-2:]
    if turned and len(x.shape) > 1:
        rows, cols, down, right = cols, rows, right, down
    return Matrix(x.address, rows, cols, down, right, batch, stride)
