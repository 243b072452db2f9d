"""References to functions, classes and modules of a process, by which another process finds its own.

A reference is a tuple; other objects are named by their numbers in the list of references::

    root                      the function of the entry
    class i                   a class in the structure of the arguments, in the order of ``classes_of``
    static i                  a leaf of the arguments that is a constant
    layout i gradient         the static part of the structure of a tree among the arguments, or of its gradient
    module name               a loaded module
    name module path          what a module has under a qualified name
    attr o name, item o i, cell f i, globals f        a part of an object
    at place                  what is at a place (``frontend.captured.places``)

Each has a digest of what it refers to, which must be the same.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..calling.signature import Signature, Static
from ..frontend.captured.guards import Guard
from ..frontend.captured.leaves import Opened
from ..frontend.captured.places import MISSING, Place
from ..frontend.captured.user_classes import trusted
from ..frontend.columns.layouts import Root
from ..frontend.columns.pack import Packed
from ..pytree import Structure
from .digests import Undigestible, constant, described, joined, of_class, of_code, of_function, version

Reference = tuple[Any, ...]
_PARTS = (types.CellType, types.MethodType, staticmethod, classmethod, property, functools.cached_property, tuple, list,
          dict, np.ndarray)
"""Containers and descriptors: what is in them is compared by guards, or has references of its own."""
_BUILTIN = (types.BuiltinFunctionType, np.ufunc, type(np.sum), types.MethodDescriptorType, types.WrapperDescriptorType,
            types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
            types.MethodWrapperType)


class Unnameable(Exception):
    """An object that another process cannot find."""


def found(module: str | None, path: Any) -> Any:
    """The object that a loaded module has under a qualified name, or ``MISSING``."""
    at: Any = sys.modules.get(module or "", MISSING)
    for part in str(path).split("."):
        at = getattr(at, part, MISSING)
    return at


# --- what an object is made of --------------------------------------------------------------------

def digest(obj: Any) -> str:
    """The text by which the object at the end of a reference is compared."""
    if isinstance(obj, types.FunctionType):
        return _trusted_function(obj) if trusted(obj.__globals__.get("__name__")) else of_function(obj)
    if isinstance(obj, functools.partial):
        return joined(["partial", *map(described, obj.args), *map(repr, obj.keywords),
                       *map(described, obj.keywords.values())])
    if isinstance(obj, types.CodeType):
        return of_code(obj)
    if isinstance(obj, type):
        return of_class(obj) + (version(obj.__module__) if trusted(obj.__module__) else "")
    if isinstance(obj, types.ModuleType):
        return joined(["module", obj.__name__, version(obj.__name__) if trusted(obj.__name__) else ""])
    kind = f"{type(obj).__module__}.{type(obj).__qualname__}"
    if getattr(type(obj), "is_jitad", False):
        return joined([kind, *sorted(map(repr, obj.jit_options.items()))])
    if isinstance(obj, enum.Enum):
        return constant(obj)
    if isinstance(obj, _BUILTIN):
        module = getattr(obj, "__module__", None) or getattr(getattr(obj, "__objclass__", None), "__module__", None)
        return joined([kind, getattr(obj, "__name__", ""), version(module), _file_of(module)])
    if type(obj).__module__.startswith("jitad.") and hasattr(obj, "fun"):            # a transform or a custom rule
        return joined([kind, _described(getattr(obj, "static", ())),
                       *sorted(map(repr, getattr(obj, "options", {}).items()))])
    module, path = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if isinstance(module, str) and trusted(module) and path is not None and found(module, path) is obj:
        return joined([kind, module, path, version(module)])
    if isinstance(obj, _PARTS) or type(obj) is Root:
        return kind
    raise Unnameable(f"an object of type {kind}")                # such as a function with ``lru_cache``


def _trusted_function(fun: types.FunctionType) -> str:
    """The digest of a function of a library, whose source is that of the version.

    What such a function captures is compiled in without a guard, so it must be the same in all processes.
    """
    if found(fun.__module__, fun.__qualname__) is not fun and fun.__closure__:
        raise Unnameable(f"{fun.__module__}.{fun.__qualname__}, a function that a library has made in this process")
    return joined([fun.__module__, fun.__qualname__, version(fun.__module__), of_code(fun.__code__)])


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return joined([type(value).__name__, *map(_described, value)])
    if isinstance(value, Structure):
        kind = "" if value.type is None else of_class(value.type)
        return joined([kind, _described(value.static), *map(_described, value.children)])
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("jitad."):
        return joined([type(value).__qualname__,
                       *(_described(getattr(value, field.name)) for field in dataclasses.fields(value))])
    try:
        return constant(value)
    except Undigestible:
        raise Unnameable(f"an option of type {type(value).__name__}") from None


def _file_of(module: str | None) -> str:
    """Path, time and size of an extension module whose package has no version: they change if it is replaced."""
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    if file is None or trusted(module):
        return ""
    try:
        facts = os.stat(file)
    except OSError:
        return ""
    return f"{file} {facts.st_mtime_ns} {facts.st_size}"


def parts(obj: Any) -> Iterator[tuple[str, Any]]:
    """The functions and containers inside of an object, with the names of its attributes."""
    if isinstance(obj, types.FunctionType):
        yield from (("__code__", obj.__code__), ("__defaults__", obj.__defaults__),
                    ("__kwdefaults__", obj.__kwdefaults__))
    elif getattr(type(obj), "is_jitad", False):
        yield "py_func", obj.py_func
    elif isinstance(obj, (types.MethodType, staticmethod, classmethod)):
        yield "__func__", obj.__func__
    elif isinstance(obj, property):
        yield from ((name, getattr(obj, name)) for name in ("fget", "fset", "fdel"))
    elif isinstance(obj, functools.cached_property):
        yield "func", obj.func
    elif isinstance(obj, functools.partial):
        yield from (("func", obj.func), ("args", obj.args), ("keywords", obj.keywords))
    elif type(obj).__module__.startswith("jitad.") and hasattr(obj, "fun"):
        yield from ((name, getattr(obj, name)) for name in ("fun", "rules", "transform") if hasattr(obj, name))


def statics_of(structure: Structure) -> Iterator[Structure]:
    """The nodes of a structure for trees, which have one static part for each layout."""
    if structure.type is Packed:
        yield structure
    for child in structure.children:
        yield from statics_of(child)


def classes_of(structure: Structure) -> list[type]:
    """The classes in a structure, each once."""
    known: dict[type, None] = {}

    def walk(s: Structure) -> None:
        if s.type is not None and s.type.__module__ not in ("builtins", "collections"):
            known[s.type] = None
        if s.type is Packed:
            known.update(dict.fromkeys(s.static.layout.family.classes))
        for child in s.children:
            walk(child)
    walk(structure)
    return list(known)


# --- writing --------------------------------------------------------------------------------------

class Writer:
    """The references of an entry, in an order in which each is found from earlier ones."""

    def __init__(self, root: Any, signature: Signature, leaves: Sequence[Any], guards: Sequence[Guard]) -> None:
        self.references: list[Reference] = []
        self.digests: list[str] = []
        self._numbers: dict[int, int] = {}
        self._ways: dict[int, Callable[[], Reference]] = {}      # how objects are reached that have no names
        self._given: dict[int, Reference] = {}                   # what is known before the entry is read
        self._objects: list[Any] = []                            # alive, as their ids are used
        self._open: set[int] = set()
        self._known(root, "root")
        for i, cls in enumerate(classes_of(signature.structure)):
            self._known(cls, "class", i)
        for i, leaf in enumerate(signature.leaves):
            if isinstance(leaf, (Static, Opened)):
                self._known(leaf.value if isinstance(leaf, Static) else leaf.cls, "static", i)
        for i, node in enumerate(statics_of(signature.structure)):
            self._known(node.static, "layout", i, False)
            self._known(node.static.gradient(), "layout", i, True)
        for guard in guards:
            if guard.test == "is":
                self._way(guard.expected, functools.partial(self._at, guard.place))

    def _known(self, obj: Any, *reference: Any) -> None:
        if not isinstance(obj, (str, int, float, type(None))):
            self._given.setdefault(id(obj), reference)
            self._way(obj, lambda: reference)

    def _way(self, obj: Any, way: Callable[[], Reference]) -> None:
        """Note how an object is reached, and the objects inside of it."""
        if id(obj) in self._ways or obj is None or isinstance(obj, (str, int, float)):
            return
        self._ways[id(obj)] = way
        self._objects.append(obj)
        for name, part in parts(obj):
            self._way(part, functools.partial(self._part, "attr", obj, name))
        if isinstance(obj, types.FunctionType):
            for i, cell in enumerate(obj.__closure__ or ()):
                self._way(cell, functools.partial(self._part, "cell", obj, i))
            self._way(obj.__globals__, functools.partial(self._part, "globals", obj))
        elif isinstance(obj, type):
            for name, member in vars(obj).items():
                if isinstance(member, (types.FunctionType, staticmethod, classmethod, property)):
                    self._way(member, functools.partial(self._at, Place("member", obj, name)))
        elif isinstance(obj, (tuple, list)) or type(obj) is dict and len(obj) < 64 and "__builtins__" not in obj:
            for key, item in obj.items() if isinstance(obj, dict) else enumerate(obj):
                self._way(item, functools.partial(self._part, "item", obj, key))

    def _part(self, kind: str, obj: Any, *which: Any) -> Reference:
        return (kind, self.number(obj), *which)

    def _at(self, place: Place) -> Reference:
        return "at", self.place(place)

    def place(self, place: Place) -> tuple[Any, ...]:
        """A place as data."""
        if place.kind in ("global", "cell", "object", "member"):
            return place.kind, self.number(place.base), place.key
        base = None if place.kind == "argument" else self.place(place.base)
        return place.kind, base, place.key

    def number(self, obj: Any) -> int:
        """The number of the reference to an object; raises ``Unnameable``."""
        known = self._numbers.get(id(obj))
        if known is not None:
            return known
        if id(obj) in self._open:
            raise Unnameable(f"{obj!r} is only reached through itself")
        self._open.add(id(obj))
        try:
            reference = self._reference(obj)
        finally:
            self._open.discard(id(obj))
        self.references.append(reference)
        self.digests.append(digest(obj))
        self._objects.append(obj)
        self._numbers[id(obj)] = len(self.references) - 1
        if isinstance(obj, (types.FunctionType, functools.partial)):
            self._defaults_of(obj)
        return self._numbers[id(obj)]

    def _reference(self, obj: Any) -> Reference:
        if isinstance(obj, types.ModuleType) and sys.modules.get(obj.__name__) is obj:
            return "module", obj.__name__
        if id(obj) in self._given:
            return self._given[id(obj)]
        if type(obj) is dict and (named := sys.modules.get(obj.get("__name__", ""))) is not None and \
                vars(named) is obj:
            return "attr", self.number(named), "__dict__"
        module, path = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
        if isinstance(obj, enum.Enum):
            return "attr", self.number(type(obj)), obj.name
        if isinstance(path, str) and found(module, path) is obj:
            return "name", module, path
        owner, name = getattr(obj, "__objclass__", None), getattr(obj, "__name__", "")
        if owner is not None and getattr(owner, name, None) is obj:
            return "attr", self.number(owner), name
        if isinstance(obj, np.ufunc) and getattr(np, name, None) is obj:
            return "name", "numpy", name
        if isinstance(obj, types.BuiltinFunctionType) and isinstance(obj.__self__, types.ModuleType):
            if found(obj.__self__.__name__, name) is obj:
                return "name", obj.__self__.__name__, name
        way = self._ways.get(id(obj))
        if way is None:
            raise Unnameable(f"{type(obj).__name__} {getattr(obj, '__qualname__', '')}".strip())
        return way()

    def _defaults_of(self, fun: Any) -> None:
        """Functions among default arguments, and those of a ``partial``, are compiled in: their digests are needed."""
        if isinstance(fun, functools.partial):
            values: list[Any] = [*fun.args, *fun.keywords.values()]
        elif trusted(fun.__globals__.get("__name__")):
            return
        else:
            values = [*(fun.__defaults__ or ()), *(fun.__kwdefaults__ or {}).values()]
        for value in values:
            if callable(value):
                self.number(value)
