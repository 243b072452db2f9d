"""Recognises products of matrices that are written as three loops.

``for i: for j: s = 0.0; for k: s += a[i, k] * b[k, j]; …`` computes an element of a product in its innermost loop.  The
sums are independent of one another and of the rest of the loops, so they can be computed ahead, by the kernel that
keeps a tile of the result in registers (``lowering/matmul/gemm.py``).  It adds up each element in the order of ``k``,
so the sums are those of the program (``ordered``: no other kernel may be taken).  Its derivative is two products more::

    ^loop(i):                                 ^chunks(c):
      … ^inner(j):                              first := c * ROWS
          ^sum(k, s): … s' := a[i, k] * …       p := matmul {ordered} a[first : first + n], b
          … uses s'                   becomes   ^loop(i'):            # n iterations; i is first + i'
                                                  … ^inner(j):
                                                      … uses p[i', j]

The loop over ``i`` is strip-mined, so that the product in memory has few rows whatever the size of the result.  The
loops may do anything else besides.  ``a`` and ``b`` come from outside the loop over ``i``; either may be indexed the
other way round, or be a formula of elements, ``(x[k, i] - mean[i]) * weight[k]`` (``factors.py``), which is then
computed once for each element of the matrix, and not for each product.  If the sum begins at ``c[i, j]`` instead of 0
(``sum_starts.py``), the product is added to that: ``add {ordered} c, p`` begins with the element of ``c``.  Of what is
subtracted, ``a`` is negated.

Where loops are written as an op on vectors, ``np.sum(a[i] * b[j])``, ``a[i] @ b[j]`` or ``b @ a[i]``, the order of the
sum is free, and so is the choice of the kernel (``vector_factors.py``).  Under fast math the terms may be scaled,
``a[i, k] * b[k, j] / c``, as one of the factors is then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import I64, is_float_scalar
from ...ir.uses import users
from ..analysis.cfg import remove_unreachable, substitute
from ..analysis.loops import Loop, loop_forest, raising_blocks
from .factors import SHORTEST, Factor
from .regular import Regular, is_fixed
from .sum_starts import Start, drop_guards, start_of
from .vector_factors import Elements

ROWS = 64
"""The rows of the product that are computed at once: some tiles of the kernel, and with 500 columns 256 KB."""


def matrix_products(module: Module, by_vectors: bool = False) -> bool:
    """Recognise the products in every function of normal form; returns True if there are any.

    Without ``by_vectors``, products of matrices and vectors in a loop of one block are left to ``batch``.
    """
    changed = False
    for func in module.functions.values():
        while _once(func, by_vectors, module.fastmath):
            changed = True
    return changed


def _once(func: Function, by_vectors: bool, fastmath: bool) -> bool:
    """Recognise the products in loops over rows, of which none is in another one."""
    forest = loop_forest(func)
    if not forest.loops:
        return False
    regular = Regular(forest)
    found: list[_Product] = []
    on_vectors: dict[Loop | None, list[Op]] = {}
    for op in (op for block in func.blocks for op in block.ops if op.name in ("sum", "matmul")):
        on_vectors.setdefault(forest.loop_of(op.result.block), []).append(op)
    for loop in forest.loops:
        ops = on_vectors.get(loop, [])
        if by_vectors or loop.blocks != {loop.head}:
            found += _of_vectors(regular, None, loop, ops)
        if loop.parent is not None:
            found += _of_vectors(regular, loop, loop.parent, ops)
            if loop.depth >= 3 and loop.blocks == {loop.head} and (p := _product(regular, loop, fastmath)):
                found.append(p)
    if not found:
        return False
    unclosed = forest.open_loops()
    by_rows: dict[Loop, list[_Product]] = {}
    for p in found:
        by_rows.setdefault(p.rows, []).append(p)
    taken: set[Block] = set()
    for rows, products in by_rows.items():
        if rows not in unclosed and not taken & rows.blocks and _only_counts(regular, rows):
            _Chunks(func, regular, rows).run(products)
            taken |= rows.blocks
    if taken:
        remove_unreachable(func)
    return bool(taken)


@dataclass
class _Product:
    """The terms of ``sums``, in ``columns``, in ``rows``: a loop, or an op on vectors, whose sum may be in any order.

    Without ``columns`` the op computes a row of the product.
    ``start``: where the sums begin.  ``subtracts``: the products are subtracted.
    """

    sums: Loop | Op
    columns: Loop | None
    rows: Loop
    left: Factor
    right: Factor
    start: Start = field(default_factory=lambda: Start(None))
    subtracts: bool = False


def _product(regular: Regular, sums: Loop, fastmath: bool) -> _Product | None:
    """The product whose elements an innermost loop adds up, if it is one."""
    columns = sums.parent
    rows = columns.parent if columns is not None else None
    if columns is None or rows is None or any(x not in regular.known for x in (sums, columns, rows)):
        return None
    k, j, i = (regular.known[x] for x in (sums, columns, rows))
    if not all(is_fixed(x.trip, rows) for x in (k, j, i)) or any(_is_short(x.trip) for x in (k, j)):
        return None
    summand = _summand(sums, rows if fastmath else None)
    if summand is None or not _is_complete(regular, sums.head, rows):
        return None
    product = summand.product
    for x, y in (product.operands, product.operands[::-1]):
        left, right = Factor.of(x, rows, i.iv, k.iv), Factor.of(y, rows, j.iv, k.iv)
        if left is not None and right is not None and \
                _only_adds(sums, [product, *summand.others, *left.ops, *right.ops]):
            start = start_of(regular, sums, columns, rows)
            if start is not None:
                return _Product(sums, columns, rows, left, right, start, summand.subtracts)
    return None


def _of_vectors(regular: Regular, columns: Loop | None, rows: Loop, ops: list[Op]) -> list[_Product]:
    """The products of which one of ``ops`` computes an element in ``columns``, or without that a row."""
    around = [rows] if columns is None else [columns, rows]
    known = [regular.known.get(x) for x in around]
    if any(x is None or not is_fixed(x.trip, rows) or x.trip.const is not None and x.trip.const < SHORTEST
           for x in known):
        return []
    counters = [x.iv for x in known if x is not None]
    found = []
    for op in ops:
        elements = Elements(around[0].head, rows)
        if columns is not None:
            factors, j = elements.of_dot_product(op), counters[0]
        else:
            factors, j = elements.of_matrix_and_vector(op), elements.j
        if factors is None or not _is_complete(regular, op.result.block, rows):
            continue
        for x, y in (factors, factors[::-1]):
            left, right = Factor.of(x, rows, counters[-1], elements.k), Factor.of(y, rows, j, elements.k)
            if left is not None and right is not None and not right.is_short():
                found.append(_Product(op, columns, rows, left, right))
                break
    return found


def _is_short(trip: Value) -> bool:
    return trip.const is not None and trip.const < SHORTEST


@dataclass
class _Summand:
    """The product that a loop adds up, or ``subtracts``, in order; ``others``: the ops that add it."""

    product: Op
    subtracts: bool
    others: list[Op]


def _summand(sums: Loop, scaled: Loop | None) -> _Summand | None:
    """What a loop adds up; with ``scaled``, in which a scale of the product does not change, a factor is scaled."""
    head, back = sums.head, sums.back_edge()
    if len(head.params) != 2 or sums.exit_edge().args != [back.args[1]]:
        return None
    total, before = back.args[1].op, head.params[1]
    if total is None or total.name not in ("add", "sub") or total.attrs or total.block is not head or \
            not is_float_scalar(total.result.type):
        return None
    x, y = total.operands
    if x is not before and (y is not before or total.name == "sub"):
        return None
    product, others = (y if x is before else x).op, [total]
    if product is not None and product.name == "neg" and product.block is head:
        others.append(product)
        product = product.operands[0].op
    if product is not None and scaled is not None:
        _scale_factor(product, scaled)
    if product is None or product.name != "mul" or product.block is not head:
        return None
    return _Summand(product, (total.name == "sub") != (len(others) > 1), others)


def _scale_factor(term: Op, rows: Loop) -> None:
    """Make ``x / c * y`` of a term ``x * y / c``, and ``x * c * y`` of ``x * y * c``, if ``c`` is not of ``rows``."""
    readers = users(term.block.all_ops()) if term.block is not None else {}
    for k in range(2 if term.name == "mul" else term.name == "div"):
        product, scale = term.operands[k].op, term.operands[1 - k]
        if product is None or product.name != "mul" or product.block is not term.block or product.attrs or \
                scale.block in rows.blocks or readers[product.result] != [term]:
            continue
        x, y = product.operands
        product.name, product.operands = term.name, [x, scale]
        term.name, term.operands = "mul", [product.result, y]
        return


def _only_adds(sums: Loop, ops: Sequence[Op]) -> bool:
    """True if a loop does nothing but what ``ops`` do, adding up, and counting."""
    head, back = sums.head, sums.back_edge()
    assert head.term is not None
    known = {*ops, back.args[0].op, head.term.operands[0].op}
    return all(op in known or op.name == "const" for op in head.ops)


def _is_complete(regular: Regular, block: Block, rows: Loop) -> bool:
    """True if all elements are read unless a loop has no iteration, or a check raises.

    Checks need not hold: factors are limited to what their arrays have, and no element of a product that a check
    guards is read before it has passed.
    """
    if regular.always(block, rows) is None:
        return False
    raising = raising_blocks(regular.dom)
    return not any(b.call or s in raising for b in rows.blocks for s in b.successors())


def _only_counts(regular: Regular, loop: Loop) -> bool:
    """True if the loop uses the counter of its next iteration only to go on, and passes it to nothing else."""
    following, latch = regular.known[loop].next, loop.latch
    assert latch is not None and latch.term is not None
    uses = [op for b in loop.blocks for op in b.all_ops() for v in op.used() if v is following]
    return len(uses) == 2 and latch.term.operands[0].op in uses and latch.term in uses


# --- the rewrite ----------------------------------------------------------------------------------

class _Chunks:
    """Strip-mines the loop over rows, and computes products ahead of each chunk."""

    def __init__(self, func: Function, regular: Regular, loop: Loop) -> None:
        self.func, self.regular, self.loop = func, regular, loop
        self.known = regular.known[loop]

    def run(self, products: list[_Product]) -> None:
        loop, known = self.loop, self.known
        before, leave, latch = loop.preheader, loop.exit, loop.latch
        assert before is not None and before.term is not None and leave is not None
        assert latch is not None and latch.term is not None
        loc = before.term.loc
        entry, back, away = loop.entry_edge(), loop.back_edge(), loop.exit_edge()
        head = self.func.new_block("chunks")
        chunk = head.add_param(I64, "chunk")
        carried = [head.add_param(p.type, p.hint) for p in loop.head.params[1:]]
        b = Builder(before, loc)
        before.term = None
        trip = b.again(known.trip)
        count = b.floordiv(b.add(trip, ROWS - 1), ROWS)
        ready = [self._operands(b, p) for p in products]
        b.jump(head, [b.const(0), *entry.args[1:]])
        b.at(head)
        first = b.mul(chunk, ROWS)
        size = b.minimum(b.sub(trip, first), ROWS)
        made = [self._multiply(b, p, operands, first, size) for p, operands in zip(products, ready)]
        b.jump(loop.head, [b.const(0), *carried])
        self._end(latch, head, chunk, count, leave, back, away, size)
        self._count_from(first)
        for p, product in zip(products, made):
            self._use(p, product)

    def _operands(self, b: Builder, p: _Product) -> tuple[Value, dict[Op, Value], Value]:
        """The depth of the product, the vectors of the left matrix, and the right matrix, of just that size.

        Sizes are limited by the arrays: if the loops go further, no element of the product is read.
        """
        f = p.right
        trip = b.again(self.regular.known[p.rows].trip)
        columns = f.size(b) if p.columns is None else b.again(self.regular.known[p.columns].trip)
        depth = f.size(b, of_sums=True) if isinstance(p.sums, Op) else b.again(self.regular.known[p.sums].trip)
        depth = f.limited(b, p.left.limited(b, _size(b, depth), of_sums=True), of_sums=True)
        columns = f.limited(b, _size(b, columns))
        right = f.matrix(b, f.vectors(b, columns, depth), b.const(0), columns, depth)
        return depth, p.left.vectors(b, trip, depth), right

    def _multiply(self, b: Builder, p: _Product, operands: tuple[Value, dict[Op, Value], Value], first: Value,
                  size: Value) -> Value:
        depth, vectors, right = operands
        if not p.left.exact(self.known.trip):
            size = p.left.limited(b, size, first)
        left = p.left.matrix(b, vectors, first, size, depth)
        if p.subtracts:
            left = b.emit("neg", left)
        flags = {name: True for name, holds in (
            ("ordered", isinstance(p.sums, Loop)), ("ta", p.left.turned), ("tb", not p.right.turned)) if holds}
        product = b.emit("matmul", left, right, **flags)
        if p.start.formula is None:
            return product
        columns = b.emit("dim", right, axis=int(p.right.turned))
        start = p.start.matrix(b, first, size, b.again(self.known.trip), columns)
        return b.emit("add", start, product, ordered=True)

    def _end(self, latch: Block, head: Block, chunk: Value, count: Value, leave: Block, back: Edge, away: Edge,
             size: Value) -> None:
        """Let the loop end with its chunk, and the loop over chunks where it ended."""
        assert latch.term is not None
        done = self.func.new_block("chunk")
        passed = [done.add_param(v.type, p.hint) for v, p in zip(back.args[1:], self.loop.head.params[1:])]
        again = dict(zip(back.args[1:], passed))               # an array that is passed twice would be copied
        results = [again.get(v) or done.add_param(v.type) for v in away.args]
        leaving = [v for v in away.args if v not in again]
        test = latch.term.operands[0].op
        assert test is not None
        kept, latch.term = latch.term, None
        condition = Builder(latch, test.loc).lt(self.known.next, size)
        kept.operands = [condition]
        latch.term = kept
        away.args = [*back.args[1:], *leaving]
        away.block = done
        b = Builder(done, test.loc)
        following = b.add(chunk, 1)
        b.branch(b.lt(following, count), head, [following, *passed], leave, results)

    def _count_from(self, first: Value) -> None:
        """Let all uses of the counter, but those by which the loop counts, see its number in all chunks."""
        loop, iv = self.loop, self.known.iv
        moved = Op("add", [iv, first], [I64])
        moved.block = loop.head
        for block in loop.blocks:
            for op in block.all_ops():
                if op is not self.known.next.op:
                    op.replace_uses({iv: moved.result})
        loop.head.ops.insert(0, moved)

    def _use(self, p: _Product, product: Value) -> None:
        """Let an element of ``product`` take the place of the loop that adds it up."""
        at = [self.known.iv, *([self.regular.known[p.columns].iv] if p.columns is not None else [])]
        if isinstance(p.sums, Op):
            block, old = p.sums.block, p.sums.result
            assert block is not None
            part = Op("get", [product, *at], [old.type], loc=p.sums.loc)
            part.block = block
            block.ops[block.ops.index(p.sums)] = part
            substitute(self.func, {old: part.result})
            return
        before, behind = p.sums.preheader, p.sums.exit
        assert before is not None and before.term is not None and behind is not None
        if p.columns is not None and p.left.exact(self.known.trip) and \
                p.right.exact(self.regular.known[p.columns].trip):       # so all sums are elements of the product
            drop_guards(self.regular, p.sums)
        before.term = None
        b = Builder(before)
        b.jump(behind, [b.get(product, *at)])


def _size(b: Builder, trip: Value) -> Value:
    """The number of iterations; that of a ``while`` may be negative, if it has none."""
    known = trip.op is not None and (trip.op.name == "dim" or trip.op.name == "maximum" and
                                     any((v.const or -1) >= 0 for v in trip.op.operands))
    return trip if known else b.maximum(trip, 0)
