"""Compiles programs to one self-contained LLVM module, from which an object file is emitted.

Each program is lowered and optimised by itself, as the JIT does it, so that the code is the JIT's.  The modules are
then linked with the routines that the JIT shares between modules, and everything but the exports becomes internal: two
libraries may be part of one program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

from ...compiler_threads import uninterrupted
from ...ir.graph import Module
from ...ir.types import Type
from ...kernels import blas
from ..function.function import FunctionLowering
from ..function.module import ModuleLowering
from ..jit import cpu
from ..llvm.emit import Writer
from ..math import libmvec
from ..math.options import Options
from ..matmul import gemm, transpose
from ..memory import alloc_runtime, arena_runtime
from ..python.exceptions import Failures
from . import dispatch, entry, failures, runtime
from .failures import Messages
from .interface import Interface
from .platforms import Platform

PANEL = 32 << 10            # bytes of the stack that a product of matrices takes
_AS_WRITTEN = Options(written_out=True)
# Routines that the JIT shares between modules: their names, and what writes one of them into a module.
_SHARED: list[tuple[Iterable[str], Callable[[Writer, Any, str], None], Options]] = [
    (alloc_runtime.ROUTINES, lambda writer, target, name: alloc_runtime.define(writer), _AS_WRITTEN),
    (arena_runtime.ROUTINES, lambda writer, target, name: arena_runtime.define(writer), Options(level=0)),
    (gemm.ROUTINES, gemm.define, _AS_WRITTEN), (transpose.ROUTINES, transpose.define, _AS_WRITTEN)]


@dataclass
class Program:
    """A traced function after the pipeline, and the C function that runs it.

    ``captured``: the types and values of the parameters of ``root`` that follow the arguments.
    """

    module: Module
    root: str
    interface: Interface
    captured: Sequence[tuple[Type, Any]]
    options: Options


class Library:
    """The compiled programs of one library for one platform."""

    def __init__(self, variants: Sequence[Platform], programs: Sequence[Program], errors: Sequence[str],
                 wrappers: Mapping[str, str] | None = None) -> None:
        """``variants``: the platform, or several that differ in the processor, with the oldest first.

        ``errors``: the names of the function that describes error codes.  ``wrappers``: LLVM IR of further functions,
        by their names, which call the exports.
        """
        self.variants, self.platform, self.programs, self.wrappers = variants, variants[0], programs, wrappers or {}
        self.messages = Messages()
        self._level = max(cpu.codegen(p.options) for p in programs)
        self._size = 0
        with cpu.lock:
            self.unit = self._linked(errors)

    # --- emission -----------------------------------------------------------------------------------

    @uninterrupted
    def object(self) -> bytes:
        """The object file."""
        with cpu.lock, cpu.generating(self._size):
            image: bytes = self.platform.machine(self._level).emit_object(self.unit)
        return image

    @uninterrupted
    def assembly(self) -> str:
        with cpu.lock, cpu.generating(self._size):
            return str(self.platform.machine(self._level).emit_assembly(self.unit))

    @uninterrupted
    def llvm_ir(self) -> str:
        """The optimised LLVM IR."""
        return str(self.unit)

    def uses_blas(self) -> bool:
        return self._calls(blas.PREFIX)

    def uses_libmvec(self) -> bool:
        return self._calls(libmvec.SYMBOLS)

    def _calls(self, prefix: str) -> bool:
        """True if code calls an external function whose name begins with ``prefix``."""
        return f" @{prefix}" in "\n".join(line for line in self.llvm_ir().split("\n") if " call " in line)

    # --- the module -----------------------------------------------------------------------------------

    def _linked(self, errors: Sequence[str]) -> llvm.ModuleRef:
        codes = [_Code(platform, self.programs, len(self.variants) > 1) for platform in self.variants]
        self.messages = codes[0].messages
        self._size = sum(code.size for code in codes)
        runtimes = _Units(self.platform)
        writer = runtimes.writer()
        runtime.define(writer, self.platform.system)
        size = "i32" if runtimes.target.triple.startswith("wasm32") else "i64"
        failures.define(writer, self.messages, errors, size)
        if len(codes) > 1:
            dispatch.define(writer, [p.interface for p in self.programs], self.variants)
        whole = self._whole(runtimes, writer, codes, {p.interface.name for p in self.programs}.union(errors))
        self._size += runtimes.size
        return whole

    @uninterrupted
    def _whole(self, runtimes: _Units, writer: Writer, codes: Sequence[_Code], exports: set[str]) -> llvm.ModuleRef:
        whole = runtimes.optimised(writer, _AS_WRITTEN)
        for unit in [*(code.unit for code in codes), *(cpu.parsed(text) for text in self.wrappers.values())]:
            whole.link_in(unit)
        _internalise(whole, self.platform, exports.union(self.wrappers))
        return whole


class _Units:
    """Writes and optimises LLVM modules for one platform; ``size`` counts their characters."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.target, self.size = platform, platform.target(), 0

    def writer(self) -> Writer:
        return Writer(self.target.triple, self.target.layout)

    def optimised(self, writer: Writer, options: Options) -> llvm.ModuleRef:
        source = self._text(writer.text())
        finished = [self._text(text) for text in (writer.finished_text(), writer.straight_text()) if text]
        self.size += len(source) + sum(map(len, finished))
        unit = cpu.optimise(source, options, self.platform.machine(cpu.codegen(options)))
        for text in finished:
            unit.link_in(cpu.as_written(text, options))
        return unit

    def _text(self, text: str) -> str:
        """LLVM IR for the platform: WebAssembly has the calling convention of C only."""
        return text.replace("preserve_mostcc ", "") if self.target.triple.startswith("wasm") else text


