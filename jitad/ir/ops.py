"""The op table: each operation once, with everything that the compiler knows about it except four things.

These are its meaning in ``ir/evaluate/meaning.py``, its derivative in ``ad/derivatives.py``, the same derivative by
definition in ``semantics/partials.py``, and its machine code in ``lowering/math/ops.py``: a line each.  The tests find
new ops by walking ``OPS``.

Elementwise ops take any mix of scalars and arrays of one dtype, and broadcast as in NumPy by the *types* (a literal 1
broadcasts, ``?`` does not); the front end checks run-time sizes with ``check``.  No op raises: bounds, sizes and
domains are separate ``check`` ops, emitted by the front end.

Notation in the comments: a, b arrays; n, i, j, s, l, t i64 scalars (start, length, step).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from . import size_rules, type_rules
from .graph import Value
from .size_rules import SizeRule
from .type_rules import TypeRule, TypeRuleError, elementwise
from .types import BOOL, STACK, Scalar, Type

ORDERS = frozenset({"lt", "le", "gt", "ge"})
COMPARISONS = ORDERS | {"eq", "ne"}
MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
"""The comparison of exchanged operands."""
NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
"""The comparison that holds where another one does not, unless an operand is NaN."""
EXPENSIVE = 5
"""The cost of a division, in additions.  Ops of this cost or more are not computed speculatively."""
TRANSCENDENTAL = 20
"""The cost of ``exp`` and similar ops, in additions: a vector of eight takes some 20 cycles in libmvec."""


class Memory(Enum):
    """The memory that the results of an op share with its operands (``aliasing`` uses it); scalars have none."""

    NEW = "nothing"
    PART = "a view: some of the first operand's memory, or all of it in another order"
    WHOLE = "a view: all of the first operand's memory, in its order"
    UPDATE = "the first operand's memory, which is consumed: updated in place, and not used afterwards"
    STACK = "the memory of every array and stack among the operands, and of the other results"


@dataclass(frozen=True)
class OpDef:
    """The facts about an op.

    ``rule``: the types of the results.  ``doc``: the meaning, in NumPy.  ``arity``: the number of operands, unless it
    varies.  ``sizes``: the origin of the result's sizes.

    ``elementwise``: acts on each element independently.  ``effect``: must run, in order, even if unused.  ``memory``:
    what the results share with the operands; ``consumes`` and ``view`` follow from it.  ``indices``: the number of the
    first operand that is an index; 0 if there is none.

    ``cost``: of an element, in additions.  ``transcendental``: a function of libm that is worth saving, batching or
    moving; ``vector``: one that has a vector version.  ``commutative``: operands may be exchanged.  ``smooth``: has a
    derivative wherever it has a value (``semantics/kinks.py`` lists the exceptions of the others).
    """

    name: str
    rule: TypeRule
    doc: str
    arity: int | None = None
    sizes: SizeRule | None = None
    elementwise: bool = False
    effect: bool = False
    memory: Memory = Memory.NEW
    indices: int = 0
    cost: int = 1
    transcendental: bool = False
    vector: bool = False
    commutative: bool = False
    smooth: bool = False

    @cached_property
    def consumes(self) -> tuple[int, ...]:
        """The indices of the operands that are consumed."""
        return (0,) if self.memory is Memory.UPDATE else ()

    @cached_property
    def view(self) -> bool:
        """True if the result lies in the first operand's memory, which stays as it is."""
        return self.memory in (Memory.PART, Memory.WHOLE)


Axis = tuple[Value, int]
OPS: dict[str, OpDef] = {}
TERMINATORS = ("jump", "branch", "switch", "call", "return", "raise")


def _op(name: str, rule: TypeRule, doc: str, **facts: Any) -> None:
    OPS[name] = OpDef(name, rule, doc, **facts)


def _elementwise(operands: int, kinds: str, names: str, result: Scalar | None = None, **facts: Any) -> None:
    """Rows of elementwise ops; ``kinds``: the accepted dtypes, of f(loat), i(nt) and b(ool)."""
    for name in names.split():
        doc = f"np.{_NUMPY_NAME.get(name, name)}({', '.join('xyz'[:operands])})"
        _op(name, elementwise(operands, kinds, result), doc, elementwise=True, sizes=size_rules.broadcast, **facts)


