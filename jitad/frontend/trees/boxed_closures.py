"""Boxed functions: functions made by recursion or in a loop, in a number that is only known at run time.

A function value is normally represented by its captured variables, together with those of the functions it captures
(``unions``).  If that does not terminate, the functions become nodes of a heap (``heaps``): a *box* is a reference, its
class identifies the code, and its fields are the captured values.  A call is a switch over the classes.  So
continuations and functions made of functions are data like trees, and are treated as such after the front end,
derivatives included.

Tracing detects which functions must be boxed: those that capture others of the same code, several levels deep, and
those that are merged with a box.  The trace is then restarted, and these functions are boxed when they are made.  A box
holds values, not variables: it must not capture a variable that is assigned again, nor an object that can be changed.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from ..columns.layouts import Layout, Unknown, layout
from ..columns.recursive_types import Family
from ..objects import containers
from ..values.closures import Fn
from ..values.lattice import UNBOUND
from ..values.protocol import Trace
from ..values.values import ArrayRef, Choice, Conflict, DictObj, Instance, ListObj, Maybe, Slot, Sym
from .fields import field
from .heaps import NeedHeap, make
from .references import PART, Reference, among, possible

CAPTURES = "a function that is built by recursion or in a loop captures"


@dataclass(frozen=True, eq=False)
class Shape:
    """One class of boxes: functions with the same code, or a single function without captured variables.

    ``model``: one such function; ``names``: the names of its captured variables and defaults.
    """

    key: Any
    model: Any
    names: tuple[str, ...]


class Functions(Family):
    """The family of all functions that a program boxes."""

    functions = True

    def __init__(self, shapes: tuple[Shape, ...]) -> None:
        super().__init__(tuple(type(_name(s.model), (), {}) for s in shapes))
        self.nullable = False
        self.shapes = shapes
        self.place = {s.key: k for k, s in enumerate(shapes)}

    def constant(self, v: Any, known: Layout) -> int | None:
        """The reference of a function without captured variables; None for a value that is not a function."""
        shape = shape_of(v)
        if shape is None:
            return None
        if shape.key not in self.place or shape.names:
            raise NeedHeap(_extended(known, [shape]), self)
        return self.place[shape.key]

    def __repr__(self) -> str:
        return "functions"


def shape_of(v: Any) -> Shape | None:
    """The class of boxes for a function; None for a value that is not a function."""
    if isinstance(v, Fn):
        defaults = (f"default {k}" for k in range(len(v.defaults)))
        return Shape((Fn, v.static), v, (*v.slots, *defaults, *v.kw_defaults))
    if isinstance(v, (types.FunctionType, types.BuiltinFunctionType)) or (
            callable(v) and containers.is_static(v) and not isinstance(v, type)):
        return Shape((type(v), id(v)), v, ())
    return None


def _name(v: Any) -> str:
    return str(getattr(v, "__name__", "function"))


def family_of(t: Trace) -> Functions | None:
    """The family of the functions that are boxed so far, or None."""
    return next((f for f in t.session.heaps if isinstance(f, Functions)), None)


def need(t: Trace, functions: Iterable[Any]) -> NoReturn:
    """Restarts the trace with these functions boxed."""
    known = family_of(t)
    new = {s.key: s for s in map(shape_of, functions) if s is not None and (known is None or s.key not in known.place)}
    if not new:
        t.unsupported("functions inside each other, as many as a program makes, of a kind that cannot be kept",
                      "make them objects of a recursive dataclass with a method")
    raise NeedHeap(_extended(t.session.heaps[known] if known else None, new.values()), known)


def _extended(known: Layout | None, shapes: Iterable[Shape]) -> Layout:
    """The layout with more classes of boxes, whose fields have unknown kinds so far."""
    before: tuple[Shape, ...] = known.family.shapes if known is not None else ()    # type: ignore[attr-defined]
    new = tuple(s for s in shapes if all(s.key != b.key for b in before))
    fields = tuple(tuple((n, Unknown()) for n in s.names) for s in new)
    return layout(Functions(before + new), (*(known.fields if known is not None else ()), *fields))


# --- boxing -----------------------------------------------------------------------------------------

class Boxes(Trace):
    """The part of ``Trace`` for boxed functions."""

    def made_function(self, fn: Fn) -> Any:
        """A function that has just been made: a box if functions of its code are boxed."""
        family = family_of(self)
        if family is None or (Fn, fn.static) not in family.place:
            return fn
        self.builder.loc = fn.code.loc
        return box(self, family, fn)

    def box_functions(self, functions: Iterable[Any]) -> NoReturn:
        need(self, functions)


def box(t: Trace, family: Functions, v: Any) -> Any:
    """The reference to a boxed function."""
    if isinstance(v, Reference):
        return v
    if type(v) is Choice:
        return t.over(v, lambda x: box(t, family, x))
    shape = shape_of(v)
    if shape is None:
        return t.unsupported(f"{CAPTURES} {containers.describe(v)}",
                             "capture functions, numbers, strings and tuples of them")
    number = family.place.get(shape.key)
    if number is None:
        need(t, [v])
    heap = t.heaps[family]
    if not shape.names:
        return Reference(number, heap, False)
    captured = zip(shape.names, (*v.slots.values(), *v.defaults, *v.kw_defaults.values()))
    obj = Instance(family.classes[number])
    t.state[obj] = {name: _held(t, family, v, name, x) for name, x in captured}
    return make(t, family, obj)


def _held(t: Trace, family: Functions, fn: Fn, name: str, x: Any) -> Any:
    """The value that a box holds for a captured variable or a default."""
    if isinstance(x, Slot):
        if name in fn.code.rebound:
            t.unsupported(f"{CAPTURES} the variable `{name}`, which may be assigned again",
                          f"keep its value at the time in a default: `{name}={name}`")
        x = t.state.get(x, UNBOUND)
        if x is UNBOUND or isinstance(x, (Maybe, Conflict)):
            t.unsupported(f"{CAPTURES} the variable `{name}`, which may have no value yet", "assign it before")
        x = t.settle(x)
    if _is_function(x):
        return box(t, family, x)
    if isinstance(x, (Instance, ListObj, DictObj)) or (isinstance(x, ArrayRef) and not x.obj.readonly):
        t.unsupported(f"{CAPTURES} {containers.describe(x)}, which may be changed",
                      "capture the numbers that are in it")
    return x


def _is_function(v: Any) -> bool:
    if type(v) is Choice:
        return all(map(_is_function, v.variants))
    return v.family.functions if isinstance(v, Reference) else shape_of(v) is not None


# --- calling ----------------------------------------------------------------------------------------

def call(t: Trace, ref: Reference, args: Any, kwargs: dict[str, Any]) -> Any:
    """Calls a box by a switch over its possible functions; classes with unknown fields have no box yet."""
    kinds = ref.layout.kinds
    made = [k for k in possible(t, ref) if k < 0 or not any(kind.unknown for kind in kinds[k].values())]
    if not made:
        t.raise_("RuntimeError", "a function is called of which none has been made")
    return among(t, ref, frozenset(made), lambda k: t.call(opened(t, ref, k), *args, **kwargs))


def _copied(t: Trace, v: Any) -> Any:
    """A copy of an array in a box, which can be passed on together with the heap."""
    return t.new_array(Sym(t.builder.copy(t.read(v).value)), PART) if isinstance(v, ArrayRef) else v


def opened(t: Trace, ref: Reference, k: int) -> Any:
    """The function in a box of class number ``k``, with new variables."""
    if k < 0:
        return None
    shape: Shape = ref.family.shapes[k]              # type: ignore[attr-defined]
    if not shape.names:
        return shape.model
    values = [_copied(t, field(t, ref, k, name)) for name in shape.names]
    fn: Fn = shape.model
    n = len(fn.slots)
    slots = [Slot(name, bound=True) for name in fn.slots]
    t.state.update(zip(slots, values))
    return fn.with_parts((*slots, *values[n:]))
