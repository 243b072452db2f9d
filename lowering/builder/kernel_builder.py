"""Helpers for routines that are hand-written in LLVM IR: counted loops, addresses, integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.types import Scalar
from ..llvm import types
from ..llvm.code import Assembly
from ..llvm.emit import Writer

Body = Callable[[str, list[str]], Sequence[str]]


class Routine:
    """The body of a routine over elements of type ``t``."""

    def __init__(self, writer: Writer, t: Scalar) -> None:
        self.writer, self.t, self.of, self.code = writer, t, types.register(t), Assembly()

    def loop(self, start: str, going: Callable[[str], str], step: str, body: Body,
             carried: Sequence[tuple[str, str]] = ()) -> list[str]:
        """``for i = start; going(i); i += step``; returns the last ``i`` and the last carried values (type, name)."""
        code = self.code
        head, inside, done, before = code.label("head"), code.label("body"), code.label("done"), code.here
        code.jump(head)
        phis = [code.phi(t, head) for t in ("i64", *(t for t, _ in carried))]
        for phi, first in zip(phis, [start, *(v for _, v in carried)]):
            code.add_incoming(phi, first, before)
        code.start(head)
        code.branch(going(phis[0]), inside, done)
        code.start(inside)
        nexts = body(phis[0], phis[1:])
        for phi, value in zip(phis, [self.add(phis[0], step), *nexts]):
            code.add_incoming(phi, value)
        code.jump(head)
        code.start(done)
        return phis

    def below(self, end: str, at_least: int = 1) -> Callable[[str], str]:
        """A condition for ``loop``: at least ``at_least`` numbers are left before ``end``."""
        return lambda i: self.code.icmp("sge", "i64", self.sub(end, i), str(at_least))

    def at(self, ptr: str, index: str) -> str:
        """The address of an element."""
        return self.code.address(self.of, ptr, index, flags="")

    def add(self, x: str, y: str) -> str:
        return self.code.arith("add", "i64", x, y)

    def sub(self, x: str, y: str) -> str:
        return self.code.arith("sub", "i64", x, y)

    def mul(self, x: str, y: str) -> str:
        return self.code.arith("mul", "i64", x, y)

    def smaller(self, x: str, y: str) -> str:
        return self._of_two("umin", x, y)

    def larger(self, x: str, y: str) -> str:
        return self._of_two("umax", x, y)

    def _of_two(self, name: str, x: str, y: str) -> str:
        callee = self.writer.declare(f"llvm.{name}.i64", "i64", "i64, i64")
        return self.code.call("i64", callee, ("i64", x), ("i64", y))