class _Code(_Units):
    """The code of all programs for one processor: ``unit``, in which all but the C functions is internal.

    ``several``: the library holds code for other processors too; the C functions have names of their own.
    """

    def __init__(self, platform: Platform, programs: Sequence[Program], several: bool) -> None:
        super().__init__(platform)
        self.several, self.messages = several, Messages()
        writers = [(self._program(program), program.options) for program in programs]
        self.unit = self._unit(writers, {self._symbol(p.interface) for p in programs})

    @uninterrupted
    def _unit(self, writers: Sequence[tuple[Writer, Options]], exports: set[str]) -> llvm.ModuleRef:
        units = [self.optimised(writer, options) for writer, options in writers]
        units += self._shared({name for writer, _ in writers for name in _declared(writer)})
        for unit in units[1:]:
            units[0].link_in(unit)
        _internalise(units[0], self.platform, exports)
        return dispatch.for_processor(units[0], self.platform) if self.several else units[0]

    def _symbol(self, made: Interface) -> str:
        return dispatch.symbol(made.name, self.platform) if self.several else made.name

    def _program(self, program: Program) -> Writer:
        """The LLVM module of one program, with its C function."""
        lowering = ModuleLowering(program.module, [program.root], self.target, program.options)
        frames = 0
        for func in lowering.functions.values():
            code = FunctionLowering(lowering, func)
            code.lower()
            frames += code.frame
        if any(name in gemm.ROUTINES for name in _declared(lowering.writer)):
            frames += PANEL
        module, writer = program.module, lowering.writer
        exceptions = [*module.exceptions, *module.shortages]
        base = self.messages.program(program.interface.name, exceptions, Failures(module).operands)
        given = [x for i, (t, value) in enumerate(program.captured) for x in entry.captured(writer, i, t, value)]
        function = module.functions[program.root]
        body = entry.Body(function, given, program.options.flush, base, frames)
        entry.write(writer, program.interface, body, self.messages, self._symbol(program.interface))
        return writer

    def _shared(self, wanted: set[str]) -> list[llvm.ModuleRef]:
        """The routines of these names, and those that they call."""
        units = []
        for names, define, options in _SHARED:
            for name in sorted(wanted.intersection(names)):
                writer = self.writer()
                define(writer, self.target, name)
                wanted |= {*_declared(writer)} - {n for n in names if writer.defines(n)}
                units.append(self.optimised(writer, options))
                if all(map(writer.defines, names)):          # it writes all of them at once
                    break
        return units


def _internalise(unit: llvm.ModuleRef, platform: Platform, exports: set[str]) -> None:
    """Make everything but the exports internal, and drop what nothing uses."""
    for value in [*unit.functions, *unit.global_variables]:
        if not value.is_declaration and value.name not in exports and not value.name.startswith("llvm."):
            value.linkage = "internal"
    passes = llvm.create_pass_builder(platform.machine(2), llvm.create_pipeline_tuning_options(speed_level=0))
    manager = llvm.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.add_strip_dead_prototype_pass()
    manager.run(unit, passes)


def _declared(writer: Writer) -> list[str]:
    """The routines that a module calls without defining them."""
    outside = writer.text().partition("\n\n")[0]
    return [name for names, _, _ in _SHARED for name in names if f"@{name}(" in outside]
