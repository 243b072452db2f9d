"""Which arrays are still what they were when the backward sweep comes: nothing consumes their memory.

A value is unstable when an op or a callee consumes it, when it is passed to a block parameter that is, when a view of
it or what it is a view of is, or when the argument that a block parameter received lives on beside it and is
unstable.
"""

from __future__ import annotations

from collections.abc import Collection

from ...ir.graph import Block, Function, Module, Op, Value
from ...ir.ops import OPS
from ...ir.signature import signature
from ...passes.analysis.liveness import ValueSet


class Stability:
    def __init__(self, func: Function, module: Module, live_in: dict[Block, ValueSet]) -> None:
        self.live_in = live_in
        self.passed: dict[Value, list[Value]] = {}
        self.received: dict[Value, list[Value]] = {}
        self.views: dict[Value, list[Value]] = {}
        self.consumed: set[Value] = set()
        self.known: dict[Value, bool] = {}
        for block in func.blocks:
            for op in block.all_ops():
                self._note(op, module)

    def _note(self, op: Op, module: Module) -> None:
        if op.name in OPS:
            self.consumed |= {op.operands[i] for i in OPS[op.name].consumes}
            if OPS[op.name].view:
                self.views.setdefault(op.operands[0], []).append(op.result)
        elif op.name == "call":
            callee = signature(module, op.attrs.get("base", op.attrs["callee"]))
            self.consumed |= {op.operands[i] for i in (callee.own if callee else ())}
        for edge in op.edges:
            for p, a in edge.passed():
                self.passed.setdefault(a, []).append(p)
                self.received.setdefault(p, []).append(a)

    def __call__(self, v: Value) -> bool:
        """Whether the memory of ``v`` (or, for a view, of what it looks at) keeps its contents."""
        return not self._unstable(v)

    def _unstable(self, v: Value) -> bool:
        if v not in self.known:
            self.known[v] = False                          # on a cycle: as the rest of it says
            self.known[v] = self._later(v) or self._before(v)
        return self.known[v]

    def becomes(self, v: Value, others: Collection[Value]) -> bool:
        """Whether ``v``, under this name or one that it goes on to have, is one of ``others``."""
        todo, seen = [v], {v}
        while todo:
            u = todo.pop()
            if u in others:
                return True
            for w in [*self.passed.get(u, ()), *self.views.get(u, ())]:
                if w not in seen:
                    seen.add(w)
                    todo.append(w)
        return False

    def _later(self, v: Value) -> bool:
        """Consumed under this name, or under one that it goes on to have."""
        return self.becomes(v, self.consumed)

    def _before(self, v: Value) -> bool:
        """Consumed under a name that it had before and that lives on."""
        op = v.op
        if op is not None:
            return op.name in OPS and OPS[op.name].view and self._unstable(op.operands[0])
        return any(a in self.live_in.get(v.block, ()) and self._unstable(a) for a in self.received.get(v, ()))
