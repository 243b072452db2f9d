"""The state of a function while it is built: the plan of its arrays, and the value of this level for each of the IR.

A stored array has a buffer of the type of its array, an alias set of its own class, and sizes.  A lazy array has sizes
only: its elements are computed where they are read (``elements.py``).  ``State`` is what the rules for ops need; the
state of a whole function adds how buffers are made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from ...errors import CompileError
from ...ir.aliasing.alias_classes import ClassSummary, is_array
from ...ir.graph import Block, Function, Op, Value
from ...ir.types import I64, Array, Scalar, Type
from ...lowering.planning import array_plan
from ...lowering.planning.buffer_placement import is_small
from ...lowering.planning.fusion import Plan
from ...passes.analysis.loops import LoopForest, loop_forest
from ..types import buffer_type, lowered
from .writer import Writer

Sizes = tuple[Value, ...]
Nest = tuple[Block, Value, dict[Value, Value]]
"""A nest that is one loop over all elements: where it stands, their number, and the buffers that it flattened."""


class State(ABC):
    """``values``: this level's values for scalars and stored arrays; ``sizes``: those of all arrays seen so far.

    ``device``: the nests are for kernels, whose threads take an iteration each.  Others are in the order of memory:
    one loop over all elements where that is possible, and reductions that go along rows.
    """

    device = False

    def __init__(self, plan: Plan, out: Function) -> None:
        self.plan, self.out = plan, out
        self.writer = Writer(out)
        self.values: dict[Value, Value] = {}
        self.sizes: dict[Value, Sizes] = {}
        self.nest: Nest = (out.entry, self.size(1), {})

    # --- values -------------------------------------------------------------------------------------

    def scalar(self, v: Value) -> Value:
        """The value for a scalar or a stack."""
        return self.values[v]

    def is_stored(self, v: Value) -> bool:
        """True if an array has its buffer by now."""
        return v in self.values

    @abstractmethod
    def buffer(self, v: Value) -> Value:
        """The buffer of a stored array."""

    def shape(self, v: Value) -> Sizes:
        """The sizes of an array, ``()`` for a scalar."""
        return self.sizes[v] if is_array(v) else ()

    def set_sizes(self, v: Value, sizes: Sequence[Value]) -> None:
        """Record the sizes of an array; literal ones in its type take their place."""
        assert isinstance(v.type, Array)
        self.sizes[v] = tuple(n if d is None else self.size(d) for n, d in zip(sizes, v.type.dims, strict=True))

    def size(self, n: int) -> Value:
        return self.writer.const(n, I64)

    # --- buffers ------------------------------------------------------------------------------------

    @abstractmethod
    def new(self, v: Value, sizes: Sequence[Value] | None = None) -> Value:
        """A new buffer for an array."""

    @abstractmethod
    def undefined(self, v: Value) -> Value:
        """A buffer for an array of which nothing is read."""

    @abstractmethod
    def destination(self, v: Value) -> Value:
        """The buffer for an array: the one that it takes over, or a new one."""

    @abstractmethod
    def typed(self, b: Value, v: Value) -> Value:
        """A buffer as that of ``v``, whose type may have other literal sizes."""

    def renamed(self, old: Value, new: Value) -> Value:
        """The buffer of ``old`` as that of ``new``."""
        return self.typed(self.buffer(old), new)

    @abstractmethod
    def added_at_once(self, parts: Sequence[Op], together: Callable[[], None], one_by_one: Callable[[], None]) -> None:
        """Add parts that may overlap to arrays: ``together`` if it is found that they do not, else ``one_by_one``."""

    def flattened(self, b: Value) -> Value:
        """The elements of a buffer, as many as the current nest has iterations, in C order along one axis."""
        if buffer_type(b).rank == 1:
            return b
        block, count, known = self.nest
        if b not in known:
            inside, self.writer.block = self.writer.block, block
            known[b] = self.writer.do("reshape", [b, count]).result
            self.writer.block = inside
        return known[b]

    # --- indices ------------------------------------------------------------------------------------

    def add(self, x: Value, y: Value) -> Value:
        return self.writer.emit("add", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.writer.emit("mul", x, y)

    def product(self, sizes: Sequence[Value]) -> Value:
        out = self.size(1)
        for n in sizes:
            out = self.mul(out, n)
        return out

    def load(self, b: Value, at: Sequence[Value]) -> Value:
        return self.writer.of(buffer_type(b).dtype, "load", [b, *at])

    def store(self, x: Value, b: Value, at: Sequence[Value]) -> None:
        self.writer.do("store", [x, b, *at])


class FunctionState(State):
    """The state of a function of which all becomes the loop level.  ``local``: see ``functions.to_loops``."""

    def __init__(self, func: Function, summaries: Mapping[str, ClassSummary], local: int, device: bool) -> None:
        super().__init__(array_plan.plan(func, summaries), Function(func.name))
        self.func, self.local, self.device = func, local, device
        self.forest: LoopForest = loop_forest(func)
        self._aliases: dict[Value, int] = {}
        heads = [loop.head for loop in self.forest.loops]
        self._carried = {self.plan.roots.find(p) for head in heads for p in head.params if is_array(p)}
        self._held = self.plan.roots.held()

    def buffer(self, v: Value) -> Value:
        if v not in self.values:
            raise CompileError(f"{v} is read before it is computed: the plan of @{self.func.name} is wrong")
        return self.values[v]

    def type(self, v: Value) -> Type:
        """The type of this level for a value of the IR; buffers on stacks have no alias set."""
        if not is_array(v) or self.plan.roots.on_stack(v):
            return lowered(v.type)
        return lowered(v.type, self._aliases.setdefault(self.plan.roots.find(v), len(self._aliases)))

    def measure(self, v: Value, b: Value) -> None:
        """Record a stored array with its buffer, whose sizes are read from it."""
        assert isinstance(v.type, Array)
        self.values[v] = b
        self.set_sizes(v, [self.size(d) if d is not None else self.writer.emit("dim", b, axis=axis)
                           for axis, d in enumerate(v.type.dims)])

    def new(self, v: Value, sizes: Sequence[Value] | None = None) -> Value:
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

    def undefined(self, v: Value) -> Value:
        return self.writer.do("undef", type=self.type(v)).result

    def destination(self, v: Value) -> Value:
        target = self.plan.reuse.get(v)
        return self.new(v) if target is None else self.renamed(target, v)

    def typed(self, b: Value, v: Value) -> Value:
        return b if self.type(v) == b.type else self.writer.do("retype", [b], type=self.type(v)).result

    def added_at_once(self, parts: Sequence[Op], together: Callable[[], None], one_by_one: Callable[[], None]) -> None:
        one_by_one()


def combine(fn: State, name: str, x: Value, y: Value) -> Value:
    """One step of the reduction, or scan, ``name``.

    The first step of a nest of one element has no order to choose, and a sum with the mark may drop its zero: then the
    sum of one -0.0 would be -0.0, where NumPy's is 0.0.
    """
    marks = {} if x.const is not None else _ANY_ORDER.get(name, {})
    return fn.writer.do(COMBINE[name], [x, y], **marks).result


COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "all": "and", "any": "or",
           "cumsum": "add", "cumprod": "mul"}
_ANY_ORDER = dict.fromkeys(("sum", "prod", "max", "min", "cumsum", "cumprod"), {"acc": True})


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
