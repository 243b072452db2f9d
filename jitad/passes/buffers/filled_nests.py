"""Nests of counted loops that store to each element of a box of an array, and do nothing else with the array.

The innermost iteration stores to ``a[i + c, j + d]``, with the counters of the loops and constants, the *offsets*.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.graph import Function, Op, Value
from ...ir.uses import users
from ..analysis.affine import AffineForms
from ..analysis.cfg import reached
from ..analysis.loops import Counted, Loop, always_runs, counted, loop_forest
from ..analysis.sizes import Sizes


@dataclass
class Nest:
    """A nest, outermost loop first, and the parameters that carry the array which ``store`` updates."""

    store: Op
    loops: list[Loop]
    known: list[Counted]
    offsets: list[int]
    params: list[Value]


class Nests:
    """Looks for the nests of a function of normal form."""

    def __init__(self, func: Function) -> None:
        self.func, self.forest = func, loop_forest(func)
        self.readers = users(func.all_ops())
        self.sizes, self.forms = Sizes(func), AffineForms()

    def nest(self, store: Op) -> Nest | None:
        """The nest in which ``store`` is all that happens to its array, if each iteration executes it."""
        found = self.loops(store, store.operands[2:])
        if found is None:
            return None
        loops, known, offsets = found
        if any(k.trip.const is None and k.trip.block in loops[0].blocks for k in known):
            return None
        params = self._params(store, loops)
        return Nest(store, loops, known, offsets, params) if params is not None else None

    def loops(self, op: Op, indices: list[Value]) -> tuple[list[Loop], list[Counted], list[int]] | None:
        """The loops around ``op`` whose counters, plus offsets, are ``indices``; each iteration executes ``op``."""
        assert op.block is not None
        loop, loops, known, offsets = self.forest.loop_of(op.block), list[Loop](), list[Counted](), list[int]()
        for index in reversed(indices):
            k = counted(loop) if loop is not None else None
            if loop is None or k is None or loop.exit is None:
                return None
            rest = self.forms.of(index).minus(self.forms.of(k.iv))
            if rest.terms:
                return None
            loops.insert(0, loop)
            known.insert(0, k)
            offsets.insert(0, rest.constant)
            loop = loop.parent
        latch = loops[-1].latch if loops else None
        if latch is None or not self.forest.dom.dominates(op.block, latch):
            return None
        runs = all(outer.latch is not None and always_runs(self.forest, inner, outer.latch)
                   for outer, inner in zip(loops, loops[1:]))
        return (loops, known, offsets) if runs else None

    def _params(self, store: Op, loops: list[Loop]) -> list[Value] | None:
        """The parameters that carry the array into each loop, if it goes nowhere else but through the store."""
        now, outwards = store.operands[0], list[Value]()
        left: set[Value] = {store.result}
        for loop in reversed(loops):
            if now.owner is not loop.head or loop.back_edge().argument(now) not in left:
                return None
            outwards.append(now)
            if loop is loops[0]:
                break
            around = loop.parent
            assert around is not None
            before, now = now, loop.entry_edge().args[now.index]
            found = self._behind(loop, around, left, now)
            if found is None or not self._is_used_by(now, {before}, found):
                return None
            left = found
        if self.readers.get(store.result) and any(not op.edges for op in self.readers[store.result]):
            return None
        return outwards[::-1] if self._is_used_by(outwards[0], set(), set(), store) else None

    def _behind(self, inner: Loop, around: Loop, left: set[Value], untouched: Value) -> set[Value] | None:
        """What the array is behind ``inner``, up to the end of an iteration of ``around``; None if it may be read."""
        assert inner.exit is not None
        behind = reached([inner.exit], lambda b: [s for s in b.successors() if s is not around.head])
        found, todo = set[Value](), [q for q, a in inner.exit_edge().passed() if a in left]
        while todo:
            v = todo.pop()
            if v in found or v.block is around.head or v.block not in around.blocks:
                continue
            found.add(v)
            for op in self.readers.get(v, ()):
                if not op.edges or op.name == "call":
                    return None
                todo += [q for e in op.edges for q, a in e.passed() if a is v]
        for v in found:
            for source in self.forest.dom.preds[v.block]:
                assert source.term is not None
                for e in (e for e in source.term.edges if e.block is v.block):
                    a = e.argument(v)
                    inside = a in found or a in left and e is inner.exit_edge()
                    if not inside and not (a is untouched and source not in behind):
                        return None
        return found

    def _is_used_by(self, v: Value, params: set[Value], joins: set[Value], store: Op | None = None) -> bool:
        """True if ``v`` is only passed to the inner loop and around it, or updated by ``store``."""
        for op in self.readers.get(v, ()):
            if op is store:
                if op.operands.count(v) > 1:
                    return False
            elif not op.edges:
                if op.name != "dim":
                    return False
            elif op.name == "call" or any(a is v and q not in params and q not in joins
                                          for e in op.edges for q, a in e.passed()) or v in op.operands:
                return False
        return True

