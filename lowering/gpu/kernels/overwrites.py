"""Kernels for stores at places that are read from memory, such as ``x[index] = values``: of several stores to one
element the last one counts.

1. ``claim``: each iteration tells its number to the element that it stores to, which keeps the greatest by an atomic
   operation.
2. ``store``: each iteration stores, if the element has its number.

So the result is that of the loop in order, whatever the order of the threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import Loc
from ....ir.graph import Function
from ....ir.types import I64
from ....loop_level.types import Buffer
from ..device.emitter import Shared
from ..device.function import call
from ..device.values import Memory, Part
from ..image import BLOCK, Kernel
from .writer import KernelWriter, Known, indices

OWNERS = Buffer(I64, (None,))
"""The number of the last iteration that stores to each element, −1 if none does."""


class _Stores(KernelWriter):
    """A kernel with a thread for each iteration; parameters: status, of each loop (lower, count, step) without
    literals, the array, the owners of its elements, captured."""

    def __init__(self, shared: Shared, name: str, loc: Loc, loops: Sequence[Known], array: Buffer,
                 captured: Sequence[object], resident: Sequence[int]) -> None:
        super().__init__(shared, name, loc, BLOCK)
        self.limits = [self.bounds(known) for known in loops]
        self.array, self.owners = self._memory(array, "array"), self._memory(OWNERS, "owners")
        self.captured: list[Part] = [self.given(t, "captured", k in resident) for k, t in enumerate(captured)]

    def _memory(self, t: Buffer, hint: str) -> Memory:
        given = self.given(t, hint)
        assert isinstance(given, Memory)
        return given

    def _element(self, at: Sequence[str]) -> str:
        """The address of the owner of an element."""
        place = at[0]
        for i, n in zip(at[1:], self.array.sizes[1:]):
            place = self.add(self.mul(place, n), i)
        return self.address(self.owners, [place])

    def claim(self, places: Function) -> Kernel:
        def run(k: str) -> None:
            made, _ = call(self, places, "null", [*indices(self, k, self.limits), *self.captured])
            self.atomic_max(I64, k, self._element(made()))
        return self._for_each(run)

    def store_last(self, stored: Function) -> Kernel:
        def run(k: str) -> None:
            made, _ = call(self, stored, "null", [*indices(self, k, self.limits), *self.captured])
            value, *at = made()
            owner = self.load(I64, self._element(at))
            self.if_(self.code.op(f"icmp eq i64 {owner}, {k}", "c"),
                     lambda: self.store(self.array.dtype, value, self.address(self.array, at)))
        return self._for_each(run)

    def _for_each(self, run: object) -> Kernel:
        assert callable(run)
        first = self.first()
        count = self.unless_failed(self.product([n for _, n, _ in self.limits]))
        self.if_(self.code.op(f"icmp slt i64 {first}, {count}", "c"), lambda: run(first))
        return self.write()


def overwrite_kernels(shared: Shared, name: str, loc: Loc, loops: Sequence[Known], array: Buffer, places: Function,
                      stored: Function, resident: Sequence[int]) -> tuple[Kernel, Kernel]:
    """The two kernels of a nest of loops.

    ``places`` takes the indices of the loops and what is captured, and returns the indices of the element; ``stored``
    returns the value before them.  ``resident``: those of the captured scalars of which the address is passed.
    """
    given = loops, array, places.param_types[len(loops):], resident
    return (_Stores(shared, f"{name}_claim", loc, *given).claim(places),
            _Stores(shared, name, loc, *given).store_last(stored))
