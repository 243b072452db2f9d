"""Machine code of shared routines on disk (``lowering/jit/object_cache.py``): read if it is there, else compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jitad.lowering.jit import cpu
from jitad.lowering.matmul import gemm

from jitad import jit

_IN_USE: list[cpu.Native] = []                # functions compiled by other tests call it by its address


def test_products_from_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The routine for products runs the same when another process has compiled it."""
    name = "jitad.product.f64"
    _IN_USE.append(cpu._written(gemm, name))
    monkeypatch.setenv("JITAD_CACHE_DIR", str(tmp_path))
    a, b = np.random.default_rng(0).normal(size=(2, 19, 19))
    results, phases = [], []
    for _ in range(2):
        cpu._written.cache_clear()
        results.append(jit(lambda x, y: x @ y)(a, b))
        _IN_USE.append(cpu._written(gemm, name))
        phases.append(set(_IN_USE[-1].times))
    assert phases == [{"llvm", "codegen", "link"}, {"link"}]
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], a @ b, rtol=1e-12)
    assert len(list(tmp_path.glob("*.jitad"))) == 1