def _libm(operands: int, kinds: str, names: str, vector: bool = True, **facts: Any) -> None:
    """Rows of transcendental functions."""
    _elementwise(operands, kinds, names, cost=TRANSCENDENTAL, transcendental=True, vector=vector, **facts)


_NUMPY_NAME = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "neg": "negative", "abs": "absolute", "round": "rint",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "atan2": "arctan2", "eq": "equal", "ne": "not_equal", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "not": "invert", "shl": "left_shift", "shr": "right_shift",
}

# --- the table: elementwise ops -------------------------------------------------------------------------

_elementwise(2, "fi", "add mul", commutative=True, smooth=True)
_elementwise(2, "fi", "sub", smooth=True)
_elementwise(2, "fi", "floordiv mod", cost=2 * EXPENSIVE)           # integers by zero yield 0: checked before
_elementwise(2, "f", "div", cost=EXPENSIVE)
_elementwise(2, "f", "copysign")
_elementwise(2, "fib", "maximum minimum", commutative=True)         # NaN wins, as in NumPy
_elementwise(1, "fi", "neg", smooth=True)
_elementwise(1, "fi", "abs sign")
_elementwise(1, "f", "floor ceil trunc round")
_elementwise(1, "f", "sqrt", cost=EXPENSIVE)
_elementwise(1, "f", "isnan isinf isfinite", BOOL)
_elementwise(2, "fib", "eq ne", BOOL, commutative=True)
_elementwise(2, "fib", "lt le gt ge", BOOL)
_elementwise(2, "ib", "and or xor", commutative=True)
_elementwise(2, "i", "shl shr")
_elementwise(1, "ib", "not")
for _name, _bits in (("clz", "leading zeros"), ("popcount", "ones")):
    _op(_name, elementwise(1, "i"), f"the number of {_bits} among the bits of x, in two's complement", elementwise=True,
        sizes=size_rules.broadcast, cost=2)
_libm(1, "f", "exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf erfc", smooth=True)
_libm(1, "f", "log log2 log10 log1p cbrt asin acos acosh atanh")
_libm(1, "f", "lgamma digamma", vector=False)
_libm(2, "fi", "pow")
_libm(2, "f", "atan2")
_libm(2, "f", "hypot", commutative=True)
_libm(2, "f", "polygamma", vector=False)                            # the order, rounded to an integer, comes first
_op("select", type_rules.select, "np.where(c, x, y)", elementwise=True, sizes=size_rules.broadcast)
_op("cast", type_rules.cast, "x.astype(dtype); float to int truncates", arity=1, elementwise=True,
    sizes=size_rules.same_shape)
_op("stop", type_rules.same, "x, with derivative zero", arity=1, elementwise=True, sizes=size_rules.same_shape)

# --- values and sizes -----------------------------------------------------------------------------------

_op("const", type_rules.const, "the scalar `value` of type `type`", arity=0, cost=0)
_op("undef", type_rules.undef, "a value of type `type` that nothing looks at", arity=0, cost=0)
_op("dim", type_rules.dim, "a.shape[axis]", arity=1, cost=0)
_op("fill", type_rules.fill, "np.full((n0, …), v): operands (v, n0, …)", sizes=size_rules.operand(1))
_op("empty", type_rules.empty, "np.empty((n0, …), dtype)", sizes=size_rules.operand(0))
_op("iota", type_rules.iota, "np.arange(n)", arity=1, sizes=size_rules.operand(0))

# --- elements and parts of arrays -----------------------------------------------------------------------

_op("get", type_rules.get, "a[i, …] with 0 <= i < size; fewer indices than axes give a subarray", memory=Memory.PART,
    indices=1, sizes=size_rules.subarray)
_op("set", type_rules.set_, "a with a[i, …] = v: operands (a, v, i, …)", memory=Memory.UPDATE, indices=2,
    sizes=size_rules.same_shape)
_op("add_at", type_rules.set_, "a with a[i, …] += v: operands (a, v, i, …)", memory=Memory.UPDATE, indices=2,
    sizes=size_rules.same_shape)
_op("slice", type_rules.slice_, "a[s0 : s0+l0*t0 : t0, …]: operands (a, s0, l0, t0, …)", memory=Memory.PART, indices=1,
    sizes=size_rules.operand(2, 3))
_op("set_slice", type_rules.set_slice, "a with that slice = v: operands (a, v, s0, t0, …)",
    memory=Memory.UPDATE, indices=2, sizes=size_rules.same_shape)
