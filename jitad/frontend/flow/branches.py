"""Hooks for control flow: a known condition is decided while tracing, an unknown one is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import Loc
from ...ir.graph import Op
from ...ir.types import BOOL
from ..objects import containers
from ..trees.references import TextOf
from ..values.closures import Template
from ..values.code import Frame, Hook, Names
from ..values.unions import unchanged
from ..values.values import Choice, Edge, Sym
from .raising import escape


def if_(f: Frame, test: Hook, then: Hook, other: Hook, after: Names, loc: Loc) -> None:
    c = f.t.truth(test(f), loc)
    if isinstance(c, bool):
        (then if c else other)(f)
    else:
        f.t.branch(c.value, lambda: then(f), lambda: other(f), f.roots(after))


def if_expr(f: Frame, test: Hook, then: Hook, other: Hook, loc: Loc) -> Any:
    c = f.t.truth(test(f), loc)
    if isinstance(c, bool):
        return (then if c else other)(f)
    return f.t.choose(c, lambda: then(f), lambda: other(f))


def augmented(f: Frame, op: str, x: Any, y: Any, store: Callable[[Any], None], after: Names, loc: Loc) -> None:
    """``target op= y``.  If the target is a union, the statement is traced once for each variant.

    Only names that are live afterwards (``after``) take part in the merge.  So the former value of the target does not
    count as another name of an array that is written.
    """
    t = f.t
    x = t.settle(x)
    if type(x) is not Choice:
        return store(t.in_place(op, x, y, loc))
    t.builder.loc = loc

    def side(v: Any) -> None:
        store(t.attempt(lambda: t.in_place(op, v, t.settle(y), loc)))
    t.dispatch(x, side, f.roots(after))


# --- and, or, comparisons -------------------------------------------------------------------------

def all_of(f: Frame, values: Sequence[Hook], loc: Loc) -> Any:
    """``a and b and …``: the first operand that is false, or the last."""
    return _shortcut(f, values, loc, stop_at=False)


def any_of(f: Frame, values: Sequence[Hook], loc: Loc) -> Any:
    """``a or b or …``: the first operand that is true, or the last."""
    return _shortcut(f, values, loc, stop_at=True)


def _shortcut(f: Frame, values: Sequence[Hook], loc: Loc, stop_at: bool) -> Any:
    first = values[0](f)
    if len(values) == 1:
        return first
    c = f.t.truth(first, loc)
    if isinstance(c, bool):
        return first if c is stop_at else _shortcut(f, values[1:], loc, stop_at)
    if isinstance(first, Sym) and first.type == BOOL:
        return logical(f, first, lambda: _shortcut(f, values[1:], loc, stop_at), stop_at, loc)

    def rest() -> Any:
        return _shortcut(f, values[1:], loc, stop_at)

    def keep() -> Any:
        return f.t.settle(first)
    return f.t.choose(c, keep, rest) if stop_at else f.t.choose(c, rest, keep)


def logical(f: Frame, first: Sym, rest: Callable[[], Any], stop_at: bool, loc: Loc) -> Any:
    """Combines two truth values: by one op if evaluating the second has no effect, otherwise by control flow."""
    t = f.t
    before, block = t.here(), t.func.new_block("rest")
    state = dict(t.state)
    mark = len(t.func.blocks)
    t.enter(Edge(block, dict(state)))
    t.assume(first.value, not stop_at)
    t.depth += 1
    end = t.path(lambda: t.keep(t.result, rest()))
    t.depth -= 1
    if end is not None and end.block is block and len(t.func.blocks) == mark and unchanged(t.state, state, t.result) \
            and all(map(_harmless, block.ops)) and not t.relies_on(first.value, not stop_at, block.ops):
        second = t.state.pop(t.result)
        if isinstance(second, bool) or (isinstance(second, Sym) and second.type == BOOL):
            t.func.blocks.remove(block)
            for op in block.ops:
                op.block = before.block
                before.block.ops.append(op)
            t.enter(Edge(before.block, state))
            t.builder.loc = loc
            op_name = "or" if stop_at else "and"
            known = second.value if isinstance(second, Sym) else t.value(second)
            return Sym(t.builder.emit(op_name, first.value, known), first.weak and getattr(second, "weak", True))
        t.state[t.result] = second
    found = end.state.get(t.result) if end is not None else None
    other = t.func.new_block("skip")
    t.enter(before)
    t.state = state
    edges = (other, block) if stop_at else (block, other)
    t.builder.branch(first.value, edges[0], [], edges[1], [])
    t.builder.at(other)
    t.assume(first.value, stop_at)
    state[t.result] = stop_at
    t.join([end, t.here()], None)
    return t.combined("or" if stop_at else "and", t.take_result(), first, found)


def _harmless(op: Op) -> bool:
    """True if an op may be evaluated speculatively: it is cheap and no derivative flows through it."""
    return op.name in ("const", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "dim", "cast", "add", "sub",
                       "mul", "isnan", "isinf", "isfinite", "abs", "neg", "clz", "popcount")


def chain(f: Frame, first: Hook, ops: Sequence[str], rest: Sequence[Hook], loc: Loc) -> Any:
    """``a < b < c``: evaluates each operand at most once, and stops at the first comparison that is false."""
    def step(left: Any, k: int) -> Any:
        right = rest[k](f)
        c = f.t.compare_at(loc, ops[k], left, right)
        if k + 1 == len(ops):
            return c
        truth = f.t.truth(c, loc)
        if isinstance(truth, bool):
            return step(right, k + 1) if truth else c
        return logical(f, truth, lambda: step(right, k + 1), False, loc)
    return step(first(f), 0)


# --- f-strings -------------------------------------------------------------------------------------

def _is_known(v: Any) -> bool:
    """True if a value is known while tracing, including all elements of a container."""
    if isinstance(v, (tuple, list, dict)):
        return all(map(_is_known, v.values() if isinstance(v, dict) else v))
    return containers.is_static(v)


def _is_word(v: Any) -> bool:
    return isinstance(v, TextOf) or isinstance(v, Sym) and not v.is_array


def _written(v: Any) -> tuple[str, list[Any]]:
    """A tuple or list as ``repr`` formats it: a template, and the unknown values in it."""
    if type(v) not in (tuple, list):
        return (escape(repr(v)), []) if _is_known(v) else ("{!r}", [v])
    parts = [_written(x) for x in v]
    inner = ", ".join(text for text, _ in parts) + ("," if type(v) is tuple and len(v) == 1 else "")
    return f"({inner})" if type(v) is tuple else f"[{inner}]", [x for _, values in parts for x in values]


def format_(f: Frame, pieces: Sequence[Any]) -> Any:
    """An f-string: a string if all parts are known, otherwise a ``Template``."""
    return _text(f, [p if isinstance(p, str) else (p[0](f), p[1], p[2](f)) for p in pieces])


def _text(f: Frame, pieces: Sequence[Any]) -> Any:
    c = f.t.first_choice([p[0] for p in pieces if not isinstance(p, str)])
    if c is not None:
        return f.t.over(c, lambda v: _text(f, pieces))
    text = ""
    values: list[Any] = []
    for p in pieces:
        if isinstance(p, str):
            text += escape(p)
            continue
        v, conversion, spec = p
        v = containers.plain(f.t, v)
        if not isinstance(spec, str):
            f.t.unsupported("a format that is only known at run time", "a constant width")
        if _is_known(v):
            shown = repr(v) if conversion == "r" else str(v) if conversion == "s" else v
            text += escape(format(shown, spec))
        elif isinstance(v, Template):
            text += v.text
            values += v.parts()
        else:
            how = "{" + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "") + "}"
            piece, found = (how, [v]) if isinstance(v, (Sym, TextOf)) else _written(v)
            if len(values) + len(found) > 4 or not all(map(_is_word, found)):
                f.t.unsupported("an f-string takes at most four numbers or strings that are known at run time only",
                                "leave arrays and further values out of the message")
            text += piece
            values += found
    return Template(text, *values) if values else text.replace("{{", "{").replace("}}", "}")
