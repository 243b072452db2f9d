"""Stand-ins: what the user's variables hold while a program is traced.

``Sym``        a scalar known at run time, or what an array holds *now* (immutable)
``ArrayRef``   a mutable array: a location (``ArrayObj``) whose contents the trace state holds, and
               the view steps that lead from it to what the user sees
``ListObj DictObj Instance``   mutable structures of static shape; their contents are in the trace state too
``Choice``     one of several values of different kinds, told apart by a tag at run time

``numpy_api`` sees only ``Sym``, Python and NumPy scalars, and Python tuples and lists of those: the tracer
reads arrays before it calls an implementation, and makes a new ``ArrayObj`` of an array that comes back.

Stand-ins refuse ``bool``, ``hash``, ``float``, ``index`` and ``iter``: Python code that is run
while tracing and looks at a value fails there and then, it does not compute something wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

from ...errors import JitadError, Loc, UnsupportedError
from ...ir.builder import Builder
from ...ir.graph import Block, Module, Value
from ...ir.ops import Axis
from ...ir.types import Array, Scalar, Type, dtype_of


@dataclass(frozen=True)
class Options:
    """What ``jit`` was told that tracing depends on."""

    boundscheck: bool = True
    static_shapes: bool = False
    fastmath: bool = False
    checkpoint: str | int | None = None
    parallel: bool = False
    in_range: bool = False                # of one function of the library: its indices are, and need no test
    long_lists: bool = True               # long lists are columns (``columns``)

    def one_by_one(self) -> Options:
        """The same, with the elements of long lists one by one."""
        return replace(self, long_lists=False)


class Context(Protocol):
    """What the implementations in ``numpy_api`` and ``transforms`` may ask of the tracer."""

    builder: Builder
    module: Module
    options: Options
    size_roots: tuple[Block | None, dict[Axis, Value | Axis]]       # in this block: see ``rules.core``

    @property
    def loc(self) -> Loc:
        """The user's line that is being traced."""

    def check(self, cond: Any, kind: str, message: str, *values: Any) -> None:
        """Raise exception ``kind`` at run time unless ``cond`` (a Value, a Sym or a bool).

        ``message`` is a ``str.format`` template over at most four scalars.
        """

    def raise_(self, kind: str, message: str | None, *values: Any) -> NoReturn:
        """This path raises for certain: record it and abandon the path."""

    def call(self, fun: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call any callable that the user may hold, on user values."""

    def choose_value(self, c: Any, x: Any, y: Any) -> Any:
        """``x if c else y`` of values that are there already."""

    def compiled_in(self, v: Any, useful: Callable[[float], bool]) -> Any:
        """The value of a captured float, with a guard, where ``useful`` holds of it; otherwise ``v`` itself."""


class Operating(Context, Protocol):
    """What the operators of stand-ins ask of the tracer."""

    def binary(self, op: str, x: Any, y: Any, loc: Loc | None = None) -> Any:
        """``x op y`` for a name in ``BINARY``."""

    def unary(self, op: str, x: Any, loc: Loc | None = None) -> Any:
        """``op x`` for a name in ``UNARY``."""

    def compare(self, op: str, x: Any, y: Any) -> Any:
        """``x op y`` for a name in ``COMPARE``, ``is``, ``in`` and their negations."""

    def getattr(self, obj: Any, name: str, loc: Loc | None = None) -> Any:
        """``obj.name``."""

    def getitem(self, obj: Any, index: Any, loc: Loc | None = None) -> Any:
        """``obj[index]``."""

    def length(self, v: Any) -> Any:
        """``len(v)``: an int, or a ``Sym``."""

    def iterate(self, v: Any) -> list[Any]:
        """Every element of something whose length is known while tracing."""


_local = threading.local()


def context() -> Operating:
    """The trace that is going on in this thread."""
    stack: list[Operating] | None = getattr(_local, "stack", None)
    if not stack:
        raise JitadError("a traced value was used after its function had been traced")
    return stack[-1]


def tracing() -> bool:
    """Whether a function is being traced in this thread."""
    return bool(getattr(_local, "stack", None))


@contextmanager
def activate(t: Context) -> Iterator[None]:
    """Make ``t`` the trace that stand-ins act on."""
    stack = _local.__dict__.setdefault("stack", [])
    stack.append(t)
    try:
        yield
    finally:
        stack.pop()


def refuse(what: str, hint: str) -> Any:
    """A method of stand-ins that Python calls, and that asks what is not known."""
    def method(self: Any, *args: Any) -> NoReturn:
        loc = context().loc if tracing() else None
        raise UnsupportedError(f"the {what} of a value that is only known at run time", loc, hint)
    return method


class Operators:
    """Operators of stand-ins: each asks the trace that is going on."""

    __slots__ = ()

    __bool__ = refuse("truth", "use it as a condition (`if`, `while`, `and`) in traced code")
    __hash__ = refuse("hash", "dict keys and set elements must be known while tracing")
    __float__ = refuse("Python float", "use the value as it is, or `np.float64(x)`")
    __int__ = refuse("Python int", "use `int(x)` in traced code")
    __index__ = refuse("Python index", "index an array, or walk the list with `jitad.unroll`")
    __array__ = refuse("NumPy array", "call a NumPy function that jitad knows")

    def __iter__(self) -> Iterator[Any]:
        return iter(context().iterate(self))

    def __len__(self) -> int:
        n = context().length(self)
        if not isinstance(n, int):
            raise UnsupportedError("the length of this array is only known at run time", context().loc)
        return n

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not isinstance(self, (Sym, ArrayRef)):
            raise AttributeError(name)
        return context().getattr(self, name)

    def __getitem__(self, index: Any) -> Any:
        return context().getitem(self, index)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return context().call(self, *args, **kwargs)


def _binary(op: str, swapped: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        return context().binary(op, other, self) if swapped else context().binary(op, self, other)
    return method


def _unary(op: str) -> Any:
    return lambda self: context().unary(op, self)


def _compare(op: str) -> Any:
    return lambda self, other: context().compare(op, self, other)


BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
UNARY = ("neg", "pos", "invert", "abs")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")

for _op in BINARY:
    setattr(Operators, f"__{_op}__", _binary(_op))
    setattr(Operators, f"__r{_op}__", _binary(_op, swapped=True))
for _op in UNARY:
    setattr(Operators, f"__{_op}__", _unary(_op))


class Sym(Operators):
    """A run-time value: a scalar, or what an array holds at one moment.

    ``weak``: a Python ``int``, ``float`` or ``bool``, which adapts to the dtype of its neighbour.
    """

    __slots__ = ("value", "weak")

    def __init__(self, value: Value, weak: bool = False) -> None:
        self.value, self.weak = value, weak

    @property
    def type(self) -> Type:
        return self.value.type

    @property
    def is_array(self) -> bool:
        return isinstance(self.value.type, Array)

    @property
    def scalar(self) -> Scalar:
        """The element type."""
        return dtype_of(self.value.type)

    def __repr__(self) -> str:
        return f"Sym({self.value!r}{', weak' if self.weak else ''})"


for _op in COMPARE:
    setattr(Sym, f"__{_op}__", _compare(_op))
Sym.__hash__ = Operators.__hash__          # type: ignore[method-assign]


# --- mutable objects: keys of the trace state -----------------------------------------------------

class Obj(Operators):
    """Something mutable: a key of the trace state, compared by identity.

    ``readonly``: why it may not be written (``""``: it may).  ``maybe``: the objects it may be the same as,
    with what they held when that came about: it is not read once one of them has changed.
    """

    __slots__ = ("readonly", "maybe")

    def __init__(self, readonly: str = "") -> None:
        self.readonly = readonly
        self.maybe: tuple[tuple[Obj, Any], ...] = ()

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class Slot(Obj):
    """A local variable: contents are its value; no contents when it is unbound.

    ``bound``: it is part of a value, and has been bound from the beginning: on a path without it nothing refers to it.
    """

    __slots__ = ("name", "bound")

    def __init__(self, name: str, bound: bool = False) -> None:
        super().__init__()
        self.name, self.bound = name, bound

    def __repr__(self) -> str:
        return f"Slot({self.name})"


CONSTANT = "it is a constant, captured from outside the function"
ARGUMENT = "it belongs to the caller"
ELEMENT = "it is in a long list, whose elements cannot be changed"


class ArrayObj(Obj):
    """Where an array lives: contents are a ``Sym``.

    ``scattered``: NumPy may have its elements in another order than C, or not side by side, so that ``reshape`` of it
    may be a copy; here each array is contiguous.
    """

    __slots__ = ("scattered",)

    def __init__(self, readonly: str = "", scattered: bool = False) -> None:
        super().__init__(readonly)
        self.scattered = scattered


class ListObj(Obj):
    """A list of static length: contents are a tuple."""

    __slots__ = ()


class DictObj(Obj):
    """A dict with static keys: contents are a ``dict`` that is never changed in place."""

    __slots__ = ()


class Instance(Obj):
    """An object of the user's class: contents are a ``dict`` of its attributes."""

    __slots__ = ("cls",)

    def __init__(self, cls: type, readonly: str = "") -> None:
        super().__init__(readonly)
        self.cls = cls


class Store(Instance):
    """The columns of a family of nodes (``records``): contents are a ``dict`` of arrays; ``cls`` is its layout."""

    __slots__ = ()

    def __init__(self, layout: Any, readonly: str = "") -> None:
        super().__init__(layout, readonly)

    @property
    def layout(self) -> Any:
        return self.cls


class Step(Protocol):
    """One step of a view: how to read through it and how to write back through it."""

    def read(self, t: Context, base: Sym) -> Sym: ...
    def write(self, t: Context, base: Sym, new: Sym) -> Sym: ...


@dataclass(eq=False, slots=True)
class ArrayRef(Operators):
    """What a user's variable holds for an array: the object, and the steps of the view."""

    obj: ArrayObj
    steps: tuple[Any, ...] = ()
    cache: tuple[Sym, Sym] | None = field(default=None, repr=False)     # (contents of obj, what this view showed then)

    __hash__ = Operators.__hash__


for _op in COMPARE:
    setattr(ArrayRef, f"__{_op}__", _compare(_op))


@dataclass(eq=False, slots=True)
class Maybe:
    """The value of a variable that may be unbound: ``flag`` says whether it is bound."""

    value: Any
    flag: Any


class Choice(Operators):
    """One of several values of different kinds: ``variants[tag]``, where the tag is known at run time only.

    A ``Composite`` like others.  The parts of the variants that are not there are undefined, so each operation on a
    choice is a switch over the tag (see ``choice``).
    """

    __slots__ = ("tag", "variants")

    def __init__(self, tag: Sym, variants: tuple[Any, ...]) -> None:
        self.tag, self.variants = tag, variants

    @property
    def static(self) -> int:
        return len(self.variants)

    def parts(self) -> tuple[Any, ...]:
        return (self.tag, *self.variants)

    def with_parts(self, parts: tuple[Any, ...]) -> Choice:
        return Choice(parts[0], parts[1:])


State = dict[Obj, Any]          # all that can change while tracing: the contents of each object


@dataclass(eq=False, slots=True)
class Edge:
    """The end of a path: where it stands and what it knows."""

    block: Block
    state: State


@dataclass(eq=False, slots=True)
class Conflict:
    """Values that could not be merged into one; refused, with the reason, when it is read."""

    reason: str


NUMBERS = (bool, int, float)


class Composite(Protocol):
    """An immutable value made of others (a bound method, ``zip(a, b)``, ``grad(f)``).

    The tracer takes it apart and puts it together again where values merge or cross a call.
    ``parts`` are the values inside, ``with_parts`` the same thing around others; two of one class
    and one ``static`` (hashable) differ in their parts alone.
    """

    static: Any

    def parts(self) -> tuple[Any, ...]: ...
    def with_parts(self, parts: tuple[Any, ...]) -> Any: ...
