"""The lowering table for GPUs: every scalar op and a loop become PTX that ``ptxas`` accepts."""

import subprocess
from pathlib import Path

import pytest
from jitad.lowering.jit import cuda_toolkit, nvptx

from jitad import jit
from jitad.ir.builder import Builder
from jitad.ir.graph import ExcInfo, Function, Module
from jitad.ir.types import F64, I64, SCALARS, Scalar
from tests.lowering.test_lowering_scalar import applicable

needs_libdevice = pytest.mark.skipif(cuda_toolkit.libdevice() is None,
                                     reason="libdevice (wheel nvidia-nvvm) is not there")


def assemble(ptx: str, tmp_path: Path, arch: str) -> None:
    program = cuda_toolkit.program("ptxas")
    if program is None:
        pytest.skip("ptxas (wheel nvidia-cuda-nvcc) is not there")
    assert ".extern .func" not in ptx              # all of libdevice is linked in
    source = tmp_path / "code.ptx"
    source.write_text(ptx)
    out = subprocess.run([program, f"-arch={arch}", "-c", "-o", str(tmp_path / "code.o"), str(source)],
                         capture_output=True, text=True)
    assert out.returncode == 0, out.stdout + out.stderr


@pytest.mark.long
@pytest.mark.slow
@needs_libdevice
@pytest.mark.parametrize("t", SCALARS.values(), ids=str)
def test_every_scalar_op(t: Scalar, tmp_path: Path) -> None:
    module = Module()
    names = applicable(t)
    for name, n in names:
        func = module.add(Function(name, [t] * n))
        b = Builder(func.entry)
        out = b.emit_op(name, func.params).result
        func.result_types = [out.type]
        b.ret([out])
    casts = module.add(Function("cast", [t], list(SCALARS.values())))
    b = Builder(casts.entry)
    b.ret([b.cast(casts.params[0], dtype=to) for to in SCALARS.values()])
    assemble(nvptx.to_ptx(module, list(module.functions)), tmp_path, "sm_80")


def loop() -> Module:
    module = Module()
    exc = module.exception(ExcInfo("ValueError", "{0}"))
    func = module.add(Function("f", [I64, F64], [F64]))
    n, x = func.params
    b = Builder(func.entry)
    head, done = func.new_block("head"), func.new_block("done")
    i, s, out = head.add_param(I64), head.add_param(F64), done.add_param(F64)
    b.check(b.gt(n, 0), exc, n)
    b.jump(head, [b.const(0), x])
    b.at(head)
    following, y = b.add(i, 1), b.sin(b.mul(s, 1.5))
    b.branch(b.lt(following, n), head, [following, y], done, [y])
    b.at(done)
    b.ret([out])
    return module


@needs_libdevice
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_loop(arch: str, tmp_path: Path) -> None:
    ptx = nvptx.to_ptx(loop(), ["f"], arch)
    assert f".target {arch}" in ptx
    assemble(ptx, tmp_path, arch)


def test_names_that_are_not_ascii() -> None:
    """LLVM ends the process at a symbol that is invalid in PTX."""
    def größe(x: float, n: int) -> float:
        return x if n <= 0 else größe(x * 0.5, n - 1) + µ(x, n)

    def µ(x: float, n: int) -> float:
        return x if n <= 0 else größe(x, n - 2)
    text = jit(größe).inspect("ptx", 1.0, 3)
    assert text.isascii() and "gru" in text
