"""The SIMT simulator: kernels written by hand give NumPy's numbers, and each planted bug is found and told."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.image import Image
from jitad.lowering.simulator.memory import Memory
from jitad.lowering.simulator.rewrite import prepared
from jitad.lowering.simulator.types import Types

from jitad.errors import CompileError, DeviceError
from jitad.gpu.simulated import SimulatedDriver

from . import kernels
from .kernels import image

MODES = [(False, None), (True, None), (True, 5), (False, 6)]


class Device:
    """A simulated device with arrays: NumPy arrays of launches are copied there and back."""

    def __init__(self, checked: bool = True, order: int | None = None) -> None:
        self.driver = SimulatedDriver(checked, order)

    def put(self, array: np.ndarray) -> int:
        address = self.driver.allocate(array.nbytes)
        self.driver.upload(address, array)
        return address

    def run(self, code: Image, grid: int, *args: Any, shared: int = 0) -> None:
        loaded = self.driver.load(code)
        addresses = [self.put(a) if isinstance(a, np.ndarray) else a for a in args]
        self.driver.launch(loaded, code.kernels[0], grid, addresses, shared)
        for a, address in zip(args, addresses):
            if isinstance(a, np.ndarray):
                self.driver.download(a, address)
                self.driver.free(address)
        assert self.driver.memory.count == 0


def text(error: pytest.ExceptionInfo[Any]) -> str:
    return str(error.value)


# --- numbers --------------------------------------------------------------------------------------

@pytest.mark.parametrize("checked, order", MODES)
def test_programs(checked: bool, order: int | None) -> None:
    device, random = Device(checked, order), np.random.default_rng(1)
    x, y = random.normal(size=(2, 300))
    z = np.zeros(300)
    device.run(image(kernels.ADD, "ptr x, ptr y, ptr z, i64 size"), 5, x, y, z, 300)
    np.testing.assert_array_equal(z, x + np.sin(y))

    x, out = random.normal(size=4 * 96), np.zeros(1)
    device.run(image(kernels.SUM, "ptr x, ptr out", 96, kernels.TILE), 4, x, out)
    np.testing.assert_allclose(out[0], x.sum(), rtol=1e-13)

    x, z = random.normal(size=(16, 24)), np.zeros((24, 16))
    device.run(image(kernels.TRANSPOSE, "ptr x, ptr z, i64 rows, i64 columns", 64, kernels.TILE), 6, x, z, 16, 24)
    np.testing.assert_array_equal(z, x.T)

    x, out = random.integers(0, 16, 320, np.int8), np.zeros(16, np.int32)
    device.run(image(kernels.HISTOGRAM, "ptr x, ptr out", 64, kernels.TILE + kernels.BINS), 5, x, out)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=16))

    x, z = random.integers(-9, 9, (3, 40)), np.zeros((3, 40), np.int64)
    device.run(image(kernels.SCAN, "ptr x, ptr z", 40, kernels.DYNAMIC), 3, x, z, shared=320)
    np.testing.assert_array_equal(z, x.cumsum(1))

    x, z = random.integers(0, 9, (4, 32)).astype(np.float32), np.zeros((4, 32), np.float32)
    masks, neighbours = np.zeros((4, 32), np.uint32), np.zeros((4, 32), np.int64)
    device.run(image(kernels.WARPS, "ptr x, ptr z, ptr masks, ptr neighbours"), 2, x, z, masks, neighbours)
    np.testing.assert_array_equal(z, np.repeat(x.sum(1, keepdims=True) ** 2, 32, 1))
    np.testing.assert_array_equal(masks, 0x22222222)
    np.testing.assert_array_equal(neighbours, np.arange(128).reshape(4, 32) + (np.arange(32) < 31))


def test_sizes_at_the_edge() -> None:
    device = Device()
    z = np.zeros(1)
    add = image(kernels.ADD, "ptr x, ptr y, ptr z, i64 size", block=1)
    device.run(add, 1, np.ones(1), np.zeros(1), z, 1)
    assert z[0] == 1
    device.run(add, 0, np.ones(1), np.zeros(1), z, 1)                   # no blocks: nothing runs
    x, out = np.ones(1024), np.zeros(1)
    device.run(image(kernels.SUM, "ptr x, ptr out", 1024, kernels.TILE), 1, x, out)
    assert out[0] == 1024


# --- planted bugs ---------------------------------------------------------------------------------

def test_a_missing_barrier_is_a_race_in_shared_memory() -> None:
    body = kernels.TRANSPOSE.replace("  call void @gpu.barrier()\n", "")
    code = image(body, "ptr x, ptr z, i64 rows, i64 columns", 64, kernels.TILE)
    with pytest.raises(DeviceError) as error:
        Device().run(code, 1, np.ones((8, 8)), np.ones((8, 8)), 8, 8)
    assert text(error).startswith(
        "data race in the kernel kernel: thread 8 of block 0 writes 8 bytes at the shared array tile (512 bytes) + 64, "
        "which thread 1 of block 0 has read without a barrier in between, at model.py:6\n"
        '  File "model.py", line 4')
    # Without the check, the numbers are wrong: shared memory is NaN at first.
    z = np.ones((8, 8))
    Device(checked=False).run(code, 1, np.ones((8, 8)), z, 8, 8)
    assert np.isnan(z).any()


def test_a_missing_barrier_between_two_steps_of_a_loop() -> None:
    body = kernels.SCAN.replace("  call void @gpu.barrier()  ; 9\n", "")
    code = image(body, "ptr x, ptr z", 64, kernels.DYNAMIC)
    for order in (None, 1, 2):
        with pytest.raises(DeviceError, match="data race in the kernel kernel: .* the shared array dynamic"):
            Device(order=order).run(code, 1, np.arange(64), np.arange(64), shared=512)


DIVERGENT = """
  %upper = icmp uge i32 %t, 40
  br i1 %upper, label %one, label %other
