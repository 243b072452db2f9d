"""Comprehensions: lists of static length, and generator expressions that a reduction consumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import Loc
from .iteration import STREAMS
from .lattice import UNBOUND
from .loops import LoopNode, continue_, for_
from .scope import Names
from .values import Slot

if TYPE_CHECKING:
    from .code import Frame, Hook


@dataclass
class Clauses:
    """``for target in iterable if …`` of a comprehension, and the names of its targets."""

    items: tuple[tuple[Hook, Callable[[Frame, Any], None], list[Hook], Loc], ...]
    names: Names

    def frame(self, f: Frame) -> Frame:
        """A frame for the targets, which are variables of the comprehension alone."""
        inner = type(f)(f.t, f.code, dict(f.slots), f.globals)
        for name in self.names:
            inner.slots[name] = Slot(name)
        return inner


def comprehend(f: Frame, clauses: Clauses, element: Hook, first: Any = None) -> list[Any]:
    """The elements of a comprehension over static structures; ``first``: what its first clause walks, if known."""
    return list(_elements(f, clauses, element, first))


def _elements(f: Frame, clauses: Clauses, element: Hook, first: Any) -> Iterator[Any]:
    """One by one, as they are asked for."""
    inner = clauses.frame(f)

    def level(k: int) -> Iterator[Any]:
        if k == len(clauses.items):
            yield element(inner)
            return
        iterable, assign, conditions, loc = clauses.items[k]
        over = first if first is not None and k == 0 else iterable(f if k == 0 else inner)
        f.t.builder.loc = loc
        for item in f.t.iterate(over):
            assign(inner, item)
            if all(_known(f, c(inner), loc) for c in conditions):
                yield from level(k + 1)
    return level(0)


def build(f: Frame, clauses: Clauses, element: Hook, make: Callable[[list[Any]], Any]) -> Any:
    """``make`` of the elements; where they come from something of several kinds, for each kind."""
    walked = clauses.items[0][0](f)
    c = f.t.walked_choice(walked)
    if c is None:
        return make(comprehend(f, clauses, element, walked))
    return f.t.over(c, lambda x: make(comprehend(f, clauses, element, f.t.settled(walked))))


def _known(f: Frame, condition: Any, loc: Loc) -> bool:
    c = f.t.truth(condition, loc)
    if not isinstance(c, bool):
        f.t.unsupported("the length of this comprehension depends on run-time values",
                        "fill an array in a loop, or sum with a conditional expression")
    return c


@dataclass(eq=False)
class Generator:
    """A generator expression: consumed by ``sum``, ``min``, … where it stands."""

    f: Frame
    clauses: Clauses
    element: Hook
    changed: list[tuple[str, bool]]
    loc: Loc
    over: Any                                 # what the first clause walks, which Python evaluates at once
    begun: Slot

    def items(self) -> list[Any]:
        return comprehend(self.f, self.clauses, self.element, self._begin())

    def next(self) -> list[Any]:
        """The first element, or none; nobody may ask for the others afterwards."""
        found = next(_elements(self.f, self.clauses, self.element, self._begin()), UNBOUND)
        self.f.t.state[self.begun] = None
        return [] if found is UNBOUND else [found]

    def _begin(self) -> Any:
        """What the first clause walks; nothing when that has been walked before."""
        begun = self.f.t.state.get(self.begun)
        if not isinstance(begun, bool):
            self.f.t.unsupported("walks a generator expression that may have been walked before", STREAMS)
        self.f.t.state[self.begun] = True
        return () if begun else self.over

    def each(self, acc: Slot, visit: Callable[[Callable[[], Any]], None]) -> None:
        """``visit`` what gives each element; loops whose trip count is a run-time value are loops in the IR.

        ``acc`` is the variable that ``visit`` changes.
        """
        inner = self.clauses.frame(self.f)
        inner.slots[acc.name] = acc
        changed = [(acc.name, False), *self.changed]
        self._level(inner, 0, changed, visit, self._begin())

    def _level(self, inner: Frame, k: int, changed: list[tuple[str, bool]],
               visit: Callable[[Callable[[], Any]], None], over: Any = None) -> None:
        if k == len(self.clauses.items):
            return visit(lambda: self.element(inner))
        iterable, assign, conditions, loc = self.clauses.items[k]

        def body(f: Frame) -> None:
            for c in conditions:
                truth = f.t.truth(c(f), loc)
                if truth is False:
                    continue_(f)
                if truth is not True:
                    f.t.branch(truth.value, lambda: None, lambda: continue_(f), None)
            self._level(f, k + 1, changed, visit)
        node = LoopNode(body, None, None, None, changed, loc)
        for_(inner, node, (lambda f: over) if k == 0 else iterable, assign, loc)
