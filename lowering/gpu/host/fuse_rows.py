"""Nests that go through the same rows one after another become one nest, a warp for each row.

::

    for %i { %m = for %j (max) { … load %x, %i, %j … };  store %m, %a, %i }       for %i { %m = for %j (max) { … }
    for %i { for %j { … load %x, %i, %j … load %a, %i …;  store %e, %b, %i, %j } }  ⟶    for %j { … %m …; store … } }

A softmax is four such nests.  They may be joined if each iteration accesses its own row alone of what one of them
stores: arrays whose leading sizes are those of the loops.  A number that a row has alone (``%m``) stays in a register,
and its array goes unless something else reads it.  What stands between the nests must not depend on them; it is done
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ....ir.graph import Block, Function, Op, Value
from ....ir.ops import OPS as IR_OPS
from ....loop_level.build.cleanup import remove_unused
from ....loop_level.types import as_types, buffer_type, type_of
from ..device.memory import uses_in
from ..device.rows import is_row
from .nests import loops_of

_BETWEEN = frozenset(("alloc", "reshape", "retype", "view", "dim", "const", "check"))
_VIEWS = frozenset(("reshape", "retype"))
Equal = dict[Value, Value]
"""Sizes that a check has found equal: another one for each."""


def fuse_rows(func: Function) -> None:
    """Join the nests of each block."""
    for block in func.blocks:
        block.ops = list(_joined(block.ops, {}))
    _remove_dead_stores(func)
    remove_unused(func)


def _joined(ops: Sequence[Op], equal: Equal) -> Iterator[Op]:
    group: Rows | None = None
    between: list[Op] = []
    for op in ops:
        if op.name == "check":
            _learn(op.operands[0].op, equal)
        if _is_nest(op):
            wider = group.with_(op, equal) if group is not None else None
            if wider is None and group is not None:
                yield from (*between, *group.loops())
                between = []
            group = wider or Rows.of(op)
            if group is None:
                yield op
        elif group is not None and (op.name in _BETWEEN or op.name in IR_OPS and IR_OPS[op.name].elementwise):
            between.append(op)
        else:
            yield from (*between, *(group.loops() if group is not None else ()), op)
            group, between = None, []
    yield from (*between, *(group.loops() if group is not None else ()))


def _is_nest(op: Op) -> bool:
    return op.name == "for" and bool(op.attrs.get("independent")) and not op.operands[3:]


class Rows:
    """Nests that have been joined: ``nests``, and the loop ``merged`` that does the same, None for a single one.

    ``depth``: the number of loops over rows.
    """

    def __init__(self, nests: Sequence[Op], depth: int, merged: Op | None = None) -> None:
        self.nests, self.depth, self.merged = nests, depth, merged

    @staticmethod
    def of(op: Op) -> Rows | None:
        """A single nest; None if it has no rows."""
        loops = loops_of(op)
        depth = len(loops) - (0 if _has_loops(loops[-1]) else 1)
        return Rows([op], depth) if depth and all(map(_is_counted, loops[:depth])) else None

    def loops(self) -> Sequence[Op]:
        return self.nests if self.merged is None or not _reduces(self.merged) else [self.merged]

    def with_(self, op: Op, equal: Equal) -> Rows | None:
        """These nests and one more; None if they cannot be joined."""
        loops = loops_of(op)[:self.depth]
        before = self.merged or self.nests[0]
        sizes = _sizes(loops_of(before)[:self.depth])
        if len(loops) < self.depth or not all(map(_is_counted, loops)) or not _same(sizes, _sizes(loops), equal):
            return None
        if not _keep_to_rows((before, op), self.depth, sizes, equal):
            return None
        merged = _merged((before, op), self.depth)
        inner = loops_of(merged)[:self.depth]
        if len(inner) < self.depth or _reduces(merged) and not is_row(inner[-1].regions[0].ops, [
                x.regions[0].params[0] for x in inner]):
            return None
        return Rows([*self.nests, op], self.depth, merged)


def _has_loops(loop: Op) -> bool:
    return any(op.name == "for" for op in loop.regions[0].ops)


def _reduces(op: Op) -> bool:
    """True if a loop in the nest carries something along a row."""
    return any(x.name == "for" and x.operands[3:] for region in op.regions for x in region.nested_ops())


def _is_counted(loop: Op) -> bool:
    return bool(loop.operands[0].const == 0 and loop.operands[2].const == 1)


def _sizes(loops: Sequence[Op]) -> list[Value]:
    return [loop.operands[1] for loop in loops]


def _same(xs: Sequence[Value], ys: Sequence[Value], equal: Equal) -> bool:
    return len(xs) == len(ys) and all(equal.get(x, x) is equal.get(y, y) or x.const is not None and x.const == y.const
                                      for x, y in zip(xs, ys))


def _learn(condition: Op | None, equal: Equal) -> None:
    """Note the values that are equal after a check of a condition."""
    if condition is not None and condition.name == "and":
        for v in condition.operands:
            _learn(v.op, equal)
    elif condition is not None and condition.name == "eq":
        first, second = (equal.get(v, v) for v in condition.operands)
        for v in [second, *(x for x, y in equal.items() if y is second)]:
            equal[v] = first


def _keep_to_rows(nests: Sequence[Op], depth: int, sizes: Sequence[Value], equal: Equal) -> bool:
    """True if each nest accesses its own rows only of what one of them stores."""
    accesses = [(op, ivs) for nest in nests for ivs in [_ivs(nest, depth)] for op in nest.regions[0].nested_ops()
                if op.name in ("load", "store")]
    written = {buffer_type(op.operands[1]).alias for op, _ in accesses if op.name == "store"}
    if None in written:
        return False
    for op, ivs in accesses:
        b, *at = op.operands[op.name == "store":]
        alias = buffer_type(b).alias
        if alias is None or alias in written and not (
                at[:depth] == ivs and _same(_leading(b)[:depth], sizes, equal)):
            return False
    return True


def _ivs(nest: Op, depth: int) -> list[Value]:
    return [loop.regions[0].params[0] for loop in loops_of(nest)[:depth]]


def _leading(b: Value) -> list[Value]:
    """The sizes of a buffer in C order, as the op that makes it takes them; [] if another op does."""
    op = b.op
    while op is not None and op.name == "retype":
        op = op.operands[0].op
    if op is None or op.name not in ("alloc", "reshape"):
        return []
    return op.operands[op.name == "reshape":]


# --- one nest of several ----------------------------------------------------------------------------------

def _merged(nests: Sequence[Op], depth: int) -> Op:
    """A new nest that does in each iteration what each of the nests does there, in order."""
    first = loops_of(nests[0])[:depth]
    made: list[Op] = []
    ivs: list[Value] = []
    for loop in first:
        op = Op("for", loop.operands, (), dict(loop.attrs), loc=loop.loc)
        op.regions = (Block(loop.regions[0].func),)
        ivs.append(op.regions[0].add_param(loop.regions[0].params[0].type, loop.regions[0].params[0].hint))
        if made:
            made[-1].regions[0].ops.append(op)
        made.append(op)
    for op in made:
        op.regions[0].term = Op("yield", (), loc=op.loc)
    body = made[-1].regions[0]
    kept: dict[int | None, Value] = {}
    for nest in nests:
        names = dict(zip(_ivs(nest, depth), ivs))
        for op in loops_of(nest)[depth - 1].regions[0].ops:
            body.ops += _copy(op, names, kept, body)
            if op.name == "store" and all(d == 1 for d in buffer_type(op.operands[1]).dims[depth:]):
                kept[buffer_type(op.operands[1]).alias] = names.get(op.operands[0], op.operands[0])
    return made[0]


def _copy(op: Op, names: dict[Value, Value], kept: dict[int | None, Value], block: Block) -> list[Op]:
    """A copy of an op, or none if it loads a number of the row that is known."""
    operands = [names.get(v, v) for v in op.operands]
    if op.name == "load" and (known := kept.get(buffer_type(operands[0]).alias)) is not None:
        names[op.result] = known
        return []
    made = Op(op.name, operands, as_types([type_of(v) for v in op.results]), dict(op.attrs), loc=op.loc)
    made.block = block
    for old, new in zip(op.results, made.results):
        names[old], new.hint = new, old.hint
    regions = []
    for region in op.regions:
        inner = Block(block.func)
        for p in region.params:
            names[p] = inner.add_param(p.type, p.hint)
        for x in region.ops:
            inner.ops += _copy(x, names, kept, inner)
        assert region.term is not None
        inner.term = Op("yield", [names.get(v, v) for v in region.term.operands], loc=region.term.loc)
        inner.term.block = inner
        regions.append(inner)
    made.regions = tuple(regions)
    return [made]


def _remove_dead_stores(func: Function) -> None:
    """Remove the stores to arrays that nothing reads, of those that this function allocates for itself."""
    uses = uses_in(op for block in func.blocks for op in block.nested_ops())
    dead: set[Op] = set()
    for block in func.blocks:
        for op in block.ops:
            if op.name == "alloc" and op.attrs["kind"] != "result":
                dead |= set(_only_stores(op.result, uses))
    for block in func.blocks if dead else ():
        _without(block, dead)


def _only_stores(b: Value, uses: dict[Value, list[Op]]) -> Iterable[Op]:
    """The ops that store in a buffer, or in a view of it; none if other ops use it."""
    found: list[Op] = []
    todo = [b]
    while todo:
        v = todo.pop()
        for op in uses.get(v, ()):
            if op.name in _VIEWS:
                todo += op.results
            elif op.name == "store" and op.operands[1] is v:
                found.append(op)
            elif op.name != "dim":
                return ()
    return found


def _without(block: Block, dead: set[Op]) -> None:
    for op in block.ops:
        for region in op.regions:
            _without(region, dead)
    block.ops = [op for op in block.ops if op not in dead]
