"""Lowers ops that have an array among their operands or results: builds loops for each, and prints them at once.

``jitad/loop_level/build`` has the rules.  Here are the values that they need: the buffer of a stored array is what the
function has lowered so far, and a scalar is itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import combinations

from ...ir.evaluate.fold import fold
from ...ir.graph import Function, Op, Value
from ...ir.types import I64, Array
from ...loop_level.build import array
from ...loop_level.build.state import Sizes, State
from ...loop_level.types import lowered
from ..builder.function_builder import FunctionBuilder
from ..llvm.types import Buffer
from .nests import NestPrinter


class ArrayOps(State):
    """The ops on arrays of one function.

    ``values`` and ``_read`` hold for the op that is being lowered: its results, and the buffers that it reads.  One
    that a result takes over is read with the sizes with which it is written: LLVM does not know that they are equal.
    """

    def __init__(self, fn: FunctionBuilder) -> None:
        super().__init__(fn.plan, Function(fn.func.name))
        self.fn, self.printer = fn, NestPrinter(fn)
        self._known: dict[str, Value] = {}
        self._read: dict[Value, Value] = {}

    def lower(self, op: Op) -> None:
        """Emit one op: nothing for a lazy result, loops for a stored one."""
        array(self, op)
        self._print()
        for v, found in self.values.items():
            x = self.printer.value(found)
            if isinstance(v.type, Array):
                assert isinstance(x, Buffer)
                x = Buffer(x.ptr, tuple(n if d is None else str(d) for n, d in zip(x.sizes, v.type.dims)), v.type)
            self.fn.values[v] = x
        self.values.clear()
        self._read.clear()

    def _print(self) -> None:
        """Print the ops that have been built."""
        block = self.writer.block
        ops, block.ops = block.ops, []
        self._note_new(ops)
        for op in ops:
            self.printer.op(op)

    def _note_new(self, ops: Sequence[Op]) -> None:
        """Note that buffers which ``ops`` allocate are none of those that are read, though a loop may pass one for
        the other: LLVM then need not compare addresses, and loads what the elements of a row share once."""
        roots, printer = self.fn.plan.roots, self.printer
        made: dict[Value, list[Value]] = {}
        for op in ops:
            if op.name == "alloc":
                made.setdefault(roots.find(printer.made[op.result]), []).append(op.result)
        for root, buffers in made.items():
            read = [b for v, b in self._read.items() if roots.find(v) is root and b.op is None]
            if read:
                *new, old = printer.aliases.apart([root] * (len(buffers) + 1))
                printer.notes.update({**dict(zip(buffers, new)), **dict.fromkeys(read, old)})

    # --- values -------------------------------------------------------------------------------------

    def scalar(self, v: Value) -> Value:
        return self._named(self.fn.scalar(v)) if v.type is I64 else v

    def _named(self, name: str) -> Value:
        """The value for an i64 of LLVM; equal names give one value."""
        if name[0] != "%":
            return self.size(int(name))
        if name not in self._known:
            self._known[name] = self.printer.bound(I64, name)
        return self._known[name]

    def is_stored(self, v: Value) -> bool:
        return v in self.values or v in self.fn.values

    def shape(self, v: Value) -> Sizes:
        found = self.fn.values.get(v)
        return tuple(map(self._named, found.sizes)) if isinstance(found, Buffer) else self.sizes.get(v, ())

    def buffer(self, v: Value) -> Value:
        if v in self.values and v not in self._read:
            return self.values[v]
        if v not in self._read:
            self._read[v] = self.printer.bound(lowered(v.type), self.fn.array(v), self.printer.aliases.note(v))
        return self._read[v]

    def add(self, x: Value, y: Value) -> Value:
        return self._index("add", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self._index("mul", x, y)

    def _index(self, name: str, x: Value, y: Value) -> Value:
        known = None if x.const is None and y.const is None else fold(name, (x, y), {})
        if known is None:
            return self.writer.of(I64, name, [x, y], {"nsw": True})
        return known if isinstance(known, Value) else self.writer.const(*known)

    # --- buffers ------------------------------------------------------------------------------------

    def new(self, v: Value, sizes: Sequence[Value] | None = None) -> Value:
        made = self.writer.do("alloc", self.shape(v) if sizes is None else sizes, kind="arena", type=lowered(v.type))
        self.printer.made[made.result] = v
        return made.result

    def undefined(self, v: Value) -> Value:
        """Memory of the literal sizes, since an edge may copy it; unknown sizes are 0."""
        return self.new(v)

    def destination(self, v: Value) -> Value:
        target = self.plan.reuse.get(v)
        if target is None:
            return self.new(v)
        self._read[target] = self.writer.do("reshape", [self.buffer(target), *self.shape(v)]).result
        return self._read[target]

    def typed(self, b: Value, v: Value) -> Value:
        return b

    # --- parts that may overlap -----------------------------------------------------------------------

    def added_at_once(self, parts: Sequence[Op], together: Callable[[], None], one_by_one: Callable[[], None]) -> None:
        """A test before the loop finds out if the ranges of some pair of parts overlap along all axes."""
        condition = self._apart(parts)
        self._print()
        before = dict(self.values)

        def all_apart() -> None:
            for op, note in zip(parts, self.printer.aliases.apart([op.result for op in parts])):
                b = before[op.result]
                self.values[op.result] = self.printer.bound(b.type, self.printer.value(b), note)
            together()
            self._print()
            self.values.update(before)

        def others() -> None:
            one_by_one()
            self._print()
        self.fn.either(self.printer.scalar(condition), all_apart, others)

    def _apart(self, parts: Sequence[Op]) -> Value:
        """The condition under which no pair of parts of one array overlaps: on some axis they share no index."""
        pairs = [pair for pair in combinations(parts, 2) if self.plan.roots.same(*(op.result for op in pair))]
        return self._all("and", (self._all("or", self._differ(*pair)) for pair in pairs))

    def _all(self, name: str, conditions: Iterable[Value]) -> Value:
        return reduce(lambda x, y: self.writer.do(name, [x, y]).result, conditions)

    def _differ(self, *pair: Op) -> Iterator[Value]:
        """Conditions on the indices of two parts along each axis: the ranges are apart, or the remainders differ."""
        for (p, end, step), (q, other, same) in zip(*map(self._ranges, pair)):
            yield self.writer.do("le", [end, q]).result
            yield self.writer.do("le", [other, p]).result
            if step is same and step.const != 1:
                distance = self.writer.do("sub", [p, q]).result
                rest = self.writer.do("mod", [distance, self.scalar(step)]).result
                yield self.writer.do("ne", [rest, self.size(0)]).result

    def _ranges(self, op: Op) -> list[tuple[Value, Value, Value]]:
        """The half-open range (begin, end) of the part of ``op`` along each axis, and its step."""
        starts, steps = op.operands[2::2], op.operands[3::2]
        return [(self.scalar(start), self.add(self.scalar(start), self.mul(size, self.scalar(step))), step)
                for start, step, size in zip(starts, steps, self.shape(op.operands[1]))]
