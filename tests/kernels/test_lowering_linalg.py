"""Matrix products of all ranks: inlined, by run-time size, through BLAS, and added in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jitad.lowering.jit.invoke import Compiled
from jitad.lowering.planning.array_plan import plan

from jitad import jit
from jitad.ir.types import I64, Array
from tests.kernels.lowering_arrays import check, module_of, sample, type_of

SIZES = [(1, 1, 1), (2, 3, 4), (5, 1, 7), (0, 3, 2), (3, 0, 2), (6, 19, 3), (40, 30, 50), (5, 61, 33), (2, 90, 64)]


def swap(a: np.ndarray, flag: bool) -> np.ndarray:
    return np.ascontiguousarray(np.swapaxes(a, -1, -2)) if flag else a


@pytest.mark.long
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_matrices(ta, tb, dtype):
    """With sizes known at run time, and with sizes known at compile time."""
    known: dict[Any, Compiled] = {}
    for m, n, k in SIZES:
        x, y = swap(sample((m, k), dtype), ta), swap(sample((k, n), dtype, 1), tb)
        for literal in ((), (0, 1)):
            types = type_of(x, literal), type_of(y, literal)
            if types not in known:
                module = module_of(lambda b, x, y: [b.matmul(x, y, ta=ta, tb=tb)], [x, y], literal=literal)
                known[types] = Compiled(module, "f")
            (got,) = known[types](x, y)
            rtol = 1e-4 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(got, swap(x, ta) @ swap(y, tb), rtol=rtol, atol=rtol, err_msg=f"{m}, {n}, {k}")


@pytest.mark.parametrize("n, k", [(3, 4), (1, 5), (0, 3), (200, 300)])
@pytest.mark.parametrize("t", [False, True])
def test_vectors(n, k, t):
    a, x = swap(sample((n, k)), t), sample((k,), seed=1)
    check(lambda b, a, x: [b.matmul(a, x, ta=t), b.matmul(x, a, tb=not t), b.matmul(x, x)], a, x, rtol=1e-11)


@pytest.mark.parametrize("width", [1, 4])
def test_products_of_which_two_sizes_are_one(width):
    """A row times a column, and a row times a matrix, in one module, in either order."""
    x, a, b = sample((6,)), sample((6, width), seed=1), sample((6, 5 - width), seed=2)
    check(lambda g, x, a, b: [g.matmul(a, x, ta=True), g.matmul(x, b), g.matmul(b, x, ta=True), g.matmul(x, a)],
          x, a, b, rtol=1e-12)


@pytest.mark.parametrize("size", [(2, 3, 4), (30, 20, 40)], ids=str)
def test_batches(size):
    m, n, k = size
    x, y = sample((3, m, k)), sample((3, n, k), seed=1)
    check(lambda b, x, y: [b.matmul(x, y, tb=True), b.matmul(y, x, tb=True)], x, y, rtol=1e-11)


def test_transposes_are_folded_into_the_product():
    x, y = sample((6, 4)), sample((6, 5), seed=1)

    def build(b, x, y):
        return [b.matmul(b.transpose(x, perm=(1, 0)), y), b.matmul(b.transpose(y, perm=(1, 0)), b.exp(x))]
    check(build, x, y, rtol=1e-12)
    module = module_of(build, [x, y])
    lazy = plan(module.functions["f"]).lazy
    assert sum(v.op.name == "transpose" for v in lazy) == 2


@pytest.mark.parametrize("size", [(2, 3, 4), (30, 20, 40)], ids=str)
@pytest.mark.parametrize("order", [0, 1])
def test_accumulation_adds_in_place(size, order):
    m, n, k = size
    c, x, y = sample((m, n)), sample((m, k)), sample((k, n), seed=1)

    def build(b, c, x, y):
        own = b.set(b.copy(c), 0.5, 0, 0)
        pair = [own, b.matmul(x, y)]
        return [b.add(*(pair if order else pair[::-1]))]
    check(build, c, x, y, rtol=1e-12)
    assert plan(module_of(build, [c, x, y]).functions["f"]).accumulate


def test_accumulation_in_a_loop():
    x, y = sample((3, 4)), sample((4, 5), seed=1)

    def build(b, x, y, n):
        m, p = b.dims(x)[0], b.dims(y)[1]
        func, start = b.func, b.fill(0.0, m, p)
        head, body, done = func.new_block("head"), func.new_block("body"), func.new_block("done")
        i, c = head.add_param(I64), head.add_param(start.type)
        b.jump(head, [b.const(0), start])
        b.at(head)
        b.branch(b.lt(i, n), body, [], done, [])
        b.at(body)
        b.jump(head, [b.add(i, 1), b.add(c, b.matmul(x, y))])
        b.at(done)
        return [c]
    check(build, x, y, 5, rtol=1e-12)
    assert isinstance(module_of(build, [x, y, 5]).functions["f"].result_types[0], Array)


def test_outer_product_without_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_OPT", "0")
    x, y = np.arange(5.0), np.arange(4.0)
    outer = jit(lambda x, y: x[:, None] @ y[None, :], static_shapes=True)
    assert np.array_equal(outer(x, y), np.outer(x, y))
