"""Nodes of recursive dataclasses in traced code.

A *store* is an object of the trace state that holds the columns of a family (``layouts``) as arrays.  A *reference* is
an i64 and its store.  A field is read by a ``get``, is written by a ``set``, and has its gradient in an array.  So
after the front end, trees are arrays.

References are valid by construction, since a program gets them only from arguments, fields and constructors.  The only
checks are that a reference is not ``None`` and that its class has the field, unless that is known here (``unions``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...ir.graph import Value
from ...ir.strings import strings
from ..arrays import views
from ..arrays.rules.basic_indexing import Window
from ..columns.layouts import POOL, Layout, Root, root
from ..columns.pack import Packed
from ..columns.recursive_types import Family
from ..objects import attributes
from ..values.active import Active
from ..values.closures import Template
from ..values.lattice import UNBOUND
from ..values.protocol import Trace
from ..values.union_merge import FACTS
from ..values.values import ArrayRef, Store, Sym

Classes = frozenset[int]
PART = "it is part of a node"


class Reference(Active):
    """A node, or ``None``: ``index`` is an i64 ``Sym``, or −1.  ``nullable``: it may be ``None``."""

    __slots__ = ("index", "store", "nullable")

    def __init__(self, index: Any, store: Store, nullable: bool) -> None:
        self.index, self.store, self.nullable = index, store, nullable

    @property
    def static(self) -> Any:
        return self.nullable

    def parts(self) -> tuple[Any, ...]:
        return (self.index, self.store)

    def with_parts(self, parts: tuple[Any, ...]) -> Reference:
        return Reference(parts[0], parts[1], self.nullable)

    @property
    def layout(self) -> Layout:
        layout: Layout = self.store.layout
        return layout

    @property
    def family(self) -> Family:
        return self.layout.family

    def describe(self) -> str:
        what = "a function" if self.family.functions else f"a node of {self.family}"
        return what + (" or None" if self.nullable else "")

    # --- queries of the trace -----------------------------------------------------------------------

    def has(self, t: Trace, name: str) -> Any:
        return test(t, self, frozenset(k for k in possible(t, self) if k >= 0 and has_attribute(self.layout, k, name)))

    def attribute(self, t: Trace, name: str) -> Any:
        return t.node_attribute(self, name)

    def assign(self, t: Trace, name: str, value: Any) -> None:
        t.assign_node(self, name, value)

    def truth(self, t: Trace) -> Any:
        classes = self.family.classes
        if any(hasattr(c, m) for c in classes for m in ("__bool__", "__len__")):
            t.unsupported(f"the truth of a node of {self.family}, which defines `__bool__` or `__len__`",
                          "write what is meant: `node is not None`")
        return t.not_(test(t, self, frozenset([-1])))

    def compare(self, t: Trace, op: str, other: Any) -> Any:
        if op in ("is", "eq") and other is None:
            return test(t, self, frozenset([-1]))
        if op == "is":
            return identical(t, self, other)
        if op in ("ne", "is not"):
            return t.not_(self.compare(t, "eq" if op == "ne" else "is", other))
        owners = possible(t, self) - {-1}
        found = {inspect.getattr_static(self.family.classes[k], f"__{op}__", None) for k in owners}
        if op == "eq" and found == {object.__eq__}:
            return identical(t, self, other)
        if not all(map(attributes.has_source, found)):
            t.unsupported(f"compares nodes of {self.family} by `{op}`, which would compare whole trees",
                          "write the comparison as a recursive function; `is` tells whether they are one node")
        return t.call(t.node_attribute(self, f"__{op}__"), other)

    def is_a(self, t: Trace, cls: Any) -> Any:
        wanted = {k for k, c in enumerate(self.family.classes) if issubclass(c, cls)}
        return test(t, self, frozenset(wanted | ({-1} if issubclass(type(None), cls) else set())))

    def type_of(self, t: Trace) -> type:
        maybe = possible(t, self)
        if len(maybe) > 1:
            t.unsupported(f"the type of {self.describe()}, which is only known at run time", "use `isinstance`")
        return self.family.classes[next(iter(maybe))] if maybe != {-1} else type(None)

    def exported(self, t: Trace) -> Packed:
        if self.family.functions:
            t.unsupported("a function as a result, or as an argument of one that is differentiated",
                          "return numbers, arrays, and structures of them")
        null_checked = self.index if isinstance(self.index, Sym) else t.sym(self.index)
        return Packed(root(self.layout), (null_checked, *_columns(t, self.store)))


class NodeList(Active):
    """An immutable list of nodes: its start in the pool, and its length."""

    __slots__ = ("at", "length", "store", "classes")
    counted = True

    def __init__(self, at: Any, length: Any, store: Store, classes: Classes) -> None:
        self.at, self.length, self.store, self.classes = at, length, store, classes

    @property
    def static(self) -> Any:
        return self.classes

    def parts(self) -> tuple[Any, ...]:
        return (self.at, self.length, self.store)

    def with_parts(self, parts: tuple[Any, ...]) -> NodeList:
        return NodeList(parts[0], parts[1], parts[2], self.classes)

    @property
    def family(self) -> Family:
        family: Family = self.store.layout.family
        return family

    def describe(self) -> str:
        return f"a list of nodes of {self.family}"

    def count(self, t: Trace) -> Any:
        return self.length

    def element(self, t: Trace, it: Any) -> Any:
        pool = t.read(t.contents(self.store)[POOL]).value
        return reference(t, t.builder.get(pool, t.value(t.binary("add", self.at, it))), self.store, self.classes)

    def item(self, t: Trace, index: Any) -> Any:
        if isinstance(index, slice):
            t.unsupported("a slice of a list of nodes", "walk the list and count")
        n, i = self.length, index
        low = t.compare("lt", i, 0)
        i = t.choose_value(t.truth(low), t.binary("add", i, n), i)
        inside = t.both("and", t.truth(t.compare("ge", i, 0)), t.truth(t.compare("lt", i, n)))
        t.check(inside, "IndexError", "list index out of range")
        return self.element(t, i)

    def truth(self, t: Trace) -> Any:
        return t.truth(t.compare("gt", self.length, 0))

    def is_a(self, t: Trace, cls: Any) -> Any:
        return issubclass(list, cls)

    def type_of(self, t: Trace) -> type:
        return list

    def exported(self, t: Trace) -> Packed:
        return Packed(root(self.store.layout, True), (t.sym(self.at), t.sym(self.length), *_columns(t, self.store)))


class TextOf(Active):
    """A string that is only known at run time, as its index in ``strings``."""

    __slots__ = ("index",)
    static = None

    def __init__(self, index: Any) -> None:
        self.index = index

    def parts(self) -> tuple[Any, ...]:
        return (self.index,)

    def with_parts(self, parts: tuple[Any, ...]) -> TextOf:
        return TextOf(*parts)

    def describe(self) -> str:
        return "a string"

    def compare(self, t: Trace, op: str, other: Any) -> Any:
        if isinstance(other, Template):
            return other.refused(t, "a comparison with")
        if op in ("eq", "ne", "is", "is not") and isinstance(other, (str, TextOf)):
            number = strings(other) if isinstance(other, str) else other.index
            return t.compare("eq" if op in ("eq", "is") else "ne", self.index, number)
        if op in ("eq", "ne", "is", "is not"):
            return op in ("ne", "is not")
        return t.unsupported("compares strings that are only known at run time", "compare them by `==`")

    def is_a(self, t: Trace, cls: Any) -> Any:
        return issubclass(str, cls)

    def type_of(self, t: Trace) -> type:
        return str


def alike(values: Sequence[Any]) -> Sequence[Any]:
    """Values that are merged, in a common form: ``None`` merged with a reference becomes a reference."""
    first = next((v for v in values if type(v) is Reference), None)
    if first is None:
        return values
    if first.family.functions:
        values = [_function_of(first, v) for v in values]
    nullable = any(v is None or (type(v) is Reference and v.nullable) for v in values)
    return [Reference(-1, first.store, True) if v is None
            else Reference(v.index, v.store, nullable) if type(v) is Reference else v for v in values]


def _function_of(first: Reference, v: Any) -> Any:
    number = first.family.constant(v, first.layout)
    return v if number is None else Reference(number, first.store, False)


def has_attribute(layout: Layout, k: int, name: str) -> bool:
    return name in layout.kinds[k] or inspect.getattr_static(layout.family.classes[k], name, UNBOUND) is not UNBOUND


# --- conversion ---------------------------------------------------------------------------------------

def reference(t: Trace, index: Value, store: Store, classes: Classes) -> Reference:
    """A reference that has been read; records the classes that its location allows."""
    layout: Layout = store.layout
    t.know(index, classes)
    return Reference(Sym(index, True), store, layout.family.nullable or -1 in classes)


def imported(t: Trace, packed: Packed) -> Reference | NodeList:
    """The value of a packed value whose leaves are values of the trace; it gets its own store."""
    static: Root = packed._root
    layout, (place, columns) = static.layout, (packed._leaves[:static.count], packed._leaves[static.count:])
    store = Store(layout)
    t.state[store] = {c.name: t.new_array(x) if isinstance(x, Sym) else x for c, x in zip(layout.columns, columns)}
    if static.is_list:
        every = frozenset(range(-layout.family.nullable, len(layout.family.classes)))
        return NodeList(place[0], place[1], store, every)
    return Reference(place[0], store, layout.family.nullable)


def _columns(t: Trace, store: Store) -> list[ArrayRef]:
    """The columns; of a heap only the used rows, but at least two, since arrays of one are compiled separately."""
    content, layout = t.contents(store), store.layout
    if f"#{layout.names[0]}" not in content:
        return [content[c.name] for c in layout.columns]
    return [_used(t, content[c.name], t.value(content[f"#{layout.counted(c.name)}"])) for c in layout.columns]


def _used(t: Trace, column: ArrayRef, count: Value) -> ArrayRef:
    b = t.builder
    span = (b.const(0), b.maximum(count, 2), b.const(1))
    return ArrayRef(column.obj, (*column.steps, views.IndexStep(Window((span,), (0,)))))


# --- classes of references --------------------------------------------------------------------------

def possible(t: Trace, ref: Reference) -> Classes:
    """The possible classes of a reference on this path."""
    known = ref.index.value.const if isinstance(ref.index, Sym) else ref.index
    if known is not None:
        return frozenset([-1 if known < 0 else int(known) & (1 << ref.family.bits) - 1])
    every = frozenset(range(-1 if ref.nullable else 0, len(ref.family.classes)))
    found: Classes = t.state.get(FACTS, {}).get(ref.index.value, every)
    return found & every


def test(t: Trace, ref: Reference, wanted: Classes) -> Any:
    """The test that a reference is of one of these classes: a bool, or a ``Sym`` that branches learn from."""
    maybe = possible(t, ref)
    yes = maybe & wanted
    if yes == maybe or not yes:
        return bool(yes)
    b, index = t.builder, ref.index.value
    no = maybe - yes
    if yes == {-1} or no == {-1}:
        found = b.eq(index, -1) if yes == {-1} else b.ne(index, -1)
    elif len(yes) <= len(no):
        found = _any_of(t, ref, yes)
    else:
        found = b.not_(_any_of(t, ref, no))
    return t.says(found, index, yes, no)


def _any_of(t: Trace, ref: Reference, classes: Classes) -> Value:
    b, index = t.builder, ref.index.value
    found: Value | None = None
    for k in sorted(classes):
        one = b.eq(index, -1) if k < 0 else b.eq(tag_of(t, ref), k)
        if k == (1 << ref.family.bits) - 1 and -1 in possible(t, ref):
            one = b.and_(one, b.ne(index, -1))       # -1 has all bits set
        found = one if found is None else b.or_(found, one)
    assert found is not None
    return found


def tag_of(t: Trace, ref: Reference) -> Value:
    return once(t, ("tag", ref.index.value), lambda: t.builder.and_(ref.index.value, (1 << ref.family.bits) - 1))


def row_of(t: Trace, ref: Reference) -> Value:
    if not ref.family.bits:
        whole: Value = t.value(ref.index)
        return whole
    return once(t, ("row", ref.index.value), lambda: t.builder.shr(ref.index.value, ref.family.bits))


def once(t: Trace, key: Any, make: Callable[[], Value]) -> Value:
    """A value that is computed only once on a path, identified by ``key``."""
    found: Value | None = t.state.get(FACTS, {}).get(key)
    if found is None:
        found = make()
        t.state[FACTS] = {**t.state.get(FACTS, {}), key: found}
    return found


def among(t: Trace, ref: Reference, classes: Classes, fun: Callable[[int], Any]) -> Any:
    """``fun`` applied to the class number of a reference, which is one of ``classes``."""
    first, *rest = sorted(classes)
    if not rest:
        return fun(first)
    c = test(t, ref, frozenset([first]))
    if isinstance(c, bool):
        return fun(first) if c else among(t, ref, frozenset(rest), fun)
    return t.choose(c, lambda: fun(first), lambda: among(t, ref, frozenset(rest), fun))


def identical(t: Trace, a: Any, b: Any) -> Any:
    """``a is b`` for a node ``a`` and any value."""
    b = alike((a, b))[1] if a.family.functions else b
    if not isinstance(b, Reference):
        return False
    if a.store is not b.store:
        t.unsupported("`is` between nodes of different arguments, or of a tree and its gradient",
                      "pass one argument that holds both: a tuple")
    return Sym(t.builder.eq(t.value(a.index), t.value(b.index)), True)
