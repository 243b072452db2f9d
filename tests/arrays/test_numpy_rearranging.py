"""Functions that select, split, rotate and join arrays; index arrays: NumPy's values, views, errors; derivatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import check_grads, grad, interpret, jit
from tests.arrays.test_numpy_meaning import alike, same
from tests.arrays.test_numpy_polynomials import EMPTY, message, slopes

pytestmark = pytest.mark.any_level

A = np.array([0.5, -1.25, 3.0, 2.25, 0.3, -4.0, 7.5])
V = np.array([1.0, -2.0, 0.5])
I = np.array([3, 1, 0, 2, 5])
M = np.arange(12.0).reshape(3, 4) / 3 - 1
T = np.arange(24.0).reshape(2, 3, 4)
F = A.astype(np.float32)
J = np.array([0, 1, 1, 0, 1, 0, 0])


def refused(words: str, fun: Any, *args: Any) -> None:
    with pytest.raises(jitad.UnsupportedError, match=words):
        interpret(fun, *args)


# --- choosing ---------------------------------------------------------------------------------------

def test_select_and_choose() -> None:
    for a in (A, F, I):
        alike(lambda a: [np.select([a > 2, a < 1], [a, a * 2]), np.select((a > 2, a < 1), (a, 1), default=9),
                         np.select([a > 2, a < 1], [1, 2], 9.5), np.select([a > 2], [1.5]),
                         np.select([a > 2], [a[0]])], a)
    alike(lambda a: np.select([a > 0, a < 0], [a, np.array([1.0, 2.0, 3.0, 4.0])], a[0]), M)
    alike(lambda x: np.select([x > 1, x > 0], [1.0, 2.0]), 0.5)
    one = np.zeros(3, int)
    alike(lambda a, i: [np.choose(i, [a[:3]]), np.choose(i, [a[:3] > 9]), np.choose(i, [np.ones(1)]),
                        np.choose(i[0], [a])], A, one)
    alike(lambda a: np.choose(a * 0, [a, a]), A)
    for fun in (lambda a: np.select([a > 1], [a, 2]), lambda a: np.select([], []), lambda a: np.select([a], [a])):
        message(fun, A)
    alike(lambda j, a: [np.choose(j, [a, a * a, 7]), np.choose(j, (1, 2.5)), np.choose(1, [a, j]),
                        np.choose(j[1], [a, j])], J, A)
    alike(lambda j: [np.choose(j - 1, [j, 2 * j], mode="wrap"), np.choose(9 * j, [j, 2], mode="clip")], J)
    message(lambda j: np.choose(j + 1, [j, j]), J)


def test_piecewise() -> None:
    for a in (A, F, I, M, 2.5):
        alike(lambda a: np.piecewise(a, [a < 0, a >= 2], [lambda x: -x, 5, lambda x: x * x]), a)
        alike(lambda a: np.piecewise(a, [a < 2, a > 1], [lambda x: x / 2, lambda x: x + 1]), a)
    alike(lambda a: [np.piecewise(a, a < 0, [-1]), np.piecewise(a, a < 0, [-1, 1])], A)
    alike(lambda a, k: np.piecewise(a, [a < 0], [lambda x, k: x * k, lambda x, k: k], k=k), A, 3.0)
    message(lambda a: np.piecewise(a, [a < 0], [1, 2, 3]), A)


def written(a, values):
    a, b, c, d = a * 1, a * 1, a * 1, a * 1
    np.place(a, a > 0, values)
    np.place(b[1:], b[1:] > 0, [1.0, 2.0])
    np.putmask(b, b < 1, values)
    np.putmask(c, c > 0, 7.5)
    np.put_along_axis(d, np.array([0, 3, -1]), values[:3], 0)
    return a, b, c, d


def test_writing_by_masks() -> None:
    for a, values in ((A, V), (A, A), (F, V.astype(np.float32)), (I, 2 * I)):
        alike(written, a, values)
    message(written, I, V)
    message(written, A, EMPTY)
    alike(lambda a: [np.extract(a > 0, a), np.extract(np.rint(a), a), np.extract([0, 1], a)], M)

    def along(a, k):
        a = a.copy()
        np.put_along_axis(a, k, a[:, :1], 1)
        np.put_along_axis(a, np.array([[0, 1, 2, 2]]), 5.0, axis=-2)
        np.put_along_axis(a, np.array([1, 5]), 6.0, None)
        return a
    alike(along, M, np.array([[1], [2], [-1]]))
    for wrong in (lambda a: np.place(a, a[:1] > 0, 1.0), lambda a: np.putmask(a, a[:1] > 0, 1.0),
                  lambda a: np.put_along_axis(a, a, 1.0, 0), lambda a: np.put_along_axis(a, np.array([1]), 1.0, 0)):
        message(lambda a, wrong=wrong: wrong(a.copy()), M)
    refused("belongs to the caller", lambda a: np.place(a, a > 0, 1.0), A)


# --- index arrays -----------------------------------------------------------------------------------

def test_grids() -> None:
    alike(lambda n: [np.indices((n, 2)), np.indices((n, 2), dtype=float), np.indices((0, n)), np.indices([n])], 3)
    alike(lambda n: np.indices((n, 2), sparse=True), 3)
    alike(lambda n: [np.fromfunction(lambda i, j: i + j * n, (n, 3)), np.fromfunction(lambda i, k: i * k, (n,), k=2),
                     np.fromfunction(lambda i, j: i == j, (n, 2), dtype=int)], 4)
    alike(lambda a, i: [a[np.ix_([0, 2], [1, 3])], a[np.ix_(i, a[0] > -1)], a[np.ix_(i, i)] * 2], M, np.array([2, 0]))
    message(lambda a: np.ix_(a), M)
    for k in (0, 1, -1, 7):
        alike(lambda n, k=k: [np.tril_indices(n, k), np.triu_indices(n, k, 6), np.tril_indices(n, m=2)], 4)
        alike(lambda a, k=k: [np.tril_indices_from(a, k), np.triu_indices_from(a, k=k)], M)
    alike(lambda n: [np.diag_indices(n), np.diag_indices(n, 3), np.diag_indices_from(np.zeros((n, n)))], 4)
    for fun in (np.tril_indices_from, np.diag_indices_from):
        message(lambda a, fun=fun: fun(a), V)
    message(lambda a: np.diag_indices_from(a), M)


def test_flat_positions() -> None:
    places = np.array([0, 5, 11, 7])
    for order in ("C", "F"):
        alike(lambda u, o=order: [np.unravel_index(u, (3, 4), o), np.unravel_index(u.reshape(2, 2), (2, u[2], 2), o),
                                  np.unravel_index(7, (3, 4), order=o), np.unravel_index(u, 12)], places)
        for mode in ("wrap", "clip", ("wrap", "clip"), ("clip", "wrap")):
            alike(lambda i, o=order, m=mode: np.ravel_multi_index((i, i + 1), (3, 4), m, order=o), np.arange(-2, 6))
    alike(lambda a: np.unravel_index(a.argmax(), a.shape), M)
    message(lambda u: np.unravel_index(u, (2, 2)), np.array([1, -1]))
    message(lambda u: np.unravel_index(u, (2, 2)), 7)
    message(lambda i: np.ravel_multi_index((i, 5), (2, 3)), 1)
    message(lambda i: np.ravel_multi_index((i, 2, 1), (2, 3)), 1)


# --- cutting and turning ----------------------------------------------------------------------------

def test_positions_are_integers() -> None:
    alike(lambda i: np.unravel_index(i, (3, 2)), np.array([0, 5, 1], np.int32))
    for fun in (lambda a: np.unravel_index(a, (9, 9)), lambda a: np.ravel_multi_index((a, a), (9, 9)),
                lambda a: np.delete(a, True), lambda a: np.choose(a, [a, a])):
        with pytest.raises((TypeError, ValueError)):
            fun(A[2:3])
        with pytest.raises((TypeError, ValueError)):
            interpret(fun, A[2:3])

    def put(a):
        a = a.copy()
        np.put_along_axis(a, np.array([[0, 1, 0, 2]]), 1.0, None)
        return a
    message(put, M)


def test_turning() -> None:
    for k in (-1, 0, 1, 2, 3, 5):
        alike(lambda a, k=k: [np.rot90(a, k, axes=(0, 2)), np.rot90(a, k, (2, 1)), np.rot90(a[0], k)], T)
    alike(lambda a: np.rot90(a, 2) * np.rot90(a, 2)[:, :1], M)        # of a size that is only known at run time
    alike(lambda a: [np.rollaxis(a, 2), np.rollaxis(a, 0, 3), np.rollaxis(a, -2, -1), np.rollaxis(a, 1, 1)], T)
    for fun in (lambda a: np.rot90(a, axes=(1, 1)), lambda a: np.rot90(a, axes=(0, 5)), lambda a: np.rot90(a[0]),
                lambda a: np.rollaxis(a, 2), lambda a: np.rollaxis(a, 0, 4), lambda a: np.rot90(a, axes=(0, 1, 1))):
        message(fun, M)
    refused("static=", lambda a, k: np.rollaxis(a, k), M, 1)


def test_views() -> None:
    def changed(a):
        a = a.copy()
        np.rot90(a)[0] = 7.0
        np.rot90(a, 2)[0, 0] = 9.0
        np.rollaxis(a, 1)[0] = 5.0
        np.array_split(a, 2)[1][0] = -3.0
        b = np.zeros((2, 3))
        np.unstack(b, axis=1)[0][1] = 2.0
        np.atleast_3d(a)[0, 1] = 8.0
        np.dsplit(np.atleast_3d(a), [1])[0][2, 2] = 4.0
        return a, b
    alike(changed, M)


def test_cutting() -> None:
    for parts in (1, 3, 5, [2, 5], (1, 4, 9)):
        alike(lambda a, p=parts: [np.array_split(a, p), np.array_split(np.outer(V, a), p, axis=-1)], A)
    alike(lambda a, i: np.array_split(a, [i, 5]), A, 3)
    alike(lambda a: [np.dsplit(a, 2), np.dsplit(a, [1])], T)
    alike(lambda a: [np.unstack(np.array([a, a * 2])), np.unstack(np.zeros((2, 3)), axis=1)], V)
    for shape in (5, (2, 3), [3, 4], 0, (0, 2)):
        alike(lambda a, s=shape: [np.resize(a, s), np.resize(a[:0], s), np.resize(1.5, s)], A)
    alike(lambda v: [np.diagflat(v), np.diagflat(v, 1), np.diagflat([[1, 2], [3, 4]], k=-1)], V)
    for fun in (lambda a: np.array_split(a, 0), lambda a: np.dsplit(a, 2), lambda a: np.resize(a, (-1, 2)),
                lambda a: np.unstack(a[0, 0])):
        message(fun, M)
    refused("only known at run time", lambda a: np.unstack(a), M)


def test_delete() -> None:
    for at in (0, -1, [0], [2, 1, -1, 2], (), np.array([1, 2]), np.s_[:2], np.s_[::-2]):
        alike(lambda a, at=at: [np.delete(a, at), np.delete(a, at, 0), np.delete(a, at, axis=-1)], M)
    alike(lambda a, i: [np.delete(a, i), np.delete(a, slice(i, i + 2)), np.delete(a, a > 1)], A, 3)
    for fun in (lambda a: np.delete(a, 7), lambda a: np.delete(a, [1, -8]), lambda a: np.delete(a, [True, False]),
                lambda a: np.delete(a, 0, axis=1)):
        message(fun, A)


def test_errors_stand_where_the_function_is_called() -> None:
    @jit(grad=True)
    def shortened(a, i):
        return np.delete(np.insert(a, 0, 1.0), i).sum()
    for compiled in (shortened, shortened.grad):
        with pytest.raises(IndexError, match="index 8 is out of bounds") as failed:
            compiled(A, 8)
        assert (failed.traceback[-1].path.name, failed.traceback[-1].name) == (Path(__file__).name, "shortened")


@pytest.mark.slow
def test_insert() -> None:
    for at in (0, -1, 3, [0], [3, 1], [2, 2], (-1, 2, 0), np.array([1, 3, 1, -2])):
        alike(lambda a, at=at: [np.insert(a, at, 9), np.insert(a, at, 9.5, axis=0), np.insert(a, at, 9, -1)], M[:, :3])
    alike(lambda a: [np.insert(a, 1, [1.0, 2.0, 3.0], axis=1), np.insert(a, [1], [[1.0], [2.0], [3.0]], axis=1),
                     np.insert(a, [1, 2], [[1.0], [2.0], [3.0]], axis=1), np.insert(a, 2, [5, 6, 7, 8])], M)
    alike(lambda a, i: [np.insert(a, i, 5), np.insert(a, i, [1.5, 2, 3, 4, 5]), np.insert(a, slice(1, 3), [5, 6]),
                        np.insert(a, np.s_[::2], 5), np.insert(a, a > 2, 5), np.insert(a, i[0], a)],
          I, np.array([1, 5, 1, -2, 3]))
    message(lambda a: np.insert(a, 8, 1.0), A)
    alike(lambda a: np.insert(a, [9, 1], 1.0), A)
    alike(lambda a: np.insert(a, [1, 2], [5, 6, 7]), A)
    alike(lambda a: [np.insert(a, np.arange(8) > 5, 9.0), np.insert(a, [], 9.0)], A)
    masked = jit(lambda a, mask: np.insert(a, mask, 1.0))           # a mask that is longer reaches behind the array
    for n in (9, 3_000_000):
        with pytest.raises(IndexError, match="out of bounds"):
            masked(A, np.arange(n) >= n - 2)
    with pytest.raises(IndexError, match="must be of integer"):
        jit(lambda a: np.insert(a, [0.5, 1.5], 1.0))(A)


def stored_into(part: Any) -> Any:
    """The result of a function after it has been written into, and the array that it may be a view of."""
    def run(a: Any) -> Any:
        a = a.copy()
        out = part(a)
        out[...] = out * 2 + 1
        return a, out
    return run


def test_what_is_new_and_what_is_a_view() -> None:
    for part in (lambda a: np.choose(np.zeros(7, int), [a]), lambda a: np.block(a), lambda a: np.block([a]),
                 lambda a: np.polyder(a), lambda a: np.polyder(a, 2), lambda a: np.polyint(a),
                 lambda a: np.polyint(a, 3), lambda a: np.resize(a, 9), lambda a: np.real_if_close(a)):
        alike(stored_into(part), A)


# --- joining ----------------------------------------------------------------------------------------

def test_joining() -> None:
    alike(lambda a, b: [np.dstack((a, a)), np.dstack([b, b * 2]), np.atleast_3d(a, b), np.atleast_3d(2.0)], A, M)
    alike(lambda a: [np.block([[a, a], [a, a * 2]]), np.block([[a, np.zeros((3, 2))], [np.ones((1, 6))]]), np.block(a),
                     np.block([[[a]]]), np.block([a[0], 1]), np.block([[1, 2], [3, 4]])], M)
    message(lambda a: np.block((a, a)), A)
    for a in (A, F, I):
        alike(lambda a: [np.r_[a, 0, a], np.r_[a, 1:5, 2.5], np.r_[a], np.r_[0:1:5j, a[0]], np.r_[True, a > 0]], a)
        alike(lambda a: [np.c_[a, a * 2], np.c_[a], np.c_[1:4, [4, 5, 6]], np.c_[1, a[0]]], a)
    alike(lambda a, n: [np.r_[a, a], np.c_[a, a, np.ones((3, 1))], np.r_[1:n, n]], M, 4)
    refused("directive", lambda a: np.r_["0,2", a], A)


def test_lists_of_elements() -> None:
    alike(lambda x: [np.array([x, 1, 2.0]).tolist(), np.eye(2).tolist(), np.float64(x).tolist()], 2.5)
    assert type(jit(lambda x: np.array([x, 1.0]).tolist()[1])(2.0)) is float
    refused("tolist", lambda a: a.tolist(), A)


def test_from_iterators() -> None:
    alike(lambda a: [np.fromiter((x * x for x in a), float), np.fromiter((x for x in a if x > 0), np.float32),
                     np.fromiter(map(lambda x, y: x + y, a, a), float), np.fromiter(a, int),
                     np.fromiter([1, a[0]], float), np.fromiter((x * x for x in a), float, count=3)], A)
    alike(lambda n: [np.fromiter((i * i for i in range(n) if i % 2), int), np.fromiter(range(n), float)], 9)
    message(lambda a: np.fromiter((x * x for x in a), float, count=9), A)
    message(lambda a: np.fromiter([a[0], 1.0], float, count=3), A)
    message(lambda n: np.fromiter((i for i in range(3)), float, n), 4)
    for n in (-1, 0, 5):
        alike(lambda n: [np.fromiter((i * i for i in range(9)), float, n), np.fromiter((1, 2, 3, 4, 5), int, n)], n)
    refused("nested", lambda a: np.fromiter((x * y for x in a for y in a), float), A)


# --- derivatives ------------------------------------------------------------------------------------

def chosen(a):
    s = np.select([a > 2, a < 0], [a * a, np.exp(a)], a) + np.choose(J, [a, np.sin(a)])
    p = np.piecewise(a, [a < 0, a > 2], [lambda x: x * x, lambda x: np.sin(x), lambda x: x ** 3])
    return np.sum(s * p) + np.sum(sum(np.sum(w ** 2) for w in written(a, a[:3] ** 2))) + np.extract(a > 0, p).prod()


def moved(a, m):
    inserted = np.sum(np.insert(np.delete(a, [1, -1]), [1, 3, 1], a[:3] ** 2) ** 2 * np.arange(8))
    turned = np.sum(np.rot90(m) * np.rot90(m, 3)) + np.sum(np.resize(a, (3, 3)) * m) + m[np.ix_([0, 2], [1, 2])].prod()
    joined = np.sum(np.block([[m, m * m]]) ** 3) + np.sum(np.c_[m[0], m[1] ** 2] * np.r_[m[0, 0], 2.0])
    return inserted + turned + joined + np.array_split(a, 3)[1].prod() + np.sum(m[np.tril_indices(3)] ** 3)


@pytest.mark.slow
def test_slopes() -> None:
    slopes(chosen, A)
    slopes(moved, A, np.cos(np.arange(9.0)).reshape(3, 3))
    check_grads(lambda a: np.sum(np.insert(a, [1, 1], a[:2] ** 2) ** 2), (A[:4],))
    same(grad(lambda a: np.sum(np.fromiter((x * x for x in a if x > 0), float)))(A), np.where(A > 0, 2 * A, 0.0))


def test_functions_of_other_pieces_have_no_slope() -> None:
    """Even if theirs is infinite or NaN."""
    def safe(a):
        logs = np.piecewise(a, [a > 0, a == 0], [np.log, np.sqrt])
        return np.sum(logs) + np.sum(np.piecewise(a, [a < 0], [np.exp, 1.0]))
    same(grad(safe)(np.array([4.0, 2.0, -1.0])), np.array([0.25, 0.5, np.exp(-1.0)]))


def test_none_and_as_many_as_there_are() -> None:
    """An axis without elements matches one whose size, also 0, is known only at run time."""
    for n in (0, 1, 2):
        p, q = np.ones(n), np.arange(5.0)
        for fun in (lambda p, q: p[1:] + q[:len(p)][:-1], lambda p, q: p[:0] * q[:1] + q[5:]):
            np.testing.assert_array_equal(jit(fun)(p, q), fun(p, q))
