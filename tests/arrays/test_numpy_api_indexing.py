"""Indexing against NumPy: reading and writing, every kind of index, bounds known at run time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from jitad import grad, jit
from jitad.errors import ShapeError, UnsupportedError
from jitad.frontend.arrays import table
from tests.rulecontext import Rules, evaluate, ops_of, plain, trace

pytestmark = pytest.mark.any_level

V = np.arange(6.0)
M = np.arange(12.0).reshape(3, 4)
T = np.arange(24.0).reshape(2, 3, 4)
MASK = np.array([True, False, True])
AT = np.array([2, -3, 0, 2])


def store(do: Any, a: Any, index: Any, value: Any) -> Any:
    """``a`` after ``a[index] = value``: by NumPy on a copy, by the rule on stand-ins."""
    if isinstance(a, np.ndarray):
        out = a.copy()
        out[index] = value
        return out
    from jitad.frontend.values.values import context
    return table.setitem(context(), a, index, value)


def check_read(index: Any, a: np.ndarray) -> None:
    expected = a[index]
    got = evaluate(lambda do, x: x[index], a)
    assert np.shape(got) == np.shape(expected) and np.array_equal(got, expected)


def check_write(index: Any, a: np.ndarray) -> None:
    shape = np.shape(a[index])
    for value in (7.5, np.full(shape, 1.0) + np.arange(int(np.prod(shape))).reshape(shape)):
        if not np.ndim(value):
            value = float(value)
        expected = store(None, a, index, value)
        got = evaluate(lambda do, x, v: store(do, x, index, v), a, value)
        assert np.array_equal(got, expected), (index, got, expected)


S = slice
BASIC: list[Any] = [0, 2, -1, S(None), S(1, 3), S(None, -1), S(2, None), S(-2, None), S(None, None, -1),
            S(None, None, 2),
                    S(4, 1, -2), S(10, None), S(None, -10), S(-10, 10), S(3, 1), S(None, None, -2), S(-2, -5, -1),
                        S(2, None, -1),
                    S(None, 2, -1), None, Ellipsis, (None, 1), (Ellipsis, None), (S(1, 4, 2), None)]


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_basic(index: Any) -> None:
    check_read(index, V)
    check_write(index, V)


@pytest.mark.slow
def test_random_indices() -> None:
    rng = random.Random(0)
    for _ in range(150):
        a = rng.choice([V, M, T])
        items: list[Any] = []
        for n in a.shape[:rng.randint(0, a.ndim)]:
            kind = rng.randrange(4)
            bound = [None, *range(-n - 1, n + 2)]
            items.append(rng.randrange(-n, n) if kind == 0 else S(rng.choice(bound), rng.choice(bound), rng.choice(
                [None, 1, 2, -1, -2])) if kind < 3 else np.array([rng.randrange(-n, n) for _ in range(3)]))
        for _ in range(rng.choice([0, 0, 1])):
            items.insert(rng.randint(0, len(items)), None)
        if rng.random() < 0.2:
            items.append(Ellipsis)
        index = tuple(items)
        check_read(index, a)
        if not any(isinstance(i,
            np.ndarray) for i in items) or len({*np.ravel(np.arange(a.size).reshape(a.shape)[index])}
                                                                    ) == np.size(a[index]):
            check_write(index, a)


ADVANCED: list[Any] = [
    AT, AT.reshape(2, 2), (AT, 1), (AT, S(1, 3)), (AT, AT), (AT[:, None], AT[:3]), (S(None), AT), (S(0, 2), AT), MASK,
    (MASK, 1), (MASK, S(None, None, -1)), (S(None), np.array([True, False, True, True])), (AT, None), (None, AT),
    [0, 2], (1, AT), (AT, Ellipsis), (Ellipsis, AT), M > 4, (np.array([], dtype=int),), (S(1, None), None, AT),
]


@pytest.mark.parametrize("i", range(len(ADVANCED)))
def test_arrays_and_masks(i: int) -> None:
    check_read(ADVANCED[i], M)
    check_write(ADVANCED[i], M)


@pytest.mark.parametrize("index",
                         [(0, AT[:2], S(None)), (AT % 2, S(None), AT), (AT % 2, S(0, 2), None, AT), (S(None), AT, AT),
                                   (S(None), 1, AT), (1, S(None), AT), (S(None), MASK), (T[:, :, 0] > 3,), (T > 5,),
                                   (AT % 2, AT, AT), (None, AT % 2, AT), (S(None), None, AT, S(1, 3))], ids=str)
def test_in_three_axes(index: Any) -> None:
    check_read(index, T)
    at = np.arange(T.size).reshape(T.shape)[index]
    if len(set(at.ravel())) == at.size:
        check_write(index, T)
    else:
        expected = store(None, T, index, 3.0)
        assert np.array_equal(evaluate(lambda do, x: store(do, x, index, 3.0), T), expected)


def test_repeated_indices_keep_the_last() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0])
    got = evaluate(lambda do, x, i, v: store(do, x, i, v), V, AT, values)
    assert np.array_equal(got, store(None, V, AT, values))


@pytest.mark.parametrize("lo", [-9, -2, 0, 3, 8])
@pytest.mark.parametrize("hi", [-9, -1, 2, 5, 8])
@pytest.mark.parametrize("step", [None, 2, -1, -2])
def test_bounds_at_run_time(lo: int, hi: int, step: int | None) -> None:
    got = evaluate(lambda do, a, i, j: a[i:j:step], V, lo, hi)
    assert np.array_equal(got, V[lo:hi:step])
    got = evaluate(lambda do, a, i, j: store(do, a, S(i, j, step), 9.0), V, lo, hi)
    assert np.array_equal(got, store(None, V, S(lo, hi, step), 9.0))


def test_integers_at_run_time() -> None:
    for i in range(-6, 6):
        assert evaluate(lambda do, a, k: a[k], V, i) == V[i]
    for i in (-7, 6, 100):
        with pytest.raises(IndexError, match=f"index {i} is out of bounds for axis 0 with size 6"):
            evaluate(lambda do, a, k: a[k], V, i)
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
        evaluate(lambda do, a, k: a[0, k], M, 4)
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 3"):
        evaluate(lambda do, a, k: a[k], M, np.array([0, 5, 1]))
    with pytest.raises(IndexError, match="index -4 is out of bounds for axis 0 with size 3"):
        evaluate(lambda do, a, k: store(do, a, k, 0.0), M, np.array([0, -4, 1]))
    with pytest.raises(IndexError, match="too many indices"):
        evaluate(lambda do, a: a[0, 0], V)


def test_writes_convert_and_broadcast() -> None:
    assert np.array_equal(evaluate(lambda do, a: store(do, a, 0, 2.7), np.array([1, 2])), [2, 2])
    assert np.array_equal(evaluate(lambda do, a, v: store(do, a, S(None), v), M, np.arange(4)),
                          np.tile(np.arange(4.0), (3, 1)))
    assert np.array_equal(evaluate(lambda do, a, v: store(do, a, 1, v), M, np.arange(4.0)[None])[1], np.arange(4.0))
    assert np.array_equal(evaluate(lambda do, a, v: store(do, a, (S(None), 1), v), M, np.arange(3.0))[:, 1],
                          np.arange(3.0))
    with pytest.raises(ValueError, match="could not broadcast"):
        evaluate(lambda do, a, v: store(do, a, S(None), v), V, np.arange(4.0))
    with pytest.raises(ValueError, match="assign 2 input values to the 4 output"):
        evaluate(lambda do, a, v: store(do, a, a > 1, v), V, np.arange(2.0))
    with pytest.raises(IndexError, match="boolean index did not match"):
        evaluate(lambda do, a, m: a[m], V, MASK)


def test_mask_of_a_scalar_is_a_select() -> None:
    names = ops_of(lambda do, a: store(do, a, a > 1, 0.0), V)
    assert "select" in names and "nonzero" not in names


def test_in_place_functions() -> None:
    t = Rules([])
    for fun, args in ((np.add.at, (AT, 2.0)), (np.put, ([0, 2], 9.0)), (np.fill_diagonal, (5.0,)), (np.copyto, (3.0,))):
        a = M.copy()
        fun(a, *args)
        rule = table.MUTATING[fun]
        got = evaluate(lambda do, x, rule=rule, args=args: rule(_current(), x, *args), M)
        assert np.array_equal(got, a), fun
    a = M.copy()
    np.add.at(a, (AT, AT), 1.0)
    got = evaluate(lambda do, x: table.MUTATING[np.add.at](_current(), x, (AT, AT), 1.0), M)
    assert np.array_equal(got, a) and t.builder.block is t.function.entry


def _current() -> Any:
    from jitad.frontend.values.values import context
    return context()


def test_operators_in_place() -> None:
    ints = np.array([1, 2, 3])
    got = evaluate(lambda do, a: table.inplace(_current(), "add", a, 2), ints)
    assert got.dtype == np.int64 and np.array_equal(got, ints + 2)
    with pytest.raises(TypeError, match="same_kind"):
        evaluate(lambda do, a: table.inplace(_current(), "add", a, 2.5), ints)
    with pytest.raises(ValueError, match="non-broadcastable"):
        evaluate(lambda do, a, b: table.inplace(_current(), "add", a, b), V, V[:, None].copy())
    f32 = np.ones(3, np.float32)
    got = evaluate(lambda do, a, b: table.inplace(_current(), "mul", a, b), f32, np.arange(3.0))
    assert got.dtype == np.float32


def test_sizes_that_do_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"operands could not be broadcast together with shapes \(6,\) \(4,\)"):
        evaluate(lambda do, a, b: a + b, V, np.arange(4.0))
    with pytest.raises(ValueError, match=r"shapes \(3, 4\) \(6,\)"):
        evaluate(lambda do, a, b: a * b, M, V)
    with pytest.raises(ShapeError, match=r"\(3,\) \(4,\)"):
        evaluate(lambda do, a: do(np.zeros, 3) + do(np.zeros, 4), V)
    with pytest.raises(ValueError, match="size 4 .* size 3"):
        evaluate(lambda do, a: a @ a, M)
    with pytest.raises(ValueError, match="cannot reshape array of size 12"):
        evaluate(lambda do, a: a.reshape(5, -1), M)
    with pytest.raises(ValueError, match="zero-size array"):
        evaluate(lambda do, a: a.max(), np.zeros(0))
    with pytest.raises(ValueError, match="empty sequence"):
        evaluate(lambda do, a: a.argmax(), np.zeros(0))


def test_known_sizes_need_no_check() -> None:
    for fun in (lambda do, a: (a * 2 + a) / do(np.exp, a), lambda do, a: a[1:] - a[1:], lambda do, a: a - a.copy(),
                lambda do, a: do(np.zeros_like, a) + a, lambda do, a: a.T.T + a):
        assert "check" not in ops_of(fun, V)
    assert "check" not in ops_of(lambda do, a: a - a.mean(axis=0), M)
    assert "check" not in ops_of(lambda do, a: a + a.sum(axis=1, keepdims=True), M)


def test_bounds_checks_can_be_left_out() -> None:
    t, _, _ = trace(lambda do, a, i: a[i] + a[i, 0], (M, 1), boundscheck=False)
    assert "check" not in [op.name for op in t.function.entry.ops]


def test_unsupported_functions_are_named() -> None:
    with pytest.raises(UnsupportedError, match="fft is not supported"):
        evaluate(lambda do, a: do(np.fft.fft, a), V)
    assert plain(lambda do, a: do(np.fft.fft, a), V) is not None


@pytest.mark.parametrize("fun", [
    lambda do, a: a[:1] + a, lambda do, a: a * a[1:2], lambda do, a: a - a[-1:], lambda do, a: a[-2:-1] > a,
    lambda do, a: a[:, :1] * a[:1], lambda do, a: do(np.where, a[:1] > 0, a, -a),
    lambda do, a: do(np.hypot, a[:, -1:], a), lambda do, a: do(np.broadcast_to, a[:1], (5, 4)),
    lambda do, a: do(np.logical_or, a[:1] > 0, a > 1),
    lambda do, a: a[:1] + a[1:2], lambda do, a: a[:1] * a[1:1], lambda do, a: do(np.broadcast_arrays, a[:1], a)[0],
    lambda do, a: a[:1] * a[:0], lambda do, a: do(np.broadcast_to, a[0, :1], (2, 0)), lambda do, a: a[:0] + a[3:],
    lambda do, a: do(np.squeeze, a[:1]), lambda do, a: do(np.squeeze, a[1:, :1]), lambda do, a: do(np.squeeze, a),
    lambda do, a: do(np.squeeze, a[:0])])
def test_slices_of_one_element_broadcast(fun: Any) -> None:
    assert np.array_equal(evaluate(fun, M), plain(fun, M))


def test_slices_of_one_element_at_run_time() -> None:
    for fun, i in ((lambda do, a, i: a[i:i + 1] * a, 1), (lambda do, a, i: a - a[i - 1:i], 3),
                   (lambda do, a, i: a[i % 3:i % 3 + 1] * a, 4), (lambda do, a, i: a - a[2 * i - 1:2 * i], 1)):
        assert np.array_equal(evaluate(fun, M, i), plain(fun, M, i))
    with pytest.raises(ValueError, match=r"shapes \(0, 4\) \(3, 4\)"):
        evaluate(lambda do, a, i: a[i:i + 1] * a, M, 3)
    with pytest.raises(ValueError, match=r"shapes \(2, 4\) \(3, 4\)"):
        evaluate(lambda do, a, i: a[i % 2:i % 3 + 1] * a, M, 4)
    with pytest.raises(ValueError, match="name the axis"):
        evaluate(lambda do, a, i: do(np.squeeze, a[:, :i]), M, 1)
    assert evaluate(lambda do, a, i: do(np.squeeze, a[:, :i]), M, 2).shape == (3, 2)


def test_indices_and_axes_that_are_no_integers() -> None:
    for index in (1.0, (0, 1.5), "x", {}):
        with pytest.raises(IndexError, match="only integers, slices"):
            evaluate(lambda do, a, index=index: a[index], M)
    with pytest.raises(IndexError, match="only integers, slices"):
        evaluate(lambda do, a, i: a[i / 2], M, 2)
    with pytest.raises(TypeError, match="interpreted as an integer"):
        evaluate(lambda do, a: a.sum(axis=1.0), M)


# --- ranges as arrays -----------------------------------------------------------------------------

def _stored_at_a_range(a: Any, y: Any) -> Any:
    a = a.copy()
    a[range(len(y)), y] -= 1.0
    a[range(len(y) - 1, 0, -2)] *= 2.0
    return a


@pytest.mark.parametrize("fun", [
    lambda a, y: a[range(len(y)), y], lambda a, y: a[range(3), y], lambda a, y: a[:, range(2)],
    lambda a, y: a[range(len(y) - 1, -1, -2)], lambda a, y: a[range(0)], lambda a, y: a[range(len(y), len(y))],
    lambda a, y: np.take(a, range(len(y)), axis=0), lambda a, y: np.array([range(len(y)), y]),
    lambda a, y: np.asarray(range(len(y)), dtype=float), lambda a, y: a * range(4), lambda a, y: range(len(y)) + y,
    lambda a, y: np.float64(2) * range(3), lambda a, y: np.sum(range(100_000)) + np.exp(range(len(y))),
    lambda a, y: np.concatenate([y, range(len(y))]), lambda a, y: np.where(y > 0, range(len(y)), 0),
    lambda a, y: y @ range(len(y)), _stored_at_a_range])
def test_ranges_are_arrays_to_numpy(fun: Any) -> None:
    y = np.array([0, 2, 1])
    expected, got = fun(M, y), jit(fun)(M, y)
    assert np.asarray(got).dtype == np.asarray(expected).dtype and np.array_equal(got, expected)


def test_ranges_that_are_no_indices() -> None:
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        jit(lambda a, n: a[range(n)])(M, 4)
    with pytest.raises(ValueError, match="arg 3 must not be zero"):
        jit(lambda a, n: a[range(0, 3, n)])(M, 0)
    with pytest.raises(TypeError, match="unsupported operand"):
        jit(lambda n: 2 * range(n))(3)


def test_gradient_of_the_classes_of_rows() -> None:
    def loss(z: Any, y: Any) -> Any:
        return np.mean(np.log(np.exp(z).sum(1)) - z[range(len(y)), y])
    z, y = np.sin(M), np.array([0, 2, 1])
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    p[range(3), y] -= 1
    assert np.allclose(grad(loss)(z, y), p / 3, rtol=1e-12)


def test_slices_of_one_element_are_added_in_place() -> None:
    @jit
    def filtered(x: Any, w: Any) -> Any:
        out = np.full(len(x) - len(w) + 1, 0.5)
        for a in range(len(w)):
            out += w[a] * x[a:len(x) - len(w) + 1 + a]
        return out

    for n, k in ((1, 1), (3, 3), (4, 2)):
        x, w = np.arange(1.0, n + 1), np.arange(2.0, k + 2)
        assert np.array_equal(filtered(x, w), filtered.py_func(x, w))

    @jit
    def longer(x: Any, k: int) -> Any:
        out = np.zeros(1)
        out += x[:k]
        return out

    assert longer(np.arange(1.0, 4.0), 1)[0] == 1.0
    for k in (0, 2):
        with pytest.raises(ValueError, match="non-broadcastable"):
            longer(np.arange(1.0, 4.0), k)


def _elements(x, start, stop, step):
    return x[start:stop:step]


def _written(x, start, stop, step):
    y = np.zeros((3, len(x)))
    y[1:, start:stop:step] = x[start:stop:step] + 1.0
    part = y[2, ::step]
    part *= 2.0
    y[0, ::step] -= x[::step]
    return y


@pytest.mark.parametrize("fun", [_elements, _written])
def test_steps_at_run_time(fun: Any) -> None:
    compiled = jit(fun)
    for step in (1, 2, 3, 9, -1, -2, -9):
        for start in (-9, -2, 0, 3, 9):
            for stop in (-9, -2, 0, 3, 9):
                for x in (V, V[:1], V[:0]):
                    assert np.array_equal(compiled(x, start, stop, step), fun(x, start, stop, step))
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        compiled(V, 0, 6, 0)
    assert compiled.stats["compilations"] == 2           # an array of one element has another type


def test_gradient_of_steps_at_run_time() -> None:
    def f(x: Any, step: Any) -> Any:
        y = x.copy()
        y[1::step] *= x[1::step]
        return (y[::-step] * np.arange(len(y[::-step]))).sum()
    for step in (1, 2, -3):
        want = [(f(V + 1e-6 * e, step) - f(V - 1e-6 * e, step)) / 2e-6 for e in np.eye(6)]
        assert grad(f)(V, step) == pytest.approx(np.array(want), abs=1e-6)
