"""Arrays in the memory of a device.

An array is a view of memory that belongs to an ``Owner``, which is freed with the last array that uses it, or to
another library.  Basic indexing makes views, as in NumPy; arithmetic, comparisons and reductions are compiled functions
(``gpu.operations``), whose results are new arrays.  The elements are changed by ``assign`` only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...errors import TypeInferenceError
from ...frontend.captured.array_classes import ARRAYS
from ...lowering.gpu.driver import Driver
from ...lowering.gpu.host.device_array import DeviceArray as Passed
from ...lowering.gpu.host.device_array import Owner
from ..cuda import DEFAULT_STREAM, CudaDriver
from ..drivers import driver_of, is_host
from . import dlpack, strided
from .dlpack import Foreign
from .foreign import Adopted, find, is_foreign
from .layout import broadcast_strides, contiguous_strides, extent


class DeviceArray:
    """An array in the memory of a device; ``target``: ``"cuda"`` or ``"cuda-sim"``.

    ``strides`` are in bytes.  ``owner`` keeps the memory.
    """

    __slots__ = ("target", "driver", "address", "shape", "dtype", "owner", "_strides", "_kind", "_passed",
                 "__weakref__")
    __array_ufunc__ = None                       # arithmetic with an ndarray on the left comes here
    __hash__ = None                              # type: ignore[assignment]

    def __init__(self, target: str, driver: Driver, address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any,
                 strides: tuple[int, ...] | None = None) -> None:
        self.target, self.driver, self.address, self.shape, self.dtype = target, driver, address, shape, dtype
        self.owner, self._strides = owner, strides           # no strides: in C order
        self._kind: tuple[Any, ...] | None = None
        self._passed: Passed | None = None

    # --- properties -------------------------------------------------------------------------------

    @property
    def strides(self) -> tuple[int, ...]:
        return contiguous_strides(self.shape, self.dtype.itemsize) if self._strides is None else self._strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> DeviceArray:
        """The view with its axes in reverse order."""
        return self._view(self.address, self.shape[::-1], self.strides[::-1])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    @property
    def is_contiguous(self) -> bool:
        """True if the elements are in C order, without gaps."""
        if self._strides is None:
            return True
        expected = contiguous_strides(self.shape, self.dtype.itemsize)
        return self.size == 0 or all(n == 1 or s == e for n, s, e in zip(self.shape, self._strides, expected))

    @property
    def is_read_only(self) -> bool:
        """True for memory of a library that does not want it to be changed."""
        return type(self.owner) is Adopted and self.owner.read_only

    @property
    def kind(self) -> tuple[Any, ...]:
        """The part of a signature that describes the array: its dtype, rank, and axes of size 1.

        Of arrays of one kind it is the same object.
        """
        if self._kind is None:
            self._kind = kind_of(self.target, self.dtype, tuple(n == 1 for n in self.shape))
        return self._kind

    @property
    def passed(self) -> Passed | None:
        """The array as host programs take it.

        None if it has to be copied for that, if its memory is another library's, or if it has no axes.
        """
        if self._passed is None and self.shape and type(self.owner) is Owner and self.is_contiguous:
            self._passed = Passed(None, self.address, self.shape, None, self.dtype)
            self._passed.lender = self.owner
        return self._passed

    # --- copies -----------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """A copy in NumPy's memory; waits for the device."""
        source = self.contiguous()
        out = np.empty(self.shape, self.dtype)
        self.driver.download(out, source.address)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on a device has to be copied to become NumPy's")
        out = self.numpy()
        return out if dtype is None else out.astype(dtype, copy=False)

    def contiguous(self) -> DeviceArray:
        """The array itself if its elements are in C order without gaps, else a copy for which that is so."""
        return self if self.is_contiguous else self.copy()

    def copy(self) -> DeviceArray:
        """A new array with the same elements."""
        made = empty(self.shape, self.dtype, self.target)
        made._write(self)
        return made

    def assign(self, values: Any) -> None:
        """Writes an array of the same shape and dtype, or one that broadcasts to it, into this one's memory."""
        if self.is_read_only:
            raise ValueError("the array is read-only: the library that it comes from says so")
        given = as_device(values, self.target) if is_foreign(type(values)) else asarray(
            np.asarray(values, self.dtype), self.target)
        if given.dtype != self.dtype:
            raise TypeInferenceError(f"an array of {given.dtype} is assigned to one of {self.dtype}")
        strides = broadcast_strides(given.shape, given.strides, self.shape)
        source = given._view(given.address, self.shape, strides)
        self._write(source.copy() if self.overlaps(source) else source)

    def _write(self, source: DeviceArray) -> None:
        if self.driver.capture is not None:
            self.driver.capture.keep((self.owner, source.owner))
        if self.is_contiguous and source.is_contiguous:
            self.driver.copy(self.address, source.address, self.nbytes)
        else:
            strided.copy(self.driver, self.dtype.itemsize, self.shape, self.address, self.strides, source.address,
                         source.strides)

    def _view(self, address: int, shape: Sequence[int], strides: Sequence[int]) -> DeviceArray:
        return DeviceArray(self.target, self.driver, address, tuple(shape), self.dtype, self.owner, tuple(strides))

    def overlaps(self, other: DeviceArray) -> bool:
        """True if two arrays may share elements."""
        (first, last), (start, end) = self.extent(), other.extent()
        return bool(self.size and other.size and first < end and start < last)

    def extent(self) -> tuple[int, int]:
        """The addresses of the first byte, and behind the last one."""
        return extent(self.address, self.shape, self.strides, self.dtype.itemsize)

    # --- indexing ---------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """A view; a number for the index of one element, which waits for the device."""
        keys = key if isinstance(key, tuple) else (key,)
        for k in keys:
            if not (k is None or k is Ellipsis or isinstance(k, (slice, int, np.integer))) or isinstance(k, bool):
                raise TypeError(f"an array on a device is indexed by integers and slices, not by a {type(k).__name__}: "
                                "index x.numpy(), or in a compiled function")
        origin = as_strided(np.empty((), self.dtype), self.shape, self.strides)      # its elements are not read
        view = origin[(*keys, ...) if Ellipsis not in keys else keys]
        moved = view.__array_interface__["data"][0] - origin.__array_interface__["data"][0]
        found = self._view(self.address + (moved if view.size else 0), view.shape, view.strides)
        return found if found.shape or Ellipsis in keys else found.numpy()[()]

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def reshape(self, *shape: Any) -> DeviceArray:
        """The elements in C order with another shape: a view if they are contiguous, else a copy."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        whole = self.contiguous()
        new = as_strided(np.empty((), np.int8), (self.size,), (0,)).reshape(sizes).shape
        return whole._view(whole.address, new, contiguous_strides(new, self.dtype.itemsize))

    # --- as Python numbers and text ---------------------------------------------------------------

    def item(self) -> Any:
        """The only element as a Python number."""
        return self.numpy().item()

    def tolist(self) -> Any:
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __repr__(self) -> str:
        shown = np.array2string(self.numpy(), separator=", ", prefix="DeviceArray(")
        return f"DeviceArray({shown}, dtype={self.dtype}, target={self.target!r})"

    def __reduce__(self) -> Any:
        return asarray, (self.numpy(), self.target)

    # --- other libraries --------------------------------------------------------------------------

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not isinstance(self.driver, CudaDriver):
            raise AttributeError("__cuda_array_interface__: the array is in the host's memory")
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.str,
                "data": (self.address if self.size else 0, self.is_read_only),
                "strides": None if self.is_contiguous else self.strides, "stream": int(self.driver.stream)}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (dlpack.CPU, 0) if is_host(self.target) else (dlpack.CUDA, 0)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if tuple(dl_device) == (dlpack.CPU, 0) and copy is not False:
                return self.numpy().__dlpack__(max_version=max_version)
            raise BufferError(f"DLPack to device {dl_device}: the array is on {self.__dlpack_device__()}")
        whole = self.copy() if copy else self
        flags = (dlpack.COPIED if copy else 0) | (dlpack.READ_ONLY if whole.is_read_only else 0)
        if isinstance(self.driver, CudaDriver):
            if stream != -1:                                 # -1: the consumer does not want to wait
                self.driver.waited_for_by(DEFAULT_STREAM if stream is None else int(stream))
        else:
            self.driver.synchronize()
        found = Foreign(whole.address if whole.size else 0, whole.shape, whole.strides, whole.dtype,
                        self.__dlpack_device__(), whole.owner, flags)
        return dlpack.capsule(found, max_version is not None and max_version[0] >= 1)


ARRAYS.add(DeviceArray)
_kinds: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def kind_of(target: str, dtype: np.dtype, ones: tuple[bool, ...]) -> tuple[Any, ...]:
    """``DeviceArray.kind``; ``ones``: for each axis, True if its size is 1."""
    kind = target, dtype.str, *ones
    return _kinds.setdefault(kind, kind)


# --- making arrays --------------------------------------------------------------------------------

def empty(shape: Sequence[int], dtype: Any = np.float64, target: str = "cuda") -> DeviceArray:
    """An array whose elements are not set."""
    driver, kind = driver_of(target), np.dtype(dtype)
    owner = Owner(driver, math.prod(shape) * kind.itemsize)
    return result(target, driver, Passed(owner, owner.address, tuple(shape), None, kind))


def result(target: str, driver: Driver, made: Passed) -> DeviceArray:
    """The array of the user for one that a host program has made, with what entry points look for."""
    shape, dtype = made.shape, made.dtype
    x = DeviceArray(target, driver, made.address, shape, dtype, made.owner)
    if made.strides is None and shape:
        made.lender, made.owner = made.owner, None           # as it is an argument now
        x._passed = made
        if 1 not in shape:
            x._kind = _plain_kinds.get((target, dtype, len(shape))) or _plain_kind(target, dtype, len(shape))
    return x


_plain_kinds: dict[tuple[str, np.dtype, int], tuple[Any, ...]] = {}


def _plain_kind(target: str, dtype: np.dtype, rank: int) -> tuple[Any, ...]:
    """The kind of arrays without axes of size 1."""
    return _plain_kinds.setdefault((target, dtype, rank), kind_of(target, dtype, (False,) * rank))


def asarray(x: Any, target: str = "cuda") -> DeviceArray:
    """A copy of an array on the device; arrays that are there already are not copied."""
    if is_foreign(type(x)):
        found = as_device(x, target)
        if isinstance(found, DeviceArray):
            return found
        x = found
    source = np.asarray(x, order="C")
    made = empty(source.shape, source.dtype, target)
    made.driver.upload(made.address, source)
    return made


def as_device(x: Any, target: str) -> Any:
    """A device array for an array of any library, without copying; an ndarray if it is in the host's memory."""
    if isinstance(x, DeviceArray):
        if x.target != target:
            raise TypeInferenceError(f"an array of target={x.target!r} is given to a function of target={target!r}",
                                     hint="pass x.numpy()")
        return x
    driver = driver_of(target)
    found = find(driver, x, target)
    if found is None:
        return np.from_dlpack(x)
    made = DeviceArray(target, driver, found.address, found.shape, found.dtype, None, found.strides)
    first, last = made.extent()
    made.owner = Adopted(driver, first, last - first if made.size else 0, found.owner,
                         bool(found.flags & dlpack.READ_ONLY))
    return made
