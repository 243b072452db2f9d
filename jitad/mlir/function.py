"""One function: blocks, terminators, loops.

A function that may raise returns an i32 first: 0, or the number of the exception + 1.  Its last block, ``^failed``,
returns this status; the other results are then of any value.  Callers pass the status on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.dominance import Dominators
from ..ir.graph import Block, Edge, Function, Module, Op, Value
from ..ir.types import I32, I64
from ..loop_level.types import Buffer, Vector, buffer_type, type_of
from ..lowering.llvm.emit import symbol
from . import buffers, lanes, products, stacks, types
from .arithmetic import SPECIAL, TABLE, elementwise
from .types import NoText
from .writer import Reg, Writer, names, typed, types_of

FAILED = "^failed"


def raising(module: Module) -> set[str]:
    """The functions that may raise."""
    found: set[str] = set()
    callees = {f.name: set(f.callees()) for f in module.functions.values()}
    todo = [f.name for f in module.functions.values()
            if any(op.name in ("check", "raise") for b in f.blocks for op in b.nested_ops())]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [caller for caller, called in callees.items() if name in called]
    return found


def global_name(name: str) -> str:
    """The symbol of a function: that of its machine code, between quotes if need be."""
    if re.fullmatch(r"[\w.$]+", symbol(name), re.ASCII):
        return f"@{symbol(name)}"
    escaped = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "".join(
        f"\\{byte:02X}" for byte in c.encode()) for c in symbol(name))
    return f'@"{escaped}"'


class FunctionText:
    """The text of a function."""

    def __init__(self, module: Module, func: Function, raises: set[str], externals: dict[str, str]) -> None:
        self.module, self.func, self.raises = module, func, raises
        self.w = Writer(externals)
        self.may_raise = func.name in raises
        self.blocks: dict[Block, str] = {}

    def lines(self) -> list[str]:
        order = list(Dominators(self.func).preorder())
        for block in order[1:]:
            self.blocks[block] = self._label(block.name or "b")
        for block in order:
            self._block(block)
        if self.may_raise:
            self._failed()
        w = self.w
        return [self._head(), *w.head, *w.lines, "  }"]

    def _label(self, stem: str) -> str:
        return "^" + self.w.distinct(stem)

    def _head(self) -> str:
        params = ", ".join(f"{x.name}: {x.type}" for x in self.w.uses(self.func.params))
        results = self.status() + [types.register(t) for t in self.func.result_types]
        made = f" -> ({', '.join(results)})" if results else ""
        return f"  func.func {global_name(self.func.name)}({params}){made} {{"

    def status(self) -> list[str]:
        return ["i32"] if self.may_raise else []

    def _start(self, label: str, params: Sequence[Reg] = ()) -> None:
        """Begin a block."""
        given = f"({', '.join(f'{p.name}: {p.type}' for p in params)})" if params else ""
        self.w.lines.append(f"  {label}{given}:")
        self.w.block()

    def _block(self, block: Block) -> None:
        params = [self.w.define(p) for p in block.params]
        if block in self.blocks:
            self._start(self.blocks[block], params)
        for op in block.ops:
            self.op(op)
        term = block.term
        assert term is not None
        _TERMINATORS[term.name](self, term)

    def _failed(self) -> None:
        status = Reg(self.w.name("status"), "i32")
        self._start(FAILED, [status])
        values = [buffers.nothing(self.w, t, "alloca") if isinstance(t, Buffer) else stacks.zero(self.w, t)
                  for t in _kinds(self.func.result_types)]
        self._return([status, *values])

    # --- ops ----------------------------------------------------------------------------------------

    def op(self, op: Op) -> None:
        w = self.w
        if op.name == "for":
            self._for(op)
        elif op.name == "check":
            self._check(op)
        elif op.name == "pop":
            for v, x in zip(op.results, stacks.pop(w, op), strict=True):
                w.regs[v] = x
        elif op.name in TABLE or op.name in SPECIAL:
            w.regs[op.result] = elementwise(w, op)
        elif op.name in _VALUES:
            w.regs[op.result] = _VALUES[op.name](w, op)
        elif op.name in _EFFECTS:
            _EFFECTS[op.name](w, op)
        else:
            raise NoText(f"MLIR: no text for {op.name}")

    def _check(self, op: Op) -> None:
        following = self._label("checked")
        status = self.w.const(op.attrs["exc"] + 1, I32)
        self.w.line(f"cf.cond_br {self.w.use(op.operands[0]).name}, {following}, {FAILED}{typed([status])}")
        self._start(following)

    def _for(self, op: Op) -> None:
        w, body = self.w, op.regions[0]
        term = body.term
        assert term is not None
        lower, upper, step, *start = w.uses(op.operands)
        i, *carried = (w.define(p) for p in body.params)
        if any(map(_leaves_scf, [op, *body.nested_ops()])):
            self._for_of_blocks(op, i, carried)
            return
        results = [w.define(r) for r in op.results]

        def inside() -> list[Reg]:
            for inner in body.ops:
                self.op(inner)
            return w.uses(term.operands)
        head = f"scf.for {i.name} = {lower.name} to {upper.name} step {step.name}"
        w.for_(head, results, carried, start, inside, " : i64")

    def _for_of_blocks(self, op: Op, i: Reg, carried: list[Reg]) -> None:
        """Append a loop that ``scf.for`` cannot be."""
        w, body = self.w, op.regions[0]
        assert body.term is not None
        lower, upper, step, *start = w.uses(op.operands)
        head, inside, after = (self._label(stem) for stem in ("loop", "body", "after"))
        w.line(f"cf.br {head}{typed([lower, *start])}")
        self._start(head, [i, *carried])
        w.line(f"cf.cond_br {self._goes_on(op.operands[2], i, upper, step).name}, {inside}, {after}")
        self._start(inside)
        for inner in body.ops:
            self.op(inner)
        w.line(f"cf.br {head}{typed([w.op('arith.addi', i, step), *w.uses(body.term.operands)])}")
        self._start(after)
        for r, c in zip(op.results, carried):
            w.regs[r] = c

    def _goes_on(self, v: Value, i: Reg, upper: Reg, step: Reg) -> Reg:
        """True while the counter has not reached the bound, from either side; ``v`` is the step."""
        w = self.w
        below = w.compare("slt", i, upper)
        if v.const is not None and v.const > 0:
            return below
        return w.select(w.compare("sgt", step, w.const(0, I64)), below, w.compare("sgt", i, upper))

    # --- terminators --------------------------------------------------------------------------------

    def edge(self, edge: Edge, results: Sequence[Reg] = ()) -> str:
        return self.blocks[edge.block] + typed([*results, *self.w.uses(edge.args)])

    def _jump(self, op: Op) -> None:
        self.w.line(f"cf.br {self.edge(op.edges[0])}")

    def _branch(self, op: Op) -> None:
        self.w.line(f"cf.cond_br {self.w.use(op.operands[0]).name}, {', '.join(map(self.edge, op.edges))}")

    def _switch(self, op: Op) -> None:
        *cases, default = map(self.edge, op.edges)
        listed = [f"default: {default}", *(f"{i}: {case}" for i, case in enumerate(cases))]
        self.w.line(f"cf.switch {self.w.use(op.operands[0]).name} : i64, [{', '.join(listed)}]")

    def _call(self, op: Op) -> None:
        """The callee's results are the first arguments of the edge."""
        w, name = self.w, op.attrs["callee"]
        callee = self.module.functions[name]
        kinds = ["i32"] * (name in self.raises) + [types.register(t) for t in callee.result_types]
        results = [Reg(w.name(), t) for t in kinds]
        made = f"({types_of(w.uses(op.operands))}) -> ({', '.join(kinds)})"
        w.line(f"{names(results)} = " * bool(results)
               + f"func.call {global_name(name)}({names(w.uses(op.operands))}) : {made}")
        if name not in self.raises:
            w.line(f"cf.br {self.edge(op.edges[0], results)}")
            return
        status, *results = results
        fine = w.compare("eq", status, w.const(0, I32))
        w.line(f"cf.cond_br {fine.name}, {self.edge(op.edges[0], results)}, {FAILED}{typed([status])}")

    def _returned(self, op: Op) -> None:
        self._return([*([self.w.const(0, I32)] if self.may_raise else []), *self.w.uses(op.operands)])

    def _return(self, values: Sequence[Reg]) -> None:
        self.w.line(f"return {names(values)} : {types_of(values)}" if values else "return")

    def _raise(self, op: Op) -> None:
        self.w.line(f"cf.br {FAILED}{typed([self.w.const(op.attrs['exc'] + 1, I32)])}")


