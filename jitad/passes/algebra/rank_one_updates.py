"""Writes nests that add products of two vectors to a matrix as outer products, for ``outer_products``.

The adjoint of ``A`` for ``s += A[i, j] * y[j]`` is such a nest, in each step of a loop around::

    ^rows(i, a):                                            ^rows(i):
      u = get x, i                                            …
      ^inner(j, a):                                         ^after:
          v = get y, j                           becomes      a' = add_slice {acc} a, x[:n] ⊗ y[:m], 0, 0
          a' = add_at {acc} a, u * v, i, j

It reads and writes all of the matrix in each step.  ``outer_products`` collects the vectors of 64 steps, and adds one
product of matrices.  What is left of the nest, the adjoint of ``y``, has no matrix that it writes.

What is around the inner loop stays in a loop before (``update_nests``).  Either counter may be the first index.  Rows
of the matrix in several parts, as those of the gates of a cell (``a[i, j]``, ``a[n + i, j]``), are one outer product
of as many vectors ``x`` behind one another.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.dominance import Dominators
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import Array, dtype_of
from ..analysis.accumulator_webs import Region
from ..analysis.affine import AffineForms
from ..analysis.cfg import own_exit, remove_unreachable, substitute
from ..analysis.loops import loop_forest
from .outer_products import is_long
from .update_nests import Carried, Nest, distribute, nest_of


def rank_one_updates(module: Module) -> bool:
    """Rewrite the additions in every function; expects normal form.  Returns True if there were any."""
    changed = False
    for func in module.functions.values():
        if any(_adds_a_product(op) for op in func.all_ops()):
            while _once(module, func):
                remove_unreachable(func)                 # restores the order of blocks
                changed = True
    return changed


def _adds_a_product(op: Op) -> bool:
    """True for an addition of a product to an element of a matrix of floats, in any order."""
    if op.name != "add_at" or not op.attrs.get("acc") or len(op.operands) != 4:
        return False
    product = op.operands[1].op
    return isinstance(op.operands[0].type, Array) and op.operands[0].type.dtype.is_float and \
        product is not None and product.name == "mul" and product.block is op.block


def _once(module: Module, func: Function) -> bool:
    """Rewrite one nest, or give its inner loop a loop of its own; returns True if there is one."""
    forest = loop_forest(func)
    for inner in forest.loops:
        around = inner.parent.parent if inner.parent is not None else None
        if around is None or not is_long(around) or not any(map(_adds_a_product, inner.head.ops)):
            continue
        nest = nest_of(module, forest, inner)
        for a in nest.arrays if nest is not None else ():
            update = _update(module, forest.dom, nest, a) if nest is not None else None
            if update is not None and update.is_of_vectors():
                update.replace()
                return True
            if update is not None and nest is not None and nest.closed and update.distribute():
                return True
    return False


def _update(module: Module, dom: Dominators, nest: Nest, a: Carried) -> _Update | None:
    """The outer product that the nest adds to an array, if the loop around it does nothing else with that."""
    around = nest.rows.parent
    assert around is not None
    trips = (nest.outer.trip, nest.known.trip)
    if any(n.const is None and n.block in around.blocks for n in trips) or not all(map(_adds_a_product, a.adds)):
        return None
    factors = [_factors(op, nest) for op in a.adds]
    order = _consecutive(dom, nest, a)
    if order is None or len({found and found[1] for found in factors}) != 1:
        return None
    if Region.of_loop(module, around).web(a.adds[0], a.adds.__contains__) is None:
        return None
    xs = {op: found[0] for op, found in zip(a.adds, factors) if found is not None}
    y = factors[0]
    return _Update(nest, a, [xs[op] for op in order], y[1].op) if y is not None and y[1].op is not None else None


def _factors(op: Op, nest: Nest) -> tuple[Value, Value] | None:
    """(the factor that belongs to the loop ``rows``, the element that the inner loop loads)."""
    product = op.operands[1].op
    if product is None or product.name != "mul" or product.block is not nest.inner.head:
        return None
    for x, y in (product.operands, product.operands[::-1]):
        if x.block in nest.rows.blocks and x.block is not nest.inner.head and x.const is None and \
                y.block is nest.inner.head and _is_part(y.op, nest, nest.known.iv):
            return x, y
    return None


def _is_part(load: Op | None, nest: Nest, counter: Value) -> bool:
    """True if a load has a counter as one index, and all else from outside."""
    return load is not None and load.name == "get" and load.operands.count(counter) == 1 and all(
        v is counter or v.const is not None or v.block not in nest.rows.blocks for v in load.operands)


def _consecutive(dom: Dominators, nest: Nest, a: Carried) -> list[Op] | None:
    """The additions, in the order of the parts of the matrix to which they add, which are all one behind another."""
    forms = AffineForms()
    axis = 2 if a.adds[0].operands[3] is nest.known.iv else 3
    left, found, at = list(a.adds), list[Op](), forms.of(nest.outer.iv)
    for op in left:
        _see_through(dom, forms, op.operands[axis])
    while left:
        following = next((op for op in left if forms.of(op.operands[axis]).is_same(at)
                          and op.operands[5 - axis] is nest.known.iv), None)
        if following is None:
            return None
        left.remove(following)
        found.append(following)
        at = at.plus(forms.of(nest.outer.trip))
    return found


def _see_through(dom: Dominators, forms: AffineForms, v: Value) -> None:
    """Let the form of a block's parameter be that of its argument, if other edges pass what is undefined."""
    for x in v.op.operands if v.op is not None and v.op.name in ("add", "sub") else ():
        passed = {y for y in dom.arguments(x) if y is None or y.op is None or y.op.name != "undef"} \
            if x.op is None and x.block is not x.block.func.entry else set()
        known = passed.pop() if len(passed) == 1 else None
        if known is not None and known.op is not None:
            forms.known[x] = forms.of(known)


