"""Drops stores of a loop that nothing reads, neither a later iteration nor what follows the loop.

::

    ^loop_bar(%i, %t_bar, %x_bar):            ^loop_bar(%i, %x_bar):
      %g = get %t_bar, %i                       %g = get %t_bar, %i
      %r = set %t_bar, %zero, %i     becomes    …
      …                                         branch …, ^loop_bar(…, %u), ^exit(%u)
      branch …, ^loop_bar(…, %r, %u), ^exit(%u)

The derivative of a store ``t[i] = …`` loads the cotangent of the element and clears it, as the element may have been
stored before.  Most programs fill an array once, and nothing reads the cotangents afterwards: to clear them is another
pass over memory.

Notation: the *web* of an array that a loop carries are all values that it has in the loop.  A load does not see a store
of the web if both are at one index, the load comes first, and the index tells the iteration; or if their indices differ
in all iterations, as those of two halves.
"""

from __future__ import annotations

from ...ir.expression_keys import same
from ...ir.graph import Function, Module, Op, Value
from ...ir.types import I64, Array
from ...ir.uses import array_users, counts
from ..analysis.affine import Affine, AffineForms
from ..analysis.cfg import Mapping, substitute
from ..analysis.loops import Counted, Loop, counted, loop_forest, stepped

LARGEST = 40
"""The most values of a web, which bounds the comparisons of its accesses."""


def dead_stores(module: Module) -> bool:
    """Drop such stores; expects normal form.  Returns True if there are any."""
    return any([_Search(func).run() for func in module.functions.values()
                if any(op.name == "set" for op in func.all_ops()) and loop_forest(func).loops])


class _Search:
    def __init__(self, func: Function) -> None:
        self.func, self.forest, self.forms = func, loop_forest(func), AffineForms()
        self.dom = self.forest.dom
        self.readers = array_users(func.all_ops())
        self.counted = {loop: known for loop in self.forest.loops if (known := counted(loop)) is not None}
        for loop, known in reversed(self.counted.items()):         # outer loops first
            self._count(loop, known)

    def _count(self, loop: Loop, known: Counted) -> None:
        """Express what a loop counts besides, as the index that goes down in a reverse sweep, by its counter."""
        for p in loop.head.params:
            step = stepped(loop, p) if p.type == I64 and p is not known.iv else None
            if step is not None and step[0].const is not None:
                start = self.forms.of(loop.entry_edge().args[p.index])
                self.forms.known[p] = start.plus(self.forms.of(known.iv), step[0].const * step[1])

    def run(self) -> bool:
        mapping: Mapping = {}
        for loop in reversed(self.forest.loops):                   # outer loops first
            for p in loop.head.params if loop in self.counted else ():
                for store in self._unread(p, loop) if isinstance(p.type, Array) else ():
                    mapping.setdefault(store.result, store.operands[0])
        for block in self.func.blocks if mapping else ():
            block.ops = [op for op in block.ops if not mapping.keys() & op.results]
        substitute(self.func, mapping)
        return bool(mapping)

    def _unread(self, p: Value, loop: Loop) -> list[Op]:
        """The stores into the array ``p`` that nothing reads, if nothing reads it behind the loop."""
        web, todo = {p}, [p]
        loads: list[Op] = []
        stores: list[Op] = []
        while todo:
            v = todo.pop()
            for op in self.readers.get(v, ()):
                if op.block not in loop.blocks or len(web) > LARGEST:
                    return []
                joins = [q for e in op.edges for q, a in e.passed() if a is v]
                if op.name == "set" and op.operands[0] is v and v not in op.operands[1:]:
                    stores.append(op)
                    joins = [op.result]
                elif op.name == "add_at" and op.operands[0] is v and v not in op.operands[1:]:
                    loads.append(op)
                    joins = [op.result]
                elif op.name == "get":
                    loads.append(op)
                elif op.name != "dim" and not joins or v in op.operands and op.edges:
                    return []
                if any(q.block not in loop.blocks or q.owner is loop.head and q is not p for q in joins):
                    return []
                todo += [q for q in joins if q not in web]
                web.update(joins)
        if not stores or any(a not in web for q in web if q is not p and q.op is None for a in self.dom.arguments(q)):
            return []
        return [store for store in stores if not any(self._may_see(load, store, loop) for load in loads)]

    def _may_see(self, load: Op, store: Op, loop: Loop) -> bool:
        """True if a load may read what a store has stored in an earlier iteration or earlier in this one."""
        around = [self._nest(op, loop) for op in (load, store)]
        indices = [[self.forms.of(v) for v in op.operands[1 if op.name == "get" else 2:]] for op in (load, store)]
        if None in around or len(indices[0]) != len(indices[1]):
            return True
        loads, stores = (nest or [] for nest in around)
        if not all(self._is_of(form, nest, loop) for nest, forms in ((loads, indices[0]), (stores, indices[1]))
                   for form in forms):
            return True
        if loads == stores and all(x.is_same(y) for x, y in zip(*indices)):
            return not (self._tells(indices[0], loads) and self._is_past(load, store))
        return not any(self._differ(x, loads, y, stores, loop) for x, y in zip(*indices))

    def _is_past(self, load: Op, store: Op) -> bool:
        """True if no path leads from a store to a load in one iteration of the loop that both are in."""
        assert load.block is not None and store.block is not None
        if load.block is store.block:
            return self.dom.comes_first(load, store)
        return self.dom.number[load.block] < self.dom.number[store.block]

    def _nest(self, op: Op, outermost: Loop) -> list[Counted] | None:
        """The counted loops around an op, up to ``outermost``; ``None`` if one does not count."""
        found: list[Counted] = []
        loop = self.forest.loop_of(op.block) if op.block is not None else None
        while loop is not None and loop in self.counted:
            found.append(self.counted[loop])
            if loop is outermost:
                return found
            loop = loop.parent
        return None

    def _is_of(self, form: Affine, nest: list[Counted], loop: Loop) -> bool:
        """True if a form depends on the counters of the nest and on what does not change in the loop."""
        counters = {known.iv for known in nest}
        return all(v in counters or v.block not in loop.blocks for v, _ in form.terms)

    def _tells(self, forms: list[Affine], nest: list[Counted]) -> bool:
        """True if each counter is the only one of some axis: different iterations have different indices."""
        counters = {known.iv for known in nest}
        alone = [[v for v, _ in form.terms if v in counters] for form in forms]
        return all([v] in alone for v in counters)

    def _differ(self, x: Affine, loads: list[Counted], y: Affine, stores: list[Counted], loop: Loop) -> bool:
        """True if two indices are different whatever the iterations are."""
        for sign in (1, -1):
            least = self._least(x.times(sign), loads, loop)
            other = self._least(y.times(-sign), stores, loop)
            if least is not None and other is not None:
                distance = least.plus(other)
                if not distance.terms and distance.constant > 0:
                    return True
        return False

    def _least(self, form: Affine, nest: list[Counted], loop: Loop) -> Affine | None:
        """The least value of a form over all iterations; ``None`` if a trip count changes."""
        for known in nest:
            factor = form.coefficient(known.iv)
            form = form.without(known.iv)
            if factor < 0:
                last = self.forms.of(known.trip).plus(Affine(-1))
                if any(v.block in loop.blocks for v, _ in last.terms):
                    return None
                form = form.plus(last, factor)
        return form


