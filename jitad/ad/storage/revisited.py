"""Finds loads whose array is saved as a whole, since the loops around them read each of its elements several times.

::

    for t in range(steps):
        for i in range(n):
            for j in range(n):
                … h[j] …                     n² loads of n elements
        for i in range(n):
            h[i] = …                         so h has to be saved

Otherwise the load is saved in every iteration of the inner loops.  Here the array is saved once, in the iteration of
the outer loop that it belongs to, and the load is repeated.

The loops must be counted, and each index of the load must be the counter of one of them, by and large with the size of
that axis as its trip count.  There must be more loops than indices, or another loop that loads from the array, as the
two that compute forces along rows and along columns of one grid.  So the array has no more elements than there are
loads, whatever the sizes are.  Neighbours in one loop are no reason: their difference is one value to save.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.graph import Block, Function, Op, Value
from ...ir.types import Scalar
from ...passes.analysis.affine import Affine, AffineForms, atom
from ...passes.analysis.loops import Loop, counted
from ...passes.analysis.sizes import Size, Solver
from .final_loads import run

BORDER = 4
"""The most elements of an axis that a loop leaves out, at both ends together."""


class Revisited:
    """Calling it with a load, and the loops around it inside the loop of the array, yields true for such a load."""

    def __init__(self, func: Function, level: Callable[[Block], Loop | None]) -> None:
        self.solver, self.forms = Solver(func, defined=True), AffineForms()
        self.first: dict[Size, Value] = {}                     # the first value that is this size
        self.loaded_in: dict[Value, set[Loop | None]] = {}     # array → the innermost loops that load from it
        for op in func.all_ops():
            if op.name == "get" and op.block is not None:
                self.loaded_in.setdefault(op.operands[0], set()).add(level(op.block))
            if op.name == "dim":
                size = self.solver.size((op.operands[0], op.attrs["axis"]))
                self.first.setdefault(size, op.result)
                self.forms.known[op.result] = self._form(size)

    def __call__(self, load: Op, loops: Sequence[Loop]) -> bool:
        array, index = load.operands[0], load.operands[1:]
        if load.name != "get" or not isinstance(load.result.type, Scalar) or len(loops) < len(index):
            return False
        if len(loops) == len(index) and not self._is_loaded_beside(load):
            return False
        trips = {known.iv: run(known.trip) for loop in loops if (known := counted(loop)) is not None}
        if len(trips) < len(loops) or array.block in {b for loop in loops for b in loop.blocks}:
            return False
        return all(self._covers(array, axis, v, trips) for axis, v in enumerate(index))

    def _is_loaded_beside(self, load: Op) -> bool:
        """True if a loop that is not around ``load`` loads from its array too."""
        return any(loop is not None and load.block not in loop.blocks for loop in self.loaded_in[load.operands[0]])

    def _covers(self, array: Value, axis: int, v: Value, trips: dict[Value, Value]) -> bool:
        """True if an index is the counter of a loop that passes over the axis.  A counter is taken once."""
        form = self.forms.of(v)
        if len(form.terms) != 1 or abs(form.terms[0][1]) != 1:
            return False
        trip = trips.pop(form.terms[0][0], None)
        if trip is None:
            return False
        left_out = self._form(self.solver.size((array, axis))).minus(self.forms.of(trip))
        return not left_out.terms and 0 <= left_out.constant <= BORDER

    def _form(self, size: Size) -> Affine:
        if isinstance(size, int):
            return Affine(size)
        if isinstance(size, Value):
            return self.forms.of(size)
        return atom(self.first.get(size, size[0]))             # the array itself stands for a size that no value has
