"""Constructs: edge cases of arithmetic.

Zeros of either sign, integers whose arithmetic wraps, ranges with steps longer than they are, functions outside of
their domain, digits, comparisons of numbers with tuples, nested conditions, differences that are exactly 0.
"""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, E, Kind, S

# Zeros result from zeros only: it is not specified whether a derivative is 0 or -0.
KINDS = [
    Kind("z", "zero of either sign", "math.copysign(0.5, {v})"),
    Kind("n", "NumPy's integer of any size", "float({v} % 1009) * 0.01"),
]

FIRST_WRITES = """
{.u=let v} = {v} * {z}
{.o} = np.zeros(len({.u}))
for {.k} in range(len({.u})):
    {.o}[{?{.k}|{.k}|len({.u}) - 1 - {.k}|-1 - {.k}}] {?+=|-=} {.u}[{.k}]
{set f} = np.copysign({?0.5|{f}}, {.o}).sum()
"""
EQUAL_PRODUCTS = """
{.u=let a} = np.full(3, {f})
{.w=new f} = {.u}[{i}] * {.u}[{i}] - {.u}[{i}] * {.u}[{i}]
{set f} = {?math.sqrt({.w}) + {f}|0.5 if {.w} == 0.0 else {f}}
"""
# Spanning less than 2 ** 63: the distance fits in 64 bits.
RANGES = ("{i} % 3, 2 ** 63 - 1, {UP}", "{i}, {i}, {UP}", "{i}, {i}, -{UP}", "-2 ** 62, {i}, {UP}",
          "2 ** 62, {i}, -{UP}",
          "2 ** 63 - {int} - 2, 2 ** 63 - 1, {?{UP}|1|2}", "-2 ** 63 + {int}, -2 ** 63, {?-{UP}|-1|-3}",
          "{i} % 3, -2 ** 63 + 4, -{UP}", "{i}, {i} + 5, {?2 ** 31|2 ** 32 + 1|4}")
LONG_STEPS = """
{.w} = {.k} = 0
for {.i} in range({?RANGES}):
    {.w} += 1
    {.k} = {.i} % 7
    {block}
{new i} = {.w} * 7 + {.k}
""".replace("RANGES", "|".join(RANGES)).replace("{UP}", "{?2 ** 62|(2 ** 63 - 1)|(2 ** 61 + 7)}")

