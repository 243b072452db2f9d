"""Loops.

A loop at run time has one shape in the IR: a header block whose parameters are the values that change, a test, the
body, and one back edge.  The changing values are predicted first: the live names that the body assigns.  If the back
edge does not fit the header (an int becomes a float, an array gets another size), a new header is made from the entry
and that back edge, and the body is traced again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import Loc
from ...ir.graph import Block, Value
from ...ir.types import I64
from ..objects import growing_lists, iteration, list_changes, list_elements, long_lists, special_methods
from ..trees import closure_nesting
from ..values import lattice
from ..values.closures import Tagged, View
from ..values.code import Frame, Hook, Loop, Names
from ..values.growing import Appends, Growing
from ..values.protocol import Trace
from ..values.values import DictObj, Edge, ListObj, Obj, Slot, State, Sym
from .loop_match import Matcher
from .loop_prediction import correct, predict
from .path_merge import Merger

ATTEMPTS = 12


@dataclass(eq=False)
class LoopNode:
    """A loop in the source.  ``changed``: names that the body binds, or changes in place (``True``).

    ``head`` and ``after`` are the names that are live at the header and after the loop; None in comprehensions means
    all names.
    """

    body: Hook
    orelse: Hook | None
    head: Names | None
    after: Names | None
    changed: list[tuple[str, bool]]
    loc: Loc


def break_(f: Frame) -> None:
    if f.t.appends:
        f.t.appends[-1].leaves = True
    f.loops[-1].breaks.append(f.t.here())
    f.t.die()


def continue_(f: Frame) -> None:
    f.loops[-1].continues.append(f.t.here())
    f.t.die()


def _run_body(f: Frame, body: Callable[[], None]) -> tuple[Loop, list[Edge]]:
    """Traces one iteration; returns the loop's exits and the paths that reach the end of the body."""
    loop = Loop()
    f.loops.append(loop)
    try:
        end = f.t.path(body)
    finally:
        f.loops.pop()
    return loop, [e for e in (end, *loop.continues) if e is not None]


def _leave(f: Frame, node: LoopNode, completed: Edge | None, breaks: Sequence[Edge | None]) -> None:
    """Continues after the loop: from its regular end through ``else``, and from each ``break``."""
    if completed is not None:
        f.t.enter(completed)
        if node.orelse is not None:
            orelse = node.orelse
            completed = f.t.path(lambda: orelse(f))
    f.t.join([completed, *breaks], None if node.after is None else f.roots(node.after))


# --- while and for --------------------------------------------------------------------------------

def while_(f: Frame, node: LoopNode, test: Hook, loc: Loc) -> None:
    t = f.t
    breaks: list[Edge | None] = []

    def body(_: Sym | None) -> tuple[Edge | None, list[Edge]]:
        c = t.truth(test(f), loc)
        if c is False:
            return t.here(), []
        leave = None
        if c is not True:
            leave = t.fork(c.value, "body", "exit")
        loop, ends = _run_body(f, lambda: node.body(f))
        breaks[:] = loop.breaks
        return leave, ends
    completed = _repeat(f, node, body, None)
    _leave(f, node, completed, breaks)


def for_(f: Frame, node: LoopNode, iterable: Hook, assign: Callable[[Frame, Any], None], loc: Loc) -> None:
    walk(f, node, iterable(f), assign, loc)


def walk(f: Frame, node: LoopNode, v: Any, assign: Callable[[Frame, Any], None], loc: Loc) -> None:
    """Traces the loop over ``v``; if ``v`` is a union, one loop for each variant."""
    c = f.t.walked_choice(v)
    if c is not None:
        roots = None if node.after is None else f.roots(node.after)
        return f.t.dispatch(c, lambda x: walk(f, node, f.t.settled(v), assign, loc), roots)
    t = f.t
    t.builder.loc = loc
    v = long_lists.constant(t, v)
    whole, v = v, special_methods.walked(t, iteration.begin(t, v))
    partly = iteration.partly_counted(t, v)
    items = None if partly else iteration.static_items(t, v)
    iteration.mark(t.state, whole, None)
    if partly:
        completed, breaks = _to_the_shortest(f, node, v, assign)
    elif items is not None:
        completed, breaks = _written_out(f, node, v, items, assign)
    else:
        completed, breaks = _at_run_time(f, node, v, assign)
    if completed is not None:
        iteration.mark(completed.state, whole, True)
    _leave(f, node, completed, breaks)
    if any(breaks):
        iteration.mark(t.state, whole, None)


def _at_run_time(f: Frame, node: LoopNode, v: Any,
                 assign: Callable[[Frame, Any], None]) -> tuple[Edge | None, list[Edge | None]]:
    """Records a loop in the IR; returns its regular exit and its ``break`` edges."""
    t = f.t
    count = t.value(iteration.count(t, v))
    held = Slot("iterable")
    t.state[held] = v
    f.hidden.append(held)
    try:
        return _counted(f, node, held, count, assign)
    finally:
        f.hidden.remove(held)


