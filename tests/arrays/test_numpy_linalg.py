"""``numpy.linalg``: equations, determinants and factors, against NumPy and against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from jitad import check_grads, grad, hessian, interpret, jacfwd, jit, vmap
from jitad.errors import UnsupportedError
from tests.alike import assert_raises_alike

pytestmark = pytest.mark.any_level

RNG = np.random.default_rng(0)


def positive(n: int, dtype: Any = float) -> Any:
    a = RNG.normal(size=(n, n))
    return (a @ a.T + n * np.eye(n)).astype(dtype)


def everything(a: Any, b: Any, c: Any, s: Any) -> Any:
    size = np.linalg.slogdet(a)
    return (np.linalg.solve(a, b), np.linalg.solve(a, c), np.linalg.inv(a), np.linalg.det(a), size.sign, size.logabsdet,
            np.linalg.cholesky(s), np.linalg.cholesky(s, upper=True))


all_of_them = jit(everything)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("n", [0, 1, 2, 5, 47, 48, 49, 130])
def test_as_numpy(n: int) -> None:
    arguments = RNG.normal(size=(n, n)), RNG.normal(size=n), RNG.normal(size=(n, 3)), positive(n)
    for got, want in zip(all_of_them(*arguments), everything(*arguments), strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)


@pytest.mark.long
@pytest.mark.slow
def test_singles_integers_and_lists() -> None:
    a, b = RNG.normal(size=(4, 4)).astype(np.float32), RNG.normal(size=4).astype(np.float32)
    s = positive(4, np.float32)
    for got, want in zip(all_of_them(a, b, a, s), everything(a, b, a, s)):
        assert np.asarray(got).dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)

    def of_lists(x: float) -> Any:
        return np.linalg.solve([[x, 1.0], [2.0, 5.0]], [1, 2]), np.linalg.det(np.array([[1, 2], [3, 5]]))
    for got, want in zip(jit(of_lists)(3.0), of_lists(3.0)):
        np.testing.assert_allclose(got, want)


@pytest.mark.slow
def test_rows_are_exchanged() -> None:
    a = np.array([[0.0, 0.0, 2.0], [0.0, 3.0, 1.0], [-4.0, 1.0, 1.0]])
    for f in (np.linalg.inv, np.linalg.det, lambda a: np.linalg.slogdet(a)[0]):
        np.testing.assert_allclose(jit(f)(a), f(a), atol=1e-15)
    np.testing.assert_allclose(grad(np.linalg.det)(a), np.linalg.inv(a).T * np.linalg.det(a), atol=1e-14)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f", [
    lambda a, b: np.linalg.solve(a.T, np.outer(b, b)), lambda a, b: np.linalg.inv(a) @ b,
    lambda a, b: np.linalg.det(a) * b[0],
    lambda a, b: np.linalg.slogdet(a)[1] * b, lambda a, b: np.linalg.cholesky(a + a.T + 9 * np.eye(4)) @ b,
], ids=["solve", "inv", "det", "slogdet", "cholesky"])
def test_derivatives(f: Any) -> None:
    check_grads(f, (RNG.normal(size=(4, 4)) + 2 * np.eye(4), RNG.normal(size=4)), order=1, modes=("fwd", "rev"))


@pytest.mark.slow
@pytest.mark.parametrize("f", [lambda a: np.linalg.solve(a, a[0]), np.linalg.cholesky])
def test_second_derivatives(f: Any) -> None:
    check_grads(f, (positive(2),), order=2, modes=("rev",))


@pytest.mark.slow
def test_third_derivative_of_a_solution() -> None:
    def f(x: Any) -> Any:
        return np.linalg.solve(np.array([[2.0 + x, x * x], [1.0, 3.0]]), np.array([1.0, x]))[0]
    exact = grad(grad(grad(lambda x: (3 - x ** 3) / (6 + 3 * x - x * x))))(0.3)
    assert grad(grad(grad(f)))(0.3) == pytest.approx(exact)


@pytest.mark.slow
def test_blocks() -> None:
    """Beyond one block, by identities of the derivative: d(A⁻¹) = -A⁻¹ dA A⁻¹, d log det = tr(A⁻¹ dA), …"""
    n = 100
    a, v = positive(n), RNG.normal(size=n)
    np.testing.assert_allclose(grad(lambda a: v @ np.linalg.solve(a, v))(a),
                               -np.outer(np.linalg.solve(a, v), np.linalg.solve(a, v)), atol=1e-10)
    np.testing.assert_allclose(grad(lambda a: np.linalg.slogdet(a)[1])(a), np.linalg.inv(a).T, atol=1e-12)
    through = grad(lambda a: np.log(np.diag(np.linalg.cholesky(a))).sum() * 2)(a)
    np.testing.assert_allclose((through + through.T) / 2, np.linalg.inv(a), atol=1e-12)


@pytest.mark.slow
def test_a_singular_matrix_has_a_determinant_and_its_derivatives() -> None:
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    assert jit(np.linalg.det)(a) == 0
    assert tuple(jit(np.linalg.slogdet)(a)) == (0, -np.inf)
    np.testing.assert_allclose(grad(np.linalg.det)(a), [[4, 4, -4], [-2, -2, 2], [0, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(hessian(np.linalg.det)(np.zeros((2, 2)))[0, 0], [[0, 0], [0, 1]])
    np.testing.assert_array_equal(grad(np.linalg.det)(np.zeros((3, 3))), np.zeros((3, 3)))


@pytest.mark.long
@pytest.mark.slow
def test_stacks() -> None:
    a, b = RNG.normal(size=(2, 3, 4, 4)), RNG.normal(size=(2, 3, 4, 2))

    def f(a: Any, b: Any) -> Any:
        return (np.linalg.solve(a, b), np.linalg.solve(a, b[0, 0, :, 0]), np.linalg.solve(a[0, 0], b),
                np.linalg.solve(a[:, 0][:, None], b), np.linalg.inv(a), np.linalg.det(a), *np.linalg.slogdet(a[0]),
                np.linalg.cholesky(a @ np.swapaxes(a, -1, -2)), np.linalg.matrix_power(a, 3))
    for got, want in zip(jit(f)(a, b), f(a, b), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(grad(lambda a: np.linalg.det(a).sum())(a), vmap(vmap(grad(np.linalg.det)))(a))
    np.testing.assert_allclose(vmap(np.linalg.inv)(a[0]), np.linalg.inv(a[0]))


@pytest.mark.slow
def test_powers_and_chains() -> None:
    a, whole = RNG.normal(size=(3, 3)), np.array([[1, 2], [3, 4]])
    power = jit(np.linalg.matrix_power)
    for n in (-2, -1, 0, 1, 2, 5):
        np.testing.assert_allclose(power(a, n), np.linalg.matrix_power(a, n))
    np.testing.assert_array_equal(power(whole, 10), np.linalg.matrix_power(whole, 10))
    assert power(whole, 10).dtype == int
    np.testing.assert_allclose(jit(lambda a, b: np.linalg.multi_dot([b, a, a, b]))(a, a[0]),
                               np.linalg.multi_dot([a[0], a, a, a[0]]))
    np.testing.assert_allclose(grad(lambda a: np.linalg.matrix_power(a, 2)[0, 1])(a),
                               grad(lambda a: a[0] @ a[:, 1])(a), atol=1e-15)


@pytest.mark.slow
def test_only_one_triangle_is_read() -> None:
    s = positive(4)
    lower = np.tril(s) + np.triu(RNG.normal(size=(4, 4)), 1)
    np.testing.assert_allclose(jit(np.linalg.cholesky)(lower), np.linalg.cholesky(s))
    assert np.all(np.triu(grad(lambda a: np.linalg.cholesky(a).sum())(lower), 1) == 0)
    check_grads(lambda a: np.linalg.cholesky(a, upper=True), (lower.T,), modes=("fwd",))


@pytest.mark.long
@pytest.mark.slow
def test_by_definition() -> None:
    a, b = positive(3), RNG.normal(size=3)
    for f in (lambda a: np.linalg.solve(a, b) @ b, np.linalg.det, lambda a: np.linalg.cholesky(a).sum()):
        assert interpret(f, a) == pytest.approx(f(a))
        np.testing.assert_allclose(interpret(grad(f), a), grad(f)(a))
    np.testing.assert_allclose(interpret(jacfwd(np.linalg.inv), a), jacfwd(np.linalg.inv)(a))
    np.testing.assert_allclose(hessian(lambda b: b @ np.linalg.solve(a, b))(b), 2 * np.linalg.inv(a))


@pytest.mark.parametrize("f, arguments, message", [
    (np.linalg.inv, (np.ones((2, 2)),), "Singular matrix"),
    (np.linalg.solve, (np.zeros((2, 2)), np.ones(2)), "Singular matrix"),
    (np.linalg.cholesky, (-np.eye(2),), "Matrix is not positive definite"),
    (np.linalg.cholesky, (np.full((2, 2), np.nan),), "Matrix is not positive definite"),
    (np.linalg.det, (np.ones((2, 3)),), "Last 2 dimensions of the array must be square"),
    (np.linalg.inv, (np.ones(3),), "1-dimensional array given"),
])
@pytest.mark.slow
def test_what_has_no_solution(f: Any, arguments: Any, message: str) -> None:
    with pytest.raises(LinAlgError, match=message):
        jit(f)(*arguments)


@pytest.mark.slow
def test_a_size_of_one_is_kept() -> None:
    """It broadcasts, as in any other array."""
    wide, one = np.arange(6.0).reshape(2, 3), np.full((1, 1), 4.0)

    def f(one: Any, wide: Any) -> Any:
        return (np.linalg.solve(one, one) + wide, np.linalg.solve(one, one[0]) + wide, np.linalg.inv(one) + wide,
                np.linalg.cholesky(one) + wide, np.linalg.inv(one[None]) + wide)
    for got, want in zip(jit(f)(one, wide), f(one, wide), strict=True):
        np.testing.assert_array_equal(got, want)
    assert grad(lambda one: (np.linalg.inv(one) + wide).sum())(one)[0, 0] == -6 / 16


def test_the_exponent_and_the_factors_are_as_they_must_be() -> None:
    assert_raises_alike(lambda a: np.linalg.matrix_power(a, 2.5), np.eye(2))
    assert_raises_alike(np.linalg.matrix_power, np.eye(2), 2.0)
    np.testing.assert_array_equal(jit(np.linalg.matrix_power)(np.full((1, 1), 3.0), True), [[3.0]])
    assert_raises_alike(lambda a: np.linalg.multi_dot([a]), np.eye(2))


def test_the_first_power_is_the_matrix_itself() -> None:
    def f(a: Any) -> Any:
        b = a.copy()
        np.linalg.matrix_power(b, 1)[0] = 5.0
        np.linalg.matrix_power(b, 2)[1] = 7.0
        return b
    np.testing.assert_array_equal(jit(f)(np.eye(2)), [[5, 5], [0, 1]])


@pytest.mark.parametrize("f", [np.linalg.diagonal, np.linalg.trace])
def test_a_vector_has_no_diagonal(f: Any) -> None:
    assert_raises_alike(f, np.ones(3))


@pytest.mark.slow
def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"size 2 is different from 3"):
        jit(np.linalg.solve)(np.eye(3), np.ones(2))
    with pytest.raises(ValueError, match="broadcast"):
        jit(np.linalg.solve)(np.ones((2, 3, 3)), np.ones((4, 3, 3)))


def test_an_error_of_numpys_may_be_raised() -> None:
    def f(x: float) -> float:
        if x < 0:
            raise LinAlgError("negative")
        return x
    with pytest.raises(LinAlgError, match="negative"):
        jit(f)(-1.0)
    assert jit(f)(1.0) == 1.0


@pytest.mark.parametrize(("left", "right"), [
    ((3,), (3,)), ((5, 3), (5, 3)), ((5, 3), (3,)), ((3,), (4, 3)), ((4, 1, 3), (5, 3)), ((0, 3), (0, 3)),
    ((1, 3), (6, 3))])
def test_cross_products_of_rows(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=left), rng.normal(size=right)
    assert np.allclose(jit(lambda x, y: np.cross(x, y))(a, b), np.cross(a, b), rtol=1e-13, atol=1e-15)
    check_grads(lambda x, y: np.sum(np.sin(np.cross(x, y))), (a, b), order=1)


def test_cross_products_that_are_refused() -> None:
    a = np.ones((4, 3))
    with pytest.raises(ValueError, match="incompatible dimensions for cross product"):
        jit(lambda x, y: np.cross(x, y))(a, np.ones((4, 2)))
    with pytest.raises(UnsupportedError, match="another axis"):
        jit(lambda x, y: np.cross(x, y, axis=0))(np.ones((3, 3)), np.ones((3, 3)))
