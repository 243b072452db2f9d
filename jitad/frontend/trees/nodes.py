"""Trees that are arguments of a program, or of a function that is differentiated.

In a program without a heap, each tree has a store of its own, whose columns are the parameters.  If there is a heap
(``heaps``), the columns are copied into it, so that new nodes can refer to the trees of all arguments.
"""

from __future__ import annotations

from typing import Any

from ...ir.graph import Value
from ...ir.types import I64
from ..columns.layouts import POOL, Block, Column, Kind, Layout, Number, Parts, Perhaps, Ref, Refs
from ..columns.pack import Packed
from ..columns.recursive_types import Family
from ..values.lattice import rebuild
from ..values.protocol import Trace
from ..values.values import ArrayRef, DictObj, Instance, ListObj, Obj, Sym
from . import fields
from . import references as records
from .field_join import wider
from .heaps import NeedHeap, assign, counted, empty, heap_of, make, of_class, reserve
from .references import NodeList, Reference

WITHIN = "it holds trees, and is an argument of a function that is differentiated"


class Nodes(Trace):
    """The part of ``Trace`` for nodes.  ``heaps``: the heaps of the traced program, by family."""

    def imported(self, packed: Packed) -> Reference | NodeList:
        """A packed value whose leaves are values of the trace; it gets its own store."""
        return records.imported(self, packed)

    def argument(self, packed: Packed, readonly: str) -> Reference | NodeList:
        """An argument of the program: a part of the heap if there is one."""
        family = packed._root.layout.family
        self.session.layouts.setdefault(family, packed._root.layout)
        if family in self.heaps:
            found = adopt(self, packed)
        else:
            found = records.imported(self, packed)
            found.store.readonly = readonly
        if isinstance(found, Reference):             # None is not packed
            self.know(found.index.value, frozenset(range(len(family.classes))))
        return found

    def make_node(self, family: Family, made: Instance) -> Reference:
        """Makes a node with the attributes of a new object."""
        return make(self, family, made)

    def node_attribute(self, ref: Reference, name: str) -> Any:
        """``node.name``."""
        return fields.attribute(self, ref, name)

    def assign_node(self, ref: Reference, name: str, v: Any) -> None:
        """``node.name = v``."""
        owners = fields.owners_of(self, ref, name)
        records.among(self, ref, owners, lambda k: assign(self, ref, k, name, records.row_of(self, ref), v))

    def begin_heaps(self) -> list[Obj]:
        """Makes the heaps of a program at its start; returns them, since they are always live."""
        self.heaps = {family: empty(self, wanted) for family, wanted in self.session.heaps.items()}
        return [*self.heaps.values()]


def entered(t: Trace, v: Any) -> Any:
    """An argument of a function that is differentiated, with its trees copied into the heap of that function."""
    if isinstance(v, (Reference, NodeList)):
        return adopt(t, v.exported(t)) if v.family in t.heaps else v
    if isinstance(v, tuple):
        return rebuild(v, tuple(entered(t, x) for x in v))
    if isinstance(v, (ListObj, DictObj, Instance)):
        content = t.contents(v)
        items = list(content.items() if isinstance(content, dict) else enumerate(content))
        new = {k: entered(t, x) for k, x in items}
        if all(new[k] is x for k, x in items):
            return v
        out: Obj = Instance(v.cls, WITHIN) if isinstance(v, Instance) else type(v)(WITHIN)
        t.state[out] = new if isinstance(content, dict) else tuple(new.values())
        return out
    return v


