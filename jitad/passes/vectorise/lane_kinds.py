"""The kinds of values in a loop of which ``LANES`` iterations execute together (``outer_loop.py``).

* *uniform*: the same in all lanes, and unchanged.  All control flow must be uniform.
* *rising*, *falling*: the loop's counter, or its negative, plus a uniform value.  It stays one i64, the first lane's.
* *varying*: different in each lane.  A scalar becomes an array of lanes, an array gets an additional last axis.
* *shared*: an array that the loop carries, adds to or stores to.  All lanes update the same array.
* *collected*: a carried sum that inner loops continue, in order: the terms are stored, and added up behind the chunk.

All lanes execute an op before the next op.  So if two lanes could store to one element, the value that stays might not
be the last iteration's.  Each lane must therefore store to elements of its own (``_check_elements``), and it may read
no others, except in rows to which the loop does not store (``alpha[t - 1, r]`` beside ``alpha[t, s] = …``).

Raises ``NoLanes`` if a value has none of these kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations_with_replacement

from ...ir.graph import Block, Edge, Op, Value
from ...ir.ops import OPS
from ...ir.types import BOOL, I64, Array, Scalar, Type
from ...ir.uses import ops_of, users
from ..analysis.affine import Affine, AffineForms, stays_beyond
from ..analysis.loops import Counted, Loop, LoopForest, counted

UNIFORM, RISING, FALLING, VARYING, SHARED, COLLECTED = (
    "uniform", "rising", "falling", "varying", "shared", "collected")
STEP = {RISING: 1, FALLING: -1}
"""The difference from one lane to the next."""
UPDATES = frozenset(("set", "add_at", "add_slice"))
"""The ops that may update a shared array."""
TESTS = frozenset("lt le gt ge eq ne and or not add sub mul neg select minimum maximum const".split())
"""What the conditions consist of that are tested ahead of a chunk."""


class NoLanes(Exception):
    """The iterations of the loop cannot execute together."""


class Kinds:
    """The kind of each value: ``of[value]``, uniform if absent.

    ``blocks``: those of the loop, definitions before uses.  ``pushed``: types of a stack frame → the positions of its
    varying values.  ``sums``: carried scalars that are only added to or subtracted from → these ops of one iteration,
    in order.  ``collected``: carried sums that inner loops continue → the additions.  ``reads_shared``: elements of
    shared arrays are read.  ``names``: a value of a shared array → the parameter of the loop that it comes from.
    """

    def __init__(self, forest: LoopForest, loop: Loop, known: Counted, blocks: list[Block]) -> None:
        self.forest, self.loop, self.blocks, self.known = forest, loop, blocks, known
        self.of: dict[Value, str] = {known.iv: RISING}
        self.pushed: dict[tuple[Type, ...], set[int]] = {}
        self.sums: dict[Value, list[Op]] = {}
        self.collected: dict[Value, list[Op]] = {}
        self.users = users(ops_of(blocks))
        self.forms = AffineForms()
        for p, back in zip(loop.head.params, loop.back_edge().args):
            if p is known.iv:
                continue
            if isinstance(p.type, Array):
                self.of[p] = SHARED
            elif (adds := self._additions(p, back)) is not None:
                self.sums[p] = adds
            else:
                self.collected[p] = self._continued(p, back)
        self.adding = {op for ops in (*self.sums.values(), *self.collected.values()) for op in ops}
        self._spread()
        self._check_elements()

    def __getitem__(self, v: Value) -> str:
        return self.of.get(v, UNIFORM)

    def _additions(self, p: Value, back: Value) -> list[Op] | None:
        """The chain of additions to, and subtractions from, a carried number up to its next value.

        ``None`` for any other use.
        """
        found: list[Op] = []
        v = p
        while v is not back:
            readers = self.users.get(v, [])
            if len(readers) != 1 or not self._adds_to(readers[0], v):
                return None
            op = readers[0]
            assert op.block is not None
            if not self._runs_once(op.block):
                return None
            found.append(op)
            v = op.result
        return None if any(op.name != "branch" for op in self.users.get(v, [])) else found

    def _adds_to(self, op: Op, v: Value) -> bool:
        """True for an addition to the number ``v``, or a subtraction from it."""
        return op.name in ("add", "sub") and op.operands.count(v) == 1 and (op.name == "add" or op.operands[0] is v) \
            and isinstance(v.type, Scalar) and not v.type.is_bool

    def _continued(self, p: Value, back: Value) -> list[Op]:
        """The additions to a carried sum that goes through parameters of other blocks, which are of the sum always.

        Raises ``NoLanes`` for any other use.
        """
        adds: dict[Op, None] = {}
        values, todo = {p}, [p]
        while todo:
            v = todo.pop()
            found: list[Value] = []
            for op in self.users.get(v, ()):
                if self._adds_to(op, v):
                    adds[op] = None
                    found.append(op.result)
                elif v in op.operands:
                    raise NoLanes
                found += [q for edge in op.edges for q, a in edge.passed() if a is v and edge.block in self.loop.blocks]
            todo += [q for q in dict.fromkeys(found) if q not in values]
            values.update(found)
        passed = [(q, a) for b in self.blocks for edge in (b.term.edges if b.term else ())
                  if edge.block in self.loop.blocks for q, a in edge.passed()]
        if back not in values or values & set(self.loop.head.params) != {p} or \
                any((q in values) != (a in values) for q, a in passed) or \
                any(sum(x in values for x in op.operands) != 1 for op in adds):
            raise NoLanes
        self.of |= dict.fromkeys(values, COLLECTED)
        return list(adds)

    def _runs_once(self, block: Block) -> bool:
        """True if each iteration executes a block exactly once."""
        assert self.loop.latch is not None
        return self.forest.innermost[block] is self.loop and self.forest.dom.dominates(block, self.loop.latch)

    # --- kinds ----------------------------------------------------------------------------------------

    def _spread(self) -> None:
        """Propagate kinds to a fixed point.

        A kind changes from uniform to rising or falling, then to varying; or from uniform to shared.
        """
        self.moved = True
        while self.moved:
            self.moved = False
            for block in self.blocks:
                for op in block.ops:
                    if op not in self.adding:
                        self._op(op)
                if block is not self.loop.latch:
                    for edge in block.term.edges if block.term else ():
                        self._edge(edge)

    def _op(self, op: Op) -> None:
        kinds = [self[v] for v in op.operands]
        if any(v in self.sums for v in op.operands):
            raise NoLanes
        if SHARED in kinds:
            return self._shared(op, kinds)
        if op.name in ("push", "pop"):
            return self._frame(op, kinds)
        if all(k == UNIFORM for k in kinds) or op.name == "dim" or not op.results:
            return
        self._note(op.results, _step(op, kinds) or VARYING)

    def _shared(self, op: Op, kinds: list[str]) -> None:
        """An op with a shared array must update it, read an element, or take its size."""
        if op.name == "dim":
            return
        if op.name == "get" and isinstance(op.result.type, Scalar) and SHARED not in kinds[1:]:
            return self._note(op.results, UNIFORM if all(k == UNIFORM for k in kinds[1:]) else VARYING)
        if op.name not in UPDATES or kinds[0] != SHARED or SHARED in kinds[1:]:
            raise NoLanes
        self._note(op.results, SHARED)

    def _frame(self, op: Op, kinds: list[str]) -> None:
        values = op.operands[1:] if op.name == "push" else op.results[1:]
        vary = self.pushed.setdefault(tuple(v.type for v in values), set())
        if op.name == "push":
            new = {i for i, k in enumerate(kinds[1:]) if k != UNIFORM} - vary
            vary |= new
            self.moved |= bool(new)
        else:
            self._note((values[i] for i in vary), VARYING)

    def _edge(self, edge: Edge) -> None:
        for p, a in edge.passed():
            if a in self.sums:
                raise NoLanes
            if self[a] not in (UNIFORM, COLLECTED):
                self._note([p], SHARED if self[a] == SHARED else VARYING)

    def _note(self, values: Iterable[Value], kind: str) -> None:
        for v in values:
            have = self[v]
            if have == kind or have == VARYING and kind in STEP:
                continue
            if SHARED in (have, kind) and have != UNIFORM:
                raise NoLanes
            self.of[v] = kind
            self.moved = True


    # --- elements of shared arrays ----------------------------------------------------------------------

    def _check_elements(self) -> None:
        """Check that shared arrays are carried as themselves, and that no two lanes update one element by a store."""
        accesses: dict[Value, list[Op]] = {}
        names = self.names = {p: p for p in self.loop.head.params if self[p] == SHARED}
        for block in self.blocks:
            for op in block.ops:
                if op.operands and op.operands[0] in names and (op.name in UPDATES or op.name == "get"):
                    root = names[op.operands[0]]
                    accesses.setdefault(root, []).append(op)
                    if op.name != "get":
                        names[op.result] = root
            for edge in block.term.edges if block.term and names else ():
                self._check_edge(edge, names)
        self.reads_shared = any(op.name == "get" for ops in accesses.values() for op in ops)
        self.only_stored = {root for root, ops in accesses.items() if all(op.name == "set" for op in ops)}
        for ops in accesses.values():
            for first, second in combinations_with_replacement(ops, 2):
                both = {first.name, second.name}
                if ("set" in both or "get" in both and len(both) > 1) and not self._are_apart(first, second) and \
                        self._own_elements(first) != self._own_elements(second):
                    raise NoLanes

    def stores_the_same(self, op: Op) -> bool:
        """True if an iteration that is executed again stores what it has stored: no update changes what it reads."""
        return not self.reads_shared and self.names[op.operands[0]] in self.only_stored

    def _are_apart(self, first: Op, second: Op) -> bool:
        """True if two accesses are in different rows: an index of theirs does not change in the loop, and differs.

        Or one of them changes with the counter, and the other is below or above all that it takes on.
        """
        if "add_slice" in (first.name, second.name):
            return False
        for u, v in zip(*(op.operands[OPS[op.name].indices:] for op in (first, second))):
            between = self.forms.of(u).minus(self.forms.of(v))
            if between.constant and not between.terms and not any(
                    w.block in self.loop.blocks for w, _ in self.forms.of(u).terms):
                return True
            if any(stays_beyond(self.forms, *pair, self.loop, self.known) for pair in ((u, v), (v, u))):
                return True
            ends, others = self._range(self.forms.of(u)), self._range(self.forms.of(v))
            if ends and others and (_is_below(ends[1], others[0]) or _is_below(others[1], ends[0])):
                return True
        return False

    def _range(self, form: Affine) -> tuple[Affine, Affine] | None:
        """The least and the greatest value of an index in the loop, if one counter is all that changes in it.

        That may be one of an inner loop: ``a[k, j]`` with ``k < i``, beside ``a[i, j]``.
        """
        inside = [(v, times) for v, times in form.terms if v.block in self.loop.blocks]
        if not inside:
            return form, form
        (v, times), *more = inside
        known = next((k for x in self.forest.loops if x.head is v.owner and (k := counted(x)) is not None), None)
        if more or known is None or known.iv is not v or abs(times) != 1:
            return None
        last = self.forms.of(known.trip).plus(Affine(-1))
        if any(w.block in self.loop.blocks for w, _ in last.terms):
            return None
        first = form.without(v)
        ends = first, first.plus(last, times)
        return ends if times > 0 else ends[::-1]

    def _check_edge(self, edge: Edge, names: dict[Value, Value]) -> None:
        """Check that a parameter stands for one shared array, whichever edge is taken."""
        for p, a in edge.passed():
            if edge.block in self.loop.blocks and a in names and names.setdefault(p, names[a]) is not names[a]:
                raise NoLanes

    def _own_elements(self, op: Op) -> tuple[int, Value]:
        """The axis along which each lane has elements of its own, and the index, which inner loops do not change."""
        moving = [(k, v) for k, v in enumerate(op.operands[OPS[op.name].indices:]) if self[v] in STEP]
        if op.name == "add_slice" or len(moving) != 1 or self.forest.innermost.get(moving[0][1].block) is not self.loop:
            raise NoLanes
        return moving[0]

    # --- checks -----------------------------------------------------------------------------------------

    def early_checks(self) -> dict[Op, list[Op]]:
        """The varying checks that can be tested ahead of a chunk, each with the ops of its condition, in order.

        The conditions depend on the loop's counter and on values from outside alone, as of an index ``i < n``.
        """
        found: dict[Op, list[Op]] = {}
        for op in (op for block in self.blocks for op in block.ops if op.name == "check"):
            made: dict[Op, None] = {}
            if self[op.operands[0]] == VARYING and self._is_test(op.operands[0], made):
                found[op] = list(made)
        return found

    def _is_test(self, v: Value, made: dict[Op, None]) -> bool:
        """True if ``v`` is computed by ``TESTS`` from the counter and values from outside; adds the ops to ``made``."""
        if v is self.loop.head.params[0] or v.block not in self.loop.blocks:
            return True
        if v.op is None or v.op.name not in TESTS or v.type not in (I64, BOOL):
            return False
        if v.op not in made:
            if not all(self._is_test(u, made) for u in v.op.operands):
                return False
            made[v.op] = None
        return True


def _is_below(x: Affine, y: Affine) -> bool:
    between = y.minus(x)
    return not between.terms and between.constant > 0


def _step(op: Op, kinds: list[str]) -> str | None:
    """The kind of an index that is the sum or difference of a rising or falling value and a uniform one."""
    if op.name not in ("add", "sub") or op.result.type != I64 or kinds.count(UNIFORM) != 1:
        return None
    moving = kinds[0] if kinds[1] == UNIFORM else kinds[1]
    if op.name == "sub" and kinds[0] == UNIFORM:
        return {RISING: FALLING, FALLING: RISING}.get(moving)
    return moving if moving in STEP else None
