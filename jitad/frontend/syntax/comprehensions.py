"""Comprehensions: lists of static length, and generator expressions that a reduction consumes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import NOWHERE, Loc, UnsupportedError
from ...ir.graph import Value
from ..flow import stacking
from ..flow.branches import logical
from ..flow.loops import LoopNode, break_, continue_, walk
from ..objects import growing_lists, long_lists, special_methods
from ..objects.iteration import (
    STREAMS,
    UNKNOWN_LENGTH,
    begin,
    count,
    ends_at_run_time,
    exactly,
    mark,
    partly_counted,
)
from ..objects.iteration import element as element_of
from ..objects.list_rows import Row
from ..values.closures import WALKS, Mapped, Range
from ..values.code import Code, Frame, Hook, Names
from ..values.lattice import UNBOUND, is_scalar
from ..values.protocol import Trace
from ..values.values import ArrayRef, Choice, Edge, Slot, Sym
from . import filled_lists


@dataclass
class Clauses:
    """``for target in iterable if …`` of a comprehension, and the names of its targets.

    ``ragged``: its elements are lists of different lengths.
    """

    items: tuple[tuple[Hook, Callable[[Frame, Any], None], list[Hook], Loc], ...]
    names: Names
    ragged: bool = False

    def frame(self, f: Frame) -> Frame:
        """A frame for the targets, which are local to the comprehension."""
        inner = Frame(f.t, f.code, dict(f.slots), f.globals)
        for name in self.names:
            inner.slots[name] = Slot(name)
        return inner


def comprehend(f: Frame, clauses: Clauses, element: Hook, first: Any = None) -> list[Any]:
    """The elements of a comprehension over static structures; ``first``: the first clause's iterable, if evaluated."""
    return list(_elements(f, clauses, element, first))


def _elements(f: Frame, clauses: Clauses, element: Hook, first: Any) -> Iterator[Any]:
    """Yields the elements lazily."""
    inner = clauses.frame(f)

    def level(k: int) -> Iterator[Any]:
        if k == len(clauses.items):
            yield element(inner)
            return
        iterable, assign, conditions, loc = clauses.items[k]
        over = first if first is not None and k == 0 else iterable(f if k == 0 else inner)
        f.t.builder.loc = loc
        if ends_at_run_time(f.t, over):
            raise long_lists.in_loops(f.t, *UNKNOWN_LENGTH)
        for item in f.t.iterate(over):
            assign(inner, item)
            if all(_known(f, c(inner), loc) for c in conditions):
                yield from level(k + 1)
    return level(0)


def build(f: Frame, clauses: Clauses, element: Hook, make: Callable[[list[Any]], Any]) -> Any:
    """``make`` of the elements; if the iterable is a union, once for each variant."""
    walked = clauses.items[0][0](f)
    c = f.t.walked_choice(walked)
    if c is None:
        return make(comprehend(f, clauses, element, walked))
    return f.t.over(c, lambda x: make(comprehend(f, clauses, element, f.t.settled(walked))))


def build_list(f: Frame, clauses: Clauses, element: Hook,
               known: filled_lists.Filled | filled_lists.Nest | None) -> Any:
    """A list comprehension; over a long list the result is a long list, made in a loop."""
    walked = clauses.items[0][0](f)
    c = f.t.walked_choice(walked)
    if c is not None:
        return f.t.over(c, lambda x: _list(f, clauses, element, f.t.settled(walked)))
    made = None
    if known is not None and long_lists.is_walked(f.t, walked):
        inner = clauses.frame(f)
        made = filled_lists.listed(inner, known, walked) if isinstance(known, filled_lists.Filled) else \
            _nest(inner, clauses, known, walked)
    return _list(f, clauses, element, walked) if made is None else made


_KNOWN = (range, Range, ArrayRef, long_lists.LongList, growing_lists.Walked, Row)       # may be walked several times


def _nest(f: Frame, clauses: Clauses, nest: filled_lists.Nest, walked: Any) -> Any:
    """A list of lists of numbers, all of one length; None if this is not what it is."""
    t, state, block, blocks, returns = f.t, dict(f.t.state), f.t.here().block, len(f.t.func.blocks), len(f.t.returns)
    depth = t.depth
    over = special_methods.walked(t, nest.inner.items[0][0](f))
    inside, walks = nest.inner.frame(f), (special_methods.walked(t, walked), over)
    if not all(isinstance(v, _KNOWN) for v in walks) or not filled_lists.are_builtins(f, nest.called):
        return None
    assigns = clauses.items[0][1], nest.inner.items[0][1]
    n, m = (t.value(filled_lists.counted(t, v)) for v in walks)
    if m.const is not None:
        return None
    made: list[Any] = []

    def enter(k: int, it: Value) -> None:
        assigns[k](inside if k else f, element_of(t, walks[k], Sym(it, True)))

    def body() -> Value:
        before = dict(t.state)
        t.keep(t.result, nest.element(inside))
        found = t.state.pop(t.result)
        if not is_scalar(found):
            raise long_lists.in_loops(t, "a list of lists of something else than numbers", "")
        made.append(found)
        return long_lists.Made(t, found, before, f.slots.values()).leaves[0]
    try:
        stack = stacking.nested(t, (n, m), enter, body)
    except UnsupportedError as e:
        if not long_lists.goes_in_loops(e):
            raise
        stack, t.depth = None, depth
    if stack is None:
        del t.func.blocks[blocks:]
        del t.returns[returns:]
        t.enter(Edge(block, state))
        return None
    return filled_lists.of_array(t, Sym(stack), made[0])


