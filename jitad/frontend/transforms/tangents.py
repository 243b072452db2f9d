"""Tangents and cotangents that a program supplies, converted to the form of their primal values.

``like`` matches, while tracing, the parts of a tangent to the leaves of its value.  Union tags, references and array
sizes are only known at run time; ``same_references`` and ``tangent_like`` emit checks for them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ... import pytree
from ...errors import DifferentiationError
from ...ir.graph import Value
from ...ir.types import Array, Type, dims_of, dtype_of, is_float
from ...pytree import NoneType, OneOf, Structure
from ..arrays import table
from ..arrays.rules import lengths, promotion
from ..columns.list_columns import Columns, Kind, gathered
from ..columns.pack import Packed
from ..objects import containers
from ..objects.list_elements import holds_lists
from ..values.lattice import is_number, is_scalar
from ..values.protocol import Trace
from ..values.values import ArrayRef, Sym
from ..values.variant_guards import unless_absent, zero_if_absent, zeros

ANOTHER_SHAPE = (": a tangent is a tree of another shape than its value, or its nodes were made in another order: "
                 "differentiate a float that is computed from the tree, or make the tangent in the order of its value")


@dataclass(frozen=True)
class Fits:
    """Replaces the tag of a union in a tangent: ``tags`` are the variants that the tangent fits.

    If the tangent is a union too, ``tag`` is its own tag, and ``own`` has its required value for each of ``tags``.
    """

    tags: tuple[int, ...]
    otherwise: str
    tag: Any = None
    own: tuple[int, ...] = ()


def read(t: Trace, x: Any) -> Any:
    """The current value of an array, also of a captured one; other values are lifted."""
    x = t.lift(x)
    return t.read(x) if isinstance(x, ArrayRef) else x


# --- while tracing ------------------------------------------------------------------------------------

def like(t: Trace, structure: Structure, types: Sequence[Type | None], v: Any, what: str) -> list[Any]:
    """The parts of a user value that correspond to the leaves of ``structure``, which have these types.

    ``None`` may replace any of them.  Raises ``DifferentiationError`` if the value has another structure.
    """
    found = _Matching(t, structure, types, what)
    found.walk(structure, containers.export(t, v))
    return [x if isinstance(x, Fits) else read(t, x) for x in found.out]


class _Matching:
    """Traverses a structure and a value that should match it; ``out``: the matching parts, one for each leaf."""

    def __init__(self, t: Trace, whole: Structure, types: Sequence[Type | None], what: str) -> None:
        self.t, self.whole, self.types, self.what = t, whole, types, what
        self.out: list[Any] = []

    def walk(self, s: Structure, x: Any) -> None:
        if s.is_leaf or (x is None and s.count):
            self.out.extend([x] * s.count)
        elif s.type is Packed and isinstance(x, Packed):
            self._packed(s.static, x)
        elif s.type is OneOf:
            self._union(s, x) if isinstance(x, OneOf) else self._variants(s, x)
        elif s.type is Columns or isinstance(x, Columns):
            self._columns(s, x)
        elif s.children:
            parts = _parts(s, x)
            if parts is None:
                raise self._another_structure()
            for child, part in zip(s.children, parts):
                self.walk(child, part)

    def _another_structure(self) -> DifferentiationError:
        return DifferentiationError(f"{self.what} has another structure than its value, {self.whole}", self.t.loc)

    def _packed(self, root: Any, x: Packed) -> None:
        """Matches columns by name, since a gradient has no columns for discrete fields."""
        if not _same_family(root, x):
            raise DifferentiationError(f"{self.what} is {x} where its value is packed({root.layout})", self.t.loc)
        columns = dict(zip(x._root.layout.place, x._leaves[root.count:]))
        self.out.extend([*x._leaves[:root.count], *(columns.get(c.name) for c in root.layout.columns)])

    def _columns(self, s: Structure, x: Any) -> None:
        """Matches a long list: each column matches a leaf of the element's structure."""
        if isinstance(x, list) and s.type is Columns and s.static.discrete:
            self.out.extend([None] * s.count)
            return
        if isinstance(x, list) and x and all(map(is_number, x)) and s.type is Columns:
            x = gathered(x, lambda first: pytree.LEAF)
        elif isinstance(x, list) and s.type is Columns and not holds_lists(s.static.element):
            self.walk(s.static.element, self._in_columns(s.static, x))
            return
        elif s.type is Columns and s.static.element.type is Columns and _is_table(x):
            self.out.append(self.t.call(np.array, containers.import_(self.t, x)))
            return
        if s.type is not Columns or not isinstance(x, Columns) or s.static.discrete != x.kind.counts:
            self.t.unsupported(f"{self.what} that is a long list where its value, {s}, is none or of another kind",
                               "use arrays")
        if x.kind.counts:
            self.out += x.columns
        else:
            self.walk(s.static.element, pytree.unflatten(x.kind.element, x.columns))

    def _in_columns(self, of: Kind, xs: list[Any]) -> Any:
        """An element whose leaves are the columns of a list of elements."""
        if not xs:
            return pytree.unflatten(of.element, [None if cell.array else self.t.call(np.zeros, 0) for cell in of.cells])
        rows = [pytree.flatten(x) for x in xs]
        structure = rows[0][1]
        if any(other != structure for _, other in rows):
            raise self._another_structure()
        columns = [self.t.call(np.array, self.t.new_list(column)) for column in zip(*(leaves for leaves, _ in rows))]
        return pytree.unflatten(structure, columns)

    def _variants(self, s: Structure, x: Any) -> None:
        """Matches a value that is not a union to each variant that it fits; the other variants get None."""
        variants, types = s.children[1:], self._types(s)
        fitting = [k for k, variant in enumerate(variants) if self._fits(variant, x, types[k])]
        if not fitting:
            raise self._another_structure()
        if len(fitting) > 1 and any(not _only_numbers(variants[k], types[k]) for k in fitting):
            self.t.unsupported(f"{self.what} that fits more than one variant of its value, {s}, which holds arrays",
                               "return values of one kind, or a float that is computed from them")
        self.out.append(Fits(tuple(fitting), self._otherwise(s)))
        self._each(s, dict.fromkeys(fitting, x))

    def _union(self, s: Structure, x: OneOf) -> None:
        """Matches the variants of two unions by structure, since their order may differ."""
        types, own = self._types(s), dict[int, int]()
        for k, variant in enumerate(s.children[1:]):
            fitting = [j for j, v in enumerate(x.variants) if self._fits(variant, v, types[k]) or (
                v is None and not any(kind is not None and is_float(kind) for kind in types[k]))]
            if fitting:
                own[k] = k if k in fitting else fitting[0]
        if not own:
            raise self._another_structure()
        self.out.append(Fits(tuple(own), self._otherwise(s), x.tag, tuple(own.values())))
        self._each(s, {k: x.variants[j] for k, j in own.items()})

    def _each(self, s: Structure, given: dict[int, Any]) -> None:
        """Matches the variants in ``given`` by number; the others get None."""
        for k, variant in enumerate(s.children[1:]):
            if k in given:
                self.walk(variant, given[k])
            else:
                self.out.extend([None] * variant.count)

    def _types(self, s: Structure) -> list[Sequence[Type | None]]:
        """The leaf types of each variant of the union whose leaves come next."""
        at = list(accumulate((c.count for c in s.children), initial=len(self.out)))[1:]
        return [self.types[i:j] for i, j in zip(at, at[1:])]

    def _otherwise(self, s: Structure) -> str:
        return f"{self.what} does not fit the value that there is, of {s}"

    def _fits(self, s: Structure, x: Any, types: Sequence[Type | None]) -> bool:
        """True if ``x`` matches structure ``s`` with leaves of these types."""
        if s.is_leaf:
            x = read(self.t, x) if isinstance(x, (Sym, ArrayRef)) or not pytree.is_container(x) else None
            rank = promotion.rank(x.value) if isinstance(x, Sym) else 0 if is_number(x) else None
            return types[0] is not None and rank == len(dims_of(types[0]))
        if s.type in (NoneType, str):
            return x is None or (type(x) is str and x == s.static)
        if s.type is OneOf or x is None:
            return False                             # a union is never directly a variant of another
        if s.type is Packed:
            return isinstance(x, Packed) and _same_family(s.static, x)
        if s.type is Columns:
            return isinstance(x, Columns) and x.kind in (s.static, Columns.gradient(s.static, [None]).kind)
        parts = _parts(s, x)
        if parts is None:
            return False
        first = 0
        for child, part in zip(s.children, parts):
            if not self._fits_within(child, part, types[first:first + child.count]):
                return False
            first += child.count
        return True

    def _fits_within(self, s: Structure, x: Any, types: Sequence[Type | None]) -> bool:
        """True if a part of a value matches; unlike a whole value, it may be None or a union."""
        return (x is None and s.count > 0) or isinstance(x, OneOf) or s.type is OneOf or self._fits(s, x, types)


