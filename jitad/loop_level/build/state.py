"""The state of a function while it is built: the plan of its arrays, and the value of this level for each of the IR.

A stored array has a buffer of the type of its array, an alias set of its own class, and sizes.  A lazy array has sizes
only: its elements are computed where they are read (``elements.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import CompileError
from ...ir.aliasing.alias_classes import ClassSummary, is_array
from ...ir.graph import Function, Value
from ...ir.types import I64, Array, Scalar, Type
from ...lowering.planning import array_plan
from ...lowering.planning.buffer_placement import LOCAL_LIMIT, is_small
from ...passes.analysis.loops import LoopForest, loop_forest
from ..types import lowered
from .writer import Writer

Sizes = tuple[Value, ...]


class State:
    """``values``: this level's values for scalars and stored arrays; ``sizes``: those of all arrays seen so far."""

    def __init__(self, func: Function, summaries: Mapping[str, ClassSummary], local: int = LOCAL_LIMIT) -> None:
        self.func, self.local = func, local
        self.plan = array_plan.plan(func, summaries)
        self.forest: LoopForest = loop_forest(func)
        self.out = Function(func.name)
        self.writer = Writer(self.out)
        self.values: dict[Value, Value] = {}
        self.sizes: dict[Value, Sizes] = {}
        self._aliases: dict[Value, int] = {}
        heads = [loop.head for loop in self.forest.loops]
        self._carried = {self.plan.roots.find(p) for head in heads for p in head.params if is_array(p)}
        self._held = self.plan.roots.held()

    # --- values -------------------------------------------------------------------------------------

    def scalar(self, v: Value) -> Value:
        """The value for a scalar or a stack."""
        return self.values[v]

    def buffer(self, v: Value) -> Value:
        """The buffer of a stored array."""
        if v not in self.values:
            raise CompileError(f"{v} is read before it is computed: the plan of @{self.func.name} is wrong")
        return self.values[v]

    def type(self, v: Value) -> Type:
        """The type of this level for a value of the IR; buffers on stacks have no alias set."""
        if not is_array(v) or self.plan.roots.on_stack(v):
            return lowered(v.type)
        return lowered(v.type, self._aliases.setdefault(self.plan.roots.find(v), len(self._aliases)))

    def shape(self, v: Value) -> Sizes:
        """The sizes of an array, ``()`` for a scalar."""
        return self.sizes[v] if is_array(v) else ()

    def set_sizes(self, v: Value, sizes: Sequence[Value]) -> None:
        """Record the sizes of an array; literal ones in its type take their place."""
        assert isinstance(v.type, Array)
        self.sizes[v] = tuple(n if d is None else self.size(d) for n, d in zip(sizes, v.type.dims, strict=True))

    def size(self, n: int) -> Value:
        return self.writer.const(n, I64)

    def measure(self, v: Value, b: Value) -> None:
        """Record a stored array with its buffer, whose sizes are read from it."""
        assert isinstance(v.type, Array)
        self.values[v] = b
        self.set_sizes(v, [self.size(d) if d is not None else self.writer.emit("dim", b, axis=axis)
                           for axis, d in enumerate(v.type.dims)])

    # --- buffers ------------------------------------------------------------------------------------

    def new(self, v: Value, sizes: Sequence[Value] | None = None) -> Value:
        """A new buffer for an array."""
        return self.writer.do("alloc", self.shape(v) if sizes is None else sizes, kind=self._kind(v),
                              type=self.type(v)).result

    def _kind(self, v: Value) -> str:
        """``frame`` for a small array that is dead when its op runs again, and that nothing outside may hold."""
        roots = self.plan.roots
        root, looped = roots.find(v), self.forest.loop_of(v.block) is not None
        returned = roots.is_returned(v)
        stays = root in self._held or returned or (looped and root in self._carried)
        if is_small(v.type, self.local) and not stays:
            return "frame"
        return "result" if returned and not looped else "arena"

    def destination(self, v: Value) -> Value:
        """The buffer for an array: the one that it takes over, or a new one."""
        target = self.plan.reuse.get(v)
        return self.new(v) if target is None else self.renamed(target, v)

    def renamed(self, old: Value, new: Value) -> Value:
        """The buffer of ``old`` as that of ``new``, which may have other literal sizes."""
        b = self.buffer(old)
        return b if self.type(new) == b.type else self.writer.do("retype", [b], type=self.type(new)).result

    # --- indices ------------------------------------------------------------------------------------

    def add(self, x: Value, y: Value) -> Value:
        return self.writer.emit("add", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.writer.emit("mul", x, y)

    def load(self, b: Value, at: Sequence[Value]) -> Value:
        return self.writer.do("load", [b, *at]).result

    def store(self, x: Value, b: Value, at: Sequence[Value]) -> None:
        self.writer.do("store", [x, b, *at])


def combine(fn: State, name: str, x: Value, y: Value) -> Value:
    """One step of the reduction, or scan, ``name``."""
    op = COMBINE[name]
    attrs = {"acc": True} if op in ("add", "mul") else {}
    return fn.writer.do(op, [x, y], **attrs).result


COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "all": "and", "any": "or",
           "cumsum": "add", "cumprod": "mul"}


def identity(fn: State, name: str, t: Scalar) -> Value:
    """The neutral element of the reduction, or scan, ``name``."""
    value: float | int | bool
    if name in ("sum", "cumsum", "prod", "cumprod"):
        value = {"sum": 0.0, "cumsum": -0.0}.get(name, 1.0)
        return fn.writer.const(value if t.is_float else int(value), t)
    if t.is_bool:
        value = name in ("all", "min")
    elif t.is_float:
        value = float("-inf") if name == "max" else float("inf")
    else:
        value = t.low if name == "max" else t.high
    return fn.writer.const(value, t)
