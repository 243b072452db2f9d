"""Integers of 8 to 64 bits, signed and unsigned: values and dtypes are NumPy's, or there is a refusal.

Every operator and common function, on each pair of dtypes, at the edges of their ranges, compiled and by the
reference interpreter.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit, pack, vmap
from jitad.errors import DifferentiationError, TypeInferenceError, UnsupportedError
from jitad.ir.text import parse_module, print_module
from jitad.ir.verify import VerifyError, verify

Function = Callable[..., Any]

INTS: list[Any] = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
OTHERS: list[Any] = [np.bool_, np.float32, np.float64]

BINARY: list[Function] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.and_,
    operator.or_, operator.xor, operator.lshift, operator.rshift, operator.eq, operator.ne, operator.lt, operator.le,
    operator.gt, operator.ge, np.maximum, np.minimum, np.fmax, np.fmin, np.fmod, np.arctan2, np.hypot, np.copysign,
    np.logaddexp, np.heaviside, np.float_power, np.logical_and, np.gcd, np.lcm, np.isclose,
    lambda x, y: np.power(x, abs(y) % 5), lambda x, y: np.where(x > y, x, y), lambda x, y: np.clip(x, y, y),
    lambda x, y: np.divmod(x, y)]
UNARY: list[Function] = [
    operator.neg, operator.pos, operator.invert, abs, np.bitwise_count, np.sign, np.square, np.reciprocal, np.sqrt,
    np.sin, np.exp, np.rint, np.floor, np.ceil, np.trunc, np.fabs, np.isnan, np.isfinite, np.logical_not, np.deg2rad,
    np.sinc, np.nan_to_num, np.round, lambda x: x ** 2, lambda x: x ** 3, lambda x: x ** 0.5,
    lambda x: (x // 7, x % 7, x // 64, x % 64, x // 1, x % 100)]
ON_ARRAYS: list[Function] = [
    np.sum, np.prod, np.max, np.min, np.argmax, np.argmin, np.any, np.all, np.mean, np.var, np.std, np.cumsum,
    np.cumprod, np.ptp, np.count_nonzero, np.median, np.diff, np.sort, np.argsort, np.unique, np.flip, np.nonzero,
    np.average, np.nansum, np.bincount, np.ediff1d, np.gradient, np.unwrap, np.cov,
    lambda a: np.convolve(a, a), lambda a: np.interp(a, np.sort(a), a), lambda a: a @ a, np.linalg.norm,
    lambda a: np.dot(a, a), lambda a: np.vdot(a, a), lambda a: np.inner(a, a), lambda a: np.outer(a, a),
    lambda a: np.kron(a, a), lambda a: np.outer(a, a) @ a, lambda a: np.outer(a, a) @ np.outer(a, a),
    lambda a: np.trace(np.outer(a, a)), lambda a: np.einsum("i,i->", a, a), lambda a: np.tensordot(a, a, 1),
    lambda a: np.concatenate((a, a)), lambda a: np.append(a, a), lambda a: np.repeat(a, 2), lambda a: np.tile(a, 2),
    lambda a: np.searchsorted(np.sort(a), a), lambda a: np.sum(a, initial=3), lambda a: np.max(a, initial=3),
    lambda a: np.sum(a, dtype=a.dtype), lambda a: np.cumsum(a, dtype=np.float32),
    lambda a: np.mean(a, dtype=np.float32), lambda a: sum(a), lambda a: max(a), lambda a: np.zeros_like(a),
    lambda a: np.full_like(a, 7), lambda a: a[::-2],
    lambda a: np.quantile(a, 0.3), lambda a: np.histogram(a)[0], lambda a: np.isin(a, a[:2]), lambda a: np.roll(a, 1),
    lambda a: np.where(a > 3, a, 0), lambda a: np.pad(a, 1), lambda a: np.triu(np.outer(a, a)),
    lambda a: np.array([a[0], a[1]]).tolist(),
    lambda a: np.arange(int(a[0]), 9), lambda a: np.linspace(a[0], a[1], 4), lambda a: a.astype(np.float64) * 0.5,
    lambda a: np.take(np.arange(9.0), a % 9), lambda a: np.arange(9)[a % 9], lambda a: a[a > 2], lambda a: a.item(1),
    lambda a: np.add.reduce(a), lambda a: np.multiply.accumulate(a), lambda a: np.array([a[0], a[1]]),
    lambda a: np.stack([a, a]), lambda a: np.corrcoef(a, a[::-1]), lambda a: np.cross(a[:3], a[1:4]),
    lambda a: np.round(a, -1), lambda a: np.polyval(a, a), lambda a: np.digitize(a, np.sort(a)),
    lambda a: np.lexsort((a, a)), lambda a: np.percentile(a, 20), lambda a: np.nanmax(a),
    lambda a: np.array_equal(a, a),
    lambda a: np.partition(a, 2)[2], lambda a: np.union1d(a, a), lambda a: np.choose(a.astype(np.int64) % 2, (a, a)),
    lambda a: np.select([a > 2], [a], 0), lambda a: np.vander(a, 3), lambda a: np.correlate(a, a, "full")]
CASTS: list[Any] = [*INTS, *OTHERS]


def edges(dtype: Any) -> np.ndarray:
    if dtype is np.bool_:
        return np.array([True, False])
    if np.issubdtype(dtype, np.floating):
        return np.array([0, 1.5, -2.5, 200.25, np.nan, np.inf], dtype)
    info = np.iinfo(dtype)
    return np.array([0, 1, info.max, info.min, info.max - 1 if info.min == 0 else -1, 7], dtype)


def pairs(first: Any, second: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = edges(first), edges(second)
    return np.repeat(x, len(y)), np.tile(y, len(x))


def numpy(f: Function, *args: Any) -> Any:
    """NumPy's result, or the exception that it raises."""
    with np.errstate(all="ignore"):
        try:
            return f(*args)
        except Exception as e:
            return e


