"""Dependence test: proves that the iterations of a loop are independent, and finds the role of each carried value.

Arrays are values, so a loop carries every array that it writes.  A loop is independent if each carried value has a
*role*:

* ``each``: an array of which each iteration reads and writes a part of its own.  Along one axis, every access is within
  ``[a·iv + c, a·iv + c + |a|)``, with the same ``a`` and with values of ``c`` that differ by constants.
* ``add mul maximum minimum and or xor``: a reduction.  The value is only updated by that op, and not read otherwise.
  For arrays, the op is ``add``, ``add_at``, ``add_slice`` or ``add_put``; each thread adds to an array of its own.
* ``lt le gt ge``: the best value so far, which is replaced by a value that compares so with it.
* ``last``: a number that the loop does not read; only the value of the last iteration is used.

The test is conservative: it assumes a dependence unless it can prove that there is none.

Notation: the *members* of a carried value are the values that it has within an iteration, along edges and after the ops
that update it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...errors import Loc
from ...ir.graph import Block, Edge, Op, Value
from ...ir.ops import MIRRORED, OPS, ORDERS
from ...ir.types import Array, Scalar, Stack
from ..analysis.affine import Affine, AffineForms
from ..analysis.loops import Counted, Loop

REDUCTIONS = frozenset("add mul maximum minimum and or xor".split())
ADDING = frozenset("add sub add_at add_slice add_put".split())
LARGEST_STEP = 1 << 14
"""Only smaller steps are considered.  With fewer than 2⁴⁸ iterations, these cannot wrap."""

Members = dict[Value, None]


class Dependent(Exception):
    """The iterations of a loop may depend on each other; has the reason, and the source position."""

    def __init__(self, reason: str, loc: Loc) -> None:
        super().__init__(reason)
        self.reason, self.loc = reason, loc


@dataclass
class Uses:
    """The uses of each value in a loop: by ops, with the operand's index, and by edges."""

    ops: dict[Value, list[tuple[Op, int]]] = field(default_factory=dict)
    edges: dict[Value, list[tuple[Op, Edge, int]]] = field(default_factory=dict)
    incoming: dict[Block, list[Edge]] = field(default_factory=dict)

    def see(self, op: Op) -> None:
        for i, v in enumerate(op.operands):
            self.ops.setdefault(v, []).append((op, i))
        for edge in op.edges:
            self.incoming.setdefault(edge.block, []).append(edge)
            for i, v in enumerate(edge.args):
                self.edges.setdefault(v, []).append((op, edge, i))


