"""Any arguments: the right result, or a Python exception that names an alternative."""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import datetime
import decimal
import fractions
import functools
import math
import pickle
import types
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitad
from jitad import DifferentiationError, JitadError, TypeInferenceError, jit

pytestmark = pytest.mark.any_level


@jit(grad=True)
def total(x):
    return np.sum(np.sin(x)) * 2.0


@jit(grad=True)
def keywords(x, y=1.0, *, z=2.0):
    return x * y * z


class Float(float):
    pass


class Array(np.ndarray):
    pass


class Listed(list):
    pass


BASE = np.arange(24.0).reshape(2, 3, 4)


def read_only() -> np.ndarray:
    a = np.ones(3)
    a.flags.writeable = False
    return a


def misaligned() -> np.ndarray:
    return np.frombuffer(b"\0" + np.arange(3.0).tobytes(), np.uint8)[1:].view(np.float64)


# --- arguments that are accepted, as they are or converted ----------------------------------------------

TAKEN = [np.nan, np.inf, 1e308, 5e-324, -0.0, np.zeros(0), np.zeros((3, 0, 2)), np.array(1.5), BASE[:, ::2],
         BASE[::-1, :, ::-1], BASE.T, BASE[..., 1], np.broadcast_to(1.5, (3, 2)), read_only(), misaligned(),
         np.ones(3, ">f8"),
         np.ones(3).view(Array), Float(1.5), np.float64(1.5), np.ones((1,) * 20), [1.0, 2.0], (np.ones(2), np.ones(2))]
DISCRETE = [3, 2**63 - 1, np.int64(3), np.int16(3), np.uint32(3), np.ones(3, np.uint64), np.ones(3, np.uint16),
            np.ones(3, ">i4"), np.array(3)]


@pytest.mark.parametrize("x", TAKEN, ids=lambda x: type(x).__name__)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_taken(x: Any) -> None:
    before = copy.deepcopy(x)
    for _ in range(2):
        assert np.allclose(total(x), np.sum(np.sin(np.asarray(x))) * 2.0, equal_nan=True)
        value, gradient = total.value_and_grad(x)
        assert np.allclose(value, total(x), equal_nan=True)
        assert np.allclose(np.asarray(gradient), 2 * np.cos(np.asarray(x, float)), equal_nan=True)
    assert np.array_equal(np.asarray(x), np.asarray(before), equal_nan=True)


@pytest.mark.parametrize("x", DISCRETE, ids=lambda x: type(x).__name__)
def test_discrete(x: Any) -> None:
    assert np.isclose(total(x), np.sum(np.sin(np.asarray(x, float))) * 2.0)
    with pytest.raises(DifferentiationError, match="holds no float"):
        total.grad(x)


STEPS = [slice(None), slice(None, None, -1), slice(1, None, 2)]
LAYOUT = st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(STEPS), st.booleans(),
                   st.sampled_from(["<f8", ">f8", "<f4", ">f4"]))


@pytest.mark.slow
@given(LAYOUT)
@settings(max_examples=25)
def test_layouts(layout: Any) -> None:
    rows, columns, steps, transposed, dtype = layout
    a = np.arange(rows * columns * 2, dtype=dtype).reshape(rows, columns * 2)[:, steps]
    a = a.T if transposed else a
    plain = np.array(a, a.dtype.newbyteorder("="), order="C")
    assert total(a) == total(plain)
    gradient = total.grad(a)
    assert gradient.dtype == plain.dtype and np.array_equal(gradient, total.grad(plain))


# --- arguments that are refused ---------------------------------------------------------------------------

def cyclic() -> list[Any]:
    xs: list[Any] = []
    xs.append(xs)
    return xs


def deep() -> Any:
    x: Any = 1.0
    for _ in range(100_000):
        x = [x]
    return x


REFUSED = [np.float16(1), np.ones(3, np.float16), np.longdouble(1), 1j, np.ones(3, complex),
           np.array([1.0, None], object), np.array(["a"]), np.array(["2020"], "datetime64[D]"),
           np.zeros(2, [("a", "f8")]), np.ma.array([1.0]), b"abc", {1.0}, frozenset({1.0}), decimal.Decimal(1),
           fractions.Fraction(1, 2),
           datetime.date(2020, 1, 1), (i for i in range(3)), range(3), memoryview(b"abc"), array.array("d", [1.0]),
           collections.defaultdict(float, a=1.0), collections.Counter("ab"), collections.deque([1.0]), Listed([1.0]),
           types.SimpleNamespace(a=1.0), np, ..., slice(1), object()]


@pytest.mark.parametrize("x", REFUSED, ids=lambda x: type(x).__name__)
def test_refused(x: Any) -> None:
    for call in (total, total.grad, total.value_and_grad):
        for given_ in (x, [x, 1.0]):
            with pytest.raises(TypeInferenceError, match="argument x: ") as info:
                call(given_)
            assert "Instead: " in str(info.value) and "def total" in str(info.value)
    assert total(1.0) == 2 * np.sin(1.0)


