"""Begins an array only outside of the slice that an elementwise op then replaces.

::

    w = copy v                                     e = empty(n)
    u = set_slice(w, f(v), 1)                      b = set_slice(e, v[:1], 0), and the end
                                       becomes     u = set_slice(b, f(v), 1)

A step in time by slices, ``w = v.copy(); w[1:-1] = v[1:-1] + c * (v[2:] - …)``, copies the border only.  Without the
copy, as in ``v[1:-1] += c * (v[2:] - …)``, the right side reads elements that it replaces: it would be computed in
memory of its own and then be copied, or added.  If the slice is all of ``v`` but for a border of known width, it is
computed in a new array as well; ``double_buffering`` lets that be the memory of the array before the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array
from ...ir.uses import array_users
from ..analysis.cfg import substitute
from ..analysis.loops import LoopForest, loop_forest
from ..analysis.sizes import Size, Solver

NARROW = 8
"""The most elements of an axis that are not replaced, if the array is to be made anew."""
DEEPEST = 40
"""The most ops of a right side that are followed."""


def replaced_slices(module: Module) -> bool:
    """Rewrite all such updates; returns True if there was one."""
    return any([_of_function(func) for func in module.functions.values()])


def _of_function(func: Function) -> bool:
    sites = [op for op in func.all_ops() if op.name in ("set_slice", "add_slice") and _is_computed(op)]
    if not sites:
        return False
    search = _Search(func)
    found = [(op, v) for op in sites if (v := search.old(op)) is not None]
    for op, v in found:
        _begin_anew(func, op, v)
    return bool(found)


def _is_computed(site: Op) -> bool:
    """True if an elementwise op makes what replaces a slice without gaps, of the same number of axes."""
    target, value = site.operands[0].type, site.operands[1]
    return isinstance(target, Array) and isinstance(value.type, Array) and value.type.rank == target.rank and \
        value.op is not None and OPS[value.op.name].elementwise and value.block is site.block and \
        all(step.const == 1 for step in site.operands[3::2]) and not site.attrs.get("acc") and \
        value.type.dtype == target.dtype and 1 not in value.type.dims


class _Search:
    def __init__(self, func: Function) -> None:
        self.forest: LoopForest = loop_forest(func)
        self.readers = array_users(func.all_ops())
        self.sizes = Solver(func)

    def old(self, site: Op) -> Value | None:
        """The array of which the rest is kept, if the updated one should be made anew."""
        target = site.operands[0]
        others = [op for op in self.readers.get(target, ()) if op is not site and op.name != "dim"]
        if target.op is not None and target.op.name == "copy":
            fine = site.name == "set_slice" and not others and target.block is site.block
            return target.op.operands[0] if fine else None
        return target if self._is_stepped(site, target, others) else None

    def _is_stepped(self, site: Op, target: Value, others: Sequence[Op]) -> bool:
        """True if a loop carries the array, nothing reads it behind the update, and that reads other places of it."""
        assert site.block is not None
        loop = self.forest.loop_of(site.block)
        if loop is None or loop.latch is None or target.owner is not loop.head or \
                target in loop.back_edge().args or any(op.edges for op in others):
            return False
        lazy = self._right_side(site)
        moved = [op for op in others if op.name == "slice" and op.operands[1::3] != site.operands[2::2]]
        return bool(moved) and all(op in lazy for op in others) and self._is_nearly_all(site)

    def _right_side(self, site: Op) -> set[Op]:
        """The elementwise ops that compute the right side, and the slices that they read."""
        found: set[Op] = set()
        todo = [site.operands[1].op]
        while todo and len(found) < DEEPEST:
            op = todo.pop()
            if op is not None and op not in found and op.block is site.block and \
                    (OPS[op.name].elementwise or op.name == "slice"):
                found.add(op)
                todo += [v.op for v in op.operands] if op.name != "slice" else []
        return found

    def _is_nearly_all(self, site: Op) -> bool:
        target, value = site.operands[:2]
        assert isinstance(target.type, Array)
        for axis in range(target.type.rank):
            whole, part = (self._rough(self.sizes.size((v, axis))) for v in (target, value))
            if whole is None or part is None or whole[0] != part[0] or not 0 <= whole[1] - part[1] <= NARROW:
                return False
        return True

    def _rough(self, size: Size) -> tuple[Size | None, int] | None:
        """A size as a base and a constant, as if it was large: for arrays that are not short."""
        if not isinstance(size, Value):
            return (size, 0) if isinstance(size, tuple) else (None, size)
        op = size.op
        if size.const is not None:
            return None, int(size.const)
        if op is None or op.name not in ("dim", "maximum", "minimum", "add", "sub"):
            return size, 0
        if op.name == "dim":
            known = self.sizes.size((op.operands[0], op.attrs["axis"]))
            return (known, 0) if known is size else self._rough(known)
        x, y = (self._rough(v) for v in op.operands)
        if x is None or y is None:
            return None
        if op.name in ("maximum", "minimum"):
            large, other = (x, y) if y[0] is None else (y, x)
            return None if other[0] is not None else large if op.name == "maximum" else other
        if y[0] is None:
            return x[0], x[1] + y[1] if op.name == "add" else x[1] - y[1]
        return (y[0], x[1] + y[1]) if op.name == "add" and x[0] is None else None


def _begin_anew(func: Function, site: Op, old: Value) -> None:
    """Let an update begin with an array that has the elements of ``old`` outside of the slice only."""
    block = site.block
    assert block is not None and isinstance(old.type, Array)
    at = block.ops.index(site)
    tail, block.ops = block.ops[at + 1:], block.ops[:at]
    term, block.term = block.term, None
    b = Builder(block, site.loc)
    value, one = site.operands[1], b.const(1)
    sizes = [b.dim(old, axis=axis) for axis in range(old.type.rank)]
    lengths = [b.dim(value, axis=axis) for axis in range(old.type.rank)]
    starts = site.operands[2::2]
    if site.name == "add_slice":
        value = b.add(b.slice(old, *(v for s, m in zip(starts, lengths) for v in (s, m, one))), value)
    made = b.emit_op("empty", sizes, dtype=old.type.dtype).result
    for part in _outside(b, sizes, list(zip(starts, lengths))):
        rest = b.slice(old, *(v for s, m in part for v in (s, m, one)))
        made = b.set_slice(made, rest, *(v for s, _ in part for v in (s, one)))
    made = b.set_slice(made, value, *(v for s in starts for v in (s, one)))
    made = b.as_type(made, type=site.result.type) if made.type != site.result.type else made
    block.ops += tail
    block.term = term
    substitute(func, {site.result: made})


def _outside(b: Builder, sizes: Sequence[Value], box: Sequence[tuple[Value, Value]]) -> Iterator[
        list[tuple[Value, Value]]]:
    """The parts of an array outside of a box, each as a start and a length for every axis; some may be empty."""
    zero = b.const(0)
    for axis, (start, length) in enumerate(box):
        end = b.add(start, length)
        for first, count in ((zero, start), (end, b.sub(sizes[axis], end))):
            yield [*box[:axis], (first, count), *((zero, n) for n in sizes[axis + 1:])]
