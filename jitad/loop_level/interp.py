"""The interpreter of the loop level: buffers are NumPy arrays, which ``store`` changes and ``view`` shares.

Arithmetic has the meaning of ``ir/evaluate/meaning.py``.  With ``backwards`` independent loops run from their last
iteration to their first: what they compute must not depend on the order, except for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import CompileError
from ..ir.evaluate.interp import EMPTY, Frames, Interpreter
from ..ir.evaluate.meaning import MEANING, OutOfRange, garbage
from ..ir.graph import Module, Op, Value
from ..ir.types import Type, dtype_of
from .nest_code import NestCode, nest_code
from .text import LoopPrinter
from .types import Buffer, Vector, buffer_type, type_of


class Nothing(np.ndarray):
    """The memory of an undefined buffer: reads give any value, and writes are lost."""


class LoopInterpreter(Interpreter):
    """Runs functions of a module of this level."""

    def __init__(self, module: Module, backwards: bool = False) -> None:
        super().__init__(module, in_place=True)
        self.backwards = backwards
        self._codes: dict[Op, NestCode | None] = {}

    def argument(self, x: Any, t: Type) -> Any:
        b: object = t
        if isinstance(b, Buffer):
            value = np.array(x, b.dtype.np, order="C")
            _expect(value, b)
            return value
        return super().argument(x, t)

    def _execute(self, op: Op, values: dict[Value, Any]) -> None:
        self.counts[op.name] += 1
        operands = [values[v] for v in op.operands]
        special = _SPECIAL.get(op.name)
        try:
            if special is not None:
                special(self, op, operands, values)
            else:
                values[op.results[0]] = MEANING[op.name](op.attrs, *operands)
        except (CompileError, ValueError, IndexError) as e:
            if not isinstance(e, CompileError) and op.name in ("check", "for"):
                raise
            raise CompileError(f"{e}\n  in @{self._where(op)}") from e

    def _where(self, op: Op) -> str:
        assert op.block is not None
        return f"{op.block.func.name}: {LoopPrinter(op.block.func).op(op)}"

    def _for(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        if op not in self._codes:
            self._codes[op] = nest_code(op, self.backwards)
        code = self._codes[op]
        given = [values[v] for v in code.free] if code is not None else []
        if code is not None and not any(isinstance(x, Nothing) for x in given):
            values.update(zip(op.results, code.run(*given)))
            self.steps += 1
        else:
            self._one_by_one(op, operands, values)

    def _one_by_one(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        """Run a loop op by op."""
        lower, upper, step, *carried = operands
        body = op.regions[0]
        iv, *params = body.params
        term = body.term
        assert term is not None
        turns = range(int(lower), int(upper), int(step))
        for i in reversed(turns) if self.backwards and op.attrs.get("independent") else turns:
            values[iv] = np.int64(i)
            values.update(zip(params, carried))
            for inner in body.ops:
                self._execute(inner, values)
            carried = [values[v] for v in term.operands]
        self.steps += len(turns) * len(body.ops)
        values.update(zip(op.results, carried))

    def _alloc(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        t = buffer_type(op.result)
        if any(n < 0 for n in operands):
            raise OutOfRange(f"negative size in {operands}")
        values[op.result] = np.full([int(n) for n in operands], garbage(t.dtype))

    def _undef(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        t = type_of(op.result)
        if isinstance(t, Buffer):
            values[op.result] = np.full([d or 0 for d in t.dims], garbage(t.dtype)).view(Nothing)
        elif isinstance(t, Vector):
            values[op.result] = np.full(t.lanes, garbage(t.dtype))
        else:
            values[op.result] = EMPTY if not hasattr(t, "np") else garbage(dtype_of(op.result.type))

    def _load(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        values[op.result] = _read(op, operands)

    def _store(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        _write(op, operands)

    def _view(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        b, *where = operands
        part = b if isinstance(b, Nothing) else MEANING["slice"](op.attrs, b, *where)
        part = part.reshape([n for a, n in enumerate(part.shape) if a not in op.attrs.get("drop", ())])
        values[op.result] = part.transpose(op.attrs["perm"]) if "perm" in op.attrs else part
        if not np.shares_memory(values[op.result], b) and part.size and b.size:
            raise CompileError("a view that is a copy")
        _expect(values[op.result], buffer_type(op.result))

    def _reshape(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        b, *sizes = operands
        sizes = [int(n) for n in sizes]
        if isinstance(b, Nothing):
            values[op.result] = np.full(sizes, garbage(buffer_type(op.result).dtype)).view(Nothing)
        else:
            values[op.result] = b.reshape(sizes)

    def _retype(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        _expect(operands[0], buffer_type(op.result))
        values[op.result] = operands[0]

    def _matmul(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        out, a, b = operands
        product = MEANING["matmul"](op.attrs, a, b)
        out[...] = out + product if op.attrs.get("add") else product

    def _pop(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        stack, *sizes = operands
        types = [type_of(r) for r in op.results[1:]]
        if stack.below is None:
            if not op.attrs.get("zeros"):
                raise CompileError("nothing on the stack")
            values.update(zip(op.results, (EMPTY, *_zeros(types, sizes))))
            return
        if len(stack.values) != len(types):
            raise CompileError("a frame of another length")
        for x, t in zip(stack.values, types):
            if isinstance(t, Buffer):
                _expect(x, t)
            elif isinstance(x, Frames) == hasattr(t, "np"):
                raise CompileError(f"finds {x!r}, not {t}")
        values.update(zip(op.results, (stack.below, *stack.values)))

    def _lanes(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        n = op.attrs["lanes"]
        values[op.result] = np.arange(n) if op.name == "lane_ids" else np.full(n, operands[0])

    def _fold_lanes(self, op: Op, operands: list[Any], values: dict[Value, Any]) -> None:
        values[op.result] = MEANING[op.attrs["kind"]]({"axes": (0,)}, operands[0])


def _expect(x: Any, t: Buffer) -> None:
    """Raise ``CompileError`` unless memory is of a buffer's type."""
    fits = isinstance(x, np.ndarray) and x.dtype == t.dtype.np and x.ndim == t.rank
    if isinstance(x, Nothing) and fits:
        return
    if not fits or not all(d is None or d == n for d, n in zip(t.dims, x.shape)):
        raise CompileError(f"{getattr(x, 'dtype', x)}{list(np.shape(x))} is no {t}")
    if t.strides is None and not x.flags.c_contiguous:
        raise CompileError(f"is not in C order, as {t} says")


