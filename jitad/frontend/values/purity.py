"""Callables without Python source that may run while tracing.

A function written in Python is traced.  Any other function can only be called while tracing: once, and also on paths
that the program may not take.  That is correct only if it has no side effects and depends on nothing but its arguments.
Functions known to be pure are listed here; ``refusal`` gives a hint for all others.
"""

from __future__ import annotations

import bisect
import decimal
import functools
import inspect
import operator
import re
import struct
import types
import zlib
from array import array
from collections import Counter, OrderedDict, deque
from fractions import Fraction
from typing import Any

import numpy as np

# Classes with immutable objects: the objects may be made, and all their methods called.
IMMUTABLE: tuple[type, ...] = (
    bool, int, float, complex, str, bytes, tuple, frozenset, range, slice, type(None), type(Ellipsis),
    type(NotImplemented), decimal.Decimal, Fraction, np.generic, np.dtype, re.Pattern, re.Match, struct.Struct,
    types.MappingProxyType, types.GenericAlias, types.UnionType,
    operator.itemgetter, operator.attrgetter, operator.methodcaller)
_CHANGING = frozenset(("pack_into", "setflags", "setfield", "__setstate__", "__setattr__", "__delattr__",
                       "__init_subclass__"))

# Methods that only read their object.
_MUTABLE: tuple[type, ...] = (list, dict, set, bytearray, memoryview, deque, OrderedDict, array, Counter)
_READING = frozenset((
    "get", "keys", "values", "items", "copy", "index", "count", "union", "intersection", "difference", "isdisjoint",
    "symmetric_difference", "issubset", "issuperset", "tolist", "tobytes", "hex", "decode", "__len__", "__contains__",
    "__getitem__", "__add__", "__mul__", "__rmul__", "__or__", "__ror__", "__and__", "__sub__", "__xor__", "__copy__",
    "__deepcopy__"))
# Methods of every object; ``object``'s own read at most the names of its class.
_OF_ALL = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__str__", "__repr__", "__format__",
                     "__hash__", "__init__", "__sizeof__", "__new__", "mro", "__instancecheck__", "__subclasscheck__"))

_MODULES = frozenset(("math", "cmath", "unicodedata", "binascii"))
_FUNCTIONS: frozenset[Any] = frozenset((
    abs, all, any, ascii, bin, callable, chr, divmod, format, hash, hex, isinstance, issubclass, len, max, min, oct,
    ord, pow, repr, round, sorted, sum, set, operator.index, operator.indexOf, operator.countOf, operator.length_hint,
    bisect.bisect_left, bisect.bisect_right, struct.pack, struct.unpack, struct.calcsize, zlib.crc32, zlib.adler32,
    functools.cmp_to_key, str.maketrans, bytes.maketrans))

_BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType,
            types.WrapperDescriptorType, types.ClassMethodDescriptorType)
_OUTSIDE = "call it outside and pass the result; a function written in Python is compiled"


def is_pure(fun: Any) -> bool:
    """True if a callable without Python source has no side effects and depends only on its arguments."""
    try:
        if fun in _FUNCTIONS:
            return True
    except TypeError:                                        # unhashable
        return False
    if isinstance(fun, type):
        return _makes_a_constant(fun)
    if isinstance(fun, functools._lru_cache_wrapper):
        return True                                          # caching its results implies that extra calls do no harm
    if not isinstance(fun, _BUILTIN):
        return type(fun) is type(functools.cmp_to_key(min))
    owner = getattr(fun, "__self__", None)
    if isinstance(owner, types.ModuleType) or owner is None and not hasattr(fun, "__objclass__"):
        return getattr(fun, "__module__", None) in _MODULES
    return _is_pure_method(fun.__name__, _class_of_method(fun, owner), owner)


def _makes_a_constant(cls: type) -> bool:
    """True if a class has immutable objects and runs no user code when it makes one."""
    if not issubclass(cls, IMMUTABLE) or type(cls).__call__ is not type.__call__:
        return False
    return not any(isinstance(inspect.getattr_static(cls, name), (types.FunctionType, staticmethod))
                   for name in ("__new__", "__init__")) or cls is Fraction


def _class_of_method(fun: Any, owner: Any) -> type | None:
    """The class that defines a method; for a bound method it is found by name."""
    found: type | None = getattr(fun, "__objclass__", None)
    if found is not None:
        return found
    cls = owner if isinstance(owner, type) else type(owner)
    return next((c for c in cls.__mro__ if fun.__name__ in vars(c)), None)


def _is_pure_method(name: str, cls: type | None, owner: Any) -> bool:
    if cls is None or name in _CHANGING:
        return False
    if name == "__new__":                                    # of the class itself: ``owner``
        return isinstance(owner, type) and _makes_a_constant(owner)
    if cls in (object, type):
        return name in _OF_ALL
    if issubclass(cls, IMMUTABLE):
        return True
    # ``defaultdict`` and similar classes insert missing keys.
    return cls in _MUTABLE and name in _READING and not (name == "__getitem__" and hasattr(type(owner), "__missing__"))


def is_iterator(v: Any) -> bool:
    """True if iteration exhausts a captured value."""
    return hasattr(type(v), "__next__")


def refusal(fun: Any, name: str) -> tuple[str, str]:
    """The reason for refusing a callable that is not known to be pure, and a hint."""
    if isinstance(fun, type):
        return f"makes a `{name}` in compiled code", "make it outside, or use a class written in Python"
    return (f"`{name.lstrip('_')}` in compiled code: a function without Python source, which may have an effect",
            _OUTSIDE)
