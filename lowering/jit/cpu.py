"""Compiles a module to native code of this machine, through LLVM's ORC JIT.

The pipeline is LLVM's for ``-O1`` with loop vectorisation and without SLP and interleaving.  Loop-invariant code
motion and similar passes run on our own IR, so this is as fast as ``-O3`` for a quarter of its time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, cached_property, partial
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from ...compiler_threads import uninterrupted
from ...errors import CompileError
from ...ir.graph import Module
from ...kernels import blas
from ...locks import machine_code
from ..function.module import ModuleLowering
from ..llvm.capi import immortal, resolve, symbols
from ..llvm.emit import Writer
from ..llvm.processor import Processor, chosen
from ..llvm.target import Target
from ..math import libmvec, own
from ..math.options import Options
from ..matmul import gemm, transpose
from ..memory import alloc_runtime, arena_runtime, context_runtime, result_buffers
from ..threads import thread_pool
from .image import Unit
from .object_cache import stored

# Vectorise a loop with an ordered sum: terms are computed as vectors and added one by one.  LLVM does so by default
# on other processors.
ORDERED_SUMS = "force-ordered-reductions"
# Loops of at least this many lanes get a vectorised epilogue.  LLVM's default is 16.  The epilogue saves a fifth of
# the time of short loops, and costs a fifth of the compile time.
VECTORS_FOR_THE_REST = "epilogue-vectorization-minimum-VF"
# The two sides of a branch stay apart.  If LLVM moves what they have in common behind the branch, a selection of the
# operands stands before it, where the branch is predicted, or where both sides could be computed at once: an envelope
# follower takes 114 µs with and 69 without, a step of five bodies 266 and 128.  Afterwards it is on for other users of
# LLVM in the process.
SINKING = "sink-common-insts"
# A loop with branches may be unrolled although a failed check leaves it too, if it has one such exit.  By default LLVM
# takes an exit beside the latch for one that data decide.  Jacobi's iteration on a sparse matrix takes 0.6 of the time.
RARE_EXITS = "unroll-runtime-other-exit-predictable"
# Elements of a column are gathered.  By default LLVM makes vectors only for the case that the stride, which is known at
# run time, is 1: the best split of a sequence, over a row and a column, took 1.6 times as long, a classifier 1.6 times.
UNIT_STRIDES = "enable-mem-access-versioning"
# Strength reduction takes a third of the time of code generation, and made no measured program faster.
NO_STRENGTH_REDUCTION = "disable-lsr"
# Innermost loops begin at a multiple of 2 ** 6 bytes, which x86 processors decode at once.  LLVM's default is 16 bytes:
# the same loop then takes up to half as long again where it begins in the middle of such a line.
LOOP_ALIGNMENT = "x86-experimental-pref-innermost-loop-alignment"
ALIGNED_TO = 6
# A selection stays one.  LLVM makes a branch of it if iterations wait for it (of integers, on x86), or if it compares
# what has been loaded.  Data mispredict half of such branches: where one is predicted, as that of a rare update, our
# passes have made it.  An alignment with gaps took 2.6 times as long, a heap 2.2 times; of 160 programs none lost.
CONVERTED_SELECTIONS = "x86-cmov-converter"
NO_BRANCHES_ON_LOADS = "disable-cgp-select2branch"
# Its time is quadratic in a block's length: half of the total in large modules, for which it is disabled.
NO_LATE_SCHEDULING = "disable-post-ra"
LARGE = 300_000             # characters of LLVM IR
# Characters of finished functions with loops, above which they are generated as those without.  This takes a third of
# LLVM's time, and the code runs in 1.2 to 1.6 of the other's: 1,000 loops in a row are above, 300 are below.
HASTY = 2_500_000
# Number of independent stores that are considered together; the time is quadratic.  LLVM's default is 2048.
STORES_AT_ONCE = "combiner-tokenfactor-inline-limit=64"

FULL = 3                    # the level of all of LLVM's optimisations

Extend = Callable[[ModuleLowering], list[str]]

lock = machine_code
_numbers = itertools.count()
# Machine code without users.  It is released when more code is made, not when its object is collected: that may happen
# in any thread, and if the process forked at that moment, LLVM's lock would stay locked in the child for ever.
_unused: list[llvm.orcjit.ResourceTracker] = []


@cache
@uninterrupted
def target() -> Target:
    """This machine, with the processor that ``JITAD_CPU`` names when code is first compiled."""
    machine = _machine(2)
    return Target(machine.triple, str(machine.target_data), _processor().name, _processor().features)


@cache
def _processor() -> Processor:
    return chosen()


@cache
def _machine(codegen: int) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.set_option("jitad", f"-{STORES_AT_ONCE}")
    host = llvm.Target.from_default_triple()
    return host.create_target_machine(cpu=_processor().name, features=_processor().features, opt=codegen, reloc="pic",
                                      codemodel="small", jit=True)


@contextmanager
def _set(option: str, value: object, before: object) -> Iterator[None]:
    """Set one of LLVM's options, which are global to the process, within the context."""
    llvm.set_option("jitad", f"-{option}={value}")
    try:
        yield
    finally:
        llvm.set_option("jitad", f"-{option}={before}")