def _list(f: Frame, clauses: Clauses, element: Hook, walked: Any) -> Any:
    t = f.t
    walked = special_methods.walked(t, walked)
    if len(clauses.items) == 1 and partly_counted(t, walked):
        return _appended(f, clauses, element, walked)
    before, block, blocks, returns = dict(t.state), t.here().block, len(t.func.blocks), len(t.returns)
    in_a_loop = len(clauses.items) == 1 and long_lists.is_walked(t, walked)
    try:
        return _in_a_loop(f, clauses, element, walked) if in_a_loop else \
            t.new_list(comprehend(f, clauses, element, walked))
    except UnsupportedError as e:
        if clauses.ragged or not long_lists.goes_in_loops(e):
            raise
        if in_a_loop:                                # its blocks are dropped; otherwise unused ops are left
            del t.func.blocks[blocks:]
            del t.returns[returns:]
        t.enter(Edge(block if in_a_loop else t.here().block, before))
        return _appended(f, clauses, element, walked)


def _appended(f: Frame, clauses: Clauses, element: Hook, walked: Any) -> Any:
    """A list comprehension as loops that append, of which a run-time condition or length says how often."""
    t, made = f.t, Slot("list")
    t.state[made] = out = t.new_list(())
    g = Generator(f, clauses, element, [(made.name, True)], clauses.items[0][3], walked, Slot("begun", bound=True))
    t.state[g.begun] = False
    f.hidden.append(made)
    try:
        g.each(made, lambda value: t.call(t.getattr(out, "append"), value()))
    finally:
        f.hidden.remove(made)
    return out


def _in_a_loop(f: Frame, clauses: Clauses, element: Hook, walked: Any) -> Any:
    """``[element for … in walked]`` as a loop that stores the elements in columns."""
    t, inner = f.t, clauses.frame(f)
    _, assign, conditions, loc = clauses.items[0]
    v = begin(t, walked)
    n = t.value(count(t, v))
    made: list[long_lists.Made] = []

    def fill(k: int) -> None:
        """Evaluates the element if the conditions from number ``k`` on are true."""
        if k == len(conditions):
            return t.keep(t.result, element(inner))
        _unless(inner, t.truth(conditions[k](inner), loc), True, lambda: fill(k + 1))

    def body(it: Value) -> Sequence[Value]:
        before = dict(t.state)
        assign(inner, element_of(t, v, Sym(it, True)))
        fill(0)
        made.append(long_lists.Made(t, t.state.pop(t.result, None), before, f.slots.values()))
        return made[-1].leaves
    stacks = stacking.stacked(t, n, body, lambda leaves: [stacking.room(t, n, x, ()) for x in leaves],
                              "a list comprehension over nothing, whose elements cannot be evaluated",
                              (lambda: made[0].kept) if conditions else None)
    mark(t.state, walked, True)
    return growing_lists.made(t, made[0].listed(t, stacks))


def _known(f: Frame, condition: Any, loc: Loc) -> bool:
    c = f.t.truth(condition, loc)
    if not isinstance(c, bool):
        raise long_lists.in_loops(f.t, "the length of this comprehension depends on run-time values",
                                  "fill an array in a loop, or sum with a conditional expression")
    return c


