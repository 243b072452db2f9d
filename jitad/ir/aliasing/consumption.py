"""Values whose memory may be updated in place, under this name or a later one.

The *names* of an array are the values that it is, one after the other, without a copy: a view of it, a block parameter
that an edge passes it for.  The result of an update is an array of its own here, as the operand is used up, and so is
the result of a call.  An array is consumed by an op that updates it, and by a call whose callee owns the parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..graph import Function, Module, Op, Value
from ..ops import CONSUMING, OPS
from ..signature import signature
from ..types import Scalar


def in_memory(v: Value) -> bool:
    """True for arrays and stacks."""
    return not isinstance(v.type, Scalar)


def consumed_operands(module: Module, op: Op) -> Sequence[int]:
    """The indices of the operands that an op or a terminator consumes."""
    if op.name == "call":
        callee = signature(module, op.attrs["callee"])
        return sorted(callee.own) if callee is not None else ()
    definition = OPS.get(op.name)
    return definition.consumes if definition is not None else ()


def consumed_values(func: Function, module: Module | None = None) -> set[Value]:
    """The values that may be consumed, under this name or a later one; without a module, by every call."""
    here = list(_consumed_here(func, module))
    return Names(func).history(here) if here else set()


class Names:
    """The names that each array of a function had before."""

    def __init__(self, func: Function) -> None:
        self._arguments: dict[Value, list[Value]] = {}
        for block in func.blocks:
            for edge in block.term.edges if block.term is not None else ():
                for param, arg in edge.passed():
                    if in_memory(param):
                        self._arguments.setdefault(param, []).append(arg)

    def before(self, v: Value) -> Sequence[Value]:
        """The names right before ``v``: what it is a view of, or what edges pass for it; none if it is new."""
        op = v.op
        if op is None:
            return self._arguments.get(v, ())
        return op.operands[:1] if OPS[op.name].view else ()

    def history(self, values: Iterable[Value]) -> set[Value]:
        """The values and all names that they had before."""
        found: set[Value] = set()
        todo = list(values)
        while todo:
            v = todo.pop()
            if v not in found:
                found.add(v)
                todo += self.before(v)
        return found


def _consumed_here(func: Function, module: Module | None) -> Iterator[Value]:
    """The operands that are consumed."""
    for block in func.blocks:
        for op in block.ops:
            if op.name in CONSUMING:
                yield from (op.operands[i] for i in OPS[op.name].consumes)
        term = block.term
        if term is not None and term.name == "call":
            given = consumed_operands(module, term) if module is not None else range(len(term.operands))
            yield from (term.operands[i] for i in given if in_memory(term.operands[i]))