CONSTRUCTS: list[Construct] = [
    # --- zeros of either sign
    E("z", "zero", "{?0.0|-0.0}", 2),
    E("z", "zero variable", "{var z}", 4),
    E("z", "zero conditional", "({z} if {c} else {z})", 2),
    E("z", "zero negated", "(-{z})"),
    E("z", "zero + zero", "({z} {?+|-} {z})", 2),
    E("z", "zero scaled", "({z} * {?-1.0|0.5|{num}})"),
    E("z", "sum of zeros", "{?np.sum|sum}(np.array([{z}, {z}, {z}]))", 0.5),
    E("z", "zeros of a list", "sum([{z}, {z}])", 0.3),
    E("z", "product of zeros", "({z} * {z})", 0.3),
    E("z", "abs of zero", "abs({z})", 0.3),
    E("z", "zero of an array", "np.array([{z}, {z}, {z}])[{i}]", 0.5),
    E("z", "where of zeros", "float(np.where({c}, {z}, {z}))", 0.2),
    E("z", "zero through a function", "(lambda {.z}: {.z} + {z})({z})", 0.3),
    E("f", "copysign", "math.copysign({f}, {z})"),
    E("f", "copysign of an array", "np.copysign({a}, {z})[{i}]", 0.5),
    E("f", "atan2 of zeros", "math.atan2({z}, {?-1.0|{z}})", 0.5),
    E("f", "one over a zero", "math.tanh(np.divide({?1.0|-2.0}, {z}))", 0.5),
    E("c", "sign of a zero", "math.copysign(1.0, {z}) > 0"),
    S("new zero", "{new z} = {z}", 2),
    S("zero assigned on both sides", "if {c}:\n    {.w=new z} = {z}\nelse:\n    {.w} = {?0.0|-0.0}"),
    S("zero in a branch", "{.w=new z} = {z}\nif {c}:\n    {.w} = {z}\n    {block}"),
    S("zero through a loop", "{.w=new z} = {z}\nfor {new i} in range({i}):\n    {.w} {?=|+=|-=} {z}\n"
                             "    if {c}: {?break|{.w} = {z}}"),
    S("zero left by a loop", "{.w=new z} = -0.0\n{.k} = {i}\nwhile {.k} > 0:\n    {.k} -= 1\n    if {c}:\n"
                             "        {.w} = 0.0\n        break"),
    S("sums of zeros in an array", FIRST_WRITES, 1, where="outer"),
    # --- integers that wrap
    E("n", "edge", "np.int64({?2 ** 63 - 1|-2 ** 63|2 ** 62|-1|0|2 ** 31|-2 ** 31 - 1})", 2),
    E("n", "integer as NumPy's", "np.int64({i})", 2),
    E("n", "variable of any size", "{var n}", 4),
    E("n", "wrapping", "({n} {?+|-|*} {n})", 2),
    E("n", "bits of any size", "({n} {?&|^} {n})"),
    E("n", "or of any size", "({n} | {n})", 0.5),
    E("n", "shift", "({n} {?<<|>>} {?0|1|31|63})"),
    E("n", "quotient of any size", "({n} {?//|%} ({n} | 1))"),
    E("n", "quotient by a constant", "({n} {?//|%} {?-1|3|-7|2 ** 62|8})"),
    E("n", "one operand", "{?-|~|abs}({n})"),
    E("n", "max of any size", "{?min|max}({n}, {n})", 0.5),
    E("n", "conditional of any size", "({n} if {c} else {n})", 0.5),
    E("n", "int32", "np.int64(np.int32({?2 ** 31 - 1|-2 ** 31|7}) {?+|-|*|//|%|&} np.int32({?-1|3|{i} + 4}))", 0.5),
    E("n", "narrowed", "np.int64({n}.astype(np.int32))", 0.3),
    E("f", "float of any size", "math.tanh(float({n}) * {?1e-18|1e-9|1.0})"),
    E("c", "comparison of any size", "{n} {?<|>=|==|!=} {n}"),
    E("i", "remainder of any size", "int({n} % 3)", 0.5),
    S("new of any size", "{new n} = {n}"),
    S("augmented of any size", "{old n} {?+=|*=|^=|-=|//=} {?{n}|3|-1}"),
    S("loop of any size", "{.w=new n} = {n}\nfor {.i=new i} in range({?3|{i}}):\n    {.w} = {.w} {?*|+|^} {n} + {.i}\n"
                          "    {block}"),
    S("range with a long step", LONG_STEPS),
    # --- domains and digits
    E("f", "partial function", "math.{?sqrt|log|asin|acosh|atanh|log10|log2}({f} + {?0.9|2.5})", 0.25),
    E("f", "math.pow", "math.pow({?{f}|abs({f})|-2.0|0.0}, {?2.0|-1.0|3.0|0.5|{f}})", 0.3),
    E("f", "math.fmod", "math.{?fmod|remainder}({f}, {?0.75|-1.5|{f}})", 0.2),
    # At most one digit: differences would take the steps of more digits for a slope.
    E("f", "round to digits", "round({f}, {?1|0|-1}) * {f}", 0.4),
    E("f", "round of a Python float", "round(float({f}), {?1|0})", 0.4),
    E("f", "round of halves", "round({i} + {?0.5|2.675|0.125|-7.55}, {?1|2|0})", 0.4),
    E("f", "round of an array", "np.round({a}, {?0|1})[{i}]", 0.2),
    E("i", "round to tens", "round({i} * {?5|25|-15}, -1) % 3", 0.3),
    E("f", "sinc", "np.sinc({?{f}|{f} * 1e-3|{z}|{f} * 0.05})", 0.4),
    E("f", "small arguments", "np.{?expm1|log1p|sin|tanh|arctan|arcsinh}({f} * {?1e-3|1e-9}) * {?1e3|1e9}", 0.4),
    E("f", "more of math", "math.{?erf|sinh|cosh|cbrt|degrees|radians|expm1|erfc}({f} * 0.5)", 0.5),
    E("f", "whole part", "(math.{?floor|ceil|trunc}({f}) * {f})", 0.4),
    E("f", "more of two arguments", "np.{?logaddexp|hypot|arctan2|copysign|fmax|fmin|heaviside}({f}, {f})", 0.4),
    S("difference of equal products", EQUAL_PRODUCTS, 0.7),
    # --- comparisons of tuples and lists
    E("c", "number and tuple", "{?float({f})|int({i})} {?==|!=} ({?float({f})|int({i})}, {i})", 0.4),
    E("c", "tuple of numbers and tuples", "(int({i}), float({f})) {?==|!=} (int({i}), {?({i}, 2.0)|float({f})})", 0.4),
    E("c", "in a list of tuples", "int({i}) {?in|not in} [({i}, 1), {?int({i})|({i},)}]", 0.4),
    E("c", "order of tuples", "({i}, {f}) {?<|<=|>} ({i}, {f})", 0.5),
    E("c", "equal lists", "[int({i}), {int}] {?==|!=} [{int}, int({i})]", 0.4),
    E("f", "max of tuples", "max(({i}, {f}), ({i}, {f}))[1]", 0.3),
    # --- nested conditions
    E("c", "condition variable", "{var c}", 3),
    S("new condition", "{new c} = {c}", 1.5),
    S("condition of conditions", "{.w=new c} = {c}\n{.w} = ({.w} and {c}) or ({.w} and {c})\n"
                                 "{.w} = ({.w} {?and|or} {c}) {?and|or} (not {.w} {?and|or} {c})"),
    S("condition carried", "{.w=new c} = {c}\nfor {new i} in range({?2|3|{i}}):\n    {block}\n"
                           "    {.w} = {?{.w} and {c}|{.w} or {c}|not {.w}|{c} if {.w} else {c}}"),
    S("asserted in a loop", "{.w=new c} = True\nfor {new f} in {a}:\n    assert {.w}{?|, 'not so'}\n    {block}\n"
                            "    {.w} = {?{f} < {?1.0|1e3}|{c}}", 0.4),
    # --- long chains, which take long to compile if parts are visited twice
    S("chain of integers", "{.w=new i} = {i}\nfor {.k} in unroll(range({?24|40})):\n"
                           "    {.w} = {?({.w} + {.w}) % 1009|{.k} - {.w}|{.w} ^ ({.w} >> 1)|({.w} * 3 + 1) % 1009}",
      0.25),
    S("chain of conditions", "{.w=new c} = {c}\nfor {.k} in unroll(range({?12|24})):\n"
                             "    {.w} = ({.w} and {var f} > {.k}) or ({.w} and {var f} < {.k} * {num})", 0.15),
    S("chain of floats", "{.w=new f} = {f}\nfor {.k} in unroll(range({?16|30})):\n"
                         "    {.w} = {?{.w} * 0.5 + {.w} * {var f}|{.w} - {.w} * {.w} * 0.1|max({.w}, {.k}) - {.w}}",
      0.2),
]
