"""Python's builtins on user values: structures, types and iteration."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import NOWHERE, Loc
from ..arrays import library
from ..arrays.library.ordering.deques import Deque
from ..arrays.rules import promotion
from ..objects import (
    attributes,
    containers,
    growing_lists,
    iteration,
    list_changes,
    list_elements,
    long_lists,
    refusals,
    special_methods,
)
from ..objects.list_rows import Row
from ..objects.long_lists import LongList
from ..syntax import virtualise
from ..syntax.comprehensions import Generator
from ..trees.references import Reference
from ..values.active import Active
from ..values.closures import (
    BoundMethod,
    Enumerate,
    Fn,
    Mapped,
    Method,
    Partial,
    Range,
    Reversed,
    Stream,
    Unrolled,
    View,
    Zip,
)
from ..values.code import Frame
from ..values.protocol import Trace
from ..values.values import ArrayRef, DictObj, Instance, ListObj, Sym
from . import reducing, stdlib

Rule = Callable[..., Any]


def hashable(v: Any) -> bool:
    try:
        hash(v)
    except TypeError:
        return False
    return True


def find(fun: Any) -> Rule | None:
    """The rule of a builtin in this module, or None."""
    return TABLE.get(fun) if hashable(fun) else None


def fn_of(fun: Any, t: Trace | None = None) -> Fn:
    """A Python function as a traceable function; without a trace, for jitad's own functions."""
    cells = dict(zip(fun.__code__.co_freevars, fun.__closure__ or ()))
    defaults, named = t.function_parts(fun) if t is not None else (fun.__defaults__ or (), fun.__kwdefaults__ or {})
    return Fn(virtualise.virtualise(fun.__code__), {}, defaults, named, fun.__globals__, cells)


def _forward(fun: Any, /, *args: Any, **kwargs: Any) -> Any:
    return fun(*args, **kwargs)


def forwarder(fun: Any) -> Fn:
    """A function that calls its first argument with the others: makes any callable traceable."""
    return _forwarder_at(location(fun))


@functools.cache
def _forwarder_at(loc: Loc) -> Fn:
    """``_forward`` with the location ``loc``, at which errors of the call are reported."""
    fn = fn_of(_forward)

    def body(f: Frame) -> None:
        fun, args, kwargs = (f.t.load(f.slots[name]) for name in ("fun", "args", "kwargs"))
        f.t.return_(f.t.call_at(loc, fun, args, f.t.mapping(kwargs)))
    return Fn(dataclasses.replace(fn.code, body=body, loc=loc), {}, (), {}, fn.globals)


def location(fun: Any) -> Loc:
    """The location of a user's function, or of the function that a callable is made from."""
    if isinstance(fun, Fn):
        return fun.code.loc
    if isinstance(fun, types.FunctionType):
        return virtualise.virtualise(fun.__code__).loc
    if isinstance(fun, (BoundMethod, Partial)):
        return location(fun.parts()[0])
    inner = getattr(fun, "__func__", None) or (getattr(fun, "fun", None) if hasattr(fun, "traced_call") else None)
    return location(inner) if inner is not None else NOWHERE


def code_of(fun: Any) -> Any:
    """The code that functions made by one ``def`` share; the class for other callables."""
    if isinstance(fun, (Fn, types.FunctionType)):
        return fun.code if isinstance(fun, Fn) else virtualise.virtualise(fun.__code__)
    return code_of(fun.parts()[0]) if isinstance(fun, (BoundMethod, Partial)) else type(fun)


def unroll(iterable: Any) -> Any:
    """Unrolls a loop: ``for i in unroll(range(3))`` is three copies of the body, with ``i`` known in each."""
    return iterable


# --- iteration --------------------------------------------------------------------------------------

def _range(t: Trace, *args: Any) -> Any:
    if all(isinstance(a, int) for a in args):
        return range(*args)
    if not 1 <= len(args) <= 3:
        raise TypeError(f"range expected 1 to 3 arguments, got {len(args)}")
    for a in args:
        if not isinstance(a, int) and not (isinstance(a, Sym) and not a.is_array and not a.scalar.is_float):
            raise TypeError(f"{containers.describe(a)} cannot be interpreted as an integer")
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return Range(*(x if isinstance(x, int) else _index(t, x) for x in (start, stop, step)))


