"""Expressions as hooks (see ``virtualise``)."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import Loc, UnsupportedError
from ..captured.places import MISSING
from ..flow import branches
from ..objects import containers
from ..values.closures import Fn
from ..values.code import Code, Frame, Hook
from ..values.values import Choice, Conflict, Maybe, Slot
from . import comprehensions, filled_lists
from .scope import Scope, stores

OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or",
    ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}
UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
COMPARE = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}
_BUILTINS = vars(builtins)
_CHECKED = (Maybe, Conflict, Choice)


class Expressions:
    """The part of ``Virtualiser`` for expressions."""

    scope: Scope
    loc: Callable[[Any], Loc]
    unsupported: Callable[..., Hook]
    nested: Callable[..., Code]
    target: Callable[[ast.expr], Callable[[Frame, Any], None]]

    def expr(self, e: ast.expr) -> Hook:
        method: Callable[[ast.expr], Hook] | None = getattr(self, f"on_{type(e).__name__}", None)
        if method is None:
            return self.unsupported(e, f"`{type(e).__name__}` is not supported")
        return method(e)

    def operator(self, op: ast.operator) -> str:
        return OPERATORS[type(op)]

    def on_Constant(self, e: ast.Constant) -> Hook:
        value = e.value
        return lambda f: value

    def on_Name(self, e: ast.Name) -> Hook:
        name, loc = e.id, self.loc(e)
        if self.scope.is_variable(name):
            own = name in self.scope.locals

            def local(f: Frame) -> Any:
                slot = f.slots[name]
                v = f.t.state.get(slot)
                if v is None or type(v) in _CHECKED or slot.maybe:
                    f.t.builder.loc = loc
                    v = f.t.load(slot, own)
                return v if not isinstance(v, np.ndarray) else f.t.lift(v)
            return local

        def from_outside(f: Frame) -> Any:
            if f.trusted:
                v = f.globals.get(name, MISSING)
                v = f.t.lift(v) if v is not MISSING else MISSING
            else:
                v = f.t.global_value(f.globals, name)
            if v is MISSING:
                v = _BUILTINS.get(name, MISSING)
                if v is MISSING:
                    f.t.builder.loc = loc
                    f.t.raise_("NameError", f"name '{name}' is not defined")
            return v
        return from_outside

    def on_NamedExpr(self, e: ast.NamedExpr) -> Hook:
        value, assign = self.expr(e.value), self.target(e.target)

        def run(f: Frame) -> Any:
            v = value(f)
            assign(f, v)
            return v
        return run

    def on_BinOp(self, e: ast.BinOp) -> Hook:
        op, left, right, loc = OPERATORS[type(e.op)], self.expr(e.left), self.expr(e.right), self.loc(e)
        return lambda f: f.t.binary(op, left(f), right(f), loc)

    def on_UnaryOp(self, e: ast.UnaryOp) -> Hook:
        loc = self.loc(e)
        operand = self.condition(e.operand) if isinstance(e.op, ast.Not) else self.expr(e.operand)
        if isinstance(e.op, ast.Not):
            return lambda f: f.t.not_(operand(f), loc)
        op = UNARY[type(e.op)]
        return lambda f: f.t.unary(op, operand(f), loc)

    def on_BoolOp(self, e: ast.BoolOp) -> Hook:
        values, loc = [self.expr(v) for v in e.values], self.loc(e)
        combine = branches.all_of if isinstance(e.op, ast.And) else branches.any_of
        return lambda f: combine(f, values, loc)

    def condition(self, e: ast.expr) -> Hook:
        """An expression of which only the truth is used: the operands of ``and`` and ``or`` need no common type."""
        if not isinstance(e, ast.BoolOp):
            return self.expr(e)
        values, loc = [self._truth(v) for v in e.values], self.loc(e)
        combine = branches.all_of if isinstance(e.op, ast.And) else branches.any_of
        return lambda f: combine(f, values, loc)

    def _truth(self, e: ast.expr) -> Hook:
        value, loc = self.condition(e), self.loc(e)
        return lambda f: f.t.truth(value(f), loc)

    def on_Compare(self, e: ast.Compare) -> Hook:
        ops, loc = [COMPARE[type(o)] for o in e.ops], self.loc(e)
        first, rest = self.expr(e.left), [self.expr(c) for c in e.comparators]
        if len(ops) == 1:
            op, second = ops[0], rest[0]
            return lambda f: f.t.compare_at(loc, op, first(f), second(f))
        return lambda f: branches.chain(f, first, ops, rest, loc)

    def on_IfExp(self, e: ast.IfExp) -> Hook:
        test, then, other, loc = self.condition(e.test), self.expr(e.body), self.expr(e.orelse), self.loc(e.test)
        return lambda f: branches.if_expr(f, test, then, other, loc)

    def on_Attribute(self, e: ast.Attribute) -> Hook:
        value, name, loc = self.expr(e.value), e.attr, self.loc(e)
        return lambda f: f.t.getattr(value(f), name, loc)

    def on_Subscript(self, e: ast.Subscript) -> Hook:
        value, index, loc = self.expr(e.value), self.expr(e.slice), self.loc(e)
        return lambda f: f.t.getitem(value(f), index(f), loc)

    def on_Slice(self, e: ast.Slice) -> Hook:
        lower, upper, step = (self.expr(x) if x else _none for x in (e.lower, e.upper, e.step))
        return lambda f: slice(lower(f), upper(f), step(f))

    def _items(self, elts: list[ast.expr]) -> Callable[[Frame], list[Any]]:
        """The elements of a display or the arguments of a call, with ``*`` spliced in."""
        hooks = [(self.expr(x.value), True) if isinstance(x, ast.Starred) else (self.expr(x), False) for x in elts]
        if not any(star for _, star in hooks):
            plain = [h for h, _ in hooks]
            return lambda f: [h(f) for h in plain]

        def run(f: Frame) -> list[Any]:
            out: list[Any] = []
            for hook, star in hooks:
                v = hook(f)
                out.extend(f.t.iterate(v)) if star else out.append(v)
            return out
        return run

    def on_Tuple(self, e: ast.Tuple) -> Hook:
        items = self._items(e.elts)
        return lambda f: tuple(items(f))

    def on_List(self, e: ast.List) -> Hook:
        items = self._items(e.elts)
        return lambda f: f.t.new_list(items(f))

    def on_Set(self, e: ast.Set) -> Hook:
        items, loc = self._items(e.elts), self.loc(e)

        def make(f: Frame) -> frozenset[Any]:
            elements = items(f)
            f.t.builder.loc = loc
            return frozenset(elements)                # the hash of a stand-in refuses
        return make

    def on_Dict(self, e: ast.Dict) -> Hook:
        pairs = [(self.expr(k) if k else None, self.expr(v)) for k, v in zip(e.keys, e.values)]

        def run(f: Frame) -> Any:
            out: dict[Any, Any] = {}
            for key, value in pairs:
                if key is None:
                    out.update(f.t.mapping(value(f)))
                else:
                    k = containers.key(f.t, key(f))
                    out[k] = value(f)
            return f.t.new_dict(out)
        return run

    def on_JoinedStr(self, e: ast.JoinedStr) -> Hook:
        pieces: list[Any] = []
        for v in e.values:
            if isinstance(v, ast.FormattedValue):
                spec = self.expr(v.format_spec) if v.format_spec is not None else _no_spec
                pieces.append((self.expr(v.value), "" if v.conversion < 0 else chr(v.conversion), spec))
            else:
                pieces.append(v.value)                              # type: ignore[attr-defined]
        return lambda f: branches.format_(f, pieces)

    def on_Call(self, e: ast.Call) -> Hook:
        if isinstance(e.func, ast.Name) and e.func.id == "super" and not e.args and not e.keywords:
            return self._super(e)
        fun, args, loc = self.expr(e.func), self._items(e.args), self.loc(e)
        keywords = [(k.arg, self.expr(k.value)) for k in e.keywords]
        if not keywords:
            return lambda f: f.t.call_at(loc, fun(f), args(f), {})

        def run(f: Frame) -> Any:
            callee, positional = fun(f), args(f)
            named: dict[str, Any] = {}
            for name, hook in keywords:
                new = {name: hook(f)} if name else f.t.mapping(hook(f))
                if twice := named.keys() & new.keys():
                    raise TypeError(f"multiple values for keyword argument '{twice.pop()}'")
                named.update(new)
            return f.t.call_at(loc, callee, positional, named)
        return run

    def _super(self, e: ast.Call) -> Hook:
        """``super()``: calls it with the class that defines the method, and the first parameter."""
        fun, loc = self.expr(e.func), self.loc(e)

        def run(f: Frame) -> Any:
            parameters = [*f.code.args.posonlyargs, *f.code.args.args]
            if "__class__" not in f.slots or not parameters:
                raise UnsupportedError("`super()` outside of a method", loc, "name both: `super(Class, self)`")
            args = [f.t.load(f.slots["__class__"]), f.t.load(f.slots[parameters[0].arg])]
            return f.t.call_at(loc, fun(f), args, {})
        return run

    # --- functions and comprehensions ---------------------------------------------------------------

    def on_Lambda(self, e: ast.Lambda) -> Hook:
        return self.closure(e, "lambda_")

    def closure(self, node: ast.FunctionDef | ast.Lambda, name: str) -> Hook:
        code = self.nested(node, name)
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node)):
            return self.unsupported(node, f"{name} is a generator: `yield` is not supported", "return an array")
        names = [a.arg for a, d in zip(node.args.kwonlyargs, code.kw_defaults) if d]

        def run(f: Frame) -> Any:
            kw = [d(f) for d in code.kw_defaults if d]
            return f.t.made_function(Fn(code, {n: f.slots[n] for n in sorted(code.free)},
                                        tuple(d(f) for d in code.defaults), dict(zip(names, kw)), f.globals))
        return run

    def _generators(self, generators: list[ast.comprehension], element: Callable[[], Any],
                    ragged: bool = False) -> tuple[Any, Any]:
        """The clauses of a comprehension, whose targets are variables in a scope of their own."""
        names = frozenset(n for g in generators for n, _ in stores([g.target]))
        before = self.scope.locals
        first = self.expr(generators[0].iter)
        self.scope.locals = before | names
        try:
            clauses = []
            for k, g in enumerate(generators):
                if g.is_async:
                    return None, None
                clauses.append((first if k == 0 else self.expr(g.iter), self.target(g.target),
                                [self.condition(c) for c in g.ifs], self.loc(g.iter)))
            return comprehensions.Clauses(tuple(clauses), names, ragged), element()
        finally:
            self.scope.locals = before

    def on_ListComp(self, e: ast.ListComp) -> Hook:
        def element() -> tuple[Hook, filled_lists.Filled | filled_lists.Nest | None]:
            return self.expr(e.elt), filled_lists.filled(e, self.expr) or self._nest(e)
        clauses, both = self._generators(e.generators, element, filled_lists.is_ragged(e))
        return lambda f: comprehensions.build_list(f, clauses, *both)

    def _nest(self, e: ast.ListComp) -> filled_lists.Nest | None:
        called, inner = filled_lists.is_nest(e), e.elt
        if called is None or not isinstance(inner, ast.ListComp):
            return None
        body = inner.elt
        return filled_lists.Nest(*self._generators(inner.generators, lambda: self.expr(body)), called)

    def on_SetComp(self, e: ast.SetComp) -> Hook:
        clauses, element = self._generators(e.generators, lambda: self.expr(e.elt))
        return lambda f: comprehensions.build(f, clauses, element, frozenset)

    def on_DictComp(self, e: ast.DictComp) -> Hook:
        def pair() -> Hook:
            key, value = self.expr(e.key), self.expr(e.value)
            return lambda f: (containers.key(f.t, key(f)), value(f))
        clauses, element = self._generators(e.generators, pair)
        return lambda f: comprehensions.build(f, clauses, element, lambda pairs: f.t.new_dict(dict(pairs)))

    def on_GeneratorExp(self, e: ast.GeneratorExp) -> Hook:
        clauses, element = self._generators(e.generators, lambda: self.expr(e.elt))
        changed = list(stores([e.elt]))
        loc = self.loc(e)

        def make(f: Frame) -> comprehensions.Generator:
            begun = Slot("begun", bound=True)
            f.t.state[begun] = False
            return comprehensions.Generator(f, clauses, element, changed, loc, clauses.items[0][0](f), begun)
        return make


def _none(f: Any) -> None:
    return None


def _no_spec(f: Any) -> str:
    return ""
