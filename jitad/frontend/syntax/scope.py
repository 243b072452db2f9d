"""Names of a function before it is traced: local names, and liveness.

Liveness is computed because the tracer merges variables at joins.  Without it, every temporary of a loop would be
carried around the loop as a variable that may be unbound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..values.code import Names, parameters

NONE: Names = frozenset()
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


_LEAVES = frozenset("ctx op ops id attr kind type_comment".split())         # fields that hold no relevant nodes
_fields: dict[type[ast.AST], list[str]] = {}


def children(node: ast.AST) -> list[ast.AST]:
    """The child nodes of a node in order, without contexts and operators; not to be changed.

    Takes a third of the time of ``ast.iter_child_nodes``.  The node keeps them, since it is asked several times.
    """
    known: list[ast.AST] | None = vars(node).get("_children")
    if known is not None:
        return known
    fields = _fields.get(type(node))
    if fields is None:
        fields = _fields[type(node)] = [f for f in node._fields if f not in _LEAVES]
    found: list[ast.AST] = []
    for name in fields:
        below = getattr(node, name, None)
        if type(below) is list:
            found += [x for x in below if isinstance(x, ast.AST)]
        elif isinstance(below, ast.AST):
            found.append(below)
    vars(node)["_children"] = found
    return found


def walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These nodes and all their descendants, in preorder."""
    todo = [*nodes]
    todo.reverse()
    while todo:
        node = todo.pop()
        yield node
        todo += reversed(children(node))


def stores(nodes: Iterable[ast.AST]) -> list[tuple[str, bool]]:
    """Names that these statements bind, outside nested functions.

    The flag is True for a name that is changed in place (``x += 1``, ``x[i] = 1``) instead of bound.
    """
    found: list[tuple[str, bool]] = []
    todo = [*nodes]
    todo.reverse()
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.append((node.id, False))
        elif isinstance(node, ast.AugAssign):
            if name := _root(node.target):
                found.append((name, True))
            todo.append(node.value)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append((node.name, False))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [(alias.asname or alias.name.partition(".")[0], False) for alias in node.names]
        elif isinstance(node, _COMPREHENSIONS):
            found += [(n.target.id, False) for n in walk([node]) if isinstance(n, ast.NamedExpr)]
        elif not isinstance(node, (ast.Lambda, ast.Constant)):
            if (one := _changed(node)) is not None:
                found.append(one)
            todo += reversed(children(node))
    return found


def _changed(node: ast.AST) -> tuple[str, bool] | None:
    """The name that a node itself binds or changes in place, or None; its parts may bind more."""
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        return (name, True) if (name := _root(node)) else None
    if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
        captured = node.rest if isinstance(node, ast.MatchMapping) else node.name
        return (captured, False) if captured else None
    return None


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def body_of(node: Function) -> list[ast.stmt] | list[ast.expr]:
    return [node.body] if isinstance(node, ast.Lambda) else node.body


class Scope:
    """The names of one function: its own, and those of the enclosing functions."""

    def __init__(self, node: Function, parent: Scope | None, outer: Names = NONE) -> None:
        self.parent = parent
        body = body_of(node)
        own = _own_nodes(body)
        self.globals = {n for d in own if isinstance(d, ast.Global) for n in d.names}
        self.nonlocals = {n for d in own if isinstance(d, ast.Nonlocal) for n in d.names}
        self.params = parameters(node.args)
        names = stores(body)
        bound = {name for name, in_place in names if not in_place}
        bound |= {d.target.id for d in own if isinstance(d, ast.AugAssign) and isinstance(d.target, ast.Name)}
        self.locals: Names = frozenset((bound | set(self.params)) - self.globals - self.nonlocals)
        self.outer: Names = (parent.outer | parent.locals if parent else outer) - self.globals
        self.free: Names = frozenset(_names(body) & self.outer - self.locals if self.outer else ())
        inner = [d for d in own if isinstance(d, _FUNCTIONS)]
        self.cells: Names = frozenset(n for d in inner for n in _names([d]) if n in self.locals)

        self.once: Names = self.locals - _again(names, own, self.params, inner)

    def is_rebound(self, name: str) -> bool:
        """True if a variable of an enclosing function may be assigned after this function has been made."""
        scope = self.parent
        while scope is not None and name not in scope.locals:
            scope = scope.parent
        return scope is not None and name not in scope.once

    def is_variable(self, name: str) -> bool:
        """True if the name is a variable of this function or of an enclosing one, not a global."""
        return name in self.locals or name in self.outer