def parts(x: Any) -> list[Any]:
    return [p for part in x for p in parts(part)] if isinstance(x, (tuple, list)) else [np.asarray(x)]


def assert_same(found: Any, wanted: Any, what: str) -> None:
    for x, y in zip(parts(found), parts(wanted), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, f"{what}: {x.dtype} {x.shape} for {y.dtype} {y.shape}"
        loose = 0.0 if y.dtype.kind in "iub" else 1e-6 if y.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(x, y, rtol=loose, atol=loose, err_msg=what)


def name(f: Function, i: int) -> str:
    return f"{i} {getattr(f, '__name__', f)}"


def kind(e: Any) -> type[Exception]:
    """The class of an exception; Python's in place of NumPy's own."""
    classes = type(e).__mro__ if isinstance(e, Exception) else ()
    return next((c for c in classes if c.__module__ == "builtins"), UnsupportedError)


def has_half(x: Any) -> bool:
    return any(p.dtype == np.float16 for p in parts(x))


def check_all(functions: list[Function], *args: Any) -> None:
    """Compares all functions for which NumPy has a value in one program, the others one by one."""
    wanted = {i: numpy(f, *args) for i, f in enumerate(functions)}
    good: list[int] = []
    for i, f in enumerate(functions):
        if isinstance(wanted[i], Exception) or has_half(wanted[i]):
            with np.errstate(all="ignore"), pytest.raises((kind(wanted[i]), UnsupportedError)):
                raise AssertionError(f"{name(f, i)} gives {interpret(f, *args)}")
            continue
        good.append(i)
    fs = [functions[i] for i in good]

    def program(*args: Any) -> Any:
        return tuple([f(*args) for f in fs])
    with np.errstate(all="ignore"):
        for by, found in (("interpreter", interpret(program, *args)), ("compiled", jit(program)(*args))):
            for i, x in zip(good, found, strict=True):
                assert_same(x, wanted[i], f"{by}: {name(functions[i], i)} of {[a.dtype for a in args]}")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("second", [*INTS, *OTHERS])
@pytest.mark.parametrize("first", INTS)
def test_operators_on_each_pair_of_dtypes(first: Any, second: Any) -> None:
    check_all(BINARY, *pairs(first, second))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTS)
def test_functions_of_one_array(dtype: Any) -> None:
    check_all(UNARY, edges(dtype))
    check_all([lambda x, to=to: x.astype(to) for to in CASTS], edges(dtype))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("dtype", INTS)
def test_functions_of_one_axis(dtype: Any) -> None:
    check_all(ON_ARRAYS, np.array([5, 1, 3, 2, 9, 100, 4, 120], dtype))


U = np.array([200, 100, 255, 0, 1], np.uint8)


def stored(x: Any) -> Any:
    a = np.zeros(3, np.uint8)
    a[0] = x
    a[1:] = x
    return a


def stored_signed(x: Any) -> Any:
    a = np.zeros(3, np.int8)
    a[0] = x
    a[1:] = x
    return a, np.array([x, 1], np.int8), np.full(2, x, np.int8)


