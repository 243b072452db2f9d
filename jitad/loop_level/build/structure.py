"""Counted loops of the program become ``for`` ops.

A loop of one block that counts (``loops.counted``) and cannot raise moves into the region of a ``for`` at the end of
its preheader.  Blocks in a row are then joined, so that an outer loop may be one block too::

    ^preheader: jump ^head(0, x…)                          %r… = for %i = 0 to %trip step 1 (%p… = %x…) {
    ^head(%i, %p…): …                                ⟶       …
      branch lt(%i + 1, %trip), ^head(%i + 1, %q…), ^exit(…)   yield %q…
                                                           }

A carried value, or a parameter of a block, that never changes is dropped: a buffer which a loop updates in place.

What the exit edge passes is a result of the ``for``.  A value that no parameter carries gets one of its own, which is
undefined before the first iteration; there is one iteration at least.  Loops with a check, a call or a branch stay.
"""

from __future__ import annotations

from ...ir.graph import Block, Edge, Function, Op, Value
from ...passes.analysis.cfg import Mapping, resolve
from ...passes.analysis.loops import Counted, Loop, counted, loop_forest
from ...passes.cleanup.block_params import drop_redundant_params
from .writer import Writer


def structure_loops(func: Function, writer: Writer) -> None:
    """Turn all such loops into ``for`` ops, inner ones first."""
    _drop_unchanged(func)
    changed = True
    while changed:
        changed = False
        open_values = _used_elsewhere(func)
        for loop in loop_forest(func).loops:
            known = counted(loop) if loop.blocks == {loop.head} else None
            if known is not None and _can_move(loop, open_values):
                _move(loop, known, writer)
                changed = True
        if changed:
            _join_blocks(func)
            _drop_unchanged(func)


def _used_elsewhere(func: Function) -> set[Value]:
    """The values that a block other than their own reads."""
    found: set[Value] = set()
    for block in func.blocks:
        made = {*block.params, *(v for op in block.nested_ops() for v in _values_of(op))}
        found |= {v for op in block.nested_ops() for v in op.used()} - made
    return found


def _values_of(op: Op) -> list[Value]:
    return [*op.results, *(p for region in op.regions for p in region.params)]


def _can_move(loop: Loop, open_values: set[Value]) -> bool:
    head = loop.head
    if loop.exit is None or any(op.name == "check" for op in head.nested_ops()):
        return False
    return open_values.isdisjoint(head.params) and not any(open_values & {*op.results} for op in head.ops)


def _move(loop: Loop, known: Counted, writer: Writer) -> None:
    """Put the loop into its preheader, which then jumps to the exit."""
    head, before, leaving = loop.head, loop.preheader, loop.exit_edge()
    assert before is not None
    writer.block, writer.loc = before, head.term.loc if head.term is not None else writer.loc
    carried = [p for p in head.params if p is not known.iv]
    start = [_argument(loop.entry_edge(), p) for p in carried]
    passed = [_argument(loop.back_edge(), p) for p in carried]
    inside = {*head.params, *(r for op in head.ops for r in op.results)}
    for v in dict.fromkeys(leaving.args):
        if v in inside and v not in passed and v is not known.next:
            start.append(writer.do("undef", type=v.type).result)
            passed.append(v)
    op = Op("for", [writer.const(0), known.trip, writer.const(1), *start], [v.type for v in start], loc=writer.loc)
    body = Block(before.func)
    op.regions = (body,)
    renamed: Mapping = {known.iv: body.add_param(known.iv.type, known.iv.hint or "i")}
    for i, v in enumerate(start):
        param = body.add_param(v.type, carried[i].hint if i < len(carried) else "")
        if i < len(carried):
            renamed[carried[i]] = param
    body.ops, body.term = head.ops, Op("yield", passed, loc=writer.loc)
    for inner in body.all_ops():
        inner.block = body
    for inner in body.nested_ops():
        inner.replace_uses(renamed)
    op.block = before
    before.ops.append(op)
    results = dict(zip(passed, op.results)) | {known.next: known.trip}
    before.term = Op("jump", [], edges=[Edge(leaving.block, [results.get(v, v) for v in leaving.args])], loc=writer.loc)
    before.term.block = before
    before.func.blocks.remove(head)


def _argument(edge: Edge, p: Value) -> Value:
    found = edge.argument(p)
    assert found is not None
    return found


def _join_blocks(func: Function) -> None:
    """Append each block that only one jump enters to the block which jumps."""
    renamed: Mapping = {}
    preds = func.predecessors()
    for block in list(func.blocks):
        if block not in preds:
            continue
        while block.term is not None and block.term.name == "jump":
            edge = block.term.edges[0]
            target = edge.block
            if len(preds[target]) != 1 or target is block or target is func.entry:
                break
            renamed.update(edge.passed())
            block.ops += target.ops
            block.term = target.term
            for op in target.all_ops():
                op.block = block
            func.blocks.remove(target)
            del preds[target]
    _rename(func, renamed)


# --- values that never change -----------------------------------------------------------------------------

def _drop_unchanged(func: Function) -> None:
    """Drop carried values, and parameters of blocks, that are the same in every iteration."""
    changed = True
    while changed:
        renamed: Mapping = {}
        for block in func.blocks:
            for op in block.ops:
                _drop_carried(op, renamed)
        _rename(func, renamed)
        parameters = drop_redundant_params(func, loop_forest(func))
        _rename(func, parameters)
        changed = bool(parameters)


def _drop_carried(op: Op, renamed: Mapping) -> None:
    """Drop the carried values of a loop, inner loops first, that each iteration passes on."""
    for region in op.regions:
        for inner in region.ops:
            _drop_carried(inner, renamed)
        assert region.term is not None
        for i in reversed(range(len(op.results))):
            param, start = region.params[i + 1], op.operands[i + 3]
            if resolve(renamed, region.term.operands[i]) is param:
                renamed[param] = renamed[op.results[i]] = start
                region.remove_param(i + 1)
                del op.operands[i + 3], op.results[i], region.term.operands[i]
                for index, result in enumerate(op.results):
                    result.index = index


def _rename(func: Function, renamed: Mapping) -> None:
    """Replace values that are gone by those that take their place, inside of regions too."""
    for v in list(renamed):
        resolve(renamed, v)
    for block in func.blocks if renamed else ():
        for op in block.nested_ops():
            op.replace_uses(renamed)
