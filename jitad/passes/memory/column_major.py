"""Column-major storage: an array whose columns loops read and write is stored with its columns side by side.

Arrays are stored row by row, so a column is strided: each element is in a cache line of its own, and vectors are
gathered.  A program that works on columns (``q[:, j] -= r * q[:, i]``) accesses each of them many times::

    q0 = copy a : f64[?, ?]                      t = transpose a;  q0 = copy t
    ^loop(i, q):                                 ^loop(i, q):
      x = slice q, 0, n, 1, i, 1, 1                x = slice q, i, 1, 1, 0, n, 1
      q1 = set_slice q, y, 0, 1, j, 1    becomes   q1 = set_slice q, y, j, 1, 0, 1
    ^done(q):                                    ^done(q):
      return q                                     r = transpose q;  return r

Loops over elements are taken likewise: ``s[i, 0]`` and ``s[i, 1]`` in a loop over ``i`` are columns, as of an array of
structures.  Other columns ``q[t, j]`` in a loop over ``t`` are, if the program also stores to the array in such loops:
otherwise the loop over ``j`` may be taken for lanes, and needs rows; and if no loop sums products of two columns, as
``matrix_products`` takes them.  It does not where the loop around the sums stores to the array as well (rotations).

Sums along rows (``s -= l[i, k] * l[j, k]``, as in a factorisation) whose order is fixed are columns as well, if the
loop over ``i`` around them stores to its own rows alone, and reads no other row that it stores to: it is then taken for
lanes, for which the elements of a column are neighbours.

A *web* is what a variable is in the program: the values that updates and edges connect.  All of a web is stored in one
way.  It must be accessed by whole columns in deeper loops than by rows, or as a whole.  The pass runs before
differentiation, so the cotangents are stored by columns as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import Array, Scalar
from ..analysis.affine import AffineForms, stays_beyond
from ..analysis.loops import Loop, LoopForest, counted, loop_forest

PARTS = {"slice": (1, 3), "set_slice": (2, 2), "add_slice": (2, 2)}
"""The number of the first operand that describes a part, and how many there are for each axis."""
ELEMENTS = {"get": 1, "set": 2, "add_at": 2}
"""The number of the first index."""
UPDATES = frozenset({"set", "add_at", "set_slice", "add_slice"})
FEWEST = 3
"""The accesses to columns in a single loop that make up for a transposition of the array before it and one behind."""


@dataclass(eq=False)
class _Web:
    """The values of one variable; ``columns``, ``rows`` and ``wholes`` are the depths of accesses in loops.

    ``read``: the loops that access columns by elements, with their depths and columns; ``stored``: those that store.
    ``summed``: loops around ordered sums along rows → the depth and the row of each element of a sum.
    """

    values: list[Value] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    read: dict[Loop, tuple[int, list[Value]]] = field(default_factory=dict)
    stored: set[Loop] = field(default_factory=set)
    summed: dict[Loop, list[tuple[int, Value]]] = field(default_factory=dict)
    updates: list[Op] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    wholes: list[int] = field(default_factory=list)
    fixed: bool = False

    def pays(self, forms: AffineForms) -> bool:
        columns, rows = self.columns + self._by_elements(), list(self.rows)
        for loop, elements in self.summed.items():
            moving = self._by_lanes(loop, elements, forms)
            columns += moving
            rows += [] if moving else [depth for depth, _ in elements]
        deepest = max(columns, default=0)
        if self.fixed or deepest == 0 or deepest == 1 and len(columns) < FEWEST:
            return False
        return all(depth < deepest for depth in (*rows, *self.wholes))

    def _by_elements(self) -> list[int]:
        """The depths of the columns in ``read``, unless none is stored, or they are multiplied as a matrix's."""
        product = any(len(set(columns)) > 1 and not self._stored_beside(loop)
                      for loop, (_, columns) in self.read.items())
        return [] if product or not self.stored else [d for d, columns in self.read.values() for _ in columns]

    def _by_lanes(self, loop: Loop, elements: list[tuple[int, Value]], forms: AffineForms) -> list[int]:
        """The depths of elements whose rows are the loop's own, if its iterations can be lanes."""
        known = counted(loop)
        updates = [op for op in self.updates if op.block in loop.blocks]
        if known is None or not updates or any(op.name == "check" for b in loop.blocks for op in b.ops):
            return []
        own = {op.operands[2] for op in updates}
        moving = [depth for depth, row in elements if row in own]
        apart = all(row in own or all(stays_beyond(forms, row, v, loop, known) for v in own) for _, row in elements)
        stored = all(op.operands[3].block not in loop.blocks and forms.of(op.operands[2]).coefficient(known.iv)
                     for op in updates)
        return moving if len(own) == 1 and apart and stored else []

    def _stored_beside(self, loop: Loop) -> bool:
        """True if ``loop`` or the loop around it stores columns, so that its sums are no product of matrices."""
        around = loop.parent
        return any(s is loop or around is not None and s.head in around.blocks for s in self.stored)


