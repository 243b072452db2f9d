"""Removes what nothing needs: ops, block parameters with their arguments (cycles through loops too), loops that
compute nothing, and functions that no root reaches.

What is needed: operands of ops with an effect and of terminators, and of what defines a needed value.  An edge
argument is needed when its parameter is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...ir.builder import Builder
from ...ir.graph import Block, Edge, Function, Module, Value
from ...ir.ops import EFFECTS
from ..analysis.cfg import merge_chains, remove_unreachable
from ..analysis.loops import Loop, counted, loop_forest


def dce(module: Module, roots: Iterable[str] | None = None) -> None:
    """Clean every function; with ``roots`` also drop the functions that these do not reach."""
    if roots is not None:
        drop_unreached(module, roots)
    for func in module.functions.values():
        sweep(func)


def sweep(func: Function) -> None:
    """Clean one function."""
    _drop_unneeded(func, _needed(func))
    while _drop_idle_loops(func):
        _drop_unneeded(func, _needed(func))


def _needed(func: Function, idle: Collection[Block] = (), roots: Iterable[Value] = ()) -> set[Value]:
    """``idle``: blocks that end in a call that needs no operands of itself."""
    sources: dict[Value, list[Value]] = {}               # parameter → what edges pass for it
    todo: list[Value] = list(roots)
    results = _call_results(func)
    for b in func.blocks:
        todo += [v for op in b.ops if op.name in EFFECTS for v in op.operands]
        assert b.term is not None
        todo += b.term.operands if b not in idle else ()
        for edge in b.term.edges:
            for param, arg in edge.passed():
                sources.setdefault(param, []).append(arg)
                if param.index < results.get(edge.block, 0):     # it stands for a call's result, and stays
                    todo.append(arg)
    needed: set[Value] = set()
    while todo:
        v = todo.pop()
        if v in needed:
            continue
        needed.add(v)
        todo += v.op.operands if v.op is not None else sources.get(v, ())
    return needed


def drop_idle_calls(func: Function) -> None:
    """Clean a function, and drop calls whose results nothing needs: for where they are known to come to an end."""
    calls = {b: b.term for b in func.blocks if b.term is not None and b.term.name == "call"}
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
        if b is not func.entry and any(p not in needed for p in b.params):
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
    """How many parameters of the continuations of calls are results."""
    found: dict[Block, int] = {}
    for b in func.blocks:
        if b.term is not None and b.term.name == "call":
            edge = b.term.edges[0]
            found[edge.block] = edge.offset
    return found


# --- loops that compute nothing -------------------------------------------------------------------

def _drop_idle_loops(func: Function) -> bool:
    """Go past counted loops that have no effect and give nothing on; whether there were any."""
    forest = loop_forest(func)
    if not forest.loops:
        return False
    ends = {loop for loop in forest.loops if counted(loop)}
    read = forest.open_loops() if ends else set()
    gone: set[Block] = set()
    for loop in reversed(forest.loops):                  # outer ones first: they take the inner ones along
        if loop.head not in gone and loop not in read and _ends(loop, ends) and not _matters(loop):
            assert loop.preheader is not None and loop.preheader.term is not None
            edge = loop.exit_edge()
            loop.preheader.term.edges = [Edge(edge.block, edge.args)]
            gone |= loop.blocks
    if gone:
        remove_unreachable(func)
        merge_chains(func)
    return bool(gone)


def _ends(loop: Loop, ends: set[Loop]) -> bool:
    """Whether the loop and all in it are counted, so that it ends."""
    todo = [loop]
    while todo:
        if todo[-1] not in ends:
            return False
        todo += todo.pop().children
    return True


def _matters(loop: Loop) -> bool:
    """Whether the loop has an effect, leaves from elsewhere, or passes on what it computes."""
    if loop.exit is None or any(a.block in loop.blocks for a in loop.exit_edge().args):
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
    """Drop functions that no root calls, derivatives still to be made standing for what they are made from."""
    reached: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        if name in module.functions:
            todo += (op.attrs["callee"] for op in module.functions[name].all_ops() if op.name == "call")
        elif name in module.derived:
            todo.append(module.derived[name].base)
        todo += module.rules[name].functions if name in module.rules else ()
    module.functions = {n: f for n, f in module.functions.items() if n in reached}
    module.derived = {n: d for n, d in module.derived.items() if n in reached}
    module.rules = {n: r for n, r in module.rules.items() if n in reached}
