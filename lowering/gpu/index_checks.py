"""Checks of all indices of an array move into the kernel that uses them, which reads the indices anyway.

::

    %hi, %lo = for %i (max, min) { load %index, %i … }        for %i {
    check %hi < %n;  check %lo >= -%n                             %k = load %index, %i
    for %i {                                             ⟶        check %k < %n;  check %k >= -%n
      %k = load %index, %i;  … load %x, %k …                      … load %x, %k …
    }                                                         }

Kernels that come later find the status set.  What stands between must not depend on the checks: it computes, or it
accesses elements at the indices of loops alone.  The kernel may have more loops, over the rest of each element that the
index picks.  If one of them has no iteration, nothing would be checked, so the host then runs what was there::

    for once to (%columns == 0) { %hi, %lo = for …;  check %hi < %n;  check %lo >= -%n }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ir.expression_keys import same
from ...ir.graph import Block, ExcInfo, Function, Op, Value
from ...ir.ops import OPS as IR_OPS
from ...ir.types import BOOL, I64
from ...loop_level.build.cleanup import remove_unused
from ...loop_level.nest_shape import perfect_nest
from ...loop_level.types import as_types, buffer_type, type_of
from .device.patterns import is_plain
from .host.partition import ONCE, is_parallel
from .kernels.turned import turned

_COMPARISONS = ("lt", "le", "gt", "ge")
_BETWEEN = frozenset(("alloc", "reshape", "retype", "view", "dim", "const", "undef"))


@dataclass(frozen=True)
class Extremes:
    """Nested loops that find extreme indices, and what depends on these: comparisons, and ``checks``."""

    loops: Sequence[Op]
    chain: Sequence[Op]

    @property
    def checks(self) -> Iterable[Op]:
        return (op for op in self.chain if op.name == "check")

    @property
    def loads(self) -> Iterable[Op]:
        return (op for op in self.loops[-1].regions[0].ops if op.name == "load")


def move_index_checks(func: Function, exceptions: Sequence[ExcInfo]) -> None:
    """Move the checks of each block; ``exceptions``: those of the module."""
    for block in func.blocks:
        _move_in(block, exceptions)
    remove_unused(func)


def _move_in(block: Block, exceptions: Sequence[ExcInfo]) -> None:
    for op in reversed(block.ops[:]):                # the checks of the last array first: then none is in the way
        if op.name == "for" and not is_parallel(op):
            for region in op.regions:
                _move_in(region, exceptions)
        elif (found := _extremes(op, block)) is not None and (target := _user(found, block)) is not None:
            _move(found, target, block, exceptions)


# --- what can move ----------------------------------------------------------------------------------------

def _extremes(op: Op, block: Block) -> Extremes | None:
    """The loops that begin with ``op``, if all that depends on their results are checks of extreme indices."""
    kinds = op.attrs.get("reductions", ()) if op.name == "for" else ()
    if not kinds or not set(kinds) <= {"max", "min"} or not is_parallel(op):
        return None
    loops = perfect_nest(op)
    ops = loops[-1].regions[0].ops
    if not all(map(_is_counted, loops)) or not is_plain(ops) or not all(
            x.name != "store" and (x.name != "load" or _indices(loops, x)) for x in ops):
        return None
    values, chain = set(op.results), list[Op]()
    for x in block.ops[block.ops.index(op) + 1:]:
        if values.isdisjoint(x.used()):
            continue
        if not (x.name in _COMPARISONS or x.name == "check" or x.name == "or" and _is_empty(x, loops, values)):
            return None
        chain.append(x)
        values |= set(x.results)
    inside = {op, *chain}
    used = any(not values.isdisjoint(x.used()) for b in block.func.blocks for x in b.nested_ops() if x not in inside)
    return None if used or not any(x.name == "check" for x in chain) else Extremes(loops, chain)


def _is_counted(loop: Op) -> bool:
    return bool(loop.operands[0].const == 0 and loop.operands[2].const == 1)


def _indices(loops: Sequence[Op], op: Op) -> bool:
    """True if a load is at the indices of the loops, in any order."""
    at = op.operands[1:]
    ivs = [loop.regions[0].params[0] for loop in loops]
    return len(at) == len(ivs) and set(at) == set(ivs) and buffer_type(op.operands[0]).alias is not None


def _is_empty(op: Op, loops: Sequence[Op], values: set[Value]) -> bool:
    """True if an ``or`` is the condition of a check, or that the loops have no iteration."""
    first = next((v for v in op.operands if v not in values), None)
    test = first.op if first is not None else None
    if test is None or test.name != "eq" or not any(v.const == 0 for v in test.operands):
        return False
    size = next((v for v in test.operands if v.const != 0), None)
    return size is not None and _is_count(size, [loop.operands[1] for loop in loops])


def _is_count(v: Value, sizes: Sequence[Value]) -> bool:
    """True if a value is the product of sizes."""
    return v in sizes or v.op is not None and v.op.name == "mul" and all(_is_count(x, sizes) for x in v.op.operands)


def _user(found: Extremes, block: Block) -> Op | None:
    """The first nest behind the checks that reads the indices, if nothing before it depends on the checks."""
    arrays = {buffer_type(op.operands[0]).alias for op in found.loads}
    last = block.ops.index(found.chain[-1])
    for op in block.ops[block.ops.index(found.loops[0]) + 1:]:
        if op in found.chain:
            continue
        if op.name in _BETWEEN or op.name in IR_OPS and IR_OPS[op.name].elementwise or ONCE in op.attrs:
            continue
        if op.name != "for" or not (op.attrs.get("independent") or is_parallel(op)):
            return None
        inner = [x for region in op.regions for x in region.nested_ops()]
        if block.ops.index(op) > last and any(
                x.name == "load" and buffer_type(x.operands[0]).alias in arrays for x in inner):
            return op if _takes(found, op) else None
        if not all(map(_is_straight, inner)) or any(
                x.name == "store" and buffer_type(x.operands[1]).alias in (None, *arrays) for x in inner):
            return None
    return None


def _is_straight(op: Op) -> bool:
    """True if an op in a nest cannot fail, whatever indices there are."""
    if op.name not in ("load", "store"):
        return op.name in ("for", "yield", "dim", "const") or op.name in IR_OPS and IR_OPS[op.name].elementwise
    return all(v.op is None or v.const is not None for v in op.operands[1 + (op.name == "store"):])


def _takes(found: Extremes, op: Op) -> bool:
    """True if the checks can stand in the body of a nest."""
    loops = perfect_nest(op)
    ops = [x for x in loops[-1].regions[0].ops if x.name != "check"]
    return (is_parallel(op) and is_plain(ops) and all(map(_is_counted, loops)) and turned(loops) is None
            and _loops_of_indices(found, loops) is not None)


def _loops_of_indices(found: Extremes, loops: Sequence[Op]) -> dict[Value, Value] | None:
    """For the index of each loop over the indices that of the loop of a nest that goes through them."""
    ivs = [loop.regions[0].params[0] for loop in loops]
    arrays = {op.operands[0]: op.operands[1:] for op in found.loads}
    for op in loops[-1].regions[0].ops:
        if op.name == "load" and op.operands[0] in arrays and set(op.operands[1:]) <= set(ivs):
            names = dict(zip(arrays[op.operands[0]], op.operands[1:]))
            limits = {loop.regions[0].params[0]: loop.operands[1] for loop in (*found.loops, *loops)}
            if len(set(names.values())) == len(names) and all(same(limits[v], limits[names[v]]) for v in names):
                return names
    return None


# --- moving -----------------------------------------------------------------------------------------------

def _move(found: Extremes, target: Op, block: Block, exceptions: Sequence[ExcInfo]) -> None:
    loops = perfect_nest(target)
    names = _loops_of_indices(found, loops)
    assert names is not None
    region = loops[-1].regions[0]
    checks = _joined(_checks(found, dict(names), region), exceptions)
    region.ops = [*checks, *region.ops]
    more = [loop.operands[1] for loop in loops if loop.regions[0].params[0] not in names.values()]
    ops = [found.loops[0], *found.chain]
    at = block.ops.index(found.chain[-1]) + 1
    kept = _only_if_empty(ops, [n for n in more if n.const is None], block) if more else []
    block.ops = [op for op in [*block.ops[:at], *kept, *block.ops[at:]] if op not in ops]


def _checks(found: Extremes, names: dict[Value, Value], region: Block) -> list[Op]:
    """The checks of one element, for the op of a nest: of the number that the loops compare with the extreme ones."""
    inner = found.loops[-1].regions[0]
    assert inner.term is not None
    made: list[Op] = []

    def copy(op: Op) -> None:
        new = Op(op.name, [names.get(v, v) for v in op.operands], as_types([type_of(v) for v in op.results]),
                 dict(op.attrs), loc=op.loc)
        new.block = region
        names.update(zip(op.results, new.results))
        made.append(new)
    carried = dict(zip(inner.term.operands, inner.params[1:]))
    for op in inner.ops:
        if op.results and op.result in carried:
            names[op.result] = next(names.get(v, v) for v in op.operands if v is not carried[op.result])
        else:
            copy(op)
    names.update((result, names[v]) for result, v in zip(found.loops[0].results, inner.term.operands))
    for op in found.chain:
        if op.name == "or":                          # there is an element
            names[op.result] = next(names[v] for v in op.operands if v in names)
        else:
            copy(op)
    return made


def _joined(ops: Sequence[Op], exceptions: Sequence[ExcInfo]) -> list[Op]:
    """The ops with one check in place of two that raise the same: of a number that is too large, or too small."""
    out: list[Op] = []
    last: Op | None = None
    for op in ops:
        if op.name == "check" and last is not None and last.operands[1:] == op.operands[1:] and exceptions[
                last.attrs["exc"]] == exceptions[op.attrs["exc"]]:
            both = Op("and", [last.operands[0], op.operands[0]], as_types([BOOL]), loc=op.loc)
            both.block = op.block
            out.remove(last)
            out.append(both)
            op.operands = [both.result, *op.operands[1:]]
        if op.name == "check":
            last = op
        out.append(op)
    return out


def _only_if_empty(ops: Sequence[Op], sizes: Sequence[Value], block: Block) -> list[Op]:
    """A loop of the host that runs ``ops`` if one of the sizes is 0."""
    if not sizes:
        return []
    made: list[Op] = []

    def add(name: str, operands: Sequence[Value], of: object, **attrs: object) -> Value:
        op = Op(name, operands, as_types([of]), attrs, loc=ops[0].loc)
        op.block = block
        made.append(op)
        return op.result
    zero, one = (add("const", (), I64, value=n) for n in (0, 1))
    least = sizes[0]
    for n in sizes[1:]:
        least = add("minimum", (least, n), I64)
    empty = add("select", (add("le", (least, zero), BOOL), one, zero), I64)
    loop = Op("for", [zero, empty, one], (), {ONCE: True}, loc=ops[0].loc)
    loop.block = block
    region = Block(block.func)
    region.add_param(I64)
    region.ops = list(ops)
    region.term = Op("yield", (), loc=ops[0].loc)
    for op in (*ops, region.term):
        op.block = region
    loop.regions = (region,)
    return [*made, loop]
