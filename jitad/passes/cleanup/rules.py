"""Drops derivative rules of functions that are never differentiated, and the functions that only such rules use.

Rules are traced where a function with a rule is called, and may call functions with rules in turn.  The pass computes
how often each function is differentiated, its *order*, from the roots down.  The order is one more than the caller's
where a derivative of the function is called.  It is one less for the functions of a reverse-mode rule, which stand for
the first derivative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.graph import Module
from .dce import drop_unreached

LARGEST_ORDER = 8
"""The largest order.  A function that reaches it is defined by its own derivative."""


def needed_rules(module: Module, roots: Sequence[str]) -> None:
    """Drop the rules that no derivative needs, and functions that are then unreached."""
    if not module.rules:
        return
    orders: dict[str, int] = {}
    todo = [_base(module, name, 0) for name in roots]
    while todo:
        name, order = todo.pop()
        if order > orders.get(name, -1) and name in module.functions:
            orders[name] = order
            todo += _used(module, name, order)
    module.rules = {name: rule for name, rule in module.rules.items() if orders.get(name, 0) > 0}
    drop_unreached(module, roots)


def _used(module: Module, name: str, order: int) -> Iterator[tuple[str, int]]:
    """The functions that ``name`` uses, each with its order if ``name`` has the order ``order``."""
    rule = module.rules.get(name)
    replaced = rule is not None and rule.kind != "checkpoint"
    for callee in module.functions[name].callees():
        yield _base(module, callee, 0 if replaced else order)
    if rule is not None and order > 0:
        # reverse mode differentiates a forward-mode rule, to transpose it
        less = rule.kind == "vjp" and order < LARGEST_ORDER
        for function in rule.functions:
            yield function, order - less


def _base(module: Module, name: str, order: int) -> tuple[str, int]:
    """The base function of ``name``, if that is a derivative to be generated, and the order of the base function."""
    while name in module.derived and name not in module.functions:
        name, order = module.derived[name].base, order + 1
    return name, min(order, LARGEST_ORDER)
