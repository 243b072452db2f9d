"""Local lists and dicts that change, and their aliases; differentiated."""

from __future__ import annotations

import math

import pytest

from tests import tracing
from tests.small_programs import Program, check, check_compiled, refuses

PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


# --- lists ------------------------------------------------------------------------------------------

@program
def append_and_pop(x):
    s = [x, x * x]
    s.append(math.sin(x))
    a = s.pop()
    b = s.pop(0)
    s.insert(0, a * b)
    return s[0] * s[-1]


@program
def extend_and_assign_a_slice(x):
    s = [x]
    s.extend([x * 2, x ** 2])
    s += [3.0 * x]
    s[1:3] = [x * x * x]
    return s[0] * s[1] + s[2] + len(s)


@program
def deleted_element(x):
    s = [x, x * x, x ** 3]
    del s[1]
    return s[0] * s[1]


@program
def deleted_slice(x):
    s = [x, x * x, x ** 3, x ** 4]
    del s[1:3]
    return s[0] * s[1]


@program
def slice_with_a_step(x):
    a = [x, 2.0, 3.0, 4.0]
    a[::2] = [x * x, x]
    return a[0] * a[1] + a[2] * a[3]


@program
def negative_slices(x):
    l = [x, 1.0, 2.0, x]
    l[-2:] = [x * x]
    del l[:1]
    return l[0] + l[-1]


@program
def insert_anywhere(x):
    l = [x, 1.0]
    l.insert(-1, x * x)
    l.insert(100, 3.0)
    return l[1] * l[3] + len(l)


@program
def rotated(x):
    a = [x, 2.0 * x, x ** 3]
    for _ in range(4):
        a.append(a.pop(0) * 1.1)
    return a[0] * a[1] - a[2]


@program
def swapped_elements(x):
    a = [x, x * x, 3.0]
    a[0], a[2] = (a[2], a[0] * a[1])
    return a[2] * a[0]


@program
def reversing(x):
    a = [x, 1.0, x * x]
    a.reverse()
    return a[0] * 2 + a[1] + a[2] * 3


@program
def clearing(x):
    a = [x]
    a.clear()
    a.append(x * x)
    d = {"q": x}
    d.clear()
    d["r"] = x
    return a[0] * d["r"] * len(d)


@program
def copies_are_shallow(x):
    a = [x, [x]]
    b = a.copy()
    c = list(a)
    b[0] = 5.0
    b[1][0] *= 2
    return a[0] * a[1][0] + c[1][0]


@program
def repeated_and_joined(x):
    a = [x] * 3
    b = a + [x * x]
    b[0] = 2.0
    return sum(a) * sum(b)


@program
def a_stack(x):
    st = []
    for tok in (x, 2.0, "*", x, "+"):
        if tok == "*":
            b = st.pop()
            a = st.pop()
            st.append(a * b)
        elif tok == "+":
            b = st.pop()
            a = st.pop()
            st.append(a + b)
        else:
            st.append(tok)
    return st[-1]


@program
def two_names(x):
    a = [x, x]
    b = a
    b[0] *= 3
    b.append(x)
    return a[0] * a[2] + len(a)


@program
def one_list_twice(x):
    inner = [x]
    outer = [inner, inner]
    outer[0][0] = x * x
    return outer[1][0] * x


@program
def a_tuple_with_a_list(x):
    t = ([x], x)
    t[0][0] += t[1]
    return t[0][0] * x


@program
def a_list_in_itself(x):
    a = [x]
    a.append(a)
    a[1][0] = x * x
    return a[0]


@program
def list_remove(x):
    l = [1, 2, 3]
    l.remove(2)
    return x * l[1]


@program
def assigned_to_several(x):
    a = b = [x]
    a[0] *= x
    c, d = e = (x, b)
    return d[0] * c * len(e)


@program
def changed_by_a_callee(x):

    def f(l):
        l.append(x)
        l[0] = x * x
    s = [1.0]
    f(s)
    f(s)
    return sum(s) + s[0] * s[1]


@program
def equal_and_identical(x):
    a = [x]
    b = [x]
    return x if a == b and a is not b else 0.0


@program
def swapped_rows_of_lists(x):
    m = [[x, 1.0], [2.0, x]]
    m[0], m[1] = (m[1], m[0])
    m[0][0] *= x
    return m[0][0] * m[1][1] + m[1][0]


# --- dicts ------------------------------------------------------------------------------------------

@program
def deleted_key(x):
    d = {"a": x, "b": x * x}
    del d["a"]
    return d["b"] * len(d)


