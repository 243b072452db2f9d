"""Constructs: lists of numbers and of arrays that loops and conditions make longer and shorter, deques."""

from __future__ import annotations

from tests.fuzzing.constructs.grammar import Construct, E, Kind, S

KINDS = [
    Kind("g", "list of floats of run-time length", "(sum({v}) + 0.1 * len({v}))", "", True),
    Kind("r", "list of arrays of run-time length", "(sum(x[0] * x[2] for x in {v}) + 0.1 * len({v}))", "", True),
    Kind("y", "list of lists of run-time length", "(sum(sum(x) * x[2] for x in {v}) + 0.1 * len({v}))", "", True),
]

CONSTRUCTS: list[Construct] = [
    # --- floats
    E("g", "growing list variable", "{var g}", 3),
    E("g", "filtered comprehension", "[{f .z:f} for {.z} in {a} if {.z} > {num}]"),
    E("g", "comprehension over a range", "[{f .z:i} for {.z} in range({i} % 4)]"),
    E("g", "comprehension with a condition on a list", "[{f .z:f} for {.z} in {l} if {.z} < {f}]", 0.5),
    E("g", "comprehension over a list and an array", "[{.z} * {.y} for {.z}, {.y} in zip({l}, {a})]", 0.5),
    E("g", "comprehension over two ranges", "[{f .z:i .y:i} for {.z} in range({i} % 3) for {.y} in range({.z} + 1)]",
      0.5),
    E("g", "slice of a growing list", "({var g})[{?1:|:-1|::2|::-1|:{i} % 3}]", 0.7),
    E("g", "sum of growing lists", "({var g} + {?{g}|[{f}]})", 0.7),
    E("g", "sorted growing list", "sorted({var g}{?|, key=lambda {.z}: -{.z}|, reverse=True})", 0.5),
    E("f", "sum of a growing list", "sum({var g})", 1.5),
    E("f", "last of a growing list", "({var g} or [{f}])[-1]"),
    E("f", "len of a growing list", "len({var g}) * {f}"),
    E("f", "walked growing list", "sum({f .z:f} for {.z} in {var g})"),
    E("f", "two growing lists side by side", "sum({.z} * {.y} for {.z}, {.y} in zip({var g}, {g}))", 0.5),
    E("f", "array of a growing list", "(np.array({var g}) * {f}).sum()", 0.5),
    S("list filled in a loop", "{.w=new g} = []\nfor {.i} in range({i} % 4 + 1):\n    {.w}.append({f .i:i})", 2),
    S("list filled in some iterations", "{.w=new g} = [{f}]\nfor {.i} in range({i} % 4 + 1):\n    if {c}:\n"
      "        {.w}.append({f .i:i})", 2),
    S("list made longer by its last element", "{.w=new g} = [{f}]\nwhile abs({.w}[-1]) < 4.0 and len({.w}) < 5:\n"
      "    {.w}.append({.w}[-1] * 1.5 + {num})"),
    S("list changed on one path", "{.w=new g} = [{f}, {f}]\nif {c}:\n    {.w}.{?append({f})|pop()|pop(0)|clear()}"),
    S("append to a growing list", "{mut g}.append({f})", 2),
    S("insert into a growing list", "{mut g}.insert({?0|1|-1|{i} % 3}, {f})"),
    S("pop from a growing list", "{.w=mut g}\nif {.w}:\n    {set f} = {.w}.pop({?|0|-1})"),
    S("slice of a growing list replaced", "{mut g}[{?:1|1:|1:2|{i} % 3:}] = {?[{f}]|[{f}, {f}]|[]}"),
    S("slice of a growing list deleted", "del {mut g}[{?:1|1:|1:2|:{i} % 3}]"),
    S("element of a growing list replaced", "{.w=mut g}\nfor {.i} in range(len({.w})):\n"
      "    {.w}[{.i}] {?=|+=|*=} {f .i:i}"),
    S("growing list sorted", "{mut g}.{?sort()|sort(key=abs)|reverse()}", 0.7),
    S("for over a growing list", "for {new f} in list({var g}):\n    {block}"),
    S("stack", "{.w=new g} = [{f}]\n{old f} += 1.0\nwhile {.w}:\n    {.x} = {.w}.pop()\n"
      "    if abs({.x}) > 1.0 and len({.w}) < 4:\n"
      "        {.w}.append({.x} * 0.45)\n        {.w}.append({.x} * 0.3)\n    {old f} += {.x} * {num}\n", 0.7),
    # --- arrays
    E("r", "list of arrays variable", "{var r}", 3),
    E("r", "comprehension of arrays", "[{a} * {.z} for {.z} in {a}]"),
    E("r", "slice of a list of arrays", "({var r})[{?1:|:-1|::-1}]", 0.5),
    E("r", "sum of lists of arrays", "({var r} + [{a} * 0.5])", 0.5),
    E("f", "walked list of arrays", "sum({.z}[{i}] * {f} for {.z} in {var r})", 1.5),
    E("a", "sum of a list of arrays", "np.array({var r} + [np.ones(3)]).sum(axis=0)", 0.7),
    E("a", "last of a list of arrays", "({var r} + [np.ones(3)])[-1] * {f}"),
    S("arrays filled in a loop", "{.w=new r} = []\nfor {.i} in range({i} % 4 + 1):\n"
      "    {.w}.append({a} * {f .i:i})", 2),
    S("arrays changed on one path", "{.w=new r} = [{a} + 0.0]\nif {c}:\n    {.w}.{?append({a} * 2.0)|pop()|clear()}"),
    S("append to a list of arrays", "{mut r}.append({a} * {f})", 2),
    S("pop from a list of arrays", "{.w=mut r}\nif {.w}:\n    {set f} = {.w}.pop({?|0})[{i}]"),
    S("array of a list replaced", "{.w=mut r}\nif {.w}:\n    {.w}[{?0|-1}] = {a} * {f}"),
    # --- lists of lists
    E("y", "table variable", "{var y}", 3),
    E("y", "table of one number", "[[{num}] * len({a}) for _ in range({i} % 3 + 1)]"),
    E("y", "table of two comprehensions", "[[{f .z:i .y:i} for {.y} in range(3)] for {.z} in range({i} % 3 + 1)]"),
    E("y", "copy of a table", "[{.z}[:] for {.z} in {var y}]", 0.5),
    E("f", "sum of a row", "sum({var y}[{?0|-1}])"),
    E("f", "element of a table", "{var y}[-1][{i} % 3]", 1.5),
    E("f", "walked table", "sum({.z}[{i} % 3] * {f} for {.z} in {var y})"),
    S("table filled in a nest", "{.w=new y} = [[{?0.0|0}] * len({a}) for _ in range({i} % 3 + 1)]\n"
      "for {.i} in range(len({.w})):\n    for {.k} in range(3):\n        {.w}[{.i}][{.k}] {?=|+=} {f .i:i .k:i}", 2),
    S("table by earlier elements", "{.w=mut y}\nfor {.i} in range(len({.w})):\n    for {.k} in range(3):\n"
      "        {.w}[{.i}][{.k}] {?=|+=} {?max({.w}[{.i} - 1][{.k}], {f})|{.w}[{.i}][{.k} - 1] * {num}}", 2),
    S("element of a table replaced", "{mut y}[{?0|-1}][{?0|1|-1|{i} % 3}] {?=|+=|*=} {f}", 2),
    S("element of a table replaced on one path", "if {c}:\n    {mut y}[0][{?1|{i} % 3}] = {f}"),
    S("row of a table by name", "{.x} = {mut y}[{?0|-1}]\nfor {.i} in range({i} % 3 + 1):\n"
      "    {.x}[{.i}] {?=|+=} {.x}[{.i} - 1] * {num}"),
    S("row of a table replaced", "{mut y}[{?0|-1}] = {?[{f}, {f}, {f}]|[{f}] * len({a})}"),
    S("row put into a table", "{mut y}.append([{f}] * len({a}))"),
    S("rows of a table exchanged", "{.w=mut y}\n{.w}[0], {.w}[-1] = {.w}[-1], {.w}[0]"),
    # --- deques
    S("queue", "{.w} = collections.deque([{f}], {?None|3})\n{.s=new f} = 0.5\nfor {.i} in range({i} % 4 + 1):\n"
      "    {.w}.{?append|appendleft}({f .i:i})\n    if len({.w}) > 2:\n        {.s} += {.w}.{?popleft|pop}() * {num}\n"
      "    {.w}.rotate({?0|1|-1})\n{.s} += sum({.w}) + {.w}[0]"),
]
