"""Merges similar loops of a long function into one function, which is called in their places.

A program with hundreds of loops, which Python has generated or unrolled, has few different ones.  Each of these is
differentiated, optimised and made machine code once, and compile time grows with the calls only.  Two loops are
*similar* if they have the same ops in the same order.  What they read from outside is passed to the function, and so
are floats in the place of constants that differ::

    ^before: jump ^loop(0, %x)                         ^before: call @f.loop(%x, %n, 1.06) -> ^after
    ^loop(%i, %v): branch lt %i, %n, ^body, ^after  →
    ^body: … mul %v, 1.06 …                            func @f.loop(%x, %n, %factor) -> (f64)

A call takes some nanoseconds, and what is known of the arguments at one place is not known in the function.  So
functions with fewer loops stay as they are.  A loop stays too if it may raise, because an exception names the line of
its own loop: the passes that remove checks run on each candidate by itself.

LLVM's ``IROutliner`` finds similar regions of straight code likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

from ...errors import NOWHERE
from ...ir.builder import Builder
from ...ir.clone import clone_blocks, clone_op
from ...ir.expression_keys import key
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.types import Array, Scalar, is_float_scalar
from ..analysis.cfg import append, remove_unreachable, substitute
from ..analysis.loops import Loop, LoopForest, loop_forest, raising_blocks

MANY = 64
"""The least number of outermost loops of a function whose similar loops are merged.  With their gradient, half as many
take a second to compile one by one."""
LEAST = 8
"""The least number of similar loops that become a function."""
LONGEST = 4
"""The longest chain of integer ops that the function computes again, as the size of an array that it reads."""
_INTEGER = frozenset("dim add sub mul minimum maximum".split())


def similar_loops(module: Module, remove_checks: Callable[[Module], None]) -> bool:
    """Merge similar loops throughout a module; returns True if any were.

    ``remove_checks`` brings a module into normal form, and removes the checks that always hold.
    """
    changed = False
    for func in list(module.functions.values()):
        forest = loop_forest(func)
        if len(forest.roots) >= MANY:
            groups: dict[Hashable, list[_Region]] = {}
            for region in _regions(func, forest):
                if (shape := region.shape(module)) is not None:
                    groups.setdefault(shape, []).append(region)
            merged = [_merge(module, func, group, remove_checks) for group in groups.values() if len(group) >= LEAST]
            if replaced := [pairs for pairs in merged if pairs is not None]:
                substitute(func, {v: w for pairs in replaced for v, w in pairs.items()})
                remove_unreachable(func)
                changed = True
    return changed


class _Region:
    """The blocks of a loop, which ``before`` enters by a jump, and which lead to ``after`` only.

    ``outside``: the arrays and integers from outside that it reads, in order.  ``floats``: the floats from outside and
    the float constants, once for each use, so that one may take the place of several others.
    ``values``: the region's own, in order.  ``left``: those that are read after it.  ``constants``: its constants that
    are read after it.
    """

    def __init__(self, before: Block, after: Block, blocks: list[Block]) -> None:
        self.before, self.after, self.blocks = before, after, blocks
        self.outside: dict[Value, int] = {}
        self.floats: list[Value] = []
        self.left: dict[Value, None] = {}
        self.constants: dict[Value, None] = {}
        self.values = [v for b in blocks for v in (*b.params, *(
            r for op in b.ops if op.name != "const" for r in op.results))]
        self.known: dict[Value, Hashable] = {v: i for i, v in enumerate(self.values)}
        self._places = {b: i for i, b in enumerate(blocks)} | {after: -1}

    def ops(self) -> Iterator[Op]:
        """The terminator that enters the region, then its ops but for constants."""
        assert self.before.term is not None
        yield self.before.term
        for b in self.blocks:
            yield from (op for op in b.all_ops() if op.name != "const")

    def shape(self, module: Module) -> Hashable | None:
        """A key, which is equal for similar regions, or None for a region that has to stay."""
        if not all(isinstance(v.type, (Scalar, Array)) for v in (*self.after.params, *self.left)):
            return None
        found: list[Hashable] = [tuple([p.type for b in self.blocks for p in b.params])]
        for op in self.ops():
            if op.name in ("call", "return"):
                return None
            operands = [self._stands_for(v) for v in op.operands]
            if (number := op.attrs.get("exc")) is not None:
                known = module.exceptions[number]
                found.append((op.name, repr(replace(known, loc=NOWHERE, calls=())), *operands))
            else:
                found.append(key(op, operands) if op.name in OPS else (op.name, *operands))
            found += [(self._places[e.block], *map(self._stands_for, e.args)) for e in op.edges]
        return tuple(found)

    def _stands_for(self, v: Value, depth: int = LONGEST) -> Hashable:
        """A value's number in the region or outside, the type of a float, another constant, or a formula."""
        if v not in self.known:
            if is_float_scalar(v.type):
                self.floats.append(v)
                return "float", v.type
            if v.const is not None:
                return "const", v.type, repr(v.const)
            if _is_made_again(v) and depth:
                assert v.op is not None
                self.known[v] = key(v.op, [self._stands_for(x, depth - 1) for x in v.op.operands])
            else:
                self.known[v] = "outside", self.outside.setdefault(v, len(self.outside)), v.type
        return self.known[v]


def _is_made_again(v: Value) -> bool:
    """True for the size of an array, and for what little computes from it."""
    return v.op is not None and v.op.name in _INTEGER and isinstance(v.type, Scalar) and not v.type.is_float


