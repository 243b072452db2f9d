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

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from ..builder.function_builder import FunctionBuilder
from ..llvm.emit import Code

_NAME = re.compile(r"%[\w.]+")
_STEP = re.compile(r"add (?:nsw |nuw )*i64 (%[\w.]+), 1")
_COMPARE = re.compile(r"icmp slt i64 (%[\w.]+), (%[\w.]+|-?\d+)")
_BRANCH = re.compile(r"br i1 (%[\w.]+), label %([\w.]+), label %([\w.]+)(?:, !llvm\.loop !(\d+))?")
_INDEX = re.compile(r"(add|sub) (?:nsw |nuw )*i64 (%[\w.]+|-?\d+), (%[\w.]+|-?\d+)")
_ALLOCATION = re.compile(r"call (?:\w+ )*ptr @jitad\.reserve[\w.]*\(.*")
_ADDRESS = re.compile(r"getelementptr inbounds double, ptr (%[\w.]+), i64 (%[\w.]+)")
_LOAD = re.compile(r"load double, ptr (%[\w.]+), align 8(.*)")
_STORE = re.compile(r"store double (\S+), ptr (%[\w.]+), align 8(.*)")
_ARITHMETIC = re.compile(r"(fadd|fsub|fmul|fdiv|fneg)((?: +[a-z]+)*) +double (\S+?)(?:, (\S+))?")
_COMPARISON = re.compile(r"fcmp ((?:[a-z]+ )+)double (\S+), (\S+)")
_SELECTION = re.compile(r"select ((?:[a-z]+ )*)i1 (%[\w.]+), double (\S+), double (\S+)")
_CALL = re.compile(r"call ((?:[a-z]+ )*)double @([\w.]+)\(((?:double [^,()\s]+(?:, )?)+)\)")
_SCOPES = re.compile(r"!(alias\.scope|noalias) !(\d+)")
_COLD = "llvm.loop.vectorize.width"        # marks loops that stay as they are
_INTRINSICS = frozenset(f"llvm.{name}.f64" for name in (
    "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "copysign", "maximum", "minimum"))
_PURE = frozenset("fadd fsub fmul fdiv fneg fcmp icmp add sub select load getelementptr".split())
MOST = 8                    # lanes
SOURCES = 8                 # arrays and phis that are looked at for the sources of one array
LONGEST = 2000              # instructions of a loop


class _Place(NamedTuple):
    """An index that grows or falls by one in each iteration; equal texts are equal indices."""

    name: str                       # in the vector loop, of the first iteration of a vector
    step: int
    text: str


class _Access(NamedTuple):
    base: str
    at: str                         # the text of the index
    is_store: bool
    sources: frozenset[str]         # the allocations and parameters of which the base is one, if all are known
    scopes: frozenset[str]          # the array's alias classes
    apart: frozenset[str]           # those that it is not in

    def may_meet(self, other: _Access, parameters: Set[str]) -> bool:
        """True if the two may access one element in different iterations."""
        if not (self.is_store or other.is_store) or (self.base, self.at) == (other.base, other.at):
            return False
        if self.sources and other.sources and self.sources.isdisjoint(other.sources) and \
                any(parameters.isdisjoint(sources) for sources in (self.sources, other.sources)):
            return False
        return not (self.scopes and self.scopes <= other.apart or other.scopes and other.scopes <= self.apart)


class _Refused(Exception):
    """The loop is not simple."""


def vectorise_simple_loops(fn: FunctionBuilder, heads: Iterable[str]) -> set[str]:
    """Vectorise those loops among the innermost ones with these heads that are simple; returns the new blocks."""
    made: set[str] = set()
    if fn.target.vector_bits < 128:
        return made
    code, before, sources = fn.code, _predecessors(fn.code), _Sources(fn)
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


class _Sources:
    """The allocations and parameters of which an array may be one; two of them that are used at a time do not overlap.

    Parameters may overlap one another.
    """

    def __init__(self, fn: FunctionBuilder) -> None:
        code = fn.code
        self.ends = {name for name, type in fn.parameters.items() if type == "ptr"}
        self.ends |= {name for label in code.labels() for line in code.lines_of(label) if "@jitad.reserve" in line
                      for name, _, text in [line.partition(" = ")] if _ALLOCATION.fullmatch(text)}
        self.phis = {name: [v for v, _ in incoming] for label in code.labels()
                     for name, type, incoming in code.phis_of(label) if type == "ptr"}

    def of(self, base: str) -> frozenset[str]:
        """The sources of an array; empty if they are not known, or too many."""
        found, todo, seen = set[str](), [base], {base}
        while todo:
            if (name := todo.pop()) in self.ends:
                found.add(name)
                continue
            if name not in self.phis or len(seen) > SOURCES:
                return frozenset()
            new = [v for v in self.phis[name] if v not in seen]
            seen.update(new)
            todo += new
        return frozenset(found)


class _Loop:
    """A simple loop; ``_Refused`` if it is another one.

    ``counter``, ``next`` and ``limit``: the condition of another iteration is that ``next`` is below ``limit``.
    ``sums``: for each carried float, the line that adds to it, as opcode, flags and addend.
    """

    def __init__(self, fn: FunctionBuilder, head: str, entry: str, lanes: int, sources: _Sources) -> None:
        self.code, self.writer, self.head, self.entry, self.lanes = fn.code, fn.writer, head, entry, lanes
        code, self.sources = fn.code, sources
        *lines, last = code.lines_of(head)
        if len(lines) > LONGEST:
            raise _Refused
        self.made = {name: text for name, is_value, text in (line.partition(" = ") for line in lines) if is_value}
        self.carried = {name: (type, dict((b, v) for v, b in incoming)) for name, type, incoming in code.phis_of(head)}
        self._control(last)
        self.sums = {name: self._sum(name, values[head]) for name, (_, values) in self.carried.items()
                     if name != self.counter}
        self.accesses: list[_Access] = []
        self.lines: list[str] = []                      # of the vector loop
        self.ahead: list[str] = []                      # before it
        self.values: dict[str, str] = {}                # the vector of a value
        self.addresses: dict[str, tuple[str, _Place]] = {}
        self.terms: dict[str, str] = {}                 # for each sum, the vector of addends
        self.index = code.fresh("vi")
        self.places = {self.counter: _Place(self.index, 1, "i")}
        self.lanes = min([self.lanes, *(self._widest(text) for text in self.made.values())])
        self.vector = f"<{self.lanes} x double>"
        adding = {values[head]: name for name, (_, values) in self.carried.items() if name != self.counter}
        needed = self._needed(lines, adding)
        for line in lines:
            name, is_value, text = line.partition(" = ")
            if not is_value:
                self._store(line)
            elif name in adding:
                self.terms[adding[name]] = self._of(self.sums[adding[name]][2])
            elif name in needed:
                self._line(name, text)
        if any(a.may_meet(b, fn.parameters.keys()) for k, a in enumerate(self.accesses) for b in self.accesses[:k]):
            raise _Refused

    # --- the shape of the loop --------------------------------------------------------------------

    def _control(self, last: str) -> None:
        branch = _BRANCH.fullmatch(last)
        if branch is None or branch[2] != self.head:
            raise _Refused
        if branch[4] and any(_COLD in self.writer.node_text(int(n))
                             for n in re.findall(r"!(\d+)", self.writer.node_text(int(branch[4])))):
            raise _Refused
        condition = _COMPARE.fullmatch(self.made.get(branch[1], ""))
        step = condition and _STEP.fullmatch(self.made.get(condition[1], ""))
        if condition is None or step is None or condition[2] in self.made:
            raise _Refused
        self.next, self.limit, self.counter = condition[1], condition[2], step[1]
        if self.limit.isdigit() and int(self.limit) <= 2 * self.lanes:
            raise _Refused
        if self.counter not in self.carried or self.carried[self.counter][1][self.head] != self.next:
            raise _Refused

    def _sum(self, name: str, total: str) -> tuple[str, str, str]:
        """Opcode, flags and addend of the addition to a carried float, which nothing else in the loop reads."""
        found = _ARITHMETIC.fullmatch(self.made.get(total, ""))
        readers = [x for text in [*self.made.values(), *self._stores()] for x in _NAME.findall(text)]
        carried = [v for _, values in self.carried.values() for v in [values[self.head]]]
        if self.carried[name][0] != "double" or found is None or readers.count(name) != 1 or total in readers or \
                carried.count(total) != 1 or name in carried:
            raise _Refused
        if found[3] == name and found[1] in ("fadd", "fsub"):
            return found[1], found[2], found[4]
        if found[4] == name and found[1] == "fadd":
            return found[1], found[2], found[3]
        raise _Refused

    def _stores(self) -> list[str]:
        return [line for line in self.code.lines_of(self.head) if line.startswith("store ")]

    def _needed(self, lines: Sequence[str], adding: Mapping[str, str]) -> set[str]:
        """The values that stores and sums depend on."""
        todo = [x for line in self._stores() for x in _NAME.findall(line)]
        todo += [addend for _, _, addend in self.sums.values()]
        needed: set[str] = set()
        while todo:
            if (name := todo.pop()) in self.made and name not in needed and name not in adding:
                needed.add(name)
                todo += _NAME.findall(self.made[name])
        return needed

    def _widest(self, text: str) -> int:
        """The number of lanes for which a called function has a version."""
        call = _CALL.fullmatch(text)
        if call is None and text.partition(" ")[0] not in _PURE:
            raise _Refused
        if call is None or call[2] in _INTRINSICS:
            return self.lanes
        return max(lanes for lanes, _ in self._versions(call[2]) if lanes <= self.lanes)

    def _versions(self, function: str) -> list[tuple[int, str]]:
        found = re.findall(rf"_ZGV_LLVM_N(\d+)v+_{re.escape(function)}\(([\w.]+)\)", self.writer.header(function))
        versions = [(int(lanes), name) for lanes, name in found if int(lanes) <= self.lanes]
        if not versions:
            raise _Refused
        return versions

    # --- its instructions as vectors ----------------------------------------------------------------

    def _line(self, name: str, text: str) -> None:
        for pattern, write in self._RULES:
            if (found := pattern.fullmatch(text)) is not None:
                write(self, name, found)
                return
        raise _Refused

    def _op(self, text: str) -> str:
        name = self.code.fresh("w")
        self.lines.append(f"{name} = {text}")
        return name

    def _of(self, x: str) -> str:
        """The vector of a float."""
        if x in self.values:
            return self.values[x]
        if x in self.made or x in self.carried:
            raise _Refused
        if x[0] != "%":
            return f"splat (double {x})"
        one, name = self.code.fresh("w"), self.code.fresh("w")
        self.ahead += [f"{one} = insertelement {self.vector} poison, double {x}, i64 0",
                       f"{name} = shufflevector {self.vector} {one}, {self.vector} poison, "
                       f"<{self.lanes} x i32> zeroinitializer"]
        self.values[x] = name
        return name

    def _arithmetic(self, name: str, found: re.Match[str]) -> None:
        operands = [self._of(x) for x in (found[3], found[4]) if x is not None]
        self.values[name] = self._op(f"{found[1]}{found[2]} {self.vector} {', '.join(operands)}")

    def _comparison(self, name: str, found: re.Match[str]) -> None:
        self.values[name] = self._op(f"fcmp {found[1]}{self.vector} {self._of(found[2])}, {self._of(found[3])}")

    def _selection(self, name: str, found: re.Match[str]) -> None:
        if found[2] not in self.values:
            raise _Refused
        self.values[name] = self._op(f"select {found[1]}<{self.lanes} x i1> {self.values[found[2]]}, "
                                     f"{self.vector} {self._of(found[3])}, {self.vector} {self._of(found[4])}")

    def _call(self, name: str, found: re.Match[str]) -> None:
        args = [self._of(x) for x in found[3].removeprefix("double ").split(", double ")]
        if found[2] in _INTRINSICS:
            function = found[2].replace(".f64", f".v{self.lanes}f64")
            callee = self.writer.declare(function, self.vector, ", ".join([self.vector] * len(args)))
        else:
            callee = "@" + dict(self._versions(found[2]))[self.lanes]
        self.values[name] = self._op(
            f"call {found[1]}{self.vector} {callee}({', '.join(f'{self.vector} {x}' for x in args)})")

    def _place(self, name: str, found: re.Match[str]) -> None:
        opcode, a, b = found.groups()
        moving = [x for x in (a, b) if x in self.places]
        if len(moving) != 1 or any(x in self.made or x in self.carried for x in (a, b) if x not in moving):
            raise _Refused
        x, y = (self.places[v].name if v in self.places else v for v in (a, b))
        texts = [self.places[v].text if v in self.places else v for v in (a, b)]
        place = self.places[moving[0]]
        step = -place.step if opcode == "sub" and moving[0] == b else place.step
        self.places[name] = _Place(self._op(f"{opcode} i64 {x}, {y}"), step, f"({opcode} {' '.join(texts)})")

    def _address(self, name: str, found: re.Match[str]) -> None:
        if found[1] in self.made or found[1] in self.carried or found[2] not in self.places:
            raise _Refused
        self.addresses[name] = found[1], self.places[found[2]]

    def _load(self, name: str, found: re.Match[str]) -> None:
        at, step = self._access(found[1], found[2], is_store=False)
        x = self._op(f"load {self.vector}, ptr {at}, align 8{found[2]}")
        self.values[name] = x if step > 0 else self._reversed(x)

    def _store(self, line: str) -> None:
        found = _STORE.fullmatch(line)
        if found is None:
            raise _Refused
        at, step = self._access(found[2], found[3], is_store=True)
        x = self._of(found[1])
        x = x if step > 0 else self._reversed(x)
        self.lines.append(f"store {self.vector} {x}, ptr {at}, align 8{found[3]}")

    def _reversed(self, x: str) -> str:
        order = ", ".join(f"i32 {k}" for k in reversed(range(self.lanes)))
        return self._op(f"shufflevector {self.vector} {x}, {self.vector} poison, <{self.lanes} x i32> <{order}>")

    def _access(self, address: str, notes: str, is_store: bool) -> tuple[str, int]:
        """The address of the first element in memory, and the step; records the access."""
        if address not in self.addresses:
            raise _Refused
        base, place = self.addresses[address]
        classes = {kind: frozenset(re.findall(r"!\d+", self.writer.node_text(int(node))))
                   for kind, node in _SCOPES.findall(notes)}
        self.accesses.append(_Access(base, place.text, is_store, self.sources.of(base),
                                     classes.get("alias.scope", frozenset()), classes.get("noalias", frozenset())))
        first = place.name if place.step > 0 else self._op(f"sub i64 {place.name}, {self.lanes - 1}")
        return self._op(f"getelementptr inbounds double, ptr {base}, i64 {first}"), place.step

    _RULES: Sequence[tuple[re.Pattern[str], Callable[[_Loop, str, re.Match[str]], None]]] = (
        (_ARITHMETIC, _arithmetic), (_ADDRESS, _address), (_INDEX, _place), (_LOAD, _load), (_CALL, _call),
        (_COMPARISON, _comparison), (_SELECTION, _selection))

    # --- the vector loop --------------------------------------------------------------------------

    def vectorise(self) -> set[str]:
        """Put the vector loop before the loop; returns its blocks."""
        code, head = self.code, self.head
        ahead, vectors, behind = (code.label(hint) for hint in ("ahead", "vectors", "behind"))
        start, gate = self.carried[self.counter][1][self.entry], self._gate()
        more = [code.fresh("left"), code.fresh("more")]
        code.replace(gate, [*code.lines_of(gate)[:-1], *self._enough(more, start),
                            f"br i1 {more[1]}, label %{ahead}, label %{head}"])
        code.replace(ahead, [*self.ahead, f"br label %{vectors}"])
        index, following = self._counter(vectors), code.fresh("vi")
        index.extend([(start, ahead), (following, vectors)])
        after: list[str] = []
        totals = {self.counter: following} | {name: self._total(name, ahead, vectors, after) for name in self.sums}
        again = [code.fresh("left"), code.fresh("more")]
        code.replace(vectors, [*self.lines, f"{following} = add i64 {self.index}, {self.lanes}",
                               *self._enough(again, following),
                               f"br i1 {again[1]}, label %{vectors}, label %{behind}"])
        code.replace(behind, [*after, f"br label %{head}"])
        for name, total in totals.items():
            code.add_incoming(name, total, behind)
        return {gate, ahead, vectors, behind} - {self.entry}

    def _gate(self) -> str:
        """The block that leads to the loop alone, a new one if the block before the loop leads elsewhere too."""
        code, jump = self.code, f"br label %{self.head}"
        *lines, last = code.lines_of(self.entry)
        if last == jump:
            return self.entry
        gate = code.label("gate")
        code.replace(gate, [jump])
        code.replace(self.entry, [*lines, re.sub(rf"label %{re.escape(self.head)}(?![\w.])", f"label %{gate}", last)])
        for _, _, incoming in code.phis_of(self.head):
            incoming[:] = [(v, gate if b == self.entry else b) for v, b in incoming]
        return gate

    def _enough(self, names: Sequence[str], at: str) -> list[str]:
        """The condition that more iterations are left than a vector has lanes."""
        return [f"{names[0]} = sub i64 {self.limit}, {at}", f"{names[1]} = icmp sgt i64 {names[0]}, {self.lanes}"]

    def _counter(self, vectors: str) -> list[tuple[str, str]]:
        name = self.code.phi("i64", vectors, "vi")
        self.lines = [re.sub(rf"{re.escape(self.index)}(?![\w.])", name, line) for line in self.lines]
        self.index = name
        return next(incoming for phi, _, incoming in self.code.phis_of(vectors) if phi == name)

    def _total(self, name: str, ahead: str, vectors: str, after: list[str]) -> str:
        """The value of a sum behind the vector loop.

        If its order is free, there is a sum for each lane, and ``after`` adds them up; else terms are added one by one.
        """
        opcode, flags, _ = self.sums[name]
        start, term = self.carried[name][1][self.entry], self.terms[name]
        reduce = self.writer.declare(f"llvm.vector.reduce.fadd.v{self.lanes}f64", "double", f"double, {self.vector}")
        free = "reassoc" in flags.split() or "fast" in flags.split()
        total = self.code.phi(self.vector if free else "double", vectors)
        if free:
            new = self._op(f"{opcode}{flags} {self.vector} {total}, {term}")
            result = self.code.fresh("total")
            after.append(f"{result} = call{flags} double {reduce}(double {start}, {self.vector} {new})")
        else:
            term = self._op(f"fneg {self.vector} {term}") if opcode == "fsub" else term
            new = result = self._op(f"call{flags} double {reduce}(double {total}, {self.vector} {term})")
        self.code.add_incoming(total, "splat (double -0.0)" if free else start, ahead)
        self.code.add_incoming(total, new, vectors)
        return result
