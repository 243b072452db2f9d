"""Values across a call: graphs of values are flattened on one side and rebuilt on the other.

Arguments form a graph: values contain mutable objects, which contain values.  ``Packer`` traverses it once.  It yields
a key (static values, types, identities of objects) and the run-time leaves, which become the arguments.  ``Transfer``
copies a graph from one trace to another, leaf by leaf in the same order; ``Inwards`` copies arguments into the callee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import TypeInferenceError
from ...ir.graph import Value
from ..arrays import views
from ..values import lattice
from ..values.growing import Growing
from ..values.lattice import UNBOUND, is_structure
from ..values.protocol import Trace
from ..values.values import ArrayObj, ArrayRef, Conflict, DictObj, Instance, ListObj, Maybe, Obj, Slot, Sym


class Overlap(Exception):
    """An array is reached through several views that show different parts of it."""

    def __init__(self, obj: ArrayObj) -> None:
        super().__init__()
        self.obj = obj


class Endless(TypeInferenceError):
    """A function whose result has no type, since every path recurses."""


def packed(t: Trace, values: Sequence[Any], known: Sequence[Obj] = ()) -> tuple[Packer, tuple[Any, ...]]:
    """A packer of these values and their keys; ``known`` are objects that the other side already has."""
    shared: frozenset[ArrayObj] = frozenset()
    while True:
        packer = Packer(t, shared)
        for obj in known:
            packer.index[obj] = len(packer.refs)
            packer.refs.append(obj)
        try:
            return packer, tuple(map(packer.pack, values))
        except Overlap as overlap:
            shared |= {overlap.obj}


class Packer:
    """Flattens a graph of values.

    ``leaves``: the run-time values in order.  ``refs``: the caller's reference to each mutable object, in order; a view
    counts as a separate array if its base is not reached otherwise.  ``shared``: the arrays that are reached in several
    ways, whose views remain views; for other arrays such an access raises ``Overlap``.
    """

    def __init__(self, t: Trace, shared: frozenset[ArrayObj] = frozenset()) -> None:
        self.t = t
        self.shared = shared
        self.leaves: list[Sym] = []
        self.index: dict[Any, int] = {}
        self.refs: list[Any] = []
        self._passed: set[Obj] = set()
        self._not_with: set[Obj] = set()

    def _content(self, obj: Obj) -> Any:
        content = self.t.state.get(obj, UNBOUND)
        if type(content) is Growing:
            self.t.check_fresh(obj)
        return content if isinstance(obj, Slot) or type(content) is Growing else self.t.contents(obj)

    def pack(self, v: Any) -> Any:
        """Returns the key of a value and appends its leaves and references."""
        if type(v) is Sym:
            self.leaves.append(v)
            return ("leaf", v.type, v.weak)
        if isinstance(v, ArrayRef):
            return self._array(v)
        if isinstance(v, Obj):
            return self._obj(v)
        if is_structure(v):
            return (type(v), static_key(self.t, lattice.static_of(v)), *map(self.pack, lattice.parts(v)))
        if isinstance(v, slice):
            return (slice, self.pack(v.start), self.pack(v.stop), self.pack(v.step))
        if isinstance(v, Maybe):
            return (Maybe, self.pack(v.value), self.pack(v.flag))
        return static_key(self.t, v)

    def _array(self, ref: ArrayRef) -> Any:
        name = ref.obj if not ref.steps else (ref.obj, *ref.steps)
        if name in self.index:
            return ("same", self.index[name])
        if ref.steps and ref.obj in self.shared:
            return ("view", self._array(ArrayRef(ref.obj)), *map(self._step, ref.steps))
        self._no_overlap(ref.obj)
        self.index[name] = len(self.refs)
        self.refs.append(ref)
        sym = self.t.read(ref)
        self.leaves.append(sym)
        return ("array", sym.type, ref.obj.readonly, views.is_scattered(ref))

    def _no_overlap(self, obj: ArrayObj) -> None:
        """Refuses or reports overlapping arrays, since the callee treats its arrays as distinct when it writes."""
        if obj in self._passed and not obj.readonly:
            raise Overlap(obj)
        others = {o for o, _ in obj.maybe if not o.readonly}
        if obj in self._not_with or others & self._passed:
            self.t.unsupported("passes an array that may be the same as another argument", "pass a copy: `x.copy()`")
        self._passed.add(obj)
        self._not_with |= others

    def _step(self, step: Any) -> Any:
        values: list[Any] = []

        def visit(v: Value) -> Value:
            if v.const is None:
                self.leaves.append(Sym(v))
            values.append((v.type, v.const))
            return v
        step.moved(visit)
        return (type(step), step.static, *values)

    def _obj(self, obj: Obj) -> Any:
        if obj in self.index:
            return ("same", self.index[obj])
        self.index[obj] = len(self.refs)
        self.refs.append(obj)
        if isinstance(obj, Slot):
            self.t.check_fresh(obj)
        content = self._content(obj)
        head = (type(obj), getattr(obj, "cls", None), obj.readonly)
        if content is UNBOUND or isinstance(content, Conflict):
            return (*head, repr(content))
        if isinstance(obj, Slot):
            return (*head, self.pack(content))
        if type(content) is Growing:
            return (*head, content.kind, *map(self.pack, content.parts()))
        if isinstance(content, tuple):
            return (*head, *map(self.pack, content))
        return (*head, tuple(content), *map(self.pack, content.values()))


def object_of(ref: Any) -> Obj:
    """The caller's object for an entry of ``Packer.refs``."""
    found: Obj = ref.obj if isinstance(ref, ArrayRef) else ref
    return found


