"""Constructs: branches, loops, exits, errors; and the shapes of ``main``."""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, E, M, S

CONSTRUCTS: list[Construct] = [
    S("if", "if {c}:\n    {block}", 4),
    S("if else", "if {c}:\n    {block}\nelse:\n    {block}", 4),
    S("elif", "if {c}:\n    {block}\nelif {c}:\n    {block}\nelse:\n    {block}"),
    S("assigned on both sides", "if {c}:\n    {.w=new f} = {f}\nelse:\n    {.w} = {f}", 1.5),
    S("while", "{.w=let i} = {?1|2|3}\nwhile {.w} > 0:\n    {.w} -= 1\n    {block}", 2),
    S("while with a condition", "{.w=let i} = {?2|3}\nwhile {.w} > 0 and {c}:\n    {.w} -= 1\n    {block}"),
    S("while that doubles", "{.w=let f} = abs({f}) + 0.2\nwhile {.w} < {?1.0|2.0}:\n"
                            "    {.w} = {.w} * 1.4 + ({num}) ** 2\n    {block}"),
    S("while True", "{.w=let i} = 0\nwhile True:\n    {.w} += 1\n    if {.w} > {?1|2} or {c}:\n        break\n"
                    "    {block}"),
    S("for range", "for {new i} in range({i}):\n    {block}", 3),
    S("for range of a constant", "for {new i} in range({?2|3}):\n    {block}", 3),
    S("for range with a step", "for {new i} in range({?2, 0, -1|0, 3, 2|1, 3}):\n    {block}"),
    S("for over an array", "for {new f} in {a}:\n    {block}", 2),
    S("for over a matrix", "for {new a} in {mut m}:\n    {block}"),
    S("for enumerate", "for {new i}, {new f} in enumerate({a}):\n    {block}"),
    S("for zip", "for {new f}, {new f} in zip({a}, {a}):\n    {block}"),
    S("for reversed", "for {new f} in reversed({var a}):\n    {block}"),
    S("for else", "for {new i} in range({?2|3}):\n    {block}\n    if {c}:\n        break\nelse:\n    {block}"),
    S("for over integers", "for {new i} in {k}:\n    {block}", 0.7),
    S("while else", "{.w=let i} = {?1|2}\nwhile {.w} > 0:\n    {.w} -= 1\n    {block}\n    if {c}:\n        break\n"
                    "else:\n    {block}", 0.7),
    S("for unrolled", "for {new i} in unroll(range({?2|3})):\n    {block}", 0.5),
    S("for over indices", "for {.i=new i} in range(len({.u=mut a})):\n    {.u}[{.i}] {?=|+=|*=} {f}", 2),
    S("running sum", "for {.i=new i} in range(1, 3):\n    {.u=mut a}[{.i}] += {.u}[{.i} - 1] * {f}"),
    S("for over many", "for {new j} in range(len({var v})):\n    {block}", 12, where="outer"),
    S("for over many backwards", "for {new j} in range(len({var v}) - 1, -1, -1):\n    {block}", 3, where="outer"),
    S("for over every second of many", "for {new j} in range(0, len({var v}), 2):\n    {block}", 3, where="outer"),
    S("for enumerate many", "for {new j}, {new f} in enumerate({var v}):\n    {block}", 3, where="outer"),
    S("accumulation over many", "for {.j=new j} in range(len({.u=var v})):\n"
                                "    {.w=old f} = {.w} * 0.5 + math.sin({.u}[{.j}] * {f})", 4, where="outer"),
    S("break", "if {c}:\n    break", 3, where="loop"),
    S("continue", "if {c}:\n    continue", 3, where="loop"),
    S("early return", "if {c}:\n    return {result}", 0.7),
    S("raise", "if {f} > {?2.0|1e3}:\n    raise ValueError('{?too large|no value}')", 0.3),
    S("assert", "assert {f} < {?3.0|1e3}", 0.4),
    S("assert with a message", "assert abs({f}) < 1e3, 'too far'", 0.2),
    S("use after a branch", "{.w=new f} = {num}\nif {c}:\n    {.w} = {f}\n    {block}"),
    S("pass", "if {c}:\n    pass\nelse:\n    {block}", 0.3),
    S("match on an integer", "match {i}:\n    case 0:\n        {block}\n    case 1 | 2:\n        {block}\n"
                             "    case _:\n        {block}", 1, needs="match"),
    S("match with a guard", "match {f}:\n    case {.z} if {.z} > {num}:\n        {old f} = {f .z:f}\n    case _:\n"
                            "        {block}", 0.5, needs="match"),
    E("f", "sum of a generator", "sum({f .z:f} for {.z} in {a})"),
    E("f", "sum over enumerate", "sum({f .z:f .i:i} for {.i}, {.z} in enumerate({a}))", 0.5),
    E("f", "sum over a range", "sum({f .i:i} for {.i} in range({?2|3}))", 0.5),
    E("f", "sum of a list", "sum([{f}, {f}, {f}])", 0.5),
    E("f", "sum of map", "sum(map(lambda {.z}: {f .z:f}, {a}))", 0.5),
    E("f", "any of a generator", "(0.5 if {?any|all}({c .z:f} for {.z} in {a}) else {f})", 0.4),
    E("f", "accumulate", "sum(itertools.accumulate([{f}, {f}, {f}]))", 0.3),
    E("f", "sorted", "sorted([{f}, {f}, {f}])[{?0|1|-1}]", 0.4),
    E("f", "max of a generator", "{?max|min}({f .z:f} for {.z} in ({f}, {f}))", 0.3),
    # --- main
    M("main", "x:f n:i p:a | a:a*", """
def main(x, n, p):
    a = p.copy()
    {block}
    return {result}
""", 4),
    M("main of several results", "x:f n:i p:a | a:a*", """
def main(x, n, p):
    a = p * 1.0
    {block}
    return {parts}
""", 1.5),
    M("main of scalars", "x:f y:f n:i", """
def main(x, y, n):
    {block}
    return {result}
""", 2),
    M("main of many", "x:f n:i p:v | s:f u:v*", """
def main(x, n, p):
    s = 0.0
    u = p * x
    {block}
    return {result}
""", 2),
    M("main of matrices", "x:f q:m p:a | m:m*", """
def main(x, q, p):
    m = q * 1.5
    {block}
    return {result}
"""),
]
