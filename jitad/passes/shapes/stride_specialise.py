"""Makes two versions of innermost loops over rows of few columns: in one, the number of columns is a constant.

Between iterations of a loop over ``j``, the addresses of ``x[j, 0]``, ``x[j, 1]`` and ``x[j, 2]`` advance by the number
of columns of ``x``.  If it is the constant three, the lowering loads eight rows at a time.  It is not known at compile
time, but a loop that reads columns 0 to 2 and no others most likely has three of them.  The pass tests this before the
loop.  The *narrow* version sees the arrays with the type ``f64[?, 3]``.  The other, *wide*, is the original loop.

*Root*: a loop-invariant array, or one that the loop carries and updates element by element.  The *names* of a carried
root are its parameter of the head and the results of the updates.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.clone import clone_blocks
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar
from ..analysis.cfg import own_exit, set_term
from ..analysis.loops import Loop, counted, loop_forest
from ..analysis.sizes import Size, Solver

ACCESSES = frozenset(("get", "set", "add_at"))
MOST = 8
"""The most columns.  Rows of more are further apart than the width of one vector load."""
LARGEST = 120
"""The most ops of a loop that is copied."""


def stride_specialise(module: Module) -> None:
    """Make the versions; expects normal form.

    Loops that still have checks are not vectorised, but the addresses of a row's elements are then one and an offset.
    """
    for func in module.functions.values():
        if not any(_columns(op) for op in func.all_ops()):
            continue
        solver = Solver(func)
        widest = _widest(func, solver)
        for loop in loop_forest(func).loops:
            if _worth_it(loop):
                _Strides(func, loop, solver, widest).run()


def _columns(op: Op) -> bool:
    """True if an op accesses an element of a matrix with a constant as the last index."""
    return op.name in ACCESSES and len(op.operands) > OPS[op.name].indices + 1 and op.operands[-1].const is not None


def _widest(func: Function, solver: Solver) -> dict[Size, int]:
    """The number of columns that a matrix must have for all accesses in the function, other loops included."""
    found: dict[Size, int] = {}
    for op in func.all_ops():
        column = op.operands[-3] if op.name == "slice" else op.operands[-1] if _columns(op) else None
        if column is not None and column.const is not None:
            t = op.operands[0].type
            assert isinstance(t, Array)
            size = solver.size((op.operands[0], t.rank - 1))
            found[size] = max(found.get(size, 0), column.const + 1)
    return found


def _worth_it(loop: Loop) -> bool:
    known, term = counted(loop), loop.head.term
    if known is None or loop.exit is None or loop.blocks != {loop.head} or known.trip.const is not None:
        return False
    ops = loop.head.ops
    return (len(ops) <= LARGEST and term is not None and not term.attrs.get("cold")
            and not any(op.name in ("push", "pop") for op in ops))


class _Strides:
    def __init__(self, func: Function, loop: Loop, solver: Solver, widest: dict[Size, int]) -> None:
        self.func, self.loop, self.solver, self.entry = func, loop, solver, loop.entry_edge()
        self.widest = widest
        self.names: dict[Value, Value] = {}                 # each name of an array that the loop accesses → its root
        self.excluded: set[Value] = set()                     # roots with other uses
        self.guesses: dict[Size, int] = {}
        self.varied: set[Size] = set()                      # sizes of axes with an index that is not constant

    def run(self) -> None:
        for op in self.loop.head.ops:
            self._look_at(op)
        self._check_edges()
        self.guesses = {s: n for s, n in self.guesses.items() if s not in self.varied and 2 <= n <= MOST}
        types = {root: t for root in dict.fromkeys(self.names.values())
                 if root not in self.excluded and (t := self._type(root)) != root.type}
        if types:
            self._split(types)

    # --- the accesses of the loop -------------------------------------------------------------------------

    def _look_at(self, op: Op) -> None:
        arrays = [v for v in op.operands if isinstance(v.type, Array)]
        if not arrays or op.name == "dim":
            return
        a = self.names.setdefault(arrays[0], arrays[0])
        t = arrays[0].type
        assert isinstance(t, Array)
        at = op.operands[OPS[op.name].indices:]
        carried = a.owner is self.loop.head
        reads_outside = op.name == "get" and a.block not in self.loop.blocks
        if op.name not in ACCESSES or len(arrays) > 1 or len(at) != t.rank or not (carried or reads_outside):
            self.excluded.update(self.names.get(v, v) for v in arrays)
            return
        if op.name != "get":
            self.names[op.result] = a
        for axis, index in enumerate(at):
            if axis > 0 and t.dims[axis] is None:
                size = self._size(a, axis)
                if index.const is None:
                    self.varied.add(size)
                else:
                    self.guesses[size] = max(self.guesses.get(size, 0), self.widest.get(size, 0), index.const + 1)

    def _size(self, root: Value, axis: int) -> Size:
        return self.solver.size((self._before(root), axis))

    def _before(self, root: Value) -> Value:
        """The value of the root in the preheader."""
        return self.entry.args[root.index] if root.owner is self.loop.head else root

    def _check_edges(self) -> None:
        """Exclude roots that the back edge passes to another parameter, and loop-invariant roots on the exit edge."""
        for p, a in zip(self.loop.head.params, self.loop.back_edge().args):
            if isinstance(p.type, Array) and self.names.get(a, a) is not p:
                self.excluded.update((p, self.names.get(a, a)))
        leaving = self.loop.exit_edge().args
        self.excluded.update(a for a in leaving if a in self.names and a.block not in self.loop.blocks)

    def _type(self, root: Value) -> Array:
        t = root.type
        assert isinstance(t, Array)
        return Array(t.dtype, tuple(self.guesses.get(self._size(root, axis)) if d is None and axis > 0 else d
                                    for axis, d in enumerate(t.dims)))

    # --- the two versions ---------------------------------------------------------------------------------

    def _split(self, types: dict[Value, Array]) -> None:
        loop, func = self.loop, self.func
        head, preheader, leave = loop.head, loop.preheader, loop.exit
        assert preheader is not None and leave is not None
        holds = self._test(preheader, types)
        args = list(self.entry.args)
        narrow, wide = func.new_block("narrow"), func.new_block("wide")
        set_term(wide, "jump", edges=[Edge(head, args)])
        set_term(preheader, "branch", [holds], [Edge(narrow), Edge(wide)])
        values: dict[Value, Value] = {}
        copy = clone_blocks([head], func, values)[head]
        self._retype(types, values, narrow, copy)
        b = Builder(narrow)
        b.jump(copy, [b.as_type(a, type=types[p]) if p in types else a for p, a in zip(head.params, args)])
        own_exit(func, head, leave)
        self._leave(copy, leave)

    def _test(self, preheader: Block, types: dict[Value, Array]) -> Value:
        term, preheader.term = preheader.term, None
        b = Builder(preheader, self.loop.head.ops[0].loc)
        holds, tested = b.const(True), set[Size]()
        for root, t in types.items():
            for axis, (d, literal) in enumerate(zip(root.type.dims, t.dims)):  # type: ignore[union-attr]
                size = self._size(root, axis)
                if d != literal and size not in tested:
                    tested.add(size)
                    holds = b.and_(holds, b.eq(b.dim(self._before(root), axis=axis), literal))
        preheader.term = term
        return holds

    def _retype(self, types: dict[Value, Array], values: dict[Value, Value], narrow: Block, copy: Block) -> None:
        """Give every name of a root in the copy the root's new type."""
        b = Builder(narrow)
        outside = {root: b.as_type(root, type=t) for root, t in types.items() if root.owner is not self.loop.head}
        for op in copy.ops:
            if op.name != "dim":
                op.replace_uses(outside)
        for name, root in self.names.items():
            if root in types and root not in outside:
                values[name].type = types[root]

    def _leave(self, copy: Block, leave: Block) -> None:
        """Convert the arrays that leave the copy to their old types."""
        own = own_exit(self.func, copy, leave)
        assert copy.term is not None and own.term is not None
        onward, own.term = own.term.edges[0], None
        b = Builder(own)
        for p, a in zip(own.params, next(e for e in copy.term.edges if e.block is own).args):
            p.type = a.type
        b.jump(leave, [a if isinstance(p.type, Scalar) or a.type == p.type else b.as_type(a, type=p.type)
                       for p, a in zip(leave.params, onward.args)])