def static_key(t: Trace, v: Any) -> Any:
    """The key of a static value: by value for plain data, otherwise by identity."""
    if isinstance(v, float):
        return (float, v.hex())
    if isinstance(v, np.generic):
        return (v.dtype, v.tobytes())
    if v is None or isinstance(v, (bool, int, str, type, np.dtype)):
        return (type(v), v)
    if isinstance(v, tuple):
        return tuple(static_key(t, x) for x in v)
    if hasattr(v, "clauses"):
        t.unsupported("a generator expression of one function in another", "make a list: `[… for …]`")
    t.session.keep[id(v)] = v
    return (type(v), id(v))


class Transfer:
    """Copies values between traces: ``leaf`` maps run-time values, ``known`` maps objects."""

    def __init__(self, source: dict[Obj, Any], t: Trace, leaf: Callable[[Sym], Any], known: dict[Obj, Any]) -> None:
        self.source, self.t, self.leaf, self.known = source, t, leaf, known
        self.made: list[Obj] = []

    def value(self, v: Any) -> Any:
        if type(v) is Sym:
            return self.leaf(v)
        if isinstance(v, ArrayRef):
            return self._array(v)
        if isinstance(v, Obj):
            return self.obj(v)
        if is_structure(v):
            return lattice.rebuild(v, tuple(map(self.value, lattice.parts(v))))
        if isinstance(v, slice):
            return slice(self.value(v.start), self.value(v.stop), self.value(v.step))
        if isinstance(v, Maybe):
            return Maybe(self.value(v.value), self.value(v.flag))
        return v

    def _array(self, ref: ArrayRef) -> Any:
        base = self.obj(ref.obj)
        base = base if isinstance(base, ArrayRef) else ArrayRef(base)
        steps = tuple(s.moved(self._moved) for s in ref.steps)
        return ArrayRef(base.obj, (*base.steps, *steps)) if steps else base

    def _moved(self, v: Value) -> Value:
        """Maps a size or index of a view; constants stay constants, so literal sizes stay literal."""
        value: Value = self.leaf(Sym(v)).value if v.const is None else self.t.builder.const(v.const)
        return value

    def obj(self, obj: Obj) -> Any:
        if obj in self.known:
            return self.known[obj]
        new: Obj
        if isinstance(obj, Instance):
            new = type(obj)(obj.cls, obj.readonly)
        elif isinstance(obj, Slot):
            new = Slot(obj.name, bound=obj in self.source and not isinstance(self.source[obj], Maybe))
        else:
            new = _like(obj)
        self.known[obj] = new
        self.made.append(obj)
        content = self.content(obj)
        if content is not UNBOUND:
            self.t.state[new] = content
        return new

    def content(self, obj: Obj) -> Any:
        content = self.source.get(obj, UNBOUND)
        if content is UNBOUND or isinstance(content, Conflict):
            return content
        if type(content) is Growing:
            return content.with_parts(tuple(map(self.value, content.parts())))
        if isinstance(obj, (ListObj,)):
            return tuple(map(self.value, content))
        if isinstance(obj, (DictObj, Instance)):
            return {k: self.value(x) for k, x in content.items()}
        return self.value(content)



def _like(obj: Obj) -> Obj:
    """A new array, list or dict object with the attributes of ``obj``."""
    return ArrayObj(obj.readonly, obj.scattered) if isinstance(obj, ArrayObj) else type(obj)(obj.readonly)


class Inwards(Transfer):
    """Copies arguments into the callee: leaves become parameters, and objects are numbered as in ``Packer``."""

    def __init__(self, outer: Any, inner: Any, known: dict[Any, Any], packer: Packer) -> None:
        super().__init__(outer.state, inner, self._parameter, known)
        self.outer, self.shared = outer, packer.shared
        self.order: list[Obj] = []

    def _parameter(self, s: Sym) -> Sym:
        return Sym(self.t.func.entry.add_param(s.type), s.weak)

    def _array(self, ref: ArrayRef) -> ArrayRef:
        if ref.steps and ref.obj in self.shared:
            return ArrayRef(self._array(ArrayRef(ref.obj)).obj, tuple(s.moved(self._moved) for s in ref.steps))
        name: Any = ref.obj if not ref.steps else (ref.obj, *ref.steps)
        if name not in self.known:
            new = ArrayObj(ref.obj.readonly, views.is_scattered(ref))
            self.known[name] = new
            self.order.append(new)
            self.t.state[new] = self._parameter(self.outer.read(ref))
        return ArrayRef(self.known[name])

    def obj(self, obj: Obj) -> Any:
        if obj in self.known:
            return self.known[obj]
        new: Obj = type(obj)(obj.cls, obj.readonly) if isinstance(obj, Instance) else \
            Slot(obj.name) if isinstance(obj, Slot) else _like(obj)
        self.known[obj] = new
        self.order.append(new)
        content = self.content(obj)
        if content is not UNBOUND:
            self.t.state[new] = content
        return new
