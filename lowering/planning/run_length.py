"""Estimates from a function's code how long it may run, which decides whether its entry releases the GIL.

``short``: no loop, no recursion, no array operation but reads of single elements.  ``long``: a loop of unknown trip
count, recursion, or a large constant amount of work.  ``sizes``: the work grows with the sizes of the arrays and the
integers passed.
"""

from __future__ import annotations

import math

from ...ir.graph import External, Function, Module
from ...ir.types import Array
from ...passes.analysis.loops import counted, loop_forest

LARGE = 1000                 # iterations or elements
FEW = 200                    # ops
IMMEDIATE = {"get", "dim"}   # ops on arrays that take no longer for large ones


def reachable(module: Module, root: str) -> list[Function]:
    """``root`` and all functions of the module that it may call, directly or not."""
    found: dict[str, Function] = {}
    todo = [root]
    while todo:
        name = todo.pop()
        if name not in found and name in module.functions:
            found[name] = module.functions[name]
            todo += found[name].callees()
    return list(found.values())


def external(module: Module, root: str) -> list[External]:
    """The functions of other modules that ``root`` may call."""
    return [module.external[name] for func in reachable(module, root) for name in func.callees()
            if name in module.external]


def recursive(module: Module, root: str) -> bool:
    """True if ``root`` can reach a function that can reach itself."""
    functions = reachable(module, root)
    if any(e.recursive for e in external(module, root)):
        return True
    done: set[str] = {c for f in functions for c in f.callees() if c in module.external}
    count = len(done)
    while True:                                  # repeatedly remove functions whose callees are all removed
        ready = [f.name for f in functions if f.name not in done and all(c in done for c in f.callees())]
        if not ready:
            return len(done) - count < len(functions)
        done.update(ready)


def effort(module: Module, root: str) -> str:
    """The estimate for ``root`` and its callees: ``"short"``, ``"sizes"`` or ``"long"``.

    Functions are large that are compiled separately.
    """
    if recursive(module, root) or external(module, root):
        return "long"
    found = {of_function(f) for f in reachable(module, root)}
    return "long" if "long" in found else "sizes" if "sizes" in found else "short"


def is_brief(module: Module, root: str) -> bool:
    """True if a call is over after a few ops: its entry should not do what takes as long as some of them."""
    ops = sum(len(block.ops) for func in reachable(module, root) for block in func.blocks)
    return ops < FEW and effort(module, root) == "short"


def of_function(func: Function) -> str:
    """The estimate for one function, without its callees."""
    found = "short"
    for loop in loop_forest(func).loops:
        known = counted(loop)
        if known is None or (known.trip.const or 0) >= LARGE:
            return "long"
        found = "sizes"
    passed = set(func.blocks[0].params)
    if any(isinstance(t, Array) for t in func.result_types) or any(
            isinstance(v.type, Array) for block in func.blocks for op in block.ops if op.name not in IMMEDIATE
            for v in op.operands):
        found = "sizes"
    for v in func.defined():
        if isinstance(v.type, Array) and v not in passed:
            found = "sizes"
            if None not in v.type.dims and math.prod(d or 0 for d in v.type.dims) >= LARGE:
                return "long"
    return found
