"""The benchmarks for a GPU run in the simulator, with the results of the CPU; without a GPU they say so."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.simulated_cuda import REAL

ROOT = Path(__file__).parent.parent.parent


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bench.device", *options], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_all_cases(tmp_path: Path) -> None:
    done = run("--simulate", "--out", str(tmp_path / "device.json"))
    assert done.returncode == 0, done.stderr
    for name in ("copy", "curve", "lorenz", "kepler", "greeks", "row sums", "softmax", "a call"):
        assert f"\n{name} " in done.stdout
    assert (tmp_path / "device.json").exists()


@pytest.mark.slow
def test_without_a_gpu(tmp_path: Path) -> None:
    if not REAL:
        done = run("--out", str(tmp_path / "device.json"))
        assert done.returncode == 1 and "no benchmarks without a GPU: target='cuda' needs" in done.stderr
