"""Pytrees: nested Python structures as flat lists of leaves.

A *structure* is a value without its leaves: tuples, lists, dicts (in insertion order, with static keys), NamedTuples
and dataclasses.  ``None`` and strings are part of the structure.  Everything else is a leaf.

Structures are hashable and compare by meaning, so they can be part of the keys of compiled code.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .errors import TypeInferenceError
from .frontend.columns.list_columns import LONG, Columns, gathered, listed
from .frontend.columns.pack import Packed, pack_node
from .frontend.columns.recursive_types import family_of

Within = tuple[tuple[int, int], ...]         # (index of a tag among the leaves, variant), outermost first


class Structure:
    """One node: its Python type, its static part (keys, field names, a string), and its children."""

    __slots__ = ("type", "static", "children", "count", "_hash")

    def __init__(self, type: type | None, static: Any = None, children: tuple[Structure, ...] = (),
                 count: int | None = None) -> None:
        self.type, self.static, self.children = type, static, children
        self.count: int = sum(c.count for c in children) if count is None else count
        self._hash = hash((type, static, children))

    @property
    def is_leaf(self) -> bool:
        return self.type is None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (isinstance(other, Structure) and self._hash == other._hash and self.type is other.type
                and _alike(self.static, other.static) and self.children == other.children)

    def __repr__(self) -> str:
        if self.is_leaf:
            return "*"
        if self.type is OneOf:
            return " or ".join(map(repr, self.children[1:]))
        if not self.children:
            return repr(self.static) if self.type in (str, NoneType) else f"{_name(self.type)}()"
        if self.type is Packed:
            return f"{_name(self.type)}({self.static.layout})"
        if self.type is Columns:
            return repr(self.static)
        keys = self.static if isinstance(self.static, tuple) else range(len(self.children))
        if self.type in (tuple, list):
            return f"{_name(self.type)}({', '.join(map(repr, self.children))})"
        return f"{_name(self.type)}({', '.join(f'{k}={c!r}' for k, c in zip(keys, self.children))})"

    def tags(self) -> list[bool]:
        """For each leaf, True if it is shared with gradients.

        Such leaves are tags of a ``OneOf``, references to nodes, and columns that only tell the length of a list.
        """
        if self.is_leaf:
            return [False]
        if self.type is Packed:
            return [True] * self.static.count + [c.structure for c in self.static.layout.columns]
        if self.type is Columns:
            return list(self.static.structural())
        out = [t for c in self.children for t in c.tags()]
        if self.type is OneOf:
            out[0] = True
        return out

    def within(self, first: int = 0) -> list[Within]:
        """For each leaf, the ``OneOf`` variants that contain it; leaves are counted from ``first``."""
        if not self.children or self.type is Packed:
            return [()] * self.count
        out: list[Within] = []
        for k, child in enumerate(self.children):
            around = ((first, k - 1),) if self.type is OneOf and k else ()
            out += [(*around, *inner) for inner in child.within(first + len(out))]
        return out

    def paths(self, prefix: str = "") -> Iterator[str]:
        """For each leaf, its access path in Python syntax: ``[0]['w'].bias``."""
        if self.is_leaf:
            yield prefix
            return
        for i, child in enumerate(self.children):
            yield from child.paths(prefix + self._step(i))

    def _step(self, i: int) -> str:
        if self.type in (tuple, list):
            return f"[{i}]"
        if self.type is OneOf:
            return f"<{i}>"
        if self.type in (Packed, Columns):
            return f".{i}"
        return f"[{self.static[i]!r}]" if issubclass(self.type or object, dict) else f".{self.static[i]}"


class OneOf:
    """A union in a pytree: one of several values, ``variants[tag]``, where the tag is a leaf."""

    __slots__ = ("tag", "variants")

    def __init__(self, tag: Any, variants: Sequence[Any]) -> None:
        self.tag, self.variants = tag, tuple(variants)


NoneType = type(None)
LEAF = Structure(None, count=1)
NONE = Structure(NoneType)
_FLAT: list[Structure] = [Structure(tuple, None, (LEAF,) * n) for n in range(16)]


def _alike(a: Any, b: Any) -> bool:
    """True if the static parts of two structures mean the same; equal keys of dicts may differ in meaning."""
    if type(a) is not type(b) or not a == b:
        return False
    return not isinstance(a, tuple) or all(x is y or meaning(x) == meaning(y) for x, y in zip(a, b))


def meaning(value: Any) -> tuple[Any, ...]:
    """The key by which a constant is compared: its class and value, also inside tuples, frozensets and dataclasses.

    So ``1`` differs from ``True`` and ``0.0`` from ``-0.0``; NaN is equal to itself.
    """
    if isinstance(value, float):
        return type(value), float(value).hex()
    if isinstance(value, complex):
        return type(value), value.real.hex(), value.imag.hex()
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    if isinstance(value, tuple):
        return type(value), *map(meaning, value)
    if isinstance(value, frozenset):
        return type(value), frozenset(map(meaning, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), value, *(meaning(getattr(value, f.name)) for f in dataclasses.fields(value))
    return type(value), value


def _name(t: type | None) -> str:
    return t.__name__ if t is not None else "*"


# --- flattening -----------------------------------------------------------------------------------

_OPAQUE: set[type] = set()


def opaque(cls: type) -> type:
    """Makes a dataclass a leaf (usable as a decorator)."""
    _OPAQUE.add(cls)
    return cls


def is_container(x: Any) -> bool:
    """True if ``x`` is part of the structure and not a leaf."""
    t = type(x)
    if t in _OPAQUE:
        return False
    return t in _TAKE or isinstance(x, (tuple, dict, list, str)) or dataclasses.is_dataclass(t)


class Arguments(list[Any]):
    """The leaves of the arguments of a call, in which long lists of one kind are flattened to columns."""


def flatten(x: Any) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure from which ``unflatten`` rebuilds the value."""
    leaves: list[Any] = []
    return leaves, _flatten(x, leaves)


