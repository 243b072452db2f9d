"""Differentiation: ``derivatives`` (the table), ``forward``, ``reverse``, ``frames``.

``differentiate`` makes every function that ``Module.derived`` names, innermost derivatives first.  Kinds
(``ir.graph.Derived``):

* ``vjp``: (params…, result cotangents…) → (results…, cotangents of ``wrt``…), both sweeps in one function;
* ``fwd``: (params…) → (results…, stack), and ``bwd``: (params neither ``own`` nor stacks…, result cotangents…, one
  accumulator for each array of ``wrt`` that is not ``own``…, stack) → (cotangents of ``wrt``…), for functions that
  are called: compiled once for all callers; ``keep``: ``fwd`` for a caller that already has the results and needs
  only the stack;
* ``jvp``: (params…, tangents…) → (results…, tangents of the float results…).

A function with a rule (``ir.graph.Rule``) is differentiated by its rule (``rules.py``).
"""

from __future__ import annotations

from ..cps import normalise
from ..ir.builder import Builder
from ..ir.clone import clone_function
from ..ir.graph import Derived, ExcInfo, Function, Module
from ..ir.signature import signature
from ..ir.types import STACK, Stack
from ..passes.cleanup.cse import number_values
from ..passes.cleanup.dce import drop_idle_calls
from ..passes.cleanup.inline import inline, splice
from ..passes.cleanup.simplify import simplify_function
from .checkpoint import checkpoint_loops
from .forward import jvp
from .pullbacks import arguments_alone
from .reverse import ThereAndBack
from .rules import by_rule
from .storage import late_cotangents
from .storage.frames import Frames
from .storage.late_results import values_at_end

# Highest order of derivative of a function that is defined through its own derivative.
HIGHEST = 4


def differentiate(module: Module) -> None:
    """Make every function in ``module.derived`` until none is missing, but the derivatives of external functions."""
    arguments_alone(module)
    made: set[str] | None = None
    while todo := module.underived():
        if made is not None:
            _tidy(module, made)
        before = set(module.functions)
        ready = [n for n in todo if not _waits(module, module.derived[n].base)]
        cut = checkpoint_loops(module, ready)
        for name in ready or _through_one_another(module, todo):
            if name not in module.functions:
                _make(module, name, module.derived[name])
        made = cut | (module.functions.keys() - before) if made is not None else set(module.functions)
    module.rules.clear()
    _drop_marks(module)


def _drop_marks(module: Module) -> None:
    """Drop the marks of speculation, which only differentiation reads."""
    for func in module.functions.values():
        for op in func.all_ops():
            if "speculated" in op.attrs:
                op.attrs = {k: v for k, v in op.attrs.items() if k != "speculated"}


def _through_one_another(module: Module, todo: list[str]) -> list[str]:
    """The next derivative to make of a function that is defined through its own derivative.

    Such a function has derivatives of every order, each defined through the next.  They are made up to ``HIGHEST``.
    The derivative of the next order raises.
    """
    there = [n for n in todo if module.derived[n].base in module.functions]
    for name in there:
        if _order(module, name) > HIGHEST:
            module.add(_too_high(module, name))
    left = sorted((n for n in there if n not in module.functions), key=lambda n: _order(module, n))
    return left[:1]


def _order(module: Module, name: str) -> int:
    order = 0
    while name in module.derived:
        name, order = module.derived[name].base, order + 1
    return order


def _too_high(module: Module, name: str) -> Function:
    known = signature(module, name)
    assert known is not None
    func = Function(name, known.params, known.results)
    func.own = set(known.own)
    message = f"a function defined through its own derivative is differentiated more than {HIGHEST} times"
    Builder(func.entry).raise_(module.exception(ExcInfo("RecursionError", message, func.loc)))
    return func


def _tidy(module: Module, made: set[str]) -> None:
    """Simplify between derivatives of derivatives: small calls are inlined, so that their values need no stack.

    Functions that were not ``made`` since the last time are skipped unless a call was inlined there.
    """
    untidy = made | inline(module)
    for func in [f for name, f in module.functions.items() if name in untidy]:
        simplify_function(func)
        number_values(func)
        normalise(func)


def _waits(module: Module, base: str) -> bool:
    """True if ``base``, or a function that it calls directly or not, has yet to be made."""
    seen, todo = {base}, [base]
    while todo:
        name = todo.pop()
        func = module.functions.get(name)
        if func is None and module.is_external(name):
            continue
        if func is None:
            return True
        for block in func.blocks:
            callee = block.term.attrs["callee"] if block.term is not None and block.term.name == "call" else None
            if callee is not None and callee not in seen:
                seen.add(callee)
                todo.append(callee)
    return False


def _make(module: Module, name: str, what: Derived) -> None:
    base = module.functions[what.base]
    if what.base in module.rules and what.kind != "keep":
        module.add(by_rule(module, base, name, what))
    elif what.kind == "keep":
        module.add(_keep(module, name, what))
    elif what.kind == "jvp":
        module.add(jvp(module, base, name, what.wrt))
    elif what.kind == "vjp":
        module.add(_vjp(module, base, name, what.wrt))
    elif what.kind in ("fwd", "bwd"):
        forward = module.derive(what.base, "fwd", what.wrt)
        backward = module.derive(what.base, "bwd", what.wrt)
        for func in _pair(module, base, forward, backward, what.wrt):
            module.add(func)
    else:
        raise ValueError(what.kind)


