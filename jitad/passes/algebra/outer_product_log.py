"""Gives a sum of outer products a log of pending terms; ``outer_products.py`` has the reasons.

The log of an accumulator ``a`` is ``xs``, ``ys`` and ``used``: the sum is ``a + xs[:used].T @ ys[:used]``.  An addition
in the region is replaced by::

    branch rows(xs) == 0, ^direct, ^logged           # a log without rows: A is small
    ^direct:  a' = a + x ⊗ y
    ^logged:  branch used < ROWS, ^free, ^full
    ^full:    a' = a + xs.T @ ys, used = 0
    ^free:
    ^put:     xs[used], ys[used] = x, y;  used + 1
"""
from __future__ import annotations

from typing import NamedTuple

from ...ir.builder import Builder
from ...ir.dominance import reverse_postorder
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.types import I64, Array, Type, dims_of, dtype_of
from ...ir.uses import users
from ..analysis.accumulator_webs import Region, Web
from ..analysis.cfg import landing, own_exit, remove_unreachable
from ..analysis.loops import Loop

ROWS = 64
"""The number of terms that a log holds."""
SMALL = 256
"""Terms are added to an accumulator with fewer elements at once."""


class Log(NamedTuple):
    """A pending sum: ``a + xs[:used].T @ ys[:used]``."""

    a: Value
    xs: Value
    ys: Value
    used: Value


def box(term: Op) -> tuple[Value, Value] | None:
    """The sizes of the vectors of a term that is added to the first rows and columns; ``None`` if it covers all."""
    product = term.operands[1].op
    if term.name == "add" or product is None:
        return None
    column, row = (v.op for v in product.operands)
    assert column is not None and row is not None
    return column.operands[1], row.operands[2]


def factors(product: Value) -> tuple[Value, Value] | None:
    """The vectors of an outer product, if ``product`` is a column times a row."""
    op = product.op
    if op is None or op.name != "mul" or len(dims_of(product.type)) != 2:
        return None
    column, row = (_vector(v, axis) for v, axis in zip(op.operands, (1, 0)))
    return (column, row) if column is not None and row is not None else None


def _vector(v: Value, axis: int) -> Value | None:
    """The vector that is reshaped to the matrix ``v``, whose axis ``axis`` has size 1."""
    op = v.op
    if op is None or op.name != "reshape" or dims_of(v.type)[axis:axis + 1] != (1,):
        return None
    return op.operands[0] if len(dims_of(op.operands[0].type)) == 1 else None