def flatten_into(x: Any, leaves: list[Any]) -> Structure:
    """``flatten``, but appends to existing leaves; returns the structure."""
    return _flatten(x, leaves)


def flatten_args(args: tuple[Any, ...]) -> tuple[Sequence[Any], Structure]:
    """``flatten`` of an argument tuple, with a fast path if every argument is a leaf."""
    for x in args:
        t = type(x)
        if t not in _PLAIN and is_container(x):
            return flatten(args)
    n = len(args)
    return args, _FLAT[n] if n < len(_FLAT) else Structure(tuple, None, (LEAF,) * n)


def _flatten(x: Any, leaves: list[Any]) -> Structure:
    t = type(x)
    take = _TAKE.get(t)
    if take is None:
        if t not in _PLAIN and is_container(x):
            return _flatten_other(x, leaves)
        leaves.append(x)
        return LEAF
    return take(x, leaves)


def _list(x: Any, leaves: list[Any]) -> Structure:
    if len(x) > LONG and type(leaves) is Arguments:
        found = columns_of(x)
        if found is not None:
            return _columns(found, leaves)
    return _sequence(x, leaves)


def columns_of(x: list[Any]) -> Columns | None:
    """A long list as columns, or None if its elements are not of one kind."""
    return gathered(x, lambda first: _flatten(first, Arguments()))


def _columns(x: Columns, leaves: list[Any]) -> Structure:
    leaves += x.columns
    return Structure(Columns, x.kind, (LEAF,) * len(x.columns))


def _sequence(x: Any, leaves: list[Any]) -> Structure:
    return Structure(type(x), None, tuple([_flatten(v, leaves) for v in x]))


def _dict(x: Any, leaves: list[Any]) -> Structure:
    return Structure(type(x), tuple(x), tuple([_flatten(v, leaves) for v in x.values()]))


def _flatten_other(x: Any, leaves: list[Any]) -> Structure:
    """Flattens NamedTuples, dataclasses and strings; refuses other subclasses of the builtin containers."""
    t = type(x)
    if hasattr(t, "_fields") and isinstance(x, tuple):
        return Structure(t, tuple(t._fields), tuple([_flatten(v, leaves) for v in x]))
    if dataclasses.is_dataclass(t):
        if family_of(t) is not None:
            return _packed(pack_node(x), leaves)
        names = field_names(t)
        return Structure(t, names, tuple([_flatten(getattr(x, n), leaves) for n in names]))
    if isinstance(x, str):
        return Structure(str, x if isinstance(x, enum.Enum) else str.__str__(x))     # ``__str__`` may be overridden
    base = next(c for c in (dict, list, tuple) if isinstance(x, c))
    raise TypeInferenceError(f"a {t.__name__} means something else than the {base.__name__} that it is made of",
                             hint=f"pass {base.__name__}(x), or a NamedTuple or dataclass")


def _packed(x: Packed, leaves: list[Any]) -> Structure:
    """Flattens nodes of recursive dataclasses: their columns are the leaves."""
    leaves += x._leaves
    return Structure(Packed, x._root, (LEAF,) * len(x._leaves))