class Enter:
    """``entered``, as a callable that ``trampolines.outputs`` applies to the arguments."""

    static = None

    def traced_call(self, t: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return entered(t, args[0]) if t.heaps else args[0]


ENTER = Enter()


# --- trees of the arguments -------------------------------------------------------------------------

def adopt(t: Trace, packed: Packed) -> Reference | NodeList:
    """Copies the columns of an argument into the heap, after the existing rows."""
    return Adoption(t, packed).result()


class Adoption:
    """Copies the columns of a packed value into the heap of its family, with all references relocated."""

    def __init__(self, t: Trace, packed: Packed) -> None:
        self.t, self.b, self.root = t, t.builder, packed._root
        self.layout: Layout = packed._root.layout
        self.given = dict(zip([c.name for c in self.layout.columns], packed._leaves[self.root.count:]))
        self.place = packed._leaves[:self.root.count]
        self.heap = heap_of(t, self.layout.family)
        self._check_layout()
        self.starts: dict[str, Value] = {}

    def _check_layout(self) -> None:
        """Checks that the heap's layout can hold the argument's values; otherwise restarts with a wider one."""
        mine: Layout = self.heap.layout
        for number, kinds in enumerate(mine.fields):
            found: dict[str, Kind] = {}
            for name, kind in kinds:
                both = wider(kind, self.layout.kinds[number][name])
                found[name] = both if both is not None else self.t.unsupported(
                    f"the field {mine.path(number, name)} holds values of different kinds",
                    "give it one kind in all trees")
            if any(found[name] != kind for name, kind in kinds):
                raise NeedHeap(mine.with_kinds(number, found))
        if POOL in self.layout.place and POOL not in mine.place:
            raise NeedHeap(mine.with_pool())

    def result(self) -> Reference | NodeList:
        t, layout = self.t, self.heap.layout
        counts = {name: self._rows(name) for name in counted(layout)}
        for number, name in enumerate(layout.names):
            self.starts[name] = reserve(t, self.heap, of_class(layout, number), name, counts[name])
        for name in (n for n in counts if n not in layout.names):
            self.starts[name] = reserve(t, self.heap, [name], name, counts[name])
        for number, kinds in enumerate(layout.fields):
            for name, kind in kinds:
                path = layout.path(number, name)
                self._copy(kind, self.layout.kinds[number][name], path, self.starts[layout.names[number]],
                           counts[layout.names[number]])
        if POOL in self.given:
            self._put(POOL, self.starts[POOL], self._moved(self._column(POOL)))
        self._protect()
        return self._found()

    def _found(self) -> Reference | NodeList:
        t, family = self.t, self.layout.family
        if self.root.is_list:
            every = frozenset(range(-family.nullable, len(family.classes)))
            at = t.binary("add", self.place[0], Sym(self.starts[POOL], True))
            return NodeList(at, self.place[1], self.heap, every)
        index = self._moved(t.value(self.place[0]))
        return Reference(Sym(index, True), self.heap, family.nullable)

    def _protect(self) -> None:
        """Marks the rows so far as the caller's, which must not be written."""
        content = self.t.contents(self.heap)
        given = {f"#given {k}": content[f"#{name}"] for k, name in enumerate(self.heap.layout.names)}
        self.t.state[self.heap] = {**content, **given}

    def _rows(self, counted: str) -> Value:
        """The number of rows of a class, or elements of a pool, in the argument."""
        layout, b = self.layout, self.b
        names = of_class(layout, layout.names.index(counted)) if counted in layout.names else [counted]
        found = [n for n in names if n in self.given]
        if not found and counted in layout.names:
            return b.const(1)                        # its nodes have no columns to count
        rows: Value = b.dim(self._column(found[0]), axis=0) if found else b.const(0)
        return rows

    def _column(self, name: str) -> Value:
        value: Value = self.t.read(self.given[name]).value
        return value

    def _put(self, name: str, start: Value, column: Value) -> None:
        ref: ArrayRef = self.t.contents(self.heap)[name]
        self.t.state[ref.obj] = Sym(self.b.set_slice(self.t.read(ref).value, column, start, 1))

    def _copy(self, to: Kind, kind: Kind, path: str, start: Value, rows: Value) -> None:
        """Copies the columns of a field, converted to a wider kind."""
        b = self.b
        match to, kind:
            case Perhaps(inner), Perhaps(given):
                self._put(f"{path}?", start, self._column(f"{path}?"))
                self._copy(inner, given, path, start, rows)
            case Perhaps(inner), _:
                if kind.columns(path) and list(kind.columns(path)):
                    self._put(f"{path}?", start, b.fill(b.const(True), rows))
                    self._copy(inner, kind, path, start, rows)
            case Parts(), Parts():
                for (key, part), (_, given) in zip(to.items(), kind.items()):
                    self._copy(part, given, f"{path}.{key}", start, rows)
            case Number(dtype), Number():
                self._put(path, start, b.cast(self._column(path), dtype=dtype))
            case Ref(), Ref():
                self._put(path, start, self._moved(self._column(path)))
            case Block(), Block():
                self._put(path, self.starts[path], self._column(path))
                self._copy_places(kind, path, start, self.starts[path])
            case Refs(), Refs():
                self._copy_places(kind, path, start, self.starts[POOL])
            case _:
                for column in kind.columns(path):
                    self._put(column.name, start, self._column(column.name))

    def _copy_places(self, kind: Kind, path: str, start: Value, moved_by: Value) -> None:
        for column in list[Column](kind.columns(path)):
            if column.name.endswith(":at"):
                self._put(column.name, start, self.b.add(self._column(column.name), moved_by))
            elif column.name != path:
                self._put(column.name, start, self._column(column.name))

    def _moved(self, references: Value) -> Value:
        """Relocates references from the argument's columns to the heap; ``None`` stays −1."""
        b, family, names = self.b, self.layout.family, self.heap.layout.names
        starts = [self.starts[n] for n in names]
        if all(s.const == 0 for s in starts):
            return references
        tag = b.and_(references, (1 << family.bits) - 1)
        moved = references
        for k, s in enumerate(starts):
            by = b.add(references, b.shl(s, family.bits) if family.bits else s)
            moved = b.select(b.eq(tag, k), by, moved) if family.bits else by
        result: Value = b.select(b.lt(references, b.const(0, I64)), references, moved)
        return result
