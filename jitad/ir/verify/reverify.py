"""Verification after each pass that skips functions which the pass has not changed.

Most passes change nothing in most functions, and the comparison takes a tenth of the time of verifying them.
"""

from __future__ import annotations

import operator
from typing import Any

from ..graph import Function, Module, Op
from ..signature import signature
from .module import verify

_NEXT = object()                # separates parts, so that different contents never give equal lists


class Verifier:
    """Remembers the contents of each function that it has verified: every object that the verifier reads, in order.

    Attributes hold values that are never changed in place.
    """

    def __init__(self) -> None:
        self._sound: dict[str, list[Any]] = {}

    def verify(self, module: Module) -> None:
        """Raise ``VerifyError`` unless every invariant except those of memory holds."""
        if not all(func.blocks for func in module.functions.values()):
            verify(module, linear=False)                                # reports it
        found = {name: _contents(module, func) for name, func in module.functions.items()}
        changed = {name for name, contents in found.items() if not _same(contents, self._sound.get(name, []))}
        verify(module, linear=False, only=changed)
        self._sound = found


def _same(a: list[Any], b: list[Any]) -> bool:
    """True if both lists hold the same objects; equality would not do, since ``1 == True``."""
    return len(a) == len(b) and all(map(operator.is_, a, b))


def _contents(module: Module, func: Function) -> list[Any]:
    """Every object that the verifier reads.  Each op and value is read for each pass, so there are no calls here."""
    out: list[Any] = [func, func.name, *func.own, _NEXT, *func.result_types, _NEXT]
    for block in func.blocks:
        out += block, block.func
        for v in block.params:
            out += v, v.owner, v.index, v.type
        out.append(_NEXT)
        for op in block.ops:
            out += op, op.name, op.block, *op.operands, _NEXT
            if attrs := op.attrs:
                out += *attrs, _NEXT, *attrs.values(), _NEXT
                if "exc" in attrs:
                    out.append(_known(module, attrs["exc"]))
            for v in op.results:
                out += v, v.owner, v.index, v.type
            if op.edges:
                _edges(out, op)
            out.append(_NEXT)
        if block.term is not None:
            _terminator(out, module, block.term)
    return out


def _terminator(out: list[Any], module: Module, op: Op) -> None:
    out += op, op.name, op.block, *op.operands, _NEXT, *op.attrs, _NEXT, *op.attrs.values(), _NEXT, *op.results, _NEXT
    _edges(out, op)
    out.append(_known(module, op.attrs.get("exc")))
    if op.name == "call" and (callee := signature(module, str(op.attrs.get("callee")))) is not None:
        out += *callee.params, _NEXT, *callee.results
    out.append(_NEXT)


def _edges(out: list[Any], op: Op) -> None:
    for edge in op.edges:
        out += edge.block, *edge.args, _NEXT


def _known(module: Module, number: Any) -> bool:
    """True if an exception has this number."""
    return isinstance(number, int) and 0 <= number < len(module.exceptions)
