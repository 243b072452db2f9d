"""The routines for products of matrices: all tiles and remainders, for this machine and for simpler ones."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest
from jitad.kernels import blas
from jitad.lowering.jit import cpu
from jitad.lowering.llvm.emit import Writer
from jitad.lowering.llvm.target import Target
from jitad.lowering.math.options import Options
from jitad.lowering.matmul import gemm, transpose

import jitad
from jitad import jit
from jitad.ir.types import F32

FEATURES = ["host", "+avx2,+sse2", "+sse2", ""]
GUARD = 40                  # elements around the result that must not change


@cache
def routine(t: str, tb: bool, features: str):
    name, host = f"jitad.product.{t}{'.turned' if tb else ''}", cpu.target()
    if features == "host":
        native = next(home for routines, home in cpu._SHARED if name in routines)(name)
    else:
        if not all(f[1:] in host.triple or f in host.features.split(",") for f in features.split(",") if f):
            pytest.skip(f"this machine has no {features}")
        writer = Writer(host.triple, host.layout)
        plain, turn = f"jitad.product.{t}", f"jitad.turn.{t}"
        for module, each in {(gemm, plain), (gemm, name), (transpose, turn)}:
            module.define(writer, Target(host.triple, host.layout, host.cpu, features), each)
        native = cpu.Native(writer.text(), Options(written_out=True), list({plain, name, turn}), {})
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 6, *[ctypes.c_bool] * 2)
    return kind(native.address(name)), native


def run(t: str, features: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, ta: bool, tb: bool, add: bool):
    """``c (+)= a @ b``; operands have the given layout in memory, and nothing else is written."""
    call, _ = routine(t, bool(tb), features)
    (m, k), n = a.shape, b.shape[1]
    a, b = (np.ascontiguousarray(x.T if flag else x) for x, flag in ((a, ta), (b, tb)))
    around = np.full((m + 2) * (n + GUARD), 7, c.dtype)
    inside = around[GUARD:GUARD + m * (n + GUARD)].reshape(m, n + GUARD)[:, :n]
    inside[:] = c
    rows = m if ta else k, k if tb else n, n + GUARD
    call(a.ctypes.data, b.ctypes.data, inside.ctypes.data, m, n, k, *rows, ta, add)
    got = inside.copy()
    inside[:] = 7
    assert (around == 7).all()
    return got


def close(got: np.ndarray, want: np.ndarray, k: int) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=20 * (k + 4) * np.finfo(got.dtype).eps)


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("features", FEATURES)
def test_random_sizes(t, features):
    rng = np.random.default_rng(0)
    dtype = np.float32 if t == "f32" else np.float64
    for i in range(150):
        m, n, k = rng.integers(0 if i % 5 == 0 else 1, 71, 3)
        if i % 10 == 9:
            k = rng.integers(100, 400)              # several blocks of the transposed operand
        ta, tb, add = rng.integers(0, 2, 3).astype(bool)
        a, b, c = (rng.uniform(-1, 1, size).astype(dtype) for size in ((m, k), (k, n), (m, n)))
        close(run(t, features, a, b, c, ta, tb, add), a.astype(float) @ b + (c if add else 0), k)


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("tb", [False, True])
def test_what_is_not_a_number_stays_in_its_rows_and_columns(features, tb):
    rng = np.random.default_rng(1)
    a, b = rng.uniform(1, 2, (13, 21)), rng.uniform(1, 2, (21, 27))
    a[3, 20], a[12, 0], b[5, 26] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        want = a @ b
    np.testing.assert_allclose(run("f64", features, a, b, np.full((13, 27), np.nan), False, tb, False), want, 1e-12)


@pytest.mark.skipif(blas.library() is None, reason="NumPy has no OpenBLAS here")
@pytest.mark.parametrize("size", [(2, 90, 80), (260, 256, 270)], ids=str)
@pytest.mark.parametrize("flags", [(False, False, True), (True, True, False)], ids=str)
def test_what_goes_to_blas(size, flags):
    m, n, k = size
    rng = np.random.default_rng(2)
    a, b, c = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    close(run("f32", "host", a, b, c, *flags), a.astype(float) @ b + (c if flags[2] else 0), k)


def test_machines_without_masks_do_without_them():
    assert "masked" not in routine("f32", False, "+sse2")[1].source
    widths = gemm.widths(Target("", "", features="+avx2,+sse2"), F32)
    assert [w.columns for w in widths] == [16, 8, 4, 1]


# --- programs ---------------------------------------------------------------------------------------------------------

def layers(x, w, v):
    return np.sum(np.tanh(np.tanh(x @ w) @ v.T) ** 2)


def recurrent(x, w, v):
    h = x
    for _ in range(3):
        h = np.tanh(h @ w + x) @ v
    return np.sum(h * h)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("boundscheck", [True, False])
@pytest.mark.parametrize("program, size", [(layers, (7, 5, 19, 9)), (recurrent, (9, 6, 6, 6))],
                         ids=["layers", "recurrent"])
def test_gradients(program, size, boundscheck):
    rng = np.random.default_rng(3)
    m, k, n, p = size
    x, w, v = (rng.normal(0, 0.4, s) for s in ((m, k), (k, n), (p, n)))
    fun = jit(program, grad=("x", "w", "v"), boundscheck=boundscheck)
    np.testing.assert_allclose(fun(x, w, v), program(x, w, v), rtol=1e-12)
    if boundscheck:                                      # derivatives have it in any case
        jitad.check_grads(program, (x, w, v), order=2)
    single = [a.astype(np.float32) for a in (x, w, v)]
    for one, other in zip(fun.grad(x, w, v), fun.grad(*single)):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_columns_of_a_matrix_are_copied_first():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(30, 40)), rng.normal(size=(33, 21))
    fun = jit(lambda a, b: a[:, 3:36] @ b[:, ::-1] + (a.T[5:38].T @ b))
    np.testing.assert_allclose(fun(a, b), a[:, 3:36] @ b[:, ::-1] + a.T[5:38].T @ b, rtol=1e-11)


def test_functions_for_a_kind_of_product_are_compiled_once() -> None:
    """Two programs call the same code, which is in neither of their modules."""
    a, x = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    for f in (lambda a, x: a @ x, lambda a, x: 2.0 * (a @ x)):
        fast = jit(f)
        np.testing.assert_array_equal(fast(a, x), f(a, x))
        text = fast.inspect("llvm", a, x)
        assert "declare void @jitad.matmul.f64.nt.column(" in text
    before = cpu._routine.cache_info().misses
    jit(lambda a, x: a @ x - 1.0)(a, x)
    assert cpu._routine.cache_info().misses == before
