"""Reads the text form of modules (grammar: ``graph.py``; printed by ``printer.py``).

Result types may be omitted if the op's rule gives them.  Only the grammar and the names are checked; all other checks
are left to ``verify``, so that its tests can be written as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Sequence
from typing import Any

from ...errors import NOWHERE, Loc
from ..graph import Block, Derived, Edge, ExcInfo, External, Filled, Function, Module, Op, Operand, Rule, Value
from ..ops import OPS, TERMINATORS, result_types
from ..type_rules import TypeRuleError
from ..types import BOOL, F32, F64, I64, SCALARS, STACK, Dim, Scalar, Type, make
from .lexer import Token, Tokens
from .printer import IMPLIED, Opaque

_WORDS = {"True": True, "False": False, "None": None, "inf": float("inf"), "nan": float("nan")}
_NUMBERED = re.compile(r"\.\d+\Z")


def parse_module(text: str, file: str = "", function: type[FunctionParser] | None = None) -> Module:
    """The module that ``text`` describes; with ``file``, ops have locations in that file.

    ``function``: a parser of functions of another level.  Raises ``ParseError``.
    """
    reader = function or FunctionParser
    t = Tokens(text, file)
    module = Module()
    while t.now.kind != "end":
        if t.accept("exception"):
            _exception(t, module)
        elif t.accept("external"):
            name = _name(t)
            module.external[name] = _external(t)
        elif t.accept("derived"):
            name = _name(t)
            t.expect("=")
            kind, base = t.take("word", "vjp or jvp").text, _name(t)
            t.expect("wrt")
            module.derived[name] = Derived(base, kind, tuple(literal(t)))
        elif t.accept("rule"):
            name, rule = _rule(t)
            module.rules[name] = rule
        elif t.accept("func"):
            start = t.now
            func = reader(t).parse()
            if func.name in module.functions:
                t.fail(f"a second function @{func.name}", start)
            module.add(func)
        else:
            t.fail(f"expected 'func', 'exception', 'external', 'derived' or 'rule', found {t.now.text!r}")
    return module


def _exception(t: Tokens, module: Module) -> None:
    number = t.take("number", "the exception's number")
    if number.text != str(len(module.exceptions)):
        t.fail(f"expected number {len(module.exceptions)}", number)
    kind, cls = t.take("word", "a kind of exception").text, None
    if kind == "class":
        kind, cls = "", _stand_in(_string(t.take("string", "the name of a class")))
    message = _string(t.next()) if t.now.kind == "string" else None
    args = tuple(literal(t)) if t.accept("args") else None
    texts = tuple(literal(t)) if t.accept("texts") else ()
    loc = NOWHERE
    if t.accept("at"):
        file = _string(t.take("string", "a file name"))
        t.expect(":")
        loc = Loc(file, int(t.take("number", "a line number").text))
    module.exceptions.append(ExcInfo(kind, message, loc, cls, args, texts))


def _external(t: Tokens) -> External:
    own: list[bool] = []

    def param() -> Type:
        own.append(t.accept("own"))
        return type_(t)
    t.expect("(")
    params = tuple(t.list(param, ")"))
    t.expect("->")
    t.expect("(")
    results = tuple(t.list(lambda: type_(t), ")"))
    return External(params, results, frozenset(i for i, is_own in enumerate(own) if is_own))


def _rule(t: Tokens) -> tuple[str, Rule]:
    name = _name(t)
    t.expect("=")
    kind, functions = t.take("word", "vjp, jvp or checkpoint").text, [_name(t)]
    while t.accept(","):
        functions.append(_name(t))
    t.expect("wrt")
    return name, Rule(kind, tuple(functions), tuple(literal(t)))


def _stand_in(name: str) -> type[Exception]:
    """A class with the name of a user's exception class, which text cannot represent."""
    where, _, qualname = name.rpartition(":")
    cls = type(qualname.rpartition(".")[2], (Exception,), {"__module__": where})
    cls.__qualname__ = qualname
    return cls


def _string(token: Token) -> str:
    return str(json.loads(token.text))


def _name(t: Tokens) -> str:
    text = t.take("glob", "a function's name").text[1:]
    return str(json.loads(text)) if text.startswith('"') else text


# --- types, literals, attributes --------------------------------------------------------------------

def type_(t: Tokens) -> Type:
    word = t.take("word", "a type")
    if word.text == "stack":
        return STACK
    if word.text not in SCALARS:
        t.fail(f"not a type: {word.text}", word)
    if not t.accept("["):
        return SCALARS[word.text]
    dims = t.list(lambda: dim(t), "]")
    if not dims:
        t.fail("an array type has rank 1 or more", word)
    return make(SCALARS[word.text], tuple(dims))