one:
  call void @gpu.barrier()  ; 3
  ret void
other:
  {other}
  ret void"""


@pytest.mark.parametrize("checked", [False, True])
def test_a_barrier_in_a_divergent_branch(checked: bool) -> None:
    with pytest.raises(DeviceError) as error:
        Device(checked).run(image(DIVERGENT.format(other="call void @gpu.barrier()  ; 6"), ""), 2)
    assert text(error).startswith(
        "not all threads of a block take part in a barrier in the kernel kernel, block 0: threads 0–39 are at the "
        "barrier at model.py:6, threads 40–63 are at the barrier at model.py:3\n")
    with pytest.raises(DeviceError, match="block 0: threads 0–39 have returned, threads 40–63 are at the barrier"):
        Device(checked).run(image(DIVERGENT.format(other=""), ""), 2)
    both = image(DIVERGENT.format(other="%x = call i32 @gpu.ballot(i1 true)"), "")
    with pytest.raises(DeviceError, match="not all 32 lanes .*: threads 32–39 are at the exchange at `%x = call i32 "
                                          "@gpu.ballot.i1 true.` in @kernel, threads 40–63 are at the barrier at mod"):
        Device(checked).run(both, 1)


def test_a_shuffle_with_absent_lanes() -> None:
    body = "\n  %s = call i64 @gpu.shuffle_down.i64(i64 %i64, i32 1)  ; 2\n  ret void"
    with pytest.raises(DeviceError) as error:
        Device().run(image(body, "", block=48), 1)
    assert text(error).startswith("not all 32 lanes of a warp take part in a shuffle or ballot; the warp has 16 lanes "
                                  "only in the kernel kernel, block 0: threads 32–47 are at the exchange at model.py:2")
    assert "Instead: call it where all lanes pass" in text(error)
    Device().run(image(body, "", block=64), 1)
    early = "\n  %odd = trunc i32 %t to i1\n  br i1 %odd, label %out, label %in\nout:\n  ret void\nin:" + body
    with pytest.raises(DeviceError, match="threads 0, 2, 4, 6 and 12 more are at the exchange at model.py:2, threads "
                                          "1, 3, 5, 7 and 12 more have returned"):
        Device().run(image(early, "", block=32), 1)


ALL_WRITE = """
  %pz = element double %z, {index}
  store double 1.0, ptr %pz, align 8  ; 2
  ret void"""


def test_races_in_device_memory() -> None:
    between = image(ALL_WRITE.format(index="%t64"), "ptr z", 4)
    with pytest.raises(DeviceError) as error:
        Device().run(between, 3, np.zeros(4))
    assert text(error).startswith(
        "data race in the kernel kernel: thread 0 of block 1 writes 8 bytes at the array of argument 0 (32 bytes) + 0, "
        "which thread 0 of block 0 has written in the same launch, at model.py:2\n")
    with pytest.raises(DeviceError, match="thread 1 of block 0 writes .*which thread 0 of block 0 has written without"):
        Device().run(image(ALL_WRITE.format(index="0"), "ptr z", 4), 1, np.zeros(4))
    Device().run(between, 1, np.zeros(4))
    Device().run(image(ALL_WRITE.format(index="%i64"), "ptr z", 4), 3, np.zeros(12))


READ_WRITE = """
  %pz = element {of} %z, {read}
  {first}
  {between}
  %pw = element {of} %z, {write}
  {second}
  ret void"""


def accesses(first: str, second: str, between: str = "", read: str = "0", write: str = "0", of: str = "i64") -> Image:
    def access(kind: str, pointer: str, name: str) -> str:
        return {"read": f"%{name} = load {of}, ptr {pointer}", "write": f"store {of} 1, ptr {pointer}",
                "atomic": f"%{name} = atomicrmw add ptr {pointer}, {of} 1 monotonic",
                "wide": f"%{name} = load i64, ptr {pointer}, align 8",
                "load": f"%{name} = load atomic {of}, ptr {pointer} monotonic, align 8", "": ""}[kind]
    return image(READ_WRITE.format(of=of, read=read, write=write, between=between, first=access(first, "%pz", "x"),
                                   second=access(second, "%pw", "y")), "ptr z", 32)


BARRIER = "call void @gpu.barrier()"


@pytest.mark.parametrize("code, grid, races", [
    (accesses("read", "read"), 2, False),
    (accesses("atomic", "atomic"), 2, False),
    (accesses("atomic", "load"), 2, False),
    (accesses("atomic", "read"), 1, True),
    (accesses("atomic", "read", BARRIER), 1, False),
    (accesses("atomic", "read", BARRIER), 2, True),                     # blocks do not wait for each other
    (accesses("read", "write", read="%t64", write="%t64"), 1, False),
    (accesses("read", "write", BARRIER, read="0", write="%t64"), 1, False),
    (accesses("read", "write", read="0", write="%t64"), 1, True),
    (accesses("write", "read", BARRIER, read="%t64", write="0"), 1, False),
    (accesses("write", "read", BARRIER, read="%t64", write="0"), 2, True),
    (accesses("write", "atomic", read="%t64", write="%t64"), 1, False),
    (accesses("write", "write", read="%t64", write="%t64", of="i8"), 1, False),   # neighbours in one word
    (accesses("write", "read", read="%t64", write="0", of="i8"), 1, True),
    (accesses("write", "wide", read="%t64", write="0", of="i8"), 1, True),        # bytes, and a word of them
    (accesses("wide", "write", read="0", write="%t64", of="i8"), 1, True),
    (accesses("write", "wide", BARRIER, read="%t64", write="0", of="i8"), 1, False),
], ids=range(17))
def test_which_accesses_conflict(code: Image, grid: int, races: bool) -> None:
    for order in (None, 3):
        try:
            Device(order=order).run(code, grid, np.zeros(64, np.int64))
            found = False
        except DeviceError as error:
            found = "data race" in str(error)
        assert found == races


def test_earlier_readers_of_other_blocks_are_not_forgotten() -> None:
    body = """
  %pz = element i64 %z, 0
  %x = load i64, ptr %pz, align 8
  call void @gpu.barrier()
  %last = icmp eq i32 %i, 66
  br i1 %last, label %write, label %done
