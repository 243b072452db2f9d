"""The kernels of ten programs take no more registers than the table in docs/internals/gpu-kernels.md says, and do not
spill."""

from __future__ import annotations

from pathlib import Path

import pytest
from jitad.lowering.gpu.ptx import ARCHITECTURES, to_ptx

from bench.gpu.__main__ import main_kernel, table
from bench.gpu.cases import PROGRAMS
from bench.gpu.listing import registers
from jitad.gpu import assembling
from tests.gpu.test_ptx import needs_libdevice, needs_ptxas

MORE = 8                            # registers by which versions of ptxas may differ: one step of their allocation


@pytest.mark.slow
@needs_libdevice
@needs_ptxas
@pytest.mark.long
@pytest.mark.parametrize("arch", sorted(ARCHITECTURES, key=lambda arch: arch != "sm_90"))
def test_registers(arch: str, tmp_path: Path) -> None:
    known, place = table("registers"), ARCHITECTURES.index(arch)
    assert known.keys() == PROGRAMS.keys()
    for name, program in PROGRAMS.items():
        image = program.image()
        used, spills = registers(assembling.assembled(to_ptx(image, arch), arch, tmp_path)[1])[
            main_kernel(image.kernels, program.kernel)]
        assert spills == 0, f"{name} spills {spills} bytes"
        assert used <= int(known[name][place]) + MORE, f"{name} takes {used} registers"
