"""Writes reductions of windows and columns in a loop as loops over elements, for lanes of the loop around.

``for j: y[j] = np.sum(kernel * x[j:j + m])`` reads windows that are too short for vectors, and ``np.max(s + a[:, j])``
a column, whose elements are no neighbours.  Those of neighbouring iterations are::

    ^loop(j, …):                              ^loop(j, …):
      w := slice(x, j, m, 1)                    ^inner(k, s):
      v := kernel * w                becomes      s' := add {acc} s, kernel[k] * x[j + k]
      t := sum(v)                                 again ^inner(k + 1, s')
      …                                         … with s' for t

The order of additions stays free.  Before differentiation, inner loops may follow, as of a column that is standardised.
The operand must be cheap arithmetic on slices and scalars without broadcasting, and at the end nothing in the loop may
make an array.  Sums of nothing are passed by.  A smallest or largest element is written so after differentiation only:
of several that are equal, derivatives of ``max`` and ``maximum`` differ.

So are, after differentiation, the *updates* of a reverse loop, which adds such arrays to windows and to whole arrays
that it carries: the adjoint of a largest element adds to its column where the elements equal it.  Updates of as many
elements share a loop::

    m := select(v == broadcast_to(t), 1, 0)           ^inner(k, s):
    n := sum(m)                                         s' := add {acc} s, select(w[k, j] == t, 1, 0)
    a' := add_slice {acc} a, m * (y / n), 0, j          again ^inner(k + 1, s')
                                                      ^second(k, a):
                                                        a' := add_at {acc} a, select(…) * (y / n), k, j
                                                        again ^second(k + 1, a')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import COMPARISONS, EXPENSIVE, OPS
from ...ir.types import BOOL, I64, Array, Scalar, dtype_of, is_float_scalar
from ...ir.uses import users
from ..analysis.affine import AffineForms
from ..analysis.cfg import substitute
from ..analysis.loops import Counted, Loop, counted, loop_forest

STEPS = {"sum": "add", "max": "maximum", "min": "minimum"}
STARTS = {"sum": 0.0, "max": float("-inf"), "min": float("inf")}
Step = Callable[[list[Value], list[Value]], list[Value]]
"""Emits what an iteration does: a function of the indices of an element and of what the loops carry."""
MOST_AXES = 2
"""The most axes of a reduction: windows of images have two."""


def reduction_loops(module: Module, func: Function, derived: bool) -> bool:
    """Rewrite the reductions at the head of every such loop; returns True if there were any."""
    if not any(op.name in STEPS for op in func.all_ops()):
        return False
    found = False
    for loop in loop_forest(func).loops:
        known = counted(loop) if not derived or loop.blocks == {loop.head} else None
        if known is not None and known.iv.index == 0 and loop.preheader is not None:
            nest = _Reductions(loop, known, users(func.all_ops()), derived)
            if nest.ops and (derived or nest.moves) and nest.keep(module) and nest.leaves_no_array():
                _Rewriting(func, nest).run()
                found = True
    return found


class _Reductions:
    """The reductions of a loop: ``ops``, and its ``updates``.  ``parts``: the arrays that only they read, and sizes of
    these.  ``moves``: one of them is made of elements that are neighbours of those in the next iteration."""

    def __init__(self, loop: Loop, known: Counted, readers: dict[Value, list[Op]], derived: bool) -> None:
        self.loop, self.iv, self.forms, self.readers = loop, known.iv, AffineForms(), readers
        self.parts: set[Op] = set()
        self.moves = False
        names = STEPS if derived else ("sum",)
        self.ops = {op for op in loop.head.ops if op.name in names and self._is_reduction(op)}
        self.updates: dict[Op, Value] = {}                   # and the parameter of the loop that they continue
        for op in loop.head.ops if derived and self.ops else ():
            root = self._updated(op)
            if root is not None:
                self.updates[op] = root
        self.parts |= {op for op in loop.head.ops if op.name == "dim" and op.operands[0].op in self.parts}
        self.kept: list[Value] = []

    def keep(self, module: Module) -> bool:
        """Find the arrays of which several loops compare elements; returns False if loops elsewhere do too."""
        extremes = [op for op in self.loop.head.ops if op in self.ops and op.name != "sum"]
        compare = [op for op in self.loop.head.ops if op in self.parts and op.name in COMPARISONS] + extremes
        several = (v for op in compare for v in op.operands if len(self.readers[v]) + len(self.readers[op.result]) > 2)
        self.kept = [v for v in dict.fromkeys(several) if is_inexact(v, self.parts, module.fastmath)]
        return compare_their_own(self.parts, extremes, module)

    def _is_reduction(self, op: Op) -> bool:
        t = op.operands[0].type
        return is_float_scalar(op.result.type) and isinstance(t, Array) and \
            t.rank <= MOST_AXES and self._is_made(op.operands[0], t)

    def _updated(self, op: Op) -> Value | None:
        """The array that the loop carries and an op adds to, perhaps behind other updates, if nothing else reads it."""
        if op.name not in ("add", "add_slice") or not op.attrs.get("acc") or not isinstance(op.result.type, Array):
            return None
        array, part, *spec = op.operands
        root = self.updates.get(array.op) if array.op is not None else array if array in self.loop.head.params else None
        if root is None or self.readers[array] != [op] or not self._is_window(spec[::2], spec[1::2]):
            return None
        if _is_widened(part) and part.op is not None:
            self.parts.add(part.op)
        part = _part(op)
        made = isinstance(part.type, Array) and part.type.rank <= MOST_AXES and self._is_made(part, part.type)
        return root if made else None

    def _is_made(self, v: Value, t: Array) -> bool:
        """True if an element of ``v`` follows from scalars, and from elements of arrays from outside the loop."""
        if isinstance(v.type, Scalar):
            return True
        if not isinstance(v.type, Array) or v.type.rank != t.rank or 1 in v.type.dims or \
                v.type.dtype not in (t.dtype, BOOL):
            return False
        op = v.op
        if self._is_outside(v) or op in self.parts:
            return True
        if op is None or len(op.results) != 1:
            return False
        self.parts.add(op)
        if op.name == "reshape" and op.operands[0].op is not None and op.operands[0].op.name == "slice":
            self.parts.add(op.operands[0].op)
            return _kept_axes(op) is not None and all(map(self._is_outside, op.operands[1:])) and \
                self._is_slice(op.operands[0].op)
        if op.name == "slice":
            return self._is_slice(op)
        if op.name == "broadcast_to":
            return isinstance(op.operands[0].type, Scalar) and all(self._is_size(n, t) for n in op.operands[1:])
        return OPS[op.name].elementwise and OPS[op.name].cost < EXPENSIVE and \
            all(self._is_made(x, t) for x in op.operands)

    def _is_size(self, n: Value, t: Array) -> bool:
        """True for a size from outside the loop, also if the loop asks an array for it."""
        return self._is_outside(n) or n.op is not None and n.op.name == "dim" and self._is_made(n.op.operands[0], t)

    def _is_outside(self, v: Value) -> bool:
        return v.block is not self.loop.head or v.const is not None

    def _is_slice(self, op: Op) -> bool:
        a, *spec = op.operands
        if a.op is not None and a.op.name == "slice" and self.readers[a] == [op] and not self._is_outside(a):
            self.parts.add(a.op)                             # backwards, as a series behind a filter
            return all(map(self._is_outside, spec)) and self._is_slice(a.op)
        return self._is_outside(a) and self._is_window(spec[::3], [*spec[1::3], *spec[2::3]])

    def _is_window(self, starts: list[Value], others: list[Value]) -> bool:
        """True for a part that moves along the last axis, or not at all, with sizes and steps from outside the loop."""
        moving = [k for k, start in enumerate(starts) if not self._is_outside(start)]
        if not all(map(self._is_outside, others)) or moving not in ([], [len(starts) - 1]):
            return False
        if moving:
            form = self.forms.of(starts[-1])
            if form.coefficient(self.iv) != 1 or any(not self._is_outside(v) for v, _ in form.without(self.iv).terms):
                return False
            self.moves = True
        return True

    def leaves_no_array(self) -> bool:
        """True if all else that the loop makes are scalars, and updates of arrays that it carries."""
        head = self.loop.head
        gone = {*self.parts, *self.ops, *self.updates}
        rest = [op for b in self.loop.blocks for op in b.all_ops() if op not in gone]
        made = {op.result for op in self.parts if isinstance(op.result.type, Array)}
        passed = all({*self.readers.get(op.result, ())} <= {head.term} or self.readers[op.result][0] in self.updates
                     for op in self.updates)
        return passed and not any(v in made for op in rest for v in op.used()) and all(
            isinstance(v.type, Scalar) or op.name in ("set", "add_at") and isinstance(op.operands[1].type, Scalar)
            for op in rest for v in op.results)


def compare_their_own(parts: Collection[Op], extremes: Collection[Op], module: Module) -> bool:
    """True if a reverse sweep compares elements of inexact arrays with their own smallest or largest ones only.

    If that was computed elsewhere, it might have been rounded otherwise, and no element would be equal to it.
    ``extremes``: reductions of ``parts``.
    """
    found: set[Op] = set()
    for op in parts if module.derived else ():
        for v, other in (op.operands, op.operands[::-1]) if op.name == "eq" else ():
            while other.op is not None and other.op.name in ("broadcast_to", "reshape"):
                other = other.op.operands[0]
            if other.op in extremes and other.op is not None and other.op.operands[0] is v:
                found.add(other.op)
            elif is_inexact(v, parts, module.fastmath):
                return False
    return not module.derived or all(
        op in found or not is_inexact(op.operands[0], parts, module.fastmath) for op in extremes)


def is_inexact(v: Value, parts: Collection[Op], fastmath: bool) -> bool:
    """True if machine code may round an element of ``v`` in several ways: as sums of products, or of more numbers."""
    arithmetic = [x for x in _tree(v, parts) if x.name in ("add", "sub", "mul")]
    return len(arithmetic) > 1 if fastmath else any(
        x.name != "mul" and (x.attrs.get("acc") or any(y.name == "mul" for w in x.operands for y in _tree(w, parts)))
        for x in arithmetic)


def _tree(v: Value, parts: Collection[Op]) -> set[Op]:
    """The ops among ``parts`` that an element of ``v`` follows from."""
    found, todo = set[Op](), [v]
    while todo:
        op = todo.pop().op
        if op is not None and op in parts and op not in found:
            found.add(op)
            todo += op.operands
    return found


def _kept_axes(op: Op) -> list[int] | None:
    """The axes of a reshaped slice that stay: those that go have size 1; ``None`` if it is reshaped otherwise."""
    before, after = op.operands[0].type, op.result.type
    assert isinstance(before, Array) and isinstance(after, Array)
    kept = _long_axes(before)
    return kept if len(kept) == after.rank else None


def _long_axes(t: Array) -> list[int]:
    """The axes that are not known to have size 1."""
    return [k for k, n in enumerate(t.dims) if n != 1]


def _is_widened(v: Value) -> bool:
    """True for an array to which axes of size 1 have been added."""
    if v.op is None or v.op.name != "reshape" or not isinstance(v.type, Array):
        return False
    before = v.op.operands[0].type
    return isinstance(before, Array) and before.rank == len(_long_axes(v.type)) < v.type.rank


def _part(op: Op) -> Value:
    """The array that a reduction reduces, or that an update adds, without axes of size 1."""
    part = op.operands[0] if op.name in STEPS else op.operands[1]
    return part.op.operands[0] if _is_widened(part) and part.op is not None else part


class _Rewriting:
    """Emits the loops.  ``b`` is where the iteration goes on, ``before`` emits ahead of the loop.

    ``waiting``: reductions whose loop is not emitted yet.  ``now``: what the arrays that the loop carries have become.
    ``stored``: arrays whose elements a loop has kept.
    """

    def __init__(self, func: Function, nest: _Reductions) -> None:
        self.func, self.nest, self.head = func, nest, nest.loop.head
        self.values: dict[Value, Value] = {}
        self.elements: dict[Value, Value] = {}
        self.sizes: dict[tuple[Value, int] | int, Value] = {}
        self.waiting: list[Op] = []
        self.now: dict[Value, Value] = {}
        self.stored: dict[Value, Value] = {}

    def run(self) -> None:
        head, preheader = self.head, self.nest.loop.preheader
        assert preheader is not None and preheader.term is not None and head.term is not None
        ops, term, enter = head.ops, head.term, preheader.term
        head.ops, head.term, preheader.term = [], None, None
        self.before, self.b = Builder(preheader, enter.loc), Builder(head, term.loc)
        for op in ops:
            if op in self.nest.ops:
                self._wait(op)
            elif op.name == "dim" and op in self.nest.parts:
                self.values[op.result] = self._size(op.operands[0], op.attrs["axis"])
            elif op not in self.nest.parts and op not in self.nest.updates:
                if any(v.op in self.waiting for v in op.operands):
                    self._reduce()
                op.block = self.b.block
                self.b.block.ops.append(op)
        self._update()
        term.block, self.b.block.term, preheader.term = self.b.block, term, enter
        substitute(self.func, self.values)

    def _wait(self, op: Op) -> None:
        """Let a reduction wait for others, with which it shares loops, until something reads the result of one."""
        if self.waiting and (self._sizes(self.waiting[0]) != self._sizes(op) or self._needs(op)):
            self._reduce()
        self.waiting.append(op)

    def _sizes(self, op: Op) -> list[Value]:
        """The sizes of the array that a reduction reduces, or an update adds."""
        part = _part(op)
        assert isinstance(part.type, Array)
        return [self._size(part, k) for k in range(part.type.rank)]

    def _needs(self, op: Op) -> bool:
        """True if an element of the array of a reduction or update follows from what a waiting reduction computes."""
        return any(v.op in self.waiting for x in _tree(_part(op), self.nest.parts) for v in x.operands)

    def _reduce(self, updates: Sequence[Op] = ()) -> None:
        """Emit the loops of all waiting reductions, and those of ``updates`` of as many elements."""
        b, ops, roots = self.b, self.waiting, self.nest.updates
        mine = list(dict.fromkeys(roots[op] for op in updates))
        if not (both := [*ops, *updates]):
            return
        b.loc = both[0].loc
        starts = [self.before.const(STARTS[op.name], dtype_of(op.result.type)) for op in ops]
        sizes, fresh = self._sizes(both[0]), [v for v in self.nest.kept if v not in self.stored and any(
            v.op in _tree(_part(op), self.nest.parts) for op in both)]
        rows = [b.typed(b.emit("empty", *sizes, dtype=dtype_of(v.type)), v.type) for v in fresh]

        def step(at: list[Value], carried: list[Value]) -> list[Value]:
            totals = [b.emit(STEPS[op.name], total, self._element(op.operands[0], at),
                             **({"acc": True} if op.name == "sum" else {})) for op, total in zip(ops, carried)]
            inside = dict(zip(mine, carried[len(ops):]))
            for op in updates:
                inside[roots[op]] = self._add(op, inside[roots[op]], at)
            kept = [b.emit("set", row, self._element(v, at), *at)
                    for v, row in zip(fresh, carried[len(ops) + len(mine):], strict=True)]
            return [*totals, *inside.values(), *kept]
        results = self._loops(sizes, [*starts, *(self.now.get(root, root) for root in mine), *rows], step,
                              some=any(op.name != "sum" for op in ops))
        self.values |= {op.result: v for op, v in zip(ops, results)}
        self.now |= zip(mine, results[len(ops):])
        self.stored |= zip(fresh, results[len(ops) + len(mine):])
        self.waiting = []

    def _update(self) -> None:
        """Emit the loops of the reductions that are left, and of all updates: one for those of as many elements."""
        alike: dict[tuple[Value, ...], list[Op]] = {}
        for op in self.nest.updates:
            alike.setdefault(tuple(self._sizes(op)), []).append(op)
        first = alike.get(tuple(self._sizes(self.waiting[0])), []) if self.waiting else []
        if any(map(self._needs, self.nest.updates)) or not first:
            self._reduce()
        for updates in sorted(alike.values(), key=lambda ops: ops is not first):
            self._reduce(updates)
        self.values |= {op.result: self.now[root] for op, root in self.nest.updates.items()}

    def _add(self, op: Op, array: Value, at: list[Value]) -> Value:
        """Emit the addition of the element at the indices ``at`` of the part that ``op`` adds."""
        b, spec, v = self.b, op.operands[2:], self._element(_part(op), at)
        if spec:
            assert isinstance(op.operands[1].type, Array)
            long = _long_axes(op.operands[1].type) if _is_widened(op.operands[1]) else list(range(len(at)))
            at = [b.add(start, b.mul(at[long.index(k)], step)) if k in long else start
                  for k, (start, step) in enumerate(zip(spec[::2], spec[1::2], strict=True))]
        return b.emit("add_at", array, v, *at, acc=True)

    def _loops(self, sizes: list[Value], carried: list[Value], step: Step, some: bool = False) -> list[Value]:
        """Emit the loops over elements, which may be none unless there are ``some``; returns what they carry."""
        b = self.b
        if some or all(n.const for n in sizes):
            return self._nest(sizes, [], carried, step)
        test = self.before.const(True)
        for n in sizes:
            test = self.before.and_(test, self.before.lt(0, n))
        enter, skip, after = (self.func.new_block(name) for name in ("preheader", "skip", "after"))
        results = [after.add_param(v.type) for v in carried]
        b.branch(test, enter, [], skip, [])
        b.at(skip)
        b.jump(after, carried)
        b.at(enter)
        b.jump(after, self._nest(sizes, [], carried, step))
        b.at(after)
        return results

    def _nest(self, sizes: list[Value], at: list[Value], carried: list[Value], step: Step) -> list[Value]:
        """Emit the loop over an axis, and those over the next ones in it; ends behind it, with what they carry."""
        b = self.b
        head, behind = self.func.new_block("loop"), self.func.new_block("exit")
        i, inside = head.add_param(I64, "it"), [head.add_param(v.type) for v in carried]
        passed = [behind.add_param(v.type) for v in carried]
        b.jump(head, [b.const(0), *carried])
        b.at(head)
        self.elements.clear()
        found = self._nest(sizes, [*at, i], inside, step) if len(at) + 1 < len(sizes) else step([*at, i], inside)
        following = b.add(i, 1)
        b.branch(b.lt(following, sizes[len(at)]), head, [following, *found], behind, found)
        b.at(behind)
        return passed

    def _size(self, v: Value, axis: int) -> Value:
        """The size of an array along an axis, known ahead of the loop."""
        assert isinstance(v.type, Array)
        op, n = v.op, v.type.dims[axis]
        if n is not None or op is None or op not in self.nest.parts:
            key = n if n is not None else (v, axis)
            if key not in self.sizes:
                self.sizes[key] = self.before.const(n) if n is not None else self.before.dim(v, axis=axis)
            return self.sizes[key]
        if op.name == "reshape":
            return op.operands[1 + axis]
        if op.name == "slice":
            return op.operands[2 + 3 * axis]
        if op.name == "broadcast_to":
            asked = op.operands[1 + axis].op
            if asked is None or asked not in self.nest.parts:
                return op.operands[1 + axis]
            return self._size(asked.operands[0], asked.attrs["axis"])
        return self._size(next(x for x in op.operands if isinstance(x.type, Array)), axis)

    def _element(self, v: Value, at: list[Value]) -> Value:
        """Emit the element of ``v`` at the indices ``at``, once in a loop."""
        if v not in self.elements:
            self.elements[v] = self._new_element(v, at)
        return self.elements[v]

    def _new_element(self, v: Value, at: list[Value]) -> Value:
        b, op = self.b, v.op
        if isinstance(v.type, Scalar):
            return v
        if v in self.stored:
            return b.get(self.stored[v], *at)
        if op is None or op not in self.nest.parts:
            return b.get(v, *at)
        if op.name == "reshape":
            kept, window = _kept_axes(op), op.operands[0]
            assert kept is not None and isinstance(window.type, Array)
            return self._element(window, [at[kept.index(k)] if k in kept else b.const(0)
                                          for k in range(window.type.rank)])
        if op.name == "slice":
            a, *spec = op.operands
            at = [b.add(start, b.mul(i, step)) for start, step, i in zip(spec[::3], spec[2::3], at, strict=True)]
            return self._element(a, at) if a.op is not None and a.op in self.nest.parts else b.get(a, *at)
        if op.name == "broadcast_to":
            return op.operands[0]
        return b.emit(op.name, *(self._element(x, at) for x in op.operands), **op.attrs)
