"""Compiles a module to PTX, the assembly language of NVIDIA's GPUs, through LLVM's NVPTX target.

Mathematical functions come from libdevice, an LLVM bitcode library that is linked in, stripped of unused functions and
inlined.
Functions are device functions here; ``extend`` adds kernels that call them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm

from ...compiler_threads import uninterrupted
from ...errors import CompileError, DeviceError
from ...ir.graph import Module
from ..function.module import ModuleLowering
from ..llvm.emit import symbol
from ..llvm.target import Target
from ..math.options import Options
from .cpu import Extend
from .cuda_toolkit import libdevice

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

ARCH = "sm_80"
"""The architecture for which PTX is shown unless another one is asked for."""

OLDEST = 60
"""The first architecture with atomic additions of f64."""


@cache
def _machine(arch: str) -> llvm.TargetMachine:
    number = arch.removeprefix("sm_").rstrip("af")
    if not (arch.startswith("sm_") and number.isdigit() and OLDEST <= int(number) < 1000):
        raise ValueError(f"arch={arch!r}: there is no such GPU; write one such as 'sm_90'")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=arch, opt=3)


def to_ptx(module: Module, roots: Sequence[str], arch: str = ARCH, options: Options | None = None,
           extend: Extend | None = None) -> str:
    """PTX of the functions that ``roots`` reach; ``extend`` as in ``cpu.compile_module``."""
    options = options or Options()
    lowering = ModuleLowering(module, roots, Target(TRIPLE, LAYOUT, arch), options)
    lowering.lower()
    names = extend(lowering) if extend else []
    return assembly(lowering.writer.text(), arch, names or [symbol(r) for r in roots])


@uninterrupted
def assembly(source: str, arch: str, keep: Sequence[str]) -> str:
    """Link libdevice into LLVM IR, keep the functions in ``keep`` external, optimise, and print PTX."""
    try:
        unit = llvm.parse_assembly(source)
        unit.verify()
    except RuntimeError as e:
        raise CompileError(f"LLVM refuses the generated code: {e}") from None
    if "@__nv_" in source:
        _link_libdevice(unit)
    for function in unit.functions:
        if not function.is_declaration:
            outside = function.name in keep
            function.linkage = "external" if outside else "internal"
            function.name = ptx_name(function.name) if outside or not function.name.isascii() else function.name
    machine = _machine(arch)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(unit, passes)
    return str(machine.emit_assembly(unit))


def ptx_name(name: str) -> str:
    """The name of a function in PTX: ASCII without dots, since LLVM aborts the process at other names."""
    return re.sub(r"\W", lambda c: "_" if c[0].isascii() else f"u{ord(c[0]):x}", name, flags=re.ASCII)


def _link_libdevice(unit: llvm.ModuleRef) -> None:
    path = libdevice()
    if path is None:
        raise DeviceError("libdevice, NVIDIA's library of mathematical functions, is not there",
                          hint="pip install nvidia-nvvm, or set CUDA_HOME")
    library = llvm.parse_bitcode(path.read_bytes())
    library.triple, library.data_layout = unit.triple, unit.data_layout
    unit.link_in(library)
