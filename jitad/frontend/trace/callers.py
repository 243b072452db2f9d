"""The user's calls that lead to an exception in compiled code.

Compiled code has no call stack to inspect: an IR function has several callers, or is inlined into its caller.  If there
is only one call path from the root to a function, it is known while compiling, and the function's exceptions show it.
If there are several, only their common part, after the last fork, is certain and shown.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import NOWHERE, PACKAGE, Loc
from ...ir.graph import Module

Sites = dict[str, set[tuple[str, Loc]]]


def note_calls(module: Module, root: str) -> None:
    """Records in the exceptions of a traced module the calls that lead to them (``ExcInfo.calls``)."""
    if len(module.functions) == 1:
        return
    sites, known = _sites(module), dict[str, tuple[Loc, ...]]({root: ()})
    for name, func in module.functions.items():
        calls = _way(module, name, sites, known)
        for op in func.all_ops() if calls else ():
            if (number := op.attrs.get("exc")) is not None:
                module.exceptions[number] = replace(module.exceptions[number], calls=calls)


def _sites(module: Module) -> Sites:
    """The callers of each function with their locations; calls of a derivative count as calls of its base."""
    sites: Sites = {name: set() for name in module.functions}
    for name, func in module.functions.items():
        for block in func.blocks:
            if block.term is not None and block.term.name == "call":
                sites[_written(module, block.term.attrs["callee"])].add((name, block.term.loc))
    for name, rule in module.rules.items():
        for called in rule.functions:
            sites[called].add((name, NOWHERE))
    return sites


def _written(module: Module, name: str) -> str:
    while name in module.derived:
        name = module.derived[name].base
    return name


def _way(module: Module, name: str, sites: Sites, known: dict[str, tuple[Loc, ...]]) -> tuple[Loc, ...]:
    """The calls that lead to a function, outermost first."""
    below: list[tuple[str, Loc]] = []
    while name not in known:
        known[name] = ()                                     # ends the search at a recursive function
        if len(sites[name]) != 1:
            break
        (site,) = sites[name]
        below.append((name, site[1]))
        name = site[0]
    calls = known[name]
    for name, loc in reversed(below):
        users = loc.line and not loc.file.startswith(PACKAGE) and loc != module.functions[name].loc
        calls = known[name] = (*calls, loc) if users else calls
    return calls
