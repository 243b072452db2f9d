"""Runs MLIR text as machine code: lowered by MLIR's tools, compiled by LLVM, called through its C interface.

Frames of stacks, and functions of libraries that MLIR has no ops for, are Python callbacks.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from jitad.lowering.llvm.emit import symbol

from jitad.ir.evaluate.gamma import digamma, polygamma
from jitad.ir.graph import Function, Module
from jitad.loop_level.interp import LoopInterpreter
from jitad.loop_level.types import Buffer
from jitad.mlir.function import raising
from jitad.mlir.types import element, scalar
from tests.mlir.tools import to_llvm

C_TYPES: dict[str, Any] = {
    "f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32,
    "i16": ctypes.c_int16, "i8": ctypes.c_int8, "i1": ctypes.c_bool, "index": ctypes.c_int64}
RANKS = range(1, 5)


def lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


LIBRARY: dict[str, tuple[int, Callable[..., float]]] = {
    "expm1": (1, lambda x: float(np.expm1(x))), "log1p": (1, lambda x: float(np.log1p(x))), "erfc": (1, math.erfc),
    "lgamma": (1, lgamma), "hypot": (2, math.hypot), "jitad_digamma": (1, digamma), "jitad_polygamma": (2, polygamma)}


class Status(Exception):
    """The number of the exception that a program raised."""


def descriptor(rank: int) -> Any:
    """The C type of a memref."""
    return type(f"Memref{rank}", (ctypes.Structure,), {"_fields_": [
        ("allocated", ctypes.c_void_p), ("aligned", ctypes.c_void_p), ("offset", ctypes.c_int64),
        ("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]})


DESCRIPTORS = {rank: descriptor(rank) for rank in RANKS}


# --- what the text calls --------------------------------------------------------------------------------

class Stacks:
    """Frames by handle: the handle below, and the bytes of each value."""

    def __init__(self) -> None:
        self.frames: dict[int, tuple[int, list[bytes]]] = {}
        self.handles = itertools.count(1)

    def push(self, below: int) -> int:
        handle = next(self.handles)
        self.frames[handle] = below, []
        return handle

    def below(self, stack: int) -> int:
        return self.frames[stack][0]

    def callbacks(self) -> dict[str, Any]:
        i64 = ctypes.c_int64
        made: dict[str, Any] = {"jitad_push": ctypes.CFUNCTYPE(i64, i64)(self.push),
                                "jitad_below": ctypes.CFUNCTYPE(i64, i64)(self.below)}
        for name, c in C_TYPES.items():
            made[f"jitad_put_{name}"] = ctypes.CFUNCTYPE(None, i64, c)(
                lambda stack, x, c=c: self.frames[stack][1].append(bytes(c(x))))
            made[f"jitad_get_{name}"] = ctypes.CFUNCTYPE(c, i64, i64)(
                lambda stack, n, c=c: c.from_buffer_copy(self.frames[stack][1][n]).value)
            for rank, d in DESCRIPTORS.items():
                made[f"jitad_put_{name}_{rank}"] = ctypes.CFUNCTYPE(None, i64, ctypes.POINTER(d))(
                    lambda stack, x: self.frames[stack][1].append(bytes(x.contents)))
                made[f"jitad_get_{name}_{rank}"] = ctypes.CFUNCTYPE(None, ctypes.c_void_p, i64, i64)(
                    lambda out, stack, n: ctypes.memmove(out, x := self.frames[stack][1][n], len(x)) and None)
        return made


CALLBACKS = Stacks().callbacks() | {
    name: ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * n)(f) for name, (n, f) in LIBRARY.items()}


# --- running --------------------------------------------------------------------------------------------

class Compiled:
    """The machine code of a module of the loop level."""

    def __init__(self, module: Module, llvm_ir: str) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for name, callback in CALLBACKS.items():
            llvm.add_symbol(f"_mlir_ciface_{name}", ctypes.cast(callback, ctypes.c_void_p).value)
        self.module, self.raises = module, raising(module)
        machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(llvm_ir), machine)
        self.engine.finalize_object()

    def run(self, name: str, given: Sequence[Any]) -> list[Any]:
        """The results as NumPy values; raises ``Status``."""
        func = self.module.functions[name]
        kept = [LoopInterpreter(self.module).argument(x, t) for x, t in zip(given, func.param_types, strict=True)]
        args = [_argument(x, t) for x, t in zip(kept, func.param_types)]
        results = _result_types(func, name in self.raises)
        address = self.engine.get_function_address(f"_mlir_ciface_{symbol(name)}")
        if len(results) == 1 and results[0] in C_TYPES.values():
            values = [ctypes.CFUNCTYPE(results[0], *map(type, args))(address)(*args)]
        else:
            out = type("Results", (ctypes.Structure,), {"_fields_": [(f"r{i}", t) for i, t in enumerate(results)]})()
            ctypes.CFUNCTYPE(None, ctypes.c_void_p, *map(type, args))(address)(ctypes.addressof(out), *args)
            values = [getattr(out, f"r{i}") for i in range(len(results))]
        if name in self.raises:
            status, *values = values
            if status:
                raise Status(status)
        return [_result(x, t) for x, t in zip(values, func.result_types, strict=True)]


def compiled(modules: Sequence[Module], texts: Sequence[str]) -> list[Compiled]:
    return [Compiled(m, code) for m, code in zip(modules, to_llvm(texts), strict=True)]


def _argument(x: Any, t: Any) -> Any:
    if not isinstance(t, Buffer):
        return C_TYPES[scalar(t)](x.item())
    strides = [s // x.itemsize for s in x.strides]
    d = DESCRIPTORS[t.rank]
    return ctypes.pointer(d(x.ctypes.data, x.ctypes.data, 0, tuple(x.shape), tuple(strides)))


def _result_types(func: Function, status: bool) -> list[Any]:
    kinds: list[Any] = list(func.result_types)
    return [ctypes.c_int32] * status + [
        DESCRIPTORS[t.rank] if isinstance(t, Buffer) else C_TYPES["index" if not hasattr(t, "np") else scalar(t)]
        for t in kinds]


def _result(x: Any, t: Any) -> Any:
    if not isinstance(t, Buffer):
        if not hasattr(t, "np"):
            return x                                 # the handle of a stack
        return t.np.type(x % (1 << t.bits) if t.is_int and not t.is_signed else x)
    sizes, strides = list(x.sizes), list(x.strides)
    if 0 in sizes:
        return np.zeros(sizes, t.dtype.np)
    item = t.dtype.np.itemsize
    assert element(t.dtype)[1:] == str(8 * item)
    extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
    memory = (ctypes.c_char * (extent * item)).from_address(x.aligned + x.offset * item)
    flat = np.frombuffer(memory, t.dtype.np)
    return np.lib.stride_tricks.as_strided(flat, sizes, [s * item for s in strides]).copy()
