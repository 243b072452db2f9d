"""Constructs: tuples, lists, dicts, NamedTuples, dataclasses, optional values, unions, trees."""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, D, E, Kind, M, S

KINDS = [
    Kind("t", "tuple of a float and an array", "({v}[0] * {v}[1].sum())", "({num}, np.array([{num}, {num}, {num}]))"),
    Kind("l", "list of two floats", "({v}[0] * {v}[1])", "[{num}, {num}]", True),
    Kind("d", "dict of a float and an array", "({v}['s'] + {v}['w'].sum())",
         "{{'s': {num}, 'w': np.array([{num}, {num}, {num}])}}", True),
    Kind("P", "NamedTuple", "({v}.s * {v}.w.sum())", "{@Point}({num}, np.array([{num}, {num}, {num}]))"),
    Kind("D", "dataclass", "({v}.s + {v}.w.sum())", "{@Body}({num}, np.array([{num}, {num}, {num}]))", True),
    Kind("U", "union of two dataclasses", "{@area}({v})"),
    Kind("O", "optional float", "(0.5 if {v} is None else {v})"),
    Kind("s", "string", "(0.5 if {v} == 'sin' else 0.25)"),
    Kind("T", "optional tree", "{@total}({v})", "{tree}"),
    Kind("L", "linked list", "{@chain_sum}({v})", "{chain}"),
]

