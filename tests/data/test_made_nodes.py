"""Nodes of recursive dataclasses that are made, changed and returned in jitted code."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import grad, interpret, jit, pack, value_and_grad, vjp
from tests.data.test_recursive_data import Cell, Rose, Tree, close, rose_total, total, tree

pytestmark = pytest.mark.any_level


@dataclass
class Term:
    """An expression, with the operators of Python."""

    def __add__(self, other: Any) -> Any:
        return Sum(self, other)

    def __mul__(self, other: Any) -> Any:
        return Product(self, other)

    def at(self, x: Any) -> Any:
        raise NotImplementedError


@dataclass
class Const(Term):
    value: float

    def at(self, x: Any) -> Any:
        return self.value

    def slope(self) -> Term:
        return Const(0.0)


@dataclass
class X(Term):
    def at(self, x: Any) -> Any:
        return x

    def slope(self) -> Term:
        return Const(1.0)


@dataclass
class Sum(Term):
    a: Term
    b: Term

    def at(self, x: Any) -> Any:
        return self.a.at(x) + self.b.at(x)

    def slope(self) -> Term:
        return self.a.slope() + self.b.slope()          # type: ignore[attr-defined]


@dataclass
class Product(Term):
    a: Term
    b: Term

    def at(self, x: Any) -> Any:
        return self.a.at(x) * self.b.at(x)

    def slope(self) -> Term:
        return self.a.slope() * self.b + self.a * self.b.slope()    # type: ignore[attr-defined]


@dataclass
class Node:
    """A node that is changed after its construction."""

    value: float
    next: Node | None = None
    weight: np.ndarray | None = None
    tag: str = "new"
    count: int = 0
    sizes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.count = 1 if self.next is None else self.next.count + 1


@dataclass(frozen=True)
class Fixed:
    value: float
    next: Fixed | None = None


def countdown(n: Any) -> Any:
    cell = None
    for i in range(n):
        cell = Cell(i * 1.5, cell)
    return cell


def grown(n: Any, x: Any) -> Any:
    if n == 0:
        return None
    return Tree(grown(n - 1, x * 0.5), grown(n - 1, x * 0.3), x)


def scaled(t: Tree | None, s: Any) -> Any:
    return None if t is None else Tree(scaled(t.left, s), scaled(t.right, s), t.value * s)


def test_a_list_made_by_a_loop_comes_back() -> None:
    for n in (0, 1, 5, 100):
        assert jit(countdown)(n) == countdown(n)
    assert interpret(countdown, 4) == countdown(4)


@pytest.mark.slow
def test_a_tree_made_by_recursion_and_differentiated_through() -> None:
    def f(n: Any, x: Any) -> Any:
        return total(grown(n, x))
    assert jit(grown)(4, 1.0) == grown(4, 1.0)
    value, slope = value_and_grad(f, 1)(5, 0.7)
    h = 1e-6
    assert value == pytest.approx(f(5, 0.7), rel=1e-12)
    assert slope == pytest.approx((f(5, 0.7 + h) - f(5, 0.7 - h)) / (2 * h), rel=1e-7)
    assert interpret(grad(f, 1), 5, 0.7) == pytest.approx(slope, rel=1e-12)
    second = grad(grad(f, 1), 1)(4, 0.7)
    assert second == pytest.approx((grad(f, 1)(4, 0.7 + h) - grad(f, 1)(4, 0.7 - h)) / (2 * h), rel=1e-6)
    assert jitad.jvp(lambda x: f(4, x), (0.7,), (1.0,))[1] == pytest.approx(grad(f, 1)(4, 0.7))


@pytest.mark.slow
def test_a_tree_made_of_a_tree() -> None:
    t = tree(3)
    assert jit(scaled)(t, 3.0) == scaled(t, 3.0)
    assert jit(scaled)(pack(t), 3.0).unpack() == scaled(t, 3.0)

    def f(t: Any, s: Any) -> Any:
        return total(scaled(t, s)) * total(t)
    value, (bar, s_bar) = value_and_grad(f, (0, 1))(t, 0.9)
    h = 1e-6
    assert value == pytest.approx(f(t, 0.9), rel=1e-12)
    assert s_bar == pytest.approx((f(t, 0.9 + h) - f(t, 0.9 - h)) / (2 * h), rel=1e-7)
    left = [f(dataclasses.replace(t, value=t.value + d), 0.9) for d in (h, -h)]
    assert bar.value == pytest.approx((left[0] - left[1]) / (2 * h), rel=1e-6)
    close(interpret(grad(f), t, 0.9), bar)


def test_new_nodes_refer_to_those_of_the_arguments() -> None:
    def joined(a: Any, b: Any, trees: Any) -> Any:
        return Tree(a.left, Tree(b, trees[0], 2.0), a.value * b.value)
    a, b, c = tree(2), tree(3), tree(1)
    assert jit(joined)(a, b, [c]) == joined(a, b, [c])
    bars = grad(lambda *args: total(joined(*args)), (0, 1, 2))(a, b, [c])
    h = 1e-6

    def value(s: float) -> Any:
        return total(joined(a, dataclasses.replace(b, value=b.value + s), [c]))
    assert bars[1].value == pytest.approx((value(h) - value(-h)) / (2 * h), rel=1e-6)
    assert bars[0].right.value == 0.0 and bars[2][0].value != 0.0


EXPRESSION = (X() * X() + Const(3.0)) * (X() + Const(2.0))


@pytest.mark.long
@pytest.mark.slow
def test_symbolic_differentiation_builds_the_derivative_and_evaluates_it() -> None:
    def slope_at(e: Any, x: Any) -> Any:
        return e.slope().at(x)
    at = jit(lambda e, x: e.at(x))
    for x in (0.5, 2.0):
        assert at(EXPRESSION, x) == pytest.approx((x * x + 3) * (x + 2))
        assert jit(slope_at)(EXPRESSION, x) == pytest.approx(3 * x * x + 4 * x + 3)
        assert grad(slope_at, 1)(EXPRESSION, x) == pytest.approx(6 * x + 4)
    assert jit(lambda e: e.slope())(EXPRESSION) == EXPRESSION.slope()
    assert jit(lambda e, x: e.slope().slope().slope().at(x))(EXPRESSION, 1.0) == pytest.approx(6)
    bar = grad(slope_at)(EXPRESSION, 2.0)
    assert bar.b.b.value == pytest.approx(4.0) and bar.a.b.value == pytest.approx(1.0)


def rose(n: Any, x: Any) -> Any:
    if n == 0:
        return Rose(x)
    return Rose(x * n, [rose(n - 1, x), Rose(x * x), rose(n - 1, 0.5 * x)])


def test_lists_of_children() -> None:
    def f(n: Any, x: Any) -> Any:
        return rose_total(rose(n, x))
    assert jit(rose)(2, 0.5) == rose(2, 0.5)
    h = 1e-6
    assert grad(f, 1)(2, 0.5) == pytest.approx((f(2, 0.5 + h) - f(2, 0.5 - h)) / (2 * h), rel=1e-7)


def changed(n: Any, x: Any) -> Any:
    head = Node(x)
    last = head
    for i in range(n):
        new = Node(x * i, None, np.array([x, x * x]) if i > 1 else None)
        new.tag = "last" if i == n - 1 else "inner"
        last.next = new
        new.value += last.value
        last = new
    head.count = n
    last.next = head
    return head


def around(node: Any, n: Any) -> Any:
    out = 0.0
    for _ in range(n):
        if node.tag == "last":
            out += 10 * node.value
        else:
            out += node.value ** 2
        if node.weight is not None:
            out += np.sum(node.weight)
        node = node.next
    return out


@pytest.mark.slow
def test_nodes_are_changed() -> None:
    def f(n: Any, x: Any) -> Any:
        return around(changed(n, x), 2 * n)
    h = 1e-6
    for n in (1, 4):
        assert jit(f)(n, 0.7) == pytest.approx(f(n, 0.7), rel=1e-12)
        assert grad(f, 1)(n, 0.7) == pytest.approx((f(n, 0.7 + h) - f(n, 0.7 - h)) / (2 * h), rel=1e-7)
    back = jit(changed)(2, 0.5)
    assert back.next.next.next is back and (back.count, back.tag, back.next.next.tag) == (2, "new", "last")
    assert back.sizes == [] and back.next.weight is None


def test_what_belongs_to_the_caller_is_not_changed() -> None:
    def put(t: Any) -> Any:
        t.value = 2.0
        return total(t)
    with pytest.raises(jitad.UnsupportedError, match="belongs to the caller"):
        jit(put)(tree(1))

    def put_and_make(t: Any, own: Any) -> Any:
        new = Tree(t, None, 1.0)
        (new if own else t).value = 2.0
        return new.value + t.value
    assert jit(put_and_make)(tree(2), True) == 2.0 + tree(2).value
    with pytest.raises(ValueError, match="belongs to the caller"):
        jit(put_and_make)(tree(2), False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        jit(lambda x: setattr(Fixed(x), "value", 2.0))(1.0)


def test_post_init_defaults_and_identity() -> None:
    def f(x: Any) -> Any:
        a = Node(x, Node(2 * x, Node(3 * x)))
        b = a.next
        return a.count, a.next is b, a is b, b is not None, Node(x, tag="b").tag == "b", b.sizes

    assert jit(f)(1.0) == (3, True, False, True, True, [])


def test_fields_take_what_is_put_into_them() -> None:
    def f(n: Any, x: Any) -> Any:
        c = None
        for i in range(n):
            c = Cell(i, c)                           # type: ignore[arg-type]  # an int where a float is declared
        return Node(x, None, np.ones((2, 3)) * x), c
    node, cell = jit(f)(2, 3.0)
    np.testing.assert_array_equal(node.weight, np.full((2, 3), 3.0))
    assert cell == Cell(1.0, Cell(0.0))


def test_many_nodes() -> None:
    def length(n: Any) -> Any:
        c = countdown(n)
        out = 0
        while c is not None:
            out += 1
            c = c.tail
        return out
    assert jit(length)(300_000) == 300_000


def test_refusals() -> None:
    def of_gradient(t: Any) -> Any:
        return Tree(grad(total)(t), None, 1.0)
    with pytest.raises(jitad.UnsupportedError, match="belongs to another tree"):
        jit(of_gradient)(tree(2))
    with pytest.raises(jitad.UnsupportedError, match=r"Cell\.head cannot hold"):
        jit(lambda x: Cell([x, x]))(1.0)             # type: ignore[arg-type]


@pytest.mark.slow
def test_a_cotangent_in_another_order_is_refused_and_never_taken_for_another_nodes() -> None:
    """Nodes made in compiled code have the order of their construction, others that of their tree."""
    def grown(x: float) -> Cotree:
        return Cotree(x, Cotree(x * 2.0, Cotree(x * 4.0)), Cotree(x * 3.0))

    cotangent = Cotree(1.0, Cotree(10.0, Cotree(100.0)), Cotree(1000.0))
    for pulled in (lambda x, ct: vjp(grown, x)[1](ct), jit(lambda x, ct: vjp(grown, x)[1](ct))):
        with pytest.raises(ValueError, match="another shape"):
            pulled(0.5, cotangent)
    assert jit(lambda x: vjp(grown, x)[1](grown(x)))(0.5) == (15.0,)

    def twice(x: float) -> tuple[int, list[Cotree]]:
        t = Cotree(x)
        return 1, [t, t]
    with pytest.raises(ValueError, match="another shape"):               # reported before the sizes, which differ
        jit(lambda x, ct: vjp(twice, x)[1](ct))(1.0, (None, [Cotree(1.0), Cotree(2.0)]))


@dataclass
class Cotree:
    value: float
    left: Cotree | None = None
    right: Cotree | None = None


def test_a_recursion_that_writes_takes_constant_time_an_update() -> None:
    def fill(a: Any, i: Any, x: Any) -> Any:
        if i == len(a):
            return 0.0
        a[i] = x * i
        return fill(a, i + 1, x) + a[i] * a[i - 1]

    def f(n: Any, x: Any) -> Any:
        a = np.zeros(n)
        return fill(a, 0, x) + np.sum(a * a)
    h = 1e-6
    g = jit(f, grad="x")
    assert g.grad(7, 0.7) == pytest.approx((f(7, 0.7 + h) - f(7, 0.7 - h)) / (2 * h), rel=1e-7)
    assert interpret(grad(f, 1), 7, 0.7) == pytest.approx(g.grad(7, 0.7), rel=1e-12)
    assert grad(grad(f, 1), 1)(7, 0.7) == pytest.approx((g.grad(7, 0.7 + h) - g.grad(7, 0.7 - h)) / (2 * h), rel=1e-6)
    backward = g.grad.inspect("optimized", 7, 0.7).split("func @fill.1.bwd")[1].split("func ")[0]
    assert not any(f" {op} " in backward for op in ("fill", "copy", "empty")) and ": f64[?]\n" in backward
