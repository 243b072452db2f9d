"""Scalar promotion: an array element that a loop updates in every iteration becomes a carried scalar.

``for k: C[i, j] += a[k] * b[k]`` loads and stores ``C[i, j]`` in each iteration, and the next load waits for the store.
If ``i`` and ``j`` do not change in the loop, and no other element of the array is stored there, the loop carries the
element.  It is read before the loop and stored behind it::

    s0 = get C0, i, j
    ^loop(s)        …  s1 = add s, v
    ^exit(C0, s2)   C1 = set C0, s2, i, j

An update on one side of a branch is promoted too, as that of ``while n < m and s[z[i]] == s[n]: z[i] += 1``, if each
iteration accesses the element anyway, or if it is provably in bounds, as ``y[i, j]`` of a convolution, to which two
loops add, the inner of which may have no iteration.  The array's versions are a parameter of the join; the scalar is
one as well.

Other elements may be read, as in ``for k in range(i): x[i] -= a[i, k] * x[k]``, if their indices provably differ from
that of the element.  The array then no longer changes in the loop, and lanes may run around it.  They may be updated
too, as in a sum over pairs, ``for j in range(i): s[i] += w; s[j] += w``.  Those at indices that do not change in the
loop either are promoted one after the other, as the sums ``s[i, 0]`` to ``s[i, 3]``.

If the additions may be reordered (``acc``), the loop begins at 0 instead, and what it has added up is added behind it.
It may then add to other elements too, at any index: sums of several elements that do not change, as the cotangents of
``p[0]`` and ``p[1]``, are carried each by itself.  What it reads must differ from the element, here as well.

The loop is rotated, so it executes at least once.  A check that fails in the loop raises, and then nobody sees the
array, which belongs to the program.  So the store may move behind the checks.  The first access must not move ahead of
the check of its own index: if a check in the loop depends on nothing that changes there, the loop is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.expression_keys import same
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import Array
from ...ir.uses import array_users, ops_of
from ..analysis.cfg import resolve
from ..analysis.facts import Walk
from ..analysis.loops import Loop, LoopForest, loop_forest, raising_blocks
from .branch_accesses import BoundsWalk

MOST_SUMS = 8
"""The most sums that a loop carries for one array beside other elements, as there are registers for them."""

Readers = dict[Value, list[Op]]
Pair = tuple[Op, Op]
"""An access of an array, and the update of it that determines which element is promoted."""


@dataclass
class Element:
    """The element ``index`` of the array that ``param`` carries.

    ``versions``: the array at the head, after each of the ``updates``, and at the ``joins`` of sides.  Updates of other
    elements may be among them.  ``reads``: the ``get`` ops of the element.  ``others``: accesses of other elements, as
    is still to be proved.  ``guarded``: some iterations do not access it, so that its index is still to be proved in
    bounds.
    """

    param: Value
    index: list[Value]
    versions: dict[Value, None]
    updates: list[Op] = field(default_factory=list)
    joins: list[Value] = field(default_factory=list)
    reads: list[Op] = field(default_factory=list)
    others: list[Op] = field(default_factory=list)
    guarded: bool = False

    @property
    def pairs(self) -> list[Pair]:
        update = next(filter(self.has, self.updates))
        return [(op, update) for op in self.others]

    @property
    def reordered(self) -> bool:
        """True if the loop only adds to the element, in any order."""
        return not self.reads and all(op.name == "add_at" and op.attrs.get("acc") for op in self.updates)

    def has(self, update: Op) -> bool:
        """True if an update is of the element, and not of another one."""
        return all(map(same, update.operands[2:], self.index))


Waiting = list[tuple[Loop, Element]]


def scalar_promotion(module: Module) -> bool:
    """Promote in every loop of normal form, inner loops first; returns True if there is an element to promote."""
    changed = False
    for func in module.functions.values():
        if not any(op.name in ("set", "add_at") for op in func.all_ops()):
            continue
        forest = loop_forest(func)
        left = forest.open_loops()              # what they define is read elsewhere too
        loops = [loop for loop in forest.loops if loop not in left and loop.preheader is not None
                 and loop.exit is not None and len(forest.dom.preds[loop.exit]) == 1]
        apart = _apart(func, [pair for loop in loops if not loop.children
                              for e in _elements(forest, loop)[1] for pair in (*e.pairs, *_later_pairs(loop, e))])
        promoted, waiting = _promote_all(forest, loops, apart, set())
        changed |= promoted
        while waiting:                             # what an inner loop no longer accesses may be next
            inside = _in_bounds(func, waiting)
            promoted, waiting = _promote_all(forest, loops, apart, inside) if inside else (False, [])
            changed |= promoted
            waiting = waiting if promoted else []
    return changed


def _later_pairs(loop: Loop, e: Element) -> list[Pair]:
    """The facts to be proved of elements that may follow ``e``, as ``a[i, 1]`` and ``a[i, 2]`` behind ``a[i, 0]``."""
    fixed = [op for op in e.others if op.name != "get" and not _moves(op, loop)]
    return [(op, update) for update in fixed for op in e.others if op is not update] if len(fixed) < MOST_SUMS else []


def _promote_all(forest: LoopForest, loops: list[Loop], apart: set[Pair], inside: set[Value]) -> tuple[bool, Waiting]:
    """Promote elements; returns True if there were any, and the elements that would have to be in bounds.

    ``inside``: the parameters of arrays for which that is known.
    """
    changed, waiting = False, Waiting()
    for loop in loops:
        ops, found = _elements(forest, loop)
        while found:
            waiting += ((loop, e) for e in found if e.guarded and e.param not in inside)
            chosen = [e for e in found if apart.issuperset(e.pairs) and (not e.guarded or e.param in inside)]
            for e in chosen:
                _promote(ops, loop, e)
                changed = True
            more = any(not all(map(e.has, e.updates)) for e in chosen)
            ops, found = _elements(forest, loop) if more else (ops, [])
    return changed, waiting


def _elements(forest: LoopForest, loop: Loop) -> tuple[list[Op], list[Element]]:
    """The ops of a loop, and the elements of carried arrays that may be promoted."""
    arrays = [p for p in loop.head.params if isinstance(p.type, Array)]
    if not arrays or _has_invariant_check(forest, loop):
        return [], []
    ops = list(ops_of(loop.region(raising_blocks(forest.dom))))
    readers = array_users(ops)
    return ops, [e for p in arrays if (e := _element(forest, loop, p, readers)) is not None]


def _has_invariant_check(forest: LoopForest, loop: Loop) -> bool:
    """True if a check in the loop has a condition that no iteration changes.  Sizes of arrays never change."""
    varying: set[Value] = {p for b in loop.blocks for p in b.params}
    for block in forest.dom.in_order(loop.blocks):
        for op in block.ops:
            if op.name == "check" and op.operands[0] not in varying:
                return True
            if op.name != "dim" and any(v in varying for v in op.operands):
                varying.update(op.results)
    return False


def _element(forest: LoopForest, loop: Loop, p: Value, readers: Readers) -> Element | None:
    """The only element of a carried array that the loop updates, or ``None``."""
    found = Element(p, [], {p: None})
    gets = _follow(loop, found, readers)
    fixed = [op for op in found.updates if not _moves(op, loop)]
    if gets is None or not fixed or not _arrive(forest, loop, found):
        return None
    found.index = fixed[0].operands[2:]
    for op in gets:
        (found.reads if all(map(same, op.operands[1:], found.index)) else found.others).append(op)
    found.guarded = bool(found.joins) and not any(
        _is_always_executed(forest, loop, op) for op in (*found.reads, *fixed))
    strange = [op for op in found.updates if not found.has(op)]
    if strange and found.reordered:
        elements = {tuple(v if v.const is None else v.const for v in op.operands[2:]) for op in fixed}
        return found if not found.joins and len(elements) <= MOST_SUMS else None
    found.others += strange
    return None if strange and found.joins else found


def _follow(loop: Loop, found: Element, readers: Readers) -> list[Op] | None:
    """Collect the versions of the array, its updates and joins; returns the loads, or ``None`` if it is read otherwise.
    """
    gets, todo = list[Op](), [found.param]
    while todo:
        version = todo.pop()
        for op in readers.get(version, ()):
            if op.edges:
                joins = _joins(op, version, loop, found.param)
                if joins is None:
                    return None
                todo += (q for q in joins if q not in found.versions)
                found.joins += (q for q in joins if q not in found.versions)
                found.versions.update(dict.fromkeys(joins))
            elif op.name == "get" and _is_access(op, version, found):
                gets.append(op)
            elif op.name != "dim":
                if not _is_access(op, version, found):
                    return None
                found.updates.append(op)
                found.versions[op.result] = None
                todo.append(op.result)
    return gets


def _joins(term: Op, version: Value, loop: Loop, param: Value) -> list[Value] | None:
    """The parameters in the loop, but for the head's own, to which a terminator passes a version."""
    if version in term.operands:
        return None
    passed = [(e.block, q) for e in term.edges for q, a in e.passed() if a is version and e.block is not loop.exit]
    if any(block not in loop.blocks or block is loop.head and q is not param for block, q in passed):
        return None
    return [q for block, q in passed if block is not loop.head]