def field_names(t: type) -> tuple[str, ...]:
    """The field names of a dataclass, in order."""
    return tuple(f.name for f in dataclasses.fields(t))


_TAKE: dict[type, Callable[[Any, list[Any]], Structure]] = {
    Packed: _packed,
    Columns: _columns,
    tuple: _sequence,
    list: _list,
    dict: _dict,
    OrderedDict: _dict,
    NoneType: lambda x, leaves: NONE,
    str: lambda x, leaves: Structure(str, x),
    OneOf: lambda x, leaves: Structure(OneOf, None, tuple([_flatten(v, leaves) for v in (x.tag, *x.variants)])),
}
_PLAIN = frozenset((float, int, bool))


# --- unflattening ---------------------------------------------------------------------------------

def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The value with this structure and these leaves."""
    if len(leaves) != structure.count:
        raise ValueError(f"{structure} has {structure.count} leaves, not {len(leaves)}")
    return _unflatten(structure, iter(leaves))


def _unflatten(s: Structure, leaves: Iterator[Any]) -> Any:
    t = s.type
    if t is None:
        return next(leaves)
    if t is NoneType:
        return None
    if t is str:
        return s.static
    return build(t, s.static, [_unflatten(c, leaves) for c in s.children])


def build(t: Any, static: Any, children: list[Any]) -> Any:
    """A container of type ``t`` from the values of its children."""
    if t is tuple:
        return tuple(children)
    if t is list:
        return children
    if t is OneOf:
        tag, *variants = children
        return variants[tag] if isinstance(tag, (int, np.integer)) else OneOf(tag, variants)
    if t is Packed:
        none = not static.is_list and isinstance(children[0], int) and children[0] < 0
        return None if none else Packed(static, children)
    if t is Columns:
        arrays = all(type(x) is np.ndarray for x in children)
        return listed(static, children, unflatten) if arrays else Columns(static, children)
    if issubclass(t, dict):
        return t(zip(static, children))
    if issubclass(t, tuple) and static is not None:
        return t._make(children)             # a NamedTuple
    if static is None:
        return t(children)
    instance = object.__new__(t)             # bypasses __init__, which may check or convert its arguments
    for name, value in zip(static, children):
        object.__setattr__(instance, name, value)
    return instance


def children(x: Any) -> tuple[Any, list[Any]]:
    """The static part of a container, and its direct children (one level)."""
    t = type(x)
    if isinstance(x, OneOf):
        return None, [x.tag, *x.variants]
    if type(x) is Packed:
        return x._root, list(x._leaves)
    if type(x) is Columns:
        return x.kind, list(x.columns)
    if isinstance(x, dict):
        return tuple(x), list(x.values())
    if isinstance(x, tuple) and hasattr(t, "_fields"):
        return tuple(t._fields), list(x)
    if dataclasses.is_dataclass(t):
        names = field_names(t)
        return names, [getattr(x, n) for n in names]
    return None, list(x)


def holds_packed(s: Structure) -> bool:
    """True if the structure contains trees."""
    return s.type is Packed or any(map(holds_packed, s.children))


def holds_columns(s: Structure) -> bool:
    """True if the structure contains long lists, whose leaves have one more axis than the elements."""
    return s.type is Columns or any(map(holds_columns, s.children))


def holds_choice(s: Structure) -> bool:
    """True if the structure contains unions."""
    return s.type is OneOf or any(map(holds_choice, s.children))


def as_gradient(s: Structure, leaves: Sequence[Any]) -> Any:
    """The gradient of a value of this structure, with these leaves (see ``tags``); strings become None."""
    given = iter(leaves)

    def walk(s: Structure) -> Any:
        if s.is_leaf:
            return next(given)
        if s.type in (NoneType, str):
            return None
        if s.type is Packed:
            return Packed.gradient(s.static, [next(given) for _ in s.children])
        if s.type is Columns:
            return Columns.gradient(s.static, [next(given) for _ in s.children])
        return build(s.type, s.static, [walk(c) for c in s.children])
    return walk(s)


def map_leaves(fun: Callable[..., Any], x: Any, *others: Any) -> Any:
    """``fun`` applied to each leaf of ``x`` and the corresponding leaves of ``others``."""
    leaves, structure = flatten(x)
    rest = [flatten(o)[0] for o in others]
    return unflatten(structure, [fun(*vs) for vs in zip(leaves, *rest, strict=True)])
