"""The recording driver refuses each kind of misuse, and reports leaks and unhandled failures."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.image import Image, Kernel

from jitad.errors import NOWHERE
from jitad.gpu.recording import HostMemory, Misuse, RecordingDriver, failures

SCALE = Kernel("scale", ("ptr", "ptr", "f64", "i64"), 128, NOWHERE)
IMAGE = Image("", (SCALE,))


def scale(memory: HostMemory, grid: int, status: int, x: int, factor: float, n: int) -> None:
    memory.view(x, 8 * n).view(np.float64)[:] *= factor


def made(limit: int | None = None) -> RecordingDriver:
    return RecordingDriver(HostMemory({"scale": scale}), limit)


def scaled(driver: RecordingDriver, x: np.ndarray, factor: float) -> np.ndarray:
    """A host program: it frees what it allocates, also when a call fails."""
    loaded, out, live = driver.load(IMAGE), np.empty_like(x), []
    try:
        for size in (64, x.nbytes):
            live.append(driver.allocate(size))
        driver.fill(live[0], 0, 64)
        driver.upload(live[1], x)
        driver.launch(loaded, SCALE, 1, [*live, factor, len(x)])
        driver.download(out, live[1])
    finally:
        for address in live:
            driver.free(address)
    return out


def test_calls_are_passed_on_and_recorded() -> None:
    driver = made()
    assert scaled(driver, np.arange(4.0), 3.0).tolist() == [0, 3, 6, 9]
    assert driver.launches() == [("scale", 1)]
    assert [c.name for c in driver.calls] == ["load", "allocate", "allocate", "fill", "upload", "launch", "download",
                                              "free", "free"]
    driver.finish()


@pytest.mark.parametrize("name, count", [("allocate", 2), ("load", 1), ("launch", 1), ("download", 1)])
def test_each_call_can_fail(name: str, count: int) -> None:
    assert failures(made, lambda driver: scaled(driver, np.ones(3), 2.0), name, MemoryError("none left")) == count


def test_a_failure_that_is_swallowed_or_leaks_is_found() -> None:
    def swallows(driver: RecordingDriver) -> None:
        try:
            scaled(driver, np.ones(3), 2.0)
        except MemoryError:
            pass

    def leaks(driver: RecordingDriver) -> None:
        first = driver.allocate(8)
        driver.free(driver.allocate(8))
        driver.free(first)
    for program, message in ((swallows, "not reported"), (leaks, "not been freed")):
        with pytest.raises(Misuse, match=message):
            failures(made, program, "allocate", MemoryError())


WRONG: list[tuple[str, Callable[[RecordingDriver, Any, int], Any]]] = [
    ("has been freed", lambda d, code, p: (d.free(p), d.free(p))),
    ("not allocated", lambda d, code, p: d.upload(p, np.zeros(9))),
    ("not allocated", lambda d, code, p: (d.free(p), d.download(np.zeros(1), p))),
    ("not allocated", lambda d, code, p: d.fill(p + 60, 0, 5)),
    ("C-contiguous", lambda d, code, p: d.upload(p, np.zeros((2, 2)).T)),
    ("overlaps", lambda d, code, p: d.copy(p, p + 8, 16)),
    ("4 parameters", lambda d, code, p: d.launch(code, SCALE, 1, [p, p, 1.0])),
    ("argument 2 is 1,", lambda d, code, p: d.launch(code, SCALE, 1, [p, p, 1, 1])),
    ("argument 3 is 1.0", lambda d, code, p: d.launch(code, SCALE, 1, [p, p, 1.0, 1.0])),
    ("argument 1", lambda d, code, p: d.launch(code, SCALE, 1, [p, 12345, 1.0, 1])),
    ("a grid of -1", lambda d, code, p: d.launch(code, SCALE, -1, [p, p, 1.0, 1])),
    ("shared memory", lambda d, code, p: d.launch(code, SCALE, 1, [p, p, 1.0, 1], 1 << 20)),
    ("not in the image", lambda d, code, p: d.launch(code, Kernel("k", (), 32, NOWHERE), 1, [])),
    ("not been loaded", lambda d, code, p: d.launch("other", SCALE, 1, [p, p, 1.0, 1])),
    ("2048 threads", lambda d, code, p: d.load(Image("", (Kernel("k", (), 2048, NOWHERE),)))),
    ("name", lambda d, code, p: d.load(Image("", (Kernel("größe", (), 32, NOWHERE),)))),
]


@pytest.mark.parametrize("message, wrong", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_misuse_is_refused(message: str, wrong: Callable[[RecordingDriver, Any, int], Any]) -> None:
    driver = made()
    with pytest.raises(Misuse, match=message):
        wrong(driver, driver.load(IMAGE), driver.allocate(64))


def test_memory_is_limited_and_may_belong_to_others() -> None:
    driver = made(limit=100)
    first = driver.allocate(80)
    with pytest.raises(MemoryError, match="20 are free"):
        driver.allocate(21)
    driver.free(first)
    with pytest.raises(Misuse):
        driver.launch(driver.load(IMAGE), SCALE, 0, [0, 4096, 1.0, 0])
    driver.adopt(4096, 64)
    driver.launch(driver.load(IMAGE), SCALE, 0, [0, 4096, 1.0, 0])