def _arrive(forest: LoopForest, loop: Loop, found: Element) -> bool:
    """True if nothing but versions of the array comes to its parameters in the loop."""
    return loop.back_edge().argument(found.param) in found.versions and all(
        a in found.versions for q in found.joins if q.op is None for a in forest.dom.arguments(q))


def _is_always_executed(forest: LoopForest, loop: Loop, op: Op) -> bool:
    return op.block is not None and loop.latch is not None and forest.dom.dominates(op.block, loop.latch)


def _is_access(op: Op, version: Value, found: Element) -> bool:
    """True if ``op`` reads or updates one element of a version."""
    if op.name not in ("get", "set", "add_at") or op.operands[0] is not version:
        return False
    at = op.operands[1 if op.name == "get" else 2:]
    assert isinstance(found.param.type, Array)
    return len(at) == found.param.type.rank and not any(v in found.versions for v in op.operands[1:])


def _moves(update: Op, loop: Loop) -> bool:
    """True if the index of an update changes in the loop."""
    return any(v.block in loop.blocks and v.const is None for v in update.operands[2:])


def _apart(func: Function, pairs: list[Pair]) -> set[Pair]:
    """The pairs whose indices provably differ in one axis, wherever the first op is executed."""
    if not pairs:
        return set()
    proofs = _Apart(func, pairs)
    proofs.run()
    return proofs.proved


