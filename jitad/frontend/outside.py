"""What a program reads from outside: arguments where it can be, otherwise constants with a guard.

A float or an array at a place (``places``) is one more parameter of the IR functions that read it, handed down through
calls (``Trace.consts``) and bound when the program is called.  An integer is a constant until it changes: then
the program is compiled once more with an argument in its place (``widened``).  Tuples, lists, dicts and objects of the
user's classes are taken apart as those among the arguments are.  Of everything else the identity is guarded.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..ir.types import Array, Type, from_numpy
from .attributes import is_user_class
from .closures import BoundMethod
from .families import family_of
from .lattice import is_number, scalar_type
from .memory import contents
from .packed import Packed
from .places import (
    MISSING,
    Guard,
    Place,
    Reader,
    constant_number,
    flat,
    in_globals,
    keys_of,
    of_class,
    of_object,
    present,
)
from .pytree import field_names
from .values import CONSTANT, ArrayObj, ArrayRef, DictObj, Instance, ListObj, Obj, Sym, TracePart

ARGUMENT = "it belongs to the caller"
MOST_ITEMS = 64                 # of a list or dict that is taken apart; a longer one is a constant
MOST_FUNCTIONS = 300            # that are looked at for the names of attributes
_TRUSTED = frozenset((*sys.stdlib_module_names, "jitad", "numpy", "scipy", "llvmlite")) - {"__main__"}
_DATA = (bool, str, bytes, type(None), complex, np.bool_, range, type(Ellipsis), np.dtype)
_HEAP_TYPE = 1 << 9


def trusted(module: object) -> bool:
    """Whether what a module of this name holds is taken to stay as it is: the standard library, NumPy, and our own."""
    return str(module).split(".")[0] in _TRUSTED


def openable(cls: type) -> bool:
    """Whether objects of a class are taken apart: plain objects of classes that the user wrote in Python."""
    known = _openable.get(cls)
    if known is None:
        known = _openable[cls] = _is_openable(cls)
    return known


_openable: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _is_openable(cls: type) -> bool:
    own = all(c is object or c.__flags__ & _HEAP_TYPE for c in cls.__mro__)
    plain = own and is_user_class(cls) and not trusted(cls.__module__) and not issubclass(cls, (tuple, type))
    return (plain and type(cls) is type and not hasattr(cls, "traced_call") and not hasattr(cls, "is_jitad")
            and cls.__getattribute__ is object.__getattribute__ and family_of(cls) is None)


class NeedName(Exception):
    """The program reads an attribute of this name of an object from outside: begin anew, knowing that."""

    def __init__(self, name: str) -> None:
        self.name = name


class Outside:
    """What one program has read so far.  ``constants``: floats are constants too; ``widened``: places of integers and
    arrays that are arguments, of any size."""

    def __init__(self, fun: Any = None, leaves: Sequence[Any] = (), constants: bool = False,
                 widened: frozenset[Place] = frozenset(), names: Iterable[str] = ()) -> None:
        self.fun, self.read = fun, Reader(leaves)
        self.constants, self.widened, self.more = constants, widened, names
        self.guards: dict[tuple[Place, str], Guard] = {}
        self.types: dict[Place, tuple[Type, bool]] = {}              # of arguments, and whether they are weak
        self.first: dict[int, Place] = {}            # where each object has been met first
        self.classes: set[type] = set()              # of objects that have been taken apart
        self.asked: dict[type, set[str]] = {}        # of which attributes these have been asked

    @cached_property
    def names(self) -> set[str]:
        """Of the attributes that may be read."""
        return attribute_names(self.fun).union(self.more)

    def guard(self, place: Place, test: str, expected: Any) -> None:
        self.guards.setdefault((place, test), Guard(place, test, expected))

    def all_guards(self) -> list[Guard]:
        """What the program takes for granted.  An object may have attributes that it was not asked for."""
        for guard in self.guards.values():
            if guard.test == "names":
                names, there = guard.expected
                asked = frozenset(self.asked.get(type(self.read(guard.place)), ()))
                guard.expected = names & asked, there & asked
        return list(self.guards.values())

    def canonical(self, place: Place, v: Any) -> Place:
        """The place at which an object has been met first; that it is the same one at this place is a guard."""
        first = self.first.setdefault(id(v), place)
        if first != place:
            self.guard(place, "same", first)
        return first


class Reading(TracePart):
    """The part of ``Trace`` that deals with what is outside."""

    consts: dict[Place, Any]
    opened_at: dict[Place, tuple[Any, Any]]

    def outside(self, place: Place) -> Any:
        """The user value of what is at a place, where something is."""
        return self.open(place, self.session.outside.read(place))

    def global_value(self, table: dict[str, Any], name: str) -> Any:
        """The user value of a global variable; ``MISSING`` where there is none, which is guarded too."""
        place = in_globals(table, name)
        v = self.session.outside.read(place)
        if v is MISSING:
            self.session.outside.guard(place, "absent", None)
            return v
        return self.open(place, v)

    def cell_value(self, table: dict[str, Any], cell: Any) -> Any:
        """The same of a variable that a function of this module captures."""
        place = Place("cell", cell)
        v = self.session.outside.read(place)
        if trusted(table.get("__name__")):
            return self.lift(v)
        if v is MISSING:
            self.session.outside.guard(place, "absent", None)
            return v
        return self.open(place, v)

    def open(self, place: Place, v: Any) -> Any:
        o: Outside = self.session.outside
        cls = type(v)
        if isinstance(v, np.ndarray) and cls is np.ndarray:
            if v.ndim == 0:
                return self.open(Place("number", place), v[()])
            return self.constant(o.canonical(place, v))
        if cls in (float, int) or isinstance(v, np.generic) and is_number(v):
            whole = constant_number(v) or cls is np.bool_
            if (place in o.widened and cls is not np.bool_) if whole else not o.constants:
                o.types.setdefault(place, scalar_type(v))
                return self.constant(place)
            o.guard(place, "means", v)
            return v
        if cls in _DATA or isinstance(v, _DATA) and type(v).__module__ == "numpy":
            o.guard(place, "means", v)
            return v
        if cls is types.MethodType:
            o.guard(place, "type", cls)
            o.guard(place.attribute("__func__"), "is", v.__func__)
            return BoundMethod(v.__func__, self.open(place.attribute("__self__"), v.__self__))
        if isinstance(v, tuple) and len(v) <= MOST_ITEMS and (cls is tuple or hasattr(cls, "_fields")):
            o.guard(place, "type", cls)
            o.guard(place, "count", len(v))
            items = [self.open(place.item(i), x) for i, x in enumerate(v)]
            return tuple(items) if cls is tuple else cls._make(items)
        if cls in (list, dict) or openable(cls):
            return self._structure(o.canonical(place, v), v)
        if cls is Packed:
            o.guard(place.attribute("_root"), "is", v._root)
            leaves = place.attribute("_leaves")
            return self.imported(Packed(v._root, [self.open(leaves.item(i), x) for i, x in enumerate(v._leaves)]))
        if isinstance(v, (tuple, list, dict, set, bytearray)) or _container(cls):
            self._constant_container(place, v)
            return v
        o.guard(place, "is", v)
        return v

    def lift(self, v: Any) -> Any:
        """A constant from outside: what may change in it is read at the call."""
        o: Outside = self.session.outside
        if type(v) is Packed:
            return self.imported(Packed(v._root, [self.lift(x) for x in v._leaves]))
        if type(v) is np.ndarray:
            return self.open(of_object(v), v)
        return self._structure(o.canonical(of_object(v), v), v) if type(v) in (list, dict) or openable(type(v)) else v

    def _constant_container(self, place: Place, v: Any) -> None:
        """All that is in a container is compiled in."""
        items = flat(v) if type(v) in (list, tuple, dict) else None
        if items is not None:
            self.session.outside.guard(place, "items", (type(v), items))
            return
        content = contents(v)
        if content != contents(v):
            self.unsupported(f"reads a {type(v).__name__} of more parts than can be looked at in each call from "
                             "outside the function", "pass it as an argument, or an array in its place")
        self.session.outside.guard(place, "content", content)

    # --- structures -------------------------------------------------------------------------------

    def _structure(self, place: Place, v: Any) -> Any:
        """A list, a dict or an object, which the program may read."""
        known = self.opened_at.get(place)
        if known is not None:
            self._restore(*known)
            return known[0]
        o: Outside = self.session.outside
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
        """Put back into the state what was first met on another path: what is outside does not change."""
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

    def _place_of(self, obj: ArrayObj) -> Place | None:
        return next((p for p, ref in self.consts.items() if isinstance(ref, ArrayRef) and ref.obj is obj), None)

    def _items(self, place: Place, v: Any) -> Any:
        o: Outside = self.session.outside
        if type(v) is list:
            o.guard(place, "count", len(v))
            return tuple([self.open(place.item(i), x) for i, x in enumerate(v)])
        if type(v) is dict:
            o.guard(place, "keys", keys_of(v))
            return {k: self.open(place.entry(k), x) for k, x in v.items()}
        o.classes.add(type(v))
        names = frozenset(o.names | set(field_names(type(v)) if dataclasses.is_dataclass(v) else ()))
        there = present(v, names)
        o.guard(place, "names", (names, there))
        return {n: self.open(place.field(n), o.read(place.field(n))) for n in sorted(there)}

    # --- arguments --------------------------------------------------------------------------------

    def constant(self, place: Place) -> Any:
        """A number or an array from outside: one more parameter of the IR function, bound when it is called."""
        known = self.consts.get(place)
        if known is None:
            type, weak = self._type_at(place)
            param = self.func.entry.add_param(type, "const")
            known = self.consts[place] = ArrayRef(ArrayObj(CONSTANT)) if isinstance(type, Array) else Sym(param, weak)
            if isinstance(known, ArrayRef):
                self.state[known.obj] = Sym(param)
        if isinstance(known, ArrayRef) and known.obj not in self.state:      # first met on another path
            at = list(self.consts).index(place)
            self.state[known.obj] = Sym(self.func.params[len(self.func.params) - len(self.consts) + at])
        return known

    def _type_at(self, place: Place) -> tuple[Type, bool]:
        o: Outside = self.session.outside
        if place not in o.types:
            array = o.read(place)
            dtype = from_numpy(array.dtype)
            if dtype is None:
                known = "use float64, float32, int64, int32 or bool"
                return self.unsupported(f"an array of dtype {array.dtype}", known)
            dims = tuple(n if n == 1 or place not in o.widened else None for n in array.shape)
            o.types[place] = Array(dtype, dims), False
        return o.types[place]

    # --- functions, classes, modules --------------------------------------------------------------

    def trusts(self, v: Any) -> bool:
        """Whether a module or a class is taken to stay as it is."""
        return trusted(v.__module__ if isinstance(v, type) else v.__name__)

    def is_fixed(self, v: Any) -> bool:
        """Whether the attributes of something static stay as they are."""
        cls = type(v)
        return trusted(cls.__module__) and cls is not types.SimpleNamespace or cls.__module__ == "builtins" and \
            not isinstance(v, types.FunctionType) or isinstance(v, (type, types.ModuleType)) and self.trusts(v)

    def in_class(self, cls: type, name: str) -> Any:
        """What a class or one of its bases holds under a name, as it stands there; ``MISSING`` where there is none."""
        place = of_class(cls, name)
        found = self.session.outside.read(place)
        if not trusted(cls.__module__):
            fixed = found is MISSING or hasattr(type(found), "__get__")
            self.session.outside.guard(place, "is" if fixed else "plain", found if fixed else None)
        return found

    def function_parts(self, fun: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The defaults of a function of Python's."""
        if trusted(fun.__globals__.get("__name__")):
            return fun.__defaults__ or (), fun.__kwdefaults__ or {}
        place, o = of_object(fun), self.session.outside
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            o.guard(place.attribute(name), "is", getattr(fun, name))
        defaults = tuple([self.lift(v) for v in fun.__defaults__ or ()])         # of which a tuple keeps hold
        if not fun.__kwdefaults__:
            return defaults, {}
        named = of_object(fun.__kwdefaults__)
        o.guard(named, "keys", keys_of(fun.__kwdefaults__))
        return defaults, {k: self.open(named.entry(k), v) for k, v in fun.__kwdefaults__.items()}

    def compared(self, x: Any, y: Any) -> None:
        """Whether two objects are the same one is asked: those from outside that are not may be later."""
        places: dict[Obj, Place] = {v.obj: p for p, v in self.consts.items() if isinstance(v, ArrayRef)}
        places |= {obj: p for p, (obj, _) in self.opened_at.items() if isinstance(obj, Obj)}
        found = [places.get(v.obj if isinstance(v, ArrayRef) else v) if isinstance(v, (ArrayRef, Obj)) else None
                 for v in (x, y)]
        if found[0] is not None and found[1] is not None and found[0] != found[1]:
            self.session.outside.guard(found[0], "apart", found[1])

    def own_rules(self, custom: Any) -> None:
        """A function may be given other rules; one that traced code makes is no object from outside."""
        if isinstance(custom.fun, types.FunctionType):
            self.session.outside.guard(of_object(custom).attribute("rules"), "is", custom.rules)

    def expects(self, obj: Instance, name: str) -> None:
        """Begin anew where an attribute is read that has not been taken out of objects from outside."""
        o: Outside = self.session.outside
        o.asked.setdefault(obj.cls, set()).add(name)
        if name not in o.names and obj.cls in o.classes and not name.startswith("__"):
            raise NeedName(name)


def _container(cls: type) -> bool:
    """A class of the standard library, or made of one, that holds elements: ``deque``, ``Counter``, …"""
    return any(c.__module__ == "collections" or c in (list, dict, set, tuple) for c in cls.__mro__)


# --- names of attributes --------------------------------------------------------------------------

def attribute_names(fun: Any) -> set[str]:
    """The names that a function and what it may call use: those of the attributes that it may read are among them."""
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
    """Functions that may be called through an object."""
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