def stored_wide(x: Any) -> Any:
    a = np.zeros(3, np.int64)
    a[1:] = x
    return a


def placed(a: Any) -> Any:
    np.place(a, a > 1, [300])
    return a


def masked(a: Any) -> Any:
    np.putmask(a, a > 1, 200)
    return a


def added_at(a: Any) -> Any:
    np.add.at(a, [0, 0, 1], 300)
    return a


def added_in_place(a: Any, y: Any) -> Any:
    a = a.copy()
    a += y
    a[0] += 1
    return a


def added_up(a: Any) -> Any:
    s = 0
    for x in a:
        s += x
    return s


def histogram(a: Any) -> Any:
    counts = np.zeros(256, np.uint16)
    for v in a:
        counts[v] += 1
    np.add.at(counts, a, np.uint16(65535))
    return counts


def largest(a: Any) -> Any:
    m = -1
    for x in a:
        if x > m:
            m = x
    return m, m + 200


def one_of(a: Any, c: Any) -> Any:
    return (a[0] if c > 0 else c) + 100, (a[0] if c > 0 else 300) + 5, (a[0] if c > 0 else 3) + 100


def one_of_two(a: Any, c: Any) -> Any:
    return (a[0] if c > 0 else a.astype(np.int16)[0]) + np.uint8(100)


