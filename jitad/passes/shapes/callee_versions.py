"""Copies the functions that are called with literal sizes, for these sizes.

::

    call @inverse(%s') -> ^next      ; %s: f64[2, 2],        call @inverse.known(%s) -> ^next
    ^next(%r: f64[?, ?])             ; %s' = as_type %s      ^next(%r: f64[2, 2])

Functions with a derivative rule stay calls until the derivative is generated, and long ones for good, so a version for
literal sizes (``size_versions``) would lose them at each call.  The functions of the rule are copied too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.clone import clone_function
from ...ir.graph import Block, Function, Module, Rule, Value
from ...ir.types import Array, Type, carries_adjoint, join
from .shape_inference import retype

Types = tuple[Type, ...]

SMALL = 60
"""Functions of more ops stay functions where no size is known: their loops take most of the time to compile."""


class CalleeVersions:
    """The copies in one module, by function, types of parameters, and whether they have a rule; None: there is none.

    ``active``: functions that are being copied.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.copies: dict[tuple[str, Types, bool], str | None] = {}
        self.active: set[str] = set()

    def run(self, func: Function, order: int | None) -> None:
        """Let ``func`` call copies for the literal sizes that it passes; its types have been inferred.

        ``order``: 0 if ``func`` is not differentiated, 1 if it is once, in reverse mode, None if neither is known.
        """
        while any(self._call(block, order) for block in func.blocks):
            retype(self.module, func)                        # the results of one call are arguments of others

    def _call(self, block: Block, order: int | None) -> bool:
        """Let ``block`` call a copy, if sizes of arguments are known that the callee does not know."""
        call = block.call
        callee = self.module.functions.get(call.attrs["callee"]) if call is not None else None
        if call is None or callee is None or callee.name in self.active:
            return False
        if callee.name in self.module.rules and order is None:
            return False
        args = [_unconverted(v) for v in call.operands]
        types = tuple(_known(p.type, v.type) for p, v in zip(callee.params, args, strict=True))
        edge = call.edges[0]
        if list(types) == callee.param_types or len(block.func.predecessors()[edge.block]) > 1:
            return False
        name = self._copy(callee, types, order)
        if name is None:
            return False
        call.attrs["callee"], call.operands = name, args         # ``retype`` converts them
        for p, t in zip(edge.results, self.module.functions[name].result_types, strict=True):
            p.type = t
        return True

    def _copy(self, func: Function, types: Types, order: int | None) -> str | None:
        """The name of the copy of ``func`` whose parameters have these types."""
        rule = self.module.rules.get(func.name) if order else None
        key = (func.name, types, rule is not None)
        if key not in self.copies:
            self.active.add(func.name)
            copy = self._inferred(func, types, order if rule is None else _order_within(rule))
            self.active.remove(func.name)
            self.copies[key] = copy.name                     # before its rule, whose functions may call it
            if rule is None or self._copy_rule(copy, rule):
                _stay(func)
            else:
                self.copies[key] = None
        return self.copies[key]

    def _inferred(self, func: Function, types: Sequence[Type], order: int | None) -> Function:
        """A copy with these types of parameters, and what follows for all others."""
        copy, _ = clone_function(func, self.module.unique_name(f"{func.name}.known"))
        copy.attrs.pop("likely", None)
        for p, t in zip(copy.params, types, strict=True):
            p.type = t
        self.module.add(copy)
        retype(self.module, copy)
        self.run(copy, order)
        self._return(copy, _returned(copy))
        return copy

    def _return(self, func: Function, types: Sequence[Type]) -> None:
        """Let ``func`` return values of these types."""
        func.result_types = list(types)
        for block in func.blocks:
            if block.term is not None and block.term.name == "return":
                block.term.operands = [_unconverted(v) for v in block.term.operands]
        retype(self.module, func)

    def _copy_rule(self, primal: Function, rule: Rule) -> bool:
        """Copy what reverse mode uses of a rule; returns False if fewer sizes of the results are known in it."""
        params, results = primal.param_types, primal.result_types
        wrt, seeds = [params[i] for i in rule.wrt], [t for t in results if carries_adjoint(t)]
        order = _order_within(rule)
        first, *others = (self.module.functions[name] for name in rule.functions)
        forward = self._inferred(first, [*params, *wrt] if rule.kind == "jvp" else params, order)
        names = [forward.name]
        if forward.result_types[:len(results)] != results:
            return False
        if rule.kind == "jvp":
            self._return(forward, [*results, *seeds])
        if rule.kind == "vjp":
            backward = self._inferred(others[0], [*params, *forward.result_types[len(results):], *seeds], order)
            self._return(backward, wrt)                      # a cotangent has its primal's shape, which is checked
            names.append(backward.name)
        for func in (first, *others):
            _stay(func)
        self.module.rules[primal.name] = replace(rule, functions=tuple(names))
        return True


def _order_within(rule: Rule) -> int:
    """The times that reverse mode differentiates functions of a rule: those of a ``"vjp"`` rule are the derivative."""
    return int(rule.kind != "vjp")


def _stay(func: Function) -> None:
    """Keep a long function that has a copy from being inlined; its other calls are expected to be rare."""
    if sum(len(block.ops) for block in func.blocks) > SMALL:
        func.attrs.setdefault("inline", "never")


def _unconverted(v: Value) -> Value:
    """The value before a conversion that forgets sizes."""
    if v.op is not None and v.op.name == "as_type" and join(v.op.operands[0].type, v.type) == v.type:
        return v.op.operands[0]
    return v


def _known(old: Type, new: Type) -> Type:
    """``old`` with the sizes that ``new`` has besides; not 1, since an axis of this type is broadcast."""
    if not (isinstance(old, Array) and isinstance(new, Array)):
        return old
    return Array(old.dtype, tuple(n if d is None and n != 1 else d for d, n in zip(old.dims, new.dims, strict=True)))


def _returned(func: Function) -> list[Type]:
    """The types of the results, as far as all returns agree on sizes."""
    found: list[Type] | None = None
    for block in func.blocks:
        if block.term is not None and block.term.name == "return":
            here = [_known(t, _unconverted(v).type) for t, v in zip(func.result_types, block.term.operands)]
            found = here if found is None else [join(a, b) or t for a, b, t in zip(found, here, func.result_types)]
    return found or func.result_types
