"""Memory layout of the nodes of a family: one column for each class and field, with one value for each node.

A ``Kind`` describes the values of a field and their columns.  A ``Layout`` has the kinds of all fields of all classes;
together with the columns it describes a store completely.  Layouts are interned, so machine code can compare addresses.

* a number, or a string (as its index in ``strings``): one column
* a reference to a node: one column of references
* a list of nodes: its start in ``pool``, the column of references, and its length
* an array: its start in a pool of its own, and its sizes
* a value that may be ``None``: a column of flags, and the columns of the value
* a tuple, or a dataclass that is not recursive: the columns of its parts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...ir.types import BOOL, I64, Scalar
from .recursive_types import Family

POOL = "pool"                   # the column with the references of all lists


@dataclass(frozen=True)
class Column:
    """A column of a layout; ``structure``: it holds references, sizes or flags, which a gradient shares."""

    name: str
    dtype: Scalar
    structure: bool = False


class Kind:
    """The kind of a field's values.  ``name`` is the path of the field, from which its columns are named."""

    unknown = False

    def columns(self, name: str) -> Iterator[Column]:
        raise NotImplementedError

    def gradient(self) -> Kind:
        """The kind of the field in a gradient: ``Nothing`` for discrete values."""
        return self


@dataclass(frozen=True)
class Nothing(Kind):
    """A field that is always ``None``."""

    def columns(self, name: str) -> Iterator[Column]:
        return iter(())


@dataclass(frozen=True)
class Unknown(Kind):
    """A field whose kind is known neither from its annotation nor from a node."""

    unknown = True

    def columns(self, name: str) -> Iterator[Column]:
        return iter(())


@dataclass(frozen=True)
class Number(Kind):
    dtype: Scalar
    weak: bool

    def columns(self, name: str) -> Iterator[Column]:
        yield Column(name, self.dtype)

    def gradient(self) -> Kind:
        return self if self.dtype.is_float else Nothing()


@dataclass(frozen=True)
class Text(Kind):
    """A string, stored as its index in ``strings``."""

    def columns(self, name: str) -> Iterator[Column]:
        yield Column(name, I64)

    def gradient(self) -> Kind:
        return Nothing()


@dataclass(frozen=True)
class Ref(Kind):
    """A node of the family, or ``None``; ``classes``: the numbers of the possible classes, −1 for ``None``."""

    classes: frozenset[int]

    def columns(self, name: str) -> Iterator[Column]:
        yield Column(name, I64, True)


@dataclass(frozen=True)
class Refs(Kind):
    """A list of nodes."""

    classes: frozenset[int]

    def columns(self, name: str) -> Iterator[Column]:
        yield Column(f"{name}:at", I64, True)
        yield Column(f"{name}:len", I64, True)


@dataclass(frozen=True)
class Block(Kind):
    """An array, whose elements are in a pool."""

    dtype: Scalar
    rank: int

    def columns(self, name: str) -> Iterator[Column]:
        yield Column(name, self.dtype)
        yield Column(f"{name}:at", I64, True)
        yield from (Column(f"{name}:{axis}", I64, True) for axis in range(self.rank))

    def gradient(self) -> Kind:
        return self if self.dtype.is_float else Nothing()


@dataclass(frozen=True)
class Perhaps(Kind):
    """A value or ``None``."""

    inner: Kind

    def columns(self, name: str) -> Iterator[Column]:
        yield Column(f"{name}?", BOOL, True)
        yield from self.inner.columns(name)

    def gradient(self) -> Kind:
        inner = self.inner.gradient()
        return inner if inner == Nothing() else Perhaps(inner)


@dataclass(frozen=True)
class Parts(Kind):
    """A tuple, NamedTuple or dataclass of a fixed class; ``names``: the names of its parts, None for a plain tuple."""

    cls: type
    names: tuple[str, ...] | None
    kinds: tuple[Kind, ...]

    def columns(self, name: str) -> Iterator[Column]:
        for key, kind in self.items():
            yield from kind.columns(f"{name}.{key}")

    def items(self) -> Iterator[tuple[str, Kind]]:
        return zip(self.names or map(str, range(len(self.kinds))), self.kinds)

    def gradient(self) -> Kind:
        return Parts(self.cls, self.names, tuple(k.gradient() for k in self.kinds))


