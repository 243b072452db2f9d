"""Programs of eight kinds and any length, whose compile time should be linear in it.

Each generator takes a number of statements (lines within functions) and a seed, and returns the text of a function
``program(x, y, a, n)`` of two floats, an array and an integer.
"""

from __future__ import annotations

import random
from collections.abc import Callable

HEAD = "def program(x, y, a, n):"
FORMS = ("sin({a}) * {b}", "{a} * {b} + {c}", "exp(-{a} * {a})", "{a} / (1.5 + {b} * {b})", "tanh({a} + {b}) - {c}")


def _straight(count: int, r: random.Random) -> list[str]:
    """Statements that use some of the last results each; the last two results are ``p`` and ``q``."""
    lines, names = [], ["x", "y"]
    for i in range(count):
        a, b, c = (r.choice(names[-6:]) for _ in range(3))
        name = ("p", "q")[count - 1 - i] if count - i <= 2 else f"v{i}"
        lines.append(f"    {name} = {r.choice(FORMS).format(a=a, b=b, c=c)} * {1 + r.randint(0, 9) / 100}")
        names.append(name)
    return lines


def straight(count: int, seed: int) -> str:
    return "\n".join([HEAD, *_straight(count, random.Random(seed)), "    return p + q", ""])


def small_functions(count: int, seed: int) -> str:
    """Functions of two statements, each called once."""
    r = random.Random(seed)
    functions, lines = [], []
    for i in range(count // 3):
        form = r.choice(FORMS).format(a="x", b="y", c="z")
        functions += [f"def f{i}(x, y):", f"    z = x * {1 + r.randint(0, 9) / 100} + y", f"    return {form}"]
        lines.append(f"    x, y = y, f{i}(x, y)")
    return "\n".join([*functions, HEAD, *lines, "    return x + y", ""])


def long_loop_body(count: int, seed: int) -> str:
    body = ["    " + line for line in _straight(count - 1, random.Random(seed))]
    return "\n".join([HEAD, "    for i in range(n):", *body, "        x, y = p, q", "    return x + y", ""])


def loops(count: int, seed: int) -> str:
    """Loops of two statements, one after another."""
    r = random.Random(seed)
    lines = []
    for _ in range(count // 3):
        form = r.choice(FORMS).format(a="x", b="y", c="y")
        lines += ["    for i in range(n):", f"        x = {form} * {1 + r.randint(0, 9) / 100}",
                  "        y = y * 0.9 + x"]
    return "\n".join([HEAD, *lines, "    return x + y", ""])


def ifs_in_a_loop(count: int, seed: int) -> str:
    r = random.Random(seed)
    lines = ["    for i in range(n):"]
    for k in range(count // 4):
        form = r.choice(FORMS).format(a="x", b="y", c="y")
        lines += [f"        if x > {k / count}:", f"            x = {form} * {1 + r.randint(0, 9) / 100}",
                  "        else:", "            y = y * sin(x)"]
    return "\n".join([HEAD, *lines, "    return x + y", ""])


def array_statements(count: int, seed: int) -> str:
    r = random.Random(seed)
    lines, names = ["    v = a * x", "    w = a + y"], ["v", "w"]
    for i in range(count):
        s, t, u = (r.choice(names[-6:]) for _ in range(3))
        lines.append(f"    v{i} = {r.choice(FORMS).format(a=s, b=t, c=u)} * {1 + r.randint(0, 9) / 100}")
        names.append(f"v{i}")
    return "\n".join([HEAD, *lines, f"    return ({names[-1]} + {names[-2]}).sum()", ""])


def call_sites(count: int, seed: int) -> str:
    """Calls of one function, which is too large to be inlined."""
    r = random.Random(seed)
    callee = ["def f(x, y):", "    for i in range(3):", *("    " + s for s in _straight(12, random.Random(0))),
              "        x, y = p, q", "    return x * y"]
    lines = [f"    x, y = y, f(x, y * {1 + r.randint(0, 9) / 100})" for _ in range(count)]
    return "\n".join([*callee, HEAD, *lines, "    return x + y", ""])


def reductions(count: int, seed: int) -> str:
    """Loops over the elements of an array, each with a sum of its own."""
    r = random.Random(seed)
    lines = []
    for k in range(count // 3):
        form = r.choice(FORMS).format(a="a[i]", b="x", c="y")
        lines += [f"    s{k} = 0.0", "    for i in range(len(a)):", f"        s{k} += {form}",
                  f"    x = x * 0.5 + 0.1 * s{k}"]
    return "\n".join([HEAD, *lines, "    return x + y", ""])


KINDS: dict[str, Callable[[int, int], str]] = {
    "statements": straight, "small functions": small_functions, "a long loop body": long_loop_body,
    "loops": loops, "ifs in a loop": ifs_in_a_loop, "array statements": array_statements,
    "call sites": call_sites, "loops over an array": reductions}