def _switched_on(option: str) -> AbstractContextManager[None]:
    return _set(option, "true", "false")


@cache
def linker() -> llvm.orcjit.LLJIT:
    """The JIT into which all machine code is linked."""
    return immortal(llvm.create_lljit_compiler(_machine(2), use_jit_link=True))


class Native:
    """Machine code in memory, which lives as long as this object.

    ``finished`` is LLVM IR that belongs to ``source`` and needs no passes, and so is ``straight``, which has no loops.
    ``times`` are seconds by phase.  With ``keep`` the code is stored on disk too, which requires symbols that mean the
    same in all processes.  With ``portable`` the object files are kept, for ``unit``.  ``outside`` has for each symbol
    of other modules the code that defines it, which is kept alive.  ``across``: the functions of ``source`` that the
    other modules call, and those of ``straight``.  ``kernels``: those of ``outside`` that ``asm`` shows.
    """

    def __init__(self, source: str, options: Options, names: Sequence[str], times: dict[str, float],
                 finished: str = "", straight: str = "", keep: bool = False,
                 outside: Mapping[str, Native] | None = None, portable: bool = False,
                 across: tuple[Sequence[str], Sequence[str]] = ((), ()), kernels: Sequence[str] = ()) -> None:
        self.across, self.kernels = across, [outside[name] for name in kernels] if outside else []
        self.source, self.options, self.names, self.times = source, options, list(names), times
        self.finished, self.straight, self.keep, self.outside = finished, straight, keep, dict(outside or {})
        self.portable, self.object_files = portable, list[bytes]()
        self.calls: dict[str, Native] = {}           # shared routines
        self._code = self._linked()

    @uninterrupted
    def _linked(self) -> llvm.orcjit.ResourceTracker:
        with lock:
            _unused.clear()
            return self._link()

    def __del__(self, unused: list[llvm.orcjit.ResourceTracker] = _unused) -> None:      # globals may be gone
        if hasattr(self, "_code"):                       # linking may have failed
            unused.append(self._code)

    def _link(self) -> llvm.orcjit.ResourceTracker:
        images = [stored(self._origin(), self._image) if self.keep else self._image()]
        if self.straight:
            images.append(self._straight_image())
        if self.portable:
            self.object_files = images
        emitted = time.perf_counter()
        for name, library in ((blas.PREFIX, blas.library), (libmvec.SYMBOLS, _libmvec)):
            if name in self.source and (path := library()) is not None:
                llvm.load_library_permanently(path)
        builder = llvm.JITLibraryBuilder().add_current_process()
        for image in images:
            builder.add_object_img(image)
        for name in self.names:
            builder.export_symbol(name)
        for name, other in self.outside.items():
            builder.import_symbol(name, other.address(name))
        outside = self.source.partition("\n\n")[0]             # the module's declarations
        for name in symbols(outside):
            builder.import_symbol(name, resolve(name))
        for routines, home in _SHARED:
            for name in routines:
                if f"@{name}(" in outside and name not in self.names:
                    self.calls[name] = home(name)
                    builder.import_symbol(name, self.calls[name].address(name))
        try:
            tracker = builder.link(linker(), f"jitad{next(_numbers)}")
        except RuntimeError as e:
            raise CompileError(f"LLVM cannot link the compiled code: {e}") from None
        self.times["link"] = time.perf_counter() - emitted
        return tracker

    def _image(self) -> bytes:
        """The object file."""
        start = time.perf_counter()
        unit = self._unit()
        optimised = time.perf_counter()
        with generating(len(self.source) + len(self.finished)):
            image: bytes = _machine(codegen(self.options)).emit_object(unit)
        self.times |= {"llvm": optimised - start, "codegen": time.perf_counter() - optimised}
        return image

    def _straight_image(self) -> bytes:
        """The object file of the code without loops."""
        start = time.perf_counter()
        image: bytes = _machine(straight_level(self.options)).emit_object(as_written(self.straight, self.options))
        self.times["codegen"] += time.perf_counter() - start
        return image

    def _origin(self) -> str:
        """Everything that determines the object file."""
        compiler = (llvmlite.__version__, llvm.llvm_version_info, STORES_AT_ONCE, NO_STRENGTH_REDUCTION,
                    CONVERTED_SELECTIONS, UNIT_STRIDES, ALIGNED_TO)
        return "\n".join(map(str, (compiler, target(), self.options, self.finished, self.source)))

    @cached_property
    def unit(self) -> Unit:
        """The object files, with those of the routines that they call, to be linked for other processes."""
        assert self.portable, "the object files have not been kept"
        imports = {name: home.unit for name, home in (self.calls | self.outside).items()}
        main, *others = (Unit(data, dict(imports)) for data in self.object_files)
        for other in others:                                   # the two call one another
            main.imports.update(dict.fromkeys(self.across[1], other))
            other.imports.update(dict.fromkeys(self.across[0], main))
        return main

    def address(self, name: str) -> int:
        """The address of one of the external functions."""
        found: int = self._code[name]
        return found

    @property
    @uninterrupted
    def llvm(self) -> str:
        """The optimised LLVM IR.  It is made again at each access, as it is rarely needed."""
        with lock:
            unit = self._unit()
            if self.straight:
                unit.link_in(as_written(self.straight, self.options))
            return str(unit)

    @property
    @uninterrupted
    def asm(self) -> str:
        """The machine code as assembly, with that of the products of matrices that it calls."""
        with lock:
            unit = self._unit()
            with generating(len(self.source) + len(self.finished)):
                parts = [str(_machine(codegen(self.options)).emit_assembly(unit))]
            if self.straight:
                straight = as_written(self.straight, self.options)
                parts.append(str(_machine(straight_level(self.options)).emit_assembly(straight)))
        return "".join([*parts, *(kernel.asm for kernel in self.kernels)])

    def _unit(self) -> Any:
        """The optimised LLVM module from which code is generated."""
        unit = optimise(self.source, self.options)
        if self.finished:
            unit.link_in(as_written(self.finished, self.options))
        return unit