def test_refused_by_pythons_own_errors() -> None:
    for x, kind in ((2**63, OverflowError), (-2**63 - 1, OverflowError), (10**400, OverflowError),
                    (cyclic(), RecursionError), (deep(), RecursionError), ([np.ones(2), 3.0], ValueError),
                    ([np.ones(2), np.ones(3)], ValueError)):
        for call in (total, total.grad):
            with pytest.raises(kind):
                call(x)
    for x in (None, "abc", {"a": 1.0}, len, float):
        with pytest.raises((JitadError, TypeError)):
            total(x)
    assert total(1.0) == 2 * np.sin(1.0)


def test_calls_that_do_not_fit() -> None:
    for args, kwargs, message in [((), {}, "missing a required argument: 'x'"),
                                  ((1.0, 2.0, 3.0), {}, "too many positional arguments"),
                                  ((1.0,), {"q": 1.0}, "got an unexpected keyword argument 'q'"),
                                  ((1.0,), {"x": 1.0}, "multiple values for argument 'x'")]:
        for call in (keywords, keywords.grad, keywords.value_and_grad):
            for _ in range(2):
                with pytest.raises(TypeError, match=rf"keywords\(\) {message}"):
                    call(*args, **kwargs)
    assert keywords(2.0) == 4.0 and keywords(z=3.0, x=2.0) == 6.0 and keywords.grad(2.0, z=1.0) == 1.0


# --- constants ----------------------------------------------------------------------------------------------

