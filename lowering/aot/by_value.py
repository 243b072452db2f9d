"""C functions in memory that return their result by value, as callbacks of other libraries do.

Each calls the C function of an export, and returns NaN, or 0 for integers, if that returns an error code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from ...compiler_threads import uninterrupted
from ...errors import CompileError
from ...ir.types import Scalar
from ...kernels import blas
from ..jit import cpu
from ..llvm import types
from ..llvm.capi import immortal
from ..llvm.code import Assembly
from ..llvm.emit import Writer, global_name
from ..math import libmvec
from .interface import Interface
from .library import Library

_numbers = itertools.count()


@dataclass(frozen=True)
class Parameter:
    """A parameter of the function: its C type, and the parts of the export's arguments that it is.

    ``parts`` are numbers of these parts; none for a parameter that is ignored.
    """

    c: str
    parts: tuple[int, ...]


LLVM = {"int": "i32", "long": "i64", "pointer": "ptr", "double": "double", "float": "float", "bool": "i8",
        **{f"{sign}{bits}_t": f"i{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)}}


def plain(made: Interface) -> list[Parameter]:
    """The parameters of the export's arguments themselves."""
    return [Parameter("pointer" if p.llvm == "ptr" else p.c, (i,))
            for i, p in enumerate(p for p in made.parts()[:-1])]


def wrapper(name: str, made: Interface, result: Scalar, given: Sequence[Parameter], triple: str, layout: str) -> str:
    """LLVM IR of the function ``name``, which returns the only result of the export."""
    writer, code = Writer(triple, layout), Assembly()
    parts = made.parts()
    kind = types.memory(result)
    args = [""] * (len(parts) - 1)
    for i, p in enumerate(given):
        for k in p.parts:
            wide = LLVM[p.c] != parts[k].llvm
            args[k] = code.op(f"sext {LLVM[p.c]} %a{i} to {parts[k].llvm}") if wide else f"%a{i}"
    callee = writer.declare(made.name, "i32", ", ".join(p.llvm for p in parts))
    out = code.alloca(kind)
    values = ", ".join(f"{p.llvm} {x}" for p, x in zip(parts, [*args, out]))
    status = code.op(f"call i32 {callee}({values})")
    good, bad = code.label("good"), code.label("bad")
    code.branch(code.op(f"icmp eq i32 {status}, 0"), good, bad)
    code.start(good)
    code.end(f"ret {kind} {code.op(f'load {kind}, ptr {out}')}")
    code.start(bad)
    code.end(f"ret {kind} {types.literal(math.nan, result) if result.is_float else 0}")
    head = f"define {kind} {global_name(name)}({', '.join(f'{LLVM[p.c]} %a{i}' for i, p in enumerate(given))})"
    writer.function(name, f"{head} nounwind {{\n{code.text()}\n}}\n")
    return writer.text()


@uninterrupted
def load(library: Library, name: str) -> int:
    """The address of a function of the library, which is loaded into this process for good."""
    image = library.object()
    if library.uses_blas() and (path := blas.library()) is not None:
        llvm.load_library_permanently(path)
    if library.uses_libmvec():
        llvm.load_library_permanently(libmvec.LIBRARY)
    builder = llvm.JITLibraryBuilder().add_object_img(image).add_current_process().export_symbol(name)
    with cpu.lock:
        try:
            code = immortal(builder.link(cpu.linker(), f"jitad.aot{next(_numbers)}"))
        except RuntimeError as e:
            raise CompileError(f"LLVM cannot link the compiled code: {e}") from None
    found: int = code[name]
    return found
