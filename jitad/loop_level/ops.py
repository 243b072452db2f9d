"""The op table of the loop level.

Arithmetic is that of ``ir/ops.py``: each elementwise op takes scalars, or vectors of one length.  Its row is read
there, not copied.  The ops below are this level's own.  Indices and sizes are i64; b, out are buffers, i, n, s, l, t
indices, sizes, starts, lengths and steps.  Indices of ``load`` and ``store`` lie in the buffer; no op raises but
``check``.

A ``for`` is an op with a region: one block, whose parameters are the induction variable and the carried values, ended
by ``yield`` with the next carried values.  Its results are the carried values after the last iteration::

    %r = for {reductions = ("sum",)} %i = %lower to %upper step %s (%acc = %init) { … yield %next }

``add`` and ``mul`` of indices may have the attribute ``nsw``: they do not overflow.

Attributes of ``for``, which a later stage may use and must not invent:

* ``independent``: no iteration accesses an element of a buffer that another one writes, and carried values are
  reductions; iterations may run in any order, or at once.
* ``reductions``: for each carried value the op that combines it with what an iteration adds: ``"sum"``, ``"prod"``,
  ``"max"``, ``"min"``, ``"all"``, ``"any"``; partial results may be combined in any order.
* ``best``: ``"max"`` or ``"min"``: carries an extreme element, or the first NaN, and its least index (``argmax``).
* ``compacts``: stores at the carried number, which counts iterations; only the last store at a place is read.
* ``lanes``: the number of iterations that one vector should compute.
* ``parallel``: several threads may share the iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir import ops as ir_ops
from ..ir.graph import Value
from ..ir.type_rules import TypeRuleError
from ..ir.types import BOOL, I64, STACK, Scalar, dtype_of
from .types import Buffer, Vector, buffer_type, type_of

Rule = Callable[[Sequence[Value], dict[str, Any]], list[Any]]
REDUCTIONS = ("sum", "prod", "max", "min", "all", "any")
KINDS = ("arena", "frame", "result")
"""Places of a buffer: released with the iteration or call that made it; in the stack frame; handed to the caller."""


@dataclass(frozen=True)
class LoopOp:
    """The facts about an op.

    ``reads``, ``writes``: the operands whose elements it accesses, by number; ``effect``: must run, in order, even if
    unused; ``view``: the result is memory of the first operand; ``kernel``: a routine of a library.
    """

    name: str
    rule: Rule
    doc: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    effect: bool = False
    view: bool = False
    kernel: bool = False

    @property
    def pure(self) -> bool:
        """True if the op may go if nothing uses its results."""
        return not (self.effect or self.writes)


def _need(condition: bool, message: str) -> None:
    """Not for ops of which there are many, since the message is made in any case."""
    if not condition:
        raise TypeRuleError(message)


def _lanes(vs: Sequence[Value]) -> int | None:
    """The common number of lanes of operands, or None if they are scalars."""
    lanes = {t.lanes if isinstance(t := type_of(v), Vector) else None for v in vs}
    if len(lanes) > 1:
        raise TypeRuleError(f"mixes vectors of different lengths: {[str(v.type) for v in vs]}")
    return lanes.pop() if lanes else None


class _Lane:
    """A lane of an operand, for the type rules of the IR."""

    def __init__(self, v: Value) -> None:
        t = type_of(v)
        _need(not isinstance(t, Buffer), f"takes scalars or vectors, not {t}")
        self.type = t.dtype if isinstance(t, Vector) else t
        self.const = v.const


def _pointwise(name: str) -> Rule:
    def rule(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
        lanes = _lanes(vs)
        types = ir_ops.result_types(name, [_Lane(v) for v in vs], attrs)
        return [Vector(dtype_of(t), lanes) for t in types] if lanes else list(types)
    return rule


def _indices(vs: Sequence[Value], t: Buffer, lanes: bool = False) -> int | None:
    """Check indices; returns the number of lanes of a gather or scatter, whose indices may be vectors."""
    if len(vs) != t.rank:
        raise TypeRuleError(f"{len(vs)} indices into a buffer of rank {t.rank}")
    found = None
    for v in vs:
        index = type_of(v)
        if lanes and isinstance(index, Vector) and index.dtype is I64:
            _need(found in (None, index.lanes), "indices of different lengths")
            found = index.lanes
        else:
            if index is not I64:
                raise TypeRuleError(f"an index must be i64, not {index}")
    _need(not lanes or found is not None, "needs a vector of indices")
    return found


def _unmasked(vs: Sequence[Value], attrs: dict[str, Any], lanes: int | None) -> Sequence[Value]:
    """The operands after the mask, which is the first under ``masked``."""
    if not attrs.get("masked"):
        return vs
    _need(type_of(vs[0]) == Vector(BOOL, lanes or 0), f"the mask must be bool[{lanes}], not {vs[0].type}")
    return vs[1:]


def _load(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    lanes = attrs.get("lanes")
    b, *at = _unmasked(vs, attrs, lanes)
    t = buffer_type(b)
    _indices(at, t)
    return [Vector(t.dtype, lanes) if lanes else t.dtype]


def _store(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    lanes = _lanes(vs[1:2] if attrs.get("masked") else vs[:1])
    v, b, *at = _unmasked(vs, attrs, lanes)
    t, stored = buffer_type(b), type_of(v)
    _indices(at, t)
    if (stored.dtype if isinstance(stored, Vector) else stored) is not t.dtype:
        raise TypeRuleError(f"cannot store {stored} in {t}")
    return []


def _gather(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    b, *at = vs[1:] if attrs.get("masked") else vs
    t = buffer_type(b)
    lanes = _indices(at, t, lanes=True)
    _unmasked(vs, attrs, lanes)
    return [Vector(t.dtype, lanes or 0)]


def _scatter(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    v, b, *at = vs[1:] if attrs.get("masked") else vs
    t = buffer_type(b)
    lanes = _indices(at, t, lanes=True)
    _unmasked(vs, attrs, lanes)
    _need(type_of(v) == Vector(t.dtype, lanes or 0), f"cannot store {v.type} in {t}")
    return []


def _splat(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    t = type_of(vs[0])
    _need(isinstance(t, Scalar), f"needs a scalar, not {t}")
    return [Vector(dtype_of(vs[0].type), attrs["lanes"])]


def _fold_lanes(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    t = type_of(vs[0])
    _need(attrs["kind"] in REDUCTIONS, f"no reduction {attrs['kind']!r}")
    if not isinstance(t, Vector):
        raise TypeRuleError(f"needs a vector, not {t}")
    return [t.dtype]


def _size(v: Value) -> int | None:
    if v.type is not I64:
        raise TypeRuleError(f"a size must be i64, not {v.type}")
    known: int | None = v.const
    return known


def _alloc(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    t = attrs["type"]
    if not isinstance(t, Buffer) or t.strides is not None or len(vs) != t.rank:
        raise TypeRuleError(f"needs a size for each axis of {t}")
    if attrs["kind"] not in KINDS:
        raise TypeRuleError(f"no kind of buffer: {attrs['kind']!r}")
    for v, d in zip(vs, t.dims):
        known = _size(v)
        if d is not None and known != d:
            raise TypeRuleError(f"the sizes are not those of {t}")
    return [t]


def _dim(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    _need(0 <= attrs["axis"] < buffer_type(vs[0]).rank, f"axis {attrs['axis']} of {vs[0].type}")
    return [I64]


def _view(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    """(b, s0, l0, t0, …): then the axes ``drop`` are left out, and the others ordered by ``perm``."""
    t = buffer_type(vs[0])
    _need(len(vs) == 1 + 3 * t.rank, "needs start, length and step for every axis")
    _indices(vs[1:], Buffer(t.dtype, (None,) * (len(vs) - 1)))
    sizes = [_size(v) for v in vs[2::3]]
    drop = attrs.get("drop", ())
    _need(all(0 <= a < t.rank and sizes[a] == 1 for a in drop), "only axes of length 1 may be dropped")
    kept = [a for a in range(t.rank) if a not in drop]
    perm = attrs.get("perm", tuple(range(len(kept))))
    _need(sorted(perm) == list(range(len(kept))) and bool(kept), "not a permutation of the axes that are kept")
    dims = tuple(sizes[kept[p]] for p in perm)
    strides = None if attrs.get("contiguous") else (None,) * len(dims)
    return [Buffer(t.dtype, dims, strides, t.alias)]


def _reshape(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    t = buffer_type(vs[0])
    _need(t.strides is None, "only a buffer in C order can be reshaped")
    return [Buffer(t.dtype, tuple(_size(v) for v in vs[1:]), None, t.alias)]


def _retype(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    old, new = buffer_type(vs[0]), attrs["type"]
    fits = isinstance(new, Buffer) and new.dtype is old.dtype and new.rank == old.rank and new.strides == old.strides
    _need(fits and all(a is None or b is None or a == b for a, b in zip(old.dims, new.dims)),
          f"only sizes may be learnt or forgotten, not {old} become {new}")
    return [new]


_PRODUCTS = {(2, 1): 1, (1, 2): 1, (2, 2): 2, (3, 3): 3}


def _matmul(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    """(out, a, b): the types are those of the IR's ``matmul``."""
    out, a, b = (buffer_type(v) for v in vs)
    _need(a.dtype is b.dtype is out.dtype, "mixed dtypes")
    rank = _PRODUCTS.get((a.rank, b.rank))
    _need(out.rank == rank, f"cannot multiply {a} and {b} into {out}")
    return []


