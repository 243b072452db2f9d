"""Compiles a Python function for one signature: trace, pipeline, machine code, entry points.

``compile_function`` is the whole pipeline of ``docs/internals/overview.md``; each stage can be printed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import pipeline
from .calling.compiled import BODY, Compiled, Portable, Program, Prototype, Shape
from .calling.signature import Signature
from .errors import UnsupportedError
from .frontend.captured.leaves import Leaf, Opened
from .frontend.captured.options import Options
from .frontend.captured.places import Place
from .frontend.columns.gc_pause import no_collection
from .frontend.trace import trace_program
from .frontend.values.lattice import UNBOUND
from .ir.graph import Module
from .ir.text import print_module
from .ir.types import Array
from .lowering.function.module import ModuleLowering
from .lowering.jit import cpu, nvptx
from .lowering.llvm import capi, float_state
from .lowering.llvm.emit import global_name, symbol
from .lowering.math.options import Options as LoweringOptions
from .lowering.planning import run_length
from .lowering.python import entry_point
from .lowering.python.entry import Entry
from .lowering.python.exceptions import Failures
from .passes.shapes.size_versions import suggest
from .separate import extract, units

IR_STAGES = ("ir", "cps", "adjoint", "optimized")
COMPILED_STAGES = (*IR_STAGES, "llvm", "asm")
STAGES = (*COMPILED_STAGES, "loops", "mlir", "ptx", "parallel")


def lowering_options(options: Options, flush: bool) -> LoweringOptions:
    return LoweringOptions(fastmath=options.fastmath, flush=flush, level=llvm_level(), strips=options.strips,
                           restart=not options.strips)


def llvm_level() -> int:
    """LLVM's level, which ``JITAD_OPT`` sets.

    The default is 1; level 0 compiles in a third of the time, level 3 runs all of LLVM's optimisations.
    """
    level = os.environ.get("JITAD_OPT", "1")
    if level not in ("0", "1", "3"):
        raise ValueError(f"JITAD_OPT={level}: the levels are 0, 1 and 3")
    return int(level)


# --- the whole pipeline ---------------------------------------------------------------------------

def traced(fun: Callable[..., Any], signature: Signature, options: Options, leaves: Sequence[Any] = (),
           widened: frozenset[Place] = frozenset()) -> trace_program.Traced:
    """The IR of ``fun`` for arguments with these leaves; ``widened``: see ``captured.captures.Captures``."""
    args, kwargs = signature.specs()
    objects = [x if isinstance(leaf, Opened) else None for x, leaf in zip(leaves, signature.leaves)]
    program = trace_program.trace(fun, args, kwargs, options=options, leaves=objects, widened=widened)
    target = cpu.target()
    program.module.fast_gathers, program.module.fast_roots = target.fast_gathers, target.fast_roots
    return program


def compile_function(fun: Callable[..., Any], signature: Signature, shape: Shape, names: Sequence[str],
                     options: Options, leaves: Sequence[Any], widened: frozenset[Place],
                     written: Callable[..., Any] | None = None, portable: bool = False) -> Compiled:
    """Machine code for ``fun`` at this signature, with an entry point for calls of this shape.

    ``written``: the user's function, of which ``fun`` may be a derivative.  ``portable``: what other processes need is
    kept too (``Compiled.portable``).
    """
    clock = _Clock()
    with no_collection():
        program = traced(fun, signature, options, leaves, widened)
        _refuse_arrays_elsewhere(program)
        _suggest_sizes(program, signature, leaves)
        clock("trace")
        observe = dumper()
        parts = _taken_out(program, options, written)
        pipeline.run(program.module, [program.root], observe)
        clock("passes")
        compiled = _prepare(program, signature, options)
        if parts:
            _link(compiled, program.module, parts, options)
            clock("linked functions")
        _lower(compiled, program.module, program.root, shape, names, portable)
        clock("machine code")
    compiled.seconds = clock.seconds
    return compiled


def _taken_out(program: trace_program.Traced, options: Options, written: Any) -> dict[str, extract.Part]:
    """The functions that are compiled separately, which are external in the module from now on."""
    if options.parallel or options.checkpoint is not None or pipeline.SEPARATE in pipeline.left_out():
        return {}
    return extract.extract(program.module, [program.root], program.shared, written)


def _link(compiled: Compiled, module: Module, parts: dict[str, extract.Part], options: Options) -> None:
    """Compile the functions that were taken out, and declare in the module what it calls of them."""
    operands = units.link(module, parts, lowering_options(options, compiled.flush))
    compiled.failures = Failures(module)
    compiled.failures.operands |= operands
    compiled.linked = [part.owner.__qualname__ for part in parts.values()]


def _refuse_arrays_elsewhere(program: trace_program.Traced) -> None:
    """Raises an error if a captured array is in the memory of a device."""
    for place, leaf, value in zip(program.captured, program.captured_leaves, program.consts):
        if isinstance(leaf.type, Array) and not isinstance(value, np.ndarray):
            raise UnsupportedError(f"{place} is an array on a device, which code for the CPU cannot read",
                                   program.module.functions[program.root].loc, "pass x.numpy(), or jit(target='cuda')")


def _suggest_sizes(program: trace_program.Traced, signature: Signature, leaves: Sequence[Any]) -> None:
    """Note the small sizes of the arguments, as likely ones, on the root."""
    given = [x for x, leaf in zip(leaves, signature.leaves) if isinstance(leaf, Leaf)]
    suggest(program.module.functions[program.root], [*given, *program.consts])


def _prepare(program: trace_program.Traced, signature: Signature, options: Options) -> Compiled:
    module, root = program.module, program.root
    function, flush = module.functions[root], flushes(options, module, root)
    return Compiled(signature, Prototype(function.name, function.param_types, function.result_types),
                    program.out_structure, fixed_leaves(program),
                    Program(program.captured, program.captured_leaves, program.guards, program.leaves),
                    run_length.effort(module, root), flush, run_length.recursive(module, root), Failures(module),
                    lowering_options(options, flush))


def flushes(options: Options, module: Module, root: str) -> bool:
    """True if subnormal numbers are taken for zero.

    ``fastmath`` allows it where the processor can.  The change of its state takes 5 to 8 ns, so brief calls go without.
    """
    possible = float_state.can_flush(cpu.target().triple)
    if options.flush_subnormals and not possible:
        raise UnsupportedError("jit(flush_subnormals=True): this processor cannot take subnormal numbers for zero")
    if options.flush_subnormals is None:
        return possible and options.fastmath and not run_length.is_brief(module, root)
    return options.flush_subnormals


def fixed_leaves(program: trace_program.Traced) -> dict[int, Any]:
    """The leaves of the result that are Python objects known at compile time, by position."""
    return {i: value for i, value in enumerate(program.out_static) if value is not UNBOUND}


def _lower(compiled: Compiled, module: Module, root: str, shape: Shape, names: Sequence[str], portable: bool = False
           ) -> cpu.Native:
    with capi.recording() as objects:
        shaped, flat = _entries(compiled, shape, names, portable)
        entries = [entry for entry in (shaped, flat) if entry is not None]

        def extend(lowering: ModuleLowering) -> list[str]:
            return [*(entry_point.write(lowering.writer, entry) for entry in entries), _alias(lowering, root)]

        compiled.native = native = cpu.compile_module(module, [root], compiled.options, extend, portable)
    for entry in entries:
        entry.code = native.address(entry.name)
    if flat is not None:
        compiled.set_call(flat)
    if portable:
        compiled.portable = Portable(native.unit, objects, entries, native.names)
    for stage in ("llvm", "asm"):
        if stage in _dumped():
            _dump(stage, getattr(native, stage))
    return native


def _entries(compiled: Compiled, shape: Shape, names: Sequence[str], portable: bool
             ) -> tuple[Entry | None, Entry | None]:
    """The entry point for calls of this shape, or a flat one if that serves them too or they cannot have their own.

    Code for other processes has both, since they should not have to compile the second.
    """
    if not compiled.enterable() or compiled.is_flat(shape):
        entry = compiled.flat_entry("jitad.entry")
        if compiled.is_flat(shape):
            compiled.entries[shape] = entry
        return None, entry
    entry = compiled.entries[shape] = compiled.entry("jitad.entry", shape, names)
    return entry, compiled.flat_entry("jitad.flat") if portable else None


def _alias(lowering: ModuleLowering, root: str) -> str:
    """The name under which the code of ``root`` is found, which is added to the module."""
    lowering.writer.global_(BODY, f"alias i8, ptr {global_name(symbol(root))}")
    return BODY


# --- inspection -----------------------------------------------------------------------------------

def stage_module(fun: Callable[..., Any], signature: Signature, options: Options, stage: str,
                 leaves: Sequence[Any] = ()) -> Module:
    """The IR of one stage for this signature."""
    if stage not in IR_STAGES:
        raise ValueError(f"{stage!r} is no stage of the IR: these are {', '.join(IR_STAGES)}")
    program = traced(fun, signature, options, leaves)
    if stage != "ir":
        pipeline.run(program.module, [program.root], stop=stage, gpu=options.target != "cpu")
    return program.module


def stage_text(fun: Callable[..., Any], signature: Signature, options: Options, stage: str,
               leaves: Sequence[Any] = (), arch: str = nvptx.ARCH) -> str:
    """The text of one stage for this signature; compiles again up to that stage.  ``arch``: the GPU's, for PTX."""
    if stage not in STAGES:
        raise ValueError(f"no stage {stage!r}: there are {', '.join(STAGES)}, and for jit(target='cuda') plan and sass")
    if stage in IR_STAGES:
        return print_module(stage_module(fun, signature, options, stage, leaves))
    program = traced(fun, signature, options, leaves)
    if stage not in ("llvm", "asm"):
        return module_text(program.module, program.root, stage, arch, options.target != "cpu")
    pipeline.run(program.module, [program.root])
    compiled = _prepare(program, signature, options)
    args, kwargs = signature.structure.children
    shape = Shape(len(args.children), tuple(kwargs.static))
    native = _lower(compiled, program.module, program.root, shape, ())
    return native.llvm if stage == "llvm" else native.asm


