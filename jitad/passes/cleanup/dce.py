"""Dead-code elimination: ops, block parameters with their arguments, loops that compute nothing, unreached functions.

A value is *needed* if it is an operand of an op with an effect, of a terminator, or of the op that defines a needed
value.  An edge argument is needed if its parameter is.  So a parameter that only feeds itself around a loop is dead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import EFFECTS
from ..analysis.cfg import merge_chains, remove_unreachable
from ..analysis.loops import Loop, counted, loop_forest


def dce(module: Module, roots: Iterable[str] | None = None) -> None:
    """Remove dead code from every function; with ``roots``, also drop the functions that these do not reach."""
    if roots is not None:
        drop_unreached(module, roots)
    for func in module.functions.values():
        sweep(func)


def sweep(func: Function) -> None:
    """Remove dead code from one function."""
    _drop_unneeded(func, _needed(func))
    while _drop_idle_loops(func):
        _drop_unneeded(func, _needed(func))


def _needed(func: Function, idle: Collection[Block] = (), roots: Iterable[Value] = ()) -> set[Value]:
    """The needed values.

    ``idle``: blocks whose call does not make its operands needed.  ``roots``: values that are needed in any case.
    """
    sources: dict[Value, list[Value]] = {}               # parameter → its arguments on all edges
    todo: list[Value] = list(roots)
    results = _call_results(func)
    for b in func.blocks:
        for op in b.ops:
            if op.name in EFFECTS:
                todo += op.operands
        assert b.term is not None
        todo += b.term.operands if b not in idle else ()
        for edge in b.term.edges:
            if not edge.args:
                continue
            kept = results.get(edge.block, 0)
            for param, arg in edge.passed():
                if (known := sources.get(param)) is not None:
                    known.append(arg)
                else:
                    sources[param] = [arg]
                if param.index < kept:                           # stands for a call's result, and is not dropped
                    todo.append(arg)
    needed: set[Value] = set()
    while todo:
        v = todo.pop()
        if v in needed:
            continue
        needed.add(v)
        owner = v.owner
        todo += owner.operands if type(owner) is Op else sources.get(v, ())
    return needed


def drop_idle_calls(func: Function) -> None:
    """Remove dead code from a function, and calls with unneeded results.  Only for callees that are known to return."""
    calls = {b: b.call for b in func.blocks if b.call is not None}
    left = dict(calls)
    roots: list[Value] = []
    needed = _needed(func, calls, roots)
    while found := [b for b, call in left.items() if any(r in needed for r in call.edges[0].results)]:
        for b in found:
            roots += left.pop(b).operands
        needed = _needed(func, calls, roots)
    for b, call in left.items():
        edge = call.edges[0]
        b.term = None
        builder = Builder(b, call.loc)
        builder.jump(edge.block, [*(builder.undef(r.type) for r in edge.results), *edge.args])
    merge_chains(func)
    sweep(func)


def _drop_unneeded(func: Function, needed: set[Value]) -> None:
    keep: dict[Block, list[int]] = {}
    results = _call_results(func)
    for b in func.blocks:
        b.ops = [op for op in b.ops if op.name in EFFECTS or not needed.isdisjoint(op.results)]
        if b is not func.entry and not needed.issuperset(b.params):
            keep[b] = [i for i, p in enumerate(b.params) if p in needed or i < results.get(b, 0)]
    for b in func.blocks:
        assert b.term is not None
        for edge in b.term.edges:
            if edge.block in keep:
                offset = edge.offset
                edge.args = [edge.args[i - offset] for i in keep[edge.block] if i >= offset]
    for b, indices in keep.items():
        b.params = [b.params[i] for i in indices]
        for i, p in enumerate(b.params):
            p.index = i


def _call_results(func: Function) -> dict[Block, int]:
    """The number of parameters that stand for results of the call, for each continuation of a call."""
    found: dict[Block, int] = {}
    for b in func.blocks:
        if (call := b.call) is not None:
            edge = call.edges[0]
            found[edge.block] = edge.offset
    return found


# --- loops that compute nothing -------------------------------------------------------------------

def _drop_idle_loops(func: Function) -> bool:
    """Remove counted loops without effects and results; returns True if there were any."""
    forest = loop_forest(func)
    if not forest.loops:
        return False
    idle = [loop for loop in reversed(forest.loops) if not _matters(loop)]
    ends = {loop for loop in forest.loops if counted(loop)} if idle else set()
    idle = [loop for loop in idle if _ends(loop, ends)]
    read = forest.open_loops() if idle else set()
    gone: set[Block] = set()
    for loop in idle:                                    # outer loops first, with the loops in them
        if loop.head not in gone and loop not in read:
            assert loop.preheader is not None and loop.preheader.term is not None
            edge = loop.exit_edge()
            loop.preheader.term.edges = [Edge(edge.block, edge.args)]
            gone |= loop.blocks
    if gone:
        remove_unreachable(func)
        merge_chains(func)
    return bool(gone)


def _ends(loop: Loop, ends: set[Loop]) -> bool:
    """True if the loop and all loops in it are counted, so that it ends."""
    todo = [loop]
    while todo:
        if todo[-1] not in ends:
            return False
        todo += todo.pop().children
    return True


def _matters(loop: Loop) -> bool:
    """True if the loop has an effect, has another exit, or passes a value that it computes to its exit."""
    if loop.exit is None:
        return True
    for a in loop.exit_edge().args:
        if a.block in loop.blocks:
            return True
    for b in loop.blocks:
        assert b.term is not None
        if b.term.name in ("call", "raise", "return") or any(op.name in EFFECTS for op in b.ops):
            return True
        if any(s not in loop.blocks and s is not loop.exit for s in b.successors()):
            return True
    return False


# --- functions ------------------------------------------------------------------------------------

def drop_unreached(module: Module, roots: Iterable[str]) -> None:
    """Drop functions that no root reaches.  A derivative that is not generated yet reaches its base function."""
    reached: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        if name in module.functions:
            todo += module.functions[name].callees()
        elif name in module.derived:
            todo.append(module.derived[name].base)
        todo += module.rules[name].functions if name in module.rules else ()
    module.functions = {n: f for n, f in module.functions.items() if n in reached}
    module.external = {n: e for n, e in module.external.items() if n in reached}
    module.derived = {n: d for n, d in module.derived.items() if n in reached}
    module.rules = {n: r for n, r in module.rules.items() if n in reached}
