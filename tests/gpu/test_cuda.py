"""``CudaDriver`` over a stand-in for ``cuda.bindings.driver`` that does queued work as late as a device may."""

import ctypes
import dataclasses
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.device.thread import stack_size
from jitad.lowering.gpu.host.runtime import depth
from jitad.lowering.gpu.image import Image, Kernel

from jitad.errors import DeviceError
from jitad.gpu import bindings
from jitad.gpu.capture import record
from jitad.gpu.cuda import STAGED, STAGING, CudaDriver
from jitad.gpu.launching import Arguments
from tests.gpu.fake_cuda import CUresult, Device, Violation
from tests.gpu.images import AXPY

KERNEL = AXPY.kernels[0]
PTX = ".target sm_90\n.visible .entry axpy("


def axpy(device: Device, grid: int, status: ctypes.c_uint64, y: ctypes.c_uint64, x: ctypes.c_uint64,
         a: ctypes.c_double, n: ctypes.c_int64) -> None:
    out, given = (np.frombuffer(device._bytes(p, 8 * n), np.float64) for p in (y, x))      # type: ignore[arg-type]
    out += a * given


@pytest.fixture
def cuda() -> Device:
    return Device(kernels={"axpy": axpy})


@pytest.fixture
def driver(cuda: Device) -> Iterator[CudaDriver]:
    made = CudaDriver(bindings.load(lambda: cuda), lambda image, arch: PTX)
    made.debug = False                                     # with JITAD_DEBUG=1 it waits for each kernel
    yield made
    made.release_freed()
    made.synchronize()
    assert not cuda.live, "device memory has not been freed"


def on_device(driver: CudaDriver, x: np.ndarray) -> int:
    address = driver.allocate(x.nbytes)
    driver.upload(address, x)
    return address


def fetched(driver: CudaDriver, address: int, like: np.ndarray) -> np.ndarray:
    out = np.empty_like(like)
    driver.download(out, address)
    return out


def test_a_program(driver: CudaDriver, cuda: Device) -> None:
    """Memory is freed, and the host's array changed, before the device has done the work."""
    assert driver.arch == "sm_90" and driver.name == "Fake H100"
    x, y = np.arange(1000.0), np.ones(1000)
    loaded = driver.load(AXPY)
    assert driver.load(AXPY) is loaded
    px, py = on_device(driver, x), on_device(driver, y)
    x[:] = -1
    driver.launch(loaded, KERNEL, 8, [0, py, px, 2.0, 1000])
    driver.launch(loaded, KERNEL, 0, [0, 0, 0, 1.0, 0])
    driver.free(px)
    copy = driver.allocate(y.nbytes)
    driver.copy(copy, py, y.nbytes)
    driver.fill(py, 0, y.nbytes)
    assert fetched(driver, copy, y).tolist() == (1 + 2 * np.arange(1000.0)).tolist()
    assert not fetched(driver, py, y).any()
    assert cuda.launched == [("axpy", 8, 128, 0)]
    for address in (py, copy, driver.allocate(0)):
        driver.free(address)