def dim(t: Tokens) -> Dim:
    return None if t.accept("?") else int(t.take("number", "a size or '?'").text)


def literal(t: Tokens) -> Any:
    token = t.now
    if token.kind == "number":
        t.next()
        return int(token.text) if token.text.lstrip("-").isdigit() else float(token.text)
    if token.kind == "string":
        return _string(t.next())
    if t.accept("opaque"):
        return Opaque(_string(t.take("string", "the object's repr")))
    if t.accept("operand"):
        return Operand(int(t.take("number", "the operand's number").text))
    if t.accept("filled"):
        return Filled(_string(t.take("string", "a template")))
    if token.kind == "word":
        return _WORDS[t.next().text] if token.text in _WORDS else type_(t)
    if t.accept("("):
        return tuple(t.list(lambda: literal(t), ")"))
    if t.accept("["):
        return t.list(lambda: literal(t), "]")
    if t.accept("{"):
        return dict(t.list(lambda: _item(t, lambda: literal(t), ":"), "}"))
    t.fail(f"expected a value, found {token.text!r}")


def _item(t: Tokens, key: Callable[[], Any], mark: str) -> tuple[Any, Any]:
    k = key()
    t.expect(mark)
    return k, literal(t)


def attributes(t: Tokens) -> dict[str, Any]:
    """``{key = value, …}``; the opening brace has been read."""
    return dict(t.list(lambda: _item(t, lambda: t.take("word", "an attribute").text, "="), "}"))


# --- functions --------------------------------------------------------------------------------------

