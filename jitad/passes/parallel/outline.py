"""Outlines loops with independent iterations into functions, which several threads may call.

A loop over ``0 … n − 1`` becomes a function ``@f.loop(first, end, carried…, captured…) -> (carried…, last…)``, which
executes the iterations from ``first`` to before ``end``.  (On a CPU its last parameter is the time that the whole loop
takes, which it does not read: the lowering does.)  A call over [0, m), followed by a call over [m, n) with its
results, is equal to a call over [0, n).  An estimate of the time that the loop takes decides whether it pays to wake
the threads (``duration.py``).  Otherwise the loop runs as it is, in the code around it::

    branch time >= ENOUGH, ^threads, ^alone
    ^threads:  call @f.loop(0, n, …, time) {threads, uneven}
    ^alone:    jump ^loop(0, …)

A loop in a serial one may be short, and run often (``serial_copy.py``).

Attributes of the call:

* ``threads``: the role of each result (``independence.py``), by which the lowering may divide the range between threads
  and combine the results (``lowering/threads/parallel_calls.py``);
* ``uneven``: the iterations probably take different times.

The attribute ``wide`` of a function tells that a loop of the function that it was a part of calls vector functions:
all parts use the vectors that the whole would use.

For a GPU (``module.gpu``) there is the call only, and loops of few iterations stay.  Its attribute ``left`` is
the number of results at the end that are not carried, ``shared`` tells that several threads may share an iteration
(``share_inner.py``).

Of nested loops, the outermost independent one is outlined.
"""

from __future__ import annotations

from ...errors import Loc
from ...ir.builder import Builder
from ...ir.clone import clone_blocks, clone_op
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, Array, Scalar, Type
from ...ir.uses import ops_of
from ..analysis.cfg import own_exit
from ..analysis.loops import Counted, Loop, LoopForest, counted, loop_forest, raising_blocks
from ..analysis.sizes import Solver
from .duration import ENOUGH, MOST, Duration, is_brief
from .independence import Dependent, Independence
from .rows_in_place import rows_in_place
from .serial_copy import serial_copies
from .share_inner import share_inner

MOST_ITERATIONS = 1 << 48
"""A bound of the trip count, with which index windows cannot wrap (``independence.LARGEST_STEP``)."""
LONGEST = 8
"""The longest chain of integer ops that the function computes again."""
_INTEGER = frozenset("add sub mul minimum maximum lt le gt ge eq ne and or".split())
FEW = 32
"""A loop of fewer iterations is no kernel of its own: it would not fill one warp."""
ELEMENT = 2_000
"""The time for one element of an array that each thread has of its own, in picoseconds: it is cleared and added once
for each thread, beyond the caches."""


def outline(module: Module) -> None:
    """Outline every such loop; expects normal form: loops are rotated and closed and have a preheader.

    Adds a note to ``module.notes`` for each loop, with its roles or the reason why it is not outlined.
    """
    if module.gpu:
        rows_in_place(module)
    for func in list(module.functions.values()):
        forest, before = loop_forest(func), len(module.functions)
        todo, sizes, tests = list(forest.roots), Solver(func), list[Block]()
        wide = any(_is_function(op) for b in func.blocks if forest.loop_of(b) is not None for op in b.ops)
        while todo:
            loop = todo.pop()
            try:
                tests += _Outliner(module, func, forest, loop, sizes).run()
            except Dependent as reason:
                at = f", line {reason.loc.line}" if reason.loc.line else ""
                module.notes.append((_loc(loop, func), f"one thread: {reason.reason}{at}"))
                todo += loop.children
        if tests:
            serial_copies(func, tests)
        parts = list(module.functions.values())[before:]
        if wide and parts:
            for part in (func, *parts):
                part.attrs["wide"] = True


def _is_function(op: Op) -> bool:
    """True for an op that is a vector function in loops, for which the lowering makes all loops of a function wide."""
    return op.name in OPS and OPS[op.name].vector


def _loc(loop: Loop, func: Function) -> Loc:
    """The source position of a loop in the user's program."""
    ends = [b.term for b in (loop.latch, loop.head) if b is not None and b.term is not None]
    return next((op.loc for op in ends if op.loc.line), func.loc)


