"""The object files of one program may lie anywhere in memory: they are allocated one by one, where there is a gap."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from jitad.lowering.llvm.emit import Writer
from jitad.lowering.llvm.instruction import Instruction

# A gap of so many pages above a reserved range of 8 GB: a small object file fits into it, a larger one goes below.
GAPS = (40, 44, 48, 52, 56, 60)

PROGRAM = """
    import ctypes
    import mmap

    import numpy as np

    from examples.gmm import Mixture, Prior, gmm_objective
    from jitad import jit

    RESERVED, NO_ACCESS, PRIVATE_UNBACKED = 8 << 30, 0, 0x4022
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    rng, d, components = np.random.default_rng(1), 64, 25
    mixture = Mixture(rng.normal(size=components), rng.normal(size=(components, d)),
                      0.1 * rng.normal(size=(components, d * (d + 1) // 2)))
    points = rng.normal(size=(5, d))

    def gradient():
        f = jit(gmm_objective, grad=0, parallel=True)
        value, found = f.value_and_grad(mixture, points, Prior(1.0, 0))
        return np.concatenate([np.ravel(value), *map(np.ravel, (found.alphas, found.means, found.icf))])

    first = gradient()
    for pages in {gaps}:
        start = libc.mmap(None, RESERVED, NO_ACCESS, PRIVATE_UNBACKED, -1, 0)
        assert start not in (None, ctypes.c_void_p(-1).value)
        gap = pages * mmap.PAGESIZE
        libc.munmap(start + RESERVED - gap, gap)
        np.testing.assert_allclose(gradient(), first, rtol=1e-12)
    print("linked")
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="lays out memory by Linux's mmap")
def test_object_files_far_apart():
    """The gradient's code without loops takes addresses of functions of the other object file, 8 GB away."""
    program = textwrap.dedent(PROGRAM).replace("{gaps}", str(GAPS))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "linked\n"


def test_declarations_are_not_hidden():
    """LLVM takes a hidden function to be within 2 GB, also one that is only declared."""
    writer = Writer()
    writer.function("main", "define internal void @main() {\n  ret void\n}\n")
    body = [Instruction("call", "", "void", (), detail="@main"), Instruction("ret", "", "void", ())]
    writer.finished("part", "void @part()", [("entry", body)], straight=True)
    assert "declare void @part()" in writer.text() and "define hidden void @main()" in writer.text()
    assert "declare void @main()" in writer.straight_text() and "define hidden void @part()" in writer.straight_text()
