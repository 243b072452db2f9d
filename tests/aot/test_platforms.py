"""Libraries for other machines: objects of each platform, and programs under emulators, with the values of this one."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jitad.lowering.aot import platforms
from jitad.lowering.aot.platforms import TABLE

from jitad import aot, jit
from jitad.errors import UnsupportedError
from tests.aot import programs
from tests.aot.test_c_interface import run

HERE = Path(__file__).parent / "callers"
ZIG = [sys.executable, "-m", "ziglang"] if find_spec("ziglang") else ["zig"] if shutil.which("zig") else []
needs_zig = pytest.mark.skipif(not ZIG, reason="neither the package ziglang nor zig, which links for other machines")
MAGIC = {"linux": b"\x7fELF", "musl": b"\x7fELF", "macos": b"\xcf\xfa\xed\xfe", "wasi": b"\0asm"}


def exports() -> list[Any]:
    return [aot.export(programs.curve, grad=0), aot.export(programs.walk), aot.export(programs.depth),
            aot.export(programs.pick)]


def expected() -> np.ndarray:
    """The numbers that the callers print: value and gradient of the curve, then an array."""
    x = np.array([i / 11 - 1 for i in range(23)])
    value, gradient = jit(programs.curve, grad=True).value_and_grad(np.array([0.7, 0.1]), x, x / (1 + x * x))
    return np.array([value, *gradient, *jit(programs.walk)(3, x)])


def check(told: str) -> None:
    """The numbers, then the kinds of two errors and a text."""
    numbers, errors = told.strip().split("\n")
    np.testing.assert_allclose([float(x) for x in numbers.split()], expected(), rtol=1e-12)
    assert errors.startswith("4 5 pick: IndexError: index 99 is out of bounds for axis 0 with size 23 (programs.py:")


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_an_object_for_each_platform(name: str, tmp_path: Path) -> None:
    aot.build(tmp_path / "f.o", [aot.export(programs.curve, grad=0)], emit="obj", target=name)
    image = (tmp_path / "f.o").read_bytes()
    assert image.startswith(MAGIC[TABLE[name].system.name]) and b"curve_grad" in image


@pytest.mark.parametrize("cpu, vectors", [("x86-64-v2", 128), ("x86-64-v3", 256), ("x86-64-v4", 512)])
def test_processors(cpu: str, vectors: int, tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("LLVM is asked for the features of x86 processors through this machine's")
    found = platforms.find("x86_64-linux-gnu", cpu, frozenset())
    assert found.vector_bits == vectors and found.math == ("own" if vectors > 128 else "scalar libm")
    aot.build(tmp_path / "f.s", [aot.export(programs.curve, grad=0)], emit="asm", target="x86_64-linux-gnu", cpu=cpu)
    assert ("%zmm" in (tmp_path / "f.s").read_text()) <= (vectors == 512)


def test_unknown_platforms() -> None:
    with pytest.raises(UnsupportedError, match="no target 'vax'"):
        aot.build("f.so", exports(), target="vax")
    if platform.machine() == "x86_64":
        with pytest.raises(ValueError, match="no 64-bit processor"):
            aot.build("f.so", exports(), cpu="i386")


@pytest.mark.long
@pytest.mark.slow
@needs_zig
@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 (qemu-user) is not on the path")
def test_aarch64_under_qemu(tmp_path: Path) -> None:
    aot.build(tmp_path / "f.o", exports(), emit="obj", target="aarch64-linux-musl", header=tmp_path / "f.h")
    run(*ZIG, "cc", "-target", "aarch64-linux-musl", "-static", HERE / "values.c", "f.o", "-I.", "-lm", "-o", "values",
        cwd=tmp_path)
    check(run("qemu-aarch64", "./values", cwd=tmp_path))


@pytest.mark.long
@pytest.mark.slow
@needs_zig
@pytest.mark.skipif(not shutil.which("node"), reason="node, which runs WebAssembly, is not on the path")
def test_wasm_under_node(tmp_path: Path) -> None:
    aot.build(tmp_path / "f.wasm", exports(), target="wasm32-wasi")
    check(run("node", "--no-warnings", HERE / "values.mjs", "f.wasm", cwd=tmp_path))


def test_no_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("jitad.aot.linking._zig", lambda: None)
    with pytest.raises(UnsupportedError, match="no C compiler.*ziglang"):
        aot.build(tmp_path / "f.so", [aot.export(programs.curve)])
    with pytest.raises(UnsupportedError, match="`ar`.*ziglang"):
        aot.build(tmp_path / "f.a", [aot.export(programs.curve)], emit="static")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("ar"), reason="no gcc and ar on the path")
def test_static_libraries_side_by_side(tmp_path: Path) -> None:
    """Two libraries in one program have one ``jitad_strerror``, and each its own function of errors."""
    aot.build(tmp_path / "libf.a", exports(), emit="static", header=tmp_path / "f.h", blas=False, libmvec=False)
    aot.build(tmp_path / "libg.a", [aot.export(programs.quotient)], emit="static", header=tmp_path / "g.h")
    run("gcc", "-include", "g.h", "-DOTHER", HERE / "values.c", "-I.", "-L.", "-lf", "-lg", "-lm", "-pthread", "-o",
        "values", cwd=tmp_path)
    check(run("./values", cwd=tmp_path))


@pytest.mark.parametrize("kind, holds", [("llvm", "define i32 @curve_grad"), ("asm", "curve_grad:"),
                                         ("mlir", "func.func")])
def test_texts(kind: str, holds: str, tmp_path: Path) -> None:
    aot.build(tmp_path / "text", [aot.export(programs.curve, grad=0)], emit=kind)
    assert holds in (tmp_path / "text").read_text()


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-m", "jitad", "build", "tests.aot.programs:curve", "--grad", "0", "-o",
                           str(tmp_path / "curve.o"), "--header", str(tmp_path / "curve.h"), "--no-blas",
                           "--no-libmvec"], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert "int curve_grad(const double *w, int64_t w_0," in (tmp_path / "curve.h").read_text()
    assert (tmp_path / "curve.o").stat().st_size > 1000
