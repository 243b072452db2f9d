"""The state of a host program while it runs: the status, scalars that kernels compute, an arena."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ....errors import DeviceError
from ....ir.types import BOOL, F64, I64, Scalar
from ..device.thread import FRAME, WORDS, stack_size
from ..driver import DeviceBuffer, Driver
from ..image import STATUS_WORDS
from .device_array import WORD, DeviceArray, Owner
from .scalars import as_argument, as_host, decoded, word

TURNS = 1024                           # iterations of a loop of the host between two looks at the status
ARENA = {"sim": 64 << 20}
"""Bytes of memory for the arrays and frames of all threads of a kernel, where ``JITAD_GPU_ARENA`` (in MiB) is unset."""
ARENA_OF_DEVICE = 1 << 30
STRIP = 32 << 10
"""Bytes that a thread has at least; fewer threads run if the arena is too small for all of them."""


DEPTH = {"sim": 1000}
"""Calls of recursive functions within one another at most, where it is not given by the stack of a device's threads."""


def depth(driver: Driver) -> int:
    """The calls of recursive functions within one another that a thread has room for."""
    return DEPTH.get(driver.arch, stack_size() // FRAME)


def arena_size(driver: Driver) -> int:
    given = os.environ.get("JITAD_GPU_ARENA")
    return int(given) << 20 if given else ARENA.get(driver.arch, ARENA_OF_DEVICE)


class Pending:
    """A scalar that kernels compute: it stays on the device, at ``address``, until the host needs it.

    It is at ``place`` among the numbers of ``memory``.
    """

    __slots__ = ("rt", "memory", "place", "type", "value")

    def __init__(self, rt: Runtime, memory: Owner, place: int, type: Scalar) -> None:
        self.rt, self.memory, self.place, self.type = rt, memory, place, type
        self.value: Any = None

    @property
    def address(self) -> int:
        return self.memory.address + WORD * self.place

    def get(self) -> Any:
        """The number on the host; waits for the device."""
        if self.value is None:
            self.value = decoded(self.rt.read(self.memory, self.place, 1), self.type)
        return self.value


def now(x: Any) -> Any:
    """A scalar on the host."""
    return x.get() if type(x) is Pending else x


NUMBERS = 504
"""Numbers that kernels write in the first memory of a run, behind the status: 4 KiB with it."""


class Runtime:
    """The resources of a run on a device: the status, memory for the scalars that kernels compute, and an arena.

    Runs that follow one another use the same ones (``idle``); ``begin`` says for which program.
    """

    __slots__ = ("driver", "loaded", "program", "record", "status", "started", "_numbers", "_next", "_end", "_words",
                 "_floats", "_serial", "_fresh", "_turns", "__weakref__")

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.loaded: Any = None
        self.program: Any = None                     # the ``DeviceProgram``
        self.started = False                         # numbers or the arena have been used
        self.record = Owner(driver, WORD * (STATUS_WORDS + NUMBERS))
        self.status = self.record.address
        self._numbers, self._next, self._end = self.record, STATUS_WORDS, STATUS_WORDS + NUMBERS
        self._words = np.empty(STATUS_WORDS + NUMBERS, np.int64)
        self._floats = self._words.view(np.float64)
        self._serial: dict[bool, tuple[Owner, Owner]] = {}
        self._fresh = True                           # the arena is as this run has left it
        self._turns = 0                              # iterations of loops of the host
        driver.fill(self.status, 0, WORD * STATUS_WORDS)

    def begin(self, program: Any, loaded: Any) -> None:
        self.program, self.loaded = program, loaded
        if self.started:
            self.started = self._fresh = False
            self._numbers, self._next, self._end = self.record, STATUS_WORDS, STATUS_WORDS + NUMBERS

    # --- memory -------------------------------------------------------------------------------------

    def own(self, size: int) -> Owner:
        """New memory."""
        return Owner(self.driver, size)

    def release(self) -> None:
        """Release everything at once."""
        for owner in (self.record, *(owner for pair in self._serial.values() for owner in pair)):
            owner.release()

    def empty(self, dtype: np.dtype, *shape: int) -> DeviceArray:
        size = dtype.itemsize
        for n in shape:
            size *= n
        owner = Owner(self.driver, size)
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
        """The arena of kernels of one thread, and the address of the thread's words.

        It is empty for functions that do not allocate.
        """
        found = self._serial.get(allocates)
        if found is None:
            size = arena_size(self.driver) // 4 if allocates else 0
            found = self._serial[allocates] = self.own(2 * size), self.own(WORD * len(WORDS))
            self._restart(allocates)
        elif allocates and not self._fresh:
            self._restart(allocates)
        if allocates:
            self.started = self._fresh = True
        return found[0], found[1].address

    def _restart(self, allocates: bool) -> None:
        """Fill the words of the thread: nothing of the arena is in use."""
        arena, ctx = self._serial[allocates]
        size = arena.size // 2
        state = {"status": self.status, "top": arena.address, "end": arena.address + size, "frame": 1,
                 "limit": size // WORD, "base": arena.address + size, "stride": WORD, "depth": depth(self.driver)}
        self.driver.upload(ctx.address, np.array([state[name] for name in WORDS], np.int64))

    # --- scalars ------------------------------------------------------------------------------------

    def numbers(self, count: int) -> tuple[Owner, int]:
        """Memory for scalars that a kernel computes, and the place of the first one in it."""
        if self._next + count > self._end:
            self._numbers, self._next, self._end = self.own(WORD * max(count, NUMBERS)), 0, max(count, NUMBERS)
        place = self._next
        self._next += count
        self.started = True
        return self._numbers, place

    def read(self, memory: Owner, place: int, count: int) -> np.ndarray:
        """Numbers in ``memory``, as words; raises the exception of a kernel that has failed."""
        if memory is not self.record:
            self.check()
            words = np.empty(count, np.int64)
            self.driver.download(words, memory.address + WORD * place)
            return words
        words = self._words[:place + count]
        self.driver.download(words, self.status)
        if words[0]:
            raise self.program.failures(int(words[0]), *map(int, words[1:5]))
        return words[place:]

    def resident(self, x: Any, t: Scalar) -> Pending:
        """A scalar in the memory of the device, for kernels that take its address."""
        if type(x) is Pending:
            return x
        found = Pending(self, *self.numbers(1), t)
        found.value = x
        self.driver.upload(found.address, np.array([x], t.np))
        return found

    def load(self, a: DeviceArray, *index: int) -> Any:
        """One element, on the host."""
        x = np.empty(1, a.dtype)
        self.driver.download(x, a.at(index))
        self.check()
        return as_host(x[0])

    def peek(self, t: Scalar, a: DeviceArray, *index: int) -> Pending:
        """One element as it is now, on the device."""
        found = Pending(self, *self.numbers(1), t)
        self.driver.copy(found.address, a.at(index), a.dtype.itemsize)
        return found

    def store(self, x: Any, a: DeviceArray, *index: int) -> None:
        if type(x) is Pending:
            self.driver.copy(a.at(index), x.address, a.dtype.itemsize)
        else:
            self.driver.upload(a.at(index), np.array([x], a.dtype))

    # --- failures -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the exception of a kernel that has failed."""
        if self.program.may_fail:
            self.read(self.record, STATUS_WORDS, 0)

    def check_before(self, error: Exception) -> None:
        """Raise the exception of a kernel that has failed before ``error``, which may be due to what it left."""
        try:
            self.check()
        except DeviceError:                          # a lost device says no more
            return
        except Exception as failed:
            if type(failed) is not type(error) or str(failed) != str(error):
                raise failed from None

    def iterate(self) -> None:
        """Check the status now and then: a loop of the host may have no end because a kernel before it has failed."""
        self._turns += 1
        if not self._turns % TURNS and self.driver.capture is None:
            self.check()

    def fail(self, number: int, *operands: Any) -> None:
        """Raise an exception of the host program, unless a kernel has failed before."""
        self.check()
        raise self.program.failures(number + 1, *map(word, operands))

    # --- results ------------------------------------------------------------------------------------

    def finish(self, results: Sequence[Any], recording: bool) -> list[Any]:
        """The results as the caller gets them: numbers, and arrays that are its own, each in memory of its own.

        Raises the exception of a kernel that has failed.  If the driver is ``recording`` what is done, for later calls,
        numbers are arrays without axes, and the check is made later.
        """
        if recording and self.program.may_fail:
            self.driver.capture.checks.append(self.check)
        given: set[int] = set()
        out: list[Any] = []
        last = 0
        for x in results:
            if type(x) is DeviceArray:
                owner = x.owner
                if owner is None or owner.address != x.address or id(owner) in given:
                    x = self._copied(x)
                given.add(id(x.owner))
            elif type(x) is Pending:
                if recording:
                    x = self._array(x)
                elif x.memory is self.record:
                    last = max(last, x.place)
            out.append(x)
        if last:
            self.read(self.record, last, 1)          # all numbers to the last one, in one transfer
            out = [self._found(x) if type(x) is Pending else x for x in out]
        elif not recording:
            self.check()
        return [now(x) for x in out] if self._numbers is not self.record else out

    def _found(self, x: Pending) -> Any:
        """The value of a result, of which the memory has been read."""
        if x.memory is not self.record:
            return x.get()
        if x.type is F64:
            return self._floats.item(x.place)
        return decoded(self._words[x.place:x.place + 1], x.type)

    def _array(self, x: Pending) -> DeviceArray:
        """An array without axes that has a scalar's value."""
        made = self.empty(x.type.np)
        self.driver.copy(made.address, x.address, x.type.np.itemsize)
        return made

    def _copied(self, a: DeviceArray) -> DeviceArray:
        made = self.empty(a.dtype, *a.shape)
        if made.count():
            self.driver.copy(made.address, a.address, made.count() * a.dtype.itemsize)
        return made


# --- what runs leave for those after them -------------------------------------------------------------------

def idle(driver: Driver) -> list[Runtime]:
    """The ``Runtime`` of runs that have ended.  A run takes one, or makes one, and puts it back if it succeeds."""
    found: list[Runtime] = vars(driver).setdefault("_idle", [])
    return found


def release_idle(driver: Driver) -> None:
    """Release the memory that runs have left for those after them."""
    left = idle(driver)
    while left:
        left.pop().release()


def is_recording(driver: Driver) -> bool:
    """True while a driver records what is done for later calls."""
    return driver.capture is not None


def forget_locals(error: BaseException) -> None:
    """Clear the frames that an exception has ended, which keep the arrays of the program: their memory is released."""
    at = error.__traceback__.tb_next if error.__traceback__ is not None else None
    while at is not None:
        with suppress(RuntimeError):                 # a frame that is still running
            at.tb_frame.clear()
        at = at.tb_next


def arguments(xs: Sequence[Any]) -> list[int | float]:
    out: list[int | float] = []
    for x in xs:
        kind = type(x)
        if kind is DeviceArray:
            out += x._words or x.words()
        elif kind is float or kind is int:
            out.append(x)
        elif kind is Pending:
            out.append(x.address)
        else:
            out.append(as_argument(x))
    return out


# --- from the caller ------------------------------------------------------------------------------------------

NATIVE = {F64: float, I64: int, BOOL: bool}
"""The types of Python's scalars, which host programs take as they are."""


def received(x: Any, t: Any) -> Any:
    """A leaf of the arguments as a value of the program; ``t`` is the type of the parameter."""
    if type(x) is DeviceArray:
        return x
    if isinstance(x, DeviceBuffer):
        return DeviceArray(None, x.address, tuple(x.shape), None, x.dtype)
    return x if type(x) is NATIVE.get(t) else as_host(t.np.type(x))
