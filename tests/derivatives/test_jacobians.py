"""Jacobians and Hessians over trees of arguments and results, in JAX's structure."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitad
from jitad import grad, hessian, hvp, jacfwd, jacrev, jit
from jitad.errors import DifferentiationError

pytestmark = pytest.mark.any_level

BOTH = pytest.mark.parametrize("jacobian", [jacfwd, jacrev])
M = np.arange(6.0).reshape(2, 3) / 5
V = np.array([0.5, -1.0, 2.0])


def close(got: Any, expected: Any) -> None:
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def layer(p: Any, x: Any) -> Any:
    """A function from a tree to a tree."""
    h = p["w"] @ x * p["scale"] + p["b"]
    return {"h": h, "norm": (h * h).sum(), "n": p["n"], "none": None}


P = {"w": M, "b": np.array([1.0, 2.0]), "scale": 3.0, "n": 7}


@BOTH
def test_trees(jacobian: Any) -> None:
    out = jacobian(layer, (0, "x"))(P, V)
    assert list(out) == ["h", "norm", "n", "none"] and out["n"] is None and out["none"] is None
    dp, dx = out["h"]
    close(dx, 3 * M)
    close(dp["b"], np.eye(2))
    close(dp["scale"], M @ V)
    close(dp["w"], 3 * np.einsum("ij,k->ijk", np.eye(2), V))
    assert dp["n"] is None
    h = layer(P, V)["h"]
    close(out["norm"][1], 6 * h @ M)
    close(out["norm"][0]["scale"], 2 * h @ (M @ V))
    assert isinstance(out["norm"][0]["scale"], float)


@BOTH
def test_argnums(jacobian: Any) -> None:
    def f(x: Any, k: Any) -> Any:
        return x * k, x.sum() + k ** 2
    close(jacobian(f, "k")(V, 2.0)[0], V)
    (a, b), (c, d) = jacobian(f, (0, 1))(V, 2.0)
    close(a, 2 * np.eye(3))
    close(b, V)
    close(c, np.ones(3))
    assert d == 4
    assert jacobian(math.exp)(0.0) == 1 and isinstance(jacobian(math.exp)(0.0), float)
    assert jacobian(lambda x: (x, [x * x]))(3.0) == (1.0, [6.0])
    assert jacobian(lambda x: 3.0)(2.0) == 0
    close(jacobian(lambda v: v[:0])(V), np.zeros((0, 3)))
    close(jacobian(lambda v, m: m @ v)(V[:0], M[:, :0]), np.zeros((2, 0)))
    with pytest.raises(DifferentiationError, match="holds no float"):
        jacobian(lambda n: n * 2.0)(3)


@BOTH
def test_dtypes(jacobian: Any) -> None:
    single = V.astype(np.float32)
    out = jacobian(lambda x: (np.sin(x), x.sum(), x.astype(np.float64)))(single)
    assert [a.dtype for a in out] == [np.float32, np.float32, np.float32 if jacobian is jacrev else np.float64]


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class State:
    position: Any
    label: str
    step: int


@BOTH
def test_classes(jacobian: Any) -> None:
    def move(s: Any) -> Any:
        return Pair(s.position * s.step, State(s.position[0] ** 2, "next", s.step + 1))
    out = jacobian(move)(State(V, "now", 2))
    assert isinstance(out, Pair) and isinstance(out.a, State) and out.b.label is None and out.b.step is None
    close(out.a.position, 2 * np.eye(3))
    close(out.b.position.position, [1.0, 0, 0])
    assert out.a.label is None and out.a.step is None


@pytest.mark.slow
@BOTH
def test_programs(jacobian: Any) -> None:
    def settle(x: Any, n: Any) -> Any:
        """A loop of unknown length, a branch, recursion."""
        y = x.copy()
        while (y * y).sum() > 1:
            y = y * 0.7
        return y if n == 0 else settle(y * x, n - 1)
    got = jacobian(settle)(V, 2)
    step, eye = 1e-6, np.eye(3)
    numeric = [(jit(settle)(V + step * e, 2) - jit(settle)(V - step * e, 2)) / (2 * step) for e in eye]
    np.testing.assert_allclose(got, np.transpose(numeric), atol=1e-8)

    @jit
    def newton(x: Any) -> Any:
        """Uses its Jacobian in a loop."""
        for _ in range(30):
            j = jacobian(residual)(x)
            x = x - np.array([j[1, 1] * residual(x)[0] - j[0, 1] * residual(x)[1],
                              j[0, 0] * residual(x)[1] - j[1, 0] * residual(x)[0]]) / (j[0, 0] * j[1, 1]
                                                                                     - j[0, 1] * j[1, 0])
        return x

    def residual(x: Any) -> Any:
        return np.array([x[0] ** 2 + x[1] - 3, x[0] - x[1] ** 2 + 1])
    np.testing.assert_allclose(residual(newton(np.array([1.0, 1.5]))), 0, atol=1e-12)


@pytest.mark.slow
def test_forward_is_reverse() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 4))
    for f in (lambda x: np.tanh(x @ a) * np.cumsum(x)[1], lambda x: (x.max(), x.prod(), np.exp(x).mean())):
        forward, reverse = jacfwd(f)(V), jacrev(f)(V)
        second = jacfwd(jacrev(f))(V), jacrev(jacfwd(f))(V)
        for pair in ((forward, reverse), second):
            for one, two in zip(*(x if isinstance(x, tuple) else (x,) for x in pair)):
                close(one, two)


def test_hessians() -> None:
    def f(p: Any, k: Any) -> Any:
        return (p["x"] ** 2 * p["y"]).sum() * k
    p = {"x": V, "y": 2.0, "n": 3}
    h = hessian(f)(p, 5.0)
    close(h["x"]["x"], np.diag([20.0] * 3))
    close(h["x"]["y"], 10 * V)
    close(h["y"]["x"], 10 * V)
    assert h["y"]["y"] == 0 and h["n"] is None and h["x"]["n"] is None
    of_p, of_k = hessian(f, (0, "k"))(p, 5.0)
    close(of_p["x"][1], 4 * V)
    close(of_k[0]["x"], 4 * V)
    assert of_k[1] == 0 and of_p["y"][0]["y"] == 0 and of_p["n"] is None
    close(hessian(lambda x: (x[:2] ** 3).sum())(V), np.diag([3.0, -6.0, 0]))
    close(hessian(lambda m: (m[0] * m[1]).sum())(M).reshape(6, 6), np.kron([[0.0, 1], [1, 0]], np.eye(3)))
    assert hessian(lambda x: (x ** 3).sum())(V.astype(np.float32)).dtype == np.float32
    assert hessian(lambda x: x ** 3)(2.0) == 12
    close(grad(lambda x: np.trace(hessian(lambda y: (y ** 4).sum())(x)))(V), 24 * V)


def test_products_with_hessians() -> None:
    def f(p: Any, k: Any) -> Any:
        return (p["x"] ** 2 * p["y"][0]).sum() * k
    p = {"x": V, "y": [2.0, 3]}
    dp, dk = hvp(f, (p, 5.0), ({"x": np.ones(3), "y": [0.5, None]}, 1.0))
    close(dp["x"], 20 * np.ones(3) + 5 * V + 4 * V)
    assert dp["y"][1] is None and dp["y"][0] == pytest.approx(10 * V.sum() + (V * V).sum())
    assert dk == pytest.approx((2 * V * 2 + V * V * 0.5).sum())


def test_the_forward_sweep_runs_once() -> None:
    """For all rows of a Jacobian."""
    def f(x: Any) -> Any:
        y = x
        for _ in range(10):
            y = np.sin(y) * x
        return y
    text = jacrev(f).inspect("adjoint", V)
    assert text.count(".fwd.0(") == 2                       # its definition and one call


def test_the_interpreter_agrees() -> None:
    for f in (jacfwd(layer), jacrev(layer)):
        got, expected = jitad.interpret(f, P, V), f(P, V)
        close(got["h"]["w"], expected["h"]["w"])
        close(got["norm"]["b"], expected["norm"]["b"])
