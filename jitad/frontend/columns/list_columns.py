"""Long lists of numbers, of arrays, or of tuples of those, as columns: one array for each leaf of an element.

A list argument of more than ``LONG`` elements of one kind is passed in this form, and its length is a run-time value.
Results and gradients that are such lists are converted back to Python lists.  ``long_lists`` implements their
operations in traced code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.types import BOOL, F32, F64, I32, I64, Scalar, from_numpy
from .recursive_types import family_of

Structure = Any                   # ``pytree.Structure``, which is in a higher layer
LONG = 32
"""Length up to which the elements of a list are separate arguments.  A function that sums the squares of n numbers is
compiled with its gradient in 77 ms for 16 separate numbers, 124 ms for 32, 211 for 64 and 996 for 256, and for a column
in 123 to 129 ms at any length.  The elements of shorter lists may also be inspected while tracing."""

LARGE, MANY = 1024, 256
"""Arrays of more than ``LARGE`` elements are separate arguments in lists of up to ``MANY``, since columns would copy
them at each call.  Applying 40 matrices of 256 x 256 one after the other takes 0.7 ms, and 6.4 ms with the copy; for
32 x 32 it takes 6 us and 65 us."""

_SCALARS: dict[type, tuple[Scalar, bool]] = {
    float: (F64, True), int: (I64, True), bool: (BOOL, True), np.float64: (F64, False), np.float32: (F32, False),
    np.int64: (I64, False), np.int32: (I32, False), np.bool_: (BOOL, False)}


@dataclass(frozen=True)
class Cell:
    """The type of a leaf of an element: a number (``weak`` as in ``Sym``: True for a Python number), or an array.

    ``ones``: for an array in a list that the program makes longer, True for each axis of a size that is known to be 1.
    """

    dtype: Scalar
    weak: bool | None = False
    array: bool = False
    ones: tuple[bool, ...] = ()


class Kind:
    """The structure of the elements and the types of their leaves; there is one object for each kind.

    ``counts``: no leaf is left, as in the gradient of a list of integers; the only column tells the length.
    """

    __slots__ = ("element", "cells", "counts")

    def __init__(self, element: Structure, cells: tuple[Cell, ...], counts: bool = False) -> None:
        self.element, self.cells, self.counts = element, cells, counts

    @property
    def width(self) -> int:
        """The number of columns."""
        return 1 if self.counts else len(self.cells)

    @property
    def discrete(self) -> bool:
        """True if no leaf is a float."""
        return not any(c.dtype.is_float for c in self.cells)

    def structural(self) -> list[bool]:
        """For each column, True if it is also in a gradient only to tell the length."""
        return [self.discrete and k == 0 for k in range(self.width)]

    def __repr__(self) -> str:
        names = iter(f"{c.dtype}[…]" if c.array else str(c.dtype) if c.weak else f"np.{c.dtype.np}" for c in self.cells)
        return f"list[{_shown(self.element, names)}]"


def _shown(s: Structure, names: Iterator[str]) -> str:
    if s.is_leaf:
        return next(names)
    inner = ", ".join(_shown(c, names) for c in s.children)
    return f"{getattr(s.type, '__name__', s.type)}[{inner}]" if s.children else "None" if s.static is None else \
        repr(s.static)


_kinds: dict[tuple[Any, ...], Kind] = {}


def kind(element: Structure, cells: tuple[Cell, ...], counts: bool = False) -> Kind:
    """The unique ``Kind`` with these properties."""
    key = element, cells, counts
    return _kinds.get(key) or _kinds.setdefault(key, Kind(*key))


class Columns:
    """A long list as columns: arrays, or their stand-ins in a trace."""

    __slots__ = ("kind", "columns")

    def __init__(self, kind: Kind, columns: Sequence[Any]) -> None:
        self.kind, self.columns = kind, tuple(columns)

    @classmethod
    def gradient(cls, of: Kind, columns: Sequence[Any]) -> Columns:
        """The gradient of such a list; uses the float columns, or only the first column if there are none."""
        rest = iter(of.cells)
        element = _gradient_of(of.element, rest)
        cells = tuple(c for c in of.cells if c.dtype.is_float)
        if cells:
            return cls(kind(element, cells), [x for x, c in zip(columns, of.cells) if c.dtype.is_float])
        return cls(kind(element, (), True), columns[:1])

    def __repr__(self) -> str:
        return repr(self.kind)


def _gradient_of(s: Structure, cells: Iterator[Cell]) -> Structure:
    """The structure of an element with None in place of leaves that are not floats."""
    make, none = type(s), type(s)(type(None))
    if s.is_leaf:
        return s if next(cells).dtype.is_float else none
    if s.type is Columns:
        mine = [next(cells) for _ in s.children]
        inner = Columns.gradient(s.static, [None] * len(mine)).kind
        return none if inner.counts else make(Columns, inner, s.children[:inner.width])
    return make(s.type, s.static, tuple(_gradient_of(c, cells) for c in s.children)) if s.children else none


# --- lists to columns -------------------------------------------------------------------------------

def gathered(values: Sequence[Any], element_of: Callable[[Any], Structure]) -> Columns | None:
    """A list as columns, or None if its elements are not of one kind; ``element_of`` gives an element's structure."""
    cls = type(values[0])
    if cls not in _SCALARS and cls is not np.ndarray and not _is_container(cls):
        return None
    if len(set(map(type, values))) > 1:
        return None
    element = element_of(values[0])
    cells: list[Cell] = []
    columns: list[np.ndarray] = []
    if not _gather(values, element, cells, columns) or not cells:
        return None
    return Columns(kind(element, tuple(cells)), columns)


