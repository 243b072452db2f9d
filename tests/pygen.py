"""Random Python programs with control flow, calls, arrays and aliasing.

``program(seed)`` is the source of a module with ``main(x, n, a)``: ``x`` a float, ``n`` a small int, ``a`` an array of
three floats.  Programs end quickly, their values stay small, and they use what jitad claims to compile, weighted
towards what is easy to get wrong: arrays with several names, views, stores through them, calls that change their
arguments, variables assigned on some paths, loops left early.  jitad may refuse one of them; it may never compute
something else than CPython.
"""

from __future__ import annotations

import random


class Program:
    """Writes one program; ``self.names`` are the variables of each kind in the function at hand."""

    def __init__(self, seed: int, size: int = 12) -> None:
        self.r = random.Random(seed)
        self.size = size
        self.lines: list[str] = []
        self.indent = 0
        self.names: dict[str, list[str]] = {}
        self.loops = 0
        self.helpers: list[tuple[str, str]] = []  # name, kinds of its parameters
        self.fresh = 0
        self.kind_of_result = ""

    def text(self) -> str:
        self.lines = ["import numpy as np", "import math", "", ""]
        for _ in range(self.r.randint(1, 3)):
            self.helper()
        self.function("main", [("x", "f"), ("n", "i"), ("p", "a")], self.size, ["a = p.copy()"])
        return "\n".join(self.lines) + "\n"

    # --- functions --------------------------------------------------------------------------------

    def helper(self) -> None:
        kinds = self.r.choice(["f", "fa", "af", "aa", "if", "m", "fi"])
        params = [(f"q{i}", k) for i, k in enumerate(kinds)]
        name = f"h{len(self.helpers)}"
        self.function(name, params, self.r.randint(2, 5), [])
        self.helpers.append((name, kinds))

    def function(self, name: str, params: list[tuple[str, str]], size: int, first: list[str]) -> None:
        self.names = {"f": [], "i": [], "a": [], "m": [], "l": []}
        self.loops = 0
        self.kind_of_result = "" if name == "main" else self.r.choice("ffat")
        for p, k in params:
            if (name, p) != ("main", "p"):
                self.names[k].append(p)
        self.put(f"def {name}({', '.join(p for p, _ in params)}):")
        self.indent += 1
        for line in first:
            self.put(line)
            self.names["a"].append("a")
        for kind in "fiam":
            if not self.names[kind]:
                self.new(kind)
        self.block(size, 0)
        self.put(f"return {self.result()}")
        self.indent -= 1
        self.put("")
        self.put("")

    def result(self) -> str:
        """Everything in ``main``; one kind of value in a helper."""
        if not self.kind_of_result:
            return f"({', '.join(v for k in 'fiaml' for v in self.names[k])})"
        return {"f": self.f, "a": lambda: self.any("a"), "t": lambda: f"({self.f()}, {self.any('a')})"}[
            self.kind_of_result
        ]()

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line if line else "")

    def name(self, kind: str) -> str:
        self.fresh += 1
        return f"{kind}{self.fresh}"

    def any(self, kind: str) -> str:
        return self.r.choice(self.names[kind])

    # --- expressions ------------------------------------------------------------------------------

    def f(self, depth: int = 2) -> str:
        r = self.r
        if depth == 0 or r.random() < 0.3:
            return r.choice(
                [
                    self.any("f"),
                    self.any("f"),
                    f"{r.choice([0.5, -1.25, 2.0, 3.0, 0.0])}",
                    f"{self.any('a')}[{self.i(0)}]",
                ]
            )
        g = lambda: self.f(depth - 1)  # noqa: E731
        return r.choice(
            [
                lambda: f"({g()} + {g()})",
                lambda: f"({g()} - {g()})",
                lambda: f"({g()} * {g()})",
                lambda: f"np.sin({g()})",
                lambda: f"math.tanh({g()})",
                lambda: f"({g()} / (1.5 + abs({g()})))",
                lambda: f"max({g()}, {g()})",
                lambda: f"({g()} if {self.c()} else {g()})",
                lambda: f"{self.any('a')}.sum()",
                lambda: f"{self.any('a')}[{self.i(1)}]",
                lambda: f"{self.any('m')}[{self.i(0)} % 2, {self.i(0)}]",
                lambda: f"float({self.i(1)})",
                lambda: f"sum(v * {g()} for v in {self.any('a')})",
                lambda: f"(-{g()})",
                lambda: f"{self.i(1)} * 0.5",
            ]
        )()

    def i(self, depth: int = 1) -> str:
        """An integer; as an index it is in ``range(-3, 3)``."""
        r = self.r
        if depth == 0 or r.random() < 0.4:
            return r.choice([f"{self.any('i')} % 3", "0", "1", "-1", "2"])
        return r.choice(
            [
                f"({self.i(0)} + {self.i(0)}) % 3",
                f"({self.i(0)} * {self.i(0)}) % 3",
                f"{self.any('i')} // 2 % 3",
                f"(1 if {self.c()} else 2)",
                f"len({self.any('a')}) - 1",
                f"int({self.any('f')} > 0)",
            ]
        )

    def c(self) -> str:
        r = self.r
        return r.choice(
            [
                f"{self.any('f')} > {self.any('f')}",
                f"{self.any('f')} < 0.5",
                f"{self.i(0)} == {self.i(0)}",
                f"0 < {self.any('f')} < 1",
                f"{self.any('f')} > 0 and {self.any('i')} > 1",
                f"not {self.any('f')} > 0.1 or {self.any('i')} % 2 == 0",
                f"{self.any('i')}",
                "n > 1" if self.names["i"][:1] == ["n"] else "True",
            ]
        )

    def a(self) -> str:
        """A new array of three."""
        r = self.r
        return r.choice(
            [
                f"np.zeros(3) + {self.f(1)}",
                f"np.ones(3) * {self.f(1)}",
                f"{self.any('a')}.copy()",
                f"{self.any('a')} + {self.f(1)}",
                f"np.sin({self.any('a')})",
                f"{self.any('a')} * {self.any('a')} * 0.3",
                f"np.array([{self.f(1)}, {self.f(1)}, {self.f(1)}])",
                f"np.where({self.any('a')} > 0, {self.any('a')}, {self.f(0)})",
            ]
        )

    def view(self) -> str:
        """Something that shares memory."""
        r = self.r
        return r.choice(
            [
                self.any("a"),
                self.any("a"),
                f"{self.any('m')}[{self.i(0)} % 2]",
                f"{self.any('m')}[1]",
                f"{self.any('a')}[::-1]",
                f"{self.any('m')}.T[:, 0]",
                f"{self.any('m')}.reshape(6)[1:4]",
                f"({self.any('a')} if {self.c()} else {self.any('a')})" if r.random() < 0.3 else self.any("a"),
            ]
        )

    def call(self) -> str:
        if not self.helpers:
            return self.f()
        name, kinds = self.r.choice(self.helpers)
        return f"{name}({', '.join(self.f(1) if k == 'f' else self.i(1) if k == 'i' else self.any(k) for k in kinds)})"

    # --- statements -------------------------------------------------------------------------------

    def new(self, kind: str) -> None:
        v = self.name(kind)
        self.put(
            f"{v} = "
            + {
                "f": lambda: f"{self.r.choice([0.25, -0.5, 1.0])}",
                "i": lambda: str(self.r.randint(0, 3)),
                "a": lambda: "np.zeros(3)",
                "m": lambda: "np.zeros((2, 3))",
                "l": lambda: f"[{self.f(0)}, {self.f(0)}]",
            }[kind]()
        )
        self.names[kind].append(v)

    def block(self, size: int, depth: int) -> None:
        """Statements; what they define inside a branch or loop is forgotten after it."""
        before = {k: list(v) for k, v in self.names.items()}
        for _ in range(size):
            self.statement(depth)
        if depth:
            for k, v in before.items():
                leaked = [x for x in self.names[k] if x not in v] if self.r.random() < 0.05 else []
                self.names[k] = v + leaked[:1]

    def statement(self, depth: int) -> None:
        r = self.r
        simple = [
            self.assign_f,
            self.assign_f,
            self.assign_i,
            self.assign_a,
            self.store,
            self.store,
            self.augment,
            self.alias,
            self.alias,
            self.swap,
            self.call_helper,
            self.call_helper,
            self.lists,
            self.closure,
        ]
        nested = [self.if_, self.if_, self.for_, self.for_, self.while_]
        if depth < 3 and r.random() < 0.35:
            r.choice(nested)(depth)
        elif self.loops and depth and r.random() < 0.08:
            self.put(f"if {self.c()}:")
            self.put("    " + r.choice(["break", "continue"]))
        elif depth and self.kind_of_result and r.random() < 0.05:
            self.put(f"if {self.c()}:")
            self.put(f"    return {self.result()}")
        elif depth and r.random() < 0.7:  # names that mean different arrays on different paths are refused
            r.choice([s for s in simple if s not in (self.alias, self.swap, self.assign_a)])()
        else:
            r.choice(simple)()

    def target(self, kind: str) -> str:
        """A variable to assign, old or new."""
        if self.r.random() < 0.6:
            old = [v for v in self.names[kind] if v not in ("n", "x")]
            if old:
                return self.r.choice(old)
        return self.name(kind)

    def bind(self, kind: str, value: str) -> None:
        v = self.target(kind)
        self.put(f"{v} = {value}")
        if v not in self.names[kind]:
            self.names[kind].append(v)

    def assign_f(self) -> None:
        self.bind("f", self.f())

    def assign_i(self) -> None:
        self.bind("i", self.i())

    def assign_a(self) -> None:
        self.bind("a", self.a())

    def alias(self) -> None:
        self.bind("a", self.view()) if self.r.random() < 0.8 else self.bind(
            "m", self.r.choice([self.any("m"), f"{self.any('m')}.copy()"])
        )

    def store(self) -> None:
        r = self.r
        place = r.choice(
            [
                f"{self.any('a')}[{self.i()}]",
                f"{self.any('a')}[{self.i(0)}]",
                f"{self.any('m')}[{self.i(0)} % 2, {self.i(0)}]",
                f"{self.any('m')}[{self.i(0)} % 2]",
                f"{self.any('a')}[1:]",
                f"{self.any('a')}[:]",
                f"{self.any('m')}[0][{self.i(0)}]",
                f"{self.any('a')}[{self.any('a')} > 0.2]",
            ]
        )
        self.put(f"{place} {r.choice(['=', '=', '+=', '*='])} {self.f(1)}")

    def augment(self) -> None:
        r = self.r
        if r.random() < 0.5:
            self.put(f"{self.any('a')} {r.choice(['+=', '*=', '-='])} {r.choice([self.f(1), self.any('a')])}")
        else:
            name = r.choice([v for v in self.names["f"] if v != "x"] or ["x"])
            self.put(f"{name} {r.choice(['+=', '-=', '*='])} {self.f(1)}")

    def swap(self) -> None:
        kind = self.r.choice("faf")
        u, v = self.any(kind), self.any(kind)
        self.put(f"{u}, {v} = {v}, {u}")

    def call_helper(self) -> None:
        if not self.helpers:
            return self.assign_f()
        kind = self.r.random()
        text = self.call()
        if kind < 0.4:
            return self.put(text)
        v = self.name("r")
        self.put(f"{v} = {text}")
        self.put(f"if isinstance({v}, tuple):")
        self.put(f"    {v} = {v}[{self.r.randint(0, 1)}]")
        w = self.target("f")
        if w not in self.names["f"]:
            self.put(f"{w} = 0.5")
            self.names["f"].append(w)
        self.put(f"if isinstance({v}, np.ndarray):")
        self.put(f"    {v}[0] = {self.f(0)}" if self.r.random() < 0.5 else f"    {w} = {v}.sum()")
        self.put("else:")
        self.put(f"    {w} = {v} + 0.125")

    def lists(self) -> None:
        r = self.r
        if not self.names["l"]:
            return self.new("l")
        v = self.any("l")
        r.choice(
            [
                lambda: self.put(f"{v}[{r.choice(['0', '1', '-1'])}] = {self.f(1)}"),
                lambda: self.bind("l", v),
                lambda: self.bind("l", f"list({v})"),
                lambda: self.bind("f", f"sum({v})"),
                lambda: self.bind("f", f"{v}[1]"),
                lambda: self.bind("l", f"[u * {self.f(0)} for u in {v}]"),
            ]
        )()

    def closure(self) -> None:
        name, r = self.name("g"), self.r
        self.put(f"def {name}(z):")
        written = r.random() < 0.3 and [v for v in self.names["f"] if v[0] == "f"]
        if written:
            v = r.choice(written)
            self.put(f"    nonlocal {v}")
            self.put(f"    {v} = {v} * 0.5 + z")
        elif r.random() < 0.5:
            self.put(f"    {self.any('a')}[{self.i(0)}] += z")
        self.put(f"    return z * {self.any('f')} + {self.any('a')}[0]")
        if r.random() < 0.5:
            self.assign_f()
        self.bind("f", f"{name}({self.f(0)})")

    def if_(self, depth: int) -> None:
        self.put(f"if {self.c()}:")
        self.nest(depth)
        if self.r.random() < 0.2:
            self.put(f"elif {self.c()}:")
            self.nest(depth)
        if self.r.random() < 0.6:
            self.put("else:")
            self.nest(depth)

    def nest(self, depth: int) -> None:
        self.indent += 1
        self.block(self.r.randint(1, 3), depth + 1)
        self.indent -= 1

    def for_(self, depth: int) -> None:
        r = self.r
        over = r.choice(
            [
                "range(n)" if self.names["i"][:1] == ["n"] else "range(2)",
                "range(3)",
                f"range({self.i(1)})",
                self.any("a"),
                self.any("m"),
                f"enumerate({self.any('a')})",
                f"zip({self.any('a')}, {self.any('m')}[0])",
                "range(2, 0, -1)",
                f"reversed({self.any('a')})",
            ]
            + [v for v in self.names["l"][:1]]
        )
        kind = "i" if over.startswith("range") else "a" if over in self.names["m"] else "f"
        v = self.name(kind)
        target = v
        if over.startswith("enumerate"):
            target = f"{self.name('k')}, {v}"
        elif over.startswith("zip"):
            target = f"{v}, {self.name('k')}"
        self.put(f"for {target} in {over}:")
        before = list(self.names[kind])
        self.names[kind] = [*before, v]
        self.loops += 1
        self.nest(depth)
        self.loops -= 1
        self.names[kind] = before
        if r.random() < 0.15:
            self.put("else:")
            self.nest(depth)

    def while_(self, depth: int) -> None:
        v = self.name("w")
        self.put(f"{v} = {self.r.randint(0, 3)}")
        self.put(f"while {v} > 0{self.r.choice(['', f' and ({self.c()})'])}:")
        self.indent += 1
        self.put(f"{v} -= 1")
        self.indent -= 1
        self.loops += 1
        self.nest(depth)
        self.loops -= 1


def program(seed: int, size: int = 12) -> str:
    """The source of one random program."""
    return Program(seed, size).text()
