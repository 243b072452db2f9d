"""Types of arguments as they are written: ``f64["n", 3]`` in annotations, ``"f64[n, 3], i64"`` in a signature.

Equal names of sizes stand for equal sizes, which an exported function tests when it is called.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import numpy as np

from ..calling.signature import Spec
from ..errors import UnsupportedError
from ..frontend.callables.traceable import signature_of
from ..frontend.captured.leaves import Leaf
from ..ir.types import BOOL, F64, I64, SCALARS, Array, Scalar, from_numpy
from ..lowering.aot import interface
from ..lowering.aot.interface import Dim, Struct, Tree
from ..pytree import field_names
from .names import c_name
from .packed_trees import packed_root, stand_in, tree_struct
from .types import Kind

_PYTHON = {float: F64, int: I64, bool: BOOL}
EXAMPLE = 'write types as in "f64[:], f64[n, m], i64", with (…) around the items of a tuple'


@dataclasses.dataclass
class Argument:
    """An argument of an export: its C interface, and the stand-in with which the function is traced."""

    tree: Tree
    spec: Any


def arguments(fun: Callable[..., Any], signature: Any, base: str) -> list[Argument]:
    """The arguments of ``fun`` with the types in ``signature``, or in its annotations if that is None.

    ``base``: the name of the export, with which the names of C structs begin.  Raises ``UnsupportedError`` for a type
    that C code cannot pass, and ``ValueError`` for a text that is no signature.
    """
    known = [p for p in signature_of(fun).parameters.values()]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in known) and signature is None:
        raise UnsupportedError(f"the parameters of {_name(fun)} are not known: it takes any number of arguments",
                               hint="pass a signature: " + EXAMPLE)
    kinds = _annotated(fun, known) if signature is None else items(signature)
    plain = [p for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in plain] + [f"x{i}" for i in range(len(plain), len(kinds))]
    required = [p.name for p in plain if p.default is p.empty]
    if len(kinds) < len(required):
        raise ValueError(f"{_name(fun)}{signature_of(fun)} takes {len(required)} arguments, and the signature has "
                         f"{len(kinds)}")
    return [argument(kind, c_name(name), base) for kind, name in zip(kinds, names)]


def _name(fun: Any) -> str:
    return getattr(fun, "__name__", type(fun).__name__)


def _hints(written: Any) -> dict[str, Any]:
    try:
        return get_type_hints(written)
    except NameError as e:
        raise UnsupportedError(f"an annotation of {_name(written)} cannot be read: {e}", hint=(
            "from jitad.aot import f64, i64; the annotation is f64[\"n\"], not \"f64[n]\"")) from None


def _annotated(fun: Callable[..., Any], known: Sequence[inspect.Parameter]) -> list[Any]:
    written = inspect.unwrap(fun)
    while not hasattr(written, "__annotations__") and hasattr(written, "fun"):
        written = written.fun
    hints = _hints(written)
    missing = [p.name for p in known if p.name not in hints and p.default is p.empty]
    if missing:
        raise UnsupportedError(f"the types of {', '.join(missing)} are not known in {_name(fun)}{signature_of(fun)}",
                               hint='pass a signature such as "f64[:], i64", or annotate: def f(x: f64["n"])')
    return [hints[p.name] for p in known if p.name in hints]


# --- text -------------------------------------------------------------------------------------------

def items(signature: Any) -> list[Any]:
    """The types of a signature: of its text, or of a sequence of types."""
    if isinstance(signature, str):
        return [_parsed(part) for part in _split(signature)]
    if isinstance(signature, Sequence):
        return [_parsed(part) if isinstance(part, str) else part for part in signature]
    return [signature]


def _split(text: str) -> list[str]:
    """The parts between commas that are outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    if depth:
        raise ValueError(f"brackets in {text!r} do not match; {EXAMPLE}")
    return [p for p in parts if p]


def _parsed(text: str) -> Any:
    if text.startswith("(") and text.endswith(")"):
        return tuple(_parsed(part) for part in _split(text[1:-1]))
    name, bracket, rest = text.partition("[")
    kind = SCALARS.get(name.strip())
    if kind is None or bracket and not rest.endswith("]"):
        raise ValueError(f"not a type: {text!r}; {EXAMPLE}")
    if not bracket:
        return Kind(kind)
    return Kind(kind, tuple(_dim(d.strip(), text) for d in rest[:-1].split(",")))


