"""Vectorises the simple loops of large functions, in place of LLVM, which takes 5 ms for a loop.

A loop of one block becomes two: iterations in vectors, and the loop as it was for the last iterations, one to
``lanes``::

    preheader:  br i1 (%end - %i > lanes), label %ahead, label %loop
    ahead:      br label %vectors
    vectors:    br i1 (%end - %next > lanes), label %vectors, label %behind
    behind:     br label %loop

The last iteration stays with the loop, so what follows reads the loop's values as before.

A loop is *simple* if it counts up by one to a limit, carries nothing else but sums, loads and stores elements of type
double that lie side by side, and computes by float arithmetic and functions that have vector versions.  Two accesses
of which one is a store are to the same element in each iteration, or to arrays of different alias classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..builder.function_builder import FunctionBuilder
from ..llvm.code import Code, Fragment, branch, jump
from ..llvm.instruction import Instruction
from .loop_accesses import Access, Place, Sources, any_meet

_INTRINSICS = frozenset(f"@llvm.{name}.f64" for name in (
    "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "copysign", "maximum", "minimum", "fmuladd"))
_ARITHMETIC = frozenset(("fadd", "fsub", "fmul", "fdiv", "fneg", "freeze"))
_PURE = _ARITHMETIC.union(("fcmp", "icmp", "add", "sub", "select", "load", "getelementptr"))
MOST = 8                    # lanes
LONGEST = 2000              # instructions of a loop


class _Refused(Exception):
    """The loop is not simple."""


def vectorise_simple_loops(fn: FunctionBuilder, heads: Iterable[str]) -> set[str]:
    """Vectorise those loops among the innermost ones with these heads that are simple; returns the new blocks."""
    made: set[str] = set()
    if fn.target.vector_bits < 128:
        return made
    code, before, sources = fn.code, _predecessors(fn.code), Sources(fn)
    for head in heads:
        if code.successors(head).count(head) == 1 and len(before[head]) == 2:
            entry = next(label for label in before[head] if label != head)
            try:
                loop = _Loop(fn, head, entry, min(MOST, fn.target.vector_bits // 64), sources)
            except _Refused:
                continue
            made |= loop.vectorise()
    return made


def _predecessors(code: Code) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {label: [] for label in code.labels()}
    for label in code.labels():
        for s in dict.fromkeys(code.successors(label)):
            found[s].append(label)
    return found


class _Loop:
    """A simple loop; ``_Refused`` if it is another one.

    ``counter``, ``next`` and ``limit``: the condition of another iteration is that ``next`` is below ``limit``.
    ``sums``: for each carried float, the instruction that adds to it, and the addend.
    """

    def __init__(self, fn: FunctionBuilder, head: str, entry: str, lanes: int, sources: Sources) -> None:
        self.code, self.writer, self.head, self.entry, self.lanes = fn.code, fn.writer, head, entry, lanes
        code, self.sources = fn.code, sources
        *lines, last = code.block(head)
        if len(lines) > LONGEST:
            raise _Refused
        self.made = {i.result: i for i in lines if i.result}
        self.carried = {name: (type, dict((b, v) for v, b in incoming)) for name, type, incoming in code.phis_of(head)}
        self._control(last)
        self.sums = {name: self._sum(name, values[head]) for name, (_, values) in self.carried.items()
                     if name != self.counter}
        self.accesses: list[Access] = []
        self.body = Fragment(code)                      # of the vector loop
        self.ahead = Fragment(code)                     # before it
        self.values: dict[str, str] = {}                # the vector of a value
        self.addresses: dict[str, tuple[str, Place]] = {}
        self.terms: dict[str, str] = {}                 # for each sum, the vector of addends
        self.index = code.fresh("vi")
        self.places = {self.counter: Place(self.index, 1, "i")}
        self.lanes = min([self.lanes, *map(self._widest, self.made.values())])
        self.vector = f"<{self.lanes} x double>"
        adding = {values[head]: name for name, (_, values) in self.carried.items() if name != self.counter}
        needed = self._needed(adding)
        for i in lines:
            if not i.result:
                self._store(i)
            elif i.result in adding:
                self.terms[adding[i.result]] = self._of(self.sums[adding[i.result]][1])
            elif i.result in needed:
                self._line(i)
        if any_meet(set(self.accesses), fn.parameters.keys()):
            raise _Refused

    # --- the shape of the loop --------------------------------------------------------------------

    def _control(self, last: Instruction) -> None:
        if last.opcode != "br" or last.targets[0] != self.head or self.writer.is_cold(last.notes):
            raise _Refused
        condition = self.made.get(last.operands[0])
        if condition is None or (condition.opcode, condition.detail, condition.types) != ("icmp", "slt", ("i64",)):
            raise _Refused
        self.next, self.limit = condition.operands
        step = self.made.get(self.next)
        if step is None or step.opcode != "add" or step.operands[1] != "1" or self.limit in self.made:
            raise _Refused
        self.counter = step.operands[0]
        if self.limit.isdigit() and int(self.limit) <= 2 * self.lanes:
            raise _Refused
        if self.counter not in self.carried or self.carried[self.counter][1][self.head] != self.next:
            raise _Refused

    def _sum(self, name: str, total: str) -> tuple[Instruction, str]:
        """The addition to a carried float, which nothing else in the loop reads, and the addend."""
        found = self.made.get(total)
        readers = [x for i in [*self.made.values(), *self._stores()] for x in i.reads()]
        carried = [v for _, values in self.carried.values() for v in [values[self.head]]]
        if self.carried[name][0] != "double" or found is None or readers.count(name) != 1 or total in readers or \
                carried.count(total) != 1 or name in carried:
            raise _Refused
        if found.opcode in ("fadd", "fsub") and found.operands[0] == name:
            return found, found.operands[1]
        if found.opcode == "fadd" and found.operands[1] == name:
            return found, found.operands[0]
        raise _Refused

    def _stores(self) -> list[Instruction]:
        return [i for i in self.code.block(self.head) if i.opcode == "store"]

    def _needed(self, adding: Mapping[str, str]) -> set[str]:
        """The values that stores and sums depend on."""
        todo = [x for i in self._stores() for x in i.reads()]
        todo += [addend for _, addend in self.sums.values()]
        needed: set[str] = set()
        while todo:
            if (name := todo.pop()) in self.made and name not in needed and name not in adding:
                needed.add(name)
                todo += self.made[name].reads()
        return needed

    def _widest(self, i: Instruction) -> int:
        """The number of lanes for which a called function has a version."""
        if i.opcode in _PURE or i.opcode == "call" and i.detail in _INTRINSICS:
            return self.lanes
        if i.opcode != "call" or {i.type, *i.types} != {"double"} or i.notes:
            raise _Refused
        return max(self._versions(i.detail))

    def _versions(self, callee: str) -> dict[int, str]:
        """The vector versions of a function, by lanes."""
        versions = {lanes: name for lanes, name in self.writer.vector_versions.get(callee[1:], ())
                    if lanes <= self.lanes}
        if not versions:
            raise _Refused
        return versions

    # --- its instructions as vectors ----------------------------------------------------------------

    def _line(self, i: Instruction) -> None:
        if i.opcode not in self._RULES or i.type not in ("double", "i1", "i64", "ptr"):
            raise _Refused
        self._RULES[i.opcode](self, i)

    def _new(self, i: Instruction, operands: Iterable[str], type: str = "", types: tuple[str, ...] | None = None,
             flags: str | None = None, detail: str = "") -> str:
        """Append an instruction that differs from ``i`` in its operands and what else is given; returns the result."""
        name = self.code.fresh("w")
        opcode, _, old_type, _, old_types, old_flags, old_detail, notes, targets = i
        self.body.lines.append(Instruction(
            opcode, name, type or old_type, tuple(operands), old_types if types is None else types,
            old_flags if flags is None else flags, detail or old_detail, notes, targets))
        return name

    def _of(self, x: str) -> str:
        """The vector of a float."""
        if x in self.values:
            return self.values[x]
        if x in self.made or x in self.carried:
            raise _Refused
        if x[0] != "%":
            return f"splat (double {x})"
        one = self.ahead.insert_element(self.vector, "poison", "double", x, 0)
        self.values[x] = self.ahead.shuffle(self.vector, self.vector, one, "poison",
                                            f"<{self.lanes} x i32> zeroinitializer")
        return self.values[x]

    def _arithmetic(self, i: Instruction) -> None:
        self.values[i.result] = self._new(i, map(self._of, i.operands), type=self.vector)

    def _comparison(self, i: Instruction) -> None:
        if i.types != ("double",):
            raise _Refused
        self.values[i.result] = self._new(i, map(self._of, i.operands), type=f"<{self.lanes} x i1>",
                                          types=(self.vector,))

    def _selection(self, i: Instruction) -> None:
        condition, *operands = i.operands
        if condition not in self.values or i.type != "double" or i.notes:
            raise _Refused
        self.values[i.result] = self._new(i, (self.values[condition], *map(self._of, operands)), type=self.vector,
                                          types=(f"<{self.lanes} x i1>",))

    def _call(self, i: Instruction) -> None:
        args = [self._of(x) for x in i.operands]
        if i.detail in _INTRINSICS:
            function = i.detail[1:].replace(".f64", f".v{self.lanes}f64")
            callee = self.writer.declare(function, self.vector, ", ".join([self.vector] * len(args)))
        else:
            callee = "@" + self._versions(i.detail)[self.lanes]
        self.values[i.result] = self._new(i, args, type=self.vector, types=(self.vector,) * len(args), detail=callee)

    def _place(self, i: Instruction) -> None:
        a, b = i.operands
        moving = [x for x in (a, b) if x in self.places]
        if i.type != "i64" or len(moving) != 1 or any(
                x in self.made or x in self.carried for x in (a, b) if x not in moving):
            raise _Refused
        x, y = (self.places[v].name if v in self.places else v for v in (a, b))
        texts = [self.places[v].text if v in self.places else v for v in (a, b)]
        place = self.places[moving[0]]
        step = -place.step if i.opcode == "sub" and moving[0] == b else place.step
        self.places[i.result] = Place(self._new(i, (x, y), flags=""), step, f"({i.opcode} {' '.join(texts)})")

    def _address(self, i: Instruction) -> None:
        base, index = i.operands
        if i.types != ("double",) or base in self.made or base in self.carried or index not in self.places:
            raise _Refused
        self.addresses[i.result] = base, self.places[index]

    def _load(self, i: Instruction) -> None:
        if i.type != "double":
            raise _Refused
        at, step = self._access(i.operands[0], i.notes, is_store=False)
        x = self._new(i, (at,), type=self.vector)
        self.values[i.result] = x if step > 0 else self._reversed(x)

    def _store(self, i: Instruction) -> None:
        if i.opcode != "store" or i.types != ("double",):
            raise _Refused
        at, step = self._access(i.operands[1], i.notes, is_store=True)
        x = self._of(i.operands[0])
        x = x if step > 0 else self._reversed(x)
        self.body.lines.append(i._replace(operands=(x, at), types=(self.vector,)))

    def _reversed(self, x: str) -> str:
        order = ", ".join(f"i32 {k}" for k in reversed(range(self.lanes)))
        return self.body.shuffle(self.vector, self.vector, x, "poison", f"<{self.lanes} x i32> <{order}>")

    def _access(self, address: str, note: str, is_store: bool) -> tuple[str, int]:
        """The address of the first element in memory, and the step; records the access."""
        if address not in self.addresses:
            raise _Refused
        base, place = self.addresses[address]
        self.accesses.append(
            Access(base, place.text, is_store, self.sources.of(base), self.writer.scopes(note)))
        first = place.name if place.step > 0 else self.body.arith("sub", "i64", place.name, str(self.lanes - 1))
        return self.body.address("double", base, first), place.step

    _RULES: Mapping[str, Callable[[_Loop, Instruction], None]] = {
        **dict.fromkeys(_ARITHMETIC, _arithmetic), "getelementptr": _address, "add": _place, "sub": _place,
        "load": _load, "call": _call, "fcmp": _comparison, "select": _selection}

    # --- the vector loop --------------------------------------------------------------------------

    def vectorise(self) -> set[str]:
        """Put the vector loop before the loop; returns its blocks."""
        code, head = self.code, self.head
        ahead, vectors, behind = (code.label(hint) for hint in ("ahead", "vectors", "behind"))
        start, gate = self.carried[self.counter][1][self.entry], self._gate()
        guard, after = Fragment(code), Fragment(code)
        guard.lines.append(branch(self._enough(guard, start), ahead, head))
        code.replace(gate, [*code.block(gate)[:-1], *guard.lines])
        code.replace(ahead, [*self.ahead.lines, jump(vectors)])
        index = self._counter(vectors)
        totals = {name: self._total(name, ahead, vectors, after) for name in self.sums}
        totals[self.counter] = following = self.body.arith("add", "i64", self.index, str(self.lanes), hint="vi")
        index.extend([(start, ahead), (following, vectors)])
        self.body.lines.append(branch(self._enough(self.body, following), vectors, behind))
        code.replace(vectors, self.body.lines)
        code.replace(behind, [*after.lines, jump(head)])
        for name, total in totals.items():
            code.add_incoming(name, total, behind)
        return {gate, ahead, vectors, behind} - {self.entry}

    def _gate(self) -> str:
        """The block that leads to the loop alone, a new one if the block before the loop leads elsewhere too."""
        code = self.code
        *lines, last = code.block(self.entry)
        if last == jump(self.head):
            return self.entry
        gate = code.label("gate")
        code.replace(gate, [jump(self.head)])
        code.replace(self.entry, [*lines, last.retargeted(self.head, gate)])
        for _, _, incoming in code.phis_of(self.head):
            incoming[:] = [(v, gate if b == self.entry else b) for v, b in incoming]
        return gate

    def _enough(self, to: Fragment, at: str) -> str:
        """The condition that more iterations are left than a vector has lanes."""
        return to.icmp("sgt", "i64", to.arith("sub", "i64", self.limit, at, hint="left"), str(self.lanes), hint="more")

    def _counter(self, vectors: str) -> list[tuple[str, str]]:
        self.code.phi("i64", vectors, name=self.index)
        return next(incoming for phi, _, incoming in self.code.phis_of(vectors) if phi == self.index)

    def _total(self, name: str, ahead: str, vectors: str, after: Fragment) -> str:
        """The value of a sum behind the vector loop.

        If its order is free, there is a sum for each lane, and ``after`` adds them up; else terms are added one by one.
        """
        add, _ = self.sums[name]
        start, term = self.carried[name][1][self.entry], self.terms[name]
        reduce = self.writer.declare(f"llvm.vector.reduce.fadd.v{self.lanes}f64", "double", f"double, {self.vector}")
        free = not {"reassoc", "fast"}.isdisjoint(add.flags.split())
        total = self.code.phi(self.vector if free else "double", vectors)
        if free:
            new = self._new(add, (total, term), type=self.vector)
            result = after.call("double", reduce, ("double", start), (self.vector, new), flags=add.flags, hint="total")
        else:
            term = self.body.arith("fneg", self.vector, term) if add.opcode == "fsub" else term
            new = result = self.body.call("double", reduce, ("double", total), (self.vector, term), flags=add.flags)
        self.code.add_incoming(total, "splat (double -0.0)" if free else start, ahead)
        self.code.add_incoming(total, new, vectors)
        return result
