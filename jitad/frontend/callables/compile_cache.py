"""The compiled code of a function, stored with it, so that equal transforms of a function are compiled once.

Methods of objects of the user's classes share the code compiled from their function.  For methods of other objects and
for ``functools.partial``, the object is a constant: their code is valid while the contents of the object are unchanged.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections import OrderedDict
from typing import Any

from ..captured.contents import contents, is_own

_MEMO = "__jitad_compiled__"
_MOST_OBJECTS = 64                                          # most recently used objects that are remembered
_objects: OrderedDict[tuple[int, int], tuple[Any, Any, dict[Any, Any]]] = OrderedDict()


class _Memo:
    """The table of a function, as its attribute; copied and pickled, it is empty."""

    def __init__(self, fun: Any = None) -> None:
        self.fun, self.table = fun, dict[Any, Any]()

    def __reduce__(self) -> Any:
        return _Memo, ()


def compiled_of(fun: Any) -> dict[Any, Any]:
    """The table of code compiled from a function, which lives as long as the function."""
    if isinstance(fun, types.MethodType):
        return of_object(fun.__self__, fun.__func__, contents(fun.__self__))
    if isinstance(fun, functools.partial):                  # the attributes of a partial are copied and pickled with it
        return of_object(fun, functools.partial, contents(fun))
    if isinstance(inspect.getattr_static(type(fun), "__call__", None), types.FunctionType) and not is_own(fun):
        return of_object(fun, type(fun), contents(fun))
    known: _Memo | None = getattr(fun, _MEMO, None)
    if known is None or known.fun is not fun:               # wrappers copy the attributes of the wrapped function
        known = _Memo(fun)
        try:
            setattr(fun, _MEMO, known)
        except (AttributeError, TypeError):
            pass                                            # no attributes can be set: compiled each time
    return known.table


def of_object(obj: Any, what: Any, now: Any) -> dict[Any, Any]:
    """The table of an object and a function; a new one if the contents of the object differ from ``now``."""
    key = id(obj), id(what)
    known = _objects.get(key)
    if known is None or known[1] != now:
        known = _objects[key] = ((obj, what), now, {})      # keeps both alive, so that their ids stay valid
    _objects.move_to_end(key)
    while len(_objects) > _MOST_OBJECTS:
        _objects.popitem(last=False)
    return known[2]
