"""The driver of NVIDIA's GPUs.

The device is the first one that CUDA shows (``CUDA_VISIBLE_DEVICES`` orders them).  The context is the *primary* one,
which PyTorch, CuPy and JAX use too.  All work is queued on one stream, which also waits for, and is waited for by, the
work on the legacy default stream, where these libraries queue theirs unless they are told otherwise.  Memory comes from
the device's pool, ordered by the stream: memory that is freed while kernels still use it is reused after them.

With ``JITAD_DEBUG=1`` when the device is first used, each launch waits for its kernel, so that an error is reported
with the user's line.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DeviceError, Loc, switched_on
from ..lowering.gpu.driver import Product
from ..lowering.gpu.host.runtime import release_idle
from ..lowering.gpu.image import Image, Kernel
from ..lowering.gpu.ptx import to_ptx
from . import bindings, cublas
from .launching import Arguments

STAGED = 64 << 10
"""The largest array, in bytes, that is uploaded through staging memory, without waiting for the device."""
STAGING = 1 << 20
DEFAULT_STREAM = 1
"""The handle of the legacy default stream in DLPack and in ``__cuda_array_interface__``."""


SMALL = 1 << 20
"""The largest memory, in bytes, that is kept for later allocations when it is freed; sizes are powers of two then."""
LEAST = 9
"""The logarithm of the smallest size."""
KEPT = 8 << 20
"""Bytes of freed memory of one size that are kept.  The device's pool would take and give it in 2 µs."""


class Loaded:
    """A module on the device; ``kernels`` by name: the function, and memory for its arguments that is not in use."""

    def __init__(self, module: Any, kernels: dict[str, tuple[Any, list[Arguments]]], unused: list[Any]) -> None:
        self.module, self.kernels, self._unused = module, kernels, unused

    def __del__(self) -> None:
        self._unused.append(self.module)                 # unloaded when the device is idle


