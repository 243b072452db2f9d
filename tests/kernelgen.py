"""Random numeric kernels: loops over arrays of any length, as scientists write them.

``program(seed)`` is the source of a module with ``main(x, n, p)`` like ``adgen``'s, but ``p`` may be long (or empty):
its loops are vectorised, split, merged with their backward loops and run again.  They have recurrences, sums, stores
to neighbours, inner loops, conditions on data, early exits.
"""

from __future__ import annotations

import random

LOOPS = ("range(N)", "range(N)", "range(1, N)", "range(N - 1)", "range(N - 1, -1, -1)", "range(0, N, 2)", "range(n)")
INNER = ("range(n)", "range(3)", "range(min(i, 4))", "range(i % 3, 3)")


class Kernel:
    def __init__(self, seed: int, size: int) -> None:
        self.r, self.size = random.Random(seed), size
        self.lines: list[str] = []
        self.scalars = ["x", "s0", "s1"]
        self.arrays = ["p", "u", "v"]
        self.fresh = 0

    def text(self) -> str:
        for line in ("import math", "import numpy as np", "", "", "def h(z, w):"):
            self.put(0, line)
        self.put(1, f"if z > {self.r.choice(['w', '0.7', '0.0'])}:")
        self.put(2, f"return {self.r.choice(['z * w', 'math.sin(z) - w', 'w'])}")
        self.put(1, f"return {self.r.choice(['z * 0.5', 'math.tanh(z * w)', 'z + w * w'])}")
        for line in ("", "", "def main(x, n, p):"):
            self.put(0, line)
        for line in ("N = len(p)", "s0 = 0.0", "s1 = 0.5", "u = np.zeros(N)", "v = p * x"):
            self.put(1, line)
        for _ in range(self.r.randint(1, self.size)):
            self.r.choice([self.loop, self.loop, self.loop, self.whole])()
        self.put(1, f"return s0 + {self.r.choice(['s1', 's0 * s1', 'x'])}"
                    f" + (u * {self.r.choice(['v', '0.5', 'u'])}).sum()"
                    f"{self.r.choice(['', ' + v.sum() * 0.25', ' + x * p.sum()'])}")
        return "\n".join(self.lines) + "\n"

    def put(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line if line else "")

    def whole(self) -> None:
        """A statement about whole arrays."""
        r, a = self.r, lambda: self.r.choice(self.arrays)
        self.put(1, r.choice([
            lambda: f"u = np.tanh({a()}) * {self.scalar()}", lambda: f"v = {a()} * 0.5 + {a()}",
            lambda: f"u[1:] += {a()}[:-1]", lambda: f"u[:-1] = v[1:] * {self.scalar()}",
            lambda: f"s0 += np.sin({a()} * {a()}).sum() * 0.1", lambda: "u, v = v, u",
            lambda: f"s1 = {a()} @ {a()} * 0.1", lambda: "v = u.copy()", lambda: f"v[v > {self.scalar()}] *= 0.5",
            lambda: f"u = np.where({a()} > 0, {a()}, {a()})", lambda: f"u += {a()}[::-1]",
            lambda: f"v = np.cumsum({a()}) * 0.05", lambda: f"s0 += np.exp(-{a()} ** 2).mean() if N else x",
        ])())

    def scalar(self) -> str:
        return self.r.choice([*self.scalars, "0.3", "-0.8"])

    def loop(self) -> None:
        self.put(1, f"for i in {self.r.choice(LOOPS)}:" if self.r.random() < 0.85 else "for i, z in enumerate(p):")
        known = list(self.scalars)
        guard = self.lines[-1].endswith("range(n):")
        if guard:
            self.put(2, "if i >= N:")
            self.put(3, "break")
        for _ in range(self.r.randint(1, 4)):
            self.statement(2)
        self.scalars = known
        if self.r.random() < 0.1:
            self.put(1, "else:")
            self.put(2, "s1 = s1 * 0.5 + x")

    def statement(self, depth: int) -> None:
        r = self.r
        kind = r.random()
        if kind < 0.2:
            return self.new(depth)
        if kind < 0.45:
            s = r.choice(["s0", "s1"])
            return self.put(depth, r.choice([f"{s} += {self.e()}", f"{s} = {s} * 0.7 + {self.e()} * 0.2",
                                             f"{s} = math.tanh({s} + {self.e()})", f"{s} = max({s}, {self.e()})"]))
        if kind < 0.7:
            place = r.choice(["u[i]", "v[i]", "u[i]", "u[i - 1]", "v[(i * 7) % N]", "u[i // 2]"])
            return self.put(depth, f"{place} {r.choice(['=', '+=', '='])} {self.e()}")
        if kind < 0.85 and depth < 4:
            self.put(depth, f"if {self.e(1)} > {self.e(1)}:")
            known = list(self.scalars)
            if r.random() < 0.3:
                self.put(depth + 1, r.choice(["break", "continue", f"return {self.e()}"]))
            else:
                for _ in range(r.randint(1, 2)):
                    self.statement(depth + 1)
                if r.random() < 0.5:
                    self.put(depth, "else:")
                    self.statement(depth + 1)
            self.scalars = known
            return None
        if depth < 4:
            return self.inner(depth)
        return self.put(depth, f"s0 += {self.e(1)}")

    def new(self, depth: int) -> None:
        self.fresh += 1
        self.put(depth, f"t{self.fresh} = {self.e()}")
        self.scalars.append(f"t{self.fresh}")

    def inner(self, depth: int) -> None:
        if self.r.random() < 0.3:
            self.fresh += 1
            k = f"k{self.fresh}"
            self.put(depth, f"{k} = {self.e(1)}")
            self.put(depth, f"while {k} < {self.r.choice(['1.0', '2.0', 's1'])}:")
            self.put(depth + 1, f"{k} = {k} * 1.3 + {self.r.choice(['0.25', 'x * x + 0.25'])}")
            self.put(depth + 1, f"if {k} < -1.0:")
            self.put(depth + 2, "break")
            self.scalars.append(k)
            return
        j = f"j{depth}"
        self.put(depth, f"for {j} in {self.r.choice(INNER)}:")
        known = list(self.scalars)
        self.scalars += [f"{j} * 0.1"]
        self.statement(depth + 1)
        self.scalars = known

    def e(self, depth: int = 2) -> str:
        r = self.r
        if depth == 0 or r.random() < 0.25:
            return r.choice([*self.scalars, "p[i]", "p[i]", "u[i]", "v[i]", "u[i - 1]", "p[-1 - i]", "0.5", "i * 0.01"])
        g = lambda: self.e(depth - 1)                                    # noqa: E731
        return r.choice([
            lambda: f"({g()} + {g()})", lambda: f"{g()} * {g()}", lambda: f"({g()} - {g()}) * 0.5",
            lambda: f"math.sin({g()})", lambda: f"np.tanh({g()})", lambda: f"math.exp(-abs({g()}))",
            lambda: f"{g()} / (1.5 + abs({g()}))", lambda: f"math.sqrt(1.0 + {g()} ** 2)",
            lambda: f"max({g()}, {g()})", lambda: f"({g()} if {g()} > {g()} else {g()})", lambda: f"h({g()}, {g()})",
            lambda: f"math.log1p({g()} ** 2)",
        ])()


def program(seed: int, size: int = 3) -> str:
    """The source of one random kernel; ``size`` loops and statements at most."""
    return Kernel(seed, size).text()
