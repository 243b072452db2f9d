"""Derivatives of functions that have a rule (``ir.graph.Rule``): each is a function that consists of calls.

For a function ``f(x) -> y`` with ``x_bar``, ``y_bar`` adjoints and ``x_dot``, ``y_dot`` tangents:

=============  ===============================  ===============================================  ===================
kind of rule   ``f.fwd``                        ``f.bwd``                                        ``f.jvp``
=============  ===============================  ===============================================  ===================
vjp            ``forward(x)``, saves residuals  ``backward(x, residuals, y_bar)``                ``rule(x, x_dot)``
jvp            ``rule.fwd(x, 0)``               ``rule.bwd(x, 0, y_bar)``: its transpose         ``rule(x, x_dot)``
checkpoint     ``f(x)``, saves nothing          ``body.keep(x)``, then ``body.bwd(x, y_bar)``    ``body.jvp(x, x_dot)``
=============  ===============================  ===============================================  ===================

A function linear in ``x_dot`` is its own derivative, so the transpose of a jvp rule is its reverse sweep at any
tangent, for example zero (JAX, autodidax: "linearize, then transpose").  Recomputing instead of saving is chapter 12
of Griewank and Walther, *Evaluating Derivatives* (2008).  A vjp rule of two functions has no forward mode.  The
``bwd`` of a checkpoint is never inlined, so that CSE does not merge its recomputation with the first computation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import DifferentiationError
from ..ir.builder import Builder
from ..ir.graph import Derived, Function, Module, Rule, Value
from ..ir.signature import signature
from ..ir.types import Array, Stack, Type, carries_adjoint, is_float


def by_rule(module: Module, base: Function, name: str, what: Derived) -> Function:
    """The derivative ``name`` of ``base`` that ``what`` describes."""
    made = _Made(module, base, module.rules[what.base], name, what)
    _check_wrt(base, made.rule, what.wrt)
    _MAKE[what.kind](made)
    made.func.loc = base.loc
    return made.func


def _check_wrt(base: Function, rule: Rule, wrt: Sequence[int]) -> None:
    if "ends" in base.attrs:
        raise DifferentiationError(
            f"`{base.attrs['py_name']}` is differentiated more than {base.attrs['ends']} times, by rules that call it "
            "with ever new functions", base.loc, "a derivative of a lower order, or a rule that calls another function")
    if not set(wrt) <= set(rule.wrt):
        raise DifferentiationError(
            f"`{base.attrs.get('py_name', base.name)}` has a derivative of its own, which says nothing of a value that "
            "it uses and that is differentiated: one that it captures, or that nondiff_argnums names", base.loc,
            "make it an argument that the rule deals with, or pass stop_gradient(value)")


class _Made:
    """A derivative under construction: its function, and the builder in it."""

    def __init__(self, module: Module, base: Function, rule: Rule, name: str, what: Derived) -> None:
        self.module, self.base, self.rule, self.wrt = module, base, rule, what.wrt
        known = signature(module, name)
        assert known is not None
        self.func = Function(name, known.params, known.results, [p.hint for p in base.params])
        self.func.own, self.name = set(known.own), name
        self.b = Builder(self.func.entry, base.loc)

    def call(self, name: str, args: Sequence[Value]) -> list[Value]:
        known = signature(self.module, name)
        assert known is not None, name
        return self.b.call_then(name, args, known.results)

    def derived(self, kind: str, function: str, wrt: Sequence[int]) -> str:
        return self.module.derive(function, kind, wrt)

    @property
    def arrays(self) -> int:
        """The number of accumulators."""
        return sum(self.accumulates(i) for i in self.wrt)

    def accumulates(self, i: int) -> bool:
        """True if there is an accumulator for parameter ``i``."""
        return isinstance(self.base.params[i].type, Array) and i not in self.base.own

    def split(self, values: Sequence[Value], *counts: int) -> list[list[Value]]:
        """``values`` in pieces of these lengths, and the remaining values."""
        pieces, at = [], 0
        for n in counts:
            pieces.append(list(values[at:at + n]))
            at += n
        return [*pieces, list(values[at:])]

    @property
    def seeds(self) -> int:
        return sum(carries_adjoint(t) for t in self.base.result_types)

    @property
    def tangents(self) -> tuple[int, ...]:
        """For each of ``wrt``, the index of the tangent among the parameters of a jvp rule."""
        return tuple(len(self.base.params) + self.rule.wrt.index(i) for i in self.wrt)

    def zeros(self, values: Sequence[Value]) -> list[Value]:
        return [self.zero(v, v.type) for v in values]

    def zero(self, like: Value, type: Type) -> Value:
        return self.b.typed(self.b.zeros_like(like), type)

    def cotangents(self, all: Sequence[Value], accumulators: Sequence[Value]) -> list[Value]:
        """The cotangents of ``wrt``, selected from those of ``rule.wrt``; arrays are added to their accumulators."""
        left, found = iter(accumulators), []
        for i in self.wrt:
            x_bar = all[self.rule.wrt.index(i)]
            if self.accumulates(i):
                total = self.b.emit("add", next(left), x_bar, acc=True)
                x_bar = self.b.typed(total, x_bar.type)
            found.append(x_bar)
        return found


# --- both sweeps in one function ------------------------------------------------------------------

def _both(m: _Made) -> None:
    """For any rule: the forward sweep, then the reverse sweep."""
    base, b = m.base, m.b
    params, seeds = m.split(m.func.params, len(base.params))
    accumulators = [m.zero(params[i], params[i].type) for i in m.wrt if m.accumulates(i)]
    *results, tape = m.call(m.derived("fwd", base.name, m.wrt), params)
    primals = [p for i, p in enumerate(params) if i not in base.own and not isinstance(p.type, Stack)]
    b.ret([*results, *m.call(m.derived("bwd", base.name, m.wrt), [*primals, *seeds, *accumulators, tape])])


# --- forward sweep --------------------------------------------------------------------------------

def _forward(m: _Made) -> None:
    params, b, n = m.func.params, m.b, len(m.base.result_types)
    kept = b.stack_empty()
    if m.rule.kind == "vjp":
        values = m.call(m.rule.functions[0], params)
        if values[n:]:
            kept = b.push(kept, *values[n:])
    elif m.rule.kind == "jvp":
        zeros = m.zeros([params[i] for i in m.rule.wrt])
        *values, kept = m.call(m.derived("fwd", m.rule.functions[0], m.tangents), [*params, *zeros])
    else:
        consumed = [params[i] for i in sorted(m.base.own)]
        if consumed:
            kept = b.push(kept, *consumed)                   # the function overwrites them
        values = m.call(m.base.name, params)
    b.ret([*values[:n], kept])


# --- reverse sweep --------------------------------------------------------------------------------

def _backward(m: _Made) -> None:
    base, b, rule = m.base, m.b, m.rule
    primals, seeds, accumulators = m.split(m.func.params[:-1], len(m.func.params) - 1 - m.seeds - m.arrays, m.seeds)
    tape = m.func.params[-1]
    if rule.kind == "vjp":
        forward = signature(m.module, rule.functions[0])
        assert forward is not None
        types = forward.results[len(base.result_types):]
        residuals = b.pop(tape, types)[1] if types else []
        b.ret(m.cotangents(m.call(rule.functions[1], [*primals, *residuals, *seeds]), accumulators))
    elif rule.kind == "jvp":
        args = [*primals, *m.zeros([primals[i] for i in rule.wrt]), *m.zeros(seeds), *seeds, *accumulators, tape]
        b.ret(m.call(m.derived("bwd", rule.functions[0], m.tangents), args))
    else:
        _again(m, primals, seeds, accumulators, tape)


def _again(m: _Made, primals: list[Value], seeds: list[Value], accumulators: list[Value], tape: Value) -> None:
    """A checkpoint: the forward sweep of the body now, then its reverse sweep."""
    base, b, (body,) = m.base, m.b, m.rule.functions
    m.func.attrs["inline"] = "never"
    own = sorted(base.own)
    consumed = b.pop(tape, [base.params[i].type for i in own])[1] if own else []
    left, again = iter(primals), dict(zip(own, consumed))
    params = [again[i] if i in again else next(left) for i in range(len(base.params))]
    (kept,) = m.call(m.derived("keep", body, m.wrt), params)
    b.ret(m.call(m.derived("bwd", body, m.wrt), [*primals, *seeds, *accumulators, kept]))


# --- forward mode ---------------------------------------------------------------------------------

def _tangents(m: _Made) -> None:
    base, rule = m.base, m.rule
    params, dots = m.split(m.func.params, len(base.params))
    if rule.kind == "vjp" and len(rule.functions) == 2:
        raise DifferentiationError(
            f"forward mode through `{base.attrs.get('py_name', base.name)}`, which has a custom_vjp rule: that speaks "
            "of reverse mode alone", base.loc, "use grad, vjp or jacrev, or say how it goes forward with defjvp")
    if rule.kind != "checkpoint":
        given = dict(zip(m.wrt, dots))
        zeros = [given[i] if i in given else m.zero(params[i], params[i].type) for i in rule.wrt]
        m.b.ret(m.call(rule.functions[-1], [*params, *zeros]))
        return
    body = m.derived("jvp", rule.functions[0], m.wrt)
    m.func.own = set(base.own) | {len(base.params) + k for k, i in enumerate(m.wrt) if i in base.own}
    m.b.ret(m.call(body, m.func.params))
    float_params = tuple(i for i, p in enumerate(m.func.params) if is_float(p.type))
    m.module.rules[m.name] = Rule("checkpoint", (body,), float_params)     # its own reverse sweep recomputes too


_MAKE: dict[str, Callable[[_Made], None]] = {"vjp": _both, "fwd": _forward, "bwd": _backward, "jvp": _tangents}
