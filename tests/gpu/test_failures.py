"""Messages to the user when a device fails: no memory, an access that no check has found, a device that is lost."""

import gc
import math
import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest

import jitad
from jitad import DeviceError, gpu, jit, vmap
from jitad.gpu.cuda import CudaDriver
from tests.gpu import simulated_cuda
from tests.gpu.simulated_cuda import SimulatedCuda

pytestmark = pytest.mark.any_level

fails = pytest.mark.skipif(simulated_cuda.REAL, reason="failures of a stand-in for a device")
X = np.linspace(-1.0, 2.0, 300)


def gathered(x: Any, i: Any) -> Any:
    y = 2 * x
    return vmap(lambda k: y[k])(i)


@fails
def test_memory_that_is_exhausted_and_comes_back() -> None:
    """Arrays in reference cycles, and what is kept for later calls, give their memory back first."""
    with simulated_cuda.device(1 << 22) as driver:
        f = jit(lambda x: np.exp(x) + 1, target="cuda")
        assert np.allclose(f(X).numpy(), np.exp(X) + 1)
        with pytest.raises(MemoryError, match="4800000 bytes of device memory: CUDA_ERROR_OUT_OF_MEMORY"):
            f(np.zeros(600_000))
        cycle: list[Any] = [gpu.empty((400_000,))]
        cycle.append(cycle)
        del cycle
        assert f(np.zeros(200_000)).numpy()[0] == 2.0         # which need the memory of the cycle
        kept = [gpu.empty((4000,)) for _ in range(100)]
        del kept                                             # 32 KiB each: kept by the driver
        assert f(np.zeros(200_000)).numpy()[0] == 2.0
        assert isinstance(driver, CudaDriver)
        driver.release_freed()
        driver.synchronize()
        assert isinstance(driver.cuda, SimulatedCuda) and not driver.cuda.live


