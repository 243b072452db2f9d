"""By which calls of the user's compiled code comes to what it raises.

Compiled code keeps no table of calls: a function of the IR is called from several places, or is part of its caller.
Where there is but one way from the root to a function it is known while compiling, and what the function raises
shows it.  Of several ways only what they have in common behind the last fork is certain, and shown.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import NOWHERE, PACKAGE, Loc
from ...ir.graph import Module

Sites = dict[str, set[tuple[str, Loc]]]


def note_calls(module: Module, root: str) -> None:
    """Enter in the exceptions of a traced module how they are come to (``ExcInfo.calls``)."""
    if len(module.functions) == 1:
        return
    sites, known = _sites(module), dict[str, tuple[Loc, ...]]({root: ()})
    for name, func in module.functions.items():
        calls = _way(module, name, sites, known)
        for op in func.all_ops() if calls else ():
            if (number := op.attrs.get("exc")) is not None:
                module.exceptions[number] = replace(module.exceptions[number], calls=calls)


def _sites(module: Module) -> Sites:
    """Of each function the functions that call it, and where; a derivative's calls are those of what it is of."""
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
    """The calls that lead to a function, the outermost first."""
    below: list[tuple[str, Loc]] = []
    while name not in known:
        known[name] = ()                                     # of one that calls itself
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

