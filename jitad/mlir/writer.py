"""Appends lines to the text of one function.

Constants, and memory in the stack frame, stand at its head.  Sizes and indices are i64 at the loop level and ``index``
in ``memref``: ``index`` converts each value once in a block or region.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..ir.graph import Value
from ..ir.types import I64, Scalar
from ..loop_level.types import Vector, type_of
from . import types


class Reg(NamedTuple):
    """A value of MLIR: its name, and its type."""

    name: str
    type: str


class Writer:
    """The text of a function: ``head``, ``lines``; ``externals``: the types of functions that the module declares."""

    def __init__(self, externals: dict[str, str]) -> None:
        self.externals = externals
        self.head: list[str] = []
        self.lines: list[str] = []
        self.margin = "    "
        self.regs: dict[Value, Reg] = {}
        self._constants: dict[tuple[str, str], Reg] = {}
        self._indices: ChainMap[Value, Reg] = ChainMap()
        self._names: Counter[str] = Counter()
        self._numbered = 0

    # --- names and lines ----------------------------------------------------------------------------

    def name(self, hint: str = "") -> str:
        """A new name."""
        if not hint:
            self._numbered += 1
            return f"%{self._numbered - 1}"
        return "%" + self.distinct(hint)

    def distinct(self, hint: str) -> str:
        """``hint`` in a form that MLIR allows, with a number if it was taken."""
        stem = re.sub(r"[^A-Za-z0-9_]", "_", hint)
        stem = f"_{stem}" if stem[:1].isdigit() else stem
        self._names[stem] += 1
        return stem if self._names[stem] == 1 else f"{stem}.{self._names[stem] - 1}"

    def line(self, text: str) -> None:
        self.lines.append(self.margin + text)

    def define(self, v: Value) -> Reg:
        """The register of a parameter, or of an op's result."""
        self.regs[v] = Reg(self.name(v.hint), types.register(type_of(v)))
        return self.regs[v]

    def use(self, v: Value) -> Reg:
        return self.regs[v]

    def uses(self, vs: Sequence[Value]) -> list[Reg]:
        return [self.regs[v] for v in vs]

    # --- ops ----------------------------------------------------------------------------------------

    def text(self, text: str, type: str) -> Reg:
        """Append an op with one result."""
        r = Reg(self.name(), type)
        self.line(f"{r.name} = {text}")
        return r

    def op(self, name: str, *xs: Reg) -> Reg:
        """Append an op whose operands and result have one type."""
        return self.text(f"{name} {names(xs)} : {xs[0].type}", xs[0].type)

    def convert(self, name: str, x: Reg, type: str) -> Reg:
        return self.text(f"{name} {x.name} : {x.type} to {type}", type)

    def compare(self, predicate: str, x: Reg, y: Reg) -> Reg:
        """Append a comparison; the predicates of floats are not those of integers."""
        kind = "cmpf" if is_float(x) else "cmpi"
        return self.text(f"arith.{kind} {predicate}, {x.name}, {y.name} : {x.type}", with_element(x.type, "i1"))

    def select(self, c: Reg, x: Reg, y: Reg) -> Reg:
        condition = "" if c.type == "i1" else f"{c.type}, "
        return self.text(f"arith.select {c.name}, {x.name}, {y.name} : {condition}{x.type}", x.type)

    def call(self, name: str, xs: Sequence[Reg], results: Sequence[str]) -> list[Reg]:
        """Append a call of an external function."""
        made = f"({types_of(xs)}) -> ({', '.join(results)})"
        self.externals[name] = made
        out = [Reg(self.name(), t) for t in results]
        self.line(f"{names(out)} = " * bool(out) + f"func.call @{name}({names(xs)}) : {made}")
        return out

    # --- constants and indices ----------------------------------------------------------------------

    def const(self, value: Any, t: Scalar | Vector) -> Reg:
        """A number, or a vector of equal numbers."""
        if isinstance(t, Vector):
            return self._constant(f"dense<{types.literal(value, t.dtype)}>", types.register(t))
        return self._constant(types.literal(value, t), types.scalar(t))

    def number(self, n: int, type: str = "index") -> Reg:
        """A constant integer of an MLIR type."""
        return self._constant(str(n), type)

    def _constant(self, text: str, type: str) -> Reg:
        if (text, type) not in self._constants:
            r = self._constants[text, type] = Reg(self.name("c"), type)
            self.head.append(f"    {r.name} = arith.constant {text}" + f" : {type}" * (type != "i1"))
        return self._constants[text, type]

    def at_head(self, text: str, type: str) -> Reg:
        r = Reg(self.name(), type)
        self.head.append(f"    {r.name} = {text}")
        return r

    def index(self, v: Value) -> Reg:
        """A size or an index as ``index``."""
        if v.const is not None and type_of(v) is I64:
            return self.number(int(v.const))
        if v not in self._indices:
            self._indices[v] = self.to_index(self.regs[v])
        return self._indices[v]

    def is_index(self, v: Value, x: Reg) -> None:
        """Record that ``x`` is ``v`` as ``index``."""
        self._indices[v] = x

    def to_index(self, x: Reg) -> Reg:
        return self.convert("arith.index_cast", x, "index")

    def from_index(self, x: Reg) -> Reg:
        return self.convert("arith.index_cast", x, "i64")

    # --- regions ------------------------------------------------------------------------------------

    @contextmanager
    def region(self) -> Iterator[None]:
        """Indent the lines of a region, and forget after it what was computed in it."""
        margin, indices = self.margin, self._indices
        self.margin, self._indices = margin + "  ", indices.new_child()
        try:
            yield
        finally:
            self.margin, self._indices = margin, indices

    def block(self) -> None:
        """Begin a block: nothing that was computed elsewhere dominates it for sure."""
        self._indices = ChainMap()

    def loop(self, count: Reg, body: Callable[[Reg, list[Reg]], Sequence[Reg]], start: Sequence[Reg] = ()) -> list[Reg]:
        """Append a loop over 0, 1, …, ``count`` − 1, of type ``index``; returns the carried values after it."""
        i, carried = Reg(self.name("k"), "index"), [Reg(self.name(), x.type) for x in start]
        results = [Reg(self.name(), x.type) for x in start]
        head = f"scf.for {i.name} = {self.number(0).name} to {count.name} step {self.number(1).name}"
        self.for_(head, results, carried, start, lambda: body(i, carried))
        return results

    def for_(self, head: str, results: Sequence[Reg], carried: Sequence[Reg], start: Sequence[Reg],
             body: Callable[[], Sequence[Reg]], type: str = "") -> None:
        """Append a loop; ``head`` is its text up to the carried values, ``type`` that of its counter."""
        if carried:
            given = ", ".join(f"{c.name} = {s.name}" for c, s in zip(carried, start))
            head = f"{names(results)} = {head} iter_args({given}) -> ({types_of(start)})"
        self.line(f"{head}{type} {{")
        with self.region():
            last = body()
            if last:
                self.line(f"scf.yield {names(last)} : {types_of(last)}")
        self.line("}")

    def if_(self, c: Reg, then: Callable[[], Sequence[Reg]], otherwise: Callable[[], Sequence[Reg]],
            results: Sequence[str]) -> list[Reg]:
        """Append a choice between two regions, which give values of these types."""
        out = [Reg(self.name(), t) for t in results]
        made = f"{names(out)} = " * bool(out), f" -> ({', '.join(results)})" * bool(out)
        self.line(f"{made[0]}scf.if {c.name}{made[1]} {{")
        for part, end in ((then, "} else {" if out else "}"), *([(otherwise, "}")] if out else [])):
            with self.region():
                last = part()
                if last:
                    self.line(f"scf.yield {names(last)} : {types_of(last)}")
            self.line(end)
        return out


def names(xs: Sequence[Reg]) -> str:
    return ", ".join(x.name for x in xs)


def types_of(xs: Sequence[Reg]) -> str:
    return ", ".join(x.type for x in xs)


def typed(xs: Sequence[Reg]) -> str:
    """The arguments of an edge."""
    return f"({names(xs)} : {types_of(xs)})" if xs else ""


def element_of(type: str) -> str:
    """The type of a lane, or the type itself."""
    return type[:-1].rpartition("x")[2] if type.startswith("vector") else type


def with_element(type: str, element: str) -> str:
    """As many lanes of another type."""
    return type[:-1].rpartition("x")[0] + f"x{element}>" if type.startswith("vector") else element


def is_float(x: Reg) -> bool:
    return element_of(x.type).startswith("f")
