"""Buffers of the loop level in a device's memory, which is released when the last array in it is collected."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..driver import Driver

WORD = 8


class Owner:
    """Memory of the device, released when it is collected."""

    __slots__ = ("address", "driver", "size", "__weakref__")

    def __init__(self, driver: Driver, size: int) -> None:
        self.address = 0
        self.driver, self.size = driver, size
        self.address = driver.allocate(size or WORD)

    def release(self) -> None:
        address = self.address
        if address:
            self.address = 0
            self.driver.free(address)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():                          # then the memory goes with the process, and modules may be empty
            self.release()


class DeviceArray:
    """A buffer of the loop level: ``strides``, in elements, is None in C order.  ``owner`` is kept alive.

    An argument has no ``owner``, since its memory is not the program's; ``lender`` is then what keeps it.
    """

    __slots__ = ("owner", "address", "shape", "strides", "dtype", "lender", "_words")

    def __init__(self, owner: Owner | None, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None,
                 dtype: np.dtype) -> None:
        self.owner, self.address, self.shape, self.strides, self.dtype = owner, address, shape, strides, dtype
        self.lender: Any = None
        self._words: tuple[int, ...] | None = None

    def steps(self) -> tuple[int, ...]:
        """The stride of each axis in elements."""
        if self.strides is not None:
            return self.strides
        out = [1]
        for n in reversed(self.shape[1:]):
            out.insert(0, out[0] * n)
        return tuple(out)

    def at(self, index: Sequence[int]) -> int:
        """The address of an element."""
        return self.address + self.dtype.itemsize * sum(i * s for i, s in zip(index, self.steps()))

    def count(self) -> int:
        out = 1
        for n in self.shape:
            out *= n
        return out

    def words(self) -> tuple[int, ...]:
        """The parts of the buffer as arguments of a kernel."""
        if self._words is None:
            self._words = self.address, *self.shape, *(self.strides or ())
        return self._words


def view(attrs: dict[str, Any], a: DeviceArray, *where: int) -> DeviceArray:
    """``a[s0 : s0+l0*t0 : t0, …]`` without the axes ``drop``, in the order ``perm``."""
    steps, starts, lengths, jumps = a.steps(), where[0::3], where[1::3], where[2::3]
    kept = [k for k in range(len(steps)) if k not in attrs.get("drop", ())]
    order = [kept[p] for p in attrs.get("perm", range(len(kept)))]
    strides = None if attrs.get("contiguous") else tuple(jumps[k] * steps[k] for k in order)
    return DeviceArray(a.owner, a.at(starts), tuple(lengths[k] for k in order), strides, a.dtype)


def reshape(a: DeviceArray, *shape: int) -> DeviceArray:
    return DeviceArray(a.owner, a.address, shape, a.strides, a.dtype)
