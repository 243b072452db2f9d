"""Other ways to write a Python function, made from its syntax tree: what is computed, and in what order, stays.

Each is an ``ast.NodeTransformer`` that is made for one function.  ``rewritten`` applies one by its name.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

HELPERS = "def square_(x): return x * x\ndef difference_(x, y): return x - y\n"
MARGIN = 1e200
"""Larger literals stand for infinity, and stay."""


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def contains(nodes: list[ast.stmt], *kinds: type[ast.AST]) -> bool:
    return any(isinstance(x, kinds) for node in nodes for x in ast.walk(node))


class Rewriting(ast.NodeTransformer):
    """One function's rewriting; ``arguments`` are those that it appends to the function's own."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.parameters = {a.arg for a in function.args.args}
        self.arguments: dict[str, float] = {}
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}_"


class While(Rewriting):
    """``for i in range(…)`` is a ``while`` that steps ``i``, unless a ``continue`` would skip the step."""

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        call = node.iter
        if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "range") or node.orelse or \
                not isinstance(node.target, ast.Name) or contains(node.body, ast.Continue):
            return node
        start, stop, step = {1: (ast.Constant(0), *call.args, ast.Constant(1)), 2: (*call.args, ast.Constant(1)),
                             3: tuple(call.args)}[len(call.args)]
        i, end = node.target.id, self.fresh("end")
        test = ast.Gt() if isinstance(step, ast.UnaryOp) else ast.Lt()
        body = [*node.body, ast.AugAssign(store(i), ast.Add(), step)]
        return [ast.Assign([store(end)], stop), ast.Assign([store(i)], start),
                ast.While(ast.Compare(load(i), [test], [load(end)]), body, [])]


class Negated(Rewriting):
    """``if`` tests the opposite, and its sides change places."""

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse or [ast.Pass()], node.body)


class Continue(Rewriting):
    """The ``if`` that ends a loop's body is a ``continue`` where it does not hold."""

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        last = node.body[-1]
        if isinstance(last, ast.If) and not last.orelse:
            leave = ast.If(ast.UnaryOp(ast.Not(), last.test), [ast.Continue()], [])
            node.body = [*node.body[:-1], leave, *last.body]
        return node


class Chained(Rewriting):
    """``a[i, j]`` is ``a[i][j]``."""

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Tuple) or any(isinstance(x, ast.Slice) for x in node.slice.elts):
            return node
        found: ast.expr = node.value
        for x in node.slice.elts[:-1]:
            found = ast.Subscript(found, x, ast.Load())
        return ast.Subscript(found, node.slice.elts[-1], node.ctx)


class Plain(Rewriting):
    """``s += x`` is ``s = s + x``."""

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if contains([node], ast.Slice):
            return node
        before = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.Assign([node.target], ast.BinOp(before, node.op, node.value))


class Cells(Rewriting):
    """Numbers that are added up are arrays of one element."""

    def __init__(self, function: ast.FunctionDef) -> None:
        super().__init__(function)
        added = {n.target.id for n in ast.walk(function) if isinstance(n, ast.AugAssign)
                 and isinstance(n.target, ast.Name)}
        first: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        first.setdefault(target.id, []).append(node.value)
                    else:
                        added -= {x.id for x in ast.walk(target) if isinstance(x, ast.Name)}
        self.cells = {name for name in added - self.parameters if name in first and all(
            isinstance(v, ast.Constant) and isinstance(v.value, float) for v in first[name])}

    def visit_Name(self, node: ast.Name) -> Any:
        return ast.Subscript(load(node.id), ast.Constant(0), node.ctx) if node.id in self.cells else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.generic_visit(node)
        node.body = [*(ast.parse(f"{name} = np.zeros(1)").body[0] for name in sorted(self.cells)), *node.body]
        return node


class Conditional(Rewriting):
    """``min``, ``max`` and ``abs`` of numbers are conditional expressions."""

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        name = getattr(node.func, "id", "")
        if name in ("min", "max") and len(node.args) == 2:
            a, b = node.args
            return ast.IfExp(ast.Compare(b, [ast.Lt() if name == "min" else ast.Gt()], [a]), b, a)
        if name == "abs" and len(node.args) == 1:
            a = node.args[0]
            return ast.IfExp(ast.Compare(a, [ast.GtE()], [ast.Constant(0.0)]), a, ast.UnaryOp(ast.USub(), a))
        return node


