"""The host program: Python source code for the functions of the host.

A function is ``def f(rt, …)``, whose blocks are the cases of a loop over ``at``, the number of the next block; a
function of one block has no loop.  Scalars are Python numbers (``scalars.as_host``), buffers ``DeviceArray``, stacks
tuples that end in the stack below.  ``L[3]`` is a launch, ``D[0]`` a dtype, ``F[2]`` the meaning of an op.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dominance import Dominators
from ....ir.graph import Block, Edge, Function, Op, Value
from ....ir.types import Scalar
from ....loop_level.nest_shape import read
from ....loop_level.types import type_of
from ...llvm.emit import symbol
from .host_ops import HostCode, HostOps

__all__ = ["HostCode", "HostFunction"]


class HostFunction(HostOps):
    """Writes one function: its blocks and terminators."""

    def __init__(self, code: HostCode, func: Function, is_root: bool) -> None:
        super().__init__(code, func, is_root)
        self.order = list(Dominators(func).preorder())
        self.numbers = {block: k for k, block in enumerate(self.order)}
        self.at = 0                                  # the number of the block that is being written

    def write(self) -> None:
        params = ", ".join(["rt", *map(self.define, self.func.params)])
        self.code.lines.append(f"def {self.code.name(self.func.name)}({params}):  # {symbol(self.func.name)}")
        for block in self.order[1:]:
            for p in block.params:
                self.define(p)
        if len(self.order) == 1:
            self.block(self.order[0])
            return
        self.line("at = 0")
        self.line("while True:")
        for k, block in enumerate(self.order):
            self.margin = " " * 8
            self.line(f"{'if' if k == 0 else 'elif'} at == {k}:")
            self.margin = " " * 12
            self.at = k
            self.block(block)

    def _last_uses(self, block: Block) -> dict[Op, list[Value]]:
        """After which op of a block each array made there is not used any more: its memory can be released."""
        made = {op.results[0]: op for op in block.ops if op.name in ("alloc", "view", "reshape", "retype")}
        last: dict[Value, Op] = dict(made)
        for op in block.ops:
            last.update((v, op) for v in read([op]) if v in made)
        elsewhere = {v for b in self.order if b is not block for v in read(b.all_ops())}
        elsewhere |= set(block.term.used()) if block.term is not None else set()
        found: dict[Op, list[Value]] = {}
        for v, op in last.items():
            if v not in elsewhere:
                found.setdefault(op, []).append(v)
        return found

    def block(self, block: Block) -> None:
        last = self._last_uses(block)
        for op in block.ops:
            self.op(op)
            for v in last.get(op, ()):
                self.line(f"{self.names[v]} = None")
        term = block.term
        assert term is not None
        getattr(self, f"_{term.name}")(term)

    # --- terminators --------------------------------------------------------------------------------

    def _goto(self, edge: Edge, results: Sequence[str] = (), margin: str = "") -> None:
        params = [self.names[p] for p in edge.block.params]
        given = [*results, *map(self._passed, *zip(*edge.passed()))] if edge.args else [*results]
        if params and params != given:
            self.line(f"{margin}{', '.join(params)}, = {', '.join(given)},")
        if self.numbers[edge.block] <= self.at:
            self.line(f"{margin}rt.iterate()")
        self.line(f"{margin}at = {self.numbers[edge.block]}")

    def _passed(self, param: Value, arg: Value) -> str:
        return self.held(arg) if param in self.resident else self.use(arg)

    def _jump(self, op: Op) -> None:
        self._goto(op.edges[0])

    def _branch(self, op: Op) -> None:
        self.line(f"if {self.use(op.operands[0])}:")
        self._goto(op.edges[0], margin="    ")
        self.line("else:")
        self._goto(op.edges[1], margin="    ")

    def _switch(self, op: Op) -> None:
        *cases, default = op.edges
        for k, edge in enumerate(cases):
            self.line(f"{'if' if k == 0 else 'elif'} {self.use(op.operands[0])} == {k}:")
            self._goto(edge, margin="    ")
        self.line("else:" if cases else "if True:")
        self._goto(default, margin="    ")

    def _call(self, op: Op) -> None:
        name, edge = op.attrs["callee"], op.edges[0]
        results = [f"r{k}" for k in range(edge.offset)]
        known: Sequence[Value] = edge.results
        if "threads" in op.attrs:
            text = self._outlined(op)
        elif name in self.code.host:
            text, known = f"{self.code.name(name)}(rt{''.join(f', {self.use(v)}' for v in op.operands)})", ()
        else:
            text = self.serial(name, op)
        self.line(f"{', '.join(results)}, = {text}" if results else text)
        for r, v in zip(results, known):
            if isinstance(type_of(v), Scalar) and v not in self.resident:
                self.line(f"{r} = now({r})")
        self._goto(edge, results)

    def _outlined(self, op: Op) -> str:
        """The call of a loop that was made a function."""
        launch, carried = self.code.launches.outlined(op, self.resident)
        if carried < 0:                              # one thread
            return f"L[{launch}](rt, {self.all_given(op.operands)})"
        first, end, *rest = op.operands
        return (f"L[{launch}](rt, ({self.use(first)}, {self.use(end)}, 1), [{self.all_given(rest[:carried])}], "
                f"[{self.all_given(rest[carried:])}])")

    def _return(self, op: Op) -> None:
        self.line(f"return [{', '.join(map(self.held if self.is_root else self.use, op.operands))}]")

    def _raise(self, op: Op) -> None:
        self.line(f"rt.fail({', '.join([str(op.attrs['exc']), *map(self.use, op.operands)])})")