def test_uploads_of_every_size(driver: CudaDriver) -> None:
    """Small arrays go through staging memory, which is used again only when the device has read it."""
    sizes = [1, 7, STAGED - 1, STAGED, STAGED + 1, 3 * STAGED] + [STAGED] * (2 * STAGING // STAGED)
    arrays = [np.random.default_rng(i).integers(0, 255, n, np.uint8) for i, n in enumerate(sizes)]
    addresses = []
    for x in arrays:
        given = x.copy()
        addresses.append(on_device(driver, given))
        given[:] = 0
    for x, address in zip(arrays, addresses):
        assert (fetched(driver, address, x) == x).all()
        driver.free(address)


# --- errors ---------------------------------------------------------------------------------------

def absent() -> Any:
    raise ImportError("No module named 'cuda'")


class WithoutLibrary(Device):
    """cuda-python where libcuda is missing."""

    def __getattribute__(self, name: str) -> Any:
        if name == "cuInit":
            raise RuntimeError('"cuda" is an NVIDIA driver library and can only be found via system search.\nmore')
        return super().__getattribute__(name)


def test_what_is_missing_is_named() -> None:
    failing = Device()
    failing.fail["cuInit"] = CUresult.CUDA_ERROR_NO_DEVICE
    for importer, message in ((absent, "cuda-python is not there.*pip install 'jitad\\[cuda\\]'"),
                              (WithoutLibrary, "no NVIDIA driver on this machine.*libcuda"),
                              (lambda: failing, "CUDA_ERROR_NO_DEVICE.*nvidia-smi"),
                              (lambda: Device(devices=0), "CUDA_ERROR_NO_DEVICE.*nvidia-smi")):
        with pytest.raises(DeviceError, match=f"(?s)needs a GPU of NVIDIA: .*{message}") as caught:
            bindings.load(importer)
        assert "cuda-sim" in str(caught.value) and "inspect('ptx'" in str(caught.value)


def test_memory_that_is_exhausted(driver: CudaDriver, cuda: Device) -> None:
    """It is a ``MemoryError`` unless memory becomes free when queued work has ended."""
    first = driver.allocate(cuda.memory - 100)
    with pytest.raises(MemoryError, match="1000 bytes of device memory: CUDA_ERROR_OUT_OF_MEMORY: out of memory"):
        driver.allocate(1000)
    driver.free(first)
    driver.free(driver.allocate(1000))


def test_errors_of_calls(driver: CudaDriver, cuda: Device) -> None:
    loaded, address = driver.load(AXPY), driver.allocate(8)
    cuda.fail["cuLaunchKernel"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(DeviceError, match="(?s)launch of axpy: CUDA_ERROR_INVALID_VALUE: invalid value.*user.py.*7"):
        driver.launch(loaded, KERNEL, 1, [0, address, address, 1.0, 1])
    cuda.fail["cuStreamSynchronize"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceError, match="(?s)in an earlier kernel: CUDA_ERROR_ILLEGAL_ADDRESS.*JITAD_DEBUG=1"):
        driver.synchronize()
    driver.debug, driver._lost = True, None                  # the stand-in has got over it
    cuda.fail["cuStreamSynchronize"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(DeviceError, match='(?s)in the kernel axpy: .*"user.py", line 7, in f.*new process'):
        driver.launch(loaded, KERNEL, 1, [0, address, address, 1.0, 1])
    driver._lost = None
    cuda.fail["cuMemcpyDtoHAsync"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(DeviceError, match="download: CUDA_ERROR_INVALID_VALUE"):
        fetched(driver, address, np.zeros(1))
    driver.free(address)


def test_code_that_the_driver_refuses(cuda: Device) -> None:
    driver = CudaDriver(bindings.load(lambda: cuda), lambda image, arch: PTX.replace("90", "75"))
    with pytest.raises(DeviceError, match="(?s)CUDA_ERROR_INVALID_PTX.*\nptxas application ptx input, line 1"):
        driver.load(AXPY)
    driver = CudaDriver(bindings.load(lambda: cuda), lambda image, arch: PTX)
    with pytest.raises(DeviceError, match="the kernel other: CUDA_ERROR_NOT_FOUND"):
        driver.load(Image("", (Kernel("other", (), 32, KERNEL.loc),)))


def test_the_stand_in_finds_misuse(driver: CudaDriver) -> None:
    with pytest.raises(Violation, match="not allocated"):
        driver.fill(4096, 0, 8)
        driver.synchronize()


# --- arguments, threads, processes ----------------------------------------------------------------

def test_arguments_of_every_type() -> None:
    kinds = ("i8", "f64", "i32", "ptr", "f32", "i1", "i64", "i16")
    types = (ctypes.c_int8, ctypes.c_double, ctypes.c_int32, ctypes.c_uint64, ctypes.c_float, ctypes.c_bool,
             ctypes.c_int64, ctypes.c_int16)
    arguments = Arguments(kinds)

    def read() -> list[Any]:
        pointers = (ctypes.c_void_p * len(kinds)).from_address(arguments.pointer)
        return [t.from_address(p).value for t, p in zip(types, pointers)]
    plain = (-5, 1.5, -7, 2**63 + 8, 0.25, True, -(2**40), 300)
    arguments.fill(plain)
    assert read() == list(plain)
    arguments.fill((200, 1e300, 2**32 - 1, 8, 1e300, np.bool_(False), np.uint64(2**64 - 2), 2**16 - 1))
    assert read() == [-56, 1e300, -1, 8, float("inf"), False, -2, -1]
    Arguments(()).fill(())


def test_images_that_are_not_used_are_unloaded(driver: CudaDriver, cuda: Device) -> None:
    loaded = driver.load(AXPY)
    del loaded
    assert len(cuda.modules) == 1
    driver.synchronize()
    assert not cuda.modules
    driver.load(AXPY)


def test_threads_share_a_device(driver: CudaDriver) -> None:
    loaded, x = driver.load(AXPY), np.arange(100.0)
    wrong: list[Any] = []

    def work(factor: float) -> None:
        try:
            for _ in range(20):
                px, py = on_device(driver, x), on_device(driver, np.zeros(100))
                driver.launch(loaded, KERNEL, 1, [0, py, px, factor, 100])
                driver.free(px)
                assert (fetched(driver, py, x) == factor * x).all()
                driver.free(py)
        except BaseException as error:
            wrong.append(error)
    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


FORK = """
import os
from jitad.errors import DeviceError
from jitad.gpu.cuda import CudaDriver
from tests.gpu.fake_cuda import Device
device = Device()
device.cuInit(0)
driver = CudaDriver(device)
driver.free(driver.allocate(8))
if os.fork() == 0:
    try:
        driver.allocate(8)
    except DeviceError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
driver.free(driver.allocate(8))
"""


@pytest.mark.slow
def test_a_forked_process_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True)
    assert done.returncode == 0 and "multiprocessing's 'spawn'" in done.stdout, done


def test_kernels_with_recursion_get_a_larger_stack(driver: CudaDriver, cuda: Device) -> None:
    driver.load(AXPY)
    assert cuda.stack == 1024
    kernel = dataclasses.replace(KERNEL, stack=1 << 16)
    for _ in range(2):
        driver.load(Image("", (kernel,)))
    assert cuda.stack == 1 << 16 and cuda.calls.count("cuCtxSetLimit") == 1


def test_the_depth_of_recursion_is_an_option(monkeypatch: pytest.MonkeyPatch, driver: CudaDriver) -> None:
    for given, calls in (("", 64), ("256", 256)):
        stack_size.cache_clear()
        monkeypatch.setenv("JITAD_GPU_STACK", given)
        assert depth(driver) == calls and stack_size() == calls << 10
    stack_size.cache_clear()
    monkeypatch.setenv("JITAD_GPU_STACK", "513")
    with pytest.raises(ValueError, match="KiB from 1 to 512"):
        stack_size()
    monkeypatch.undo()
    stack_size.cache_clear()


def test_a_signal_handler_may_use_the_device(driver: CudaDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes in the middle of an upload and of a launch, when their memory is filled but not yet used."""
    loaded, x, other = driver.load(AXPY), np.arange(4.0), np.full(4, 10.0)
    px, py, pz = on_device(driver, x), on_device(driver, np.zeros(4)), on_device(driver, np.zeros(4))

    def handler() -> None:
        po = on_device(driver, other)
        driver.launch(loaded, KERNEL, 1, [0, pz, po, 1.0, 4])
        driver.free(po)

    def interrupted(owner: object, name: str) -> None:
        own = getattr(owner, name)

        def run(*args: Any) -> Any:
            monkeypatch.undo()
            found = own(*args)
            handler()
            return found
        monkeypatch.setattr(owner, name, run)
    interrupted(Arguments, "fill")
    driver.launch(loaded, KERNEL, 1, [0, py, px, 2.0, 4])
    interrupted(ctypes, "memmove")                           # into staging memory
    driver.upload(px, x + 1)
    assert fetched(driver, py, x).tolist() == [0, 2, 4, 6] and fetched(driver, px, x).tolist() == [1, 2, 3, 4]
    assert fetched(driver, pz, x).tolist() == [20, 20, 20, 20]
    for address in (px, py, pz):
        driver.free(address)


def test_a_device_without_a_memory_pool(cuda: Device) -> None:
    cuda.pools = False
    driver = CudaDriver(bindings.load(lambda: cuda), lambda image, arch: PTX)
    address = on_device(driver, np.arange(3.0))
    assert fetched(driver, address, np.zeros(3)).tolist() == [0, 1, 2]
    driver.free(address)
    driver.release_freed()
    assert not cuda.live and "cuMemAllocAsync" not in cuda.calls


def test_streams_of_other_libraries(driver: CudaDriver, cuda: Device) -> None:
    """Their memory is kept until our work is done, and their work is done before ours."""
    class Owner:
        pass
    done: list[str] = []
    theirs = 0x77
    cuda.queues[theirs].append(lambda: done.append("theirs"))
    driver.wait_for(theirs)
    cuda.queues[int(driver.stream)].append(lambda: done.append("ours"))
    driver.waited_for_by(theirs)
    cuda.queues[theirs].append(lambda: done.append("theirs again"))
    owner = Owner()
    driver.keep_until_done(owner)
    assert len(driver._pending) == 1
    cuda._run(theirs)
    assert done == ["theirs", "ours", "theirs again"]
    driver.keep_until_done(Owner())
    assert len(driver._pending) == 1
    driver.synchronize()
    assert not driver._pending
    with pytest.raises(DeviceError, match="the address 0x10"):
        driver.ordinal_of(16)


# --- graphs ---------------------------------------------------------------------------------------

def test_a_graph_is_replayed(driver: CudaDriver, cuda: Device) -> None:
    loaded, y = driver.load(AXPY), on_device(driver, np.zeros(4))
    checked = []

    def step() -> tuple[int, int]:
        result, x = driver.allocate(32), on_device(driver, np.arange(4.0))
        driver.launch(loaded, KERNEL, 1, [0, y, x, 1.0, 4])
        driver.copy(result, y, 32)
        driver.free(x)
        driver.capture.checks.append(lambda: checked.append(1))
        return y, result
    graph = record(driver, step)
    driver.synchronize()
    assert not fetched(driver, y, np.zeros(4)).any()
    launches = cuda.calls.count("cuLaunchKernel")
    for _ in range(3):
        assert graph() == graph.result
    graph.check()
    assert checked == [1] and cuda.calls.count("cuLaunchKernel") == launches
    result = graph.result[1]
    del graph
    assert fetched(driver, y, np.zeros(4)).tolist() == fetched(driver, result, np.zeros(4)).tolist() == [0, 3, 6, 9]
    driver.free(result)
    assert not cuda.graphs
    assert driver.capture is None
    driver.free(y)


def test_what_waits_cannot_be_recorded(driver: CudaDriver, cuda: Device) -> None:
    address = driver.allocate(8)
    for run, what in ((lambda: driver.download(np.zeros(1), address), "reads a result back"),
                      (driver.synchronize, "waits for the device"), (lambda: driver.load(AXPY), "compiles a kernel"),
                      (lambda: record(driver, lambda: None), "recorded already")):
        with pytest.raises(DeviceError, match=what):
            record(driver, lambda run=run: (driver.free(driver.allocate(8)), run()))     # type: ignore[misc]
        driver.synchronize()
        assert driver.capture is None and len(cuda.live) == 1 and not cuda.recording
    driver.free(address)
