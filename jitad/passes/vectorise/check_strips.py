"""Tests the data-dependent indices of a strip of iterations ahead, so that the loop can be vectorised.

An index that is loaded or computed from floats, as in ``x[at[k]]`` and ``image[int(y[k]), int(x[k])]``, is checked in
each iteration.  A check may end the loop, so nothing in the loop is vectorised.  What the indices follow from can be
computed on its own, which is vectorised itself.  The loop is strip-mined for that (``fission.Chunks``)::

    for each strip:
      for k in the strip:  low, high = min(low, at[k]), max(high, at[k])
      if 0 <= low and high < len(x):  for k in the strip:  s += exp(x[at[k]])     # the original without these checks
      else:      the original from this strip on, which raises in the right iteration, or counts from the end

Of indices that differ by constants, as those of neighbours, one is compared.  A float that took long to compute, of
which an index is the integer part, is kept in an array for the strip.
*Foreseen* values depend on the counter, loop-invariant values, and elements of arrays that the loop does not update, at
indices that are integers computed from the counter alone.  Such elements may be read before any check of the loop: all
checks are of floats, or compare what depends on an element or a float with a loop-invariant value, and no proof that a
counter is in range can rest on either.
"""

from __future__ import annotations

from functools import reduce

from ...ir.builder import Builder
from ...ir.graph import Function, Module, Op, Value
from ...ir.ops import OPS, ORDERS
from ...ir.types import BOOL, F64, I64, Scalar, is_float_scalar
from ...ir.uses import users
from ..analysis.loops import Counted, Loop, counted, loop_forest, reads_trip_count
from .fission import Chunks
from .speculate import carries_only_sums_and_stores

_ARITHMETIC = frozenset({"add", "sub", "mul", "maximum", "minimum"})
LEAST = 32
"""Loops with at most this constant trip count are left: the test would cost as much as it saves."""
SHORTEST, SHORTEST_SIMPLE = 6, 16
"""Loops with fewer iterations, as it turns out, are run as they were: those that call functions, and others."""
LARGEST = 200
"""The most ops of a loop that is copied."""
GREATEST = 2 ** 63 - 1
KEPT = 8
"""The least cost of what a kept float saves, per float: it is stored and loaded."""
FARTHEST = 2 ** 31
"""Constants that are added to an index are less, so that a few of them do not overflow."""
GATHER, ORDERED, WORTH = 2, 4, 1
"""The costs of a gather, and of a sum in order, in simple operations on floats, and how many of these must be left for
vectors of 512 bits to pay (Intel Xeon, Sapphire Rapids or later).  Interpolation in a table takes 0.6 of the time, in
an image 0.5, squared differences from chosen elements 0.4 to 0.7; products of chosen elements alone would take longer.
With vectors of 256 bits, casts of floats to integers, and gathers, are made one by one: see the next ones."""
DIVISION, STRIP, INDEX = 6, 4, 2
"""What vectors of 256 bits save for a division, twice that for a root, and what they must save for an iteration, each
tested index, and 1 for each gather (AMD Zen 3, where a root alone takes 2.8 ns and a division 1.4).  With one index for
each gather, a root of one or two takes 0.5 to 0.65 of the time, of four 0.9 to 1.4; two divisions of one or two 0.5 to
0.65, of three 0.8 to 1.3; one division of two to four 1.0 to 1.9."""


def check_strips(module: Module) -> None:
    """Strip-mine every such loop that is then vectorised; expects normal form."""
    for func in module.functions.values():
        if not any(op.name == "check" for op in func.all_ops()):
            continue
        forest = loop_forest(func)
        unclosed = forest.open_loops()
        for loop in forest.loops:
            known = counted(loop)
            if known is None or known.iv.index != 0 or loop.blocks != {loop.head} or loop.exit is None or \
                    loop in unclosed:
                continue
            if (known.trip.const or LEAST + 1) > LEAST and len(loop.head.ops) <= LARGEST:
                _Test(func, loop, known, module).run()


