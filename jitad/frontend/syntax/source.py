"""Finds the syntax tree of a function object.

A ``def`` is found by its name and line.  Lambdas have no name, so a lambda is found by its columns: it is the smallest
``Lambda`` node that contains every position of its code object.

A file may be changed and loaded again while its functions run, so several versions of it are remembered.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

from ...errors import LOADED, Loc, UnsupportedError
from . import carried

FunctionNode = ast.FunctionDef | ast.Lambda
MOST_VERSIONS = 16                       # remembered versions of a file: each may be searched for a function
FUTURE = __future__.annotations.compiler_flag       # the one feature that Python does not have in any case
_files: dict[str, tuple[list[str], ast.Module]] = {}
_versions: dict[str, list[_Version]] = {}
_lambdas: dict[str, tuple[ast.Module, list[ast.Lambda]]] = {}


def find(code: types.CodeType) -> FunctionNode:
    """The ``def`` or ``lambda`` that this code object was compiled from."""
    loc = Loc(code.co_filename, code.co_firstlineno, 0, 0, code.co_name)
    lines = _lines(code)
    if not lines:
        raise UnsupportedError(f"{code.co_name} has no source to read", loc, _how_to_keep(code.co_filename))
    node = _find_lambda(code, lines) if code.co_name == "<lambda>" else _find_def(code, lines)
    if isinstance(node, ast.AsyncFunctionDef):
        raise UnsupportedError(f"{code.co_name} is a coroutine", loc, "write an ordinary function")
    if node is None or _has_changed(code, lines):
        raise UnsupportedError(f"the source of {code.co_name} is not where its code says: has the file changed?", loc)
    if cls := _class_around(code.co_qualname):
        _make_private(node, f"_{cls}")
    return node


def _has_changed(code: types.CodeType, lines: list[str]) -> bool:
    """True if the file was written after jitad was loaded, and these lines of it do not compile to ``code``."""
    entry = linecache.cache.get(code.co_filename)
    written = entry[1] if entry is not None and len(entry) == 4 else None
    return written is not None and written > LOADED and not all(
        v.holds(code) for v in _versions.get(code.co_filename, ()) if v.lines is lines)


def _how_to_keep(file: str) -> str:
    if file == "<stdin>":
        return ("define it in a file, in a notebook or in IPython: before version 3.13, Python does not keep what is "
                "typed at its prompt")
    return ("define it in a file or in a notebook cell; for `exec`, keep the text: "
            "`linecache.cache[name] = len(text), None, text.splitlines(True), name`, "
            "then `exec(compile(text, name, 'exec'))`")


def statement(code: types.CodeType) -> tuple[int, str] | None:
    """The text of the ``def`` of a code object, or of the outermost statement around a lambda; and its first line.

    The lines are whole.  None if there is no source.
    """
    lines = _lines(code)
    if not lines:
        return None
    node = None if code.co_name == "<lambda>" else _find_def(code, lines)
    first, last = _span(node) if node is not None else _around(code, _parse_file(code, lines).body)
    return first, "".join(lines[first - 1:last])


def _around(code: types.CodeType, body: list[ast.stmt]) -> tuple[int, int]:
    """The first and the last line of the statements around a code object; statements may share a line."""
    rows = [row for a, b, _, _ in code.co_positions() for row in (a, b) if row is not None]
    first, last, before = code.co_firstlineno, max(rows, default=code.co_firstlineno), (0, 0)
    while (first, last) != before:
        before = first, last
        around = [span for span in map(_span, body) if span[0] <= last and first <= span[1]]
        first, last = min([first, *(s[0] for s in around)]), max([last, *(s[1] for s in around)])
    return first, last


def _span(node: ast.stmt) -> tuple[int, int]:
    """The first and the last line of a statement, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)]), node.end_lineno or node.lineno


def _class_around(qualname: str) -> str:
    """The class whose private names apply in a function: it encloses the function, directly or through functions."""
    places = qualname.split(".")
    while len(places) > 2 and places[-2] == "<locals>":
        places = places[:-2]
    return places[-2].lstrip("_") if len(places) > 1 else ""


def _make_private(function: FunctionNode, prefix: str) -> None:
    """Mangles names such as ``__x`` to ``_Class__x``, except keywords of calls and patterns."""
    for node in ast.walk(function):
        for kind, field in _NAMES:
            if isinstance(node, kind) and node is not function:
                found = getattr(node, field)
                new = [_private(x, prefix) for x in found] if isinstance(found, list) else _private(found, prefix)
                setattr(node, field, new)


def _private(name: str | None, prefix: str) -> str | None:
    return prefix + name if name and name.startswith("__") and not name.endswith("__") else name


_NAMES: tuple[tuple[type[ast.AST], str], ...] = (
    (ast.Name, "id"), (ast.Attribute, "attr"), (ast.arg, "arg"), (ast.FunctionDef, "name"), (ast.Global, "names"),
    (ast.Nonlocal, "names"), (ast.alias, "asname"), (ast.MatchAs, "name"), (ast.MatchStar, "name"),
    (ast.MatchMapping, "rest"))


