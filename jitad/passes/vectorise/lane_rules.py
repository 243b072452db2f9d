"""Rules of ``outer_loop``: each op for ``LANES`` iterations together.

Arrays get an additional last axis, which counts the lanes.  A rule takes the ``Lanes`` and an op with a varying value,
and returns the result.  Elementwise ops stay the same, since broadcasting aligns the last axes, and so do reductions
over other axes.  An op without a rule raises ``NoLanes``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, Type, dims_of, dtype_of
from .lane_kinds import SHARED, STEP, UNIFORM, VARYING, Kinds, NoLanes


def lanes_type(t: Type, width: int) -> Array:
    if not isinstance(t, (Array, Scalar)):
        raise NoLanes
    return Array(dtype_of(t), (*dims_of(t), width))


class Lanes:
    """The new values of a loop, emitted by ``b``.

    ``values``: value of the loop → its copy if uniform or shared, its first lane if rising or falling, else all lanes.
    ``made``: the sizes, in the original loop, of the arrays that each lane has for itself.  ``done``: how many of the
    chunk's iterations an earlier chunk has executed; these lanes update nothing.  ``backwards``: the first lane
    executes the last iteration of the chunk.  ``postponed``: an update → the one before, which comes after it instead.
    """

    def __init__(self, b: Builder, kinds: Kinds, values: dict[Value, Value], done: Value | None, backwards: bool,
                 width: int) -> None:
        self.b, self.kinds, self.values, self.done, self.backwards = b, kinds, values, done, backwards
        self.width = width
        self.step = {kind: -step if backwards else step for kind, step in STEP.items()}
        self.made: list[list[Value]] = []
        self.postponed: dict[Op, Op] = {}

    def add(self, op: Op) -> None:
        """Emit an op of the loop for all lanes."""
        kinds = [self.kinds[v] for v in (*op.operands, *op.results)]
        if op.name in ("push", "pop"):
            return self._frame(op)
        if SHARED in kinds and op.name == "get" and kinds[-1] == UNIFORM:
            self.values[op.result] = self.b.get(*map(self.flat, op.operands))
        elif SHARED in kinds and op.name != "dim":
            self.values[op.result] = (_window_of if op.name == "get" else _update)(self, op)
        elif VARYING in kinds and op.results and self.kinds[op.results[0]] == VARYING:
            rule = _RULES.get(op.name) or (_elementwise if OPS[op.name].elementwise else None)
            if rule is None:
                raise NoLanes
            self.values[op.result] = rule(self, op)
        elif op.name == "dim":
            self.values[op.result] = self.b.dim(self.values.get(op.operands[0], op.operands[0]), axis=op.attrs["axis"])
        else:
            self._uniform(op)

    def _uniform(self, op: Op) -> None:
        operands = {v: self.values.get(v, v) for v in op.operands}
        if any(self.kinds[v] in (VARYING, SHARED) for v in op.operands):
            raise NoLanes
        copy = clone_op(op, operands)
        copy.block = self.b.block
        self.b.block.ops.append(copy)
        self.values.update(zip(op.results, copy.results))

    def flat(self, v: Value) -> Value:
        """A uniform or shared value; raises ``NoLanes`` for other kinds."""
        if self.kinds[v] not in (UNIFORM, SHARED):
            raise NoLanes
        return self.values.get(v, v)

    def of(self, v: Value) -> Value:
        """All lanes of a value."""
        here, kind = self.values.get(v, v), self.kinds[v]
        if kind == VARYING:
            return here
        if kind in STEP:
            return self.b.add(here, self.b.mul(self.b.iota(self.b.const(self.width)), self.step[kind]))
        if kind == SHARED:
            raise NoLanes
        wide = lanes_type(v.type, self.width)
        if v.undefined:
            return self.b.undef(wide)
        if v.op is not None and v.op.name in ("empty", "fill"):
            self.made.append(v.op.operands[1 if v.op.name == "fill" else 0:])
            operands = [self.values.get(u, u) for u in v.op.operands]
            return self.b.emit_op(v.op.name, [*operands, self.b.const(self.width)], **v.op.attrs).result
        if isinstance(v.type, Scalar):
            return self.b.broadcast_to(here, self.b.const(self.width))
        sizes = self.b.dims(here)
        return self.b.broadcast_to(self.b.reshape(here, *sizes, self.b.const(1)), *sizes, self.b.const(self.width))

    def order(self) -> range:
        """The lanes in the order of their iterations."""
        return range(self.width)[::-1] if self.backwards else range(self.width)

    def active(self) -> Value | None:
        """The lanes whose iterations no earlier chunk has executed, or None if these are all.

        Emitted where it is needed, since an array that later blocks read would be stored.
        """
        if self.done is None:
            return None
        lane = self.b.iota(self.b.const(self.width))
        return self.b.lt(lane, self.b.sub(self.width, self.done)) if self.backwards else self.b.ge(lane, self.done)

    def active_terms(self, terms: Value) -> Value:
        """Terms for a sum, with a zero that changes no sum in the lanes that are not active."""
        active, dtype = self.active(), dtype_of(terms.type)
        if active is None:
            return terms
        return self.b.select(active, terms, self.b.const(-0.0 if dtype.is_float else 0, dtype))

    def term(self, op: Op, each: Value) -> Value:
        """The terms that an addition or a subtraction adds to a sum in all lanes."""
        return self.active_terms(self.b.neg(each) if op.name == "sub" else each)

    def beside(self, v: Value) -> Value:
        """A value as an operand of an op with varying operands: a uniform one is left to broadcasting."""
        if self.kinds[v] != UNIFORM:
            return self.of(v)
        here = self.values.get(v, v)
        return self.b.reshape(here, *self.b.dims(here), self.b.const(1)) if isinstance(v.type, Array) else here

    def _frame(self, op: Op) -> None:
        values = op.operands[1:] if op.name == "push" else op.results[1:]
        vary = self.kinds.pushed[tuple(v.type for v in values)]
        stack = self.flat(op.operands[0])
        if op.name == "push":
            self.values[op.result] = self.b.push(stack, *(self.of(v) if i in vary else self.flat(v)
                                                          for i, v in enumerate(values)))
        else:
            below, found = self.b.pop(stack, [lanes_type(v.type, self.width) if i in vary else v.type
                                              for i, v in enumerate(values)])
            self.values.update(zip(op.results, [below, *found]))

    def all_of_lanes(self) -> list[Value]:
        """Start, length and step of a slice for the axis of lanes."""
        return [self.b.const(0), self.b.const(self.width), self.b.const(1)]


def _elementwise(s: Lanes, op: Op) -> Value:
    return s.b.emit(op.name, *(s.beside(v) for v in op.operands), **op.attrs)


# --- arrays ---------------------------------------------------------------------------------------

def _get(s: Lanes, op: Op) -> Value:
    a, *at = op.operands
    if s.kinds[a] != VARYING:
        return _window_of(s, op)
    if any(s.kinds[v] != UNIFORM for v in at):
        return _own_element(s, op)
    found = s.b.get(s.of(a), *map(s.flat, at))
    return s.b.emit_op("copy", [found]).result if _begins_a_loop(s, op) else found


def _own_element(s: Lanes, op: Op) -> Value:
    """The element at an index of each lane in an array that each lane has for itself, as the probability of a label."""
    a, *at = op.operands
    assert op.block is not None
    if s.kinds.forest.innermost.get(op.block) is not s.kinds.loop or not isinstance(op.result.type, Scalar):
        raise NoLanes                                        # it would be gathered by each iteration of an inner loop
    b, lanes = s.b, s.of(a)
    index, sizes = s.of(at[0]), b.dims(lanes)
    for v, size in zip((*at[1:], None), sizes[1:]):
        index = b.add(b.mul(index, size), b.iota(size) if v is None else s.of(v))
    return b.take(b.reshape(lanes, functools.reduce(b.mul, sizes)), index)


def _begins_a_loop(s: Lanes, op: Op) -> bool:
    """True if an inner loop may begin with the elements: they are copied, since it could not update a view in place."""
    return any(r.edges for r in s.kinds.users.get(op.result, ()))


def _window_of(s: Lanes, op: Op) -> Value:
    """The elements of a uniform or shared array that the lanes read.

    Elements that are no neighbours are gathered once, rather than by each iteration of an inner loop that reads them.
    """
    assert op.block is not None
    loops = s.kinds.forest.innermost
    if any(s.kinds[v] == VARYING for v in op.operands[1:]) and (
            loops.get(op.block) is not s.kinds.loop or s.kinds[op.operands[0]] != UNIFORM):
        raise NoLanes                                        # it would be gathered by each iteration of an inner loop
    found = _window(s, s.flat(op.operands[0]), op.operands[1:], dims_of(op.result.type))
    neighbours = s.step.get(s.kinds[op.operands[-1]]) == 1
    copied = _begins_a_loop(s, op) or not neighbours and _read_deeper(s, op)
    return s.b.emit_op("copy", [found]).result if copied else found


def _read_deeper(s: Lanes, op: Op) -> bool:
    assert op.block is not None
    loops = s.kinds.forest.innermost
    return any(r.block is not None and loops.get(r.block) is not loops.get(op.block)
               for r in s.kinds.users.get(op.result, ()))


def _window(s: Lanes, a: Value, at: Sequence[Value], rest: Sequence[object]) -> Value:
    """``a[i, it + j, …]`` of a uniform array: a slice of ``LANES`` elements along one axis."""
    b, moving = s.b, [k for k, v in enumerate(at) if s.kinds[v] != UNIFORM]
    if len(moving) != 1 or s.kinds[at[moving[0]]] not in STEP:
        return _gathered(s, a, at, len(rest))
    step = b.const(s.step[s.kinds[at[moving[0]]]])
    sizes = b.dims(a)[len(at):]
    spec: list[Value] = []
    for k, v in enumerate(at):
        spec += [s.values[v], b.const(s.width), step] if k in moving else [s.flat(v), b.const(1), b.const(1)]
    for n in sizes:
        spec += [b.const(0), n, b.const(1)]
    return _last(s, b.reshape(b.slice(a, *spec), b.const(s.width), *sizes), len(sizes))


def _gathered(s: Lanes, a: Value, at: Sequence[Value], rest: int) -> Value:
    """``a[k, l, …]`` for any indices of each lane, as the nearest of some points; rows if ``rest`` axes are left."""
    sizes = s.b.dims(a)
    rows, index = _flat_index(s, sizes, at)
    return _last(s, s.b.take(s.b.reshape(a, rows, *sizes[len(at):]), index), rest)


def _flat_index(s: Lanes, sizes: Sequence[Value], at: Sequence[Value]) -> tuple[Value, Value]:
    """The number of rows of an array whose first axes are made one, and the rows at which the lanes are."""
    b = s.b
    if all(s.kinds[v] != VARYING for v in at):
        raise NoLanes
    rows, index = sizes[0], s.beside(at[0])
    for size, v in zip(sizes[1:], at[1:]):
        rows, index = b.mul(rows, size), b.add(b.mul(index, size), s.beside(v))
    return rows, index


def _last(s: Lanes, rows: Value, rest: int) -> Value:
    """Rows of ``rest`` axes, one for each lane, with the axis of lanes last."""
    return s.b.transpose(rows, perm=(*range(1, rest + 1), 0)) if rest else rows


def _set(s: Lanes, op: Op) -> Value:
    """The rule of ``set`` and ``add_at`` for a varying array."""
    a, v, *at = op.operands
    return s.b.emit(op.name, s.of(a), s.of(v), *map(s.flat, at), **op.attrs)


def _set_slice(s: Lanes, op: Op) -> Value:
    a, v, *spec = op.operands
    start, _, step = s.all_of_lanes()
    return s.b.emit(op.name, s.of(a), s.of(v), *map(s.flat, spec), start, step, **op.attrs)


def _slice(s: Lanes, op: Op) -> Value:
    a, *spec = op.operands
    return s.b.slice(s.of(a), *map(s.flat, spec), *s.all_of_lanes())


def _update(s: Lanes, op: Op) -> Value:
    """Update a shared array: lanes add to the same elements, or each lane adds or stores to its own."""
    a, v, *at = op.operands
    if op.name == "add_slice":
        return s.b.emit("add_slice", s.flat(a), _summed(s, v), *map(s.flat, at), **op.attrs)
    moving = [k for k, i in enumerate(at) if s.kinds[i] != UNIFORM]
    if not moving and op.name == "add_at" and op.attrs.get("acc"):
        return s.flat(a) if _postpone(s, op) else _add_sum(s, s.flat(a), op)
    if len(moving) != 1 or s.kinds[at[moving[0]]] not in STEP:
        updated = _scattered(s, op)
    else:
        updated = _rows(s, op, moving[0])
    return _add_sum(s, updated, s.postponed[op]) if op in s.postponed else updated


def _scattered(s: Lanes, op: Op) -> Value:
    """Add to an element for each lane, at any indices: one by one, as several lanes may have the same."""
    b, (a, v, *at) = s.b, op.operands
    if op.name != "add_at" or not op.attrs.get("acc") or isinstance(v.type, Array):
        raise NoLanes
    shared, terms = s.flat(a), s.active_terms(s.of(v))
    sizes = b.dims(shared)
    rows, index = _flat_index(s, sizes, at)
    added = b.emit("add_put", b.reshape(shared, rows), terms, index, **op.attrs)
    return b.reshape(added, *sizes)


def _add_sum(s: Lanes, array: Value, op: Op) -> Value:
    """Add the sum of the lanes to one element."""
    _, v, *at = op.operands
    return s.b.emit("add_at", array, _summed(s, v), *map(s.flat, at), **op.attrs)


def _postpone(s: Lanes, op: Op) -> bool:
    """Let the sum of the lanes be added after the next update of the array, if that adds to an element of each lane.

    The element may be one of these, and a load of several elements would wait until the store of one is in the cache.
    """
    readers = s.kinds.users.get(op.result, [])
    if len(readers) != 1:
        return False
    following = readers[0]
    possible = following.name == "add_at" and following.attrs.get("acc") and following.block is op.block and \
        following.operands[0] is op.result and any(s.kinds[v] != UNIFORM for v in following.operands[2:])
    if possible:
        s.postponed[following] = op
    return bool(possible)


def _summed(s: Lanes, v: Value) -> Value:
    """Emit the sum over the lanes, which may be reordered (``acc``)."""
    every = s.active_terms(s.of(v))
    return s.b.emit("sum", every, axes=(len(dims_of(every.type)) - 1,), acc=True)


def _rows(s: Lanes, op: Op, moving: int) -> Value:
    """Update a slice of a shared array: each lane has its own index along the axis ``moving``."""
    b, (a, v, *at) = s.b, op.operands
    values, shared = s.of(v), s.flat(a)
    assert isinstance(values.type, Array)
    if op.name != "set":
        values = s.active_terms(values)
    elif (active := s.active()) is not None and not s.kinds.stores_the_same(op):
        values = b.select(active, values, _window(s, shared, at, dims_of(v.type)))
    inner = b.dims(values)[:-1]
    last = len(inner)
    rows = b.transpose(values, perm=(last, *range(last))) if last else values
    spec: list[Value] = []
    for k, i in enumerate(at):
        spec += [s.values[i], b.const(s.step[s.kinds[i]])] if k == moving else [s.flat(i), b.const(1)]
    spec += [n for _ in inner for n in (b.const(0), b.const(1))]
    shape = [b.const(s.width if k == moving else 1) for k in range(len(at))]
    how = "set_slice" if op.name == "set" else "add_slice"
    return b.emit(how, shared, b.reshape(rows, *shape, *inner), *spec, **op.attrs)


def _spread(s: Lanes, op: Op) -> Value:
    """The rule of ``broadcast_to`` and ``fill``."""
    v, *sizes = op.operands
    readers = s.kinds.users.get(op.result, ())
    if any(r.name not in ("add_slice", "set_slice") or r.operands[1] is not op.result for r in readers):
        s.made.append(sizes)                                 # a part of another array is no larger than that one
    return s.b.broadcast_to(s.of(v), *map(s.flat, sizes), s.b.const(s.width))


def _made(s: Lanes, op: Op) -> Value:
    """The rule of ``empty``, which is varying if varying values are stored to it."""
    s.made.append(op.operands)
    return s.b.emit_op(op.name, [*map(s.flat, op.operands), s.b.const(s.width)], **op.attrs).result


def _reshape(s: Lanes, op: Op) -> Value:
    return s.b.reshape(s.of(op.operands[0]), *map(s.flat, op.operands[1:]), s.b.const(s.width))


def _transpose(s: Lanes, op: Op) -> Value:
    perm = op.attrs["perm"]
    return s.b.transpose(s.of(op.operands[0]), perm=(*perm, len(perm)))


def _as_type(s: Lanes, op: Op) -> Value:
    return s.b.as_type(s.of(op.operands[0]), type=lanes_type(op.attrs["type"], s.width))


def _concat(s: Lanes, op: Op) -> Value:
    return s.b.emit("concat", *map(s.of, op.operands), **op.attrs)


def _along_axes(s: Lanes, op: Op) -> Value:
    """The rule of ops along other axes than the last, which stay the same."""
    return s.b.emit(op.name, s.of(op.operands[0]), **op.attrs)


_RULES: dict[str, Callable[[Lanes, Op], Value]] = {
    "get": _get, "slice": _slice, "broadcast_to": _spread, "fill": _spread, "empty": _made, "reshape": _reshape,
    "transpose": _transpose, "as_type": _as_type, "concat": _concat,
    **dict.fromkeys(("set", "add_at"), _set),
    **dict.fromkeys(("set_slice", "add_slice"), _set_slice),
    **dict.fromkeys(("sum", "prod", "max", "min", "all", "any", "argmax", "argmin", "cumsum", "cumprod", "copy"),
                    _along_axes),
}
