"""The signature of a call: the structure of its arguments, and the IR type or static value of each leaf.

Code is compiled for a *signature*.  ``signature`` also converts each leaf to the form that machine code reads: native
byte order, C order, an element type of the IR, numbers of Python or NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..errors import TypeInferenceError
from ..frontend.captured.leaves import Leaf, Opened
from ..frontend.captured.user_classes import openable
from ..ir.types import ALL, BOOL, F64, I64, INSTEAD, Array, Scalar, from_numpy, parse
from ..pytree import Arguments, Structure, flatten, flatten_into, holds_columns, meaning, unflatten

_PYTHON = {float: Leaf(F64, True), int: Leaf(I64, True), bool: Leaf(BOOL, True)}
_NUMPY = {t.np.type: Leaf(t, False) for t in ALL}
_LEAVES = frozenset((*_PYTHON, *_NUMPY, np.ndarray))
_DTYPES = tuple(t.np for t in ALL)                         # NumPy's own objects for the element types
_INT_RANGE = range(-(1 << 63), 1 << 63)

Classify = Callable[[Any, bool], "tuple[Leaf | Static | Opened, Any]"]


class Spec:
    """A stand-in for an argument of this type: ``jitad.spec("f64[:, :]")``."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf

    def __repr__(self) -> str:
        return f"spec({str(self.leaf.type)!r})"


def spec(text: str) -> Spec:
    """A stand-in for an argument: ``f64``, ``i64``, ``f32[:]``, ``f64[:, 3]``; scalars are Python numbers."""
    if not isinstance(text, str):
        raise TypeError(f'spec takes the text of a type, such as "f64[:, :]", not {text!r}')
    t = parse(text)
    if not isinstance(t, (Scalar, Array)):
        raise ValueError(f"not a type of arguments: {text!r} (types look like f64, i64, f64[:], f32[:, 3])")
    return Spec(Leaf(t, isinstance(t, Scalar) and t.of_python))


class Whole:
    """An object that is a single leaf of any class: tracing reads the attributes that the program uses."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj


class Static:
    """A leaf that is a compile-time constant; values with the same ``pytree.meaning`` share a signature."""

    __slots__ = ("value", "_key")

    def __init__(self, value: Any) -> None:
        self.value, self._key = value, meaning(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and bool(self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


class Signature:
    """The structure of ``(args, kwargs)``, and the type or static value of each leaf."""

    __slots__ = ("structure", "leaves", "_hash")

    def __init__(self, structure: Structure, leaves: tuple[Leaf | Static | Opened, ...]) -> None:
        self.structure, self.leaves, self._hash = structure, leaves, hash((structure, leaves))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Signature) and self._hash == other._hash and self.structure == other.structure
                and self.leaves == other.leaves)

    def specs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with leaves in place of values, as the tracer takes them."""
        plain = [leaf.value if isinstance(leaf, Static) else leaf for leaf in self.leaves]
        args, kwargs = unflatten(self.structure, plain)
        return args, kwargs

    def has_columns(self) -> bool:
        """True if an argument is or contains a long list."""
        return holds_columns(self.structure)

    def __str__(self) -> str:
        args, kwargs = unflatten(self.structure, [_Shown(leaf) for leaf in self.leaves])
        return ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])


class _Shown:
    def __init__(self, leaf: Leaf | Static | Opened) -> None:
        self.leaf = leaf

    def __repr__(self) -> str:
        if isinstance(self.leaf, (Static, Opened)):
            return repr(self.leaf)
        kind = self.leaf.type
        return str(kind) if self.leaf.weak or isinstance(kind, Array) else f"np.{kind.np}"  # type: ignore[union-attr]


# --- leaves ---------------------------------------------------------------------------------------

def signature(args: tuple[Any, ...], kwargs: dict[str, Any], static: frozenset[int | str],
              static_shapes: bool, long: bool = True, kind: Classify | None = None) -> tuple[Signature, list[Any]]:
    """The signature of a call, and its converted leaves.  ``static``: positions and names of static arguments.

    ``long``: long lists become columns (``frontend.columns.list_columns``) instead of one leaf for each element.
    ``kind``: ``classify``, or a function that also knows arrays of other libraries.
    """
    of_leaf = kind or classify
    if static:
        args = tuple(_make_static(a) if i in static else a for i, a in enumerate(args))
        kwargs = {k: _make_static(v) if k in static else v for k, v in kwargs.items()}
    values, structure = _flatten_call(args, kwargs, long)
    leaves = [of_leaf(v, static_shapes) for v in values]
    for i, (leaf, _) in enumerate(leaves):
        if type(leaf) is Opened:
            leaf.number = i
    return Signature(structure, tuple([leaf for leaf, _ in leaves])), [value for _, value in leaves]


