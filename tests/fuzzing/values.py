"""Nested Python values as lists of leaves: independent of the code under test.

Tuples, lists, dicts, NamedTuples and dataclasses, also recursive ones, are structure; so are ``None`` and strings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

LEAF = ("leaf",)
Structure = tuple[Any, ...]


def is_float(x: Any) -> bool:
    return isinstance(x, float) or isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f"


def flatten(x: Any) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure without them (hashable, compared by meaning)."""
    leaves: list[Any] = []
    return leaves, _flatten(x, leaves)


def _flatten(x: Any, leaves: list[Any]) -> Structure:
    if x is None or isinstance(x, str):
        return ("constant", x)
    if isinstance(x, dict):
        return (type(x), tuple(x), *[_flatten(v, leaves) for v in x.values()])
    if isinstance(x, (tuple, list)):
        return (type(x), None, *[_flatten(v, leaves) for v in x])
    if dataclasses.is_dataclass(x):
        names = tuple(f.name for f in dataclasses.fields(x))
        return (type(x), names, *[_flatten(getattr(x, n), leaves) for n in names])
    leaves.append(x)
    return LEAF


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, left: Iterator[Any]) -> Any:
    if structure == LEAF:
        return next(left)
    kind, names, *children = structure if structure[0] != "constant" else (*structure, None)
    if kind == "constant":
        return names
    parts = [_unflatten(c, left) for c in children]
    if issubclass(kind, dict):
        return kind(zip(names, parts))
    if names is not None:
        return kind(**dict(zip(names, parts)))
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def flatten_like(structure: Structure, x: Any) -> list[Any]:
    """The leaves of a value with this structure, which may have None in place of a leaf or of a part without floats."""
    return list(_like(structure, x))


def _like(structure: Structure, x: Any) -> Iterator[Any]:
    if structure == LEAF:
        yield x
    elif structure[0] != "constant":
        kind, names, *children = structure
        for i, child in enumerate(children):
            part = None if x is None else x[names[i]] if isinstance(x, dict) else \
                getattr(x, names[i]) if names else x[i]
            yield from _like(child, part)


def fits(x: Any, gradient: Any) -> bool:
    """True if a gradient has the structure of ``x``, with None exactly in place of leaves that are not floats."""
    leaves, structure = flatten(x)
    _, bare = flatten(unflatten(structure, [v if is_float(v) else None for v in leaves]))
    return _fits(bare, flatten(gradient)[1])


def _fits(structure: Structure, gradient: Structure) -> bool:
    if structure[0] == "constant" or gradient == ("constant", None):
        return gradient == ("constant", None) and not _holds_leaves(structure)
    if structure == LEAF or gradient == LEAF:
        return structure == gradient
    return structure[:2] == gradient[:2] and len(structure) == len(gradient) and all(
        _fits(s, g) for s, g in zip(structure[2:], gradient[2:]))


def _holds_leaves(structure: Structure) -> bool:
    return structure == LEAF or structure[0] != "constant" and any(_holds_leaves(s) for s in structure[2:])
