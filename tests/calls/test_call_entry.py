"""Entry points: accepted and refused arguments, results, and balanced reference counts."""

from __future__ import annotations

import gc
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from jitad.lowering.python.unbox import Argument

from jitad.errors import Loc
from jitad.ir.graph import ExcInfo
from jitad.ir.types import BOOL, F32, F64, I32, I64, Scalar
from jitad.pytree import LEAF, flatten, unflatten
from tests.calls.entries import enter, function, leaf, same


class Pair(NamedTuple):
    x: Any
    y: Any


def identity(types: str) -> Any:
    module, func, b = function(types, types)
    b.ret(func.params)
    return module, func


def square() -> Any:
    module, func, b = function("f64", "f64")
    b.ret([b.mul(func.params[0], func.params[0])])
    return enter(module)


def test_scalar_and_what_is_not_for_it() -> None:
    f = square()
    assert same(f(3.0), 9.0)
    for args, kwargs in (((3,), {}), ((True,), {}), (("s",), {}), ((), {}), ((1.0, 2.0), {}), ((1.0,), {"y": 2}),
                         ((np.float64(2),), {}), ((None,), {})):
        assert f(*args, **kwargs) == ("missed", args, kwargs)


@pytest.mark.parametrize("t, weak, value", [
    (F64, True, 2.5), (I64, True, 7), (BOOL, True, True), (BOOL, True, False), (F64, False, np.float64(2.5)),
    (F32, False, np.float32(2.5)), (I64, False, np.int64(-7)), (I32, False, np.int32(-7)), (BOOL, False, np.True_),
])
def test_scalars_of_each_type(t: Scalar, weak: bool, value: Any) -> None:
    module, _ = identity(str(t))
    f = enter(module, [Argument(0, LEAF, (leaf(t, weak),))])
    expected = value if t in (F32, I32) else value.item() if isinstance(value, np.generic) else value
    assert same(f(value), expected)


@pytest.mark.parametrize("n", [0, 1, -1, 2**29, 2**30 - 1, 2**30, -2**30, 2**31, 2**60, 2**63 - 1, -2**63])
def test_integers_of_every_size(n: int) -> None:
    f = enter(identity("i64")[0])
    assert same(f(n), n)


@pytest.mark.parametrize("n", [2**63, -2**63 - 1, 10**30])
def test_integers_that_do_not_fit_are_not_for_it(n: int) -> None:
    f = enter(identity("i64")[0])
    assert f(n)[0] == "missed"
    assert f(5) == 5


@pytest.mark.parametrize("t, shape", [("f64[?]", (5,)), ("f64[?]", (0,)), ("f32[?,?]", (2, 3)),
                                      ("i64[?,?,?]", (2, 3, 4)), ("bool[?]", (3,)),
                                      ("i32[?,1]", (4, 1)), ("f64[1]", (1,)), ("f64[2,3]", (2, 3))])
def test_arrays_are_returned_as_new_arrays(t: str, shape: tuple[int, ...]) -> None:
    module, func = identity(t)
    f = enter(module)
    a = np.arange(np.prod(shape)).reshape(shape).astype(func.param_types[0].dtype.np)
    made = f(a)
    assert same(made, a) and made is not a and made.flags.owndata and made.flags.writeable
    if a.size:
        made[...] = 0
        assert a.any() or a.size == 1


def test_arrays_that_are_not_for_it() -> None:
    f = enter(identity("f64[?,?]")[0])
    a = np.zeros((4, 6))
    assert f(a).shape == (4, 6)
    for other in (a[:, ::2], a.T, a[0], np.zeros((1, 3)), np.zeros((3, 1)), a.astype(np.float32), a.astype(">f8"),
                  np.asmatrix(a), a.astype(object), a.tolist(), np.zeros((2, 3, 4)),
                  np.frombuffer(bytes(97), np.uint8)[1:].view(float)):
        assert f(other)[0] == "missed"


def test_trees_in_and_out_with_even_reference_counts() -> None:
    value = ({"a": 1.5, "b": [-10**12, True]}, (np.float32(2.5), None, "s"), np.arange(6.0).reshape(2, 3))
    structure = flatten(value)[1]
    types = "f64 i64 bool f32 f64[?,?]"
    leaves = (leaf(F64), leaf(I64), leaf(BOOL), leaf(F32, False), leaf(identity("f64[?,?]")[1].param_types[0]))
    for effort in ("short", "long"):
        for build in (None, lambda flat: unflatten(structure, flat)):
            f = enter(identity(types)[0], [Argument(0, structure, leaves)], structure, effort_is=effort, build=build)
            assert same(f(value), value)
            held = (value, value[0], value[1], value[2], value[0]["b"], None)
            gc.collect()
            before = [sys.getrefcount(x) for x in held]
            for _ in range(5000):
                f(value)
            after = [sys.getrefcount(x) for x in held]      # the rest of the process also has references to None
            assert [abs(n - m) < 1000 for n, m in zip(after, before)] == [True] * len(held)