def overwritten_stores(module: Module) -> bool:
    """Drop stores of elements whose array is only overwritten there, as ``s[i] = a; s[i] = b``; True if there were any.

    What was read between them is the value that was stored, which ``cse`` has found.
    """
    found = False
    for func in module.functions.values():
        stores = [op for op in func.all_ops() if op.name == "set" and (first := op.operands[0].op) is not None
                  and first.name in ("set", "add_at") and len(first.operands) == len(op.operands)]
        uses = counts(func.all_ops()) if stores else {}
        gone = set[Op]()
        for op in stores:
            first = op.operands[0].op
            while first is not None and first.name in ("set", "add_at") and uses[first.result] == 1 and \
                    len(first.operands) == len(op.operands) and all(map(same, first.operands[2:], op.operands[2:])):
                gone.add(first)
                op.operands[0] = first.operands[0]
                first = op.operands[0].op
        for block in {op.block for op in gone if op.block is not None}:
            block.ops, found = [op for op in block.ops if op not in gone], True
    return found


def cleared_sums(module: Module) -> bool:
    """Make ``a[i] = 0; a[i] += v`` one store, as the adjoint of ``a[i] *= w`` has; returns True if there was one."""
    found = False
    for func in module.functions.values():
        uses = counts(func.all_ops())
        for block in func.blocks:
            gone = set[Op]()
            for op in block.ops:
                clear = op.operands[0].op if op.name == "add_at" and op.attrs.get("acc") else None
                if clear is not None and clear.name == "set" and clear.block is block and uses[clear.result] == 1 and \
                        clear.operands[1].const == 0 and len(clear.operands) == len(op.operands) and \
                        all(map(same, clear.operands[2:], op.operands[2:])):
                    op.name, op.attrs, op.operands[0] = "set", {}, clear.operands[0]
                    gone.add(clear)
            if gone:
                block.ops, found = [op for op in block.ops if op not in gone], True
    return found
