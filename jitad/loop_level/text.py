"""The text form of the loop level: that of the IR (``ir/graph.py``), with these types and ops with a region.

::

    type ::= …                                   ; types.py
    op   ::= … | [value ("," value)* "="] "for" attrs? value "=" value "to" value "step" value [carried] "{" body "}"
    carried ::= "(" value "=" value ("," value "=" value)* ")"
    body ::= op* "yield" values                  ; on lines of their own

The types of carried values are those of their first values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ir.graph import Block, Function, Module, Op, Value
from ..ir.text import parser, printer
from ..ir.text.lexer import Token
from ..ir.types import I64, SCALARS, Type, dtype_of
from .ops import OPS, result_types
from .types import Buffer, Vector, as_types


def _dtype(types: Sequence[Any]) -> Any:
    t = types[0]
    return t.dtype if isinstance(t, (Vector, Buffer)) else dtype_of(t)


IMPLIED: printer.Implied = {
    "const": ("type", lambda types: types[0]), "undef": ("type", lambda types: types[0]),
    "alloc": ("type", lambda types: types[0]), "retype": ("type", lambda types: types[0]),
    "cast": ("dtype", _dtype), "pop": ("types", lambda types: tuple(types[1:])),
}


def print_module(module: Module, locations: bool = False) -> str:
    """The text of a module of this level."""
    return printer.print_module(module, locations, LoopPrinter)


def print_function(func: Function) -> str:
    return "\n".join(LoopPrinter(func).lines())


def parse_module(text: str, file: str = "") -> Module:
    """The module that ``text`` describes; raises ``ParseError``."""
    return parser.parse_module(text, file, LoopParser)


class LoopPrinter(printer.FunctionPrinter):
    """Prints one function; a region is indented."""

    implied = IMPLIED

    def type(self, t: Type) -> str:
        return str(t)                                # equal types may differ in their alias sets

    def op(self, op: Op) -> str:
        return self._head(op) + " …}" if op.name == "for" else super().op(op)

    def op_lines(self, op: Op, margin: str) -> Iterator[str]:
        if op.name != "for":
            yield from super().op_lines(op, margin)
            return
        yield margin + self._head(op)
        for inner in op.regions[0].all_ops():
            yield from self.op_lines(inner, margin + "  ")
        yield margin + "}"

    def _head(self, op: Op) -> str:
        lower, upper, step, *carried = map(self.value, op.operands)
        iv, *params = map(self.value, op.regions[0].params)
        results = ", ".join(map(self.value, op.results)) + " = " if op.results else ""
        attrs = f" {printer.attributes(op.attrs)}" if op.attrs else ""
        start = f" ({', '.join(f'{p} = {v}' for p, v in zip(params, carried))})" if carried else ""
        return f"{results}for{attrs} {iv} = {lower} to {upper} step {step}{start} {{"

    def _terminator(self, op: Op) -> str:
        if op.name != "yield":
            return super()._terminator(op)
        return " ".join(["yield", *filter(None, [self._values(op.operands)])])


class LoopParser(parser.FunctionParser):
    """Reads one function."""

    ops = OPS
    implied = IMPLIED

    def rule(self, name: str, operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
        return as_types(result_types(name, operands, attrs))

    def type(self) -> Type:
        t = self.t
        if t.accept("vector"):
            dtype = self._dtype()
            t.expect("[")
            lanes = int(t.take("number", "a number of lanes").text)
            t.expect("]")
            return as_types([Vector(dtype, lanes)])[0]
        if not t.accept("buffer"):
            return super().type()
        dtype, dims = self._dtype(), self._dims()
        strides = self._dims() if t.accept("strides") else None
        alias = int(t.take("number", "an alias set").text) if t.accept("alias") else None
        return as_types([Buffer(dtype, dims, strides, alias)])[0]

    def _dtype(self) -> Any:
        word = self.t.take("word", "a scalar type")
        found = SCALARS.get(word.text)
        return found if found is not None else self.t.fail(f"not a scalar type: {word.text}", word)

    def _dims(self) -> tuple[int | None, ...]:
        self.t.expect("[")
        return tuple(self.t.list(lambda: parser.dim(self.t), "]"))

    def made(self, word: Token, names: list[Token]) -> Op:
        if word.text == "for":
            return self._for(names)
        if word.text == "yield":
            op = self.block.term = Op("yield", self._operands())
            return op
        return super().made(word, names)

    def _for(self, names: list[Token]) -> Op:
        t = self.t
        attrs = parser.attributes(t) if t.accept("{") else {}
        iv = t.take("value", "the induction variable")
        bounds = [self._after("="), self._after("to"), self._after("step")]
        carried = t.list(self._start, ")") if t.accept("(") else []
        starts = [v for _, v in carried]
        if len(names) != len(starts):
            t.fail(f"{len(names)} results of {len(starts)} carried values")
        op = Op("for", [*bounds, *starts], [v.type for v in starts], attrs)
        body = Block(self.func)
        op.regions = (body,)
        for result, name in zip(op.results, names):
            result.hint = parser.hint(name)
        self._define(iv, body.add_param(I64, parser.hint(iv)))
        for name, v in carried:
            self._define(name, body.add_param(v.type, parser.hint(name)))
        outer, self.block = self.block, body
        t.expect("{")
        while not t.accept("}"):
            self._op()
        self.block = outer
        self.block.ops.append(op)
        return op

    def _after(self, word: str) -> Value:
        self.t.expect(word)
        return self._use()

    def _start(self) -> tuple[Token, Value]:
        name = self.t.take("value", "a carried value")
        return name, self._after("=")
