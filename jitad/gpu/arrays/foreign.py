"""Arrays of other libraries, read without copying through the two protocols for that."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import TypeInferenceError
from ...lowering.gpu.driver import Driver
from ..cuda import CudaDriver
from ..drivers import is_host
from . import dlpack
from .dlpack import Foreign


class Adopted:
    """Memory of another library, which lives as long as this object."""

    __slots__ = ("driver", "address", "owner", "read_only")

    def __init__(self, driver: Driver, address: int, size: int, owner: Any, read_only: bool) -> None:
        self.driver, self.address, self.owner, self.read_only = driver, address, owner, read_only
        if hasattr(driver, "adopt"):                         # drivers that check addresses
            driver.adopt(address, size)
            _adopted[address] += 1

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending() and hasattr(self.driver, "disown"):
            _adopted[self.address] -= 1
            if not _adopted[self.address]:
                del _adopted[self.address]
                self.driver.disown(self.address)


_adopted: Counter[int] = Counter()
"""The number of ``Adopted`` of the host's memory at an address."""


_foreign: dict[type, bool] = {}


def is_foreign(cls: type) -> bool:
    """True for classes of arrays, other than NumPy's, that other libraries can read without copying."""
    found = _foreign.get(cls)
    if found is None:
        has = hasattr(cls, "__cuda_array_interface__") or hasattr(cls, "__dlpack__")
        found = _foreign[cls] = has and not issubclass(cls, (np.ndarray, np.generic))
    return found


def find(driver: Driver, x: Any, target: str) -> Foreign | None:
    """An array of any library as it lies in memory; None if that is the host's, of which a device makes a copy."""
    found = _of_interface(driver, x) if isinstance(driver, CudaDriver) else None
    found = found or _of_dlpack(driver, x)
    if found.device[0] in (dlpack.CPU, dlpack.CUDA_HOST) and not is_host(target):
        return None
    if found.device[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED) and isinstance(driver, CudaDriver):
        if found.address and (number := driver.ordinal_of(found.address)) != 0:
            raise TypeInferenceError(f"an array on device {number} is given to a function that runs on device 0",
                                     hint="copy it to device 0")
    elif not is_host(target) or found.device[0] not in (dlpack.CPU, dlpack.CUDA_HOST):
        raise TypeInferenceError(f"an array on DLPack's device {found.device} is given to a function of "
                                 f"target={target!r}", hint="convert it to a NumPy array")
    return found


def _interface(x: Any) -> dict[str, Any] | None:
    """``x.__cuda_array_interface__``, or None if the array is elsewhere."""
    try:
        found: dict[str, Any] = x.__cuda_array_interface__
    except AttributeError:
        return None
    except Exception as error:                           # PyTorch, for a tensor that requires a gradient
        raise _refused(x, error) from None
    return found


def _refused(x: Any, error: Exception) -> TypeInferenceError:
    return TypeInferenceError(f"a {type(x).__module__}.{type(x).__qualname__} is not given away: {error}",
                              hint="pass x.detach(), if it is a tensor of PyTorch")


def _of_interface(driver: CudaDriver, x: Any) -> Foreign | None:
    """An array through ``__cuda_array_interface__``, or None if it is elsewhere."""
    interface = _interface(x)
    if interface is None:
        return None
    if interface.get("mask") is not None:
        raise TypeInferenceError("a masked array means something else than the array it is made of")
    if interface.get("stream") is not None:
        driver.wait_for(int(interface["stream"]))
    strides, (address, read_only) = interface.get("strides"), interface["data"]
    return Foreign(int(address or 0), tuple(interface["shape"]),
                   None if strides is None else tuple(strides), np.dtype(interface["typestr"]), (dlpack.CUDA, 0), x,
                   dlpack.READ_ONLY if read_only else 0)


def _of_dlpack(driver: Driver, x: Any) -> Foreign:
    """An array through DLPack; the library makes its work come before ours."""
    try:
        device = x.__dlpack_device__()
        on_gpu = isinstance(driver, CudaDriver) and device[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED)
        options = {"stream": int(driver.stream)} if on_gpu and isinstance(driver, CudaDriver) else {}
        return dlpack.taken(_capsule(x.__dlpack__, options))
    except (BufferError, RuntimeError) as error:
        raise _refused(x, error) from None


def _capsule(give: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return give(max_version=dlpack.VERSION, **options)
    except TypeError:                                        # from before DLPack 1.0
        return give(**options)
