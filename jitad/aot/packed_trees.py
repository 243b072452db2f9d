"""Recursive dataclasses as arguments in C: a struct with a reference to the root, and one array for each field.

The arrays are the columns of ``jitad.pack``, whose layout ``frontend.columns.layouts`` describes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from ..calling.signature import Spec
from ..errors import UnsupportedError
from ..frontend.captured.leaves import Leaf as Parameter
from ..frontend.columns.layouts import POOL, Block, Kind, Layout, Parts, Perhaps, Ref, Refs, Root, Text, root
from ..frontend.columns.pack import Packed, pack
from ..frontend.columns.recursive_types import Family, family_of
from ..frontend.columns.to_columns import Gathered
from ..ir.types import I64, Array
from ..lowering.aot.interface import Leaf, Links, Struct
from .names import distinct

_ENDS = {"at": "start", "len": "length"}


def packed_root(kind: Any, name: str) -> Root | None:
    """The layout of a recursive dataclass, of a tree or list of trees, or of a packed one; None for other types.

    Raises ``UnsupportedError`` for a layout that C code cannot pass.
    """
    found = _root(kind)
    if found is None:
        return None
    layout = found.layout
    for number, of in enumerate(layout.fields):
        for field, known in of:
            path = layout.path(number, field)
            if any(isinstance(k, Text) for k in _inner(known)):
                raise UnsupportedError(f"argument {name}: the field {path} holds strings, which have no C type",
                                       hint="use an integer or an enumeration's value")
            if any(k.unknown for k in _inner(known)):
                raise UnsupportedError(f"argument {name}: the annotation of the field {path} does not tell its type",
                                       hint="pass an example in place of the class: aot.export(f, (tree, \"f64[n]\"))")
    return found


def _root(kind: Any) -> Root | None:
    if isinstance(kind, Packed):
        return kind._root
    if isinstance(kind, list) and kind and all(family_of(type(v)) is not None for v in kind):
        return _root(pack(kind))
    family = family_of(kind if isinstance(kind, type) else type(kind))
    if family is None or not dataclasses.is_dataclass(kind):
        return None
    return root(Gathered(family, [] if isinstance(kind, type) else [kind]).layout)


def _inner(kind: Kind) -> Iterator[Kind]:
    yield kind
    for inner in kind.kinds if isinstance(kind, Parts) else (kind.inner,) if isinstance(kind, Perhaps) else ():
        yield from _inner(inner)


def stand_in(given: Root) -> Packed:
    """The value with which the function is traced."""
    places = [Spec(Parameter(I64, True)) for _ in range(given.count)]
    return Packed(given, [*places, *(Spec(Parameter(Array(c.dtype, (None,)), False)) for c in given.layout.columns)])


def c_column(name: str) -> str:
    """The member for a column: ``Tree_left``, ``Tree_h_start``, ``Tree_h_size_0``, ``Tree_x_there``."""
    name, mark, end = name.replace("?", ":there").partition(":")
    word = _ENDS.get(end, f"size_{end}" if end.isdigit() else end)
    return re.sub(r"\W", "_", name) + (f"_{word}" if mark else "")


def tree_struct(given: Root, name: str, tag: str) -> Struct:
    """The C struct of a packed tree, or of a packed list of trees."""
    layout, shared = given.layout, {c.name for c in given.layout.gradient().columns if c.structure}
    places = [Leaf(n, I64, shared=True) for n in (("start", "length") if given.is_list else ("root",))]
    counts = [f"{tag[:-2]}_{c_column(layout.counted(c.name))}_count" for c in layout.columns]
    columns = [Leaf(c_column(c.name), Array(c.dtype, (None,)), (count,), shared=c.name in shared)
               for c, count in zip(layout.columns, counts)]
    fields = (*places, *columns)
    distinct([leaf.name for leaf in fields], f"the struct {tag}")
    return Struct(name, tag, fields, tuple(_links(given)), layout.family.bits, tuple(_note(given)))


def _links(given: Root) -> Iterator[Links]:
    layout = given.layout
    every = frozenset(range(len(layout.fields))) | ({-1} if layout.family.nullable else set())
    if given.is_list:
        yield Links(c_column(POOL), _rows(layout, every), -1 in every, spans=("start", "length"))
    else:
        yield Links("root", _rows(layout, every), -1 in every)
    for number, of in enumerate(layout.fields):
        for field, kind in of:
            yield from _links_of(layout, kind, layout.path(number, field))


def _links_of(layout: Layout, kind: Kind, path: str) -> Iterator[Links]:
    if isinstance(kind, Ref):
        yield Links(c_column(path), _rows(layout, kind.classes), -1 in kind.classes)
    elif isinstance(kind, Refs):
        yield Links(c_column(POOL), _rows(layout, kind.classes), -1 in kind.classes,
                    spans=(c_column(f"{path}:at"), c_column(f"{path}:len")))
    elif isinstance(kind, Block):
        sizes = tuple(c_column(f"{path}:{axis}") for axis in range(kind.rank))
        yield Links(c_column(path), start=c_column(f"{path}:at"), sizes=sizes)
    elif isinstance(kind, Perhaps):
        yield from _links_of(layout, kind.inner, path)
    elif isinstance(kind, Parts):
        for key, inner in kind.items():
            yield from _links_of(layout, inner, f"{path}.{key}")


def _rows(layout: Layout, classes: frozenset[int]) -> tuple[tuple[int, str], ...]:
    """For each class, a column with one value for each of its nodes; "" for a class without fields."""
    found = []
    for number in sorted(classes - {-1}):
        own = [c.name for c in layout.columns if layout.counted(c.name) == layout.names[number]]
        found.append((number, c_column(own[0]) if own else ""))
    return tuple(found)


def _note(given: Root) -> Iterator[str]:
    """The layout, for the header."""
    family: Family = given.layout.family
    names = ", ".join(f"{k} {name}" for k, name in enumerate(given.layout.names))
    scale = f" * {1 << family.bits} + the number of its class ({names})" if family.bits else ""
    none = "; -1 is None" if family.nullable else ""
    yield f"a reference is the row of a node{scale}{none}"
    if given.is_list:
        yield "the list is pool[start], ..., pool[start + length - 1]"