@dataclass(eq=False)
class Generator:
    """A generator expression, which ``sum``, ``min``, … consume."""

    f: Frame
    clauses: Clauses
    element: Hook
    changed: list[tuple[str, bool]]
    loc: Loc
    over: Any                                 # the first clause's iterable, which Python evaluates at once
    begun: Slot

    def items(self) -> list[Any]:
        found = comprehend(self.f, self.clauses, self.element, self._begin())
        self.f.t.state[self.begun] = True
        return found

    def listed(self) -> Any:
        """``list`` of it, which is a long list where that of a comprehension is."""
        found = _list(self.f, self.clauses, self.element, self._begin())
        self.f.t.state[self.begun] = True
        return found

    def exactly(self, n: int) -> list[Any]:
        """The elements, of which there must be ``n``: the first clause walks a number of elements that is not known."""
        _, assign, conditions, _ = self.clauses.items[0]
        if len(self.clauses.items) > 1 or conditions:
            return self.items()
        inner, found = self.clauses.frame(self.f), []
        for x in exactly(self.f.t, self._begin(), n):
            assign(inner, x)
            found.append(self.element(inner))
        return found

    def given_away(self) -> list[Any]:
        """The elements, for a function that may consume only some of them."""
        found = self.items()
        mark(self.f.t.state, self, None)
        return found

    def next(self) -> list[Any]:
        """A list of the first element, or an empty list; the others cannot be used afterwards."""
        found = next(_elements(self.f, self.clauses, self.element, self._begin()), UNBOUND)
        return [] if found is UNBOUND else [found]

    def _begin(self) -> Any:
        """The first clause's iterable; empty if it is exhausted."""
        begun = self.f.t.state.get(self.begun)
        if not isinstance(begun, bool):
            self.f.t.unsupported("walks a generator expression that may have been walked before", STREAMS)
        self.f.t.state[self.begun] = None
        return () if begun else self.over

    def each(self, acc: Slot, visit: Callable[[Callable[[], Any]], None], until: bool | None = None) -> None:
        """Calls ``visit`` with a function that evaluates an element; a run-time trip count becomes a loop in the IR.

        ``acc`` is the variable that ``visit`` changes.  With ``until`` it is a truth value.  Once it equals ``until``,
        neither ``visit`` nor the iteration evaluates anything else that has an effect.
        """
        inner = self.clauses.frame(self.f)
        inner.slots[acc.name] = acc
        changed = [(acc.name, False), *self.changed]
        items = self.clauses.items

        def level(k: int, over: Any) -> None:
            _, assign, conditions, loc = items[k]
            last = k + 1 == len(items)

            def body(f: Frame) -> None:
                if last and until is not None:
                    visit(lambda: self._truth(f, conditions, until))
                else:
                    for c in conditions:
                        _unless(f, f.t.truth(c(f), loc), False, lambda: continue_(f))
                    visit(lambda: self.element(f)) if last else level(k + 1, items[k + 1][0](f))
                if until is not None and (not last or _evaluates(over)):
                    _unless(f, f.t.load(acc), until, lambda: _leave(f, acc, until))
            walk(inner, LoopNode(body, None, None, None, changed, loc), over, assign, loc)
        level(0, self._begin())
        if until is None:
            self.f.t.state[self.begun] = True
        else:
            mark(self.f.t.state, self.over, None)

    def _truth(self, f: Frame, conditions: Sequence[Hook], until: bool) -> Any:
        """The truth of an element; ``not until``, which decides nothing, if it fails the conditions.

        ``any(x for … if c)`` is an ``or`` of ``c and x``; ``all`` is an ``and`` of ``not c or x``.
        """
        if not conditions:
            return f.t.truth(self.element(f))
        c = f.t.truth(conditions[0](f), self.loc)
        if isinstance(c, bool):
            return self._truth(f, conditions[1:], until) if c else not until
        first = c if until else f.t.not_(c)
        return logical(f, first, lambda: self._truth(f, conditions[1:], until), not until, self.loc)


def _evaluates(v: Any) -> bool:
    """True if iterating over ``v`` calls functions, so that it must stop where Python does."""
    inside = v.variants if type(v) is Choice else v.parts() if isinstance(v, WALKS) else ()
    return isinstance(v, Mapped) or any(map(_evaluates, inside))


def _unless(f: Frame, truth: Any, stop: bool, leave: Callable[[], None]) -> None:
    """Calls ``leave`` on the path on which the truth value is ``stop``; the other path continues."""
    if isinstance(truth, bool):
        return leave() if truth is stop else None
    sides = (leave, lambda: None) if stop else (lambda: None, leave)
    return f.t.branch(truth.value, *sides, None)


def _leave(f: Frame, acc: Slot, decided: bool) -> None:
    """``break`` with a result that is known at this point."""
    f.t.keep(acc, decided)
    break_(f)


# --- generators over values -------------------------------------------------------------------------

_ELEMENT = "element"
_NO_CODE = Code("elements", ast.parse("lambda: 0", mode="eval").body.args,           # type: ignore[attr-defined]
                lambda f: None, frozenset(), frozenset(), frozenset(), [], [], NOWHERE)


def elements(t: Trace, v: Any) -> Generator:
    """The generator expression ``(x for x in v)``, without source."""
    loc, begun = t.builder.loc, Slot("begun", bound=True)
    t.state[begun] = False

    def assign(f: Frame, x: Any) -> None:
        f.t.keep(f.slots[_ELEMENT], x)
    clauses = Clauses(((lambda f: v, assign, [], loc),), frozenset((_ELEMENT,)))
    return Generator(Frame(t, _NO_CODE, {}, {}), clauses, lambda f: f.t.load(f.slots[_ELEMENT]), [], loc, v, begun)
