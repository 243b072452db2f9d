"""Prints ops of the loop level but for loops.

A value has an LLVM name, or is a buffer: an address and sizes.  Views and other names of a buffer have its alias
metadata.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ...ir.graph import Op, Value
from ...ir.types import Array, Type, dtype_of
from ...loop_level.types import buffer_type
from ..builder.function_builder import FunctionBuilder
from ..llvm.types import Buffer, Lowered, literal, register
from ..math import ops
from ..math.instructions import intrinsic
from ..math.options import float_flags
from ..matmul import select_kernel
from .alias_notes import AliasNotes

_CHOICES = frozenset(("select", "minimum", "maximum"))
"""What is stored of these is marked by ``freeze``, or LLVM makes a masked store if one choice is what was there before.

On an AMD EPYC with AVX2 that takes 12 cycles: ``if x[j] > a[j]: a[j] = x[j]`` took three times as long.
"""


class Printer(ABC):
    """Appends to the code of a function.

    ``names``: what is known of values of the loop level; scalars of the IR are known to the function itself.
    ``made``: the arrays for which buffers are allocated.  ``rows``: the distance of the rows of blocks of matrices.
    """

    def __init__(self, fn: FunctionBuilder) -> None:
        self.fn, self.aliases = fn, AliasNotes(fn)
        self.names: dict[Value, Lowered] = {}
        self.notes: dict[Value, str] = {}
        self.made: dict[Value, Value] = {}
        self.rows: dict[Value, str] = {}

    # --- values -------------------------------------------------------------------------------------

    def bound(self, t: Type, x: Lowered, note: str = "") -> Value:
        """A new value of type ``t`` that stands for ``x``."""
        v = Value(t, self.fn.func.entry, 0)
        self.names[v], self.notes[v] = x, note
        return v

    def value(self, v: Value) -> Lowered:
        if v in self.names:
            return self.names[v]
        known = v.const
        return self.fn.scalar(v) if known is None else literal(known, dtype_of(v.type))

    def scalar(self, v: Value) -> str:
        x = self.value(v)
        assert isinstance(x, str), v
        return x

    def buffer(self, v: Value) -> Buffer:
        x = self.names[v]
        assert isinstance(x, Buffer), v
        return x

    # --- ops ----------------------------------------------------------------------------------------

    def op(self, op: Op) -> None:
        rule = _RULES.get(op.name)
        if rule is not None:
            rule(self, op)
        else:
            self.names[op.result] = self._arithmetic(op, [self.scalar(v) for v in op.operands])

    def _arithmetic(self, op: Op, xs: list[str]) -> str:
        if op.attrs.get("nsw"):
            return self.fn.add(*xs) if op.name == "add" else self.fn.mul(*xs)
        product = self._product(op)
        if product is not None:
            return intrinsic(self.fn, "fmuladd", dtype_of(op.result.type), [*product, xs[0]],
                             float_flags(self.fn.options, op.attrs))
        return ops.scalar(self.fn, op, xs)

    def _product(self, op: Op) -> list[str] | None:
        """The factors of a product to multiply again where it is added: ``fma_control.repeated_products``."""
        term = op.operands[1].op if op.name == "add" and op.attrs.get("acc") else None
        product = term.operands[0].op if term is not None and term.name == "neg" else term
        if product is None or product not in self.fn.repeated:
            return None
        x, y = map(self.scalar, product.operands)
        return [x if term is product else self.fn.code.arith("fneg", register(dtype_of(op.result.type)), x), y]

    def position(self, b: Buffer, at: Sequence[str]) -> str:
        """The offset, in elements, of the element ``at``, or of the subarray if there are fewer indices than axes."""
        fn, linear = self.fn, "0"
        for axis, size in enumerate(b.sizes):
            i = at[axis] if axis < len(at) else "0"
            linear = fn.add(fn.mul(linear, size), i if size != "1" else "0")
        return linear

    def load(self, op: Op) -> None:
        memory, *at = op.operands
        b = self.buffer(memory)
        index = self.position(b, [self.scalar(i) for i in at])
        self.names[op.result] = self.fn.load(b.dtype, b.ptr, index, self.notes[memory])

    def store(self, op: Op) -> None:
        x, memory, *at = op.operands
        b = self.buffer(memory)
        index, value = self.position(b, [self.scalar(i) for i in at]), self.scalar(x)
        if x.op is not None and x.op.name in _CHOICES and not b.dtype.is_bool:
            value = self.fn.code.arith("freeze", register(b.dtype), value)
        self.fn.store(b.dtype, value, b.ptr, index, self.notes[memory])

    # --- buffers ------------------------------------------------------------------------------------

    def alloc(self, op: Op) -> None:
        v = self.made[op.result]
        assert isinstance(v.type, Array)
        self.names[op.result] = self.fn.alloc(v.type, tuple(map(self.scalar, op.operands)), v)
        self.notes.setdefault(op.result, self.aliases.note(v))

    def reshape(self, op: Op) -> None:
        memory, *sizes = op.operands
        self._part(op, self.buffer(memory).ptr, tuple(map(self.scalar, sizes)))

    def view(self, op: Op) -> None:
        b = self.buffer(op.operands[0])
        starts, lengths = ([self.scalar(v) for v in op.operands[first::3]] for first in (1, 2))
        sizes = tuple(n for axis, n in enumerate(lengths) if axis not in op.attrs.get("drop", ()))
        self._part(op, self.fn.address(b.dtype, b.ptr, self.position(b, starts)), sizes)
        if not op.attrs.get("contiguous"):
            self.rows[op.result] = b.sizes[1]

    def _part(self, op: Op, ptr: str, sizes: tuple[str, ...]) -> None:
        t = buffer_type(op.result)
        self.names[op.result] = Buffer(ptr, sizes, Array(t.dtype, t.dims))
        self.notes[op.result] = self.notes[op.operands[0]]

    def matmul(self, op: Op) -> None:
        out, a, b = op.operands
        left, right = ((self.buffer(v), bool(op.attrs.get(flag))) for v, flag in ((a, "ta"), (b, "tb")))
        row = self.rows.get(a, "") or self.rows.get(b, "")
        select_kernel.multiply(self.fn, self.buffer(out), left, right, row, bool(op.attrs.get("add")),
                               bool(op.attrs.get("ordered")))

    @abstractmethod
    def loops(self, op: Op) -> None:
        """Print a nest."""


_RULES: dict[str, Callable[[Printer, Op], None]] = {
    "load": Printer.load, "store": Printer.store, "alloc": Printer.alloc, "reshape": Printer.reshape,
    "view": Printer.view, "matmul": Printer.matmul, "for": lambda printer, op: printer.loops(op),
}
