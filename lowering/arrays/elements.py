"""Single elements of arrays: a load from a stored array, a computation for a lazy one (``fusion`` decides which).

A *place* identifies an element: one index for each axis or, if all arrays involved have the same sizes (``flat``),
one offset in C order, so that a loop nest becomes a single loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Type, dims_of
from ..builder.function_builder import FunctionBuilder
from ..llvm.types import Buffer
from ..math import libmvec, ops
from ..planning.op_traits import is_flat
from ..threads import parallel_nests

SCOPE_LIMIT = 96
"""The scopes of a function: the list of each names all others, so the metadata grows with the square."""


@dataclass(frozen=True)
class Place:
    """One element: its indices ``at``, or its offset ``flat`` in C order with ``at`` empty."""

    at: tuple[str, ...]
    flat: str | None = None


# --- sizes, positions, metadata ---------------------------------------------------------------------------

def sizes(fn: FunctionBuilder, v: Value) -> tuple[str, ...]:
    """The sizes of an array, stored or lazy; ``()`` for a scalar."""
    if not isinstance(v.type, Array):
        return ()
    value = fn.values.get(v)
    found = value.sizes if isinstance(value, Buffer) else fn.plan.sizes[v]
    return tuple(s if d is None else str(d) for s, d in zip(found, v.type.dims))


def position(fn: FunctionBuilder, sizes: Sequence[str], at: Sequence[str]) -> str:
    """The offset, in elements, of the element ``at``, or of the subarray if there are fewer indices than axes."""
    linear = "0"
    for axis, size in enumerate(sizes):
        i = at[axis] if axis < len(at) else "0"
        linear = fn.add(fn.mul(linear, size), i if size != "1" else "0")
    return linear


def note(fn: FunctionBuilder, v: Value) -> str:
    """The alias metadata for a load from or a store to the buffer of ``v``."""
    plan = fn.plan
    if not plan.notes:
        plan.scopes = _scopes(fn)
        plan.notes = {root: _in_scopes(fn, *both) for root, both in plan.scopes.items()}
    found: str = plan.notes.get(plan.roots.find(v), "")
    return found


def notes_apart(fn: FunctionBuilder, values: Sequence[Value]) -> list[str]:
    """As ``note``, for accesses to parts of buffers that do not overlap in the loop that follows.

    They may overlap across iterations of an enclosing loop.  The scopes are therefore declared here, so that each copy
    of the loop has its own.
    """
    for v in values:
        note(fn, v)
    writer, plan = fn.writer, fn.plan
    domain = writer.distinct(lambda me: me)
    parts = [writer.distinct(lambda me: f"{me}, {domain}") for _ in values]
    callee = writer.declare("llvm.experimental.noalias.scope.decl", "void", "metadata")
    for part in parts:
        fn.code.do(f"call void {callee}(metadata {writer.node(part)})")
    known = [plan.scopes.get(plan.roots.find(v), ([], [])) for v in values]
    return [_in_scopes(fn, [*own, part], [*others, *(p for p in parts if p is not part)])
            for part, (own, others) in zip(parts, known)]


def _in_scopes(fn: FunctionBuilder, own: list[str], others: list[str]) -> str:
    text = f", !alias.scope {fn.writer.node(', '.join(own))}"
    return text + (f", !noalias {fn.writer.node(', '.join(others))}" if others else "")


def _scopes(fn: FunctionBuilder) -> dict[Value, tuple[list[str], list[str]]]:
    """For each root its own scope, and those of the roots that it cannot alias; roots beyond the limit have none."""
    writer, alias = fn.writer, fn.plan.roots
    roots = list(alias.members())[:SCOPE_LIMIT]
    domain = writer.distinct(lambda me: me)
    scopes = {root: writer.distinct(lambda me: f"{me}, {domain}") for root in roots}
    pushed = {root for root in roots if alias.is_pushed(root)}
    popped = {root for root in roots if alias.is_popped(root)}
    found = {}
    for root in roots:
        may = {root} | (popped if root in pushed else pushed if root in popped else set())
        found[root] = [scopes[root]], [s for other, s in scopes.items() if other not in may]
    return found


# --- loops --------------------------------------------------------------------------------------------------

WRITTEN_OUT = 8       # iterations
NestBody = Callable[[Place, list[str]], Sequence[str]]


def nest(fn: FunctionBuilder, sizes: Sequence[str], body: NestBody, carried: Sequence[tuple[str, str]] = (),
         flat: bool = False, note: str = "", unbounded: bool = False, cut: bool = False,
         join: parallel_nests.Join | None = None) -> list[str]:
    """Emit one loop for each size, the last innermost, or a single loop over all elements with ``flat``.

    ``carried`` and ``note`` (which goes on the innermost loop) are as in ``FunctionBuilder.loop``.  A small known
    number of iterations is unrolled here, which spares LLVM the work.  ``unbounded``: see ``is_bounded``.  ``cut``:
    several threads may share the work, since no iteration accesses what another one writes; ``join`` then combines
    partial results for ``carried``.
    """
    loop = _written_out if all(s[0] != "%" for s in sizes) and int(fn.product(sizes)) <= WRITTEN_OUT else fn.loop

    def outermost(n: str, each: str, inner: parallel_nests.Body, hint: str) -> list[str]:
        walk = parallel_nests.Walk(n, each, inner, carried, join, hint)
        if cut and not unbounded and parallel_nests.possible(fn, walk):
            return parallel_nests.run(fn, walk)
        return loop(n, inner, carried, note=hint, each=each, unbounded=unbounded)

    def level(axis: int, at: tuple[str, ...], values: list[str]) -> Sequence[str]:
        if axis == len(sizes):
            return body(Place(at), values)
        types = [t for t, _ in carried]
        return loop(sizes[axis], lambda i, c: level(axis + 1, (*at, i), c), list(zip(types, values)),
                    note=note if axis == len(sizes) - 1 else "", unbounded=unbounded)

    if flat:
        return outermost(fn.product(sizes), "1", lambda i, c: body(Place((), i), c), note)
    if not sizes:
        return list(body(Place(()), [name for _, name in carried]))
    each = fn.product(sizes[1:]) if loop is not _written_out else "1"
    return outermost(sizes[0], each, lambda i, c: level(1, (i,), c), note if len(sizes) == 1 else "")


def _written_out(n: str, body: Callable[[str, list[str]], Sequence[str]], carried: Sequence[tuple[str, str]] = (),
                 note: str = "", each: str = "1", unbounded: bool = False) -> list[str]:
    """``FunctionBuilder.loop``, fully unrolled."""
    values = [name for _, name in carried]
    for i in range(int(n)):
        values = list(body(str(i), values))
    return values


def is_bounded(fn: FunctionBuilder, v: Value) -> bool:
    """True if some array in memory has as many elements as ``v``."""
    seen: set[Value] = set()
    todo = [v]
    while todo:
        v = todo.pop()
        if v not in fn.plan.lazy:
            return True
        op = v.op
        assert op is not None
        if v in seen or not (OPS[op.name].elementwise or op.name in ("transpose", "reshape", "copy", "as_type")):
            continue
        seen.add(v)
        todo += [o for o in op.operands if isinstance(o.type, Array) and _as_many(o.type, v.type)]
    return False


def _as_many(t: Array, whole: Type) -> bool:
    """True if broadcasting to ``whole`` stretches no axis of ``t``."""
    dims = dims_of(whole)
    return len(t.dims) != len(dims) or not any(a == 1 != b for a, b in zip(t.dims, dims))


def can_be_flat(fn: FunctionBuilder, v: Value, like: Array) -> bool:
    """True if the element of ``v`` at a flat offset in an array of type ``like`` depends on that offset alone."""
    return is_flat(fn.plan.lazy, v, like)


def masked_tail(fn: FunctionBuilder, *values: Value) -> str:
    """Metadata for the innermost loop that computes ``values`` if its tail should be masked, else ``""``."""
    masks = libmvec.masks_tails(fn.target.features) and _calls_libm(fn, values)
    return libmvec.masked(fn.writer) if masks else ""


def _calls_libm(fn: FunctionBuilder, values: Sequence[Value]) -> bool:
    seen: set[Value] = set()
    todo = [*values]
    while todo:
        v = todo.pop()
        if v in seen or v not in fn.plan.lazy or v.op is None:
            continue
        if v.op.name in libmvec.OPS:
            return True
        seen.add(v)
        todo += v.op.operands
    return False


# --- elements -------------------------------------------------------------------------------------------------

class Elements:
    """Computes elements in one loop body, each element once."""

    def __init__(self, fn: FunctionBuilder) -> None:
        self.fn = fn
        self._known: dict[tuple[Value, Place], str] = {}

    def get(self, v: Value, place: Place) -> str:
        """The element of ``v`` at ``place`` (broadcast to the rank of ``place``); a scalar is its own element."""
        if not isinstance(v.type, Array):
            return self.fn.scalar(v)
        place = _narrow(v.type, place)
        key = (v, place)
        if key not in self._known:
            self._known[key] = self._compute(v, place)
        return self._known[key]

    def _compute(self, v: Value, place: Place) -> str:
        if v not in self.fn.plan.lazy:
            return self._load(v, place)
        op = v.op
        assert op is not None
        rule = _ELEMENT.get(op.name)
        if rule is not None:
            return rule(self, op, place)
        return ops.scalar(self.fn, op, [self.get(o, place) for o in op.operands])

    def _load(self, v: Value, place: Place) -> str:
        buffer = self.fn.array(v)
        index = place.flat if place.flat is not None else position(self.fn, sizes(self.fn, v), place.at)
        return self.fn.load(buffer.dtype, buffer.ptr, index, note(self.fn, v))


def _narrow(t: Array, place: Place) -> Place:
    """The place in an operand of type ``t`` that is broadcast to ``place`` in the result."""
    if place.flat is not None:
        return place
    at = place.at[len(place.at) - t.rank:]
    return Place(tuple("0" if d == 1 else i for i, d in zip(at, t.dims)))


def _fill(e: Elements, op: Op, place: Place) -> str:
    return e.fn.scalar(op.operands[0])


def _iota(e: Elements, op: Op, place: Place) -> str:
    return place.flat if place.flat is not None else place.at[0]


def _same_place(e: Elements, op: Op, place: Place) -> str:
    return e.get(op.operands[0], place)


def _slice(e: Elements, op: Op, place: Place) -> str:
    fn, at = e.fn, []
    for axis, i in enumerate(place.at):
        start, step = fn.scalar(op.operands[1 + 3 * axis]), fn.scalar(op.operands[3 + 3 * axis])
        at.append(fn.add(start, fn.mul(i, step)))
    return e.get(op.operands[0], Place(tuple(at)))


def _transpose(e: Elements, op: Op, place: Place) -> str:
    at = [""] * len(place.at)
    for i, p in zip(place.at, op.attrs["perm"]):
        at[p] = i
    return e.get(op.operands[0], Place(tuple(at)))


def _reshape(e: Elements, op: Op, place: Place) -> str:
    """A lazy reshape only adds or drops axes of literal size 1."""
    source, target = op.operands[0].type, op.result.type
    assert isinstance(source, Array) and isinstance(target, Array)
    wide = iter([i for i, d in zip(place.at, target.dims) if d != 1])
    return e.get(op.operands[0], Place(tuple("0" if d == 1 else next(wide) for d in source.dims)))


def _get(e: Elements, op: Op, place: Place) -> str:
    first = tuple(e.fn.scalar(i) for i in op.operands[1:])
    return e.get(op.operands[0], Place(first + place.at))


def _take(e: Elements, op: Op, place: Place) -> str:
    index = op.operands[1]
    assert isinstance(index.type, Array)
    row = e.get(index, Place(place.at[:index.type.rank]))
    return e.get(op.operands[0], Place((row, *place.at[index.type.rank:])))


_ELEMENT: dict[str, Callable[[Elements, Op, Place], str]] = {
    "fill": _fill, "iota": _iota, "slice": _slice, "transpose": _transpose, "reshape": _reshape, "get": _get,
    "take": _take, "as_type": _same_place, "broadcast_to": _same_place, "copy": _same_place, "stop": _same_place,
}
