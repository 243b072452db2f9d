"""Products of vectors, matrices and stacks of matrices; ``einsum``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ....ir.graph import Value
from ....ir.types import dims_of, dtype_of
from ...values.values import Context, Sym
from . import lengths, operators, promotion
from .lengths import nonnegative, size, sizes
from .lifting import from_list, lift, stack
from .promotion import Rule, axis_arg, promote, rank, refuse
from .reductions import reduce


def _pair(t: Context, x: Any, y: Any) -> tuple[Value, Value]:
    """Both operands in their common dtype; Python scalars are promoted like NumPy's."""
    a, b = promotion.strong(lift(t, x)), promotion.strong(lift(t, y))
    dtype, _ = promote(a, b)
    return promotion.as_dtype(t, a, dtype), promotion.as_dtype(t, b, dtype)


def _numbers(t: Context, a: Value, b: Value) -> tuple[Value, Value]:
    if dtype_of(a.type).is_bool:
        refuse(t, "a matrix product of bools", ".astype(int) first")
    return a, b


def _aligned(t: Context, a: Value, i: int, b: Value, j: int) -> None:
    """Checks that two axes that are summed over have equal sizes."""
    m, n = size(t, a, i), size(t, b, j)
    if (same := lengths.equal_sizes(t, m, n)) is not None:
        t.check(same, "ValueError", f"matmul: axis {i} of size {{}} and axis {j} of size {{}} are not aligned", m, n)


def matmul(t: Context, x: Any, y: Any) -> Sym:
    a, b = _numbers(t, *_pair(t, x, y))
    if not rank(a) or not rank(b):
        raise ValueError("matmul: Input operand does not have enough dimensions")
    i, j = rank(a) - 1, max(rank(b) - 2, 0)
    _aligned(t, a, i, b, j)
    if rank(a) <= 2 and rank(b) <= 2:
        return Sym(_product(t, a, b), False)
    if rank(b) == 1:
        rows = promotion.reshape(t, a, [lengths.count(t, a, range(i)), size(t, a, i)])
        return Sym(promotion.reshape(t, _product(t, rows, b), sizes(t, a)[:-1]), False)
    if rank(a) == 1:
        return Sym(_drop(t, _batched(t, promotion.with_axis(t, a, 0), b), -2), False)
    if rank(b) == 2:
        rows = promotion.reshape(t, a, [lengths.count(t, a, range(i)), size(t, a, i)])
        return Sym(promotion.reshape(t, _product(t, rows, b), [*sizes(t, a)[:-1], size(t, b, 1)]), False)
    return Sym(_batched(t, a, b), False)


def _drop(t: Context, v: Value, axis: int) -> Value:
    shape = sizes(t, v)
    del shape[axis]
    return promotion.reshape(t, v, shape)


def _batched(t: Context, a: Value, b: Value) -> Value:
    """Matrix products over broadcast leading axes."""
    e = t.builder
    lead_a, lead_b = sizes(t, a)[:-2], sizes(t, b)[:-2]
    batch = _broadcast_sizes(t, lead_a, lead_b)
    n = functools.reduce(e.mul, batch, e.const(1))
    flat = []
    for v in (a, b):
        full = promotion.broadcast_to(t, v, [*batch, *sizes(t, v)[-2:]])
        flat.append(promotion.reshape(t, full, [n, *sizes(t, v)[-2:]]))
    out = e.matmul(*flat)
    return promotion.reshape(t, out, [*batch, size(t, a, rank(a) - 2), size(t, b, rank(b) - 1)])


