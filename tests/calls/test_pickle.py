"""Pickles of jitted functions: what travels by reference, what by value, and what stays shared."""

from __future__ import annotations

import copy
import linecache
import pickle
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import UnsupportedError, grad, jit
from jitad.pickling import travel
from jitad.pickling.reducers import dumps

pytestmark = pytest.mark.any_level

K = 3.0


@pytest.fixture(params=["cloudpickle", "standard"], autouse=True)
def pickler(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with and without cloudpickle."""
    if request.param == "standard":
        monkeypatch.setitem(sys.modules, "cloudpickle", None)
    else:
        pytest.importorskip("cloudpickle")


def again(obj: Any) -> Any:
    """``obj``, pickled and loaded as in a process that has not loaded it before."""
    data = pickle.dumps(obj)
    travel._loaded.clear()
    return pickle.loads(data)


@jit(grad=True)
def importable(x: Any) -> Any:
    return x * x


def plain(x: Any) -> Any:
    return x * K


@jitad.custom_vjp
def cube(x: Any) -> Any:
    return x ** 3


cube.defvjp(lambda x: (x ** 3, x), lambda x, ct: (5.0 * x * x * ct,))


def main_module(text: str, **names: Any) -> dict[str, Any]:
    """The globals after ``text`` has run as if it stood in ``__main__``."""
    made = {"__name__": "__main__", "jit": jit, "grad": grad, "jitad": jitad, "np": np, **names}
    file = f"<main {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    exec(compile(text, file, "exec"), made)
    return made


def test_importable_functions_travel_by_reference() -> None:
    for f in (importable, importable.grad, importable.value_and_grad, cube, jitad.grad, jitad.vjp, jitad.custom_vjp):
        assert again(f) is f
        assert copy.copy(f) is f and copy.deepcopy(f) is f
    inner: FunctionType = importable.py_func
    assert pickle.loads(dumps(inner)) is inner


@pytest.mark.parametrize(("make", "x"), [
    (lambda: jit(lambda x: x + K), 2.0),
    (lambda: jit(lambda x: np.sin(x) ** 2, grad=True).grad, 2.0),
    (lambda: jit(lambda x: np.sin(x) ** 2, grad=True).value_and_grad, 2.0),
    (lambda: jit(plain, fastmath=True), 2.0),
    (lambda: grad(importable), 2.0),
    (lambda: grad(lambda x: x ** 3), 2.0),
    (lambda: jitad.hessian(lambda x: x ** 3), 2.0),
    (lambda: jitad.vmap(lambda x: x * 2.0), np.arange(3.0)),
    (lambda: grad(cube), 2.0),
    (lambda: grad(jitad.checkpoint(lambda x: np.sin(x) ** 2)), 1.0),
], ids=range(10))
def test_made_functions_travel_by_value(make: Callable[[], Any], x: Any) -> None:
    f = make()
    other = again(f)
    assert other is not f
    assert np.array_equal(other(x), f(x))
    assert type(other) is type(f) and other.__name__ == f.__name__
    assert getattr(other, "jit_options", None) == getattr(f, "jit_options", None)


def test_equal_pickles_are_compiled_once() -> None:
    data = pickle.dumps(jit(lambda x: x - K))
    f = pickle.loads(data)
    assert f(1.0) == -2.0 and pickle.loads(data) is f
    assert pickle.loads(data)(2.0) == -1.0 and f.stats["compilations"] == 1


def test_the_main_module_travels_by_value() -> None:
    """What a function reads there, transitively, with itself among it."""
    main = main_module("K = 2.0\nunread = object()\n"
                       "def helper(x):\n    return x * K\n"
                       "@jit\ndef even(n):\n    return True if n == 0 else odd(n - 1)\n"
                       "@jit\ndef odd(n):\n    return False if n == 0 else even(n - 1)\n"
                       "@jit(grad=True)\ndef f(x, y=1.0, *, z=4.0):\n"
                       '    """Its text."""\n    return helper(x) * y + z\n'
                       "table = [jit(lambda x: x + 1.0)]\n"
                       "def g(x):\n    return table[0](x) * f(x)\n")
    main["unread"] = (i for i in ())                         # cannot be pickled
    f = again(main["f"])
    assert f(3.0) == 10.0 and f(3.0, z=1.0) == 7.0 and f.grad(3.0) == 2.0 and f.__doc__ == "Its text."
    assert f.py_func.__globals__ is not main and set(f.py_func.__globals__) >= {"helper", "K"}
    assert again(main["even"])(10) is True and again(main["odd"])(10) is False
    assert again(jit(main["g"]))(3.0) == main["g"](3.0)
    main["K"] = 5.0
    assert again(main["f"])(3.0) == 19.0 and f(3.0) == 10.0


def test_globals_of_importable_modules_stay_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    f = again(jit(lambda x: x + K))
    assert f.py_func.__globals__ is globals() and f(1.0) == 4.0
    monkeypatch.setitem(globals(), "K", 10.0)
    assert f(1.0) == 11.0


def test_functions_that_share_a_cell_share_it_again() -> None:
    def counter() -> Any:
        k = 1.0

        def up(by: Any) -> None:
            nonlocal k
            k += by
        scale = jit(lambda x: x * k)
        scale.up = up
        return scale
    scale = again(counter())
    assert scale(2.0) == 2.0
    scale.up(2.0)
    assert scale(2.0) == 6.0


def test_closures_that_lead_back_to_themselves() -> None:
    def make() -> Any:
        @jit
        def fact(n: Any) -> Any:
            return 1.0 if n < 1 else n * fact(n - 1)

        def power(x: Any, n: Any) -> Any:
            return 1.0 if n == 0 else x * power(x, n - 1)
        return fact, grad(power)
    fact, slope = make()
    assert again(fact)(5) == 120.0 and again(slope)(2.0, 3) == 12.0


def test_what_has_been_compiled_stays_behind() -> None:
    def square(x: Any) -> Any:
        return x * x
    before = len(pickle.dumps(jit(square)))
    assert grad(square)(3.0) == 6.0 and jit(square)(3.0) == 9.0
    assert len(pickle.dumps(jit(square))) == before
    assert vars(square)["__jitad_compiled__"].table                # which other picklers take with the function
    assert not copy.deepcopy(vars(square))["__jitad_compiled__"].table


class Line:
    def __init__(self, slope: float) -> None:
        self.slope = slope

    @jit(grad=1)
    def energy(self, x: Any) -> Any:
        return (self.slope * x) ** 2

    def area(self, x: Any) -> Any:
        return self.slope * x * x


def test_methods_travel_with_their_object() -> None:
    line = Line(2.0)
    assert again(line.energy)(3.0) == 36.0 and again(line.energy).__func__ is Line.energy
    assert again(line.energy.grad)(3.0) == 24.0 and copy.deepcopy(line.energy.grad)(3.0) == 24.0
    for f in (jit(line.area), grad(line.area), jit(line.area, grad=True).grad):
        other = again(f)
        assert other(3.0) == f(3.0)
        other._self.slope = 1.0                              # each load has its own object
        assert line.slope == 2.0 and again(f)(3.0) == f(3.0)


def test_methods_of_a_local_class_are_copied_with_their_object() -> None:
    class Local:
        def __init__(self, k: float) -> None:
            self.k = [k]

        @jit(grad=1)
        def times(self, x: Any) -> Any:
            return self.k[0] * x
    local = Local(2.0)
    shallow, deep = copy.copy(local.times), copy.deepcopy(local.times)
    assert shallow == local.times and shallow.__name__ == "times"
    local.k[0] = 3.0
    assert shallow(2.0) == 6.0 and deep(2.0) == 4.0


def test_methods_of_a_class_of_the_main_module() -> None:
    pytest.importorskip("cloudpickle")
    if sys.modules["cloudpickle"] is None:
        pytest.skip("without cloudpickle, classes travel by reference")
    main = main_module("class Scale:\n"
                       "    def __init__(self, k):\n        self.k = k\n"
                       "    @jit(grad=1)\n    def times(self, x):\n        return self.k * x * x\n"
                       "    def twice(self):\n        return Scale(2.0 * self.k)\n")
    scale = main["Scale"](3.0).twice()
    assert again(scale.times)(2.0) == 24.0 and again(scale.times.grad)(2.0) == 24.0


def test_pullbacks_and_linear_functions_travel_with_their_primals() -> None:
    x = np.array([1.0, 2.0])
    pullback, linear = jitad.vjp(lambda x: x ** 2, x)[1], jitad.linearize(lambda x: x ** 2, x)[1]
    x[0] = 100.0
    for f in (pullback, linear):
        assert np.array_equal(again(f)(np.ones(2)), f(np.ones(2)))


def test_indented_functions_keep_their_source() -> None:
    """Of methods, nested functions, and of lambdas inside of them, which are made after the function is loaded."""
    main = main_module("def outer(k):\n    if k:\n"
                       "        def make(\n            scale,\n        ):\n"
                       "            inner = jit(lambda x: (\n                scale * x\n            ))\n"
                       "            return inner(k)\n"
                       "        return make\n"
                       "make = outer(3.0)\n")
    carrier = jit(lambda x: x)
    carrier.make = main["make"]
    made = again(carrier).make
    linecache.cache.pop(made.__code__.co_filename)
    assert made(2.0) == 6.0


def test_rules_of_a_function_travel() -> None:
    main = main_module("@jitad.custom_jvp\ndef double(x):\n    return 2.0 * x\n"
                       "@double.defjvp\ndef rule(primals, tangents):\n    return double(*primals), 7.0 * tangents[0]\n")
    double = again(main["double"])
    assert double(1.0) == 2.0 and grad(double)(1.0) == 7.0


def test_another_version_of_python_is_refused() -> None:
    load, (header, data) = jit(lambda x: x).__reduce__()
    with pytest.raises(UnsupportedError, match=r"cpython 3\.2 .* loaded by"):
        load((*header[:2], 3, 2), data)


def test_objects_that_cannot_be_pickled_are_named() -> None:
    captured = (i for i in ())
    with pytest.raises(TypeError, match="generator") as caught:
        pickle.dumps(jit(lambda x: x if captured else -x))
    assert (sys.modules["cloudpickle"] is None) == bool(getattr(caught.value, "__notes__", None))
