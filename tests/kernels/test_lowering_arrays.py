"""Every array op, compiled, against the interpreter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jitad.ir.types import BOOL, F32, F64, I32, I64, Array
from tests.kernels.lowering_arrays import SHAPES, check, sample

DTYPES = ["float64", "float32", "int64", "int32", "bool"]
NUMBERS = DTYPES[:4]


# --- elementwise ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_chain(shape, dtype):
    x, y = sample(shape, dtype), sample(shape, dtype, 1)
    check(lambda b, x, y: [b.sub(b.mul(b.add(x, y), x), b.maximum(x, b.neg(y)))], x, y)


PAIRS = [((4, 1), (1, 5)), ((5,), (3, 5)), ((1,), (6,)), ((2, 1, 4), (3, 1)), ((1, 1), (1, 1))]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_broadcasting(pair):
    x, y = sample(pair[0]), sample(pair[1], seed=1)
    check(lambda b, x, y: [b.add(b.mul(x, y), b.exp(x)), b.select(b.lt(x, y), x, y)], x, y)


def test_scalars_and_casts():
    x = sample((9,))
    check(lambda b, x, s: [b.add(b.mul(x, s), 2.0), b.cast(b.gt(x, s), dtype=I64), b.cast(x, dtype=F32),
                           b.cast(b.cast(x, dtype=I32), dtype=F64)], x, 0.5)


@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_bits(dtype):
    x, y = sample((11,), dtype), sample((11,), dtype, 1)
    check(lambda b, x, y: [b.and_(x, b.not_(y)), b.xor(x, b.or_(x, y)), b.eq(x, y)], x, y)


@pytest.mark.parametrize("op", ["exp", "exp2", "expm1", "log1p", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh",
                                "asinh", "erf", "erfc", "cbrt"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_vector_math(op, dtype):
    x = np.abs(sample((37,), dtype))
    check(lambda b, x: [b.emit(op, x)], x, rtol=2e-15)


@pytest.mark.parametrize("op", ["pow", "atan2", "hypot"])
def test_vector_math_of_two(op):
    x, y = np.abs(sample((37,))), sample((37,), seed=3)
    check(lambda b, x, y: [b.emit(op, x, y)], x, y, rtol=2e-15)


# --- making, views ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n", [0, 1, 5])
def test_make(n):
    check(lambda b, n, v: [b.fill(v, n, 3), b.iota(n), b.broadcast_to(v, 2, n), b.add(b.cast(b.iota(n), dtype=F64), v)],
          n, 2.5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reversed_and_strided_slices(shape):
    x = sample(shape)

    def build(b, x):
        args = []
        for n in b.dims(x):
            last = b.maximum(b.sub(n, 1), 0)
            args += [last, n, b.const(-1)]
        back = b.slice(x, *args)
        return [back, b.mul(back, x), b.sum(back, axes=(0,))]
    check(build, x)


@pytest.mark.parametrize("start, length, step", [(0, 3, 1), (2, 4, 1), (1, 3, 2), (6, 4, -2), (3, 0, 1)])
def test_slice_and_set_slice(start, length, step):
    x, v = sample((7, 3)), sample((length, 3), seed=1)

    def build(b, x, v):
        s, l, t = b.const(start), b.const(length), b.const(step)
        part = b.slice(x, s, l, t, 0, 3, 1)
        base = b.copy(x)
        written = b.set_slice(base, v, s, t, 0, 1)
        added = b.add_slice(b.copy(x), v, s, t, 0, 1)
        return [part, b.exp(part), written, added]
    check(build, x, v)


def test_columns():
    x = sample((5, 4))

    def build(b, x):
        n = b.dims(x)[0]
        column = b.slice(x, 0, n, 1, 2, 1, 1)
        return [b.reshape(column, n), b.sum(column, axes=(0, 1)), b.set_slice(b.copy(x), column, 0, 1, 1, 1)]
    check(build, x)


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))), ids=str)
def test_transpose(perm):
    x = sample((2, 3, 4))
    check(lambda b, x: [b.transpose(x, perm=perm), b.add(b.transpose(b.exp(x), perm=perm), 1.0),
                        b.sum(b.transpose(x, perm=perm), axes=(1,))], x)


def test_reshapes():
    x = sample((6, 4))

    def build(b, x):
        n, m = b.dims(x)
        wide = b.reshape(x, n, 1, m)
        return [b.reshape(x, 3, 8), b.reshape(b.exp(x), 24), b.add(wide, x), b.sum(b.mul(wide, wide), axes=(0, 1)),
                b.reshape(b.transpose(x, perm=(1, 0)), 2, 12), b.reshape(b.reshape(b.iota(1), 1, 1), 1)]
    check(build, x)


def test_get_and_views():
    x = sample((3, 4, 2))

    def build(b, x, i, j):
        row = b.get(x, i)
        return [row, b.get(x, i, j), b.get(row, j, 1), b.get(b.exp(x), i, j, 0), b.sum(b.get(x, i, j), axes=(0,)),
                b.get(b.transpose(x, perm=(2, 0, 1)), 1), b.as_type(x, type=Array(F64, (3, 4, 2)))]
    check(build, x, 2, 1)


def test_dims_of_lazy_arrays():
    x = sample((3, 1)), sample((5,))

    def build(b, x, y):
        z = b.exp(b.add(x, y))
        return [*b.dims(z), *b.dims(b.transpose(z, perm=(1, 0))), b.sum(z, axes=(0, 1))]
    check(build, *x)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concat(axis):
    x, y = sample((2, 3, 4)), sample((2, 3, 4), seed=1)
    check(lambda b, x, y: [b.concat(x, b.mul(y, 2.0), b.exp(x), axis=axis)], x, y)


def test_concat_of_different_lengths():
    check(lambda b, x, y, z: [b.concat(x, y, z, axis=0)], sample((3,)), sample((0,)), sample((5,)))


# --- gather, scatter ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", [(6,), (6, 3)], ids=str)
@pytest.mark.parametrize("index", [(4,), (0,), (2, 3)], ids=str)
def test_take_and_put(shape, index):
    x, i = sample(shape), np.abs(sample(index, "int64")) % 6
    v = sample(index + shape[1:], seed=4)

    def build(b, x, i, v):
        return [b.take(x, i), b.exp(b.take(x, i)), b.put(b.copy(x), v, i), b.add_put(b.copy(x), v, i),
                b.add_put(b.copy(x), b.mul(v, b.take(x, i)), i)]
    check(build, x, i, v)


def test_put_where_an_expression_of_itself_says():
    def build(b, i):
        a = b.copy(i)
        return [b.put(a, b.mul(a, 10), b.sub(2, a))]
    check(build, np.array([1, 2, 0]))


@pytest.mark.parametrize("n", [0, 1, 9])
def test_nonzero(n):
    check(lambda b, x: [b.nonzero(x), b.nonzero(b.not_(x)), b.dim(b.nonzero(x), axis=0)], sample((n,), "bool"))


# --- updates --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", DTYPES)
def test_set_and_add_at(dtype):
    x = sample((3, 4), dtype)

    def build(b, x, i, j):
        v = b.get(x, i, j)
        a = b.set(b.copy(x), v, 0, 1)
        c = b.add_at(a, v, j, i)
        return [b.set(c, b.get(x, j), i)] + ([] if dtype == "bool" else [b.add_at(b.copy(x), b.get(x, j), i)])
    check(build, x, 2, 1)


def test_overlapping_updates():
    x = sample((8,))

    def build(b, x):
        a = b.copy(x)
        c = b.set_slice(a, b.copy(b.slice(a, 0, 7, 1)), 1, 1)
        d = b.copy(x)
        e = b.add_slice(d, b.mul(b.slice(d, 7, 8, -1), 2.0), 0, 1)
        return [c, e]
    check(build, x)


def test_an_expression_is_computed_before_what_it_reads_is_overwritten():
    x = sample((8,))

    def build(b, x):
        a = b.copy(x)
        doubled = b.mul(a, 2.0)
        a2 = b.set(a, 100.0, 3)
        return [b.add(doubled, 1.0), a2]
    check(build, x)


def test_an_owned_argument_is_updated_in_place():
    check(lambda b, x: [b.set(x, 1.0, 0)], sample((4,)), own=[0])


# --- reductions -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_sums(shape, dtype):
    axes = [a for n in range(1, len(shape) + 1) for a in itertools.combinations(range(len(shape)), n)]
    check(lambda b, x: [b.emit(op, x, axes=a) for a in axes for op in ("sum", "prod")],
          sample(shape, dtype), rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("shape", [(1,), (7,), (40,), (3, 5), (1, 6), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes(shape, dtype):
    axes = [a for n in range(1, len(shape) + 1) for a in itertools.combinations(range(len(shape)), n)]
    check(lambda b, x: [b.emit(op, x, axes=a) for a in axes for op in ("max", "min")]
          + [b.emit(op, x, axis=i) for i in range(len(shape)) for op in ("argmax", "argmin")], sample(shape, dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_any(shape):
    axes = [a for n in range(1, len(shape) + 1) for a in itertools.combinations(range(len(shape)), n)]
    check(lambda b, x: [b.emit(op, x, axes=a) for a in axes for op in ("all", "any")], sample(shape, "bool"))


def test_nan_wins_and_the_first_is_found():
    x = np.array([[1.0, np.nan, 3.0, np.nan], [2.0, 5.0, 5.0, 0.0]])
    check(lambda b, x: [b.max(x, axes=(1,)), b.min(x, axes=(0, 1)), b.argmax(x, axis=1), b.argmin(x, axis=1),
                        b.argmax(x, axis=0)], x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_cumulative(shape, dtype):
    check(lambda b, x: [b.emit(op, x, axis=i) for i in range(len(shape)) for op in ("cumsum", "cumprod")],
          sample(shape, dtype), rtol=1e-12)


def test_fused_reductions():
    x, y = sample((6, 9)), sample((6, 9), seed=1)

    def build(b, x, y):
        top = b.max(x, axes=(1,))
        n = b.dims(x)[0]
        shifted = b.exp(b.sub(x, b.reshape(top, n, 1)))
        return [b.sum(b.mul(x, y), axes=(0, 1)), b.sum(b.mul(x, y), axes=(0,)),
                b.add(b.log(b.sum(shifted, axes=(1,))), top), b.argmax(b.neg(x), axis=1),
                b.sum(b.cast(b.gt(x, y), dtype=I64), axes=(1,))]
    check(build, x, y)


def test_bool_casts():
    check(lambda b, x: [b.cast(x, dtype=BOOL), b.cast(b.cast(x, dtype=BOOL), dtype=I64)], sample((5,)))


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3), (2, 0)], ids=str)
def test_few_elements_are_written_out(shape):
    def build(b, x, y):
        z = b.add(b.mul(x, y), b.exp(x))
        last = len(shape) - 1
        return [z, b.sum(z, axes=tuple(range(len(shape)))), b.max(b.abs(y), axes=(last,)), b.cumsum(x, axis=last),
                b.concat(x, b.neg(y), axis=0), b.broadcast_to(x, 2, *shape),
                b.transpose(x, perm=tuple(range(last, -1, -1)))]
    if 0 not in shape:
        check(build, sample(shape), sample(shape, seed=1), literal=range(len(shape)))
    check(lambda b, x, y: [b.add(x, y), b.sum(x, axes=(0,))], sample(shape), sample(shape, seed=1),
          literal=range(len(shape)))
