"""Stand-ins: the values of the user's variables while a program is traced.

``Sym``        a scalar known at run time, or the *current* contents of an array (immutable)
``ArrayRef``   a mutable array: a location (``ArrayObj``), whose contents are in the trace state, and the view steps
               that lead from it to the array that the user sees
``ListObj DictObj Instance``   mutable structures of static shape; their contents are in the trace state too
``Choice``     a union: one of several values of different kinds, distinguished by a tag at run time

Rules of ``arrays`` only get ``Sym``, Python and NumPy scalars, and Python tuples and lists of those.  The tracer reads
arrays before it calls a rule, and makes a new ``ArrayObj`` for an array in the result.

Stand-ins refuse ``bool``, ``hash``, ``float``, ``index`` and ``iter``.  So Python code that is run while tracing and
inspects a value fails immediately instead of computing a wrong result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from ...errors import JitadError, Loc, UnsupportedError
from ...ir.builder import Builder
from ...ir.graph import Block, Module, Value
from ...ir.ops import Axis
from ...ir.types import Array, Scalar, Type, dtype_of
from ...pytree import opaque
from ..captured.options import Options


class Context(Protocol):
    """The interface of the tracer for rules of ``arrays`` and for transforms."""

    builder: Builder
    module: Module
    options: Options
    size_roots: tuple[Block | None, dict[Axis, Value | Axis]]       # the cache of ``lengths.size`` for this block

    @property
    def loc(self) -> Loc:
        """The user's source location that is being traced."""

    def check(self, cond: Any, kind: str, message: str, *values: Any) -> None:
        """Emits a check that raises exception ``kind`` at run time unless ``cond`` (a Value, a Sym or a bool) holds.

        ``message`` is a ``str.format`` template over at most four scalars.
        """

    def raise_(self, kind: str, message: str | None, *values: Any) -> NoReturn:
        """Records that this path raises, and abandons it."""

    def call(self, fun: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Calls any callable of the user, on user values."""

    def choose_value(self, c: Any, x: Any, y: Any) -> Any:
        """``x if c else y`` for values that are already evaluated."""

    def compiled_in(self, v: Any, useful: Callable[[float], bool]) -> Any:
        """The value of a captured float, with a guard, where ``useful`` holds of it; otherwise ``v`` itself."""


class Operating(Context, Protocol):
    """The interface of the tracer for the operators of stand-ins."""

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
        """All elements of a value whose length is known while tracing."""


_local = threading.local()


def context() -> Operating:
    """The active trace of this thread."""
    stack: list[Operating] | None = getattr(_local, "stack", None)
    if not stack:
        raise JitadError("a traced value was used after its function had been traced")
    return stack[-1]


def tracing() -> bool:
    """True if a function is being traced in this thread."""
    return bool(getattr(_local, "stack", None))


@contextmanager
def activate(t: Context) -> Iterator[None]:
    """Makes ``t`` the active trace in the ``with`` block."""
    stack = _local.__dict__.setdefault("stack", [])
    stack.append(t)
    try:
        yield
    finally:
        stack.pop()


def refuse(what: str, hint: str) -> Any:
    """A special method of stand-ins that refuses the operation, because it needs a value that is not known."""
    def method(self: Any, *args: Any) -> NoReturn:
        loc = context().loc if tracing() else None
        raise UnsupportedError(f"the {what} of a value that is only known at run time", loc, hint)
    return method


class Operators:
    """Operators of stand-ins, which call the active trace."""

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


Weak = bool | None


class Sym(Operators):
    """A run-time value: a scalar, or the contents of an array at one moment.

    ``weak``: a Python ``int``, ``float`` or ``bool``, which adapts to the dtype of the other operand.  None: an integer
    that is Python's on some paths and NumPy's on others; it counts as NumPy's, but raises where one of Python's would.
    """

    __slots__ = ("value", "weak")

    def __init__(self, value: Value, weak: Weak = False) -> None:
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
    """A mutable object: a key of the trace state, compared by identity.

    ``readonly``: the reason why it must not be written (``""``: it may be).  ``maybe``: the objects that it may be the
    same as, with their contents at the join; it must not be read once one of them has changed.
    """

    __slots__ = ("readonly", "maybe")

    def __init__(self, readonly: str = "") -> None:
        self.readonly = readonly
        self.maybe: tuple[tuple[Obj, Any], ...] = ()

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class Slot(Obj):
    """A local variable: the contents are its value; it has no contents while it is unbound.

    ``bound``: it is part of a value and has always been bound, so paths without it do not refer to it.
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
ROW = "it is a row of that list now, which other names do not follow"
SEVERAL = "it may be one of several objects here, depending on the path taken"
SHARED = "its rows are also those of another list"


class ArrayObj(Obj):
    """The location of an array: the contents are a ``Sym``.

    ``scattered``: in NumPy its elements may not be contiguous in C order, so ``reshape`` of it may copy.  Here every
    array is contiguous.
    """

    __slots__ = ("scattered",)

    def __init__(self, readonly: str = "", scattered: bool = False) -> None:
        super().__init__(readonly)
        self.scattered = scattered


class ListObj(Obj):
    """A list of static length: the contents are a tuple."""

    __slots__ = ()


class DictObj(Obj):
    """A dict with static keys: the contents are a ``dict`` that is never changed in place."""

    __slots__ = ()


class Instance(Obj):
    """An object of the user's class: the contents are a ``dict`` of its attributes."""

    __slots__ = ("cls",)

    def __init__(self, cls: type, readonly: str = "") -> None:
        super().__init__(readonly)
        self.cls = cls


class Store(Instance):
    """The columns of a family of nodes (``references``): a ``dict`` of arrays; ``cls`` is its layout."""

    __slots__ = ()

    def __init__(self, layout: Any, readonly: str = "") -> None:
        super().__init__(layout, readonly)

    @property
    def layout(self) -> Any:
        return self.cls


class Step(Protocol):
    """One step of a view, with functions to read through it and to write back through it."""

    def read(self, t: Context, base: Sym) -> Sym: ...
    def write(self, t: Context, base: Sym, new: Sym) -> Sym: ...


@opaque
@dataclass(eq=False, slots=True)
class ArrayRef(Operators):
    """A user's array: its location and the steps of the view."""

    obj: ArrayObj
    steps: tuple[Any, ...] = ()
    cache: tuple[Sym, Sym] | None = field(default=None, repr=False)     # (contents of obj, this view of them)

    __hash__ = Operators.__hash__


for _op in COMPARE:
    setattr(ArrayRef, f"__{_op}__", _compare(_op))


@opaque
@dataclass(eq=False, slots=True)
class Maybe:
    """The value of a variable that may be unbound; ``flag`` is true if it is bound."""

    value: Any
    flag: Any


class Choice(Operators):
    """A union: one of several values of different kinds, ``variants[tag]``, where the tag is a run-time value.

    It is a ``Composite``.  The parts of absent variants are undefined, so each operation on a union is a switch over
    the tag (see ``unions``).
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


State = dict[Obj, Any]          # all mutable state of a trace: the contents of each object


@dataclass(eq=False, slots=True)
class Edge:
    """The end of a path: its last block and its state."""

    block: Block
    state: State


@opaque
@dataclass(eq=False, slots=True)
class Conflict:
    """Values that could not be merged; reading the variable is refused, for this reason."""

    reason: str


NUMBERS = (bool, int, float)


class Composite(Protocol):
    """An immutable value made of others (a bound method, ``zip(a, b)``, ``grad(f)``).

    The tracer flattens and rebuilds it at joins and calls.  ``parts`` are the values inside; ``with_parts`` makes the
    same value with other parts.  Two values of one class with equal ``static`` (hashable) differ only in their parts.
    """

    static: Any

    def parts(self) -> tuple[Any, ...]: ...
    def with_parts(self, parts: tuple[Any, ...]) -> Any: ...
