"""``match``: patterns as hooks that continue if the subject matches and leave if it does not.

A pattern is run as ``pattern(m, subject)`` and tests the subject in Python's order.  A test that is known while tracing
is decided at once.  Any other test ends the block: the path on which it fails is added to ``m.fails``, to be joined
before the next case, and tracing continues on the path on which it holds.  So inside a case the subject is known to
match the pattern.  Captured names are assigned when the whole pattern has matched.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import Loc
from ..flow import branches
from ..objects.long_lists import LongList
from ..values.code import Frame, Hook, Names
from ..values.values import Choice, DictObj, Edge, ListObj, Slot
from .scope import Liveness

Pattern = Callable[["Matching", Any], None]
# A class pattern of one of these with a single positional pattern applies that pattern to the whole subject.
WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@dataclass
class Matching:
    """A case in progress: the paths on which it fails, and the values that it captures."""

    f: Frame
    fails: list[Edge] = field(default_factory=list)
    captures: dict[str, Any] = field(default_factory=dict)

    def need(self, condition: Any) -> None:
        """Continues on the path on which the condition holds."""
        t = self.f.t
        c = t.truth(condition)
        if c is False:
            self.fails.append(t.here())
            t.die()
        if c is not True:
            self.fails.append(t.fork(c.value))

    def fits(self, v: Any, test: Callable[[Any], bool]) -> Any:
        """Continues on the path on which ``test`` holds for the variant of ``v``; returns the value on that path."""
        t = self.f.t
        self.need(t.over(v, test) if type(v) is Choice else test(v))
        return t.settle(v)


@dataclass
class Case:
    """A ``case`` clause; ``targets``: functions that assign the captured names."""

    pattern: Pattern
    targets: dict[str, Callable[[Frame, Any], None]]
    guard: Hook | None
    body: Hook
    loc: Loc


# --- the statement ----------------------------------------------------------------------------------

def match(f: Frame, subject: Any, cases: Sequence[Case], after: Names) -> None:
    """Runs the body of the first case that matches."""
    ends, left = _first(f, subject, [functools.partial(_case, f, case) for case in cases])
    f.t.join([*ends, left], f.roots(after))


def _case(f: Frame, case: Case, m: Matching, subject: Any) -> None:
    f.t.builder.loc = case.loc
    case.pattern(m, subject)
    for name, v in m.captures.items():
        case.targets[name](f, v)
    if case.guard is not None:
        m.need(case.guard(f))
    case.body(f)


def _first(f: Frame, subject: Any, tries: Iterable[Pattern]) -> tuple[list[Edge | None], Edge | None]:
    """Tries the patterns in order; returns the ends of those that match, and the path on which none matches."""
    t, held = f.t, Slot("subject")
    t.state[held] = subject
    ends: list[Edge | None] = []
    for attempt in tries:
        m = Matching(f)
        ends.append(t.path(functools.partial(_attempt, attempt, m, held)))
        if not m.fails:
            return ends, None
        t.join(m.fails, None)
    return ends, t.here()


def _attempt(attempt: Pattern, m: Matching, held: Slot) -> None:
    attempt(m, m.f.t.load(held))


# --- patterns ---------------------------------------------------------------------------------------

class Patterns:
    """The part of ``Virtualiser`` for ``match`` statements."""

    live: Liveness
    loc: Callable[[Any], Loc]
    expr: Callable[[ast.expr], Hook]
    suite: Callable[[Sequence[ast.stmt]], Hook]
    target: Callable[[ast.expr], Callable[[Frame, Any], None]]

    def do_Match(self, s: ast.Match) -> Hook:
        subject, after = self.expr(s.subject), self.live.after.get(s, frozenset())
        cases = [Case(self.pattern(c.pattern), {n: self.target(ast.Name(n, ast.Store())) for n in _names(c.pattern)},
                      self.expr(c.guard) if c.guard else None, self.suite(c.body), self.loc(c.pattern))
                 for c in s.cases]
        return lambda f: match(f, subject(f), cases, after)

    def pattern(self, p: ast.pattern) -> Pattern:
        loc = self.loc(p)
        match p:
            case ast.MatchValue() | ast.MatchSingleton():
                test = self._test(p)
                return lambda m, v: m.need(test(m.f, v))
            case ast.MatchAs(pattern=inner, name=name):
                return _capture(self.pattern(inner) if inner else _anything, name)
            case ast.MatchOr(patterns=options):
                if all(isinstance(q, (ast.MatchValue, ast.MatchSingleton)) for q in options):
                    return _one_of([self._test(q) for q in options], loc)
                return _either([self.pattern(q) for q in options], _names(p))
            case ast.MatchSequence(patterns=items):
                star = next((k for k, q in enumerate(items) if isinstance(q, ast.MatchStar)), None)
                return _sequence([self.pattern(q) for q in items], star)
            case ast.MatchStar(name=name):
                return _capture(_anything, name)
            case ast.MatchMapping(keys=keys, patterns=values, rest=rest):
                return _mapping([self.expr(k) for k in keys], [self.pattern(q) for q in values], rest)
            case ast.MatchClass(cls=cls, patterns=first, kwd_attrs=names, kwd_patterns=named):
                return _class(self.expr(cls), [self.pattern(q) for q in first],
                              dict(zip(names, [self.pattern(q) for q in named])), loc)
        raise AssertionError(f"no such pattern: {type(p).__name__}")

    def _test(self, p: ast.pattern) -> Callable[[Frame, Any], Any]:
        """The test of a pattern that is a single comparison."""
        loc = self.loc(p)
        if isinstance(p, ast.MatchSingleton):
            constant = p.value
            return lambda f, v: f.t.compare_at(loc, "is", v, constant)
        assert isinstance(p, ast.MatchValue)
        expected = self.expr(p.value)
        return lambda f, v: f.t.compare_at(loc, "eq", v, expected(f))


def _names(p: ast.pattern) -> list[str]:
    """The names that a pattern captures, sorted."""
    found = [getattr(n, "rest" if isinstance(n, ast.MatchMapping) else "name", None) for n in ast.walk(p)
             if isinstance(n, (ast.MatchAs, ast.MatchStar, ast.MatchMapping))]
    return sorted({n for n in found if n})


def _anything(m: Matching, v: Any) -> None:
    pass


def _capture(inner: Pattern, name: str | None) -> Pattern:
    def run(m: Matching, v: Any) -> None:
        inner(m, v)
        if name is not None:
            m.captures[name] = m.f.t.settle(v)
    return run


def _one_of(tests: Sequence[Callable[[Frame, Any], Any]], loc: Loc) -> Pattern:
    """``1 | 2 | None``: a single condition."""
    def run(m: Matching, v: Any) -> None:
        m.need(branches.any_of(m.f, [lambda f, test=test: test(f, v) for test in tests], loc))  # type: ignore[misc]
    return run


def _either(options: Sequence[Pattern], names: Sequence[str]) -> Pattern:
    """``a | b``: the paths of the alternatives that match are joined, and their captures merged like variables."""
    def run(m: Matching, v: Any) -> None:
        t = m.f.t
        slots = {n: Slot(n) for n in names}

        def store(option: Pattern, inner: Matching, subject: Any) -> None:
            option(inner, subject)
            for name, x in inner.captures.items():
                t.state[slots[name]] = x
        ends, left = _first(m.f, v, [functools.partial(store, option) for option in options])
        if left is not None:
            m.fails.append(left)
        t.join(ends, None)
        m.captures |= {n: t.load(slot) for n, slot in slots.items()}
    return run


def _sequence(items: Sequence[Pattern], star: int | None) -> Pattern:
    """``[a, *rest, b]``: matches tuples and lists; arrays, strings and dicts are not sequences for ``match``."""
    least = len(items) - (star is not None)

    def run(m: Matching, v: Any) -> None:
        t = m.f.t

        def long_enough(x: Any) -> bool:
            if isinstance(x, LongList):
                x.refused(t, "a pattern of")
            if not isinstance(x, (tuple, list, range, ListObj)):
                return False
            n = len(t.contents(x) if isinstance(x, ListObj) else x)
            return bool(n == least if star is None else n >= least)
        values = t.iterate(m.fits(v, long_enough))
        if star is not None:
            tail = len(items) - 1 - star
            middle = t.new_list(values[star:len(values) - tail])
            values = [*values[:star], middle, *values[len(values) - tail:]]
        for item, x in zip(items, values):
            item(m, t.settle(x))
    return run


def _mapping(keys: Sequence[Hook], values: Sequence[Pattern], rest: str | None) -> Pattern:
    """``{"a": p, **rest}``: matches dicts that have all the keys."""
    def run(m: Matching, v: Any) -> None:
        t = m.f.t
        wanted = [k(m.f) for k in keys]

        def has_all(x: Any) -> bool:
            return isinstance(x, (dict, DictObj)) and all(k in t.mapping(x) for k in wanted)
        v = m.fits(v, has_all)
        for k, value in zip(wanted, values):
            value(m, t.getitem(v, k))
        if rest is not None:
            others = {k: x for k, x in t.mapping(v).items() if k not in wanted}
            m.captures[rest] = t.new_dict(others)
    return run


def _class(cls: Hook, first: Sequence[Pattern], named: dict[str, Pattern], loc: Loc) -> Pattern:
    """``C(p, attribute=q)``: matches instances by class, then by attributes."""
    def run(m: Matching, v: Any) -> None:
        t = m.f.t
        c = cls(m.f)
        if not isinstance(c, type):
            raise TypeError("called match pattern must be a class")
        t.builder.loc = loc
        m.need(t.call(isinstance, v, c))
        v = t.settle(v)
        if first and c in WHOLE:
            if len(first) > 1:
                raise TypeError(f"{c.__name__}() accepts 1 positional sub-pattern ({len(first)} given)")
            first[0](m, v)
        else:
            _attributes(m, v, [*zip(_positional(c, len(first)), first)], loc)
        _attributes(m, v, named.items(), loc)
    return run


def _attributes(m: Matching, v: Any, patterns: Iterable[tuple[str, Pattern]], loc: Loc) -> None:
    t = m.f.t
    for name, pattern in patterns:
        m.need(t.call(hasattr, v, name))
        pattern(m, t.getattr(v, name, loc))


def _positional(c: type, count: int) -> tuple[str, ...]:
    names = getattr(c, "__match_args__", ())
    if count > len(names):
        raise TypeError(f"{c.__name__}() accepts {len(names)} positional sub-pattern"
                        f"{'' if len(names) == 1 else 's'} ({count} given)")
    return tuple(names[:count])