class CudaDriver:
    """A ``lowering.gpu.driver.Driver`` over ``cuda``, the module ``cuda.bindings.driver``.

    Any thread may use it.  A process that has been forked from one that uses a device cannot use it.
    """

    def __init__(self, cuda: Any = None, compile: Callable[[Image, str], str] = to_ptx) -> None:
        self.cuda = cuda or bindings.load()
        self._compile = compile
        self._local = threading.local()
        self._lock = threading.RLock()
        self._forked = False
        self._lost: tuple[str, Loc | None, str] | None = None          # the failure after which no call succeeds
        self.debug = switched_on("JITAD_DEBUG")
        self.device = self._call("cuDeviceGet", 0)
        self.arch = self._architecture()
        self._context = self._call("cuDevicePrimaryCtxRetain", self.device)
        self._enter()
        self.stream = self._call("cuStreamCreate", 0)          # 0: ordered with the legacy default stream
        self.has_pool = bool(self._attribute("CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED"))
        if self.has_pool:
            self._keep_freed_memory()
        self._images: weakref.WeakValueDictionary[Image, Loaded] = weakref.WeakValueDictionary()
        self._unused: list[Any] = []
        self._pending: list[tuple[Any, Any]] = []              # (event, what is released when it has happened)
        self._staged = 0
        self._busy = False                                     # the staging memory is in use
        self._freed: list[list[int]] = [[] for _ in range(SMALL.bit_length())]         # by the logarithm of the size
        self._sizes: dict[int, int] = {}                       # that of each small allocation
        self._launch = self.cuda.cuLaunchKernel
        self.capture: Any = None                               # the ``capture.Recording`` in progress
        _all.add(self)

    # --- calls of the driver ----------------------------------------------------------------------

    def _call(self, name: str, *args: Any, doing: str = "", loc: Loc | None = None) -> Any:
        """The result of a function of the driver; raises the exception for its status."""
        status, *found = getattr(self.cuda, name)(*args)
        if status:
            raise self._error(status, doing or name, loc)
        return found[0] if found else None

    def _error(self, status: Any, doing: str, loc: Loc | None) -> Exception:
        """The exception for a status; once the device is lost, the one that tells of the first failure."""
        if self._lost is not None:
            message, where, hint = self._lost
            return DeviceError(f"the device cannot be used since an earlier failure: {message}", where, hint)
        found = bindings.error(self.cuda, status, doing, loc)
        if isinstance(found, DeviceError) and bindings.is_lasting(self.cuda, status):
            self._lost = found.message, found.loc, found.hint
        return found

    def _enter(self) -> None:
        """Makes the context current in this thread, once."""
        if not getattr(self._local, "entered", False):
            if self._forked:
                raise DeviceError("a process cannot use a device that its parent process has used before the fork",
                                  hint="start processes with multiprocessing's 'spawn' or 'forkserver'")
            self._call("cuCtxSetCurrent", self._context)
            self._local.entered = True

    @property
    def usable(self) -> bool:
        """False if calls cannot succeed: after a failure of the device, after a fork."""
        return not (self._forked or self._lost)

    def _attribute(self, name: str) -> int:
        return int(self._call("cuDeviceGetAttribute", getattr(self.cuda.CUdevice_attribute, name), self.device))

    def _architecture(self) -> str:
        return "sm_" + "".join(str(self._attribute(f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"))
                               for part in ("MAJOR", "MINOR"))

    @cached_property
    def name(self) -> str:
        """The device's name, such as ``NVIDIA H100 80GB HBM3``."""
        return bytes(self._call("cuDeviceGetName", 128, self.device)).split(b"\0")[0].decode()

    # --- memory -----------------------------------------------------------------------------------

    def _keep_freed_memory(self) -> None:
        """Lets the pool keep all freed memory; by default the driver takes it back at each synchronisation."""
        pool = self._call("cuDeviceGetDefaultMemPool", self.device)
        threshold = self.cuda.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._call("cuMemPoolSetAttribute", pool, threshold, self.cuda.cuuint64_t(2**64 - 1))

    def allocate(self, size: int) -> int:
        """Memory, which is in use by kernels that were launched before it was freed: those launched later wait."""
        if self.capture is not None:
            self._enter()
            return int(self.capture.allocate(size))
        if size > SMALL:
            return self._new(size, size)
        power = max((size - 1).bit_length(), LEAST)
        try:
            address = self._freed[power].pop()
        except IndexError:
            address = self._new(1 << power, size)
        self._sizes[address] = power
        return address

    def _new(self, size: int, asked: int) -> int:
        """New memory; ``asked`` is what an error tells."""
        self._enter()
        try:
            return self._allocate(size, asked)
        except MemoryError:
            gc.collect()                                   # arrays in reference cycles
            self.release_freed()
            self.synchronize()                             # memory that is freed when queued work ends
            if self.has_pool:
                self._call("cuMemPoolTrimTo", self._call("cuDeviceGetDefaultMemPool", self.device), 0)
        return self._allocate(size, asked)

    def release_freed(self) -> None:
        """Gives the memory back that is kept for later allocations and later runs."""
        release_idle(self)
        for freed in self._freed:
            while freed:
                self._free(freed.pop())

    def _allocate(self, size: int, asked: int, stream: Any = None) -> int:
        name, args = ("cuMemAllocAsync", (self.stream if stream is None else stream,)) if self.has_pool else (
            "cuMemAlloc", ())
        return int(self._call(name, max(size, 1), *args, doing=f"{asked} bytes of device memory"))

    def free(self, address: int) -> None:
        if self.capture is not None:
            self.capture.frees(address)
            return
        power = self._sizes.pop(address, 0)
        if power and len(self._freed[power]) << power < KEPT:
            self._freed[power].append(address)
        else:
            self._free(address)

    def _free(self, address: int) -> None:
        if not self.usable:                                # it is the parent's, or gone
            return
        self._enter()
        if self.has_pool:
            self._call("cuMemFreeAsync", address, self.stream)
        else:
            self._call("cuMemFree", address)

    def upload(self, address: int, source: np.ndarray) -> None:
        if not getattr(self._local, "entered", False):
            self._enter()
        size = source.nbytes
        if size == 0:
            return
        with self._lock:
            staged = size <= STAGED and self.capture is None and not self._busy
            before, self._busy = self._busy, True
            try:
                if staged:
                    start = self._stage(source, size)
                else:
                    start = source.__array_interface__["data"][0]
                    start = start if self.capture is None else self.capture.kept(start, size)
                self._call("cuMemcpyHtoDAsync", address, start, size, self.stream, doing="upload")
            finally:
                self._busy = before
        if not staged and self.capture is None:
            self._wait()                                   # the user may change the array after the call

    @cached_property
    def _staging(self) -> tuple[int, memoryview]:
        """Pinned memory: its address, and its bytes."""
        address = int(self._call("cuMemHostAlloc", STAGING, 0, doing=f"{STAGING} bytes of staging memory"))
        return address, memoryview((ctypes.c_char * STAGING).from_address(address)).cast("B")

    def _stage(self, source: np.ndarray, size: int) -> int:
        """The address of a copy in pinned memory that lives until the device has read it."""
        address, window = self._staging
        aligned = (size + 15) & -16
        if self._staged + aligned > STAGING:
            self._wait()
            self._staged = 0
        at = self._staged
        window[at:at + size] = source.data.cast("B")        # in a tenth of the time of finding its address
        self._staged = at + aligned
        return address + at

    def download(self, target: np.ndarray, address: int) -> None:
        self._enter()
        self._not_in_capture("reads a result back")
        if target.nbytes:
            at = target.__array_interface__["data"][0]
            self._call("cuMemcpyDtoHAsync", at, address, target.nbytes, self.stream, doing="download")
            self._wait()

    def copy(self, target: int, source: int, size: int) -> None:
        self._enter()
        if size:
            self._call("cuMemcpyDtoDAsync", target, source, size, self.stream, doing="copy on the device")

    def fill(self, address: int, byte: int, size: int) -> None:
        self._enter()
        if size:
            self._call("cuMemsetD8Async", address, byte, size, self.stream, doing="fill on the device")

    # --- code -------------------------------------------------------------------------------------

    def load(self, image: Image) -> Loaded:
        with self._lock:
            found = self._images.get(image)
            if found is None:
                self._enter()
                self._not_in_capture("compiles a kernel")
                found = self._images[image] = self._load(image)
            return found

    def _load(self, image: Image) -> Loaded:
        self._need_stack(max((k.stack for k in image.kernels), default=0))
        module = self._link(self._compile(image, self.arch).encode())
        kernels: dict[str, tuple[Any, list[Arguments]]] = {}
        for k in image.kernels:
            found = self._call("cuModuleGetFunction", module, k.name.encode(), doing=f"the kernel {k.name}")
            kernels[k.name] = found, []
        return Loaded(module, kernels, self._unused)

    def _need_stack(self, size: int) -> None:
        """Raises the bytes that each thread has for calls, if kernels need more: those with recursion."""
        limit = self.cuda.CUlimit.CU_LIMIT_STACK_SIZE
        if size and size > int(self._call("cuCtxGetLimit", limit)):
            self._call("cuCtxSetLimit", limit, size, doing=f"a stack of {size} bytes for each thread")

    def _link(self, ptx: bytes) -> Any:
        """The module that the driver makes of PTX; an error has the text that the driver's assembler wrote."""
        options, log = self.cuda.CUjit_option, bytearray(8192)
        status, *found = self.cuda.cuModuleLoadDataEx(
            ptx + b"\0", 2, [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
            [log, len(log)])
        if not status:
            return found[0]
        error = self._error(status, "the driver refuses a kernel", None)
        written = bytes(log).split(b"\0")[0].decode(errors="replace").strip()
        if isinstance(error, DeviceError) and written:
            error = DeviceError(f"{error.message}\n{written}")
        raise error

    def launch(self, loaded: Loaded, kernel: Kernel, grid: int, args: Sequence[int | float], shared: int = 0) -> None:
        if grid == 0:
            return
        if not getattr(self._local, "entered", False):
            self._enter()
        function, unused = loaded.kernels[kernel.name]
        try:
            arguments = unused.pop()                       # other threads, and signal handlers, take others
        except IndexError:
            arguments = Arguments(kernel.params)
        arguments.fill(args)
        status, = self._launch(function, grid, 1, 1, kernel.block, 1, 1, shared, self.stream, arguments.pointer, 0)
        unused.append(arguments)
        if status and bindings.is_lasting(self.cuda, status):
            raise self._error(status, "in an earlier kernel", None)
        if status:
            raise self._error(status, f"launch of {kernel.name}", kernel.loc)
        if self.debug and self.capture is None:
            self._wait(f"in the kernel {kernel.name}", kernel.loc)

    @cached_property
    def _blas(self) -> cublas.Cublas:
        return cublas.Cublas(cublas.library(), int(self.stream), self.allocate(cublas.WORKSPACE))

    def product(self, product: Product) -> None:
        """Queue a product of matrices by cuBLAS, which must be there (``cublas.name``)."""
        self._enter()
        with self._lock:
            self._blas.product(product)

    # --- order of work ----------------------------------------------------------------------------

    def synchronize(self) -> None:
        self._enter()
        self._not_in_capture("waits for the device")
        self._wait()
        with self._lock:
            self._pending.clear()
            while self._unused:
                self._call("cuModuleUnload", self._unused.pop())

    def _wait(self, doing: str = "in an earlier kernel", loc: Loc | None = None) -> None:
        self._call("cuStreamSynchronize", self.stream, doing=doing, loc=loc)

    def _not_in_capture(self, what: str) -> None:
        if self.capture is not None:
            raise DeviceError(f"the program {what} while its kernels are recorded as a graph",
                              hint="record a part of the program that leaves all results on the device")

    def _event(self, stream: Any) -> Any:
        """An event that happens when the work queued so far on a stream is done."""
        event = self._call("cuEventCreate", self.cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        self._call("cuEventRecord", event, stream)
        return event

    def _order(self, first: Any, then: Any) -> None:
        event = self._event(first)
        self._call("cuStreamWaitEvent", then, event, 0)
        self._call("cuEventDestroy", event)                # the driver keeps it until it has happened

    def wait_for(self, stream: int) -> None:
        """Queues later work behind the work that is now on another library's stream."""
        self._enter()
        if stream not in (0, DEFAULT_STREAM):              # with that one the order is kept anyway
            self._order(self.cuda.CUstream(stream), self.stream)

    def waited_for_by(self, stream: int) -> None:
        """Queues later work on another library's stream behind the work that is queued here now."""
        self._enter()
        if stream not in (0, DEFAULT_STREAM):
            self._order(self.stream, self.cuda.CUstream(stream))

    def keep_until_done(self, objects: Any) -> None:
        """Keeps objects alive until the work queued so far is done: memory of other libraries."""
        self._enter()
        if self.capture is not None:
            self.capture.keep(objects)
            return
        with self._lock:
            while self._pending and not self.cuda.cuEventQuery(self._pending[0][0])[0]:
                self._call("cuEventDestroy", self._pending.pop(0)[0])
            self._pending.append((self._event(self.stream), objects))

    def ordinal_of(self, address: int) -> int:
        """The number of the device whose memory this is; raises ``DeviceError`` for memory of no device."""
        self._enter()
        attribute = self.cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._call("cuPointerGetAttribute", attribute, address, doing=f"the address {address:#x}"))


_all: weakref.WeakSet[CudaDriver] = weakref.WeakSet()


def _after_fork() -> None:
    for driver in _all:
        driver._forked, driver._local = True, threading.local()
        driver._freed = [[] for _ in driver._freed]


os.register_at_fork(after_in_child=_after_fork)
