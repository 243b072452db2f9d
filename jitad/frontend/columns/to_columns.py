"""Conversion of objects to columns: the nodes that a value reaches, in the layout that ``layouts`` describes.

The traversal is not recursive, since a linked list of a million nodes is a million levels deep.  A node that is reached
twice is stored once.
"""

from __future__ import annotations

import dataclasses
import operator
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import TypeInferenceError
from ...ir.strings import strings
from ...ir.types import INSTEAD, U64, Scalar, from_numpy
from .gc_pause import no_collection
from .layouts import Block, Fields, Kind, Layout, Nothing, Number, Parts, Perhaps, Ref, Refs, Text, Unknown, layout
from .recursive_types import Family, NoneType, alternatives, family_of, forget, hints, is_record

Columns = list[np.ndarray]
_SEQUENCES = (list, tuple)
_PYTHON = frozenset((float, int, bool))


class UnknownClass(TypeInferenceError):
    """A node whose class is not in the family."""


class Gathered:
    """All nodes that are reachable from ``roots``, as columns of a layout."""

    def __init__(self, family: Family, roots: Sequence[Any]) -> None:
        self.family = family
        self.codes: dict[int, int] = {id(None): -1}              # id of an object → reference
        self.nodes: list[list[Any]] = [[] for _ in family.classes]
        self._visit(roots)
        self._pool: list[int] = []
        fields: list[Fields] = []
        columns: Columns = []
        for cls, nodes in zip(family.classes, self.nodes):
            of = []
            for name, hint in hints(cls).items():
                kind, new = self._field(f"{cls.__name__}.{name}", hint, list(map(operator.attrgetter(name), nodes)))
                of.append((name, kind))
                columns += new
            fields.append(tuple(of))
        self.layout: Layout = layout(family, tuple(fields))
        if len(columns) < len(self.layout.columns):
            columns.append(np.array(self._pool, np.int64))
        self.columns = tuple(map(_not_single, columns))

    def references(self, nodes: Iterable[Any]) -> np.ndarray:
        return np.array([self.codes[id(n)] for n in nodes], np.int64)

    # --- reachable nodes --------------------------------------------------------------------------

    def _visit(self, roots: Sequence[Any]) -> None:
        """Numbers the nodes in preorder."""
        family, codes = self.family, self.codes
        below: dict[type, Callable[[Any], list[Any]]] = {c: _children(family, c) for c in family.classes}
        todo = [*reversed(roots)]
        while todo:
            node = todo.pop()
            if id(node) in codes:
                continue
            cls = type(node)
            number = family.number.get(cls)
            if number is None:
                raise UnknownClass(f"a node of class {cls.__name__} where the annotations say {family}",
                                   hint="name its class in the annotation of the field that holds it")
            rows = self.nodes[number]
            codes[id(node)] = len(rows) << family.bits | number
            rows.append(node)
            todo += below[cls](node)

    # --- columns ----------------------------------------------------------------------------------

    def _field(self, where: str, hint: Any, values: list[Any]) -> tuple[Kind, Columns]:
        """The kind and the columns of a field with this annotation and these values."""
        options = alternatives(hint)
        if any(c in self.family.number for c in options):
            return self._references(where, options, values)
        if NoneType in options or any(v is None for v in values):
            return self._perhaps(where, [o for o in options if o is not NoneType], values, NoneType in options)
        element = next((e for o in options if (e := _list_of(self.family, o)) is not None), None)
        if element is not None:
            return self._lists(element, values)
        types = set(map(type, values)) or {typing.get_origin(options[0]) or options[0]}
        cls = next(iter(types))
        if not all(isinstance(c, type) for c in types) or cls is np.ndarray and not values:
            return Unknown(), []
        if all(c in _PYTHON or issubclass(c, np.generic) for c in types):
            return self._numbers(where, options, values, types)
        if types == {str}:
            return Text(), [np.array([*map(strings, values)], np.int64)]
        if types == {np.ndarray}:
            return self._arrays(where, values)
        if len(types) == 1 and (issubclass(cls, tuple) or is_record(cls)):
            return self._parts(where, options, cls, values)
        names = " and ".join(sorted(c.__name__ for c in types))
        raise TypeInferenceError(f"the field {where} holds {names}, for which compiled code has no column",
                                 hint="nodes hold numbers, strings, arrays (in place of lists of numbers), tuples, "
                                      "other nodes and lists of nodes")

    def _references(self, where: str, options: list[Any], values: list[Any]) -> tuple[Kind, Columns]:
        try:
            refs = self.references(values)
        except KeyError:
            raise TypeInferenceError(f"the field {where} holds both nodes and other values",
                                     hint="give the other values a dataclass of their own") from None
        number = self.family.number
        classes = {number[c] for c in options if c in number} | ({-1} if NoneType in options else set())
        if len(refs) and refs.min() < 0:
            classes.add(-1)
        return Ref(frozenset(classes)), [refs]

    def _lists(self, options: list[Any], values: list[Any]) -> tuple[Kind, Columns]:
        lengths = np.array([*map(len, values)], np.int64)
        starts = len(self._pool) + np.cumsum(lengths) - lengths
        self._pool += self.references(n for v in values for n in v).tolist()
        number = self.family.number
        classes = {number[c] for c in options if c in number} | ({-1} if NoneType in options else set())
        return Refs(frozenset(classes)), [starts, lengths]

    def _perhaps(self, where: str, options: list[Any], values: list[Any], declared: bool) -> tuple[Kind, Columns]:
        """The kind of a field that may be ``None``; ``Nothing`` if no value determines it, as in a gradient."""
        some = next((v for v in values if v is not None), _DEFAULTS.get(options[0]) if options and declared else None)
        if some is None:
            return Nothing(), []
        if isinstance(some, np.ndarray):
            some = np.zeros((0,) * some.ndim, some.dtype)
        hint = typing.Union[tuple(options)] if options else Any  # noqa: UP007  # not an annotation
        kind, columns = self._field(where, hint, [some if v is None else v for v in values])
        return Perhaps(kind), [np.array([v is not None for v in values], bool), *columns]

    def _numbers(self, where: str, options: list[Any], values: list[Any], types: set[Any]) -> tuple[Kind, Columns]:
        column = np.array(values) if values else np.zeros(0, next(iter(types)))
        if column.dtype.kind in "ibu" and float in options and int not in options:
            column = column.astype(np.float64)
        dtype: Scalar | None = from_numpy(column.dtype)
        if column.dtype == object or dtype is U64 and types <= _PYTHON:
            raise OverflowError(f"integers are 64 bits wide in compiled code: one in the field {where} does not fit")
        kinds = {t for c in types - _PYTHON if (t := from_numpy(np.dtype(c))) is not dtype}
        if dtype is None or any(t is None or t.is_narrow for t in kinds) or dtype.is_narrow and types & _PYTHON:
            names = " and ".join(sorted(c.__name__ for c in types))
            raise TypeInferenceError(f"the field {where} holds numbers of type {names}",
                                     hint="use one type: float, int, bool, or one of NumPy's with that many bits")
        return Number(dtype, types <= _PYTHON), [column]

    def _arrays(self, where: str, values: list[np.ndarray]) -> tuple[Kind, Columns]:
        kinds = {(v.dtype, v.ndim) for v in values}
        dtype, rank = values[0].dtype, values[0].ndim
        scalar = from_numpy(dtype)
        if len(kinds) > 1 or scalar is None or not rank:
            found = " and ".join(sorted(f"{d} of rank {r}" for d, r in kinds))
            raise TypeInferenceError(f"the field {where} holds arrays {found}",
                                     hint=f"give them one dtype ({INSTEAD}) and rank")
        counts = np.array([v.size for v in values], np.int64)
        pool = np.concatenate([v.reshape(-1) for v in values])
        sizes = [np.array([v.shape[axis] for v in values], np.int64) for axis in range(rank)]
        return Block(scalar, rank), [pool.astype(scalar.np, copy=False), np.cumsum(counts) - counts, *sizes]

    def _parts(self, where: str, options: list[Any], cls: type, values: list[Any]) -> tuple[Kind, Columns]:
        names, given = _names_and_hints(cls, options)
        if names is None:
            lengths = {len(v) for v in values} or {len(given)}
            if len(lengths) > 1:
                raise TypeInferenceError(f"the field {where} holds tuples of {' and '.join(map(str, sorted(lengths)))}",
                                         hint="use an array, or a list of nodes")
            size = lengths.pop()
            read: list[Callable[[Any], Any]] = [operator.itemgetter(i) for i in range(size)]
            given = given if len(given) == size else [Any] * size
        else:
            read = [operator.attrgetter(n) for n in names]
        keys = names or tuple(map(str, range(len(read))))
        kinds, columns = [], []
        for key, hint, get in zip(keys, given, read):
            kind, new = self._field(f"{where}.{key}", hint, list(map(get, values)))
            kinds.append(kind)
            columns += new
        return Parts(cls, names, tuple(kinds)), columns


