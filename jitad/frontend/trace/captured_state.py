"""Reads captured state: a value becomes a parameter of the program, or a constant with a guard.

A float or an array at a place (``captured.places``) is an additional parameter of the IR functions that read it.  Calls
pass it on (``Trace.consts``), and it is bound when the program is called.  An integer is a constant until it changes.
Then the program is compiled again with a parameter in its place (``widened``).  Tuples, lists, dicts and objects of the
user's classes are read element by element, like those among the arguments.  Other values are guarded by identity.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.types import INSTEAD, Array, Type, from_numpy
from ..captured.array_classes import ARRAYS
from ..captured.captures import Captures, NeedName
from ..captured.contents import contents
from ..captured.guards import constant_number, flat, keys_of, present
from ..captured.places import MISSING, Place, in_globals, of_class, of_object
from ..captured.user_classes import openable, trusted
from ..columns.list_columns import LONG
from ..columns.pack import Packed
from ..values.closures import BoundMethod
from ..values.lattice import is_number, scalar_type
from ..values.protocol import Trace
from ..values.values import ARGUMENT, CONSTANT, ArrayObj, ArrayRef, DictObj, Instance, ListObj, Obj, Sym

MOST_ITEMS = LONG               # longest list or dict that is read element by element; a longer one is a constant
_DATA = (bool, str, bytes, type(None), complex, np.bool_, range, type(Ellipsis), np.dtype)


class CapturedState(Trace):
    """The part of ``Trace`` for captured state."""

    consts: dict[Place, Any]
    opened_at: dict[Place, tuple[Any, Any]]

    def captured_value(self, place: Place) -> Any:
        """The user value of the object at a place, which must not be empty."""
        return self.open(place, self.session.captures.read(place))

    def global_value(self, table: dict[str, Any], name: str) -> Any:
        """The user value of a global variable, or ``MISSING`` with a guard if it does not exist."""
        place = in_globals(table, name)
        v = self.session.captures.read(place)
        if trusted(table.get("__name__")):
            return v if v is MISSING else self.lift(v)
        if v is MISSING:
            self.session.captures.guard(place, "absent", None)
            return v
        return self.open(place, v)

    def cell_value(self, table: dict[str, Any], cell: Any) -> Any:
        """The user value of a closure cell of a function of this module, or ``MISSING`` with a guard if it is empty."""
        place = Place("cell", cell)
        v = self.session.captures.read(place)
        if trusted(table.get("__name__")):
            return self.lift(v)
        if v is MISSING:
            self.session.captures.guard(place, "absent", None)
            return v
        return self.open(place, v)

    def open(self, place: Place, v: Any) -> Any:
        """The user value of ``v``, which has been read at ``place``."""
        o: Captures = self.session.captures
        cls = type(v)
        if cls in ARRAYS:
            return self._array(place, v)
        if cls in (float, int) or isinstance(v, np.generic) and is_number(v):
            return self._number(place, v)
        if isinstance(v, _DATA) and (cls in _DATA or cls.__module__ == "numpy"):
            o.guard(place, "means", v)
            return v
        if cls is types.MethodType:
            return self._method(place, v)
        if isinstance(v, tuple) and len(v) <= MOST_ITEMS and (cls is tuple or hasattr(cls, "_fields")):
            return self._tuple(place, v)
        if cls in (list, dict) or openable(cls):
            return self._structure(o.canonical(place, v), v)
        if cls is Packed:
            return self._packed(place, v)
        if isinstance(v, (tuple, list, dict, set, bytearray)) or _container(cls):
            self._constant_container(place, v)
            return v
        o.guard(place, "is", v)
        return v

    def _array(self, place: Place, v: np.ndarray) -> Any:
        if v.ndim == 0:
            return self.open(Place("number", place), v[()])
        return self.constant(self.session.captures.canonical(place, v))

    def _number(self, place: Place, v: Any) -> Any:
        """A parameter for a float, and for an integer that has changed before; otherwise a constant."""
        o: Captures = self.session.captures
        if type(v) is np.bool_:
            parameter = False
        elif constant_number(v):
            parameter = place in o.widened
        else:
            parameter = not o.constants
        if parameter:
            dtype, weak = scalar_type(v)
            o.types.setdefault(place, (dtype, bool(weak)))
            return self.constant(place)
        o.guard(place, "means", v)
        return v

    def _method(self, place: Place, v: types.MethodType) -> BoundMethod:
        self.session.captures.guard(place, "type", types.MethodType)
        self.session.captures.guard(place.attribute("__func__"), "is", v.__func__)
        return BoundMethod(v.__func__, self.open(place.attribute("__self__"), v.__self__))

    def _tuple(self, place: Place, v: Any) -> Any:
        self.session.captures.guard(place, "type", type(v))
        self.session.captures.guard(place, "count", len(v))
        items = [self.open(place.item(i), x) for i, x in enumerate(v)]
        return tuple(items) if type(v) is tuple else type(v)._make(items)

    def _packed(self, place: Place, v: Packed) -> Any:
        self.session.captures.guard(place.attribute("_root"), "is", v._root)
        leaves = place.attribute("_leaves")
        return self.imported(Packed(v._root, [self.open(leaves.item(i), x) for i, x in enumerate(v._leaves)]))

    def lift(self, v: Any) -> Any:
        """The user value of a captured constant: its mutable parts are read at each call."""
        o: Captures = self.session.captures
        if type(v) is Packed:
            return self.imported(Packed(v._root, [self.lift(x) for x in v._leaves]))
        if type(v) in ARRAYS:
            return self.open(of_object(v), v)
        return self._structure(o.canonical(of_object(v), v), v) if type(v) in (list, dict) or openable(type(v)) else v

    def _constant_container(self, place: Place, v: Any) -> None:
        """Compiles in all elements of a container, with a guard."""
        items = flat(v) if type(v) in (list, tuple, dict) else None
        if items is not None:
            self.session.captures.guard(place, "items", (type(v), items))
            return
        content = contents(v)
        if content != contents(v):
            self.unsupported(f"reads a {type(v).__name__} of more parts than can be looked at in each call from "
                             "outside the function", "pass it as an argument, or an array in its place")
        self.session.captures.guard(place, "content", content)

    # --- structures -------------------------------------------------------------------------------

    def _structure(self, place: Place, v: Any) -> Any:
        """The user value of a list, a dict or an object."""
        known = self.opened_at.get(place)
        if known is not None:
            self._restore(*known)
            return known[0]
        o: Captures = self.session.captures
        if not openable(type(v)) and len(v) > MOST_ITEMS:
            self._constant_container(place, v)
            self.opened_at[place] = v, None
            return v
        o.guard(place, "type", type(v))
        readonly = ARGUMENT if place.root.kind == "argument" else CONSTANT
        obj = ListObj(readonly) if type(v) is list else DictObj(readonly) if type(v) is dict else \
            Instance(type(v), readonly)
        self.opened_at[place] = obj, None
        content = self._items(place, v)
        self.opened_at[place] = obj, content
        self.state[obj] = content
        return obj

    def _restore(self, v: Any, content: Any = None) -> None:
        """Restores the contents of a captured value that was first read on another path: all paths share it."""
        if isinstance(v, tuple):
            for x in v:
                self._restore(x)
        elif isinstance(v, BoundMethod):
            self._restore(v.parts())
        elif isinstance(v, ArrayRef):
            place = self._place_of(v.obj)
            if place is not None:
                self.constant(place)
        elif isinstance(v, (ListObj, DictObj, Instance)) and content is None:
            known = next((c for obj, c in self.opened_at.values() if obj is v), None)
            if known is not None:
                self._restore(v, known)
        elif content is not None and v not in self.state:
            self.state[v] = content
            self._restore(tuple(content.values()) if isinstance(content, dict) else content)

    def _place_of(self, v: Any) -> Place | None:
        """The place of the captured value that a user value stands for."""
        for place, known in self.consts.items():
            if known is v or isinstance(known, ArrayRef) and known.obj is v:
                return place
        return next((place for place, (obj, _) in self.opened_at.items() if obj is v), None)

    def _items(self, place: Place, v: Any) -> Any:
        o: Captures = self.session.captures
        if type(v) is list:
            o.guard(place, "count", len(v))
            return tuple([self.open(place.item(i), x) for i, x in enumerate(v)])
        if type(v) is dict:
            o.guard(place, "keys", keys_of(v))
            return {k: self.open(place.entry(k), x) for k, x in v.items()}
        o.classes.add(type(v))
        names = frozenset(o.names_of(type(v)))
        there = present(v, names)
        o.guard(place, "names", (names, there))
        return {n: self.open(place.field(n), o.read(place.field(n))) for n in sorted(there)}

    # --- arguments --------------------------------------------------------------------------------

    def constant(self, place: Place) -> Any:
        """A captured number or array as a parameter of the IR function, which callers bind."""
        known = self.consts.get(place)
        if known is None:
            type, weak = self._type_at(place)
            param = self.func.entry.add_param(type, "const")
            known = self.consts[place] = ArrayRef(ArrayObj(CONSTANT)) if isinstance(type, Array) else Sym(param, weak)
            if isinstance(known, ArrayRef):
                self.state[known.obj] = Sym(param)
        if isinstance(known, ArrayRef) and known.obj not in self.state:      # first read on another path
            at = list(self.consts).index(place)
            self.state[known.obj] = Sym(self.func.params[len(self.func.params) - len(self.consts) + at])
        return known

    def compiled_in(self, v: Any, useful: Callable[[float], bool]) -> Any:
        captures = self.session.captures
        place = self._place_of(v) if isinstance(v, Sym) and v.scalar.is_float else None
        if place is None or place in captures.widened:
            return v
        return self._guarded(place) if useful(float(captures.read(place))) else v

    def as_constant(self, v: Any) -> Any:
        if isinstance(v, Sym):
            place = self._place_of(v)
            return v if place is None else self._guarded(place)
        if isinstance(v, (ListObj, DictObj)):
            place = self._place_of(v)
            if place is None or v.readonly != CONSTANT:
                return v
            found = self.session.captures.read(place)
            self._constant_container(place, found)
            return found
        if isinstance(v, tuple):
            items = [self.as_constant(x) for x in v]
            return tuple(items) if type(v) is tuple else type(v)._make(items)          # type: ignore[attr-defined]
        return v

    def _guarded(self, place: Place) -> Any:
        """The number at a place as a constant, with a guard."""
        value = self.session.captures.read(place)
        self.session.captures.guard(place, "means", value)
        return value

    def _type_at(self, place: Place) -> tuple[Type, bool]:
        o: Captures = self.session.captures
        if place not in o.types:
            array = o.read(place)
            dtype = from_numpy(array.dtype)
            if dtype is None:
                return self.unsupported(f"an array of dtype {array.dtype}", f"convert to {INSTEAD} outside")
            dims = tuple(n if n == 1 or place not in o.widened else None for n in array.shape)
            o.types[place] = Array(dtype, dims), False
        return o.types[place]

    # --- functions, classes, modules --------------------------------------------------------------

    def trusts(self, v: Any) -> bool:
        """True if a module or a class is trusted never to change."""
        return trusted(v.__module__ if isinstance(v, type) else v.__name__)

    def is_fixed(self, v: Any) -> bool:
        """True if the attributes of a static value never change."""
        cls = type(v)
        return trusted(cls.__module__) and cls is not types.SimpleNamespace or cls.__module__ == "builtins" and \
            not isinstance(v, types.FunctionType) or isinstance(v, (type, types.ModuleType)) and self.trusts(v)

    def in_class(self, cls: type, name: str) -> Any:
        """The attribute of a class or its bases, without binding, or ``MISSING`` if there is none."""
        place = of_class(cls, name)
        found = self.session.captures.read(place)
        if not trusted(cls.__module__):
            fixed = found is MISSING or hasattr(type(found), "__get__")
            self.session.captures.guard(place, "is" if fixed else "plain", found if fixed else None)
        return found

    def function_parts(self, fun: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The defaults of a Python function: positional, and by keyword."""
        if trusted(fun.__globals__.get("__name__")):
            return fun.__defaults__ or (), fun.__kwdefaults__ or {}
        place, o = of_object(fun), self.session.captures
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            o.guard(place.attribute(name), "is", getattr(fun, name))
        defaults = tuple([self.lift(v) for v in fun.__defaults__ or ()])         # a tuple, which keeps them alive
        return defaults, self._named(fun.__kwdefaults__) if fun.__kwdefaults__ else {}

    def partial_parts(self, fun: functools.partial[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that a ``functools.partial`` holds: positional, and by keyword."""
        return tuple([self.lift(v) for v in fun.args]), self._named(fun.keywords)

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values of a dict of keyword arguments, which the user may change."""
        place = of_object(values)
        self.session.captures.guard(place, "keys", keys_of(values))
        return {k: self.open(place.entry(k), v) for k, v in values.items()}

    def compared(self, x: Any, y: Any) -> None:
        """Guards that two different captured objects remain different, since their identity is compared."""
        found = [self._place_of(v.obj if isinstance(v, ArrayRef) else v) if isinstance(v, (ArrayRef, Obj)) else None
                 for v in (x, y)]
        if found[0] is not None and found[1] is not None and found[0] != found[1]:
            self.session.captures.guard(found[0], "apart", found[1])

    def identified(self, obj: Instance) -> Any:
        """The object from outside for which an instance stands; that it is this one is guarded."""
        place = self._place_of(obj)
        if place is None:
            return None
        found = self.session.captures.read(place)
        if place.kind != "object":
            self.session.captures.guard(place, "is", found)
        return found

    def own_rules(self, custom: Any) -> None:
        """Adds a guard on the rules of a function, unless traced code makes it: the user may replace them."""
        if isinstance(custom.fun, types.FunctionType) and not trusted(custom.fun.__globals__.get("__name__")):
            self.session.captures.guard(of_object(custom).attribute("rules"), "is", custom.rules)

    def expects(self, obj: Instance, name: str) -> None:
        """Restarts the trace if an attribute is read that has not been read from captured objects."""
        o: Captures = self.session.captures
        o.asked.setdefault(obj.cls, set()).add(name)
        if obj.cls in o.classes and not name.startswith("__") and name not in o.names_of(obj.cls):
            raise NeedName(obj.cls, name)


def _container(cls: type) -> bool:
    """True for a class of the standard library, or derived from one, that holds elements: ``deque``, ``Counter``, …"""
    return any(c.__module__ == "collections" or c in (list, dict, set, tuple) for c in cls.__mro__)
