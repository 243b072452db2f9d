"""Builds a library from exports: the file itself, and those for its callers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import JitadError, UnsupportedError
from ..loop_level import build as loops
from ..lowering.aot import platforms
from ..lowering.aot.library import Library, Program
from ..lowering.llvm.target import BLAS, LIBMVEC
from ..mlir.text import print_mlir
from . import cplusplus, fortran, header, linking, packages
from .exports import Export, programs

EMIT = ("shared", "static", "obj", "llvm", "asm", "mlir")


def run(path: Any, exports: Sequence[Export], emit: str, target: str | None, cpu: str | None, blas: bool,
        libmvec: bool, files: dict[str, Any]) -> None:
    """See ``aot.build``; ``files``: the files for callers, by their kinds."""
    if emit not in EMIT:
        raise ValueError(f"emit={emit!r}: there are {', '.join(EMIT)}")
    if not exports:
        raise ValueError("a library needs an export: aot.export(f, \"f64[:]\")")
    out, kept = Path(path), frozenset(name for name, wanted in ((BLAS, blas), (LIBMVEC, libmvec)) if wanted)
    variants = platforms.variants(target, cpu, kept)
    found = [program for export in exports for program in programs(export)]
    _distinct([program.interface.name for program in found])
    name = library_name(out)
    if emit == "mlir":
        out.write_text("\n".join(print_mlir(loops.to_loops(program.module)) for program in found))
    else:
        library = Library(variants, found, ["jitad_strerror", header.errors_of(name)])
        _write(library, out, emit, [p.interface.name for p in found] + ["jitad_strerror", header.errors_of(name)])
        _for_callers(library, name, out, found, {kind: Path(file) for kind, file in files.items()})


def library_name(path: Path) -> str:
    """The identifier for a library in this file: ``loss`` for ``libloss.so``."""
    stem = path.name.partition(".")[0]
    stem = stem.removeprefix("lib") or stem
    name = re.sub(r"\W", "_", stem, flags=re.ASCII)
    return name if name.isidentifier() else f"lib_{name}"


def _distinct(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UnsupportedError(f"the library would hold two functions {name}",
                                   hint="name one of them: aot.export(f, …, name=\"g\")")


def _write(library: Library, out: Path, emit: str, names: Sequence[str]) -> None:
    try:
        if emit == "shared":
            linking.shared(library, out, names)
        elif emit == "static":
            linking.static(library, out)
        elif emit == "obj":
            out.write_bytes(library.object())
        else:
            out.write_text(library.llvm_ir() if emit == "llvm" else library.assembly())
    except OSError as e:
        raise JitadError(f"cannot write {out}: {e}") from None


def _for_callers(library: Library, name: str, out: Path, found: Sequence[Program], files: dict[str, Path]) -> None:
    """Write the header and its companions."""
    private = " ".join(linking.libraries(library))
    head = files.get("header")
    if "cplusplus" in files and head is None:
        raise ValueError("the C++ header includes the C header: pass header=… too")
    for kind, file in files.items():
        if kind == "header":
            text = header.text(name, found)
        elif kind == "cplusplus":
            assert head is not None
            text = cplusplus.text(name, os.path.relpath(head.absolute(), file.absolute().parent), found)
        elif kind == "fortran":
            text = fortran.text(name, found)
        elif kind == "pkg_config":
            text = packages.pkg_config(file, name, out, head, private)
        else:
            text = packages.cmake(file, name, out, head, private)
        file.write_text(text)
