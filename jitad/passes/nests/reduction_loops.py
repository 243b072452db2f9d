"""Writes reductions of windows and columns in a loop as loops over elements, for lanes of the loop around.

``for j: y[j] = np.sum(kernel * x[j:j + m])`` reads windows that are too short for vectors, and ``np.max(s + a[:, j])``
a column, whose elements are no neighbours.  Those of neighbouring iterations are::

    ^loop(j, …):                              ^loop(j, …):
      w := slice(x, j, m, 1)                    ^inner(k, s):
      v := kernel * w                becomes      s' := add {acc} s, kernel[k] * x[j + k]
      t := sum(v)                                 again ^inner(k + 1, s')
      …                                         … with s' for t

The order of additions stays free.  The operand must be cheap arithmetic on slices and scalars without broadcasting, and
at the end nothing in the loop may make an array.  Sums of nothing are passed by.  A smallest or largest element is
written so after differentiation only: of several that are equal, derivatives of ``max`` and ``maximum`` differ.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.graph import Function, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import I64, Array, Scalar, is_float_scalar
from ..analysis.affine import AffineForms
from ..analysis.cfg import substitute
from ..analysis.loops import Counted, Loop, counted, loop_forest

STEPS = {"sum": "add", "max": "maximum", "min": "minimum"}
STARTS = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}
MOST_AXES = 2
"""The most axes of a reduction: windows of images have two."""


def reduction_loops(func: Function, derived: bool) -> bool:
    """Rewrite the reductions of every such loop of one block; returns True if there were any."""
    if not any(op.name in STEPS for op in func.all_ops()):
        return False
    found = False
    for loop in loop_forest(func).loops:
        known = counted(loop) if loop.blocks == {loop.head} else None
        if known is not None and known.iv.index == 0 and loop.preheader is not None:
            nest = _Reductions(loop, known, derived)
            if nest.ops and nest.moves and nest.leaves_no_array():
                _Rewriting(func, nest).run()
                found = True
    return found


class _Reductions:
    """The reductions of a loop: ``ops``.  ``parts``: the arrays that only they read.  ``moves``: one of these is made
    of elements that are neighbours of those in the next iteration."""

    def __init__(self, loop: Loop, known: Counted, derived: bool) -> None:
        self.loop, self.iv, self.forms = loop, known.iv, AffineForms()
        self.parts: set[Op] = set()
        self.moves = False
        names = STEPS if derived else ("sum",)
        self.ops = {op for op in loop.head.ops if op.name in names and self._is_reduction(op)}

    def _is_reduction(self, op: Op) -> bool:
        t = op.operands[0].type
        return is_float_scalar(op.result.type) and isinstance(t, Array) and \
            t.rank <= MOST_AXES and self._is_made(op.operands[0], t)

    def _is_made(self, v: Value, t: Array) -> bool:
        """True if an element of ``v`` follows from scalars, and from elements of arrays from outside the loop."""
        if isinstance(v.type, Scalar):
            return True
        if not isinstance(v.type, Array) or v.type.rank != t.rank or v.type.dtype != t.dtype or 1 in v.type.dims:
            return False
        op = v.op
        if self._is_outside(v):
            return True
        if op is None or len(self.parts) > len(self.loop.head.ops):
            return False
        if op.name == "reshape" and op.operands[0].op is not None and op.operands[0].op.name == "slice":
            made = _kept_axes(op) is not None and all(map(self._is_outside, op.operands[1:])) and \
                self._is_window(op.operands[0].op)
            self.parts |= {op, op.operands[0].op}
        elif op.name == "slice":
            made = self._is_window(op)
        else:
            made = OPS[op.name].elementwise and OPS[op.name].cost < EXPENSIVE and \
                all(self._is_made(x, t) for x in op.operands)
        self.parts.add(op)
        return made

    def _is_outside(self, v: Value) -> bool:
        return v.block is not self.loop.head or v.const is not None

    def _is_window(self, op: Op) -> bool:
        """True for a slice that moves along the last axis, or not at all, with sizes from outside the loop."""
        a, *spec = op.operands
        moving = [k for k, start in enumerate(spec[::3]) if not self._is_outside(start)]
        if not all(map(self._is_outside, (a, *spec[1::3], *spec[2::3]))) or moving not in ([], [len(spec) // 3 - 1]):
            return False
        if moving:
            form = self.forms.of(spec[-3])
            if form.coefficient(self.iv) != 1 or any(not self._is_outside(v) for v, _ in form.without(self.iv).terms):
                return False
            self.moves = True
        return True

    def leaves_no_array(self) -> bool:
        """True if all else that the loop makes are scalars, and updates of arrays that it carries."""
        head = self.loop.head
        rest = [op for op in (*head.ops, head.term) if op is not None and op not in self.parts and op not in self.ops]
        made = {op.result for op in self.parts}
        return not any(v in made for op in rest for v in op.used()) and all(
            isinstance(v.type, Scalar) or op.name in ("set", "add_at") and isinstance(op.operands[1].type, Scalar)
            for op in rest for v in op.results)


def _kept_axes(op: Op) -> list[int] | None:
    """The axes of a reshaped slice that stay: those that go have size 1; ``None`` if it is reshaped otherwise."""
    before, after = op.operands[0].type, op.result.type
    assert isinstance(before, Array) and isinstance(after, Array)
    kept = [k for k, n in enumerate(before.dims) if n != 1]
    return kept if len(kept) == after.rank else None


class _Rewriting:
    """Emits the loops.  ``b`` is where the iteration goes on, ``before`` emits ahead of the loop."""

    def __init__(self, func: Function, nest: _Reductions) -> None:
        self.func, self.nest, self.head = func, nest, nest.loop.head
        self.values: dict[Value, Value] = {}

    def run(self) -> None:
        head, preheader = self.head, self.nest.loop.preheader
        assert preheader is not None and preheader.term is not None and head.term is not None
        ops, term, enter = head.ops, head.term, preheader.term
        head.ops, head.term, preheader.term = [], None, None
        self.before, self.b = Builder(preheader, enter.loc), Builder(head, term.loc)
        for op in ops:
            if op in self.nest.ops:
                self.values[op.result] = self._loops(op)
            elif op not in self.nest.parts:
                op.block = self.b.block
                self.b.block.ops.append(op)
        term.block, self.b.block.term, preheader.term = self.b.block, term, enter
        substitute(self.func, self.values)

    def _loops(self, op: Op) -> Value:
        """Emit the loops of a reduction; returns the result."""
        b, v, t = self.b, op.operands[0], op.result.type
        assert isinstance(v.type, Array) and isinstance(t, Scalar)
        b.loc = op.loc
        sizes = [self._size(v, k) for k in range(v.type.rank)]
        start = self.before.const(STARTS[op.name], t)
        if op.name != "sum" or all(n.const for n in sizes):
            return self._nest(op, sizes, [], start)
        some = self.before.const(True)
        for n in sizes:
            some = self.before.and_(some, self.before.lt(0, n))
        enter, skip, after = (self.func.new_block(name) for name in ("preheader", "skip", "after"))
        result = after.add_param(t)
        b.branch(some, enter, [], skip, [])
        b.at(skip)
        b.jump(after, [start])
        b.at(enter)
        b.jump(after, [self._nest(op, sizes, [], start)])
        b.at(after)
        return result

    def _nest(self, op: Op, sizes: list[Value], at: list[Value], total: Value) -> Value:
        """Emit the loop over an axis, and those over the next ones in it; ends behind it, with the new total."""
        b = self.b
        head, behind = self.func.new_block("loop"), self.func.new_block("exit")
        i, inside, passed = head.add_param(I64, "it"), head.add_param(total.type), behind.add_param(total.type)
        b.jump(head, [b.const(0), total])
        b.at(head)
        if len(at) + 1 < len(sizes):
            found = self._nest(op, sizes, [*at, i], inside)
        else:
            free = {"acc": True} if op.name == "sum" else {}
            found = b.emit(STEPS[op.name], inside, self._element(op.operands[0], [*at, i]), **free)
        following = b.add(i, 1)
        b.branch(b.lt(following, sizes[len(at)]), head, [following, found], behind, [found])
        b.at(behind)
        return passed

    def _size(self, v: Value, axis: int) -> Value:
        """The size of an array along an axis, known ahead of the loop."""
        assert isinstance(v.type, Array)
        if (n := v.type.dims[axis]) is not None:
            return self.before.const(n)
        op = v.op
        if op is None or op not in self.nest.parts:
            return self.before.dim(v, axis=axis)
        if op.name == "reshape":
            return op.operands[1 + axis]
        if op.name == "slice":
            return op.operands[2 + 3 * axis]
        return self._size(next(x for x in op.operands if isinstance(x.type, Array)), axis)

    def _element(self, v: Value, at: list[Value]) -> Value:
        """Emit the element of ``v`` at the indices ``at``."""
        b, op = self.b, v.op
        if isinstance(v.type, Scalar):
            return v
        if op is None or op not in self.nest.parts:
            return b.get(v, *at)
        if op.name == "reshape":
            kept, window = _kept_axes(op), op.operands[0]
            assert kept is not None and isinstance(window.type, Array)
            return self._element(window, [at[kept.index(k)] if k in kept else b.const(0)
                                          for k in range(window.type.rank)])
        if op.name == "slice":
            a, *spec = op.operands
            return b.get(a, *(b.add(start, b.mul(i, step))
                              for start, step, i in zip(spec[::3], spec[2::3], at, strict=True)))
        return b.emit(op.name, *(self._element(x, at) for x in op.operands), **op.attrs)