def _index(t: Trace, x: Sym) -> Any:
    """An integer as a weak i64, or as a number if it is constant."""
    v = promotion.to_i64(t, x.value)
    return v.const if v.const is not None else Sym(v, True)


def _enumerate(t: Trace, iterable: Any, start: Any = 0) -> Stream:
    return iteration.stream(t, Enumerate, _iterable(t, iterable, "enumerate"), start)


def _map(t: Trace, fun: Any, *args: Any) -> Stream:
    return iteration.stream(t, Mapped, fun, *(_iterable(t, x, "map") for x in args))


def _reversed(t: Trace, v: Any) -> Stream:
    if isinstance(v, (Stream, Generator)) or special_methods.is_iterator(v):
        raise TypeError(f"{containers.describe(v)} is not reversible")
    return iteration.stream(t, Reversed, _iterable(t, v, "reversed"))


def _iterable(t: Trace, v: Any, by: str) -> Any:
    """An argument of ``zip`` and similar functions; dicts, objects and generators are replaced by their elements."""
    v = special_methods.walked(t, v)
    if special_methods.is_iterator(v):
        return special_methods.take_all(t, v, by)
    return tuple(t.iterate(v)) if isinstance(v, (DictObj, Generator)) else v


def _zip(t: Trace, *args: Any, strict: bool = False) -> Stream:
    columns = [_iterable(t, x, "zip") for x in args]
    if strict and columns:
        first, *rest = [iteration.length(t, x) for x in columns]
        for k, n in enumerate(rest, 2):
            for op, word in (("ge", "shorter"), ("le", "longer")):
                before = "argument 1" if k == 2 else f"arguments 1-{k - 1}"
                t.check(t.truth(t.compare(op, n, first)), "ValueError", f"zip() argument {k} is {word} than {before}")
    return iteration.stream(t, Zip, *columns)


def _list(t: Trace, v: Any = ()) -> Any:
    v = special_methods.walked(t, v) if isinstance(v, Instance) else v
    if isinstance(v, growing_lists.Walked):
        v = v.of
    if list_elements.contents(t, v) is not None:
        return list_changes.copy(t, v)
    if isinstance(v, (LongList, Row)):
        return growing_lists.changeable(t, growing_lists.settled(t, v))
    if isinstance(v, Generator):
        return v.listed()
    if long_lists.is_walked(t, v) or iteration.partly_counted(t, v):
        return t.call(long_lists.listed, v)
    return t.new_list(t.iterate(v))


def _tuple(t: Trace, v: Any = ()) -> tuple[Any, ...]:
    return v if type(v) is tuple else tuple(t.iterate(v))


def _dict(t: Trace, v: Any = (), /, **kwargs: Any) -> DictObj:
    if isinstance(v, (DictObj, dict)):
        return t.new_dict({**t.mapping(v), **kwargs})
    return t.new_dict({**{containers.key(t, k): x for k, x in map(t.iterate, t.iterate(v))}, **kwargs})


def _set(t: Trace, v: Any = ()) -> frozenset[Any]:
    return frozenset(t.iterate(v))                    # the hash of a stand-in refuses


def _len(t: Trace, v: Any) -> Any:
    if isinstance(v, Instance):
        raise TypeError(f"object of type '{v.cls.__name__}' has no len()")
    if isinstance(v, Active):
        return v.count(t) if v.counted else t.call(t.getattr(v, "__len__"))
    if isinstance(v, Range) or (isinstance(v, ArrayRef)):
        return iteration.count(t, v) if isinstance(v, Range) else t.length(v)
    if isinstance(v, Sym):
        raise TypeError(f"{containers.describe(v)} has no len()")
    if isinstance(v, View):
        return t.length(v.parts()[0])
    if isinstance(v, (Stream, Generator)) or special_methods.is_iterator(v):
        raise TypeError(f"object of type '{type_name(t, v).lower()}' has no len()")
    return t.length(v) if isinstance(v, (ListObj, DictObj)) else len(v)


