"""Parts of a host function that become device functions: bodies of loops.

The body of a ``for``, or of several within one another, becomes a function of the induction variables, the carried
values, and what it reads from outside::

    for %i = 0 to %n { for %j = 0 to %m { store (load %a, %i, %j), %b, %j, %i } }
    ⟶ @f.nest(%i, %j, %a, %b) { store (load %a, %i, %j), %b, %j, %i }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ....ir.graph import Function, Module, Op, Value
from ....loop_level.nest_shape import captured_by, perfect_nest
from ....loop_level.types import as_types, buffer_type, type_of


@dataclass(frozen=True)
class Nest:
    """An independent nest.

    ``loops``: the ``for`` ops, the outermost first.  ``carried``: the initial values of its reductions, ``kinds`` their
    names, ``results`` the values after it.  ``captured``: what the body reads from outside.
    """

    body: Function
    loops: tuple[Op, ...]
    kinds: tuple[str, ...]
    carried: tuple[Value, ...]
    results: tuple[Value, ...]
    captured: tuple[Value, ...]


def nest(module: Module, op: Op, func: Function) -> Nest:
    """The nest that begins with an independent ``for``."""
    loops = perfect_nest(op)
    innermost = loops[-1].regions[0]
    assert innermost.term is not None
    ivs = [x.regions[0].params[0] for x in loops]
    carried = innermost.params[1:]
    captured = captured_by(innermost.all_ops(), [*ivs, *carried])
    body = function(module, f"{func.name}.nest", [*ivs, *carried, *captured], innermost.ops, innermost.term.operands)
    body.loc = next((x.loc for x in innermost.all_ops() if x.loc.line), op.loc)
    kinds = tuple(op.attrs.get("reductions", ()))
    return Nest(body, tuple(loops), kinds, tuple(op.operands[3:]), tuple(op.results), tuple(captured))


def function(module: Module, name: str, params: Sequence[Value], ops: Iterable[Op], results: Sequence[Value]
             ) -> Function:
    """A function of these ops, which are then in two functions; its parameters are values of the other one."""
    func = Function(module.unique_name(name), (), as_types([type_of(v) for v in results]))
    func.blocks[0].params = list(params)
    func.blocks[0].ops = list(ops)
    func.blocks[0].term = Op("return", results)
    module.add(func)
    return func


def fill(loops: Sequence[Op]) -> tuple[Value, int] | None:
    """The buffer that a nest fills with one byte, and the byte; None if it does anything else.

    ``loops``: the nest, the outermost loop first.
    """
    body = loops[-1].regions[0]
    (store, *others) = body.ops or (None,)
    if store is None or others or store.name != "store" or loops[0].operands[3:]:
        return None
    x, b, *at = store.operands
    made = b.op
    whole = made is not None and made.name == "alloc" and list(made.operands) == [op.operands[1] for op in loops]
    counts = all(op.operands[0].const == 0 and op.operands[2].const == 1 for op in loops)
    if x.const is None or not whole or not counts or at != [op.regions[0].params[0] for op in loops]:
        return None
    data = set(np.array(x.const, buffer_type(b).dtype.np).tobytes())
    return (b, data.pop()) if len(data) == 1 else None