@fails
@pytest.mark.parametrize("debug", [False, True])
def test_a_device_that_is_lost(debug: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """The first error tells what happened, with the line under JITAD_DEBUG; later ones repeat it; nothing is printed
    when arrays are collected."""
    with simulated_cuda.device() as driver:
        assert isinstance(driver, CudaDriver) and isinstance(driver.cuda, SimulatedCuda)
        driver.debug = debug
        f, x = jit(gathered, target="cuda", boundscheck=False), cast(Any, gpu.asarray(X, "cuda"))
        f(x, np.array([0, 2]))
        driver.cuda.faulty |= {name for name in driver.cuda.known if "loop" in name or "nest_1" in name}
        assert driver.cuda.faulty
        with pytest.raises(DeviceError) as caught:
            f(x, np.array([0, 10 ** 9])).numpy()
        first = str(caught.value)
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first and "start a new process" in first
        assert ("in the kernel gathered_" in first and "vmap(lambda k: y[k])(i)" in first) == debug
        assert ("in an earlier kernel" in first and "JITAD_DEBUG=1" in first) == (not debug)
        uses: list[Any] = [lambda: f(x, np.array([0, 1])), x.numpy, lambda: gpu.asarray(X, "cuda"), gpu.synchronize,
                           lambda: repr(x), lambda: x + 1, lambda: gpu.graph(lambda: x)]
        for use in uses:
            with pytest.raises(DeviceError, match="(?s)cannot be used since an earlier failure: .*ILLEGAL") as told:
                use()
            assert ("vmap(lambda k: y[k])(i)" in str(told.value)) == debug
        del uses, use, caught, told
        x = None
        gc.collect()
    assert capsys.readouterr().err == ""
    assert jit(gathered)(X, np.array([0, 1]))[0] == -2.0     # the processor goes on


@fails
def test_an_error_found_by_a_later_launch_names_no_line_of_another_kernel() -> None:
    with simulated_cuda.device() as driver:
        assert isinstance(driver, CudaDriver) and isinstance(driver.cuda, SimulatedCuda)
        f, x = jit(lambda x: x + 1, target="cuda"), gpu.asarray(X, "cuda")
        f(x)
        driver.cuda.fail["cuLaunchKernel"] = simulated_cuda.ILLEGAL_ADDRESS
        with pytest.raises(DeviceError, match="(?s)^in an earlier kernel: CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
            f(x)
        assert "test_failures.py" not in str(caught.value)


AT_EXIT = """
import sys
from jitad import gpu, jit
import numpy as np
from jitad.gpu import drivers
from tests.gpu.simulated_cuda import SimulatedCuda
from jitad.gpu import bindings
from jitad.gpu.cuda import CudaDriver
fake = SimulatedCuda()
drivers._makers["cuda"] = lambda: CudaDriver(bindings.load(lambda: fake), fake.compile)
x = gpu.asarray(np.ones(3), "cuda")
f = jit(lambda x: x + 1, target="cuda")
y = f(x)
graph = gpu.graph(f, x)
class Last:                                              # what is left when the modules have been emptied
    def __init__(self, *kept):
        self.kept = kept
    def __del__(self, names=vars(sys.modules["jitad.gpu.cuda"])):
        names.update(dict.fromkeys(names))
        del self.kept
np.last = Last(f(x), fake, jit(lambda x: x + 1, target="cuda-sim")(np.ones(3)), gpu.asarray(np.ones(3), "cuda-sim"))
print(graph().numpy())
"""


@pytest.mark.slow
def test_a_process_ends_without_a_word() -> None:
    """Arrays, graphs and code that are left at the end are not freed one by one, through modules that are gone."""
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2. 2. 2.]\n", "")


def test_kernels_after_a_failure_do_nothing(target: str) -> None:
    """A kernel that relies on a check which has failed is not run: the error is that of the check."""
    def chained(x: Any, i: Any) -> Any:
        j = vmap(lambda k: i[k] * 2)(i)                      # raises if an index is out of bounds
        return vmap(lambda k: x[k])(j)
    f = jit(chained, target=target)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 2"):
            f(X, np.array([1, 7]))
        assert np.array_equal(f(X, np.array([1, 0])).numpy(), X[[0, 2]])
    assert jitad.DeviceError.__mro__[1] is jitad.JitadError


# --- what a failed kernel leaves ----------------------------------------------------------------------

def roots(x: float, p: Any) -> Any:
    """Reads behind the end of ``part`` in a kernel; the host uses the sizes and the stack that the kernel has left."""
    u = p * x
    some = ((np.arange(3) > 3) ^ (np.arange(3) > 0)) ^ ((np.arange(3) > 3) & (x > 0.75))
    zero = (np.zeros((2, 3)) * np.array([0.5, -0.25, 1.5])).max(axis=0)
    weights = np.where((some ^ some) & (x < 0.05), zero, np.where(some ^ some, np.array([0.5, -0.25, 1.5]), 0.5)) * 1.0
    v = np.correlate(u, weights[::-1], "full")[:len(u)]
    w = (np.correlate(u[::-1], weights[::-1], "full")[:len(u)])[:len(v)]
    part = v[:len(v) // 3] * 0.5
    out = np.zeros(40)
    for i in range(40):
        t = part[i] * 2.0
        first = part[i]
        while t > 0.1:
            t = math.sin(t) * 0.9 - 0.01
        out[i] = t + first
    s = (np.cos(np.arange(len(out)) + 0.4) * out).sum()
    return float(s) + 0.0 * np.tanh((v * p[::-1]).sum() + w.sum())


@pytest.mark.slow
def test_a_failed_kernel_explains_what_the_host_makes_of_its_results() -> None:
    f = jit(roots, target="cuda-sim", grad=(0, 1))
    with pytest.raises(IndexError, match="index 1 is out of bounds for axis 0 with size 1"):
        f.value_and_grad(-0.8367, np.array([-1.18559599, -0.13853044, 1.11148252]))
