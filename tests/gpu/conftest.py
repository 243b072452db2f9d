"""Targets of the tests: the simulator, and NVIDIA's driver, which is a stand-in unless there is a device to test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from jitad.gpu.cuda import CudaDriver
from jitad.gpu.drivers import using
from jitad.gpu.recording import RecordingDriver
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu import simulated_cuda


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
        cuda.synchronize()
        if isinstance(cuda.cuda, simulated_cuda.SimulatedCuda):
            assert not cuda.cuda.live, "memory of the device has not been freed"


@pytest.fixture
def cuda() -> Iterator[CudaDriver]:
    """The driver of ``target="cuda"``."""
    with simulated_cuda.device() as driver:
        assert isinstance(driver, CudaDriver)
        yield driver
