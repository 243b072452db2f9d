"""Elements that are not overwritten any more are loaded again from the final array; others are saved."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, grad, interpret, jit, value_and_grad
from jitad.ir.text import parse_module
from jitad.passes.analysis.loops import LoopForest

pytestmark = pytest.mark.any_level


def cholesky(a: Any) -> float:
    n = len(a)
    l = np.zeros((n, n))
    total = 0.0
    for j in range(n):
        d = a[j, j]
        for k in range(j):
            d -= l[j, k] * l[j, k]
        l[j, j] = math.sqrt(d)
        total += math.log(l[j, j])
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            l[i, j] = s / l[j, j]
    return total


def lu(a: Any) -> float:
    f = a.copy()
    n = len(f)
    total = 0.0
    for k in range(n):
        total += math.log(abs(f[k, k]))
        for i in range(k + 1, n):
            m = f[i, k] / f[k, k]
            for j in range(k + 1, n):
                f[i, j] -= m * f[k, j]
    return total


def cholesky_by_rows(a: Any) -> float:
    """Rows from left to right: later iterations write to the same row, further to the right, or to later rows."""
    n = len(a)
    l = np.zeros((n, n))
    total = 0.0
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j]
            for k in range(j):
                s -= l[i, k] * l[j, k]
            if i == j:
                l[i, j] = math.sqrt(s)
                total += math.log(l[i, j])
            else:
                l[i, j] = s / l[j, j]
    return total


def rows_twice(a: Any) -> float:
    """Like the factorisation by rows, but a later iteration changes the end of the row above, or all of it."""
    l = a.copy()
    for i in range(1, len(a)):
        for j in range(len(a)):
            for k in range(j):
                l[i, j] += 0.1 * l[i, k] * l[i - 1, k] * l[i - 1, j]
            l[i - 1, len(a) - 1] += 0.1 * l[i, j]
    for i in range(1, len(a)):
        for j in range(i):
            for k in range(j):
                l[i, j] += 0.1 * l[i, k] * l[j, k]
        for j in range(1, i):
            l[i, j - 1] *= l[i, j]
    return np.sum(l * l)


def upwards(a: Any) -> float:
    """Back substitution: from the last row to the first, so rows below are final."""
    n = len(a)
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        s = a[i, 0]
        for j in range(i + 1, n):
            s -= a[i, j] * x[j] * x[j]
        x[i] = s / a[i, i]
    return x.sum()


def recurrence(a: Any) -> float:
    s = np.zeros(len(a) + 1)
    for i in range(len(a)):
        s[i + 1] = math.sin(s[i]) * a[i, i] + a[0, i]
    return s[len(a)]


def sweeps(a: Any) -> float:
    """Each sweep overwrites the elements that the previous one has read."""
    x = a[0].copy()
    for t in range(3):
        for i in range(1, len(x)):
            x[i] = x[i] * x[i - 1] + a[t, i]
    return x.sum()


def same_place(a: Any) -> float:
    """Elements are read and overwritten in the same iteration."""
    x = a[0].copy()
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
        x[i] = total * a[1, i]
    return total + x.sum()


def behind(a: Any) -> float:
    """Reads elements that a later iteration overwrites."""
    x = a[0].copy()
    total = 0.0
    for i in range(1, len(x)):
        x[i - 1] = total * 0.1 + a[1, i]
        total += x[i] * x[i - 1] * x[len(x) - 1]
    return total + x.sum()


def scratch(a: Any) -> float:
    """An array per iteration, filled by a loop."""
    total = 0.0
    for i in range(len(a)):
        x = np.zeros(len(a))
        x[0] = a[i, 0] + total
        for j in range(1, len(a)):
            x[j] = x[j - 1] * x[j - 1] * 0.1 + a[i, j]
        total += 0.1 * x[len(a) - 1]
    return total


def exchanged(a: Any) -> float:
    """Two arrays are exchanged: the final one is not the one that was read."""
    x, y = a[0].copy(), a[1].copy()
    for i in range(1, len(x)):
        x[i] = x[i - 1] * x[i - 1] + a[2, i]
        x, y = y, x
    return x.sum() + 2.0 * y.sum()


def twice(a: Any) -> float:
    """The final array is changed again."""
    x = a[0].copy()
    for i in range(1, len(x)):
        x[i] = x[i - 1] * x[i - 1] * 0.5 + a[1, i]
    for i in range(len(x)):
        x[i] = x[i] * x[i]
    return x.sum()


def cholesky_by_slices(a: Any) -> float:
    n = len(a)
    l = np.zeros((n, n))
    for j in range(n):
        l[j, j] = np.sqrt(a[j, j] - np.sum(l[j, :j] * l[j, :j]))
        l[j + 1:, j] = (a[j + 1:, j] - l[j + 1:, :j] @ l[j, :j]) / l[j, j]
    return np.sum(np.log(np.diag(l)))


def cholesky_in_place(a: Any) -> float:
    """Each column is divided, and then subtracted from those after it."""
    l = a.copy()
    for k in range(len(l)):
        l[k, k] = math.sqrt(l[k, k])
        l[k + 1:, k] /= l[k, k]
        for j in range(k + 1, len(l)):
            l[j:, j] -= l[j:, k] * l[j, k]
    return np.sum(np.log(np.diag(l)))


def before_and_after(a: Any) -> float:
    """Elements are written before they are read, and once more after it, in the same iteration or in the next."""
    x, y, total = a[0].copy(), a[1].copy(), 0.0
    for i in range(1, len(x)):
        x[i] = total * 0.1 + a[1, i]
        y[i] = total + x[i]
        total += x[i] * x[i - 1] * x[i] + y[i] * y[i]
        x[i - 1] = total
        for j in range(i, 0, -1):
            y[j] = y[j] * y[j - 1] * 0.5
    return total + x.sum() + np.sum(y * y)


def trajectory(a: Any) -> float:
    """Each step reads the row that the last one wrote."""
    u = np.zeros((len(a) + 1, len(a)))
    u[0] = a[0]
    for t in range(len(a)):
        u[t + 1] = np.sin(u[t]) * a[t] + u[t]
    return np.sum(u * u)


def rows_in_use(a: Any) -> float:
    """A later iteration writes into the row that an earlier one has read."""
    u = a.copy()
    for t in range(len(a) - 1):
        total = np.sum(u[t, :t + 1] * u[t + 1, 1:t + 2])
        u[t + 1, :t + 2] = u[t, :t + 2] * total
        u[t, t:] = u[t, t:] * u[t, t]
    return np.sum(u)


def below(a: Any) -> float:
    """Parts of rows with steps, and rows that are filled from the last to the first."""
    n = len(a)
    x = np.zeros((n, n))
    for i in range(n - 1, -1, -1):
        x[i, ::2] = a[i, ::2] + np.sum(x[i + 1:, ::2] * x[i + 1:, ::2])
        x[i, 1::2] = a[i, 1::2] * x[i, 0]
    return np.sum(x)


def state(a: Any) -> float:
    """Two inner loops read each element of a state, which is then overwritten."""
    h, new = a[0].copy(), np.zeros(len(a))
    for _ in range(3):
        for i in range(len(h)):
            new[i] = a[1, i]
            for j in range(len(h)):
                new[i] += a[i % 2, j] * h[j] * h[j]
        for i in range(len(h)):
            h[i] = 0.2 * new[i]
    return h.sum()


def inside(a: Any) -> float:
    """The same, of the inside of a matrix; some elements are read in some iterations only."""
    x, total = a.copy(), 0.0
    for _ in range(3):
        for k in range(3):
            for i in range(1, len(x) - 1):
                for j in range(len(x)):
                    if j % 7 != k:
                        total += x[i, j] * x[i, j] * a[k, j]
        x[1, 0] = total
        x[2] = x[1] * total * 0.01
    return total


def two_nests(a: Any) -> float:
    """Two nests read each element of a state once each, which is then overwritten."""
    h = a.copy()
    rows, columns = h.shape
    for _ in range(3):
        u, v = np.zeros((rows - 1, columns)), np.zeros((rows, columns - 1))
        for i in range(rows - 1):
            for j in range(columns):
                u[i, j] = (h[i + 1, j] - h[i, j]) ** 2
        for i in range(rows):
            for j in range(columns - 1):
                v[i, j] = h[i, j] * h[i, j + 1]
        for i in range(rows - 1):
            for j in range(columns - 1):
                h[i, j] -= 0.1 * (u[i, j] + v[i, j])
    return h.sum()


def filled_rows(a: Any) -> float:
    """A loop that may be skipped fills a row, of which all is read behind it."""
    n, m = a.shape
    x, total = np.zeros((n, m + 1)), 0.0
    for i in range(n):
        for j in range(m):
            x[i, j + 1] = 0.5 * x[i, j] + math.sin(a[i, j])
        total += np.max(x[i])
    return total


def mended_rows(a: Any) -> float:
    """Rows that are not final: each is read before it is updated."""
    x, total = a.copy(), 0.0
    for _ in range(2):
        for i in range(len(a)):
            row = x[i]
            total += np.max(row)
            for j in range(a.shape[1]):
                x[i, j] += 0.5 * math.sin(a[i, j])
    return total


ALL = [upwards, recurrence, cholesky, lu, sweeps, same_place, behind, scratch, exchanged, twice, cholesky_by_slices,
       cholesky_in_place, before_and_after, trajectory, rows_in_use, below, state, inside, two_nests,
       cholesky_by_rows, rows_twice, filled_rows, mended_rows]


def matrix(n: int = 5) -> Any:
    rng = np.random.default_rng(n)
    square = rng.normal(size=(n, n))
    return 0.2 * square @ square.T + 1.5 * np.eye(n)


@pytest.mark.long
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_gradients(f: Callable[[Any], float]) -> None:
    a = matrix()
    value, bar = jit(value_and_grad(f))(a)
    assert value == pytest.approx(f(a), rel=1e-12)
    np.testing.assert_allclose(bar, interpret(grad(f), a), rtol=1e-10, atol=1e-12)
    check_grads(f, (a,), order=2 if f in (cholesky, cholesky_by_rows, behind, state) else 1)
    if f in (sweeps, state, inside):
        np.testing.assert_allclose(jit(f, grad=True, checkpoint=True).grad(a), bar, rtol=1e-10)


def of_each(f: Callable[[Any], float]) -> Callable[[Any], float]:
    """The sum over a batch, whose iterations are computed again in the reverse sweep."""
    def batch(a: Any) -> float:
        total = 0.0
        for s in range(len(a)):
            total += f(a[s])
        return total
    return batch


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [upwards, cholesky, lu, sweeps, same_place, behind, exchanged, twice, before_and_after,
                               rows_twice, state, cholesky_in_place, mended_rows], ids=lambda f: f.__name__)
def test_batches(f: Callable[[Any], float]) -> None:
    a = np.stack([matrix(), matrix() * 1.1])
    value, bar = jit(value_and_grad(of_each(f)))(a)
    assert value == pytest.approx(f(a[0]) + f(a[1]), rel=1e-12)
    np.testing.assert_allclose(bar, np.stack([jit(grad(f))(x) for x in a]), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("f", [cholesky, lu], ids=lambda f: f.__name__)
def test_what_is_kept_of_batches(f: Callable[[Any], float]) -> None:
    """The innermost loops save nothing."""
    assert frames_of_innermost_loops(of_each(f), np.stack([matrix(), matrix()])) == 0


def frames_of_innermost_loops(f: Callable[[Any], float], a: Any) -> int:
    compiled = jit(f, grad=True, boundscheck=False)             # with checks, loops have two versions
    compiled.value_and_grad(a)
    func = next(iter(parse_module(compiled.value_and_grad.inspect("optimized")).functions.values()))
    loops = LoopForest(func).loops
    deepest = [loop.head for loop in loops if loop.depth == max(loop.depth for loop in loops)]
    return len([op for b in deepest for op in b.ops if op.name == "set" and op.operands[0].hint.startswith("frames")])


@pytest.mark.parametrize("f, kept", [(upwards, 0), (cholesky, 0), (cholesky_by_rows, 0), (lu, 0), (recurrence, 1),
                                     (sweeps, 2), (state, 0), (inside, 0), (two_nests, 0)],
                         ids=lambda f: f.__name__ if callable(f) else "")
def test_what_is_kept_of_inner_iterations(f: Callable[[Any], float], kept: int) -> None:
    """Of the recurrence, the sine is saved; of the sweeps, the elements that they read."""
    assert frames_of_innermost_loops(f, matrix()) == kept


def test_finished_parts_are_not_saved() -> None:
    """Of the factorisation by slices a column is saved for each step, none of the blocks that the step reads."""
    compiled = jit(cholesky_by_slices, grad=True)
    compiled.value_and_grad(matrix())
    func = next(iter(parse_module(compiled.value_and_grad.inspect("optimized")).functions.values()))
    saved = [v.type for op in func.all_ops() if op.name == "push" for v in op.operands[1:]]
    assert [getattr(t, "rank", 0) for t in saved] == [1]


def test_columns_that_are_final_when_they_are_read() -> None:
    """A factorisation in place saves a column for each step, none for each column that it is subtracted from."""
    compiled = jit(cholesky_in_place, grad=True)
    compiled.value_and_grad(matrix())
    func = next(iter(parse_module(compiled.value_and_grad.inspect("optimized")).functions.values()))
    depth = {b: loop.depth for loop in sorted(LoopForest(func).loops, key=lambda x: x.depth) for b in loop.blocks}
    saved = [depth[b] for b in func.blocks for op in b.ops if op.name == "push"]
    assert saved and max(saved) == 1


@pytest.mark.slow
def test_arrays_are_not_copied_for_their_rows() -> None:
    """A row that is final is read again; another one is saved, and nothing of the rest of its array."""
    for f, pushes in ((filled_rows, 0), (mended_rows, 1)):
        compiled = jit(f, grad=True)
        compiled.value_and_grad(matrix())
        func = next(iter(parse_module(compiled.value_and_grad.inspect("optimized")).functions.values()))
        depth = {b: loop.depth for loop in sorted(LoopForest(func).loops, key=lambda x: x.depth) for b in loop.blocks}
        ops = [op for b in func.blocks if b in depth for op in b.ops]
        saved = [v.op for op in ops if op.name == "push" for v in op.operands[1:]]
        assert len([op for op in saved if op is not None and op.name == "copy"]) == pushes
        copied = [op.result.type for op in ops if op.name == "copy"]
        assert not [t for t in copied if getattr(t, "rank", 0) == 2 and t.dims != (4, 16)]      # columns for lanes


@pytest.mark.slow
def test_the_callers_array_is_not_copied_for_it() -> None:
    """A function that changes an array of its caller saves the elements that it reads, not the array."""
    def fill(x: Any, i: int, a: Any) -> Any:
        for k in range(2):
            x[i + k + 1] = x[i + k] * a[0, 0] + a[1, 1]
        return fill(x, i + 2, a) if i < 20 else x

    def f(a: Any) -> float:
        return fill(np.ones(30), 0, a).sum()
    a = matrix()
    check_grads(f, (a,), order=1)
    compiled = jit(f, grad=True)
    compiled.value_and_grad(a)
    assert "copy" not in compiled.value_and_grad.inspect("optimized")


def states(u: Any, xs: Any) -> float:
    """The product with ``xs`` is made for 64 rows at a time, so the number of a row is computed from two counters."""
    n = len(u)
    h = np.zeros((len(xs) + 1, n))
    for t in range(len(xs)):
        from_x, from_h = np.zeros(n), np.zeros(n)
        for i in range(n):
            for k in range(n):
                from_x[i] += u[k, i] * xs[t, k]
            for k in range(n):
                from_h[i] += u[i, k] * h[t, k]
        for i in range(n):
            h[t + 1, i] = math.tanh(from_h[i] + from_x[i])
    return np.sum(h ** 2)


@pytest.mark.slow
def test_rows_whose_number_two_loops_count() -> None:
    u, xs = np.random.default_rng(8).normal(size=(4, 4)), np.random.default_rng(9).normal(size=(70, 4))
    text = jit(states, grad=(0, 1)).grad.inspect("adjoint", u, xs)
    kept = [line for line in text.splitlines() if " = push " in line]
    assert "matmul" in text and len(kept) == 1                # for each 64 steps, not for each of them, or for each sum
    check_grads(states, (u, xs), order=1)


def curves(a: Any) -> float:
    """Each row is solved in one scratch array; its iterations are computed again in the reverse sweep."""
    x, total = np.zeros(a.shape[1]), 0.0
    for s in range(len(a)):
        for i in range(a.shape[1]):
            x[i] = 1.0
            for j in range(i):
                x[i] -= a[s, i] * x[j]
            x[i] /= 2.0 + a[s, i]
        for i in range(a.shape[1]):
            total += math.exp(x[i]) * (i + 1.0)
    return total


@pytest.mark.slow
@pytest.mark.long
def test_finished_elements_in_an_iteration_that_is_computed_again() -> None:
    a = np.random.default_rng(10).uniform(0.0, 1.0, (6, 5))
    text = jit(curves, grad=True).grad.inspect("adjoint", a)
    assert "_again" in text and " = push " not in text
    check_grads(curves, (a,), order=2)
    for shape in ((0, 5), (3, 0), (1, 1), (40, 17)):
        a = np.random.default_rng(11).uniform(0.0, 1.0, shape)
        np.testing.assert_allclose(jit(curves, grad=True).grad(a), interpret(grad(curves), a), rtol=1e-10, atol=1e-12)