write:
  store i64 1, ptr %pz, align 8
  br label %done
done:
  ret void"""
    with pytest.raises(DeviceError, match="thread 2 of block 2 writes .* which thread 31 of block 1 has read in"):
        Device().run(image(body, "ptr z", 32), 3, np.zeros(1, np.int64))
    only = image(body.replace("i32 %i, 66", "i32 %i, 2"), "ptr z", 32)
    Device().run(only, 1, np.zeros(1, np.int64))


@pytest.mark.slow
def test_launches_are_in_order() -> None:
    device = Device()
    code = image(ALL_WRITE.format(index="%t64"), "ptr z", 4)
    loaded, z = device.driver.load(code), device.put(np.zeros(4))
    for _ in range(5000):                                               # the numbers of launches begin anew
        device.driver.launch(loaded, code.kernels[0], 1, [z])
    with pytest.raises(DeviceError, match="data race"):
        device.driver.launch(loaded, code.kernels[0], 2, [z])


def test_accesses_out_of_bounds_and_after_free() -> None:
    code = image(kernels.ADD.replace("%inside = icmp slt i64 %i64, %size", "%inside = icmp sle i64 %i64, %size"),
                 "ptr x, ptr y, ptr z, i64 size")
    with pytest.raises(DeviceError) as error:
        Device().run(code, 1, np.ones(51), np.ones(51), np.ones(50), 50)
    assert text(error) == ("access out of bounds in the kernel kernel: thread 50 of block 0 writes 8 bytes at the "
                           "array of argument 2 (400 bytes) + 400, at model.py:7\n  File \"model.py\", line 7")
    with pytest.raises(DeviceError, match="not the device's"):
        Device().run(image(ALL_WRITE.format(index="-1"), "ptr z"), 1, np.zeros(1, np.int8))

    device = Device()
    code = image(ALL_WRITE.format(index="%t64"), "ptr z", 4)
    loaded, z = device.driver.load(code), device.put(np.zeros(4))
    device.driver.free(z)
    again = device.put(np.zeros(4))
    assert again != z
    with pytest.raises(DeviceError, match="use after free in the kernel kernel: thread 0 of block 0 writes 8 bytes at "
                                          "the array of argument 0 .32 bytes. . 0, at model.py:2"):
        device.driver.launch(loaded, code.kernels[0], 1, [z])
    host = np.zeros(4)
    with pytest.raises(DeviceError, match="access to memory that is not the device's in the kernel kernel: .*0x"):
        device.driver.launch(loaded, code.kernels[0], 1, [host.ctypes.data])
    device.driver.adopt(host.ctypes.data, host.nbytes)
    device.driver.adopt(host.ctypes.data, 8)                            # a part of it
    device.driver.launch(loaded, code.kernels[0], 1, [host.ctypes.data])
    assert host.sum() == 4
    device.driver.disown(host.ctypes.data)
    with pytest.raises(DeviceError, match="not the device's"):
        device.driver.launch(loaded, code.kernels[0], 1, [host.ctypes.data])

    shared = "\n  %p = element double @tile, {}\n  store double 1.0, ptr addrspace(3) %p, align 8  ; 2\n  ret void"
    with pytest.raises(DeviceError, match="writes 8 bytes at the shared array tile .512 bytes. . 512, at model.py:2"):
        Device().run(image(shared.format(64), "", 1, kernels.TILE + kernels.BINS), 1)
    with pytest.raises(DeviceError, match="write to a constant"):
        Device().run(image("\n  store i64 1, ptr @table\n  ret void", "", 1, "@table = private constant i64 3\n"), 1)
    copy = "\n  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %z, ptr align 8 %x, i64 %size, i1 false)\n  ret void"
    with pytest.raises(DeviceError, match="reads 24 bytes at the array of argument 1 .16 bytes. . 0"):
        Device().run(image(copy, "ptr z, ptr x, i64 size", 1), 1, np.zeros(3), np.zeros(2), 24)


def test_the_checks_of_the_printer_are_obeyed() -> None:
    code = image("\n  call void @gpu.write(ptr %z, i32 16)\n"
                 "  call void @gpu.read_shared(ptr addrspace(3) @tile, i32 8)\n  ret void",
                 "ptr z", 1, "declare void @gpu.write(ptr, i32)\n"
                 "declare void @gpu.read_shared(ptr addrspace(3), i32)\n" + kernels.TILE)
    Device().run(code, 1, np.zeros(2))
    Device(checked=False).run(code, 1, np.zeros(1))
    with pytest.raises(DeviceError, match="writes 16 bytes at the array of argument 0 .8 bytes. . 0"):
        Device().run(code, 1, np.zeros(1))


# --- the process survives -------------------------------------------------------------------------

@pytest.mark.parametrize("waits", [False, True])
def test_deep_recursion(waits: bool) -> None:
    body = kernels.DEPTH.replace("%d = call", BARRIER + "\n  %d = call") if waits else kernels.DEPTH
    code, z = image(body, "ptr z, i64 k", 32, kernels.RECURSIVE), np.zeros(32, np.int64)
    expected = 0
    for _ in range(200):
        expected = (3 * expected + 1) & 65535
    Device().run(code, 1, z, 200)
    assert (z == expected).all()
    for checked in (False, True):
        with pytest.raises(RecursionError, match="maximum recursion depth exceeded in the kernel kernel, thread 0 of"):
            Device(checked).run(code, 1, z, 10**7)


ENDLESS = """
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %k.next = add i64 %k, {step}
  {between}
  %zero = icmp eq i64 %k.next, 1
  br i1 %zero, label %done, label %loop