@contextmanager
def generating(size: int) -> Iterator[None]:
    """LLVM's options for generating machine code from ``size`` characters of LLVM IR, set within the context."""
    scheduling = _switched_on(NO_LATE_SCHEDULING) if size > LARGE else nullcontext()
    x86 = llvm.get_default_triple().startswith("x86_64")                             # others do not have the option
    alignment = _set(LOOP_ALIGNMENT, ALIGNED_TO, 0) if x86 else nullcontext()
    selections = _set(CONVERTED_SELECTIONS, "false", "true") if x86 else nullcontext()
    with (_switched_on(NO_STRENGTH_REDUCTION), _switched_on(NO_BRANCHES_ON_LOADS), _set(SINKING, "false", "true"),
          scheduling, alignment, selections):
        yield


def _routines(module: Any, options: Options, keep: bool = False) -> Callable[[str], Native]:
    """The routines of ``module.ROUTINES``, which all modules share, compiled together when one is first needed."""
    @cache
    def home() -> Native:
        writer = Writer(target().triple, target().layout)
        module.define(writer)
        return immortal(Native(writer.text(), options, list(module.ROUTINES), {}, keep=keep, portable=True))
    return lambda name: home()


@cache
def _written(module: Any, name: str) -> Native:
    """One of the routines of ``module.ROUTINES``, compiled without passes when it is first needed."""
    writer = Writer(target().triple, target().layout)
    module.define(writer, target(), name)
    return immortal(Native(writer.text(), Options(written_out=True), [name], {}, keep=True, portable=True))


@cache
def _routine(name: str, source: str, options: Options) -> Native:
    """A routine that depends on the program's options alone."""
    return immortal(Native(source, options, [name], {}, keep=True, portable=True))


