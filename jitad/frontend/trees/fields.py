"""Attributes of nodes: fields, which are read from the columns of the class, properties and methods.

If the class of a node is only known at run time, an attribute is read once for each possible class.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import Any

from ...ir.graph import Value
from ...ir.types import I64
from ..arrays import views
from ..arrays.rules.basic_indexing import Window
from ..columns.layouts import Block, Kind, Number, Parts, Perhaps, Ref, Refs, Text
from ..objects import attributes
from ..values.closures import BoundMethod, Method
from ..values.lattice import UNBOUND
from ..values.protocol import Trace
from ..values.values import ArrayRef, Choice, Instance, Store, Sym
from .references import (
    PART,
    Classes,
    NodeList,
    Reference,
    TextOf,
    among,
    has_attribute,
    once,
    possible,
    reference,
    row_of,
    test,
)


class Virtual(Method):
    """A method of a node whose class is only known at run time."""

    __slots__ = ()

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        ref = self.parts()[0]

        def one(k: int) -> Any:
            return t.call(_function(ref.family.classes[k], self.name), ref, *args, **kwargs)
        return among(t, ref, possible(t, ref), one)


def attribute(t: Trace, ref: Reference, name: str) -> Any:
    """``node.name`` as Python looks it up; a node that does not have it raises ``AttributeError`` at run time."""
    classes, owners = ref.family.classes, owners_of(t, ref, name)
    if name == "__class__":
        return ref.type_of(t)
    if name == "__dict__":
        attributes.refuse_table(t)
    functions = {_function(classes[k], name) for k in owners}
    if None not in functions:
        return BoundMethod(functions.pop(), ref) if len(functions) == 1 else Virtual(name, ref)
    return among(t, ref, owners, lambda k: _of_class(t, ref, k, name))


def owners_of(t: Trace, ref: Reference, name: str) -> Classes:
    """The possible classes of the node that have an attribute; emits a check that the node is of one of them."""
    maybe = possible(t, ref)
    owners = frozenset(k for k in maybe if k >= 0 and has_attribute(ref.layout, k, name))
    for k in sorted(maybe - owners):
        cls = type(None) if k < 0 else ref.family.classes[k]
        t.check(t.not_(test(t, ref, frozenset([k]))), "AttributeError",
                f"'{cls.__name__}' object has no attribute '{name}'")
    return owners


def _function(cls: type, name: str) -> Any:
    """The function of a method; None if the attribute is not a method."""
    found = inspect.getattr_static(cls, name, None)
    if getattr(type(found), "is_jitad", False):
        found = found.py_func
    return found if isinstance(found, types.FunctionType) else None


def _of_class(t: Trace, ref: Reference, k: int, name: str) -> Any:
    """The attribute of a node of class number ``k``."""
    cls, kind = ref.family.classes[k], ref.layout.kinds[k].get(name)
    found = inspect.getattr_static(cls, name, UNBOUND)
    if isinstance(found, property):
        return t.call(found.fget, ref)
    if kind is not None:
        return read(t, ref.store, kind, ref.layout.path(k, name), row_of(t, ref))
    function = _function(cls, name)
    if function is not None:
        return BoundMethod(function, ref)
    return attributes.bound(t, found, ref, cls) if attributes.binds(found) else t.lift(getattr(cls, name))


def field(t: Trace, ref: Reference, k: int, name: str) -> Any:
    """A field of a node that has class number ``k``."""
    return read(t, ref.store, ref.layout.kinds[k][name], ref.layout.path(k, name), row_of(t, ref))


def read(t: Trace, store: Store, kind: Kind, path: str, row: Value) -> Any:
    """The value of a field in a row."""
    match kind:
        case Number(_, weak):
            return Sym(get(t, store, path, row), weak)
        case Text():
            return TextOf(Sym(get(t, store, path, row), True))
        case Ref(classes):
            index = get(t, store, path, row)
            return reference(t, index, store, classes)
        case Refs(classes):
            at, length = (Sym(get(t, store, f"{path}:{c}", row), True) for c in ("at", "len"))
            return NodeList(at, length, store, classes)
        case Block():
            return _block(t, store, kind, path, row)
        case Perhaps(inner):
            there = get(t, store, f"{path}?", row)   # if it is absent, the other columns hold valid values
            tag = once(t, ("choice", there), lambda: t.builder.cast(t.builder.not_(there), dtype=I64))
            return t.settle(Choice(Sym(tag, True), (read(t, store, inner, path, row), None)))
        case Parts():
            return _parts(t, kind, [read(t, store, k, f"{path}.{key}", row) for key, k in kind.items()])
    if kind.unknown:
        t.unsupported(f"reads the field {path}, of which neither its annotation nor a node tells the type",
                      "annotate it: float, int, bool, str, an array, a tuple or another dataclass")
    return None


def get(t: Trace, store: Store, column: str, row: Value) -> Value:
    """One element of a column; the load is reused as long as the column does not change."""
    array = t.read(t.contents(store)[column]).value
    return once(t, ("get", array, row), lambda: t.builder.get(array, row))


def _block(t: Trace, store: Store, kind: Block, path: str, row: Value) -> ArrayRef:
    """An array in a node, as a view of the pool."""
    b = t.builder
    sizes = [get(t, store, f"{path}:{axis}", row) for axis in range(kind.rank)]
    count = sizes[0]
    for n in sizes[1:]:
        count = b.mul(count, n)
    pool: ArrayRef = t.contents(store)[path]
    span = (get(t, store, f"{path}:at", row), count, b.const(1, I64))
    steps: Sequence[Any] = (views.IndexStep(Window((span,), (0,))),)
    if kind.rank > 1:
        steps = (*steps, views.ReshapeStep(tuple(sizes)))
    return ArrayRef(pool.obj, (*pool.steps, *steps))


def _parts(t: Trace, kind: Parts, values: list[Any]) -> Any:
    if kind.cls is tuple:
        return tuple(values)
    if issubclass(kind.cls, tuple):
        return kind.cls._make(values)                # type: ignore[attr-defined]
    obj = Instance(kind.cls, PART)
    t.state[obj] = {key: v for (key, _), v in zip(kind.items(), values)}
    return obj
