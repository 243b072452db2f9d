"""Drops the rules of functions that no derivative is asked of, and what only they use.

Rules are traced where a function with one is called, and may call functions with rules in turn.  How often each
function is differentiated is found from the roots down: once more than its caller where a derivative of it is called,
and once less for the functions of a rule for reverse mode, which stand for the first derivative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.graph import Function, Module
from .dce import drop_unreached

WITHOUT_END = 8
"""A function that is differentiated so often is defined through its own derivative."""


def needed_rules(module: Module, roots: Sequence[str]) -> None:
    if not module.rules:
        return
    orders: dict[str, int] = {}
    todo = [_written(module, name, 0) for name in roots]
    while todo:
        name, order = todo.pop()
        if order > orders.get(name, -1) and name in module.functions:
            orders[name] = order
            todo += _used(module, name, order)
    module.rules = {name: rule for name, rule in module.rules.items() if orders.get(name, 0) > 0}
    drop_unreached(module, roots)


def _used(module: Module, name: str, order: int) -> Iterator[tuple[str, int]]:
    """The functions that one uses, and how often these are differentiated if it is so ``order`` times."""
    rule = module.rules.get(name)
    replaced = rule is not None and rule.kind != "checkpoint"
    for callee in _callees(module.functions[name]):
        yield _written(module, callee, 0 if replaced else order)
    if rule is not None and order > 0:
        # the transpose of a rule for forward mode is a derivative of it
        less = rule.kind == "vjp" and order < WITHOUT_END
        for function in rule.functions:
            yield function, order - less


def _written(module: Module, name: str, order: int) -> tuple[str, int]:
    """The function that a derivative still to be made is of, and how often that is differentiated."""
    while name in module.derived and name not in module.functions:
        name, order = module.derived[name].base, order + 1
    return name, min(order, WITHOUT_END)


def _callees(func: Function) -> Iterator[str]:
    for block in func.blocks:
        if block.term is not None and block.term.name == "call":
            yield block.term.attrs["callee"]