def _leaves_scf(op: Op) -> bool:
    """True if a loop that is this op, or that contains it, cannot be an ``scf.for``.

    Its region cannot be left by a failing check, and its step is positive.
    """
    return op.name == "check" or op.name == "for" and not (op.operands[2].const or 0) > 0


def _kinds(declared: Sequence[Any]) -> list[Any]:
    return list(declared)


def _undef(w: Writer, op: Op) -> Reg:
    return stacks.zero(w, type_of(op.result))


def _const(w: Writer, op: Op) -> Reg:
    return w.const(op.attrs["value"], op.attrs["type"])


def _dim(w: Writer, op: Op) -> Reg:
    n = buffers.size(w, w.use(op.operands[0]), op.attrs["axis"])
    w.is_index(op.result, n)
    return w.from_index(n)


def _load(w: Writer, op: Op) -> Reg:
    if isinstance(type_of(op.result), Vector):
        return lanes.load(w, op)
    b, *at = op.operands
    return buffers.load(w, w.use(b), [w.index(i) for i in at], buffer_type(b).dtype)


def _store(w: Writer, op: Op) -> None:
    if op.attrs.get("masked") or isinstance(type_of(op.operands[0]), Vector):
        lanes.store(w, op)
        return
    v, b, *at = op.operands
    buffers.store(w, w.use(v), w.use(b), [w.index(i) for i in at])


_VALUES: dict[str, Callable[[Writer, Op], Reg]] = {
    "const": _const, "undef": _undef, "dim": _dim, "load": _load, "gather": lanes.load, "alloc": buffers.alloc,
    "view": buffers.view, "reshape": buffers.reshape, "retype": buffers.retype, "splat": lanes.splat,
    "lane_ids": lanes.lane_ids, "fold_lanes": lanes.fold_lanes, "stack_empty": stacks.empty, "push": stacks.push,
}
_EFFECTS: dict[str, Callable[[Writer, Op], None]] = {
    "store": _store, "scatter": lanes.store, "matmul": products.matmul,
}
_TERMINATORS: dict[str, Callable[[FunctionText, Op], None]] = {
    "jump": FunctionText._jump, "branch": FunctionText._branch, "switch": FunctionText._switch,
    "call": FunctionText._call, "return": FunctionText._returned, "raise": FunctionText._raise,
}
COVERED = frozenset({*TABLE, *SPECIAL, *_VALUES, *_EFFECTS, "for", "check", "pop"})
"""The ops of the loop level that have a text."""
