"""Loops within loops whose iterations are recomputed one by one (``ad/storage/nests.py``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jitad import check_grads, jit
from jitad.ir.text import parse_module
from jitad.ir.types import Array
from jitad.passes.analysis.loops import loop_forest

pytestmark = pytest.mark.any_level

R = np.random.default_rng(3)
X, W, AT = R.normal(size=(5, 7)), R.normal(size=9), R.integers(0, 9, (5, 7))


def gathered(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """Both sweeps of an element are one: it is added where data tell, on one side of a branch."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > -0.5:
                total += (x[i, j] - w[at[i, j]]) ** 3
    return total


def continued(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """Sums of the outer iteration behind the inner loop are computed when its reverse sweep ends."""
    total, count = 0.0, 0.0
    for i in range(x.shape[0]):
        scale = w[i] * w[i]
        for j in range(at[i, 0]):
            total += scale * w[j] * w[at[i, j % 7]]
            count += 1.0
        total += scale * 2.0
        count = count + 1.0
    return total + count


def twice(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """The second inner loop continues the sum of the first."""
    total = 1.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * w[at[i, j]]
        for j in range(i):
            total += x[i, j] * w[at[i, j]] * w[j]
    return total


def above_mean(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """The second inner loop reads what the first has computed, which so runs ahead of its reverse loop."""
    total = 0.0
    for i in range(x.shape[0]):
        mean = 0.0
        for j in range(x.shape[1]):
            mean += x[i, j]
        mean /= x.shape[1]
        for j in range(x.shape[1]):
            if x[i, j] > mean:
                total += (x[i, j] - mean) ** 2 * w[i]
    return total


def three(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    total = 0.0
    for k in range(3):
        for i in range(x.shape[0]):
            for j in range(i):
                total += x[i, j] * x[i, j] * w[k]
    return total


def needed(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """The derivative reads the sum of the row: the inner loop has to end first."""
    total = 0.0
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(x.shape[1]):
            s += x[i, j] * w[at[i, j]]
        total += s * s
    return total


def scanned(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """Each iteration goes on where the one before has stopped: one pass carries the position."""
    total, k = 0.0, 0
    for i in range(x.shape[0]):
        while k < 7 and w[k] < x[i, 0]:
            k += 1
        total += (x[i, 1] - w[k]) ** 2 * w[k + 1]
    return total


def drawn(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """The state of a generator, and a weight, pass through both loops."""
    total, seed, weight = 0.0, 5, 1.0
    for i in range(x.shape[0]):
        for _ in range(at[i, 0]):
            seed = (seed * 75 + 74) % 65537
            weight *= 0.9
            total += weight * x[i, seed % 7] * w[seed % 9] ** 2
    return total


def carried_on(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """The derivative of what is carried is not zero: the reverse sweep has an order of its own."""
    total, s, k = 0.0, 0.5, 0
    for i in range(x.shape[0]):
        k = (k + at[i, 0]) % 9
        s = s * w[k] + x[i, 0]
        total += s * s
    return total


def splats(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """An inner loop ends when data tell; each iteration around it saves on a stack of its own."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            light, colour = 1.0, 0.0
            for k in range(len(w)):
                alpha = np.exp(-(x[i, j] - w[k]) ** 2)
                if alpha < 0.3:
                    continue
                colour += light * alpha * w[k]
                light *= 1.0 - alpha
                if light < 0.05:
                    break
            total += (colour - 0.5) ** 2
    return total


def windows(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    """Inner loops around indices that data tell; a row has a scale, and a sum behind them."""
    total = 0.0
    for i in range(x.shape[0]):
        scale = w[i] * w[i]
        for j in range(x.shape[1]):
            if at[i, j] == 0 or at[i, j] == 8:
                continue
            s = 0.0
            for k in range(-1, 2):
                s += w[at[i, j] + k] * x[i, (j + k) % 7]
            total += scale * s * s
        total += scale
    return total


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f, arrays", [
    (splats, 0), (windows, None), (gathered, 0), (continued, 0), (twice, None), (three, 0), (needed, None),
    (scanned, 0), (drawn, 0), (carried_on, 2), (above_mean, None)])
def test_gradients_and_saved_rows(f: Callable, arrays: int | None) -> None:
    jitted = jit(f, grad=(0, 1))
    value, _ = jitted.value_and_grad(X, W, AT)
    np.testing.assert_allclose(value, f(X, W, AT), rtol=1e-12)
    check_grads(lambda x, w: f(x, w, AT), (X, W), order=2)
    text = jitted.value_and_grad.inspect("adjoint", X, W, AT)
    assert arrays is None or text.count(" = empty ") == arrays


@pytest.mark.parametrize("shape", [(0, 7), (5, 0), (1, 1)])
@pytest.mark.parametrize("f", [gathered, needed])
def test_loops_without_iterations(f: Callable, shape: tuple[int, int]) -> None:
    x, at = np.ones(shape), np.zeros(shape, dtype=np.int64)
    value, (x_bar, w_bar) = jit(f, grad=(0, 1)).value_and_grad(x, W, at)
    np.testing.assert_allclose(value, f(x, W, at))
    assert x_bar.shape == shape and w_bar.shape == W.shape


def raises_behind(x: np.ndarray, w: np.ndarray, at: np.ndarray) -> float:
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * w[at[i, j]]
        total += w[i + 7]
    return total


def test_the_first_failure_is_raised() -> None:
    """Iterations that may raise do not move behind what raises after them."""
    at = AT.copy()
    at[2, 3] = 77
    with pytest.raises(IndexError, match="index 77"):
        jit(raises_behind, grad=(0, 1)).value_and_grad(X, W, at)
    at[2, 3] = 0
    with pytest.raises(IndexError, match="index 9"):
        jit(raises_behind, grad=(0, 1)).value_and_grad(X, W, at)


def until(x: np.ndarray, w: np.ndarray) -> float:
    """A product reads a vector that each step replaces; the steps end by a ``break``."""
    h, q, total = w.copy(), np.zeros(len(w)), 0.0
    for _ in range(10):
        if total > 3.0:
            break
        for i in range(len(h)):
            q[i] = 0.0
            for j in range(len(h)):
                q[i] += x[i, j] * h[j]
        for i in range(len(h)):
            h[i] = 0.5 * h[i] + np.tanh(q[i])
            total += h[i] * h[i]
    return total


@pytest.mark.slow
def test_the_vector_of_a_product_is_saved_once_beside_a_break() -> None:
    w, steps = R.normal(size=5), 0.3 * R.normal(size=(5, 5))
    check_grads(until, (steps, w), order=1)
    derivative = jit(until, grad=(0, 1)).value_and_grad
    text = derivative.inspect("optimized", steps, w)
    assert text.count(" = push ") == 1                        # in each step, and not in the loops of the product
    np.testing.assert_allclose(derivative(steps, w)[0], until(steps, w), rtol=1e-13)
    big = 3.0 * w                                             # leaves at once
    check_grads(until, (steps, big), order=1)


def always(w: np.ndarray, starts: np.ndarray, x: np.ndarray, steps: int) -> float:
    """Inner loops read parts of an array that their outer iteration computes."""
    for _ in range(steps):
        q = 1.0 - w * np.sin(x)
        e = np.ones(len(starts) - 1)
        for i in range(len(starts) - 1):
            e[i] = np.prod(q[starts[i]:starts[i + 1]])
        x = x + 0.1 * e[0] * np.sum(e)
    return float(np.sum(x))


def repeated(w: np.ndarray, starts: np.ndarray, x: np.ndarray, most: int) -> float:
    while np.sum(x) < most:
        q = 1.0 - w * np.sin(x)
        for i in range(len(starts) - 1):
            y = 1.0
            for k in range(starts[i], starts[i + 1]):
                y *= q[k]
            x = x + 0.1 * y
    return float(np.sum(x))


def sometimes(w: np.ndarray, starts: np.ndarray, x: np.ndarray, steps: int) -> float:
    x = x.copy()
    for t in range(steps):
        if t % 2:
            q = 1.0 - w * x
            for i in range(len(starts) - 1):
                y = 1.0
                for k in range(starts[i], starts[i + 1]):
                    y *= q[k]
                x[i] = x[i] + 0.1 * y
    return float(np.sum(x))


def recursive(w: np.ndarray, starts: np.ndarray, x: np.ndarray, depth: int) -> float:
    """The reverse sweep is another function."""
    if depth == 0:
        return float(np.sum(x))
    q = 1.0 - w * x
    total = 0.0
    for i in range(len(starts) - 1):
        y = 1.0
        for k in range(starts[i], starts[i + 1]):
            y *= q[k]
        total += y * y
    return total + recursive(w, starts, x * 0.9, depth - 3)


@pytest.mark.slow
@pytest.mark.parametrize(("f", "deepest"), ((always, 1), (repeated, 1), (sometimes, 1), (recursive, 0)))
def test_arrays_are_recomputed_as_often_as_they_were_computed(f: Callable, deepest: int) -> None:
    """Not in each iteration of an inner loop that reads a part."""
    starts = np.array([0, 2, 2, 5, 9])
    args = (R.uniform(size=9), starts, R.uniform(size=9), 9)
    check_grads(f, args, modes=("rev",))
    module = parse_module(jit(f, grad=(0, 2)).value_and_grad.inspect("optimized", *args))
    depths = [forest.depth(block) for forest in map(loop_forest, module.functions.values())
              for block in forest.dom.order for op in block.ops
              if op.name == "mul" and isinstance(op.result.type, Array)]
    assert depths and max(depths) == deepest