_RARE = Options(level=0)                                        # rarely run: optimisation would gain nothing
_SHARED: list[tuple[Iterable[str], Callable[[str], Native]]] = [
    (alloc_runtime.ROUTINES, _routines(alloc_runtime, Options(written_out=True), keep=True)),
    (arena_runtime.ROUTINES, _routines(arena_runtime, _RARE, keep=True)),
    (context_runtime.ROUTINES, _routines(context_runtime, _RARE)),
    (result_buffers.ROUTINES, _routines(result_buffers, _RARE)), (thread_pool.ROUTINES, _routines(thread_pool, _RARE)),
    *((module.ROUTINES, partial(_written, module)) for module in (gemm, transpose))]


def _libmvec() -> str | None:
    return libmvec.LIBRARY if libmvec.library() is not None else None


def codegen(options: Options) -> int:
    """LLVM's level of code generation."""
    return {0: 0, 1: 2, 3: 3}[options.level]


def straight_level(options: Options) -> int:
    """LLVM's level of code generation for long code without loops."""
    return 0 if options.level < FULL else codegen(options)


def parsed(source: str) -> llvm.ModuleRef:
    """The LLVM module with this text; raises ``CompileError`` if LLVM refuses it."""
    try:
        unit = llvm.parse_assembly(source)
        unit.verify()
    except RuntimeError as e:
        raise CompileError(f"LLVM refuses the generated code: {e}") from None
    return unit


def optimise(source: str, options: Options, machine: llvm.TargetMachine | None = None) -> llvm.ModuleRef:
    """Parse LLVM IR and run the pipeline, by default for this machine."""
    unit = parsed(source)
    if options.written_out:
        return unit
    tuning = llvm.create_pipeline_tuning_options(speed_level=options.level)
    tuning.loop_vectorization = options.level > 0
    tuning.slp_vectorization = options.level == 3
    tuning.loop_interleaving = options.level == 3
    tuning.loop_unrolling = options.level > 0
    passes = llvm.create_pass_builder(machine or _machine(codegen(options)), tuning)
    rest = _set(VECTORS_FOR_THE_REST, 8, 16) if options.fastmath else nullcontext()
    with (_switched_on(ORDERED_SUMS), _switched_on(RARE_EXITS), _set(UNIT_STRIDES, "false", "true"),
          _set(SINKING, "false", "true"), rest):
        passes.getModulePassManager().run(unit, passes)
    if definitions := own.definitions(_declared(unit)):
        _inline(unit, definitions, passes)
    return unit


def as_written(source: str, options: Options) -> llvm.ModuleRef:
    """The LLVM module with this text, which needs no passes but for calls of our own vector functions."""
    unit = parsed(source)
    if definitions := own.definitions(_declared(unit)):
        tuning = llvm.create_pipeline_tuning_options(speed_level=0)
        _inline(unit, definitions, llvm.create_pass_builder(_machine(codegen(options)), tuning))
    return unit


def _declared(unit: llvm.ModuleRef) -> list[str]:
    """The functions that a module declares; after the passes these are the ones that it calls."""
    return [f.name for f in unit.functions if f.is_declaration]


def _inline(unit: llvm.ModuleRef, definitions: str, passes: llvm.PassBuilder) -> None:
    """Link ``definitions`` into the module and inline all calls of them; the vectoriser made some of these calls."""
    machine = f'target triple = "{unit.triple}"\ntarget datalayout = "{unit.data_layout}"\n'
    unit.link_in(llvm.parse_assembly(machine + definitions))
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.run(unit, passes)


def compile_module(module: Module, roots: Sequence[str], options: Options | None = None,
                   extend: Extend | None = None, portable: bool = False) -> Native:
    """Compile the functions that ``roots`` reach; ``portable``: see ``Native``.

    ``extend`` adds functions to the LLVM module after these are lowered, and returns the names of those whose addresses
    are needed.  (Functions made from IR are internal, so that they can be inlined into their entry points.)
    """
    options = options or Options()
    start = time.perf_counter()
    lowering = ModuleLowering(module, roots, target(), options)
    routines = lowering.writer.routines = dict[str, str]()
    lowering.lower()
    names = extend(lowering) if extend else []
    writer = lowering.writer
    if options.level < FULL:
        writer.hasten(HASTY)
    source, finished, straight = writer.text(), writer.finished_text(), writer.straight_text()
    outside = {e.symbol: e.code for e in module.external.values() if e.code is not None}
    outside |= {name: _routine(name, text, options) for name, text in routines.items()}
    return Native(source, options, names, {"lower": time.perf_counter() - start}, finished, straight,
                  outside=outside, portable=portable, across=writer.across(), kernels=list(routines))
