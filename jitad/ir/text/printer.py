"""The text form of modules; the grammar is at the head of ``graph.py``.

Names are stable: a value is ``%hint`` (``%hint.1`` for the second of that name) or a running number,
a block ``^name`` or ``^b`` and its position.  Attributes that the result types imply are not printed (``IMPLIED``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...errors import Loc
from ..graph import Block, Derived, Edge, ExcInfo, External, Filled, Function, Module, Op, Operand, Rule, Value
from ..ops import TERMINATORS
from ..types import Array, Scalar, Stack, Type, dtype_of

Implied = dict[str, tuple[str, Callable[[Sequence[Type]], Any]]]
# op name → (attribute, its value as a function of the result types): such attributes are not printed.
IMPLIED: Implied = {
    "const": ("type", lambda types: types[0]),
    "undef": ("type", lambda types: types[0]),
    "as_type": ("type", lambda types: types[0]),
    "cast": ("dtype", lambda types: _dtype(types[0])),
    "empty": ("dtype", lambda types: _dtype(types[0])),
    "pop": ("types", lambda types: tuple(types[1:])),
}


def _dtype(t: Type) -> Scalar | None:
    return None if isinstance(t, Stack) else dtype_of(t)


_PLAIN_NAME = re.compile(r"[\w.$<>]+\Z")
_NOT_IN_HINT = re.compile(r"\W")
_NUMBERED_BLOCK = re.compile(r"b\d+\Z")


class Opaque:
    """A Python object in an attribute that has no text form; only its ``repr`` is known."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def print_module(module: Module, locations: bool = False, function: type[FunctionPrinter] | None = None) -> str:
    """The text of a module; with ``locations`` each op's line ends with its location in the user's source.

    ``function``: a printer of functions of another level.
    """
    printer = function or FunctionPrinter
    head = [_exception(i, info) for i, info in enumerate(module.exceptions)]
    head += [_external(name, e) for name, e in module.external.items()]
    head += [_derived(name, d) for name, d in module.derived.items()]
    head += [_rule(name, r) for name, r in module.rules.items()]
    parts = ["\n".join(head)] if head else []
    parts += ["\n".join(printer(f, locations).lines()) for f in module.functions.values()]
    return "\n\n".join(parts) + "\n"


def print_function(func: Function, locations: bool = False) -> str:
    return "\n".join(FunctionPrinter(func, locations).lines())


class FunctionPrinter:
    """Prints one function, and single lines of it for messages; a value of another function is ``%?``.

    ``implied``: the attributes that are not printed.
    """

    implied = IMPLIED

    def __init__(self, func: Function, locations: bool = False) -> None:
        self.func, self.locations = func, locations
        self._types: dict[Type, str] = {}
        self.values = _value_names(func)
        self.blocks = _block_names(func)

    def lines(self) -> Iterable[str]:
        yield self.header()
        for i, block in enumerate(self.func.blocks):
            if i:
                yield ""
            yield self.block_head(block)
            for op in block.all_ops():
                yield from self.op_lines(op, "  ")
        yield "}"

    def op_lines(self, op: Op, margin: str) -> Iterable[str]:
        """The lines of an op; one, unless it has regions."""
        yield margin + self.op(op)

    def header(self) -> str:
        f = self.func
        own = f.own
        params = ", ".join(f"{self.value(p)}: {'own ' if i in own else ''}{self.type(p.type)}"
                           for i, p in enumerate(f.params))
        results = ", ".join(map(self.type, f.result_types))
        attrs = f" {attributes(f.attrs)}" if f.attrs else ""
        where = f"  ; {f.loc}" if self.locations and f.loc.line else ""
        return f"func {global_name(f.name)}({params}) -> ({results}){attrs} {{{where}"

    def block_head(self, block: Block) -> str:
        if not block.params or block is self.func.entry:
            return f"{self.blocks[block]}:"
        params = ", ".join(f"{self.value(p)}: {self.type(p.type)}" for p in block.params)
        return f"{self.blocks[block]}({params}):"

    def op(self, op: Op) -> str:
        text = self._terminator(op) if op.name in TERMINATORS else self._plain(op)
        return f"{text}  ; {op.loc}" if self.locations and op.loc.line else text

    def value(self, v: Value) -> str:
        return self.values.get(v) or f"%?{v.hint}"

    def type(self, t: Type) -> str:
        text = self._types.get(t)
        if text is None:
            text = self._types[t] = str(t)
        return text

    def _values(self, values: Iterable[Value]) -> str:
        names = self.values
        return ", ".join([names.get(v) or self.value(v) for v in values])

    def _edge(self, edge: Edge) -> str:
        name = self.blocks.get(edge.block) or f"^?{edge.block.name}"
        return f"{name}({self._values(edge.args)})" if edge.args else name

    def _plain(self, op: Op) -> str:
        attrs = _shown_attributes(op, self.implied)
        words = [op.name]
        if op.name == "const" and "value" in attrs:
            words.append(literal(attrs.pop("value")))
        if attrs:
            words.append(attributes(attrs))
        if op.operands:
            words.append(self._values(op.operands))
        text = " ".join(words)
        if not op.results:
            return text
        types = ", ".join([self.type(r.type) for r in op.results])
        return f"{self._values(op.results)} = {text} : {types}"

    def _terminator(self, op: Op) -> str:
        attrs, edges = dict(op.attrs), ", ".join(map(self._edge, op.edges))
        callee = attrs.pop("callee", None)
        words = [op.name]
        if attrs:
            words.append(attributes(attrs))
        if op.name == "call":
            words.append(f"{global_name(str(callee))}({self._values(op.operands)}) -> {edges}")
        elif op.operands or edges:
            words.append(", ".join(filter(None, (self._values(op.operands), edges))))
        return " ".join(words)


