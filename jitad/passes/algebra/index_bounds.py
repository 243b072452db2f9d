"""Bounds of arrays of indices, from how they are computed.

``a[i]`` with an array ``i`` compares the greatest and the least index with the size, and adds the size to negative
indices.  An extreme is a loop over the indices, which nothing behind the comparison can share.  Six rules::

    max (i + c), min (i + c)  →  max i + c, min i + c     the extremes of i have been compared, or i counts
    max, min of 0 … n − 1     →  n − 1, 0
    max (i % n) < n           →  n > 0                    n is a size, or has been compared with 0
    (i + 1) % n               →  i + 1 or i + 1 - n or …  the extremes of i have been compared with n
    i < 0 ? i + n : i         →  i                        i counts, or is a remainder
    take a, i + c             →  slice a, c, n            i is 0 … n − 1

The extremes that are left move ahead, to the first ones of their block: one loop finds them all.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.dominance import dominators
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import I64, Array, dtype_of
from ...ir.uses import users
from ..analysis.cfg import substitute

EXTREMES = ("max", "min")
Compared = tuple[Value, str, Value | None]
"""An array, which extreme of it, and the size with which a check compares that; or a number, and that it is natural."""
FAR = 1 << 40
"""The largest constant that is added to an index: the sum with a size does not wrap."""


def index_bounds(module: Module) -> bool:
    """Rewrite the extremes of arrays of indices in every function; returns True if anything changed."""
    return any([_Bounds(module, func).run() for func in module.functions.values()
                if any(map(_is_extreme, func.all_ops()))])


def _is_extreme(op: Op) -> bool:
    return op.name in EXTREMES and op.result.type is I64 and isinstance(op.operands[0].type, Array)


class _Bounds:
    """The rewriting of one function."""

    def __init__(self, module: Module, func: Function) -> None:
        self.module, self.func, self.dom = module, func, dominators(func)
        self.users = users(func.all_ops())
        self.values: dict[Value, Value] = {}             # replaced → replacement
        self.extremes: dict[tuple[Value, str], Value] = {}
        self.compared: dict[Compared, list[Block]] = {}

    def run(self) -> bool:
        changed = False
        for block in self.dom.order:
            todo, block.ops = block.ops, []
            for op in todo:
                new = self._replacement(Builder(block, op.loc), op)
                if new is not None:
                    self.values[op.result] = new
                else:
                    block.ops.append(op)
            changed |= _gather(block)
        substitute(self.func, self.values)
        return changed or bool(self.values)

    def _replacement(self, b: Builder, op: Op) -> Value | None:
        if op.name == "check":
            self._compare(op, b.block)
        elif op.name == "select" and isinstance(op.result.type, Array):
            return self._without_wrap(b, op)
        elif op.name == "take":
            return self._part(b, op)
        elif _is_extreme(op) and all(_is_bound(user) for user in self.users.get(op.result, ())):
            new = self._known_extreme(b, op)
            if new is None or not self._is_remainder(op.operands[0], b.block):   # a bound of remainders is no extreme
                self.extremes[op.operands[0], op.name] = new or op.result
            return new
        return None

    # --- extremes ---------------------------------------------------------------------------------

    def _known_extreme(self, b: Builder, op: Op) -> Value | None:
        """The extreme as a number.  What that of an empty array is does not matter: nobody looks at it."""
        x, kind = op.operands[0], op.name
        made = x.op
        if made is None:
            return None
        if made.name == "iota":
            return b.const(0) if kind == "min" else b.emit("sub", made.operands[0], b.const(1))
        if self._is_remainder(x, b.block) and self._read_as_index(op, n := made.operands[1]):
            return b.const(0) if kind == "min" else b.emit("maximum", b.emit("sub", n, b.const(1)), b.const(0))
        shifted = _shifted(made)
        if shifted is None:
            return None
        index, c = shifted
        known = self.extremes.get((index, kind))
        if known is None or not self._dominates(known, b.block):
            if index.op is None or index.op.name != "iota":
                return None
            known = b.const(0) if kind == "min" else b.emit("sub", index.op.operands[0], b.const(1))
        elif not self._stays_in_range(index, c, b.block):
            return None
        return b.emit("add", known, b.const(c))

    def _read_as_index(self, op: Op, n: Value) -> bool:
        """True if an extreme of remainders by ``n`` is only compared with ``n`` and ``-n``, and named in messages."""
        def fits(user: Op) -> bool:
            if user.name == "check":
                return True
            other = user.operands[1]
            if op.name == "max":
                return user.name == "lt" and other is n
            return user.name == "ge" and other.op is not None and other.op.name == "neg" and other.op.operands[0] is n
        return all(map(fits, self.users.get(op.result, ())))

    def _dominates(self, v: Value, block: Block) -> bool:
        return v.block is None or v.block is block or self.dom.dominates(v.block, block)

    def _is_compared(self, what: Compared, block: Block) -> bool:
        """True if a check ahead of what comes next in ``block`` has compared it."""
        return any(before is block or self.dom.dominates(before, block) for before in self.compared.get(what, ()))

    def _stays_in_range(self, index: Value, c: int, block: Block) -> bool:
        """True if ``index + c`` does not wrap: the extreme on that side has been compared with a size."""
        return self._is_compared((index, "max" if c > 0 else "min", None), block)

    def _is_remainder(self, x: Value, block: Block) -> bool:
        """True if the elements of ``x`` are remainders by a number that is not negative."""
        n = x.op.operands[1] if x.op is not None and x.op.name == "mod" else None
        return n is not None and (_is_size(n) or self._is_compared((n, "natural", None), block))

    def _compare(self, check: Op, block: Block) -> None:
        """Note an extreme that a check of an index bounds by a size: ``n == 0 or max i < size``, ``… min i >= -size``.

        ``n`` is the number of indices: only the check of an index has that message.  Natural numbers are noted, too.
        """
        info, test = self.module.exceptions[check.attrs["exc"]], check.operands[0].op
        if test is not None and test.name == "ge" and test.operands[1].const == 0 and test.operands[0].type is I64:
            self.compared.setdefault((test.operands[0], "natural", None), []).append(block)
        if info.kind != "IndexError" or not (info.message or "").startswith("index {} is out of bounds"):
            return
        sides = [v.op for v in test.operands] if test is not None and test.name == "or" else [test]
        for op in sides:
            if op is None or op.name not in ("lt", "ge") or (extreme := op.operands[0].op) is None:
                continue
            size = op.operands[1]
            if op.name == "ge" and size.op is not None and size.op.name == "neg":
                size = size.op.operands[0]
            natural = _is_size(size) or self._is_compared((size, "natural", None), block)
            if _is_extreme(extreme) and natural and (extreme.name == "max") == (op.name == "lt"):
                for known in (None, size):
                    self.compared.setdefault((extreme.operands[0], extreme.name, known), []).append(block)

    # --- indices from the end ---------------------------------------------------------------------

    def _without_wrap(self, b: Builder, op: Op) -> Value | None:
        """``i`` for ``select (i < 0), (i + n), i``, if no element of ``i`` is negative."""
        test, _, index = (self.values.get(v, v) for v in op.operands)
        is_test = test.op is not None and test.op.name == "lt" and test.op.operands[0] is index \
            and test.op.operands[1].const == 0
        if not is_test or index.type != op.result.type:
            return None
        if self._is_remainder(index, b.block):
            return self._reduced(b, index)
        return index if _is_natural(index) else None

    def _reduced(self, b: Builder, remainder: Value) -> Value:
        """A remainder as a choice, if it is of an index of an array of that size, or of one beside it."""
        assert remainder.op is not None
        x, n = remainder.op.operands
        index, c = (x.op and _shifted(x.op)) or (x, 0)
        if abs(c) > 1 or not all(self._is_compared((index, kind, n), b.block) for kind in EXTREMES):
            return remainder
        for _ in range(2 if c < 0 else 1):
            x = b.select(b.lt(x, 0), b.add(x, n), x)
        return b.select(b.ge(x, n), b.sub(x, n), x) if c > 0 else x

    def _part(self, b: Builder, op: Op) -> Value | None:
        """The slice that ``take`` reads at positions 0 … n − 1, or these plus a constant."""
        array, index = (self.values.get(v, v) for v in op.operands)
        made, c = index.op, 0
        if made is not None and (shifted := _shifted(made)) is not None:
            made, c = shifted[0].op, shifted[1]
        if made is None or made.name != "iota" or c < 0 or not isinstance(array.type, Array) or array.type.rank != 1:
            return None
        return b.typed(b.emit("slice", array, b.const(c), made.operands[0], b.const(1)), op.result.type)


def _is_bound(user: Op) -> bool:
    return user.name in ("lt", "le", "gt", "ge", "check")


def _is_size(v: Value) -> bool:
    return (v.op is not None and v.op.name == "dim") or (v.const is not None and 0 <= v.const <= FAR)


def _shifted(op: Op) -> tuple[Value, int] | None:
    """``(i, c)`` for an array ``i + c`` or ``i - c``."""
    if op.name not in ("add", "sub") or dtype_of(op.result.type) is not I64:
        return None
    x, y = op.operands
    if op.name == "add" and isinstance(y.type, Array):
        x, y = y, x
    c = y.const
    if not isinstance(x.type, Array) or x.type != op.result.type or c is None or abs(c) > FAR:
        return None
    return x, (c if op.name == "add" else -c)


def _is_natural(index: Value) -> bool:
    """True if no element is negative: positions, remainders by a size, and these plus a constant."""
    op = index.op
    if op is None or not isinstance(index.type, Array):
        return False
    if op.name == "iota":
        return True
    if op.name == "mod" and _is_size(op.operands[1]):
        return True
    shifted = _shifted(op)
    return shifted is not None and shifted[1] >= 0 and _is_natural(shifted[0])


def _gather(block: Block) -> bool:
    """Move the extremes of a block ahead, behind the first ones, past what does not compute their arrays."""
    place: dict[Op | None, int] = {op: i for i, op in enumerate(block.ops)}
    order, first, last = list(block.ops), None, None
    for op in block.ops:
        if OPS[op.name].effect and op.name != "check":
            first = None
        elif _is_extreme(op):
            source = op.operands[0].op
            if first is not None and last is not None and place.get(source, -1) < place[first]:
                order.remove(op)
                order.insert(order.index(last) + 1, op)
            else:
                first = op
            last = op
    moved, block.ops = order != block.ops, order
    return moved
