"""Hoists checks of indices out of whole nests of counted loops: the largest index is compared once, ahead of the nest.

An index that is a counter, or a sum of counters, takes all values from the first to the last, so the check fails in
some iteration exactly if it fails for the largest::

    ^preheader:                                    ^preheader:
      jump ^loop(0)                                  check n <= a or m <= 0
                                     becomes         check m <= b
    ^loop(i):                                        jump ^loop(0)
      … ^inner(j):                                 ^loop(i):
          check i < a                                … ^inner(j): …
          check j < b

``n`` and ``m`` are the trip counts.  A check is not executed if a loop around it has no iteration.  The first index
that is out of bounds is the bound itself, which the message shows.  If several checks fail, that of the innermost loop
is reported, which is the first one to fail unless an array is empty.

The nest must do nothing else that could be seen: no calls, no other checks, no conditions around the checks.  A failing
program then raises without the work that would be lost.  What is left can be interchanged, tiled and run in lanes, in
the derivative too.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ..analysis.affine import AffineForms
from ..analysis.loops import Loop, loop_forest
from .regular import Regular, is_fixed

NEAR = 1 << 30
"""The bound of constants in an index.  Sizes of arrays are far below 2⁶², so that sums of both do not wrap."""


def check_hoisting(module: Module) -> bool:
    """Hoist in every nest, outer loops first; returns True if a check has moved."""
    index_errors = {i for i, e in enumerate(module.exceptions) if e.kind == "IndexError"}
    changed = False
    for func in module.functions.values():
        if any(op.name == "check" and op.attrs["exc"] in index_errors for op in func.all_ops()):
            changed |= _hoist(func, index_errors)
    return changed


def _hoist(func: Function, index_errors: set[int]) -> bool:
    regular = Regular(loop_forest(func))
    changed = False
    done: set[Loop] = set()
    for loop in reversed(regular.forest.loops):                  # outer loops first
        if loop.parent in done:
            done.add(loop)
            continue
        if not regular.only_computes(loop):
            continue
        done.add(loop)
        checks = [op for b in sorted(loop.blocks, key=regular.dom.number.__getitem__) for op in b.ops
                  if op.name == "check"]
        forms = AffineForms()
        found = [_index_check(regular, forms, loop, op, index_errors) for op in checks]
        if checks and None not in found:
            _move(regular, loop, [c for c in found if c is not None])
            changed = True
        elif checks:
            done.remove(loop)                                    # perhaps an inner nest
    return changed


@dataclass
class _IndexCheck:
    """``op`` checks that ``first`` plus the counters of ``loops`` is below ``size``.

    ``around``: the loops that must have an iteration, inner ones first.
    """

    op: Op
    first: int
    loops: list[Loop]
    size: Value
    around: list[Loop]


def _index_check(regular: Regular, forms: AffineForms, outer: Loop, op: Op, index_errors: set[int]) -> \
        _IndexCheck | None:
    """The check ``op`` in a nest if it can be hoisted."""
    test = op.operands[0].op
    assert op.block is not None
    if test is None or test.name != "lt" or op.attrs["exc"] not in index_errors:
        return None
    index, size = test.operands
    needed = regular.always(op.block, outer)
    if needed is None or size.block in outer.blocks or size.op is None or not _is_size(size.op):
        return None
    around = [*needed, outer]
    if not all(is_fixed(regular.known[x].trip, outer) for x in around):
        return None
    form = forms.of(index)
    counters = {regular.known[x].iv: x for x in around}
    loops = [counters[v] for v, times in form.terms if times == 1 and v in counters]
    if not loops or len(loops) < len(form.terms) or not 0 <= form.constant < NEAR:
        return None
    if not all(v is index or is_fixed(v, outer) for v in op.operands[1:]):
        return None
    return _IndexCheck(op, form.constant, loops, size, around)


def _is_size(op: Op) -> bool:
    """True if ``op`` is the size of an array, or a constant that may be one."""
    return op.name == "dim" or op.name == "const" and 0 <= op.attrs["value"] < NEAR


def _move(regular: Regular, loop: Loop, checks: list[_IndexCheck]) -> None:
    before = loop.preheader
    assert before is not None and before.term is not None
    term, before.term = before.term, None
    b = Builder(before)
    for c in sorted(checks, key=lambda c: -len(c.around)):
        b.loc = c.op.loc
        holds = _holds(b, regular, c)
        for other in c.around[:-1]:                              # the outermost loop is executed
            if [other] != c.loops:
                holds = b.or_(holds, b.le(_fixed(b, regular.known[other].trip), 0))
        failing = c.size if not c.first else b.maximum(c.size, c.first)
        test = c.op.operands[0].op
        assert test is not None and c.op.block is not None
        b.check(holds, c.op.attrs["exc"], *(failing if v is test.operands[0] else _fixed(b, v)
                                            for v in c.op.operands[1:]))
        c.op.block.ops.remove(c.op)
    before.term = term


def _holds(b: Builder, regular: Regular, c: _IndexCheck) -> Value:
    """Emit the condition that the largest index is below the size; no sum wraps, as each count is compared before."""
    trips = [_fixed(b, regular.known[x].trip) for x in c.loops]
    each = [b.le(n, c.size) for n in trips]
    holds = each[0]
    for other in each[1:]:
        holds = b.and_(holds, other)
    if c.first or len(trips) > 1:
        end = b.const(c.first - len(trips) + 1)
        for n in trips:
            end = b.add(end, n)
        holds = b.and_(holds, b.le(end, c.size))
    return holds


def _fixed(b: Builder, v: Value) -> Value:
    return v if v.const is None else b.const(v.const, v.type)       # type: ignore[arg-type]


