"""Objects and arrays that change, through aliases, at joins and in loops; differentiated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from jitad import grad
from tests.project.test_complexity import counted, work
from tests.small_programs import Program, check, check_compiled, refuses

pytestmark = pytest.mark.any_level

PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


@dataclass
class Body:
    a: Any
    b: Any = 1.0
    history: list = field(default_factory=list)

    def step(self, dt):
        self.a += self.b * dt
        self.b -= math.sin(self.a) * dt
        return self

    @property
    def energy(self):
        return self.a ** 2 + self.b ** 2


# --- objects ----------------------------------------------------------------------------------------

@program
def methods_in_a_loop(x):
    q = Body(x)
    for _ in range(10):
        q.step(0.1 * x)
    return q.energy


@program
def two_names_of_an_object(x):
    q = Body(x)
    r = q
    r.a *= 2
    return q.a * q.b


@program
def objects_in_a_list(x):
    ps = [Body(x), Body(x * x), Body(1.0)]
    for _ in range(4):
        for q in ps:
            q.step(0.2)
        ps[0].b += ps[1].a
    return sum(q.energy for q in ps)


@program
def a_list_in_an_object(x):
    q = Body(x)
    q.history.append(q.a)
    q.step(0.1)
    q.history.append(q.a)
    return q.history[0] * q.history[1]


@program
def changed_on_both_paths(x):
    q = Body(x)
    if x > 1.0:
        q.a = x * x
    else:
        q.b = x * 3
    return q.a * q.b


@program
def made_on_both_paths(x):
    if x > 1.0:
        q = Body(x)
    else:
        q = Body(x * 2, x)
    q.a *= x
    return q.a * q.b


@program
def objects_that_change_places(x):
    a, b = (Body(x), Body(2 * x, x))
    for _ in range(5):
        a, b = (b, a)
        a.a += 0.1 * b.b * x
    return a.a * b.b + b.a


@program
def augmented_attributes(x):
    q = Body(x)
    q.a += x
    q.a **= 2
    q.history = [x]
    q.history[0] *= q.a
    return q.history[0]


@program
def an_object_in_a_dict(x):
    d = {"p": Body(x)}
    for _ in range(3):
        d["p"].a *= x
    return d["p"].a


@program
def objects_that_hold_each_other(x):
    a = Body(x)
    b = Body(2.0)
    a.history.append(b)
    b.history.append(a)
    b.history[0].a *= x
    return a.a * a.history[0].a


@program
def an_object_that_holds_itself(x):
    a = Body(x)
    a.b = a
    a.b.a = x * x
    return a.a


@program
def identity_of_objects(x):
    a = Body(x)
    b = a
    return x * x if a is b and a is not Body(x) else x


@program
def a_loop_over_an_attribute(x):
    q = Body(x)
    for q.b in (1.0, 2.0, x):
        q.a += q.b
    return q.a


@program
def a_loop_over_an_element(x):
    l = [0.0, x]
    for l[0] in range(4):
        l[1] += l[0] * x
    return l[1]


@program
def swapped_attributes(x):
    q = Body(x, x * x)
    q.a, q.b = (q.b, q.a)
    return q.a - q.b * 2


@program
def setattr_and_getattr(x):
    q = Body(x)
    setattr(q, "a", x * x)                                            # noqa: B010
    return getattr(q, "a") * getattr(q, "nope", 2.0)                  # noqa: B009


@program
def an_attribute_on_one_path(x):
    q = Body(x)
    if x > 1:
        q.c = x * x
    return q.c if x > 1 else q.a


# --- at joins and in loops --------------------------------------------------------------------------

@program
def appended_on_both_paths(x):
    l = []
    if x > 1:
        l.append(x)
    else:
        l.append(x * x)
    l.append(1.0)
    return l[0] * l[1]


@program
def rebind_in_branch(x):
    l = [x]
    m = l
    if x > 1:
        m = [5.0]
    m2 = m[0]
    return m2 * l[0]


@program
def one_of_two_lists(x):
    a = [x]
    b = [2.0]
    c = a if x > 1 else b
    return c[0] * a[0] + b[0]


@program
def one_length_on_both_paths(x):
    l = [x]
    if x > 1.0:
        l.append(x * x)
    else:
        l.append(1.0)
    return l[1] * l[0]


@program
def lists_changed_under_conditions(x):
    l = [x, x]
    for _ in range(6):
        if l[0] > l[1]:
            l[0] -= 0.3
        else:
            l[1] -= 0.4
            l = [l[1], l[0]]
    return l[0] * l[1]


@program
def a_list_in_a_counted_loop(x):
    s = [x, 1.0, 2.0]
    for _ in range(6):
        s[0] = s[1] * x
        s[1] = math.sin(s[2])
        s[2] += s[0]
    return sum(s)


@program
def a_list_carried_by_a_loop(x):
    l = [0.0] * 3
    n = int(x * 5)
    for _ in range(n):
        l[0], l[1], l[2] = (l[1] + x, l[2] * x, l[0] + 1)
    return sum(l)


@program
def a_queue_carried_by_a_loop(x):
    l = [x]
    n = int(x * 5)
    for _ in range(n):
        l.append(l[-1] * x)
        l.pop(0)
    return l[0]


@program
def a_new_object_each_time(x):
    q = Body(x)
    for _ in range(int(x * 5)):
        q = Body(q.a * x, q.b + q.a)
    return q.a * q.b


@program
def a_list_in_a_while_loop(x):
    s = [x, 0.0]
    while s[0] > 0.05:
        s[0] *= 0.6
        s[1] += s[0] * s[0]
    return s[1]


@program
def an_object_in_a_while_loop(x):
    q = Body(x, 0.0)
    while q.a < 20.0:
        q.a = q.a * q.a + 1.0
        q.b += 1.0
    return q.a * x + q.b


@program
def a_dict_as_state(x):
    st = {"pos": x, "vel": 0.0, "n": 0}
    while st["n"] < 7:
        st["vel"] -= 0.1 * st["pos"]
        st["pos"] += st["vel"] * x
        st["n"] += 1
        if st["pos"] < 0:
            break
    return st["pos"] + st["vel"] * st["n"]


@program
def a_linked_list_of_tuples(x):
    head = None
    for v in (x, 1.0, x * x):
        head = (v, head)
    s = 0.0
    while head is not None:
        s = s * x + head[0]
        head = head[1]
    return s


@program
def elements_set_ahead(x):
    l = [x, 1.0, 2.0]
    k = 0
    for v in l:
        k += 1
        if k < 3:
            l[k] = v * x
    return sum(l)


# --- arrays -----------------------------------------------------------------------------------------

@program
def updates_of_elements_and_slices(x):
    a = np.zeros(4)
    for i in range(4):
        a[i] = x * i
    for i in range(1, 4):
        a[i] += a[i - 1] ** 2
    a *= x
    a[1:3] -= a[0:2]
    b = a
    b[0] = x
    return a.sum() + a[0] * a[3]


@program
def arrays_in_a_list(x):
    a = [np.ones(2), np.zeros(3)]
    a[0][1] = x
    a[1] += x
    b = a[1]
    b[0] *= x
    return a[0].sum() * a[1].sum()


@program
def arrays_in_a_dict(x):
    d = {"w": np.ones(3) * x, "b": np.zeros(2)}
    for i in range(3):
        d["w"] -= 0.1 * d["w"] ** 2
        d["b"][i % 2] += d["w"].sum()
    return d["b"].sum()


@program
def an_array_in_an_object(x):
    a = np.zeros(2)
    q = Body(a)
    q.a[0] = x
    a[1] = x * x
    return q.a.sum() * a[0]


@program
def views_in_a_list(x):
    a = np.zeros((2, 2))
    rows = [a[0], a[1]]
    rows[0][1] = x
    rows[1] += x * x
    return a.sum() * a[1, 0]


@program
def arrays_that_change_places(x):
    a, b = (np.ones(3) * x, np.zeros(3))
    for _ in range(4):
        for k in range(3):
            b[k] = a[(k + 1) % 3] * x
        a, b = (b, a)
    return a.sum() + b[0]


@program
def attributes_that_change_places(x):
    q = Body(np.ones(3) * x, np.zeros(3))
    for _ in range(3):
        q.b[0] = q.a.sum() * x
        q.a, q.b = (q.b, q.a)
    return q.a.sum() + q.b.sum()


@program
def rows_that_change_places(x):
    a = np.array([[1.0, 2.0], [3.0, 4.0]]) * x
    a[[0, 1]] = a[[1, 0]]
    t = a[0].copy()
    a[0] = a[1]
    a[1] = t * x
    return a[0, 0] * a[1, 1]


@program
def scattered_updates(x):
    a = np.zeros(5)
    for i in range(20):
        a[i * 7 % 5] += x * i
    for i in range(5):
        a[i] *= a[(i + 1) % 5] * 0.01
    return a.sum()


@program
def overwritten_after_reading(x):
    a = np.ones(3) * x
    s = 0.0
    for i in range(3):
        s += a[i] ** 2
        a[i] = s
    return a.sum()


@program
def written_under_a_condition(x):
    a = np.zeros(4)
    for i in range(4):
        if i * x > 1.1:
            a[i] = x * i
        else:
            a[i] = x ** 2
    return (a * a).sum()


# --- views across calls ---------------------------------------------------------------------------------

class Parameters:
    """An array and views of it, in one object."""

    def __init__(self, p, n):
        self.p, self.w, self.b, self.m = p, p[:n], p[n:], p.reshape(2, -1)

    def out(self, x):
        return self.w.sum() * x + self.b[0] + self.m[1, 0]

    def update(self, rate):
        self.p -= rate * self.p ** 2
        self.w[0] *= 2


@program
def an_object_with_an_array_and_its_parts(x):
    net, total = Parameters(np.arange(6.0) * x, 2), 0.0
    for _ in range(3):
        total += net.out(x)
        net.update(0.01)
    return total + net.b.sum()


def parts_of(x, n):
    a = np.arange(6.0) * x
    return a[:n], a[n:], a.reshape(2, 3), a


@program
def parts_as_a_result(x):
    head, tail, matrix, whole = parts_of(x, 2)
    head += 1
    tail[-1] = 50.0
    matrix[1] *= 2 * x
    return head.sum() + (tail * np.arange(4.0)).sum() + matrix[0, 1] + whole[3] * x


@program
def overlapping_arguments(x):
    def changes(row, column, rest):
        row += column
        rest[0] = 5.0 * x
        column *= 2
        return row @ column

    a = np.ones((3, 3)) * x
    total = 0.0
    for i in range(3):
        total += changes(a[i], a[:, i], a[i, i:])
    return total + (a * np.arange(9.0).reshape(3, 3)).sum()


@program
def captured_with_a_part(x):
    a = np.arange(4.0) * x
    part = a[1:]

    def write(k):
        part[k] += 1.0
        return a[k + 1]
    first = sum(map(lambda i: write(i) * a[i], [0, 1])) + write(2)
    return first + grad(lambda y: (a * y).sum() + (part * y ** 2).sum())(x) + a.sum()


def sort(p, room):
    """Merge sort of a part of an array, into another part of it."""
    n = len(p)
    if n > 1:
        half = n // 2
        sort(p[:half], room[:half])
        sort(p[half:], room[half:])
        room[:] = p
        i, j = 0, half
        for k in range(n):
            if j >= n or (i < half and room[i] <= room[j]):
                p[k] = room[i]
                i += 1
            else:
                p[k] = room[j]
                j += 1


@program
def parts_of_one_array_in_a_recursion(x):
    a = np.zeros(10)
    a[:5] = np.array([3.0 * x, x, 2.0, x * x, 5.0])
    sort(a[:5], a[5:])
    return (a * np.arange(10.0)).sum()


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f: Program) -> None:
    check(f)


@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS)


# --- the cost of an update ------------------------------------------------------------------------------

def walk(x, n, m):
    """``n`` updates ``a[i] = f(a[j])`` of ``m`` elements, in an object."""
    q = Body(np.zeros(m) + x)
    for i in range(n):
        q.a[i * 7 % m] = math.sin(q.a[(i * 5 + 3) % m]) * x
        q.a[i * 3 % m] *= 1.01
    return q.a.sum()


@pytest.mark.slow
def test_an_update_costs_the_same_in_an_array_of_any_length() -> None:
    """Also derivatives: n updates of m elements are O(n + m), none of them copies the array."""
    for f in (walk, grad(walk), grad(grad(walk))):
        cost = {(n, m): work(counted(f, 0.7, n, m)[1]) for n, m in ((200, 10), (200, 2010), (400, 10))}
        per_element = (cost[200, 2010] - cost[200, 10]) / 2000
        per_update = (cost[400, 10] - cost[200, 10]) / 200
        assert per_element <= 16 and cost[200, 2010] <= 200 * per_update + 2100 * per_element


def rotate(x, n):
    """A list carried by a loop whose elements are exchanged: at most its length per iteration."""
    xs = [x, 1.0, 2.0]
    for _ in range(n):
        xs[0], xs[1], xs[2] = xs[1] * x, xs[2], xs[0] + 0.1
    return sum(xs)


def test_a_carried_list_costs_its_length_a_turn() -> None:
    costs = [work(counted(grad(rotate), 0.7, n)[1]) for n in (100, 200, 300)]
    assert costs[2] - costs[1] == costs[1] - costs[0] <= 100 * 20


def test_one_of_two_arrays_is_not_written() -> None:
    def either(x):
        a, b = np.zeros(2), np.ones(2)
        c = a if x > 1 else b
        c[0] = x
        return a.sum() + b.sum()
    refuses(either, "one of several", "")