class Independence:
    """The test for one counted loop; ``region``: the loop, with the blocks that hang off it and only raise."""

    def __init__(self, loop: Loop, known: Counted, region: set[Block]) -> None:
        self.loop, self.known, self.region = loop, known, region
        self.uses, self.forms = Uses(), AffineForms()
        for block in region:
            for op in block.all_ops():
                self.uses.see(op)

    def roles(self) -> dict[Value, str]:
        """The role of each parameter of the head except the counter; raises ``Dependent``."""
        return {p: self._role(p) for p in self.loop.head.params if p is not self.known.iv}

    def _role(self, p: Value) -> str:
        if isinstance(p.type, Stack):
            raise Dependent("it saves values for the reverse sweep on a stack", self._where(p))
        if isinstance(p.type, Array):
            own = self._parts(p)
            return own if isinstance(own, str) else self._reduction(p, own)
        if not self.uses.ops.get(p) and not self.uses.edges.get(p):
            return "last"
        return self._reduction(p, None)

    def _where(self, p: Value) -> Loc:
        """The source position at which the next value of ``p`` is computed, or ``p`` is used."""
        following = self.loop.back_edge().args[p.index]
        used = [op for op, _ in self.uses.ops.get(p, ())]
        made = [following.op] if following.op is not None else []
        return next((op.loc for op in (*made, *used) if op.loc.line), self.loop.head.func.loc)

    # --- members ----------------------------------------------------------------------------------

    def _members(self, p: Value, updates: frozenset[str]) -> Members:
        """The members of ``p``, which the ops named in ``updates`` may update.

        Raises ``Dependent`` if another value replaces ``p``, or if a member is used in another way.
        """
        members: Members = {p: None}
        todo = [p]
        while todo:
            v = todo.pop()
            for op, i in self.uses.ops.get(v, ()):
                if op.name in updates and _updates(op, i):
                    _enter(members, todo, op.result)
            for op, edge, i in self.uses.edges.get(v, ()):
                q = edge.block.params[i + edge.offset]
                if edge.block is self.loop.head and q is not p:
                    raise Dependent(f"{_name(p)} goes on as {_name(q)} in the next iteration", op.loc)
                if edge.block in self.region:
                    _enter(members, todo, q)
                elif v is not self.loop.back_edge().args[p.index]:
                    raise Dependent(f"what {_name(p)} was in between is used after it", op.loc)
        for v in members:
            if v.owner is not self.loop.head and isinstance(v.owner, Block):
                if not all(a in members for a in self._arguments(v)):
                    raise Dependent(f"{_name(p)} is replaced by something else", self._where(p))
        if self.loop.back_edge().args[p.index] not in members:
            raise Dependent(f"{_name(p)} carries a value from one iteration to the next", self._where(p))
        return members

    def _arguments(self, p: Value) -> Iterator[Value | None]:
        for edge in self.uses.incoming.get(p.block, ()):
            yield edge.argument(p)

    # --- reductions -------------------------------------------------------------------------------

    def _reduction(self, p: Value, otherwise: Dependent | None) -> str:
        """The op by which ``p`` is reduced; if there is none, raises ``otherwise`` rather than a reason of its own."""
        array = isinstance(p.type, Array)
        adding = ADDING if array else REDUCTIONS | {"sub", "select"}
        try:
            members = self._members(p, adding)
            kinds = {self._reduces(op, i, members) for v in members for op, i in self.uses.ops.get(v, ())}
        except Dependent:
            if otherwise is not None:
                raise otherwise from None
            raise
        kinds.discard("")
        if None in kinds or len(kinds) > 1:
            raise otherwise or Dependent(f"{_name(p)} carries a value from one iteration to the next", self._where(p))
        return str(next(iter(kinds), "add"))

    def _reduces(self, op: Op, i: int, members: Members) -> str | None:
        """The reduction by which ``op`` updates the member at operand ``i``; "" if it only passes on or compares it.

        ``None`` for any other op.
        """
        count = sum(v in members for v in op.operands)
        if op.name == "dim":
            return ""
        if op.name == "select":
            return "" if i > 0 and count == 2 else _best(op, members)
        if op.name in ORDERS:
            readers = [user for user, _ in self.uses.ops.get(op.result, ())]
            chosen = all(_best(user, members) and user.operands[0] is op.result for user in readers)
            return "" if chosen and not self.uses.edges.get(op.result) else None
        if op.name not in OPS or OPS[op.name].effect or count != 1 or not _updates(op, i):
            return None
        if op.result.type != op.operands[i].type:
            return None
        if op.name in ("sub", "add_at", "add_slice", "add_put"):
            return "add"
        return op.name if op.name in REDUCTIONS and (op.name == "add" or isinstance(op.result.type, Scalar)) else None

    # --- arrays -----------------------------------------------------------------------------------

    def _parts(self, p: Value) -> str | Dependent:
        """``each`` if each iteration accesses a part of ``p`` of its own; otherwise the reason why it may not."""
        try:
            members = self._members(p, frozenset({"set", "add_at", "set_slice", "add_slice"}))
            accesses = [(op, self._windows(op, i)) for v in members for op, i in self.uses.ops.get(v, ())
                        if op.name != "dim"]
        except Dependent as reason:
            return reason
        assert isinstance(p.type, Array)
        if any(_are_disjoint([windows[axis] for _, windows in accesses]) for axis in range(p.type.rank)):
            return "each"
        op = next((op for op, windows in accesses if all(w is None or not w.step for w in windows)), accesses[0][0])
        return Dependent(f"several iterations may use the same element of {_name(p)}", op.loc)

    def _windows(self, op: Op, i: int) -> list[Window | None]:
        """For each axis, the window of operand ``i`` that an op accesses, or ``None`` if it is not known."""
        t = op.operands[i].type
        assert isinstance(t, Array)
        starts: list[Value] = []
        lengths: list[int | None] = []
        if i == 0 and op.name in ("get", "set", "add_at"):
            starts = op.operands[1 if op.name == "get" else 2:]
            lengths = [1] * len(starts)
        elif i == 0 and op.name == "slice":
            starts = op.operands[1::3]
            lengths = [_most(n) if _is_one(s) else None for n, s in zip(op.operands[2::3], op.operands[3::3])]
        elif i == 0 and op.name in ("set_slice", "add_slice"):
            starts = op.operands[2::2]
            lengths = [self._length(op.operands[1], axis) if _is_one(s) else None
                       for axis, s in enumerate(op.operands[3::2])]
        else:
            raise Dependent("an array that the loop writes is read as a whole", op.loc)
        windows = [self._window(s, n) for s, n in zip(starts, lengths)]
        return [*windows, *[None] * (t.rank - len(windows))]

    def _window(self, start: Value, length: int | None) -> Window | None:
        """The window of ``length`` elements from ``start`` on, if that is affine in the counter."""
        form, iv = self.forms.of(start), self.known.iv
        if length is None or any(v is not iv and v.block in self.region for v, _ in form.terms):
            return None
        return Window(form.coefficient(iv), form.without(iv), length)

    def _length(self, v: Value, axis: int) -> int | None:
        """An upper bound of an array's size along an axis, from all arrays from which it may come; or ``None``."""
        seen, todo, most = {v}, [v], 0
        while todo:
            v = todo.pop()
            assert isinstance(v.type, Array)
            known = v.type.dims[axis] if v.type.dims[axis] is not None else _given_length(v, axis)
            if known is not None:
                most = max(most, known)
                continue
            for source in self._sources(v, axis):
                if source is None:
                    return None
                if source not in seen:
                    seen.add(source)
                    todo.append(source)
        return most

    def _sources(self, v: Value, axis: int) -> list[Value | None]:
        """Arrays of which one has the length of ``v``; includes ``None`` if there may be others."""
        if v.op is None:
            return list(self._arguments(v)) or [None]
        if OPS[v.op.name].consumes:
            return [v.op.operands[0]]
        if OPS[v.op.name].elementwise or v.op.name == "copy":
            return [o for o in v.op.operands if isinstance(o.type, Array) and isinstance(v.type, Array)
                    and o.type.rank == v.type.rank and o.type.dims[axis] != 1] or [None]
        return [None]