def test_trees_of_another_shape_are_not_for_it() -> None:
    structure = flatten(({"a": 1.0}, [1.0, 2.0]))[1]
    module, func, b = function("f64 f64 f64", "f64")
    b.ret([func.params[1]])
    f = enter(module, [Argument(0, structure, (leaf(F64),) * 3)])
    assert f(({"a": 1.0}, [2.0, 3.0])) == 2.0
    for other in (({"b": 1.0}, [2.0, 3.0]), ({"a": 1.0}, [2.0]), ({"a": 1.0}, (2.0, 3.0)), [{"a": 1.0}, [2.0, 3.0]],
                  ({"a": 1.0, "b": 2.0}, [2.0, 3.0]), ({"a": 1}, [2.0, 3.0]), ({}, [2.0, 3.0]),
                  ({"a": 1.0}, [2.0, 3.0], 4.0)):
        assert f(other)[0] == "missed"


def test_named_tuples_are_read_by_machine_code() -> None:
    structure = flatten(Pair(1.0, 2.0))[1]
    module, func, b = function("f64 f64", "f64 f64")
    b.ret([func.params[1], func.params[0]])
    f = enter(module, [Argument(0, structure, (leaf(F64),) * 2)], structure,
              build=lambda flat: unflatten(structure, flat))
    assert same(f(Pair(1.0, 2.0)), Pair(2.0, 1.0))
    assert f((1.0, 2.0))[0] == "missed"


def test_strings_and_none_are_compared() -> None:
    structure = flatten(("mode", None))[1]
    module, _, b = function("", "i64")
    b.ret([b.const(1)])
    f = enter(module, [Argument(0, structure)])
    assert f(("".join(["mo", "de"]), None)) == 1
    assert f(("other", None))[0] == f(("mode", 0))[0] == "missed"


def test_keywords_static_values_and_constants() -> None:
    module, func, b = function("f64 f64 f64", "f64")
    b.ret([b.sub(func.params[0], b.mul(func.params[1], func.params[2]))])
    marker = object()
    arguments = [Argument(0, LEAF, (leaf(F64),)), Argument(2, LEAF, (leaf(F64),)), Argument(1, None, value=marker),
                 Argument(None, LEAF, (leaf(F64),), 10.0)]
    f = enter(module, arguments, count=1, keywords=("how", "y"))
    assert f(5.0, how=marker, y=0.25) == 2.5
    assert f(5.0, y=0.25, how=marker)[0] == f(5.0, how=object(), y=0.25)[0] == f(5.0, marker, 0.25)[0] == "missed"


def test_results_that_are_always_the_same_object() -> None:
    module, func, b = function("f64", "f64")
    b.ret(func.params)
    f = enter(module, result=flatten((1, 2, 3))[1], fixed={0: len, 2: "x"})
    assert f(2.0) == (len, 2.0, "x")


def test_containers_as_results() -> None:
    shape = ([], {}, {"k": (1, [2, None])}, "text")
    structure = flatten(shape)[1]
    module, func, b = function("f64 i64", "f64 i64")
    b.ret(func.params)
    f = enter(module, result=structure)
    assert same(f(1.5, 2), ([], {}, {"k": (1.5, [2, None])}, "text"))


def test_failure_raises_at_the_line_of_the_user(tmp_path: Any) -> None:
    file = tmp_path / "program.py"
    file.write_text("def f(x):\n    assert x > 0, x\n")
    module, func, b = function("f64 f32 i32 bool", "f64")
    number = module.exception(ExcInfo("ValueError", "{} {} {} {}", Loc(str(file), 2, 4, 9, "f")))
    b.check(b.gt(func.params[0], 0.0), number, *func.params)
    b.ret([func.params[0]])
    f = enter(module, [Argument(i, LEAF, (leaf(t, t == F64 or t == BOOL),)) for i, t in enumerate(func.param_types)])
    assert f(1.0, np.float32(2), np.int32(3), True) == 1.0
    with pytest.raises(ValueError, match=r"^-1.5 0.25 -3 False$") as caught:
        f(-1.5, np.float32(0.25), np.int32(-3), False)
    last = caught.traceback[-1]
    assert str(last.path) == str(file) and last.lineno == 1 and last.name == "f"


def test_exceptions_of_the_users_own_class() -> None:
    class Trouble(Exception):
        pass
    module, func, b = function("f64", "f64")
    number = module.exception(ExcInfo("", None, cls=Trouble, args=(1, "two")))
    b.check(b.gt(func.params[0], 0.0), number)
    b.ret(func.params)
    f = enter(module)
    for _ in range(3):
        with pytest.raises(Trouble) as caught:
            f(-1.0)
        assert caught.value.args == (1, "two")
    assert f(1.0) == 1.0
