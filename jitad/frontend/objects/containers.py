"""The user's structures of static shape as values of the trace; lists and dicts, and their methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ...pytree import OneOf
from ..captured.array_classes import ARRAYS
from ..columns.list_columns import Columns
from ..columns.pack import Packed
from ..values.active import Active
from ..values.closures import Fn, Method, View
from ..values.growing import NeedRows, noted
from ..values.lattice import UNBOUND, describe, is_static, rebuild
from ..values.protocol import Trace
from ..values.values import (
    ARGUMENT,
    CONSTANT,
    ELEMENT,
    ROW,
    SEVERAL,
    SHARED,
    ArrayRef,
    Choice,
    DictObj,
    Instance,
    ListObj,
    Obj,
    Sym,
)

__all__ = ["describe", "export", "import_", "is_static", "list_method", "plain"]


def plain(t: Trace, v: Any) -> Any:
    """The value for a NumPy rule: arrays are read, traced lists and dicts become Python's."""
    if type(v) is Choice:
        v = t.settle(v)
    if isinstance(v, ArrayRef):
        return t.read(v)
    if type(v) in ARRAYS:                        # in a captured list or tuple
        return t.read(t.lift(v))
    if isinstance(v, ListObj):
        v = t.settled_list(v)
    if isinstance(v, (ListObj, list)):
        return [plain(t, x) for x in (t.contents(v) if isinstance(v, ListObj) else v)]
    if isinstance(v, DictObj):
        return {k: plain(t, x) for k, x in t.contents(v).items()}
    if isinstance(v, tuple):
        return rebuild(v, tuple(plain(t, x) for x in v))
    if isinstance(v, slice):
        return slice(plain(t, v.start), plain(t, v.stop), plain(t, v.step))
    return v.plain(t) if isinstance(v, Active) else v


def export(t: Trace, v: Any) -> Any:
    """The value as a pytree of Python containers; arrays stay ``ArrayRef``s, unions become ``OneOf``s."""
    if type(v) is Choice:
        v = t.settle(v)
    if type(v) is Choice:
        return OneOf(v.tag, [export(t, x) for x in v.variants])
    if isinstance(v, ListObj):
        v = t.settled_list(v)
    if isinstance(v, ListObj):
        return [export(t, x) for x in t.contents(v)]
    if isinstance(v, DictObj):
        return {k: export(t, x) for k, x in t.contents(v).items()}
    if isinstance(v, Instance):
        if not dataclasses.is_dataclass(v.cls):
            instead = "`list(x)`" if v.cls.__module__ == "collections" else "make the class a dataclass"
            t.unsupported(f"an object of class {v.cls.__name__} as a result", instead)
        out: Any = object.__new__(v.cls)
        for name, x in t.contents(v).items():
            object.__setattr__(out, name, export(t, x))
        return out
    if isinstance(v, tuple):
        return rebuild(v, tuple(export(t, x) for x in v))
    if isinstance(v, Active):
        return v.exported(t)
    if isinstance(v, slice) or hasattr(type(v), "with_parts"):
        t.unsupported(f"{describe(v)} as a result", "return numbers, arrays, and tuples, lists or dicts of them")
    return v


def import_(t: Trace, v: Any) -> Any:
    """The values of the trace for a pytree of Python containers, such as the result of a rule or a transform."""
    if isinstance(v, Sym):
        return t.new_array(v) if v.is_array else v
    if isinstance(v, OneOf):
        return Choice(v.tag, tuple(import_(t, x) for x in v.variants))
    if isinstance(v, Packed):
        return t.imported(v)
    if isinstance(v, Columns):
        return t.long_list(v)
    if type(v) is list:
        return t.new_list([import_(t, x) for x in v])
    if type(v) is dict:
        return t.new_dict({k: import_(t, x) for k, x in v.items()})
    if isinstance(v, tuple):
        return rebuild(v, tuple(import_(t, x) for x in v))
    if dataclasses.is_dataclass(v) and not isinstance(v, (type, ArrayRef)) and _holds_stand_ins(v):
        obj = Instance(type(v))
        t.state[obj] = {f.name: import_(t, getattr(v, f.name)) for f in dataclasses.fields(v)}
        return obj
    return v


