"""``jitad.pack``: converts trees, and lists of trees, to columns once instead of at every call."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ir.strings import strings
from .gc_pause import no_collection
from .layouts import POOL, Block, Kind, Layout, Number, Parts, Perhaps, Ref, Refs, Root, Text, root
from .recursive_types import family_of
from .to_columns import gather


class Packed:
    """A tree, or a list of trees, whose nodes are stored in columns (see ``layouts``).

    Compiled functions accept it in place of the value, without conversion.  It can be read like the value:
    ``packed.left.value``, ``packed[0]``, ``len``, iteration, methods.  It cannot be changed.  ``unpack()`` returns the
    value; nodes that were one object are one object again.

    ``_leaves``: the location of the value (a reference; for a list its start in the pool and its length), then the
    columns.
    """

    __slots__ = ("_root", "_leaves")
    _root: Root
    _leaves: tuple[Any, ...]

    def __init__(self, root: Root, leaves: Sequence[Any]) -> None:
        object.__setattr__(self, "_root", root)
        object.__setattr__(self, "_leaves", tuple(leaves))

    @classmethod
    def gradient(cls, root: Root, leaves: Sequence[Any]) -> Packed:
        """The gradient of a packed value; ``leaves`` are its structure, its float gradients, and ignored others."""
        new, n = root.gradient(), root.count
        return cls(new, (*leaves[:n], *(leaves[n + root.layout.place[c.name]] for c in new.layout.columns)))

    def unpack(self) -> Any:
        """The value as objects of the original classes; in a gradient, fields that are not floats are None."""
        with no_collection():
            return Unpacker(self).result()

    # --- reading like the value ---------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if self._root.is_list or (name.startswith("__") and name != "__match_args__"):
            raise AttributeError(f"a packed list has no attribute {name!r}" if self._root.is_list else name)
        number, row = _split(self._root.layout, self._leaves[0])
        kind = self._root.layout.kinds[number].get(name)
        if kind is not None:
            return _Reader(self).value(kind, self._root.layout.path(number, name), row)
        cls = self._root.layout.family.classes[number]
        found = inspect.getattr_static(cls, name)
        if isinstance(found, functools.cached_property):
            return found.func(self)
        bind = getattr(type(found), "__get__", None)
        return bind(found, self, cls) if bind is not None else found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a packed value cannot be changed: `.unpack()` it to assign {name!r}")

    def __len__(self) -> int:
        if not self._root.is_list:
            raise TypeError(f"object of type {self!r} has no len()")
        return int(self._leaves[1])

    def __bool__(self) -> bool:
        return not self._root.is_list or self._leaves[1] > 0

    def __getitem__(self, index: Any) -> Any:
        n = len(self)
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(n))]
        index = operator.index(index)
        if not -n <= index < n:
            raise IndexError("list index out of range")
        reader = _Reader(self)
        return reader.node(int(reader.column(POOL)[self._leaves[0] + index % n]))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """True if both represent equal values; unpacks both."""
        return isinstance(other, Packed) and bool(self is other or self.unpack() == other.unpack())

    __hash__ = None                                  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return pack, (self.unpack(),)

    def __repr__(self) -> str:
        of = f"list[{self._root.layout}]" if self._root.is_list else str(self._root.layout)
        return f"packed({of})"


def pack(value: Any) -> Any:
    """Converts a tree, or a list of trees, to columns, so that later calls need no conversion.

    Returns a ``Packed``, which can replace the value everywhere.  In tuples, dicts and other structures, the trees are
    packed and the structure is kept.  Raises ``TypeInferenceError`` for a node that has no columns.
    """
    if isinstance(value, Packed) or value is None:
        return value
    if family_of(type(value)) is not None:
        return pack_node(value)
    if type(value) is list and value and all(family_of(type(v)) is not None for v in value):
        found = gather(value)
        return _packed_list(found.layout, found.columns, found.references(value))
    if isinstance(value, (list, tuple)):
        items = [pack(v) for v in value]
        return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
    if isinstance(value, dict):
        return type(value)((k, pack(v)) for k, v in value.items())
    return _rebuilt(value, {name: pack(getattr(value, name)) for name in _fields(value)})


def pack_node(node: Any) -> Packed:
    """Packs a node of a family and all nodes that it reaches."""
    found = gather([node])
    return Packed(root(found.layout), (found.codes[id(node)], *found.columns))


def _packed_list(layout: Layout, columns: tuple[np.ndarray, ...], references: np.ndarray) -> Packed:
    """Packs a list of nodes: appends its references to the pool, which is the last column."""
    if POOL not in layout.place:
        layout, columns = layout.with_pool(), (*columns, np.zeros(0, np.int64))
    start = len(columns[-1])
    pool = np.concatenate((columns[-1], references, np.zeros(2, np.int64)))
    return Packed(root(layout, True), (start, len(references), *columns[:-1], pool))


def returned(result: Any, given: Any) -> Any:
    """The result in the form that the caller expects: packed if an argument was packed, otherwise objects."""
    return result if _has_packed(given) else unpacked(result)


def _has_packed(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_has_packed, x))
    if isinstance(x, dict):
        return any(map(_has_packed, x.values()))
    return isinstance(x, Packed) or any(_has_packed(getattr(x, name)) for name in _fields(x))


def _fields(x: Any) -> tuple[str, ...]:
    """The field names of a dataclass that is not a node of a tree; empty for other values."""
    if not dataclasses.is_dataclass(x) or isinstance(x, type) or family_of(type(x)) is not None:
        return ()
    return tuple(f.name for f in dataclasses.fields(x))


def unpacked(x: Any) -> Any:
    """A result of compiled code with packed values replaced by objects."""
    if isinstance(x, Packed):
        return x.unpack()
    if isinstance(x, (list, tuple)):
        items = [unpacked(v) for v in x]
        return type(x)._make(items) if hasattr(x, "_make") else type(x)(items)
    if isinstance(x, dict):
        return type(x)((k, unpacked(v)) for k, v in x.items())
    return _rebuilt(x, {name: unpacked(getattr(x, name)) for name in _fields(x)})


def _rebuilt(x: Any, parts: dict[str, Any]) -> Any:
    """The object itself if its fields already have these values, otherwise a new object."""
    if all(v is getattr(x, name) for name, v in parts.items()):
        return x
    new = object.__new__(type(x))
    for name, v in parts.items():
        object.__setattr__(new, name, v)
    return new


def _split(layout: Layout, reference: int) -> tuple[int, int]:
    """The class number and the row of a reference."""
    bits = layout.family.bits
    return reference & (1 << bits) - 1, reference >> bits


# --- columns to objects -----------------------------------------------------------------------------

class _Reader:
    """Reads single values of a packed value."""

    def __init__(self, packed: Packed) -> None:
        self.root, self.columns = packed._root, packed._leaves[packed._root.count:]
        self.place = self.root.layout.place

    def column(self, name: str) -> Any:
        return self.columns[self.place[name]]

    def node(self, reference: int) -> Any:
        return Packed(root(self.root.layout), (reference, *self.columns)) if reference >= 0 else None

    def value(self, kind: Kind, name: str, row: int) -> Any:
        match kind:
            case Number(_, weak):
                return self.column(name)[row].item() if weak else self.column(name)[row]
            case Text():
                return strings.all[self.column(name)[row]]
            case Ref():
                return self.node(int(self.column(name)[row]))
            case Refs():
                place = (int(self.column(f"{name}:at")[row]), int(self.column(f"{name}:len")[row]))
                return Packed(root(self.root.layout, True), (*place, *self.columns))
            case Block():
                return self.block(kind, name, row)
            case Perhaps(inner):
                return self.value(inner, name, row) if self.column(f"{name}?")[row] else None
            case Parts():
                return rebuilt(kind, [self.value(k, f"{name}.{key}", row) for key, k in kind.items()])
        return None

    def block(self, kind: Block, name: str, row: int) -> np.ndarray:
        shape = [int(self.column(f"{name}:{axis}")[row]) for axis in range(kind.rank)]
        start = int(self.column(f"{name}:at")[row])
        found: np.ndarray = self.column(name)[start:start + int(np.prod(shape))].reshape(shape)
        found.flags.writeable = False
        return found


def rebuilt(kind: Parts, values: Sequence[Any]) -> Any:
    """The tuple or object that has these parts."""
    if kind.cls is tuple:
        return tuple(values)
    if issubclass(kind.cls, tuple):
        return kind.cls._make(values)                # type: ignore[attr-defined]
    out = object.__new__(kind.cls)
    for (key, _), v in zip(kind.items(), values):
        object.__setattr__(out, key, v)
    return out


class Unpacker:
    """Makes the objects that a packed value reaches, without recursion; fills one field of all nodes at a time."""

    def __init__(self, packed: Packed) -> None:
        self.root, self.reader = packed._root, _Reader(packed)
        self.layout, self.leaves = packed._root.layout, packed._leaves
        self.objects: dict[int, Any] = {-1: None}
        self.rows: list[list[int]] = [[] for _ in self.layout.family.classes]
        self.pool: list[int] = self.reader.column(POOL).tolist() if POOL in self.layout.place else []

    def result(self) -> Any:
        if self.root.is_list:
            start, n = self.leaves[:2]
            references = self.pool[start:start + n]
        else:
            references = [int(self.leaves[0])]
        self._visit(references)
        for number, rows in enumerate(self.rows):
            self._fill(number, np.array(rows, np.int64))
        found = [self.objects[r] for r in references]
        return found if self.root.is_list else found[0]

    def _visit(self, todo: list[int]) -> None:
        """Makes an empty object for each reachable node."""
        classes, bits, objects = self.layout.family.classes, self.layout.family.bits, self.objects
        mask, todo = (1 << bits) - 1, list(todo)
        below = [self._below(number) for number in range(len(classes))]
        while todo:
            r = todo.pop()
            if r in objects:
                continue
            number, row = r & mask, r >> bits
            objects[r] = object.__new__(classes[number])
            self.rows[number].append(row)
            for find in below[number]:
                todo += find(row)

    def _below(self, number: int) -> list[Callable[[int], Sequence[int]]]:
        """Functions that return the references in a row of this class."""
        found: list[Callable[[int], Sequence[int]]] = []

        def add(kind: Kind, name: str) -> None:
            if isinstance(kind, Ref):
                column = self.reader.column(name).tolist()
                found.append(lambda row: (column[row],))
            elif isinstance(kind, Refs):
                at, length = (self.reader.column(f"{name}:{c}").tolist() for c in ("at", "len"))
                found.append(lambda row: self.pool[at[row]:at[row] + length[row]])
            elif isinstance(kind, Perhaps):
                add(kind.inner, name)                # the columns of an absent value hold valid references
            elif isinstance(kind, Parts):
                for key, inner in kind.items():
                    add(inner, f"{name}.{key}")
        for name, kind in self.layout.fields[number]:
            add(kind, self.layout.path(number, name))
        return found

    def _fill(self, number: int, rows: np.ndarray) -> None:
        bits = self.layout.family.bits
        nodes = [self.objects[r] for r in (rows << bits | number).tolist()]
        for name, kind in self.layout.fields[number]:
            for node, v in zip(nodes, self._values(kind, self.layout.path(number, name), rows)):
                object.__setattr__(node, name, v)

    def _values(self, kind: Kind, name: str, rows: np.ndarray) -> Sequence[Any]:
        """The values of a field in the given rows."""
        column = self.reader.column
        match kind:
            case Number(_, weak):
                return column(name)[rows].tolist() if weak else list(column(name)[rows])
            case Text():
                return [strings.all[i] for i in column(name)[rows].tolist()]
            case Ref():
                return [self.objects[r] for r in column(name)[rows].tolist()]
            case Refs():
                spans = zip(column(f"{name}:at")[rows].tolist(), column(f"{name}:len")[rows].tolist())
                return [[self.objects[r] for r in self.pool[at:at + n]] for at, n in spans]
            case Block():
                return [self.reader.block(kind, name, row).copy() for row in rows.tolist()]
            case Perhaps(inner):
                there = column(f"{name}?")[rows].tolist()
                return [v if t else None for v, t in zip(self._values(inner, name, rows), there)]
            case Parts():
                parts = [self._values(k, f"{name}.{key}", rows) for key, k in kind.items()]
                return [rebuilt(kind, vs) for vs in zip(*parts)] if parts else [rebuilt(kind, ())] * len(rows)
        return [None] * len(rows)
