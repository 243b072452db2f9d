"""Kernels of programs: the forms that they take.  ``test_corpus`` has numbers, and assembles them for one architecture.
"""

from __future__ import annotations

import dataclasses
import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.ptx import ARCHITECTURES

from jitad import grad, jit, unroll, vmap
from jitad.gpu.drivers import using
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.corpus import assembled, corpus
from tests.gpu.programs import compare, compiled, uploaded
from tests.gpu.small import RNG, shared_array
from tests.gpu.test_ptx import needs_libdevice, needs_ptxas


@pytest.mark.slow
@pytest.mark.long
@needs_libdevice
@needs_ptxas
def test_a_sample_of_the_corpus_assembles_everywhere(tmp_path: Path) -> None:
    """Each 84th program, for all architectures; ``python -m tests.gpu.corpus`` takes all of them."""
    for fun, args in [(fun, args) for _, fun, args in corpus()][::84]:
        image = compiled(fun, *args).program.image
        for arch in ARCHITECTURES if image.kernels else ():
            assembled(image, arch, tmp_path)


@pytest.mark.slow
def test_products_in_tiles() -> None:
    driver = SimulatedDriver(checked=True, order=2)
    products = compiled(lambda a, b, c: (a @ b, a.T @ c, c @ b.T, np.stack((a, c)) @ np.stack((b, b))),
                        RNG.normal(size=(65, 70)), RNG.normal(size=(70, 70)), RNG.normal(size=(65, 70)))
    compare(products, driver)
    product = compiled(lambda a, b: a @ b, np.ones((20, 3)), np.ones((3, 20)))
    for m, k, n in ((16, 0, 16), (64, 16, 64), (130, 5, 17)):
        compare(dataclasses.replace(product, given=(RNG.normal(size=(m, k)), RNG.normal(size=(k, n)))), driver)
    assert "a tile of 64 × 64 elements a block" in products.program.plan()


@pytest.mark.long
@pytest.mark.slow
def test_where_arrays_of_gradients_are_added() -> None:
    """Of few elements in local memory, of many by atomics; deterministic programs keep an array for each thread."""
    w, a = RNG.normal(size=40), RNG.normal(size=300)
    for deterministic, shown in ((False, "add in local memory"), (True, "adds the arrays of the threads")):
        made = compiled(lambda w, a: grad(shared_array)(w, a), w, a, deterministic=deterministic)
        assert shown in made.program.plan()
        for x in (w, w[:7]):
            compare(dataclasses.replace(made, given=[x, *made.given[1:]]), SimulatedDriver(checked=True))


@pytest.mark.slow
def test_deterministic_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """By option, sums of f32 are the same whatever the order of blocks and threads."""
    x, i = RNG.normal(size=700).astype(np.float32), RNG.integers(0, 40, 700)

    def sums(x: Any, i: Any) -> Any:
        z = np.zeros(40, np.float32)
        np.add.at(z, i, x)
        return z, grad(lambda z: (np.tanh(z[i]) * x).sum())(z)

    def runs() -> set[bytes]:
        found = set()
        for order in range(4):
            with using("cuda-sim", SimulatedDriver(order=order)):
                found.add(b"".join(a.numpy().tobytes() for a in jit(sums, target="cuda-sim")(x, i)))
                gc.collect()
        return found
    assert len(runs()) > 1
    monkeypatch.setenv("JITAD_GPU_DETERMINISTIC", "1")
    assert len(runs()) == 1


@pytest.mark.slow
def test_memory_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With little memory fewer threads run; with too little for one of them the program raises ``MemoryError``."""
    def descent(x: float, most: int) -> float:
        n = 0
        while n < most and x < 1e9:
            x = x + 0.1 * np.sin(x)
            n += 1
        return x
    monkeypatch.setenv("JITAD_GPU_ARENA", "8")
    made = compiled(lambda x, n: vmap(grad(lambda x: descent(x, n)))(x), RNG.normal(size=600), 20)
    assert "as far as their memory allows" in made.program.plan()
    driver = SimulatedDriver()
    compare(made, driver)
    with pytest.raises(MemoryError):
        made.program.run(driver, [uploaded(driver, made.given[0]), 5000])


@pytest.mark.slow
def test_arrays_are_released_after_their_last_use() -> None:
    """A chain of products needs two arrays at a time, and the result."""
    class Counting(SimulatedDriver):
        most = 0

        def launch(self, *args: Any, **kwargs: Any) -> None:
            self.most = max(self.most, self.memory.count)
            super().launch(*args, **kwargs)

    def chain(a: Any) -> Any:
        b = a
        for _ in unroll(range(6)):
            b = a @ b
        return b
    made, driver = compiled(chain, np.ones((20, 20)) / 20), Counting()
    compare(made, driver)
    assert driver.most <= 5                              # the argument, the status, two or three products
