"""Writes loops that carry vectors, element by element, as loops over the elements with the steps inside.

``for t: s = s * np.exp(z[:, t])`` loads and stores all of ``s`` in each step, and a derivative saves it.  An element
needs no other one, so each goes through all steps by itself, in a register::

    ^loop(t, s):                          ^rows(i, u):
      c := z[:, t]                          ^loop(t, e):
      s' := mul(s, exp(c))     becomes        e' := mul(e, exp(get(z, i, t)))
      again ^loop(t + 1, s')                  again ^loop(t + 1, e')
                                            again ^rows(i + 1, set(u, e', i))

The loop may carry several vectors of floats, which are all of one size: elementwise operations on them and on what is
read say so.  Rows and columns of arrays from outside are read, but no slices that move along the vector, as those of a
filter: their adjoints overlap.  ``outer_loop`` makes vectors of the elements again.

Sixteen elements at a time wait for what one step needs of the one before, all of them do not: so that must not be a
transcendental function (pendulums side by side took 2.5 times as long).  Nor may a recurrence read columns of an array
by which the function is differentiated, since the cotangents of sixteen elements of a column are stored one by one.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS, TRANSCENDENTAL
from ...ir.types import I64, Array, Scalar, dtype_of
from ..analysis.cfg import remove_unreachable
from ..analysis.cost import LANES
from ..analysis.loops import Loop, loop_forest
from .regular import Regular, is_fixed

LEAST = 3
"""The least elementwise operations for each vector where no columns are read: rows may stay in the nearest cache."""
SLOW = frozenset(("and", "or", "not", "round", "mod", "floordiv"))
"""Operations of which sixteen at a time take longer than a row."""


def array_steps(module: Module, func: Function) -> bool:
    """Rewrite every such loop of normal form in a function of ``module``; returns True if there was one."""
    if not any(isinstance(p.type, Array) and p.type.rank == 1 for block in func.blocks for p in block.params):
        return False
    regular = Regular(loop_forest(func))
    active = {func.params[i] for d in module.derived.values() if d.base == func.name for i in d.wrt}
    found = [steps for loop in regular.known if loop.blocks == {loop.head} and (steps := _Steps(loop)).fit(active)]
    for steps in found:
        _Rewriting(func, steps, regular.known[steps.loop].trip).run()
    if found:
        remove_unreachable(func)
    return bool(found)


class _Steps:
    """A loop that carries vectors.  ``vectors``: the ops that make arrays.  ``same``: arrays of one size, joined."""

    def __init__(self, loop: Loop) -> None:
        self.loop, self.head = loop, loop.head
        self.carried, self.passed = loop.head.params[1:], loop.back_edge().args[1:]
        self.vectors: set[Op] = set()
        self.same: dict[Value, Value] = {}

    def fit(self, active: Set[Value]) -> bool:
        """True if all that the loop does is to step the elements of vectors of one size, and if that pays.

        ``active``: the parameters by which the function is differentiated.
        """
        if not self.carried or not all(_is_vector(v) and dtype_of(v.type).is_float for v in self.carried):
            return False
        if not all(v in self.passed for v in self.loop.exit_edge().args):
            return False
        if not all(self._is_scalar(op) or self._is_step(op) for op in self.head.ops):
            return False
        measured = [v for op in self.head.ops if op.name == "dim" for v in op.operands if not self._is_outside(v)]
        sizes = {self._find(v) for v in (*self.carried, *self.passed, *measured)}
        return len(sizes) == 1 and self._pays(active)

    def _pays(self, active: Set[Value]) -> bool:
        """True if each step computes, and what the next one waits for is cheap."""
        columns = {op.operands[0] for op in self.vectors if op.name == "slice" and self._is_column(op)}
        steps = sum(OPS[op.name].elementwise for op in self.vectors)
        if steps == 0 or not columns and (steps < LEAST * len(self.carried) or any(
                op.name == "get" for op in self.vectors)):
            return False
        waits = set(self.carried)                                # what depends on the step before
        for op in self.head.ops:
            if not waits.isdisjoint(op.operands):
                if OPS[op.name].cost >= TRANSCENDENTAL:
                    return False
                waits.update(op.results)
        if all(self._is_update(p, v, waits, ("minimum", "maximum")) for p, v in zip(self.carried, self.passed)):
            return False                                         # ``outer_loop`` leaves these to LLVM
        return columns.isdisjoint(active) or all(self._is_update(p, v, waits, ("add", "sub"))
                                  for p, v in zip(self.carried, self.passed))

    def _is_column(self, op: Op) -> bool:
        assert isinstance(op.result.type, Array)
        return op.result.type.dims[-1] == 1

    def _is_update(self, p: Value, v: Value, waits: Set[Value], names: Sequence[str]) -> bool:
        """True if the next value of ``p`` is ``p`` and what does not wait for the step before, by one of ``names``."""
        return v.op is not None and v.op.name in names and p in v.op.operands and \
            all(x is p or x not in waits for x in v.op.operands)

    def _is_scalar(self, op: Op) -> bool:
        """True for cheap scalars, which each element will compute again, and sizes."""
        definition = OPS[op.name]
        if definition.effect or definition.consumes or definition.cost >= EXPENSIVE:
            return False
        inside = [v for v in op.operands if isinstance(v.type, Array) and not self._is_outside(v)]
        return all(isinstance(v.type, Scalar) for v in op.results) and (not inside or op.name == "dim")

    def _is_step(self, op: Op) -> bool:
        """True for an op that makes a vector, each element from those at its own index."""
        if len(op.results) != 1 or OPS[op.name].effect or OPS[op.name].consumes:
            return False
        self.vectors.add(op)
        if dtype_of(op.result.type).is_int:
            return False
        if op.name == "slice":
            start, length, step = self._kept(op) if _is_vector(op.result, ones=True) else (None, None, None)
            return step is not None and step.const == 1 and all(
                v is not None and self._is_outside(v) for v in (op.operands[0], start, length))
        if not _is_vector(op.result):
            return False
        if op.name == "reshape":
            inner = op.operands[0].op
            return inner in self.vectors and inner is not None and inner.name == "slice"
        if op.name == "get":
            return self._is_outside(op.operands[0])
        if op.name in ("broadcast_to", "fill"):
            return isinstance(op.operands[0].type, Scalar)
        if op.name in SLOW or not OPS[op.name].elementwise or not all(
                isinstance(v.type, Scalar) or _is_vector(v) for v in op.operands):
            return False
        for v in op.operands:
            if isinstance(v.type, Array):
                self.same[self._find(v)] = self._find(op.result)
        return True

    def _find(self, v: Value) -> Value:
        while v in self.same and self.same[v] is not v:
            v = self.same[v]
        return v

    def _kept(self, op: Op) -> list[Value]:
        """The start, length and step of a slice along the axis that it keeps."""
        assert isinstance(op.result.type, Array)
        return [v for k, n in enumerate(op.result.type.dims) if n != 1 for v in op.operands[1 + 3 * k:4 + 3 * k]]

    def _is_outside(self, v: Value) -> bool:
        return is_fixed(v, self.loop)


def _is_vector(v: Value, ones: bool = False) -> bool:
    """True for an array of one axis that is long enough for lanes; ``ones``: it may have others of size 1."""
    t = v.type
    if not isinstance(t, Array):
        return False
    long = [n for n in t.dims if n != 1]
    return len(long) == 1 and (ones or t.rank == 1) and (long[0] is None or long[0] >= LANES)


class _Rewriting:
    """Emits the loops of one nest.  ``values``: what stands for a value of the old loop in the new one."""

    def __init__(self, func: Function, steps: _Steps, trip: Value) -> None:
        self.func, self.steps, self.loop, self.trip = func, steps, steps.loop, trip
        self.values: dict[Value, Value] = {}

    def run(self) -> None:
        loop, steps = self.loop, self.steps
        before, behind = loop.preheader, loop.exit
        assert before is not None and before.term is not None and behind is not None
        start, leaving = loop.entry_edge().args[1:], loop.exit_edge().args
        b = Builder(before, loop.head.term.loc if loop.head.term is not None else before.term.loc)
        before.term = None
        size = b.dim(start[0], axis=0)
        rows, leave = self.func.new_block("loop"), self.func.new_block("exit")
        enter, skip = self.func.new_block("preheader"), self.func.new_block("skip")
        b.branch(b.lt(0, size), enter, [], skip, [])
        b.at(skip)                                               # vectors of no elements are all equal
        b.jump(behind, [start[steps.passed.index(v)] for v in leaving])
        b.at(enter)
        made = [b.emit("empty", size, dtype=v.type.dtype) for v in leaving if isinstance(v.type, Array)]
        made = [b.typed(x, v.type) for x, v in zip(made, leaving)]
        b.jump(rows, [b.const(0), *made])
        i = rows.add_param(I64, "it")
        inside = [rows.add_param(v.type, v.hint) for v in leaving]
        left = [leave.add_param(v.type, v.hint) for v in leaving]
        b.at(rows)
        elements = self._steps(b, i, size, [b.get(v, i) for v in start])
        updated = [b.emit("set", x, e, i) for x, e in zip(inside, elements)]
        following = b.add(i, 1)
        b.branch(b.lt(following, size), rows, [following, *updated], leave, updated)
        b.at(leave)
        b.jump(behind, left)

    def _steps(self, b: Builder, i: Value, size: Value, start: list[Value]) -> list[Value]:
        """Emit the loop over the steps of element ``i``; returns what it leaves, in a block behind it."""
        steps, old = self.steps, self.loop.head
        head, behind = self.func.new_block("loop"), self.func.new_block("exit")
        counter = head.add_param(I64, old.params[0].hint)
        inside = [head.add_param(e.type, p.hint) for e, p in zip(start, steps.carried)]
        b.jump(head, [b.const(0), *start])
        b.at(head)
        self.values = {old.params[0]: counter, **dict(zip(steps.carried, inside))}
        for op in old.ops:
            if op in steps.vectors:
                self._vector(b, op, i)
            elif op.name == "dim" and not steps._is_outside(op.operands[0]):
                self.values[op.result] = size
            else:
                copy = clone_op(op, self.values)
                copy.block = b.block
                b.block.ops.append(copy)
        passed = [self.values.get(v, v) for v in steps.passed]
        leaving = [self.values.get(v, v) for v in self.loop.exit_edge().args]
        following = b.add(counter, 1)
        left = [behind.add_param(v.type) for v in leaving]
        b.branch(b.lt(following, self.trip), head, [following, *passed], behind, leaving)
        b.at(behind)
        return left

    def _vector(self, b: Builder, op: Op, i: Value) -> None:
        """Emit the element of a vector, unless it is a view: that is read where it is used."""
        b.loc = op.loc
        if op.name in ("slice", "reshape"):
            return
        self.values[op.result] = self._element(b, op, i)

    def _element(self, b: Builder, op: Op, i: Value) -> Value:
        if op.name == "get":
            return b.get(op.operands[0], *(self.values.get(v, v) for v in op.operands[1:]), i)
        if op.name in ("broadcast_to", "fill"):
            return self.values.get(op.operands[0], op.operands[0])
        return b.emit(op.name, *(self._operand(b, v, i) for v in op.operands), **op.attrs)

    def _operand(self, b: Builder, v: Value, i: Value) -> Value:
        """The element of an operand."""
        if v in self.values or isinstance(v.type, Scalar):
            return self.values.get(v, v)
        view = v.op
        if view is None or view not in self.steps.vectors:
            return b.get(v, i)
        window = view if view.name == "slice" else view.operands[0].op
        assert window is not None and isinstance(window.result.type, Array)
        a, *spec = [self.values.get(x, x) for x in window.operands]
        at = [start if n == 1 else b.add(start, b.mul(i, step))
              for n, start, step in zip(window.result.type.dims, spec[::3], spec[2::3])]
        self.values[v] = b.get(a, *at)
        return self.values[v]