def _holds_stand_ins(v: Any) -> bool:
    """True if a pytree contains a value that is not known while tracing."""
    if isinstance(v, (OneOf, Packed, Columns)):
        return True
    if isinstance(v, (list, tuple)):
        return any(map(_holds_stand_ins, v))
    if isinstance(v, dict):
        return any(map(_holds_stand_ins, v.values()))
    if dataclasses.is_dataclass(v) and not isinstance(v, (type, ArrayRef)):
        return any(_holds_stand_ins(getattr(v, f.name)) for f in dataclasses.fields(v))
    return not is_static(v)


def type_of(v: Any) -> type:
    """The Python class of a scalar stand-in."""
    names = {"f": float, "i": int, "b": bool}
    found: type = names[v.scalar.kind] if v.weak else v.scalar.np.type
    return found


def sample(v: Any) -> Any:
    """A value of the same type, to obtain Python's error for it; ``UNBOUND`` if there is none."""
    if isinstance(v, Sym):
        return v.scalar.np.type(1).item() if v.weak else v.scalar.np.type(1)
    if isinstance(v, ArrayRef):
        return np.ones(1)
    if isinstance(v, Fn):
        return lambda: None
    return v if is_static(v) else UNBOUND


# --- lists and dicts --------------------------------------------------------------------------------

def writable(t: Trace, obj: Obj, what: str) -> None:
    if type(obj) is ListObj and obj.readonly in (ELEMENT, SEVERAL) and t.session.rows < NeedRows.MOST:
        raise NeedRows
    if obj.readonly:
        outside = " from outside the function, which is a constant here"
        why = outside if obj.readonly == CONSTANT else f": {obj.readonly}"
        t.unsupported(f"changes {what}{why}", f"copy it first: `x = {_copied(obj)}`")


def _copied(obj: Obj) -> str:
    """An expression that copies an object, for an error message."""
    if obj.readonly in (SHARED, ROW):
        return "[row[:] for row in x]"
    if isinstance(obj, Instance):
        return "x.copy()" if hasattr(obj.cls, "copy") else "dataclasses.replace(x)"
    return "dict(x)" if isinstance(obj, DictObj) else "list(x)"


def store_list(t: Trace, xs: ListObj, items: list[Any]) -> None:
    writable(t, xs, "a list")
    t.state[xs] = tuple(items)


def list_item(t: Trace, items: Any, index: Any) -> Any:
    """``items[index]`` for a tuple or the contents of a list."""
    if isinstance(index, Sym) or (isinstance(index, slice) and not is_static(index)):
        known = index.value.const if isinstance(index, Sym) else None
        if known is None:
            t.unsupported("indexes a list or tuple by a value that is only known at run time",
                          "use an array, walk it with `for x in xs`, or `for i in jitad.unroll(range(len(xs)))`")
        index = known
    return items[index]


def set_list_item(t: Trace, xs: ListObj, index: Any, value: Any) -> None:
    items = list(t.contents(xs))
    list_item(t, items, index)
    if isinstance(index, Sym):
        index = index.value.const
    items[index] = t.iterate(value) if isinstance(index, slice) else value
    store_list(t, xs, items)


def key(t: Trace, k: Any) -> Any:
    """Checks the key of a dict, which must be known while tracing, and hashable."""
    if isinstance(k, (ListObj, DictObj)):
        raise TypeError(f"unhashable type: '{'list' if isinstance(k, ListObj) else 'dict'}'")
    if isinstance(k, Instance):
        return _object_key(t, k)
    if type(k) is tuple or isinstance(k, tuple) and hasattr(k, "_make"):
        keys = [key(t, x) for x in k]
        cls: Any = type(k)
        return tuple(keys) if cls is tuple else cls._make(keys)
    hash(k)                                            # refuses stand-ins
    return k