def _is_table(x: Any) -> bool:
    """True for a list of lists of numbers of one length, or of such lists."""
    if not isinstance(x, list) or not x or not all(isinstance(row, list) and row for row in x):
        return False
    same = len({len(row) for row in x}) == 1
    return same and (all(is_scalar(v) for row in x for v in row) or all(map(_is_table, x)))


def _parts(s: Structure, x: Any) -> list[Any] | None:
    """The parts of ``x`` that correspond to the children of ``s`` (of a dict, by key), or None if it does not match."""
    if x is None or isinstance(x, str) or not pytree.is_container(x):
        return None
    static, parts = pytree.children(x)
    if len(parts) != len(s.children) or type(x) is not s.type and {type(x), s.type} != {tuple, list}:
        return None
    if not isinstance(x, dict):
        return parts
    return [x[k] for k in s.static] if set(static) == set(s.static) else None


def _same_family(root: Any, x: Packed) -> bool:
    return x._root.layout.family is root.layout.family and x._root.is_list == root.is_list


def _only_numbers(s: Structure, types: Sequence[Type | None]) -> bool:
    return not any(s.tags()) and not any(isinstance(kind, Array) for kind in types)


# --- at run time --------------------------------------------------------------------------------------

def same_references(t: Trace, x: Any, dx: Any, what: str, there: Value | None) -> None:
    """Checks that a tangent or cotangent has the same references and the same union variant as its value."""
    b = t.builder
    if isinstance(dx, Fits):
        return _check_tag(t, t.value(x), dx, there)
    x, dx = t.value(x), t.value(table.lift(t, dx))
    if x is dx:
        return
    message = what + ANOTHER_SHAPE
    if isinstance(x.type, Array):
        sizes = lengths.sizes(t, x)
        for m, n in zip(sizes, lengths.sizes(t, dx)):
            if (same := lengths.equal_sizes(t, m, n)) is not None:
                t.check(unless_absent(b, there, same), "ValueError", message)
        dx = zero_if_absent(b, there, dx, dx.type, lambda: sizes)
        x, dx = b.all(b.eq(x, dx), axes=tuple(range(x.type.rank))), b.const(True)
    t.check(unless_absent(b, there, b.eq(x, dx)), "ValueError", message)


