"""Rules of ``batch`` and ``predicate``: each op for many iterations together.

*Rows* are an array whose first axis counts the iterations.  A rule takes the ``Rows`` and an op with rows among its
operands, and returns the rows of its result.  A value that is the same in all iterations is *flat*.  An op without a
rule, or in a case that its rule does not cover, raises ``NoRows``.

A check that differs between iterations comes behind the ops of all iterations (``late_checks``).  These compute what
nobody reads, then, and have no effect; an index that has not been checked yet is one of the array's meanwhile.  If a
check fails, the first iteration in which one does raises what its first one raises.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, dims_of, dtype_of

TRAPS = frozenset(("floordiv", "mod"))
"""The ops on integers that must not be computed before their check."""


class NoRows(Exception):
    """The iterations of the loop cannot be executed together."""


class Rows:
    """The values of a loop's body for ``length`` iterations from ``start`` on, emitted by ``b``.

    ``bound``: values that have no rows.  ``rows``: value → its rows.  ``same``: flat value of the body → its copy.
    ``checks``: the checks so far that differ.
    """

    def __init__(self, b: Builder, iv: Value, start: Value, length: Value, bound: set[Value],
                 late_checks: bool = False) -> None:
        self.b, self.iv, self.start, self.length, self.bound = b, iv, start, length, bound
        self.late_checks = late_checks
        self.checks: list[Op] = []
        self.number: Value | None = None                 # the number of each iteration in the chunk
        self.firsts = {iv: start}                        # value that counts the iterations → its first one
        self.rows: dict[Value, Value] = {}
        self.same: dict[Value, Value] = {}
        self.one = b.const(1)

    def add(self, op: Op) -> None:
        """Emit an op of the body for all iterations."""
        self.b.loc = op.loc
        self._count(op)
        if self.iv in op.operands and op.name != "get" and self.late_checks and self.iv not in self.rows:
            self.rows[self.iv] = self.b.add(self.start, self.b.iota(self.length))
        if any(v in self.bound and v not in self.rows for v in op.operands):
            self.rows[op.result] = self._element(op)
        elif op.name == "check" and op.operands[0] in self.rows and self.late_checks:
            self.checks.append(op)
        elif any(v in self.rows for v in op.operands):
            if self.checks and op.name in TRAPS and not dtype_of(op.result.type).is_float:
                raise NoRows
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
        elif op.name == "check" and self.checks:
            self.checks.append(op)
            self._go_on_if(self.flat(op.operands[0]), lambda: self.b.const(0))
            self.checks.pop()
        else:                                            # a flat check fails in the first iteration, if in any
            copy = clone_op(op, self.same)
            copy.block = self.b.block
            self.b.block.ops.append(copy)

    def _count(self, op: Op) -> None:
        """Note that the result is one more in each iteration: the sum of such a value and a flat one."""
        if op.name in ("add", "sub"):
            x, y = op.operands[::-1] if op.name == "add" and op.operands[1] in self.firsts else op.operands
            if x in self.firsts and y not in self.rows and y not in self.bound:
                self.firsts[op.result] = self.b.emit(op.name, self.firsts[x], self.flat(y))

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

    def element_of(self, v: Value) -> Value:
        """The rows of a scalar, or what it is in all iterations."""
        return self.rows[v] if v in self.rows else self.flat(v)

    def gathered(self, array: Value, at: list[Value]) -> Value:
        """``array[at]``, where the iterations have indices of their own."""
        b = self.b
        sizes = b.dims(array)
        if self.checks:
            at = [b.maximum(b.minimum(v, b.sub(size, 1)), 0) if v is not self.number else v
                  for size, v in zip(sizes, at)]
        count, index = sizes[0], at[0]
        for size, v in zip(sizes[1:], at[1:]):
            count, index = b.mul(count, size), b.add(b.mul(index, size), v)
        if self.checks:                                  # that of an index fails in the first iteration
            self._go_on_if(b.lt(0, count), lambda: b.const(0))
        return b.take(b.reshape(array, count, *sizes[len(at):]), index)

    def hold(self) -> None:
        """Emit the checks that differ, behind all ops that they may depend on."""
        if self.checks:
            b = self.b
            hold = functools.reduce(b.and_, [self.rows[op.operands[0]] for op in self.checks])
            self._go_on_if(b.emit("all", hold, axes=(0,)), lambda: b.emit(
                "min", b.select(hold, self.length, b.iota(self.length)), axes=(0,)))

    def _go_on_if(self, condition: Value, iteration: Callable[[], Value]) -> None:
        """Emit a branch to what follows, or else to a block in which the checks of one iteration are made."""
        b = self.b
        fine, failing = b.func.new_block("fine"), b.func.new_block("failing")
        b.branch(condition, fine, [], failing, [])
        b.at(failing)
        at = iteration()
        for op in self.checks:
            b.loc = op.loc
            holds, *values = (self._of_iteration(v, at) for v in op.operands)
            b.check(holds, op.attrs["exc"], *values)
        b.raise_(op.attrs["exc"], values)                # not reached: a check has failed
        b.at(fine)

    def _of_iteration(self, v: Value, at: Value) -> Value:
        """A scalar of one iteration of the chunk."""
        if v in self.rows:
            return self.b.get(self.rows[v], at)
        return self.b.add(self.start, at) if v is self.iv else self.flat(v)

    def _element(self, op: Op) -> Value:
        """``a[it, j…]`` for all iterations."""
        if op.name != "get" or op.operands.count(self.iv) != 1:
            raise NoRows
        return self.elements(self.flat(op.operands[0]), op.operands[1:])

    def elements(self, array: Value, at: list[Value]) -> Value:
        """``array[at]``: a slice if one index counts the iterations, is checked, and the others are flat."""
        b = self.b
        counted = [v for v in at if v in self.firsts]
        if len(counted) != 1 or any(v in self.rows for v in at if v is not counted[0]) or (
                self.checks and counted[0] is not self.iv):
            return self.gathered(array, [b.add(self.start, b.iota(self.length)) if v is self.iv else self.element_of(v)
                                         for v in at])
        sizes, spec = self.sizes(array), []
        for v in at:
            spec += [self.firsts[v], self.length, self.one] if v in self.firsts else [self.flat(v), self.one, self.one]
        for size in sizes[len(at):]:
            spec += [b.const(0), size, self.one]
        window = b.slice(array, *spec)
        return self.shaped(window, sizes[len(at):]) if len(at) > 1 else window


def check_sizes(rows: Rows, checks: list[Op], outside: Callable[[Value], Value]) -> None:
    """Emit the checks of a chunk that the counter is below sizes: the chunk must end below every size.

    Each check has the first element that fails it.  The check whose element is the least fails first; of equal ones,
    the first check.
    """
    b = rows.b
    tests = [op.operands[0].op.operands for op in checks if op.operands[0].op is not None]
    failing = [_failing(rows, index, size) for index, size in tests]
    for k, (op, (end, index)) in enumerate(zip(checks, failing)):
        with b.located(op.loc):
            holds = b.le(b.add(rows.start, rows.length), end)
            for other in dict.fromkeys(element for element, _ in failing[k + 1:]):
                holds = b.or_(holds, b.lt(other, end)) if other is not end else holds
            values = [index if v in rows.firsts else outside(v) for v in op.operands[1:]]
            b.emit_op("check", [holds, *values], **op.attrs)


def _failing(rows: Rows, index: Value, size: Value) -> tuple[Value, Value]:
    """The first element, from the chunk's first on, whose index is not below a size; and this index."""
    if index is rows.iv:
        return size, size
    if index not in rows.firsts:                             # the sum may stand behind the first check
        assert index.op is not None
        rows.add(index.op)
    b, first = rows.b, rows.firsts[index]
    behind = b.maximum(size, first)
    return b.add(rows.start, b.sub(behind, first)), behind


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
    a, *at = op.operands
    if any(v in r.rows for v in at):
        if a in r.rows:
            r.number = r.b.iota(r.length)
            return r.gathered(r.rows[a], [r.number, *map(r.element_of, at)])
        return r.elements(r.flat(a), at)
    rows, zero = r.rows[a], r.b.const(0)
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