class _Test:
    """``wanted``: the conditions that are tested ahead, and how they must turn out.

    ``indices``: the floats that become integers which are tested not to be negative.
    """

    def __init__(self, func: Function, loop: Loop, known: Counted, module: Module) -> None:
        self.func, self.loop, self.known, self.head = func, loop, known, loop.head
        self.fast_gathers, self.fast_roots, self.fastmath = module.fast_gathers, module.fast_roots, module.fastmath
        self.wanted: dict[Value, bool] = {}
        self.kinds: dict[Value, bool | None] = {known.iv: False}
        self.indices: set[Value] = set()

    def run(self) -> None:
        for op in self.head.ops:
            if op.name == "select" and _tests_sign(op) and self._is_index_test(op.operands[0]):
                self.wanted[op.operands[0]] = False
        checks = [op for op in self.head.ops if op.name == "check"]
        decided = [op for op in checks if self._want(op.operands[0])]
        others = [op for op in checks if op not in decided]
        if decided and any(map(self._is_index_test, self.wanted)) and \
                all(_is_of_floats(op.operands[0]) for op in others) and self._pays(bool(others)):
            self.indices = {v for condition in self.wanted if (v := self._float_index(condition)) is not None}
            _Strips(self.func, self.loop, self.known, decided, self).run()
            self._settle()
            if self.fast_gathers and self.head.term is not None:
                self.head.term.attrs["wide"] = True

    def calls_functions(self) -> bool:
        return any(OPS[op.name].vector for op in self.head.ops)

    def _pays(self, checks_left: bool) -> bool:
        if self.calls_functions():
            return True
        if checks_left or not (self.fast_gathers or self.fast_roots) or reads_trip_count(self.loop) or \
                not carries_only_sums_and_stores(self.loop, self.known):
            return False
        gathers = [op for op in self.head.ops if op.name == "get" and self._kind(op.result) is None]
        if not self.fast_gathers:
            return self._roots_pay(len(gathers))
        work = sum(OPS[op.name].cost for op in self.head.ops
                   if OPS[op.name].elementwise and is_float_scalar(op.result.type))
        sums = [] if self.fastmath else [p for p in self.head.params if is_float_scalar(p.type)]
        return work - GATHER * len(gathers) - ORDERED * len(sums) >= WORTH

    def _roots_pay(self, gathers: int) -> bool:
        """True if divisions and roots save what it costs to load elements one by one and to test their indices."""
        casts = [op for op in self.head.ops if op.name == "cast" and is_float_scalar(op.operands[0].type)]
        if any(_is_int(op.result) for op in casts):
            return False
        roots = [op for op in self.head.ops if op.name == "sqrt" and op.result.type == F64]
        divisions = [op for op in self.head.ops if op.name == "div" and op.result.type == F64 and not
                     (self.is_invariant(op.operands[1]) if self.fastmath else op.operands[1].const is not None)]
        tested = [v for condition in self.wanted if condition.op is not None and self._is_index_test(condition)
                  for v in condition.op.operands if self.depends_on_data(v)]
        indices = {self.parts(v)[0] for v in tested}
        return DIVISION * (2 * len(roots) + len(divisions)) >= STRIP + INDEX * len(indices) + gathers

    # --- foreseen values ------------------------------------------------------------------------------

    def _want(self, condition: Value) -> bool:
        """Add the conditions that ``condition`` is a conjunction of; returns False if one is not foreseen."""
        op = condition.op
        if op is not None and op.name == "and" and op.block is self.head:
            return all([self._want(v) for v in op.operands])
        if not (self._is_index_test(condition) or self._is_float_test(condition)):
            return False
        if self.wanted.get(condition) is False:
            return False
        self.wanted[condition] = True
        return True

    def _is_index_test(self, condition: Value) -> bool:
        """True if ``condition`` compares a foreseen integer that depends on data with a loop-invariant one."""
        op = condition.op
        if op is None or op.block is not self.head or op.name not in ORDERS or op.operands[0].type != I64:
            return False
        x, y = op.operands
        return any(self.depends_on_data(v) and self.is_invariant(u) for v, u in ((x, y), (y, x)))

    def _is_float_test(self, condition: Value) -> bool:
        """True if all that a condition compares are foreseen floats."""
        return condition.block is self.head and self.depends_on_data(condition) and _is_of_floats(condition)

    def is_invariant(self, v: Value) -> bool:
        return v.block is not self.head or v.const is not None

    def depends_on_data(self, v: Value) -> bool:
        """True if a foreseen value depends on an element or a float."""
        return self._kind(v) is True

    def parts(self, v: Value) -> tuple[Value, int]:
        """A base and a constant, whose sum a foreseen integer is."""
        op, offset = v.op, 0
        while op is not None and op.block is self.head:
            if op.name == "select" and (chosen := self._chosen(op)) is not None:
                v = chosen
            elif op.name in ("add", "sub") and (c := op.operands[1].const) is not None and \
                    abs(offset) + abs(c) < FARTHEST:
                v, offset = op.operands[0], offset + (c if op.name == "add" else -c)
            else:
                break
            op = v.op
        return v, offset

    def _kind(self, v: Value) -> bool | None:
        """True if a foreseen value depends on an element or a float; ``None`` if the value is not foreseen."""
        if v not in self.kinds:
            self.kinds[v] = False if self.is_invariant(v) else None if v.op is None else self._kind_of(v.op)
        return self.kinds[v]

    def _kind_of(self, op: Op) -> bool | None:
        if op.name == "get":
            array, *indices = op.operands
            plain = all(self._kind(i) is False for i in indices)
            return True if plain and array.block is not self.head and isinstance(op.result.type, Scalar) else None
        if op.name == "select" and (chosen := self._chosen(op)) is not None:
            return self._kind(chosen)
        if not OPS[op.name].elementwise or OPS[op.name].vector or not isinstance(op.result.type, Scalar):
            return None
        kinds = [self._kind(v) for v in op.operands]
        if None in kinds:
            return None
        return any(kinds) or not (op.name in _ARITHMETIC or op.name == "cast") or not _is_int(op.result) or any(
            not _is_int(v) for v in op.operands)

    def _chosen(self, select: Op) -> Value | None:
        """The operand that a selection is sure to choose where the test has succeeded."""
        test = select.operands[0]
        truth = self.wanted.get(test) if test.const is None else bool(test.const)
        return None if truth is None else select.operands[1 if truth else 2]

    def _float_index(self, condition: Value) -> Value | None:
        """The float that became the integer which a condition requires not to be negative."""
        op = condition.op
        if op is None or op.name not in ("ge", "lt") or op.operands[1].const != 0:
            return None
        found = op.operands[0].op
        while found is not None and found.name == "select" and (chosen := self._chosen(found)) is not None:
            found = chosen.op
        return found.operands[0] if found is not None and found.name == "cast" else None

    def kept(self) -> list[Op]:
        """The ops of the floats that are kept: their integer parts are tested, and nothing else needs their operands.
        """
        found: dict[Op, None] = {}
        for condition in filter(self._is_index_test, self.wanted):
            for v in condition.op.operands if condition.op is not None else ():
                part = self.parts(v)[0].op
                x = part.operands[0] if part is not None and part.name == "cast" else None
                if x is not None and x.block is self.head and x.op is not None and is_float_scalar(x.type):
                    found[x.op] = None
        readers, saved = users(self.head.all_ops()), set(found)
        for op in reversed(self.head.ops):
            if op.results and readers.get(op.result) and saved.issuperset(readers[op.result]):
                saved.add(op)
        cost = sum(OPS[op.name].cost for op in saved if OPS[op.name].elementwise and is_float_scalar(op.result.type))
        return list(found) if found and cost >= KEPT * len(found) else []

    # --- the loop over a strip, and what remains of the checks ------------------------------------------

    def is_implied(self, condition: Value) -> bool:
        """True if a condition says that a float can become an integer, which is then tested itself not to be negative.

        The cast of any other float is the least integer.
        """
        op = condition.op
        if op is not None and op.name == "not":
            op = op.operands[0].op
        if op is None or op.name != "isnan" and op.operands[-1].const not in (-2.0 ** 63, 2.0 ** 63):
            return False
        return op.operands[0] in self.indices

    def emit(self, v: Value, values: dict[Value, Value], b: Builder) -> Value:
        """Emit a foreseen value."""
        op = v.op
        if v in values or v.block is not self.head or op is None:
            return values.get(v, v)
        chosen = self._chosen(op) if op.name == "select" else None
        if chosen is not None:
            values[v] = self.emit(chosen, values, b)
        elif op.name == "const":
            values[v] = b.const(op.attrs["value"], op.attrs["type"])
        else:
            operands = [self.emit(u, values, b) for u in op.operands]
            values[v] = b.emit(op.name, *operands, **op.attrs)
        return values[v]

    def _settle(self) -> None:
        """Replace the conditions that hold by constants."""
        for condition, truth in self.wanted.items():
            op = condition.op
            assert op is not None
            op.name, op.operands, op.attrs = "const", [], {"value": truth, "type": BOOL}