class Helpers(Rewriting):
    """Squares and differences are calls of functions."""

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and node.right.value == 2:
            return ast.Call(load("square_"), [node.left], [])
        if isinstance(node.op, ast.Sub):
            return ast.Call(load("difference_"), [node.left, node.right], [])
        return node


class Rows(Rewriting):
    """Rows of arguments are taken ahead of the innermost loops that read them."""

    def visit_For(self, node: ast.For) -> Any:
        if contains(node.body, ast.For, ast.While):
            return self.generic_visit(node)
        changed = {x.id for part in (*node.body, node.target) for x in ast.walk(part)
                   if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
        rows: dict[tuple[str, str], str] = {}

        def row(m: re.Match[str]) -> str:
            if m[1] not in self.parameters or m[2] in changed:
                return m[0]
            if (m[1], m[2]) not in rows:
                rows[m[1], m[2]] = self.fresh("row")
            return f"{rows[m[1], m[2]]}[{m[3]}]"
        text = re.sub(r"\b(\w+)\[(\w+), (\w+)\]", row, "\n".join(map(ast.unparse, node.body)))
        node.body = ast.parse(text).body
        taken = [ast.parse(f"{name} = {array}[{i}]").body[0] for (array, i), name in rows.items()]
        return [*taken, node]


class Enumerated(Rewriting):
    """``for i in range(len(x))`` is ``for i, element in enumerate(x)`` where the loop reads ``x[i]``."""

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        found = re.fullmatch(r"range\((?:len\((\w+)\)|(\w+)\.shape\[0\])\)", ast.unparse(node.iter))
        array = (found[1] or found[2]) if found else ""
        if array not in self.parameters or not isinstance(node.target, ast.Name):
            return node
        i, element = node.target.id, self.fresh("element")
        text = "\n".join(map(ast.unparse, node.body))
        new = re.sub(rf"\b{array}\[{i}\]", element, text)
        new = re.sub(rf"\b{array}\[{i}, (\w+)\]", rf"{element}[\1]", new)
        if new == text:
            return node
        node.body = ast.parse(new).body
        node.target = ast.Tuple([store(i), store(element)], ast.Store())
        node.iter = ast.Call(load("enumerate"), [load(array)], [])
        return node


class Arguments(Rewriting):
    """Literals are arguments."""

    def visit_Constant(self, node: ast.Constant) -> Any:
        if not isinstance(node.value, float) or node.value in (0.0, 1.0) or abs(node.value) > MARGIN:
            return node
        known = next((name for name, v in self.arguments.items() if v == node.value), None)
        name = known or self.fresh("literal")
        self.arguments[name] = node.value
        return load(name)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.generic_visit(node)
        node.args.args += [ast.arg(name) for name in self.arguments]
        return node


REWRITINGS: dict[str, type[Rewriting]] = {
    "while": While, "negated": Negated, "continue": Continue, "chained": Chained, "plain": Plain, "cells": Cells,
    "conditional": Conditional, "helpers": Helpers, "rows": Rows, "enumerated": Enumerated, "arguments": Arguments}


def rewritten(f: Callable[..., Any], name: str) -> tuple[Callable[..., Any], tuple[float, ...]] | None:
    """``f`` written in the way ``name``, with the arguments to append to its own; ``None`` if it stays as it is.

    It raises ``OSError`` where the source of ``f`` cannot be read.
    """
    function = ast.parse(textwrap.dedent(inspect.getsource(f))).body[0]
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list, function.returns = [], None
    for a in function.args.args:
        a.annotation = None
    rewriting, before = REWRITINGS[name](function), ast.unparse(function)
    text = ast.unparse(ast.fix_missing_locations(rewriting.visit(function)))
    if text == before:
        return None
    file = f"<{f.__name__}, {name}>"
    source = HELPERS + text + "\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    known: dict[str, Any] = {"np": np, "math": math, **f.__globals__}
    exec(compile(source, file, "exec"), known)
    found: Callable[..., Any] = known[f.__name__]
    return found, tuple(rewriting.arguments.values())
