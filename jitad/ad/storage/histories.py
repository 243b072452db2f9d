"""Saved scalars of a counted loop that are the same sequence, some iterations apart.

A three-term recurrence carries its last two elements, and an option's tree combines two neighbours::

    before, now = now, 2 * x * now - before
    kept = p * values[i + 1] + q * values[i]

What one of them is in an iteration, the other one is in the next.  So one array, longer by the distance, holds both:
the older value is stored in each iteration, the newer ones behind the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Op, Value
from ...passes.analysis.affine import AffineForms
from ...passes.analysis.loops import Counted, Loop

MOST_LOADS = 64
"""The most loads of a loop that are compared with what it stores and loads."""
LONGEST = 4
"""The most values of a sequence."""
FARTHEST = 64
"""The most updates that are followed from the end of an iteration."""


def histories(loop: Loop, known: Counted, saved: Sequence[Value]) -> list[list[Value]]:
    """Sequences of values, the oldest first: each is in an iteration what the next one was in the one before.

    The first and the last one are ``saved``, and none is in two sequences.  ``saved`` are scalars that every iteration
    computes.
    """
    following = _passed_on(loop) | _Loads(loop, known, saved).following()
    wanted, older = set(saved), {new: old for old, new in following.items()}
    found: list[list[Value]] = []
    used: set[Value] = set()
    for start in saved:
        if start in used or start not in following or older.get(start) in wanted:
            continue
        chain = [start]
        while len(chain) < LONGEST and (new := following.get(chain[-1])) is not None \
                and new.type == start.type and new not in {*chain, *used}:
            chain.append(new)
        while chain[-1] not in wanted:
            chain.pop()
        if len(chain) > 1:
            found.append(chain)
            used.update(chain)
    return found


def _passed_on(loop: Loop) -> dict[Value, Value]:
    """Parameters of the head, and what an iteration passes to the next one for them."""
    return dict(zip(loop.head.params, loop.back_edge().args))


class _Loads:
    """Loads of elements that the iteration before has loaded or stored, when nothing overwrites them in between."""

    def __init__(self, loop: Loop, known: Counted, saved: Sequence[Value]) -> None:
        self.loop, self.known, self.forms = loop, known, AffineForms()
        loads = [v.op for v in saved if v.op is not None and v.op.name == "get"][:MOST_LOADS]
        self.of: dict[Value, list[Op]] = {}                   # an array at some place in the iteration → its loads
        for op in loads:
            self.of.setdefault(op.operands[0], []).append(op)

    def following(self) -> dict[Value, Value]:
        """Loads of an array as the head receives it → the value of the iteration before."""
        found = {}
        back = self.loop.back_edge().args
        for array in [p for p in self.loop.head.params if p in self.of]:
            for op in self.of[array]:
                before = self._before(op, back[array.index])
                if before is not None and before is not op.result:
                    found[op.result] = before
        return found

    def _before(self, load: Op, array: Value) -> Value | None:
        """The value of the element that ``load`` reads in the next iteration, whose last update gave ``array``."""
        for _ in range(FARTHEST):
            for op in self.of.get(array, ()):
                if self._distance(load, op.operands[1:]) == [0] * (len(op.operands) - 1):
                    return op.result
            update = array.op
            if update is None or update.name not in ("set", "add_at") or array.block not in self.loop.blocks:
                return None
            distance = self._distance(load, update.operands[2:])
            if distance is None or not any(distance):
                return update.operands[1] if distance is not None and update.name == "set" else None
            array = update.operands[0]
        return None

    def _distance(self, load: Op, indices: Sequence[Value]) -> list[int] | None:
        """The distance of the element of ``load`` in the next iteration from ``indices`` in this one, or None."""
        found = []
        if len(indices) != len(load.operands) - 1:
            return None
        for mine, other in zip(load.operands[1:], indices):
            form = self.forms.of(mine)
            if any(v.block in self.loop.blocks for v, _ in form.terms if v is not self.known.iv):
                return None
            moved = form.minus(self.forms.of(other))
            if moved.terms:
                return None
            found.append(moved.constant + form.coefficient(self.known.iv))
        return found