class _Outliner:
    """Replaces one loop by a function and two calls of it; raises ``Dependent`` if it is not independent."""

    def __init__(self, module: Module, func: Function, forest: LoopForest, loop: Loop, sizes: Solver) -> None:
        self.module, self.func, self.forest, self.loop, self.sizes = module, func, forest, loop, sizes
        known = counted(loop)
        if known is None or loop.exit is None:
            raise Dependent("it may end early, or nobody knows before it how long it is", _loc(loop, func))
        if module.gpu and known.trip.const is not None and known.trip.const < FEW:
            raise Dependent("it has few iterations", _loc(loop, func))
        if not module.gpu and is_brief(forest, loop, known.trip, ENOUGH):
            raise Dependent("it is short", _loc(loop, func))
        self.known: Counted = known
        self.region = loop.region(raising_blocks(forest.dom))
        outside = (op for b in func.blocks if b not in self.region for op in b.all_ops())
        if any(v.block in self.region for op in outside for v in op.used()):
            raise Dependent("other code reads what it computes", _loc(loop, func))
        inside = ops_of(forest.dom.in_order(self.region))
        self.read = dict.fromkeys(v for op in inside for v in op.used() if v.block not in self.region)
        self.roles = Independence(loop, known, self.region).roles()
        self.carried = list(self.roles)
        self.left = self._left()
        self.extents = {} if module.gpu else self._extents()

    def _extents(self) -> dict[Value, tuple[int, int]]:
        """Captured numbers that are sizes of carried arrays: the function takes them from there, and they are not
        negative.
        """
        found: dict[Value, tuple[int, int]] = {}
        for i, p in enumerate(self.carried):
            init = self.loop.entry_edge().args[p.index]
            for axis in range(p.type.rank if isinstance(p.type, Array) else 0):
                size = self.sizes.size((init, axis))
                if isinstance(size, Value) and size in self.read and not self._is_made_again(size):
                    found.setdefault(size, (i, axis))
        return found

    def _left(self) -> list[Value]:
        """The results of the last iteration that are used after the loop and are not carried."""
        back = self.loop.back_edge().args
        finals = {back[p.index] for p in self.carried} | {self.known.next}
        left = [a for a in dict.fromkeys(self.loop.exit_edge().args) if a not in finals and a.block in self.region]
        for v in (*left, *(p for p, role in self.roles.items() if role == "last")):
            if isinstance(v.type, Array):
                raise Dependent("an array that the last iteration makes is used after it", _loc(self.loop, self.func))
        return left

    def run(self) -> list[Block]:
        """Outline the loop; returns the block of the test, if the loop is in a serial one."""
        position = _loc(self.loop, self.func)
        captured = self._captured()
        body = self._body(captured)
        b = Builder(self.loop.preheader, position)
        assert self.loop.preheader is not None and self.loop.exit is not None
        entry, exit_args = list(self.loop.entry_edge().args), list(self.loop.exit_edge().args)
        exit = self.loop.exit
        inits = [entry[p.index] for p in self.carried]
        enough, time = (None, []) if self.module.gpu else self._pays(b, inits)
        self.loop.preheader.term = None
        args = [b.const(0), self.known.trip, *inits, *captured, *time]
        shared = self.module.gpu and not self.left and all(
            role == "each" for role in self.roles.values()) and share_inner(body, len(self.carried))
        if shared:
            args += map(b.const, (0, 1))
        before = self.loop.preheader
        if enough is not None:
            own_exit(self.func, _latch(self.loop), exit)
            self._test(b, enough, entry)
        results = self._call(b, body, args, shared)
        finals = dict(zip([*(self.loop.back_edge().args[p.index] for p in self.carried), *self.left], results))
        finals[self.known.next] = self.known.trip
        b.jump(exit, [finals.get(a, a) for a in exit_args])
        if enough is None:
            self.func.blocks = [x for x in self.func.blocks if x not in self.region]
        roles = ", ".join(f"{p.hint or 'value'}: {role}" for p, role in self.roles.items())
        self.module.notes.append((position, f"several threads{': ' if roles else ''}{roles}"))
        return [before] if enough is not None and self.loop.parent is not None else []

    def _captured(self) -> list[Value]:
        """The values from outside that the loop reads, except those that the function computes again."""
        return [v for v in self.read if not _is_literal(v) and v not in self.extents and not self._is_made_again(v)]

    def _is_made_again(self, v: Value, depth: int = LONGEST) -> bool:
        """True for a size of a captured array, and for integers and conditions that such values give.

        They would take registers, and LLVM would not know that ``n > 0`` is a condition on a trip count.
        """
        op = v.op
        if op is None or self.module.gpu or not depth:
            return False
        if op.name == "dim":
            return op.operands[0] in self.read
        return op.name in _INTEGER and isinstance(v.type, Scalar) and not v.type.is_float and all(
            _is_literal(x) or x in self.read and isinstance(x.type, Scalar) or self._is_made_again(x, depth - 1)
            for x in op.operands)

    # --- the function -------------------------------------------------------------------------------

    def _body(self, captured: list[Value]) -> Function:
        loop, known = self.loop, self.known
        kinds: list[Type] = [I64, I64, *(p.type for p in self.carried), *(v.type for v in captured)]
        results = [*(p.type for p in self.carried), *(v.type for v in self.left)]
        hints = ["first", "end", *(p.hint for p in self.carried), *(v.hint for v in captured)]
        if not self.module.gpu:
            kinds, hints = [*kinds, I64], [*hints, "time"]
        body = self.module.add(Function(self.module.unique_name(f"{self.func.name}.loop"), kinds, results, hints))
        body.loc, body.attrs["threads"] = _loc(loop, self.func), True
        body.own = {2 + i for i, p in enumerate(self.carried) if isinstance(p.type, Array)}    # updated in place
        first, end, *rest = body.params
        inits, values = rest[:len(self.carried)], dict(zip(captured, rest[len(self.carried):]))
        b = Builder(body.entry, body.loc)
        values |= {v: b.dim(inits[i], axis=axis) for v, (i, axis) in self.extents.items()}
        for v in self.read:
            self._make_again(b, v, values)
        count = b.sub(end, first)
        blocks = clone_blocks(self.forest.dom.in_order(self.region), body, values)
        head, latch, done = blocks[loop.head], blocks[_latch(loop)], body.new_block("done")
        entry_args = iter(inits)
        b.jump(head, [b.const(0) if p is known.iv else next(entry_args) for p in loop.head.params])
        self._count(head, latch, first, count, values)
        assert latch.term is not None
        back, leave = latch.term.edges
        leave.block = done
        leave.args = [back.args[p.index] for p in self.carried] + [values[v] for v in self.left]
        b.at(done)
        b.ret([done.add_param(v.type) for v in leave.args])
        return body

    def _make_again(self, b: Builder, v: Value, values: dict[Value, Value]) -> Value:
        """Define a value from outside in the function, unless it is passed."""
        if v not in values:
            if v.op is None or _is_literal(v):
                values[v] = b.undef(v.type) if v.const is None else b.again(v)
            else:
                given = {x: self._make_again(b, x, values) for x in v.op.operands}
                assert b.block is not None
                copy = clone_op(v.op, given)
                copy.block = b.block
                b.block.ops.append(copy)
                values[v] = copy.result
        return values[v]

    def _count(self, head: Block, latch: Block, first: Value, count: Value, values: dict[Value, Value]) -> None:
        """Let the copy count from 0 to ``count``.

        Other uses of its counter, also after the loop, read the number of the iteration: ``first`` plus the counter.
        """
        it = head.params[self.known.iv.index]
        number = Op("add", [first, it], [I64], loc=latch.func.loc)
        number.block = head
        for block in head.func.blocks:
            for op in block.all_ops():
                op.replace_uses({it: number.result})
        head.ops.insert(0, number)
        values[self.known.iv] = number.result
        b, term = Builder(latch, latch.func.loc), latch.term
        assert term is not None
        following = b.emit_op("add", [it, b.const(1)]).result
        term.edges[0].args[self.known.iv.index] = following
        term.operands[0] = b.emit_op("lt", [following, count]).result

    # --- the calls ------------------------------------------------------------------------------------

    def _pays(self, b: Builder, inits: list[Value]) -> tuple[Value, list[Value]]:
        """Emit the test that the loop takes long enough for several threads; returns it, and the time."""
        least = b.const(ENOUGH)
        for p, init in zip(self.carried, inits):
            if isinstance(p.type, Array) and self.roles[p] != "each":
                time = b.const(ELEMENT)
                for n in b.dims(init):
                    time = b.mul(time, b.minimum(n, MOST))
                least = b.add(least, time)
        trip = self.known.trip
        each = Duration(b, self.forest, self.loop, self.sizes, self.module.fastmath).of_iteration()
        time = b.mul(b.minimum(trip, MOST), each)
        return b.and_(b.ge(time, least), b.and_(b.gt(trip, 1), b.lt(trip, MOST_ITERATIONS))), [time]

    def _test(self, b: Builder, enough: Value, entry: list[Value]) -> None:
        """Emit the test, before the loop itself and the call, where the builder continues."""
        many, one, before = self.func.new_block("threads"), self.func.new_block("alone"), b.block
        b.branch(enough, many, [], one, [])
        assert before is not None and before.term is not None
        if self.loop.parent is not None:
            before.term.attrs["rare"] = True                 # what the loop itself needs stays in registers
        b.at(one)
        b.jump(self.loop.head, entry)
        b.at(many)

    def _call(self, b: Builder, body: Function, args: list[Value], shared: bool) -> list[Value]:
        """Emit the call, and place the builder behind it; returns the results."""
        block = b.block
        results = b.call_then(body.name, args, body.result_types)
        assert block is not None and block.term is not None
        attrs = block.term.attrs
        attrs["threads"] = (*self.roles.values(), *["last"] * len(self.left))
        if self.module.gpu:
            attrs["left"] = len(self.left)
            if shared:
                attrs["shared"] = True
        elif self._is_uneven():
            attrs["uneven"] = True
        return results

    def _is_uneven(self) -> bool:
        """True if the trip count of an inner loop varies, in which case it probably grows or shrinks."""
        lengths = [known.trip for known in map(counted, self.loop.children) if known is not None]
        return any(v.block in self.loop.blocks and v.const is None for v in lengths)


def _latch(loop: Loop) -> Block:
    assert loop.latch is not None
    return loop.latch


def _is_literal(v: Value) -> bool:
    return v.const is not None or v.undefined
