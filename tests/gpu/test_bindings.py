"""The calls of ``CudaDriver`` through the real cuda-python: a stand-in for NVIDIA's library, in C, is below it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu import fake_cuda

driver = pytest.importorskip("cuda.bindings.driver", reason="cuda-python is not there: pip install cuda-bindings")
HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_the_real_package(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "fake_libcuda.c"), "-ldl"],
                   check=True)
    done = subprocess.run([sys.executable, "-m", "tests.gpu.with_real_bindings"], capture_output=True, text=True,
                          cwd=HERE.parent.parent, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_the_python_stand_in_has_the_real_names_and_numbers() -> None:
    device = fake_cuda.Device()
    for name in dir(fake_cuda.Device):
        if name.startswith(("cu", "CU")):
            assert hasattr(driver, name), name
            found = getattr(device, name)
            if isinstance(found, type) and issubclass(found, fake_cuda.enum.IntEnum):
                for member in found:
                    assert int(getattr(getattr(driver, name), member.name)) == member, member
