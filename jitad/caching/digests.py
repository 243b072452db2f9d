"""Digests of functions, classes and constants: equal if the same source would be compiled with the same result.

A function is its code object, and the text from which the code was compiled: the compiler reads that text, which says
more than the code (``assert`` under ``python -O``).  A class is everything in it and in its bases, apart from values
that guards compare: attributes of a class that a program reads.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import linecache
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..frontend.captured.user_classes import trusted
from ..frontend.syntax import carried

_CODE = ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_argcount", "co_posonlyargcount",
         "co_kwonlyargcount", "co_flags", "co_names", "co_varnames", "co_freevars", "co_cellvars")
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, np.generic, np.dtype)


class Undigestible(Exception):
    """Something of which nothing is known that another process could compare."""


def joined(parts: Iterable[Any]) -> str:
    """A digest of texts and bytes, which tells where one ends and the next begins."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode(errors="surrogatepass")
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.hexdigest()


# --- functions ------------------------------------------------------------------------------------

def of_code(code: types.CodeType) -> str:
    return _once(lambda code: joined([_of_code(code), *_source(code)]), code)


def _of_code(code: types.CodeType) -> str:
    facts = [repr(getattr(code, name)) for name in _CODE]
    constants = [_of_code(c) if isinstance(c, types.CodeType) else constant(c) for c in code.co_consts]
    return joined([*facts, code.co_code, code.co_linetable, code.co_exceptiontable, *constants])


def _source(code: types.CodeType) -> list[str]:
    """The lines of a function, as ``frontend.syntax.source`` reads them; none if there is no source."""
    lines = carried.lines(code)
    if lines is None:
        lines = linecache.getlines(code.co_filename)
    last = max((line for _, line, _, _ in code.co_positions() if line is not None), default=code.co_firstlineno)
    return lines[code.co_firstlineno - 1:last]


_known: dict[int, tuple[Any, str]] = {}


def forget() -> None:
    """Forget the digests made so far: functions and classes may be changed."""
    _known.clear()


def _once(make: Callable[[Any], str], obj: Any) -> str:
    """``make(obj)``, made once until ``forget`` is called."""
    known = _known.get(id(obj))
    if known is None:
        known = _known[id(obj)] = obj, make(obj)
    return known[1]


def of_function(fun: types.FunctionType) -> str:
    """The digest of a function with its default arguments, without what it captures."""
    return _once(_of_function, fun)


def _of_function(fun: types.FunctionType) -> str:
    named = sorted((fun.__kwdefaults__ or {}).items())
    return joined([of_code(fun.__code__), fun.__globals__.get("__name__"), *map(described, fun.__defaults__ or ()),
                   "named", *(part for name, value in named for part in (name, described(value)))])


def described(value: Any) -> str:
    """A constant, or the type of what guards and references compare: arrays, lists, functions."""
    try:
        return constant(value)
    except Undigestible:
        return f"{type(value).__module__}.{type(value).__qualname__}"


# --- constants ------------------------------------------------------------------------------------

def constant(value: Any) -> str:
    """The digest of an immutable constant."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, enum.Enum):
        return joined([kind, value.name, of_class(type(value))])
    if isinstance(value, np.generic):
        return joined([kind, value.dtype.str, value.tobytes()])
    if isinstance(value, _CONSTANTS):
        return joined([kind, repr(value)])
    if isinstance(value, (tuple, frozenset)) and type(value) in (tuple, frozenset):
        parts = list(map(constant, value))
        return joined([kind, *(parts if isinstance(value, tuple) else sorted(parts))])
    raise Undigestible(f"a {kind}")


# --- classes --------------------------------------------------------------------------------------

_IGNORED = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__jitad_compiled__", "__abstractmethods__",
                      "_abc_impl", "__annotations_cache__", "__firstlineno__", "__static_attributes__"))


def of_class(cls: type) -> str:
    """The digest of a class of the user with its bases, and with the classes in its annotations."""
    return _once(_of_class, cls)


def _of_class(cls: type, around: frozenset[type] = frozenset()) -> str:
    if cls in around or trusted(cls.__module__):
        return f"{cls.__module__}.{cls.__qualname__}"
    inside = around | {cls}
    parts = [cls.__module__, cls.__qualname__, f"{type(cls).__module__}.{type(cls).__qualname__}",
             *(_of_class(base, inside) for base in cls.__bases__)]
    for name, value in sorted(vars(cls).items()):
        if name not in _IGNORED:
            parts += [name, _member(value, inside)]
    return joined(parts)


def _member(value: Any, around: frozenset[type]) -> str:
    """The digest of what stands in a class."""
    if isinstance(value, types.FunctionType):
        return of_function(value)
    if isinstance(value, (staticmethod, classmethod)):
        return joined([type(value).__name__, _member(value.__func__, around)])
    if isinstance(value, property):
        return joined(["property", *(_member(f, around) for f in (value.fget, value.fset, value.fdel))])
    if isinstance(value, functools.cached_property):
        return joined(["cached_property", _member(value.func, around)])
    if getattr(type(value), "is_jitad", False):
        return joined(["jit", _member(value.py_func, around), *sorted(map(str, value.jit_options.items()))])
    if isinstance(value, type):
        return _of_class(value, around)
    if isinstance(value, dataclasses.Field):
        facts = (value.name, value.init, value.repr, value.hash, value.compare, value.kw_only)
        made = (_member(x, around) for x in (value.type, value.default, value.default_factory))
        return joined([*map(repr, facts), *made])
    if isinstance(value, (dict, types.MappingProxyType)):
        return joined([type(value).__name__, *(part for k, v in value.items()
                                               for part in (_member(k, around), _member(v, around)))])
    if isinstance(value, (tuple, list)):
        return joined([type(value).__name__, *(_member(v, around) for v in value)])
    if isinstance(value, (types.UnionType, types.GenericAlias)) or type(value).__module__ == "typing":
        return joined([repr(value), *(_member(v, around) for v in getattr(value, "__args__", ()))])
    if isinstance(value, enum.Enum):
        return joined([type(value).__qualname__, value.name, _member(value.value, around)])
    try:
        return constant(value)
    except Undigestible:
        return f"{type(value).__module__}.{type(value).__qualname__}"


# --- versions -------------------------------------------------------------------------------------

def version(module: str | None) -> str:
    """The version of the package that a trusted module belongs to; ``""`` for the standard library."""
    package = sys.modules.get((module or "").partition(".")[0])
    return str(getattr(package, "__version__", ""))