class LogInsertion:
    """Gives every value of a web its log.

    ``carried``: block of the region → the indices of edge arguments (of call arguments, for an entry) in the web.
    ``returned``: function → the indices of results in the web.  Logs come after all other arguments and results.
    """

    def __init__(self, region: Region, web: Web) -> None:
        self.region, self.web = region, web
        self.logs: dict[Value, Log] = {}
        self.carried: dict[Block, list[int]] = {}
        a = next(iter(web.values)).type
        assert isinstance(a, Array)
        self.box = box(next(iter(web.adds)))
        dims = a.dims if self.box is None else (None, None)
        self.types: list[Type] = [*(Array(a.dtype, (None, n)) for n in dims), I64]
        ends = [b.term for b in region.blocks if b.term is not None and b.term.name == "return"]
        self.returned = {end.block.func: [i for i, v in enumerate(end.operands) if v in web.values]
                         for end in ends if end.block is not None}

    def run(self) -> None:
        region = self.region
        funcs = list(dict.fromkeys(b.func for b in region.blocks))
        terms = [b.term for b in region.blocks if b.term is not None]
        for block in region.blocks:
            self._add_params(block)
        for func in region.functions.values():
            func.result_types += [t for _ in self.returned.get(func, ()) for t in self.types]
        for func in funcs:
            for block in reverse_postorder(func):
                if block in region.blocks:
                    self._terms(block)
        for term in terms:
            self._pass_on(term)
        if region.loop is not None:
            self._around_loop(region.loop, terms)
        for func in dict.fromkeys(c.block.func for calls in region.outside.values() for c in calls if c.block):
            self._around_calls(func)
        for func in funcs:
            remove_unreachable(func)                     # restores the order of blocks, too

    # --- inside the region --------------------------------------------------------------------------

    def _add_params(self, block: Block) -> None:
        edges = self.region.edges[block]
        results = edges[0][1].offset if edges else 0
        params = list(block.params)
        for p in params[:results]:
            if p in self.web.values:
                self._add_log(block, p, results)
                results += len(self.types)
        rest = params[len(params) - len(edges[0][1].args):] if edges else params
        self.carried[block] = [i for i, p in enumerate(rest) if p in self.web.values]
        for i in self.carried[block]:
            self._add_log(block, rest[i], len(block.params))

    def _add_log(self, block: Block, p: Value, at: int) -> None:
        """Insert parameters for the log of parameter ``p`` at position ``at``."""
        new = [Value(t, block, 0, hint) for t, hint in zip(self.types, ("xs", "ys", "used"))]
        block.params[at:at] = new
        for i, v in enumerate(block.params):
            v.index = i
        self.logs[p] = Log(p, *new)

    def _terms(self, block: Block) -> None:
        """Replace the additions of a block by additions to the log."""
        for op in list(block.ops):
            if op in self.web.adds:
                block = self._term(block, op)

    def _term(self, block: Block, op: Op) -> Block:
        """Replace one addition, at which ``block`` is split; returns the block with the ops after it."""
        log, func, product = self.logs[op.operands[0]], block.func, op.operands[1].op
        found = factors(op.operands[1])
        assert found is not None and product is not None
        direct, logged, full, free, put, after = (
            func.new_block(n) for n in ("direct", "logged", "full", "free", "put", "added"))
        at = block.ops.index(op)
        after.ops, after.term = block.ops[at + 1:], block.term
        for moved in after.all_ops():
            moved.block = after
        del block.ops[at:]
        block.term = None
        self.logs[op.result] = Log(*(after.add_param(t) for t in (log.a.type, *self.types)))

        b = Builder(block, op.loc)
        b.branch(b.eq(b.dim(log.xs, axis=0), 0), direct, [], logged, [])
        b.at(direct)                                     # without ``acc``, so that it is not found again
        b.jump(after, [self._plus(b, log.a, b.mul(*product.operands)), *log[1:]])
        b.at(logged)
        b.branch(b.lt(log.used, ROWS), free, [], full, [])
        b.at(full)
        b.jump(put, [self._plus_rows(b, log.a, [log.xs, log.ys]), b.const(0)])
        b.at(free)
        b.jump(put, [log.a, log.used])
        a, count = put.add_param(log.a.type), put.add_param(I64)
        b.at(put)
        x, y = (v if self.box is None else b.typed(v, Array(dtype_of(v.type), (None,))) for v in found)
        b.jump(after, [a, b.set(log.xs, x, count), b.set(log.ys, y, count), b.add(count, 1)])
        return after

    def _pass_on(self, term: Op) -> None:
        """Pass on the logs of the values of the web that a terminator passes on."""
        assert term.block is not None
        if term.name == "return":
            self._extend(term.operands, self.returned.get(term.block.func, []))
        elif term.name == "call" and term.attrs["callee"] in self.region.functions:
            self._extend(term.operands, self.carried[self.region.functions[term.attrs["callee"]].entry])
        for edge in term.edges:
            if edge.block in self.region.blocks:
                self._extend(edge.args, self.carried[edge.block])

    def _extend(self, values: list[Value], carried: list[int]) -> None:
        for i in carried:
            log = self.logs[values[i]]
            values[i] = log.a
            values += log[1:]

    # --- at the border of the region ----------------------------------------------------------------

    def _around_loop(self, loop: Loop, terms: list[Op]) -> None:
        for source, edge in self.region.edges[loop.head]:
            if source not in self.region.blocks and source.term is not None:
                self._enter(source, edge.args, self.carried[loop.head])
        for term in terms:
            for edge in term.edges:
                if edge.block is loop.exit:
                    self._leave(term, edge)

    def _leave(self, term: Op, edge: Edge) -> None:
        """Add the pending terms on an edge that leaves the loop, in a new block."""
        at = [i for i, a in enumerate(edge.args) if a in self.logs]
        if at and term.block is not None:
            inside = own_exit(term.block.func, term.block, edge.block)
            assert inside.term is not None
            self._extend(edge.args, at)
            last, inside.term = inside.term, None
            b, onward = Builder(inside, term.loc), last.edges[0]
            for i in at:
                self._add_log(inside, inside.params[i], len(inside.params))
                onward.args[i] = self._pending(b, self.logs[inside.params[i]])
            b.block.term, last.block = last, b.block

    def _around_calls(self, func: Function) -> None:
        """Make a log before each call from outside, and add its terms after the call.

        If the sum is only passed to another such call, the log is passed along instead.
        """
        calls = [b.term for b in reverse_postorder(func)
                 if b.term is not None and b.term in self.region.outside.get(b.term.attrs.get("callee", ""), ())]
        readers = users(func.all_ops())
        preds = func.predecessors()
        for call in calls:
            callee = self.region.functions[call.attrs["callee"]]
            assert call.block is not None
            self._enter(call.block, call.operands, self.carried[callee.entry])
            single = len(preds[call.edges[0].block]) == 1
            inside = landing(call.edges[0], func, "sum")
            assert inside.term is not None
            onward, b = inside.term.edges[0], Builder(inside, call.loc)
            for i in self.returned.get(callee, ()):
                p, after = inside.params[i], onward.block.params[i]
                self._add_log(inside, p, len(inside.params))
                if single and [self._goes_on(op, after) for op in readers.get(after, ())] == [True]:
                    self._add_log(onward.block, after, len(onward.block.params))
                    onward.args += self.logs[p][1:]
                else:
                    onward.args[i] = self._sum(b, self.logs[p])

    def _goes_on(self, op: Op, p: Value) -> bool:
        """True if ``op`` is a call from outside with the sum ``p`` as its accumulator."""
        if op.name != "call" or op not in self.region.outside.get(op.attrs["callee"], ()):
            return False
        carried = self.carried[self.region.functions[op.attrs["callee"]].entry]
        return [i in carried for i, v in enumerate(op.operands) if v is p] == [True]

    def _enter(self, block: Block, values: list[Value], carried: list[int]) -> None:
        """Append the logs of the carried ``values``; those without one get an empty log, at the end of ``block``."""
        b = Builder(block, block.term.loc if block.term is not None else block.func.loc)
        for i in carried:
            a = values[i]
            values += (self.logs.get(a) or self._empty(b, a))[1:]

    def _empty(self, b: Builder, a: Value) -> Log:
        m, n = b.dims(a)
        if self.box is not None:                         # where no term is added, the sizes may be any numbers
            m, n = (b.minimum(b.maximum(b.again(size), 0), whole) for size, whole in zip(self.box, (m, n)))
        rows = b.select(b.lt(b.mul(m, n), SMALL), b.const(0), b.const(ROWS))
        dtype = dtype_of(a.type)
        xs, ys = (b.emit("as_type", b.emit("empty", rows, size, dtype=dtype), type=t)
                  for size, t in zip((m, n), self.types))
        return Log(a, xs, ys, b.const(0))

    def _pending(self, b: Builder, log: Log) -> Value:
        """``_sum``, if there are pending terms: of a small matrix there are none."""
        some, none, after = (b.func.new_block(n) for n in ("pending", "none", "summed"))
        b.branch(b.lt(0, log.used), some, [], none, [])
        b.at(none)
        b.jump(after, [log.a])
        b.at(some)
        b.jump(after, [self._sum(b, log)])
        b.at(after)
        return after.add_param(log.a.type)

    def _sum(self, b: Builder, log: Log) -> Value:
        rows = [b.slice(v, 0, log.used, 1, 0, b.dim(v, axis=1), 1) for v in (log.xs, log.ys)]
        return self._plus_rows(b, log.a, rows)

    def _plus_rows(self, b: Builder, a: Value, rows: list[Value]) -> Value:
        """The sum with the product of the pending rows, which is computed in place if it covers the whole matrix."""
        def whole() -> Value:
            return b.typed(b.emit("add", a, b.emit("matmul", *rows, ta=True), acc=True), a.type)
        if self.box is None:
            return whole()
        covers, part, after = (b.func.new_block(n) for n in ("whole", "part", "product"))
        m, n = (b.eq(b.dim(v, axis=1), b.dim(a, axis=k)) for k, v in enumerate(rows))
        b.branch(b.and_(m, n), covers, [], part, [])
        b.at(covers)
        b.jump(after, [whole()])
        b.at(part)
        b.jump(after, [b.emit("add_slice", a, b.emit("matmul", *rows, ta=True), 0, 1, 0, 1, acc=True)])
        b.at(after)
        return after.add_param(a.type)

    def _plus(self, b: Builder, a: Value, product: Value) -> Value:
        """The sum with one term; without ``acc``, so that it is not found again."""
        return b.add(a, product) if self.box is None else b.emit("add_slice", a, product, 0, 1, 0, 1)
