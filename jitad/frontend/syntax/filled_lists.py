"""Comprehensions that make lists of equal lists, ``[[0.0] * m for _ in range(n)]``: one array, filled with a number."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import pytree
from ..columns.list_columns import Cell, kind
from ..objects import growing_lists, iteration
from ..objects.list_elements import ones_of, table_of
from ..objects.long_lists import LongList
from ..values.closures import Range
from ..values.code import Frame, Hook
from ..values.lattice import is_number, is_scalar, scalar_type
from ..values.protocol import Trace
from ..values.values import Sym
from .scope import stores

_CALLED = ("len", "max", "min", "range")
LARGEST = 2 ** 44                            # number of elements of an array
_SIZES = ("shape", "size")


@dataclass(frozen=True)
class Nest:
    """``[[element for … in inner] for … in …]``, where what is walked inside is the same in each iteration."""

    inner: Any                                # ``comprehensions.Clauses``
    element: Hook
    called: frozenset[str]


@dataclass(frozen=True)
class Filled:
    """What all innermost elements are, and how many there are: ``counts``, an integer or a range for each list."""

    value: Hook
    counts: tuple[Hook, ...]
    called: frozenset[str]                    # the builtins that it calls


def filled(e: ast.ListComp, hook: Callable[[ast.expr], Hook]) -> Filled | None:
    """The element of a comprehension, if it makes the same lists in each iteration and evaluating it has no effect."""
    if _range_of(e) is None:
        return None
    names, counts = {n for n, _ in stores([e.generators[0].target])}, []
    inner = e.elt
    while isinstance(inner, ast.ListComp) and (over := _range_of(inner)) is not None:
        names.update(n for n, _ in stores([inner.generators[0].target]))
        counts.append(over)
        inner = inner.elt
    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
        xs, n = (inner.left, inner.right) if isinstance(inner.left, ast.List) else (inner.right, inner.left)
        if not isinstance(xs, ast.List) or len(xs.elts) != 1:
            return None
        counts.append(n)
        inner = xs.elts[0]
    used = [n for x in (inner, *counts) for n in ast.walk(x)]
    if not counts or not _is_number(inner) or not all(map(_is_pure, counts)):
        return None
    if any(isinstance(n, ast.Name) and n.id in names for n in used):
        return None
    return Filled(hook(inner), tuple(map(hook, counts)), _called(counts))


def is_nest(e: ast.ListComp) -> frozenset[str] | None:
    """The builtins that the range of an inner comprehension calls, if it is the same in each iteration."""
    inner = e.elt
    if _range_of(e) is None or not isinstance(inner, ast.ListComp) or (over := _range_of(inner)) is None:
        return None
    targets = {n for n, _ in stores([e.generators[0].target])}
    names = {n.id for n in ast.walk(over) if isinstance(n, ast.Name)}
    return _called([over]) if _is_pure(over) and not names & targets else None


def _called(used: Iterable[ast.AST]) -> frozenset[str]:
    calls = (n.func for x in used for n in ast.walk(x) if isinstance(n, ast.Call))
    return frozenset(f.id for f in calls if isinstance(f, ast.Name))


def _range_of(e: ast.ListComp) -> ast.expr | None:
    """What a comprehension with one clause and no condition walks."""
    g = e.generators[0]
    return None if len(e.generators) > 1 or g.ifs or g.is_async else g.iter


def is_ragged(e: ast.ListComp) -> bool:
    """True if a list in a comprehension is as long as an expression with its targets says, as in a triangle."""
    names = {n for g in e.generators for n, _ in stores([g.target])}
    match e.elt:
        case ast.BinOp(op=ast.Mult(), left=ast.List(), right=n) | ast.BinOp(op=ast.Mult(), left=n, right=ast.List()):
            return _uses(n, names)
        case ast.ListComp(generators=[ast.comprehension(iter=ast.Call(func=ast.Name(id="range"), args=args))]):
            return any(_uses(n, names) for n in args)
    return False


def _uses(e: ast.expr, names: set[str]) -> bool:
    """True if an arithmetic expression has one of these variables as a term."""
    if isinstance(e, ast.BinOp):
        return _uses(e.left, names) or _uses(e.right, names)
    return isinstance(e, ast.Name) and e.id in names


def _is_number(e: ast.expr) -> bool:
    e = e.operand if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub) else e
    return isinstance(e, ast.Name) or isinstance(e, ast.Constant) and is_number(e.value)


def _is_pure(e: ast.expr) -> bool:
    """True if evaluating an expression once, rather than in each iteration, makes no difference."""
    match e:
        case ast.Name() | ast.Constant():
            return True
        case ast.BinOp(left=x, op=ast.Add() | ast.Sub() | ast.Mult(), right=y) | ast.Subscript(value=x, slice=y):
            return _is_pure(x) and _is_pure(y)
        case ast.BinOp(left=x, op=ast.FloorDiv(), right=ast.Constant(value=by)):
            return bool(by) and _is_pure(x)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return name in _CALLED and all(map(_is_pure, args))
        case ast.Attribute(value=x, attr=name):
            return name in _SIZES and _is_pure(x)
    return False


def listed(f: Frame, fill: Filled, walked: Any) -> Any:
    """The list, if its length and those of the lists in it are run-time values; otherwise None."""
    t = f.t
    if not isinstance(walked, (range, Range)) or not are_builtins(f, fill.called):
        return None
    x, sizes = fill.value(f), [_size(f, c(f)) for c in fill.counts]
    if not is_scalar(x) or None in sizes or not t.session.rows and all(isinstance(n, int) for n in sizes):
        return None
    array = t.read(t.call(np.full, (counted(t, walked), *sizes), x))
    return of_array(t, array, x)


def are_builtins(f: Frame, names: frozenset[str]) -> bool:
    """True if these names are not the program's."""
    return all(name not in f.slots and name not in f.globals and hasattr(builtins, name) for name in names)


def of_array(t: Trace, array: Sym, x: Any) -> Any:
    """The elements of an array as a list of lists of numbers like ``x``."""
    dtype, weak = scalar_type(x)
    made, ones = kind(pytree.LEAF, (Cell(dtype, bool(weak)),)), ones_of(array)
    for k in range(len(ones) - 1, 0, -1):
        made = table_of(made, ones[k:])
    return growing_lists.of(t, LongList(made, [t.new_array(array)]))


def counted(t: Trace, v: Any) -> Any:
    """The number of elements of what a loop walks."""
    if isinstance(v, Range):
        for x in v.parts():
            _fits(t, x)
    return iteration.count(t, v)


def _size(f: Frame, v: Any) -> Any:
    if isinstance(v, (range, Range)):
        return counted(f.t, v)
    if not is_scalar(v) or scalar_type(v)[0].is_float:
        return None
    _fits(f.t, v)
    return f.t.call(max, v, 0)


def _fits(t: Trace, v: Any) -> None:
    """Checks that a size is no sum that was too large for an integer: later checks of indices follow from that."""
    op = v.value.op if isinstance(v, Sym) else None
    if op is not None and op.name == "add":
        for x in op.operands:
            if x.const is None:
                t.check(t.builder.lt(x, LARGEST), "MemoryError", "Unable to allocate a list")
