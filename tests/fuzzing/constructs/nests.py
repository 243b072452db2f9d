"""Constructs: loops over many elements that passes rearrange.

Each has the shape that a pass looks for: iterations side by side (``outer_loop``, ``predicate``), values computed
ahead of a loop (``fission``, ``loop_versioning``), stores of several iterations to one address, sums that begin with
0.0.  Where such a loop fails, it is to fail as Python does: of arrays of several lengths, in the first iteration,
behind a logarithm.
"""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, E, S

PLACE = "{?{.j}|{.j} + 1|{.n} - 1 - {.j}|{.j} // 2|({.j} * 7) % {.n}|{.j} + {.r}|-1 - {.j}|{.n} // 2}"
STORE = f"{{.o}}[{PLACE}] {{?=|+=|=|-=}} {{?{{.s}}|2.0 * {{.s}}|{{.s}} * {{f}}|{{.o}}[{PLACE}] + {{.s}}}}"
TOTAL = "\n{set f} = (np.cos(np.arange(len({.o})) + {num}) * {.o}).sum()"
INNER = """
{.q=let m} = {m}
{.p=let v} = {v}
{.n} = len({.p})
{.r} = 0
{.o} = {?np.zeros({.n} + 3)|np.full({.n} + 3, {f})|np.zeros(2 * {.n} + 3)}
for {.j} in range({?{.n}|{.n}|{.n} - 1|0, {.n}, 2}):
    {.s} = {?0.0|{f}}
    for {.k} in range({?3|{i}}):
        for {.r} in range(2):
            {.s} {?+=|-=} {.q}[{.r}, {.k}] * {.p}[{.j}]
"""
NEAR = "{?{.j}|{.j} + 1|{.n} - 1 - {.j}|{.j} + 2|{.n} - {.j}}"
NEIGHBOURS = """
{.q=let m} = {m}
{.p=let v} = {v}
{.n} = len({.p})
{.o} = np.{?zeros|ones}({.n} + 2)
for {.j} in range({.n}):
    {.s} = {?0.0|0.5}
    for {.k} in range({?3|2}):
        for {.r} in range(2):
            {.s} {?+=|-=} {.q}[{.r}, {?{.k}|0}] * {.p}[{.j}]
    {.o}[NEAR] {?=|=|+=} {?{.s}|2.0 * {.s}|{.s} - {.p}[{.j}]}
    {.o}[NEAR] {?=|=|+=|-=} {?{.s}|2.0 * {.s}|{.s} * {.p}[{.j}]}
""".rstrip().replace("NEAR", NEAR) + TOTAL
UNEVEN = """
{.p=let v} = {v}
{.u} = ({v})[:{?35|len({.p}) // 2|3|len({.p})}]
{.q} = {.p}[{?:|:len({.p}) // 3|1:}] * 0.5
{.n} = {?len({.p})|len({.p}) - 1|len({.p}) + 3|40}
{.o} = np.zeros({.n})
for {.k} in range({.n}):
    {.z} = {?{.p}[{.k}]|{.u}[{.k}]|{.q}[{.k}]|{.p}[{.k} + 1]} {?+ 0.5|* math.sqrt({f} + 1.0)|* 2.0}
    {.w} = {?{.p}[{.k}]|{.u}[{.k}]|{.q}[{.k}]|{.p}[{.k} + 1]|{.u}[{.k} + 2]}
    while {.z} > {?0.1|{.w}|0.4}:
        {.z} = math.{?sin|tanh}({.z}) * 0.9 - 0.01
    {.o}[{.k}] {?=|+=} {.z} + {.w}
""" + TOTAL[1:]
AHEAD = """
{.p=let v} = {v}
{.u=let a} = {a}
{.k=let i} = {?{i}|{i} * 2|{int} - 2}
{.w=new f} = {?0.0|1.0|{f}}
for {.j} in range(len({.p})):
    {.r} = {?{.k}|{.k}|int({.p}[{.j}]) % 3|{.j} % 3}
    {?{.w} = {.w} * |{.w} += |{.w} = {.w} * 0.5 + }math.{?log|sqrt}({.p}[{.j}] + {?1.3|2.5|4.0}) * {.u}[{.r}]
"""
BESIDE = """
{.p=let v} = {v}
{.o=new v} = {.p} * {?{f}|0.5}
for {.j} in range({?1|0}, len({.o})):
    for {.k} in range({?3|{i}|len({.p})}):
        {.o}[{.j}] {?+=|+=|-=} {?{.p}[{.k} % 3]|{.p}[{.j}]} * {?{.o}[{.j} - 1]|{.o}[0]|{.o}[-1]|{f}} * 0.1
        {?pass|pass|{.o}[{.j} - 1] {?+=|=} 0.3 * {.p}[{.j}]}
"""
GUARDED = """
{.p=let v} = {v}
{.u=let a} = {a}
{.t} = {c}
{.w=new f} = {?0.0|{f}}
for {.j} in range(len({.p})):
    {?assert {.t}, 'carried'|if {.t}: {.w} += {.u}[{i}]|if {c}: {.w} += {.u}[{?1|{i}}]}
    {.w} = {.w} * 0.5 + math.{?log|sqrt|sin}({.p}[{.j}] {?+ 2.0|* {.p}[{.j}] + 0.1|+ 1.2})
    {?{.t} = {.w} < {?10.0|0.3}|{.t} = {.t} or {.w} > {f}|pass}
"""
ADDED = """
{.p=let v} = {v}
{.o=new v} = {?np.zeros(len({.p}))|np.zeros(len({.p})) + {f}}
for {.j} in range({?len({.p})|len({.p}) - 1, -1, -1}):
    {.o}[{?{.j}|{.j}|len({.p}) - 1 - {.j}|{.j} // 2}] {?+=|-=} {?{.p}[{.j}]|{.p}[{.j}] * {f}|math.sin({.p}[{.j}])}
    {?pass|{.o}[{.j}] {?=|+=|*=} {f}|{.o}[0] = {.p}[{.j}]|if {c}: break}
"""
RECURRENCE = """
{.p=let v} = {v}
{.o=new v} = {.p} * {f}
for {.j} in range({?1|2}, len({.o})):
    {.w} = math.{?cos|tanh}({.p}[{.j}] * {num})
    {.o}[{.j}] {?=|+=|-=} {?{.o}[{.j} - 1] * 0.5 + {.p}[{.j}]|{.o}[{.j} // 2] * {num}|{.w} * {.o}[{.j} - 1] * 0.5}
"""
GRID = """
{.p=let v} = {v}
{.g} = np.zeros((len({.p}), 3))
for {.j} in range(len({.p})):
    for {.k} in range(3):
        {.w} = {.p}[{.j}] * {?{f}|({.k} + 0.5)}
        {.g}[{?{.j}, {.k}|{.j}, 2 - {.k}|len({.p}) - 1 - {.j}, {.k}|{.j} // 2, {.k}}] {?=|+=} {.w}
        {?pass|{.g}[{.j}, {?0|1|-1}] {?=|+=} {f}|if {c}: break|{.g}[{.j} - 1, {.k}] *= 0.5}
{set f} = np.tanh(({.g} * {.g}).sum()) + {.g}.sum() * 0.1
"""
BEHIND = """
{.p=let v} = {v}
{.w=new f} = {?0.0|{f}}
for {.j} in range({?len({.p})|len({.p}) - 1}):
    {.r} = {.p}[{.j}] * {?{f}|{num}}
    if {.r} {?>|<|>=} {?0.0|{.p}[0]|0.3}:
        {.w} {?+=|-=} {?{.r} * {.r}|{.r} * {.p}[{.j}]|{.r} + {f}}
"""
BEST = """
{.p=let v} = {v}
{.u=let v} = {v}
{.k} = {?0|0|{i}|len({.p}) - 1}
for {.j} in range({?len({.p})|1, len({.p})|len({.p}) - 1}):
    {.r} = {.j}{?| + 1}
    if {.p}[{.r}] * {f} {?<|>|>=} {.p}[{.k}] * {?{f}|{.u}[{.k}]}:
        {.k} = {.r}
{set f} = {.p}[{.k}] + {.u}[{?{.k}|0}]
"""
SIDES = """
{.p=let v} = {v}
{.o=new v} = np.zeros(len({.p}))
for {.j} in range(len({.p})):
    {.z} = {.p}[{.j}] * {f}
    if {.z} {?>|<=} {?0.0|{.p}[0]}:
        {.o}[{.j}] = {?{.z} + |2.0 * |}math.{?log1p|exp|tanh}({?math.exp(-{.z})|-{.z}|{.z} * 0.5})
    else:
        {.o}[{.j}] = {?1.0 - |{.z} * |}math.{?log1p|exp|tanh}({?math.exp({.z})|{.z}|0.1 - {.z}})
"""
COLUMNS = """
{.q=let m} = {m}
{.o} = {.q} * {?{f}|1.0}
for {.j} in range({.o}.shape[1]):
    for {.k} in range({?{.j}|{.j} + 1|{.o}.shape[1]}):
        {.o}[:, {.j}] {?-=|+=|*=|=} {?PART|0.1 * np.dot(PART, {.o}[:, {.j}]) * PART|{.o}[::-1, {.k}] * 0.5}
        {?pass|{.o}[0] {?=|+=} {.o}[1] * {f}|{.o}[{?1:|:-1}, :] += 0.1 * {.o}[{?1:|:-1}, :]}
{set f} = np.tanh({.o}).sum()
""".replace("PART", "{.o}[:, {.k}]")
BORDERS = """
{.p=let v} = {v}
{.n} = len({.p})
{.o} = np.zeros({.n})
for {.j} in range({?{.n}|1, {.n}|{.n} - 1, -1, -1}):
    {.l} = {?({.j} - 1) % {.n}|max({.j} - 1, 0)|{.j} - 1|{.j} - 1 if {.j} > 0 else {.n} - 1}
    {.r} = {?({.j} + 1) % {.n}|min({.j} + 1, {.n} - 1)|{.j} + 1 if {.j} < {.n} - 1 else 0}
    {.o}[{?{.j}|{.l}|{.r}}] {?=|+=|-=} {.p}[{.l}] * {.p}[{.r}] {?+|-} {.p}[{.j}] * {f}
""" + TOTAL[1:]
STATE = """
{.q=let m} = {m}
{.p=let v} = {v}
{.u} = {.p}[:3] * {f}
{.o} = np.zeros(3)
for {.t} in range({?2|3}):
    for {.j} in range(3):
        {.s} = {?0.0|{.p}[{.j}]}
        for {.k} in range(len({.u})):
            {.s} += {.q}[{.j} % 2, {.k}] * {.u}[{.k}]{?| * {.u}[{.k}]}
        {.o}[{.j}] = {.s}
    for {.j} in range(len({.u})):
        {.u}[{.j}] {?=|+=} np.tanh({.o}[{.j}])
{set f} = {.u}.sum() + {.u}[1]
"""
AFTER = """
{.q=let m} = {m}
{.p=let v} = {v}
{.n} = len({.p})
{.w=new f} = {?0.0|{f}}
for {.j} in range({?{.n}|3}):
    {.s} = {?0.0|{f}}
    for {.k} in range({.n}):
        {.s} {?+=|-=} {.p}[{.k}] * {?{.q}[{.j} % 2, {.k} % 3]|0.5}
    {?{.s} /= {.n} + 1|{.s} *= {f}|pass}
    {.u} = {?0.0|{.s}}
    for {.k} in range({?{.n}|{.n}|{i}}):
        {.r} = {.q}[{.k} % 2, {.j} % 3] - {?{.s}|{.s}|{f}}
        {?if {.r} > {?{.s}|0.0}: |}{?{.w}|{.w}|{.u}} {?+=|-=} {.r} * {?{.r}|{.p}[{.k} % 3]|{.s}}
    {?pass|{.w} += {?{.u}|{.s} * {.u}|{f}} * 0.1}
"""

