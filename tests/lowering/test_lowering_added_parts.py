"""Slices of an array that are added in one loop (the adjoint of adjacent slices), and their overlaps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from jitad.lowering.jit.invoke import Compiled
from jitad.lowering.planning.array_plan import plan

from jitad import check_grads, grad, interpret, jit
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.types import F64
from tests.kernels.lowering_arrays import check, module_of, sample

V = sample((5, 20))


def parts(b, v, w, *starts):
    """``v`` and functions of it, added to an array of zeros from each of ``starts`` on, along the last axis."""
    whole = b.fill(b.const(0.0, F64), *b.dims(w))
    common = b.div(v, b.add(b.mul(v, v), 1.0))
    for n, start in enumerate(starts):
        part = b.mul(common, b.const(n + 1.0, F64))
        places = [x for axis in range(len(v.type.dims)) for x in (start if axis == len(v.type.dims) - 1 else 0, 1)]
        whole = b.emit("add_slice", whole, part, *(b.const(p) if isinstance(p, int) else p for p in places), acc=True)
    return [whole, b.exp(v)]


def groups(build, *args) -> list[list[str]]:
    found = plan(module_of(build, args).functions["f"]).groups
    return [[op.name for op in g] for g in {id(g): g for g in found.values()}.values()]


def test_parts_that_may_lie_side_by_side_share_a_loop():
    together = [["div", "add_slice", "add_slice", "add_slice", "exp"]]
    assert groups(lambda b, v, w, i, j: parts(b, v, w, 0, i, j), V, sample((5, 60)), 20, 40) == together


def test_parts_at_a_known_distance_share_a_pass_over_what_they_have_in_common():
    """No test at run time: one nest for the box, and one for the rims of each part along each axis."""
    together = [["div", "add_slice", "add_slice", "exp"]]
    assert groups(lambda b, v, w: parts(b, v, w, 0, 1), V, sample((5, 60))) == together
    u = sample((9, 9))
    loops = jit(grad(lambda u: np.sum(np.sin(u[:-2] * u[2:])))).inspect("loops", u)
    assert loops.count("store ") == 4                              # zeros, the box, and the rims of two parts


def agree(build, every, *arrays) -> None:
    """Machine code, compiled once, agrees with the interpreter for several starts."""
    module = module_of(build, [*arrays, *every[0]])
    compiled = Compiled(module, "f")
    for starts in every:
        for got, want in zip(compiled(*arrays, *starts), Interpreter(module).run("f", [*arrays, *starts])):
            np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("shape", [(40,), (0,), (5, 20), (2, 3, 18)])
def test_wherever_the_parts_begin(shape):
    v, n = sample(shape), shape[-1]
    w = sample((*shape[:-1], 3 * n + 2))
    starts = list(itertools.product((0, 1, n, 2 * n + 2), repeat=3))
    agree(lambda b, v, w, i, j, k: parts(b, v, w, i, j, k), starts, v, w)


def test_rows_that_are_parts():
    """The first axis: each slice is contiguous."""
    def build(b, v, w, i, j):
        whole = b.fill(b.const(0.0, F64), *b.dims(w))
        for start in (i, j):
            whole = b.emit("add_slice", whole, b.exp(v), start, b.const(1), b.const(0), b.const(1), acc=True)
        return [whole]
    agree(build, [(0, 5), (5, 0), (2, 4), (3, 3)], V, sample((10, 20)))


@pytest.mark.parametrize("starts", [(0, 20), (0, 1)])
def test_what_is_added_is_read_before_its_buffer_is_taken_over(starts):
    def build(b, v, w, i, j):
        whole = b.fill(b.const(0.0, F64), *b.dims(w))
        for start in (i, j):
            part = b.mul(v, b.exp(v))
            whole = b.emit("add_slice", whole, part, b.const(0), b.const(1), start, b.const(1), acc=True)
        return [whole, b.sin(v)]
    check(build, V, sample((5, 40)), *starts, own=(0,))


def test_parts_of_two_arrays_and_an_array_between():
    def build(b, v, w, i, j):
        one, two = (b.fill(b.const(0.0, F64), *b.dims(w)) for _ in range(2))

        def add(whole, part, start):
            return b.emit("add_slice", whole, part, b.const(0), b.const(1), start, b.const(1), acc=True)
        one, two = add(one, b.exp(v), i), add(two, b.sin(v), i)
        two = add(two, b.mul(v, b.slice(one, 0, 5, 1, 2, 20, 1)), j)
        return [add(one, v, j), two]
    agree(build, [(0, 20), (20, 0), (0, 3)], V, sample((5, 40)))


# --- programs ---------------------------------------------------------------------------------------------

def cell(x, w, n):
    """A gated cell; if ``n`` is large the last gates are narrower, as slices end with the array."""
    gates = x @ w
    total = 0.0
    for start in (0, n, 2 * n):
        total += np.sum(np.tanh(gates[:, start:start + n]) * (1.0 + start))
    return total + np.sum(gates[:, :n] * gates[:, n:2 * n] / (1 + np.exp(-gates[:, 2 * n:])))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("n", [1, 33])
def test_a_gated_cell(n):
    x, w = sample((4, 6)), sample((6, 3 * n), seed=1)
    check_grads(lambda x, w: cell(x, w, n), (x, w), order=1 if n == 1 else 2)


@pytest.mark.parametrize("k", [1, 20, 39])
def test_lags_overlap(k):
    def f(x, k):
        return np.sum(x[k:] ** 2 * np.sin(x[:-k]))
    x = sample((40,))
    expected = interpret(grad(f), x, k)
    for boundscheck in (True, False):
        np.testing.assert_allclose(jit(grad(f), boundscheck=boundscheck)(x, k), expected, rtol=1e-13)


@pytest.mark.parametrize("static_shapes", [False, True])
def test_parts_change_places_from_one_iteration_to_the_next(static_shapes):
    """In an unrolled loop, parts that are disjoint in one iteration may overlap in two."""
    def f(x, starts):
        total = 0.0
        for t in range(3):
            i, j = starts[t], starts[t + 1]
            total += np.sum(np.sin(x[i:i + 2]) * x[j:j + 2])
        return total
    x, starts = sample((6,)), np.array([0, 2, 4, 2])
    got = jit(grad(f), static_shapes=static_shapes)(x, starts)
    np.testing.assert_allclose(got, interpret(grad(f), x, starts), rtol=1e-13)


def test_a_stencil_overlaps():
    def f(u):
        return np.sum(np.exp(u[:-2] - 2 * u[1:-1] + u[2:]) * u[1:-1])
    u = sample((40,))
    np.testing.assert_allclose(jit(grad(f))(u), interpret(grad(f), u), rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(9, 8), (3, 3), (2, 9), (1, 5), (0, 4), (4, 0)])
def test_a_stencil_in_the_plane(shape):
    """Rims along both axes; arrays that are smaller than the stencil have parts that are empty or lie apart."""
    def f(u):
        inner, around = u[1:-1, 1:-1], u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] * u[1:-1, 2:] + u[2:, :-2] ** 2
        return np.sum(np.tanh(around) * inner)
    u = sample(shape)
    np.testing.assert_allclose(jit(grad(f))(u), interpret(grad(f), u), rtol=1e-12)


@pytest.mark.slow
def test_a_stencil_in_space_and_in_time():
    def f(u, steps):
        for _ in range(steps):
            u = np.sin(u[1:, :-1, 1:] + u[:-1, 1:, 1:] * u[1:, 1:, :-1])
        return np.sum(u)
    for shape in ((6, 7, 8), (4, 4, 4)):
        u = sample(shape)
        np.testing.assert_allclose(jit(grad(f))(u, 4), interpret(grad(f), u, 4), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 2, 3, 7, 8])
def test_every_second_element(n):
    """Parts whose indices have other remainders share a loop, others do not."""
    def f(x, start):
        even, odd, other = x[::2], x[1::2], x[start::2]
        k = min(len(even), len(odd), len(other))
        return np.sum(np.maximum(even[:k], odd[:k]) * np.exp(other[:k]))
    x = sample((n,))
    for start in range(4):
        np.testing.assert_allclose(jit(grad(f))(x, start), interpret(grad(f), x, start), rtol=1e-13)


def test_parts_with_steps_share_a_loop():
    def build(b, v, w):
        whole = b.fill(b.const(0.0, F64), *b.dims(w))
        for start in (0, 1):
            whole = b.emit("add_slice", whole, b.exp(v), *map(b.const, (0, 1, start, 2)), acc=True)
        return [whole]
    w = sample((5, 41))
    assert groups(build, V, w) == [["add_slice", "add_slice"]]
    agree(build, [()], V, w)


def test_pooling_by_slices():
    def f(x, w):
        upper, lower = np.maximum(x[::2, ::2], x[::2, 1::2]), np.maximum(x[1::2, ::2], x[1::2, 1::2])
        return np.sum(np.maximum(upper, lower) ** 2 * w)
    x, w = sample((6, 8, 3)), sample((3,))
    np.testing.assert_allclose(jit(grad(f))(x, w), interpret(grad(f), x, w), rtol=1e-13)
