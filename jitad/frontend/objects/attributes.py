"""Objects of the user's classes: construction, and attribute access in Python's order."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

from ..captured.places import MISSING, of_class, of_object, own_attribute
from ..columns.inferred_types import note
from ..columns.recursive_types import family_of
from ..values.active import Active
from ..values.closures import BoundMethod, Fn, Method, Partial
from ..values.lattice import UNBOUND, describe, is_static
from ..values.protocol import Trace
from ..values.values import CONSTANT, Choice, DictObj, Instance, ListObj, Maybe, Sym
from .containers import type_of, writable

TUPLE_METHODS = frozenset(("_replace", "_asdict", "_make"))
CHANGES = frozenset((
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
    "intersection_update", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault",
    "sort", "subtract", "symmetric_difference_update", "update", "__setitem__", "__delitem__", "__iadd__", "__imul__",
    "__ior__", "__iand__", "__isub__", "__ixor__"))

BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType)
UNBOUND_METHOD = (types.MethodDescriptorType, types.WrapperDescriptorType)


def instance_attribute(t: Trace, obj: Instance, name: str) -> Any:
    """``obj.name`` in Python's order: data descriptors, the object's own attributes, then those of the class."""
    if name == "__class__":
        return obj.cls
    if name == "__dict__":
        refuse_table(t)
    t.expects(obj, name)
    found = t.in_class(obj.cls, name)
    if isinstance(found, property):
        return t.call(found.fget, obj)
    if binds(found) and hasattr(type(found), "__set__"):
        return bound(t, found, obj, obj.cls)
    own = t.contents(obj)
    if isinstance(found, functools.cached_property) and name not in own:
        value = t.call(found.func, obj)
        t.state[obj] = {**t.contents(obj), name: value}
        return value
    if name in own:
        v = own[name]
        if isinstance(v, Maybe):
            t.check(v.flag, "AttributeError", f"'{obj.cls.__name__}' object has no attribute '{name}'")
            return v.value
        return v
    if found is object.__setattr__ or found is object.__delattr__:
        return Partial((), setattr if found is object.__setattr__ else delattr, (obj,), ())
    if binds(found):
        return bound(t, found, obj, obj.cls)
    if found is MISSING or inspect.ismemberdescriptor(found):
        fallback = fallback_of(obj)
        if fallback is not None:
            return t.call(fallback, obj, name)
        raise AttributeError(f"'{obj.cls.__name__}' object has no attribute '{name}'")
    return class_attribute(t, obj.cls, name)


def class_attribute(t: Trace, cls: type, name: str) -> Any:
    """A class attribute that is not a method; it is captured state, since the user may assign it."""
    return t.lift(getattr(cls, name)) if t.trusts(cls) else t.captured_value(of_class(cls, name))


def fallback_of(obj: Instance) -> types.FunctionType | None:
    """The ``__getattr__`` of an object's class, or None."""
    found = getattr(obj.cls, "__getattr__", None)
    return found if isinstance(found, types.FunctionType) else None


def refuse_table(t: Trace) -> None:
    t.unsupported("the `__dict__` of an object: compiled code has no table of its attributes",
                  "name the attributes, or `getattr(x, field.name)` for those of `dataclasses.fields(x)`")


def binds(found: Any) -> bool:
    """True if a class attribute is bound to the object: a function, or a descriptor written in Python."""
    return isinstance(found, _BINDING) or isinstance(getattr(type(found), "__get__", None), types.FunctionType)


_BINDING = (types.FunctionType, classmethod, functools.partialmethod, functools.cached_property,
            functools._lru_cache_wrapper)


def bound(t: Trace, found: Any, obj: Any, cls: type) -> Any:
    """The class attribute ``found`` of ``cls``, bound to the object."""
    if isinstance(found, (types.FunctionType, functools._lru_cache_wrapper)):
        return BoundMethod(found, obj)
    if getattr(type(found), "is_jitad", False):
        return BoundMethod(found.py_func, obj)
    if hasattr(type(found), "traced_call"):
        return BoundMethod(found, obj)
    if isinstance(found, classmethod):
        return BoundMethod(found.__func__, cls)
    if isinstance(found, functools.cached_property):
        return t.call(found.func, obj)
    if isinstance(found, functools.partialmethod):
        inner = bound(t, found.func, obj, cls) if binds(found.func) else found.func
        return Partial(tuple(found.keywords), inner, found.args, tuple(found.keywords.values()))
    return t.call(type(found).__get__, found, obj, cls)


