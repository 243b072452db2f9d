"""Constructs: objects whose fields change, functions that change captured objects, dataclasses with any fields.

Derivatives of functions that change captured objects apply these changes once (``plain.py`` restores the objects
between the evaluations for differences).
"""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, D, E, Kind, M, S

KINDS = [
    Kind("C", "object with methods", "{v}.loss(0.5)", mutable=True),
    Kind("H", "dataclass of a list and a dict beside constants", "({v}.x[0] * {v}.k + {v}.x[1]['a'][0])",
         "{@Held}([{num}, {{'a': ({num}, {int})}}], {int})", True),
    Kind("W", "dataclass of an array or a float beside constants", "np.sum({v}.x) * {v}.k", mutable=True),
    Kind("M", "dataclass of a tree", "({@total}({v}.tree) * {v}.scale)", "{@Forest}({tree}, {num})", True),
    Kind("N", "dataclass with a string", "({v}.s * {v}.count if {v}.name == 'sin' else {v}.s)",
         "{@Named}('{?sin|cos}', {num}, {int})", True),
]

# Each runs the function once, as far as one can tell.
WAYS = ("grad({g})({f} + 0.0137)|value_and_grad({g})({f} + 0.0137)[{?0|1}]|jvp({g}, ({f} + 0.0137,), ({f},))[{?0|1}]"
        "|vjp({g}, {f} + 0.0137)[1]({f})[0]|linearize({g}, {f} + 0.0137)[1]({f})|jacrev({g})({f} + 0.0137)"
        "|jacfwd({g})({f} + 0.0137)|hessian({g})({f} + 0.0137)|hvp({g}, ({f} + 0.0137,), ({f},))"
        "|vjp({g}, {f} + 0.0137)[0]|linearize({g}, {f} + 0.0137)[0]")


def ways(function: str) -> str:
    """One of the derivatives of ``function``."""
    return "{?" + WAYS.replace("{g}", function) + "}"


CHANGES = """
{.l} = [{f}, 0.0]
{.u} = {a} * 1.0
def {.g}({.z}):
    {.l}[{?0|1}] {?=|+=|*=} {.z} {?* {.z}|+ 0.5}
    {.u}[{i}] {?=|+=|*=} {.z} {?* {.l}[0]|+ 0.5}
    return {?{.l}[0] * {.z} + {.l}[1]|{.u}[{i}] * {.z}|math.sin({.z}) * {.l}[0] * {.u}[{i}]}
{set f} = WAY
{set f} = {?WAY|{.g}({f})|{f}} + {.l}[0] * 0.5 + {.l}[1] + {.u} @ np.array([0.5, 0.75, 1.25])
""".replace("WAY", ways("{.g}"))
KEPT = """
{.l} = [{f}]
def {.g}({.z}):
    {.l}[0] {?=|+=|*=} {.z} * {?{.z}|{.l}[0]}
    return {.l}[0] * {.z}
{.w}, {.p} = {?vjp|linearize}({.g}, {f} + 0.0137)
{.w} += {?{.g}({f})|{f}}
{set f} = np.sum({.p}({f})) + {?np.sum({.p}({f}))|{.w}} + {.l}[0] * 0.5
"""

