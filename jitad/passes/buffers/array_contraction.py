"""Computes the elements of a scratch array where another nest reads them, so that no array is stored.

::

    for i: l[i + 1] = v[i] - 2 * v[i + 1] + v[i + 2]
    for i: w[i + 1] = v[i + 1] + c * l[i + 1]             →      for i: w[i + 1] = v[i + 1] + c * (v[i] - …)

The *producer* is a nest that stores to each element of a box (``filled_nests``); the *consumer* is one with as many
iterations that loads each of these elements, once.  What is stored is arithmetic on scalars and on elements of other
arrays.  As arrays are values, these are the same in the consumer, although that may update one of them: as where
``v[i + 1] = l[i + 1]`` copies a step in time back.  Nothing else reads the array, or what it is later.

The producer and the consumer follow one another in the same loop, so nothing is computed more often.  Transcendental
functions stay in the producer, which computes them in vectors, whatever the consumer does.
"""

from __future__ import annotations

from ...ir.clone import clone_op
from ...ir.expression_keys import same
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import OPS, TRANSCENDENTAL
from ...ir.types import Array, Scalar
from ..analysis.cfg import is_pure
from ..analysis.loops import Loop, always_runs
from .filled_nests import Nest, Nests

LARGEST = 40
"""The most ops that compute an element."""


def array_contraction(module: Module) -> bool:
    """Rewrite all such pairs of nests; expects normal form.  Returns True if there was one."""
    return any([_of_function(func) for func in module.functions.values()])


def _of_function(func: Function) -> bool:
    stores = [op for op in func.all_ops() if op.name == "set" and isinstance(op.operands[1].type, Scalar)]
    if not stores:
        return False
    search, found = _Search(func), False
    for store in stores:
        nest = search.nest(store)
        load = search.load(nest) if nest is not None else None
        if nest is not None and load is not None:
            found |= search.contract(nest, load)
    return found