@program
def setdefault_update_get_pop(x):
    d = {"a": x}
    d.setdefault("b", x * x)
    d.setdefault("a", 9.0)
    d.update({"c": x ** 3})
    d.update(e=x)
    d["a"] *= 2
    t = 0.0
    for k, v in d.items():
        t += v * len(k)
    if "b" in d:
        t += d["b"]
    if "zz" not in d:
        t *= x
    return t + d.get("q", x) + d.pop("c")


@program
def a_dict_carried_by_a_loop(x):
    d = {"a": x, "b": 1.0}
    for _ in range(5):
        d["a"], d["b"] = (d["b"] * x, d["a"] + math.sin(d["b"]))
    return d["a"] + d["b"]


@program
def dict_comprehension(x):
    d = {k: x * k for k in range(4)}
    d = {k: v for k, v in d.items() if k > 1}
    return sum(d.values()) * len(d)


@program
def union_of_dicts(x):
    a = {"a": x}
    b = a | {"b": x * x}
    a |= {"c": x}
    return b["b"] * a["c"] + len(b) + len(a)


@program
def lists_in_a_dict(x):
    d = {"a": [x], "b": []}
    for k in d:
        d[k].append(x * len(k))
    d["b"] += d["a"]
    return sum(d["b"]) + len(d["b"])


@program
def grouped_by_setdefault(x):
    d = {}
    for k, v in (("a", x), ("b", 1.0), ("a", x * x)):
        d.setdefault(k, []).append(v)
    return sum(d["a"]) * d["b"][0]


@program
def deleted_while_walking_a_copy(x):
    d = {"a": x, "b": x}
    for k in list(d):
        if k == "a":
            del d[k]
    return d["b"] * len(d)


@program
def tuples_as_keys(x):
    d = {}
    for i in (0, 1):
        for j in (0, 1):
            d[i, j] = x * (i + 2 * j + 1)
    return d[0, 0] * d[1, 1] - d[0, 1] * d[1, 0]


@program
def popitem(x):
    d = {"a": x, "b": x * x}
    k, v = d.popitem()
    return v * x + len(d)


@program
def pop_with_a_default(x):
    d = {"a": x}
    return d.pop("zz", x * x) + d.pop("a")


@program
def made_from_others(x):
    d = dict(a=x, b=x * x)
    d2 = dict(d, c=1.0)
    d3 = {**d2, "a": 5.0}
    return d3["a"] * d3["b"] * d["a"]


@program
def fromkeys(x):
    d = dict.fromkeys(("a", "b"), x)
    d["a"] *= x
    return d["a"] + d["b"]


@program
def a_dict_of_pairs(x):
    d = dict(zip("abc", [x, x * x, 1.0]))
    return d["a"] * d["b"] + d["c"]


@program
def values_changed_while_walking(x):
    d = {"a": x, "b": 1.0}
    for _, v in d.items():
        d["b"] = v * x + 1
    return d["b"]


@program
def a_view_shows_what_is_new(x):
    d = {"a": x}
    v = d.values()
    d["b"] = x * x
    return sum(v) + len(v)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f: Program) -> None:
    check(f)


@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS)


# --- errors and refusals ------------------------------------------------------------------------------

def grows_while_walked(x):
    out = [x]
    for v in out:
        if len(out) < 3:
            out.append(v * x)
    return sum(out)


def changed_under_enumerate(x):
    out = [x, 1.0, 2.0]
    for i, v in enumerate(out):
        if i < 2:
            out[i + 1] = v * x
    return sum(out)


def gets_a_key_on_one_path(x):
    d = {"a": 1.0}
    if x > 1:
        d["b"] = x
    return d["a"]


def test_refused() -> None:
    refuses(gets_a_key_on_one_path, "a dict with different keys, depending on the path", "every key in before")
    refuses(grows_while_walked, "changes the length of the list it walks", "list(xs)")
    refuses(changed_under_enumerate, "changes a list that `zip` or `enumerate` walks", "list(xs)")


def dict_that_grows_while_walked(x):
    d = {"a": x}
    for _ in d:
        d["b"] = x
    return d["b"]


def test_errors_are_pythons() -> None:
    for f in (lambda x: [x, 1.0].index(1.0) + x, lambda x: [x, 1.0].index(2.0) + x,
              lambda x: [x][3], lambda x: [].pop() + x, lambda x: {"a": x}["b"], lambda x: {}.popitem()[1] + x,
              lambda x: ["a"].index("b") + x, dict_that_grows_while_walked):
        tracing.check(f, 0.7)