def _again(names: Sequence[tuple[str, bool]], own: Sequence[ast.AST], params: Sequence[str],
           inner: Sequence[ast.AST]) -> set[str]:
    """Names that are bound more than once, in a loop, in a comprehension, or by a function inside.

    ``names``: the names that the body stores; ``own``: its nodes; ``inner``: the functions among them."""
    once, again = set(params), set[str]()
    for name in (n for n, in_place in names if not in_place):
        again |= {name} & once
        once.add(name)
    again |= {n for d in own if isinstance(d, (ast.For, ast.While)) for n, in_place in stores([d]) if not in_place}
    again |= {d.target.id for d in own if isinstance(d, ast.AugAssign) and isinstance(d.target, ast.Name)}
    again |= {n.id for d in own if isinstance(d, ast.comprehension) for n in walk([d.target])
              if isinstance(n, ast.Name)}
    return again | {n for f in inner for d in walk([f]) if isinstance(d, ast.Nonlocal) for n in d.names}


def _own_nodes(body: Sequence[ast.AST]) -> list[ast.AST]:
    """The nodes of a body, including nested function nodes but not their contents."""
    found, todo = [], list(body)
    while todo:
        node = todo.pop()
        found.append(node)
        if not isinstance(node, _FUNCTIONS):
            todo += children(node)
    return found


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    """All variable names in these nodes, including nested functions."""
    found: set[str] = set()
    for n in walk(nodes):
        if isinstance(n, ast.Name):
            found.add(n.id)
        elif isinstance(n, (ast.Nonlocal, ast.Global)):
            found.update(n.names)
    return found


# --- liveness -------------------------------------------------------------------------------------

@dataclass
class Liveness:
    """``after[s]``: names live after statement ``s``; ``head[s]``: names live at the header of loop ``s``."""

    after: dict[ast.AST, Names] = field(default_factory=dict)
    head: dict[ast.AST, Names] = field(default_factory=dict)
    _uses: dict[ast.AST, Names] = field(default_factory=dict, repr=False)

    def suite(self, body: Sequence[ast.stmt], after: Names, brk: Names = NONE, cont: Names = NONE) -> Names:
        """Names live before the suite, given the names live after it, at ``break`` and at ``continue``."""
        for s in reversed(body):
            after = self.stmt(s, after, brk, cont)
        return after

    def stmt(self, s: ast.stmt, after: Names, brk: Names, cont: Names) -> Names:
        match s:
            case ast.If():
                self.after[s] = after
                return (self.uses(s.test) | self.suite(s.body, after, brk, cont)
                        | self.suite(s.orelse, after, brk, cont))
            case ast.While() | ast.For():
                return self._loop(s, after, brk, cont)
            case ast.Match():
                self.after[s] = after
                inner = [self.suite(c.body, after, brk, cont) | self._guard(c) for c in s.cases]
                return self.uses(s.subject).union(after, *inner)
            case ast.Break():
                return brk
            case ast.Continue():
                return cont
            case ast.Return() | ast.Raise():
                return self.uses(s)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                return (after - {name}) | self.uses(s.value)        # type: ignore[arg-type]
            case ast.Assign(targets=[ast.Tuple(elts=elts)]) if all(isinstance(e, ast.Name) for e in elts):
                return (after - {e.id for e in elts if isinstance(e, ast.Name)}) | self.uses(s.value)
            case ast.FunctionDef():
                return (after - {s.name}) | self.uses(s)
            case ast.AugAssign():
                self.after[s] = after
                return after | self.uses(s)
            case _:
                return after | self.uses(s)

    def _guard(self, case: ast.match_case) -> Names:
        return self.uses(case.pattern) | (self.uses(case.guard) if case.guard else NONE)

    def _loop(self, s: ast.While | ast.For, after: Names, brk: Names, cont: Names) -> Names:
        exits = self.suite(s.orelse, after, brk, cont)
        test = self.uses(s.test) if isinstance(s, ast.While) else NONE
        target = frozenset(n for n, _ in stores([s.target])) if isinstance(s, ast.For) else NONE
        head = exits | test
        while True:
            entry = self.suite(s.body, head, after, head) - target
            if entry <= head:
                break
            head |= entry
        self.after[s], self.head[s] = after, head
        return head | (self.uses(s.iter) if isinstance(s, ast.For) else NONE)

    def uses(self, node: ast.AST) -> Names:
        """Names that a node reads, including nested functions and names that are changed in place."""
        known = self._uses.get(node)
        if known is None:
            found = {n.id for n in walk([node]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            found |= {n for n, in_place in stores([node]) if in_place}
            known = self._uses[node] = frozenset(found)
        return known