def gather(nodes: Sequence[Any]) -> Gathered:
    """The columns of all nodes that are reachable from ``nodes``, which belong to one family."""
    family = family_of(type(nodes[0]))
    assert family is not None
    with no_collection():
        try:
            return Gathered(family, nodes)
        except UnknownClass:
            forget()                                 # the class may have been defined later
            found = family_of(type(nodes[0]))
            if found is None or found is family:
                raise
            return Gathered(found, nodes)


# --- annotations ------------------------------------------------------------------------------------

_DEFAULTS: dict[Any, Any] = {float: 0.0, int: 0, bool: False, str: ""}


def _list_of(family: Family, hint: Any) -> list[Any] | None:
    """The alternatives of the elements of a list (or tuple of any length) of nodes; None for another annotation."""
    args = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if not isinstance(origin, type) or not args or issubclass(origin, dict):
        return None
    if issubclass(origin, tuple) and not (len(args) == 2 and args[1] is Ellipsis):
        return None
    options = alternatives(args[0])
    return options if any(c in family.number for c in options) else None


def _names_and_hints(cls: type, options: list[Any]) -> tuple[tuple[str, ...] | None, list[Any]]:
    """The names and annotations of the parts of a tuple or dataclass; the names are None for a plain tuple."""
    if is_record(cls):
        found = hints(cls)
        return tuple(found), list(found.values())
    fields = getattr(cls, "_fields", None)
    if fields is not None:
        known = typing.get_type_hints(cls)
        return tuple(fields), [known.get(n, Any) for n in fields]
    args = next((typing.get_args(o) for o in options if typing.get_origin(o) is cls), ())
    return None, [] if Ellipsis in args else list(args)