def test_static_values_are_told_apart_by_what_they_mean() -> None:
    f = jit(lambda x, k: x.sum() * k[0], static="k")
    for x in (np.ones(3), np.ones(6)[::2]):                       # the second is not for the entry point
        for _ in range(3):
            assert np.isnan(f(x, (float("nan"),)))
    assert f.stats["compilations"] == 1
    assert [str(f(np.float64(1.0), (k,))) for k in (0.0, -0.0, 0, True, 1, 1.0)] == ["0.0", "-0.0", "0.0", *["1.0"] * 3]
    sign = jit(lambda x, k: math.copysign(x, k), static="k")
    assert [sign(1.0, np.float32(k)) for k in (0.0, -0.0, 0.0)] == [1.0, -1.0, 1.0]
    kind = jit(lambda x, k: x // k[0], static="k")
    assert [kind(7, k) for k in ((2,), (2.0,), (2,))] == [3, 3.0, 3]
    assert [type(kind(7, k)) for k in ((2,), (2.0,), (2,))] == [int, float, int]


class Unequal:
    """Equal to nothing, not even to itself."""

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 1


def test_a_static_value_that_is_not_itself() -> None:
    f = jit(lambda x, k: x.sum(), static="k")
    k = Unequal()
    assert f(np.ones(6)[::2], k) == f(np.ones(6)[::2], k) == 3.0 and f.stats["compilations"] == 1


# --- the object as Python's tools see it --------------------------------------------------------------------

def test_copies_pickles_and_weak_references() -> None:
    for other in (copy.copy(keywords), copy.deepcopy(keywords), pickle.loads(pickle.dumps(keywords))):
        assert other is keywords or other(2.0) == 4.0
    assert weakref.ref(keywords)() is keywords and keywords in {keywords}


class Scaled:
    def __init__(self, k: float) -> None:
        self.k = k

    @jit
    def times(self, x):
        return x * 2.0


def test_bound_methods_are_values() -> None:
    obj = Scaled(2.0)
    assert obj.times == obj.times and hash(obj.times) == hash(obj.times) and obj.times != Scaled(2.0).times
    for other in (copy.copy(obj.times), copy.deepcopy(obj.times), pickle.loads(pickle.dumps(obj.times))):
        assert other.__self__.k == 2.0 and other.__func__ is Scaled.times


# --- arguments of a call ------------------------------------------------------------------------------------

def scaled(g: Any) -> Any:
    @functools.wraps(g)
    def wrapper(scale: Any, x: Any) -> Any:
        return scale * g(x)
    return wrapper


def turned(g: Any) -> Any:
    @functools.wraps(g)
    def wrapper(b: Any, a: Any = 1.0) -> Any:
        return g(a, b)
    return wrapper


def counting(g: Any) -> Any:
    @functools.wraps(g)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return len(args), len(kwargs), g(*args, **kwargs)
    return wrapper


def square(x: Any) -> Any:
    return x * x


def difference(a: Any, b: Any) -> Any:
    return a - 10 * b


def test_decorated_functions_take_what_the_outer_one_takes() -> None:
    """``inspect.signature`` returns something else because of ``functools.wraps``."""
    f = jit(scaled(square), grad="x")
    for _ in range(3):
        assert f(2.0, 3.0) == f(x=3.0, scale=2.0) == 18.0
        assert f.grad(2.0, 3.0) == jitad.grad(scaled(square), "x")(2.0, 3.0) == 12.0
        assert jitad.grad(scaled(square), ("x", "scale"))(scale=2.0, x=3.0) == (12.0, 9.0)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        f(2.0)
    g = jit(turned(difference))
    for _ in range(3):
        assert [g(1.0), g(a=2.0, b=1.0), g(1.0, a=2.0), g(1.0, 2.0)] == [-9.0, -8.0, -8.0, -8.0]


def test_a_decorator_that_passes_all_on_sees_how_it_was_passed() -> None:
    f = jit(counting(difference), static="b")
    for _ in range(3):
        assert [f(1.0, 2), f(1.0, b=2), f(b=2, a=1.0)] == [(2, 0, -19.0), (1, 1, -19.0), (0, 2, -19.0)]
    assert f.stats["compilations"] == 3 and f(1.0, 3)[2] == -29.0 and f.stats["compilations"] == 4
    assert jitad.grad(lambda x: counting(square)(x)[2])(3.0) == 6.0


def test_names_of_parameters_by_position_are_free_for_others() -> None:
    def f(a: Any, x: Any = 1.0, /, **kwargs: Any) -> Any:
        return a + 10 * x + 100 * kwargs.get("x", 0.0)
    g = jit(f)
    for _ in range(3):
        assert [g(1.0), g(1.0, 2.0), g(1.0, x=5.0), g(1.0, 2.0, x=5.0)] == [11.0, 21.0, 511.0, 521.0]


@dataclasses.dataclass
class Holder:
    w: Any

    def apply(self, x: Any, fun: Any) -> Any:
        return fun(x) * self.w

    def __call__(self, fun: Any, t: Any) -> Any:
        return self.w * fun - t


def test_any_name_will_do_for_a_parameter() -> None:
    """Including names that the compiler uses itself."""
    def f(self: Any, args: Any) -> Any:
        return self - args
    for g in (jit(f, grad="self"), jit(f, grad="self").grad, jitad.grad(f, "args"), jitad.vmap(f)):
        for _ in range(3):
            x = (np.ones(2), np.ones(2)) if g is not None and "vmap" in g.__name__ else (3.0, 2.0)
            np.testing.assert_array_equal(g(self=x[0], args=x[1]), g(*x))
    def inside(m: Any, x: Any) -> Any:
        part = functools.partial(m.apply, fun=math.sqrt)
        d = dict(t=x, v=2 * x, self=3 * x, fun=x)
        return m.apply(x, fun=math.sin) + part(x) + m(fun=x, t=d["t"]) + d["v"] + sum(d.values())
    assert jit(inside)(Holder(2.0), 0.5) == pytest.approx(inside(Holder(2.0), 0.5), rel=1e-15)
    assert jit(Holder(3.0))(fun=2.0, t=1.0) == 5.0


def test_what_takes_any_number_of_arguments_is_shown_for_the_last_call() -> None:
    for f, args, kwargs in ((lambda *xs: xs[0] + xs[1], (1.0, 2.0), {}), (lambda *, x: x + 1.0, (), {"x": 1.0}),
                            (lambda **kw: kw["y"] + 1.0, (), {"y": 1.0})):
        g = jit(f)
        with pytest.raises(ValueError, match="has not been called yet"):
            g.inspect("ir")
        g(*args, **kwargs)
        assert g.inspect("ir") == g.inspect("ir", *args, **kwargs) and "add" in g.inspect("ir")
    assert "1.0" in jit(lambda: 1.0).inspect("ir")


def scaled_square(factor: Any, x: Any) -> Any:
    return np.sum(factor) * x * x


def test_partial_functions_keep_nothing_of_what_is_compiled() -> None:
    """They could not be pickled, and a deep copy shared the code and the arrays of the original."""
    part = functools.partial(scaled_square, np.array([1.0, 2.0]))
    grad = jitad.grad(part)
    assert grad(2.0) == 12.0 and jitad.grad(part) is grad
    assert jitad.grad(pickle.loads(pickle.dumps(part)))(2.0) == 12.0
    other = copy.deepcopy(part)
    other.args[0][:] = 10.0
    assert jitad.grad(other)(2.0) == 80.0 and jitad.grad(part)(2.0) == 12.0
    listed = functools.partial(lambda w, x: w[0] * x, [3.0])
    assert jitad.grad(listed)(1.0) == 3.0
    listed.args[0][0] = 4.0
    assert jitad.grad(listed)(1.0) == 4.0
    method = functools.partial(Holder(5.0).apply, fun=math.exp)
    assert jitad.grad(method)(0.0) == 5.0 and jitad.grad(method) is jitad.grad(method)