def column_major(module: Module) -> bool:
    """Store arrays by columns where it pays; expects normal form.  Returns True if there were any."""
    changed, forms = False, AffineForms()
    for func in module.functions.values():
        if any(op.name in PARTS and _axis(op) == 0 or op.name in ELEMENTS and len(op.operands) == ELEMENTS[op.name] + 2
               for op in func.all_ops()):
            members = {v for web in _webs(func, module.fastmath) if web.pays(forms) for v in web.values}
            if members:
                _exchange(func, members)
                changed = True
    return changed


# --- webs ---------------------------------------------------------------------------------------------

def _webs(func: Function, fastmath: bool) -> list[_Web]:
    """The webs of all arrays of two dimensions, with their accesses."""
    parent: dict[Value, Value] = {v: v for v in func.defined() if isinstance(v.type, Array) and v.type.rank == 2}

    def find(v: Value) -> Value:
        while parent[v] is not v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    for a, b in _connected(func):
        if a in parent:
            parent[find(a)] = find(b)
    webs: dict[Value, _Web] = {}
    of = {v: webs.setdefault(find(v), _Web()) for v in parent}
    for v, web in of.items():
        web.values.append(v)
    for v in _given(func):
        if v in of:
            of[v].fixed = True
    _count(func, of, fastmath)
    return list(webs.values())


def _connected(func: Function) -> Iterator[tuple[Value, Value]]:
    for op in func.all_ops():
        if op.name in UPDATES:
            yield op.operands[0], op.result
        for edge in op.edges:
            yield from edge.passed()


def _given(func: Function) -> Iterator[Value]:
    """Parameters, and what calls and stacks return: their storage is not the function's to choose."""
    yield from func.params
    for op in func.all_ops():
        if len(op.results) > 1:
            yield from op.results
        for edge in op.edges:
            yield from edge.results


def _count(func: Function, of: dict[Value, _Web], fastmath: bool) -> None:
    """Enter the accesses of each web."""
    forest, forms = loop_forest(func), AffineForms()
    for block in forest.dom.order:
        depth = forest.depth(block)
        for op in block.all_ops():
            for number, v in enumerate(op.operands):
                if v in of:
                    if number > 0 or op.name not in (*PARTS, *ELEMENTS, "dim"):
                        of[v].wholes.append(depth)
                    elif op.name != "dim":
                        _access(of[v], op, depth, forest, forms, fastmath)
            for v in op.results:
                if v in of and op.name not in (*UPDATES, "fill", "empty", "undef"):
                    of[v].wholes.append(depth)


def _access(web: _Web, op: Op, depth: int, forest: LoopForest, forms: AffineForms, fastmath: bool) -> None:
    if op.name in PARTS:
        axis = _axis(op)
        (web.columns if axis == 0 else web.rows if axis == 1 else web.wholes).append(depth)
        return
    first = ELEMENTS[op.name]
    if len(op.operands) != first + 2:
        web.fixed = True                                     # a row by one index
        return
    assert op.block is not None
    loop = forest.loop_of(op.block)
    known = counted(loop) if loop is not None else None
    if loop is None or known is None:
        return
    row, column = op.operands[first:]
    if op.name in UPDATES:
        web.updates.append(op)
    if forms.of(column).coefficient(known.iv):               # the loop runs along a row
        if op.name == "get" and loop.parent is not None and not fastmath and _adds_up(loop):
            if not _beside_neighbours(op, loop.parent, forms):
                web.summed.setdefault(loop.parent, []).append((depth - 1, row))
        else:
            web.rows.append(depth - 1)
    elif forms.of(row).coefficient(known.iv) and (column.const is not None or column.block not in loop.blocks):
        if column.const is not None:
            web.columns.append(depth - 1)
            return
        web.read.setdefault(loop, (depth - 1, []))[1].append(column)
        if op.name in UPDATES:
            web.stored.add(loop)


