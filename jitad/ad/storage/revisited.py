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

Indices that are data, as those of the ends of an edge, are no obstacle where each iteration of the outer loop passes
over the whole array in another loop, which reads or replaces its elements: to save them takes no longer than that loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.graph import Block, Function, Op, Value
from ...ir.types import Scalar
from ...ir.uses import array_users
from ...passes.analysis.affine import Affine, AffineForms, atom
from ...passes.analysis.loops import Loop, counted
from ...passes.analysis.sizes import Size, Solver
from ...passes.buffers.final_loads import run

BORDER = 4
"""The most elements of an axis that a loop leaves out, at both ends together."""


class Revisited:
    """Calling it with a load, and the loops around it inside the loop of the array, yields true for such a load."""

    def __init__(self, func: Function, level: Callable[[Block], Loop | None]) -> None:
        self.solver, self.forms, self.level = Solver(func, defined=True), AffineForms(), level
        self.users = array_users(func.all_ops())
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
        if load.name != "get" or not isinstance(load.result.type, Scalar) or not loops:
            return False
        outer = loops[-1].parent
        if outer is not None and self._is_data(index, loops):
            return self._is_passed_over(array, load, outer)
        if len(loops) < len(index):
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

    def _is_data(self, index: Sequence[Value], loops: Sequence[Loop]) -> bool:
        """True if an index is read or computed in the loops, and not by adding to their counters."""
        counters = {known.iv for loop in loops if (known := counted(loop)) is not None}
        return any(v.block in loop.blocks and v not in counters
                   for i in index for v, _ in self.forms.of(i).terms for loop in loops)

    def _is_passed_over(self, array: Value, load: Op, outer: Loop) -> bool:
        """True if each iteration of ``outer``, which has the array, passes over all of it in a loop that is not around
        the load, at elements or at what they are replaced by."""
        names, todo = {array}, [array]
        while todo:
            v = todo.pop()
            for op in self.users.get(v, ()):
                if op.block not in outer.blocks:
                    continue
                if op.edges:
                    fresh = [p for e in op.edges if e.block is not outer.head for p, a in e.passed() if a is v]
                elif op.name in ("get", "set", "add_at") and op.operands[0] is v:
                    if self._passes_over(op, load, outer):
                        return True
                    fresh = op.results[:1] if op.name != "get" else []
                else:
                    fresh = []
                todo += [p for p in fresh if p not in names]
                names.update(fresh)
        return False

    def _passes_over(self, op: Op, load: Op, outer: Loop) -> bool:
        """True if an access is at the counters of loops that are not around ``load`` and pass over all elements."""
        loops, loop = list[Loop](), self.level(op.block) if op.block is not None else None
        while loop is not None and loop is not outer:
            loops.append(loop)
            loop = loop.parent
        index = op.operands[1 if op.name == "get" else 2:]
        if loop is None or len(loops) != len(index) or any(load.block in loop.blocks for loop in loops):
            return False
        trips = {known.iv: run(known.trip) for loop in loops if (known := counted(loop)) is not None}
        return len(trips) == len(loops) and all(self._covers(op.operands[0], axis, v, trips)
                                                for axis, v in enumerate(index))

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