class _Version:
    """The lines of one version of a file."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._made: dict[int, set[tuple[Any, ...]]] = {}     # by the features of ``__future__`` that apply

    def holds(self, code: types.CodeType) -> bool:
        """True if this version of the file compiles to ``code``."""
        flags = code.co_flags & FUTURE
        if flags not in self._made:
            self._made[flags] = set(map(_identity, _codes_of("".join(self.lines), code.co_filename, flags)))
        return _identity(code) in self._made[flags]


def _identity(code: types.CodeType) -> tuple[Any, ...]:
    return code, *code.co_positions()


def _codes_of(text: str, file: str, flags: int) -> Iterator[types.CodeType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            todo = [compile(text, file, "exec", flags, dont_inherit=True)]
        except (SyntaxError, ValueError):
            return
    while todo:
        code = todo.pop()
        yield code
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]


def _lines(code: types.CodeType) -> list[str]:
    """The current lines of a function's file, or those of the newest version that contains the function."""
    if (came := carried.lines(code)) is not None:
        return came
    known = _versions.setdefault(code.co_filename, [])
    for update in (False, True):
        if update:
            linecache.checkcache(code.co_filename)
        lines = [] if carried.is_shown(code.co_filename) else linecache.getlines(code.co_filename)
        if lines:
            now = next((v for v in known if lines is v.lines or lines == v.lines), None) or _Version(lines)
            known[:] = [*(v for v in known[-MOST_VERSIONS:] if v is not now), now]
    if not known:
        return _command(code)
    newest = known[-1].lines
    return newest if len(known) < 2 else next((v.lines for v in reversed(known) if v.holds(code)), newest)


def _command(code: types.CodeType) -> list[str]:
    """The lines of the program after ``python -c`` if ``code`` is from it.  From 3.13 on, ``linecache`` has them."""
    given = sys.orig_argv
    for option, text in zip(given, given[1:]):
        if code.co_filename == "<string>" and option.startswith("-") and option.endswith("c"):
            program = _Version(text.splitlines(keepends=True))
            if program.holds(code):
                _versions[code.co_filename].append(program)
                return program.lines
    return []


def _parse(text: str, file: str = "<unknown>") -> ast.Module:
    """Parses source without warnings, since Python gave them when it parsed the source first."""
    if "\\" not in text:
        return ast.parse(text, file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, file)


def _parse_file(code: types.CodeType, lines: list[str]) -> ast.Module:
    known = _files.get(code.co_filename)
    if known is not None and known[0] is lines:
        return known[1]
    try:
        tree = _parse("".join(lines), code.co_filename)
    except SyntaxError as e:
        raise UnsupportedError(f"the source of {code.co_name} cannot be parsed: {e}",
                               Loc(code.co_filename, code.co_firstlineno)) from None
    _files[code.co_filename] = (lines, tree)
    return tree


def _find_def(code: types.CodeType, lines: list[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Parses the lines of the function, or the whole file if that fails."""
    first = code.co_firstlineno
    last = max((end for _, end, _, _ in code.co_positions() if end is not None), default=first)
    text = "".join(lines[first - 1:last])
    padding = "\n" * (first - 2) + "if 1:\n" if text[:1].isspace() and first > 1 else "\n" * (first - 1)
    trees = []
    try:
        trees.append(_parse(padding + text))
    except SyntaxError:
        pass                                        # the source of its last line extends beyond its code
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
    if not spots:
        return _find_lambda_by_line(code, lines)
    best: ast.Lambda | None = None
    for node in _lambdas_of(code, lines):
        body = node.body
        begin, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
        around = all(begin <= (l0, c0) and (l1, c1) <= end for l0, c0, l1, c1 in spots)
        if around and node.lineno >= code.co_firstlineno and (best is None or _inside(node, best)):
            best = node
    return best


def _lambdas_of(code: types.CodeType, lines: list[str]) -> list[ast.Lambda]:
    """The lambdas of a file.  They are kept: finding them takes 10 ms for 1,000 lines."""
    tree = _parse_file(code, lines)
    known = _lambdas.get(code.co_filename)
    if known is None or known[0] is not tree:
        known = _lambdas[code.co_filename] = tree, [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
    return known[1]


def _find_lambda_by_line(code: types.CodeType, lines: list[str]) -> ast.Lambda | None:
    """Finds a lambda by line and parameters if code has no columns (``python -X no_debug_ranges``)."""
    names = list(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])
    found = {ast.dump(node): node for node in _lambdas_of(code, lines)
             if node.lineno == code.co_firstlineno
             and [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] == names}
    if len(found) > 1:
        raise UnsupportedError("there are several lambdas on this line, and Python does not keep which is which",
                               Loc(code.co_filename, code.co_firstlineno),
                               "one to a line, or Python without `-X no_debug_ranges`")
    return next(iter(found.values()), None)


def _inside(a: ast.AST, b: ast.AST) -> bool:
    return (a.lineno, a.col_offset) >= (b.lineno, b.col_offset) and (      # type: ignore[attr-defined]
        a.end_lineno, a.end_col_offset) <= (b.end_lineno, b.end_col_offset)    # type: ignore[attr-defined]
