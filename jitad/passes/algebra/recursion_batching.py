"""Batches the matrix-vector products of a recursion into one product of matrices before it.

At each leaf of a tree, ``W @ words[i]`` reads all of ``W`` for one multiplication per element.  If the vectors depend
on arguments alone (``recursion_slice.py``), a function that computes nothing else collects them first.  One product of
matrices then replaces all products::

    f(a…) → r…     becomes     f(a…) → r…:    xs := f.collect(a…)
                                              ys := xs @ W.T
                                              f.batched(a…, ys, 0) → r…, _

``f.batched`` is ``f`` with two more parameters: the products ``ys``, and the number of rows that have been read, which
it also returns.  It makes the calls that ``f.collect`` made, in the same order, until it raises.  After ``MOST`` rows,
and if ``W`` is small, it multiplies as ``f`` does.

The pass runs before differentiation, so that the derivative is that of a product of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir.builder import Builder
from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.types import I64, Array, dims_of, dtype_of
from ..analysis.callgraph import CallGraph
from ..analysis.cfg import append, landing, substitute
from ..analysis.recursion_slice import CALLS, FAILED, RecursionSlice, Size, Unknown, collector

SMALL = 8192
"""The least number of elements of ``W``: a smaller matrix stays in the nearest cache, and is not worth it."""
MOST = 4096
"""The most rows that are collected."""
LONG = 8192
"""The most elements of a vector or a product.  With ``MOST``, this bounds the memory."""
FEW = 4
"""The most vectors of one function.  Each needs a collector of its own, and makes the function longer."""


@dataclass(frozen=True)
class Term:
    """``op`` multiplies the parameter ``matrix`` by ``vector``: rows of vectors times it, transposed under ``tb``."""

    op: Op
    matrix: Value
    vector: Value
    tb: bool


def recursion_batching(module: Module) -> None:
    """Rewrite the functions that call themselves and are not mutually recursive with others."""
    if not any(op.name == "matmul" for f in module.functions.values() for op in f.all_ops()):
        return
    graph = CallGraph(module)
    members = list(graph.component.values())
    for name in graph.order:
        if name in graph.recursive and members.count(graph.component[name]) == 1 and name not in module.rules:
            _take_all(module, module.functions[name])


def _take_all(module: Module, func: Function) -> None:
    """Batch the products of one function, one vector after the other."""
    done: set[Op] = set()
    made, found = 0, True
    while found and made < FEW:
        found = False
        down = RecursionSlice(func)
        for group in _groups(down, done):
            done.update(t.op for t in group)
            try:
                collected = collector(module, down, group[0].op, group[0].vector, _rows_of(group[0]), MOST)
            except Unknown:
                continue
            func, found = _Batcher(module, func, group).made(*collected), True
            made += 1
            break


def _groups(down: RecursionSlice, done: set[Op]) -> list[list[Term]]:
    """The products that can be batched, grouped by block and vector."""
    found: dict[tuple[Block, Value], list[Term]] = {}
    for block in down.order:
        for op in block.ops:
            if op not in done and (term := _term(op, down)) is not None:
                found.setdefault((block, term.vector), []).append(term)
    groups = (_of_one_size(terms) for terms in found.values())
    return list(groups)


def _of_one_size(terms: list[Term]) -> list[Term]:
    """The terms whose vectors have the same size as the first, by their types."""
    return [t for t in terms if _rows_of(t) == _rows_of(terms[0])]


def _term(op: Op, down: RecursionSlice) -> Term | None:
    if op.name != "matmul":
        return None
    for k, rank in enumerate(((2, 1), (1, 2))):
        if tuple(len(dims_of(v.type)) for v in op.operands) == rank:
            matrix, vector = op.operands[k], op.operands[1 - k]
            flipped = bool(op.attrs.get("tb")) if k else not op.attrs.get("ta")
            if matrix.op is not None and matrix.op.name == "transpose":
                matrix, flipped = matrix.op.operands[0], not flipped
            dims = [n for n in dims_of(matrix.type) if n is not None]
            large = len(dims) < 2 or prod(dims) >= SMALL
            if large and vector not in down.unknown and down.is_invariant(matrix):
                return Term(op, matrix, vector, flipped)
    return None


def _rows_of(term: Term) -> Array:
    """The type of the array of collected vectors."""
    return Array(dtype_of(term.matrix.type), (None, dims_of(term.matrix.type)[1 if term.tb else 0]))


def _products_of(term: Term) -> Array:
    return Array(dtype_of(term.matrix.type), (None, dims_of(term.matrix.type)[0 if term.tb else 1]))


class _Batcher:
    """Moves the body of ``func`` to ``f.batched``, which reads products; ``func`` computes them and calls it."""

    def __init__(self, module: Module, func: Function, terms: list[Term]) -> None:
        self.func, self.terms = func, terms
        self.products = [_products_of(t) for t in terms]
        body = Function(module.unique_name(f"{func.name}.batched"))
        self.body = module.add(body)
        body.own, body.attrs, body.loc = set(func.own), dict(func.attrs), func.loc
        body.result_types = [*func.result_types, I64]
        body.blocks, func.blocks = func.blocks, []
        for block in body.blocks:
            block.func = body
        self.ys = [body.entry.add_param(t, "ys") for t in self.products]

    def made(self, collect: Function, args: list[int], sizes: list[Size]) -> Function:
        """Transform the function; returns ``f.batched``."""
        entry = self.func.new_block("entry")
        for p in self.body.params[:-len(self.ys)]:
            entry.add_param(p.type, p.hint)
        self._count()
        b = Builder(entry, self.func.loc)
        given = [*(entry.params[i] for i in args), *(b.dim(entry.params[i], axis=axis) for i, axis in sizes)]
        self._make(b, collect, given, [entry.params[t.matrix.index] for t in self.terms])
        return self.body

    # --- f.batched, which reads products --------------------------------------------------------------------------

    def _count(self) -> None:
        """Carry the number of rows that have been read through all blocks and calls, and read the products."""
        body, name = self.body, self.func.name
        calls = [b.term for b in body.blocks if b.term is not None and b.term.name == "call"
                 and b.term.attrs["callee"] == name]
        after = {landing(call.edges[0], body) for call in calls}
        counts = {b: b.add_param(I64, "count") for b in body.blocks}
        place = self.terms[0].op.block
        for block, count in counts.items():
            term = block.term
            assert term is not None
            out = self._read(block, count) if block is place else count
            if term in calls:
                term.attrs["callee"] = body.name
                term.operands += [*self.ys, out]
            elif term.name == "return":
                term.operands.append(out)
            for edge in term.edges:
                if edge.block not in after:
                    edge.args.append(out)

    def _read(self, block: Block, count: Value) -> Value:
        """Replace each product by row ``count`` of the products; returns the next count."""
        for term, ys in zip(self.terms, self.ys):
            after = self._split(block, term.op)
            ready, direct = self.body.new_block("ready"), self.body.new_block("direct")
            b = Builder(block, term.op.loc)
            following = b.add(count, 1)
            b.branch(b.lt(count, b.dim(ys, axis=0)), ready, [], direct, [])
            b.at(ready)
            b.jump(after, [b.emit("as_type", b.get(ys, count), type=term.op.result.type)])
            b.at(direct)
            append(direct, term.op)
            b.jump(after, [term.op.result])
            block = after
        return following

    def _split(self, block: Block, op: Op) -> Block:
        """Remove ``op`` and split its block there; returns the second block, whose parameter replaces the result."""
        after, at = self.body.new_block("after"), block.ops.index(op)
        substitute(self.body, {op.result: after.add_param(op.result.type)})
        after.ops, after.term = block.ops[at + 1:], block.term
        for moved in after.all_ops():
            moved.block = after
        del block.ops[at:]
        block.term = None
        return after

    # --- func, which computes the products ----------------------------------------------------------------------

    def _make(self, b: Builder, collect: Function, args: list[Value], matrices: list[Value]) -> None:
        dtype = dtype_of(self.products[0])
        zero, first = b.const(0, dtype), self.terms[0]
        size, *_ = sizes = [b.dim(m, axis=1 if t.tb else 0) for m, t in zip(matrices, self.terms)]
        widths = [b.dim(m, axis=0 if t.tb else 1) for m, t in zip(matrices, self.terms)]
        worth = b.le(SMALL, b.mul(size, widths[0]))
        for n in (size, *widths):
            worth = b.and_(worth, b.le(n, LONG))
        for other in sizes[1:]:                          # otherwise the original product raises
            worth = b.and_(worth, b.eq(size, other))
        none = [b.emit("as_type", b.fill(zero, 0, n), type=t) for n, t in zip(widths, self.products)]
        many, go = self.func.new_block("many"), self.func.new_block("go")
        b.branch(worth, many, [], go, none)

        b.at(many)
        rows, kind = b.const(0), _rows_of(first)
        for _ in range(2):                               # first count, then store
            xs = b.emit("as_type", b.fill(zero, rows, size), type=kind)
            xs, count, _ = b.call_then(collect.name, [*args, xs, b.const(0), b.const(CALLS)], [kind, I64, I64])
            rows = b.select(b.lt(count, FAILED), count, b.sub(count, FAILED))
        made = [b.emit("matmul", xs, m, **({"tb": True} if t.tb else {})) for m, t in zip(matrices, self.terms)]
        b.jump(go, [b.emit("as_type", y, type=t) for y, t in zip(made, self.products)])

        ys = [go.add_param(t, "ys") for t in self.products]
        b.at(go)
        results = b.call_then(self.body.name, [*self.func.params, *ys, b.const(0)], self.body.result_types)
        b.ret(results[:-1])
