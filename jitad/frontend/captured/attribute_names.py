"""The attribute names that a function may read, found in its code and the code that it may call."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

from .user_classes import is_user_class, trusted

MOST_FUNCTIONS = 300            # maximum number of functions that are searched for names


def attribute_names(fun: Any) -> set[str]:
    """The names that a function and its possible callees use: about the attributes that they read.

    Methods count if they are special methods or if their name is used.  Attributes of objects that are themselves
    attributes may be missing: the trace restarts with their names.
    """
    names: set[str] = set()
    classes: dict[type, bool] = {}                 # those met, with a flag for classes of which objects are made
    seen: set[int] = set()
    todo = [fun]
    while todo and len(seen) < MOST_FUNCTIONS:
        f = todo.pop()
        if id(f) not in seen:
            seen.add(id(f))
            todo += _behind(f)
            _note_class(f, classes)
            if isinstance(f, types.FunctionType) and not trusted(f.__globals__.get("__name__")):
                used = {n for code in _codes(f.__code__) for n in _used(code)}
                names |= used
                todo += [f.__globals__[n] for n in used if n in f.__globals__]
        if not todo:
            todo = [m for c, made in classes.items() for m in _methods(c, names, made) if id(m) not in seen]
    return names


def _note_class(f: Any, classes: dict[type, bool]) -> None:
    cls = f if isinstance(f, type) else type(f)
    if not trusted(cls.__module__) and is_user_class(cls):
        classes[cls] = classes.get(cls, False) or isinstance(f, type)


def _methods(cls: type, names: set[str], made: bool) -> list[Any]:
    """The functions of a class that may be called: the special ones, and those whose name is in ``names``."""
    found = [v for c in cls.__mro__ for n, v in vars(c).items()
             if n in names or n.startswith("__") and n.endswith("__") and (made or n not in _CONSTRUCTION)]
    return [getattr(v, "fget", None) or getattr(v, "func", None) or getattr(v, "__func__", v) for v in found]


_CONSTRUCTION = frozenset(("__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"))


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
    return []


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