class _Search(Nests):
    def load(self, nest: Nest) -> Op | None:
        """The only op that reads the array behind a producer, if it is in a consumer."""
        outer, array = nest.loops[0], nest.params[0]
        todo = [q for q, a in outer.exit_edge().passed() if a is outer.back_edge().argument(array)]
        seen, loads = {*nest.params, nest.store.result}, list[Op]()
        while todo:
            v = todo.pop()
            if v in seen:
                continue
            seen.add(v)
            for op in self.readers.get(v, ()):
                if op.name == "get":
                    loads.append(op)
                elif op.name == "call" or v in op.operands and op.name != "dim":
                    return None
                todo += [q for e in op.edges for q, a in e.passed() if a is v]
        return loads[0] if len(loads) == 1 and self._is_consumer(nest, loads[0]) else None

    def _is_consumer(self, nest: Nest, load: Op) -> bool:
        found = self.loops(load, load.operands[1:])
        if found is None or not isinstance(load.result.type, Scalar):
            return False
        loops, known, offsets = found
        trips = [(k.trip, n.trip) for k, n in zip(known, nest.known)]
        return len(known) == len(nest.known) and offsets == nest.offsets and \
            all(a is b or a.const is not None and a.const == b.const for a, b in trips) and \
            loops[0].parent is nest.loops[0].parent and self._comes_from(load.operands[0], nest, loops[0]) and \
            all(self._is_elementwise(loop, load) for loop in loops)

    def _comes_from(self, v: Value, nest: Nest, consumer: Loop) -> bool:
        """True if ``v`` is what the producer leaves, or has entered it with where it has no iteration."""
        outer, array = nest.loops[0], nest.params[0]
        left, entered = outer.back_edge().argument(array), outer.entry_edge().argument(array)
        heads = {loop.head for loop in self.forest.loops}
        seen, todo = set[Value](), [v]
        while todo:
            v = todo.pop()
            if v in seen or v is left or v is entered:
                continue
            seen.add(v)
            if v.op is not None or v.block in heads:
                return False
            given = self.forest.dom.arguments(v)
            if not given or None in given:
                return False
            todo += [a for a in given if a is not None]
        before = consumer.preheader
        return bool(seen) and before is not None and always_runs(self.forest, outer, before)

    def _is_elementwise(self, loop: Loop, load: Op) -> bool:
        """True if a loop carries arrays only, and reads these where it stores to them: it may become vectors."""
        carried = loop.head.params
        if any(isinstance(p.type, Scalar) for p in carried[1:]):
            return False
        web, todo, places = set(carried), list(carried), list[list[Value]]()
        while todo:
            v = todo.pop()
            for op in self.readers.get(v, ()) if isinstance(v.type, Array) else ():
                if op.block not in loop.blocks or op.name == "dim":
                    continue
                fresh = [q for e in op.edges for q, a in e.passed() if a is v and e.block in loop.blocks]
                if op.name in ("get", "set", "add_at"):
                    places.append(op.operands[1 if op.name == "get" else 2:])
                    fresh = [op.result] if op.name != "get" else []
                elif not op.edges:
                    return False
                todo += [q for q in fresh if q not in web]
                web.update(fresh)
        wanted = [self.forms.of(i) for i in load.operands[1:]]
        return all(len(at) == len(wanted) and all(self.forms.of(i).is_same(w) for i, w in zip(at, wanted))
                   for at in places)

    def contract(self, nest: Nest, load: Op) -> bool:
        """Compute what the producer stores in the place of ``load``; returns False if that cannot be."""
        found = self.loops(load, load.operands[1:])
        ops: dict[Op, None] = {}
        assert found is not None and load.block is not None
        if not self._collect(nest, nest.store.operands[1], load, ops):
            return False
        values = {n.iv: k.iv for n, k in zip(nest.known, found[1])}
        block, at = load.block, load.block.ops.index(load)
        copies = [clone_op(op, values) for op in ops]
        for op in copies:
            op.block = block
        self._read_in_place(found[0], load, copies)
        block.ops[at:at + 1] = copies
        self._take(load, values.get(nest.store.operands[1], nest.store.operands[1]))
        for op in copies:
            for v in op.operands:
                self.readers.setdefault(v, []).append(op)
        store = nest.store
        assert store.block is not None
        store.block.ops.remove(store)
        self._take(store, store.operands[0])
        return True

    def _take(self, old: Op, new: Value) -> None:
        """Let what reads the result of an op that is gone read ``new``; ``readers`` stays right."""
        for v in dict.fromkeys(old.operands):
            self.readers[v] = [op for op in self.readers[v] if op is not old]
        readers = self.readers.pop(old.result, [])
        for op in dict.fromkeys(readers):
            op.replace_uses({old.result: new})
        self.readers.setdefault(new, []).extend(readers)

    def _read_in_place(self, loops: list[Loop], load: Op, copies: list[Op]) -> None:
        """Read the elements of an array that the consumer updates from what it has now, if it is only these.

        The array as it was would have to be copied.
        """
        carried = {a: p for p, a in zip(loops[0].head.params, loops[0].entry_edge().args)}
        for array, p in carried.items():
            reads = [op for op in copies if op.operands[:1] == [array]]
            others = [op for op in self.readers.get(array, ()) if op.block in loops[0].blocks]
            for loop in loops[1:]:
                p = next((q for q, a in zip(loop.head.params, loop.entry_edge().args) if a is p), p)
            if not others and p.owner is loops[-1].head and all(
                    op.name == "get" and all(map(same, op.operands[1:], load.operands[1:])) for op in reads):
                for op in reads:
                    op.operands[0] = p

    def _collect(self, nest: Nest, v: Value, load: Op, ops: dict[Op, None]) -> bool:
        """Enter the ops that compute ``v``, operands first; False if it is not arithmetic that may be copied."""
        op, outer = v.op, nest.loops[0]
        if v in (n.iv for n in nest.known) or op in ops:
            return True
        assert load.block is not None
        if v.block not in outer.blocks and v.const is None and self.forest.dom.dominates(v.block, load.block):
            return True
        if op is None or not isinstance(v.type, Scalar) or not is_pure(op) or len(op.results) > 1 or \
                OPS[op.name].cost >= TRANSCENDENTAL or len(ops) >= LARGEST or \
                not all(self._collect(nest, x, load, ops) for x in op.operands):
            return False
        ops[op] = None
        return True
