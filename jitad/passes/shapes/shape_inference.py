"""Infers the types of arrays again, where sizes have become known since they were typed.

The type of a block parameter is the join of the types of its arguments.  The fixed point is optimistic, so sizes are
also found through loops.  Types that must not change are those of the function's parameters and results, and of calls;
values are converted to these by ``as_type``.
"""

from __future__ import annotations

from ...ir.builder import Builder
from ...ir.dominance import reverse_postorder
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.ops import result_types
from ...ir.signature import signature
from ...ir.type_rules import TypeRuleError
from ...ir.types import I64, Array, Type, join


def retype(module: Module, func: Function) -> None:
    """Infer the types of all values of ``func`` again, and put sizes that become known into shapes made of them."""
    _Retyper(module, func).run()
    while _put_literals(func):
        _Retyper(module, func).run()


def retype_all(module: Module) -> None:
    """Infer the types of all functions again, as sizes have been computed that are literals."""
    for func in module.functions.values():
        retype(module, func)


def _put_literals(func: Function) -> bool:
    """Make each ``dim`` of a known size a literal; returns True if there was one."""
    found = False
    for op in func.all_ops():
        if op.name == "dim":
            t = op.operands[0].type
            assert isinstance(t, Array)
            if (n := t.dims[op.attrs["axis"]]) is not None:
                op.name, op.operands, op.attrs = "const", [], {"type": I64, "value": n}
                found = True
    return found


class _Retyper:
    """Infers the types of one function.

    ``before``: the old types.  ``kept``: ops whose operands and results keep their old types, because the type rule
    refuses the new ones, as may happen after a check that always fails.
    """

    def __init__(self, module: Module, func: Function) -> None:
        self.module, self.func = module, func
        self.blocks = reverse_postorder(func)
        self.before: dict[Value, Type] = {v: v.type for v in func.defined() if isinstance(v.type, Array)}
        self.kept: set[Op] = set()
        self.incoming: dict[Value, list[Value]] = {}
        for block in self.blocks:
            assert block.term is not None
            for edge in block.term.edges:
                for p, v in edge.passed():
                    if p in self.before:
                        self.incoming.setdefault(p, []).append(v)

    def run(self) -> None:
        self.typed: set[Value] = set()
        changed = True
        while changed:
            changed = False
            for block in self.blocks:
                for p in block.params:
                    changed |= self._param(p)
                for op in block.ops:
                    changed |= self._op(op)
        for block in self.blocks:
            self._fit(block)

    def _param(self, p: Value) -> bool:
        """Update the type of a block parameter; returns True if it has changed."""
        if p not in self.before:
            return False
        first = p not in self.typed
        self.typed.add(p)
        if p not in self.incoming or p.block is self.func.entry:
            return first
        found = None if first else p.type
        for v in self.incoming[p]:
            if v in self.typed:
                found = v.type if found is None else join(found, v.type) or self.before[p]
        return self._set(p, found or self.before[p]) or first

    def _op(self, op: Op) -> bool:
        changed = False
        for r in op.results:
            if r in self.before:
                changed |= r not in self.typed
                self.typed.add(r)
        if op in self.kept or not any(isinstance(v.type, Array) for v in (*op.operands, *op.results)):
            return changed
        try:
            types = result_types(op.name, op.operands, op.attrs)
            if op.name == "as_type":
                types = [_learnt(op)]
        except TypeRuleError:
            types = []
        if [type(t) for t in types] != [type(r.type) for r in op.results]:
            self.kept.add(op)
            types = [self.before.get(r, r.type) for r in op.results]
        return any([self._set(r, t) for r, t in zip(op.results, types)]) or changed

    def _set(self, v: Value, t: Type) -> bool:
        changed = v.type != t
        v.type = t
        return changed

    # --- conversions to types that must not change ----------------------------------------------------

    def _fit(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        b = Builder(block)
        for op in ops:
            b.loc = op.loc
            if op in self.kept or op.name == "push":         # a pop has the types of its push
                op.operands = [b.typed(v, self.before.get(v, v.type)) for v in op.operands]
            elif op.name == "as_type":
                op.attrs["type"] = op.result.type
            block.ops.append(op)
        term = block.term
        assert term is not None
        b.loc = term.loc
        wanted = self._wanted(term)
        term.operands = [b.typed(v, t) for v, t in zip(term.operands, wanted)]
        for edge in term.edges:
            self._fit_edge(b, edge)

    def _wanted(self, term: Op) -> list[Type]:
        if term.name == "return":
            return self.func.result_types
        if term.name == "call":
            known = signature(self.module, term.attrs["callee"])
            assert known is not None
            return list(known.params)
        return [v.type for v in term.operands]

    def _fit_edge(self, b: Builder, edge: Edge) -> None:
        edge.args = [b.typed(v, p.type) for p, v in edge.passed()]


def _learnt(op: Op) -> Array:
    """The type of an ``as_type``: the sizes of its attribute, and where that has none, those of its operand."""
    have, named = op.operands[0].type, op.attrs["type"]
    assert isinstance(have, Array) and isinstance(named, Array)
    return Array(named.dtype, tuple(d if n is None else n for d, n in zip(have.dims, named.dims)))