class _Strips(Chunks):
    """A loop over each strip tests the conditions in place of filling arrays.

    Of each *base*, to which constants are added in the conditions, the loop finds the least and the largest value,
    which are tested behind it.  ``offsets``: the constants; ``least``: what the base must not be less than; ``limits``:
    constants, and the loop-invariant values that their sums with the base must be less than.  ``others``: conditions
    that are tested in each iteration.
    """

    def __init__(self, func: Function, loop: Loop, known: Counted, checks: list[Op], strips: _Test) -> None:
        super().__init__(func, loop, known, [], strips.kept(), checks)
        self.strips, self.before.name = strips, "indices"
        self.offsets: dict[Value, set[int]] = {}
        self.least: dict[Value, int] = {}
        self.limits: dict[Value, dict[tuple[int, Value], None]] = {}
        self.others: list[tuple[Value, bool]] = []
        for condition, truth in strips.wanted.items():
            if not strips.is_implied(condition) and not self._bounds(condition, truth):
                self.others.append((condition, truth))

    def _bounds(self, condition: Value, truth: bool) -> bool:
        """Note what an integer is compared with; returns False for other conditions."""
        op = condition.op
        if op is None or op.name not in ("ge", "lt"):
            return False
        x, y = op.operands
        if x.type != I64 or not self.strips.depends_on_data(x) or not self.strips.is_invariant(y):
            return False
        base, offset = self.strips.parts(x)
        if (op.name == "lt") == truth:
            self.limits.setdefault(base, {})[offset, y] = None
        elif y.const == 0:
            self.least[base] = max(self.least.get(base, -offset), -offset)
        else:
            return False
        self.offsets.setdefault(base, {0}).add(offset)
        return True

    def compute(self, b: Builder, values: dict[Value, Value]) -> None:
        for op in self.kept:
            self.strips.emit(op.result, values, b)

    def worth(self, b: Builder) -> list[Value]:
        shortest = SHORTEST if self.strips.calls_functions() else SHORTEST_SIMPLE
        return [b.ge(self.known.trip, shortest)] if self.known.trip.const is None else []

    def untested(self, b: Builder) -> list[Value]:
        ranges = [b.const(bound) for _ in self.offsets for bound in (GREATEST, -GREATEST - 1)]
        return ranges + [b.const(True) for _ in self.others[:1]]

    def test(self, b: Builder, values: dict[Value, Value], so_far: list[Value]) -> list[Value]:
        """Emit the least and the largest of each base so far, and whether the other conditions hold."""
        found: list[Value] = []
        for base, low, high in zip(self.offsets, so_far[::2], so_far[1::2]):
            v = self.strips.emit(base, values, b)
            found += [b.minimum(low, v), b.maximum(high, v)]
        holds = so_far[len(found):]
        for condition, truth in self.others:
            v = self.strips.emit(condition, values, b)
            holds = [b.and_(holds[0], v if truth else b.not_(v))]
        return found + holds

    def holds(self, b: Builder, found: list[Value]) -> Value:
        """Emit whether the conditions hold for all numbers from the least to the largest base, without overflow.

        LLVM would compare less than all of ``k < n ? k : 0`` with ``n``, and then not know a maximum for a reduction:
        the distance from ``n`` is compared with 0.
        """
        conditions = found[2 * len(self.offsets):]
        for (base, offsets), low, high in zip(self.offsets.items(), found[::2], found[1::2]):
            least = max(self.least.get(base, -GREATEST - 1), -GREATEST - 1 - min(offsets))
            conditions += [b.ge(low, least), b.le(high, GREATEST - max(offsets))]
            for c, limit in self.limits.get(base, {}):
                most, size = b.add(high, c), self.strips.emit(limit, {}, b)
                conditions += [b.ge(size, 0), b.lt(0, b.sub(size, most))] if least >= 0 else [b.lt(most, size)]
        return reduce(b.and_, conditions)


def _is_int(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_int


def _tests_sign(select: Op) -> bool:
    """True for ``select(i < 0, i + n, i)``: an index that may count from the end."""
    test = select.operands[0].op
    return (select.result.type == I64 and test is not None and test.name == "lt" and test.operands[1].const == 0
            and test.operands[0] is select.operands[2])


def _is_of_floats(condition: Value) -> bool:
    """True if all that a condition compares are floats; what it is chosen by may be anything."""
    todo = [condition]
    while todo:
        op = todo.pop().op
        if op is None:
            return False
        if op.name in ("and", "or", "not") and op.result.type == BOOL:
            todo += op.operands
        elif op.name == "select":
            todo += op.operands[1:]
        elif not all(is_float_scalar(v.type) for v in op.operands):
            return False
    return True
