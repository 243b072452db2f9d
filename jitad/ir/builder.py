"""Appends operations to a block; types each op and folds it if its value is known.

``b.mul(x, y)`` is short for ``b.emit("mul", x, y)``; Python numbers among the operands become constants
of the other operands' dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import NOWHERE, Loc
from .evaluate.fold import fold
from .graph import Block, Edge, Function, Op, Value
from .ops import OPS, result_types
from .types import BOOL, F64, I64, Array, Scalar, Type, dtype_of


class Builder:
    """Emits ops at the end of ``block``; each op gets the location ``loc``."""

    def __init__(self, block: Block | None = None, loc: Loc = NOWHERE) -> None:
        self._block = block
        self.loc = loc

    # --- position ---------------------------------------------------------------------------------

    @property
    def block(self) -> Block:
        assert self._block is not None, "the builder stands nowhere: the path has ended"
        return self._block

    @property
    def func(self) -> Function:
        return self.block.func

    def at(self, block: Block | None) -> None:
        """Continue at the end of ``block``."""
        self._block = block

    @contextmanager
    def located(self, loc: Loc) -> Iterator[None]:
        before, self.loc = self.loc, loc
        try:
            yield
        finally:
            self.loc = before

    # --- operations -------------------------------------------------------------------------------

    def emit_op(self, name: str, operands: Sequence[Value], **attrs: Any) -> Op:
        """Append one op, with any number of results."""
        op = Op(name, operands, result_types(name, operands, attrs), attrs, loc=self.loc)
        op.block = block = self.block
        block.ops.append(op)
        return op

    def emit(self, name: str, *operands: Value | float | int | bool, **attrs: Any) -> Value:
        """Append an op with one result, or return the value if it is known (constants, ``x * 1``)."""
        values = self._values(name, operands)
        known = fold(name, values, attrs)
        if isinstance(known, Value):
            return known
        if known is not None:
            return self.const(*known)
        return self.emit_op(name, values, **attrs).result

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Callable[..., Value]: ...

    def _values(self, name: str, operands: Sequence[Any]) -> list[Value]:
        for v in operands:
            if type(v) is not Value:
                break
        else:
            return list(operands)
        if OPS[name].elementwise:                    # a number takes the dtype of its neighbours
            peers = [v for v in operands[1 if name == "select" else 0:] if isinstance(v, Value)]
            t: Scalar = dtype_of(peers[0].type) if peers else F64
            return [v if isinstance(v, Value) else self.const(v, t) for v in operands]
        first = operands[0]
        element = dtype_of(first.type) if isinstance(first, Value) and isinstance(first.type, Array) else None
        stores = name in ("set", "add_at")
        return [v if isinstance(v, Value) else self.const(v, element if stores and i == 1 and element else None)
                for i, v in enumerate(operands)]

    def const(self, value: float | int | bool, type: Scalar | None = None) -> Value:
        """A constant scalar; without ``type`` it is bool, i64 or f64 by the Python type."""
        if type is None:
            type = BOOL if isinstance(value, bool) else I64 if isinstance(value, int) else F64
        python = bool(value) if type.is_bool else int(value) if type.is_int else float(value)
        if type.is_narrow and not type.low <= python <= type.high:
            raise OverflowError(f"Python integer {python} out of bounds for {type.np}")
        return self.emit_op("const", (), value=python, type=type).result

    def again(self, v: Value) -> Value:
        """``v``; if it is a constant, the same constant here, since it may be defined where it does not dominate."""
        if v.const is None:
            return v
        assert isinstance(v.type, Scalar)
        return self.const(v.const, v.type)

    def undef(self, type: Type) -> Value:
        """A value for paths on which it is never read."""
        return self.emit_op("undef", (), type=type).result

    def dims(self, a: Value) -> list[Value]:
        """The sizes of an array as i64 values (constants if the type has them)."""
        assert isinstance(a.type, Array)
        return [self.emit("dim", a, axis=i) for i in range(a.type.rank)]

    def zeros_like(self, v: Value) -> Value:
        """Zero of a scalar's type, or an array of zeros with the sizes of ``v``."""
        zero = self.const(0, dtype_of(v.type))
        return self.emit("fill", zero, *self.dims(v)) if isinstance(v.type, Array) else zero

    def typed(self, v: Value, type: Type) -> Value:
        """An array as one of exactly this type, literal sizes included; other values unchanged."""
        return self.emit("as_type", v, type=type) if isinstance(type, Array) and v.type != type else v

    def pop(self, stack: Value, types: Sequence[Type]) -> tuple[Value, list[Value]]:
        """Pop one frame: (the stack below, the values that were pushed together)."""
        op = self.emit_op("pop", (stack,), types=tuple(types))
        return op.results[0], op.results[1:]

    def pop_like(self, stack: Value, values: Sequence[Value]) -> tuple[Value, list[Value]]:
        """Pop a frame of values like these, zeros if the stack is empty: (the stack below, the frame)."""
        sizes = [n for v in values if isinstance(v.type, Array) for n, d in zip(self.dims(v), v.type.dims) if d is None]
        op = self.emit_op("pop", (stack, *sizes), types=tuple(v.type for v in values), zeros=True)
        return op.results[0], op.results[1:]

    def check(self, condition: Value, exc: int, *values: Value) -> None:
        """Raise exception number ``exc`` of the module unless ``condition``."""
        if condition.const is not True:
            self.emit_op("check", (condition, *values), exc=exc)

    # --- terminators: each ends the block ---------------------------------------------------------

    def _end(self, name: str, operands: Sequence[Value] = (), edges: Sequence[Edge] = (), **attrs: Any) -> Op:
        block = self.block
        assert block.term is None, f"{block} has ended already"
        op = Op(name, operands, (), attrs, edges, self.loc)
        op.block = block
        block.term = op
        self._block = None
        return op

    def jump(self, block: Block, args: Sequence[Value] = ()) -> None:
        self._end("jump", edges=[Edge(block, list(args))])

    def branch(self, condition: Value, then: Block, then_args: Sequence[Value],
               other: Block, other_args: Sequence[Value]) -> None:
        self._end("branch", [condition], [Edge(then, list(then_args)), Edge(other, list(other_args))])

    def switch(self, selector: Value, edges: Sequence[Edge]) -> None:
        """Go to ``edges[selector]``; values out of range go to the last edge."""
        self._end("switch", [selector], edges)

    def call(self, callee: str, args: Sequence[Value], block: Block, extra: Sequence[Value] = ()) -> None:
        """Call and continue in ``block``: the results are its first parameters, ``extra`` the others."""
        self._end("call", args, [Edge(block, list(extra))], callee=callee)

    def call_then(self, callee: str, args: Sequence[Value], results: Sequence[Type]) -> list[Value]:
        """Call and continue in a new block of this function; returns the results."""
        func = self.func
        block = func.new_block()
        values = [block.add_param(t) for t in results]
        self.call(callee, args, block)
        self.at(block)
        return values

    def ret(self, values: Sequence[Value]) -> None:
        self._end("return", values)

    def raise_(self, exc: int, values: Sequence[Value] = ()) -> None:
        self._end("raise", values, exc=exc)


def _short(name: str) -> Callable[..., Value]:
    def emit(self: Builder, *operands: Value | float | int | bool, **attrs: Any) -> Value:
        return self.emit(name, *operands, **attrs)
    return emit


for _name in OPS:
    for _attribute in (_name, f"{_name}_"):          # and_, or_, not_
        if not hasattr(Builder, _attribute):
            setattr(Builder, _attribute, _short(_name))