CONSTRUCTS: list[Construct] = [
    # --- objects with methods
    D("Model", "", """
class {name}:
    def __init__(self, a):
        self.a, self.inner = a, {{'b': [1.0, a]}}
        self.w = np.array([a, 0.5, 0.25])

    def loss(self, z):
        return self.a * z * z + {?self.inner['b'][1] * z|math.sin(z) * self.w[1]|self.w.sum()}

    def bump(self, z):
        {?self.a = self.a * 0.5 + z|self.inner['b'][1] += z|self.w[1] = z * self.a|self.w += z|self.a += z * z}
        return self.a * z + {?self.w[1]|self.inner['b'][1] * z}

    def __call__(self, z):
        return self.a * math.sin(z) + self.inner['b'][0]
"""),
    E("C", "object", "{@Model}({f})"),
    E("C", "object of constants", "{@Model}({num})", 0.2),
    E("C", "object variable", "{var C}", 3),
    E("f", "method of an object", "{var C}.loss({f})"),
    E("f", "call of an object", "{var C}({f})"),
    E("f", "derivative of a method", ways("{var C}.loss")),
    E("f", "derivative of an object", ways("{var C}"), 0.5),
    E("F", "method as a value", "{var C}.{?loss|__call__}", 0.5),
    S("new object", "{new C} = {@Model}({f})", 1.5),
    S("field of an object", "{mut C}.a {?=|+=|*=} {f}", 1.5),
    S("part of a field", "{mut C}.{?inner['b'][{?0|1}]|w[{i}]} {?=|+=|*=} {f}"),
    S("method that changes its object", "{set f} = {mut C}.bump({f})", 1.5),
    S("derivative of what changes its object", "{set f} = " + ways("{mut C}.bump"), 1.5),
    S("object in a loop", "{.w=new C} = {@Model}({f})\nfor {new i} in range({?2|3|{i}}):\n"
                          "    {old f} = {.w}.{?bump|loss}({f})\n    {block}\n    {.w}.a = {f}", 0.7),
    # --- functions that change captured objects
    S("what a derived function changes", CHANGES, 1.5),
    S("what changes before a pullback is called", KEPT, needs="pullbacks"),
    S("derivative of a function that stores", "{set f} = " + ways("{var X}"), 2),
    S("pullback of a function that stores", "{new f}, {new B} = vjp({var X}, {f} + 0.0137)", needs="pullbacks"),
    S("linear function of one that stores", "{new f}, {new F} = linearize({var X}, {f} + 0.0137)", needs="pullbacks"),
    S("checkpoint of a function that stores", "{set f} = checkpoint({var X})({f})", needs="checkpoint"),
    S("function that changes a list", "{.l=new l} = [{f}, {f}]\ndef {new X}({.z}):\n"
                                      "    {.l}[{?0|1}] {?=|+=|*=} {f .z:f}\n    return {.l}[0] * {.z} + {.l}[1]", 1.5),
    S("function that changes an array", "{.u=new a} = {a} * 1.0\ndef {new X}({.z}):\n"
                                        "    {.u}[{i}] {?=|+=|*=} {.z} {?* {.z}|+ 0.5}\n"
                                        "    return {?{.u}.sum()|{.u}[{i}] * {.z}}", 1.5),
    S("function that counts", "{.k=new i} = 0\ndef {new X}({.z}):\n    nonlocal {.k}\n    {.k} += 1\n"
                              "    return {.z} * {.k} + {f .z:f}"),
    S("function that changes a field", "{.w=new C} = {@Model}({f})\ndef {new X}({.z}):\n    {.w}.a {?=|+=|*=} {.z}\n"
                                       "    return {.w}.loss({.z})"),
    S("function that changes a dict", "{.w=new d} = {{'s': {f}, 'w': {a} * 1.0}}\ndef {new X}({.z}):\n"
                                      "    {.w}['{?s|s|w}'] *= {.z}\n"
                                      "    return {.z} * {.w}['w'][{i}]", 0.5),
    # --- dataclasses with any fields
    D("Held", "", "@dataclass\nclass {name}:\n    x: Any\n    k: int"),
    E("H", "held list", "{@Held}([{f}, {{'a': ({f}, {i})}}], {?{int}|{i}})"),
    E("H", "held constants", "{@Held}([{num}, {{'a': ({num}, 1)}}], {int})", 0.2),
    E("H", "held variable", "{var H}", 2),
    E("f", "part of what is held", "{var H}.x[{?0|1]['a'][0}]"),
    S("new held list", "{new H} = {H}"),
    S("store to what is held", "{mut H}.x[0] {?=|+=} {f}", 0.7),
    S("derivative by what is held", "{.w} = grad(lambda {.h}: {f .h:H})({var H})\n"
                                    "{set f} = {.w}.x[0] + {.w}.x[1]['a'][0] * 0.5"),
    S("pullback of what is held", "{.w}, {.p} = vjp(lambda {.h}: {H .h:H}, {var H})\n"
                                  "{set f} = {.p}({.w})[0].x[{?0|1]['a'][0}]", 0.5),
    E("a", "vmap of what is held", "vmap(lambda {.z}: {@Held}([{f .z:f}], 3))({a}).x[0]", 0.5, needs="vmap"),
    S("array or float held", "{.w=new W} = {@Held}({a}, {int})\nif {c}:\n    {.w}.x = {f}", needs="unions"),
    E("W", "array or float variable", "{var W}", 3, needs="unions"),
    E("W", "constants held", "{@Held}({?np.ones(3)|{num}}, {int})", 0.2, needs="unions"),
    E("W", "array or float held", "{@Held}({?{a}|{f}}, {int})", 0.5, needs="unions"),
    E("f", "sum of what is held", "(np.sum({var W}.x) * {var W}.k)", needs="unions"),
    S("derivative by array or float", "{.w} = grad(lambda {.h}: np.sum({.h}.x * {f .h:W}) * {.h}.k)({var W})\n"
                                      "{set f} = np.sum({.w}.x)", needs="unions"),
    S("pullback of array or float", "{.w}, {.p} = vjp(lambda {.h}: {.h}, {var W})\n{set f} = np.sum({.p}({.w})[0].x)",
      0.5, needs="unions"),
    # --- trees in dataclasses
    D("Forest", "", "@dataclass\nclass {name}:\n    tree: Any\n    scale: float"),
    E("M", "dataclass of a tree", "{@Forest}({T}, {f})", needs="trees"),
    E("M", "dataclass of no tree", "{@Forest}(None, {num})", 0.2, needs="trees"),
    E("M", "dataclass of a tree variable", "{var M}", 3, needs="trees"),
    E("T", "tree of a dataclass", "{var M}.tree", needs="trees"),
    E("f", "scale of a tree", "{var M}.scale * {@total}({var M}.tree)", needs="trees"),
    S("new dataclass of a tree", "{new M} = {M}", needs="trees"),
    S("tree in a field assigned", "{mut M}.tree = {T}", 0.5, needs="trees"),
    S("derivative by a dataclass of a tree", "{.w} = grad(lambda {.h}: {f .h:M})({var M})\n"
                                             "{set f} = {.w}.scale + {@total}({.w}.tree)", needs="trees"),
    # --- strings in dataclasses
    D("Named", "", "@dataclass\nclass {name}:\n    name: str\n    s: float\n    count: int = 2"),
    E("N", "dataclass with a string", "{@Named}('{?sin|cos}', {f})"),
    E("N", "dataclass with a string of constants", "{@Named}('{?sin|cos}', {num})", 0.2),
    E("N", "dataclass with a string variable", "{var N}", 2),
    E("f", "field beside a string", "{var N}.s * {var N}.count"),
    E("c", "string of a dataclass", "{var N}.name == '{?sin|cos}'", 0.5),
    S("new dataclass with a string", "{new N} = {N}"),
    S("derivative beside a string", "{.w} = grad(lambda {.h}: {f .h:N})({var N})\n{set f} = {.w}.s", 0.5),
    # --- keyword arguments in their order
    D("ordered", "z:f", "def {name}(z, **rest):\n    s = z\n    for k, w in rest.items():\n"
                        "        s = s * 0.5 + w * {?z|{f}}\n    return s"),
    E("f", "keywords in order", "{@ordered}({f}, {?b={f}, a={f}|w={f}, a={f}, k={f}})", 0.5),
    # --- main
    M("main of anything", "x:f n:i q:?HN", "def main(x, n, q):\n    {block}\n    return {result}", 1),
    M("main of a tree in a dataclass", "x:f n:i q:M", "def main(x, n, q):\n    {block}\n    return {result}", 0.5,
      needs="trees"),
    M("main that gives what it has", "x:f n:i q:?HNMDPl", "def main(x, n, q):\n    {block}\n    return {parts}", 0.7),
]
