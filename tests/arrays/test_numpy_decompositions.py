"""``qr``, ``eigh``, ``svd`` and what stands on them, compiled: hard matrices, derivatives, errors.

``test_numpy_matrix`` compares each function with NumPy's, and its derivative with differences, by the interpreter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitad import jit
from jitad.testing import check_grads

RNG = np.random.default_rng(11)


def hard(n: int, dtype: Any) -> dict[str, Any]:
    """Square matrices that are singular, graded, huge, tiny, or have values that are there several times."""
    found = {
        "zeros": np.zeros((n, n)), "ones": np.ones((n, n)), "unit": np.eye(n), "diagonal": np.diag(np.arange(n) * 1.0),
        "permutation": np.eye(n)[RNG.permutation(n)], "integers": RNG.integers(-2, 3, (n, n)) * 1.0,
        "rank 1": np.outer(RNG.normal(size=n), RNG.normal(size=n)), "neighbours": np.eye(n, k=1) + np.eye(n, k=-1),
        "rank 2": RNG.normal(size=(n, 2)) @ RNG.normal(size=(2, n)), "normal": RNG.normal(size=(n, n)),
        "Hilbert": 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0),
        "graded": 10.0 ** -np.arange(n)[:, None] * RNG.normal(size=(n, n)),
    }
    if dtype is float:
        found |= {"huge": RNG.normal(size=(n, n)) * 1e200, "tiny": RNG.normal(size=(n, n)) * 1e-200,
                  "subnormal": RNG.normal(size=(n, n)) * 1e-310}
    return {name: a.astype(dtype) for name, a in found.items()}


def is_near(x: Any, y: Any, unit: Any) -> bool:
    """True if all differences are below a hundred rounding errors of ``unit``."""
    return bool(np.max(np.abs(x - y), initial=0) <= 100 * max(len(x), 1) * np.finfo(x.dtype).eps * unit)


def is_orthogonal(q: Any) -> bool:
    return is_near(q.T @ q, np.eye(q.shape[1]), 1.0)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [float, np.float32])
def test_hard_matrices(dtype: Any) -> None:
    eigh, svd, qr = jit(lambda a: np.linalg.eigh(a)), jit(lambda a: np.linalg.svd(a)), jit(lambda a: np.linalg.qr(a))
    for n in (1, 2, 3, 5, 10, 30):
        for name, a in hard(n, dtype).items():
            size = np.max(np.abs(a))
            w, v = eigh(a + a.T)
            assert is_near(w, np.linalg.eigvalsh(a + a.T), 2 * size), name
            assert is_orthogonal(v) and is_near(v * w @ v.T, a + a.T, 2 * size), name
            u, s, vt = svd(a)
            assert is_near(s, np.linalg.svd(a, compute_uv=False), size), name
            assert is_orthogonal(u) and is_orthogonal(vt.T) and is_near(u * s @ vt, a, size), name
            q, r = qr(a)
            assert is_orthogonal(q) and is_near(q @ r, a, size) and not np.tril(r, -1).any(), name


@pytest.mark.long
@pytest.mark.slow
def test_matrices_that_are_not_square() -> None:
    svd, qr = jit(lambda a: np.linalg.svd(a)), jit(lambda a: np.linalg.qr(a, "complete"))
    thin = jit(lambda a: (*np.linalg.svd(a, full_matrices=False), *np.linalg.qr(a)))
    for shape in ((1, 4), (4, 1), (7, 3), (3, 7), (60, 8), (0, 3), (3, 0)):
        a = RNG.normal(size=shape)
        (u, s, vt), (q, r), rank = svd(a), qr(a), min(shape)
        assert u.shape == q.shape == (shape[0],) * 2 and vt.shape == (shape[1],) * 2 and r.shape == shape
        assert all(map(is_orthogonal, (u, vt, q))) and is_near(u[:, :rank] * s @ vt[:rank], a, 4.0)
        assert is_near(q @ r, a, 4.0) and is_near(r, np.linalg.qr(a, "complete")[1], 4.0)
        u, s, vt, q, r = thin(a)
        assert u.shape == q.shape == (shape[0], rank) and vt.shape == r.shape == (rank, shape[1])
        assert is_near(u * s @ vt, a, 4.0) and is_near(q @ r, a, 4.0)


def whitened(x: Any) -> Any:
    """The energy of principal components of unit variance."""
    centred = x - np.mean(x, axis=0)
    w, v = np.linalg.eigh(centred.T @ centred / len(x))
    return np.sum(np.tanh(centred @ (v / np.sqrt(w))) ** 2)


def low_rank(x: Any) -> Any:
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    near = (u[:, :2] * s[:2]) @ vt[:2]
    return np.sum(np.sin(near)) + np.linalg.cond(x)


def regression(x: Any) -> Any:
    solution, left, rank, _ = np.linalg.lstsq(x[:, :-1], x[:, -1], rcond=None)
    return np.sum(solution ** 2) + np.sum(left) * rank + np.sum(np.linalg.pinv(x) ** 2)


def orthogonal_basis(x: Any) -> Any:
    q, r = np.linalg.qr(x)
    return np.sum(np.sin(q)) + np.sum(np.log(np.abs(np.diagonal(r))))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("fun", [whitened, low_rank, regression, orthogonal_basis])
def test_programs_and_their_gradients(fun: Any) -> None:
    x = RNG.normal(size=(8, 4))
    f = jit(fun, grad=True)
    assert f(x) == pytest.approx(fun(x), rel=1e-11)
    check_grads(f, (x,), order=1)


@pytest.mark.slow
@pytest.mark.parametrize("fun", [lambda a: np.linalg.eigvalsh(a), lambda a: np.linalg.svdvals(a)])
def test_what_is_not_finite_does_not_converge(fun: Any) -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
            jit(fun)(np.full((3, 3), bad))
