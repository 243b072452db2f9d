"""``JITAD_WITHOUT``: each pass that only makes code better can be left out, alone and with all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import jit, pipeline, vmap
from tests.ir.irgen import arguments, generate
from tests.passes.test_passes_random import outcome, same

WITHOUT = [*pipeline.OPTIONAL, ",".join(pipeline.OPTIONAL)]
RNG = np.random.default_rng(0)
X, W, B = RNG.normal(size=(21, 4)), RNG.normal(size=(4, 4)), RNG.normal(size=4)


def depth(n: int, x: float) -> float:
    return x if n == 0 else np.sin(x) * depth(n - 1, x * 0.5)


def program(x: Any, w: Any, b: Any) -> float:
    """What the passes are for: nests of loops, small arrays, products, a recursion, a ``while``, a vmap."""
    total, kept = 0.0, np.zeros(len(x))
    for i in range(len(x)):
        s = np.zeros(4)
        for j in range(4):
            s[j] = b[j] * x[i, j]
            for k in range(j):
                s[j] -= w[j, k] * x[i, k]
        kept[i] = np.log(1.0 + np.sum(s * s))
        total += kept[i] if s[0] > 0.0 else s[1] ** 3
    for _ in range(3):
        for i in range(1, len(x)):
            kept[i] = 0.5 * kept[i] + 0.25 * kept[i - 1]
    y = np.tanh(x @ w + b)
    u = 1.0
    while u < total:
        u *= 1.5
    return total / u + np.sum(y * y) + np.sum(kept) + depth(4, b[0]) + np.sum(vmap(lambda r: r @ r * r[0])(y))


def gradients(fastmath: bool) -> Any:
    return jit(program, grad=(0, 1, 2), fastmath=fastmath).value_and_grad(X, W, B)


@pytest.fixture(scope="module")
def expected() -> Any:
    return {fastmath: gradients(fastmath) for fastmath in (False, True)}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", WITHOUT, ids=[*pipeline.OPTIONAL, "all"])
def test_a_program_means_the_same(name: str, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_WITHOUT", name)
    monkeypatch.setenv("JITAD_OPT", "0")
    fastmath = name == "algebra"
    value, grads = gradients(fastmath)
    np.testing.assert_allclose(value, program(X, W, B), rtol=1e-12)
    for got, want in zip(grads, expected[fastmath][1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("name", WITHOUT, ids=[*pipeline.OPTIONAL, "all"])
def test_random_ir_means_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_WITHOUT", name)
    for seed in range(140, 143):
        module, args = generate(seed, statements=12), arguments(seed)
        before = outcome(module, args)
        ran = pipeline.run(module, ["main"])
        assert not ran.keys() & set(name.split(","))
        assert same(before, outcome(module, args, in_place=True), 1e-9)


@pytest.mark.parametrize("name, message", [
    ("lames", "JITAD_WITHOUT: no pass lames: there are rules, simplify, base_case_inlining, .*outer_products"),
    ("licm, copy_insertion", "JITAD_WITHOUT: no program compiles without copy_insertion")])
def test_a_wrong_name_is_refused(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_WITHOUT", name)
    with pytest.raises(ValueError, match=message):
        jit(lambda x: x * x)(2.0)