class _Apart(Walk):
    """Proves that an element that is read or updated is not the one that is to be promoted."""

    def __init__(self, func: Function, pairs: list[Pair]) -> None:
        super().__init__(func)
        self.goals: dict[Op, list[Op]] = {}
        for read, update in pairs:
            self.goals.setdefault(read, []).append(update)
        self.proved: set[Pair] = set()

    def op(self, op: Op) -> bool:
        for update in self.goals.get(op, ()):
            if any(map(self.are_apart, op.operands[1 if op.name == "get" else 2:], update.operands[2:])):
                self.proved.add((op, update))
        return super().op(op)


def _in_bounds(func: Function, waiting: Waiting) -> set[Value]:
    """The parameters of those elements that are provably in bounds ahead of their loops."""
    proofs = _InBounds(func, waiting)
    proofs.run()
    return proofs.proved


class _InBounds(BoundsWalk):
    """Proves at the ends of preheaders that elements are in bounds."""

    def __init__(self, func: Function, waiting: Waiting) -> None:
        super().__init__(func)
        self.goals: dict[Block | None, Waiting] = {}
        for loop, e in waiting:
            self.goals.setdefault(loop.preheader, []).append((loop, e))
        self.proved: set[Value] = set()

    def end(self, block: Block) -> None:
        for loop, e in self.goals.get(block, ()):
            array = loop.entry_edge().argument(e.param)
            if array is not None and self.in_bounds(array, e.index):
                self.proved.add(e.param)


