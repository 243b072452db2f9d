"""What has been compiled from a function, kept with it, so that equal transforms of it are compiled once.

Methods of objects of the user's classes share what has been compiled from the function.  Others take the object as a
constant, and so does a ``functools.partial``: what is compiled is theirs for as long as the object holds what it held
then.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections import OrderedDict
from typing import Any

from ..captured.contents import contents, is_own

_MEMO = "__jitad_compiled__"
_MOST_OBJECTS = 64                                          # that are remembered: objects come and go
_objects: OrderedDict[tuple[int, int], tuple[Any, Any, dict[Any, Any]]] = OrderedDict()


def compiled_of(fun: Any) -> dict[Any, Any]:
    """What has been compiled from a function; it lives as long as the function does."""
    if isinstance(fun, types.MethodType):
        return of_object(fun.__self__, fun.__func__, contents(fun.__self__))
    if isinstance(fun, functools.partial):                  # whose attributes are copied and pickled with it
        return of_object(fun, functools.partial, contents(fun))
    if isinstance(inspect.getattr_static(type(fun), "__call__", None), types.FunctionType) and not is_own(fun):
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