def _children(family: Family, cls: type) -> Callable[[Any], list[Any]]:
    """A function that returns the nodes that a node of this class refers to, in reverse order."""
    names = [n for n, hint in hints(cls).items() if _leads_to(family, hint)]
    direct = all(family.refers(hints(cls)[n]) for n in names)
    if not names:
        return lambda node: []
    if direct:
        if len(names) == 1:
            get = operator.attrgetter(names[0])
            return lambda node: [get(node)]
        several: Callable[[Any], Any] = operator.attrgetter(*reversed(names))
        return several

    def walk(node: Any) -> list[Any]:
        out: list[Any] = []
        for n in names:
            _collect(family, getattr(node, n), out)
        return out[::-1]
    return walk


def _leads_to(family: Family, hint: Any) -> bool:
    """True if a value of this type can contain a node."""
    if family.refers(hint):
        return True
    for option in alternatives(hint):
        if any(_leads_to(family, a) for a in typing.get_args(option) if a is not Ellipsis):
            return True
        if is_record(option) and any(_leads_to(family, h) for h in hints(option).values()):
            return True
        if isinstance(option, type) and issubclass(option, tuple) and hasattr(option, "_fields"):
            return any(_leads_to(family, h) for h in typing.get_type_hints(option).values())
    return False


def _collect(family: Family, v: Any, out: list[Any]) -> None:
    """Appends the nodes in the value of a field to ``out``, in order."""
    if type(v) in family.number:
        out.append(v)
    elif isinstance(v, _SEQUENCES):
        for x in v:
            _collect(family, x, out)
    elif is_record(type(v)):
        for f in dataclasses.fields(v):
            _collect(family, getattr(v, f.name), out)


def _not_single(column: np.ndarray) -> np.ndarray:
    """The column; a single row is duplicated, since arrays of one element are compiled separately."""
    return column if len(column) != 1 else np.concatenate((column, column))