PROGRAMS: list[tuple[Function, *tuple[Any, ...]]] = [
    (lambda x, y: x + y, np.uint8(200), np.uint8(100)), (lambda x, n: x + n, np.uint8(200), 100),
    (lambda x, n: x + n, np.uint8(200), 300), (lambda x: x * 300, U), (lambda x, n: x * n, U, -1),
    (lambda x, n: (x < n, x == n, x > n), U, 300), (lambda x: (x < 300, x != -1, x >= -1), U.astype(np.uint64)),
    (lambda x, n: (x < n, x == n, n < x), U.astype(np.uint64), -1), (lambda x: x << 300, U), (lambda x: x >> 9, U),
    (lambda x: x ** -1, U), (lambda x: x ** -1, U.astype(np.int8)), (lambda x: 2 ** x, U), (lambda x: x ** 300, U),
    (lambda x: np.clip(x, -1, 300), U), (lambda x, n: np.clip(x, -n, n), U, 300), (lambda x: np.clip(x, 300, 400), U),
    (lambda x: np.where(x > 1, x, 300), U), (lambda x: np.full_like(x, 300), U), (np.uint8, 300), (np.uint8, -1.5),
    (np.uint8, 255.9), (np.uint8, np.int64(300)), (np.uint8, float("nan")), (np.uint8, float("inf")),
    (lambda n: np.array([n, 1], dtype=np.uint8), 300), (lambda n: np.array([n, 1], np.uint8), 255),
    *[(stored, x) for x in (255, 256, -1, 3.7, 300.2, np.int64(300), np.float64(3.9), True, np.uint8(7))],
    *[(added_in_place, U, y) for y in (1, 300, 1.5, np.int64(3), np.uint8(200), np.int8(-1), U, U.astype(np.int16))],
    (added_up, U), (lambda a: sum(int(x) for x in a), U), (histogram, U), (largest, U), (largest, U[:0]),
    (one_of, U, 1), (one_of, U, -1), (one_of_two, U, 1), (one_of_two, U, -1),
    (lambda x: (max(-1, x), max(300, x), min(x, 2.5)), np.uint8(3)), (lambda a, i: a[i], np.arange(300.0), U),
    (lambda a, i: (a[i], a[i:]), np.arange(300.0), np.uint8(200)), (lambda a, i: a[i], np.arange(300.0), np.int8(-3)),
    (lambda n: sum(range(n)), np.uint8(200)), (lambda x: {200: 1, 300: 2}[x], np.uint8(200)),
    (lambda x: (int(x) + 300, float(x), bool(x), x.item() + 300, round(x), abs(x), -x), np.uint8(200)),
    (lambda x: (x, float(x), x * 1.0, x // np.uint64(10)), np.uint64(2**64 - 1)),
    (lambda x: x[x > 100] + np.arange(3, dtype=np.uint8)[:2], U), (lambda x: (x[:, None] * x).sum(0), U),
    (lambda x: (x[:, None] * x) @ (x[:, None] * x), U), (lambda x: (x[:, None] * x).max(1), U),
    (lambda x: (np.gcd(x, 30), np.lcm(3, x)), U), (lambda x: np.gcd(x, 300), U), (lambda x: np.insert(x, 1, 300), U),
    (lambda x: (np.add.outer(x, 300), np.dot(x, 3), np.outer(x, -1)), U), (lambda x: np.vecdot(x, x), U),
    (lambda x: np.copyto(x.copy(), np.arange(5)), U), (lambda x: np.asarray(300, x.dtype), U),
    (lambda: np.arange(250, 260, dtype=np.uint8),), (lambda: np.arange(0, 1000, 300, dtype=np.uint8),),
    (lambda n: np.arange(-1, n, dtype=np.uint8), 3), (lambda n: np.arange(300, n, dtype=np.uint8), 300),
    (lambda a, b: np.arange(a, b), np.uint8(3), np.uint8(250)), (lambda a: np.arange(a, 9, 2), np.int8(-3)),
    *[(stored_signed, x) for x in (127, 128, -128.5, np.int64(128), np.int64(-7), np.uint8(200), np.float64(128.5),
                                   np.float64("nan"), np.uint64(2**63))],
    *[(stored_wide, np.uint64(n)) for n in (2**63 - 1, 2**63)], (lambda x: x.astype(np.int8)[[0, 1]], U),
    (lambda x: [x.item(0), x[1].tolist()], np.array([1, 2**63 - 1], np.uint64)),
    (lambda x: (np.concatenate((x, 300), axis=None), np.append(x, 300), np.union1d(x, 3), np.pad(x, 1)), U),
    (lambda x: np.stack([x.astype(np.uint64), x.astype(np.int64)], dtype=np.int64), U),
    (lambda x: np.select([x > 1], [3], x), U), (lambda x: np.select([x > 1], [x], 300), U),
    *[(lambda a, f=f: f(a.copy()), a) for f in (placed, masked, added_at) for a in (U, U.astype(np.int8))],
    (lambda: np.int8([300]),), (lambda x: x < True, U.astype(np.uint64) << 60), (lambda x: np.einsum("i,->i", x, 3), U),
    (lambda x: (np.trapezoid(x), np.trapezoid(x, dx=2), np.trapezoid(x, x)), U), (lambda x: np.trapezoid(x > 3), U),
    (lambda x: (np.round(x, -1), np.var(x.astype(np.uint32) << 24, dtype=np.float32)), U),
    (lambda x: (np.round(x, -1), np.array([round(x[0], -1)])), np.array([2**60 + 15, -25])),
    (lambda n: round(n, -1), 2**60 + 15),
    (lambda x, k: np.choose(k, (x, x)), U, np.zeros(5, np.uint64)), (lambda x, k: np.ldexp(x, k), U[:1] * 1.0, U[:1]),
    (lambda x, k: np.ldexp(x, k), U[:1] * 1.0, U[:1].astype(np.uint64)), (lambda x: np.quantile(x, [0.2, 1.0]), U),
    (lambda x: (np.modf(x), np.frexp(x), np.nextafter(x, x), np.angle(x)), U.astype(np.int16)),
    (lambda x: (x.dtype == np.uint8, isinstance(x[0], np.uint8), isinstance(x[0], int)), U), (lambda x: U + x, U),
    (lambda x: x + x, U.astype(">u2").astype(">u2")), (lambda x: x[::2] + x[:3], U), (lambda x: x.sum(), U[:0])]


@pytest.mark.long
@pytest.mark.parametrize("i", range(len(PROGRAMS)))
def test_a_program(i: int) -> None:
    f, *args = PROGRAMS[i]
    wanted = numpy(f, *args)
    for run in (jit(f), lambda *args: interpret(f, *args)):
        if isinstance(wanted, Exception):
            with pytest.raises(kind(wanted)) as found:
                run(*args)
            assert type(wanted).__module__ != "builtins" or str(found.value) == str(wanted)
        else:
            found = run(*args)
            assert_same(found, wanted, f"program {i}")
            scalars = zip(parts_of(found), parts_of(wanted))
            assert all(isinstance(x, int) == isinstance(y, int) for x, y in scalars)


def parts_of(x: Any) -> list[Any]:
    return [p for part in x for p in parts_of(part)] if isinstance(x, (tuple, list)) else [x]


@pytest.mark.slow
@pytest.mark.long
def test_integers_beside_what_is_differentiated() -> None:
    image, w, y = np.arange(12, dtype=np.uint8).reshape(3, 4) * np.uint8(20), np.array([0.1, 0.2, 0.3, 0.4]), np.ones(3)

    def loss(p: Any, y: Any) -> Any:
        return np.sum((p["image"].astype(np.float64) @ p["w"] - y) ** 2) * p["n"]
    p = {"w": w, "image": image, "n": np.uint8(3)}
    value, slopes = jit(loss, grad=True).value_and_grad(p, y)
    assert slopes["image"] is None and slopes["n"] is None
    wide = image.astype(float)
    np.testing.assert_allclose(slopes["w"], 6 * wide.T @ (wide @ w - y))
    check_grads(lambda w: loss({**p, "w": w}, y), (w,))
    np.testing.assert_allclose(jit(lambda w, x: np.sum(w * x), grad=True).grad(w, image[1]), wide[1])
    single = jit(lambda w, x: np.sum(w * x), grad=True).grad(w.astype(np.float32), image[1])
    assert single.dtype == np.float32
    with pytest.raises(DifferentiationError, match="u8"):
        jit(lambda x: x.astype(float).sum(), grad=True).grad(image)


@pytest.mark.slow
def test_integers_mapped_and_on_threads() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(3, 4) * np.uint8(20)
    assert_same(jit(lambda x: vmap(lambda r: r * 2 + r[0])(x))(image), np.array([r * 2 + r[0] for r in image]), "vmap")
    assert_same(vmap(lambda r: r.sum())(image), image.sum(1, dtype=np.uint64), "vmap of sums")

    def squares(x: Any) -> Any:
        out = np.zeros(len(x), np.uint8)
        for i in range(len(x)):
            out[i] = x[i] * x[i] + np.uint8(1)
        return out

    def extremes(x: Any) -> Any:
        low, high = np.int16(32767), np.int16(-32768)
        for v in x:
            low, high = min(low, v), max(high, v)
        return low, high
    many = np.arange(100_000)
    for options in ({}, {"parallel": True}, {"boundscheck": False}, {"static_shapes": True}, {"fastmath": True}):
        assert_same(jit(squares, **options)(many.astype(np.uint8)), (many * many + 1).astype(np.uint8), str(options))
        found = jit(extremes, **options)((many % 60001 - 30000).astype(np.int16))
        assert_same(found, (np.int16(-30000), np.int16(30000)), str(options))


@dataclasses.dataclass
class Node:
    value: np.uint8
    next: Node | None = None


def total(n: Any) -> Any:
    s = 0
    while n is not None:
        s += n.value
        n = n.next
    return s


def chain(n: int, x: Any) -> Any:
    h = None
    for _ in range(n):
        h = Node(x, h)
    return h


def test_integers_in_recursive_data() -> None:
    nodes = Node(np.uint8(200), Node(np.uint8(100)))
    for given in (nodes, pack(nodes)):
        assert_same(jit(total)(given), np.uint8(44), "a list")
    assert jit(chain)(2, np.uint8(7)) == chain(2, np.uint8(7))
    assert_same(jit(lambda n, x: total(chain(n, x)))(3, np.uint8(100)), np.uint8(44), "a list that is made")
    for other in (100, np.int16(100)):
        with pytest.raises(TypeInferenceError, match="holds numbers of type"):
            jit(total)(Node(np.uint8(200), Node(other)))
    with pytest.raises(UnsupportedError, match="cannot hold an int"):
        jit(lambda n, x: total(Node(n, chain(n, x))))(3, np.uint8(1))


HALF, WIDE, DAY = np.float16(2), np.longdouble(2), np.datetime64("2020")


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, complex, object, "U2", "M8[D]", [("a", "f8")]], ids=str)
def test_dtypes_without_code_are_refused_wherever_they_come_from(dtype: Any) -> None:
    a = np.zeros(2, dtype)
    for f in (lambda x: x[0], lambda x: {"a": [x]}):
        with pytest.raises(TypeInferenceError, match="no place in compiled code"):
            jit(f)(a)
    known = np.dtype(dtype)
    for g in (lambda x: a + x, lambda x: np.zeros(2, known), lambda x: np.ones(3).astype(known),
              lambda x: known.type(x), lambda x: np.array([x], dtype=known), lambda x: np.full(3, x, known)):
        with pytest.raises((UnsupportedError, TypeInferenceError)) as refused:
            jit(g)(1)
        assert "Instead: " in str(refused.value)


