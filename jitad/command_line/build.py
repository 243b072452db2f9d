"""``python -m jitad build``: compiles functions to a library.

::

    python -m jitad build pkg.mod:loss --signature "f64[:], f64[n], f64[n]" --grad 0 -o libloss.so --header loss.h
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..aot import building, exports
from ..api import exported
from ..errors import JitadError
from ..lowering.aot.platforms import TABLE
from .functions import load

_FILES = {"header": "the C header", "cplusplus": "the C++ header", "fortran": "the Fortran module",
          "pkg-config": "the file for pkg-config (NAME.pc)", "cmake": "the package for CMake (NAMEConfig.cmake)"}
_SUFFIXES = {".so": "shared", ".dylib": "shared", ".wasm": "shared", ".a": "static", ".o": "obj", ".ll": "llvm",
             ".s": "asm", ".mlir": "mlir"}


def arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("functions", nargs="+", metavar="module:name", help="a function to export")
    command.add_argument("--signature", help='argument types: "f64[:], f64[n, m], i64"; by default the annotations')
    command.add_argument("--name", help="the name in C of the only function")
    for mode in exports.MODES:
        command.add_argument(f"--{mode}", metavar="ARGUMENTS",
                             help=f"add NAME_{mode} by these arguments: positions or names, with commas between")
    command.add_argument("-o", "--output", required=True, help="the file to write")
    command.add_argument("--emit", choices=building.EMIT, help="by default what the name of the file says")
    command.add_argument("--target", choices=["native", *TABLE], metavar="TARGET", help=f"native, {', '.join(TABLE)}")
    command.add_argument("--cpu", help="LLVM's name of a processor, such as x86-64-v3, or several levels of "
                                        "x86-64 with commas between; by default this machine's")
    command.add_argument("--no-blas", action="store_true", help="make code that does not call BLAS")
    command.add_argument("--no-libmvec", action="store_true", help="make code that does not call libmvec")
    for option, what in _FILES.items():
        command.add_argument(f"--{option}", metavar="FILE", help=what)


def run(options: argparse.Namespace) -> None:
    """Build the library that the options describe."""
    if options.name is not None and len(options.functions) > 1:
        raise JitadError("--name names one function, and there are several", hint="build one library for each")
    wrt = {mode: _argnums(text) for mode in exports.MODES if (text := getattr(options, mode)) is not None}
    found = [exports.make(exported(load(name)), options.signature, options.name, **wrt) for name in options.functions]
    emit = options.emit or _SUFFIXES.get(Path(options.output).suffix, "shared")
    files = {kind: file for option in _FILES if (file := getattr(options, kind := option.replace("-", "_")))}
    try:
        building.run(options.output, found, emit, options.target, options.cpu, not options.no_blas,
                     not options.no_libmvec, files)
    except ValueError as e:
        raise JitadError(str(e)) from e


def _argnums(text: str) -> Any:
    """``0`` and ``w`` are one argument; ``0,1`` is a tuple of them."""
    parts = tuple(int(p) if p.lstrip("-").isdigit() else p for p in (part.strip() for part in text.split(",")) if p)
    return parts[0] if len(parts) == 1 and "," not in text else parts