def _results_read(module: Module, name: str) -> bool:
    """True if a caller reads the primal results of a ``vjp``, or if there is no caller (it may be an entry)."""
    count = len(module.functions[module.derived[name].base].result_types)
    calls = [op for f in module.functions.values() for op in f.all_ops()
             if op.name == "call" and op.attrs["callee"] == name]
    results = {p for op in calls for p in op.edges[0].block.params[:count]}
    return not results or any(v in results for f in module.functions.values() for op in f.all_ops() for v in op.used())


def _vjp(module: Module, base: Function, name: str, wrt: tuple[int, ...]) -> Function:
    """Both sweeps in one function.  If no caller reads the primal results, they are not computed."""
    results = _results_read(module, name)
    sweep = ThereAndBack(module, base, name, wrt, accumulate=False)
    func = sweep.func
    func.result_types = [*base.result_types, *(base.params[i].type for i in wrt)]
    cotangents = [func.entry.add_param(s.type, "ct") for s in sweep.seeds]
    if sweep.pivot is None:
        func.blocks = [b for b in func.blocks if b is not sweep.first_bar]
        return func
    frames = Frames(sweep, split=False, results=results)
    b = sweep.b = Builder(sweep.last_bar)
    at_end = values_at_end(sweep, frames.left, b)
    values = [*map(at_end, sweep.results)] if results else [b.undef(t) for t in base.result_types]
    late_cotangents.place(sweep, at_end, sweep.last_bar)
    b.ret([*values, *(b.typed(g, func.params[i].type) for i, g in zip(wrt, sweep.cotangents))])
    frames.place()
    frames.stay_at_top()
    frames.rewrite()
    frames.forwards()
    frames.skip_idle()
    sweep.pivot.term = None
    Builder(sweep.pivot).jump(sweep.first_bar, cotangents)
    return func


def _pair(module: Module, base: Function, forward: str, backward: str,
          wrt: tuple[int, ...]) -> tuple[Function, Function]:
    """The two sweeps as two functions; the stack passes the values that both need."""
    sweep = ThereAndBack(module, base, forward, wrt, accumulate=True)
    first, frames = sweep.func, Frames(sweep, split=True)
    primals = [p for p in first.params if p.index not in base.own and not isinstance(p.type, Stack)]
    second = Function(backward, [*(p.type for p in primals), *(s.type for s in sweep.seeds),
                                 *(a.type for a in sweep.accumulators), STACK],
                      [base.params[i].type for i in wrt], [p.hint for p in primals])
    second.loc, second.attrs = base.loc, dict(base.attrs)
    first_acc = len(primals) + len(sweep.seeds)
    second.own = set(range(first_acc, first_acc + len(sweep.accumulators)))
    first.result_types = [*base.result_types, STACK]
    entry = Builder(second.entry)
    if sweep.pivot is None:
        entry.ret([entry.undef(t) for t in second.result_types])     # the forward sweep never returns
        first.blocks = [b for b in first.blocks if b is not sweep.first_bar]
        return first, second
    frames.homes |= dict(zip(primals, second.params))
    frames.place()
    tape = frames.keep_at_top(second.params[-1], entry)
    b = Builder(sweep.last_bar)
    sweep.b = b
    b.ret([b.typed(g, t) for g, t in zip(sweep.cotangents, second.result_types)])
    frames.rewrite()
    frames.forwards()
    frames.skip_idle()
    sweep.pivot.term = None
    Builder(sweep.pivot).ret([*sweep.results, tape])
    entry.jump(sweep.first_bar, second.params[len(primals):-1])
    bars = dict.fromkeys(frames.bars)
    first.blocks = [b for b in first.blocks if b not in bars]
    for block in bars:
        block.func = second
    second.blocks += bars
    return first, second


def _keep(module: Module, name: str, what: Derived) -> Function:
    """``fwd`` run a second time with the same arguments, for its stack only.

    Computations, calls included, that only the results need are dropped, and so are checks, which held the first time.
    """
    func, _ = clone_function(_made(module, module.derive(what.base, "fwd", what.wrt)), name)
    for block in list(func.blocks):
        callee = block.term.attrs["callee"] if block.term is not None and block.term.name == "call" else ""
        if callee in module.derived and module.derived[callee].base in module.rules:
            splice(block, _made(module, callee))             # shows that the stack of a checkpoint is empty
    for block in func.blocks:
        block.ops = [op for op in block.ops if op.name != "check"]
        if block.term is not None and block.term.name == "return":
            block.term.operands = block.term.operands[-1:]
    func.result_types = func.result_types[-1:]
    drop_idle_calls(func)
    return func


def _made(module: Module, name: str) -> Function:
    if name not in module.functions:
        _make(module, name, module.derived[name])
    return module.functions[name]