done:
  ret void"""


@pytest.mark.parametrize("between", ["", BARRIER])
def test_an_endless_kernel_can_be_interrupted(between: str) -> None:
    code = image(ENDLESS.format(step=2, between=between), "", 32)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)  # SIGINT may be ignored: in ``make test &``
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            Device().run(code, 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    Device().run(image(ENDLESS.format(step=1, between=between), "", 32), 1)      # all is well afterwards


def test_other_python_threads_run_during_a_launch_and_launch() -> None:
    code = image(kernels.SUM, "ptr x, ptr out", 96, kernels.TILE)
    driver = SimulatedDriver(checked=True)
    loaded, results = driver.load(code), []
    own = [driver.load(code) for _ in range(2)]

    def work(k: int) -> None:
        x = driver.allocate(8 * 960)
        out = driver.allocate(8)
        for _ in range(5):
            driver.upload(x, np.full(960, float(k)))
            driver.upload(out, np.zeros(1))
            for module in (loaded, own[k % 2]):
                driver.launch(module, code.kernels[0], 10, [x, out])
            found = np.zeros(1)
            driver.download(found, out)
            results.append(found[0] == 2 * 960 * k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 20 and all(results)


def test_a_signal_handler_runs_during_a_launch() -> None:
    code, seen = image(ENDLESS.format(step=2, between=BARRIER), "", 32), []

    def handler(number: int, frame: object) -> None:
        seen.append(number)
        if len(seen) == 2:
            raise OSError("enough")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        with pytest.raises(OSError, match="enough"):
            Device().run(code, 1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen == [signal.SIGALRM] * 2


# --- launches, memory -----------------------------------------------------------------------------

def test_launches_that_no_device_accepts() -> None:
    device = Device()
    code = image(ALL_WRITE.format(index="%t64"), "ptr z", 4)
    loaded, kernel = device.driver.load(code), code.kernels[0]
    other = image("\n  ret void", "", 2000, name="other")
    for grid, args, shared, why in ((1, [], 0, "0 arguments for 1 parameters"),
                                    (-1, [0], 0, "a grid cannot have -1 blocks"),
                                    (1, [0], 1 << 20, "1048576 bytes of shared memory, and a block has 232448")):
        with pytest.raises(DeviceError, match=why):
            device.driver.launch(loaded, kernel, grid, args, shared)
    with pytest.raises(DeviceError, match="the image does not have it"):
        device.driver.launch(loaded, other.kernels[0], 1, [])
    with pytest.raises(DeviceError, match="a block cannot have 2000 threads"):
        device.driver.launch(device.driver.load(other), other.kernels[0], 1, [])
    with pytest.raises(CompileError, match="does not define its kernel"):
        device.driver.load(Image(code.text, other.kernels))
    with pytest.raises(CompileError, match="libm has no function nonsense"):
        device.driver.load(image("\n  ret void", "", 2, "declare double @gpu.nonsense.f64(double)\n"))


@pytest.mark.parametrize("checked", [False, True])
def test_each_kernel_has_the_shared_memory_that_it_reaches(checked: bool) -> None:
    """All kernels of an image have more together than a block may have: seven have 40,000 bytes each."""
    store = """
  %z64 = zext i32 %t to i64
  %p = element double @{array}, %z64
  store double {value}, ptr addrspace(3) %p, align 8
  %q = element double @both, %z64
  store double {value}, ptr addrspace(3) %q, align 8
  %v = load double, ptr addrspace(3) %p, align 8
  %pz = element double %z, %i64
  store double %v, ptr %pz, align 8
  ret void"""
    arrays = "@both = internal addrspace(3) global [64 x double] undef\n" + "".join(
        f"@array{k} = internal addrspace(3) global [5000 x double] undef\n" for k in range(7))
    made = [image(store.format(array=f"array{k}", value=f"{k}.0"), "ptr z", 4, name=f"kernel{k}") for k in range(7)]
    text = kernels.DECLARATIONS + arrays + "".join(x.text.removeprefix(kernels.DECLARATIONS) for x in made)
    device = Device(checked)
    loaded = device.driver.load(Image(text, tuple(k for x in made for k in x.kernels)))
    z, found = device.put(np.zeros(4)), np.empty(4)
    for k, x in enumerate(made):
        device.driver.launch(loaded, x.kernels[0], 1, [z])
        device.driver.download(found, z)
        assert found.tolist() == [k] * 4
    large = "@large = internal addrspace(3) global [7000 x double] undef\n"
    code = image(store.format(array="large", value="1.0").replace("@both", "@large"), "ptr z", 4, large)
    with pytest.raises(DeviceError, match="56000 bytes of shared arrays, and a kernel may have 49152"):
        device.driver.launch(device.driver.load(code), code.kernels[0], 1, [z])


@pytest.mark.parametrize("checked", [False, True])
def test_device_memory(checked: bool) -> None:
    driver = SimulatedDriver(checked, size=1 << 20)
    random, live = np.random.default_rng(2), dict[int, int]()
    for _ in range(2000):
        if live and random.random() < 0.5:
            address = list(live)[random.integers(len(live))]
            size = live.pop(address)
            found = np.zeros(size, np.uint8)
            driver.download(found, address)
            assert (found == address // 256 % 251).all()
            driver.free(address)
        else:
            size = int(random.integers(0, 20_000))
            try:
                address = driver.allocate(size)
            except MemoryError:
                assert driver.memory.used > 300_000                     # fragments and distances are the rest
                continue
            assert address % 256 == 0
            driver.fill(address, address // 256 % 251, size)
            live[address] = size
    for address in live:
        driver.free(address)
    assert driver.memory.count == 0
    whole = driver.allocate((1 << 20) - 4096)                           # freed neighbours are one piece again
    start = np.zeros(2)
    driver.download(start, whole)
    assert np.isnan(start).all()
    with pytest.raises(MemoryError, match="8192 bytes of device memory are not free"):
        driver.allocate(8192)
    driver.free(whole)
    with pytest.raises(DeviceError, match="it is not allocated, or has been freed"):
        driver.free(whole)
    with pytest.raises(DeviceError, match="download: 16 bytes at 0x[0-9a-f]+ are not allocated"):
        driver.download(start, whole)


def test_sizes_of_types() -> None:
    types = Types(["%pair = type { i8, double }"])
    sizes = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "ptr addrspace(1)": 8, "[3 x [2 x float]]": 24,
             "<4 x double>": 32, "<9 x i1>": 2, "{ i8, i32, i8 }": 12, "<{ i8, i32 }>": 5, "[2 x %pair]": 32}
    assert {t: types.size(t) for t in sizes} == sizes


def test_text_as_it_is_prepared() -> None:
    code = image("\n  %p = getelementptr { i64, i64 }, ptr %z, i64 0, i32 1\n  store <2 x double> <double 1.0, "
                 "double 2.0>, ptr %p, align 16  ; 4\n  ret void", "ptr z", 1)
    parts = prepared(code.text, True)
    assert "  call void @gpu.check.write(i32 0, ptr %p, i64 16)\n  store <2 x double>" in parts.text
    assert str(parts.sites[0].loc) == "model.py:4" and parts.parameters == {"kernel": ["ptr"]}
    loop = prepared(image(ENDLESS.format(step=1, between=BARRIER), "").text, False)
    assert "[ %k.next, %loop ]\n  call void @gpu.poll()\n  %k.next" in loop.text
    assert "call void @gpu.at.barrier(i32 0)" in loop.text and loop.collective == {"kernel"}


def test_quick() -> None:
    """50 blocks of 256 threads that meet six times: 12 ms on an EPYC, and never 50."""
    code, x, out = image(kernels.SUM, "ptr x, ptr out", 256, kernels.TILE), np.ones(256 * 50), np.zeros(1)
    device = Device(checked=False)
    loaded, addresses = device.driver.load(code), [device.put(x), device.put(out)]
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        device.driver.launch(loaded, code.kernels[0], 50, addresses)
        best = min(best, time.thread_time() - start)
    assert best < 0.05


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_process_with_several_devices_forks() -> None:
    """Their memories, each as large as the machine's, are not counted when a child gets its copy."""
    devices = [Memory() for _ in range(4)]
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and devices