# --- layouts ----------------------------------------------------------------------------------------

Fields = tuple[tuple[str, Kind], ...]


class Layout:
    """The kinds of the fields of each class of a family, in order; ``layout`` makes one object for equal kinds."""

    def __init__(self, family: Family, fields: tuple[Fields, ...], pool: bool) -> None:
        self.family, self.fields = family, fields
        names = [c.__name__ for c in family.classes]
        self.names = [n if names.count(n) == 1 else f"{n}{k}" for k, n in enumerate(names)]
        self.kinds: tuple[dict[str, Kind], ...] = tuple(map(dict, fields))
        found = [c for k, of in enumerate(fields) for f, kind in of for c in kind.columns(self.path(k, f))]
        if pool:
            found.append(Column(POOL, I64, True))
        self.columns: tuple[Column, ...] = tuple(found)
        self.place = {c.name: i for i, c in enumerate(self.columns)}

    def path(self, number: int, field: str) -> str:
        """The name that the columns of a field begin with."""
        return f"{self.names[number]}.{field}"

    def counted(self, column: str) -> str:
        """The name under which the rows of a column are counted: its own for a pool, otherwise that of its class."""
        return column if column == POOL or f"{column}:at" in self.place else column.split(".", 1)[0]

    def gradient(self) -> Layout:
        """The layout of gradients: the same structure, and of the other columns the floats."""
        return self.mapped(lambda kind: kind.gradient())

    def mapped(self, fun: Callable[[Kind], Kind]) -> Layout:
        return layout(self.family, tuple(tuple((f, fun(kind)) for f, kind in of) for of in self.fields),
                      POOL in self.place)

    def with_pool(self) -> Layout:
        """The layout with a pool of references, which a list of nodes needs."""
        return layout(self.family, self.fields, True)

    def with_kinds(self, number: int, kinds: dict[str, Kind]) -> Layout:
        """The layout with some fields of one class replaced by other kinds."""
        fields = list(self.fields)
        fields[number] = tuple((name, kinds.get(name, kind)) for name, kind in fields[number])
        return layout(self.family, tuple(fields), POOL in self.place)

    def __repr__(self) -> str:
        return repr(self.family)


def has_list(kind: Kind) -> bool:
    """True if the kind is or contains a list of nodes."""
    inner = kind.kinds if isinstance(kind, Parts) else (kind.inner,) if isinstance(kind, Perhaps) else ()
    return isinstance(kind, Refs) or any(map(has_list, inner))


_layouts: dict[tuple[Family, tuple[Fields, ...], bool], Layout] = {}


def layout(family: Family, fields: tuple[Fields, ...], pool: bool = False) -> Layout:
    """The unique layout with these kinds; ``pool``: include a pool of references even if no field is a list."""
    pool = pool or any(has_list(kind) for of in fields for _, kind in of)
    key = family, fields, pool
    return _layouts.get(key) or _layouts.setdefault(key, Layout(*key))


@dataclass(frozen=True)
class Root:
    """The static part of a packed value: the layout, and whether the value is a node or a list of nodes."""

    layout: Layout
    is_list: bool = False

    @property
    def count(self) -> int:
        """The number of leaves that locate the value: a reference, or the start and length of a list."""
        return 2 if self.is_list else 1

    def gradient(self) -> Root:
        return root(self.layout.gradient(), self.is_list)


_roots: dict[tuple[Layout, bool], Root] = {}


def root(layout: Layout, is_list: bool = False) -> Root:
    """The unique ``Root`` with this layout and ``is_list``."""
    key = layout, is_list
    return _roots.get(key) or _roots.setdefault(key, Root(*key))