def _dim(text: str, whole: str) -> Dim:
    if text in (":", "?"):
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    if text.isidentifier():
        return text
    raise ValueError(f"not a size: {text!r} in {whole!r}; {EXAMPLE}")


# --- trees ------------------------------------------------------------------------------------------

def argument(kind: Any, name: str, base: str) -> Argument:
    """The argument ``name`` of this type: a type, a tuple of types, a class with typed fields, or an example."""
    if isinstance(kind, str):
        kind = _parsed(kind)
    leaf = _leaf(kind)
    if leaf is not None:
        t = leaf.type
        spec = Spec(Leaf(t, isinstance(t, Scalar) and t.of_python))
        return Argument(interface.Leaf(name, t, leaf.dims), spec)
    if (packed := packed_root(kind, name)) is not None:
        return Argument(tree_struct(packed, name, f"{base}_{name}_t"), stand_in(packed))
    fields = _fields(kind)
    if fields is None:
        raise UnsupportedError(f"argument {name}: C code cannot pass a value of type {_shown(kind)}",
                               hint="export a function of numbers, arrays, tuples, NamedTuples and dataclasses; pass "
                                    "a list as an array or a tuple, and a dict as a dataclass")
    tag = f"{base}_{name}"
    children = [argument(k, c_name(n), tag) for n, k in fields]
    struct = Struct(name, f"{tag}_t", tuple(c.tree for c in children))
    return Argument(struct, _made(kind, fields, [c.spec for c in children]))


@dataclasses.dataclass
class _Typed:
    type: Scalar | Array
    dims: tuple[Dim, ...]


def _leaf(kind: Any) -> _Typed | None:
    if isinstance(kind, Spec):
        given: Any = kind.leaf.type
        return _Typed(given, given.dims if isinstance(given, Array) else ())
    if isinstance(kind, Kind):
        if kind.dims is None:
            return _Typed(kind.scalar, ())
        return _Typed(Array(kind.scalar, tuple(d if isinstance(d, int) else None for d in kind.dims)), kind.dims)
    if isinstance(kind, type) and kind in _PYTHON:
        return _Typed(_PYTHON[kind], ())
    if isinstance(kind, type) and issubclass(kind, np.generic):
        known = from_numpy(np.dtype(kind))
        return _Typed(known, ()) if known is not None else None
    if isinstance(kind, np.ndarray) and (element := from_numpy(kind.dtype)) is not None and kind.ndim:
        return _Typed(Array(element, tuple(n if n == 1 else None for n in kind.shape)),
                      tuple(n if n == 1 else None for n in kind.shape))
    if type(kind) in _PYTHON:
        return _Typed(_PYTHON[type(kind)], ())
    return None


def _fields(kind: Any) -> list[tuple[str, Any]] | None:
    """The fields of a tuple, NamedTuple or dataclass, or of a class of these, with their types; None for others."""
    cls = kind if isinstance(kind, type) else type(kind)
    if dataclasses.is_dataclass(cls) or issubclass(cls, tuple) and hasattr(cls, "_fields"):
        names = field_names(cls) if dataclasses.is_dataclass(cls) else cls._fields
        hints = _hints(cls) if isinstance(kind, type) else {n: getattr(kind, n) for n in names}
        return [(n, hints.get(n)) for n in names]
    if isinstance(kind, tuple):
        return [(f"item_{i}", item) for i, item in enumerate(kind)]
    if getattr(kind, "__origin__", None) is tuple and ... not in kind.__args__:
        return [(f"item_{i}", item) for i, item in enumerate(kind.__args__)]
    return None


def _made(kind: Any, fields: Sequence[tuple[str, Any]], values: list[Any]) -> Any:
    """A value of this class with these fields; the class's own initialisation does not run."""
    cls: Any = kind if isinstance(kind, type) else type(kind)
    if hasattr(cls, "_fields"):
        return cls._make(values)
    if not dataclasses.is_dataclass(cls):
        return tuple(values)
    made: Any = object.__new__(type(kind) if not isinstance(kind, type) else kind)
    for (name, _), value in zip(fields, values):
        object.__setattr__(made, name, value)
    return made


def _shown(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) else repr(kind)
