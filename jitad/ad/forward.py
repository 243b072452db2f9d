"""Forward mode: every float value that depends on a seed is paired with its tangent.

``dot`` maps a value to its tangent; a value without one has tangent zero.  Block parameters that vary get a second
parameter for the tangent.  Calls become calls of the callee's own derivative.  Frames on stacks hold tangents beside
each float.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DifferentiationError
from ..ir.builder import Builder
from ..ir.clone import clone_function
from ..ir.dominance import reverse_postorder
from ..ir.graph import Block, Edge, Function, Module, Op, Value
from ..ir.types import Array, Stack, Type, dims_of, is_float
from .activity import active, call_results, varied
from .derivatives import BILINEAR, LINEAR, PARTIALS, WEIGHTS, ZERO
from .expand import expand


def jvp(module: Module, base: Function, name: str, wrt: Sequence[int]) -> Function:
    """(params…, tangents of ``wrt``…) → (results…, tangents of the results that carry one…)."""
    return _Forward(module, base, name, wrt).func


def _paired(t: Type) -> bool:
    """True if a value of this type is paired with a tangent.  The frames of a stack contain the pairs."""
    return is_float(t)


class _Forward:
    def __init__(self, module: Module, base: Function, name: str, wrt: Sequence[int]) -> None:
        self.module = module
        self.func, _ = clone_function(base, name)
        expand(self.func)
        self.b = Builder()
        seeds = [self.func.params[i] for i in wrt]
        self.varied, self.active = varied(self.func, seeds), active(self.func, seeds)
        self.dot: dict[Value, Value] = {}
        # parameters whose tangents are the last of the block's parameters
        self.paired: dict[Block, list[Value]] = {}
        count = len(self.func.params)
        self._block_params()
        for p in seeds:
            if _paired(p.type):
                self.dot[p] = self.func.entry.add_param(p.type, f"{p.hint}_dot")
        self.func.own |= {self.dot[p].index for p in self.func.params[:count] if p in self.dot and p.index in base.own}
        self.func.result_types = [*base.result_types, *(t for t in base.result_types if _paired(t))]
        self.func.blocks = reverse_postorder(self.func)
        for block in self.func.blocks:
            self._block(block)

    def _block_params(self) -> None:
        calls = {b.term.edges[0].block: call_results(b) for b in self.func.blocks if b.term and b.term.name == "call"}
        for block in self.func.blocks[1:]:
            results = set(calls.get(block, ()))
            self.paired[block] = [p for p in block.params if p in self.varied and _paired(p.type) and p not in results]
            for p in self.paired[block]:
                self.dot[p] = block.add_param(p.type, p.hint and f"{p.hint}_dot")

    def tangent(self, v: Value) -> Value:
        """The tangent of ``v``, zero if it has none, with exactly the type of its value, literal sizes included."""
        return self.dot[v] if v in self.dot else self.b.typed(self.b.zeros_like(v), v.type)

    def _block(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        self.b.at(block)
        for op in ops:
            self.b.loc = op.loc
            if op.name in ("push", "pop"):
                self._stack_op(op)
                continue
            block.ops.append(op)
            if any(v in self.dot for v in op.operands):
                self._op(op)
        self._terminator(block)

    def _op(self, op: Op) -> None:
        if op.name in ZERO or not is_float(op.results[0].type):
            return
        dot: Value | None
        if op.name in PARTIALS:
            dot = self._elementwise(op)
        elif op.name in WEIGHTS:
            weights, n = WEIGHTS[op.name](self.b, op)
            dot = self.b.div(self.b.sum(self.b.mul(weights, self.dot[op.operands[0]]), axes=op.attrs["axes"]), n)
        elif op.name in LINEAR:
            dot = self._linear(op)
        elif op.name in BILINEAR:
            dot = self._bilinear(op)
        else:
            raise DifferentiationError(f"{op.name} has no derivative", op.loc)
        if dot is not None:
            self.dot[op.result] = self.b.typed(dot, op.result.type)

    def _elementwise(self, op: Op) -> Value | None:
        b, total = self.b, None
        for x, partial in zip(op.operands, PARTIALS[op.name]):
            if partial is None or x not in self.dot:
                continue
            slope = partial(b, op.result, *op.operands) if callable(partial) else partial
            term = self.dot[x] if slope == 1.0 else b.neg(self.dot[x]) if slope == -1.0 else b.mul(slope, self.dot[x])
            total = term if total is None else b.add(total, term)
        if total is not None and isinstance(op.result.type, Array) and total.type != op.result.type:
            total = b.broadcast_to(total, *b.dims(op.result))
        return total

    def _linear(self, op: Op) -> Value:
        """The op itself on tangents; a consumed tangent replaces the array of the primal."""
        operands = [self.tangent(v) if is_float(v.type) else v for v in op.operands]
        return self.b.emit_op(op.name, operands, **op.attrs).result

    def _bilinear(self, op: Op) -> Value | None:
        total = None
        for i, v in enumerate(op.operands):
            if v in self.dot:
                operands = [*op.operands[:i], self.dot[v], *op.operands[i + 1:]]
                term = self.b.emit_op(op.name, operands, **op.attrs).result
                total = term if total is None else self.b.add(total, term)
        return total

    def _stack_op(self, op: Op) -> None:
        """A frame holds its values followed by the tangents of its floats."""
        if op.name == "push":
            kept = op.operands[1:]
            op.operands += [self.tangent(v) for v in kept if is_float(v.type)]
            self.b.block.ops.append(op)
            return
        values = op.results[1:]
        floats = [v for v in values if is_float(v.type)]
        if op.attrs.get("zeros"):
            sizes = iter(op.operands[1:])
            unknown = [(v, [next(sizes) for d in dims_of(v.type) if d is None]) for v in values]
            op.operands += [n for v, dims in unknown if v in floats for n in dims]
        op.attrs["types"] = (*op.attrs["types"], *(v.type for v in floats))
        for v in floats:
            self.dot[v] = Value(v.type, op, len(op.results))
            op.results.append(self.dot[v])
        self.b.block.ops.append(op)

    def _terminator(self, block: Block) -> None:
        term = block.term
        assert term is not None
        self.b.at(block)
        self.b.loc = term.loc
        if term.name == "return":
            term.operands += [self.tangent(v) for v in list(term.operands) if _paired(v.type)]
        if term.name == "call":
            self._call(block, term)
        for edge in term.edges:
            self._edge(edge)

    def _edge(self, edge: Edge) -> None:
        """Pass tangents for the parameters that have one."""
        paired = self.paired[edge.block]
        first = edge.offset - len(paired)
        edge.args += [self.tangent(edge.args[p.index - first]) for p in paired]

    def _call(self, block: Block, term: Op) -> None:
        after = term.edges[0].block
        count = term.edges[0].offset - len(self.paired[after])
        results = after.params[:count]
        wrt = tuple(i for i, v in enumerate(term.operands) if v in self.dot or isinstance(v.type, Stack))
        stacks = any(isinstance(v.type, Stack) for v in term.operands)       # their frames hold tangents
        if not stacks and not any(r in self.active for r in results):       # it may lack a derivative
            return
        if not wrt and not any(isinstance(r.type, Stack) for r in results):
            return
        term.operands += [self.dot[term.operands[i]] for i in wrt if term.operands[i] in self.dot]
        term.attrs["callee"] = self.module.derive(term.attrs["callee"], "jvp", wrt)
        for r in [r for r in results if _paired(r.type)]:
            self.dot[r] = Value(r.type, after, count, "dot")
            after.params.insert(count, self.dot[r])
            count += 1
        for i, p in enumerate(after.params):
            p.index = i
