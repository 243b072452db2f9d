"""Replaces ``a[i, j] += v`` on zeros, the first access of each element, by ``a[i, j] = v`` on memory not cleared.

The gradient of a loop over arrays has this form: the adjoint of an array begins as zeros, and each iteration adds to
its own elements.  To clear the array and to read it again takes two more passes over memory.

For nested loops in which ``i`` runs from 0 to ``n`` or back, and ``j`` to ``m``::

    a0 = fill(0, n, m)                              a0 = empty(n, m)
    ^loop(i, a):                                    ^loop(i, a):
      … add_at(a, u, i, l) …                          …
      ^inner(j, b): … add_at(b, v, i, j)  becomes     ^inner(j, b): … set(b, v, i, j)
      … add_at(c, w, i, k) …                          … add_at(c, u, i, l) … add_at(d, w, i, k) …

What follows in an iteration may access the elements of this iteration, row ``i``, at will.  Cotangents that are added
before, as that of a label's score, are added behind the inner loop.  If the update is a ``set`` already, as where a
program fills an array of zeros, only the zeros go.

``v + 0`` is stored instead of ``v`` unless the addition may be reordered (``acc``), because 0 + −0 is 0.

If an array may be longer than the outermost loop, the part that the loop does not reach is cleared.  It is mostly
empty.  If the trip count is a constant, that part is mostly large, and the whole array is cleared as before.

Zeros that are left for the path on which the loop has no iteration move there, as do all arrays that only one side of a
branch needs (partial dead code elimination: Knoop, Rüthing, Steffen 1994).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.expression_keys import same
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import Array, Scalar
from ...ir.uses import array_users
from ..analysis.affine import Affine, AffineForms, atom
from ..analysis.cfg import substitute
from ..analysis.loops import Counted, Loop, LoopForest, always_runs, counted, loop_forest

UPDATES = frozenset(("add_at", "set"))


def zero_init_elimination(module: Module) -> None:
    """Rewrite every such nest; expects normal form."""
    for func in module.functions.values():
        updates = [op for op in func.all_ops() if op.name in UPDATES]
        if updates and loop_forest(func).loops:
            search = _Search(func)
            for op in updates:
                nest = search.nest(op)
                if nest is not None:
                    _rewrite(nest, op)
                    for (loop, own), early in search.early.items():
                        _add_behind(loop, own, early, search.readers)
            _sink(func, search.forest)


def _sink(func: Function, forest: LoopForest) -> None:
    """Move each ``fill`` into the block, in the same loop, that dominates all its uses."""
    fills = [op for op in func.all_ops() if op.name == "fill"]
    dom, readers = forest.dom, array_users(func.all_ops()) if fills else {}
    for op in fills:
        here, used = op.block, {r.block for r in readers.get(op.result, ()) if r.block is not None}
        if here is None or not used or here in used:
            continue
        block = next(iter(used))
        while not all(dom.dominates(block, b) for b in used) or forest.loop_of(block) is not forest.loop_of(here):
            above = dom.idom[block]
            assert above is not None
            block = above
        if block is not here:
            here.ops.remove(op)
            op.block = block
            block.ops.insert(0, op)


def first_loads(module: Module) -> bool:
    """Replace the first load of an element that a loop's iterations add to, as ``q[i]`` around a loop that updates it,
    by the value that all elements begin with; returns True if there was one.

    The array is then stored to, as one that a local sum is stored to, and its cotangent is read and cleared only.
    """
    found = False
    for func in module.functions.values():
        loads = [op for op in func.all_ops() if op.name == "get" and op.operands[0].op is None
                 and isinstance(op.result.type, Scalar)]
        if loads and any(op.name == "fill" for op in func.all_ops()):
            search = _Search(func)
            values = {op.result: v for op in loads if (v := search.initial(op)) is not None}
            substitute(func, values)
            found |= bool(values)
    return found


class _Search:
    """Looks for the nests whose iterations access elements of their own."""

    def __init__(self, func: Function) -> None:
        self.forest, self.readers, self.forms = loop_forest(func), array_users(func.all_ops()), AffineForms()
        self.dom: Dominators = self.forest.dom
        self.early: dict[tuple[Loop, Value], list[Op]] = {}      # of the nest found: what is added before an inner loop
        self.known: dict[Loop, Counted] = {loop: k for loop in self.forest.loops if loop.exit is not None
                                           if (k := counted(loop)) is not None}

    def nest(self, op: Op) -> list[tuple[Loop, Value]] | None:
        """The loops around an update, one for each index, with the parameters that carry its array.

        Innermost first.  The update is the first access of each element, and the nest begins with zeros.
        """
        array, at = op.operands[0], op.operands[2:]
        t, block = array.type, op.block
        self.early = {}
        assert isinstance(t, Array) and block is not None
        loop, found = self.forest.loop_of(block), list[tuple[Loop, Value]]()
        if t.rank != len(at) or not isinstance(op.operands[1].type, Scalar):
            return None
        for index in reversed(at):
            if loop not in self.known or array.owner is not loop.head or not self._enumerates(index, self.known[loop]):
                return None
            found.append((loop, array))
            if loop.preheader is None:
                return None
            inner, carried = loop, array
            array, loop = loop.entry_edge().args[array.index], loop.parent
            if loop is not None and len(found) < len(at) and op.attrs.get("acc"):
                if early := self._added(array, loop):
                    self.early[inner, carried] = early
                    array = early[0].operands[0]
        if not _is_fill(array, op) or not self._covers(array, found) or not self._is_always(op, found):
            return None
        axes = range(len(at))
        return found if all(self._own(*level, axis, at[axis]) for level, axis in zip(found, reversed(axes))) else None

    def initial(self, load: Op) -> Value | None:
        """The initial value of the element that ``load`` reads, if nothing has been stored to it before."""
        array, at = load.operands[0], load.operands[1:]
        assert load.block is not None
        loop = self.forest.loop_of(load.block)
        for axis, index in reversed(list(enumerate(at))):
            if loop not in self.known or array.owner is not loop.head or loop.preheader is None or \
                    not self._enumerates(index, self.known[loop]) or not self._own(loop, array, axis, index):
                return None
            array, loop = loop.entry_edge().args[array.index], loop.parent
        return array.op.operands[0] if array.op is not None and array.op.name == "fill" else None

    def _added(self, array: Value, loop: Loop) -> list[Op]:
        """The additions of cotangents, in any order, by which an iteration of ``loop`` comes to ``array``."""
        found: list[Op] = []
        while (op := array.op) is not None and op.name == "add_at" and op.attrs.get("acc") and \
                op.block in loop.blocks and isinstance(op.operands[1].type, Scalar):
            found.append(op)
            array = op.operands[0]
        return found[::-1]

    def _enumerates(self, index: Value, known: Counted) -> bool:
        """True if ``index`` takes each value below the trip count once: it is ``iv``, or ``trip - 1 - iv``."""
        form, last = self.forms.of(index), self.forms.of(known.trip).plus(Affine(-1))
        return form.is_same(atom(known.iv)) or form.is_same(last.minus(atom(known.iv)))

    def _covers(self, array: Value, nest: Sequence[tuple[Loop, Value]]) -> bool:
        """True if the trip counts of inner loops are the sizes; the array may be longer than the outermost loop."""
        assert array.op is not None
        sizes, trips = array.op.operands[1:], [self.known[loop].trip for loop, _ in reversed(nest)]
        return all(map(same, sizes[1:], trips[1:]))

    def _is_always(self, op: Op, nest: Sequence[tuple[Loop, Value]]) -> bool:
        """True if the update is the first access of an iteration of the innermost loop, and always executed there.

        An outer loop must always execute the inner one, unless that has no iteration.
        """
        (loop, array), *_ = nest
        assert op.block is not None and loop.latch is not None
        if not self.dom.dominates(op.block, loop.latch) or any(r is not op and r.name != "dim"
                                                               for r in self.readers[array]):
            return False
        return all(self._is_first(inner, own, outer, carried) and outer.latch is not None
                   and always_runs(self.forest, inner, outer.latch)
                   for (inner, own), (outer, carried) in zip(nest, nest[1:]))

    def _is_first(self, inner: Loop, own: Value, outer: Loop, array: Value) -> bool:
        """True if nothing reads ``array`` in an iteration of ``outer`` that comes to ``inner`` later.

        Additions may move behind ``inner``, if it leaves the array to its exit only.
        """
        moved = self.early.get((inner, own), [])
        arrays = [array, *(x.result for x in moved)]
        assert inner.exit is not None
        if moved and (inner.exit_edge().args.count(inner.back_edge().args[own.index]) != 1
                      or len(self.dom.preds[inner.exit]) != 1):
            return False
        if any(not r.edges and r.name != "dim" and r not in moved for v in arrays for r in self.readers[v]):
            return False
        todo = [e.block for v in arrays for r in self.readers[v] for e in r.edges
                if v in e.args and e.block is not inner.head and e.block in outer.blocks]
        seen = {outer.head, *todo}
        while todo:
            fresh = [b for b in todo.pop().successors() if b in outer.blocks and b not in seen]
            seen.update(fresh)
            todo += fresh
        return inner.head not in seen

    def _own(self, loop: Loop, param: Value, axis: int, index: Value) -> bool:
        """True if an iteration accesses the array at ``index`` only, and passes it on to the next one."""
        form, names, todo = self.forms.of(index), {param}, [param]
        while todo:
            v = todo.pop()
            for op in self.readers.get(v, ()):
                if op.block not in loop.blocks or op.name == "dim":
                    continue
                if op.edges:
                    if v in op.operands or op.name == "call":
                        return False
                    fresh = [p for e in op.edges if e.block in loop.blocks for p, a in e.passed() if a is v]
                elif op.name in UPDATES and op.operands[1] is not v:
                    fresh = [op.result]
                elif op.name == "get":
                    fresh = []
                else:
                    return False
                first = 2 if op.name in UPDATES else 1
                if not op.edges and (len(op.operands) <= first + axis or
                                     not self.forms.of(op.operands[first + axis]).is_same(form)):
                    return False
                todo += [p for p in fresh if p not in names]
                names.update(fresh)
        joins = [p for p in names if p.op is None and p is not param]
        return loop.back_edge().args[param.index] in names and all(
            p.owner is not loop.head and names.issuperset(self.dom.arguments(p)) for p in joins)


def _is_fill(v: Value, op: Op) -> bool:
    """True if ``v`` is an array of +0, or of any number if ``op`` replaces it."""
    if v.op is None or v.op.name != "fill":
        return False
    known = v.op.operands[0].const
    return op.name == "set" or known is not None and known == 0 and math.copysign(1.0, known) > 0


def _rewrite(nest: Sequence[tuple[Loop, Value]], op: Op) -> None:
    outer, p = nest[-1]
    known, entry = counted(outer), outer.entry_edge()
    fill = entry.args[p.index].op
    assert fill is not None and known is not None and outer.preheader is not None and isinstance(p.type, Array)
    b, (n, *sizes) = Builder(outer.preheader, fill.loc), fill.operands[1:]
    if known.trip.const is None or same(n, known.trip):
        zeros = b.emit_op("empty", [n, *sizes], dtype=p.type.dtype).result
        if not same(n, known.trip):
            reached = b.minimum(known.trip, n)
            rest = b.fill(fill.operands[0], b.sub(n, reached), *sizes)
            zeros = b.set_slice(zeros, rest, reached, b.const(1), *[b.const(k) for _ in sizes for k in (0, 1)])
        entry.args[p.index] = b.as_type(zeros, type=p.type)
    if op.name == "add_at":
        if p.type.dtype.is_float and not op.attrs.get("acc"):
            _add_zero(op)
        op.name, op.attrs = "set", {k: v for k, v in op.attrs.items() if k != "acc"}


def _add_behind(loop: Loop, own: Value, early: Sequence[Op], readers: dict[Value, list[Op]]) -> None:
    """Move additions from before a loop, which carries the array in ``own``, behind it."""
    first, last, final = early[0].operands[0], early[-1].result, loop.back_edge().args[own.index]
    assert loop.exit is not None
    left = loop.exit.params[loop.exit_edge().args.index(final)]
    # Without an iteration of the loop the row is empty: there is nothing to add.
    gone = {op.result: first for op in early}
    before = [op for v in gone for op in readers.get(v, ()) if op not in early]
    behind = readers.get(left, [])
    for op in before:
        op.replace_uses(gone)
    for op in behind:
        op.replace_uses({left: last})
    early[0].operands[0] = left
    readers[first] = [op for op in readers[first] if op is not early[0]] + before
    readers |= {op.result: [after] for op, after in zip(early, early[1:])}
    readers[left], readers[last] = [early[0]], behind
    for op in early:
        assert op.block is not None
        op.block.ops.remove(op)
        op.block = loop.exit
    loop.exit.ops[:0] = early


def _add_zero(op: Op) -> None:
    block = op.block
    assert block is not None
    here = block.ops.index(op)
    tail, block.ops = block.ops[here:], block.ops[:here]
    op.operands[1] = Builder(block, op.loc).add(op.operands[1], 0.0)
    block.ops += tail
