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
from ....ir.types import Scalar
from ....loop_level.nest_shape import captured_by, perfect_nest
from ....loop_level.types import as_types, buffer_type, type_of
from ..device.patterns import Scan, needed_for
from ..device.recurrence_patterns import Recurrence
from ..kernels.scans import Body
from ..kernels.turned import Turned
from ..kernels.wide import Wide


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
    """The nest that begins with an independent ``for``, or a search."""
    loops = loops_of(op)
    innermost = loops[-1].regions[0]
    assert innermost.term is not None
    ivs = [x.regions[0].params[0] for x in loops]
    carried = innermost.params[1:]
    captured = captured_by(innermost.all_ops(), {*ivs, *carried})
    body = function(module, f"{func.name}.nest", [*ivs, *carried, *captured], innermost.ops, innermost.term.operands)
    body.loc = next((x.loc for x in innermost.all_ops() if x.loc.line), op.loc)
    kinds = ("arg" + op.attrs["best"],) * 2 if "best" in op.attrs else tuple(op.attrs.get("reductions", ()))
    return Nest(body, tuple(loops), kinds, tuple(op.operands[3:]), tuple(op.results), tuple(captured))


def private(op: Op, captured: Sequence[Value], func: Function) -> set[Value]:
    """The arrays that a nest captures and nothing outside of it uses."""
    made = {v for v in captured if v.op is not None and v.op.name == "alloc" and v.op.attrs["kind"] != "result"}
    if not made:
        return made
    inside = {x for region in op.regions for x in region.nested_ops()}
    return made - {v for block in func.blocks for x in block.nested_ops() if x not in inside for v in x.used()}


def additions(module: Module, loops: Sequence[Op], b: Value, func: Function) -> Nest:
    """A nest that adds to elements of ``b``, which its body takes as if it were carried, and returns."""
    region = loops[-1].regions[0]
    ivs = [x.regions[0].params[0] for x in loops]
    captured = captured_by(region.all_ops(), {*ivs, b})
    body = function(module, f"{func.name}.nest", [*ivs, b, *captured], region.ops, [b])
    body.loc = next((x.loc for x in region.all_ops() if x.loc.line), loops[0].loc)
    return Nest(body, tuple(loops), (), (b,), (), tuple(captured))


def overwrites(module: Module, loops: Sequence[Op], store: Op, func: Function) -> tuple[Nest, Function]:
    """A nest that stores to elements of an array: its body as a function to the value and its place, and one that
    returns the place alone."""
    region = loops[-1].regions[0]
    value, b, *at = store.operands
    ivs, ops = [x.regions[0].params[0] for x in loops], [op for op in region.ops if op is not store]
    captured = [v for v in captured_by([*region.all_ops()], set(ivs)) if v is not b]
    body = function(module, f"{func.name}.nest", [*ivs, *captured], ops, [value, *at])
    place = function(module, f"{func.name}.place", [*ivs, *captured], needed_for(region, at), at)
    body.loc = place.loc = next((x.loc for x in region.all_ops() if x.loc.line), loops[0].loc)
    return Nest(body, tuple(loops), (), (b,), (), tuple(captured)), place


def columns(module: Module, loops: Sequence[Op], func: Function) -> tuple[Nest, list[Op]]:
    """A nest whose body returns the value and the place of each of its stores, and these stores."""
    region = loops[-1].regions[0]
    ivs, stores = [x.regions[0].params[0] for x in loops], [op for op in region.ops if op.name == "store"]
    captured = captured_by(region.all_ops(), set(ivs))
    body = function(module, f"{func.name}.column", [*ivs, *captured], [op for op in region.ops if op not in stores],
                    [v for op in stores for v in (op.operands[0], *op.operands[2:])])
    body.loc = next((x.loc for x in region.all_ops() if x.loc.line), loops[0].loc)
    return Nest(body, tuple(loops), (), (), (), tuple(captured)), stores


def elementwise(module: Module, loops: Sequence[Op], found: Wide, captured: Sequence[Value], func: Function
                ) -> Function:
    """The body of a nest as a function of the elements that it loads, and of what is captured, to those it stores."""
    region = loops[-1].regions[0]
    ops = [op for op in region.ops if op not in found.loads and op not in found.stores]
    return function(module, f"{func.name}.element", [*(op.result for op in found.loads), *captured], ops,
                    [op.operands[0] for op in found.stores])


def across(module: Module, loops: Sequence[Op], found: Turned, func: Function) -> tuple[Nest, Function]:
    """A nest whose body takes elements that are loaded across lines, and the function that loads these."""
    region = loops[-1].regions[0]
    ivs, elements = [x.regions[0].params[0] for x in loops], [op.result for op in found.loads]
    captured = captured_by(region.all_ops(), set(ivs))
    fetch = function(module, f"{func.name}.fetch", [*ivs, *captured], found.loads, elements)
    body = function(module, f"{func.name}.nest", [*ivs, *elements, *captured],
                    [op for op in region.ops if op not in found.loads], [])
    body.loc = fetch.loc = next((x.loc for x in region.all_ops() if x.loc.line), loops[0].loc)
    return Nest(body, tuple(loops), (), (), (), tuple(captured)), fetch


@dataclass(frozen=True)
class ScanParts:
    """A scan: the functions of its terms and of its steps (``kernels/scans.py``), and what both capture."""

    body: Body
    captured: tuple[Value, ...]


def scan(module: Module, op: Op, found: Scan, func: Function) -> ScanParts:
    """The functions of a scan.

    ::

        for %i (%p) { %x = load %a, %i;  %t = add %p, %x;  store %t, %b, %i;  yield %t }
        ⟶ @f.term(%i, %a, %b) { %x = load %a, %i;  return %x }
           @f.step(%i, %p, %x, %a, %b) { %t = add %p, %x;  store %t, %b, %i;  return %t }
    """
    region = op.regions[0]
    iv, carried = region.params
    captured = captured_by(region.all_ops(), {iv, carried})
    made = found.term.op if found.term.op in region.ops else None
    term = function(module, f"{func.name}.term", [iv, *captured], found.ops, [found.term])
    step = function(module, f"{func.name}.step", [iv, carried, *([found.term] if made else []), *captured],
                    [x for x in region.ops if x is not made], [found.total.result])
    term.loc = step.loc = next((x.loc for x in region.all_ops() if x.loc.line), op.loc)
    dtype = found.total.result.type
    assert isinstance(dtype, Scalar)
    return ScanParts(Body(found.role, dtype, term, step, made is not None, found.compacts), tuple(captured))


def recurrence(module: Module, op: Op, found: Recurrence, func: Function) -> ScanParts:
    """The functions of a linear recurrence, whose term is the pair of ``a`` and ``b``."""
    region = op.regions[0]
    iv, ops = region.params[0], [x for x in region.ops if x is not found.read]
    captured = captured_by([*ops, *found.ops, Op("return", [found.after])], {iv, found.before})
    term = function(module, f"{func.name}.term", [iv, *captured], found.ops, [found.a, found.b])
    step = function(module, f"{func.name}.step", [iv, found.before, *captured], ops, [found.after])
    term.loc = step.loc = next((x.loc for x in region.all_ops() if x.loc.line), op.loc)
    return ScanParts(Body("affine", found.type, term, step, False, False), tuple(captured))


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


def loops_of(op: Op) -> list[Op]:
    """The nest that begins with an independent ``for``; of others the first loop."""
    return perfect_nest(op) if op.attrs.get("independent") else [op]
