"""Libraries from object files, by the C compiler of the system, or by Zig's.

The compiler that ``CC`` names is used, else ``cc``, ``gcc`` or ``clang`` on the path, else the one in the package
``ziglang``.  Other platforms than this machine need Zig's, which brings the C libraries of many.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import CompileError, UnsupportedError
from ..kernels import blas
from ..lowering.aot.library import Library
from ..lowering.aot.platforms import Platform

_NAMES = ("cc", "gcc", "clang")


def compiler(platform: Platform) -> list[str]:
    """The command of a C compiler that links for this platform; raises ``UnsupportedError`` if there is none."""
    if platform.is_native:
        if named := shlex.split(os.environ.get("CC", "")):
            return named
        for name in _NAMES:
            if (found := shutil.which(name)) is not None:
                return [found]
    zig = _zig()
    if zig is None:
        missing = f"there is no C compiler ({', '.join(_NAMES)}) on the path, and CC names none" if platform.is_native \
            else f"a library for {platform.name} is linked by Zig"
        install = "install a C compiler, or " if platform.is_native else ""
        raise UnsupportedError(f"{missing}; the package ziglang is not installed",
                               hint=f"{install}pip install jitad[aot], or build with emit=\"obj\"")
    return [*zig, "cc", *(["-target", platform.zig] if platform.zig else [])]


def _zig() -> list[str] | None:
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang"]
    found = shutil.which("zig")
    return [found] if found is not None else None


def shared(library: Library, path: Path, exports: Sequence[str]) -> None:
    """Link the shared library ``path``, or for WebAssembly a module, which exports these functions."""
    platform = library.platform
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / f"{path.stem}.o"
        image.write_bytes(library.object())
        command = compiler(platform)
        if platform.system.name == "wasi":
            names = [f"-Wl,--export={name}" for name in (*exports, "malloc", "free")]
            options = ["-mexec-model=reactor", *names]
        elif platform.system.name == "macos":
            options = ["-dynamiclib", f"-Wl,-install_name,@rpath/{path.name}"]
        else:
            options = ["-shared", f"-Wl,-soname,{path.name}", "-Wl,-z,noexecstack", "-Wl,-z,defs"]
        _run([*command, *options, "-o", str(path), str(image), *libraries(library)])


def libraries(library: Library) -> list[str]:
    """The options that name the libraries which the code calls."""
    found: list[str] = []
    if library.uses_blas() and (path := blas.library()) is not None:
        found += [path, f"-Wl,-rpath,{Path(path).parent}"]
    if library.platform.system.name in ("linux", "musl"):
        found += ["-Wl,--as-needed", *(["-l:libmvec.so.1"] if library.uses_libmvec() else [])]
    return [*found, *library.platform.system.libraries]


def static(library: Library, path: Path) -> None:
    """Write the static library ``path``."""
    zig = _zig()
    archiver = [found] if (found := shutil.which("ar")) is not None else [*zig, "ar"] if zig is not None else None
    if archiver is None:
        raise UnsupportedError("a static library needs `ar`, which is not on the path; the package ziglang, which "
                               "brings one, is not installed",
                               hint="install binutils or `pip install jitad[aot]`, or write emit=\"obj\"")
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / f"{path.stem}.o"
        image.write_bytes(library.object())
        path.unlink(missing_ok=True)
        _run([*archiver, "rcs", str(path), str(image)])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(f"{shlex.join(command)} failed with {done.returncode}:\n{done.stderr or done.stdout}")
