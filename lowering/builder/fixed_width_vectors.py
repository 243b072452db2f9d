"""Rewrites loops over a fixed, small number of elements as straight-line code on fixed-width vectors.

LLVM then has no loop to analyse.  The body, written for one element ``i``, is rewritten line by line for all of them.
A value is

* *uniform*: loop-invariant, or computed from uniform values; it is unchanged;
* *linear*: ``first + stride * i``, an index or an address; its line is kept and computes the first element's;
* *varying*: a vector of all elements.

A loop with an instruction that has no rule here stays a loop, which LLVM may vectorise.  So does a loop in which one
element may read or overwrite what another has stored, by its alias scopes (``note``), and one that carries
anything but sums and conjunctions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...passes.analysis.lanes import LANES
from ..llvm.emit import Code, Writer

_SUFFIX = {"double": "f64", "float": "f32"} | {t: t for t in ("i64", "i32", "i16", "i8", "i1")}
_T = rf"({'|'.join(_SUFFIX)})"
_FLAGS = r"((?: [a-z]+)*?)"
_BINARY = re.compile(rf"(f?(?:add|sub|mul|div|rem)|and|or|xor|shl|[la]shr){_FLAGS} {_T} (\S+), (\S+)")
_NEGATION = re.compile(rf"(fneg){_FLAGS} {_T} (\S+)")
_COMPARISON = re.compile(rf"([if]cmp)((?: [a-z]+)+) {_T} (\S+), (\S+)")
_SELECTION = re.compile(rf"select{_FLAGS} i1 (\S+), {_T} (\S+), \S+ (\S+)")
_CAST = re.compile(rf"(zext|sext|trunc|[su]itofp|fpext|fptrunc){_FLAGS} {_T} (\S+) to {_T}")
_ADDRESS = re.compile(r"getelementptr inbounds (\w+), ptr (\S+), i64 (\S+)")
_LOAD = re.compile(rf"load {_T}, ptr (\S+), align (\d+)(.*)")
_STORE = re.compile(rf"store {_T} (\S+), ptr (\S+), align (\d+)(.*)")
_CALL = re.compile(rf"call{_FLAGS} {_T} (@[\w.]+)\(([^()]+)\)")
_INTRINSIC = re.compile(r"@llvm\.(fabs|sqrt|floor|ceil|maximum|minimum|maxnum|minnum|copysign|[su]min|[su]max)\.\w+")


class NotWhole(Exception):
    """The loop cannot be rewritten."""


def vectors(writer: Writer, code: Code, lines: Sequence[str], i: str, carried: Sequence[tuple[str, str, str, str]]
            ) -> tuple[list[str], list[str]] | None:
    """The lines for all ``i`` at once, with new names of ``code``, and the final carried values.

    Returns None if an instruction has no rule.  ``carried``: of each value its type, its initial value, its name within
    an iteration, and its name for the next one.
    """
    try:
        return _Body(writer, code, i, {phi: (t, before, after) for t, before, phi, after in carried}).run(lines)
    except NotWhole:
        return None


class _Body:
    """The body while it is rewritten.

    ``strides``: of linear values.  ``types``: element types of varying values.  ``numbers``: value numbers, equal for
    equal expressions, so that equal addresses are recognised.
    """

    def __init__(self, writer: Writer, code: Code, i: str, carried: dict[str, tuple[str, str, str]]) -> None:
        self.writer, self.code, self.i, self.carried = writer, code, i, carried
        self.lines: list[str] = []
        self.strides: dict[str, str] = {i: "1"}
        self.elements: dict[str, str] = {}                       # address → the type that its stride counts
        self.types: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.ways: dict[str, int] = {}                           # expression → value number
        self.finals: dict[str, str] = {}
        self.vectors: dict[tuple[str, str], str] = {}
        self.accesses: list[tuple[bool, int, str]] = []          # (is a store, value number of the address, metadata)

    def run(self, lines: Sequence[str]) -> tuple[list[str], list[str]]:
        reads = " ".join(line.partition(" = ")[2] or line for line in lines) + " "
        for phi, (_, _, after) in self.carried.items():
            if len(re.findall(re.escape(phi) + r"[, )]", reads)) != 1 or re.search(re.escape(after) + r"[, )]", reads):
                raise NotWhole
        for line in lines:
            name, is_value, text = line.partition(" = ")
            if is_value:
                self._value(name, text)
            else:
                self._store(_matched(_STORE, line))
        self._check_memory()
        if self.finals.keys() != self.carried.keys():
            raise NotWhole
        return self.lines, [self.finals[phi] for phi in self.carried]

    def _value(self, name: str, text: str) -> None:
        way = re.sub(r"%[\w.]+", lambda m: f"#{self.numbers[m[0]]}" if m[0] in self.numbers else m[0], text)
        self.numbers[name] = self.ways.setdefault(way, len(self.ways))
        for pattern, rule in _RULES:
            if match := pattern.fullmatch(text):
                return rule(self, name, text, match)
        raise NotWhole

    # --- operands -----------------------------------------------------------------------------------

    def is_uniform(self, *operands: str) -> bool:
        if any(x in self.carried for x in operands):
            raise NotWhole
        return not any(x in self.strides or x in self.types for x in operands)

    def first(self, x: str) -> str:
        return "0" if x == self.i else x

    def op(self, text: str) -> str:
        name = self.code.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def vector(self, t: str, x: str) -> str:
        """The vector of all elements of an operand."""
        if x in self.types:
            return x
        if (t, x) not in self.vectors:
            self.vectors[t, x] = self._linear(t, x) if x in self.strides else self._splat(t, x)
        return self.vectors[t, x]

    def _splat(self, t: str, x: str) -> str:
        if x[0] != "%":
            return f"splat ({t} {x})"
        one = self.op(f"insertelement <{LANES} x {t}> poison, {t} {x}, i64 0")
        return self.op(f"shufflevector <{LANES} x {t}> {one}, <{LANES} x {t}> poison, <{LANES} x i32> zeroinitializer")

    def _linear(self, t: str, x: str) -> str:
        if t != "i64":                                           # an address
            raise NotWhole
        steps = self.steps(self.strides[x])
        return steps if x == self.i else self.op(f"add <{LANES} x i64> {self._splat('i64', x)}, {steps}")

    def steps(self, stride: str) -> str:
        numbers = f"<{', '.join(f'i64 {k}' for k in range(LANES))}>"
        return numbers if stride == "1" else self.op(f"mul <{LANES} x i64> {self._splat('i64', stride)}, {numbers}")

    def varying(self, name: str, t: str, text: str) -> None:
        self.types[name] = t
        self.lines.append(f"{name} = {text}")

    def same(self, name: str, text: str) -> None:
        self.lines.append(f"{name} = {text}")

    # --- instructions -------------------------------------------------------------------------------

    def binary(self, name: str, text: str, match: re.Match[str]) -> None:
        opcode, flags, t, x, y = match.groups()
        phi = next((v for v in (x, y) if v in self.carried), None)
        if phi is not None:
            return self._reduce(name, match, phi, y if x == phi else x)
        if self.is_uniform(x, y):
            return self.same(name, text)
        if t == "i64" and (stride := self._stride(opcode, x, y)) is not None:
            self.strides[name] = stride
            self.lines.append(f"{name} = {opcode}{flags} i64 {self.first(x)}, {self.first(y)}")
            return
        self.varying(name, t, f"{opcode}{flags} <{LANES} x {t}> {self.vector(t, x)}, {self.vector(t, y)}")

    def _stride(self, opcode: str, x: str, y: str) -> str | None:
        """The stride of ``x + y``, ``x - y`` or ``x * y`` if it is linear, else None."""
        moving = [v for v in (x, y) if v in self.strides]
        if len(moving) != 1 or x in self.types or y in self.types:
            return None
        stride, other = self.strides[moving[0]], y if moving[0] == x else x
        if opcode == "add" or opcode == "sub" and moving[0] == x:
            return stride
        return other if opcode == "mul" and stride == "1" else None

    def _reduce(self, name: str, match: re.Match[str], phi: str, x: str) -> None:
        opcode, flags, t, *_ = match.groups()
        _, before, after = self.carried[phi]
        if after != name or opcode not in ("fadd", "and", "or") or x in self.carried:
            raise NotWhole
        kind, every = f"<{LANES} x {t}>", self.vector(t, x)
        given = f"{t} {before}, {kind} {every}" if opcode == "fadd" else f"{kind} {every}"
        callee = self.writer.declare(f"llvm.vector.reduce.{opcode}.v{LANES}{_SUFFIX[t]}", t,
                                     f"{t}, {kind}" if opcode == "fadd" else kind)
        total = self.op(f"call{flags if opcode == 'fadd' else ''} {t} {callee}({given})")
        self.finals[phi] = total if opcode == "fadd" else self.op(f"{opcode} {t} {before}, {total}")

    def negation(self, name: str, text: str, match: re.Match[str]) -> None:
        opcode, flags, t, x = match.groups()
        if self.is_uniform(x):
            return self.same(name, text)
        self.varying(name, t, f"{opcode}{flags} <{LANES} x {t}> {self.vector(t, x)}")

    def comparison(self, name: str, text: str, match: re.Match[str]) -> None:
        opcode, flags, t, x, y = match.groups()
        if self.is_uniform(x, y):
            return self.same(name, text)
        self.varying(name, "i1", f"{opcode}{flags} <{LANES} x {t}> {self.vector(t, x)}, {self.vector(t, y)}")

    def selection(self, name: str, text: str, match: re.Match[str]) -> None:
        flags, c, t, x, y = match.groups()
        if self.is_uniform(c, x, y):
            return self.same(name, text)
        which, kind = f"i1 {c}" if self.is_uniform(c) else f"<{LANES} x i1> {c}", f"<{LANES} x {t}>"
        self.varying(name, t, f"select{flags} {which}, {kind} {self.vector(t, x)}, {kind} {self.vector(t, y)}")

    def cast(self, name: str, text: str, match: re.Match[str]) -> None:
        opcode, flags, t, x, to = match.groups()
        if self.is_uniform(x):
            return self.same(name, text)
        self.varying(name, to, f"{opcode}{flags} <{LANES} x {t}> {self.vector(t, x)} to <{LANES} x {to}>")

    def address(self, name: str, text: str, match: re.Match[str]) -> None:
        t, base, index = match.groups()
        if self.is_uniform(base, index):
            return self.same(name, text)
        if base in self.strides or index not in self.strides:
            raise NotWhole
        self.strides[name], self.elements[name] = self.strides[index], t
        self.lines.append(f"{name} = getelementptr inbounds {t}, ptr {base}, i64 {self.first(index)}")

    def load(self, name: str, text: str, match: re.Match[str]) -> None:
        t, at, align, notes = match.groups()
        self.accesses.append((False, self.numbers.get(at, -1), notes))
        if self.is_uniform(at):
            return self.same(name, text)
        self._check_element(t, at)
        kind = f"<{LANES} x {t}>"
        if self.strides[at] == "1":
            return self.varying(name, t, f"load {kind}, ptr {at}, align {align}{notes}")
        self._strided(name, t, at, f"align {align}{notes}")

    def _strided(self, name: str, t: str, at: str, rest: str) -> None:
        """Load elements that are no neighbours one by one.

        By gathers a product of a matrix and a vector takes 1.9 times as long on an AMD EPYC with AVX-512.
        """
        vector, stride = "poison", self.strides[at]
        for k in range(LANES):
            offset = str(k * int(stride)) if stride.lstrip("-").isdigit() else self.op(f"mul nsw i64 {stride}, {k}")
            here = self.op(f"getelementptr inbounds {t}, ptr {at}, i64 {offset}")
            element = self.op(f"load {t}, ptr {here}, {rest}")
            put = f"insertelement <{LANES} x {t}> {vector}, {t} {element}, i64 {k}"
            if k < LANES - 1:
                vector = self.op(put)
        self.varying(name, t, put)

    def _store(self, match: re.Match[str]) -> None:
        t, x, at, align, notes = match.groups()
        if x in self.carried or self.strides.get(at) != "1":
            raise NotWhole
        self._check_element(t, at)
        self.accesses.append((True, self.numbers[at], notes))
        self.lines.append(f"store <{LANES} x {t}> {self.vector(t, x)}, ptr {at}, align {align}{notes}")

    def _check_element(self, t: str, at: str) -> None:
        """Raise ``NotWhole`` unless the address's stride counts elements of type ``t``."""
        if self.elements.get(at) != t:
            raise NotWhole

    def call(self, name: str, text: str, match: re.Match[str]) -> None:
        flags, t, callee, given = match.groups()
        arguments = [a.rsplit(" ", 1) for a in given.split(", ")]
        if any(kind != t for kind, _ in arguments):
            raise NotWhole
        if self.is_uniform(*(x for _, x in arguments)):
            return self.same(name, text)
        every, kind = [self.vector(t, x) for _, x in arguments], f"<{LANES} x {t}>"
        if intrinsic := _INTRINSIC.fullmatch(callee):
            symbol = f"llvm.{intrinsic[1]}.v{LANES}{_SUFFIX[t]}"
            whole = self.writer.declare(symbol, kind, ", ".join([kind] * len(every)))
            return self.varying(name, t, f"call{flags} {kind} {whole}({', '.join(f'{kind} {x}' for x in every)})")
        symbol, lanes = _vector_version(self.writer, callee)
        call = f"call{flags} <{lanes} x {t}> {symbol}"
        calls = [self._call_for(call, t, every, lanes, first) for first in range(0, LANES, lanes)]
        while len(calls) > 1:
            parts = [self.op(part) for part in calls]
            lanes *= 2
            kind, mask = f"<{lanes // 2} x {t}>", _mask(0, lanes)
            calls = [f"shufflevector {kind} {x}, {kind} {y}, {mask}" for x, y in zip(parts[::2], parts[1::2])]
        self.varying(name, t, calls[0])

    def _call_for(self, call: str, t: str, every: list[str], lanes: int, first: int) -> str:
        """The call for ``lanes`` of the lanes, starting at ``first``."""
        kind, mask = f"<{LANES} x {t}>", _mask(first, lanes)
        given = [x if lanes == LANES else self.op(f"shufflevector {kind} {x}, {kind} poison, {mask}") for x in every]
        return f"{call}({', '.join(f'<{lanes} x {t}> {x}' for x in given)})"

    # --- memory ---------------------------------------------------------------------------------------

    def _check_memory(self) -> None:
        """Raise ``NotWhole`` unless each store is to another array, or to the same address, than every other access."""
        for k, (stores, where, notes) in enumerate(self.accesses):
            for _, other, others in self.accesses[:k] + self.accesses[k + 1:] if stores else ():
                if where != other and not (_apart(self.writer, notes, others) or _apart(self.writer, others, notes)):
                    raise NotWhole


