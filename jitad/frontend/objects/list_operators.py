"""Operators of lists of run-time length (``growing_lists``), and assignments that exchange lists in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..values.growing import Growing
from ..values.lattice import is_scalar, scalar_type
from ..values.protocol import Trace
from ..values.values import ListObj, Sym
from . import containers, long_lists
from .growing_lists import of, place_of, snapshot
from .list_changes import moved
from .list_elements import contents, grown, is_table, kind_of, may_change
from .list_rows import Row
from .long_lists import LongList

EXCHANGED = "an assignment puts a list in a list of lists into another place, so that both would be one list"


def binary(t: Trace, op: str, x: Any, y: Any) -> Any:
    """``x op y`` where one operand is a list of run-time length."""
    both = (x, y)
    if op == "add" and all(isinstance(v, LongList) and may_change(v.kind) or type(v) is ListObj for v in both):
        found = [t.state[of(t, v)] if isinstance(v, LongList) else t.contents(v) for v in both]
        to = kind_of(t, found, True)
        if to is not None and not is_table(to):
            one, other = (grown(t, content, to) for content in found)
            pairs = zip(snapshot(t, one).columns, snapshot(t, other).columns)
            columns = [t.call(_joined_rows if cell.array else np.concatenate, pair)
                       for cell, pair in zip(to.cells, pairs)]
            return of(t, LongList(to, columns))
    return long_lists.binary(t, op, x, y)


def _joined_rows(columns: Any) -> Any:
    """The rows of both; one without rows does not know the shape of a row."""
    x, y = columns
    shape = y.shape[1:] if len(x) == 0 else x.shape[1:]
    out = np.empty((len(x) + len(y), *shape), x.dtype)
    if len(x) > 0:
        out[:len(x)] = x
    if len(y) > 0:
        out[len(x):] = y
    return out


def repeated(t: Trace, x: Any, y: Any) -> ListObj | None:
    """``xs * n``, if it is a list and the length of the result is a run-time value; otherwise None."""
    xs, n = (x, y) if isinstance(x, (ListObj, LongList)) else (y, x)
    if not is_scalar(n) or scalar_type(n)[0].is_float:
        return None
    if isinstance(xs, LongList):
        if not may_change(xs.kind):
            return None
        content = t.state[of(t, xs)]
    elif type(xs) is ListObj and isinstance(n, Sym):
        to = kind_of(t, [t.contents(xs)], True)
        if to is None:
            return None
        if is_table(to):
            t.unsupported("repeats a list in a list, which would be one and the same list at each place",
                          "`[[0.0] * m for _ in range(n)]`")
        content = grown(t, t.contents(xs), to)
    else:
        return None
    fun = _filled if content.length == 1 and isinstance(content.length, int) else _tiled
    return of(t, LongList(content.kind, [t.call(fun, c, n) for c in snapshot(t, content).columns]))


def _filled(column: Any, n: Any) -> Any:
    return np.full(max(n, 0), column[0], column.dtype) if column.ndim == 1 else np.repeat(column, max(n, 0), axis=0)


def _tiled(column: Any, n: Any) -> Any:
    return np.tile(column, (max(n, 0), *(1,) * (column.ndim - 1)))


# --- exchanging rows --------------------------------------------------------------------------------

def are_rows(items: Sequence[Any]) -> bool:
    """True for two lists in lists, which an assignment may exchange."""
    return len(items) == 2 and all(isinstance(x, Row) and len(x.places) == 1 for x in items)


def exchange(t: Trace, targets: Sequence[tuple[Any, Any]], rows: Sequence[Row]) -> bool:
    """``xs[i], xs[j] = rows``, which must be the rows at these places in either order; False if this is not what it is.
    """
    xs = rows[0].of
    if rows[1].of is not xs or any(obj is not xs for obj, _ in targets):
        return False
    containers.writable(t, xs, "a list")
    content = contents(t, xs)
    assert content is not None
    first, second = (place_of(t, content, i, "list assignment index out of range").value for _, i in targets)
    one, other = (row.places[0].value for row in rows)
    b = t.builder
    kept = b.and_(b.eq(first, one), b.eq(second, other))
    t.check(b.or_(kept, b.and_(b.eq(first, other), b.eq(second, one))), "ValueError", EXCHANGED)
    values = [row.array(t).value for row in rows]
    column = b.set(b.set(content.columns[0].value, values[0], first), values[1], second)
    t.state[xs] = Growing(content.kind, content.length, (Sym(column),), moved(t, content).version)
    return True