CONSTRUCTS: list[Construct] = [
    # --- tuples
    E("t", "tuple", "({f}, {a})"),
    E("t", "tuple of constants", "({num}, np.ones(3))", 0.2),
    E("t", "tuple variable", "{var t}", 2),
    E("f", "element of a tuple", "{t}[0]"),
    E("a", "array of a tuple", "{t}[1]", 0.5),
    E("f", "tuple chosen by a condition", "(({f}, {f}) if {c} else ({f}, {f}))[{?0|1}]"),
    E("f", "tuple at a run-time index", "({f}, {f}, {f})[{i}]", 0.7),
    S("new tuple", "{new t} = {t}"),
    S("unpacked tuple", "{new f}, {let a} = {t}"),
    S("starred unpacking", "{new f}, *{new l} = {f}, {f}, {f}", 0.5),
    S("tuple reassigned in a branch", "{.w=new t} = {t}\nif {c}:\n    {.w} = {t}", 0.5),
    # --- lists
    E("l", "list", "[{f}, {f}]"),
    E("l", "list of constants", "[{num}, {num}]", 0.2),
    E("l", "list variable", "{var l}", 3),
    E("l", "comprehension", "[{f .z:f} for {.z} in {l}]"),
    E("l", "copied list", "list({var l})", 0.5),
    E("l", "list sum", "([{f}] + [{f}])", 0.3),
    E("f", "element of a list", "{l}[{?0|1|-1}]"),
    E("f", "list at a run-time index", "{l}[{i} % 2]", 0.7),
    E("f", "sum of a list variable", "sum({l})"),
    E("f", "len of a list", "len({l}) * {f}", 0.3),
    S("new list", "{new l} = {?[{f}, {f}]|list({l})|[{f .z:f} for {.z} in {l}]}", 1.5),
    S("alias of a list", "{new l} = {mut l}", 0.7, where="top"),
    S("store to a list", "{mut l}[{?0|1|-1}] {?=|+=|*=} {f}", 3),
    S("for over a list", "for {new f} in {l}:\n    {block}"),
    S("append and pop", "{.w=new l} = []\n{.w}.append({f})\n{.w}.append({f})\n{.w}.append({f})\n"
                        "{set f} = {.w}.pop()", 0.5),
    S("list of functions", "for {new F} in [{F}, {F}]:\n    {block}", 0.5),
    # --- dicts
    E("d", "dict of constants", "{{'s': {num}, 'w': np.ones(3)}}", 0.2),
    E("d", "dict", "{{'s': {f}, 'w': {a}}}"),
    E("f", "value of a dict", "{var d}['s']", 1.5),
    E("f", "array of a dict", "{var d}['w'][{i}]"),
    E("f", "get", "{var d}.get('{?s|none}', {f})", 0.5),
    E("f", "dict comprehension", "{{{.w}: {f .z:f} for {.w}, {.z} in (('s', {f}), ('w', {f}))}}['{?s|w}']", 0.3),
    S("new dict", "{new d} = {d}"),
    E("f", "array of a new dict", "{d}['w'].sum()", 0.5),
    S("store to a dict", "{mut d}['s'] {?=|+=|*=} {f}", 2),
    S("store to a dict's array", "{mut d}['w'] = {a}", 0.5),
    S("store at a run-time index", "{mut l}[{i} % 2] {?=|+=} {f}", 0.7),
    S("for over a dict", "for {.k}, {.z} in {{'p': {f}, 'q': {f}}}.items():\n    {old f} += {f .z:f}", 0.7),
    # --- NamedTuples
    D("Point", "", """
class {name}(NamedTuple):
    s: float
    w: np.ndarray

    def norm(self):
        return math.sqrt(1.0 + self.s ** 2) + self.w[0]
"""),
    E("P", "NamedTuple", "{@Point}({f}, {a})"),
    E("P", "NamedTuple of constants", "{@Point}({num}, np.ones(3))", 0.2),
    E("P", "NamedTuple variable", "{var P}", 2),
    E("P", "_replace", "({P})._replace(s={f})", 0.5),
    E("f", "field of a NamedTuple", "{P}.s"),
    E("f", "array field of a NamedTuple", "{var P}.w[{i}]"),
    E("f", "method of a NamedTuple", "{P}.norm()"),
    S("new NamedTuple", "{new P} = {P}"),
    S("unpacked NamedTuple", "{new f}, {let a} = {P}"),
    # --- dataclasses
    D("Body", "", """
@dataclass
class {name}:
    s: float
    w: np.ndarray

    def energy(self, z=0.5):
        return self.s * z + {?self.w.sum()|self.w @ self.w|self.w[1] * self.s}

    def step(self, z):
        self.s = {?self.s * 0.5 + z|math.tanh(self.s + z)|self.s - 0.1 * z * self.w[0]}
        return self.s

    @property
    def size(self):
        return abs(self.s) + 1.0
"""),
    E("D", "dataclass", "{@Body}({f}, {a})"),
    E("D", "dataclass variable", "{var D}", 3),
    E("D", "dataclass of constants", "{@Body}({num}, np.ones(3))", 0.2),
    E("D", "replace", "dataclasses.replace({D}, s={f})", 0.3),
    E("f", "field of a dataclass", "{var D}.s", 1.5),
    E("f", "array field of a dataclass", "{var D}.w[{i}]"),
    E("f", "method", "{var D}.energy({?|z=0.25|1.5})", 1.5),
    E("f", "property", "{var D}.size", 0.5),
    E("f", "method of an expression", "{D}.energy({f})"),
    S("new dataclass", "{new D} = {@Body}({f}, {a})", 2),
    S("store to a field", "{mut D}.s {?=|+=|*=} {f}", 2),
    S("array field assigned", "{mut D}.w = {a}", 0.5),
    S("method that stores", "{set f} = {mut D}.step({f})", 1.5),
    S("alias of a dataclass", "{new D} = {mut D}", 0.5, where="top"),
    E("F", "bound method", "{var D}.energy", 0.5),
    D("Vec", "", """
@dataclass
class {name}:
    x: float
    y: float

    def __add__(self, other):
        return {name}(self.x + other.x, self.y + other.y)

    def __mul__(self, z):
        return {name}(self.x * z, self.y * z)

    def __neg__(self):
        return {name}(-self.y, -self.x)

    @staticmethod
    def unit(z):
        return {name}(math.cos(z), math.sin(z))
"""),
    E("f", "operators of a class",
      "({?{@Vec}({f}, {f})|-{@Vec}({f}, {f})|{@Vec}.unit({f})} + {@Vec}({f}, {f}) * ({f})).{?x|y}"),
    # --- optional values
    E("O", "optional", "({f} if {c} else None)", needs="unions"),
    E("O", "None", "None", 0.3, needs="unions"),
    E("O", "optional variable", "{var O}", 2, needs="unions"),
    S("new optional", "{new O} = {O}", needs="unions"),
    S("test for None", "if {.w=var O} is {?None|not None}:\n    {block}\n{set f} = 0.5 if {.w} is None else {.w}", 1.5,
      needs="unions"),
    S("optional assigned in a branch", "{.w=new O} = None\nif {c}:\n    {.w} = {f}", needs="unions"),
    # --- unions
    D("Disc", "", """
@dataclass
class {name}:
    r: float

    def grow(self, z):
        return self.r * z + 0.5
"""),
    D("Box", "", """
@dataclass
class {name}:
    w: float
    h: float

    def grow(self, z):
        return self.w * self.h - z
"""),
    D("area", "", """
def {name}(shape):
    if isinstance(shape, {@Disc}):
        return {?shape.r ** 2 * 3.0|math.sin(shape.r)}
    return shape.w * shape.h
"""),
    D("matched", "z:f", """
def {name}(shape, z):
    match shape:
        case {@Disc}(r):
            return {f} * r
        case {@Box}(w=w, h=h) if w > {num}:
            return w * h + {f}
        case _:
            return {f}
"""),
    E("f", "isinstance of a known type", "{@area}({?{@Disc}({f})|{@Box}({f}, {f})})"),
    E("f", "match of a known type", "{@matched}({?{@Disc}({f})|{@Box}({f}, {f})}, {f})", needs="match"),
    E("U", "one of two dataclasses", "({@Disc}({f}) if {c} else {@Box}({f}, {f}))", 2, needs="unions"),
    E("U", "dataclass as a union", "{?{@Disc}({f})|{@Box}({f}, {f})}", 0.5, needs="unions"),
    E("U", "dataclass of constants as a union", "{?{@Disc}({num})|{@Box}({num}, 0.5)}", 0.2, needs="unions"),
    E("U", "union variable", "{var U}", 2, needs="unions"),
    E("f", "isinstance", "{@area}({U})", 2, needs="unions"),
    E("f", "match", "{@matched}({U}, {f})", 2, needs="unions"),
    E("f", "method of a union", "{U}.grow({f})", needs="unions"),
    S("new union", "{new U} = {U}", 1.5, needs="unions"),
    S("union in a branch", "{.w=new U} = {U}\nif {c}:\n    {.w} = {U}", needs="unions"),
    S("union through a loop", "{.w=new U} = {U}\nfor {new i} in range({i}):\n"
                              "    {.w} = {@Disc}({@area}({.w}) * 0.5) if {c} else {.w}", needs="unions"),
    S("isinstance of a union", "{.w=new U} = {U}\nif isinstance({.w}, {@Disc}):\n    {old f} = {.w}.r * {f}\n"
                               "    {block}", needs="unions"),
    S("string chosen at run time", "{.w=new s} = {s} if {c} else {s}\nif {.w} == 'sin':\n    {block}\n"
                                   "{old f} += {f} if {.w} != 'cos' else {f}", 0.7, needs="unions"),
    E("s", "string", "'{?sin|cos}'"),
    E("s", "string variable", "{var s}", 2),
    E("f", "comparison of strings", "({f} if {s} {?==|!=} {s} else {f})", 0.5),
    D("Ball", "", """
@dataclass
class {name}({@Disc}):
    mass: float = 0.5

    def grow(self, z):
        return super().grow(z) * self.mass
"""),
    E("U", "subclass in a union", "({@Ball}({f}, {f}) if {c} else {@Box}({f}, {f}))", 0.7, needs="unions"),
    E("f", "super", "{@Ball}({f}, {f}).grow({f})", 0.5),
    S("for over unions", "for {new U} in ({U}, {U}):\n    {block}", 0.5, needs="unions"),
    # --- trees
    D("Tree", "", """
@dataclass
class {name}:
    value: float
    left: "{name} | None" = None
    right: "{name} | None" = None
"""),
    D("total", "z:f", """
def {name}(tree):
    if tree is None:
        return {?0.0|0.25}
    z = tree.value
    return {f} + {name}(tree.left) * {?0.5|0.75} + {name}(tree.right)
"""),
    D("grown", "z:f k:i", """
def {name}(k, z):
    if k <= 0:
        return None
    return {@Tree}({f}, {name}(k - 1, math.sin(z)), {name}(k - {?1|2}, z * 0.5))
"""),
    D("mapped", "z:f", """
def {name}(tree):
    if tree is None:
        return None
    z = tree.value
    return {@Tree}({f}, {name}(tree.left), {name}(tree.right))
"""),
    E("f", "fold of a tree", "{@total}({T})", 2, needs="trees"),
    E("T", "tree variable", "{var T}", 3, needs="trees"),
    E("T", "empty tree", "None", 0.2, needs="trees"),
    E("T", "grown tree", "{@grown}({i}, {f})", needs="trees"),
    E("T", "mapped tree", "{@mapped}({T})", needs="trees"),
    E("T", "tree literal", "{@Tree}({f}, {@Tree}({f}), None)", 0.7, needs="trees"),
    E("T", "node above trees", "{@Tree}({f}, {T}, {T})", 0.5, needs="trees"),
    S("new tree", "{new T} = {T}", 1.5, needs="trees"),
    S("walk down a tree", "{.w=let T} = {T}\nwhile {.w} is not None:\n    {old f} += {.w}.value * {f}\n"
                          "    {.w} = {.w}.left if {c} else {.w}.right", 1.5, needs="trees"),
    # --- linked lists
    D("Chain", "", """
@dataclass
class {name}:
    head: float
    tail: "{name} | None"
"""),
    D("chain_sum", "z:f s:f", """
def {name}(chain):
    s = 0.0
    while chain is not None:
        z = chain.head
        s = s * 0.9 + {f}
        chain = chain.tail
    return s
"""),
    E("f", "fold of a linked list", "{@chain_sum}({L})", 1.5, needs="trees"),
    E("L", "linked list variable", "{var L}", 3, needs="trees"),
    E("L", "empty list", "None", 0.2, needs="trees"),
    E("L", "cons", "{@Chain}({f}, {L})", needs="trees"),
    E("L", "singleton", "{@Chain}({f}, None)", needs="trees"),
    S("linked list built in a loop", "{.w=new L} = None\nfor {.z} in {a}:\n    {.w} = {@Chain}({f .z:f}, {.w})", 1.5,
      needs="trees"),
    # --- main
    M("main of data", "x:f n:i q:?PDtdl", "def main(x, n, q):\n    {block}\n    return {result}", 2),
    M("main of a tree", "x:f n:i q:?TL", "def main(x, n, q):\n    {block}\n    return {result}", 1, needs="trees"),
]
