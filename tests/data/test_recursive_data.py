"""Recursive dataclasses: trees, lists and expressions as arguments, with their gradients."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import grad, hvp, interpret, jit, jvp, pack, value_and_grad
from jitad.frontend.columns.pack import Packed

pytestmark = pytest.mark.any_level


@dataclass
class Tree:
    left: Tree | None
    right: Tree | None
    value: float


@dataclass
class Cell:
    head: float
    tail: Cell | None = None


class Expr:
    """The base of a union of classes."""


@dataclass
class Num(Expr):
    value: float


@dataclass
class Var(Expr):
    name: str


@dataclass
class Add(Expr):
    left: Expr
    right: Expr


@dataclass
class Mul(Expr):
    left: Expr
    right: Expr


@dataclass
class Rose:
    value: float
    children: list[Rose] = field(default_factory=list)


@dataclass
class Rich:
    """A node with every kind of field."""

    below: Rich | None
    pair: tuple[Rich | None, float]
    x: float
    weight: np.ndarray
    matrix: np.ndarray
    count: int = 2
    big: bool = True
    name: str = "a"

    def area(self) -> Any:
        return self.x * self.count

    @property
    def double(self) -> Any:
        return self.x * 2


def total(t: Tree | None) -> Any:
    if t is None:
        return 1.0
    left, right = total(t.left), total(t.right)
    return t.value * (left + right) + left * right


def tree(depth: int, rng: np.random.Generator | None = None) -> Any:
    rng = rng or np.random.default_rng(depth)
    if depth == 0:
        return None
    return Tree(tree(depth - 1, rng), tree(depth - 1, rng), rng.uniform(0.5, 1))


def chain(n: int) -> Any:
    cell = None
    for i in range(n):
        cell = Cell(1 + i / n, cell)
    return cell


def nodes(x: Any) -> Iterator[Any]:
    """All nodes, each once."""
    seen: dict[int, Any] = {}
    todo = [x]
    while todo:
        node = todo.pop()
        if isinstance(node, (list, tuple)):
            todo += node
        elif dataclasses.is_dataclass(node) and id(node) not in seen:
            seen[id(node)] = node
            todo += [getattr(node, f.name) for f in dataclasses.fields(node)]
    yield from seen.values()


def check(f: Callable[..., Any], x: Any, *rest: Any) -> None:
    """Value and gradient against Python and differences, compiled and interpreted, packed and not."""
    expected = f(x, *rest)
    for argument in (x, pack(x)):
        assert jit(f)(argument, *rest) == pytest.approx(expected, rel=1e-12)
    assert interpret(f, x, *rest) == pytest.approx(expected, rel=1e-12)
    value, gradient = value_and_grad(f)(x, *rest)
    assert value == pytest.approx(expected, rel=1e-12) and type(gradient) is type(x)
    packed = grad(f)(pack(x), *rest)
    assert isinstance(packed, Packed)
    close(packed.unpack(), gradient)
    close(interpret(grad(f), x, *rest), gradient)
    for node, bar in zip(nodes(x), nodes(gradient), strict=True):
        for name in (a.name for a in dataclasses.fields(node)):
            old, found = getattr(node, name), getattr(bar, name)
            if isinstance(old, float):
                assert found == pytest.approx(slope(f, node, name, x, rest), rel=1e-5, abs=1e-8), (node, name)
            elif isinstance(old, np.ndarray):
                assert found.shape == old.shape
                for i in np.ndindex(old.shape):
                    assert found[i] == pytest.approx(slope(f, old, i, x, rest), rel=1e-5, abs=1e-8), (name, i)
            elif isinstance(old, (int, bool, str)) or old is None:
                assert found is None


def close(a: Any, b: Any) -> None:
    """Asserts that two values of one structure are equal up to rounding."""
    for x, y in zip(nodes(a), nodes(b), strict=True):
        assert type(x) is type(y)
        for name in (f.name for f in dataclasses.fields(x)):
            v, w = getattr(x, name), getattr(y, name)
            if isinstance(w, (float, np.ndarray)):
                np.testing.assert_allclose(v, w, rtol=1e-12)
            else:
                assert v == w if isinstance(w, (int, str)) else type(v) is type(w)


def slope(f: Callable[..., Any], holder: Any, key: Any, x: Any, rest: Any) -> float:
    """A central difference at one position."""
    def put(v: Any) -> None:
        setattr(holder, key, v) if isinstance(key, str) else holder.__setitem__(key, v)
    old, h = getattr(holder, key) if isinstance(key, str) else holder[key], 1e-5
    out = []
    for v in (old + h, old - h):
        put(v)
        out.append(f(x, *rest))
    put(old)
    return float(out[0] - out[1]) / (2 * h)


@pytest.mark.slow
def test_a_tree() -> None:
    for depth in (1, 2, 4):
        check(total, tree(depth))
    check(total, Tree(None, tree(3), 0.3))


def polynomial(c: Cell | None, x: float) -> Any:
    return 0.0 if c is None else c.head + x * polynomial(c.tail, x)


def product(c: Cell | None) -> Any:
    out = 1.0
    while c is not None:
        out = out * c.head
        c = c.tail
    return out


@pytest.mark.slow
def test_a_linked_list_by_recursion_and_by_loop() -> None:
    check(polynomial, chain(6), 0.7)
    check(product, chain(5))
    assert grad(polynomial, 1)(chain(3), 2.0) == pytest.approx(4 / 3 + 4.0)


def evaluate(e: Expr, x: float) -> Any:
    if isinstance(e, Num):
        return e.value
    if isinstance(e, Var):
        return x if e.name == "x" else 2 * x
    left, right = evaluate(e.left, x), evaluate(e.right, x)         # type: ignore[attr-defined]
    return left + right if isinstance(e, Add) else left * right


EXPRESSION = Add(Mul(Num(2.0), Mul(Var("x"), Var("y"))), Add(Num(3.0), Mul(Var("x"), Num(0.5))))


@pytest.mark.slow
def test_a_union_of_classes() -> None:
    check(evaluate, EXPRESSION, 1.5)
    assert grad(evaluate, 1)(EXPRESSION, 1.5) == pytest.approx(8 * 1.5 + 0.5)
    assert grad(grad(evaluate, 1), 1)(EXPRESSION, 1.5) == pytest.approx(8)


def rose_total(r: Rose) -> Any:
    out = r.value
    for c in r.children:
        out = out * (1 + rose_total(c))
    return out


def rose_counted(r: Rose) -> Any:
    first = r.children[0].value * r.children[-1].value if len(r.children) > 1 else 0.0
    return first + r.value * len(r.children) + sum(rose_counted(c) for c in r.children)


ROSE = Rose(0.5, [Rose(0.7), Rose(0.2, [Rose(0.1), Rose(0.4), Rose(1.1)]), Rose(0.9, [Rose(2.0)])])


@pytest.mark.slow
def test_lists_of_children() -> None:
    check(rose_total, ROSE)
    check(rose_counted, ROSE)
    with pytest.raises(IndexError, match="list index out of range"):
        jit(lambda r, i: r.children[i].value)(ROSE, 3)


def rich_total(r: Rich) -> Any:
    out = r.x * r.count + r.area() * r.double + np.sum(r.weight ** 2) + r.matrix[0, 1] * r.pair[1]
    if r.name == "b" or not r.big:
        out = out * 3.0
    if r.below is not None:
        out = out + rich_total(r.below) * r.x
    if r.pair[0]:
        out = out * rich_total(r.pair[0])
    return out + np.sum(r.matrix @ r.weight)


def rich(n: int, name: str, below: Any = None, beside: Any = None) -> Rich:
    rng = np.random.default_rng(n)
    return Rich(below, (beside, rng.uniform()), rng.uniform(), rng.uniform(size=n), rng.uniform(size=(2, n)), n, n < 4,
                name)


@pytest.mark.slow
def test_fields_of_all_kinds() -> None:
    check(rich_total, rich(3, "b", rich(4, "a"), rich(2, "b")))


def test_shared_nodes_get_the_sum_and_the_gradient_shares() -> None:
    shared = tree(2)
    check(total, Tree(shared, Tree(shared, None, 0.5), 0.25))
    gradient = grad(total)(Tree(shared, shared, 0.5))
    assert gradient.left is gradient.right


def test_structures_of_trees() -> None:
    def f(trees: Any, scale: Any) -> Any:
        return sum(total(t) for t in trees["all"]) * scale + total(trees["one"])
    trees = {"all": [tree(1), tree(2)], "one": tree(1)}
    gradient = grad(f)(trees, 2.0)
    assert gradient["all"][1].left.value == pytest.approx(slope(f, trees["all"][1].left, "value", trees, (2.0,)))
    packed = grad(f)(pack(trees), 2.0)
    assert packed["one"].value == pytest.approx(gradient["one"].value) and packed["all"][0].unpack() == \
        gradient["all"][0]


@dataclass(frozen=True)
class Model:
    tree: Tree
    scale: float
    more: Any = None


def test_trees_in_fields_of_other_classes() -> None:
    """Results and gradients contain them as objects, like other trees."""
    def f(m: Any) -> Any:
        return total(m.tree) * m.scale
    m = Model(tree(2), 2.0, (Model(tree(1), 3.0), "name"))
    gradient = grad(f)(m)
    expected = grad(lambda t: total(t) * 2.0)(tree(2))
    assert isinstance(gradient.tree, Tree) and gradient.tree == expected and gradient.scale == total(tree(2))
    assert jit(lambda m: {"m": m})(m) == {"m": m} == interpret(lambda m: {"m": m}, m)
    assert jitad.vjp(f, m)[1](1.0)[0].tree == expected
    packed = pack(m)
    assert isinstance(packed.tree, Packed) and isinstance(packed.more[0].tree, Packed) and packed.more[1] == "name"
    gradient = grad(f)(packed)
    assert isinstance(gradient, Model) and gradient.tree.unpack() == expected


def test_two_arguments_are_two_trees() -> None:
    def f(a: Any, b: Any, first: Any) -> Any:
        t = a if first else b
        return total(t) * total(b)
    t = tree(2)
    expected = grad(f)(tree(2), tree(2), True)
    assert grad(f)(t, t, True) == expected
    assert grad(f)(t, t, False).value == 0.0
    both = grad(f, (0, 1))(t, t, False)
    assert both[1].value == pytest.approx(2 * expected.value)


@pytest.mark.slow
def test_higher_orders_and_forward_mode() -> None:
    def one(t: Any) -> Any:
        return total(t) ** 2
    t = tree(2)
    direction = tree(2, np.random.default_rng(1))
    value, tangent = jvp(one, (t,), (direction,))
    gradient = grad(one)(t)
    assert value == pytest.approx(total(t) ** 2)
    pairs = list(zip(nodes(gradient), nodes(direction)))
    assert tangent == pytest.approx(sum(g.value * d.value for g, d in pairs))
    product = hvp(one, (t,), (direction,))
    h = 1e-5
    shifted = [grad(one)(add(t, direction, s)) for s in (h, -h)]
    for p, a, b in zip(nodes(product), *map(nodes, shifted)):
        assert p.value == pytest.approx((a.value - b.value) / (2 * h), rel=1e-6)

    def squared_slope(t: Any) -> Any:
        g = grad(total)(t)
        return g.value ** 2 + g.left.value * g.right.value
    check(squared_slope, t)


def add(t: Any, d: Any, s: float) -> Any:
    return t and Tree(add(t.left, d.left, s), add(t.right, d.right, s), t.value + s * d.value)


# --- pack -------------------------------------------------------------------------------------------

def test_a_packed_value_reads_like_the_value() -> None:
    x = rich(3, "b", rich(4, "a"))
    p = pack(x)
    assert (p.x, p.name, p.below.name, p.below.below, p.pair[0], p.count) == (x.x, "b", "a", None, None, 3)
    np.testing.assert_array_equal(p.below.matrix, x.below.matrix)            # type: ignore[union-attr]
    assert p.area() == x.area() and p.double == x.double and p.below.unpack().x == x.below.x  # type: ignore[union-attr]
    q = pack([ROSE, ROSE.children[1], Rose(1.0)])
    assert (len(q), q[1].value, q[-1].children.unpack(), [r.value for r in q]) == (3, 0.2, [], [0.5, 0.2, 1.0])
    back = q.unpack()
    assert back[0] == ROSE and back[0].children[1] is back[1]
    with pytest.raises(AttributeError):
        p.x = 3.0
    with pytest.raises(IndexError):
        q[3]
    assert pack((1, {"t": ROSE}))[1]["t"].value == 0.5 and pack(3.0) == 3.0


def test_a_packed_list_is_walked_at_run_time() -> None:
    @jit(grad=True)
    def f(roses: Any) -> Any:
        out = 0.0
        for r in roses:
            out += rose_total(r) * len(roses)
        return out + roses[1].value
    for n in (2, 3, 5):
        roses = [ROSE, *(Rose(1.0 + i) for i in range(n - 1))]
        assert f(pack(roses)) == pytest.approx(n * sum(map(rose_total, roses)) + 1.0)
        found = f.grad(pack(roses))
        assert len(found) == n and found[1].value == pytest.approx(n + 1)
    assert f.stats["compilations"] == 1


def test_one_compilation_for_all_sizes() -> None:
    f = jit(total)
    for depth in range(1, 5):
        f(tree(depth))
        f(pack(tree(depth)))
    assert f.stats["compilations"] == 1


def test_cycles() -> None:
    c = Cell(2.0)
    c.tail = Cell(3.0, c)

    def around(c: Any, n: Any) -> Any:
        out = 1.0
        for _ in range(n):
            out *= c.head
            c = c.tail
        return out
    assert jit(around)(c, 5) == 2 * 3 * 2 * 3 * 2
    g = grad(around)(c, 5)
    assert g.tail.tail is g and g.head == pytest.approx(3 * 36)


# --- with the rest of the language ------------------------------------------------------------------

def walks(r: Rose) -> Any:
    out = 0.0
    for i, c in enumerate(r.children):
        out += i * c.value
    for a, b in zip(r.children, reversed(r.children)):
        out += a.value * b.value
    for i in range(len(r.children)):
        out += r.children[i].value
    return out + max(c.value for c in r.children) if r.children else out


def by_match(e: Expr, x: float) -> Any:
    match e:
        case Num(value):
            return value
        case Var(name="x"):
            return x
        case Var():
            return 2 * x
        case Add(left, right):
            return by_match(left, x) + by_match(right, x)
        case Mul(left, Num(value=factor)):
            return by_match(left, x) * factor
        case Mul(left, right):
            return by_match(left, x) * by_match(right, x)


@dataclass
class Phrase:
    label: int
    word: int
    left: Phrase | None = None
    right: Phrase | None = None


def encode(t: Any, net: dict[str, Any]) -> Any:
    if t.left is None:
        return np.tanh(net["words"][t.word])
    left, right = encode(t.left, net), encode(t.right, net)
    return np.tanh(left @ net["left"] + right @ net["right"]) / (1 + np.exp(-np.sum(left * right)))


def loss(phrases: Any, net: dict[str, Any]) -> Any:
    out = 0.0
    for t in phrases:
        scores = encode(t, net)
        out += np.log(np.sum(np.exp(scores))) - scores[t.label]
    return out


def phrase(depth: int) -> Phrase:
    return Phrase(depth % 2, depth, phrase(depth - 1), phrase(max(depth - 2, 0))) if depth else Phrase(0, 0)


@pytest.mark.slow
def test_loops_over_children_and_patterns() -> None:
    check(walks, ROSE)
    check(by_match, EXPRESSION, 1.5)


def test_a_network_over_a_packed_list_of_trees() -> None:
    rng = np.random.default_rng(0)
    net = {"words": rng.normal(size=(5, 3)), "left": rng.normal(size=(3, 3)), "right": rng.normal(size=(3, 3))}
    phrases = [phrase(d) for d in (3, 4, 2)]
    f = jit(loss, grad="net")
    assert f(pack(phrases), net) == pytest.approx(loss(phrases, net), rel=1e-12)
    gradient = f.grad(pack(phrases), net)
    assert gradient["left"][0, 1] == pytest.approx(slope(loss, net["left"], (0, 1), phrases, (net,)), rel=1e-5)
    assert gradient["words"][0, 2] == pytest.approx(slope(loss, net["words"], (0, 2), phrases, (net,)), rel=1e-5)


@pytest.mark.slow
def test_the_differentiation_functions() -> None:
    t = tree(2)
    gradient = grad(total)(t)
    close(jitad.vjp(total, t)[1](1.0)[0], gradient)
    assert jitad.linearize(total, t)[1](t) == pytest.approx(jvp(total, (t,), (t,))[1])
    assert jit(lambda t: jitad.vjp(total, t)[1](2.0)[0].left.value)(t) == pytest.approx(2 * gradient.left.value)
    close(grad(jitad.checkpoint(total))(t), gradient)
    jitad.check_grads(total, (t,))
    jitad.check_grads(evaluate, (EXPRESSION, 1.5))
    np.testing.assert_allclose(jitad.vmap(polynomial, in_axes=(None, 0))(chain(3), np.arange(3.0)),
                               [polynomial(chain(3), x) for x in range(3)])
    with pytest.raises(ValueError, match="a tree of another shape"):
        jvp(total, (Tree(Tree(None, None, 1.0), None, 2.0),), (Tree(None, Tree(None, None, 1.0), 2.0),))
    with pytest.raises(jitad.DifferentiationError, match="a tree for each number"):
        jitad.hessian(total)(t)


def test_trees_from_outside_and_new_ones_with_other_fields() -> None:
    packed, plain = pack(tree(3)), tree(3)
    assert jit(lambda x: total(packed) * x)(2.0) == pytest.approx(2 * total(tree(3)))
    assert jit(lambda x: total(plain) * x)(2.0) == pytest.approx(2 * total(tree(3)))
    assert jit(lambda t: dataclasses.replace(t, value=2.0))(tree(2)) == dataclasses.replace(tree(2), value=2.0)
    assert jit(lambda t: t.left)(pack(tree(1))) is None


def test_calls_with_packed_values_go_to_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    f, p = jit(total), pack(tree(2))
    f(p)
    monkeypatch.setattr("jitad.calling.dispatch.Dispatcher.__call__", None)
    assert f(pack(tree(3))) == pytest.approx(total(tree(3))) and f(p) == pytest.approx(total(tree(2)))


# --- errors -----------------------------------------------------------------------------------------

def test_attributes_that_are_not_there() -> None:
    f = jit(lambda t: t.left.left.value)
    assert f(tree(3)) == tree(3).left.left.value
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'value'"):
        f(tree(2))
    with pytest.raises(AttributeError, match="'Num' object has no attribute 'left'"):
        jit(lambda e: e.left)(Num(2.0)) if isinstance(EXPRESSION, Num) else jit(lambda e: e.right.left.left.value)(
            EXPRESSION)


def test_refusals() -> None:
    with pytest.raises(jitad.UnsupportedError, match="would compare whole trees"):
        jit(lambda a: a.left == a.right)(tree(2))
    with pytest.raises(jitad.TypeInferenceError, match=r"Cell\.head holds complex"):
        jit(polynomial)(Cell(1j), 2.0)                              # type: ignore[arg-type]


def log_product(c: Cell | None) -> Any:
    out = 0.0
    while c is not None:
        out = out + np.log(c.head)
        c = c.tail
    return out


@pytest.mark.slow
def test_a_list_of_a_million_does_not_crash() -> None:
    long = chain(200_000)
    assert jit(log_product)(long) == pytest.approx(sum(math.log1p(i / 200_000) for i in range(200_000)))
    packed = pack(long)
    try:
        jit(polynomial)(packed, 0.5)
    except RecursionError:
        pass
    while long is not None:                          # Python itself would free it by recursion
        long = long.tail


@dataclasses.dataclass
class Methodical:
    v: float
    following: Methodical | None = None

    @jit(grad=True)
    def total(self, k: float = 1.0) -> float:
        return self.v * k + (self.following.total(k) if self.following is not None else 0.0)

    @functools.cached_property
    def doubled(self) -> float:
        return self.v * 2.0

    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    @staticmethod
    def same(x: float) -> float:
        return x

    def scaled(self, k: float) -> float:
        return self.v * k
    thrice = functools.partialmethod(scaled, 3.0)


def test_what_a_packed_value_reads_off_its_class() -> None:
    packed = jitad.pack(Methodical(1.0, Methodical(2.0)))
    assert packed.total() == 3.0 and packed.following.total(2.0) == 4.0 and packed.total.grad().following.v == 1.0
    assert (packed.doubled, packed.kind(), packed.same(5.0), packed.thrice()) == (2.0, "Methodical", 5.0, 3.0)
    several = jitad.pack([Methodical(float(i)) for i in range(4)])
    assert [m.v for m in several[1:]] == [1.0, 2.0, 3.0] and [m.v for m in several[::-2]] == [3.0, 1.0]
    with pytest.raises(TypeError):
        several[0.5]
