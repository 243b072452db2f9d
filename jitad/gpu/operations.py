"""Arithmetic, comparisons and reductions of device arrays: compiled functions, which become methods of the class."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..frontend.captured.options import Options
from ..lowering.python import callable as native_callable
from .arrays import DeviceArray, is_foreign
from .dispatch import DeviceDispatcher


@cache
def _compiled(fun: Callable[..., Any], target: str, static: tuple[str, ...] = ()) -> Any:
    handle = native_callable.make(_unused, None)
    return DeviceDispatcher(handle, fun, Options(target=target), static, None, _unused)


def _unused(*args: Any) -> None:
    pass


def add(x: Any, y: Any) -> Any:
    return x + y


def sub(x: Any, y: Any) -> Any:
    return x - y


def mul(x: Any, y: Any) -> Any:
    return x * y


def truediv(x: Any, y: Any) -> Any:
    return x / y


def floordiv(x: Any, y: Any) -> Any:
    return x // y


def mod(x: Any, y: Any) -> Any:
    return x % y


def pow(x: Any, y: Any) -> Any:
    return x ** y


def matmul(x: Any, y: Any) -> Any:
    return x @ y


def lt(x: Any, y: Any) -> Any:
    return x < y


def le(x: Any, y: Any) -> Any:
    return x <= y


def gt(x: Any, y: Any) -> Any:
    return x > y


def ge(x: Any, y: Any) -> Any:
    return x >= y


def eq(x: Any, y: Any) -> Any:
    return x == y


def ne(x: Any, y: Any) -> Any:
    return x != y


def neg(x: Any) -> Any:
    return -x


def pos(x: Any) -> Any:
    return +x


def abs(x: Any) -> Any:
    return np.abs(x)


def sum(x: Any, axis: Any) -> Any:
    return np.sum(x, axis=axis)


def mean(x: Any, axis: Any) -> Any:
    return np.mean(x, axis=axis)


def max(x: Any, axis: Any) -> Any:
    return np.max(x, axis=axis)


def min(x: Any, axis: Any) -> Any:
    return np.min(x, axis=axis)


Functions = tuple[Callable[..., Any], ...]
REFLECTED: Functions = (add, sub, mul, truediv, floordiv, mod, pow, matmul)
COMPARISONS: Functions = (lt, le, gt, ge, eq, ne)
UNARY: Functions = (neg, pos, abs)
REDUCTIONS: Functions = (sum, mean, max, min)


def _is_operand(x: Any) -> bool:
    return isinstance(x, (bool, int, float, np.generic, np.ndarray)) or is_foreign(type(x))


def _binary(fun: Callable[..., Any], swapped: bool) -> Callable[..., Any]:
    def method(self: DeviceArray, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        return _compiled(fun, self.target)(*((other, self) if swapped else (self, other)))
    return method


def _unary(fun: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: DeviceArray) -> Any:
        return _compiled(fun, self.target)(self)
    return method


def _reduction(fun: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: DeviceArray, axis: Any = None) -> Any:
        return _compiled(fun, self.target, ("axis",))(self, axis)
    return method


def _install() -> None:
    """Gives the class its operators and methods."""
    methods: dict[str, Callable[..., Any]] = {}
    fun: Callable[..., Any]
    for fun in (*REFLECTED, *COMPARISONS):
        methods[f"__{fun.__name__}__"] = _binary(fun, False)
    for fun in REFLECTED:
        methods[f"__r{fun.__name__}__"] = _binary(fun, True)
    for fun in UNARY:
        methods[f"__{fun.__name__}__"] = _unary(fun)
    for fun in REDUCTIONS:
        methods[fun.__name__] = _reduction(fun)
    for name, method in methods.items():
        method.__name__ = name
        method.__qualname__ = f"DeviceArray.{name}"
        setattr(DeviceArray, name, method)
    DeviceArray.__hash__ = None                              # type: ignore[assignment]


_install()
