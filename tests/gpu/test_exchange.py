"""DLPack and ``__cuda_array_interface__`` to the letter: structures, flags, streams, lifetimes.

The structures are declared here once more, from the text of the standard: dlpack.h 1.0.
"""

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import TypeInferenceError, gpu, jit
from jitad.gpu.arrays import DeviceArray, as_device, dlpack
from jitad.gpu.cuda import CudaDriver

pytestmark = pytest.mark.any_level

X = np.arange(24.0).reshape(4, 6)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", Deleter)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
                ("deleter", Deleter), ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


def _function(name: str, result: Any, *params: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *params)((name, ctypes.pythonapi))


new = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
name_of = _function("PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
pointer_of = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
rename = _function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
USED = ctypes.create_string_buffer(b"used_dltensor_versioned")


def opened(capsule: Any) -> Any:
    """The structure in a capsule."""
    name = name_of(capsule)
    kind = {b"dltensor": DLManagedTensor, b"dltensor_versioned": DLManagedTensorVersioned}[name]
    return kind.from_address(pointer_of(capsule, name))      # type: ignore[attr-defined]


class Producer:
    """A library that gives its memory away: ``x`` is in the host's memory, or at an address on a device.

    Its structures live until their deleters are called.
    """

    alive: dict[int, Any] = {}

    def __init__(self, x: Any, versioned: bool = True, device: tuple[int, int] = (dlpack.CPU, 0), **changes: Any
                 ) -> None:
        self.x, self.versioned, self.device, self.changes = x, versioned, device, changes
        self.deleted, self.asked = 0, list[dict[str, Any]]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        made: Any = DLManagedTensorVersioned() if self.versioned else DLManagedTensor()
        shape = (ctypes.c_int64 * self.x.ndim)(*self.x.shape)
        strides = (ctypes.c_int64 * self.x.ndim)(*(s // self.x.dtype.itemsize for s in self.x.strides))
        address = self.x.ctypes.data if isinstance(self.x, np.ndarray) else self.x.address
        made.tensor = DLTensor(address - 8, *self.device, self.x.ndim, 2, 64, 1, shape, strides, 8)
        made.deleter = deleter = Deleter(self._delete)
        if self.versioned:
            made.major, made.minor, made.flags = 1, 1, 0
        for name, value in self.changes.items():
            setattr(made.tensor if hasattr(made.tensor, name) else made, name, value)
        self.alive[ctypes.addressof(made)] = made, shape, strides, deleter, self
        return new(ctypes.addressof(made), b"dltensor_versioned" if self.versioned else b"dltensor", None)

    def _delete(self, address: int) -> None:
        del self.alive[address]                              # which may be done once
        self.deleted += 1


# --- giving ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3)])
def test_a_capsule_has_the_structure_of_the_standard(version: Any, target: str) -> None:
    d = gpu.asarray(X, target)[1:, ::2]
    capsule = d.__dlpack__(max_version=version)
    found, tensor = opened(capsule), opened(capsule).tensor
    assert (tensor.device_type, tensor.device_id) == ((1, 0) if target == "cuda-sim" else (2, 0))
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.ndim) == (2, 64, 1, 2)
    assert tensor.data + tensor.byte_offset == d.address
    assert tensor.shape[:2] == [3, 3] and tensor.strides[:2] == [6, 2]
    if version is not None and version >= (1, 0):
        assert (found.major, found.minor, found.flags) == (1, 0, 0)
    copied = d.__dlpack__(max_version=(1, 0), copy=True)
    assert opened(copied).flags == 2 and opened(copied).tensor.data != d.address
    for dtype, code in ((np.float32, 2), (np.int8, 0), (np.uint64, 1), (np.bool_, 6)):
        plain = gpu.asarray(np.zeros(3, dtype), target).__dlpack__()
        one = opened(plain)
        assert (one.tensor.code, one.tensor.bits) == (code, 8 * np.dtype(dtype).itemsize)


def test_lifetimes_of_what_is_given(target: str) -> None:
    """Memory lives until the deleter is called, or until a capsule that nobody took is dropped; not twice."""
    def given() -> tuple[Any, Callable[[], Any]]:
        d = gpu.asarray(X, target)
        return d.__dlpack__(max_version=(1, 0)), weakref.ref(d.owner)
    capsule, owner = given()
    gc.collect()
    assert owner() is not None
    del capsule
    assert owner() is None                                   # not taken
    capsule, owner = given()
    found = opened(capsule)
    rename(capsule, ctypes.addressof(USED))                  # taken: the capsule's end is not the memory's
    del capsule
    gc.collect()
    assert owner() is not None
    found.deleter(ctypes.addressof(found))
    assert owner() is None


def test_streams_of_takers(cuda: CudaDriver) -> None:
    """No argument and 1 are the legacy default stream, with which ours keeps its order; −1 wants no order at all."""
    d, waits = gpu.asarray(X, "cuda"), []
    order, cuda._order = cuda._order, lambda first, then: waits.append((int(first), int(then)))     # type: ignore
    for stream, expected in ((None, []), (1, []), (-1, []), (2, [(int(cuda.stream), 2)]),
                             (4096, [(int(cuda.stream), 4096)])):
        waits.clear()
        d.__dlpack__(stream=stream)
        assert waits == expected, stream
    del cuda._order
    assert cuda._order == order


def test_to_the_host(cuda: CudaDriver) -> None:
    d = gpu.asarray(X, "cuda")
    assert np.array_equal(np.from_dlpack(d, device="cpu"), X)
    with pytest.raises(BufferError, match=r"the array is on \(2, 0\)"):
        d.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError):
        d.__dlpack__(dl_device=(2, 1))


# --- taking ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("versioned", [True, False])
def test_the_deleter_is_called_once_and_last(versioned: bool) -> None:
    other = Producer(X.copy(), versioned)
    d: Any = as_device(other, "cuda-sim")
    assert d.address == other.x.ctypes.data and other.asked == [{"max_version": (1, 0)}]
    view = d[1:]
    double = jit(lambda x: 2 * x, target="cuda-sim")
    assert np.array_equal(double(view).numpy(), 2 * X[1:]) and np.array_equal(double(d).numpy(), 2 * X)
    d = None
    gc.collect()
    assert other.deleted == 0
    del view
    gc.collect()
    assert other.deleted == 1
    assert np.array_equal(double(other).numpy(), 2 * X)
    gc.collect()
    assert other.deleted == 2                                # another structure, of this call


def test_the_stream_is_ours_and_memory_is_kept_until_it_is_read(cuda: CudaDriver) -> None:
    mine = gpu.asarray(X, "cuda")
    other = Producer(mine, device=(dlpack.CUDA, 0))
    double = jit(lambda x: 2 * x, target="cuda")
    found = double(other)
    assert other.asked[0]["stream"] == int(cuda.stream) > 2
    gc.collect()
    assert other.deleted == 0                                # the kernel is queued, not done
    assert np.array_equal(found.numpy(), 2 * X)
    cuda.synchronize()
    gc.collect()
    assert other.deleted == len(other.asked)
    host = Producer(X.copy(), device=(dlpack.CUDA_HOST, 0))  # pinned memory of the host is copied
    assert np.array_equal(double(Producer(X.copy())).numpy(), 2 * X) and "stream" not in host.asked


def test_read_only_memory(cuda: CudaDriver) -> None:
    """It is an argument like any other; it is not written, and given on as read-only."""
    flagged = Producer(X.copy(), flags=1)
    d = as_device(flagged, "cuda-sim")
    assert d.is_read_only and d[1:].is_read_only and not d.copy().is_read_only
    assert np.array_equal(jit(lambda x: 2 * x, target="cuda-sim")(d).numpy(), 2 * X)
    with pytest.raises(ValueError, match="read-only"):
        d[0].assign(0.0)
    assert opened(d.__dlpack__(max_version=(1, 0))).flags == 1
    assert not np.from_dlpack(d).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        d.__dlpack__()

    class Interface:
        def __init__(self, x: DeviceArray) -> None:
            found = x.__cuda_array_interface__
            self.__cuda_array_interface__ = {**found, "data": (found["data"][0], True)}
    mine = gpu.asarray(X, "cuda")
    assert mine.__cuda_array_interface__["data"] == (mine.address, False)
    taken = as_device(Interface(mine), "cuda")               # type: ignore[no-untyped-call]
    assert taken.is_read_only and taken.__cuda_array_interface__["data"] == (mine.address, True)
    with pytest.raises(ValueError, match="read-only"):
        taken.assign(0.0)
    assert gpu.asarray(np.zeros(0), "cuda").__cuda_array_interface__["data"] == (0, False)


@pytest.mark.parametrize("changes, message", [
    ({"major": 2}, "DLPack 2.1"), ({"code": 4, "bits": 16}, "bfloat16"), ({"code": 5, "bits": 128}, "complex128"),
    ({"lanes": 4}, "has no place|have no place"), ({"device_type": 10}, r"device \(10, 0\)")])
def test_what_is_refused_is_given_back(changes: dict[str, Any], message: str) -> None:
    other = Producer(X.copy(), **changes)
    with pytest.raises(TypeInferenceError, match=message):
        jit(lambda x: x, target="cuda-sim")(other)
    gc.collect()
    assert other.deleted == len(other.asked) > 0


def test_a_capsule_is_taken_once() -> None:
    capsule = Producer(X.copy()).__dlpack__()
    dlpack.taken(capsule)
    assert name_of(capsule) == b"used_dltensor_versioned"
    with pytest.raises(BufferError, match="no capsule of DLPack that can be taken"):
        dlpack.taken(capsule)
    with pytest.raises(BufferError, match="no capsule"):
        dlpack.taken(object())
