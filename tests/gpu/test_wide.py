"""Kernels whose threads access 16 bytes at once."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.driver import DeviceBuffer
from jitad.lowering.gpu.ptx import to_ptx

from jitad import grad
from jitad.gpu.recording import RecordingDriver
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.programs import Case, compare, compiled, downloaded, uploaded
from tests.gpu.test_ptx import needs_libdevice

pytestmark = pytest.mark.any_level

RNG = np.random.default_rng(8)
SIZES = (0, 1, 3, 4, 5, 31, 33, 1025)


def launched(case: Case, given: list[Any], order: int = 0) -> str:
    """Compares a program, and returns the name of the last kernel that ran."""
    driver = RecordingDriver(SimulatedDriver(checked=True, order=order))
    compare(dataclasses.replace(case, given=given), driver, 1e-5)
    names = [call.args[0] for call in driver.calls if call.name == "launch"]
    return str(names[-1]) if names else ""


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_elements(dtype: Any) -> None:
    """Of all sizes, those that leave a rest for one thread too, with a scalar, in place, to another dtype."""
    case = compiled(lambda x, y, a: (3 * x + y * a, x > y), np.ones(5, dtype), np.ones(5, dtype), 2)
    assert f"{2 if dtype == np.float64 else 4} iterations a thread" in case.program.plan()
    for order, n in enumerate(SIZES):
        x, y = RNG.normal(0, 9, (2, n)).astype(dtype)
        assert ("_wide" in launched(case, [x, y, 2], order)) == (n > 0)


def test_matrices_and_gradients() -> None:
    case = compiled(lambda x, y: grad(lambda x: (x * x * y).sum())(x), np.ones((3, 5)), np.ones((3, 5)))
    assert "_wide" in launched(case, list(RNG.normal(size=(2, 7, 9))))
    for broadcast in (lambda x, y: x + y[0], lambda x, y: x[::-1] * y, lambda x, y: np.tanh(x)):
        assert "16 bytes" not in compiled(broadcast, np.ones((3, 5)), np.ones((3, 5))).program.plan()


def test_arrays_that_begin_elsewhere() -> None:
    """An array of another library may begin in the middle of 16 bytes: a thread then takes one element."""
    case = compiled(lambda x: 2 * x + 1, np.ones(5))
    driver = RecordingDriver(SimulatedDriver(checked=True))
    whole = uploaded(driver, np.arange(10.0))
    for offset, name in ((0, "_wide"), (1, "_nest"), (2, "_wide")):
        part = DeviceBuffer(whole.address + 8 * offset, (7,), whole.dtype)
        out, = case.program.run(driver, [part])
        np.testing.assert_array_equal(downloaded(driver, out), 2 * np.arange(10.0)[offset:offset + 7] + 1)
        assert driver.calls[-1].name != "launch"
        assert [c.args[0] for c in driver.calls if c.name == "launch"][-1].endswith(name)


@needs_libdevice
def test_instructions() -> None:
    """LLVM makes one access of neighbouring ones."""
    for dtype, kind in ((np.float64, "v2.b64"), (np.float32, "v4.b32")):
        ptx = to_ptx(compiled(lambda x, y: 2 * x + y, np.ones(5, dtype), np.ones(5, dtype)).program.image, "sm_90")
        assert ptx.count(f"ld.global.{kind}") == 2 and ptx.count(f"st.global.{kind}") == 1
