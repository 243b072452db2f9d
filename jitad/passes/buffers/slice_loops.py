"""Writes elementwise ops on slices that overlap as loops over the elements.

::

    w = set_slice(u, v[1:-1] + c * (v[2:] - v[:-2]), 1)       ^loop(i, t):
                                                                 x = get(v, i + 1) + c * (get(v, i + 2) - get(v, i))
                                                     becomes     s = set(t, x, i + 1)
                                                                 … ^loop(i + 1, s) …

The adjoint of each slice is an update of its own: three passes over the cotangent, where a loop has one
(``neighbour_updates``).  It also is what a program by loops would be, so that either way is as fast.  An op that is not
stored in a slice makes an array of its own.

If the array that is updated is one of those that are read, the loop reads what it has not yet stored to, as in
``v[:-1] = f(v[1:])``.  Otherwise, as in ``v[1:-1] += …``, it begins with a copy, of which ``covered_boxes`` leaves the
border; this is done if that is narrow.

The *tree* of an op are the elementwise ops that only it uses; an array that it reads is a *leaf*.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import OPS, TRANSCENDENTAL
from ...ir.types import I64, Array, Scalar
from ...ir.uses import users
from ..analysis.affine import Affine, AffineForms
from ..analysis.cfg import substitute
from ..analysis.sizes import Sizes

SHORT = 16
"""The most elements of an array of known size that is left as it is: its elements are going to be scalars."""
LARGEST = 60
"""The most ops of a tree."""
NARROW = 8
"""The most elements of an axis that are not updated, if the array is to be copied first."""


def slice_loops(module: Module) -> bool:
    """Rewrite all such ops; returns True if there was one."""
    return any([_of_function(func, bool(module.derived)) for func in module.functions.values()])


def _of_function(func: Function, derived: bool) -> bool:
    if not any(op.name == "slice" for op in func.all_ops()):
        return False
    readers, sizes, found = users(func.all_ops()), Sizes(func), list[_Tree]()
    for block in func.blocks:
        covered: set[Op] = set()
        for op in reversed(block.ops):                       # an op comes behind the rest of its tree
            if op not in covered and _may_be_root(op, readers, derived):
                tree = _Tree(op, readers, sizes)
                covered |= tree.inner
                found += [tree] if tree.overlaps() and tree.may_be_in_place() else []
    for tree in found:                                       # the last of a block first, which leaves the others there
        _rewrite(func, tree)
    return bool(found)


def _may_be_root(op: Op, readers: dict[Value, list[Op]], derived: bool) -> bool:
    """True for updates of slices, and, if there are adjoints, for elementwise ops whose arrays are carried on.

    Values are computed in the memory of what the loop around has carried so far.
    """
    if op.name in ("set_slice", "add_slice"):
        target, value = op.operands[0].type, op.operands[1].type
        return isinstance(target, Array) and isinstance(value, Array) and target.rank == value.rank and \
            target.dtype == value.dtype and not op.attrs.get("acc") and _is_long(value)
    return derived and OPS[op.name].elementwise and _is_long(op.result.type) and all(
        reader.edges or reader.name == "return" for reader in readers.get(op.result, ()))


def _is_long(t: object) -> bool:
    return isinstance(t, Array) and t.rank > 0 and 1 not in t.dims and (
        None in t.dims or prod(n or 0 for n in t.dims) > SHORT)


class _Tree:
    """The tree of ``root``.  ``inner``: its elementwise ops, without an update of a slice.  ``leaves``: what they read.

    ``value``: what is computed for each element.
    """

    def __init__(self, root: Op, readers: dict[Value, list[Op]], sizes: Sizes) -> None:
        self.root, self.sizes = root, sizes
        self.updates = root.name in ("set_slice", "add_slice")
        self.value = root.operands[1] if self.updates else root.result
        self.rank = self.value.type.rank if isinstance(self.value.type, Array) else 0
        self.inner: set[Op] = set()
        self.leaves: dict[Value, None] = {}
        todo = [self.value]
        while todo:
            v = todo.pop()
            op = v.op
            only = all(r is root or r in self.inner for r in readers.get(v, ())) or op is root
            if op is not None and op.block is root.block and OPS[op.name].elementwise and only and \
                    len(self.inner) < LARGEST and self._has_axes(op):
                self.inner.add(op)
                todo += op.operands
            else:
                self.leaves[v] = None

    def _has_axes(self, op: Op) -> bool:
        """True if the arrays of an op all have the axes of the tree."""
        return OPS[op.name].cost < TRANSCENDENTAL and all(
            not isinstance(v.type, Array) or v.type.rank == self.rank and 1 not in v.type.dims
            for v in (*op.operands, op.result))

    def overlaps(self) -> bool:
        """True if slices of one array are read that begin at different elements."""
        if not self.inner:
            return False
        starts: dict[Value, set[tuple[Value | int, ...]]] = {}
        for leaf in self.leaves:
            if leaf.op is not None and leaf.op.name == "slice":
                starts.setdefault(leaf.op.operands[0], set()).add(_starts(leaf.op.operands[1::3]))
        if self.updates and self.root.operands[0] in starts:
            starts[self.root.operands[0]].add(_starts(self.root.operands[2::2]))
        return any(len(s) > 1 for s in starts.values())

    def specs(self) -> list[tuple[Value, list[Value]]]:
        """The arrays of which the tree reads slices, or updates one, with the starts of the slices."""
        found = [(leaf.op.operands[0], leaf.op.operands[1::3]) for leaf in self.leaves
                 if leaf.op is not None and leaf.op.name == "slice"]
        return [*found, (self.root.operands[0], self.root.operands[2::2])] if self.updates else found

    def starts(self) -> dict[Value, int]:
        """The starts ``minimum(c, n)`` of slices of ``n`` elements, and what they are if a slice has any: ``c``."""
        found: dict[Value, int] = {}
        for array, starts in self.specs():
            for axis, start in enumerate(starts):
                for c, n in _pairs(start, "minimum"):
                    if c.const is not None and c.const >= 0 and self.sizes.are_same(n, (array, axis)):
                        found[start] = int(c.const)
        return found

    def reads(self, array: Value) -> bool:
        """True if a leaf is a part of an array."""
        return any(leaf is array or leaf.op is not None and leaf.op.name == "slice" and leaf.op.operands[0] is array
                   for leaf in self.leaves)

    def may_be_in_place(self) -> bool:
        """False if the array that is updated would have to be copied, most of it for nothing."""
        if not self.updates or not self.reads(self.root.operands[0]) or self.is_ahead():
            return True
        array = next(leaf for leaf in self.leaves if isinstance(leaf.type, Array))
        return all(self._is_nearly_all(array, axis) for axis in range(self.rank))

    def _is_nearly_all(self, array: Value, axis: int) -> bool:
        """True if the slice is all of the updated array but for a few elements, as far as its size tells."""
        target, exact, rest = (self.root.operands[0], axis), self.starts(), 0
        part = self.sizes.of((array, axis))
        while isinstance(part, Value) and (op := part.op) is not None and not self.sizes.are_same(part, target):
            clamped = [y for x, y in _pairs(part, "maximum") if x.const == 0]
            if clamped:
                part = clamped[0]
                continue
            less = exact.get(op.operands[1], op.operands[1].const) if op.name in ("add", "sub") else None
            if less is None:
                return False
            rest += abs(int(less))
            part = op.operands[0]
        return rest <= NARROW and self.sizes.are_same(part, target)

    def is_ahead(self) -> bool:
        """True if each element of the updated array is read no later than it is stored to, in the order of loops."""
        target, exact, forms = self.root.operands[0], self.starts(), AffineForms()

        def form(v: Value) -> Affine:
            return Affine(exact[v]) if v in exact else forms.of(v)
        here = [form(v) for v in self.root.operands[2::2]]
        steps = [*self.root.operands[3::2], *(step for leaf in self.leaves if leaf.op is not None
                                              and leaf.op.name == "slice" for step in leaf.op.operands[3::3])]
        away = [[form(v).minus(h) for v, h in zip(starts, here)] for array, starts in self.specs() if array is target]
        return target not in self.leaves and all(step.const == 1 for step in steps) and all(
            not any(f.terms for f in offsets) and [f.constant for f in offsets] >= [0] * self.rank for offsets in away)


def _pairs(v: Value, name: str) -> list[tuple[Value, Value]]:
    """The operands of an op of this name, in both orders."""
    return [(v.op.operands[0], v.op.operands[1]), (v.op.operands[1], v.op.operands[0])] \
        if v.op is not None and v.op.name == name else []


def _starts(values: Sequence[Value]) -> tuple[Value | int, ...]:
    return tuple(v if v.const is None else int(v.const) for v in values)


def _rewrite(func: Function, tree: _Tree) -> None:
    """Put loops in the place of the root, in the middle of its block."""
    root, block = tree.root, tree.root.block
    assert block is not None and isinstance(root.result.type, Array)
    at = block.ops.index(root)
    behind = func.new_block("after")
    result = behind.add_param(root.result.type)
    behind.ops, block.ops = block.ops[at + 1:], block.ops[:at]
    behind.term, block.term = block.term, None
    for op in behind.all_ops():
        op.block = behind
    b = Builder(block, root.loc)
    sizes = b.dims(next(leaf for leaf in tree.leaves if isinstance(leaf.type, Array)))
    start = _start(b, tree, sizes)
    exact = {v: b.const(c) for v, c in tree.starts().items()}
    trips = [b.maximum(_positive(b, n, exact), 0) for n in sizes]
    b.jump(behind, [_nest(b, tree, start, trips, [], exact)])
    substitute(func, {root.result: result})


def _positive(b: Builder, n: Value, exact: dict[Value, Value]) -> Value:
    """A size without what only serves for short arrays: ``n - 2`` for ``max(max(n - 1, 0) - min(1, n), 0)``.

    It is the same if that is positive, and otherwise is not positive.  ``exact``: values that are not negative, and
    what they are if the size is positive, or else are less than.
    """
    op = n.op
    if op is None or op.name not in ("maximum", "sub", "add"):
        return n
    x, y = op.operands
    if op.name == "maximum":
        return _positive(b, x, exact) if y.const == 0 else _positive(b, y, exact) if x.const == 0 else n
    if op.name == "sub" and (y in exact or (y.const or 0) > 0):
        return b.sub(_positive(b, x, exact), exact.get(y, y))
    return b.add(_positive(b, x, exact), y) if op.name == "add" and (y.const or 0) < 0 else n


def _start(b: Builder, tree: _Tree, sizes: Sequence[Value]) -> Value:
    """The array that the loops update."""
    t = tree.root.result.type
    assert isinstance(t, Array)
    if tree.updates:
        target = tree.root.operands[0]
        start = b.copy(target) if tree.reads(target) and not tree.is_ahead() else target
    else:
        start = b.emit_op("empty", sizes, dtype=t.dtype).result
    return b.as_type(start, type=t) if start.type != t else start


def _nest(b: Builder, tree: _Tree, array: Value, sizes: Sequence[Value], at: list[Value],
          exact: dict[Value, Value]) -> Value:
    """Emit the loops over the elements; returns the array behind them, where the builder is then."""
    enter, skip, head, leave, behind = map(b.func.new_block, ("preheader", "skip", "loop", "exit", "after"))
    i, inside = head.add_param(I64, "it"), head.add_param(array.type, array.hint)
    left, passed = (block.add_param(array.type, array.hint) for block in (leave, behind))
    b.branch(b.lt(0, sizes[len(at)]), enter, [], skip, [])
    for block, v in ((skip, array), (leave, left)):
        b.at(block)
        b.jump(behind, [v])
    b.at(enter)
    b.jump(head, [b.const(0), array])
    b.at(head)
    if len(at) + 1 < len(sizes):
        updated = _nest(b, tree, inside, sizes, [*at, i], exact)
    else:
        updated = _store(b, tree, inside, [*at, i], exact)
    following = b.add(i, 1)
    b.branch(b.lt(following, sizes[len(at)]), head, [following, updated], leave, [updated])
    b.at(behind)
    return passed


def _store(b: Builder, tree: _Tree, array: Value, at: Sequence[Value], exact: dict[Value, Value]) -> Value:
    target = tree.root.operands[0] if tree.updates else array
    now = array if tree.updates and tree.is_ahead() else target       # reads what it has not stored to
    element = _element(b, tree, tree.value, at, exact, {}, {target: now})
    if not tree.updates:
        return b.set(array, element, *at)
    starts, steps = tree.root.operands[2::2], tree.root.operands[3::2]
    there = _places(b, [exact.get(v, v) for v in starts], steps, at)
    if tree.root.name == "add_slice":
        element = b.add(b.get(now, *there), element)
    return b.set(array, element, *there)


def _places(b: Builder, starts: Sequence[Value], steps: Sequence[Value], at: Sequence[Value]) -> list[Value]:
    return [b.add(start, i if step.const == 1 else b.mul(i, step)) for start, step, i in zip(starts, steps, at)]


def _element(b: Builder, tree: _Tree, v: Value, at: Sequence[Value], exact: dict[Value, Value],
             known: dict[Value, Value], moved: dict[Value, Value]) -> Value:
    """Emit the element of ``v`` at the indices ``at``; slices of a key of ``moved`` are read from what it has there."""
    if isinstance(v.type, Scalar):
        return v
    if v in known:
        return known[v]
    op = v.op
    if op is not None and op in tree.inner:
        made = b.emit(op.name, *(_element(b, tree, x, at, exact, known, moved) for x in op.operands), **op.attrs)
    elif op is not None and op.name == "slice":
        a, *spec = op.operands
        made = b.get(moved.get(a, a), *_places(b, [exact.get(v, v) for v in spec[::3]], spec[2::3], at))
    elif op is not None and op.name in ("broadcast_to", "fill") and isinstance(op.operands[0].type, Scalar):
        made = op.operands[0]
    else:
        made = b.get(v, *at)
    known[v] = made
    return made