def _is_container(cls: type) -> bool:
    return cls in (tuple, list, dict) or hasattr(cls, "_fields") or (
        dataclasses.is_dataclass(cls) and family_of(cls) is None)


def _gather(values: Sequence[Any], s: Structure, cells: list[Cell], columns: list[np.ndarray]) -> bool:
    """Appends the columns of the values; returns False unless all have this structure and equal leaf types."""
    types = set(map(type, values))
    if len(types) > 1:
        return False
    cls = types.pop()
    if s.is_leaf:
        found = _column(cls, values)
        if found is None:
            return False
        cells.append(found[0])
        columns.append(found[1])
        return True
    if s.type is Columns:
        return cls is list and _gather_columns(values, s, cells, columns)
    if cls is not (type(s.static) if s.type is str else s.type):
        return False
    if s.type is str:
        return all(v == s.static for v in values)
    parts = _parts(values, s)
    return parts is not None and all(_gather(p, c, cells, columns) for p, c in zip(parts, s.children))


def _parts(values: Sequence[Any], s: Structure) -> Sequence[Sequence[Any]] | None:
    """The values of each child of a container; None if the values do not all have this structure."""
    if s.type is type(None):
        return ()
    if s.type is dict:
        if any(tuple(v) != s.static for v in values):
            return None
        return [[v[k] for v in values] for k in s.static]
    if s.type is list or issubclass(s.type or object, tuple):
        return list(zip(*values)) if set(map(len, values)) == {len(s.children)} else None
    if dataclasses.is_dataclass(s.type):
        return [[getattr(v, name) for v in values] for name in s.static]
    return None


def _column(cls: type, values: Sequence[Any]) -> tuple[Cell, np.ndarray] | None:
    if cls is np.ndarray:
        first = values[0]
        dtype = from_numpy(first.dtype)
        copied = first.size <= LARGE or len(values) > MANY
        alike = copied and dtype is not None and first.ndim > 0 and all(
            v.shape == first.shape and v.dtype == first.dtype for v in values)
        return (Cell(dtype, array=True), np.stack(values)) if alike and dtype is not None else None
    if cls not in _SCALARS:
        return None
    dtype, weak = _SCALARS[cls]
    try:
        return Cell(dtype, weak), np.fromiter(values, dtype.np, len(values))
    except OverflowError:
        raise OverflowError("integers are 64 bits wide in compiled code: one in a list does not fit") from None


def _gather_columns(values: Sequence[list[Any]], s: Structure, cells: list[Cell], columns: list[np.ndarray]) -> bool:
    """Appends the columns of long lists, which have one more axis; returns False unless all lengths are equal."""
    inner: Kind = s.static
    if len(set(map(len, values))) > 1:
        return False
    rows: list[list[np.ndarray]] = []
    for v in values:
        mine: list[Cell] = []
        found: list[np.ndarray] = []
        if not _gather(v, inner.element, mine, found) or tuple(mine) != inner.cells:
            return False
        rows.append(found)
    for c, parts in zip(inner.cells, zip(*rows)):
        if any(p.shape != parts[0].shape for p in parts):
            return False
        cells.append(Cell(c.dtype, array=True))
        columns.append(np.stack(parts))
    return True


# --- columns to lists -------------------------------------------------------------------------------

def listed(given: Kind, columns: Sequence[np.ndarray],
           unflatten: Callable[[Structure, Sequence[Any]], Any]) -> list[Any]:
    """The list that these columns represent."""
    element = given.element
    if given.counts:
        return [unflatten(element, ()) for _ in range(len(columns[0]))]
    parts = [c.tolist() if cell.dtype in (F64, I64, BOOL) and not cell.array else list(c)
             for c, cell in zip(columns, given.cells)]
    if element.is_leaf:
        return parts[0]
    rows = zip(*parts)
    if element.type is tuple and all(c.is_leaf for c in element.children):
        return list(rows)
    return [unflatten(element, row) for row in rows]