def _counted(f: Frame, node: LoopNode, held: Slot, count: Value,
             assign: Callable[[Frame, Any], None]) -> tuple[Edge | None, list[Edge | None]]:
    t = f.t
    breaks: list[Edge | None] = []

    def body(it: Sym | None) -> tuple[Edge | None, list[Edge]]:
        assert it is not None
        t.builder.loc = node.loc
        inside, outside = t.func.new_block("body"), t.func.new_block("exit")
        t.builder.branch(t.builder.lt(it.value, count), inside, [], outside, [])
        leave = Edge(outside, dict(t.state))
        t.builder.at(inside)

        def once() -> None:
            assign(f, iteration.element(t, t.load(held), it))
            node.body(f)
        lengths = growing_lists.lengths(t, t.load(held))
        loop, ends = _run_body(f, once)
        _check_lengths(t, lengths, ends)
        breaks[:] = loop.breaks
        return leave, ends
    return _repeat(f, node, body, count), breaks


def _written_out(f: Frame, node: LoopNode, v: Any, items: Sequence[Any],
                 assign: Callable[[Frame, Any], None]) -> tuple[Edge | None, list[Edge | None]]:
    """Unrolls a loop over a static structure: traces the body once for each element."""
    t = f.t
    breaks: list[Edge | None] = []
    held = Slot("iterable")
    t.state[held] = (v, tuple(items))
    f.hidden.append(held)
    completed: Edge | None = None
    before = {xs: t.contents(xs) for xs in _lists(v)}
    try:
        for k in range(len(items)):
            def once(k: int = k) -> None:
                source, known = t.load(held)
                assign(f, iteration.item_now(t, source, known, k))
                node.body(f)
            loop, ends = _run_body(f, once)
            breaks += loop.breaks
            if not ends:
                break
            t.join(ends, None if node.head is None else f.roots(node.head))
            _check_unchanged(t, t.load(held)[0], items, k, before)
        else:
            completed = t.here()
    finally:
        f.hidden.remove(held)
    return completed, breaks


def _to_the_shortest(f: Frame, node: LoopNode, v: Any,
                     assign: Callable[[Frame, Any], None]) -> tuple[Edge | None, list[Edge | None]]:
    """Unrolls a loop over as many elements as a static structure has, which ends where a run-time length says."""
    t = f.t
    breaks: list[Edge | None] = []
    ended: list[Edge | None] = []
    most, counts = iteration.bounds(t, v)
    held = Slot("iterable")
    t.state[held] = v
    f.hidden.append(held)
    before = {xs: t.contents(xs) for xs in _lists(v)}
    try:
        for k in range(most):
            for n in counts:
                ended.append(t.fork(t.builder.gt(t.value(n), k), "body", "exit"))

            def once(k: int = k) -> None:
                assign(f, iteration.item_of(t, t.load(held), k))
                node.body(f)
            loop, ends = _run_body(f, once)
            breaks += loop.breaks
            if not ends:
                break
            t.join(ends, None if node.head is None else f.roots(node.head))
            _check_unchanged(t, t.load(held), (), k, before)
        else:
            ended.append(t.here())
        t.join(ended, None if node.head is None else f.roots(node.head))
        return t.here(), breaks
    finally:
        f.hidden.remove(held)


def _check_lengths(t: Trace, lengths: dict[ListObj, Any], ends: Sequence[Edge]) -> None:
    """Refuses a body that changes the length of a list of run-time length that its loop walks."""
    for end in ends:
        with t.on(end):
            if any(not lattice.same(t.length(xs), n) for xs, n in lengths.items()):
                t.unsupported("a loop that changes the length of the list it walks",
                              "a copy, `list(xs)`; or `while i < len(xs)`, to walk what is appended as well")


def _lists(v: Any) -> Iterator[ListObj]:
    """The lists that ``zip``, ``enumerate`` and similar objects iterate over."""
    if isinstance(v, Tagged):
        for part in v.parts():
            if isinstance(part, ListObj):
                yield part
            else:
                yield from _lists(part)


def _check_unchanged(t: Trace, source: Any, items: Sequence[Any], k: int, before: dict[ListObj, Any]) -> None:
    """Refuses a body that changes the object that the loop iterates over, whose elements have been read already."""
    walked = source.parts()[0] if isinstance(source, View) else source
    if isinstance(walked, DictObj) and len(t.contents(walked)) != len(items):
        t.raise_("RuntimeError", "dictionary changed size during iteration")
    if isinstance(source, View) and source.kind == "keys" and list(t.contents(walked)) != list(items):
        t.raise_("RuntimeError", "dictionary keys changed during iteration")
    if special_methods.is_iterator(source) and len(special_methods.left(t, source)) != len(items) - k - 1 or \
            isinstance(source, ListObj) and len(t.contents(source)) != len(items):
        t.unsupported("a loop that changes the length of the list it walks", "walk a copy: `list(xs)`")
    if any(not lattice.same(t.contents(xs), content) for xs, content in before.items()):
        t.unsupported("a loop that changes a list that `zip` or `enumerate` walks", "walk a copy: `list(xs)`")


# --- the header -----------------------------------------------------------------------------------