def test_numbers_without_code_are_refused() -> None:
    for f in (lambda x: HALF * x, lambda x: x + WIDE, lambda x: np.maximum(x, HALF), lambda x: x < WIDE,
              lambda x: x + DAY, lambda x: np.where(x > 0, x, HALF)):
        with pytest.raises(UnsupportedError, match="dtype"):
            jit(f)(2.0)
    for f in (np.sqrt, np.sin, np.fabs, np.rint, np.modf, np.frexp, np.spacing, np.angle):
        for x in (True, U, U > 3, np.int8(3)):
            with pytest.raises(UnsupportedError, match="float16"):
                jit(f)(x)


@pytest.mark.slow
def test_what_numpy_computes_in_another_dtype_is_refused() -> None:
    wide = U.astype(np.uint64)
    for f, x in ((added_at, wide), (lambda x: np.unwrap(x, period=np.uint8(200)), U), (lambda x: np.quantile(x, 1), U),
                 (lambda x: np.percentile(x, np.float32(50)), U), (lambda x: np.arange(x[0]), wide)):
        with pytest.raises(UnsupportedError) as refused:
            jit(f)(x)
        assert "Instead: " in str(refused.value)
    with pytest.raises(OverflowError, match="difference wraps in NumPy"):
        jit(lambda x: np.quantile(x, 0.3))(np.array([-128, 127], np.int8))
    with pytest.raises(OverflowError, match="difference of arange's bounds"):
        jit(lambda a, b: np.arange(a, b))(np.uint8(5), np.uint8(3))


