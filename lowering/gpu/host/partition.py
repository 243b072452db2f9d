"""Decides where each part of a program runs: functions of the host, kernels, serial parts in one thread.

A *parallel* op is a ``for`` of more than a few iterations that is independent or one of ``patterns``, a large product
of matrices, or the call of an outlined loop.  A function is of the host if it contains one, directly or in a callee;
all others are device functions.  In a function of the host, a loop without parallel ops becomes one of a thread::

    ^before: jump ^head(%x)                 ^before: %y = serial {callee = "f.serial"} %x
    ^head(%p): …                        ⟶            jump ^after(%y)
      branch %c, ^head(%q), ^after(%r)

So does a run of ops on elements of arrays: each would be a transfer of its own (``serial_runs``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ....ir.dominance import strongly_connected
from ....ir.graph import Block, Edge, Function, Module, Op, Value
from ....ir.types import Stack
from ....loop_level.nest_shape import captured_by, defined, read
from ....loop_level.types import as_types, buffer_type, type_of
from ....passes.analysis.loops import Loop, loop_forest, raising_blocks
from ..device.recurrence_patterns import is_carried_parallel
from .nests import function
from .residence import Residence, is_arithmetic

FEW = 32
"""Iterations of a loop that is not worth a kernel: less than a warp."""
SERIAL = "serial"
ONCE = "once"
"""The attribute of a loop that the host makes to check indices of which a kernel checks none (``index_checks``)."""


def reached(module: Module, func: Function) -> set[str]:
    """The functions that a function may call, directly or not."""
    found, todo = set[str](), [func]
    while todo:
        new = set(todo.pop().callees()) - found
        found |= new
        todo += [module.functions[name] for name in sorted(new)]
    return found


def recursive(module: Module) -> frozenset[str]:
    """The functions that may call themselves."""
    graph = {name: f.callees() for name, f in module.functions.items()}
    knots = strongly_connected(graph, list(graph))
    return frozenset(name for knot in knots for name in knot if len(knot) > 1 or name in graph[name])


def is_parallel(op: Op) -> bool:
    """True if a kernel of many threads is to run the op."""
    if op.name == "for":
        return not 0 <= _most_iterations(op) < FEW and (bool(op.attrs.get("independent")) or is_carried_parallel(op))
    if op.name == "matmul":
        out = buffer_type(op.operands[0])
        return None in out.dims or _product(out.dims) >= FEW
    return op.name == "call" and "threads" in op.attrs


def _product(dims: Iterable[int | None]) -> int:
    out = 1
    for d in dims:
        out *= d or 0
    return out


def _most_iterations(op: Op) -> int:
    """The iterations of a loop times those of the loops in it, −1 if they are not known."""
    lower, upper, step = (v.const for v in op.operands[:3])
    if None in (lower, upper, step):
        return -1
    count = len(range(lower, upper, step))
    for inner in op.regions[0].ops:
        if inner.name == "for":
            n = _most_iterations(inner)
            if n < 0:
                return -1
            count *= max(n, 1)
    return count


def host_functions(module: Module, root: str) -> set[str]:
    """The functions that the host runs."""
    calls = {name: set(f.callees()) for name, f in module.functions.items()}
    outlined = {op.attrs["callee"] for f in module.functions.values() for b in f.blocks for op in b.all_ops()
                if op.name == "call" and "threads" in op.attrs}
    found = {root} | {name for name, f in module.functions.items()
                      if any(is_parallel(op) for b in f.blocks for op in b.nested_ops())}
    changed = True
    while changed:
        more = {name for name in calls if calls[name] & (found - outlined)} - found
        more |= {name for host in found - outlined for name in calls[host] - outlined
                 if _passes_stacks(module.functions[name])} - found
        changed = bool(more)
        found |= more
    reached, todo = set[str](), [root]
    while todo:
        name = todo.pop()
        if name in found and name not in reached and (name == root or name not in outlined):
            reached.add(name)
            todo += calls[name]
    return reached


def _passes_stacks(func: Function) -> bool:
    """True if frames go to or from its caller, which is of the host and keeps its frames there."""
    return any(isinstance(type_of(v), Stack) for v in func.params) or any(
        isinstance(t, Stack) for t in func.result_types)


# --- loops of blocks --------------------------------------------------------------------------------------

def serial_loops(module: Module, func: Function, host: set[str]) -> None:
    """Make functions of the outermost loops of blocks that have nothing for the host to do."""
    forest = loop_forest(func)
    raising = raising_blocks(forest.dom)
    todo = list(forest.roots)
    while todo:
        loop = todo.pop()
        region = loop.region(raising)
        if loop.preheader is None or loop.exit is None or any(needs_host(op, host) for b in region for op in
                                                              b.nested_ops()) or not _is_closed(func, loop, region):
            todo += loop.children
        else:
            _cut(module, func, loop, [b for b in forest.dom.order if b in region])


def needs_host(op: Op, host: set[str]) -> bool:
    if op.name == "call" and "threads" not in op.attrs:
        return op.attrs["callee"] in host
    return is_parallel(op) or op.name in ("push", "pop", "stack_empty")


def _is_closed(func: Function, loop: Loop, region: set[Block]) -> bool:
    """True if nothing outside reads what the loop computes but through its exit, and it leaves by that alone."""
    inside = {v for b in region for v in (*b.params, *defined(b.ops))}
    outside = (v for b in func.blocks if b not in region for v in read(b.all_ops()))
    leaves = [e.block for b in region for e in (b.term.edges if b.term else ()) if e.block not in region]
    return not any(v in inside for v in outside) and leaves == [loop.exit]


def _cut(module: Module, func: Function, loop: Loop, order: list[Block]) -> None:
    """Replace a loop by an op ``serial``."""
    before, leaving, entry = loop.preheader, loop.exit_edge(), loop.entry_edge()
    assert before is not None and before.term is not None
    captured = captured_by([op for b in order for op in b.all_ops()], [p for b in order for p in b.params])
    starts = list(entry.args)
    body = Function(module.unique_name(f"{func.name}.{SERIAL}"), (), as_types([v.type for v in leaving.args]))
    body.loc = before.term.loc
    first = body.entry
    first.params = list(captured)
    inits = [Value(v.type, first, len(captured) + k) for k, v in enumerate(starts)]
    first.params += inits
    first.term = Op("jump", [], edges=[Edge(loop.head, list(inits))], loc=before.term.loc)
    done = body.new_block("done")
    results = [done.add_param(v.type) for v in leaving.args]
    done.term = Op("return", results)
    body.blocks = [first, *order, done]
    for b in order:
        b.func = body
    op = Op(SERIAL, [*captured, *starts], as_types([v.type for v in leaving.args]), {"callee": body.name},
            loc=before.term.loc)
    op.block = before
    before.ops.append(op)
    before.term = Op("jump", [], edges=[Edge(leaving.block, list(op.results))], loc=before.term.loc)
    before.term.block = before
    leaving.block = done
    func.blocks = [b for b in func.blocks if b not in order]
    func.control = None
    module.add(body)


# --- runs of ops ------------------------------------------------------------------------------------------

_ELEMENT = ("load", "store")


def serial_runs(module: Module, func: Function, host: set[str], root: str) -> None:
    """Make functions of runs of ops on elements, and on scalars of the device, and of loops that one thread runs."""
    resident = Residence(func, func.name == root, lambda op: is_parallel(op) or _is_serial(op, host), host)
    for block in func.blocks:
        _runs_of(module, func, block, host, resident)


def _runs_of(module: Module, func: Function, block: Block, host: set[str], resident: Residence) -> None:
    out: list[Op] = []
    run: list[Op] = []
    made: set[Value] = set()

    def flush() -> None:
        out.extend(_serial(module, func, block, run, resident))
        run.clear()
        made.clear()
    for op in block.ops:
        on_device = _may_run(op) and any(v in made for v in read([op])) or _is_of_device(op, resident)
        if op.name in _ELEMENT or _is_serial(op, host) or on_device:
            run.append(op)
            made |= set(defined([op]))
            continue
        if op.name == "check" and not any(x.name == "check" for x in run):
            out.append(op)                           # of what the host knows; the run has not failed before it
            continue
        if any(v in made for v in read([op])) or op.name in ("for", "matmul", "check", SERIAL, "push", "pop"):
            flush()
        out.append(op)                               # reads nothing of the run, which may come after it
        for region in op.regions if op.name == "for" and not is_parallel(op) else ():
            _runs_of(module, func, region, host, resident)
    flush()
    block.ops = out


def _is_serial(op: Op, host: set[str]) -> bool:
    """True for a loop, or a product, that one thread runs."""
    return op.name in ("for", "matmul") and not is_parallel(op) and not any(
        needs_host(inner, host) for region in op.regions for inner in region.nested_ops())


def _may_run(op: Op) -> bool:
    """True if a thread can run an op that depends on what a run computes."""
    return is_arithmetic(op) or op.name == "check"


def _is_of_device(op: Op, resident: Residence) -> bool:
    """True for arithmetic on scalars of the device whose result stays there, and for checks that depend on them."""
    return is_arithmetic(op) and op.result in resident or op.name == "check" and any(
        v in resident for v in op.operands)


def _serial(module: Module, func: Function, block: Block, run: Sequence[Op], resident: Residence) -> list[Op]:
    """The run as one op, or as it is if it is a single access at indices that the host knows."""
    if not run or len(run) == 1 and run[0].name in _ELEMENT and not any(v in resident for v in _indices(run[0])):
        return list(run)
    inner = [v for op in run for v in op.results]
    outside = set(_read_elsewhere(func, set(run)))
    results = [v for v in inner if v in outside]
    params = captured_by(run, [])
    body = function(module, f"{func.name}.{SERIAL}", params, run, results)
    body.loc = next((op.loc for op in run if op.loc.line), func.loc)
    op = Op(SERIAL, params, (), {"callee": body.name, "results": tuple(results)}, loc=body.loc)
    op.block = block
    return [op]


def _indices(op: Op) -> Sequence[Value]:
    return op.operands[2 if op.name == "store" else 1:]


def _read_elsewhere(func: Function, skipped: set[Op]) -> Iterator[Value]:
    """The values that ops other than ``skipped`` read."""
    todo = list(func.blocks)
    while todo:
        for op in todo.pop().all_ops():
            if op not in skipped:
                yield from op.used()
                todo += op.regions
