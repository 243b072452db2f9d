"""Random differentiable Python programs: those of ``pygen``, with more of NumPy and a float for a result.

``program(seed)`` is the source of a module with ``main(x, n, p)``: ``x`` a float, ``n`` a small int, ``p`` an array of
three floats.  Beyond ``pygen`` there are recursion, default and keyword arguments, reductions, index arrays, masks and
overlapping slices; sharp functions (``max``, ``abs``, masks) are kept, as their kinks are seldom met.
"""

from __future__ import annotations

from .pygen import Program

RECURSION = '''def rec(k, z, u):
    if k <= 0:
        return {base}
    if {stop}:
        return z + u[k % 3]
    return {again} * 0.7 + {more}
'''
DEFAULTS = '''def kw(z, w=0.5, *, s=2.0, u=None):
    if u is None:
        return z * w + s
    u[{at}] = z * s
    return (u * w).sum() {op} s
'''


class Differentiable(Program):
    """Writes one program whose result is one float."""

    def text(self) -> str:
        body = super().text()
        head, rest = "import numpy as np\nimport math\n", body.split("\n\n\n", 1)[1]
        return f"{head}\nTABLE = np.array([0.5, -0.25, 1.5])\n\n\n{self.recursion()}\n\n{self.defaults()}\n\n{rest}"

    def recursion(self) -> str:
        r = self.r
        return RECURSION.format(
            base=r.choice(["z * u[0]", "z", "u.sum() * z", "math.sin(z)"]), stop=r.choice(["z > 1.5", "u[1] * z > 2"]),
            again=r.choice(["rec(k - 1, math.sin(z) + u[k % 3], u)", "rec(k - 1, z * u[1], u * 0.5)",
                            "rec(k - 1, z, np.sin(u))"]),
            more=r.choice(["z", "(rec(k - 2, z * 0.5, u) if k > 2 else z)", "u[k % 3] * z", "rec(k - 2, u[0], u)"]))

    def defaults(self) -> str:
        return DEFAULTS.format(at=self.r.choice(["0", "1:", "-1", ":"]), op=self.r.choice("+*-"))

    def result(self) -> str:
        if self.kind_of_result:
            return super().result()
        floats = [f"{0.5 + 0.25 * i} * {v}" for i, v in enumerate(self.names["f"])]
        arrays = [f"({v} * {0.75 - 0.5 * i}).sum()" for i, v in enumerate(self.names["a"] + self.names["m"])]
        lists = [f"{v}[0] * {v}[1]" for v in self.names["l"]]
        return f"float({' + '.join([*floats, *arrays, *lists])})"

    # --- expressions ------------------------------------------------------------------------------

    def f(self, depth: int = 2) -> str:
        r, a = self.r, lambda: self.any("a")
        if depth == 0 or r.random() < 0.6:
            return super().f(depth)
        g = lambda: self.f(depth - 1)                                    # noqa: E731
        return r.choice([
            lambda: f"np.exp(-abs({g()}))", lambda: f"np.sqrt(1.0 + {g()} * {g()})", lambda: f"math.log1p({g()} ** 2)",
            lambda: f"np.dot({a()}, {a()})", lambda: f"({self.any('m')} @ {a()})[{self.i(0)} % 2]",
            lambda: f"{self.any('m')}.sum(axis=0)[{self.i(0)}]", lambda: f"{a()}.mean()", lambda: f"np.max({a()})",
            lambda: f"np.prod({a()})", lambda: f"np.cumsum({a()})[{self.i(0)}]", lambda: f"({a()} ** 2).sum()",
            lambda: f"{a()}[{self.indices()}].sum()", lambda: f"{a()}[{a()} > {g()}].sum()",
            lambda: f"np.linalg.norm({a()} + 3.0)", lambda: f"{a()}[1:] @ {a()}[:-1]",
            lambda: f"math.atan2({g()}, 2.0)",
            lambda: f"rec({self.i(1)}, {g()}, {a()})", lambda: f"kw({g()})", lambda: f"kw({g()}, s={g()})",
            lambda: f"kw({g()}, {g()}, u={a()}.copy())", lambda: f"np.sum({self.any('m')} * {a()})",
            lambda: f"np.maximum({g()}, {g()})", lambda: f"np.clip({g()}, -0.9, 1.1)", lambda: f"({g()}) ** 3",
            lambda: f"np.einsum('i,ij,j->', {self.any('m')}[:, 0], {self.any('m')}, {a()})",
            lambda: f"(TABLE * {a()}).sum()", lambda: f"abs({g()}) ** 1.5",
            lambda: f"np.min({self.any('m')}, axis=1)[0]",
        ])()

    def indices(self) -> str:
        return self.r.choice(["np.array([0, 2, 2])", "np.array([1, -1])", "np.array([2, 0, 1])", "np.arange(n % 3)"
                              if self.names["i"][:1] == ["n"] else "np.arange(2)"])

    def a(self) -> str:
        r, a, m = self.r, lambda: self.any("a"), lambda: self.any("m")
        if r.random() < 0.5:
            return super().a()
        return r.choice([
            lambda: f"np.tanh({a()})", lambda: f"{m()}.sum(axis=0)", lambda: f"{m()}[0] * {a()}",
            lambda: f"np.cumsum({a()}) * 0.5", lambda: f"{a()}[np.array([2, 0, 1])]", lambda: f"{m()}.T @ {m()}[:, 0]",
            lambda: f"np.maximum({a()}, {a()})", lambda: f"np.concatenate([{a()}[1:], {a()}[:1]])",
            lambda: f"np.outer({a()}, {a()})[{self.i(0)}]", lambda: f"np.clip({a()}, -0.8, 0.8)",
            lambda: f"{m()}.mean(axis=0)", lambda: f"np.arange(3) * {self.f(1)}",
            lambda: f"np.stack([{a()}, {a()}])[1]", lambda: f"np.full(3, {self.f(1)})",
            lambda: f"({m()} * {a()}).max(axis=0)", lambda: f"{a()} / (2.0 + {a()} ** 2)",
        ])()

    # --- statements -------------------------------------------------------------------------------

    def store(self) -> None:
        r = self.r
        if r.random() < 0.5:
            return super().store()
        a, m = self.any("a"), self.any("m")
        self.put(r.choice([
            lambda: f"{a}[{self.indices()}] = {self.f(1)}", lambda: f"{a}[np.array([0, 2])] += {self.f(1)}",
            lambda: f"{m}[:, {self.i(0)}] = {self.f(1)}", lambda: f"{m}[{self.i(0)} % 2] += {self.any('a')}",
            lambda: f"{a}[:2] = {self.any('a')}[1:]", lambda: f"{a}[1:] = {self.any('a')}[:2] * {self.f(1)}",
            lambda: f"{m}[:] = {self.any('a')}", lambda: f"{m}[:, ::-1] *= {self.f(1)}",
            lambda: f"{m}.T[1] += {self.f(1)}",
            lambda: f"{a}[{self.any('a')} < 0.1] *= {self.f(1)}", lambda: f"{a}[::-1] += {self.any('a')}",
        ])())


def program(seed: int, size: int = 10) -> str:
    """The source of one random differentiable program."""
    return Differentiable(seed, size).text()
