"""The state of a host program while it runs: arrays in device memory, the status, results of kernels.

Memory is released when the last array in it is collected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from ....ir.evaluate.meaning import MEANING
from ....ir.types import Scalar
from ..device.thread import FRAME, STACK, WORDS
from ..driver import DeviceBuffer, Driver
from ..image import STATUS_WORDS

WORD = 8
ARENA = {"sim": 64 << 20}
"""Bytes of memory for the arrays and frames of all threads of a kernel, where ``JITAD_GPU_ARENA`` (in MiB) is unset."""
ARENA_OF_DEVICE = 1 << 30
STRIP = 32 << 10
"""Bytes that a thread has at least; fewer threads run if the arena is too small for all of them."""


DEPTH = {"sim": 1000}
"""Calls of recursive functions within one another at most, where it is not given by the stack of a device's threads."""


def depth(driver: Driver) -> int:
    """The calls of recursive functions within one another that a thread has room for."""
    return DEPTH.get(driver.arch, STACK // FRAME)


def arena_size(driver: Driver) -> int:
    given = os.environ.get("JITAD_GPU_ARENA")
    return int(given) << 20 if given else ARENA.get(driver.arch, ARENA_OF_DEVICE)


class Owner:
    """Memory of the device, released when it is collected, unless it was given away."""

    __slots__ = ("address", "driver", "size", "__weakref__")

    def __init__(self, driver: Driver, size: int) -> None:
        self.address = 0
        self.driver, self.size = driver, size
        self.address = driver.allocate(max(size, WORD))

    def give(self) -> int:
        """The address, which the receiver releases."""
        address, self.address = self.address, 0
        return address

    def release(self) -> None:
        if self.address:
            self.driver.free(self.give())

    __del__ = release


class DeviceArray:
    """A buffer of the loop level: ``strides``, in elements, is None in C order.  ``owner`` is kept alive."""

    __slots__ = ("owner", "address", "shape", "strides", "dtype")

    def __init__(self, owner: Owner | None, address: int, shape: tuple[int, ...], strides: tuple[int, ...] | None,
                 dtype: np.dtype) -> None:
        self.owner, self.address, self.shape, self.strides, self.dtype = owner, address, shape, strides, dtype

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

    def words(self) -> list[int]:
        """The parts of the buffer as arguments of a kernel."""
        return [self.address, *self.shape, *(self.strides or ())]


class Runtime:
    """One run of a program on a device."""

    def __init__(self, driver: Driver, loaded: Any, slots: int, may_fail: bool,
                 failure: Callable[..., BaseException]) -> None:
        self.driver, self.loaded, self.may_fail, self.failure = driver, loaded, may_fail, failure
        self.owners: WeakSet[Owner] = WeakSet()
        self.record = self.own(WORD * (STATUS_WORDS + slots))
        self.status, self.slots = self.record.address, self.record.address + WORD * STATUS_WORDS
        self._words = np.empty(STATUS_WORDS + slots, np.int64)
        self._serial: dict[bool, tuple[Owner, Owner]] = {}
        driver.fill(self.status, 0, WORD * STATUS_WORDS)

    # --- memory -------------------------------------------------------------------------------------

    def own(self, size: int) -> Owner:
        """New memory."""
        owner = Owner(self.driver, size)
        self.owners.add(owner)
        return owner

    def release(self) -> None:
        """Release everything at once: the traceback of an exception keeps the variables of the program."""
        for owner in list(self.owners):
            owner.release()

    def empty(self, dtype: np.dtype, *shape: int) -> DeviceArray:
        size = dtype.itemsize
        for n in shape:
            size *= n
        owner = self.own(size)
        return DeviceArray(owner, owner.address, shape, None, dtype)

    def zeros(self, dtype: np.dtype, *shape: int) -> DeviceArray:
        a = self.empty(dtype, *shape)
        self.fill(a, 0)
        return a

    def fill(self, a: DeviceArray, byte: int) -> None:
        """Fill all of an array in C order."""
        if a.count():
            self.driver.fill(a.address, byte, a.count() * a.dtype.itemsize)

    def serial(self, allocates: bool) -> tuple[Owner, int]:
        """The arena of kernels of one thread, which lives as long as the run, and the address of the thread's words.

        It is empty for functions that do not allocate.
        """
        if allocates not in self._serial:
            size = arena_size(self.driver) // 4 if allocates else 0
            arena, ctx = self.own(2 * size), self.own(WORD * len(WORDS))
            state = {"status": self.status, "top": arena.address, "end": arena.address + size, "frame": 1,
                     "limit": size // WORD, "base": arena.address + size, "stride": WORD, "depth": depth(self.driver)}
            self.driver.upload(ctx.address, np.array([state[name] for name in WORDS], np.int64))
            self._serial[allocates] = arena, ctx
        arena, ctx = self._serial[allocates]
        return arena, ctx.address

    def load(self, a: DeviceArray, *index: int) -> Any:
        """One element, on the host."""
        x = np.empty(1, a.dtype)
        self.driver.download(x, a.at(index))
        self.check()
        return as_host(x[0])

    def store(self, x: Any, a: DeviceArray, *index: int) -> None:
        self.driver.upload(a.at(index), np.array([x], a.dtype))

    # --- failures -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the exception of a kernel that has failed."""
        if self.may_fail:
            self.read(0)

    def finish(self) -> None:
        """Check for failures at the end; a driver that records what is done for later calls checks then."""
        postpone = getattr(self.driver, "postpone", None)
        if not (self.may_fail and postpone is not None and postpone(self.check)):
            self.check()

    def read(self, count: int) -> np.ndarray:
        """The first ``count`` slots, as words; raises the exception of a kernel that has failed."""
        words = self._words[:STATUS_WORDS + count]
        self.driver.download(words, self.status)
        if words[0]:
            raise self.failure(int(words[0]), *map(int, words[1:5]))
        return words[STATUS_WORDS:]

    def fail(self, number: int, *operands: Any) -> None:
        """Raise an exception of the host program, unless a kernel has failed before."""
        self.check()
        raise self.failure(number + 1, *map(_word, operands))


def _word(x: Any) -> int:
    if isinstance(x, (float, np.floating)):
        return int(np.array(x, np.float64).view(np.int64))
    return (int(x) + (1 << 63)) % (1 << 64) - (1 << 63)


def as_host(x: Any) -> Any:
    """A scalar on the host: a Python number for f64, i64 and bool, a NumPy scalar otherwise."""
    return x.item() if x.dtype in (np.float64, np.int64, np.bool_) else x


def decoded(words: np.ndarray, t: Scalar) -> Any:
    """The scalar in the first bytes of a slot."""
    return as_host(words.view(np.uint8)[:t.np.itemsize].view(t.np)[0])


def as_argument(x: Any) -> int | float:
    """A scalar as an argument of a kernel; integers are signed."""
    if isinstance(x, (bool, np.bool_)):
        return int(x)
    if isinstance(x, (float, np.floating)):
        return float(x)
    if isinstance(x, np.unsignedinteger):
        return int(x.view(x.dtype.name[1:]))
    return int(x)


def arguments(xs: Sequence[Any]) -> list[int | float]:
    out: list[int | float] = []
    for x in xs:
        if isinstance(x, DeviceArray):
            out += x.words()
        else:
            out.append(as_argument(x))
    return out


# --- scalars of host programs -------------------------------------------------------------------------------

_HIGH, _ALL = 1 << 63, 1 << 64


def wrap(n: int) -> int:
    """An integer modulo 2⁶⁴."""
    return n if -_HIGH <= n < _HIGH else (n + _HIGH) % _ALL - _HIGH


def meaning(name: str, attrs: dict[str, Any], types: Sequence[Scalar]) -> Callable[..., Any]:
    """An elementwise op on scalars of the host."""
    run, kinds = MEANING[name], [t.np.type for t in types]

    def apply(*xs: Any) -> Any:
        with np.errstate(all="ignore"):
            return as_host(np.asarray(run(attrs, *(kind(x) for kind, x in zip(kinds, xs))))[()])
    return apply


# --- views --------------------------------------------------------------------------------------------------

def view(attrs: dict[str, Any], a: DeviceArray, *where: int) -> DeviceArray:
    """``a[s0 : s0+l0*t0 : t0, …]`` without the axes ``drop``, in the order ``perm``."""
    steps, starts, lengths, jumps = a.steps(), where[0::3], where[1::3], where[2::3]
    kept = [k for k in range(len(steps)) if k not in attrs.get("drop", ())]
    order = [kept[p] for p in attrs.get("perm", range(len(kept)))]
    strides = None if attrs.get("contiguous") else tuple(jumps[k] * steps[k] for k in order)
    return DeviceArray(a.owner, a.at(starts), tuple(lengths[k] for k in order), strides, a.dtype)


def reshape(a: DeviceArray, *shape: int) -> DeviceArray:
    return DeviceArray(a.owner, a.address, shape, a.strides, a.dtype)


# --- to and from the caller -----------------------------------------------------------------------------------

def received(x: Any, t: Any) -> Any:
    """A leaf of the arguments as a value of the program; ``t`` is the type of the parameter."""
    if isinstance(x, DeviceBuffer):
        return DeviceArray(None, x.address, tuple(x.shape), None, x.dtype)
    return as_host(t.np.type(x))


def returned(rt: Runtime, results: Sequence[Any]) -> list[Any]:
    """The results as the caller gets them: buffers that are its own, each in memory of its own."""
    given: set[int] = set()
    out: list[Any] = []
    for x in results:
        if not isinstance(x, DeviceArray):
            out.append(x)
            continue
        owner = x.owner
        if owner is None or owner.address != x.address or id(owner) in given:
            fresh = rt.empty(x.dtype, *x.shape)
            if fresh.count():
                rt.driver.copy(fresh.address, x.address, fresh.count() * x.dtype.itemsize)
            owner = fresh.owner
        assert owner is not None
        given.add(id(owner))
        out.append((owner, x))
    return [DeviceBuffer(x[0].give(), x[1].shape, x[1].dtype) if isinstance(x, tuple) else x for x in out]
