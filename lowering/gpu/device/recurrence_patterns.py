"""Linear recurrences: loops whose carried number becomes ``a * p + b``, with ``a`` and ``b`` known beforehand.

::

    for %i (%p) { %a = load %c, %i;  %m = mul %a, %p;  %x = load %d, %i;  %t = add %m, %x;  …;  yield %t }

The number may be in memory, where each iteration reads what the one before has stored::

    for %i { %p = load %b, %i;  %m = mul %a, %p;  %x = load %d, %i;  %t = add %m, %x;  store %t, %b, (add %i, 1) }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import NOWHERE
from ....ir.builder import Builder
from ....ir.graph import Block, Function, Op, Value
from ....ir.types import Scalar, dtype_of
from ....passes.analysis.affine import Affine, AffineForms
from .patterns import LEAST_ATOMIC, added_by, is_plain, needed_for, overwriting, scan_of, stores_apart


def is_carried_parallel(op: Op) -> bool:
    """True for a ``for`` that is a scan, a recurrence, a search, additions, or overwriting."""
    return "best" in op.attrs or any(find(op) is not None for find in (scan_of, recurrence_of, added_by, overwriting))


@dataclass(frozen=True)
class Recurrence:
    """A linear recurrence: the number before an iteration, ``a``, ``b``, the ops that compute these, some of which are
    new, and the number after it.

    ``read``: the load of the number, if it is in memory.  ``place``: its indices in the first iteration.
    """

    before: Value
    a: Value
    b: Value
    ops: tuple[Op, ...]
    after: Value
    read: Op | None = None
    place: tuple[Affine, ...] = ()

    @property
    def type(self) -> Scalar:
        return dtype_of(self.before.type)


def recurrence_of(op: Op) -> Recurrence | None:
    """The linear recurrence that a loop is, if it is one."""
    region = op.regions[0]
    if not is_plain(region.ops) or "compacts" in op.attrs or op.attrs.get("independent"):
        return None
    if len(op.operands) == 4:
        assert region.term is not None
        return _affine(region, region.params[1], region.term.operands[0])
    return _in_memory(op) if len(op.operands) == 3 else None


def _affine(region: Block, before: Value, after: Value, read: Op | None = None, place: tuple[Affine, ...] = ()
            ) -> Recurrence | None:
    t = before.type
    if not isinstance(t, Scalar) or t.bits < LEAST_ATOMIC or t.is_bool:
        return None
    form = _Affine(region, before)
    found = form.of(after)
    if found is None or found[0] is None:
        return None
    a, b = found[0], form.builder.const(-0.0 if t.is_float else 0, t) if found[1] is None else found[1]
    ops = (*needed_for(region, [v for x in form.made.ops for v in x.operands] + [a, b]), *form.made.ops)
    if read in ops or not stores_apart(region, region.params[0], ops, read):
        return None
    return Recurrence(before, a, b, ops, after, read, place)


def _in_memory(op: Op) -> Recurrence | None:
    """A recurrence whose iterations read what the ones before have stored."""
    region, step = op.regions[0], op.operands[2].const
    iv = region.params[0]
    stores = [x for x in region.ops if x.name == "store"]
    forms = AffineForms(lambda x: x in region.ops)
    for store in stores if step is not None else ():
        stored = [forms.of(v) for v in store.operands[2:]]
        last = [x.plus(Affine(-step * x.coefficient(iv))) for x in stored]
        for read in region.ops:
            if read.name != "load" or read.operands[0] is not store.operands[1]:
                continue
            at = [forms.of(v) for v in read.operands[1:]]
            if all(x.is_same(y) for x, y in zip(at, last)) and not any(
                    v.op in region.ops for x in at for v, _ in x.terms if v is not iv and v.op is not None):
                first = tuple(x.without(iv).plus(forms.of(op.operands[0]), x.coefficient(iv)) for x in at)
                return _affine(region, read.result, store.operands[0], read, first)
    return None


Form = tuple[Value | None, Value | None]
"""``a`` and ``b`` of ``a * p + b``; None: 0."""


class _Affine:
    """Writes what the carried value of a loop is multiplied by, and what is added to it."""

    def __init__(self, region: Block, carried: Value) -> None:
        self.made = Function("affine", (), ()).entry
        self.builder = Builder(self.made, next((x.loc for x in region.ops if x.loc.line), NOWHERE))
        self.forms: dict[Value, Form] = {carried: (self.builder.const(1, dtype_of(carried.type)), None)}
        self.dependent = {carried}
        for op in region.ops:
            if any(v in self.dependent for v in op.operands):
                self.dependent.update(op.results)

    def of(self, v: Value) -> Form | None:
        """The form of a value; None if it has another one."""
        if v not in self.dependent:
            return None, v
        if v not in self.forms:
            op = v.op
            assert op is not None
            xs = [self.of(x) for x in op.operands] if op.name in ("add", "sub", "neg", "mul", "div") else [None]
            found = None if None in xs else self._combined(op.name, [x for x in xs if x is not None])
            if found is None:
                return None
            self.forms[v] = found
        return self.forms[v]

    def _combined(self, name: str, xs: Sequence[Form]) -> Form | None:
        """The form of a result; xs are those of the operands."""
        if name in ("add", "sub"):
            (a, b), (c, d) = xs
            return self._sum(name, a, c), self._sum(name, b, d)
        if name == "neg":
            a, b = xs[0]
            return self._scaled(name, a), self._scaled(name, b)
        first, second = xs
        if first[0] is None and name == "mul":
            first, second = second, first
        by = second[1]
        if second[0] is not None or by is None or name == "div" and not dtype_of(by.type).is_float:
            return None
        return self._scaled(name, first[0], by), self._scaled(name, first[1], by)

    def _sum(self, name: str, x: Value | None, y: Value | None) -> Value | None:
        if x is None or y is None:
            return x if y is None else y if name == "add" else self.builder.emit("neg", y)
        return self.builder.emit(name, x, y)

    def _scaled(self, name: str, x: Value | None, *by: Value) -> Value | None:
        return None if x is None else self.builder.emit(name, x, *by)
