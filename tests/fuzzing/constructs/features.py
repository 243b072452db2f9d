"""The constructs that this compiler supports: each feature is a small program that is compiled once to find out."""

from __future__ import annotations

import importlib.util
from functools import cache

import jitad
from jitad import jit
from tests.fuzzing import check

PROBES = {
    "match": "def main(n):\n    match n:\n        case 0:\n            return 1.0\n    return 2.0",
    "run-time functions": "def main(x):\n    f = math.sin if x > 0 else math.cos\n    return f(x)",
    "unions": "@dataclass\nclass A:\n    r: float\n\n\n@dataclass\nclass B:\n    r: float\n    s: float\n\n\n"
              "def main(x):\n    u = A(x) if x > 0 else B(x, x)\n    o = x if x > 0 else None\n"
              "    return (u.r if isinstance(u, A) else u.s) + (o if o is not None else 1.0)",
    "trees": "@dataclass\nclass Tree:\n    v: float\n    left: \"Tree | None\" = None\n\n\n"
             "def total(t):\n    return 0.0 if t is None else t.v + total(t.left)\n\n\n"
             "def main(x):\n    t = None\n    for i in range(3):\n        t = Tree(x * i, t)\n    return total(t)",
    "pullbacks": "def main(x):\n    y, back = vjp(lambda z: z * z, x)\n    return back(y)[0]",
}
NAMES = ("random", "vmap", "checkpoint", "custom_vjp", "custom_jvp", "stop_gradient")
HEAD = "import math\nfrom dataclasses import dataclass\nfrom jitad import vjp\n\n\n"


@cache
def features() -> frozenset[str]:
    """The features that this compiler supports."""
    found = {name for name in NAMES if hasattr(jitad, name) or importlib.util.find_spec(f"jitad.{name}")}
    for name, source in PROBES.items():
        main = check.load(HEAD + source, f"<feature {name}>")["main"]
        try:
            jit(main, grad=True)(2 if name == "match" else 0.5)
        except Exception:
            continue
        found.add(name)
    return frozenset(found)
