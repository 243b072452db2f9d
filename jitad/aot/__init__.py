"""Ahead of time: libraries with a C interface from Python functions and their derivatives.

::

    from jitad import aot
    aot.build("libloss.so", [aot.export(loss, "f64[:], f64[n], f64[n]", grad=0)], header="loss.h")

Imports the whole compiler, but only when something is built; imported by ``jitad`` when ``jitad.aot`` is first used.
Files, in reading order::

    types         f64["n"], for annotations
    names         names that C code can use
    packed_trees  recursive dataclasses as arrays
    annotations   signatures and annotations, as types of arguments
    derivatives   the programs that compute derivatives
    exports       a function for one signature, as programs with C interfaces
    linking       shared and static libraries, by a C compiler
    header        the C header
    cplusplus     the C++ header
    fortran       the Fortran module
    packages      files for pkg-config and CMake
    building      all of it: aot.build
    functions     a compiled function as a pointer for callbacks: f.address, f.cfunc
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .types import KINDS

if TYPE_CHECKING:
    from .exports import Export

f64, f32 = KINDS["f64"], KINDS["f32"]
i64, i32, i16, i8 = (KINDS[name] for name in ("i64", "i32", "i16", "i8"))
u64, u32, u16, u8 = (KINDS[name] for name in ("u64", "u32", "u16", "u8"))
bool_ = KINDS["bool"]

Wrt = bool | int | str | tuple[int | str, ...]


def export(fun: Any, signature: Any = None, *, name: str | None = None, grad: Wrt = False, jvp: Wrt = False,
           vjp: Wrt = False, hvp: Wrt = False, jacobian: Wrt = False) -> Export:
    """A function of a library, for one signature.

    ``signature``: a text such as ``"f64[:], f64[n, m], i64"``, a sequence of types, or None for the annotations of the
    function.  ``name``: its name in C, by default that of the function.  ``grad`` adds ``NAME_grad``, which returns
    the value and the gradient: ``True`` (the first argument), a position, a name, or a tuple of them.  ``jvp``,
    ``vjp``, ``hvp`` and ``jacobian`` add derivatives of these kinds in the same way.

    Raises ``UnsupportedError`` for types that C code cannot pass, and ``ValueError`` for a text that is no signature.
    """
    from ..api import exported
    from .exports import make
    return make(exported(fun), signature, name, grad=grad, jvp=jvp, vjp=vjp, hvp=hvp, jacobian=jacobian)


def build(path: str | os.PathLike[str], exports: Sequence[Export], *, header: str | os.PathLike[str] | None = None,
          emit: str = "shared", target: str | None = None, cpu: str | None = None, blas: bool = True,
          libmvec: bool = True, cplusplus: str | os.PathLike[str] | None = None,
          fortran: str | os.PathLike[str] | None = None, pkg_config: str | os.PathLike[str] | None = None,
          cmake: str | os.PathLike[str] | None = None) -> None:
    """Compiles functions to a library, in the file ``path``.

    ``emit``: ``"shared"``, ``"static"``, ``"obj"``, ``"llvm"``, ``"asm"`` or ``"mlir"``.  ``header``, ``cplusplus``,
    ``fortran``, ``pkg_config`` and ``cmake`` are files to write for the callers.  ``target``: one of
    ``jitad.lowering.aot.platforms.TABLE``, by default this machine; ``cpu``: LLVM's name of a processor, by default
    this machine's, or the oldest that the target supports, or several levels of x86-64 (``"x86-64-v2,x86-64-v4"``), of
    which the newest that the machine can run is selected when a function is first called.  ``blas=False`` and
    ``libmvec=False`` make code that does not call these libraries.

    Raises ``UnsupportedError`` for what the library cannot hold and if there is no linker, ``CompileError`` if the
    linker fails, and ``ValueError`` for unknown options.
    """
    from .building import run
    files = {"header": header, "cplusplus": cplusplus, "fortran": fortran, "pkg_config": pkg_config, "cmake": cmake}
    run(path, exports, emit, target, cpu, blas, libmvec, {kind: file for kind, file in files.items() if file})


__all__ = ["bool_", "build", "export", "f32", "f64", "i16", "i32", "i64", "i8", "u16", "u32", "u64", "u8"]