@dataclass(frozen=True)
class Window:
    """At most ``length`` elements from ``step·iv + start`` on, modulo 2⁶⁴."""

    step: int
    start: Affine
    length: int


def _are_disjoint(windows: list[Window | None]) -> bool:
    """True if different iterations access different elements along an axis."""
    known = [w for w in windows if w is not None]
    if len(known) < len(windows):
        return False
    if not known:
        return True
    step = known[0].step
    offsets = [w.start.minus(known[0].start) for w in known]
    if not 0 < abs(step) < LARGEST_STEP or any(w.step != step for w in known) or any(o.terms for o in offsets):
        return False
    ends = [o.constant + w.length for o, w in zip(offsets, known)]
    return max(ends) - min(o.constant for o in offsets) <= abs(step)


def _given_length(v: Value, axis: int) -> int | None:
    """An upper bound of an array's size along an axis, from an operand of the op that makes it."""
    if v.op is None or v.op.name not in ("broadcast_to", "fill", "empty", "slice"):
        return None
    starts = {"broadcast_to": 1 + axis, "fill": 1 + axis, "empty": axis, "slice": 2 + 3 * axis}
    return _most(v.op.operands[starts[v.op.name]])


def _most(v: Value) -> int | None:
    """An upper bound of ``v``, if it is a constant, or a minimum with a constant."""
    if v.const is not None:
        return int(v.const)
    if v.op is not None and v.op.name == "minimum":
        known = [n for n in map(_most, v.op.operands) if n is not None]
        return min(known, default=None)
    return None


def _is_one(v: Value) -> bool:
    return bool(v.const == 1)


def _updates(op: Op, i: int) -> bool:
    """True if the result of an op is its operand ``i``, updated."""
    if OPS[op.name].consumes or op.name == "sub":
        return i == 0
    return i > 0 if op.name == "select" else True


def _best(op: Op, members: Members) -> str | None:
    """The comparison of ``select(v < m, v, m)``, in which ``v`` replaces the member ``m``."""
    test = op.operands[0].op
    if op.name != "select" or test is None or test.name not in ORDERS:
        return None
    new, old = op.operands[1:]
    if old not in members or new in members:
        return None
    if test.operands == [new, old]:
        return test.name
    return MIRRORED[test.name] if test.operands == [old, new] else None


def _enter(members: Members, todo: list[Value], v: Value) -> None:
    if v not in members:
        members[v] = None
        todo.append(v)


def _name(v: Value) -> str:
    """The variable's name in the user's program, if it is known."""
    return v.hint.split(".")[0] or "a value"