# --- types ------------------------------------------------------------------------------------------

def _type(t: Trace, v: Any) -> type:
    if isinstance(v, Sym):
        return containers.type_of(v)
    if isinstance(v, Active):
        return v.type_of(t)
    if isinstance(v, Instance):
        return collections.deque if v.cls is Deque else v.cls
    return _OWN_TYPES.get(type(v), type(v))


def type_name(t: Trace, v: Any) -> str:
    """The name of a value's type in Python's messages."""
    return _type(t, v).__name__


def _isinstance(t: Trace, v: Any, cls: Any) -> Any:
    if isinstance(v, Active):
        return v.is_a(t, cls)
    return issubclass(_type(t, v), cls)


def _hasattr(t: Trace, v: Any, name: str) -> Any:
    if isinstance(v, Active):
        return v.has(t, name)
    _refuse_fallback(t, v, name)
    try:
        t.getattr(v, name)
    except AttributeError:
        return False
    return True


def _getattr(t: Trace, v: Any, name: str, *default: Any) -> Any:
    if isinstance(v, Active) or not default:
        return default[0] if default and not _hasattr(t, v, name) else t.getattr(v, name)
    _refuse_fallback(t, v, name)
    try:
        return t.getattr(v, name)
    except AttributeError:
        return default[0]


def _refuse_fallback(t: Trace, v: Any, name: str) -> None:
    """Refuses a query for an attribute that the ``__getattr__`` of a class may compute."""
    if isinstance(v, Instance) and attributes.fallback_of(v) is not None and name not in t.contents(v) and \
            not hasattr(v.cls, name):
        t.unsupported(f"asks whether {containers.describe(v)} has an attribute, which its class's `__getattr__` "
                      "decides", "give it the attribute in `__init__`")


def _callable(t: Trace, v: Any) -> bool:
    if isinstance(v, Instance):
        return any("__call__" in vars(c) for c in v.cls.__mro__)
    if isinstance(v, Reference):
        return v.family.functions or any("__call__" in vars(c) for c in v.family.classes)
    if isinstance(v, (Fn, BoundMethod, Method, Partial)) or hasattr(type(v), "traced_call"):
        return True
    return not isinstance(v, (Sym, ArrayRef, ListObj, DictObj)) and callable(v)


def _deque(t: Trace, /, *args: Any, **kwargs: Any) -> Any:
    return t.call(Deque, *args, **kwargs)


def _partial(t: Trace, fun: Any, /, *args: Any, **kwargs: Any) -> Partial:
    return Partial(tuple(kwargs), fun, args, tuple(kwargs.values()))


_OWN_TYPES: dict[type, type] = {
    ListObj: list, DictObj: dict, ArrayRef: np.ndarray, Fn: types.FunctionType, Range: range,
}

# These take lists of run-time length as they are.
WALKING = frozenset((enumerate, zip, reversed, map, len, list, type, isinstance, hasattr, getattr, callable,
                     functools.partial, copy.copy, copy.deepcopy, *library.LISTS))
KEEPS: frozenset[Any] = frozenset((functools.partial,))              # uses none of its arguments
TABLE: dict[Any, Rule] = {
    **stdlib.TABLE, **reducing.TABLE,
    range: _range, enumerate: _enumerate, zip: _zip, reversed: _reversed, map: _map,
    list: _list, tuple: _tuple, dict: _dict, dict.fromkeys: containers.from_keys, len: _len,
    type: _type, isinstance: _isinstance, hasattr: _hasattr, getattr: _getattr, functools.partial: _partial,
    callable: _callable, collections.deque: _deque,
    unroll: lambda t, x: Unrolled(x), setattr: lambda t, o, name, v: t.setattr(o, name, v),
    set: _set, frozenset: _set,
    **{fun: refusals.rule(fun) for fun in refusals.ALWAYS},
    iter: special_methods.iterator, next: special_methods.next_, super: special_methods.super_,
    object.__setattr__: attributes.set_directly, dataclasses.fields: special_methods.fields,
    dataclasses.replace: special_methods.replace, dataclasses.asdict: special_methods.as_dict,
    dataclasses.astuple: special_methods.as_tuple,
}
