"""The platforms for which libraries are built: one table of triples, processors, vector widths and math libraries.

A platform is an operating system with its C library on one architecture.  Its processor may be chosen with ``--cpu``.
``native`` is this machine, with the processor and the features for which the JIT compiles.
"""

from __future__ import annotations

import platform as machine
import sys
from dataclasses import dataclass, replace
from functools import cache

import llvmlite.binding as llvm

from ...compiler_threads import uninterrupted
from ...errors import UnsupportedError
from ..llvm import processor
from ..llvm.target import BLAS, LIBMVEC, Target

# Features of x86 processors on which the lowering depends; LLVM knows the others by the processor's name.
_DECISIVE = ("sse2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl")


@dataclass(frozen=True)
class System:
    """The constants of an operating system's C library that the runtime of a library needs.

    ``threads``: POSIX threads and ``mmap``; a system without them has one context.  ``key``: the type of a key of
    thread-specific data.  ``flags``: those of a private anonymous mapping that reserves nothing.  ``pages``,
    ``free`` and ``page_size``: the numbers that ``sysconf`` takes for the memory's pages, those that are free (of all
    where the system does not tell), and their size.  ``advice``: what ``madvise`` takes for huge pages, for pages that
    may be reclaimed, and for pages that are not needed; None if there is no such advice.
    """

    name: str
    threads: bool
    key: str = "i32"
    flags: int = 0
    pages: int = 0
    free: int = 0
    page_size: int = 0
    advice: tuple[int | None, int | None, int | None] = (None, None, None)
    suffix: str = ".so"
    libraries: tuple[str, ...] = ("-lm",)


LINUX = System("linux", True, "i32", 0x4022, 85, 86, 30, (14, 8, 4))
MUSL = replace(LINUX, name="musl")
MACOS = System("macos", True, "i64", 0x1042, 200, 200, 29, (None, 5, None), ".dylib", ())
WASI = System("wasi", False, suffix=".wasm")


@dataclass(frozen=True)
class Platform:
    """One line of the table.

    ``features`` are those of the default processor.  ``libraries``: external libraries besides libm that code may
    call.  ``zig``: Zig's name of the platform.
    """

    name: str
    triple: str
    system: System
    cpu: str
    features: str = ""
    libraries: frozenset[str] = frozenset()
    zig: str = ""

    @property
    def vector_bits(self) -> int:
        return Target(self.triple, "", self.cpu, self.features).vector_bits

    @property
    def math(self) -> str:
        """The library of vector functions, in words."""
        return "libmvec" if LIBMVEC in self.libraries else "own" if self.vector_bits >= 256 else "scalar libm"

    @property
    def is_native(self) -> bool:
        return self.name == "native"

    def machine(self, level: int) -> llvm.TargetMachine:
        """LLVM's code generator for this platform; ``level``: its own optimisation level."""
        _initialise()
        found = llvm.Target.from_triple(self.triple)
        return found.create_target_machine(cpu=self.cpu, features=self.features, opt=level, reloc="pic",
                                           codemodel="default")

    @uninterrupted
    def target(self) -> Target:
        """The machine as the lowering sees it."""
        layout = str(self.machine(2).target_data)
        return Target(self.triple, layout, self.cpu, self.features, self.libraries)


@cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()              # for ``dispatch``, whose code holds assembly


_GLIBC = frozenset({BLAS, LIBMVEC})
_X86, _SSE = "x86-64-v2", "+sse2"
TABLE = {p.name: p for p in (
    Platform("x86_64-linux-gnu", "x86_64-unknown-linux-gnu", LINUX, _X86, _SSE, _GLIBC, "x86_64-linux-gnu"),
    Platform("x86_64-linux-musl", "x86_64-unknown-linux-musl", MUSL, _X86, _SSE, zig="x86_64-linux-musl"),
    Platform("aarch64-linux-gnu", "aarch64-unknown-linux-gnu", LINUX, "generic", "+neon", zig="aarch64-linux-gnu"),
    Platform("aarch64-linux-musl", "aarch64-unknown-linux-musl", MUSL, "generic", "+neon", zig="aarch64-linux-musl"),
    Platform("aarch64-macos", "arm64-apple-macosx11.0.0", MACOS, "apple-m1", "+neon", zig="aarch64-macos"),
    Platform("x86_64-macos", "x86_64-apple-macosx11.0.0", MACOS, _X86, _SSE, zig="x86_64-macos"),
    Platform("wasm32-wasi", "wasm32-unknown-wasi", WASI, "generic", "+simd128,+bulk-memory", zig="wasm32-wasi"),
)}


@uninterrupted
def find(name: str | None, cpu: str | None, libraries: frozenset[str]) -> Platform:
    """The platform ``name``, by default this machine, with the processor ``cpu``, by default the platform's own.

    ``libraries``: the external libraries that code may call.  Raises ``UnsupportedError`` for a name that is not in
    the table, and ``ValueError`` for a processor that LLVM does not know.
    """
    found = _native() if name in (None, "native") else TABLE.get(name or "")
    if found is None:
        raise UnsupportedError(f"there is no target {name!r}: there are native, {', '.join(TABLE)}")
    found = replace(found, libraries=found.libraries & libraries)
    if cpu is None or cpu == "native" and found.is_native:
        return _with_features(found)
    if not found.triple.startswith("x86_64"):
        return replace(found, cpu=cpu)
    if not processor.features(cpu).issuperset(("cmov", "sse2")):
        raise ValueError(f"cpu={cpu!r}: LLVM knows no 64-bit processor of this name; "
                         f"try one of {', '.join(processor.LEVELS)}")
    return _with_features(replace(found, cpu=cpu, features=""))


@uninterrupted
def variants(name: str | None, cpu: str | None, libraries: frozenset[str]) -> list[Platform]:
    """As ``find``, for each processor of a list such as ``"x86-64-v2,x86-64-v4"``; the oldest is first.

    Raises ``ValueError`` unless several processors are levels of x86-64, each named once.
    """
    names = [part.strip() for part in cpu.split(",")] if cpu is not None else [None]
    found = [find(name, part, libraries) for part in names]
    if len(found) == 1:
        return found
    levels = processor.LEVELS
    if not llvm.get_default_triple().startswith("x86_64"):
        raise UnsupportedError("code for several processors is made on x86-64 machines only", hint="name one processor")
    if not found[0].triple.startswith("x86_64") or len({*names}) < len(names) or not {*names} <= {*levels}:
        raise ValueError(f"cpu={cpu!r}: one library can hold code for several of {', '.join(levels)}")
    return sorted(found, key=lambda p: levels.index(p.cpu))


def _with_features(found: Platform) -> Platform:
    """Name the features that the lowering looks for, if only the processor is known."""
    if found.is_native and found.features or not found.triple.startswith("x86_64"):
        return found
    have = processor.features(found.cpu)
    return replace(found, features=",".join(["+64bit", *(f"+{f}" for f in _DECISIVE if f in have)]))


def _native() -> Platform:
    system = {"linux": LINUX if machine.libc_ver()[0] == "glibc" else MUSL, "darwin": MACOS}.get(sys.platform)
    if system is None:
        raise UnsupportedError(f"libraries cannot be built for {machine.system()}: name another target")
    chosen = processor.chosen()
    libraries = _GLIBC if system is LINUX else frozenset({BLAS})
    return Platform("native", llvm.get_process_triple(), system, chosen.name, chosen.features, libraries)