# --- names ----------------------------------------------------------------------------------------

def _value_names(func: Function) -> dict[Value, str]:
    names: dict[Value, str] = {}
    seen: dict[str, int] = {}
    plain = 0
    for block in func.blocks:
        for v in (*block.params, *_made(block)):
            if v in names:
                continue
            if v.hint:
                names[v] = "%" + _numbered(_hint(v.hint), seen)
            else:
                names[v], plain = f"%{plain}", plain + 1
    return names


def _made(block: Block) -> Iterable[Value]:
    """The results of a block's ops, and the parameters of their regions, in the order of the text."""
    for op in block.nested_ops():
        yield from op.results
        for region in op.regions:
            yield from region.params


def _block_names(func: Function) -> dict[Block, str]:
    seen: dict[str, int] = {}
    names: dict[Block, str] = {}
    for i, block in enumerate(func.blocks):
        stem = _hint(block.name) if block.name else ""
        names[block] = "^" + (f"b{i}" if not stem or _NUMBERED_BLOCK.match(stem) else _numbered(stem, seen))
    return names


def _hint(text: str) -> str:
    """A hint in a form that the text allows: word characters, not starting with a digit."""
    text = _NOT_IN_HINT.sub("_", text)
    return f"_{text}" if text[0].isdigit() else text


def _numbered(stem: str, seen: dict[str, int]) -> str:
    n = seen.get(stem, 0)
    seen[stem] = n + 1
    return f"{stem}.{n}" if n else stem


def global_name(name: str) -> str:
    return f"@{name}" if _PLAIN_NAME.match(name) else f"@{quoted(name)}"


# --- attributes and literals ----------------------------------------------------------------------

def _shown_attributes(op: Op, known: Implied) -> dict[str, Any]:
    attrs = dict(op.attrs)
    implied = known.get(op.name)
    if implied is not None and op.results:
        key, rule = implied
        types = [r.type for r in op.results]
        if key in attrs and attrs[key] == rule(types):
            del attrs[key]
    return attrs


def attributes(attrs: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key} = {literal(value)}" for key, value in attrs.items()) + "}"


def quoted(text: str) -> str:
    """``text`` between double quotes, with the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


def literal(x: Any) -> str:
    """A Python literal, a type, a place in an exception, or ``opaque "…"`` for an object without text form."""
    if isinstance(x, (Scalar, Array, Stack)):
        return str(x)
    if isinstance(x, np.generic):
        x = x.item()
    if x is None or isinstance(x, (bool, int, float)):
        return repr(x)
    if isinstance(x, str):
        return quoted(x)
    if isinstance(x, tuple):
        return f"({', '.join(map(literal, x))}{',' if len(x) == 1 else ''})"
    if isinstance(x, list):
        return f"[{', '.join(map(literal, x))}]"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in x.items()) + "}"
    if isinstance(x, Operand):
        return f"operand {x.number}"
    if isinstance(x, Filled):
        return f"filled {quoted(x.text)}"
    return f"opaque {quoted(repr(x))}"


def _exception(number: int, info: ExcInfo) -> str:
    kind = info.kind or f"class {quoted(_class_name(info.cls))}"
    message = "" if info.message is None else f" {quoted(info.message)}"
    args = "" if info.args is None else f" args {literal(info.args)}"
    texts = f" texts {literal(info.texts)}" if info.texts else ""
    return f"exception {number} {kind}{message}{args}{texts}{_place(info.loc)}"


def _class_name(cls: Any) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _place(loc: Loc) -> str:
    return f" at {quoted(loc.file)}:{loc.line}" if loc.line else ""


def _external(name: str, e: External) -> str:
    params = ", ".join(("own " if i in e.own else "") + str(t) for i, t in enumerate(e.params))
    return f"external {global_name(name)}({params}) -> ({', '.join(map(str, e.results))})"


def _derived(name: str, d: Derived) -> str:
    return f"derived {global_name(name)} = {d.kind} {global_name(d.base)} wrt {literal(d.wrt)}"


def _rule(name: str, r: Rule) -> str:
    return f"rule {global_name(name)} = {r.kind} {', '.join(map(global_name, r.functions))} wrt {literal(r.wrt)}"
