"""Special methods of the user's objects: operators, comparisons, builtins, iteration, ``super``.

A special method is looked up on the class, as in Python.  Methods written in Python are traced.  Python's own defaults,
such as the comparison of dataclasses by fields, are implemented here.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

from ..values import lattice
from ..values.active import Active
from ..values.closures import BoundMethod, Super
from ..values.protocol import Trace
from ..values.values import ArrayRef, Conflict, DictObj, Instance, ListObj, Sym
from . import attributes, containers

MISSING = object()              # no special method, or none that accepts these operands
REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_PLAIN = frozenset((Sym, ArrayRef, ListObj, DictObj, float, int, bool, str, tuple, type(None), type, range,
                    types.FunctionType, types.ModuleType))
_OF_PYTHON = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType,
              types.ClassMethodDescriptorType, type(None))


# --- methods ----------------------------------------------------------------------------------------

def class_of(v: Any) -> type:
    return v.cls if type(v) is Instance else type(v)


def special(t: Trace, v: Any, name: str) -> Any:
    """The user's method ``name`` of the class of ``v``, bound to ``v``, or None."""
    if type(v) in _PLAIN:
        return None
    if isinstance(v, Active):
        return t.getattr(v, name) if v.has(t, name) is not False else None
    for cls in class_of(v).__mro__:
        found = cls.__dict__.get(name, MISSING)
        if found is not MISSING:
            t.in_class(class_of(v), name)
            found = getattr(found, "py_func", found)
            ours = isinstance(found, _OF_PYTHON) or attributes.is_generated(found)
            return None if ours or cls.__module__.startswith(("jitad.", "numpy")) else BoundMethod(found, v)
    return None


def call_special(t: Trace, v: Any, name: str, *args: Any) -> Any:
    """The result of the method, or ``MISSING`` if there is none."""
    method = special(t, v, name)
    return MISSING if method is None else t.call(method, *args)


def compares_itself(t: Trace, v: Any, *names: str) -> bool:
    """True if comparisons of a captured value by these methods call the user's code, which is traced."""
    if isinstance(v, (tuple, list)) and special(t, v, names[0]) is None:
        return any(compares_itself(t, x, *names) for x in v)
    return any(special(t, v, name) is not None for name in names)


# --- operators --------------------------------------------------------------------------------------

def binary(t: Trace, op: str, x: Any, y: Any) -> Any:
    """``x op y`` by the methods of either operand, tried in Python's order."""
    if type(x) in _PLAIN and type(y) in _PLAIN:
        return MISSING
    return _first_that_knows(t, x, f"__{op}__", y, f"__r{op}__", both=class_of(x) is not class_of(y))


def in_place(t: Trace, op: str, x: Any, y: Any) -> Any:
    result = call_special(t, x, f"__i{op}__", y)
    return MISSING if result is NotImplemented else result


def _first_that_knows(t: Trace, x: Any, name: str, y: Any, swapped: str, both: bool) -> Any:
    tries = [(x, name, y), (y, swapped, x)] if both else [(x, name, y)]
    if both and _overrides(x, y, swapped):
        tries.reverse()
    for obj, method, other in tries:
        result = call_special(t, obj, method, other)
        if result is not MISSING and result is not NotImplemented:
            return result
    return MISSING


def _overrides(x: Any, y: Any, name: str) -> bool:
    """True if the right operand goes first: its class is a subclass that overrides the method."""
    a, b = class_of(x), class_of(y)
    return a is not b and issubclass(b, a) and getattr(a, name, None) is not getattr(b, name, None)


def compare(t: Trace, op: str, x: Any, y: Any) -> Any:
    """``x op y`` for ``eq ne lt le gt ge``, or ``MISSING`` if no object defines it."""
    if type(x) in _PLAIN and type(y) in _PLAIN:
        return MISSING
    found = _first_that_knows(t, x, f"__{op}__", y, f"__{REFLECTED[op]}__", both=True)
    if found is not MISSING:
        return found
    if op == "ne":
        found = _first_that_knows(t, x, "__eq__", y, "__eq__", both=True)
        if found is not MISSING:
            return t.not_(found)
    if type(x) is not Instance and type(y) is not Instance:
        return MISSING
    cls = class_of(x)
    if cls is class_of(y) and attributes.is_generated(getattr(cls, f"__{'eq' if op == 'ne' else op}__", None)):
        return in_order(t, op, _compared(t, x), _compared(t, y))
    if op in ("eq", "ne"):
        return t.compare("is" if op == "eq" else "is not", x, y)
    raise TypeError(f"'{SIGNS[op]}' not supported between instances of '{cls.__name__}' and '{class_of(y).__name__}'")


SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _compared(t: Trace, v: Any) -> list[Any]:
    """The fields of a dataclass that its generated comparison uses."""
    return [t.getattr(v, f.name) for f in dataclasses.fields(class_of(v)) if f.compare]


def in_order(t: Trace, op: str, xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """``x op y`` for two sequences: the first pair that differs decides, or else the lengths."""
    for k, (x, y) in enumerate(zip(xs, ys)):
        equal = t.truth(t.compare("eq", x, y))
        if equal is True:
            continue
        if op in ("eq", "ne"):
            rest = False if equal is False else t.both("and", equal, in_order(t, "eq", xs[k + 1:], ys[k + 1:]))
            return rest if op == "eq" else t.not_(rest)
        decided = t.truth(t.compare(op, x, y))
        if equal is False:
            return decided
        return t.choose_value(equal, in_order(t, op, xs[k + 1:], ys[k + 1:]), decided)
    return getattr(operator, op)(len(xs), len(ys))


# --- builtins that call special methods -------------------------------------------------------------

def ask(t: Trace, fun: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Applies a builtin of ``ASKING`` by the special method of an object; ``MISSING`` if its class has none."""
    v = args[0]
    for name in ASKING[fun]:
        method = special(t, v, name)
        if method is not None:
            result = t.call(method, *args[1:], **kwargs)
            return t.call(fun, result) if fun in (int, float) else result
    return MISSING


# --- iteration --------------------------------------------------------------------------------------

class Iterator:
    """The result of ``iter``: an object with a tuple or list ``of`` elements, and the index ``at`` of the next."""


def iterator(t: Trace, v: Any) -> Any:
    """``iter(v)`` for a value whose length is known while tracing."""
    found = call_special(t, v, "__iter__")
    if found is not MISSING:
        return found
    return v if is_iterator(v) else stream(t, v if isinstance(v, ListObj) else t.iterate(v))


def stream(t: Trace, items: Any) -> Instance:
    """A new iterator over these elements."""
    out = Instance(Iterator)
    t.state[out] = {"of": items if isinstance(items, ListObj) else tuple(items), "at": 0}
    return out


def handed_over(t: Trace, v: Any) -> Any:
    """A value as another function sees it: a generator expression is replaced by its elements."""
    return stream(t, v.given_away()) if hasattr(v, "clauses") else v


def is_iterator(v: Any) -> bool:
    return type(v) is Instance and v.cls is Iterator


def walked(t: Trace, v: Any) -> Any:
    """The object that a loop over ``v`` iterates over."""
    if type(v) is ListObj:
        return t.walked_list(v)
    if type(v) is not Instance or is_iterator(v):
        return v
    found = call_special(t, v, "__iter__")
    if found is MISSING:
        t.unsupported(f"walks an object of class {v.cls.__name__}, which has no `__iter__`",
                      "give the class an `__iter__` that returns `iter` of a tuple or list")
    if found is v:
        t.unsupported(f"walks {v.cls.__name__}, an iterator of its own: `__next__` ends a loop by an exception",
                      "let `__iter__` return `iter` of a tuple or list, or write a `while` loop")
    return walked(t, found)


def left(t: Trace, v: Any) -> Sequence[Any]:
    """The remaining elements of an iterator."""
    of, at = t.contents(v).values()
    if isinstance(of, Conflict) or not isinstance(at, int):
        how = of.reason if isinstance(of, Conflict) else "at a place that depends on the path taken"
        t.unsupported(f"an iterator that is {how}", "make a list of it first: `list(...)`")
    items: Sequence[Any] = t.contents(of) if isinstance(of, ListObj) else of
    return items[at:]


def take(t: Trace, v: Any, n: int) -> Sequence[Any]:
    """Takes the next ``n`` elements."""
    items = left(t, v)[:n]
    content = t.contents(v)
    t.state[v] = {**content, "at": content["at"] + len(items)}
    return items


def take_all(t: Trace, v: Any, by: str) -> tuple[Any, ...]:
    """Takes all elements, for a consumer that takes an unknown number of them."""
    items = tuple(left(t, v))
    t.state[v] = {"of": Conflict(f"walked by `{by}` as well"), "at": 0}
    return items


def next_(t: Trace, v: Any, *default: Any) -> Any:
    if not is_iterator(v) and not hasattr(v, "clauses"):
        t.unsupported(f"`next` of {containers.describe(v)}", "`next` of what `iter` gave, or a loop with `break`")
    items = take(t, v, 1) if is_iterator(v) else v.next()
    if items:
        return items[0]
    return default[0] if default else t.raise_("StopIteration", None)


# --- super ------------------------------------------------------------------------------------------

def super_(t: Trace, *args: Any) -> Super:
    """``super(cls, obj)``; the front end fills in omitted arguments."""
    if len(args) != 2:
        raise RuntimeError("super(): no arguments")
    return Super(*args)


def super_attribute(t: Trace, s: Super, name: str) -> Any:
    """The attribute as found in the classes after ``cls``."""
    cls, obj = s.parts()
    own = obj if isinstance(obj, type) else class_of(obj)
    order = own.__mro__
    for base in order[order.index(cls) + 1:]:
        if name in base.__dict__:
            return _bound(t, base.__dict__[name], obj, own)
    raise AttributeError(f"'super' object has no attribute '{name}'")


def _bound(t: Trace, found: Any, obj: Any, own: type) -> Any:
    if isinstance(found, property):
        return t.call(found.fget, obj)
    if attributes.binds(found):
        return attributes.bound(t, found, obj, own)
    if found is object.__init__ or found is object.__init_subclass__:
        return _nothing
    if found is object.__setattr__:
        return BoundMethod(found, obj)
    return t.lift(inspect.getattr_static(found, "__func__", found))


def _nothing() -> None:
    """``object.__init__`` for an object: does nothing."""


# --- dataclasses and NamedTuples --------------------------------------------------------------------

def fields(t: Trace, v: Any) -> tuple[Any, ...]:
    return dataclasses.fields(v if isinstance(v, type) else _type(t, v))


def _type(t: Trace, v: Any) -> Any:
    return v.type_of(t) if isinstance(v, Active) else class_of(v)


def replace(t: Trace, v: Any, /, **changes: Any) -> Any:
    """``dataclasses.replace``: makes a new object, which runs ``__post_init__``."""
    for f in fields(t, v):
        if f.init:
            changes.setdefault(f.name, t.getattr(v, f.name))
        elif f.name in changes:
            raise ValueError(f"field {f.name} is declared with init=False, it cannot be specified with replace()")
    return t.call(_type(t, v), **changes)


def as_dict(t: Trace, v: Any) -> DictObj:
    """``dataclasses.asdict``: copies recursively."""
    return t.new_dict({f.name: _taken_apart(t, t.getattr(v, f.name), as_dict) for f in fields(t, v)})


def as_tuple(t: Trace, v: Any) -> tuple[Any, ...]:
    return tuple(_taken_apart(t, t.getattr(v, f.name), as_tuple) for f in fields(t, v))


def _taken_apart(t: Trace, v: Any, how: Callable[..., Any]) -> Any:
    if type(v) is Instance and dataclasses.is_dataclass(v.cls):
        return how(t, v)
    if isinstance(v, ListObj):
        return t.new_list([_taken_apart(t, x, how) for x in t.contents(v)])
    if isinstance(v, DictObj):
        return t.new_dict({k: _taken_apart(t, x, how) for k, x in t.contents(v).items()})
    if isinstance(v, tuple):
        return lattice.rebuild(v, tuple(_taken_apart(t, x, how) for x in v))
    if isinstance(v, ArrayRef):
        return t.call(t.getattr(v, "copy"))
    return v


def tuple_method(t: Trace, v: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``_replace`` and ``_asdict`` of a NamedTuple, ``_make`` of its class."""
    if name == "_make":
        made: tuple[Any, ...] = v._make(t.iterate(args[0]))
        return made
    known = dict(zip(v._fields, map(t.lift, v)))
    if name == "_asdict":
        return t.new_dict(known)
    if unknown := kwargs.keys() - known.keys():
        raise ValueError(f"Got unexpected field names: {sorted(unknown)!r}")
    return lattice.rebuild(v, tuple({**known, **kwargs}.values()))



ASKING: dict[Any, tuple[str, ...]] = {
    abs: ("__abs__",), round: ("__round__",), int: ("__int__", "__index__"), float: ("__float__", "__index__"),
    divmod: ("__divmod__",), reversed: ("__reversed__",), len: ("__len__",),
}