def static_attribute(t: Trace, v: Any, name: str) -> Any:
    """An attribute of a static value; methods of the user's classes are traced when called."""
    if name in CHANGES and (isinstance(v, frozenset) or isinstance(getattr(v, name, None), BUILTIN)):
        refuse_change(t, v, name)
    if isinstance(v, Fn) and name not in ("__name__",):
        t.unsupported(f"the attribute `{name}` of a function", "a variable, or an object with a `__call__`")
    if name in TUPLE_METHODS and hasattr(v, "_fields"):
        return Method(name, v)
    if type(v).__mro__[-2] is tuple and name in ("index", "count") and not is_static(v):
        t.unsupported(f"tuple.{name} of values that are only known at run time", "write the search as a loop")
    by_class = inspect.getattr_static(type(v), name, None)
    if isinstance(by_class, property) and isinstance(by_class.fget, types.FunctionType):
        if type(v).__module__ != "numpy":
            t.in_class(type(v), name)
            return t.call(by_class.fget, v)
    if isinstance(v, types.ModuleType) and not t.trusts(v):
        found = t.global_value(vars(v), name)
        return t.lift(getattr(v, name)) if found is MISSING else found
    if isinstance(v, type) and not t.trusts(v):
        own = t.in_class(v, name)
        if own is not MISSING and not hasattr(type(own), "__get__"):
            return class_attribute(t, v, name)
    found = getattr(v, name)
    if isinstance(found, types.MethodType):
        return BoundMethod(found.__func__, found.__self__)
    if isinstance(found, BUILTIN) or t.is_fixed(v):
        return t.lift(found)
    if own_attribute(v, name) is not MISSING:
        return t.captured_value(of_object(v).field(name))
    if not isinstance(v, (type, types.ModuleType)):
        t.in_class(type(v), name)
    return t.lift(found)


def refuse_change(t: Trace, v: Any, name: str) -> None:
    """Refuses a method that would change a static value, while tracing."""
    if isinstance(v, (set, frozenset)):
        t.unsupported(f"`{name}` of a set: sets are constants in compiled code", "a dict, or an array of flags")
    if isinstance(v, (list, dict)) or isinstance(v, (ListObj, DictObj)) and v.readonly == CONSTANT:
        made = "list" if isinstance(v, (list, ListObj)) else "dict"
        t.unsupported(f"changes {describe(v)} from outside the function, which is a constant here",
                      f"copy it first: `x = {made}(x)`; or pass it, and return a new one")
    if not isinstance(v, types.ModuleType):
        t.unsupported(f"changes {describe(v)}, which is a constant here", "a list, a dict or an array")


def set_attribute(t: Trace, obj: Any, name: str, value: Any) -> None:
    if isinstance(obj, Active):
        return obj.assign(t, name, value)
    if name == "__dict__" and isinstance(obj, Instance):
        refuse_table(t)
    if obj is None or isinstance(obj, Sym):
        cls = type(None) if obj is None else type_of(obj)
        raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")
    if isinstance(obj, Instance):
        note(t.session.attributes, obj.cls, name, _classes(value))
    else:
        t.unsupported(f"sets attribute `{name}` of {describe(obj)}, which is a constant here",
                      "return the new value, or make a new object")
    writable(t, obj, "an object")
    params = getattr(obj.cls, "__dataclass_params__", None)
    if params is not None and params.frozen:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field '{name}'")
    setter = obj.cls.__setattr__
    if has_source(setter):
        t.call(setter, obj, name, value)
        return
    set_directly(t, obj, name, value)


def _classes(v: Any) -> Iterator[type]:
    """The classes of the user's that a value may be of, NoneType, and ``object`` for what is of none."""
    if isinstance(v, Choice):
        for x in v.variants:
            yield from _classes(x)
    elif isinstance(v, Maybe):
        yield from _classes(v.value)
    elif isinstance(v, Active) and (family := getattr(v, "family", None)) is not None:
        yield from family.classes
    else:
        yield v.cls if type(v) is Instance else type(None) if v is None else object


