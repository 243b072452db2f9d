"""Helpers: an entry point for a function given as IR, without a front end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jitad.lowering.jit import cpu
from jitad.lowering.planning.run_length import effort, recursive
from jitad.lowering.python import callable as native_callable
from jitad.lowering.python import entry_point
from jitad.lowering.python.entry import Entry
from jitad.lowering.python.exceptions import Failures
from jitad.lowering.python.unbox import Argument

from jitad.ir.builder import Builder
from jitad.ir.graph import Function, Module
from jitad.ir.types import Array, Type, parse
from jitad.pytree import LEAF, Structure

_kept: list[Any] = []


@dataclass(frozen=True)
class Leaf:
    """The type of an argument's leaf for an entry point."""

    type: Type
    weak: bool


def function(params: str, results: str) -> tuple[Module, Function, Builder]:
    """A module with an empty function ``f``; types are separated by blanks."""
    module = Module()
    func = module.add(Function("f", map(parse, params.split()), map(parse, results.split())))
    return module, func, Builder(func.entry)


def leaf(t: Type, weak: bool = True) -> Leaf:
    return Leaf(t, weak and not isinstance(t, Array))


def missed(self: object, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The target of calls that the entry does not take."""
    return "missed", args, kwargs


def enter(module: Module, arguments: Sequence[Argument] | None = None, result: Structure = LEAF,
          count: int | None = None, keywords: tuple[str, ...] = (), effort_is: str | None = None,
          build: Callable[..., Any] | None = None, fixed: dict[int, Any] | None = None) -> Any:
    """A callable object for the function ``f`` of a module."""
    func = module.functions["f"]
    if arguments is None:
        arguments = [Argument(i, LEAF, (leaf(t),)) for i, t in enumerate(func.param_types)]
    entry = Entry("entry", func, arguments, len(arguments) if count is None else count, keywords, result,
                         effort_is or effort(module, "f"), recursive(module, "f"), Failures(module), build, fixed or {})
    native = cpu.compile_module(module, ["f"], None, lambda lowering: [entry_point.write(lowering.writer, entry)])
    made = native_callable.make(missed, None)
    entry.next.value = native_callable.SLOW_VECTORCALL
    native_callable.set_entry(made, native.address("entry"))
    _kept.append((native, entry))
    return made


def same(x: Any, y: Any) -> bool:
    """True if values, types and dtypes are equal."""
    if isinstance(x, (tuple, list)):
        return type(x) is type(y) and len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, dict):
        return type(x) is type(y) and x.keys() == y.keys() and all(same(x[k], y[k]) for k in x)
    if isinstance(x, np.ndarray):
        return isinstance(y, np.ndarray) and x.dtype == y.dtype and np.array_equal(x, y)
    return type(x) is type(y) and x == y
