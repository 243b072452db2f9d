"""How the nodes of a family lie in memory: columns, one value a node, for each class and field.

A ``Kind`` says what a field holds and in which columns; a ``Layout`` is the kinds of all fields of all classes, and
with its columns all that is static in a store.  Layouts are interned, so that machine code can tell them by address.

* a number, a string (as its number in ``strings``): one column
* a reference to a node: one column of references
* a list of nodes: where it begins in the column ``pool`` of references, and its length
* an array: where it begins in a pool of its own, and its sizes
* a value that may be ``None``: a column that says whether it is there
* a tuple, or a dataclass that is not recursive: the columns of its parts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...ir.types import BOOL, I64, Scalar
from .recursive_types import Family

POOL = "pool"                   # the column that holds the references of all lists


@dataclass(frozen=True)
class Column:
    """``structure``: it says where things are, and is the same in a gradient."""

    name: str
    dtype: Scalar
    structure: bool = False


class Kind:
    """What a field holds.  ``name`` is the field's path, by which its columns are called."""

    unknown = False

    def columns(self, name: str) -> Iterator[Column]:
        raise NotImplementedError

    def gradient(self) -> Kind:
        """What the field holds in a gradient: nothing in place of what is discrete."""
        return self


@dataclass(frozen=True)
class Nothing(Kind):
    """Always ``None``."""

    def columns(self, name: str) -> Iterator[Column]:
        return iter(())


@dataclass(frozen=True)
class Unknown(Kind):
    """Neither the annotation nor a node says what it holds."""

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
    """A string, by its number in ``strings``."""

    def columns(self, name: str) -> Iterator[Column]:
        yield Column(name, I64)

    def gradient(self) -> Kind:
        return Nothing()


@dataclass(frozen=True)
class Ref(Kind):
    """A node of the family, or ``None``; ``classes``: the numbers of those that it may be of, −1 for ``None``."""

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
    """An array; its elements lie in a pool."""

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
    """A tuple, NamedTuple or dataclass of a fixed class; ``names``: of its parts, ``None`` in a plain tuple."""

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
    """The kinds of the fields of each class of a family, in order; made by ``layout``, one for equal kinds."""

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
        """What the columns of a field are called."""
        return f"{self.names[number]}.{field}"

    def counted(self, column: str) -> str:
        """Under which name the rows of a column are counted: its own for a pool, otherwise that of its class."""
        return column if column == POOL or f"{column}:at" in self.place else column.split(".", 1)[0]

    def gradient(self) -> Layout:
        """The layout of gradients: the same structure, of the rest what is a float."""
        return self.mapped(lambda kind: kind.gradient())

    def mapped(self, fun: Callable[[Kind], Kind]) -> Layout:
        return layout(self.family, tuple(tuple((f, fun(kind)) for f, kind in of) for of in self.fields),
                      POOL in self.place)

    def with_pool(self) -> Layout:
        """The layout with a pool of references, for a list of nodes."""
        return layout(self.family, self.fields, True)

    def with_kinds(self, number: int, kinds: dict[str, Kind]) -> Layout:
        """The layout with other kinds for some fields of one class."""
        fields = list(self.fields)
        fields[number] = tuple((name, kinds.get(name, kind)) for name, kind in fields[number])
        return layout(self.family, tuple(fields), POOL in self.place)

    def __repr__(self) -> str:
        return repr(self.family)


def has_list(kind: Kind) -> bool:
    """Whether lists of nodes are in it."""
    inner = kind.kinds if isinstance(kind, Parts) else (kind.inner,) if isinstance(kind, Perhaps) else ()
    return isinstance(kind, Refs) or any(map(has_list, inner))


_layouts: dict[tuple[Family, tuple[Fields, ...], bool], Layout] = {}


def layout(family: Family, fields: tuple[Fields, ...], pool: bool = False) -> Layout:
    """The one layout with these kinds; ``pool``: there are lists, even if no field is one."""
    pool = pool or any(has_list(kind) for of in fields for _, kind in of)
    key = family, fields, pool
    return _layouts.get(key) or _layouts.setdefault(key, Layout(*key))


@dataclass(frozen=True)
class Root:
    """What is static in a packed value: the layout, and whether it is a node or a list of nodes."""

    layout: Layout
    is_list: bool = False

    @property
    def count(self) -> int:
        """How many leaves say where the value is."""
        return 2 if self.is_list else 1

    def gradient(self) -> Root:
        return root(self.layout.gradient(), self.is_list)


_roots: dict[tuple[Layout, bool], Root] = {}


def root(layout: Layout, is_list: bool = False) -> Root:
    """The one ``Root`` of this kind."""
    key = layout, is_list
    return _roots.get(key) or _roots.setdefault(key, Root(*key))
