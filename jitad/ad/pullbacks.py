"""Replaces pullbacks by their arguments in programs that are themselves differentiated in reverse.

The adjoint of a stack is a stack (``adjoints.py``).  That holds for a stack that is filled once and emptied once, like
those of the sweeps.  A pullback that a program holds (the arguments of a function and the stack of its forward sweep)
can be called twice or never, chosen by a branch, or carried through a loop: its adjoints would have to be added up, or
be zeros of unknown types.  So if such a program is differentiated in reverse, its pullbacks are the arguments alone,
and a call runs both sweeps.  The same holds for forward mode of a function that captures a pullback, whose frames have
no space for tangents:

* ``f.fwd(x) → y, tape`` becomes ``f(x) → y``, and the number 0 replaces the tape everywhere;
* ``f.bwd(x, y_bar, x_acc, tape) → x_bar`` becomes ``f.vjp(x, y_bar) → y, x_bar``, and ``x_bar + x_acc``.

Pairs of sweeps in which the reverse sweep directly follows the forward sweep remain.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import DifferentiationError
from ..ir.builder import Builder
from ..ir.graph import Block, Derived, Edge, Function, Module, Op, Value
from ..ir.types import I64, Array, Stack


def arguments_alone(module: Module) -> None:
    """Rewrite the module if necessary; must run before any derivative is made."""
    needing = [d.base for d in module.derived.values() if d.kind != "jvp" or _captures_a_tape(module, d)]
    if any(_held(module, module.functions[name]) for name in _reached(module, needing)):
        stacks = {f.name: [isinstance(t, Stack) for t in f.param_types] for f in module.functions.values()}
        for func, held in [(f, _held(module, f)) for f in module.functions.values()]:
            _rewrite(module, func, held, stacks)


def _captures_a_tape(module: Module, what: Derived) -> bool:
    """True if the derivative's function has a stack made outside, whose frames have no tangents, as a parameter."""
    base = module.functions.get(what.base)
    return base is not None and any(isinstance(t, Stack) and i not in what.wrt for i, t in enumerate(base.param_types))


def _reached(module: Module, names: list[str]) -> set[str]:
    """The functions that are called, or whose derivatives are called."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = module.derived[todo[-1]].base if todo[-1] in module.derived else todo[-1]
        todo.pop()
        if name in module.derived:
            todo.append(name)
        elif name not in found and name in module.functions:
            found.add(name)
            todo += module.functions[name].callees()
            todo += module.rules[name].functions if name in module.rules else ()
    return found


# --- choice of sweeps -------------------------------------------------------------------------------

def _sweep(module: Module, block: Block) -> Derived | None:
    """The derivative that the call at the end of a block calls, if it is a sweep, else None."""
    term = block.term
    what = module.derived.get(term.attrs["callee"]) if term is not None and term.name == "call" else None
    return what if what is not None and what.kind in ("fwd", "bwd") else None


def _is_forward(module: Module, block: Block) -> bool:
    what = _sweep(module, block)
    return what is not None and what.kind == "fwd" and what.base in module.functions


def _tape(module: Module, there: Block) -> Value:
    """The stack that a forward sweep returns."""
    what = _sweep(module, there)
    assert what is not None and there.term is not None
    return there.term.edges[0].block.params[len(module.functions[what.base].result_types)]


def _held(module: Module, func: Function) -> list[Block]:
    """The blocks that end in a sweep which is not in a pair of directly consecutive sweeps."""
    sweeps = [b for b in func.blocks if _sweep(module, b) is not None]
    paired: set[Block] = set()
    for there in sweeps:
        back = _straight_back(module, func, there)
        paired |= {there, back} if back is not None else set()
    return [b for b in sweeps if b not in paired]


def _straight_back(module: Module, func: Function, there: Block) -> Block | None:
    """The block that ends in the reverse sweep for this forward sweep; None if the stack has another use."""
    what = _sweep(module, there)
    if not _is_forward(module, there) or what is None or any(
            isinstance(t, Stack) for t in module.functions[what.base].param_types):
        return None
    tape = _tape(module, there)
    block = tape.block
    uses = [op for op in func.all_ops() for v in op.used() if v is tape]
    preds = func.predecessors()
    while len(preds[block]) == 1 and block.term is not None:
        if block.term in uses:
            return block if len(uses) == 1 and block.term.operands[-1:] == [tape] else None
        if len(block.term.edges) != 1:
            return None
        block = block.term.edges[0].block
    return None


# --- rewriting ----------------------------------------------------------------------------------------

def _rewrite(module: Module, func: Function, held: list[Block], stacks: dict[str, list[bool]]) -> None:
    stay = {_tape(module, b) for b in func.blocks if _is_forward(module, b) and b not in held}
    for block in held:
        what = _sweep(module, block)
        assert what is not None
        if what.kind == "fwd":
            _forward(module, block, what)
        else:
            _both(module, block, what, stacks[what.base])
    func.result_types = [I64 if isinstance(t, Stack) else t for t in func.result_types]
    for block in func.blocks:
        for op in block.ops:
            if op.name in ("undef", "stack_empty") and isinstance(op.result.type, Stack):
                op.name, op.attrs, op.result.type = "const", {"value": 0, "type": I64}, I64
        for v in block.params:
            v.type = I64 if isinstance(v.type, Stack) and v not in stay else v.type


def _taken_off(block: Block) -> tuple[Op, Edge, Builder]:
    """The call that ends a block, removed; its continuation edge; and a builder in its place."""
    call = block.term
    assert call is not None
    block.term = None
    return call, call.edges[0], Builder(block, call.loc)


def _forward(module: Module, block: Block, what: Derived) -> None:
    call, edge, b = _taken_off(block)
    types = [p.type for p in edge.block.params[:len(module.functions[what.base].result_types)]]
    results = b.call_then(what.base, call.operands, types)
    b.jump(edge.block, [*results, b.const(0), *edge.args])


def _both(module: Module, block: Block, what: Derived, stacks: list[bool]) -> None:
    base = module.functions[what.base]
    if base.own:
        raise DifferentiationError("the derivative of a pullback of a function that changes its argument", base.loc,
                                   "copy the argument in that function")
    call, edge, b = _taken_off(block)
    given = iter(call.operands)
    params = [b.const(0) if stack else next(given) for stack in stacks]
    arrays = sum(isinstance(base.params[i].type, Array) for i in what.wrt)
    rest = list(given)[:-1]
    seeds, accumulators = rest[:len(rest) - arrays], iter(rest[len(rest) - arrays:])
    types = [*base.result_types, *(p.type for p in edge.results)]
    values = b.call_then(module.derive(what.base, "vjp", what.wrt), [*params, *seeds], types)
    found = [_added(b, x_bar, accumulators) for x_bar in values[len(base.result_types):]]
    b.jump(edge.block, [*found, *edge.args])


def _added(b: Builder, x_bar: Value, accumulators: Iterator[Value]) -> Value:
    if not isinstance(x_bar.type, Array):
        return x_bar
    total = b.emit("add", next(accumulators), x_bar, acc=True)
    return b.typed(total, x_bar.type)