def _undef(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    return [attrs["type"]]


def _push(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    _need(vs[0].type is STACK, "needs a stack")
    return [STACK]


def _pop(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    _need(vs[0].type is STACK, "needs a stack")
    unknown = sum(t.dims.count(None) for t in attrs["types"] if isinstance(t, Buffer))
    _need(len(vs) == 1 + (unknown if attrs.get("zeros") else 0), "takes the sizes of buffers where there may be zeros")
    return [STACK, *attrs["types"]]


def _for(vs: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    _need(len(vs) >= 3 and all(v.type is I64 for v in vs[:3]), "needs bounds and a step of type i64")
    return [v.type for v in vs[3:]]


_IR = {name: LoopOp(name, _pointwise(name), d.doc) for name, d in ir_ops.OPS.items() if d.elementwise}
_SAME = ("const", "stack_empty", "check")            # with the rule of the IR, on scalars
OPS: dict[str, LoopOp] = {op.name: op for op in (
    *_IR.values(),
    *(LoopOp(name, ir_ops.OPS[name].rule, ir_ops.OPS[name].doc, effect=ir_ops.OPS[name].effect) for name in _SAME),
    LoopOp("undef", _undef, "a value that nothing looks at; a buffer of which nothing is written"),
    LoopOp("alloc", _alloc, "a new buffer of `type` with elements of any value: operands (n0, …)"),
    LoopOp("dim", _dim, "the size of b along `axis`"),
    LoopOp("load", _load, "b[i, …]; with `lanes` so many elements along the last axis", reads=(0,)),
    LoopOp("store", _store, "b[i, …] = v: operands (v, b, i, …)", writes=(1,)),
    LoopOp("gather", _gather, "b[i, …] with vectors among the indices", reads=(0,)),
    LoopOp("scatter", _scatter, "b[i, …] = v with vectors among the indices, in order", writes=(1,)),
    LoopOp("splat", _splat, "a vector of `lanes` equal lanes"),
    LoopOp("lane_ids", lambda vs, attrs: [Vector(I64, attrs["lanes"])], "the vector 0, 1, …, `lanes` - 1"),
    LoopOp("fold_lanes", _fold_lanes, "the lanes of a vector combined by `kind`"),
    LoopOp("view", _view, "b[s0 : s0+l0*t0 : t0, …] without the axes `drop`, in the order `perm`", view=True),
    LoopOp("reshape", _reshape, "the same elements with sizes (n0, …)", view=True),
    LoopOp("retype", _retype, "b with other literal sizes in its type", view=True),
    LoopOp("matmul", _matmul, "out = a @ b, or out += a @ b under `add`; `ta`, `tb` exchange the last two axes first; "
           "`ordered`: products are added in order",
           reads=(1, 2), writes=(0,), kernel=True),
    LoopOp("push", _push, "(stack, v, …) → stack: a new frame on top; the old stack stays valid"),
    LoopOp("pop", _pop, "stack → (stack below, v, …); with `zeros` of an empty stack zeros: (stack, sizes…)"),
    LoopOp("for", _for, "a counted loop: operands (lower, upper, step, carried…)", effect=True),
)}


def masked(name: str, attrs: dict[str, Any]) -> int:
    """The number of operands before those that the table numbers: 1 for a mask."""
    return 1 if attrs.get("masked") and name in ("load", "store", "gather", "scatter") else 0


def result_types(name: str, operands: Sequence[Value], attrs: dict[str, Any]) -> list[Any]:
    """The result types of an op; raises ``TypeRuleError``."""
    try:
        return OPS[name].rule(operands, attrs)
    except (IndexError, KeyError, ValueError) as e:
        raise TypeRuleError(f"missing operand or attribute {e}") from None
    except TypeError as e:
        raise TypeRuleError(str(e)) from None
