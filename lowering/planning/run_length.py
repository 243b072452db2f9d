"""How long a compiled function may run, told from its code: whether it is worth letting the GIL go.

``short``: no loop, no recursion, no array operation.  ``long``: loops whose length nobody knows beforehand,
recursion, or a constant amount of work that is large.  ``sizes``: what there is to do grows with the arrays and
integers passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir.graph import Function, Module
from ...ir.types import Array
from ...passes.analysis.loops import counted, loop_forest

LARGE = 1000                 # iterations or elements


def reachable(module: Module, root: str) -> list[Function]:
    """The function ``root`` and all that it may call."""
    found: dict[str, Function] = {}
    todo = [root]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = module.functions[name]
            todo += callees(found[name])
    return list(found.values())


def callees(func: Function) -> Iterator[str]:
    for block in func.blocks:
        if block.term is not None and block.term.name == "call":
            yield block.term.attrs["callee"]


def recursive(module: Module, root: str) -> bool:
    """Whether ``root`` can reach a function that can reach itself."""
    functions = reachable(module, root)
    done: set[str] = set()
    while True:                                  # take away what calls nothing but what is taken away
        ready = [f.name for f in functions if f.name not in done and all(c in done for c in callees(f))]
        if not ready:
            return len(done) < len(functions)
        done.update(ready)


def effort(module: Module, root: str) -> str:
    """``"short"``, ``"sizes"`` or ``"long"``."""
    if recursive(module, root):
        return "long"
    found = {of_function(f) for f in reachable(module, root)}
    return "long" if "long" in found else "sizes" if "sizes" in found else "short"


def of_function(func: Function) -> str:
    """The same of one function, whatever it calls."""
    found = "short"
    for loop in loop_forest(func).loops:
        known = counted(loop)
        if known is None or (known.trip.const or 0) >= LARGE:
            return "long"
        found = "sizes"
    for v in func.defined():
        if isinstance(v.type, Array):
            found = "sizes"
            if None not in v.type.dims and math.prod(d or 0 for d in v.type.dims) >= LARGE:
                return "long"
    return found