def _broadcast_sizes(t: Context, xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
    """The broadcast of two lists of leading sizes; emits checks where the sizes are not known."""
    one, out = t.builder.const(1), []
    n = max(len(xs), len(ys))
    for x, y in zip([one] * (n - len(xs)) + list(xs), [one] * (n - len(ys)) + list(ys)):
        if x.const == 1 or y.const == 1:
            out.append(y if x.const == 1 else x)
            continue
        if (same := lengths.equal_sizes(t, x, y)) is not None:
            t.check(same, "ValueError", "matmul: leading sizes {} and {} do not broadcast", x, y)
        out.append(x if x.const is not None else y)
    return out


def _product(t: Context, a: Value, b: Value) -> Value:
    """The ``matmul`` op; a transposed operand is passed untransposed, with a flag."""
    a, ta = _untransposed(a)
    b, tb = _untransposed(b)
    flags = {k: True for k, on in (("ta", ta), ("tb", tb)) if on}
    return t.builder.matmul(a, b, **flags)


def _untransposed(v: Value) -> tuple[Value, bool]:
    op = v.op
    if op is not None and op.name == "transpose" and op.attrs["perm"] == (1, 0):
        return op.operands[0], True
    return v, False


def dot(t: Context, a: Any, b: Any) -> Sym:
    a, b = _pair(t, a, b)
    if not rank(a) or not rank(b):
        return Sym(t.builder.mul(*_numbers(t, a, b)), False)
    if rank(b) <= 2:
        return matmul(t, Sym(a), Sym(b))
    return tensordot(t, Sym(a), Sym(b), ((rank(a) - 1,), (rank(b) - 2,)))


def vdot(t: Context, a: Any, b: Any) -> Sym:
    a, b = _numbers(t, *_pair(t, a, b))
    if not rank(a) and not rank(b):
        return Sym(t.builder.mul(a, b), False)
    a, b = (promotion.flat(t, v) if rank(v) else promotion.with_axis(t, v, 0) for v in (a, b))
    _aligned(t, a, 0, b, 0)
    return Sym(t.builder.matmul(a, b), False)


def inner(t: Context, a: Any, b: Any) -> Sym:
    a, b = _pair(t, a, b)
    if not rank(a) or not rank(b):
        return Sym(t.builder.mul(*_numbers(t, a, b)), False)
    return tensordot(t, Sym(a), Sym(b), ((rank(a) - 1,), (rank(b) - 1,)))


def outer(t: Context, a: Any, b: Any) -> Sym:
    a, b = _numbers(t, *_pair(t, a, b))
    a, b = (promotion.flat(t, v) if rank(v) else promotion.with_axis(t, v, 0) for v in (a, b))
    return Sym(t.builder.mul(promotion.with_axis(t, a, 1), b), False)


def outer_of(rule: Rule) -> Rule:
    """``ufunc.outer``: applies the rule to every pair of elements."""
    def pairs(t: Context, x: Any, y: Any) -> Sym:
        a, b = promotion.strong(lift(t, x)), promotion.strong(lift(t, y))
        v = a.value
        if rank(v):
            v = promotion.reshape(t, v, [*sizes(t, v), *[t.builder.const(1)] * rank(b.value)])
        out: Sym = rule(t, Sym(v, False), b)
        return out
    return pairs


def kron(t: Context, a: Any, b: Any) -> Sym:
    a, b = _numbers(t, *_pair(t, a, b))
    if not rank(a) or not rank(b):
        return Sym(t.builder.mul(a, b), False)
    while rank(a) != rank(b):
        a, b = (promotion.with_axis(t, a, 0), b) if rank(a) < rank(b) else (a, promotion.with_axis(t, b, 0))
    one, shape_a, shape_b = t.builder.const(1), sizes(t, a), sizes(t, b)
    wide = promotion.reshape(t, a, [n for s in shape_a for n in (s, one)])
    narrow = promotion.reshape(t, b, [n for s in shape_b for n in (one, s)])
    shape = [t.builder.mul(m, n) for m, n in zip(shape_a, shape_b)]
    return Sym(promotion.reshape(t, t.builder.mul(wide, narrow), shape), False)


def tensordot(t: Context, a: Any, b: Any, axes: Any = 2) -> Sym:
    a, b = _pair(t, a, b)
    if isinstance(axes, int):
        left, right = list(range(rank(a) - axes, rank(a))), list(range(axes))
    else:
        listed = [list(s) if isinstance(s, (tuple, list)) else [s] for s in axes]
        left = [axis_arg(t, i, rank(a)) for i in listed[0]]
        right = [axis_arg(t, i, rank(b)) for i in listed[1]]
    if len(left) != len(right):
        raise ValueError("shape-mismatch for sum")
    if any(not 0 <= i < rank(a) for i in left) or any(i >= rank(b) for i in right):
        raise IndexError("tuple index out of range")
    if len(set(left)) < len(left) or len(set(right)) < len(right):
        raise ValueError("duplicate axes are not allowed in tensordot")
    _numbers(t, a, b)
    for i, j in zip(left, right):                           # a size of 1 does not broadcast here, unlike in einsum
        _aligned(t, a, i, b, j)
    labels = iter(range(rank(a) + rank(b)))
    la = [next(labels) for _ in range(rank(a))]
    lb = [la[left[right.index(i)]] if i in right else next(labels) for i in range(rank(b))]
    out = [s for s in la if s not in lb] + [s for s in lb if s not in la]
    return Sym(_contract(t, (a, la), (b, lb), out), False)


def cross(t: Context, a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Sym:
    a, b = _numbers(t, *_pair(t, a, b))
    if not rank(a) or not rank(b) or any(dims_of(v.type)[-1] not in (None, 3) for v in (a, b)):
        refuse(t, "np.cross of anything but vectors of 3", "the products of the components")
    e, most = t.builder, max(rank(a), rank(b))
    for i, n in zip((axisa, axisb, axisc) if axis is None else (axis, axis, axis), (rank(a), rank(b), most)):
        if axis_arg(t, i, n) != n - 1:
            refuse(t, "np.cross along another axis than the last", "np.moveaxis first")
    for v in (a, b):
        length = size(t, v, rank(v) - 1)
        if not nonnegative(length) or length.const != 3:
            t.check(e.eq(length, 3), "ValueError", "incompatible dimensions for cross product")
    p, q = ([_component(t, v, i) for i in range(3)] for v in (a, b))
    times, less = operators.BINARY["mul"], operators.BINARY["sub"]
    parts = [less(t, times(t, p[i], q[j]), times(t, p[j], q[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    return from_list(t, parts) if most == 1 else Sym(stack(t, [x.value for x in parts], most - 1), False)


def _component(t: Context, v: Value, i: int) -> Sym:
    """``v[..., i]``"""
    if rank(v) == 1:
        return Sym(t.builder.get(v, t.builder.const(i)), False)
    return Sym(_drop(t, promotion.part(t, v, rank(v) - 1, t.builder.const(i), t.builder.const(1)), -1), False)


# --- einsum ---------------------------------------------------------------------------------------

Labelled = tuple[Value, list[Any]]                   # an array and the label of each of its axes


def einsum(t: Context, subscripts: Any, *operands: Any, optimize: Any = False) -> Sym:
    if not isinstance(subscripts, str):
        refuse(t, "np.einsum in this form", "np.einsum('ij,jk->ik', a, b)")
    xs = [promotion.strong(lift(t, x)) for x in operands]
    dtype, _ = promote(*xs)
    inputs, output = _parse(subscripts, [rank(x.value) for x in xs])
    if dtype.is_bool and (len(xs) > 1 or len(output) < len(set(inputs[0]))):
        refuse(t, "a sum of products of bools", ".astype(int) first")
    terms = [_diagonals(t, promotion.as_dtype(t, x, dtype), labels) for x, labels in zip(xs, inputs, strict=True)]
    first, *rest = terms
    while rest:
        other_labels = {s for _, labels in rest[1:] for s in labels}
        kept = _kept(first[1], rest[0][1], other_labels | set(output)) if rest[1:] else output
        first, rest = (_contract(t, first, rest[0], kept), kept), rest[1:]
    return Sym(_arrange(t, _summed(t, first, output), output), False)


def _kept(a: list[Any], b: list[Any], needed: set[Any]) -> list[Any]:
    return [s for s in a if s in needed] + [s for s in b if s in needed and s not in a]


def _parse(text: str, ranks: Sequence[int]) -> tuple[list[list[Any]], list[Any]]:
    """The labels of each operand and of the result; the axes of ``...`` are numbered from the last."""
    text = text.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise ValueError("more operands provided to einstein sum function than specified in the subscripts string"
                         if len(ranks) > len(parts) else "fewer operands provided to einstein sum function than "
                         "specified in the subscripts string")
    inputs = [_labels(p, n) for p, n in zip(parts, ranks)]
    widest = max((sum(isinstance(s, int) for s in labels) for labels in inputs), default=0)
    dots: list[Any] = list(range(-widest, 0))
    if arrow:
        output = [s for c in right.replace("...", ".") for s in (dots if c == "." else [c])]
        if len(set(output)) < len(output):
            raise ValueError("einstein sum subscripts string includes an output subscript multiple times")
        if not {s for s in output if isinstance(s, str)} <= {s for labels in inputs for s in labels}:
            raise ValueError("einstein sum subscripts string includes an output subscript of no operand")
        return inputs, output
    letters = [s for labels in inputs for s in labels if isinstance(s, str)]
    return inputs, dots + sorted(s for s in set(letters) if letters.count(s) == 1)


def _labels(part: str, n: int) -> list[Any]:
    letters = part.replace("...", ".")
    extra = n - len(letters.replace(".", ""))
    if extra < 0 or (extra and "." not in letters):
        raise ValueError("einstein sum subscripts string does not match the number of axes of its operand")
    return [s for c in letters for s in (range(-extra, 0) if c == "." else [c])]


def _diagonals(t: Context, v: Value, labels: list[Any]) -> Labelled:
    """Takes the diagonal of ``v`` for each label that occurs twice in ``labels``."""
    for s in labels:
        i = labels.index(s)
        j = next((k for k in range(i + 1, len(labels)) if labels[k] == s), None)
        if j is not None:
            rest = [k for k in range(rank(v)) if k not in (i, j)]
            moved = t.builder.transpose(v, perm=(i, j, *rest))
            _aligned(t, moved, 0, moved, 1)
            n = size(t, moved, 0)
            rows = promotion.reshape(t, moved, [t.builder.mul(n, n), *sizes(t, moved)[2:]])
            on = t.builder.mul(t.builder.iota(n), t.builder.add(n, 1))
            return _diagonals(t, t.builder.take(rows, on), [s, *[labels[k] for k in rest]])
    return v, labels


def _summed(t: Context, x: Labelled, needed: Sequence[Any]) -> Labelled:
    """Sums over the axes whose label is not in ``needed``."""
    v, labels = x
    axes = [i for i, s in enumerate(labels) if s not in needed]
    return reduce(t, "sum", v, axes), [s for s in labels if s in needed]


def _arrange(t: Context, x: Labelled, order: Sequence[Any]) -> Value:
    """Transposes the axes to the order of ``order``."""
    v, labels = x
    perm = tuple(labels.index(s) for s in order)
    return v if perm == tuple(range(rank(v))) else t.builder.transpose(v, perm=perm)


def _contract(t: Context, x: Labelled, y: Labelled, out: list[Any]) -> Value:
    """The product of two arrays summed over the labels not in ``out``; a matrix product where possible."""
    (a, la), (b, lb) = _summed(t, x, [*out, *y[1]]), _summed(t, y, [*out, *x[1]])
    a, la, b, lb = _without_ones(t, a, la, b, lb)
    (a, la), (b, lb) = _summed(t, (a, la), [*out, *lb]), _summed(t, (b, lb), [*out, *la])    # labels now in one only
    both = [s for s in la if s in lb]
    for s in both:
        _aligned(t, a, la.index(s), b, lb.index(s))
    batch, inside = [s for s in both if s in out], [s for s in both if s not in out]
    rows, cols = [s for s in la if s not in lb], [s for s in lb if s not in la]
    if not inside:
        return _elementwise_product(t, (a, la), (b, lb), out)
    where = {s: size(t, a, la.index(s)) for s in la} | {s: size(t, b, lb.index(s)) for s in lb}

    def many(labels: list[Any]) -> Value:
        return functools.reduce(t.builder.mul, [where[s] for s in labels], t.builder.const(1))

    left = promotion.reshape(t, _arrange(t, (a, la), batch + rows + inside), _grouped(many, batch, rows, inside))
    right = promotion.reshape(t, _arrange(t, (b, lb), batch + inside + cols), _grouped(many, batch, inside, cols))
    product = t.builder.matmul(left, right) if batch else _product(t, left, right)
    labels = batch + rows + cols
    shaped = promotion.reshape(t, product, [where[s] for s in labels]) if labels else product
    if labels and not rank(product):
        shaped = t.builder.fill(product, *[where[s] for s in labels])
    return _arrange(t, (shaped, labels), out)


def _grouped(many: Any, batch: list[Any], first: list[Any], second: list[Any]) -> list[Value]:
    """One size for each group of axes; without a batch, empty groups are omitted."""
    if batch:
        return [many(batch), many(first), many(second)]
    return [many(g) for g in (first, second) if g]


def _without_ones(t: Context, a: Value, la: list[Any], b: Value,
                  lb: list[Any]) -> tuple[Value, list[Any], Value, list[Any]]:
    """Drops axes of size 1 that broadcast against another size."""
    for s in [s for s in la if s in lb]:
        da, db = dims_of(a.type)[la.index(s)], dims_of(b.type)[lb.index(s)]
        if da == 1 and db != 1:
            a, la = reduce(t, "sum", a, [la.index(s)]), [x for x in la if x != s]
        elif db == 1 and da != 1:
            b, lb = reduce(t, "sum", b, [lb.index(s)]), [x for x in lb if x != s]
    return a, la, b, lb


def _elementwise_product(t: Context, x: Labelled, y: Labelled, out: list[Any]) -> Value:
    aligned = []
    for v, labels in (x, y):
        order = [s for s in out if s in labels]
        v = _arrange(t, (v, labels), order)
        one = t.builder.const(1)
        if rank(v):
            v = promotion.reshape(t, v, [size(t, v, order.index(s)) if s in order else one for s in out])
        aligned.append(v)
    return t.builder.mul(*aligned)
