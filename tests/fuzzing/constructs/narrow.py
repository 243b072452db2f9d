"""Constructs: NumPy's integers of 8 to 32 bits, signed and unsigned, alone and in arrays of three.

Their arithmetic wraps at their width, dtypes are combined in all pairs, and Python's integers have to fit.
"""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, E, Kind, S

KINDS = [
    Kind("e", "narrow integer", "float({v} % 101) * 0.01"),
    Kind("o", "three narrow integers", "float({v}.sum() % 1009) * 0.01", mutable=True),
]
DTYPES = "{?np.uint8|np.int8|np.int16|np.uint16|np.uint32|np.int32}"
COUNTED = """
{.u=new o} = np.zeros(3, {?np.uint8|np.int16})
for {.k} in range({?3|{i}|300}):
    {.u}[{.k} % 3] {?+=|*=|-=|^=} {.u}.dtype.type({?{.k} % 7|100|3})
    {block}
"""

CONSTRUCTS: list[Construct] = [
    E("e", "narrow edge", "np.{?uint8(255)|int8(-128)|int8(127)|uint16(65535)|int16(-1)|uint32(2 ** 32 - 1)|uint8(7)}",
      2),
    E("e", "narrow of an integer", f"np.int64({{i}}).astype({DTYPES})", 2),
    E("e", "narrow of any size", f"{{n}}.astype({DTYPES})"),
    E("e", "narrow of a float", f"np.float64(np.tanh({{f}}) * 120.0).astype({DTYPES})", 0.5),
    E("e", "narrow variable", "{var e}", 4),
    E("e", "narrow element", "{o}[{i}]", 2),
    E("e", "narrow arithmetic", "({e} {?+|-|*} {e})", 3),
    E("e", "narrow and Python's", "({e} {?+|-|*|//|%|&|>>} {?1|3|7|100|200})"),
    E("e", "narrow bits", "({e} {?&|^} {e})"),
    E("e", "narrow shift", "({e} {?<<|>>} {e})", 0.5),
    E("e", "narrow quotient", "({e} {?//|%} ({e} | 1))"),
    E("e", "narrow of one operand", "{?-|~|abs}({e})"),
    E("e", "narrow maximum", "np.{?maximum|minimum}({e}, {e})", 0.5),
    E("e", "narrow extreme", "{?min|max}({e}, {e})", 0.3),
    E("e", "narrow conditional", "({e} if {c} else {e})", 0.4),
    E("e", "narrow from an array", "{o}.{?max|min}()", 0.5),
    E("n", "integer of a narrow one", "np.int64({e})"),
    E("n", "sum of narrow integers", "np.int64({o}.{?sum|prod}())"),
    E("f", "float of a narrow integer", "float({e} % 100) * 0.02"),
    E("f", "narrow times float", "({e} % 50 * {f} * 0.03)", 0.5),
    E("f", "quotient of narrow integers", "({e} / ({e} | 1)) * 1e-5", 0.5),
    E("a", "floats of narrow integers", "({o}.astype(np.float64) % 10.0 * 0.1)"),
    E("a", "narrow array times floats", "({o} % 10 * {a} * 0.2)"),
    E("c", "narrow comparison", "{e} {?<|>=|==|!=} {?{e}|{e}|100|300|-1|{i}}", 1.5),
    E("i", "small of a narrow integer", "int({e} % 3)", 0.5),
    E("o", "narrow array variable", "{var o}", 4),
    E("o", "narrow array", f"np.array([{{i}}, {{i}}, {{?100|120|7}}], {DTYPES})"),
    E("o", "narrow array cast", f"{{o}}.astype({DTYPES})", 2),
    E("o", "narrow zeros", f"np.{{?zeros|ones}}(3, {DTYPES})", 0.5),
    E("o", "narrow arrays", "({o} {?+|-|*|&|^} {o})", 3),
    E("o", "narrow array and scalar", "({o} {?+|-|*} {?{e}|{e}|1|3})"),
    E("o", "quotients of narrow arrays", "({o} {?//|%} ({o} | 1))"),
    E("o", "narrow where", "np.where({q}, {o}, {?{o}|{e}|1})"),
    E("o", "narrow clip", "np.clip({o}, 3, {?100|50|300})", 0.3),
    E("o", "narrow scan", "np.cumsum({o}, dtype=np.uint16)", 0.3),
    E("o", "narrow sort", "np.{?sort|flip}({o})", 0.2),
    E("q", "narrow mask", "({o} {?<|>=|==} {?{o}|{e}|100|300|-1})"),
    E("k", "narrow places", "({o} % 3).astype(np.int64)", 0.5),
    S("new narrow", "{new e} = {e}", 1.5),
    S("new narrow array", "{let o} = {o}"),
    S("narrow by place", "{.u} = {a}\n{set f} = {.u}[{o} % 3].sum()", 0.5),
    S("narrow store", "{mut o}[{i}] {?=|=|+=|*=} {?1|3|7}"),
    S("narrow wrapping loop", "{.w=new e} = np.{?uint8(200)|int16(30000)|int8(-100)}\n"
                              "for {.i=new i} in range({?3|9|{i}}):\n"
                              "    {.w} {?+=|*=|-=|^=} type({.w})({?3|7|{.i} % 5})\n    {block}"),
    S("narrow sum in a loop", "{.w=new e} = np.uint8(0)\nfor {.k} in {o}.astype(np.uint8):\n    {.w} += {.k}"),
    S("narrow counts", COUNTED),
]