def _adds_up(loop: Loop) -> bool:
    """True if a loop carries a float to which each iteration adds, in order."""
    return any(a.op is not None and a.op.name in ("add", "sub") and p in a.op.operands and isinstance(p.type, Scalar)
               and p.type.is_float for p, a in loop.back_edge().passed())


def _beside_neighbours(op: Op, around: Loop, forms: AffineForms) -> bool:
    """True if the iterations around read the same element, and neighbours of another array: one load for all lanes."""
    known = counted(around)
    if known is None or op.block is None or forms.of(op.operands[1]).coefficient(known.iv):
        return False
    return any(other.name == "get" and forms.of(other.operands[-1]).coefficient(known.iv) == 1 and
               other.operands[0] is not op.operands[0] for other in op.block.ops)


def _axis(op: Op) -> int | None:
    """The axis along which a part lies: 0 for a column, 1 for a row, ``None`` for a block or another rank."""
    if op.name == "slice":
        sizes = [v.const for v in op.operands[2::3]]
    else:
        t = op.operands[1].type
        sizes = list(t.dims) if isinstance(t, Array) else []
    return sizes.index(1) ^ 1 if len(sizes) == 2 and 1 in sizes else None


# --- rewriting ----------------------------------------------------------------------------------------

def _exchange(func: Function, members: set[Value]) -> None:
    """Exchange the axes of ``members``, and of all that is said of them."""
    for v in members:
        v.type = _exchanged(v.type)
    for block in func.blocks:
        ops, term, block.ops, block.term = block.ops, block.term, [], None
        assert term is not None
        for op in (*ops, term):
            b = Builder(block, op.loc)
            access = op.name in (*PARTS, *ELEMENTS, "dim") and op.operands[0] in members
            op.operands = [_transposed(b, v) if v in members and not (access and i == 0) else v
                           for i, v in enumerate(op.operands)]
            if access:
                _rewrite_access(b, op)
            elif op.results and op.results[0] in members:
                _rewrite_origin(b, op)
            elif op is not term:
                block.ops.append(op)
        block.term = term


def _rewrite_access(b: Builder, op: Op) -> None:
    assert b.block is not None
    if op.name == "dim":
        op.attrs = op.attrs | {"axis": 1 - op.attrs["axis"]}
    else:
        first, each = PARTS.get(op.name) or (ELEMENTS[op.name], 1)
        op.operands = op.operands[:first] + op.operands[first + each:] + op.operands[first:first + each]
    if op.name in ("set_slice", "add_slice"):
        op.operands[1] = _flipped(b, op.operands[1])
    b.block.ops.append(op)
    if op.name == "slice":
        part, = op.results
        op.results = [Value(_exchanged(part.type), op, 0)]
        _define(part, _flipped(b, op.result))


def _rewrite_origin(b: Builder, op: Op) -> None:
    """Make an array with its axes exchanged."""
    assert b.block is not None
    if op.name in ("fill", "empty"):
        op.operands[-2:] = op.operands[:-3:-1]
    elif op.name == "undef":
        op.attrs = op.attrs | {"type": op.result.type}
    elif op.name == "copy":
        op.operands = [_transposed(b, op.operands[0])]
    else:
        made, = op.results
        op.results = [Value(_exchanged(made.type), op, 0)]
        b.block.ops.append(op)
        _define(made, b.emit_op("copy", [_transposed(b, op.result)]).result)
        return
    b.block.ops.append(op)


def _exchanged(t: object) -> Array:
    assert isinstance(t, Array)
    return Array(t.dtype, t.dims[::-1])


def _transposed(b: Builder, v: Value) -> Value:
    return b.emit_op("transpose", [v], perm=(1, 0)).result


def _flipped(b: Builder, part: Value) -> Value:
    """A row as a column, or a column as a row, which is the same memory; a block transposed."""
    assert isinstance(part.type, Array)
    return b.emit("reshape", part, *b.dims(part)[::-1]) if 1 in part.type.dims else _transposed(b, part)


def _define(v: Value, new: Value) -> None:
    """Make ``v`` the result of the op that defines ``new``, which nothing reads yet."""
    op = new.op
    assert op is not None
    op.define(v)
