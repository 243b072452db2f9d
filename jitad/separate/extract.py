"""Takes functions out of a traced module, to be compiled separately.

::

    func @p(%x) { … call @f(%x) … }             external @f(f64) -> (f64)
    func @f(%x) { … call @g(%x) … }     →       func @p(%x) { … call @f(%x) … }          and a ``Part`` of @f, @g
    func @g(%x) { … }

This happens right after tracing, before any pass: passes specialise functions for their callers, and a part must not
depend on its callers.  All that callers know of it is its signature.  Captured numbers are parameters already, and the
program that calls it has the guards.

A part is identified by the text of its functions, in which names and exceptions are numbered anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..ir.clone import clone_function
from ..ir.dominance import strongly_connected
from ..ir.graph import Block, Derived, ExcInfo, External, Function, Module
from ..ir.text import print_module
from ..ir.types import Stack
from ..passes.analysis.loops import loop_forest
from ..passes.cleanup.dce import drop_unreached

LARGE = 4000
"""A function of at least this many ops, with those that it calls, is compiled separately in any case.

The inliner leaves such a function apart too (``inline.LARGEST_CALLER``).  Smaller ones lose by it: the gradient of
ADBench's mixture takes 1.39 times as long as in one piece (``sweeps``).  Recursive functions do not (0.96 to 0.99, a
tree of 65,536 nodes), unless they have products of matrices: those of a TreeLSTM are batched and summed across the
calls of the whole program, and it takes 1.45 times as long.
"""
PAIRED = ("fwd", "bwd", "keep")
"""The kinds of derivatives that pass a stack from one to the other."""


@dataclass
class Part:
    """Functions that were taken out: ``module``, with the function ``root`` that others call.

    ``exceptions``: their exceptions as the caller has them, whose call paths differ between callers.  ``owner``: the
    user's compiled function.  ``shared``: such functions inside, by name.
    """

    root: str
    module: Module
    exceptions: list[ExcInfo]
    owner: Any
    recursive: bool
    shared: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def text(self) -> str:
        """The text that identifies the part."""
        return print_module(self.module, locations=True)


def extract(module: Module, roots: list[str], shared: Mapping[str, Any], within: Any) -> dict[str, Part]:
    """Take large and recursive functions out of a module, and declare them external; returns them by name.

    ``shared``: the candidates, with the user's compiled functions, whose option ``separate`` decides if it is not None.
    Those that reach the function ``within`` itself, which is being compiled, stay.
    """
    found: dict[str, Part] = {}
    if not shared:
        return found
    rules = {name for rule in module.rules.values() for name in rule.functions} | module.rules.keys()
    for name in _outermost(module, roots, shared):
        inside = closure(module, name)
        if not inside or not rules.isdisjoint(inside) or not inside.keys().isdisjoint(roots):
            continue
        if _has_pullbacks(module, inside):
            continue
        if any(getattr(shared.get(n), "py_func", None) is within for n in inside):
            continue
        graph = {n: [c for c in callees(module, n) if c in inside] for n in inside}
        recursive = any(len(group) > 1 or group[0] in graph[group[0]] for group in strongly_connected(graph, graph))
        if not _wanted(module, name, inside, recursive, shared[name]):
            continue
        part = _copied(module, name, shared, recursive)
        if " opaque " in part.text:                          # objects without text do not identify it
            continue
        func = module.functions.pop(name)
        module.external[name] = External(tuple(func.param_types), tuple(func.result_types), frozenset(func.own),
                                         recursive)
        found[name] = part
    if found:
        drop_unreached(module, roots)
        found = {name: part for name, part in found.items() if name in module.external}
    return found


def _wanted(module: Module, name: str, inside: Mapping[str, None], recursive: bool, owner: Any) -> bool:
    """True if a function is to be compiled separately: by its option, else if nothing much is lost by it."""
    wish = owner._self.options.get("separate")
    if wish is not None:
        return bool(wish)
    if recursive and not any(op.name == "matmul" for n in inside for op in module.functions[n].all_ops()):
        return True
    return _size(module, inside) >= LARGE and (recursive or not _called_in_loop(module, name))


def _outermost(module: Module, roots: list[str], shared: Mapping[str, Any]) -> Iterator[str]:
    """The candidates that the roots reach, callers first; not those that only reach through one that was taken out."""
    seen: set[str] = set()
    todo = list(reversed(roots))
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in shared and name in module.functions:
            yield name
        if name in module.functions:
            todo += reversed(callees(module, name))
        elif name in module.derived:
            todo.append(module.derived[name].base)


def callees(module: Module, name: str) -> list[str]:
    """The functions that a function calls; of a derivative still to be made, its base."""
    found = []
    for block in module.functions[name].blocks:
        if block.term is not None and block.term.name == "call":
            callee = block.term.attrs["callee"]
            while callee not in module.functions and callee in module.derived:
                callee = module.derived[callee].base
            found.append(callee)
    return list(dict.fromkeys(found))


def closure(module: Module, name: str) -> dict[str, None]:
    """A function and all that it reaches, in the order in which they are met; none if one is external already."""
    found: dict[str, None] = {}
    todo = [name]
    while todo:
        now = todo.pop()
        if now not in module.functions:
            return {}
        if now not in found:
            found[now] = None
            todo += reversed(callees(module, now))
    return found


def _size(module: Module, names: Mapping[str, None]) -> int:
    return sum(len(b.ops) for n in names for b in module.functions[n].blocks)


def _has_pullbacks(module: Module, names: Mapping[str, None]) -> bool:
    """True if the user's program calls sweeps of these functions itself, or if these have stacks.

    Differentiation may replace such stacks by the arguments, and then changes signatures (``ad/pullbacks.py``).
    """
    for what in module.derived.values():
        base = what.base
        while base in module.derived and base not in module.functions:
            base = module.derived[base].base
        if base in names and what.kind in PAIRED:
            return True
    return any(isinstance(v.type, Stack) for name in names for v in module.functions[name].defined())


def _called_in_loop(module: Module, name: str) -> bool:
    """True if a call of the function, or of a derivative of it, stands in a loop."""
    for func in module.functions.values():
        blocks = [b for b in func.blocks if _calls(module, b, name)]
        if blocks:
            forest = loop_forest(func)
            if any(forest.loop_of(b) is not None for b in blocks):
                return True
    return False


def _calls(module: Module, block: Block, name: str) -> bool:
    callee = block.term.attrs["callee"] if block.term is not None and block.term.name == "call" else None
    while callee is not None and callee not in module.functions and callee in module.derived:
        callee = module.derived[callee].base
    return bool(callee == name)


# --- copies ---------------------------------------------------------------------------------------

def _copied(module: Module, root: str, shared: Mapping[str, Any], recursive: bool) -> Part:
    """The function and what it reaches as a module of their own, with numbers that do not depend on the caller."""
    new = Module()
    new.parallel, new.fastmath = module.parallel, module.fastmath
    new.fast_gathers, new.fast_roots = module.fast_gathers, module.fast_roots
    names = {name: f"f{i}" for i, name in enumerate(closure(module, root))}
    part = Part(names[root], new, [], shared[root], recursive)
    numbers: dict[int, int] = {}
    for old, name in names.items():
        func, _ = clone_function(module.functions[old], name)
        new.add(func)
        if old in shared:
            part.shared[name] = shared[old]
    for func in new.functions.values():
        _renumber(module, part, func, names, numbers)
    return part


def _renumber(module: Module, part: Part, func: Function, names: dict[str, str], numbers: dict[int, int]) -> None:
    for op in func.all_ops():
        if (number := op.attrs.get("exc")) is not None:
            if number not in numbers:
                numbers[number] = part.module.exception(module.exceptions[number])
                part.exceptions.append(module.exceptions[number])
            op.attrs = {**op.attrs, "exc": numbers[number]}
        if op.name == "call":
            op.attrs = {**op.attrs, "callee": _renamed(module, part.module, op.attrs["callee"], names)}


def _renamed(module: Module, new: Module, name: str, names: dict[str, str]) -> str:
    """The new name of a function; a derivative that is still to be made is asked for in the new module."""
    if name in names:
        return names[name]
    what: Derived = module.derived[name]
    return new.derive(_renamed(module, new, what.base, names), what.kind, what.wrt)
