"""Kernels of programs: accepted by LLVM and by ``ptxas``, with the numbers that the interpreter gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from jitad.lowering.gpu.ptx import to_ptx

from jitad.gpu import assembling
from tests.gpu.programs import compiled
from tests.gpu.small import PROGRAMS
from tests.gpu.test_ptx import needs_libdevice, needs_ptxas


@needs_libdevice
@needs_ptxas
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_assemble(name: str, tmp_path: Path) -> None:
    fun, args = PROGRAMS[name]
    image = compiled(fun, *args).program.image
    if image.kernels:
        code, report = assembling.assembled(to_ptx(image, "sm_90"), "sm_90", tmp_path)
        assert code.stat().st_size
        assert report.count("Compiling entry function") == len(image.kernels)
