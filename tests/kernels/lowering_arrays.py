"""Shared code for tests of array lowering: a hand-made function, run compiled and by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jitad.lowering.jit.invoke import invoke

from jitad.ir.builder import Builder
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.graph import Function, Module, Value
from jitad.ir.types import Array, Type, from_numpy
from jitad.ir.verify import verify

Build = Callable[..., Sequence[Value]]
SHAPES: list[tuple[int, ...]] = [(0,), (1,), (7,), (40,), (3, 5), (0, 4), (4, 0), (1, 6), (2, 3, 4)]


def type_of(x: Any, literal: Sequence[int] = ()) -> Type:
    """The type of an argument; sizes of 1, and those of the axes in ``literal``, are known."""
    if isinstance(x, np.ndarray):
        scalar = from_numpy(x.dtype)
        assert scalar is not None
        return Array(scalar, tuple(n if n == 1 or i in literal else None for i, n in enumerate(x.shape)))
    scalar = from_numpy(np.asarray(x).dtype)
    assert scalar is not None
    return scalar


def module_of(build: Build, args: Sequence[Any], own: Sequence[int] = (), literal: Sequence[int] = ()) -> Module:
    """A module with one function ``f``, whose results are those of ``build(builder, *params)``."""
    module, func = Module(), Function("f", [type_of(a, literal) for a in args])
    b = Builder(func.entry)
    results = list(build(b, *func.params))
    func.result_types = [r.type for r in results]
    func.own = set(own)
    b.ret(results)
    module.add(func)
    verify(module)
    return module


def check(build: Build, *args: Any, own: Sequence[int] = (), literal: Sequence[int] = (),
          rtol: float = 1e-13) -> list[Any]:
    """Asserts that compiled code agrees with the interpreter and does not change the arguments."""
    module = module_of(build, args, own, literal)
    fresh = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    want = Interpreter(module).run("f", fresh)
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    got = invoke(module, "f", [a.copy() if i in own else a for i, a in enumerate(args)])
    for i, (a, old) in enumerate(zip(args, before)):
        np.testing.assert_array_equal(a, old, err_msg=f"argument {i} was written")
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert np.shape(g) == np.shape(w)
        tol = 2e-6 if np.asarray(w).dtype == np.float32 else rtol
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol)
    return got


def sample(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Random elements; integers from −9 to 9."""
    rng = np.random.default_rng(seed + sum(shape))
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape), dtype=bool)
    if dtype.startswith("int"):
        return rng.integers(-9, 10, shape).astype(dtype)
    return np.asarray(rng.normal(size=shape)).astype(dtype)
