"""Products of f32 by tensor cores, with rounded operands: emulated in the simulator, instructions in PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import grad, jit, spec
from tests.gpu.running import OnDevice

pytestmark = pytest.mark.any_level

RNG = np.random.default_rng(8)
FORMATS = ("tf32", "bf16", "f16")


def rounded(x: Any, format: str) -> Any:
    """Numbers of f32 rounded to a format, in f64."""
    bits = x.view(np.uint32)
    if format == "tf32":
        kept = (bits + 0x1000) & 0xFFFFE000
    elif format == "bf16":
        kept = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    else:
        return x.astype(np.float16).astype(np.float64)
    return kept.astype(np.uint32).view(np.float32).astype(np.float64)


def numbers(*shape: int) -> Any:
    """Some of them subnormal in f16, some in the middle between two neighbours."""
    x = RNG.normal(size=shape).astype(np.float32)
    x.flat[:8] = 1e-6, 3e-8, -2e-5, 6.1e-5, 1e-9, 1 + 2.0 ** -11, 1 + 2.0 ** -8, -(1 + 3 * 2.0 ** -11)
    return x


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_rounded_products(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With edges, of stacks, added to what is there, and turned in gradients; f64 is not rounded."""
    monkeypatch.setenv("JITAD_GPU_MATMUL", format)
    monkeypatch.setenv("JITAD_GPU_CHECK", "1")
    product = OnDevice(jit(lambda a, b: a @ b, target="cuda-sim"))
    for shapes in (((64, 16), (16, 64)), ((40, 37), (37, 70)), ((2, 17, 20), (2, 20, 16))):
        a, b = (numbers(*shape) for shape in shapes)
        np.testing.assert_allclose(product(a, b), rounded(a, format) @ rounded(b, format), rtol=1e-5, atol=2e-5)
        exact = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_allclose(product(*exact), exact[0] @ exact[1], rtol=1e-12, atol=1e-12)
    slope = OnDevice(jit(grad(lambda a, b: (a @ b).sum()), target="cuda-sim"))
    a, b = numbers(20, 33), numbers(33, 17)
    want = np.ones((20, 17)) @ rounded(b, format).T
    np.testing.assert_allclose(slope(a, b), want, rtol=1e-5, atol=2e-5)


def test_overflow_and_what_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """f16 overflows; infinities and NaN stay what they are, in their row alone."""
    a, b = np.zeros((16, 16), np.float32), np.eye(16, dtype=np.float32)
    a[0], a[1, 3], a[2, 2], a[3, 5] = 65519.0, 65520.0, np.nan, -np.inf
    with np.errstate(invalid="ignore", over="ignore"):
        for format in FORMATS:
            monkeypatch.setenv("JITAD_GPU_MATMUL", format)
            found = OnDevice(jit(lambda a, b: a @ b, target="cuda-sim"))(a, b)
            assert np.array_equal(found, rounded(a, format) @ b, equal_nan=True)


@pytest.mark.slow
def test_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """From sm_80 on; before, the plain kernel runs, and the other one is emulated."""
    given = spec("f32[:, :]"), spec("f32[:, :]")
    product = jit(lambda a, b: a @ b, target="cuda")
    assert "mma" not in product.inspect("ptx", *given, arch="sm_90")
    for format, name in zip(FORMATS, ("m16n8k8", "m16n8k16", "m16n8k16")):
        monkeypatch.setenv("JITAD_GPU_MATMUL", format)
        rounding = jit(lambda a, b: a @ b, target="cuda")
        assert f"by tensor cores, rounded to {format}, from sm_80 on" in rounding.inspect("plan", *given)
        for arch in ("sm_80", "sm_120"):
            text = rounding.inspect("ptx", *given, arch=arch)
            assert f"mma.sync.aligned.{name}.row.col.f32.{format}.{format}.f32" in text
        assert "mma.sync" not in rounding.inspect("ptx", *given, arch="sm_75")
    monkeypatch.setenv("JITAD_GPU_MATMUL", "f8")
    with pytest.raises(ValueError, match="expected f32, tf32, bf16, f16"):
        jit(lambda a, b: a @ b, target="cuda").inspect("plan", *given)
