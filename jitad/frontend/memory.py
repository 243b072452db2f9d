"""What has been compiled from a function, kept with it, so that equal transforms of it are compiled once.

Methods of objects of the user's classes share what has been compiled from the function.  Others take the object as a
constant, and so does a ``functools.partial``: what is compiled is theirs for as long as the object holds what it held
then.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections import OrderedDict, deque
from typing import Any

import numpy as np

_MEMO = "__jitad_compiled__"
_MOST_OBJECTS = 64                                          # that are remembered: objects come and go
_MOST_PARTS = 10_000                                        # of an object; a larger one is never taken for unchanged
_objects: OrderedDict[tuple[int, int], tuple[Any, Any, dict[Any, Any]]] = OrderedDict()


def compiled_of(fun: Any) -> dict[Any, Any]:
    """What has been compiled from a function; it lives as long as the function does."""
    if isinstance(fun, types.MethodType):
        return of_object(fun.__self__, fun.__func__, contents(fun.__self__))
    if isinstance(fun, functools.partial):                  # whose attributes are copied and pickled with it
        return of_object(fun, functools.partial, contents(fun))
    if isinstance(inspect.getattr_static(type(fun), "__call__", None), types.FunctionType) and not _is_own(fun):
        return of_object(fun, type(fun), contents(fun))
    known: tuple[Any, dict[Any, Any]] | None = getattr(fun, _MEMO, None)
    if known is None or known[0] is not fun:                # wrappers copy the attributes of what they wrap
        known = (fun, {})
        try:
            setattr(fun, _MEMO, known)
        except (AttributeError, TypeError):
            pass                                            # an object or a class without room: compiled each time
    return known[1]


def of_object(obj: Any, what: Any, now: Any) -> dict[Any, Any]:
    """What is kept with an object and a function, for as long as the object is ``now`` what it was then."""
    key = id(obj), id(what)
    known = _objects.get(key)
    if known is None or known[1] != now:
        known = _objects[key] = ((obj, what), now, {})      # which keeps both alive, and their ids theirs
    _objects.move_to_end(key)
    while len(_objects) > _MOST_OBJECTS:
        _objects.popitem(last=False)
    return known[2]


def _is_own(x: Any) -> bool:
    return str(type(x).__module__).split(".")[0] == "jitad"


class _Same:
    """Something that is compared by identity; it is kept alive."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.x is other.x

    __hash__ = object.__hash__


def contents(obj: Any) -> Any:
    """What an object holds, to be compared: numbers and text by value, structures through and through, arrays and
    functions by identity, since what is in an array is read at each call.
    """
    budget, seen = _MOST_PARTS, set[int]()

    def walk(x: Any) -> Any:
        nonlocal budget
        budget -= 1
        if budget < 0:
            return object()
        if x is None or isinstance(x, (bool, int, float, str, np.generic)):
            return type(x), repr(x)
        if isinstance(x, (type, types.ModuleType, types.FunctionType, np.ndarray)) or _is_own(x):
            return _Same(x)
        if id(x) in seen:
            return "seen", id(x)
        seen.add(id(x))
        if isinstance(x, (tuple, list)):
            return type(x), [walk(v) for v in x]
        if isinstance(x, (set, frozenset, deque)):
            return type(x), [walk(v) for v in x]
        if isinstance(x, dict):
            return type(x), [(walk(k), walk(v)) for k, v in x.items()]
        if isinstance(x, types.MethodType):
            return _Same(x.__func__), walk(x.__self__)
        if isinstance(x, functools.partial):
            return _Same(x), walk(x.func), walk(x.args), walk(x.keywords)
        names = [n for c in type(x).__mro__ for n in _slots(c)] + list(getattr(x, "__dict__", ()))
        return _Same(x), [(n, walk(getattr(x, n, None))) for n in names]
    try:
        return walk(obj)
    except RecursionError:
        return object()


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(n for n in names if n not in ("__dict__", "__weakref__"))
