"""Verification after each pass: a function that the pass has left alone is not verified again.

Most passes change nothing in most functions, and to see that takes a tenth of the time of verifying them.
"""

from __future__ import annotations

import operator
from typing import Any

from .graph import Function, Module, Value
from .signature import signature
from .verify import verify

_NEXT = object()                # between parts, so that two functions whose contents differ never look the same


class Verifier:
    """Remembers what it has found sound: every object that the verifier reads, in order.

    Attributes hold values that are never changed in place.
    """

    def __init__(self) -> None:
        self._sound: dict[str, list[Any]] = {}

    def verify(self, module: Module) -> None:
        """Raise ``VerifyError`` unless every invariant holds but those of memory."""
        if not all(func.blocks for func in module.functions.values()):
            verify(module, linear=False)                                # which says so
        found = {name: _contents(module, func) for name, func in module.functions.items()}
        changed = {name for name, contents in found.items() if not _same(contents, self._sound.get(name, []))}
        verify(module, linear=False, only=changed)
        self._sound = found


def _same(a: list[Any], b: list[Any]) -> bool:
    """The same objects, not equal ones: ``1 == True``."""
    return len(a) == len(b) and all(map(operator.is_, a, b))


def _contents(module: Module, func: Function) -> list[Any]:
    out: list[Any] = [func, func.name, *func.own, _NEXT, *func.result_types, _NEXT]
    for block in func.blocks:
        out += block, block.func
        _values(out, block.params)
        for op in block.all_ops():
            out += op, op.name, op.block, *op.operands, _NEXT, *op.attrs, _NEXT, *op.attrs.values(), _NEXT
            _values(out, op.results)
            for edge in op.edges:
                out += edge.block, *edge.args, _NEXT
            number = op.attrs.get("exc")
            if number is not None:
                out.append(isinstance(number, int) and 0 <= number < len(module.exceptions))
            if op.name == "call" and (callee := signature(module, str(op.attrs.get("callee")))) is not None:
                out += *callee.params, _NEXT, *callee.results
            out.append(_NEXT)
    return out


def _values(out: list[Any], values: list[Value]) -> None:
    for v in values:
        out += v, v.owner, v.index, v.type
    out.append(_NEXT)
