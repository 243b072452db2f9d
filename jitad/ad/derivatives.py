"""The table of derivatives: one line an op, its linear map, which serves both modes.

Notation: ``y = op(x, …)``; ``t`` a tangent, ``ct`` the cotangent of ``y``; ``b`` the builder.

* ``PARTIALS``: elementwise ops.  One entry an operand: a number, ``None`` (derivative zero), or a function
  ``(b, y, *xs) -> ∂y/∂x``.  Tangent ``Σ ∂ᵢ tᵢ``, cotangent ``x_bar += unbroadcast(∂ᵢ ct)``.
* ``WEIGHTS``: reductions ``y = Σ w a / n`` to first order; ``(b, op) -> w, n``, of the shapes of ``a`` and ``y``.
* ``LINEAR``: ops that are linear in their float operands together.  Tangents: the op itself on the tangents.
  Cotangents: ``(s, op, ct)``, which adds to the adjoints of the operands through the sweep ``s``.
* ``BILINEAR``: ops that are linear in each float operand separately; cotangents as for ``LINEAR``.
* ``ZERO``: no derivative (discrete results, or constant almost everywhere).

At kinks the value is fixed: ``abs`` and ``sign`` 0 at 0, ties of ``maximum``/``minimum``/``max``/``min`` shared
equally, ``sqrt`` inf at 0, ``hypot`` 0 at (0, 0), ``pow(x, y)`` takes x^y·log x as 0 where x ≤ 0.  Sources: Griewank
and Walther, *Evaluating Derivatives* (2008); for matrix products Giles (2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from ..ir.builder import Builder
from ..ir.graph import Op, Value
from ..ir.types import I64, Array, dims_of, dtype_of

Partial = Callable[..., Value] | float | None


class Sweep(Protocol):
    """The interface of the reverse sweep for transpose rules."""

    b: Builder

    def add(self, x: Value, contribution: Value) -> None:
        """``x_bar += contribution``."""

    def update(self, x: Value, how: str, v: Value, at: Sequence[Value]) -> None:
        """``x_bar = how(x_bar, v, at…)`` in place, ``how`` one of ``add_at``, ``add_slice``, ``add_put``."""

    def wants(self, x: Value) -> bool:
        """True if ``x`` has an adjoint."""


# --- elementwise ----------------------------------------------------------------------------------

def _pow_base(b: Builder, z: Value, x: Value, y: Value) -> Value:
    """y·x^(y−1), and 0 at (0, 0), where x^(y−1) is inf."""
    if y.const in (None, 0):
        x = b.select(b.and_(b.eq(x, 0.0), b.eq(y, 0.0)), b.const(1.0, dtype_of(x.type)), x)
    return b.mul(y, b.pow(x, b.sub(y, 1.0)))


def _pow_exponent(b: Builder, z: Value, x: Value, y: Value) -> Value:
    """x^y·log x, taken as 0 where x ≤ 0 (there log is not defined), also where 0^y is inf."""
    t = dtype_of(x.type)
    finite = b.select(b.eq(x, 0.0), b.const(0.0, t), z)
    return b.mul(finite, b.log(b.select(b.gt(x, 0.0), x, b.const(1.0, t))))


def _larger(b: Builder, x: Value, y: Value) -> Value:
    """1 where x > y, ½ where they are equal, else 0."""
    t = dtype_of(x.type)
    tie = b.select(b.eq(x, y), b.const(0.5, t), b.const(0.0, t))
    return b.select(b.gt(x, y), b.const(1.0, t), tie)


def _over_square_sum(b: Builder, v: Value, x: Value, y: Value) -> Value:
    return b.div(v, b.add(b.mul(x, x), b.mul(y, y)))


def _hypot(b: Builder, r: Value, v: Value) -> Value:
    t = dtype_of(r.type)
    return b.div(v, b.select(b.eq(r, 0.0), b.const(1.0, t), r))


def _gauss(b: Builder, x: Value, factor: float) -> Value:
    return b.mul(b.exp(b.neg(b.mul(x, x))), factor)


_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)

PARTIALS: dict[str, tuple[Partial, ...]] = {
    "add": (1.0, 1.0),
    "sub": (1.0, -1.0),
    "mul": (lambda b, z, x, y: y, lambda b, z, x, y: x),
    "div": (lambda b, z, x, y: b.div(1.0, y),
            lambda b, z, x, y: b.neg(b.mul(z, z if x.const == 1 else b.div(1.0, y)))),
    "pow": (_pow_base, _pow_exponent),
    "mod": (1.0, lambda b, z, x, y: b.neg(b.floordiv(x, y))),
    "floordiv": (None, None),
    "atan2": (lambda b, z, y, x: _over_square_sum(b, x, x, y), lambda b, z, y, x: b.neg(_over_square_sum(b, y, x, y))),
    "hypot": (lambda b, z, x, y: _hypot(b, z, x), lambda b, z, x, y: _hypot(b, z, y)),
    "copysign": (lambda b, z, x, y: b.mul(b.copysign(1.0, x), b.copysign(1.0, y)), None),
    "maximum": (lambda b, z, x, y: _larger(b, x, y), lambda b, z, x, y: _larger(b, y, x)),
    "minimum": (lambda b, z, x, y: _larger(b, y, x), lambda b, z, x, y: _larger(b, x, y)),
    "neg": (-1.0,),
    "abs": (lambda b, y, x: b.sign(x),),
    "sign": (None,),
    "floor": (None,),
    "ceil": (None,),
    "trunc": (None,),
    "round": (None,),
    "sqrt": (lambda b, y, x: b.mul(b.div(1.0, y), 0.5),),       # other derivatives divide 1 by y too
    "cbrt": (lambda b, y, x: b.div(1.0 / 3.0, b.mul(y, y)),),
    "exp": (lambda b, y, x: y,),
    "exp2": (lambda b, y, x: b.mul(y, math.log(2.0)),),
    "expm1": (lambda b, y, x: b.add(y, 1.0),),
    "log": (lambda b, y, x: b.div(1.0, x),),
    "log2": (lambda b, y, x: b.div(1.0 / math.log(2.0), x),),
    "log10": (lambda b, y, x: b.div(1.0 / math.log(10.0), x),),
    "log1p": (lambda b, y, x: b.div(1.0, b.add(x, 1.0)),),
    "sin": (lambda b, y, x: b.cos(x),),
    "cos": (lambda b, y, x: b.neg(b.sin(x)),),
    "tan": (lambda b, y, x: b.add(b.mul(y, y), 1.0),),
    "asin": (lambda b, y, x: b.div(1.0, b.sqrt(b.sub(1.0, b.mul(x, x)))),),
    "acos": (lambda b, y, x: b.div(-1.0, b.sqrt(b.sub(1.0, b.mul(x, x)))),),
    "atan": (lambda b, y, x: b.div(1.0, b.add(b.mul(x, x), 1.0)),),
    "sinh": (lambda b, y, x: b.cosh(x),),
    "cosh": (lambda b, y, x: b.sinh(x),),
    "tanh": (lambda b, y, x: b.sub(1.0, b.mul(y, y)),),
    "asinh": (lambda b, y, x: b.div(1.0, b.sqrt(b.add(b.mul(x, x), 1.0))),),
    "acosh": (lambda b, y, x: b.div(1.0, b.sqrt(b.sub(b.mul(x, x), 1.0))),),
    "atanh": (lambda b, y, x: b.div(1.0, b.sub(1.0, b.mul(x, x))),),
    "erf": (lambda b, y, x: _gauss(b, x, _TWO_OVER_SQRT_PI),),
    "erfc": (lambda b, y, x: _gauss(b, x, -_TWO_OVER_SQRT_PI),),
    "lgamma": (lambda b, y, x: b.digamma(x),),
    "digamma": (lambda b, y, x: b.polygamma(1.0, x),),
    "polygamma": (None, lambda b, y, n, x: b.polygamma(b.add(n, 1.0), x)),
}


# --- reductions -----------------------------------------------------------------------------------

def spread(b: Builder, v: Value, like: Value, axes: Sequence[int]) -> Value:
    """``v``, reduced over ``axes``, broadcast back to the shape of ``like``."""
    dims = b.dims(like)
    if isinstance(v.type, Array):
        one = b.const(1)
        kept = [one if i in axes else d for i, d in enumerate(dims)]
        v = b.reshape(v, *kept)
    return b.broadcast_to(v, *dims)


def _ties(b: Builder, op: Op) -> tuple[Value, Value]:
    """The weight 1 for extreme elements, 0 elsewhere, and the number of extreme elements."""
    a, axes = op.operands[0], op.attrs["axes"]
    t = dtype_of(a.type)
    hit = b.select(b.eq(a, spread(b, op.result, a, axes)), b.const(1.0, t), b.const(0.0, t))
    return hit, b.sum(hit, axes=axes)


WEIGHTS: dict[str, Callable[[Builder, Op], tuple[Value, Value]]] = {"max": _ties, "min": _ties}


# --- linear and bilinear ops ----------------------------------------------------------------------

def _reversed_along(b: Builder, a: Value, axis: int) -> Value:
    triples: list[Value] = []
    for i, n in enumerate(b.dims(a)):
        triples += [b.sub(n, 1), n, b.const(-1)] if i == axis else [b.const(0), n, b.const(1)]
    return b.slice(a, *triples)


def _cumsum(s: Sweep, op: Op, ct: Value) -> None:
    axis = op.attrs["axis"]
    back = s.b.cumsum(_reversed_along(s.b, ct, axis), axis=axis)
    s.add(op.operands[0], _reversed_along(s.b, back, axis))


def _select(s: Sweep, op: Op, ct: Value) -> None:
    c, x, y = op.operands
    zero = s.b.const(0.0, dtype_of(ct.type))
    if s.wants(x):
        s.add(x, s.b.select(c, ct, zero))
    if s.wants(y):
        s.add(y, s.b.select(c, zero, ct))


def _cast(s: Sweep, op: Op, ct: Value) -> None:
    s.add(op.operands[0], s.b.cast(ct, dtype=dtype_of(op.operands[0].type)))


def _fill(s: Sweep, op: Op, ct: Value) -> None:
    s.add(op.operands[0], s.b.sum(ct, axes=tuple(range(ct.type.rank))) if isinstance(ct.type, Array) else ct)


def _broadcast_to(s: Sweep, op: Op, ct: Value) -> None:
    s.add(op.operands[0], ct)                     # ``add`` sums over the axes that were broadcast


def _get(s: Sweep, op: Op, ct: Value) -> None:
    a, *at = op.operands
    s.update(a, "add_at", ct, at)


def _slice(s: Sweep, op: Op, ct: Value) -> None:
    a, *at = op.operands
    s.update(a, "add_slice", ct, [x for i in range(0, len(at), 3) for x in (at[i], at[i + 2])])


def _take(s: Sweep, op: Op, ct: Value) -> None:
    s.update(op.operands[0], "add_put", ct, op.operands[1:])


def _set(s: Sweep, op: Op, ct: Value) -> None:
    """Read the adjoint of the written element, then clear it, since the overwritten element has no influence."""
    a, v, *at = op.operands
    if s.wants(v):
        s.add(v, s.b.get(ct, *at))
    if s.wants(a):
        s.add(a, s.b.set(ct, s.b.zeros_like(v), *at))


def _add_at(s: Sweep, op: Op, ct: Value) -> None:
    a, v, *at = op.operands
    if s.wants(v):
        s.add(v, s.b.get(ct, *at))
    s.add(a, ct)


def _lengths(s: Sweep, v: Value, at: Sequence[Value]) -> list[Value]:
    """The operands of the ``slice`` that reads the part which a ``set_slice`` of ``v`` wrote."""
    return [x for i, n in enumerate(s.b.dims(v)) for x in (at[2 * i], n, at[2 * i + 1])]


def _set_slice(s: Sweep, op: Op, ct: Value) -> None:
    a, v, *at = op.operands
    if s.wants(v):
        s.add(v, s.b.slice(ct, *_lengths(s, v, at)))
    if s.wants(a):
        s.add(a, s.b.set_slice(ct, s.b.zeros_like(v), *at))


def _add_slice(s: Sweep, op: Op, ct: Value) -> None:
    a, v, *at = op.operands
    if s.wants(v):
        s.add(v, s.b.slice(ct, *_lengths(s, v, at)))
    s.add(a, ct)


def _put(s: Sweep, op: Op, ct: Value) -> None:
    """If an index occurs more than once the last write wins, and only it has a derivative."""
    a, v, index = op.operands
    b = s.b
    if s.wants(v):
        count = b.iota(_count(b, index))
        if isinstance(index.type, Array) and index.type.rank > 1:
            count = b.reshape(count, *b.dims(index))
        winner = b.put(b.fill(b.const(-1), b.emit("dim", a, axis=0)), count, index)
        won = b.eq(b.take(winner, index), count)
        extra = len(dims_of(v.type)) - len(dims_of(index.type))
        if extra:
            won = b.reshape(won, *b.dims(index), *[b.const(1)] * extra)
        s.add(v, b.select(won, b.take(ct, index), b.const(0.0, dtype_of(ct.type))))
    if s.wants(a):
        s.add(a, b.put(ct, b.zeros_like(v), index))


def _count(b: Builder, a: Value) -> Value:
    n = b.const(1, I64)
    for d in b.dims(a):
        n = b.mul(n, d)
    return n


def _add_put(s: Sweep, op: Op, ct: Value) -> None:
    a, v, index = op.operands
    if s.wants(v):
        s.add(v, s.b.take(ct, index))
    s.add(a, ct)


def _reshape(s: Sweep, op: Op, ct: Value) -> None:
    s.add(op.operands[0], s.b.reshape(ct, *s.b.dims(op.operands[0])))


def _transpose(s: Sweep, op: Op, ct: Value) -> None:
    perm = op.attrs["perm"]
    s.add(op.operands[0], s.b.transpose(ct, perm=tuple(perm.index(i) for i in range(len(perm)))))


def _concat(s: Sweep, op: Op, ct: Value) -> None:
    b, axis, offset = s.b, op.attrs["axis"], s.b.const(0)
    for v in op.operands:
        at: list[Value] = []
        for i, n in enumerate(b.dims(v)):
            at += [offset if i == axis else b.const(0), n, b.const(1)]
        if s.wants(v):
            s.add(v, b.slice(ct, *at))
        offset = b.add(offset, b.emit("dim", v, axis=axis))


def _sum(s: Sweep, op: Op, ct: Value) -> None:
    s.add(op.operands[0], spread(s.b, ct, op.operands[0], op.attrs["axes"]))


def _pass(s: Sweep, op: Op, ct: Value) -> None:
    s.add(op.operands[0], ct)


def _as_type(s: Sweep, op: Op, ct: Value) -> None:
    s.add(op.operands[0], s.b.as_type(ct, type=op.operands[0].type))


Transpose = Callable[[Sweep, Op, Value], None]

LINEAR: dict[str, Transpose] = {
    "select": _select, "cast": _cast, "fill": _fill, "broadcast_to": _broadcast_to,
    "get": _get, "slice": _slice, "take": _take,
    "set": _set, "add_at": _add_at, "set_slice": _set_slice, "add_slice": _add_slice, "put": _put, "add_put": _add_put,
    "reshape": _reshape, "transpose": _transpose, "concat": _concat, "sum": _sum, "cumsum": _cumsum,
    "copy": _pass, "as_type": _as_type,
}


def _outer(b: Builder, rows: Value, cols: Value) -> Value:
    return b.mul(b.reshape(rows, *b.dims(rows), b.const(1)), b.reshape(cols, b.const(1), *b.dims(cols)))


def _matmul(s: Sweep, op: Op, ct: Value) -> None:
    """With A′ = A or Aᵀ by ``ta``, B′ likewise, C = A′B′: A′_bar = C_bar B′ᵀ and B′_bar = A′ᵀ C_bar."""
    b, (x, y) = s.b, op.operands
    ta, tb = bool(op.attrs.get("ta")), bool(op.attrs.get("tb"))
    if s.wants(x):
        s.add(x, _left_bar(b, x, y, ct, ta, tb))
    if s.wants(y):
        s.add(y, _right_bar(b, x, y, ct, ta, tb))


def _left_bar(b: Builder, x: Value, y: Value, ct: Value, ta: bool, tb: bool) -> Value:
    if len(dims_of(x.type)) == 1:
        return b.mul(ct, y) if len(dims_of(y.type)) == 1 else b.matmul(y, ct, ta=tb)
    if len(dims_of(y.type)) == 1:
        return _outer(b, y, ct) if ta else _outer(b, ct, y)
    return b.matmul(y, ct, ta=tb, tb=True) if ta else b.matmul(ct, y, tb=not tb)


def _right_bar(b: Builder, x: Value, y: Value, ct: Value, ta: bool, tb: bool) -> Value:
    if len(dims_of(y.type)) == 1:
        return b.mul(ct, x) if len(dims_of(x.type)) == 1 else b.matmul(x, ct, ta=not ta)
    if len(dims_of(x.type)) == 1:
        return _outer(b, ct, x) if tb else _outer(b, x, ct)
    return b.matmul(ct, x, ta=True, tb=ta) if tb else b.matmul(x, ct, ta=not ta)


BILINEAR: dict[str, Transpose] = {"matmul": _matmul}

ZERO = frozenset(
    "isnan isinf isfinite eq ne lt le gt ge and or xor not shl shr clz popcount stop const undef empty iota dim "
    "nonzero all any argmax argmin check stack_empty".split())

# Handled by the sweeps themselves: ``push`` and ``pop`` are each other's adjoints.
STRUCTURAL = frozenset({"push", "pop"})

# Expanded to loops before differentiation (``expand.py``), so that zeros among the factors are no special case.
EXPANDED = frozenset({"prod", "cumprod"})