@dataclass(frozen=True)
class _Update:
    """The nest adds to ``a`` the products of ``xs``, a scalar of ``rows`` for each part of it, and what ``y`` loads."""

    nest: Nest
    a: Carried
    xs: list[Value]
    y: Op

    def is_of_vectors(self) -> bool:
        return self.nest.guard is None and all(_is_part(x.op, self.nest, self.nest.outer.iv) for x in self.xs)

    def distribute(self) -> bool:
        """Store ``xs`` in vectors, and give the inner loop a loop of its own, where they are loaded."""
        nest = self.nest
        nest.stored += [x for x in self.xs if x not in nest.stored and not _is_part(x.op, nest, nest.outer.iv)]
        nest.again[:] = [op for op in nest.again if op.result not in nest.stored]
        return distribute(nest)

    def replace(self) -> None:
        """Remove the additions from the nest, and add the outer product behind it."""
        nest, first = self.nest, self.a.adds[0]
        latch, leave, head = nest.rows.latch, nest.rows.exit, nest.inner.head
        assert latch is not None and leave is not None
        func, by_rows = latch.func, first.operands[3] is nest.known.iv
        head.ops = [op for op in head.ops if op not in self.a.adds]
        substitute(func, {op.result: op.operands[0] for op in self.a.adds})
        behind = own_exit(func, latch, leave)
        term, behind.term = behind.term, None
        assert term is not None
        b = Builder(behind, first.loc)
        n, m = b.again(nest.outer.trip), b.again(nest.known.trip)
        x, y, size = self._vector(b, n), _part(b, self.y, nest.known.iv, m), b.mul(len(self.xs), n)
        column, row = (b.reshape(x, size, 1), b.reshape(y, 1, m)) if by_rows else (b.reshape(y, m, 1),
                                                                                   b.reshape(x, 1, size))
        args = term.edges[0].args
        args[self.a.end] = b.emit("add_slice", args[self.a.end], b.mul(column, row), 0, 1, 0, 1, acc=True)
        behind.term = term

    def _vector(self, b: Builder, n: Value) -> Value:
        """The vector ``x`` of all parts."""
        parts = [_part(b, x.op, self.nest.outer.iv, n) for x in self.xs]
        if len(parts) == 1:
            return parts[0]
        whole = b.emit("empty", b.mul(len(parts), n), dtype=dtype_of(self.xs[0].type))
        for k, part in enumerate(parts):
            whole = b.emit("set_slice", whole, part, b.mul(k, n), 1)
        return whole


def _part(b: Builder, load: Op | None, counter: Value, size: Value) -> Value:
    """The vector of the elements that ``load`` reads while a counter counts up to ``size``."""
    assert load is not None
    a, *at = load.operands
    windows = [w for v in at for w in ((b.const(0), size, b.const(1)) if v is counter else
                                       (b.again(v), b.const(1), b.const(1)))]
    part = b.slice(a, *windows)
    return b.reshape(part, size) if len(at) > 1 else part
