"""Rewrites loops over a fixed, small number of elements as straight-line code on fixed-width vectors.

LLVM then has no loop to analyse.  The body, written for one element ``i``, is rewritten instruction by
instruction for all of them.  A value is

* *uniform*: loop-invariant, or computed from uniform values; it is unchanged;
* *linear*: ``first + stride * i``, an index or an address; its instruction is kept and computes the first
  element's;
* *varying*: a vector of all elements.

A loop with an instruction that has no rule here stays a loop, which LLVM may vectorise.  So does a loop in which one
element may read or overwrite what another has stored, by its alias scopes (``note``), and one that carries
anything but sums and conjunctions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..llvm.code import Code, Fragment
from ..llvm.emit import Scopes, Writer
from ..llvm.instruction import Instruction

_SUFFIX = {"double": "f64", "float": "f32"} | {t: t for t in ("i64", "i32", "i16", "i8", "i1")}
_BINARY = frozenset("fadd fsub fmul fdiv frem add sub mul udiv sdiv urem srem and or xor shl lshr ashr".split())
_CASTS = ("zext", "sext", "trunc", "sitofp", "uitofp", "fpext", "fptrunc")
_INTRINSICS = frozenset(("fabs", "sqrt", "floor", "ceil", "maximum", "minimum", "maxnum", "minnum", "copysign",
                         "fmuladd", "smin", "umin", "smax", "umax"))


class NotWhole(Exception):
    """The loop cannot be rewritten."""


def vectors(writer: Writer, code: Code, lines: Sequence[Instruction], i: str,
            carried: Sequence[tuple[str, str, str, str]], lanes: int) -> tuple[list[Instruction], list[str]] | None:
    """The instructions for all ``i`` at once, with new names of ``code``, and the final carried values.

    Returns None if an instruction has no rule.  ``carried``: of each value its type, its initial value, its name within
    an iteration, and its name for the next one.
    """
    try:
        return _Body(writer, code, i, {phi: (t, before, after) for t, before, phi, after in carried}, lanes).run(lines)
    except NotWhole:
        return None


class _Body:
    """The body while it is rewritten.

    ``strides``: of linear values.  ``types``: element types of varying values.  ``numbers``: value numbers, equal for
    equal expressions, so that equal addresses are recognised.
    """

    def __init__(self, writer: Writer, code: Code, i: str, carried: dict[str, tuple[str, str, str]], lanes: int
                 ) -> None:
        self.writer, self.code, self.i, self.carried, self.lanes = writer, code, i, carried, lanes
        self.made = Fragment(code)
        self.strides: dict[str, str] = {i: "1"}
        self.elements: dict[str, str] = {}                       # address → the type that its stride counts
        self.types: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.ways: dict[Instruction, int] = {}                   # expression → value number
        self.finals: dict[str, str] = {}
        self.vectors: dict[tuple[str, str], str] = {}
        self.accesses: list[tuple[bool, int, Scopes]] = []       # (is a store, value number of the address, scopes)

    def run(self, lines: Sequence[Instruction]) -> tuple[list[Instruction], list[str]]:
        reads = [x for i in lines for x in i.reads()]
        for phi, (_, _, after) in self.carried.items():
            if reads.count(phi) != 1 or after in reads:
                raise NotWhole
        for i in lines:
            if i.result:
                self._value(i)
            else:
                self._store(i)
        self._check_memory()
        if self.finals.keys() != self.carried.keys():
            raise NotWhole
        return self.made.lines, [self.finals[phi] for phi in self.carried]

    def _value(self, i: Instruction) -> None:
        numbered = tuple([f"#{self.numbers[x]}" if x in self.numbers else x for x in i.operands])
        self.numbers[i.result] = self.ways.setdefault(i._replace(result="", operands=numbered), len(self.ways))
        kinds = i.types if i.opcode == "getelementptr" else (i.type, *i.types)
        if i.opcode not in _RULES or not all([t in _SUFFIX for t in kinds]) or i.notes and i.opcode != "load":
            raise NotWhole
        _RULES[i.opcode](self, i)

    def kind(self, t: str) -> str:
        return f"<{self.lanes} x {t}>"

    # --- operands -----------------------------------------------------------------------------------

    def is_uniform(self, *operands: str) -> bool:
        if any(x in self.carried for x in operands):
            raise NotWhole
        return not any(x in self.strides or x in self.types for x in operands)

    def first(self, x: str) -> str:
        return "0" if x == self.i else x

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
        kind = self.kind(t)
        one = self.made.insert_element(kind, "poison", t, x, 0)
        return self.made.shuffle(kind, kind, one, "poison", f"<{self.lanes} x i32> zeroinitializer")

    def _linear(self, t: str, x: str) -> str:
        if t != "i64":                                           # an address
            raise NotWhole
        steps = self.steps(self.strides[x])
        return steps if x == self.i else self.made.arith("add", self.kind("i64"), self._splat("i64", x), steps)

    def steps(self, stride: str) -> str:
        numbers = f"<{', '.join(f'i64 {k}' for k in range(self.lanes))}>"
        if stride == "1":
            return numbers
        return self.made.arith("mul", self.kind("i64"), self._splat("i64", stride), numbers)

    def varying(self, i: Instruction, operands: Sequence[str], **changes: Any) -> None:
        """Append the instruction for all elements, with these operands and what else differs."""
        self.types[i.result] = i.type
        self.made.lines.append(i._replace(operands=tuple(operands), type=self.kind(i.type), **changes))

    def spread(self, t: str, operands: Sequence[str]) -> list[str]:
        return [self.vector(t, x) for x in operands]

    # --- instructions -------------------------------------------------------------------------------

    def arithmetic(self, i: Instruction) -> None:
        phi = next((v for v in i.operands if v in self.carried), None)
        if phi is not None:
            return self._reduce(i, phi)
        if self.is_uniform(*i.operands):
            return self.made.lines.append(i)
        if i.type == "i64" and (stride := self._stride(i.opcode, *i.operands)) is not None:
            self.strides[i.result] = stride
            return self.made.lines.append(i._replace(operands=tuple(map(self.first, i.operands))))
        self.varying(i, self.spread(i.type, i.operands))

    def _stride(self, opcode: str, x: str, y: str) -> str | None:
        """The stride of ``x + y``, ``x - y`` or ``x * y`` if it is linear, else None."""
        moving = [v for v in (x, y) if v in self.strides]
        if len(moving) != 1 or x in self.types or y in self.types:
            return None
        stride, other = self.strides[moving[0]], y if moving[0] == x else x
        if opcode == "add" or opcode == "sub" and moving[0] == x:
            return stride
        return other if opcode == "mul" and stride == "1" else None

    def _reduce(self, i: Instruction, phi: str) -> None:
        t, (x,) = i.type, [v for v in i.operands if v != phi] or [""]
        _, before, after = self.carried[phi]
        if after != i.result or i.opcode not in ("fadd", "and", "or") or x in self.carried:
            raise NotWhole
        kind, every, name = self.kind(t), self.vector(t, x), f"llvm.vector.reduce.{i.opcode}.v{self.lanes}{_SUFFIX[t]}"
        if i.opcode == "fadd":
            callee = self.writer.declare(name, t, f"{t}, {kind}")
            self.finals[phi] = self.made.call(t, callee, (t, before), (kind, every), flags=i.flags)
        else:
            total = self.made.call(t, self.writer.declare(name, t, kind), (kind, every))
            self.finals[phi] = self.made.arith(i.opcode, t, before, total)

    def negation(self, i: Instruction) -> None:
        if self.is_uniform(*i.operands):
            return self.made.lines.append(i)
        self.varying(i, self.spread(i.type, i.operands))

    def converted(self, i: Instruction) -> None:
        """A comparison or a cast, whose operands have another type than the result."""
        if self.is_uniform(*i.operands):
            return self.made.lines.append(i)
        self.varying(i, self.spread(i.types[0], i.operands), types=(self.kind(i.types[0]),))

    def selection(self, i: Instruction) -> None:
        if self.is_uniform(*i.operands):
            return self.made.lines.append(i)
        c, *xs = i.operands
        self.varying(i, [c, *self.spread(i.type, xs)], types=("i1" if self.is_uniform(c) else self.kind("i1"),))

    def address(self, i: Instruction) -> None:
        base, index = i.operands
        if self.is_uniform(base, index):
            return self.made.lines.append(i)
        if base in self.strides or index not in self.strides:
            raise NotWhole
        self.strides[i.result], self.elements[i.result] = self.strides[index], i.types[0]
        self.made.lines.append(i._replace(operands=(base, self.first(index))))

    def load(self, i: Instruction) -> None:
        at = i.operands[0]
        self.accesses.append((False, self.numbers.get(at, -1), self.writer.scopes(i.notes)))
        if self.is_uniform(at):
            return self.made.lines.append(i)
        self._check_element(i.type, at)
        if self.strides[at] == "1":
            return self.varying(i, i.operands)
        self._strided(i, at)

    def _strided(self, i: Instruction, at: str) -> None:
        """Load elements that are no neighbours one by one.

        By gathers a product of a matrix and a vector takes 1.9 times as long on an AMD EPYC with AVX-512.
        """
        vector, stride, made = "poison", self.strides[at], self.made
        for k in range(self.lanes):
            number = stride.lstrip("-").isdigit()
            offset = str(k * int(stride)) if number else made.arith("mul", "i64", stride, str(k), flags="nsw")
            here = made.address(i.type, at, offset)
            element = made.load(i.type, here, int(i.detail), i.notes)
            name = i.result if k == self.lanes - 1 else self.code.fresh()
            put = (vector, element, str(k))
            made.lines.append(Instruction("insertelement", name, self.kind(i.type), put, (i.type, "i64")))
            vector = name
        self.types[i.result] = i.type

    def _store(self, i: Instruction) -> None:
        if i.opcode != "store":
            raise NotWhole
        (x, at), (t,) = i.operands, i.types
        if x in self.carried or self.strides.get(at) != "1" or t not in _SUFFIX:
            raise NotWhole
        self._check_element(t, at)
        self.accesses.append((True, self.numbers[at], self.writer.scopes(i.notes)))
        self.made.lines.append(i._replace(operands=(self.vector(t, x), at), types=(self.kind(t),)))

    def _check_element(self, t: str, at: str) -> None:
        """Raise ``NotWhole`` unless the address's stride counts elements of type ``t``."""
        if self.elements.get(at) != t:
            raise NotWhole

    def call(self, i: Instruction) -> None:
        t = i.type
        if {*i.types} != {t}:
            raise NotWhole
        if self.is_uniform(*i.operands):
            return self.made.lines.append(i)
        every, kind = self.spread(t, i.operands), self.kind(t)
        types = (kind,) * len(every)
        _, _, intrinsic = i.detail.partition("@llvm.")
        if (stem := intrinsic.partition(".")[0]) in _INTRINSICS:
            whole = self.writer.declare(f"llvm.{stem}.v{self.lanes}{_SUFFIX[t]}", kind, ", ".join(types))
            return self.varying(i, every, types=types, detail=whole)
        lanes, symbol = self._vector_version(i.detail)
        if lanes == self.lanes:
            return self.varying(i, every, types=types, detail=symbol)
        kind, masks = f"<{lanes} x {t}>", [_mask(first, lanes) for first in range(0, self.lanes, lanes)]
        given = [[self.made.shuffle(kind, self.kind(t), x, "poison", mask) for x in every] for mask in masks]
        parts = [self.made.call(kind, symbol, *((kind, x) for x in xs), flags=i.flags) for xs in given]
        while len(parts) > 1:
            of, lanes = f"<{lanes} x {t}>", 2 * lanes
            parts = [self.made.shuffle(f"<{lanes} x {t}>", of, x, y, _mask(0, lanes))
                     for x, y in zip(parts[::2], parts[1::2])]
        self.made.lines[-1] = self.made.lines[-1]._replace(result=i.result)
        self.types[i.result] = t

    def _vector_version(self, callee: str) -> tuple[int, str]:
        """The lanes of the widest vector version of a scalar function, and its name."""
        versions = self.writer.vector_versions.get(callee[1:], ())
        found = [(lanes, symbol) for lanes, symbol in versions if lanes <= self.lanes]
        if not found:
            raise NotWhole
        lanes, symbol = max(found)
        return lanes, f"@{symbol}"

    # --- memory ---------------------------------------------------------------------------------------

    def _check_memory(self) -> None:
        """Raise ``NotWhole`` unless each store is to another array, or to the same address, than every other access."""
        for k, (stores, where, scopes) in enumerate(self.accesses):
            for _, other, others in self.accesses[:k] + self.accesses[k + 1:] if stores else ():
                if where != other and not scopes.apart(others):
                    raise NotWhole


def _mask(first: int, lanes: int) -> str:
    return f"<{lanes} x i32> <{', '.join(f'i32 {first + j}' for j in range(lanes))}>"


_RULES: Mapping[str, Callable[[_Body, Instruction], None]] = {
    **dict.fromkeys(_BINARY, _Body.arithmetic), **dict.fromkeys(("fneg", "freeze"), _Body.negation),
    **dict.fromkeys((*_CASTS, "icmp", "fcmp"), _Body.converted),
    "select": _Body.selection, "getelementptr": _Body.address, "load": _Body.load, "call": _Body.call}
