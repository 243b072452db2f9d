"""Random changes of a function's source, one at a time.

Passes recognise loops by their shape.  A program that nearly has the shape shows the conditions that a pass forgets.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator, Sequence

Mutation = Callable[[ast.FunctionDef, random.Random], bool]
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
TERMS = (ast.Add, ast.Sub, ast.Mult)
JUMPS = (ast.Return, ast.Break, ast.Continue)


def mutate(tree: ast.FunctionDef, r: random.Random) -> str:
    """Changes the function in one place; returns the name of the change, ``""`` if there is no place for it."""
    name = r.choice(list(MUTATIONS))
    return name if MUTATIONS[name](tree, r) else ""


# --- places ----------------------------------------------------------------------------------------

def _bodies(statements: list[ast.stmt], counters: tuple[str, ...] = (), looping: bool = False) \
        -> Iterator[tuple[list[ast.stmt], tuple[str, ...], bool]]:
    """Each list of statements, with the counters of the loops around it and whether there is a loop."""
    yield statements, counters, looping
    for s in statements:
        if isinstance(s, ast.For):
            yield from _bodies(s.body, (*counters, *_counter(s)), True)
        elif isinstance(s, ast.While):
            yield from _bodies(s.body, counters, True)
        elif isinstance(s, ast.If):
            yield from _bodies(s.body, counters, looping)
            yield from _bodies(s.orelse, counters, looping)


def _counter(loop: ast.For) -> list[str]:
    """The counter of a loop over a range, if it is one."""
    counted = isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "range"
    return [loop.target.id] if counted and isinstance(loop.target, ast.Name) else []


def _some(r: random.Random, tree: ast.AST, kind: type[ast.AST],
          also: Callable[..., bool] = lambda n: True) -> ast.AST | None:
    found = [n for n in ast.walk(tree) if isinstance(n, kind) and also(n)]
    return r.choice(found) if found else None


def _named(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_named(name), list(args), [])


def _condition(tree: ast.AST, counters: Sequence[str], r: random.Random) -> ast.expr:
    """A condition on the counters, or on an element that the function reads."""
    element = _some(r, tree, ast.Subscript, lambda n: isinstance(n.ctx, ast.Load))
    if counters and (r.random() < 0.6 or element is None):
        i = _named(r.choice(counters))
        return r.choice((
            ast.Compare(ast.BinOp(i, ast.Mod(), ast.Constant(2)), [ast.Eq()], [ast.Constant(0)]),
            ast.Compare(i, [ast.Gt()], [ast.Constant(r.choice((0, 1, 2, 5)))]),
            ast.Compare(i, [r.choice((*ORDERS, ast.NotEq))()], [_named(r.choice(counters))])))
    left = copy.deepcopy(element) if isinstance(element, ast.expr) else ast.Constant(0.5)
    return ast.Compare(left, [r.choice(ORDERS)()], [ast.Constant(r.choice((0.0, 0.5, 1.0)))])


# --- changes ---------------------------------------------------------------------------------------

def comparison(tree: ast.FunctionDef, r: random.Random) -> bool:
    n = _some(r, tree, ast.Compare, lambda n: len(n.ops) == 1 and isinstance(n.ops[0], ORDERS))
    if isinstance(n, ast.Compare):
        n.ops[0] = r.choice(ORDERS)()
    return n is not None


def operator(tree: ast.FunctionDef, r: random.Random) -> bool:
    n = _some(r, tree, ast.BinOp, lambda n: isinstance(n.op, TERMS))
    if isinstance(n, ast.BinOp):
        n.op = r.choice(TERMS)()
    return n is not None


def operands(tree: ast.FunctionDef, r: random.Random) -> bool:
    n = _some(r, tree, ast.BinOp, lambda n: isinstance(n.op, (ast.Add, ast.Sub)))
    if isinstance(n, ast.BinOp):
        n.left, n.right = n.right, n.left
    return n is not None


def constant(tree: ast.FunctionDef, r: random.Random) -> bool:
    n = _some(r, tree, ast.Constant, lambda n: type(n.value) is float or type(n.value) is int and abs(n.value) < 6)
    if isinstance(n, ast.Constant) and isinstance(n.value, float):
        n.value = r.choice((0.0, 1.0, n.value * 0.5, -n.value, n.value * 2))
    elif isinstance(n, ast.Constant) and isinstance(n.value, int):
        n.value = max(n.value + r.choice((-1, 1)), 0)
    return n is not None


def bounds(tree: ast.FunctionDef, r: random.Random) -> bool:
    """Another range: without its first or last number, backwards, every other number, or a few numbers."""
    n = _some(r, tree, ast.Call, lambda n: isinstance(n.func, ast.Name) and n.func.id == "range" and len(n.args) <= 2)
    if not isinstance(n, ast.Call):
        return False
    start, stop = n.args if len(n.args) == 2 else (ast.Constant(0), n.args[0])
    one = ast.Constant(1)
    n.args = r.choice((
        [ast.BinOp(start, ast.Add(), one), stop], [start, ast.BinOp(stop, ast.Sub(), one)],
        [ast.BinOp(stop, ast.Sub(), one), ast.BinOp(start, ast.Sub(), one), ast.Constant(-1)],
        [start, stop, ast.Constant(r.choice((2, 3)))], [start, _call("min", stop, ast.Constant(r.choice((1, 3, 7))))]))
    return True


def statements(tree: ast.FunctionDef, r: random.Random) -> bool:
    """A statement twice, or not at all, or behind the next one."""
    places = [body for body, _, _ in _bodies(tree.body) if len(body) > 1]
    if not places:
        return False
    body = r.choice(places)
    i = r.randrange(len(body) - 1)
    way = r.choice(("twice", "not", "later"))
    if way == "twice" and not isinstance(body[i], JUMPS):
        body.insert(i, copy.deepcopy(body[i]))
    elif way == "not" and isinstance(body[i], ast.AugAssign):
        del body[i]
    else:
        body[i], body[i + 1] = body[i + 1], body[i]
    return True


def update(tree: ast.FunctionDef, r: random.Random) -> bool:
    """An update becomes an assignment, a maximum, or an update of another kind; an assignment becomes an update."""
    places = [(body, i) for body, _, _ in _bodies(tree.body) for i, s in enumerate(body)
              if isinstance(s, ast.AugAssign) or isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Subscript)]
    if not places:
        return False
    body, i = r.choice(places)
    s = body[i]
    if isinstance(s, ast.Assign) and isinstance(target := s.targets[0], ast.Subscript):
        body[i] = ast.AugAssign(target, r.choice((ast.Add, ast.Sub))(), s.value)
    elif isinstance(s, ast.AugAssign) and r.random() < 0.5:
        s.op = r.choice(TERMS)()
    elif isinstance(s, ast.AugAssign):
        old = copy.deepcopy(s.target)
        old.ctx = ast.Load()
        value = r.choice((s.value, _call(r.choice(("max", "min")), old, s.value)))
        body[i] = ast.Assign([s.target], value, lineno=0)
    return True


def condition(tree: ast.FunctionDef, r: random.Random) -> bool:
    """A statement of a loop runs under a condition only, or the rest of the body does, or of the loop."""
    places = [(body, counters) for body, counters, looping in _bodies(tree.body) if looping and body]
    if not places:
        return False
    body, counters = r.choice(places)
    i, test = r.randrange(len(body)), _condition(tree, counters, r)
    if r.random() < 0.6 and not isinstance(body[i], JUMPS):
        body[i] = ast.If(test, [body[i]], [])
    else:
        body.insert(i, ast.If(test, [r.choice((ast.Break, ast.Continue, ast.Continue))()], []))
    return True


def negation(tree: ast.FunctionDef, r: random.Random) -> bool:
    n = _some(r, tree, ast.If)
    if isinstance(n, ast.If):
        n.test = ast.UnaryOp(ast.Not(), n.test)
    return n is not None


def index(tree: ast.FunctionDef, r: random.Random) -> bool:
    """Another index: the one before, from the end, half, or another loop's counter."""
    n = _some(r, tree, ast.Subscript, lambda n: not isinstance(n.slice, ast.Slice))
    if not isinstance(n, ast.Subscript):
        return False
    counters = [c for _, found, _ in _bodies(tree.body) for c in found]

    def other(e: ast.expr) -> ast.expr:
        found = [ast.BinOp(e, ast.Sub(), ast.Constant(1)), ast.BinOp(ast.Constant(-1), ast.Sub(), e),
                 ast.BinOp(e, ast.FloorDiv(), ast.Constant(2)), *map(_named, counters[:1])]
        return e if isinstance(e, ast.Slice) else r.choice(found)
    if isinstance(n.slice, ast.Tuple):
        i = r.randrange(len(n.slice.elts))
        n.slice.elts[i] = other(n.slice.elts[i])
        if r.random() < 0.3:
            r.shuffle(n.slice.elts)
    else:
        n.slice = other(n.slice)
    return True


def expression(tree: ast.FunctionDef, r: random.Random) -> bool:
    """The absolute value, a bound, the square or the negative of what is assigned, or zero under a condition."""
    places = [(s, counters) for body, counters, _ in _bodies(tree.body) for s in body
              if isinstance(s, (ast.Assign, ast.AugAssign)) and isinstance(s.value, (ast.BinOp, ast.Subscript))]
    if not places:
        return False
    s, counters = r.choice(places)
    e, zero = s.value, ast.Constant(0.0)
    s.value = r.choice((_call("abs", e), _call(r.choice(("max", "min")), e, ast.Constant(0.5)),
                        ast.BinOp(e, ast.Mult(), copy.deepcopy(e)), ast.UnaryOp(ast.USub(), e),
                        ast.IfExp(_condition(tree, counters, r), e, zero)))
    return True


MUTATIONS: dict[str, Mutation] = {f.__name__: f for f in (
    comparison, operator, operands, constant, bounds, bounds, statements, update, condition, negation, index,
    expression)}
