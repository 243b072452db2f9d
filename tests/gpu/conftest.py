"""Targets of the tests: the simulator, and NVIDIA's driver, which is a stand-in unless there is a device to test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from jitad.errors import DeviceError
from jitad.gpu.cuda import CudaDriver
from jitad.gpu.drivers import driver_of, using
from jitad.gpu.recording import RecordingDriver
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu import simulated_cuda


def pytest_configure() -> None:
    """Ends the run if it is for a device, and there is none."""
    if simulated_cuda.REAL:
        try:
            driver_of("cuda")
        except DeviceError as error:
            pytest.exit(f"JITAD_TEST_DEVICE=1: {error}", 1)


@pytest.fixture(params=["cuda-sim", "cuda"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each target; after the test nothing is left in the memory of a stand-in."""
    if request.param == "cuda-sim":
        driver = RecordingDriver(SimulatedDriver())
        with using("cuda-sim", driver):
            yield "cuda-sim"
            gc.collect()
        driver.finish()
        return
    with simulated_cuda.device() as cuda:
        yield "cuda"
        assert isinstance(cuda, CudaDriver)
        gc.collect()
        cuda.release_freed()
        cuda.synchronize()
        if isinstance(cuda.cuda, simulated_cuda.SimulatedCuda):
            assert not cuda.cuda.live, "memory of the device has not been freed"


@pytest.fixture
def cuda() -> Iterator[CudaDriver]:
    """The driver of ``target="cuda"``."""
    with simulated_cuda.device() as driver:
        assert isinstance(driver, CudaDriver)
        yield driver