def _object_key(t: Trace, k: Instance) -> Any:
    """An object of the user's as a key: one from outside is itself, as it is in the dicts from there."""
    if getattr(k.cls, "__hash__", None) is not object.__hash__:
        t.unsupported(f"an object of class {k.cls.__name__}, which says itself what it is equal to, as a key of a dict",
                      "use a number, a string or an enum")
    if k.readonly not in (CONSTANT, ARGUMENT):
        return k
    found = t.identified(k)
    if found is None:
        t.unsupported(f"an object of class {k.cls.__name__}, chosen at run time or passed to a function, as a key of a "
                      "dict", "look up what the dict holds where the object is read, and go on with that")
    return found


def delete_item(t: Trace, obj: Any, index: Any) -> None:
    """``del obj[index]`` for a list or dict."""
    if isinstance(obj, ListObj):
        items = list(t.contents(obj))
        list_item(t, items, index)
        del items[index.value.const if isinstance(index, Sym) else index]
        return store_list(t, obj, items)
    content = dict(t.contents(obj))
    del content[key(t, index)]
    writable(t, obj, "a dict")
    t.state[obj] = content


def list_method(t: Trace, xs: ListObj, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method of a list, run on a copy of its contents."""
    items = list(t.contents(xs))
    if name == "extend":
        args = [t.iterate(args[0])]
    if name in ("index", "count"):
        items, args = [t.as_constant(x) for x in items], [t.as_constant(x) for x in args]
    if name in ("index", "count", "remove") and not (is_static(tuple(items)) and is_static(tuple(args))):
        t.unsupported(f"list.{name} of values that are only known at run time", "write the search as a loop")
    if name == "sort":
        return store_list(t, xs, t.contents(t.call(sorted, xs, *args, **kwargs)))
    if name == "copy":
        return t.new_list(items)
    if name == "append":
        noted(t, xs)
    result = getattr(items, name)(*args, **kwargs)
    if name not in ("index", "count"):
        store_list(t, xs, items)
    return result


def from_keys(t: Trace, keys: Any, value: Any = None) -> DictObj:
    """``dict.fromkeys``."""
    return t.new_dict({key(t, k): value for k in t.iterate(keys)})


def dict_method(t: Trace, d: DictObj, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    items = dict(t.contents(d))
    if name in ("keys", "values", "items"):
        return View(name, d)
    if name == "copy":
        return t.new_dict(items)
    if name == "get" and args and isinstance(args[0], Sym) and not args[0].is_array:
        return t.get(d, *args)
    if name == "update":
        args = [t.mapping(a) for a in args]
    elif args:
        args = [key(t, args[0]), *args[1:]]
    result = getattr(items, name)(*args, **kwargs)
    if name != "get":
        writable(t, d, "a dict")
        t.state[d] = items
    return result


LIST_METHODS = frozenset((
    "append", "extend", "insert", "pop", "remove", "clear", "index", "count", "reverse", "sort", "copy"))
DICT_METHODS = frozenset(("keys", "values", "items", "get", "pop", "update", "setdefault", "copy", "clear", "popitem"))
METHODS_OF: dict[type, tuple[frozenset[str], Callable[..., Any]]] = {
    ListObj: (LIST_METHODS, list_method), DictObj: (DICT_METHODS, dict_method),
}


def structure_method(t: Trace, obj: Any, name: str) -> Method:
    """A method of a list or dict as an object."""
    if name not in METHODS_OF[type(obj)][0]:
        kind = "list" if isinstance(obj, ListObj) else "dict"
        raise AttributeError(f"'{kind}' object has no attribute '{name}'")
    return Method(name, obj)
