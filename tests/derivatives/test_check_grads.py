"""``check_grads``: correct derivatives pass, wrong ones are found and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import check_grads, custom_jvp, custom_vjp, stop_gradient
from jitad.errors import DifferentiationError

pytestmark = pytest.mark.any_level


def test_right_derivatives_pass() -> None:
    check_grads(lambda x, y: np.sin(x * y) + x ** 3, (1.2, 0.7))
    check_grads(lambda p: ((np.tanh(p["a"]) * p["b"][0]).sum(), p["b"][1] ** 2),
                ({"a": np.arange(3.0) / 3, "b": [np.ones(3), 2.0, 3]},), order=1)
    check_grads(lambda x: (x * x).sum(), (np.arange(3, dtype=np.float32),), order=1)


@pytest.mark.slow
def test_loops() -> None:
    def recurrence(w: Any, n: int) -> Any:
        s = 0.1
        for _ in range(n):
            s = np.sin(s * w) + w
        return s
    check_grads(recurrence, (0.4, 7))


def test_a_wrong_derivative_is_found() -> None:
    def wrong(x: Any, y: Any) -> Any:
        return (x * stop_gradient(x)).sum() + y
    args = (np.array([0.0, 3.0, 1.0]), 2.0)
    with pytest.raises(AssertionError, match=r"vjp of wrong: args\[0\]\[1\] is 3.0, finite differences give [56]."):
        check_grads(wrong, args, order=1, modes=("rev",))
    with pytest.raises(AssertionError, match="jvp of wrong: result 0"):
        check_grads(wrong, args, order=1, modes=("fwd",))


def test_a_wrong_second_derivative_is_found() -> None:
    def wrong(x: Any) -> Any:
        return x * x * x if x > 0 else x
    with pytest.raises(AssertionError, match="jvp of wrong"):
        check_grads(wrong, (0.0,), order=1)
    with pytest.raises(AssertionError, match="of [jv][jv]p of half"):
        check_grads(half, (1.3,), order=2)


def half(x: Any) -> Any:
    """Its first derivative is right; its second is not."""
    return x * x - 0.5 * (x - stop_gradient(x)) * (x - stop_gradient(x))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="modes"):
        check_grads(abs, (1.0,), modes=("sideways",))
    with pytest.raises(DifferentiationError, match="holds no float"):
        check_grads(lambda n: n * 2.0, (3,))


def network(p: Any, x: Any) -> Any:
    h = np.tanh(p["w"] @ x + p["b"][0])
    return {"loss": (h * p["b"][1]).sum(), "hidden": [h, None], "n": p["n"] + 1}


@pytest.mark.slow
def test_trees_to_order_three() -> None:
    rng = np.random.default_rng(0)
    p = {"w": rng.standard_normal((2, 3)), "b": (np.ones(2), rng.standard_normal(2)), "n": 3}
    check_grads(network, (p, np.ones(3)), order=1)
    for dtype in (np.float64, np.float32):
        check_grads(lambda p: [np.sin(p[0]) * p[1]["x"] ** 2, p[2]], ((dtype(0.7), {"x": dtype(1.3)}, 4),), order=3)


def test_large_arguments() -> None:
    check_grads(lambda p: (p[0] ** 3).sum(), ([np.random.default_rng(0).standard_normal(5000)],), order=1)


def test_planted_rules_are_found() -> None:
    """Rules that are slightly wrong, in one mode, or in one leaf of a tree."""
    @custom_vjp
    def scaled(x: Any) -> Any:
        return np.sin(x)
    scaled.defvjp(lambda x: (np.sin(x), x), lambda x, g: (g * np.cos(x) * 1.001,))
    with pytest.raises(AssertionError, match="vjp of scaled"):
        check_grads(scaled, (np.array([0.3, 1.2]),), order=1, modes=("rev",))

    @custom_jvp
    def partial(p: Any) -> Any:
        return p["a"] * p["b"]
    partial.defjvp(lambda primals, dots: (primals[0]["a"] * primals[0]["b"], dots[0]["a"] * primals[0]["b"]))
    with pytest.raises(AssertionError, match="jvp of partial: result 0"):
        check_grads(partial, ({"a": 2.0, "b": np.ones(3)},), order=1, modes=("fwd",))

    @custom_vjp
    def single(x: Any) -> Any:
        return x * x
    single.defvjp(lambda x: (x * x, x), lambda x, g: (g * x * np.float32(2.1),))
    with pytest.raises(AssertionError, match="vjp of single"):
        check_grads(single, (np.array([0.8, 1.5], np.float32),), order=1, modes=("rev",))
