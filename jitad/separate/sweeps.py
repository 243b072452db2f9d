"""The two sweeps of a separate function that is not recursive: the reverse sweep computes the primal values again.

The caller's forward sweep ends before its reverse sweep begins, so that a separate function would have to save on a
stack what a program in one piece recomputes with each iteration of its loops.  Both sweeps run in the reverse sweep::

    f.fwd(x) → f(x), an empty stack               f.bwd(x, y_bar, x_acc, stack) → x_bar of f.vjp(x, y_bar), + x_acc

ADBench's mixture takes 4.8 times as long with saved values as in one piece, and 1.4 times with this.  Without loops
there is little to save, and with recursion nothing is gained; such functions have the usual sweeps.
"""

from __future__ import annotations

from ..ir.builder import Builder
from ..ir.graph import Function, Module
from ..ir.signature import signature
from ..passes.analysis.loops import loop_forest


def recompute(module: Module, base: str, wrt: tuple[int, ...]) -> None:
    """Add ``base.fwd`` and ``base.bwd``; differentiation then does not make them."""
    _forward(module, module.functions[base], module.derive(base, "fwd", wrt))
    _backward(module, module.functions[base], module.derive(base, "bwd", wrt), wrt)


def has_loops(module: Module) -> bool:
    return any(loop_forest(func).loops for func in module.functions.values())


def _begun(module: Module, base: Function, name: str) -> tuple[Function, Builder]:
    known = signature(module, name)
    assert known is not None
    func = Function(name, known.params, known.results)
    func.own, func.loc = set(known.own), base.loc
    return func, Builder(func.entry, base.loc)


def _forward(module: Module, base: Function, name: str) -> None:
    func, b = _begun(module, base, name)
    kept, consumed = b.stack_empty(), [func.params[i] for i in sorted(base.own)]
    if consumed:
        kept = b.push(kept, *consumed)                       # the function overwrites them
    b.ret([*b.call_then(base.name, func.params, base.result_types), kept])
    module.add(func)


def _backward(module: Module, base: Function, name: str, wrt: tuple[int, ...]) -> None:
    func, b = _begun(module, base, name)
    known = signature(module, base.name)
    assert known is not None
    own, count = sorted(base.own), len(base.params) - len(base.own)
    accumulated = known.accumulated(wrt)
    primals, rest = iter(func.params[:count]), func.params[count:-1]
    seeds, accumulators = rest[:len(rest) - len(accumulated)], iter(rest[len(rest) - len(accumulated):])
    consumed = iter(b.pop(func.params[-1], [base.params[i].type for i in own])[1] if own else [])
    params = [next(consumed if i in base.own else primals) for i in range(len(base.params))]
    vjp = module.derive(base.name, "vjp", wrt)
    found = signature(module, vjp)
    assert found is not None
    bars = b.call_then(vjp, [*params, *seeds], found.results)[len(base.result_types):]
    ends = []
    for i, bar in zip(wrt, bars):
        total = b.emit("add", next(accumulators), bar, acc=True) if i in accumulated else bar
        ends.append(b.typed(total, bar.type))
    b.ret(ends)
    module.add(func)