def _zeros(types: Sequence[Any], sizes: Sequence[Any]) -> list[Any]:
    rest = iter(sizes)
    return [np.zeros([int(next(rest)) if d is None else d for d in t.dims], t.dtype.np) if isinstance(t, Buffer)
            else t.np.type(0) if hasattr(t, "np") else EMPTY for t in types]


# --- elements ---------------------------------------------------------------------------------------------

def _read(op: Op, operands: list[Any]) -> Any:
    mask = operands.pop(0) if op.attrs.get("masked") else None
    b, *at = operands
    t = type_of(op.result)
    if isinstance(b, Nothing):
        return garbage(b_type.dtype) if isinstance(b_type := t, Vector) else garbage(dtype_of(op.result.type))
    if not isinstance(t, Vector):
        return b[_inside(b, at)]
    lanes = np.zeros(t.lanes, t.dtype.np)
    for k in range(t.lanes):
        if mask is None or mask[k]:
            lanes[k] = b[_inside(b, _lane(op, at, k))]
    return lanes


def _write(op: Op, operands: list[Any]) -> None:
    mask = operands.pop(0) if op.attrs.get("masked") else None
    v, b, *at = operands
    if isinstance(b, Nothing):
        return
    if not np.ndim(v):
        b[_inside(b, at)] = v
        return
    for k in range(len(v)):
        if mask is None or mask[k]:
            b[_inside(b, _lane(op, at, k))] = v[k]


def _lane(op: Op, at: list[Any], k: int) -> list[Any]:
    """The indices of one lane: consecutive along the last axis, or given as vectors."""
    if op.name in ("gather", "scatter"):
        return [i[k] if np.ndim(i) else i for i in at]
    return [*at[:-1], at[-1] + k]


def _inside(b: Any, at: Sequence[Any]) -> tuple[int, ...]:
    index = tuple(map(int, at))
    for axis, i in enumerate(index):
        if not 0 <= i < b.shape[axis]:
            raise OutOfRange(f"index {i} on axis {axis} of a buffer of shape {b.shape}")
    return index


_SPECIAL: dict[str, Callable[[LoopInterpreter, Op, list[Any], dict[Value, Any]], None]] = {
    "for": LoopInterpreter._for, "alloc": LoopInterpreter._alloc, "undef": LoopInterpreter._undef,
    "load": LoopInterpreter._load, "gather": LoopInterpreter._load, "store": LoopInterpreter._store,
    "scatter": LoopInterpreter._store, "view": LoopInterpreter._view, "reshape": LoopInterpreter._reshape,
    "retype": LoopInterpreter._retype, "matmul": LoopInterpreter._matmul, "pop": LoopInterpreter._pop,
    "push": Interpreter._push, "check": Interpreter._check, "stack_empty": Interpreter._stack_empty,
    "splat": LoopInterpreter._lanes, "lane_ids": LoopInterpreter._lanes, "fold_lanes": LoopInterpreter._fold_lanes,
}