def _promote(ops: list[Op], loop: Loop, e: Element) -> None:
    """Promote an element; ``ops`` are those of the loop."""
    entry, back, leaving = loop.entry_edge(), loop.back_edge(), loop.exit_edge()
    array, last = entry.argument(e.param), back.argument(e.param)
    assert array is not None and last is not None
    index, start = _before(loop, e, array)
    s = loop.head.add_param(start.type, e.param.hint)
    entry.args.append(start)
    joined = {q: Value(start.type, q.owner, q.index, e.param.hint) for q in e.joins}
    values = {e.param: s} | joined
    mapping: dict[Value, Value] = dict.fromkeys(e.joins, e.param)
    for op in e.updates:
        before, version = op.operands[0], op.result
        if e.has(op):
            values[version] = _scalar_update(op, values[before], ops)
            mapping[version] = before
        else:
            values[version] = values[before]
    for op in e.reads:
        assert op.block is not None
        op.block.ops.remove(op)
        mapping[op.result] = values[op.operands[0]]
    back.args.append(values[last])
    for edge in [edge for op in ops for edge in op.edges] if joined else ():
        edge.args = [values[a] if q in joined else a for q, a in edge.passed()]
    for q, scalar in joined.items():
        assert isinstance(q.owner, Block)
        q.owner.params[q.index] = scalar
    _store_behind(leaving, e, values, index)
    for v in list(mapping):
        resolve(mapping, v)
    for op in ops:
        op.replace_uses(mapping)


def _before(loop: Loop, e: Element, array: Value) -> tuple[list[Value], Value]:
    """Emit, before the loop, the constants of the index, and the element with which the loop begins."""
    preheader = loop.preheader
    assert preheader is not None and isinstance(e.param.type, Array)
    term, preheader.term = preheader.term, None
    b = Builder(preheader, e.updates[0].loc)
    index = [b.again(v) for v in e.index]
    start = b.const(0.0, e.param.type.dtype) if e.reordered else b.get(array, *index)
    preheader.term = term
    return index, start


def _scalar_update(op: Op, s: Value, ops: list[Op]) -> Value:
    """The element after ``op``: what is stored, or the sum, which takes the place of ``op`` and joins ``ops``."""
    block = op.block
    assert block is not None
    at = block.ops.index(op)
    if op.name == "set":
        del block.ops[at]
        return op.operands[1]
    attrs = {"acc": True} if op.attrs.get("acc") else {}
    total = Op("add", [s, op.operands[1]], [s.type], attrs, loc=op.loc)
    total.block = block
    block.ops[at] = total
    ops.append(total)
    return total.result


def _store_behind(leaving: Edge, e: Element, values: dict[Value, Value], index: list[Value]) -> None:
    """Emit the store of the element at the start of the block behind the loop, for each version that goes there."""
    behind = leaving.block
    for q, version in list(leaving.passed()):
        if version not in values:
            continue
        element = behind.add_param(values[version].type, e.param.hint)
        leaving.args.append(values[version])
        array = behind.params[q.index] = Value(q.type, behind, q.index, q.hint)
        op = Op("add_at" if e.reordered else "set", [array, element, *index], [q.type],
                {"acc": True} if e.reordered else {}, loc=e.updates[0].loc)
        op.define(q)                        # its readers, anywhere in the function, read what is stored
        op.block = behind
        behind.ops.insert(0, op)
