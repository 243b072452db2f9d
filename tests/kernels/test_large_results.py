"""Large results are made in blocks that the new arrays own: correct, independent, with reused memory."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import numpy as np
import pytest
from jitad.lowering.memory import result_buffers

from jitad import jit

N = result_buffers.LARGE // 8 + 5
X = np.linspace(0.0, 1.0, N)

pytestmark = pytest.mark.skipif(not result_buffers.available(), reason="needs huge pages on request")


@pytest.fixture(autouse=True)
def _empty_free_list() -> None:
    """The free list belongs to the process: earlier tests leave blocks of other sizes in it."""
    libc, head = ctypes.CDLL(None), result_buffers._head
    gc.collect()
    while block := head[0]:
        head[0], size = (ctypes.c_size_t * 2).from_address(block)
        assert libc.munmap(ctypes.c_void_p(block), ctypes.c_size_t(size)) == 0
    head[1] = 0


@jit
def squares(x):
    return x * x


@jit(grad=True)
def energy(x):
    return np.sum(x * x * x)


def owns_block(a: np.ndarray) -> bool:
    return type(a.base).__name__ == "PyCapsule"


def free_bytes() -> int:
    return int(result_buffers._head[1])


def test_small_results_are_ordinary_arrays() -> None:
    assert squares(X[:100]).base is None


def test_a_large_result_is_an_array_like_any_other() -> None:
    y = squares(X)
    assert owns_block(y) and y.flags.writeable and y.flags.c_contiguous and y.flags.f_contiguous and y.flags.aligned
    np.testing.assert_array_equal(y, X * X)
    y += 1.0
    np.testing.assert_array_equal(squares(X), X * X)
    np.testing.assert_array_equal(y, X * X + 1.0)


def test_results_that_live_are_apart_and_dead_ones_make_room() -> None:
    first = squares(X)
    second = squares(X + 1.0)
    assert not np.shares_memory(first, second)
    at = first.ctypes.data
    view = first[10:]
    del first
    np.testing.assert_array_equal(view, (X * X)[10:])
    third = squares(X)
    assert third.ctypes.data != at                   # the view keeps the block alive
    del view, second, third
    before = free_bytes()
    again = [squares(X) for _ in range(3)]
    assert at in [a.ctypes.data for a in again] and free_bytes() < before


def test_gradients_and_several_results() -> None:
    value, x_bar = energy.value_and_grad(X)
    assert owns_block(x_bar)
    np.testing.assert_allclose(x_bar, 3 * X * X)
    assert value == pytest.approx(np.sum(X ** 3))

    @jit
    def several(x, y):
        a = x + y
        return a, (a[1:], np.reshape(a, (1, -1))), x, a * 2.0, a
    a, (part, row), x, twice, same = several(X, X)
    assert owns_block(twice) and not owns_block(x)
    for got, want in ((a, 2 * X), (part, 2 * X[1:]), (row[0], 2 * X), (x, X), (twice, 4 * X), (same, 2 * X)):
        np.testing.assert_array_equal(got, want)
    made = [a, part, row, x, twice]
    assert not any(np.shares_memory(p, q) for i, p in enumerate(made) for q in made[:i])


def test_matrices_of_other_types_and_loops_around() -> None:
    @jit
    def table(n, steps):
        a = np.zeros((n, 7), dtype=np.float32)
        for _ in range(steps):
            a = a + np.float32(1.0)
        for i in range(n):
            a[i, 3] += i
        return a, a > 2.0
    n = result_buffers.LARGE // 7
    a, larger = table(n, 3)
    want = np.full((n, 7), 3.0, np.float32)
    want[:, 3] += np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(a, want)
    np.testing.assert_array_equal(larger, want > 2.0)


def test_a_call_that_fails_keeps_nothing() -> None:
    @jit
    def fails(x, i):
        y = x + 1.0
        y[i] = 2.0
        return y
    fails(X, 0)
    gc.collect()
    before = free_bytes()
    for _ in range(5):
        with pytest.raises(IndexError):
            fails(X, N)
    assert free_bytes() == before > 0


@pytest.mark.slow
def test_what_is_free_is_bounded() -> None:
    x = np.ones(1 << 22)
    kept = [squares(x) for _ in range(9)]            # 9 times 32 MiB
    assert all(owns_block(a) for a in kept)
    del kept
    assert free_bytes() <= result_buffers.FREE
    np.testing.assert_array_equal(squares(X), X * X)


def test_threads_do_not_share_blocks() -> None:
    wrong: list[Any] = []

    def work(k: int) -> None:
        for i in range(20):
            y, z = squares(X + k), energy.grad(X + i)
            if not (np.array_equal(y, (X + k) * (X + k)) and np.allclose(z, 3 * (X + i) ** 2)):
                wrong.append((k, i))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_blocks_below_a_huge_page_fit_their_results() -> None:
    """Half a page of numbers takes little more than that, and the list of free blocks stays short."""
    y = squares(X)
    assert owns_block(y)
    gc.collect()
    del y
    many = [squares(X) for _ in range(result_buffers.FREE // result_buffers.HUGE_PAGE + 20)]
    del many
    assert 0 < free_bytes() <= result_buffers.FREE
    np.testing.assert_array_equal(squares(X), X * X)


def test_a_full_list_takes_blocks_of_another_size() -> None:
    """What was free before is returned, so that results of a new size find their blocks."""
    many = [squares(X) for _ in range(result_buffers.FREE // result_buffers.HUGE_PAGE + 20)]
    del many
    larger = np.ones(3 * N)
    y = squares(larger)
    del y
    free = free_bytes()
    assert free <= result_buffers.FREE
    y = squares(larger)
    assert owns_block(y) and free_bytes() < free
    np.testing.assert_array_equal(y, larger)


def test_a_block_that_is_too_large_to_be_owned_is_left_in_the_list() -> None:
    """A result that fills less than half of its block would have to be copied out of it."""
    large = squares(np.ones(2 * N + 4000))
    at = large.ctypes.data
    del large
    small = squares(X)
    assert owns_block(small) and small.ctypes.data != at
