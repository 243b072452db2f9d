"""Composite static values that the user's variables may hold: functions, methods, iterators.

Each is a ``values.Composite``: its ``parts`` are merged, and passed to calls, one by one.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NoReturn

from ...errors import UnsupportedError
from .active import Active
from .code import Code
from .protocol import Trace
from .values import Context, Operators, Slot, refuse


class Fn:
    """A function of the user with its captured variables (by reference: late binding)."""

    __slots__ = ("code", "slots", "defaults", "kw_defaults", "globals", "cells")

    def __init__(self, code: Code, slots: dict[str, Slot], defaults: tuple[Any, ...], kw_defaults: dict[str, Any],
                 globals: dict[str, Any], cells: dict[str, Any] | None = None) -> None:
        self.code, self.slots, self.defaults, self.kw_defaults = code, slots, defaults, kw_defaults
        self.globals = globals
        self.cells = cells or {}                     # cells of captured variables that are not traced

    @property
    def __name__(self) -> str:
        return self.code.name

    @property
    def static(self) -> Any:
        return (self.code, tuple(self.slots), len(self.defaults), tuple(self.kw_defaults),
                tuple((k, id(v)) for k, v in self.cells.items()))

    def parts(self) -> tuple[Any, ...]:
        return (*self.slots.values(), *self.defaults, *self.kw_defaults.values())

    def with_parts(self, parts: tuple[Any, ...]) -> Fn:
        n, m = len(self.slots), len(self.slots) + len(self.defaults)
        return Fn(self.code, dict(zip(self.slots, parts[:n])), parts[n:m],
                  dict(zip(self.kw_defaults, parts[m:])), self.globals, self.cells)


class Tagged(Operators):
    """A named static value with parts: the base of the small composites below."""

    __slots__ = ("_parts",)
    static: Any = None

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def parts(self) -> tuple[Any, ...]:
        return self._parts

    def with_parts(self, parts: tuple[Any, ...]) -> Any:
        return type(self)(*parts)


class Labelled(Tagged):
    """A composite with a static value besides its parts, which comes first; each subclass names it."""

    __slots__ = ("static",)

    def __init__(self, static: Any, *parts: Any) -> None:
        super().__init__(*parts)
        self.static = static

    def with_parts(self, parts: tuple[Any, ...]) -> Any:
        return type(self)(self.static, *parts)


class BoundMethod(Tagged):
    """``obj.method``: the parts are the function and the object."""

    __slots__ = ()


class Method(Labelled):
    """A method of a traced array, list or dict; ``name`` is static, the object is its part."""

    __slots__ = ()
    name = property(attrgetter("static"))


class Range(Tagged):
    """``range(start, stop, step)`` with run-time bounds."""

    __slots__ = ()


class Stream(Tagged):
    """An iterator that can be consumed once; the last part is a variable that holds its progress, or None."""

    __slots__ = ()

    @property
    def given(self) -> tuple[Any, ...]:
        return self._parts[:-1]


class Zip(Stream):
    __slots__ = ()


class Enumerate(Stream):
    """Given: the iterable, and the first number."""

    __slots__ = ()


class Reversed(Stream):
    __slots__ = ()


class Mapped(Stream):
    """``map(f, a, b, …)``."""

    __slots__ = ()


class View(Labelled):
    """``d.keys()``, ``d.values()`` or ``d.items()``: reflects the current contents of the dict."""

    __slots__ = ()
    kind = property(attrgetter("static"))


class Unrolled(Tagged):
    """``jitad.unroll(iterable)``: a loop over it is unrolled."""

    __slots__ = ()


class Super(Tagged):
    """``super()``: the parts are the class that defines the method, and the object."""

    __slots__ = ()


WALKS = (Zip, Enumerate, Reversed, Mapped, Unrolled)      # iterators over their parts


class Partial(Labelled):
    """``functools.partial``: the parts are the function, the positional arguments and a tuple of keyword values."""

    __slots__ = ()
    names = property(attrgetter("static"))


class Raised(Labelled):
    """An exception object: the class is static, its arguments are the parts."""

    __slots__ = ()
    cls = property(attrgetter("static"))


TEXT = "return the number and format it outside; the message of an exception may be an f-string"


class Template(Labelled, Active):
    """A string that contains run-time numbers: a ``str.format`` template over its parts.

    It can become part of a message; operations that need its text are refused.
    """

    __slots__ = ()
    text = property(attrgetter("static"))
    __hash__ = refuse("hash", "dict keys and set elements must be known while tracing, as `i` is in "
                              "`for i in jitad.unroll(range(…))`")

    def describe(self) -> str:
        return "a string made from run-time values"

    def has(self, t: Trace, name: str) -> bool:
        return not name.startswith("__") and hasattr(str, name)

    def attribute(self, t: Trace, name: str) -> Any:
        if not hasattr(str, name):
            raise AttributeError(f"'str' object has no attribute '{name}'")
        return self.refused(t, f"`{name}` of")

    def item(self, t: Trace, index: Any) -> Any:
        return self.refused(t, "an element of")

    def compare(self, t: Trace, op: str, other: Any) -> Any:
        if op in ("eq", "ne", "is", "is not") and not (isinstance(other, Active) or isinstance(other, str)):
            return op in ("ne", "is not")
        return self.refused(t, "a comparison with")

    def is_a(self, t: Trace, cls: Any) -> Any:
        return issubclass(str, cls)

    def type_of(self, t: Trace) -> type:
        return str

    def exported(self, t: Trace) -> Any:
        return t.unsupported(f"{self.describe()} as a result", "return numbers, arrays, and tuples, lists or dicts "
                                                               "of them")

    def refused(self, t: Context, what: str) -> NoReturn:
        raise UnsupportedError(f"{what} {self.describe()}", t.loc, TEXT)
