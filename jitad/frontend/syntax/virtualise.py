"""Converts the syntax tree of a function to hooks.

Each node becomes a Python closure ``node(f)`` that acts on a ``Frame``.  Control flow, boolean operators, comparisons,
calls and local names act through the trace ``f.t``, which evaluates what is known and records the rest.  Each code
object is converted once, in one pass.  Closures are used instead of rewritten source because compiling that would take
several times as long as tracing, and because each hook knows its exact source location.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from ...errors import Loc, UnsupportedError
from ..arrays.library import marks
from ..flow import branches, loops, raising
from ..objects import list_operators
from ..values.code import Code, Frame, Hook
from . import source
from .expressions import Expressions
from .patterns import Patterns
from .scope import Liveness, Scope, stores

_codes: dict[tuple[str, types.CodeType], Code] = {}            # code objects of two files may be equal


def virtualise(code: types.CodeType) -> Code:
    """The hooks of a function, cached."""
    known = _codes.get((code.co_filename, code))
    if known is None:
        if code.co_flags & 0x2A0:
            raise UnsupportedError(f"{code.co_name} is a generator or a coroutine",
                                   Loc(code.co_filename, code.co_firstlineno, function=code.co_name),
                                   "return an array or a tuple")
        node = source.find(code)
        scope = Scope(node, None, frozenset(code.co_freevars))
        known = _codes[code.co_filename, code] = Virtualiser(code.co_filename, scope, code.co_name).function(node)
        known.in_range = code in marks.IN_RANGE
    return known


class Virtualiser(Expressions, Patterns):
    """Converts one function; nested functions get their own instance."""

    def __init__(self, file: str, scope: Scope, name: str) -> None:
        self.file, self.scope, self.name = file, scope, name
        self.live = Liveness()

    def function(self, node: ast.FunctionDef | ast.Lambda) -> Code:
        if isinstance(node, ast.Lambda):
            value = self.expr(node.body)
            body: Hook = lambda f: f.t.return_(value(f))               # noqa: E731
        else:
            self.live.suite(node.body, frozenset())
            suite = self.suite(node.body)

            def body(f: Frame) -> None:
                suite(f)
                f.t.return_(None)
        a = node.args
        return Code(self.name, a, body, self.scope.locals, self.scope.free, self.scope.cells,
                    [self.outer_expr(d) for d in a.defaults],
                    [self.outer_expr(d) if d else None for d in a.kw_defaults],
                    self.loc(node), frozenset(n for n in self.scope.free if self.scope.is_rebound(n)))

    def outer_expr(self, node: ast.expr) -> Hook:
        """A default value, which is evaluated in the enclosing scope."""
        if self.scope.parent is None:
            return lambda f: None                                      # the function object has it
        return Virtualiser(self.file, self.scope.parent, self.name).expr(node)

    def nested(self, node: ast.FunctionDef | ast.Lambda, name: str) -> Code:
        return Virtualiser(self.file, Scope(node, self.scope), name).function(node)

    def loc(self, node: Any) -> Loc:
        end = node.end_col_offset if node.end_lineno == node.lineno else node.col_offset + 1
        return Loc(self.file, node.lineno, node.col_offset, end, self.name)

    def unsupported(self, node: ast.AST, what: str, hint: str = "") -> Hook:
        """A construct that is refused only when it is reached, since it may be on a static path that is not taken."""
        loc = self.loc(node)

        def refuse(f: Frame) -> None:
            raise UnsupportedError(what, loc, hint)
        return refuse

    # --- statements -------------------------------------------------------------------------------

    def suite(self, body: Sequence[ast.stmt]) -> Hook:
        hooks = [self.stmt(s) for s in body]
        if len(hooks) == 1:
            return hooks[0]

        def run(f: Frame) -> None:
            for hook in hooks:
                hook(f)
        return run

    def stmt(self, s: ast.stmt) -> Hook:
        method: Callable[[ast.stmt], Hook] | None = getattr(self, f"do_{type(s).__name__}", None)
        if method is None:
            what, hint = _REFUSED.get(type(s).__name__, (f"`{type(s).__name__}`", ""))
            return self.unsupported(s, f"{what} is not supported", hint)
        return method(s)

    def do_Pass(self, s: ast.Pass) -> Hook:
        return lambda f: None

    def do_Nonlocal(self, s: ast.Nonlocal) -> Hook:
        around = self.scope.parent
        known = set[str]()
        while around is not None:
            known |= around.locals
            around = around.parent
        if unknown := [n for n in s.names if n not in known]:
            return self.unsupported(s, f"assignment to `{unknown[0]}`, a variable from outside of compiled code",
                                    "return the value")
        return lambda f: None

    def do_Global(self, s: ast.Global) -> Hook:
        return self.unsupported(s, "assignment to global variables is not supported", "return the value")

    def do_Expr(self, s: ast.Expr) -> Hook:
        if isinstance(s.value, ast.Constant):
            return lambda f: None                                     # a docstring
        return self.expr(s.value)

    def do_Assign(self, s: ast.Assign) -> Hook:
        value, targets = self.expr(s.value), [self.target(x) for x in s.targets]
        if len(targets) == 1:
            only = targets[0]
            return lambda f: only(f, value(f))

        def run(f: Frame) -> None:
            v = value(f)
            for assign in targets:
                assign(f, v)
        return run

    def do_AnnAssign(self, s: ast.AnnAssign) -> Hook:
        if s.value is None:
            return lambda f: None
        value, assign = self.expr(s.value), self.target(s.target)
        return lambda f: assign(f, value(f))

    def do_AugAssign(self, s: ast.AugAssign) -> Hook:
        op, value, loc = self.operator(s.op), self.expr(s.value), self.loc(s)
        after = self.live.after.get(s, frozenset())
        if isinstance(s.target, ast.Name):
            load, assign = self.expr(_load(s.target)), self.target(s.target)
            return lambda f: branches.augmented(f, op, load(f), value(f), lambda v: assign(f, v), after, loc)
        base = self.expr(s.target.value)
        if isinstance(s.target, ast.Attribute):
            name = s.target.attr

            def run_attribute(f: Frame) -> None:
                obj = base(f)
                branches.augmented(f, op, f.t.getattr(obj, name, loc), value(f),
                                  lambda v: f.t.setattr(obj, name, v, loc), after, loc)
            return run_attribute
        index = self.expr(s.target.slice)

        def run(f: Frame) -> None:
            obj, i = base(f), index(f)
            branches.augmented(f, op, f.t.getitem(obj, i, loc), value(f), lambda v: f.t.setitem(obj, i, v, loc), after,
                              loc)
        return run

    def do_Delete(self, s: ast.Delete) -> Hook:
        hooks = [self._delete(x) for x in s.targets]

        def run(f: Frame) -> None:
            for hook in hooks:
                hook(f)
        return run

    def _delete(self, x: ast.expr) -> Hook:
        loc = self.loc(x)
        match x:
            case ast.Name(id=name):
                def forget(f: Frame) -> None:
                    f.t.load(f.slots[name])
                    del f.t.state[f.slots[name]]
                return forget
            case ast.Subscript(value=base, slice=index):
                obj, i = self.expr(base), self.expr(index)
                return lambda f: f.t.delitem(obj(f), i(f), loc)
            case ast.Attribute(value=base, attr=name):
                obj = self.expr(base)
                return lambda f: f.t.delattr(obj(f), name, loc)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return self.do_Delete(ast.Delete(elts))
        return self.unsupported(x, "this `del` is not supported")

    def do_Return(self, s: ast.Return) -> Hook:
        if s.value is None:
            return lambda f: f.t.return_(None)
        value = self.expr(s.value)
        return lambda f: f.t.return_(value(f))

    def do_If(self, s: ast.If) -> Hook:
        test, then = self.condition(s.test), self.suite(s.body)
        other = self.suite(s.orelse) if s.orelse else lambda f: None
        after, loc = self.live.after.get(s, frozenset()), self.loc(s.test)
        return lambda f: branches.if_(f, test, then, other, after, loc)

    def do_While(self, s: ast.While) -> Hook:
        node = self._loop(s)
        test, loc = self.condition(s.test), self.loc(s.test)
        return lambda f: loops.while_(f, node, test, loc)

    def do_For(self, s: ast.For) -> Hook:
        node = self._loop(s)
        iterable, assign, loc = self.expr(s.iter), self.target(s.target), self.loc(s.iter)
        return lambda f: loops.for_(f, node, iterable, assign, loc)

    def _loop(self, s: ast.While | ast.For) -> loops.LoopNode:
        changed = stores([*s.body, s.target] if isinstance(s, ast.For) else [*s.body, s.test])
        return loops.LoopNode(self.suite(s.body), self.suite(s.orelse) if s.orelse else None,
                                self.live.head.get(s, frozenset()), self.live.after.get(s, frozenset()),
                                list(dict.fromkeys(changed)), self.loc(s))

    def do_Break(self, s: ast.Break) -> Hook:
        return lambda f: loops.break_(f)

    def do_Continue(self, s: ast.Continue) -> Hook:
        return lambda f: loops.continue_(f)

    def do_Assert(self, s: ast.Assert) -> Hook:
        if sys.flags.optimize:
            return lambda f: None                                      # python -O
        test, loc = self.condition(s.test), self.loc(s)
        message = self.expr(s.msg) if s.msg else None
        return lambda f: raising.assert_(f, test, message, loc)

    def do_Raise(self, s: ast.Raise) -> Hook:
        if s.exc is None:
            return self.unsupported(s, "`raise` without an exception is not supported", "name the exception")
        if s.cause is not None and not (isinstance(s.cause, ast.Constant) and s.cause.value is None):
            return self.unsupported(s, "the cause of an exception, `raise … from …`, is not kept",
                                    "`raise … from None`")
        exc, loc = self.expr(s.exc), self.loc(s)
        return lambda f: raising.raise_(f, exc, loc)

    def do_FunctionDef(self, s: ast.FunctionDef) -> Hook:
        make, assign = self.closure(s, s.name), self.target(ast.Name(s.name, ast.Store()))
        decorators, loc = [self.expr(d) for d in reversed(s.decorator_list)], self.loc(s)

        def run(f: Frame) -> None:
            fn = make(f)
            for d in decorators:
                fn = f.t.call_at(loc, d(f), (fn,), {})
            assign(f, fn)
        return run

    def do_Import(self, s: ast.Import | ast.ImportFrom) -> Hook:
        """Imports are executed while tracing, since modules are static."""
        module = ast.Module([s], [])
        code = compile(module, self.file, "exec")
        names = [n for n, _ in stores([s])]

        def run(f: Frame) -> None:
            found: dict[str, Any] = {}
            exec(code, f.globals, found)
            for name in names:
                f.t.state[f.slots[name]] = found[name]
        return run

    do_ImportFrom = do_Import

    # --- assignment targets -------------------------------------------------------------------------

    def target(self, x: ast.expr) -> Callable[[Frame, Any], None]:
        match x:
            case ast.Name(id=name):
                if not self.scope.is_variable(name):
                    refuse = self.unsupported(x, f"`{name}` is global: assignment is not supported", "return the value")
                    return lambda f, v: refuse(f)

                def assign(f: Frame, v: Any) -> None:
                    f.t.state[f.slots[name]] = v
                return assign
            case ast.Subscript(value=base, slice=index):
                obj, i, loc = self.expr(base), self.expr(index), self.loc(x)
                return lambda f, v: f.t.setitem(obj(f), i(f), v, loc)
            case ast.Attribute(value=base, attr=name):
                obj, loc = self.expr(base), self.loc(x)
                return lambda f, v: f.t.setattr(obj(f), name, v, loc)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return self._unpack(elts, self.loc(x))
        refuse = self.unsupported(x, "this assignment target is not supported")
        return lambda f, v: refuse(f)

    def _unpack(self, elts: list[ast.expr], loc: Loc) -> Callable[[Frame, Any], None]:
        star = next((k for k, e in enumerate(elts) if isinstance(e, ast.Starred)), None)
        targets = [self.target(e.value if isinstance(e, ast.Starred) else e) for e in elts]
        places = [(self.expr(e.value), self.expr(e.slice)) for e in elts if _is_plain(e)]

        def assign(f: Frame, v: Any) -> None:
            items = f.t.unpack(v, len(targets), star, loc)
            if len(places) == len(targets) and list_operators.are_rows(items):
                if list_operators.exchange(f.t, [(obj(f), i(f)) for obj, i in places], items):
                    return
            for one, item in zip(targets, items):
                one(f, item)
        return assign


def _is_plain(e: ast.expr) -> TypeGuard[ast.Subscript]:
    """True for an element whose place does not depend on the assignments to other targets."""
    return isinstance(e, ast.Subscript) and isinstance(e.value, ast.Name) and all(
        isinstance(n, (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context))
        for n in ast.walk(e.slice))


def _load(name: ast.Name) -> ast.Name:
    return ast.copy_location(ast.Name(name.id, ast.Load()), name)


_REFUSED = {
    "Try": ("`try`", "test the condition with `if` before"),
    "TryStar": ("`try`", "test the condition with `if` before"),
    "With": ("`with`", "call the function outside"),
    "AsyncFor": ("`async`", "write an ordinary loop"),
    "AsyncWith": ("`async`", "write an ordinary function"),
    "AsyncFunctionDef": ("`async def`", "write an ordinary function"),
    "ClassDef": ("a class inside a traced function", "define it at module level"),
}