CONSTRUCTS: list[Construct] = [
    S("stores after an inner loop", f"{INNER}    {STORE}\n    {{?pass|{STORE}}}{TOTAL}", 3, where="outer"),
    S("stores to neighbours", NEIGHBOURS, 2, where="outer"),
    S("stores in an inner loop", f"{INNER}        {STORE}\n    {{?pass|{STORE}}}{TOTAL}", 1.5, where="outer"),
    S("element beside another one", BESIDE, 2, where="outer"),
    S("arrays of several lengths", UNEVEN, 2, where="outer"),
    S("computed ahead of a loop", AHEAD, 3, where="outer"),
    S("guarded in a loop", GUARDED, 2, where="outer"),
    S("added to an array", ADDED, 2, where="outer"),
    S("recurrence in an array", RECURRENCE, 1.5, where="outer"),
    S("sum behind a condition", BEHIND, 2, where="outer"),
    S("best by its index", BEST, 2, where="outer"),
    S("sides that call the same", SIDES, 2, where="outer"),
    S("columns of columns", COLUMNS, 1.5, where="outer"),
    S("borders", BORDERS, 2, where="outer"),
    S("state read again and again", STATE, 1, where="outer"),
    S("loop behind a loop that it reads", AFTER, 2, where="outer"),
    S("loop over a grid", GRID, 1.5, where="outer"),
    # --- f32
    E("h", "float32 variable", "{var h}", 3),
    E("h", "element of float32", "{b}[{i}]"),
    S("new float32", "{new h} = {h}", 0.3),
    S("float32 added to a number", "{.w=new h} = {?0.0|1|0.5}\nfor {.z} in {b}:\n"
                                   "    {.w} {?+=|*=|-=} {.z}{?| * {h}}", 0.3),
    S("float32 added by index", "{.u} = {b}\n{.w=new h} = {?0.0|1}\nfor {.k} in range(len({.u})):\n"
                                "    {.w} {?+=|*=} ({.u}[{.k}] - 0.5) ** 2", 0.3),
    S("float32 array stored to", "{.u} = np.zeros(3, np.float32)\nfor {.k} in range(3):\n"
                                 "    {.u}[{.k}] {?=|+=|-=} {h}\n"
                                 "{old f} += float({.u}.sum())", 0.3),
]
