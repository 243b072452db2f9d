"""Peephole rules: identities that need a new op, or that look at the ops of the operands.

``ir.evaluate.fold`` has the identities that need neither.  A rule returns the value that an op equals, or an op (name,
operands, attrs) to replace it by, or ``None``.  All rules hold for every float, NaN, infinities and −0 included, but
for sums that may be reordered (``acc``): of these the sign of a zero is not defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.evaluate.fold import same
from ...ir.graph import Op, Value
from ...ir.ops import NEGATED, ORDERS
from ...ir.types import BOOL, Array, Scalar, dtype_of
from ...ir.window import reads
from ..analysis.float_facts import never

Rewrite = tuple[str, list[Value], dict[str, Any]]
Found = Value | Rewrite | None

REFLEXIVE = {"eq": True, "le": True, "ge": True, "ne": False, "lt": False, "gt": False}


def rewrite(op: Op) -> Found:
    """The result of the rule for ``op``, if there is one."""
    rule = RULES.get(op.name)
    return rule(op) if rule is not None else None


def _constant(value: Any, type: Scalar) -> Rewrite:
    return "const", [], {"value": value, "type": type}


def _compare(op: Op) -> Found:
    x, y = op.operands
    if x is y and isinstance(x.type, Scalar) and not x.type.is_float:
        return _constant(REFLEXIVE[op.name], BOOL)
    if op.name == "eq" and x.type == BOOL and y.const is not None:
        return x if y.const else ("not", [x], {})
    if never(op):
        return _constant(False, BOOL)
    return None


def _not(op: Op) -> Found:
    inner = op.operands[0].op
    if inner is None or dtype_of(op.result.type) != BOOL:
        return None
    if inner.name == "not":
        return inner.operands[0]
    exact = inner.name in ("eq", "ne")                   # with NaN, < and >= are both false
    if inner.name in NEGATED and (exact or not dtype_of(inner.operands[0].type).is_float):
        return NEGATED[inner.name], list(inner.operands), {}
    return None


def _select(op: Op) -> Found:
    c, x, y = op.operands
    if c.type == BOOL and x.type == BOOL and x.const is not None and y.const is not None:
        if x.const == y.const:
            return x
        return c if x.const else ("not", [c], {})
    if c.op is not None and c.op.name == "not" and isinstance(c.type, Scalar):
        return "select", [c.op.operands[0], y, x], {}
    return _choice_of_extreme(c, x, y)


def _choice_of_extreme(condition: Value, x: Value, y: Value) -> Found:
    """``x if x > y else y`` of integers is their maximum."""
    order = condition.op
    if order is None or order.name not in ORDERS or not isinstance(x.type, Scalar) or not x.type.is_int:
        return None
    a, b = order.operands
    if same(a, x) and same(b, y):
        return "maximum" if order.name in ("gt", "ge") else "minimum", [x, y], {}
    if same(a, y) and same(b, x):
        return "minimum" if order.name in ("gt", "ge") else "maximum", [x, y], {}
    return None


def _sub(op: Op) -> Found:
    x, y = op.operands
    t = op.result.type
    if isinstance(t, Scalar) and t.is_int:
        if x is y:
            return _constant(0, t)
        if x.op is not None and x.op.name == "add" and y in x.op.operands:     # (a + b) - b
            a, b = x.op.operands
            return a if b is y else b
        if y.const is not None and x.op is not None and x.op.name in ("add", "sub"):
            added = x.op.operands[1].const                                     # (a - 1) - -1, the trip count downwards
            if added is not None and y.const == (added if x.op.name == "add" else -added):
                return x.op.operands[0]
    return None


def _add(op: Op) -> Found:
    x, y = op.operands
    if isinstance(op.result.type, Scalar) and op.result.type.is_int:
        for a, b in ((x, y), (y, x)):
            if a.op is not None and a.op.name == "sub" and a.op.operands[1] is b:   # (p - b) + b
                return a.op.operands[0]
            if a.op is not None and a.op.name == "mul" and a.op.operands[1].const == -1:     # a range that goes down
                return "sub", [b, a.op.operands[0]], {}
    return _nothing_added(op)


def _nothing_added(op: Op) -> Found:
    """The start of a sum that is nothing, if the sum may be reordered: cotangents of a side that was not taken."""
    before, term = op.operands[:2]
    return before if op.attrs.get("acc") and term.const == 0 and before.type == op.result.type else None


def _bits(op: Op) -> Found:
    x, y = op.operands
    if x is not y:
        return None
    if op.name != "xor":
        return x
    return _constant(False if x.type.is_bool else 0, x.type) if isinstance(x.type, Scalar) else None


def _extreme(op: Op) -> Found:
    x, y = op.operands
    return x if x is y else None


def _pow(op: Op) -> Found:
    x, n = op.operands
    if n.const == 1 and x.type == op.result.type:
        return x
    return ("mul", [x, x], {}) if n.const == 2 and x.type == op.result.type else None


def _neg(op: Op) -> Found:
    inner = op.operands[0].op
    return inner.operands[0] if inner is not None and inner.name == "neg" else None


def _transpose(op: Op) -> Found:
    a, perm = op.operands[0], op.attrs["perm"]
    if list(perm) == list(range(len(perm))):
        return a
    if a.op is not None and a.op.name == "transpose":
        inner = a.op.attrs["perm"]
        return "transpose", [a.op.operands[0]], {"perm": type(perm)(inner[p] for p in perm)}
    return None


def _get(op: Op) -> Found:
    """``a[i][j]`` is ``a[i, j]``; an element of a ``fill`` is its value; a stored element is not read again.

    An element of ``a[:n]`` is that of ``a``: a row through which a loop updates its matrix is such a slice of it.
    """
    a, indices = op.operands[0], op.operands[1:]
    if a.op is None:
        return None
    if a.op.name == "get":
        return "get", [*a.op.operands, *indices], {}
    if a.op.name == "iota":
        return indices[0]
    if not isinstance(op.result.type, Scalar):
        return None
    if a.op.name == "slice":
        starts, steps = a.op.operands[1::3], a.op.operands[3::3]
        plain = all(v.const == 0 for v in starts) and all(v.const == 1 for v in steps)
        return ("get", [a.op.operands[0], *indices], {}) if plain else None
    if a.op.name == "fill" or (a.op.name == "broadcast_to" and isinstance(a.op.operands[0].type, Scalar)):
        return a.op.operands[0]
    stored = a.op.name == "set" and len(a.op.operands) == len(op.operands) + 1
    return a.op.operands[1] if stored and all(map(same, a.op.operands[2:], indices)) else None


def _slice(op: Op) -> Found:
    """A part of a part is a part, as column 0 of ``p[i + 1:]``: its cotangent needs no array for the larger part.

    Of each axis, one of the two must begin at 0 and have the step 1, so that no index is computed.
    """
    (part, *outer), found = op.operands, list[Value]()
    if part.op is None or part.op.name != "slice":
        return None
    a, *inner = part.op.operands
    for k in range(0, len(outer), 3):
        (start, _, step), (first, length, stride) = inner[k:k + 3], outer[k:k + 3]
        if first.const == 0 and stride.const == 1:
            found += start, length, step
        elif start.const == 0 and step.const == 1:
            found += first, length, stride
        else:
            return None
    return "slice", [a, *found], {}


def _set(op: Op) -> Found:
    """``a[i] = a[i]`` is ``a``; ``a[i:j] += v`` ends in such a store."""
    return op.operands[0] if reads(op.operands[1], op) else None


def _add_slice(op: Op) -> Found:
    """``a[i:j] += v`` is ``a`` if ``v`` has no elements, or is a negated product over no elements, whose are all −0."""
    a, v = op.operands[:2]
    if not isinstance(v.type, Array):
        return None
    term = v.op.operands[0].op if v.op is not None and v.op.name == "neg" else None
    return a if 0 in v.type.dims or term is not None and term.name == "matmul" and _over_nothing(term) else None


def _over_nothing(product: Op) -> bool:
    t = product.operands[0].type
    assert isinstance(t, Array)
    return t.dims[t.rank - 2 if product.attrs.get("ta") and t.rank > 1 else t.rank - 1] == 0


def _stop(op: Op) -> Found:
    inner = op.operands[0].op
    return inner.result if inner is not None and inner.name in ("stop", "const") else None


RULES: dict[str, Callable[[Op], Found]] = {
    **dict.fromkeys(NEGATED, _compare), **dict.fromkeys(("and", "or", "xor"), _bits),
    "not": _not, "select": _select, "sub": _sub, "add": _add, "maximum": _extreme, "minimum": _extreme, "pow": _pow,
    "neg": _neg, "transpose": _transpose, "get": _get, "set": _set, "set_slice": _set, "add_at": _nothing_added,
    "slice": _slice, "stop": _stop, "add_slice": _add_slice,
}
