"""Updates of an array by what is computed from it: stored before, unless each element reads only its own place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jitad import check_grads, interpret, jit


def columns(q, r):
    q = q.copy()
    for j in range(q.shape[1]):
        for i in range(j + 1):
            q[:, j] -= 0.1 * r * q[:, i] * np.dot(q[:, i], q[:, j])
    return np.sum(q * q)


def rows(q, r):
    q = q.copy()
    for j in range(len(q)):
        for i in range(len(q)):
            q[j] = q[j] * r + q[i]
            q[j, 1:] += 0.5 * q[i, 1:]
    return np.sum(q * q)


def blocks(q, r):
    """Rows and columns that overlap: what is read at another place has to be stored before."""
    q = q.copy()
    q[1:, :] += r * q[:-1, :]
    q[:, 1:] = q[:, :-1] * q[:, 1:]
    q[1:, 1:] -= r * q[:-1, 1:] + q[1:, :-1]
    q[::2, 0] *= q[1::2, 1]
    return np.sum(q * q)


def transposed(q, r):
    q = q[:3, :3].copy()
    q[:, :] += r * q.T
    q[0, :] = q[:, 1] + q[0, ::-1]
    q[:2] -= q[1:] * q[0]
    return np.sum(q * np.arange(9.0).reshape(3, 3))


def one_element(q, r):
    q = q.copy()
    for j in range(q.shape[1] - 1):
        q[1:2, j:j + 1] = r * q[0:1, j + 1:j + 2] + q[1:2, j:j + 1]
        q[j:j + 1] += r * q[j + 1:j + 2]
    return np.sum(q * q)


def steps(q, r):
    """A new array is made while the old one is still to be read, or after, or becomes the old one in the same step."""
    u, w = q.copy(), q * 2.0
    for _ in range(5):
        new = u.copy()
        new[1:-1] = u[1:-1] + r * (u[2:] - 2.0 * u[1:-1] + u[:-2]) + w[1:-1]
        new[0] = u[1]
        new[1:] += r * (u[:-1] + new[1:])
        total = u[1:] * r + u[:-1]
        other = u * r
        other[:-1] = total + w[1:]
        w[1:] = w[:-1] + other[1:]
        u, w = new, (w if r > 2.0 else new).copy()
        u[1:] = w[:-1] * r + u[:-1]
    return np.sum(u * w)


def new_arrays(q, r):
    """Updates of new arrays by what was there before, and by what is in the new arrays at other places."""
    u, w = q.copy(), q[::-1].copy()
    for _ in range(4):
        new, other = u.copy(), np.zeros(u.shape)
        new[1:] = u[:-1] * r + w[1:]
        new[:-1] += new[1:] + u[1:] * r
        other[:, 1:] = new[:, :-1] - other[:, :-1] + u[:, 1:]
        again = new
        again[1:-1] -= r * (again[2:] + other[:-2])
        u, w = other, again
        u[0], w[-1] = w[1] * r, u[1] + w[0]
    return np.sum(u * w)


def in_place(q, r):
    """An array that is read before it is updated, and whose copy is left out, as nothing else reads it."""
    u = q.copy()
    for _ in range(3):
        u[1:-1, 1:-1] += r * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
        u[0] += r * u[-1]
        u[:, 1] = u[:, 1] * u[:, 0]
    return np.sum(u * u * u)


PROGRAMS: list[Callable[..., float]] = [columns, rows, blocks, transposed, one_element, steps, new_arrays, in_place]
Q = np.random.default_rng(0).normal(0.0, 1.0, (4, 4))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", PROGRAMS)
def test_agrees_with_numpy_and_the_interpreter(f: Callable[..., float]) -> None:
    expected = f(Q, 0.5)
    assert jit(f)(Q, 0.5) == pytest.approx(expected, rel=1e-12)
    assert jit(f, parallel=True)(Q, 0.5) == pytest.approx(expected, rel=1e-12)
    assert interpret(f, Q, 0.5) == pytest.approx(expected, rel=1e-12)
    check_grads(jit(f), (Q, 0.5), order=1)


def test_columns_take_no_memory() -> None:
    """Neither a column nor what is subtracted from it is stored."""
    f = jit(columns)
    f(Q, 0.5)
    assert f.inspect("loops").count(" = alloc ") == 1           # the copy of q


def wave(u, v, steps):
    for _ in range(steps):
        new = u.copy()
        new[1:-1] = 2.0 * u[1:-1] - v[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        u, v = new, u
    return u


def test_a_step_stores_what_it_assigns_once() -> None:
    """In the new array, which is none of the two that are read: what is assigned is stored nowhere else."""
    f = jit(wave)
    before, _, none = f.inspect("loops", Q[0], Q[1], 5).partition("^skip:")          # without elements between the ends
    assert before.count(" = alloc ") == 1 and none.count(" = alloc ") == 1
    np.testing.assert_allclose(f(Q[0], Q[1], 5), wave(Q[0], Q[1], 5), rtol=1e-14)