def _flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any], long: bool) -> tuple[Sequence[Any], Structure]:
    """``flatten((args, kwargs))``, with a fast path for arguments that are all leaves."""
    if not kwargs and all([type(a) in _LEAVES for a in args]):
        return args, _flat_call(len(args))
    if not long:
        return flatten((args, kwargs))
    leaves = Arguments()
    return leaves, flatten_into((args, kwargs), leaves)


@cache
def _flat_call(n: int) -> Structure:
    return flatten(((0,) * n, {}))[1]


def _make_static(value: Any) -> Static:
    try:
        hash(value)
    except TypeError:
        raise TypeInferenceError(f"a static argument must be hashable, not a {type(value).__name__}",
                                 hint="pass a tuple instead of a list, a frozen dataclass instead of a dict") from None
    return Static(value)


def classify(x: Any, static_shapes: bool = False) -> tuple[Leaf | Static | Opened, Any]:
    """The type or static value of a leaf, and the leaf in the form that machine code reads."""
    cls = type(x)
    if cls in _PYTHON:
        if cls is int and x not in _INT_RANGE:
            raise OverflowError(f"integers are 64 bits wide in compiled code: {_short(x)} does not fit")
        return _PYTHON[cls], x
    if cls in _NUMPY:
        return _NUMPY[cls], x
    if isinstance(x, Static):
        return x, x.value
    if cls is Whole:
        return Opened(type(x.obj)), x.obj
    if isinstance(x, Spec):
        return x.leaf, x
    if isinstance(x, np.ndarray):
        return _classify_array(x, static_shapes)
    if isinstance(x, np.generic):
        return classify(_known_dtype(np.asarray(x))[()])
    if isinstance(x, (bool, int, float)):
        return classify(next(base for base in (bool, int, float) if isinstance(x, base))(x))
    if openable(cls):
        return Opened(cls), x
    if callable(x):
        return _make_static(x), x
    hint = "" if not hasattr(cls, "__dlpack__") else "jit(target='cuda') takes arrays on a device; for the CPU, "
    raise TypeInferenceError(
        f"an argument of type {cls.__module__}.{cls.__qualname__} has no place in compiled code",
        hint=hint + "pass numbers, NumPy arrays, and tuples, lists, dicts, NamedTuples or dataclasses of those; "
             "name a compile-time constant in jit(static=(…,))")


def _classify_array(x: np.ndarray, static_shapes: bool) -> tuple[Leaf | Static | Opened, Any]:
    if type(x) is not np.ndarray and isinstance(x, (np.ma.MaskedArray, np.matrix)):
        raise TypeInferenceError(f"a {type(x).__name__} means something else than the array it is made of",
                                 hint="pass np.asarray(x)")
    x = _known_dtype(x)
    if x.ndim == 0:
        return classify(x[()])
    x = np.asarray(x)                                         # converts a subclass without copying
    if not (x.flags.c_contiguous and x.flags.aligned):
        x = np.array(x, order="C")
    return array_leaf(x.dtype, tuple([n if static_shapes or n == 1 else None for n in x.shape])), x


@cache
def array_leaf(dtype: np.dtype, dims: tuple[int | None, ...]) -> Leaf:
    """The leaf for arrays with an element type of the IR."""
    scalar = from_numpy(dtype)
    assert scalar is not None
    return Leaf(Array(scalar, dims), False)


def _known_dtype(x: np.ndarray) -> np.ndarray:
    """``x`` with an element type of the IR, and with that type's own dtype object."""
    dtype = x.dtype
    for singleton in _DTYPES:
        if dtype is singleton:
            return x
    known = from_numpy(dtype)
    if known is not None:
        return np.asarray(x).view(known.np)
    if not x.dtype.isnative:
        return _known_dtype(x.astype(x.dtype.newbyteorder("=")))
    raise TypeInferenceError(f"arrays of dtype {x.dtype} have no place in compiled code",
                             hint=f"convert to {INSTEAD} first")


def _short(x: int) -> str:
    return str(x) if abs(x) < 10**30 else f"one of {x.bit_length()} bits"


