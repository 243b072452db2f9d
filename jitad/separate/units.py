"""Compiles the functions that were taken out of programs, and links the programs to them.

A *unit* is the machine code of one part for the calls that a program makes of it: of the function itself, of its two
sweeps for given active parameters, of a derivative of these.  The sweeps of one kind of differentiation are one unit,
since they agree on the frames of the stack.  A unit is kept with the user's function, by the part's text and the
options, so that other programs find it.

For each function that is called from outside, a unit has an *export* that calls it.  Exports have the signature that
callers know, and passes may change the function behind one.

The exceptions of a unit follow those of the program: a status n of a unit is the status ``exceptions + n`` there.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import Any

from .. import pipeline
from ..ir.builder import Builder
from ..ir.clone import clone_function
from ..ir.graph import ExcInfo, Function, Module
from ..ir.signature import signature
from ..ir.types import Type
from ..lowering.function.module import ModuleLowering
from ..lowering.jit import cpu
from ..lowering.llvm.emit import global_name, symbol
from ..lowering.math.options import Options
from ..lowering.python.exceptions import Failures
from .extract import PAIRED, Part, extract
from .store import Shared
from .sweeps import has_loops, recompute

Chain = tuple[tuple[str, tuple[int, ...]], ...]      # the derivatives that lead from a function to the one called

MOST = 64
"""Units kept for one function.  Constants that callers pass make new ones; the oldest is dropped."""


@dataclass
class Unit:
    """Machine code of a part: ``symbols`` by the derivatives, and the exceptions with the types of their operands."""

    symbols: dict[Chain, str]
    native: cpu.Native
    exceptions: list[ExcInfo]
    operands: dict[int, list[Type]]


def shared_of(owner: Any) -> Shared:
    """The units of this compiled function, which its dispatcher holds."""
    handle = owner._self                             # see ``handle.dispatcher``
    found: Shared = (handle.dispatcher or handle.wake()).shared
    return found


def link(module: Module, parts: dict[str, Part], options: Options) -> dict[int, list[Type]]:
    """Compile what the module calls of its parts, unless other programs have, and declare it in the module.

    ``module`` has been through the pipeline.  Returns the types of the operands of the exceptions that it adds.
    """
    operands: dict[int, list[Type]] = {}
    for name, part in parts.items():
        for group in _groups(module, name):
            unit = _unit(part, tuple(sorted(group)), options)
            first = len(module.exceptions)
            known = len(part.exceptions)
            module.exceptions += [*part.exceptions, *unit.exceptions[known:]]
            operands |= {first + number: types for number, types in unit.operands.items()}
            for chain, called in group.items():
                known_types = signature(module, called)
                assert known_types is not None
                module.external[called] = replace(
                    module.external[name], params=known_types.params, results=known_types.results,
                    own=known_types.own, symbol=unit.symbols[chain], exceptions=first, code=unit.native)
    return operands


def _groups(module: Module, name: str) -> list[dict[Chain, str]]:
    """The derivatives of an external function that the module calls; each group is compiled as one unit."""
    called = {name for f in module.functions.values() for name in f.callees()}
    groups: dict[Any, dict[Chain, str]] = {}
    for callee in sorted(called - module.functions.keys()):
        base: str = callee
        chain: Chain = ()
        while base != name and base in module.derived:
            what = module.derived[base]
            base, chain = what.base, ((what.kind, what.wrt), *chain)
        if base == name:
            kind = chain[0] if chain else ("primal", ())
            group = ("reverse", kind[1]) if kind[0] in PAIRED else kind
            groups.setdefault(group, {})[chain] = callee
    return [groups[g] for g in sorted(groups)]


def _unit(part: Part, chains: tuple[Chain, ...], options: Options) -> Unit:
    """The unit for these calls.  Only one thread compiles at a time (``calling.compiled.lock``)."""
    store = shared_of(part.owner)
    key = (part.text, chains, options)
    if key not in store.units:
        start = time.perf_counter()
        if len(store.units) >= MOST:
            del store.units[next(iter(store.units))]         # programs that are linked to it keep it
        store.units[key] = _compiled(part, chains, options)
        store.compilations += 1
        store.seconds += time.perf_counter() - start
    found: Unit = store.units[key]
    return found


def _compiled(part: Part, chains: tuple[Chain, ...], options: Options) -> Unit:
    module = _copy(part.module)
    if not part.recursive and has_loops(module):
        for wrt in {chain[0][1] for chain in chains if chain and chain[0][0] in PAIRED}:
            recompute(module, part.root, wrt)
    stem = hashlib.sha256(repr((part.text, chains, options)).encode()).hexdigest()[:20]
    exports = {chain: _export(module, part.root, chain, f"export{i}") for i, chain in enumerate(chains)}
    roots = list(exports.values())
    inner = extract(module, [*roots, part.root], part.shared, part.owner.py_func)
    pipeline.run(module, roots)
    operands = link(module, inner, options)
    failures = Failures(module)
    symbols = {chain: f"jitad.{stem}.{i}" for i, chain in enumerate(chains)}

    def extend(lowering: ModuleLowering) -> list[str]:
        for chain, name in exports.items():
            lowering.writer.global_(symbols[chain], f"alias i8, ptr {global_name(symbol(name))}")
        return list(symbols.values())
    native = cpu.compile_module(module, roots, options, extend, portable=True)
    return Unit(symbols, native, [*module.exceptions, *module.shortages], failures.operands | operands)


def _copy(module: Module) -> Module:
    new = Module()
    new.parallel, new.fastmath = module.parallel, module.fastmath
    new.fast_gathers, new.fast_roots = module.fast_gathers, module.fast_roots
    new.exceptions, new.derived = list(module.exceptions), dict(module.derived)
    for name, func in module.functions.items():
        new.add(clone_function(func, name)[0])
    return new


def _export(module: Module, base: str, chain: Chain, name: str) -> str:
    """Add a function that calls a derivative of ``base``."""
    target = base
    for kind, wrt in chain:
        target = module.derive(target, kind, wrt)
    known = signature(module, target)
    assert known is not None
    func = module.add(Function(name, known.params, known.results))
    func.own, func.attrs["exported"] = set(known.own), True
    func.loc = module.functions[base].loc
    b = Builder(func.entry, func.loc)
    b.ret(b.call_then(target, func.params, known.results))
    return name


