"""The scalars of a host function that stay on the device.

A scalar that a kernel computes would have to be downloaded before the host can go on, which waits for the device, and
cannot be recorded in a graph.  So it stays where it is, and kernels take its address, unless the host *needs* it: as
the condition of a branch, as a bound of a loop or a size.  Arithmetic on such scalars is left to kernels as well, and
so are the checks that depend on them.  ::

    %s = for … reduce add          resident
    %m = div %s, %n                resident: a kernel of one thread computes it
    for … { store (mul (load %x, %i), %m), %y, %i }      takes the address of %m

A resident value may be a number of the host at run time, where branches meet; it is then copied to the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ....ir.graph import Block, Function, Op, Value
from ....ir.ops import OPS as IR_OPS
from ....ir.types import Scalar
from ....loop_level.types import type_of

LAUNCHED = ("matmul", "serial")


class Residence:
    """``resident``: the scalars that may be on the device.  ``is_kernel``: True for ops that kernels run."""

    def __init__(self, func: Function, is_root: bool, is_kernel: Callable[[Op], bool], host: set[str]) -> None:
        self.func, self.is_root, self.is_kernel, self.host = func, is_root, is_kernel, host
        self.ops = list(self._ops(func.blocks))
        self.links: list[tuple[Value, Value]] = []       # (to, from): values of a block's parameters, of loops
        for op in self.ops:
            self._link(op)
        self.needed = self._needed()
        self.resident = self._resident()

    def __contains__(self, v: object) -> bool:
        return v in self.resident

    def _ops(self, blocks: Sequence[Block]) -> Iterator[Op]:
        """The ops of the host; those in loops that kernels run are not."""
        for block in blocks:
            for op in block.all_ops():
                yield op
                if op.name == "for" and not self.is_kernel(op):
                    yield from self._ops(op.regions)

    def _link(self, op: Op) -> None:
        if op.name == "for" and not self.is_kernel(op):
            region = op.regions[0]
            assert region.term is not None
            for p, first, after, result in zip(region.params[1:], op.operands[3:], region.term.operands, op.results):
                self.links += [(p, first), (p, after), (result, p), (p, result)]
        for edge in op.edges:
            self.links += list(edge.passed())

    # --- what the host needs ------------------------------------------------------------------------

    def _needed(self) -> set[Value]:
        found = {v for op in self.ops for v in self._read_by_host(op) if _is_scalar(v)}
        changed = True
        while changed:
            before = len(found)
            found |= {v for to, v in self.links if to in found}
            found |= {v for op in self.ops if is_arithmetic(op) and op.result in found for v in op.operands}
            changed = len(found) > before
        return found

    def _read_by_host(self, op: Op) -> Sequence[Value]:
        """The scalars that the host has to know for an op."""
        if op.name == "for":
            return [v for loop in _nested(op) for v in loop.operands[:3]] if self.is_kernel(op) else op.operands[:3]
        if op.name == "call":
            return op.operands[:2] if "threads" in op.attrs else op.operands if op.attrs["callee"] in self.host else ()
        if op.name == "return":
            return () if self.is_root else op.operands
        passes = op.name in (*LAUNCHED, "load", "store", "check", "push", "jump", "yield") or is_arithmetic(op)
        return () if passes else op.operands

    # --- what stays on the device -------------------------------------------------------------------

    def _resident(self) -> set[Value]:
        found = {v for op in self.ops for v in self._made_on_device(op) if _is_scalar(v)} - self.needed
        changed = True
        while changed:
            before = len(found)
            found |= {to for to, v in self.links if v in found and to not in self.needed}
            found |= {op.result for op in self.ops if is_arithmetic(op) and op.result not in self.needed
                      and any(v in found for v in op.operands)}
            changed = len(found) > before
        return found

    def _made_on_device(self, op: Op) -> Sequence[Value]:
        if op.name == "call":
            made = "threads" in op.attrs or op.attrs["callee"] not in self.host
            return op.edges[0].results if made else ()
        if op.name == "for":
            return op.results if self.is_kernel(op) else ()
        if op.name == "serial":
            return [*op.attrs.get("results", op.results)]
        return op.results if op.name in ("load", "pop") else ()


def is_arithmetic(op: Op) -> bool:
    return op.name in IR_OPS and IR_OPS[op.name].elementwise


def _is_scalar(v: Value) -> bool:
    return v.const is None and isinstance(type_of(v), Scalar)


def _nested(op: Op) -> Iterator[Op]:
    """A loop and those within it."""
    yield op
    for region in op.regions:
        for inner in region.ops:
            if inner.name == "for":
                yield from _nested(inner)