def _check_tag(t: Trace, tag: Value, fits: Fits, around: Value | None) -> None:
    b = t.builder
    there = [b.eq(tag, b.const(k, dtype_of(tag.type))) for k in fits.tags]
    if fits.tag is not None:
        own = t.value(fits.tag)
        there = [b.and_(test, b.eq(own, b.const(j, dtype_of(own.type)))) for test, j in zip(there, fits.own)]
    t.check(unless_absent(b, around, functools.reduce(b.or_, there)), "ValueError", fits.otherwise)


def tangent_like(t: Trace, x: Any, type: Type, shape: Sequence[Value], what: str, there: Value | None) -> Value:
    """A tangent or cotangent converted to its value's type and checked against its sizes.

    ``None`` becomes zero; so does the tangent of an absent variant (``there``).
    """
    b = t.builder
    if x is None:
        return zeros(b, type, shape)
    value = promotion.as_dtype(t, table.lift(t, x), dtype_of(type))
    if promotion.rank(value) != len(dims_of(type)):
        raise DifferentiationError(f"{what}: a tangent of type {value.type} for a value of type {type}", t.loc)
    for n, m in zip(lengths.sizes(t, value), shape):
        if (same := lengths.equal_sizes(t, n, m)) is not None:
            t.check(unless_absent(b, there, same), "ValueError",
                    f"{what}: a tangent has size {{}} where its value has size {{}}", n, m)
    return zero_if_absent(b, there, value, type, lambda: shape)
