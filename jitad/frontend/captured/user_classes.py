"""Classes of the user, and those whose objects are read field by field."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import types
import weakref
from typing import Any

import numpy as np

from ..columns.recursive_types import family_of

_PACKAGES = frozenset(("jitad", "numpy", "scipy", "llvmlite"))
_STDLIB = tuple({os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")})
_HEAP_TYPE = 1 << 9


def trusted(module: object) -> bool:
    """True if a module's contents are trusted never to change: the standard library, NumPy, jitad itself."""
    package = str(module).partition(".")[0]
    return package in _PACKAGES or in_stdlib(package)


def in_stdlib(package: str) -> bool:
    """True if the loaded module of this name is the standard library's: a user's file may be called ``test`` too."""
    if package not in sys.stdlib_module_names:
        return False
    known = _in_stdlib.get(package)
    if known is None:
        if (module := sys.modules.get(package)) is None or package == "__main__":
            return False
        file = getattr(module, "__file__", None)
        known = _in_stdlib[package] = file is None or os.path.realpath(file).startswith(_STDLIB)
    return known


_in_stdlib: dict[str, bool] = {}


def openable(cls: type) -> bool:
    """True if objects of a class are read field by field: plain objects of classes that the user wrote in Python."""
    known = _openable.get(cls)
    if known is None:
        known = _openable[cls] = _is_openable(cls)
    return known


_openable: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _is_openable(cls: type) -> bool:
    if type(cls) is not type or not all(c is object or c.__flags__ & _HEAP_TYPE for c in cls.__mro__):
        return False
    plain = is_user_class(cls) and not trusted(cls.__module__) and not issubclass(cls, (tuple, type))
    own_reading = inspect.getattr_static(cls, "__getattribute__") is not vars(object)["__getattribute__"]
    of_jitad = hasattr(cls, "traced_call") or hasattr(cls, "is_jitad")
    return plain and not own_reading and not of_jitad and family_of(cls) is None


def is_user_class(v: Any) -> bool:
    """True for a class whose objects can be read field by field."""
    if not isinstance(v, type) or v.__module__ in ("builtins", "numpy") or issubclass(v, (BaseException, np.generic)):
        return False
    if type(v).__call__ is not type.__call__:                      # such as the class of an enum
        return False
    return issubclass(v, tuple) or v.__new__ is object.__new__ or isinstance(v.__new__, types.FunctionType)
