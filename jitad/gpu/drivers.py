"""The driver of each target; it is made when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..lowering.gpu.driver import Driver
from .cuda import CudaDriver
from .simulated import SimulatedDriver

_lock = threading.RLock()
_drivers: dict[str, Driver] = {}
_makers: dict[str, Callable[[], Driver]] = {"cuda": CudaDriver, "cuda-sim": SimulatedDriver}

TARGETS = ("cuda", "cuda-sim")


def driver_of(target: str) -> Driver:
    """The driver of a target; raises ``DeviceError`` if the device or a part of its software is missing."""
    found = _drivers.get(target)
    if found is None:
        with _lock:
            found = _drivers.get(target) or _drivers.setdefault(target, _makers[target]())
    return found


def synchronize(target: str = "cuda") -> None:
    """Waits until the device has done all work of this process."""
    driver_of(target).synchronize()


def in_use(target: str) -> Driver | None:
    """The driver of a target if it has been used."""
    return _drivers.get(target)


def is_host(target: str) -> bool:
    """True if device memory is the host's, at the same addresses."""
    return target == "cuda-sim"


@contextmanager
def using(target: str, driver: Driver) -> Iterator[None]:
    """A context in which a target has this driver, for tests."""
    before = _drivers.get(target)
    _drivers[target] = driver
    try:
        yield
    finally:
        if before is None:
            del _drivers[target]
        else:
            _drivers[target] = before