_op("add_slice", type_rules.set_slice, "a with that slice += v: operands (a, v, s0, t0, …)",
    memory=Memory.UPDATE, indices=2, sizes=size_rules.same_shape)
_op("take", type_rules.take, "a[index]", arity=2, cost=3, sizes=size_rules.gathered)
_op("put", type_rules.put, "a with a[index] = v, in order: operands (a, v, index)", arity=3, memory=Memory.UPDATE,
    sizes=size_rules.same_shape)
_op("add_put", type_rules.put, "np.add.at(a, index, v): operands (a, v, index)", arity=3, memory=Memory.UPDATE,
    sizes=size_rules.same_shape)
_op("nonzero", type_rules.nonzero, "np.nonzero(a)[0]", arity=1)

# --- rearrangement --------------------------------------------------------------------------------------

_op("reshape", type_rules.reshape, "a.reshape(n0, …)", memory=Memory.WHOLE, sizes=size_rules.operand(1))
_op("broadcast_to", type_rules.broadcast_to,
    "np.broadcast_to(a, (n0, …)); a may be a scalar; a size that changes is a literal 1", sizes=size_rules.operand(1))
_op("transpose", type_rules.transpose, "a.transpose(perm)", arity=1, memory=Memory.PART, sizes=size_rules.permuted)
_op("concat", type_rules.concat, "np.concatenate((a, b, …), axis)", sizes=size_rules.joined)
_op("copy", type_rules.same, "a.copy(): a value that may be consumed", arity=1, sizes=size_rules.same_shape)
_op("as_type", type_rules.as_type, "a with other literal sizes in its type", arity=1, memory=Memory.WHOLE,
    sizes=size_rules.same_shape)

# --- reductions, scans, products ------------------------------------------------------------------------

for _name, _kinds, _result in (("sum", "fi", None), ("prod", "fi", None), ("max", "fib", None), ("min", "fib", None),
                               ("all", "b", BOOL), ("any", "b", BOOL)):            # max, min of none: checked before
    _op(_name, type_rules.reduce(_result, _kinds), f"a.{_name}(axes)", arity=1, sizes=size_rules.reduced)
for _name in ("argmax", "argmin"):
    _op(_name, type_rules.arg_reduce, f"a.{_name}(axis)", arity=1, sizes=size_rules.reduced)
for _name in ("cumsum", "cumprod"):
    _op(_name, type_rules.scan, f"a.{_name}(axis)", arity=1, sizes=size_rules.same_shape)
_op("matmul", type_rules.matmul, "a @ b, with ta/tb the last two axes exchanged first; ordered: two matrices, each "
    "sum in order", arity=2, sizes=size_rules.product)

# --- stacks and effects ---------------------------------------------------------------------------------

_op("stack_empty", lambda vs, attrs: [STACK], "a stack with nothing on it", arity=0)
_op("push", type_rules.push, "(stack, v, …) → stack: a new frame on top; the old stack stays valid",
    memory=Memory.STACK)
_op("pop", type_rules.pop,
    "stack → (stack below, v, …), as pushed; with `zeros` of an empty stack zeros: (stack, sizes…)",
    memory=Memory.STACK)
_op("check", type_rules.check, "raise exception `exc` unless c: operands (c, up to 4 scalars for the message)",
    effect=True, cost=0)


def result_types(name: str, operands: Sequence[Any], attrs: dict[str, Any]) -> list[Type]:
    """The result types of an op; raises ``TypeRuleError``."""
    definition = OPS[name]
    if definition.arity is not None and definition.arity != len(operands):
        raise TypeRuleError(f"takes {definition.arity} operands")
    try:
        return definition.rule(operands, attrs)
    except (IndexError, KeyError) as e:
        raise TypeRuleError(f"missing operand or attribute {e}") from None
    except TypeError as e:
        raise TypeRuleError(str(e)) from None


def size_origin(v: Value, axis: int) -> Value | Axis | None:
    """The value that is a size, or the axis of an operand of the same size; None if the op determines the size."""
    definition = OPS.get(v.op.name) if v.op is not None else None
    if definition is None or definition.sizes is None:
        return None
    found: Value | Axis | None = definition.sizes(v.op, axis)
    return found


CONSUMING = frozenset(name for name, definition in OPS.items() if definition.consumes)
ELEMENTWISE = frozenset(name for name, definition in OPS.items() if definition.elementwise)
EFFECTS = frozenset(name for name, definition in OPS.items() if definition.effect)