def module_text(module: Module, root: str, stage: str, arch: str = nvptx.ARCH, gpu: bool = False) -> str:
    """The text of one stage of a traced module, or of one that was read from text; ``root`` is called from outside."""
    if stage != "ir":
        pipeline.run(module, [root], stop=stage if stage in IR_STAGES else None, gpu=gpu)
    if stage in IR_STAGES:
        return print_module(module)
    if stage == "parallel":
        return "\n".join(f"{loc.file}:{loc.line}: {note}" for loc, note in module.notes)
    if stage == "loops":
        from .loop_level import build, text  # not at the head: no compilation needs them
        return text.print_module(build.to_loops(module))
    if stage == "mlir":
        from .loop_level import build
        from .mlir.text import print_mlir
        return print_mlir(build.to_loops(module))
    if stage == "ptx":
        return nvptx.to_ptx(module, [root], arch)
    native = cpu.compile_module(module, [root], lowering_options(Options(fastmath=module.fastmath), False),
                                lambda lowering: [_alias(lowering, root)])
    return native.llvm if stage == "llvm" else native.asm


def _dumped() -> Sequence[str]:
    names = [name.strip() for name in os.environ.get("JITAD_DUMP", "").split(",") if name.strip()]
    for name in names:
        if name not in COMPILED_STAGES:
            raise ValueError(f"JITAD_DUMP: no stage {name!r}: there are {', '.join(COMPILED_STAGES)}")
    return names


def _dump(stage: str, text: str) -> None:
    print(f"; ---- {stage}\n{text}", file=sys.stderr)


Observer = Callable[[str, Module], None]
_observers: list[Observer] = []


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """A context in which ``observer(stage, module)`` sees each stage of the IR of what is compiled."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def dumper() -> Observer | None:
    """A callback for observers, and for the stages named in ``JITAD_DUMP``; None if there are none of the IR."""
    wanted = _dumped()
    if not _observers and not set(wanted) & set(IR_STAGES):
        return None

    def show(stage: str, module: Module) -> None:
        for observer in _observers:
            observer(stage, module)
        if stage in wanted:
            _dump(stage, print_module(module))
    return show


class _Clock:
    """A stop watch: seconds between calls, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now


