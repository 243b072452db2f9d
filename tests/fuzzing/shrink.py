"""Reduces a program while its failure stays the same: delta debugging on the syntax tree.

Candidates, from the largest cut to the smallest: runs of statements and inputs are removed (ddmin), a block replaces
its header, expressions are replaced by their parts or by a constant.  A candidate is accepted if its verdict has the
same kind.
"""

from __future__ import annotations

import ast
import copy
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzzing.check import Verdict

Test = Callable[[str], Verdict]
BLOCKS = ("body", "orelse")
NAMES_AND_NUMBERS = re.compile(r"[-+]?\d[\d.e+-]*|'[^']*'|`[^`]*`|\[.*|0x\w+|[%^@][\w.]*")


def kind(verdict: Verdict) -> tuple[str, str, str]:
    """A verdict without its numbers and names: it must not change during reduction."""
    detail = verdict.detail
    if " is not " in detail or "CPython" in detail:             # values may change, but not which side raised
        return verdict.what, verdict.check, " ".join(sorted(re.findall(r"[A-Z]\w*(?:Error|Exception)\(", detail)))
    return verdict.what, verdict.check, NAMES_AND_NUMBERS.sub("", detail)[:60]


def shrink(source: str, test: Test, wanted: Verdict, seconds: float = 90.0) -> str:
    """The smallest program found in this time."""
    goal, end = kind(wanted), time.monotonic() + seconds
    tree = ast.parse(source)
    again = True
    while again:
        again = False
        for cuts in (_statements, _unwrapped, _simpler):
            tree, smaller = _reduce(tree, cuts, lambda text: kind(test(text)) == goal, end)
            again = again or smaller
        if time.monotonic() > end:
            break
    return ast.unparse(tree) + "\n"


def _reduce(tree: ast.Module, cuts: Callable[[ast.Module], Iterator[Any]], holds: Callable[[str], bool],
            end: float) -> tuple[ast.Module, bool]:
    """Applies cuts of one sort as long as one is accepted; each edits a copy of the tree."""
    any_stood, at = False, 0
    while time.monotonic() < end:
        size = len(ast.unparse(tree))
        for n, candidate in enumerate(cuts(tree)):
            if n < at or time.monotonic() > end:
                continue
            text = ast.unparse(ast.fix_missing_locations(candidate))
            if len(text) < size and holds(text):
                tree, any_stood, at = candidate, True, n
                break
        else:
            if at == 0 or time.monotonic() > end:
                break
            at = 0                                              # again from the start, until none is accepted
    return tree, any_stood


def _edited(tree: ast.Module, path: tuple[Any, ...], edit: Callable[[Any], Any]) -> ast.Module:
    """A copy in which ``edit`` has replaced the node at ``path``."""
    new = copy.deepcopy(tree)
    at: Any = new
    for step in path[:-1]:
        at = at[step] if isinstance(at, list) else getattr(at, step)
    last = path[-1]
    if isinstance(at, list):
        at[last] = edit(at[last])
    else:
        setattr(at, last, edit(getattr(at, last)))
    return new


def _walk(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All nodes and lists of nodes, in preorder."""
    yield path, node
    if isinstance(node, list):
        for i, x in enumerate(node):
            yield from _walk(x, (*path, i))
    elif isinstance(node, ast.AST):
        for name, value in ast.iter_fields(node):
            if isinstance(value, (list, ast.AST)) and not isinstance(value, (ast.expr_context, ast.operator)):
                yield from _walk(value, (*path, name))


def _lists(tree: ast.Module) -> list[tuple[tuple[Any, ...], list[Any]]]:
    """Lists of statements, cases and inputs."""
    found = [(p, n) for p, n in _walk(tree)
             if isinstance(n, list) and n and isinstance(n[0], (ast.stmt, ast.match_case))]
    inputs = [((*p, "elts"), n.elts) for p, n in _walk(tree) if isinstance(n, ast.List) and _is_inputs(tree, p)]
    return [*found, *inputs]


def _is_inputs(tree: ast.Module, path: tuple[Any, ...]) -> bool:
    """True if a path leads to the value of ``INPUTS``."""
    if len(path) != 3 or path[2] != "value":
        return False
    statement = tree.body[path[1]]
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "INPUTS"


def _statements(tree: ast.Module) -> Iterator[ast.Module]:
    """Candidates without runs of statements: halves of a list, quarters, …, single ones."""
    lists = _lists(tree)
    longest = max(len(block) for _, block in lists)
    size = longest
    while size:
        for path, block in lists:
            if size <= len(block):
                for start in range(0, len(block), size):
                    yield _edited(tree, path, lambda b, s=start, e=start + size: b[:s] + b[e:] or [ast.Pass()])
        size //= 2


def _unwrapped(tree: ast.Module) -> Iterator[ast.Module]:
    """Candidates with a block in place of the statement that contains it."""
    for path, block in _lists(tree):
        for i, statement in enumerate(block):
            for name in BLOCKS:
                inner = getattr(statement, name, None)
                if inner and not isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.match_case)):
                    yield _edited(tree, path, lambda b, i=i, x=inner: [*b[:i], *copy.deepcopy(x), *b[i + 1:]])
            if getattr(statement, "orelse", None):
                yield _edited(tree, (*path, i, "orelse"), lambda _: [])
            if isinstance(statement, ast.Match):
                for case in statement.cases:
                    yield _edited(tree, path, lambda b, i=i, c=case: [*b[:i], *copy.deepcopy(c.body), *b[i + 1:]])


def _simpler(tree: ast.Module) -> Iterator[ast.Module]:
    """Candidates with a part of an expression, or a constant, in its place; inputs do not change."""
    inputs = [i for i, statement in enumerate(tree.body) if _is_inputs(tree, ("body", i, "value"))]
    for path, node in _walk(tree):
        if not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", None), ast.Store) or path[1] in inputs:
            continue
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr) and not isinstance(part, (ast.Slice, ast.Starred)):
                yield _edited(tree, path, lambda _, p=part: copy.deepcopy(p))
            if isinstance(part, ast.comprehension):
                yield _edited(tree, path, lambda _, p=part: copy.deepcopy(p.iter))
        if not isinstance(node, (ast.Constant, ast.Name)):
            for constant in (0.5, 1, True):
                yield _edited(tree, path, lambda _, c=constant: ast.Constant(c))
            yield _edited(tree, path, lambda _: ast.Name("x", ast.Load()))