def _mask(first: int, lanes: int) -> str:
    return f"<{lanes} x i32> <{', '.join(f'i32 {first + j}' for j in range(lanes))}>"


def _matched(pattern: re.Pattern[str], line: str) -> re.Match[str]:
    if (match := pattern.fullmatch(line)) is None:
        raise NotWhole
    return match


def _apart(writer: Writer, notes: str, others: str) -> bool:
    """True if the metadata of the first access exclude all arrays that the second one may access."""
    none, some = re.search(r"!noalias !(\d+)", notes), re.search(r"!alias\.scope !(\d+)", others)
    return bool(none and some) and set() < _members(writer, some) <= _members(writer, none)


def _members(writer: Writer, found: re.Match[str] | None) -> set[str]:
    return set(re.findall(r"!\d+", writer.node_text(int(found[1])))) if found else set()


def _vector_version(writer: Writer, callee: str) -> tuple[str, int]:
    """The widest vector version of a scalar function, and its lanes."""
    name = re.escape(callee[1:])
    found = [(int(lanes), symbol) for lanes, symbol in
             re.findall(rf"_ZGV_LLVM_N(\d+)v+_{name}\(([^)]+)\)", writer.header(callee[1:])) if int(lanes) <= LANES]
    if not found:
        raise NotWhole
    lanes, symbol = max(found)
    return f"@{symbol}", lanes


_RULES: list[tuple[re.Pattern[str], Callable[[_Body, str, str, re.Match[str]], None]]] = [
    (_BINARY, _Body.binary), (_NEGATION, _Body.negation), (_COMPARISON, _Body.comparison),
    (_SELECTION, _Body.selection), (_CAST, _Body.cast), (_ADDRESS, _Body.address), (_LOAD, _Body.load),
    (_CALL, _Body.call),
]
