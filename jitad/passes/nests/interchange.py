"""Loop interchange: loops that add to array elements again and again move inside, so that each sum is in a register.

In ``for k: for j: s[j] += w[k, j] * x[k]`` every iteration of the loop over ``k`` loads and stores all of ``s``.  The
order in which each element is added up does not depend on the order of the loops, as long as that of ``k`` stays::

    ^loop(k, s):                              ^loop(j, s):
      ^inner(j, t):                             t0 := get(s, j)
        u := add_at(t, v, j)        becomes     ^inner(k, t): … u := add(t, v)
      … again ^loop(k + 1, u)                   again ^loop(j + 1, set(s, u, j))

So are elements that are replaced by what a step or two make of them, as in ``best[i] = min(best[i], d)`` or Horner's
``y[i] = y[i] * x[i] + c[k]``.  Longer steps stay: sixteen elements at a time would wait for them, all of them do not.

The nest is *perfect*: each loop carries the array only, and has nothing beside the next loop but scalars that are
computed from other arrays.  The loops whose counters are indices of the element are *parallel*, the others add up.  The
parallel loops go outside, each group in its order.  A nest of which only the inner loops have this form is handled from
the outermost loop that adds up; what is around it stays.

``outer_loop`` then runs iterations of the innermost parallel loop side by side, in which sums in order are vectors.
So that loop must not be too short, and nothing expensive may be computed in a loop that adds up, around a parallel one:
it would be repeated.

Most nests are interchanged before differentiation.  Those with windows, ``x[i + k]``, are later: the adjoints of
windows overlap, and the gradient of a convolution takes twice as long if the loops over its kernel are inside.
Cotangents (``acc``) are added up so where nothing else is in the nest, as that of the vector in ``a[i, j] * x[j]``.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.clone import clone_op
from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import EXPENSIVE, OPS
from ...ir.types import I64, Array, Scalar
from ...ir.uses import users
from ..analysis.affine import AffineForms
from ..analysis.cfg import own_exit, remove_unreachable
from ..analysis.cost import LANES
from ..analysis.loops import Loop, loop_forest
from .regular import Regular, is_fixed

DEEPEST = 6
"""The most loops of a nest.  A convolution of images has four."""
UPDATES = ("add_at", "set")
LARGE = 2**18
"""The most iterations of a nest of cotangents that is interchanged: rows of a larger matrix are read one by one, as
processors fetch ahead along a row.  A product of 1,000 × 1,000 takes 1.3 times as long by columns of sixteen.
"""
STEPS = 2
"""The most operations on an element that the next one in its place waits for."""


def interchange(module: Module, derived: bool) -> bool:
    """Interchange in every nest of normal form; returns True if there was one.  ``derived``: after differentiation."""
    changed = False
    for func in module.functions.values():
        kept = set[Op]()
        if any(op.name in UPDATES for op in func.all_ops()):
            while _once(func, derived, module.fastmath, kept):
                changed = True
    return changed


def _once(func: Function, derived: bool, fastmath: bool, kept: set[Op]) -> bool:
    """Interchange the nests of a function that do not overlap; returns True if there were any.

    ``kept``: the updates of nests that are left for large arrays.
    """
    regular = Regular(loop_forest(func))
    innermost = [loop for loop in regular.forest.loops
                 if not loop.children and loop.parent is not None and loop.blocks == {loop.head}]
    if not innermost:
        return False
    readers = users(func.all_ops())
    found: list[_Nest] = []
    taken: set[Loop] = set()
    for loop in innermost:
        nest = _nest(regular, loop, readers)
        if nest is None or nest.loops[0] in taken or nest.update in kept:
            continue
        free = bool(nest.update.attrs.get("acc"))
        if (free or not derived) and _has_windows(regular, nest) or free and fastmath and _reads_rows(regular, nest):
            continue
        taken.update(nest.loops)
        found.append(nest)
    for nest in found:
        _rebuild(func, regular, nest)
        kept.add(nest.update)
    if found:
        remove_unreachable(func)
    return bool(found)


@dataclass
class _Nest:
    """A perfect nest, outermost loop first.

    ``carried``: the array as each loop's head receives it.  ``update``: the ``add_at``, or the ``set`` of what is
    computed from the element that ``read`` loads.  ``parallel``: the loops whose counters are its indices.  ``ops``:
    the others of all loops, in order.
    """

    update: Op
    read: Op | None = None
    loops: list[Loop] = field(default_factory=list)
    carried: list[Value] = field(default_factory=list)
    parallel: list[Loop] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    @property
    def order(self) -> list[Loop]:
        """The loops after the interchange."""
        return self.parallel + [x for x in self.loops if x not in self.parallel]


Readers = dict[Value, list[Op]]


def _nest(regular: Regular, inner: Loop, readers: Readers) -> _Nest | None:
    """The nest around an innermost loop that adds to an element, if its loops are to be interchanged."""
    updates = [op for op in inner.head.ops if op.name in UPDATES]
    if len(updates) != 1 or inner not in regular.known:
        return None
    nest = _Nest(updates[0])
    if nest.update.name == "set":
        nest.read = _read(nest.update, readers)
        if nest.read is None:
            return None
    loop: Loop | None = inner
    while loop is not None and len(nest.loops) < DEEPEST and _joins(regular, nest, loop, readers):
        loop = loop.parent
    while nest.loops and regular.known[nest.loops[0]].iv in nest.update.operands[2:]:
        del nest.loops[0], nest.carried[0]                       # parallel loops are outside already
    if len(nest.loops) < 2:
        return None
    nest.parallel = _parallel(regular, nest)
    if not nest.parallel or not _is_rectangular(regular, nest):
        return None
    nest.ops = [op for b in sorted(nest.loops[0].blocks, key=regular.dom.number.__getitem__) for op in b.ops]
    outer = nest.loops[0]
    if any(isinstance(v.type, Array) and v.block in outer.blocks for op in nest.ops
           if op not in (nest.update, nest.read) for v in op.operands):
        return None
    return nest if _pays(regular, nest) else None


def _read(update: Op, readers: Readers) -> Op | None:
    """The load of the element that a ``set`` replaces, if few and cheap operations of its block make the new one."""
    loads = [op for op in readers[update.operands[0]] if op.name == "get" and op.block is update.block]
    if len(loads) != 1 or loads[0].operands[1:] != update.operands[2:]:
        return None
    waiting, todo = set[Op](), [loads[0].result]
    while todo:
        for op in readers.get(todo.pop(), ()):
            if op is not update and op not in waiting:
                if op.edges or op.block is not update.block or not OPS[op.name].elementwise or \
                        OPS[op.name].cost >= EXPENSIVE:
                    return None
                waiting.add(op)
                todo += op.results
    return loads[0] if 0 < len(waiting) <= STEPS else None


def _joins(regular: Regular, nest: _Nest, loop: Loop, readers: Readers) -> bool:
    """Extend the nest by ``loop`` if that carries the array only, and has nothing else but cheap scalars."""
    if loop not in regular.known or len(loop.head.params) != 2 or not regular.only_computes(loop):
        return False
    array = loop.head.params[1]
    inside = nest.loops[0] if nest.loops else None
    if inside is None:
        result = nest.update.result
        if nest.update.operands[0] is not array or loop.back_edge().args[1] is not result:
            return False
        own, allowed = [loop.head], [nest.update, *([nest.read] if nest.read is not None else [])]
    else:
        entered = inside.entry_edge().args[1]
        if loop.children != [inside] or entered is not array or len(inside.exit_edge().args) != 1 or \
                not _merges(regular.dom, loop, inside, loop.back_edge().args[1]):
            return False
        own, allowed = [b for b in loop.blocks if b not in inside.blocks], []
    if any(op not in allowed and op.block in own and op.name not in _EDGES for op in readers.get(array, ())):
        return False
    if not all(op in allowed or _is_scalar(op) for b in own for op in b.ops):
        return False
    if loop.exit_edge().args != [loop.back_edge().args[1]]:
        return False
    nest.loops.insert(0, loop)
    nest.carried.insert(0, array)
    return True


_EDGES = ("jump", "branch")


def _is_scalar(op: Op) -> bool:
    definition = OPS[op.name]
    return not definition.effect and not definition.consumes and all(isinstance(v.type, Scalar) for v in op.results)


def _merges(dom: Dominators, loop: Loop, inside: Loop, v: Value) -> bool:
    """True if ``v`` is what the inner loop leaves, or the array itself where that loop has no iteration."""
    if v is loop.head.params[1]:
        return True
    if v.op is not None or v.block in inside.blocks or v.block not in loop.blocks or v.block is loop.head:
        return False
    if v.block is inside.exit:
        return len(dom.preds[v.block]) == 1 and inside.exit_edge().argument(v) is inside.back_edge().args[1]
    return all(passed is not None and _merges(dom, loop, inside, passed) for passed in dom.arguments(v))


def _parallel(regular: Regular, nest: _Nest) -> list[Loop]:
    """The loops whose counters are indices of the element; none if another index changes in the nest."""
    by_counter = {regular.known[x].iv: x for x in nest.loops}
    at = nest.update.operands[2:]
    array = nest.carried[0].type
    found = [by_counter[v] for v in at if v in by_counter]
    assert isinstance(array, Array)
    whole = len(at) == array.rank and array.dtype.is_float and len(set(found)) == len(found)
    fixed = all(v in by_counter or is_fixed(v, nest.loops[0]) for v in at)
    return [x for x in nest.loops if x in found] if whole and fixed else []


def _is_rectangular(regular: Regular, nest: _Nest) -> bool:
    return all(is_fixed(regular.known[x].trip, nest.loops[0]) and
               (nest.loops[0] is x or regular.always(x.head, nest.loops[0]) is not None) for x in nest.loops)


def _pays(regular: Regular, nest: _Nest) -> bool:
    """True if the innermost parallel loop is long enough for lanes, and nothing expensive would be repeated."""
    trip = regular.known[nest.parallel[-1]].trip.const
    if trip is not None and trip < LANES:
        return False
    forms = AffineForms()
    if nest.read is not None and any(op.name == "get" and _mixes(
            regular, nest, {a for v in op.operands[1:] for a, _ in forms.of(v).terms}) for op in nest.ops):
        return False                                             # each element is read once: rows are read faster
    inner = max(i for i, x in enumerate(nest.loops) if x in nest.parallel)
    return not any(OPS[op.name].cost >= EXPENSIVE for op in nest.ops
                   if nest.loops.index(_loop_of(regular, op)) < inner)


def _has_windows(regular: Regular, nest: _Nest) -> bool:
    """True if a load has a counter of each group in one index, as ``x[i + k]``."""
    forms = AffineForms()
    return any(_mixes(regular, nest, {a for a, _ in forms.of(v).terms})
               for op in nest.ops if op.name == "get" for v in op.operands[1:])


def _reads_rows(regular: Regular, nest: _Nest) -> bool:
    """True if the loops that add up go along rows of a matrix, which LLVM does in vectors under fast math."""
    adding = {regular.known[x].iv for x in nest.loops if x not in nest.parallel}
    return any(op.name == "get" and len(op.operands) > 2 and op.operands[-1] in adding for op in nest.ops)


def _mixes(regular: Regular, nest: _Nest, values: Set[Value]) -> bool:
    """True if there is a counter of each group among ``values``."""
    groups = [{regular.known[x].iv for x in nest.loops if (x in nest.parallel) == one} for one in (True, False)]
    return all(not values.isdisjoint(group) for group in groups)


def _loop_of(regular: Regular, op: Op) -> Loop:
    assert op.block is not None
    return regular.forest.innermost[op.block]


# --- the new nest ---------------------------------------------------------------------------------

def _rebuild(func: Function, regular: Regular, nest: _Nest) -> None:
    """Emit the nest in the new order, and let the preheader enter it if every loop has an iteration."""
    outer = nest.loops[0]
    before, behind = outer.preheader, outer.exit
    assert before is not None and before.term is not None and behind is not None
    entry = outer.entry_edge()
    start = entry.args[1]
    b = Builder(before, nest.update.loc)
    before.term = None
    trips = {x: b.again(regular.known[x].trip) for x in nest.loops}
    if nest.update.attrs.get("acc"):
        _keep_for_large(func, b, outer, entry, trips)
    some = b.const(True)
    for x in nest.loops[1:]:
        some = b.and_(some, b.lt(0, trips[x]))
    enter, skip, leave = func.new_block("preheader"), func.new_block("skip"), func.new_block("exit")
    result = leave.add_param(start.type, nest.carried[0].hint)
    b.branch(some, enter, [], skip, [])
    for end, value in ((skip, start), (leave, result)):
        b.at(end)
        b.jump(behind, [value])
    b.at(enter)
    _Emitter(func, regular, nest, trips).loops(b, start, leave)


def _keep_for_large(func: Function, b: Builder, outer: Loop, entry: Edge, trips: dict[Loop, Value]) -> None:
    """Enter the nest as it was if it is long, and go on with ``b`` if it is not."""
    assert outer.latch is not None and outer.exit is not None
    steps = b.const(1)
    for n in trips.values():
        steps = b.mul(steps, n)
    own_exit(func, outer.latch, outer.exit)
    few, many = func.new_block("few"), func.new_block("many")
    b.branch(b.le(steps, LARGE), few, [], many, [])
    b.at(many)
    b.jump(outer.head, entry.args)
    b.at(few)


def _needed(nest: _Nest) -> set[Op]:
    """The ops of a nest from which the update is computed; the number of the next iteration may be one of them."""
    own, needed, todo = set(nest.ops), set[Op](), [nest.update]
    while todo:
        ops = {v.op for v in todo.pop().operands if v.op is not None and v.op in own} - needed
        needed |= ops
        todo += ops
    return needed


class _Emitter:
    """Emits the loops of ``order``; ``level``: for each value of the nest the loop that it belongs to from now on."""

    def __init__(self, func: Function, regular: Regular, nest: _Nest, trips: dict[Loop, Value]) -> None:
        self.func, self.nest, self.regular, self.trips = func, nest, regular, trips
        self.order = nest.order
        self.values: dict[Value, Value] = {}
        level: dict[Value, int] = {regular.known[x].iv: i for i, x in enumerate(self.order)}
        if nest.read is not None:
            level[nest.read.result] = len(self.order) - 1
        self.ops: list[list[Op]] = [[] for _ in self.order]
        needed = _needed(nest)                                   # the new loops count by themselves
        for op in nest.ops:
            if op is nest.read or op not in needed:
                continue
            at = max((level[v] for v in op.operands if v in level), default=0)
            level.update(dict.fromkeys(op.results, at))
            self.ops[at].append(op)

    def loops(self, b: Builder, start: Value, leave: Block) -> None:
        """Emit all loops, entered from the end of the block of ``b`` with the array ``start``."""
        update, count = self.nest.update, len(self.nest.parallel)
        value, carried = start, start
        heads: list[tuple[Block, Value]] = []
        element: Value | None = None
        array = start
        for depth, loop in enumerate(self.order):
            head = self.func.new_block("loop")
            counter = head.add_param(I64, self.regular.known[loop].iv.hint)
            if depth == count:                                   # the first loop that adds up
                array = value
                element = b.get(value, *(self._here(b, v) for v in update.operands[2:]))
                value = element
            carried = head.add_param(value.type, self.nest.carried[0].hint)
            b.jump(head, [b.const(0), value])
            b.at(head)
            self.values[self.regular.known[loop].iv] = counter
            heads.append((head, counter))
            value = carried
            if self.nest.read is not None:
                self.values[self.nest.read.result] = value
            self._emit(b, depth)
        total = self._here(b, update.operands[1])
        if self.nest.read is None:
            total = b.emit("add", value, total)
        for depth in reversed(range(len(self.order))):
            head, counter = heads[depth]
            following = b.add(counter, b.const(1))
            behind = leave if depth == 0 else self.func.new_block("exit")
            passed = behind.params[0] if depth == 0 else behind.add_param(total.type, self.nest.carried[0].hint)
            b.branch(b.lt(following, self.trips[self.order[depth]]), head, [following, total], behind, [total])
            b.at(behind)
            total = passed
            if depth == count:
                total = b.emit("set", array, total, *(self._here(b, v) for v in update.operands[2:]))

    def _emit(self, b: Builder, depth: int) -> None:
        for op in self.ops[depth]:
            copy = clone_op(op, self.values)
            copy.block = b.block
            b.block.ops.append(copy)

    def _here(self, b: Builder, v: Value) -> Value:
        return self.values[v] if v in self.values else b.again(v)
