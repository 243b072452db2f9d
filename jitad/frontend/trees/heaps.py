"""Nodes that are made in traced code.

A program that makes nodes of a family has a *heap* for it: a store that can grow.  It is made at the start of the
program and passed to every function that the program calls, which returns it changed.  Tracing detects that a heap is
needed and then restarts the trace (``NeedHeap``).  Trees among the arguments are copied into the heap, so that new
nodes can refer to their nodes.  A function that is differentiated is a separate program with its own heap.

Besides the columns, a heap holds the number of used rows of each; a full column is copied into one of twice the size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ...ir.graph import Value
from ...ir.strings import strings
from ...ir.types import BOOL, Array, Scalar, dtype_of
from ..columns.layouts import POOL, Block, Kind, Layout, Number, Parts, Perhaps, Ref, Refs, Text
from ..columns.recursive_types import Family
from ..columns.to_columns import Gathered
from ..objects import containers
from ..values.lattice import rebuild
from ..values.protocol import Trace
from ..values.values import ArrayRef, Choice, Instance, ListObj, Store, Sym
from .field_join import kind_of, wider
from .references import NodeList, Reference

ROOM = 16                       # initial rows of a column
OTHER = "it belongs to another tree: an argument of a function around this one, a gradient, or a result of `vjp`"


class NeedHeap(Exception):
    """The program makes nodes: restart it with a heap of this layout, which replaces that of family ``instead``."""

    def __init__(self, layout: Layout, instead: Family | None = None) -> None:
        self.layout, self.instead = layout, instead


def heap_of(t: Trace, family: Family) -> Store:
    """The heap of a family; raises ``NeedHeap`` if there is none."""
    found: Store | None = t.heaps.get(family)
    if found is None:
        raise NeedHeap(t.session.layouts.get(family) or Gathered(family, []).layout)
    return found


def empty(t: Trace, layout: Layout) -> Store:
    """A heap without nodes."""
    heap = Store(layout)
    t.state[heap] = {c.name: t.new_array(Sym(_blank(t, c.dtype, t.builder.const(ROOM)))) for c in layout.columns}
    t.state[heap] |= {f"#{name}": t.sym(0) for name in counted(layout)}
    return heap


def counted(layout: Layout) -> list[str]:
    """The names of everything that has a number of rows: each class, and each pool."""
    pools = [c.name.removesuffix(":at") for c in layout.columns if c.name.endswith(":at")]
    blocks = [p for p in pools if p in layout.place]
    return [*layout.names, *([POOL] if POOL in layout.place else []), *blocks]


def _blank(t: Trace, dtype: Scalar, size: Value) -> Value:
    b = t.builder
    zero = b.const(False if dtype.is_bool else 0.0 if dtype.is_float else 0, dtype)
    new: Value = b.as_type(b.fill(zero, size), type=Array(dtype, (None,)))
    return new


# --- rows -------------------------------------------------------------------------------------------

def of_class(layout: Layout, number: int) -> list[str]:
    """The columns that have one row for each node of a class."""
    pools = {c.name.removesuffix(":at") for c in layout.columns if c.name.endswith(":at")}
    start = f"{layout.names[number]}."
    return [c.name for c in layout.columns if c.name.startswith(start) and c.name not in pools]


def reserve(t: Trace, heap: Store, columns: Sequence[str], count: str, rows: Value) -> Value:
    """Reserves ``rows`` more rows, growing the columns if needed; returns the index of the first one."""
    b, content = t.builder, t.contents(heap)
    first: Value = t.value(content[f"#{count}"])
    needed = b.add(first, rows)
    if columns:
        capacity = b.dim(t.read(content[columns[0]]).value, axis=0)

        def grow() -> None:
            for name in columns:
                old = t.read(content[name]).value
                new = _blank(t, dtype_of(old.type), b.mul(needed, 2))
                t.state[content[name].obj] = Sym(b.set_slice(new, old, 0, 1))
        t.branch(b.gt(needed, capacity), grow, lambda: None, None)
    t.state[heap] = {**t.contents(heap), f"#{count}": Sym(needed, True)}
    return first


def make(t: Trace, family: Family, made: Instance) -> Reference:
    """Makes a node with the attributes of a new object."""
    heap, number, content = heap_of(t, family), family.number[made.cls], t.contents(made)
    fields = {name: _entry(t, heap, content[name]) for name, _ in heap.layout.fields[number]}
    _fit(t, heap, number, fields)
    row = reserve(t, heap, of_class(heap.layout, number), heap.layout.names[number], t.builder.const(1))
    for name, kind in heap.layout.fields[number]:
        write(t, heap, kind, heap.layout.path(number, name), row, fields[name])
    b = t.builder
    index = b.or_(b.shl(row, family.bits), number) if family.bits else row
    t.know(index, frozenset([number]))
    return Reference(Sym(index, True), heap, family.nullable)


def _entry(t: Trace, heap: Store, v: Any) -> Any:
    """A value as it is stored in a field: objects of the family become nodes of the heap."""
    if isinstance(v, Instance) and v.cls in heap.layout.family.number:
        return make(t, heap.layout.family, v)
    if isinstance(v, (Reference, NodeList)) and v.store is not heap:
        if isinstance(v, Reference) and not isinstance(v.index, Sym):
            return None
        t.unsupported(f"puts {v.describe()} into a new node: {OTHER}",
                      "make the new tree of numbers that are read from the other")
    if isinstance(v, tuple):
        return rebuild(v, tuple(_entry(t, heap, x) for x in v))
    if isinstance(v, ListObj):
        return t.new_list([_entry(t, heap, x) for x in t.contents(v)])
    return v


def _fit(t: Trace, heap: Store, number: int, values: dict[str, Any]) -> None:
    """Checks that the layout can hold these values; otherwise restarts with a wider layout."""
    layout: Layout = heap.layout
    found: dict[str, Kind] = {}
    for name, v in values.items():
        kind, new = layout.kinds[number][name], kind_of(t, v)
        both = wider(kind, new) if new is not None else None
        found[name] = both if both is not None else t.unsupported(
            f"the field {layout.path(number, name)} cannot hold {containers.describe(v)}",
            "nodes hold numbers, strings, arrays of one dtype and rank, tuples, other nodes and lists of nodes, in "
            "each field one kind of these or None")
    if any(found[name] != layout.kinds[number][name] for name in found):
        raise NeedHeap(layout.with_kinds(number, found))


def write(t: Trace, heap: Store, kind: Kind, path: str, row: Value, v: Any) -> None:
    """Writes a value to a row."""
    match kind:
        case Number(dtype, _):
            _set(t, heap, path, row, t.convert(v, dtype))
        case Text():
            _set(t, heap, path, row, t.value(_number_of(t, v)))
        case Ref():
            _set(t, heap, path, row, t.value(-1 if v is None else v.index))
        case Refs():
            _write_list(t, heap, path, row, v)
        case Block():
            _write_block(t, heap, path, row, v)
        case Perhaps(inner):
            t.over(v, lambda x: _write_perhaps(t, heap, inner, path, row, x)) if type(v) is Choice else \
                _write_perhaps(t, heap, inner, path, row, v)
        case Parts():
            values = t.contents(v).values() if isinstance(v, Instance) else v
            for (key, part), x in zip(kind.items(), values):
                write(t, heap, part, f"{path}.{key}", row, x)


def _number_of(t: Trace, text: Any) -> Any:
    if isinstance(text, Choice):
        return t.over(text, lambda x: _number_of(t, x))
    return strings(text) if isinstance(text, str) else text.index


def _set(t: Trace, heap: Store, column: str, row: Value, v: Value) -> None:
    ref: ArrayRef = t.contents(heap)[column]
    t.state[ref.obj] = Sym(t.builder.set(t.read(ref).value, v, row))


def _write_perhaps(t: Trace, heap: Store, inner: Kind, path: str, row: Value, v: Any) -> None:
    _set(t, heap, f"{path}?", row, t.value(v is not None, BOOL))
    if v is not None:
        write(t, heap, inner, path, row, v)


def _write_list(t: Trace, heap: Store, path: str, row: Value, v: Any) -> None:
    if isinstance(v, NodeList):
        at, length = t.value(v.at), t.value(v.length)        # lists are immutable, so nodes may share them
    else:
        items = t.contents(v)
        length = t.builder.const(len(items))
        at = reserve(t, heap, [POOL], POOL, length)
        for k, x in enumerate(items):
            _set(t, heap, POOL, t.builder.add(at, k), t.value(-1 if x is None else x.index))
    _set(t, heap, f"{path}:at", row, at)
    _set(t, heap, f"{path}:len", row, length)


def _write_block(t: Trace, heap: Store, path: str, row: Value, v: ArrayRef) -> None:
    b, array = t.builder, t.read(v).value
    sizes = b.dims(array)
    count = sizes[0]
    for n in sizes[1:]:
        count = b.mul(count, n)
    at = reserve(t, heap, [path], path, count)
    pool: ArrayRef = t.contents(heap)[path]
    flat = b.reshape(array, count) if len(sizes) > 1 else array
    t.state[pool.obj] = Sym(b.set_slice(t.read(pool).value, flat, at, 1))
    for name, x in ((f"{path}:at", at), *((f"{path}:{axis}", n) for axis, n in enumerate(sizes))):
        _set(t, heap, name, row, x)


# --- changing a node --------------------------------------------------------------------------------

def assign(t: Trace, ref: Reference, number: int, name: str, row: Value, v: Any) -> None:
    """``node.name = v`` for a node of class number ``number``."""
    heap, cls = ref.store, ref.family.classes[number]
    if heap is not t.heaps.get(ref.family):
        t.unsupported(f"sets attribute `{name}` of {ref.describe()}: {heap.readonly or OTHER}",
                      "make a new node with the new value")
    if getattr(getattr(cls, "__dataclass_params__", None), "frozen", False):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field '{name}'")
    kind = heap.layout.kinds[number].get(name)
    if kind is None:
        t.unsupported(f"sets attribute `{name}`, which is no field of {cls.__name__}", "declare it in the class")
    given = t.contents(heap).get(f"#given {number}")
    if given is not None:
        t.check(t.builder.ge(row, t.value(given)), "ValueError",
                f"assignment to field '{name}' of a node that belongs to the caller: make a new node")
    v = _entry(t, heap, v)
    _fit(t, heap, number, {name: v})
    write(t, heap, kind, heap.layout.path(number, name), row, v)