def _regions(func: Function, forest: LoopForest) -> list[_Region]:
    """The regions of the outermost loops that are entered by one block, and lead to one."""
    found: list[_Region] = []
    homes: dict[Block, _Region] = {}
    for loop in forest.roots:
        if (region := _region(loop, forest)) is not None:
            found.append(region)
            homes |= dict.fromkeys(region.blocks, region)
    for b in forest.dom.order:
        own = homes.get(b)
        for op in b.all_ops():
            for v in op.used():
                if (home := homes.get(v.block)) is not own and home is not None:
                    (home.left if v.const is None else home.constants)[v] = None
    return found


def _region(loop: Loop, forest: LoopForest) -> _Region | None:
    blocks = loop.region(raising_blocks(forest.dom))
    after = {s for b in blocks for s in b.successors() if s not in blocks}
    if loop.preheader is None or len(after) != 1:
        return None
    (leave,) = after
    if not blocks.issuperset(forest.dom.preds[leave]):
        return None
    return _Region(loop.preheader, leave, forest.dom.in_order(blocks))


def _merge(module: Module, func: Function, group: list[_Region],
           remove_checks: Callable[[Module], None]) -> dict[Value, Value] | None:
    """Make a function of the first of some similar regions, and call it in place of each.

    Returns what replaces the values that were read after the regions, or None if the function might raise.
    """
    first = group[0]
    slots, picked = _parameters(group)
    left = sorted({i for region in group for i, v in enumerate(region.values) if v in region.left})
    given = [*first.outside, *(first.floats[use] for use in picked)]
    taken = [*first.after.params, *(first.values[i] for i in left)]
    callee = Function(module.unique_name(f"{func.name}.loop"), [v.type for v in given], [v.type for v in taken],
                      [v.hint for v in first.outside])
    callee.attrs, callee.loc = {k: v for k, v in func.attrs.items() if k == "checkpoint"}, func.loc
    callee.attrs["inline"] = "never"
    _fill(callee, first, slots, left)
    alone = Module()
    alone.add(callee)
    alone.exceptions, alone.fastmath = module.exceptions, module.fastmath
    remove_checks(alone)
    if any("exc" in op.attrs for op in callee.all_ops()):
        return None
    module.add(callee)
    replaced: dict[Value, Value] = {}
    for region in group:
        assert region.before.term is not None
        b = Builder(region.before, region.before.term.loc)
        region.before.term = None
        replaced |= {v: _again(b, v) for v in region.constants}
        floats = [v if v.const is None else _again(b, v) for v in (region.floats[use] for use in picked)]
        results = b.call_then(callee.name, [*region.outside, *floats], callee.result_types)
        count = len(region.after.params)
        b.jump(region.after, results[:count])
        replaced |= zip((region.values[i] for i in left), results[count:])
    return replaced


def _parameters(group: list[_Region]) -> tuple[list[int | None], list[int]]:
    """For each use of a float, the number of its parameter, or None if it is one constant in all regions.

    Behind that, for each parameter one of its uses.  Uses share a parameter if they agree in every region.
    """
    params: dict[Hashable, int] = {}
    slots: list[int | None] = []
    picked: list[int] = []
    for use, same in enumerate(zip(*(region.floats for region in group))):
        found = tuple([v if v.const is None else repr(v.const) for v in same])
        fixed = len(set(found)) == 1 and same[0].const is not None
        number = None if fixed else params.setdefault((same[0].type, found), len(params))
        if number == len(picked):
            picked.append(use)
        slots.append(number)
    return slots, picked


def _again(b: Builder, constant: Value) -> Value:
    assert isinstance(constant.type, Scalar)
    return b.const(constant.const, constant.type)


def _fill(callee: Function, region: _Region, slots: list[int | None], left: list[int]) -> None:
    """Copy a region into a function.

    ``slots``: for each use of a float, its parameter among those of floats, or None for the constant.  ``left``: the
    values that are returned besides.
    """
    term, entry = region.before.term, Builder(callee.entry, callee.loc)
    assert term is not None
    values: dict[Value, Value] = dict(zip(region.outside, callee.params))
    blocks = clone_blocks(region.blocks, callee, values)
    blocks[region.after] = done = callee.new_block("done")
    params = [done.add_param(p.type) for p in region.after.params]
    callee.entry.term = clone_op(term, values)
    callee.entry.term.block = callee.entry
    uses = iter(slots)

    def given(v: Value) -> Value:
        if v.const is None and v in values:
            return values[v]
        if is_float_scalar(v.type):
            slot = next(uses)
            return _again(entry, v) if slot is None else callee.params[len(region.outside) + slot]
        if v.const is not None:
            return _again(entry, v)
        assert v.op is not None                              # an integer that is made again
        operands = [given(x) for x in v.op.operands]
        copy = clone_op(v.op, values)
        copy.operands = operands
        append(callee.entry, copy)
        return values[v]

    copies = [callee.entry.term, *(op for x in region.blocks for op in blocks[x].all_ops() if op.name != "const")]
    for op, copy in zip(region.ops(), copies):
        copy.operands, copy.loc = [given(v) for v in op.operands], callee.loc
        copy.edges = [Edge(blocks[e.block], [given(v) for v in e.args]) for e in op.edges]
    Builder(done, callee.loc).ret([*params, *(values[region.values[i]] for i in left)])
