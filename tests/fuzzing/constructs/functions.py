"""Constructs: helpers, recursion, closures, functions as values."""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, D, E, Kind, S

KINDS = [
    Kind("F", "function of a float", "{v}(0.3)"),
    Kind("G", "function of an array and a float", "{v}(np.array([0.5, -0.25, 1.5]), 0.4)"),
    Kind("X", "function of a float that stores to arrays outside", "0.0"),
]

CONSTRUCTS: list[Construct] = [
    # --- definitions, and how they are called
    D("helper", "z:f w:f", "def {name}(z, w):\n    {block}\n    return {f}"),
    E("f", "call", "{@helper}({f}, {f})", 2),
    D("sharp", "z:f w:f", "def {name}(z, w):\n    if {c}:\n        return {f}\n    return {f}"),
    E("f", "call of a function with two returns", "{@sharp}({f}, {f})"),
    D("kernel", "u:a z:f k:i", "def {name}(u, z, k):\n    w = u * z\n    {block}\n    return {f}"),
    E("f", "call with an array", "{@kernel}({a}, {f}, {i})"),
    D("storer", "u:a* z:f", "def {name}(u, z):\n    u[{?0|1|-1}] {?=|+=} {f}\n    {block}\n    return {f}"),
    S("call that stores", "{set f} = {@storer}({mut a}, {f})", 2),
    S("call for its stores", "{@storer}({mut a}, {f})"),
    D("giver", "u:a z:f", "def {name}(u, z):\n    {block}\n    return {result}"),
    S("call that returns a tuple", "{new a}, {new f} = {@giver}({a}, {f})"),
    D("passer", "u:a* z:f", "def {name}(u, z):\n    u[{i}] *= {f}\n    return u"),
    S("call that returns its argument", "{new a} = {@passer}({mut a}, {f})", 0.5, where="top"),
    D("defaults", "z:f w:f s:f", "def {name}(z, w=0.5, *, s=2.0):\n    return {f}"),
    E("f", "default arguments", "{@defaults}({f}{?|, 0.75|, w=1.25|, s=0.5})"),
    E("f", "keyword arguments", "{@defaults}({f}, s={f}, w={f})"),
    D("optional", "z:f", "def {name}(z, u=None):\n    if u is None:\n        return {f}\n    return z * u.sum()"),
    E("f", "optional argument", "{@optional}({f})"),
    E("f", "optional argument given", "{@optional}({f}, {a})"),
    D("starred", "z:f", "def {name}(z, *rest):\n    s = {f}\n    for w in rest:\n        s = s * 0.5 + w * z\n"
                        "    return s"),
    E("f", "*args", "{@starred}({f}, {f}, {f})"),
    E("f", "*args of an array's parts", "{@starred}(*({f}, {f}))", 0.5),
    D("keywords", "z:f", "def {name}(z, **rest):\n    return rest['w'] * z + {f}"),
    E("f", "**kwargs", "{@keywords}({f}, w={f}, v={f})", 0.5),
    # --- recursion
    D("countdown", "k:i z:f u:a", """
def {name}(k, z, u):
    if k <= 0:
        return {f}
    if {c}:
        return z + u[k % 3]
    return {name}(k - 1, {?math.sin(z) + u[k % 3], u|z * u[1], u * 0.5|z, np.sin(u)}) * 0.7 + {f}
"""),
    E("f", "recursion", "{@countdown}({i}, {f}, {a})", 2),
    D("branching", "k:i z:f", """
def {name}(k, z):
    if k <= 0:
        return {f}
    return {name}(k - 1, math.sin(z)) + {name}(k - 2, z * 0.5) * {f}
"""),
    E("f", "branching recursion", "{@branching}({i} + 1, {f})"),
    D("mutual", "k:i z:f", """
def {name}(k, z):
    return {f} if k <= 0 else {name}_other(k - 1, math.sin(z))


def {name}_other(k, z):
    return z * 0.5 if k <= 0 else {name}(k - 2, z * z + 0.25) * 0.9 + z
"""),
    E("f", "mutual recursion", "{@mutual}({i} + {?0|2}, {f})"),
    D("folder", "k:i u:a*", """
def {name}(k, u):
    if k > 0:
        u[k % 3] += u[(k + 1) % 3] * 0.5
        {name}(k - 1, u)
    return u[0]
"""),
    S("recursion that stores", "{set f} = {@folder}({i}, {mut a})", 0.5),
    D("with_function", "z:f g:F k:i", """
def {name}(g, z, k):
    if k <= 0:
        return g(z)
    return {name}(g, math.sin(z), k - 1) + {f}
"""),
    E("f", "recursion with a function", "{@with_function}({F}, {f}, {i})"),
    # --- functions as values
    D("applied", "g:F z:f", "def {name}(g, z):\n    return g(g(z) * 0.5) + {f}"),
    E("f", "function as an argument", "{@applied}({F}, {f})"),
    D("maker", "z:f", "def {name}(z):\n    def inner(w):\n        return w * z + {f}\n    return inner"),
    E("F", "function as a result", "{@maker}({f})"),
    E("F", "lambda", "(lambda {.z}: {f .z:f})", 2),
    E("F", "lambda with a default", "(lambda {.z}, {.w}=0.5: {f .z:f .w:f})", 0.5),
    E("F", "library function", "{?math.sin|math.tanh|np.cos|abs|float}"),
    E("F", "function variable", "{var F}", 2),
    E("F", "composition", "(lambda {.z}: {F}({F}({.z})))", 0.5),
    E("F", "function chosen at run time", "({F} if {c} else {F})", 2, needs="run-time functions"),
    E("F", "functools.partial", "functools.partial(lambda {.w}, {.z}: {f .z:f .w:f}, {f})", 0.7),
    E("F", "partial", "(lambda {.w}: lambda {.z}: {f .z:f .w:f})({f})", 0.5),
    E("f", "call of a function value", "{F}({f})", 2),
    E("G", "simple lambda of an array", "(lambda {.u}, {.z}: {.u}[0] * {.z})", 0.3),
    E("G", "lambda of an array", "(lambda {.u}, {.z}: {f .u:a .z:f})"),
    E("f", "call of a function of an array", "{G}({a}, {f})"),
    S("local function", "def {new F}({.z}):\n    {body f .z:f}", 2),
    S("local function of an array", "def {new G}({.u}, {.z}):\n    {body f .u:a .z:f}"),
    S("function variable assigned", "{new F} = {F}"),
    S("function reassigned in a branch", "{.g=new F} = {F}\nif {c}:\n    {.g} = {F}", 1, needs="run-time functions"),
    S("function carried through a loop", "{.g=new F} = {F}\nfor {new i} in range({i}):\n"
                                         "    {.g} = {F} if {c} else {.g}\n    {block}", 1, needs="run-time functions"),
    S("functions in a tuple", "{.g=new F}, {.h=new F} = {F}, {F}", 0.5),
    S("function that stores outside", "def {new X}({.z}):\n    {effect f .z:f}"),
    S("function with nonlocal", "def {new X}({.z}):\n    nonlocal {.w=old f}\n    {.w} = {.w} * 0.5 + {.z}\n"
                                "    return {f .z:f}"),
    S("call of a function that stores", "{set f} = {var X}({f})", 3),
    S("recursive local function", "def {.g=new F}({.z}, {.k}=2):\n    if {.k} <= 0:\n        return {f .z:f}\n"
                                  "    return {.g}(math.sin({.z}), {.k} - 1) * 0.5 + {f .z:f}", 0.5),
]
