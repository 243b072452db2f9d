"""Finds the syntax tree of a function object.

A ``def`` is found by its name and line.  Lambdas have no name, so a lambda is found by columns: it
is the smallest ``Lambda`` node around every position that its code object knows.
"""

from __future__ import annotations

import ast
import linecache
import types

from ..errors import Loc, UnsupportedError

FunctionNode = ast.FunctionDef | ast.Lambda
_files: dict[str, tuple[list[str], ast.Module]] = {}


def find(code: types.CodeType) -> FunctionNode:
    """The ``def`` or ``lambda`` that this code object was compiled from."""
    loc = Loc(code.co_filename, code.co_firstlineno, 0, 0, code.co_name)
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise UnsupportedError(f"{code.co_name} has no source to read", loc,
                               "define it in a file or in a notebook cell")
    node = _find_lambda(code, lines) if code.co_name == "<lambda>" else _find_def(code, lines)
    if isinstance(node, ast.AsyncFunctionDef):
        raise UnsupportedError(f"{code.co_name} is a coroutine", loc, "write an ordinary function")
    if node is None:
        raise UnsupportedError(f"the source of {code.co_name} is not where its code says: has the file changed?", loc)
    return node


def _parse_file(code: types.CodeType, lines: list[str]) -> ast.Module:
    known = _files.get(code.co_filename)
    if known is not None and known[0] is lines:
        return known[1]
    try:
        tree = ast.parse("".join(lines), code.co_filename)
    except SyntaxError as e:
        raise UnsupportedError(f"the source of {code.co_name} cannot be parsed: {e}",
                               Loc(code.co_filename, code.co_firstlineno)) from None
    _files[code.co_filename] = (lines, tree)
    return tree


def _find_def(code: types.CodeType, lines: list[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Parse the function's own lines, or the whole file where that does not work out."""
    first = code.co_firstlineno
    last = max((end for _, end, _, _ in code.co_positions() if end is not None), default=first)
    text = "".join(lines[first - 1:last])
    padding = "\n" * (first - 2) + "if 1:\n" if text[:1].isspace() and first > 1 else "\n" * (first - 1)
    trees = []
    try:
        trees.append(ast.parse(padding + text))
    except SyntaxError:
        pass                                        # its last line goes on further than its code
    for tree in trees or [_parse_file(code, lines)]:
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
                start = node.decorator_list[0].lineno if node.decorator_list else node.lineno
                if first in (start, node.lineno):
                    return node
    return None


def _find_lambda(code: types.CodeType, lines: list[str]) -> ast.Lambda | None:
    spots = [(l0, c0, l1, c1) for l0, l1, c0, c1 in code.co_positions()
             if l0 is not None and l1 is not None and c0 is not None and c1 is not None and (l1, c1) > (l0, c0)]
    best: ast.Lambda | None = None
    for node in ast.walk(_parse_file(code, lines)):
        if not isinstance(node, ast.Lambda):
            continue
        body = node.body
        begin, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
        around = all(begin <= (l0, c0) and (l1, c1) <= end for l0, c0, l1, c1 in spots)
        if around and node.lineno >= code.co_firstlineno and (best is None or _inside(node, best)):
            best = node
    return best


def _inside(a: ast.AST, b: ast.AST) -> bool:
    return (a.lineno, a.col_offset) >= (b.lineno, b.col_offset) and (      # type: ignore[attr-defined]
        a.end_lineno, a.end_col_offset) <= (b.end_lineno, b.end_col_offset)    # type: ignore[attr-defined]
