"""Equality of the values of a variable, and their joins."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from ...ir.graph import Value
from ...ir.types import BOOL, F32, F64, I64, Array, Scalar, Stack, from_numpy
from .active import Active
from .values import ArrayRef, Choice, Conflict, Instance, ListObj, Maybe, Obj, Slot, Sym, Weak

_ATOMS = (int, bool, str, bytes, complex, range, type(None), type(Ellipsis), np.dtype)


class _Unbound:
    def __repr__(self) -> str:
        return "unbound"


UNBOUND = _Unbound()


def is_number(v: Any) -> bool:
    """True if a value is a Python or NumPy scalar that is known while tracing."""
    return isinstance(v, (bool, int, float)) or (isinstance(v, np.generic) and from_numpy(v.dtype) is not None)


def is_scalar(v: Any) -> bool:
    """True if a value is a number, known or not."""
    return (type(v) is Sym and not v.is_array) or is_number(v)


def is_structure(v: Any) -> bool:
    """True if the parts of a value are merged one by one: for a tuple or a ``Composite``."""
    return isinstance(v, tuple) or (type(v) is not Sym and hasattr(type(v), "with_parts"))


def parts(v: Any) -> tuple[Any, ...]:
    """The values inside a structure."""
    return tuple(v) if isinstance(v, tuple) else v.parts()


def static_of(v: Any) -> Any:
    """The part of a structure that must be equal for two structures to merge part by part."""
    return (type(v), len(v)) if isinstance(v, tuple) else (type(v), v.static, len(v.parts()))


def rebuild(v: Any, new: tuple[Any, ...]) -> Any:
    """The structure ``v`` with other parts."""
    if type(v) is tuple:
        return new
    if isinstance(v, tuple):
        return type(v)._make(new) if hasattr(v, "_make") else type(v)(new)
    return v.with_parts(new)


def is_static(v: Any) -> bool:
    """True if a value is completely known while tracing and contains no object of the trace."""
    if isinstance(v, (Sym, ArrayRef, Obj, Maybe)):
        return False
    if is_structure(v):
        return all(map(is_static, parts(v)))
    if isinstance(v, slice):
        return is_static((v.start, v.stop, v.step))
    return True


def same(a: Any, b: Any) -> bool:
    """True if two values are known to be the same."""
    if a is b:
        return True
    cls = type(a)
    if cls is not type(b) or isinstance(a, Obj):
        return False
    if cls is Sym:
        return a.value is b.value and a.weak == b.weak
    if cls is ArrayRef:
        return a.obj is b.obj and len(a.steps) == len(b.steps) and all(x is y for x, y in zip(a.steps, b.steps))
    if cls is float:
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    if cls is dict:
        return list(a) == list(b) and all(same(x, y) for x, y in zip(a.values(), b.values()))
    if cls is Maybe:
        return same(a.value, b.value) and same(a.flag, b.flag)
    if is_structure(a):
        return static_of(a) == static_of(b) and all(map(same, parts(a), parts(b)))
    if isinstance(a, np.generic):
        return bool(a.tobytes() == b.tobytes())
    return cls in _ATOMS and a == b


def scalar_type(v: Any) -> tuple[Scalar, Weak]:
    """The type of a number, or of the stack of a pullback, and True if it is weak."""
    if type(v) is Sym:
        return (v.type if isinstance(v.type, Stack) else v.scalar), v.weak       # type: ignore[return-value]
    if isinstance(v, np.generic):
        found = from_numpy(v.dtype)
        assert found is not None
        return found, False
    return (BOOL if isinstance(v, bool) else I64 if isinstance(v, int) else F64), True


def join_scalars(values: Iterable[Any], in_loop: bool) -> tuple[Scalar, Weak] | None:
    """The type of a variable that holds any of these numbers, and True if it is weak; None if there is no such type.

    The type never loses a value: an int and a float become f64, and a weak number adapts to its neighbour's type only
    if it is a constant that fits.  There is no type if computations with the variable would wrap on one path and not on
    another.  The initial value of a loop is an exception: it is converted to the type that its iterations give.
    """
    strong: Scalar | None = None
    weak: list[Any] = []
    mixed = False
    for v in values:
        t, is_weak = scalar_type(v)
        mixed |= is_weak is None
        if is_weak:
            weak.append(v)
        elif strong is None:
            strong = t
        elif (found := promoted(strong, t)) is None:
            return None
        else:
            strong = found
    result = strong
    for v in weak:
        t, _ = scalar_type(v)
        if strong is not None and type(v) is not Sym and fits(v, strong) and (in_loop or not strong.is_narrow):
            continue
        found = t if result is None else promoted(result, t)
        if found is None:
            return None
        result = found
    assert result is not None
    return result, True if strong is None else None if result is I64 and (mixed or weak) else False


def promoted(a: Scalar, b: Scalar) -> Scalar | None:
    """The join of two scalar types; None if they differ and one is narrow."""
    if a is b:
        return a
    if a.is_narrow or b.is_narrow:
        return None
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.is_float or b.is_float:
        return F64
    return I64


def is_narrower(v: Any, widened: Collection[Value]) -> bool:
    """True for an f32, or what an f32 and Python numbers have been joined to (``widened``), and for these."""
    type_, weak = scalar_type(v)
    return type_ is F32 or bool(weak) or type(v) is Sym and v.value in widened


def fits(v: Any, t: Scalar) -> bool:
    if t.is_bool or (t.is_int and isinstance(v, float)):
        return isinstance(v, bool)
    if isinstance(v, float) and v != v:
        return True
    try:
        with np.errstate(all="ignore"):
            return bool(t.np.type(v) == v)
    except OverflowError:
        return False


def describe(v: Any) -> str:
    """A description of a value for error messages."""
    if isinstance(v, Conflict):
        return v.reason
    if v is UNBOUND or isinstance(v, Maybe):
        return "unbound"
    if type(v) is Sym:
        if isinstance(v.type, Array):
            return f"an array {v.type}"
        names = {"f": "a float", "i": "an int", "b": "a bool"}
        return f"a NumPy {v.scalar.np}" if v.scalar.is_narrow else names[v.scalar.kind]
    if isinstance(v, ArrayRef):
        return "an array"
    if type(v) is Choice:
        return " or ".join(dict.fromkeys(map(describe, v.variants)))
    if isinstance(v, Active):
        return v.describe()
    if isinstance(v, tuple):
        return f"a tuple of {len(v)}"
    if isinstance(v, ListObj):
        return "a list"
    if isinstance(v, Slot):
        return f"the variable {v.name}"
    if v is None or isinstance(v, (bool, int, float, str)):
        return repr(v)
    if isinstance(v, Instance):
        return f"a {v.cls.__name__}"
    return _KINDS.get(type(v).__name__, f"a {type(v).__name__}")


_KINDS = {
    "DictObj": "a dict", "Fn": "a function", "Partial": "a function", "BoundMethod": "a method", "Method": "a method",
    "Range": "a range", "Zip": "a zip", "Enumerate": "an enumerate", "Reversed": "a reversed", "Mapped": "a map",
    "View": "a view of a dict", "Unrolled": "an unroll", "Generator": "a generator expression",
    "Raised": "an exception", "type": "a class",
    "module": "a module", "function": "a function", "builtin_function_or_method": "a builtin function",
    "ufunc": "a NumPy function", "ellipsis": "`...`",
}
