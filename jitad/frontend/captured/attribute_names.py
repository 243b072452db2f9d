"""The attribute names that a function may read, found in its code and the code that it may call."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

from .user_classes import is_user_class, trusted

MOST_FUNCTIONS = 300            # maximum number of functions that are searched for names


def attribute_names(fun: Any) -> set[str]:
    """The names that a function and its possible callees use: a superset of the attributes that they read."""
    names: set[str] = set()
    seen: set[int] = set()
    todo = [fun]
    while todo and len(seen) < MOST_FUNCTIONS:
        f = todo.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        todo += _behind(f)
        if isinstance(f, types.FunctionType) and not trusted(f.__globals__.get("__name__")):
            used = {n for code in _codes(f.__code__) for n in _used(code)}
            names |= used
            todo += [f.__globals__[n] for n in used if n in f.__globals__]
    return names


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _codes(c)


def _used(code: types.CodeType) -> Iterable[str]:
    return [*code.co_names, *(c for c in code.co_consts if isinstance(c, str) and c.isidentifier())]


def _behind(f: Any) -> list[Any]:
    """The functions that a call of this object may reach."""
    if isinstance(f, types.FunctionType):
        return [v for c in f.__closure__ or () if (v := _held(c)) is not None]
    if isinstance(f, types.MethodType):
        return [f.__func__, f.__self__]
    if getattr(type(f), "is_jitad", False):
        return [f.py_func]
    if hasattr(type(f), "with_parts") and not isinstance(f, tuple):
        return list(f.parts())
    cls = f if isinstance(f, type) else type(f)
    if trusted(cls.__module__) or not is_user_class(cls):
        return []
    found = [v for c in cls.__mro__ for v in vars(c).values()]
    return [getattr(v, "fget", None) or getattr(v, "func", None) or getattr(v, "__func__", v) for v in found]


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
