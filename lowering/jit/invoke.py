"""Runs one IR function as compiled code on NumPy arguments, for tests that do not depend on the speed of the call.

The entry reads every part of its arguments from a row of 64-bit slots and writes the parts of its results to another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.graph import Function, Module
from ...ir.types import Array, Scalar, Type
from ..function.module import ModuleLowering
from ..llvm import context, types
from ..llvm.code import Assembly
from ..llvm.emit import global_name, symbol
from ..math.options import Options
from ..python.exceptions import Failures
from .cpu import Native, compile_module

Slots = ctypes.c_int64


def invoke(module: Module, name: str, args: Sequence[Any], options: Options | None = None) -> list[Any]:
    """Compile function ``name`` and run it; raises the program's exceptions."""
    return Compiled(module, name, options)(*args)


class Compiled:
    """A compiled function that is called with NumPy arguments and returns the list of its results.

    ``peak``: the number of bytes of the arena that the last call used, as far as releases record it.
    """

    def __init__(self, module: Module, name: str, options: Options | None = None) -> None:
        self.func = module.functions[name]
        self.failures = Failures(module)
        self.native: Native = compile_module(module, [name], options, self._entry)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t, ctypes.POINTER(Slots), ctypes.POINTER(Slots))(
            self.native.address("invoke"))
        self.context = context.new()
        self.peak = 0

    def _entry(self, lowering: ModuleLowering) -> list[str]:
        lowering.writer.function("invoke", _entry_text(self.func))
        return ["invoke"]

    def __call__(self, *args: Any) -> list[Any]:
        held: list[np.ndarray] = []
        given: list[int] = []
        for t, arg in zip(self.func.param_types, args, strict=True):
            given += _pack(t, arg, held)
        row = (Slots * max(1, len(given)))(*given)
        count = sum(len(types.parts_of(t)) for t in self.func.result_types)
        out = (Slots * max(1, count))()
        try:
            status = self._call(self.context, row, out)
            if status:
                state = context.Context.from_address(self.context)
                raise self.failures(status, *(getattr(state, f"operand{i}") for i in range(4)))
            return _unpack(self.func.result_types, list(out))
        finally:
            state = context.Context.from_address(self.context)
            self.peak = max(state.arena_high, state.arena_top) - state.arena_base
            context.trim(self.context)


def _pack(t: Type, arg: Any, held: list[np.ndarray]) -> list[int]:
    """The slots of one argument; arrays are copied (the function may own them) and kept alive in ``held``."""
    if isinstance(t, Array):
        a = np.array(arg, dtype=t.dtype.np, order="C", copy=True)
        held.append(a)
        return [a.ctypes.data, *a.shape]
    assert isinstance(t, Scalar), t
    wide = np.zeros(1, np.int64)
    wide.view(t.np)[0] = arg
    return [int(wide[0])]


def _unpack(ts: Sequence[Type], slots: list[int]) -> list[Any]:
    out: list[Any] = []
    for t in ts:
        own, slots = slots[:len(types.parts_of(t))], slots[len(types.parts_of(t)):]
        if isinstance(t, Array):
            count = int(np.prod(own[1:]))
            raw = ctypes.string_at(own[0], count * types.width(t.dtype)) if count else b""
            out.append(np.frombuffer(raw, t.dtype.np).reshape(own[1:]).copy())
        else:
            assert isinstance(t, Scalar), t
            out.append(np.array(own, np.int64).view(t.np)[0])
    return out


def _entry_text(func: Function) -> str:
    """LLVM IR of the entry, ``i32 @invoke(ctx, in, out)``."""
    code = Assembly()
    args = ["ptr %ctx"]
    for i, t in enumerate(p for p_type in func.param_types for p in types.parts_of(p_type)):
        at = code.op(f"getelementptr i64, ptr %in, i64 {i}")
        x = code.op(f"load {'i8' if t == 'i1' else t}, ptr {at}, align 8")
        args.append(f"{t} {code.op(f'icmp ne i8 {x}, 0') if t == 'i1' else x}")
    struct = types.result_struct(func.result_types)
    out = code.op(f"call {struct} {global_name(symbol(func.name))}({', '.join(args)})")
    status = code.op(f"extractvalue {struct} {out}, 0")
    good, bad = code.label("good"), code.label("bad")
    code.branch(code.op(f"icmp eq i32 {status}, 0"), good, bad)
    code.start(good)
    for i, t in enumerate(p for r in func.result_types for p in types.parts_of(r)):
        x = code.op(f"extractvalue {struct} {out}, {i + 1}")
        at = code.op(f"getelementptr i64, ptr %out, i64 {i}")
        if t == "i1":
            t, x = "i8", code.op(f"zext i1 {x} to i8")
        code.do(f"store {t} {x}, ptr {at}, align 8")
    code.end("ret i32 0")
    code.start(bad)
    code.end(f"ret i32 {status}")
    return f"define i32 @invoke(ptr %ctx, ptr %in, ptr %out) {{\n{code.text()}\n}}\n"
