"""Unions: values of different kinds, distinguished at run time (``None`` or a float, one of several functions).

At a join of values without a common type, the variable becomes a ``Choice``: a tag and the parts of every variant, side
by side (``path_merge.Merger``).  This needs neither a type of the IR nor support in ``ad``: a call of a function chosen
at run time is a switch over the tag (defunctionalisation).

An operation on a union is traced once for each possible variant, each in a block of its own, and the results are
joined; they may be a union again.  If Python would raise for a variant, its path raises.

*Facts about tags.*  The trace state holds, under ``FACTS``, the possible variants of each tag on this path.  A branch
on a test of a tag adds a fact, so inside ``if isinstance(x, A):`` the variable is an ``A`` (``settle``).  A fact is
about an SSA value, which never changes: it holds on all paths from there on.  At a join, the alternatives are united.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import JitadError
from ...ir.graph import Block, Op, Value
from ...ir.graph import Edge as Jump
from ...ir.types import BOOL
from .closures import WALKS
from .lattice import UNBOUND, is_number, is_static, rebuild, same, scalar_type
from .protocol import Indices, Trace
from .union_merge import FACTS, narrowed, possible, renumbered
from .values import Choice, DictObj, Edge, ListObj, Obj, Slot, State, Sym

_NOTHING = object()


@dataclass(eq=False, slots=True)
class Meaning:
    """The facts about a tag that follow from a truth value: its possible variants if it holds, and if it does not."""

    tag: Value
    if_true: Indices
    if_false: Indices


@dataclass(eq=False, slots=True)
class Side:
    """One variant's part of an operation: its block, its end (None if it does not complete), and its result."""

    index: int
    block: Block
    end: Edge | None
    trivial: bool = False
    result: Any = UNBOUND


