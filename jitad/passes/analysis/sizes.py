"""Canonical sizes: which axes of a function's arrays have the same size.

The result of an update has the shape of the updated array.  The result of an elementwise op has the size of an operand
with that axis.  A block parameter has the shape of its arguments, if they agree.  The fixed point is optimistic, so
this also holds through loops.
"""

from __future__ import annotations

from ...ir.graph import Block, Function, Value
from ...ir.ops import Axis, size_origin
from ...ir.types import Array

Size = Axis | Value | int                 # an axis of an array with a size of its own, an i64 value, a constant


class Solver:
    """The canonical sizes of a function's arrays, on demand; connected block parameters are solved together.

    ``defined``: arguments that are undefined, as a loop passes beside a ``break``, are left out.  A parameter then has
    the size wherever it is used by the program, but not where passes might read it ahead of that.
    """

    def __init__(self, func: Function, defined: bool = False) -> None:
        self.sources: dict[Value, list[Value] | None] = {}
        for b in func.blocks:
            for e in b.term.edges if b.term is not None else ():          # none yet: under construction
                for p in e.block.params:
                    if not isinstance(p.type, Array):
                        continue
                    known, given = self.sources.setdefault(p, []), e.argument(p)
                    if given is None:
                        self.sources[p] = None               # the result of a call
                    elif known is not None and not (defined and given.undefined):
                        known.append(given)
        self.params: dict[Axis, Size] = {}

    def size(self, axis: Axis) -> Size:
        here = _through_ops(axis)
        if isinstance(here, tuple) and here not in self.params:
            self._solve(here)
        return self.params[here] if isinstance(here, tuple) else here

    def _solve(self, start: Axis) -> None:
        """Iterate the meet over arguments to a fixed point, from "not known yet" down to "a size of its own"."""
        sources: dict[Axis, list[Size]] = {}
        readers: dict[Axis, list[Axis]] = {}
        todo = [start]
        while todo:
            axis = todo.pop()
            if axis in sources or axis in self.params:
                continue
            args = self.sources.get(axis[0]) if isinstance(axis[0].owner, Block) else None
            sources[axis] = [_through_ops((a, axis[1])) for a in args or ()]
            for s in sources[axis]:
                if isinstance(s, tuple):
                    readers.setdefault(s, []).append(axis)
                    todo.append(s)
        found: dict[Axis, Size | None] = dict.fromkeys(sources)
        work = list(sources)
        while work:
            axis = work.pop()
            new = self._meet(axis, sources[axis], found)
            if new != found[axis]:
                found[axis] = new
                work += (r for r in readers.get(axis, ()) if r in found)
        self.params |= {axis: axis if size is None else size for axis, size in found.items()}

    def _meet(self, axis: Axis, args: list[Size], found: dict[Axis, Size | None]) -> Size | None:
        if not args or found[axis] == axis:
            return axis
        only: Size | None = None
        for a in args:
            size = found.get(a, self.params.get(a)) if isinstance(a, tuple) else a
            if size is None or size == only:
                continue
            if only is not None:
                return axis
            only = size
        return only


def _through_ops(axis: Axis) -> Size:
    """Follow ops that preserve or state the size, up to a parameter or an op whose result has its own size."""
    v, number = axis
    while True:
        assert isinstance(v.type, Array)
        literal = v.type.dims[number]
        if literal is not None:
            return literal
        step = size_origin(v, number)
        if step is None:
            return v, number
        if isinstance(step, Value):
            if step.op is None or step.op.name != "dim":
                return step if step.const is None else int(step.const)
            step = step.op.operands[0], step.op.attrs["axis"]
        v, number = step


class Sizes:
    """Canonical sizes of a function; a value that is the ``dim`` of an array is that array's size."""

    def __init__(self, func: Function) -> None:
        self.solver = Solver(func)

    def of(self, size: Size) -> Size:
        while True:
            if isinstance(size, tuple):
                known = self.solver.size(size)
                if known == size:
                    return size
                size = known
            elif isinstance(size, Value) and size.op is not None and size.op.name == "dim":
                size = size.op.operands[0], size.op.attrs["axis"]
            else:
                return int(size.const) if isinstance(size, Value) and size.const is not None else size

    def are_same(self, a: Size, b: Size) -> bool:
        return self.of(a) == self.of(b)
