"""Traces a Python function, runs the IR in the interpreter and compares with CPython."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from jitad import pipeline, pytree
from jitad.frontend.trace import trace_program
from jitad.frontend.values.lattice import UNBOUND
from jitad.ir.evaluate.interp import Interpreter
from jitad.ir.types import BOOL, F64, I64, Array, from_numpy
from jitad.ir.verify import verify
from jitad.semantics.evaluate import Evaluator


def spec(x: Any) -> Any:
    """The argument specification of a value: a ``Leaf`` for each number and array."""

    def leaf(v: Any) -> Any:
        if isinstance(v, (bool, int, float)):
            return trace_program.Leaf({bool: BOOL, int: I64, float: F64}[type(v)], True)
        if isinstance(v, np.ndarray):
            dtype = from_numpy(v.dtype)
            assert dtype is not None
            return trace_program.Leaf(Array(dtype, tuple(1 if d == 1 else None for d in v.shape)))
        return v

    leaves, structure = pytree.flatten(x)
    return pytree.unflatten(structure, [leaf(v) for v in leaves])


def trace(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> trace_program.Traced:
    """The verified trace of ``fun`` for arguments of these types."""
    traced = trace_program.trace(fun, [spec(a) for a in args], {k: spec(v) for k, v in kwargs.items()})
    verify(traced.module, linear=False)
    return traced


def run(traced: trace_program.Traced, *args: Any, by: type[Interpreter] = Interpreter, **kwargs: Any) -> Any:
    """The results of the traced function; ``by=Evaluator``: by the reference semantics."""
    leaves, _ = pytree.flatten((args, kwargs))
    numbers = [v for v in leaves if isinstance(v, (bool, int, float, np.ndarray))]
    results = iter(by(traced.module).run(traced.root, numbers + traced.consts))
    out = [next(results) if s is UNBOUND else s for s in traced.out_static]
    return pytree.unflatten(traced.out_structure, out)


def meant_and_made(fun: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """The results of a program with derivatives: by the reference semantics, and with the derivatives by ``ad``."""
    traced = trace(getattr(fun, "py_func", fun), *args)
    meant = run(traced, *args, by=Evaluator)
    pipeline.run(traced.module, [traced.root], stop="adjoint")
    return meant, run(traced, *args)


def outcome(fun: Callable[..., Any], *args: Any) -> Any:
    """The result of a call, or the exception it raises."""
    try:
        return fun(*copy.deepcopy(args))
    except Exception as e:
        return e


def agree(got: Any, want: Any) -> bool:
    """True if two outcomes are the same: structure, values, or the type of the exception."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        return type(got) is type(want)
    got_leaves, got_structure = pytree.flatten(got)
    want_leaves, want_structure = pytree.flatten(want)
    return got_structure == want_structure and all(
        np.shape(x) == np.shape(y) and np.allclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True)
        for x, y in zip(got_leaves, want_leaves)
    )


def check(fun: Callable[..., Any], *args: Any) -> Any:
    """Asserts that interpreter and CPython agree on a call; returns the outcome."""
    want = outcome(fun, *args)
    got = outcome(lambda *a: run(trace(fun, *a), *a), *args)
    if isinstance(got, Exception) and not agree(got, want):
        raise got
    assert agree(got, want), f"{got!r} != {want!r}"
    if isinstance(want, Exception):
        assert str(want).startswith(str(got))  # pytest adds to the messages of assertions
    return got
