"""Rules of ``batch`` and ``predicate``: each op for many iterations together.

*Rows* are an array whose first axis counts the iterations.  A rule takes the ``Rows`` and an op with rows among its
operands, and returns the rows of its result.  A value that is the same in all iterations is *flat*.  An op without a
rule, or in a case that its rule does not cover, raises ``NoRows``.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, dims_of


class NoRows(Exception):
    """The iterations of the loop cannot be executed together."""


class Rows:
    """The values of a loop's body for ``length`` iterations from ``start`` on, emitted by ``b``.

    ``bound``: values that have no rows.  ``rows``: value → its rows.  ``same``: flat value of the body → its copy.
    """

    def __init__(self, b: Builder, iv: Value, start: Value, length: Value, bound: set[Value]) -> None:
        self.b, self.iv, self.start, self.length, self.bound = b, iv, start, length, bound
        self.rows: dict[Value, Value] = {}
        self.same: dict[Value, Value] = {}
        self.one = b.const(1)

    def add(self, op: Op) -> None:
        """Emit an op of the body for all iterations."""
        self.b.loc = op.loc
        if any(v in self.bound for v in op.operands):
            self.rows[op.result] = self._element(op)
        elif any(v in self.rows for v in op.operands):
            rule = _RULES.get(op.name) or (_elementwise if OPS[op.name].elementwise else None)
            if rule is None:
                raise NoRows
            found = rule(self, op)
            if op.name == "dim":
                self.same[op.result] = found
            else:
                self.rows[op.result] = found
        elif op.name != "check" and (OPS[op.name].effect or OPS[op.name].consumes or len(op.results) != 1):
            raise NoRows
        else:                                            # a flat check fails in the first iteration, if in any
            copy = clone_op(op, self.same)
            copy.block = self.b.block
            self.b.block.ops.append(copy)

    def flat(self, v: Value) -> Value:
        """A value that is the same in all iterations; raises ``NoRows`` if it is not."""
        if v in self.rows or v in self.bound:
            raise NoRows
        return self.same.get(v, v)

    def all_of(self, v: Value) -> Value:
        """The rows of a value, broadcast if it is flat."""
        if v in self.rows:
            return self.rows[v]
        v = self.flat(v)
        return self.b.broadcast_to(v, self.length, *self.sizes(v))

    def sizes(self, v: Value) -> list[Value]:
        return self.b.dims(v) if isinstance(v.type, Array) else []

    def inner(self, rows: Value) -> list[Value]:
        """The sizes of one row."""
        return self.b.dims(rows)[1:]

    def shaped(self, rows: Value, sizes: list[Value]) -> Value:
        return self.b.reshape(rows, self.length, *sizes)

    def _element(self, op: Op) -> Value:
        """``a[it, j…]`` for all iterations: a slice of ``a``."""
        if op.name != "get" or op.operands[1] is not self.iv:
            raise NoRows
        array, _, *rest = op.operands
        array, fixed = self.flat(array), [self.flat(v) for v in rest]
        sizes, zero = self.sizes(array), self.b.const(0)
        spec = [self.start, self.length, self.one]
        for k, size in enumerate(sizes[1:]):
            spec += [fixed[k], self.one, self.one] if k < len(fixed) else [zero, size, self.one]
        window = self.b.slice(array, *spec)
        return self.shaped(window, sizes[1 + len(fixed):]) if fixed else window


def _elementwise(r: Rows, op: Op) -> Value:
    rank = len(dims_of(op.result.type))
    operands = []
    for v in op.operands:
        if v not in r.rows:
            operands.append(r.flat(v))
            continue
        rows, missing = r.rows[v], rank - len(dims_of(v.type))
        operands.append(r.shaped(rows, [r.one] * missing + r.inner(rows)) if missing else rows)
    return r.b.emit(op.name, *operands, **op.attrs)


def _matmul(r: Rows, op: Op) -> Value:
    x, y = op.operands
    ranks = len(dims_of(x.type)), len(dims_of(y.type))
    ta, tb = bool(op.attrs.get("ta")) and ranks[0] > 1, bool(op.attrs.get("tb")) and ranks[1] > 1
    if ranks == (1, 1):
        if x in r.rows and y in r.rows:
            return r.b.emit("sum", r.b.mul(r.rows[x], r.rows[y]), axes=(1,))
        rows, other = (x, y) if x in r.rows else (y, x)
        return r.b.matmul(r.rows[rows], r.flat(other))
    if ranks == (2, 1) and y in r.rows:
        return _product(r, r.rows[y], r.flat(x), not ta)
    if ranks == (1, 2) and x in r.rows:
        return _product(r, r.rows[x], r.flat(y), tb)
    raise NoRows


def _product(r: Rows, rows: Value, matrix: Value, transposed: bool) -> Value:
    return r.b.emit("matmul", rows, matrix, **({"tb": True} if transposed else {}))


def _reduction(r: Rows, op: Op) -> Value:
    axes = tuple(a + 1 for a in op.attrs["axes"])
    return r.b.emit(op.name, r.rows[op.operands[0]], axes=axes)


def _along_axis(r: Rows, op: Op) -> Value:
    return r.b.emit(op.name, r.rows[op.operands[0]], axis=op.attrs["axis"] + 1)


def _spread(r: Rows, op: Op) -> Value:
    """The rule of ``broadcast_to`` and ``fill``."""
    v, *sizes = op.operands
    rows, shape = r.rows[v], [r.flat(n) for n in sizes]
    missing = len(shape) - len(dims_of(v.type))
    return r.b.broadcast_to(r.shaped(rows, [r.one] * missing + r.inner(rows)), r.length, *shape)


def _reshape(r: Rows, op: Op) -> Value:
    return r.shaped(r.rows[op.operands[0]], [r.flat(n) for n in op.operands[1:]])


def _transpose(r: Rows, op: Op) -> Value:
    return r.b.transpose(r.rows[op.operands[0]], perm=(0, *(p + 1 for p in op.attrs["perm"])))


def _slice(r: Rows, op: Op) -> Value:
    spec = [r.flat(v) for v in op.operands[1:]]
    return r.b.slice(r.rows[op.operands[0]], r.b.const(0), r.length, r.one, *spec)


def _get(r: Rows, op: Op) -> Value:
    rows, zero = r.rows[op.operands[0]], r.b.const(0)
    fixed, sizes = [r.flat(v) for v in op.operands[1:]], r.inner(rows)
    spec = [zero, r.length, r.one]
    for k, size in enumerate(sizes):
        spec += [fixed[k], r.one, r.one] if k < len(fixed) else [zero, size, r.one]
    return r.shaped(r.b.slice(rows, *spec), sizes[len(fixed):])


def _as_type(r: Rows, op: Op) -> Value:
    kind = op.attrs["type"]
    return r.b.as_type(r.rows[op.operands[0]], type=Array(kind.dtype, (None, *kind.dims)))


def _copy(r: Rows, op: Op) -> Value:
    return r.rows[op.operands[0]]


def _dim(r: Rows, op: Op) -> Value:
    return r.b.dim(r.rows[op.operands[0]], axis=op.attrs["axis"] + 1)


_RULES: dict[str, Callable[[Rows, Op], Value]] = {
    "matmul": _matmul, "broadcast_to": _spread, "fill": _spread, "reshape": _reshape, "transpose": _transpose,
    "slice": _slice, "get": _get, "as_type": _as_type, "copy": _copy, "dim": _dim,
    **dict.fromkeys(("sum", "prod", "max", "min", "all", "any"), _reduction),
    **dict.fromkeys(("argmax", "argmin", "cumsum", "cumprod"), _along_axis),
}