def _repeat(f: Frame, node: LoopNode, body: Callable[[Sym | None], tuple[Edge | None, list[Edge]]],
            count: Value | None) -> Any:
    """Traces a loop until its back edge fits its header; returns the regular exit, or None if there is none.

    ``body`` traces one iteration with its test and returns (the exit, the ends of the body).  ``count``: the number of
    iterations, None for ``while``.
    """
    t = f.t
    entry = t.here()
    roots = f.roots(node.head) if node.head is not None else \
        list(dict.fromkeys((*entry.state, *(f.slots[n] for n, _ in node.changed if n in f.slots))))
    mark = (len(t.func.blocks), len(t.returns))
    scratch = Block(t.func, "scratch")
    back_edges = [Edge(scratch, predict(f, node.changed, t.loop_types.get(node, {}), entry.state))]
    appends, begun = Appends(), len(t.session.frozen)
    for _ in range(ATTEMPTS):
        header = t.func.new_block("loop")
        it = Sym(header.add_param(I64, "it"), True) if count is not None else None
        merger = Merger(t, header, [entry, *back_edges], in_loop=True)
        with list_elements.before_moves(t, begun):
            state = merger.run(roots)
        t.enter(Edge(header, dict(state)))
        appends.again(t.depth + 1)
        frozen = len(t.session.frozen)
        leave, back = _iteration(t, body, it, None if node.head is None else roots, appends)
        appends.leaves |= len(t.returns) > mark[1]
        matcher = None
        if back is not None:
            matcher = Matcher(t, merger, state, back)
            fits = matcher.run(roots)
            if not fits and (len(back_edges) > 1 or not correct(t, back_edges[0].state, back.state, entry.state)):
                back_edges.append(Edge(scratch, back.state))
            wanted = appends.wanted() if count is not None else {}
            late = _froze(t, merger, state, frozen)
            if not fits or wanted or late or appends.overrun():
                del t.func.blocks[mark[0]:]          # ops left in the entry block are pure and unused
                del t.returns[mark[1]:]
                if wanted and count is not None:
                    with list_elements.before_moves(t, begun):
                        entry = _with_room(t, entry, back, wanted, count)
                    mark = (len(t.func.blocks), len(t.returns))
                continue
        _close(t, header, it, entry, merger, back, matcher)
        t.loop_types[node] = {p.hint: s for p in header.params if (s := _scalar(p)) is not None and p.hint}
        return leave
    t.builder.loc = node.loc
    closure_nesting.check(t, back_edges[-1].state, roots)
    return t.unsupported("the variables of this loop change their types or structure at every iteration",
                         "give each variable one type; keep a changing number of values in an array")


def _froze(t: Trace, merger: Merger, state: State, since: int) -> bool:
    """True if an iteration has frozen objects of an earlier one, which may have written into them before."""
    late = [o for o in t.session.frozen[since:] if o in state]
    for stand_in in late:
        for _, source in merger.new.get(stand_in, ()):
            list_elements.freeze_object(t, source, stand_in.readonly)
    return bool(late)


def _with_room(t: Trace, entry: Edge, back: Edge, wanted: dict[Obj, int], count: Value) -> Edge:
    """Makes room in the lists to which a loop appends, in front of it."""
    t.enter(entry)
    for xs, n in wanted.items():
        contents = [e.state.get(xs) for e in (entry, back)]
        if any(not isinstance(c, (tuple, Growing)) for c in contents):
            continue
        to = list_elements.common_kind(t, zip((entry, back), contents), True)
        if to is not None and not any(cell.array for cell in to.cells):
            t.state[xs] = list_changes.with_room(t, contents[0], to, t.builder.mul(count, n))
    return t.here()


def _iteration(t: Trace, body: Callable[[Sym | None], tuple[Edge | None, list[Edge]]], it: Sym | None,
               roots: list[Obj] | None, appends: Appends) -> tuple[Edge | None, Edge | None]:
    """Traces one iteration; returns the exit and the back edge, each None if there is none."""
    found: list[tuple[Edge | None, list[Edge]]] = []
    t.depth += 1
    t.appends.append(appends)
    try:
        t.survives(lambda: found.append(body(it)))
    finally:
        t.appends.pop()
        t.depth -= 1
    if not found:
        return None, None
    leave, ends = found[0]
    if not ends:
        return leave, None
    t.join(ends, roots, "latch")
    return leave, t.here()


def _close(t: Trace, header: Block, it: Sym | None, entry: Edge, merger: Merger, back: Edge | None,
           matcher: Matcher | None) -> None:
    """Emits the jumps to the header."""
    with t.on(entry):
        first = [t.builder.const(0)] if it is not None else []
        t.builder.jump(header, first + [t.convert(a, ty) for a, ty in zip(merger.args[0], merger.types)])
    if back is not None and matcher is not None:
        with t.on(back):
            again = [t.builder.add(it.value, 1)] if it is not None else []
            t.builder.jump(header, again + [t.convert(a, ty) for a, ty in zip(matcher.args, merger.types)])


def _scalar(p: Value) -> Any:
    return (p.type, True) if hasattr(p.type, "is_float") else None
