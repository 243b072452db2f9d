"""Runs ``CudaDriver`` through cuda-python on the library made of ``fake_libcuda.c`` (``test_bindings``)."""

import gc

import numpy as np

from jitad.errors import DeviceError
from jitad.gpu import bindings
from jitad.gpu.capture import record
from jitad.gpu.cuda import CudaDriver
from tests.gpu.images import AXPY
from tests.gpu.test_cuda import KERNEL, PTX, fetched, on_device


def message(run: object) -> str:
    assert callable(run)
    try:
        run()
    except (DeviceError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("no error")


def main() -> None:
    ptx = [PTX, "nonsense"]
    driver = CudaDriver(bindings.load(), lambda image, arch: ptx[0])
    assert (driver.arch, driver.name) == ("sm_90", "Fake H100")
    loaded, x = driver.load(AXPY), np.arange(4.0)
    px, py = on_device(driver, x), on_device(driver, np.ones(4))
    driver.launch(loaded, KERNEL, 1, [0, py, px, 2.0, 4])
    assert fetched(driver, py, x).tolist() == [1, 3, 5, 7]
    driver.copy(py, px, 32)
    driver.fill(px, 0, 16)
    assert fetched(driver, py, x).tolist() == [0, 1, 2, 3] and fetched(driver, px, x).tolist() == [0, 0, 2, 3]
    driver._need_stack(4096)
    assert driver._call("cuCtxGetLimit", driver.cuda.CUlimit.CU_LIMIT_STACK_SIZE) == 4096
    driver.wait_for(9)
    driver.waited_for_by(7)
    driver.keep_until_done(object())
    assert driver.ordinal_of(px) == 0
    record(driver, lambda: driver.upload(px, np.array([0.0, 0, 2, 3])))      # from pinned memory, freed with the graph
    graph = record(driver, lambda: driver.launch(driver.load(AXPY), KERNEL, 1, [0, py, px, 1.0, 4]))
    graph()
    graph()
    graph.check()
    assert fetched(driver, py, x).tolist() == [0, 1, 6, 9]
    assert message(lambda: driver.allocate(1 << 30)).startswith("MemoryError: 1073741824 bytes of device memory")
    assert "the address 0x10" in message(lambda: driver.ordinal_of(16))
    del loaded, graph, ptx[0]
    gc.collect()
    driver.synchronize()
    assert "CUDA_ERROR_INVALID_PTX: told by the stand-in\nline 1; fatal: no axpy" in message(lambda: driver.load(AXPY))


if __name__ == "__main__":
    main()
