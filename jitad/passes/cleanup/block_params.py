"""Removes redundant block parameters: every edge passes the same value, or the parameter itself.

A parameter that closes a loop stays.  Its value is defined in a loop that does not contain the parameter's block.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.evaluate.fold import same
from ...ir.graph import Block, Edge, Function, Op, Value
from ..analysis.cfg import Mapping, resolve, substitute
from ..analysis.loops import LoopForest


def drop_redundant_params(func: Function, forest: LoopForest) -> Mapping:
    """Remove all redundant block parameters; returns the values that replace them.  Control flow does not change."""
    if not any(b.params for b in func.blocks[1:]):
        return {}
    incoming: dict[Block, list[Edge]] = {b: [] for b in func.blocks}
    for b in func.blocks:
        assert b.term is not None
        for e in b.term.edges:
            incoming[e.block].append(e)
    mapping: Mapping = {}
    gone: set[Value] = set()
    changed = True
    while changed:
        changed = False
        for b in func.blocks[1:]:
            for p, args in _columns(b, incoming[b]):
                if p in gone:
                    continue
                value = _only_argument(p, args, mapping)
                if value is not None and value.const is not None:
                    value = _constant_here(value, b)     # edges may pass different ops with one constant
                if value is not None and _may_replace(value, b, forest):
                    mapping[p] = value
                    gone.add(p)
                    changed = True
    if gone:
        _drop(func, gone)
        substitute(func, mapping)
    return mapping


def _columns(block: Block, edges: list[Edge]) -> Iterable[tuple[Value, tuple[Value, ...]]]:
    """The parameters of a block, each with its arguments on all edges, without those that are results of a call."""
    params = block.params
    if not params or not edges:
        return ()
    columns = [e.args for e in edges]
    least = min(map(len, columns))                       # the first parameters are results of a call
    if least < len(params):
        params, columns = params[len(params) - least:], [args[len(args) - least:] for args in columns]
    return zip(params, zip(*columns))


def _only_argument(param: Value, args: tuple[Value, ...], mapping: Mapping) -> Value | None:
    only: Value | None = None
    for given in args:
        arg = resolve(mapping, given) if given in mapping else given
        if arg is param or arg is only:
            continue
        if only is None:
            only = arg
        elif arg.owner.name != "const" or not same(arg, only):       # most are no constants, and a call is slow
            return None
    return only if only is not None and only.type == param.type else None


def _constant_here(value: Value, block: Block) -> Value:
    op = Op("const", (), [value.type], {"value": value.const, "type": value.type})
    op.block = block
    block.ops.insert(0, op)
    return op.result


def _may_replace(value: Value, block: Block, forest: LoopForest) -> bool:
    loop = forest.loop_of(value.block)
    return loop is None or block in loop.blocks


def _drop(func: Function, gone: set[Value]) -> None:
    for b in func.blocks:
        assert b.term is not None
        for e in b.term.edges:
            e.args = [a for p, a in e.passed() if p not in gone]
    for b in func.blocks[1:]:
        if any(p in gone for p in b.params):
            b.params = [p for p in b.params if p not in gone]
            for i, p in enumerate(b.params):
                p.index = i