def test_text_and_limits_of_constants() -> None:
    text = ("func @f(%0: u8[?]) -> (u8[?]) {\n^entry:\n"
            "  %1 = const 255 : u8\n  %2 = add %0, %1 : u8[?]\n  return %2\n}\n")
    assert print_module(parse_module(text)).strip() == text.strip()
    with pytest.raises(VerifyError, match="256 is no u8"):
        verify(parse_module(text.replace("255", "256")))


# --- methods ----------------------------------------------------------------------------------------

EDGES = (0, 1, -1, 2, -2, 3, 255, -256, 2**31, -2**31, 2**62, -2**62, 2**63 - 1, -2**63, -2**63 + 1)


def of_bits(n: int) -> tuple[int, ...]:
    return (n.bit_length(), n.bit_count(), int.bit_length(n), int.bit_count(n), (n > 1).bit_length(),
            sum(map(int.bit_length, (n, 3))))


def test_bits_of_an_integer() -> None:
    compiled, r = jit(of_bits), np.random.default_rng(0)
    numbers = [int(r.integers(-2**63, 2**63 - 1)) >> int(k) for k in r.integers(0, 63, 50)]
    for n in (*EDGES, *numbers):
        assert compiled(n) == interpret(of_bits, n) == of_bits(n)
    text = jit(lambda n: n.bit_length() + n.bit_count()).inspect("loops", 1)
    assert "clz" in text and "popcount" in text and " for " not in text


@pytest.mark.parametrize("dtype", INTS)
def test_ones_of_elements(dtype: Any) -> None:
    def ones(a: Any) -> tuple[Any, ...]:
        total, longest = 0, 0
        for v in a:
            total, longest = total + v.bit_count(), max(longest, int(v // 2).bit_length())
        return total, longest, np.bitwise_count(a), a[0].bit_count()
    a = np.concatenate([edges(dtype)] * 5)
    for run in (jit(ones), lambda a: interpret(ones, a)):
        total, longest, counts, first = run(a)
        assert (total, longest, first) == (ones(a)[0], ones(a)[1], ones(a)[3])
        assert counts.dtype == np.uint8 and np.array_equal(counts, np.bitwise_count(a))


def test_who_has_no_bits() -> None:
    with pytest.raises(TypeError, match="descriptor 'bit_length' for 'int' objects doesn't apply to a 'float' object"):
        jit(lambda x: int.bit_length(x))(1.5)
    with pytest.raises(TypeError, match="descriptor 'bit_count' for 'int' objects doesn't apply to a 'numpy.ndarray'"):
        jit(lambda x: int.bit_count(x))(np.arange(3))
    with pytest.raises(AttributeError, match="bit_length"):
        jit(lambda a: a[0].bit_length())(np.arange(3))
    with pytest.raises(TypeError, match="bitwise_count"):
        jit(np.bitwise_count)(1.5)


@pytest.mark.slow
def test_bits_have_no_derivative() -> None:
    def f(x: float) -> float:
        return int(x * 100).bit_length() * x + int(-x * 7).bit_count() * x * x
    check_grads(f, (2.345,), order=2)