class FunctionParser:
    """Reads one function; values and blocks may be used above their definition.

    The ops, and the attributes that their result types imply, are those of ``ops`` and ``implied``.
    """

    ops: Container[str] = OPS
    implied = IMPLIED

    def __init__(self, tokens: Tokens) -> None:
        self.t = tokens
        self.func = Function("")
        self.values: dict[str, Value] = {}
        self.early: dict[str, tuple[Token, Value]] = {}      # used but not yet defined
        self.blocks: dict[str, tuple[Token, Block]] = {}
        self.block = self.func.entry

    def parse(self) -> Function:
        t, func = self.t, self.func
        func.loc = t.loc(t.now) if t.file else NOWHERE
        func.name = _name(t)
        t.expect("(")
        t.list(self._param, ")")
        t.take("arrow", "'->'")
        t.expect("(")
        func.result_types = t.list(self.type, ")")
        t.expect("{")
        if t.now.kind == "word":
            func.attrs = attributes(t)
            t.expect("{")
        func.blocks = []
        while not t.accept("}"):
            self._block()
        self._resolve()
        return func

    def _param(self) -> None:
        name = self.t.take("value", "a parameter")
        self.t.expect(":")
        if self.t.accept("own"):
            self.func.own.add(len(self.block.params))
        self._define(name, self.block.add_param(self.type(), hint(name)))

    def _block(self) -> None:
        t, func = self.t, self.func
        label = t.take("block", "a block")
        if not func.blocks:
            self.blocks[label.text] = label, self.block
        self.block = self._label(label)
        if self.block in func.blocks:
            t.fail(f"a second block {label.text}", label)
        stem = hint(label)
        self.block.name = "" if re.fullmatch(r"b\d+", stem) else stem
        func.blocks.append(self.block)
        if t.accept("("):
            if len(func.blocks) == 1 and t.now.text != ")":
                t.fail("the entry block's parameters are the function's")
            t.list(self._param, ")")
        t.expect(":")
        while t.now.kind in ("word", "value"):
            self._op()

    def _op(self) -> None:
        t = self.t
        start = t.now
        names = self._result_names()
        word = t.take("word", "an operation")
        if self.block.term is not None:
            t.fail("an operation after the terminator", word)
        op = self.made(word, names)
        op.block = self.block
        op.loc = t.loc(start) if t.file else NOWHERE
        for token, value in zip(names, op.results, strict=True):
            self._define(token, value)

    def made(self, word: Token, names: list[Token]) -> Op:
        """The op that begins with ``word``, which ends or joins the current block."""
        if word.text in TERMINATORS:
            op = self.block.term = self._terminator(word.text)
            return op
        if word.text not in self.ops:
            self.t.fail(f"no such operation: {word.text}", word)
        op = self._plain(word, names)
        self.block.ops.append(op)
        return op

    def type(self) -> Type:
        """A type."""
        return type_(self.t)

    def rule(self, name: str, operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
        """The result types by the op's rule; raises ``TypeRuleError``."""
        return result_types(name, operands, attrs)

    def _result_names(self) -> list[Token]:
        t, names = self.t, []
        while t.now.kind == "value":
            names.append(t.next())
            if not t.accept(","):
                t.expect("=")
                break
        return names

    def _plain(self, word: Token, names: list[Token]) -> Op:
        t = self.t
        attrs = {"value": literal(t)} if word.text == "const" and t.now.text != "{" else {}
        if t.accept("{"):
            attrs |= attributes(t)
        operands = self._operands()
        types = self._types(word, operands, attrs) if names else []
        if len(types) != len(names):
            t.fail(f"{len(names)} results with {len(types)} types", word)
        self._complete(word.text, attrs, types)
        op = Op(word.text, operands, types, attrs)
        for result, token in zip(op.results, names):
            result.hint = hint(token)
        return op

    def _types(self, word: Token, operands: list[Value], attrs: dict[str, Any]) -> list[Type]:
        """The types after the colon, or those of the op's rule."""
        t = self.t
        if t.accept(":"):
            types = [self.type()]
            while t.accept(","):
                types.append(self.type())
            return types
        if any(v.type is _UNKNOWN for v in operands):
            t.fail("write the result types: an operand is defined further down", word)
        if word.text == "const" and "type" not in attrs:
            attrs["type"] = _type_of_constant(attrs["value"])
        try:
            return self.rule(word.text, operands, attrs)
        except TypeRuleError as e:
            t.fail(f"{word.text}: {e}", word)

    def _complete(self, name: str, attrs: dict[str, Any], types: list[Type]) -> None:
        """Fill in the attributes that the result types imply."""
        if name in self.implied and types:
            key, rule = self.implied[name]
            attrs.setdefault(key, rule(types))
        if name == "const" and types[:1] in ([F64], [F32]) and type(attrs["value"]) is int:
            attrs["value"] = float(attrs["value"])

    def _terminator(self, name: str) -> Op:
        t = self.t
        attrs = attributes(t) if t.accept("{") else {}
        if name == "call":
            attrs["callee"] = _name(t)
            t.expect("(")
            operands = t.list(self._use, ")")
            t.take("arrow", "'->'")
        else:
            operands = self._operands()
        return Op(name, operands, (), attrs, self._edges())

    def _operands(self) -> list[Value]:
        """Values between commas, on one line; the comma before an edge is consumed as well."""
        t, values = self.t, []
        while t.now.kind == "value" and not t.now.first:
            values.append(self._use())
            if t.now.text != "," or t.tokens[t.at + 1].kind == "block":
                t.accept(",")
                break
            t.next()
        return values

    def _edges(self) -> list[Edge]:
        t, edges = self.t, []
        while t.now.kind == "block" and not t.now.first:
            block = self._label(t.next())
            edges.append(Edge(block, t.list(self._use, ")") if t.accept("(") else []))
            if not t.accept(","):
                break
        return edges

    # --- names --------------------------------------------------------------------------------------

    def _use(self) -> Value:
        token = self.t.take("value", "a value")
        if token.text in self.values:
            return self.values[token.text]
        if token.text not in self.early:
            self.early[token.text] = token, Value(_UNKNOWN, self.block, -1, hint(token))
        return self.early[token.text][1]

    def _define(self, token: Token, value: Value) -> None:
        if token.text in self.values:
            self.t.fail(f"a second definition of {token.text}", token)
        self.values[token.text] = value

    def _label(self, token: Token) -> Block:
        if token.text not in self.blocks:
            self.blocks[token.text] = token, Block(self.func)
        return self.blocks[token.text][1]

    def _resolve(self) -> None:
        for token, block in self.blocks.values():
            if block not in self.func.blocks:
                self.t.fail(f"no block {token.text}", token)
        for token, _ in self.early.values():
            if token.text not in self.values:
                self.t.fail(f"no value {token.text}", token)
        if self.early:
            mapping = {value: self.values[name] for name, (_, value) in self.early.items()}
            for block in self.func.blocks:
                for op in block.nested_ops():
                    op.replace_uses(mapping)


_UNKNOWN: Type = Scalar("?")       # the type of a value that is used above its definition


def hint(token: Token) -> str:
    name = _NUMBERED.sub("", token.text[1:])
    return "" if name.isdigit() else name


def _type_of_constant(value: Any) -> Scalar:
    return BOOL if isinstance(value, bool) else I64 if isinstance(value, int) else F64
