"""A program from a seed: holes are filled by type, choices are weighted, and all names are defined.

The program has ``main`` and ``INPUTS``, a list of argument tuples.  ``focus`` names constructs that this program should
have: their weights are raised.  (Runs focus on rare constructs; ``coverage.py``.)
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fuzzing.constructs import (
    arrays,
    control,
    data,
    derivatives,
    edges,
    functions,
    growing,
    narrow,
    nests,
    numbers,
    objects,
)
from tests.fuzzing.constructs.grammar import LETTERS, Construct, alternatives, pieces

TABLES = (numbers, edges, narrow, arrays, nests, control, functions, data, growing, objects, derivatives)
KINDS = {k.letter: k for t in (numbers, edges, narrow, arrays, functions, data, growing, objects, derivatives)
         for k in t.KINDS}
CONSTRUCTS: dict[str, list[Construct]] = {}
for _table in TABLES:
    for _c in _table.CONSTRUCTS:
        CONSTRUCTS.setdefault(_c.kind, []).append(_c)
DEFINITIONS = {c.name: c for c in CONSTRUCTS["definition"]}
assert set(KINDS) == LETTERS

HEAD = """import dataclasses
import collections
import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

SCALE, TABLE = 0.75, np.array([0.5, -0.25, 1.5])
GRID, COUNTS = np.array([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5]]), np.array([2, 0, 1])
FLAGS = np.array([True, False, True])
SINGLE, PARTS = np.array([0.5, 1.5, -0.75], np.float32), {'s': 0.5, 'w': np.array([1.25, -0.5, 0.25]), 'l': [0.5, 2]}
"""
FUNCTIONS = "FGXB"
MARK = "\nSCALE,"
DEEPEST = 3                     # nesting depth of statements
BASIC = ("variable", "constant", "element", "assignment")
SWARM = (0.05, 0.3, 1.0, 1.0, 3.0)
FOCUS, HELPFUL = 60.0, 15.0     # weights of constructs in focus, and of those that they need
NAMES = {"X": "g", "R": "rng", "F": "g", "G": "g", "P": "point", "D": "body", "U": "shape", "O": "maybe", "T": "tree",
         "L": "chain", "s": "word", "B": "back", "z": "zero", "C": "model", "H": "held", "W": "held", "M": "forest",
         "N": "named"}


@dataclass(eq=False)
class Var:
    name: str
    kind: str
    mutable: bool = False
    assignable: bool = True


@dataclass
class Scope:
    """The function that is being generated.

    Variables before ``fixed`` are not assigned, those before ``frozen`` not stored to.  ``result``: a kind of value,
    "pair", "parts" or "main".
    """

    result: str
    vars: list[Var]
    fixed: int = 0
    frozen: int = 0
    loops: int = 0
    nest: int = 0


@dataclass
class Program:
    seed: int
    source: str
    constructs: set[str] = field(default_factory=set)
    pairs: set[tuple[str, str]] = field(default_factory=set)


class Frame:
    """A template that is being filled: its own names, and the variables that exist from the next line on."""

    def __init__(self, name: str = "") -> None:
        self.name, self.own, self.coming = name, dict[str, str](), list[Var]()


class Generator:
    def __init__(self, seed: int, features: Iterable[str], focus: Iterable[str] = (), size: int | None = None) -> None:
        self.r = random.Random(seed)
        self.features, self.focus = {"", *features}, set(focus)
        least = 3.5 if self.focus else 0.0                   # space for those in focus, and their needs
        self.budget = size if size is not None else int(2 ** self.r.uniform(least, 5.0))
        self.definitions: list[str] = []
        self.made: dict[str, list[str]] = {}          # finished definitions, by construct
        self.scope = Scope("f", [])
        self.stack: list[str] = []
        self.program = Program(seed, "")
        self.fresh = 0
        self.returned: list[str] = []                 # the kinds of what ``main`` returns in several parts
        self.nested = False
        self.swarm = self._swarm()

    def _swarm(self) -> dict[str, float]:
        """Weights of the constructs: each program prefers some and omits others, for more variety.

        A construct that makes the variables that a construct in focus needs, or that uses its results, is likely too.
        """
        everything = [c for cs in CONSTRUCTS.values() for c in cs]
        chosen = [c for c in everything if c.name in self.focus]
        variables, kinds = {kind for c in chosen for _, kind in c.requires}, {c.kind for c in chosen} - set("fica")
        helpful = {c.name for c in everything if any(f"new {kind}}}" in c.text for kind in variables)
                   or kinds & set(c.heads)
                   or c.kind == "main" and any(f":{kind}" in c.scope for kind in variables)}

        def factor(c: Construct) -> float:
            if c.name in self.focus:
                return FOCUS
            return HELPFUL if c.name in helpful else 1.0 if c.name.endswith(BASIC) else self.r.choice(SWARM)
        return {c.name: max(c.weight, 0.5 * (c.name in helpful)) * factor(c)
                for c in everything if c.needs in self.features}

    # --- the program ------------------------------------------------------------------------------

    def text(self) -> Program:
        main = self.choose(CONSTRUCTS["main"])
        params, inner = self._parameters(main)
        with self.picked(main):
            self.scope = Scope("parts" if "{parts}" in main.text else "main", [*params, *inner])
            body = self.lines(main.text.replace("(x, n, q)", f"({', '.join(v.name for v in params)})"), Frame())
            inputs = [self._arguments(params, which) for which in range(4 if params[-1].kind == "v" else 3)]
        text = "\n\n\n".join([*self.definitions, "\n".join(body)])
        used = [n for n in _IMPORTED if f"{n}(" in text or f"@{n}" in text]
        imports = f"from jitad import {', '.join(used)}\n" if used else ""
        imports += "from jitad.random import default_rng\n" * ("default_rng(" in text)
        listed = "".join(f"    ({', '.join(a)}),\n" for a in inputs)
        self.program.source = f"{HEAD.replace(MARK, imports + MARK)}\n\n{text}\n\n\nINPUTS = [\n{listed}]\n"
        return self.program

    def _parameters(self, main: Construct) -> tuple[list[Var], list[Var]]:
        """The arguments of ``main``, and the variables that its first lines define."""
        taken, _, own = main.scope.partition("|")
        params = []
        for word in taken.split():
            name, kind = word.split(":")
            if kind[0] == "?":
                kind = self.r.choice([k for k in kind[1:]])
            params.append(Var(name, kind, False, kind in "fi"))
        return params, _scope(own)

    def _arguments(self, params: list[Var], which: int) -> list[str]:
        sizes = ("3", "1", f"{self.r.randint(20, 700)}", "0")
        frame = Frame()
        frame.own |= {"size": sizes[which], "arguments": ""}
        return [self.fill(KINDS[p.kind].argument, frame) for p in params]

    def make(self, name: str) -> str:
        """The name of a definition: an existing one, or a new one."""
        known = self.made.get(name, [])
        c = DEFINITIONS[name]
        unique = c.text.startswith(("class", "@dataclass"))
        if known and (unique or self.budget <= 0 or self.r.random() < 0.5):
            return self.r.choice(known)
        own = name if unique else self.name(f"{name}_")
        outer, self.scope = self.scope, Scope("pair" if "{result}" in c.text else "f", _scope(c.scope))
        with self.picked(c):
            text = "\n".join(self.lines(c.text, Frame(own)))
        self.scope = outer
        self.definitions.append(text)
        self.made.setdefault(name, []).append(own)
        return own

    # --- choices ----------------------------------------------------------------------------------

    def choose(self, among: list[Construct]) -> Construct:
        weights = [self.swarm.get(c.name, 0.0) for c in among]
        return self.r.choices(among, weights)[0]

    @contextmanager
    def picked(self, c: Construct) -> Iterator[None]:
        """Within construct ``c``."""
        self.program.constructs.add(c.name)
        if self.stack:
            self.program.pairs.add((self.stack[-1], c.name))
        self.stack.append(c.name)
        self.budget -= 1
        yield
        self.stack.pop()

    def there(self) -> set[tuple[str, str]]:
        """The kinds of the existing variables, by permitted use."""
        s, found = self.scope, set()
        for at, v in enumerate(s.vars):
            if v.kind != "X" or at >= s.frozen:
                found.add(("var", v.kind))
            if v.mutable and at >= s.frozen:
                found.add(("mut", v.kind))
            if v.assignable and at >= s.fixed:
                found.add(("old", v.kind))
        return found

    def possible(self, kind: str) -> list[Construct]:
        """The constructs of a kind that are possible here; near the end none that defines a name."""
        there, made = self.there(), self.made.keys() if self.budget <= 0 else DEFINITIONS.keys()
        return [c for c in CONSTRUCTS[kind] if c.name in self.swarm and c.requires <= there
                and (c.definitions <= made or c.simple and kind in "PDUTLCHWMN")]

    def variable(self, how: str, kind: str) -> Var:
        s = self.scope
        first = {"var": s.frozen if kind == "X" else 0, "mut": s.frozen, "old": s.fixed}[how]
        known = [v for v in s.vars[first:] if v.kind == kind and (
            how == "var" or (v.mutable if how == "mut" else v.assignable))]
        known = known or [v for v in s.vars if v.kind == kind]           # the template itself has defined variables
        return known[max(self.r.randrange(len(known)), self.r.randrange(len(known)))]      # rather a new one

    def expression(self, kind: str, depth: int) -> str:
        depth = min(depth, 1) if self.budget <= 0 else depth
        c = self.choose([c for c in self.possible(kind) if depth > 0 or c.simple])
        with self.picked(c):
            return self.fill(c.text, Frame(), depth - 1)

    # --- statements -------------------------------------------------------------------------------

    def block(self) -> list[str]:
        """Statements; the variables that they define are dropped after them."""
        s = self.scope
        before, s.nest = len(s.vars), s.nest + (len(self.stack) > 1)
        out: list[str] = []
        most = 3 if s.nest else max(1, min(9, self.budget // 5))
        for _ in range(self.r.randint(min(most, 4) if self.focus and not s.nest else 1, most)):
            out += self.statement()
        if s.nest:
            del s.vars[before:]
            s.nest -= 1
        return out

    def statement(self) -> list[str]:
        s = self.scope
        wrong_place = "outer" if s.loops else "loop"
        among = [c for c in self.possible("statement") if c.where != wrong_place
                 and not (c.nests and (s.nest >= DEEPEST or self.budget <= 0))]
        weights = [self.swarm[c.name] * (0.05 if c.where == "top" and s.nest else 1.0) for c in among]
        c = self.r.choices(among, weights)[0]
        with self.picked(c):
            return self.lines(c.text, Frame())

    def lines(self, template: str, frame: Frame) -> list[str]:
        """The lines of a template.

        Variables that a loop's header defines are dropped after the loop; a function is not visible inside itself.
        """
        out: list[str] = []
        gone, later, loops = list[Var](), list[Var](), list[str]()
        for line in template.split("\n"):
            text = line.lstrip()
            indent = line[:len(line) - len(text)]
            loops = [i for i in loops if i < indent] + [indent] * text.startswith(("for", "while"))
            if text == "{block}":
                self.scope.loops += len(loops)
                out += [indent + inner for inner in self.block()]
                self.scope.loops -= len(loops)
            elif text.startswith(("{body ", "{effect ")):
                out += [indent + inner for inner in self.function_body(text[1:-1].split(), frame)]
            else:
                out.append(indent + self.fill(text, frame))
            later += [v for v in frame.coming if v.kind in FUNCTIONS]
            gone += frame.coming if text.startswith("for") else []
            self.scope.vars += [v for v in frame.coming if v.kind not in FUNCTIONS or text.startswith("for")]
            frame.coming.clear()
        self.scope.vars += later
        self.scope.vars = [v for v in self.scope.vars if v not in gone]
        return out

    def function_body(self, words: list[str], frame: Frame) -> list[str]:
        """The body of a local function: ``body`` or ``effect``, the kind of the result, the parameters."""
        how, kind, *params = words
        outer = self.scope
        inner = Scope(kind, [*outer.vars], len(outer.vars), len(outer.vars) if how == "body" else outer.frozen)
        inner.vars += self._bound(params, frame)
        inner.nest = max(1, outer.nest)
        self.scope = inner
        out = self.block() if self.r.random() < 0.5 and self.budget > 0 else []
        if how == "effect" and ("mut", "a") in self.there():
            out.append(self.fill("{mut a}[{i}] += {f}", Frame()))
        out.append(f"return {self.expression(kind, 2)}")
        self.scope = outer
        return out

    # --- holes ------------------------------------------------------------------------------------

    def fill(self, text: str, frame: Frame, depth: int = 2) -> str:
        return "".join(self.hole(words, frame, depth) if is_hole else words for is_hole, words in pieces(text))

    def hole(self, words: str, frame: Frame, depth: int) -> str:
        if words[0] == "?":
            return self.fill(self.r.choice(alternatives(words[1:])), frame, depth)
        if words[0] == "@":
            return self.make(words[1:])
        if words[0] == ".":
            own, _, rest = words.partition("=")
            if rest:
                frame.own[own] = self.hole(rest, frame, depth)
            return frame.own.setdefault(own, self.name("z"))
        head, *rest_words = words.split()
        if head in LETTERS:
            with self.binding(rest_words, frame):
                return self.expression(head, depth)
        return self.special(head, rest_words, frame)

    def special(self, head: str, rest: list[str], frame: Frame) -> str:
        if head in ("var", "mut"):
            return self.variable(head, rest[0]).name
        if head in ("set", "old", "new", "let"):
            return self.target(head, rest[0], frame)
        if head == "num" and "arguments" in frame.own:
            return f"{self.r.uniform(-1.5, 1.8):.3f}7"              # not 0, and no constant of the program
        if head == "num":
            return f"{self.r.choice((0.25, -0.5, 0.75, 1.25, -1.1, 0.4, 1.6, -0.3, 0.05))}"
        if head == "int":
            return str(self.r.randint(0, 3))
        if head == "result":
            return self.result()
        if head == "parts":
            return self.parts()
        if head == "name":
            return frame.name
        if head == "size":
            return frame.own["size"]
        return {"tree": self.tree, "chain": self.chain}[head](self.r.randint(1, 3), frame)

    def target(self, head: str, kind: str, frame: Frame) -> str:
        old = ("old", kind) in self.there() and (head == "old" or head == "set" and self.r.random() < 0.6)
        if old:
            v = self.variable("old", kind)
            if self.scope.nest and KINDS[kind].mutable:
                v.mutable = False                    # it may be one of several values from here on
            return v.name
        name = self.name(NAMES.get(kind, kind))
        free = head != "let"
        frame.coming.append(Var(name, kind, KINDS[kind].mutable and free, kind not in FUNCTIONS and free))
        return name

    def name(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    @contextmanager
    def binding(self, params: list[str], frame: Frame) -> Iterator[None]:
        """A context with names that an expression binds; it changes no other variables."""
        if not params:
            yield
            return
        s = self.scope
        self.scope = Scope(s.result, [*s.vars, *self._bound(params, frame)], len(s.vars) + 9, len(s.vars) + 9)
        yield
        self.scope = s

    def _bound(self, params: list[str], frame: Frame) -> list[Var]:
        out = []
        for word in params:
            name, kind = word.split(":")
            out.append(Var(self.hole(name, frame, 0) if name[0] == "." else name, kind, False, kind in "fi"))
        return out

    def result(self) -> str:
        """The result of the function; for ``main`` all values known at the end, some of them before."""
        s = self.scope
        if s.result == "parts":
            return "(0.5,)" if s.nest else self.parts()
        if s.result == "pair":
            return self.fill("{a} * {num}, {f}", Frame())
        if s.result != "main":
            return self.expression(s.result, 1)
        known = [v for v in s.vars if v.kind != "X"]
        if s.nest:
            known = self.r.sample(known, min(len(known), 2))
        digests = [self.fill(KINDS[v.kind].digest.replace("{v}", v.name), Frame(), 0) for v in known]
        return " + ".join(f"{0.5 + 0.25 * (i % 6)} * {d}" for i, d in enumerate(digests))

    def parts(self) -> str:
        """The result as a tuple; all returns of a program have the same kinds (int in one, float in another: float)."""
        known = [v for v in self.scope.vars if v.kind not in "FGXRBC"]
        if not self.returned:
            self.returned = [v.kind for v in self.r.sample(known, min(len(known), 4))]
            self.nested = self.r.random() < 0.5
        first, *others = [self.r.choice([v.name for v in known if v.kind == kind]) for kind in self.returned]
        if not self.nested:
            return f"({', '.join((first, *others))},)"
        return f"({first}, {{'of': [{', '.join(others)}]}})"

    # --- arguments that have to be written out ------------------------------------------------------

    def tree(self, depth: int, frame: Frame) -> str:
        if depth == 0 or self.r.random() < 0.2:
            return "None"
        return (self.fill("{@Tree}({num}, ", frame)
                + f"{self.tree(depth - 1, frame)}, {self.tree(depth - 1, frame)})")

    def chain(self, length: int, frame: Frame) -> str:
        return self.fill("{@Chain}({num}, ", frame) + f"{self.chain(length - 1, frame)})" if length else "None"


_IMPORTED = ("checkpoint", "custom_jvp", "custom_vjp", "grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "linearize",
             "stop_gradient", "unroll", "value_and_grad", "vjp", "vmap")


def _scope(text: str) -> list[Var]:
    """``z:f u:a*`` as variables."""
    out = []
    for word in text.split():
        name, kind = word.rstrip("*").split(":")
        out.append(Var(name, kind, word.endswith("*"), kind in "fi"))
    return out


def generate(seed: int, features: Iterable[str] = (), focus: Iterable[str] = (), size: int | None = None) -> Program:
    """The program for a seed and a compiler with ``features``; ``size``: approximate number of constructs."""
    return Generator(seed, features, focus, size).text()