def set_directly(t: Trace, obj: Any, name: str, value: Any) -> None:
    """``object.__setattr__(obj, name, value)``: does not call the ``__setattr__`` of the class."""
    if not isinstance(obj, Instance):
        return set_attribute(t, obj, name, value)
    writable(t, obj, "an object")
    found = inspect.getattr_static(obj.cls, name, UNBOUND)
    if isinstance(found, property):
        if found.fset is None:
            raise AttributeError(f"property '{name}' of '{obj.cls.__name__}' object has no setter")
        t.call(found.fset, obj, value)
        return
    if has_source(inspect.getattr_static(type(found), "__set__", None)):
        t.call(type(found).__set__, found, obj, value)
        return
    if obj.cls.__dictoffset__ == 0 and not inspect.ismemberdescriptor(found):             # __slots__
        raise AttributeError(f"'{obj.cls.__name__}' object has no attribute '{name}'" if found is UNBOUND else
                             f"'{obj.cls.__name__}' object attribute '{name}' is read-only")
    t.state[obj] = {**t.contents(obj), name: value}


def delete_attribute(t: Trace, obj: Any, name: str) -> None:
    if not isinstance(obj, Instance):
        t.unsupported(f"deletes attribute `{name}` of {describe(obj)}, which is a constant here")
    writable(t, obj, "an object")
    content = dict(t.contents(obj))
    if name not in content:
        raise AttributeError(f"'{obj.cls.__name__}' object has no attribute '{name}'")
    del content[name]
    t.state[obj] = content


def construct(t: Trace, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Makes an object of the user's class while tracing."""
    for name in ("__new__", "__getattribute__"):
        if has_source(getattr(cls, name)):
            t.unsupported(f"makes an object of class {cls.__name__}, which has a `{name}` of its own",
                          "a function that makes the object" if name == "__new__" else "properties, or `__getattr__`")
    if issubclass(cls, tuple):
        make: Any = getattr(cls, "_make", None)
        if make is None:
            t.unsupported(f"makes a {cls.__name__}")
        bound = inspect.signature(cls).bind(*args, **kwargs)
        bound.apply_defaults()
        return make(bound.arguments.values())
    if inspect.isabstract(cls):
        object.__new__(cls)                                        # raises an error
    obj = Instance(cls)
    t.state[obj] = {}
    if dataclasses.is_dataclass(cls) and is_generated(cls.__init__):
        _fill_fields(t, obj, cls, args, kwargs)
    elif isinstance(cls.__init__, types.FunctionType):
        t.in_class(cls, "__init__")
        t.call(cls.__init__, obj, *args, **kwargs)
    elif args or kwargs:
        raise TypeError(f"{cls.__name__}() takes no arguments")
    family = family_of(cls)
    return obj if family is None else t.make_node(family, obj)


def is_generated(fun: Any) -> bool:
    """True if ``dataclass`` generated a method, which has no source."""
    return isinstance(fun, types.FunctionType) and fun.__code__.co_filename == "<string>"


def has_source(fun: Any) -> bool:
    """True if the user wrote a method in Python."""
    return isinstance(fun, types.FunctionType) and not is_generated(fun)


def _fill_fields(t: Trace, obj: Instance, cls: type, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Does what the ``__init__`` generated by ``dataclass`` does."""
    try:
        bound = inspect.signature(cls).bind(*args, **kwargs).arguments
    except TypeError:
        init: Any = cls.__init__                           # type: ignore[misc]
        init(object.__new__(cls), *args, **kwargs)         # raises Python's error
        raise
    only_init = []
    for name, field in cls.__dataclass_fields__.items():           # type: ignore[attr-defined]
        kind = field._field_type.name
        if kind == "_FIELD_CLASSVAR":
            continue
        if name in bound:
            value = bound[name]
        elif field.default is not dataclasses.MISSING:
            value = t.lift(field.default)
        elif (factory := field.default_factory) is not dataclasses.MISSING:
            value = t.call(factory)
        else:
            continue                                               # init=False: __post_init__ sets it
        if kind == "_FIELD_INITVAR":
            only_init.append(value)
        else:
            set_directly(t, obj, name, value)
    if hasattr(cls, "__post_init__"):
        t.in_class(cls, "__post_init__")
        t.call(cls.__post_init__, obj, *only_init)
