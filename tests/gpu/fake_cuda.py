"""A stand-in for ``cuda.bindings.driver`` on host memory, with the names and return conventions of the real module.

Work is queued on streams, and done when something waits for it, as late as a device may do it: memory that is freed,
changed or reused too early gives wrong numbers or ``Violation``.  A kernel is a Python function of ``kernels``, which
reads its arguments through the array of pointers that ``cuLaunchKernel`` is given.

``fail["cuMemAllocAsync"] = status`` makes the next call of a function return a status instead.  A kernel in ``faulty``
accesses memory that is not there: then the device is lost, and all calls return its status.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import re
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any


class Violation(AssertionError):
    """A call that a driver would answer by undefined behaviour."""


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900


class CUdevice_attribute(enum.IntEnum):
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115


class CUmemPool_attribute(enum.IntEnum):
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4


class CUjit_option(enum.IntEnum):
    CU_JIT_ERROR_LOG_BUFFER = 5
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6


class CUevent_flags(enum.IntEnum):
    CU_EVENT_DISABLE_TIMING = 2


class CUpointer_attribute(enum.IntEnum):
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9


class CUlimit(enum.IntEnum):
    CU_LIMIT_STACK_SIZE = 0


class CUstreamCaptureMode(enum.IntEnum):
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1
    CU_STREAM_CAPTURE_MODE_RELAXED = 2


class _Handle:
    """An opaque value of the driver: ``int(h)`` is its address."""

    def __init__(self, value: int = 0) -> None:
        self.value = int(value)

    def __int__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.value:#x}>"


class CUdevice(_Handle):
    pass


class CUcontext(_Handle):
    pass


class CUstream(_Handle):
    pass


class CUmodule(_Handle):
    pass


class CUfunction(_Handle):
    pass


class CUevent(_Handle):
    pass


class CUgraph(_Handle):
    pass


class CUgraphExec(_Handle):
    pass


class CUmemoryPool(_Handle):
    pass


class CUdeviceptr(_Handle):
    pass


class cuuint64_t(_Handle):
    pass


Answer = tuple[Any, ...]
OK: Answer = (CUresult.CUDA_SUCCESS,)
Work = Callable[[], None]


class Device:
    """The module: ``CudaDriver(Device(…))``.  ``memory``: the bytes of the device; ``kernels``: by name."""

    CUresult, CUdevice_attribute, CUmemPool_attribute = CUresult, CUdevice_attribute, CUmemPool_attribute
    CUjit_option, CUevent_flags, CUpointer_attribute = CUjit_option, CUevent_flags, CUpointer_attribute
    CUstreamCaptureMode, CUlimit, CUstream, cuuint64_t = CUstreamCaptureMode, CUlimit, CUstream, cuuint64_t

    def __init__(self, memory: int = 1 << 24, kernels: dict[str, Callable[..., None]] | None = None,
                 devices: int = 1, pools: bool = True) -> None:
        self.memory, self.kernels, self.devices, self.pools = memory, dict(kernels or {}), devices, pools
        self.fail: dict[str, CUresult] = {}
        self.faulty: set[str] = set()
        self.lost: CUresult | None = None
        self.calls: list[str] = []
        self.live: dict[int, Any] = {}                   # address → its bytes
        self.dying: set[int] = set()                     # freed on a stream, where the work is not done yet
        self.pinned: dict[int, Any] = {}
        self.current: set[int] = set()                   # threads with a context
        self.queues: defaultdict[int, list[Work]] = defaultdict(list)
        self.events: dict[int, tuple[int, int]] = {}     # event → stream, work before it
        self.done: dict[int, int] = {}                   # stream → work that is done
        self.modules: dict[int, set[str]] = {}
        self.functions: dict[int, tuple[str, Any, list[Any]]] = {}       # kernels, with the types of their arguments
        self.graphs: dict[int, list[Work]] = {}
        self.recording: dict[int, list[Work]] = {}
        self.launched: list[tuple[str, int, int, int]] = []
        self._handles = itertools.count(0x1000)
        self._started = False
        self.stack = 1024
        self._lock = threading.RLock()

    # --- plumbing ---------------------------------------------------------------------------------

    def __getattribute__(self, name: str) -> Any:
        """Functions of the driver are counted, and fail if a test wants it."""
        found = object.__getattribute__(self, name)
        if not (name.startswith("cu") and callable(found)) or name == "cuuint64_t":
            return found

        def call(*args: Any) -> Answer:
            self.calls.append(name)
            told = name in ("cuGetErrorName", "cuGetErrorString")
            status = self.fail.pop(name, None if told else self.lost)
            if status is not None:
                return (status, *([None] if name.startswith(("cuMemAlloc", "cuModule", "cuDeviceGet")) else []))
            if name not in ("cuInit", "cuGetErrorName", "cuGetErrorString") and not self._started:
                raise Violation(f"{name} before cuInit")
            with self._lock:
                answer: Answer = found(*args)
            return answer if self.lost is None or told else (self.lost, *answer[1:])
        return call

    def _handle(self) -> int:
        return next(self._handles)

    def _in_context(self) -> None:
        if threading.get_ident() not in self.current:
            raise Violation("no context is current in this thread")

    def _queue(self, stream: Any, work: Work) -> Answer:
        self._in_context()
        if int(stream) in self.recording:
            self.recording[int(stream)].append(work)
        else:
            self.queues[int(stream)].append(work)
        return OK

    def _bytes(self, address: int, size: int) -> ctypes.Array[ctypes.c_char]:
        for start, block in self.live.items():
            if start <= address and address + size <= start + ctypes.sizeof(block):
                return (ctypes.c_char * size).from_address(address)
        raise Violation(f"{size} bytes at {address:#x} are not allocated on the device")

    def _run(self, stream: int) -> None:
        while self.queues[stream]:
            self.queues[stream].pop(0)()
            self.done[stream] = self.done.get(stream, 0) + 1

    # --- start, context ---------------------------------------------------------------------------

    def cuInit(self, flags: int) -> Answer:
        self._started = True
        return OK if self.devices else (CUresult.CUDA_ERROR_NO_DEVICE,)

    def cuGetErrorName(self, status: Any) -> Answer:
        return CUresult.CUDA_SUCCESS, CUresult(status).name.encode()

    def cuGetErrorString(self, status: Any) -> Answer:
        name = CUresult(status).name.removeprefix("CUDA_ERROR_")
        return CUresult.CUDA_SUCCESS, name.lower().replace("_", " ").encode()

    def cuDeviceGetCount(self) -> Answer:
        return CUresult.CUDA_SUCCESS, self.devices

    def cuDeviceGet(self, ordinal: int) -> Answer:
        return CUresult.CUDA_SUCCESS, CUdevice(ordinal)

    def cuDeviceGetName(self, size: int, device: Any) -> Answer:
        return CUresult.CUDA_SUCCESS, b"Fake H100".ljust(size, b"\0")

    def cuDeviceGetAttribute(self, attribute: Any, device: Any) -> Answer:
        values = {"COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MEMORY_POOLS_SUPPORTED": self.pools}
        return CUresult.CUDA_SUCCESS, int(values[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")])

    def cuDevicePrimaryCtxRetain(self, device: Any) -> Answer:
        return CUresult.CUDA_SUCCESS, CUcontext(self._handle())

    def cuCtxSetCurrent(self, context: Any) -> Answer:
        assert isinstance(context, CUcontext)
        self.current.add(threading.get_ident())
        return OK

    def cuCtxGetLimit(self, limit: Any) -> Answer:
        assert limit == CUlimit.CU_LIMIT_STACK_SIZE
        return CUresult.CUDA_SUCCESS, self.stack

    def cuCtxSetLimit(self, limit: Any, value: int) -> Answer:
        assert limit == CUlimit.CU_LIMIT_STACK_SIZE
        self.stack = value
        return OK

    # --- streams and events -----------------------------------------------------------------------

    def cuStreamCreate(self, flags: int) -> Answer:
        assert flags == 0
        stream = CUstream(self._handle())
        self.queues[int(stream)] = []
        return CUresult.CUDA_SUCCESS, stream

    def cuStreamSynchronize(self, stream: Any) -> Answer:
        self._in_context()
        if int(stream) in self.recording:
            return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
        self._run(int(stream))
        return OK

    def cuEventCreate(self, flags: Any) -> Answer:
        assert flags == CUevent_flags.CU_EVENT_DISABLE_TIMING
        return CUresult.CUDA_SUCCESS, CUevent(self._handle())

    def cuEventRecord(self, event: Any, stream: Any) -> Answer:
        number = int(stream)
        self.events[int(event)] = number, self.done.get(number, 0) + len(self.queues[number])
        return OK

    def cuEventQuery(self, event: Any) -> Answer:
        stream, before = self.events[int(event)]
        return OK if self.done.get(stream, 0) >= before else (CUresult.CUDA_ERROR_NOT_READY,)

    def cuEventDestroy(self, event: Any) -> Answer:
        if int(event) not in self.events:
            raise Violation("an event is destroyed twice")
        return OK

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> Answer:
        first, before = self.events[int(event)]

        def wait() -> None:
            while self.done.get(first, 0) < before:
                self.queues[first].pop(0)()
                self.done[first] = self.done.get(first, 0) + 1
        return self._queue(stream, wait)

    # --- memory -----------------------------------------------------------------------------------

    def cuDeviceGetDefaultMemPool(self, device: Any) -> Answer:
        return CUresult.CUDA_SUCCESS, CUmemoryPool(1)

    def cuMemPoolSetAttribute(self, pool: Any, attribute: Any, value: Any) -> Answer:
        assert isinstance(pool, CUmemoryPool) and isinstance(value, cuuint64_t)
        return OK

    def cuMemPoolTrimTo(self, pool: Any, keep: int) -> Answer:
        return OK

    def _allocate(self, size: int) -> Answer:
        self._in_context()
        if size <= 0:
            return CUresult.CUDA_ERROR_INVALID_VALUE, None
        if sum(map(ctypes.sizeof, self.live.values())) + size > self.memory:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        block = ctypes.create_string_buffer(b"\xa5" * size, size)
        self.live[ctypes.addressof(block)] = block
        return CUresult.CUDA_SUCCESS, CUdeviceptr(ctypes.addressof(block))

    def cuMemAllocAsync(self, size: int, stream: Any) -> Answer:
        if int(stream) in self.recording:
            raise Violation("memory is allocated on a stream that is recorded")
        return self._allocate(size)

    def cuMemAlloc(self, size: int) -> Answer:
        return self._allocate(size)

    def cuMemFreeAsync(self, address: Any, stream: Any) -> Answer:
        if int(address) not in self.live or int(address) in self.dying:
            raise Violation(f"{int(address):#x} is freed, but it is not allocated")
        self.dying.add(int(address))

        def free() -> None:
            self.dying.discard(int(address))
            del self.live[int(address)]
        return self._queue(stream, free)

    def cuMemFree(self, address: Any) -> Answer:
        for stream in list(self.queues):
            self._run(stream)
        del self.live[int(address)]
        return OK

    def cuMemHostAlloc(self, size: int, flags: int) -> Answer:
        block = ctypes.create_string_buffer(size)
        self.pinned[ctypes.addressof(block)] = block
        return CUresult.CUDA_SUCCESS, ctypes.addressof(block)

    def cuMemFreeHost(self, address: int) -> Answer:
        del self.pinned[int(address)]
        return OK

    def cuMemcpyHtoDAsync(self, target: Any, source: int, size: int, stream: Any) -> Answer:
        """Copies at once what is not pinned, as drivers do."""
        pinned = any(start <= source < start + ctypes.sizeof(block) for start, block in self.pinned.items())
        if not pinned and int(stream) in self.recording:
            raise Violation("memory that is not pinned is read by a graph")
        if not pinned:
            staged = ctypes.string_at(source, size)
            return self._queue(stream, lambda: ctypes.memmove(self._bytes(int(target), size), staged, size) and None)
        return self._queue(stream, lambda: ctypes.memmove(self._bytes(int(target), size), source, size) and None)

    def cuMemcpyDtoHAsync(self, target: int, source: Any, size: int, stream: Any) -> Answer:
        return self._queue(stream, lambda: ctypes.memmove(target, self._bytes(int(source), size), size) and None)

    def cuMemcpyDtoDAsync(self, target: Any, source: Any, size: int, stream: Any) -> Answer:
        return self._queue(stream, lambda: ctypes.memmove(self._bytes(int(target), size),
                                                          self._bytes(int(source), size), size) and None)

    def cuMemsetD8Async(self, target: Any, byte: int, size: int, stream: Any) -> Answer:
        return self._queue(stream, lambda: ctypes.memset(self._bytes(int(target), size), byte, size) and None)

    def cuPointerGetAttribute(self, attribute: Any, address: Any) -> Answer:
        assert attribute == CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        try:
            self._bytes(int(address), 1)
        except Violation:
            return CUresult.CUDA_ERROR_INVALID_VALUE, None
        return CUresult.CUDA_SUCCESS, 0

    # --- code -------------------------------------------------------------------------------------

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: list[Any], values: list[Any]) -> Answer:
        assert image.endswith(b"\0") and count == len(options) == len(values)
        text = image.decode()
        if ".target sm_90" not in text:
            log = b"ptxas application ptx input, line 1; fatal   : no .target sm_90"
            values[options.index(CUjit_option.CU_JIT_ERROR_LOG_BUFFER)][:len(log)] = log
            return CUresult.CUDA_ERROR_INVALID_PTX, None
        module = CUmodule(self._handle())
        self.modules[int(module)] = set(re.findall(r"\.entry (\w+)", text))
        return CUresult.CUDA_SUCCESS, module

    def cuModuleGetFunction(self, module: Any, name: bytes) -> Answer:
        if name.decode() not in self.modules[int(module)]:
            return CUresult.CUDA_ERROR_NOT_FOUND, None
        function = CUfunction(self._handle())
        found = name.decode()
        self.functions[int(function)] = found, self.kernels.get(found), self.kinds(found)
        return CUresult.CUDA_SUCCESS, function

    def cuModuleUnload(self, module: Any) -> Answer:
        for stream in self.queues:
            if self.queues[stream]:
                raise Violation("code is unloaded while work is queued")
        del self.modules[int(module)]
        return OK

    def cuLaunchKernel(self, function: Any, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int,
                       stream: Any, params: int, extra: int) -> Answer:
        assert (gy, gz, by, bz, extra) == (1, 1, 1, 1, 0) and isinstance(function, CUfunction)
        name, run, kinds = self.functions[int(function)]
        if not 0 < gx < 2**31 or not 0 < bx <= 1024:
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        pointers = (ctypes.c_void_p * len(kinds)).from_address(params)
        values = [kind.from_address(p).value for kind, p in zip(kinds, pointers)]     # copied before it returns
        self.launched.append((name, gx, bx, shared))

        def work() -> None:
            if name in self.faulty:
                self.lost = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
            elif self.lost is None:
                run(self, gx, *values)
        return self._queue(stream, work)

    def kinds(self, name: str) -> list[Any]:
        """The types of the arguments of a kernel, for ``ctypes``."""
        types = getattr(self.kernels.get(name), "__annotations__", {})
        return [t for key, t in types.items() if key not in ("device", "grid", "return")]

    # --- graphs -----------------------------------------------------------------------------------

    def cuStreamBeginCapture(self, stream: Any, mode: Any) -> Answer:
        assert mode == CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self.recording[int(stream)] = []
        return OK

    def cuStreamEndCapture(self, stream: Any) -> Answer:
        graph = CUgraph(self._handle())
        self.graphs[int(graph)] = self.recording.pop(int(stream))
        return CUresult.CUDA_SUCCESS, graph

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Answer:
        made = CUgraphExec(self._handle())
        self.graphs[int(made)] = list(self.graphs[int(graph)])
        return CUresult.CUDA_SUCCESS, made

    def cuGraphLaunch(self, graph: Any, stream: Any) -> Answer:
        assert isinstance(graph, CUgraphExec)
        for work in self.graphs[int(graph)]:
            self._queue(stream, work)
        return OK

    def cuGraphDestroy(self, graph: Any) -> Answer:
        del self.graphs[int(graph)]
        return OK

    def cuGraphExecDestroy(self, graph: Any) -> Answer:
        del self.graphs[int(graph)]
        return OK
