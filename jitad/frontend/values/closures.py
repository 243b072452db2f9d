"""Static values made of others that the user's variables may hold: functions, methods, iterators.

Each is a ``values.Composite``: its ``parts`` are merged, and cross calls, one by one.
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
    """A function of the user's with the variables it captured (by reference: late binding)."""

    __slots__ = ("code", "slots", "defaults", "kw_defaults", "globals", "cells")

    def __init__(self, code: Code, slots: dict[str, Slot], defaults: tuple[Any, ...], kw_defaults: dict[str, Any],
                 globals: dict[str, Any], cells: dict[str, Any] | None = None) -> None:
        self.code, self.slots, self.defaults, self.kw_defaults = code, slots, defaults, kw_defaults
        self.globals = globals
        self.cells = cells or {}                     # captured variables that are no traced ones: their cells

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
    """A named static thing with parts: the base of the small composites below."""

    __slots__ = ("_parts",)
    static: Any = None

    def __init__(self, *parts: Any) -> None:
        self._parts = parts

    def parts(self) -> tuple[Any, ...]:
        return self._parts

    def with_parts(self, parts: tuple[Any, ...]) -> Any:
        return type(self)(*parts)


class Labelled(Tagged):
    """With something static beside its parts, which comes first and which each subclass gives a name of its own."""

    __slots__ = ("static",)

    def __init__(self, static: Any, *parts: Any) -> None:
        super().__init__(*parts)
        self.static = static

    def with_parts(self, parts: tuple[Any, ...]) -> Any:
        return type(self)(self.static, *parts)


class BoundMethod(Tagged):
    """``obj.method``: parts are the function and the object."""

    __slots__ = ()


class Method(Labelled):
    """A method of a traced array, list or dict; ``name`` is static, the object is its part."""

    __slots__ = ()
    name = property(attrgetter("static"))


class Range(Tagged):
    """``range(start, stop, step)`` with bounds known at run time only."""

    __slots__ = ()


class Stream(Tagged):
    """What Python walks once.  The last part is a variable that holds whether that has begun, or ``None``."""

    __slots__ = ()

    @property
    def given(self) -> tuple[Any, ...]:
        return self._parts[:-1]


class Zip(Stream):
    __slots__ = ()


class Enumerate(Stream):
    """Given: what is counted, and the first number."""

    __slots__ = ()


class Reversed(Stream):
    __slots__ = ()


class Mapped(Stream):
    """``map(f, a, b, …)``."""

    __slots__ = ()


class View(Labelled):
    """``d.keys()``, ``d.values()`` or ``d.items()``: shows what the dict holds when it is looked at."""

    __slots__ = ()
    kind = property(attrgetter("static"))


class Unrolled(Tagged):
    """``jitad.unroll(iterable)``: a loop over this is written out."""

    __slots__ = ()


class Super(Tagged):
    """``super()``: parts are the class that the method stands in, and the object."""

    __slots__ = ()


WALKS = (Zip, Enumerate, Reversed, Mapped, Unrolled)      # what walks its parts


class Partial(Labelled):
    """``functools.partial``: parts are the function, the positional arguments and a tuple of keyword values."""

    __slots__ = ()
    names = property(attrgetter("static"))


class Raised(Labelled):
    """An exception object: the class is static, its arguments are the parts."""

    __slots__ = ()
    cls = property(attrgetter("static"))


TEXT = "return the number and format it outside; the message of an exception may be an f-string"


class Template(Labelled, Active):
    """A string with numbers in it that are only known at run time: a ``str.format`` template over its parts.

    It may become part of a message; whatever would look at the text is refused.
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