class Choices(Trace):
    """The part of ``Trace`` for unions."""

    meanings: dict[Value, Meaning]
    combinations: dict[Value, tuple[str, Sequence[Value]]]
    decided: dict[Value, tuple[Choice, dict[int, Any]]]      # numbers that are determined by a tag

    # --- facts --------------------------------------------------------------------------------------

    def settle(self, v: Any) -> Any:
        """The only possible variant of a union on this path; otherwise the value itself."""
        return narrowed(v, self.state) if type(v) is Choice else v

    def assume(self, cond: Value, truth: bool) -> None:
        """Records the facts that follow if ``cond`` is ``truth`` on this path."""
        for tag, indices in self._learned(cond, truth).items():
            self.know(tag, indices)

    def relies_on(self, cond: Value, truth: bool, ops: Iterable[Op]) -> bool:
        """True if ops may read a variant that is present only if ``cond`` is ``truth``."""
        tests = all(op.name == "const" or op.result in self.meanings for op in ops)
        return not tests and bool(self._learned(cond, truth))

    def know(self, tag: Value, indices: Indices) -> None:
        facts = self.state.get(FACTS, {})
        left = facts[tag] & indices if tag in facts else indices
        if left:                                     # no variant is left on unreachable paths
            self.state[FACTS] = {**facts, tag: left}

    def says(self, test: Value, tag: Value, if_true: Indices, if_false: Indices) -> Sym:
        """A truth value, with the facts about a tag that follow from it."""
        self.meanings[test] = Meaning(tag, if_true, if_false)
        return Sym(test, True)

    def combined(self, op: str, result: Any, *operands: Any) -> Any:
        """Records that ``result`` is ``a and b`` or ``a or b``, computed by control flow."""
        if type(result) is Sym:
            self.combinations[result.value] = (op, [v.value for v in operands if type(v) is Sym and v.type == BOOL])
        return result

    def _learned(self, cond: Value, truth: bool) -> dict[Value, Indices]:
        """The facts about tags that follow if ``cond`` is ``truth``."""
        return self._told(cond, truth, {}) if self.meanings else {}

    def _told(self, cond: Value, truth: bool, told: dict[tuple[Value, bool], dict[Value, Indices]]
              ) -> dict[Value, Indices]:
        """``_learned`` with memoised results: ``told`` maps (condition, truth) to facts."""
        if (cond, truth) in told:
            return told[cond, truth]
        meaning = self.meanings.get(cond)
        found = {meaning.tag: meaning.if_true if truth else meaning.if_false} if meaning is not None else {}
        name, operands = self.combinations.get(cond) or \
            ((cond.op.name, cond.op.operands) if cond.op is not None else ("", ()))
        if name == "not":
            found |= self._told(operands[0], not truth, told)
        elif name == ("and" if truth else "or"):
            for operand in operands:
                for tag, indices in self._told(operand, truth, told).items():
                    found[tag] = (found[tag] & indices or indices) if tag in found else indices
        elif name in ("and", "or") and len(operands) == 2:      # at least one operand has the truth value
            x, y = (self._told(operand, truth, told) for operand in operands)
            found |= {tag: x[tag] | y[tag] for tag in x.keys() & y.keys()}
        told[cond, truth] = found
        return found

    def tag_test(self, c: Choice, indices: Iterable[int]) -> Any:
        """The test that the union is one of these variants: a bool if known."""
        left = possible(c, self.state)
        wanted = frozenset(indices) & left
        if not wanted or wanted == left:
            return bool(wanted)
        tag, b = c.tag.value, self.builder
        if len(left - wanted) == 1:
            test = b.ne(tag, *(left - wanted))
        else:
            first, *rest = sorted(wanted)
            test = b.eq(tag, first)
            for i in rest:
                test = b.or_(test, b.eq(tag, i))
        return self.says(test, tag, wanted, left - wanted)

    def trimmed(self, v: Any) -> Any:
        """The union reduced to the variants that are possible here, since facts are not passed into a call."""
        v = self.settle(v)
        if type(v) is not Choice or len(left := sorted(possible(v, self.state))) == len(v.variants):
            return v
        tag = renumbered(self, v, [(i, k) for k, i in enumerate(left)])
        return Choice(tag, tuple(v.variants[i] for i in left))

    def settled(self, v: Any) -> Any:
        """``settle`` applied to a value and to the parts of a tuple, a slice, ``zip`` or a similar value."""
        if type(v) is slice:
            return slice(*map(self.settled, (v.start, v.stop, v.step)))
        if isinstance(v, WALKS):
            return v.with_parts(tuple(map(self.settled, v.parts())))
        return rebuild(v, tuple(map(self.settled, v))) if isinstance(v, tuple) else self.settle(v)

    def walked_choice(self, v: Any) -> Choice | None:
        """The union that a loop over ``v`` iterates over, or None."""
        v = self.settle(v)
        found = map(self.walked_choice, v.parts()) if isinstance(v, WALKS) else [v if type(v) is Choice else None]
        return next((c for c in found if c is not None), None)

    def first_choice(self, values: Iterable[Any]) -> Choice | None:
        """The first union among the values, or in containers among them, that has several possible variants."""
        for v in values:
            if type(v) is Choice:
                v = self.settle(v)
            if type(v) is Choice:
                return v
            if isinstance(v, (ListObj, DictObj)):
                v = self.state.get(v)
            inside = v if isinstance(v, (tuple, list)) else tuple(v.values()) if isinstance(v, dict) else \
                (v.start, v.stop, v.step) if type(v) is slice else ()
            found = self.first_choice(inside)
            if found is not None:
                return found
        return None

    # --- operations on each variant -----------------------------------------------------------------

    def dispatch(self, c: Choice, side: Callable[[Any], None], roots: Sequence[Obj] | None) -> None:
        """Traces ``side`` for each possible variant; ``roots``: the variables that are live afterwards."""
        indices = sorted(possible(c, self.state))
        if len(indices) == 1:
            return side(c.variants[indices[0]])
        before = self.here()
        sides = [self._side(c, before.state, i, lambda v: side(v)) for i in indices]
        self._fork(before, c, sides)
        self.join([s.end for s in sides], roots)

    def over(self, c: Choice, fun: Callable[[Any], Any]) -> Any:
        """``fun`` applied to the present variant; an error that Python would raise is raised on the variant's path."""
        indices = sorted(possible(c, self.state))
        if len(indices) == 1:
            return fun(c.variants[indices[0]])
        before = self.here()
        state = before.state
        sides = [self._side(c, state, i, lambda v: self._keep_result(fun, v)) for i in indices]
        for s in sides:
            s.result = s.end.state[self.result] if s.end is not None else UNBOUND
        if all(s.trivial for s in sides):
            self.enter(Edge(before.block, state))
            simple = self._without_control_flow(c, sides)
            if simple is not _NOTHING:
                del self.func.blocks[-len(sides):]
                return simple
        self._fork(before, c, sides)
        self.join([s.end for s in sides], None)
        merged = self.settle(self.take_result())
        self._note_meaning(c, merged, sides)
        return merged

    def over_pair(self, x: Any, y: Any, fun: Callable[[Any, Any], Any]) -> Any:
        """``fun(x, y)`` where either or both may be unions."""
        if type(x) is Choice:
            return self.over(x, lambda v: self.over_pair(v, self.settle(y), fun))
        return self.over(y, lambda v: fun(x, v)) if type(y) is Choice else fun(x, y)

    def _keep_result(self, fun: Callable[[Any], Any], v: Any) -> None:
        result = self.attempt(lambda: fun(v))
        self.state[self.result] = result

    def attempt(self, fun: Callable[[], Any]) -> Any:
        """``fun()`` for one variant; an error that Python would raise is raised on the path of the variant."""
        try:
            return fun()
        except (TypeError, AttributeError) as e:
            if isinstance(e, JitadError) or getattr(e, "__notes__", None):      # raised in a function that was called
                raise
            self.raise_error(e)

    def _side(self, c: Choice, state: State, index: int, run: Callable[[Any], None]) -> Side:
        """Traces one variant's part in a new block, which has no predecessor yet."""
        block = self.func.new_block("case")
        mark = len(self.func.blocks)
        self.enter(Edge(block, dict(state)))
        self.know(c.tag.value, frozenset((index,)))
        self.depth += 1
        end = self.path(lambda: run(c.variants[index]))
        self.depth -= 1
        trivial = end is not None and end.block is block and len(self.func.blocks) == mark \
            and all(op.name == "const" for op in block.ops) and unchanged(end.state, state, self.result)
        return Side(index, block, end, trivial)

    def _fork(self, before: Edge, c: Choice, sides: Sequence[Side]) -> None:
        """Ends the block ``before`` with a switch to the sides."""
        self.enter(before)
        first, last = sides[0], sides[-1]
        if len(sides) == 2:
            test = self.builder.eq(c.tag.value, first.index)
            return self.builder.branch(test, first.block, [], last.block, [])
        to = {s.index: s.block for s in sides}
        self.builder.switch(c.tag.value, [Jump(to.get(i, last.block)) for i in range(len(c.variants))])

    def _without_control_flow(self, c: Choice, sides: Sequence[Side]) -> Any:
        """The result if no variant needs any op at run time and no join is needed; otherwise ``_NOTHING``."""
        results = [s.result for s in sides]
        if all(same(r, results[0]) for r in results):
            return results[0]
        if all(type(r) is tuple for r in results) and len({len(r) for r in results}) == 1:
            columns = [[replace(s, result=r) for s, r in zip(sides, column)] for column in zip(*results)]
            parts = [self._without_control_flow(c, column) for column in columns]
            return _NOTHING if any(p is _NOTHING for p in parts) else tuple(parts)
        if all(isinstance(r, bool) for r in results):
            return self.tag_test(c, [s.index for s in sides if s.result])
        if all(is_number(r) for r in results) and len({type(r) for r in results}) == 1:
            return self._selected(c, sides)
        constants = all(is_static(r) and not is_number(r) for r in results)
        distinct = not any(same(r, q) for k, r in enumerate(results) for q in results[:k])
        if constants and distinct and len(sides) == len(c.variants):
            return Choice(c.tag, tuple(results))
        return _NOTHING

    def _selected(self, c: Choice, sides: Sequence[Side]) -> Sym:
        """A number that is determined by the tag."""
        b = self.builder
        value = self.value(sides[-1].result)
        for s in sides[:-1]:
            value = b.select(b.eq(c.tag.value, s.index), self.value(s.result), value)
        self.decided[value] = (c, {s.index: s.result for s in sides})
        return Sym(value, scalar_type(sides[0].result)[1])

    def _note_meaning(self, c: Choice, merged: Any, sides: Sequence[Side]) -> None:
        """Records the facts about the tag that follow from a truth value which is constant for some variants."""
        if type(merged) is not Sym or merged.type != BOOL or merged.value in self.meanings:
            return
        ended = [s for s in sides if s.end is not None]
        true = frozenset(s.index for s in ended if s.result is not False)
        false = frozenset(s.index for s in ended if s.result is not True)
        if len(true) < len(ended) or len(false) < len(ended):
            self.meanings[merged.value] = Meaning(c.tag.value, true, false)

    def from_tag(self, x: Any, fun: Callable[[Any], Any]) -> Any:
        """``fun`` of a number that is determined by a tag, as a test of the tag; None for any other number."""
        known = self.decided.get(x.value) if type(x) is Sym else None
        if known is None:
            return None
        c, numbers = known
        if not possible(c, self.state) <= numbers.keys():
            return None
        return self.tag_test(c, [i for i, n in numbers.items() if fun(n)])


def unchanged(state: State, before: State, result: Slot) -> bool:
    """True if an operation has not changed the state, except for its result and for facts."""
    keys = state.keys() - {result, FACTS}
    return keys == before.keys() - {result, FACTS} and all(state[k] is before[k] for k in keys)
