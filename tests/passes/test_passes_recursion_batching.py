"""Products whose vectors a recursion knows on its way down, which are taken ahead of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, interpret, jit, value_and_grad
from jitad.passes.algebra import recursion_batching

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_matrices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small matrices are worth it."""
    monkeypatch.setattr(recursion_batching, "SMALL", 4)
    monkeypatch.setenv("JITAD_OPT", "0")
    yield


def tree_of(n: int) -> Any:
    """The children of ``n`` nodes, in a binary tree of any shape: −1 for none."""
    children = -np.ones((n, 2), np.int64)
    free = [(0, 0), (0, 1)]
    for node in range(1, n):
        place = free.pop(RNG.integers(len(free)))
        children[place] = node
        free += [(node, 0), (node, 1)]
    return children


def plain(w: Any, u: Any, words: Any, tree: Any, i: int) -> Any:
    """A product at what is below a leaf, and one on the way back that stays."""
    if i < 0:
        return np.cos(u @ words[i])
    return np.tanh(w @ plain(w, u, words, tree, tree[i, 0]) - plain(w, u, words, tree, tree[i, 1]))


def before(w: Any, u: Any, words: Any, tree: Any, i: int) -> Any:
    """At every node, before and behind the calls, the matrix on the other side."""
    if i < 0:
        return np.ones(w.shape[0])
    h = np.sin(words[i % len(words)] @ u.T)
    for k in range(2):
        h = h * before(w, u, words, tree, tree[i, k])
    return np.tanh(w @ h) + u @ words[(i + 1) % len(words)]


def several(w: Any, u: Any, words: Any, tree: Any, i: int) -> Any:
    """Two products with one vector, and a decision that only what comes back can make, behind the calls."""
    if tree[i, 0] < 0 or tree[i, 1] < 0:
        x = words[i]
        return np.tanh(u @ x) * (x @ u.T)
    total = several(w, u, words, tree, tree[i, 0]) + several(w, u, words, tree, tree[i, 1])
    if total.sum() > 0:
        total = np.sin(total)
    return w @ total


def paths(w: Any, u: Any, words: Any, tree: Any, i: int) -> Any:
    """What is visited is a choice at each node, and a node may be visited often."""
    if i < 0 or i >= len(tree):
        return np.zeros(w.shape[0])
    total = np.zeros(w.shape[0])
    k = 0
    while k < 2:
        if tree[i, k] >= 0 and (i + k) % 3 != 0:
            total = total + paths(w, u, words, tree, tree[i, k])
        k += 1
    if i % 2 == 0:
        total = np.tanh(w @ total + u @ words[i % len(words)])
    return total


PROGRAMS: dict[str, Callable[..., Any]] = {"plain": plain, "before": before, "several": several, "paths": paths}


def given(n: int, m: int, nodes: int) -> tuple[Any, ...]:
    return RNG.normal(size=(n, n)) / n, RNG.normal(size=(n, m)), RNG.normal(size=(nodes + 1, m)), tree_of(nodes)


def loss_of(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda w, u, words, tree: (f(w, u, words, tree, 0) ** 2).sum()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name, most", [("plain", 2), ("before", 4096), ("several", 3), ("paths", 4096)])
def test_derivatives(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled as differences, of second order in part, as interpreted, and as without the pass; with few rows, too."""
    monkeypatch.setattr(recursion_batching, "MOST", most)
    loss = loss_of(PROGRAMS[name])
    cases = [given(n, m, nodes) for n, m, nodes in ((3, 2, 7), (2, 4, 12))]
    f = value_and_grad(loss, (0, 1, 2))
    found = [f(*args) for args in cases]
    assert f.inspect("cps", *cases[0]).count(".collect(") >= 3, "the pass has found nothing"
    check_grads(loss, cases[0], order=2 if name == "plain" else 1)
    monkeypatch.setattr(recursion_batching, "_groups", lambda down, done: [])
    again = value_and_grad(lambda w, u, words, tree: loss(w, u, words, tree), (0, 1, 2))
    for args, (value, gradient) in zip(cases, found):
        np.testing.assert_allclose(value, interpret(loss, *args), rtol=1e-12)
        for g, e in zip(gradient, again(*args)[1]):
            np.testing.assert_allclose(g, e, rtol=1e-10, atol=1e-12)
    assert ".collect(" not in again.inspect("cps", *cases[0])


def test_the_pass_makes_the_same_in_each_run() -> None:
    """Sets of blocks have an order that depends on addresses."""
    compiled, args, taken = jit(loss_of(several)), given(3, 2, 7), []
    texts = set()
    for n in range(8):
        taken.append([object() for _ in range(37 * n)])
        texts.add(compiled.inspect("cps", *args))
    assert len(texts) == 1


# --- what stays as it is, and what goes wrong --------------------------------------------------------------------


def collects(f: Callable[..., Any], *args: Any) -> bool:
    compiled = jit(f)
    np.testing.assert_allclose(compiled(*args), f(*args), rtol=1e-12)
    return ".collect(" in compiled.inspect("cps", *args)


def test_what_comes_back_is_not_known() -> None:
    """A vector, or a decision before it, that depends on what a call gives back; a loop that visits nothing."""
    w, u, words, tree = given(3, 3, 6)

    def vector(u: Any, i: int) -> Any:
        if i < 0:
            return words[0]
        return np.tanh(u @ vector(u, tree[i, 0]))

    def decision(u: Any, i: int) -> Any:
        if i < 0:
            return words[0]
        below = decision(u, tree[i, 0])
        return np.tanh(u @ words[i]) if below[0] > 0 else below

    def changed(u: Any, i: int) -> Any:
        return words[0] if i < 0 else u @ words[i] + changed(u * 0.5, tree[i, 0])

    def searched(u: Any, i: int) -> Any:
        k = 0
        while words[k, 0] < words[i, 0]:
            k += 1
        return words[0] if i < 0 else u @ words[k] + searched(u, tree[i, 0])

    for f in (vector, decision, changed, searched):
        assert not collects(lambda u, f=f: f(u, 0), u), f.__name__


def test_matrices_that_are_known_to_be_small_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursion_batching, "SMALL", 100)
    args = given(3, 2, 5)
    assert collects(loss_of(plain), *args)               # found small at run time
    assert ".collect(" not in jit(loss_of(plain), static_shapes=True).inspect("cps", *args)


@dataclass
class Node:
    word: int
    left: Node | None = None
    right: Node | None = None


def encode(u: Any, words: Any, t: Node | None) -> Any:
    if t is None:
        return np.ones(len(u))
    return np.tanh(u @ words[t.word]) * encode(u, words, t.left) - encode(u, words, t.right)


@pytest.mark.slow
def test_trees_of_objects() -> None:
    u, words = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2))
    tree = Node(2, Node(1, None, Node(3)), Node(0, Node(2)))
    f = value_and_grad(lambda u, words, t: encode(u, words, t).sum(), (0, 1))
    assert ".collect(" in f.inspect("cps", u, words, tree)
    check_grads(lambda u, words: encode(u, words, tree).sum(), (u, words))
    np.testing.assert_allclose(f(u, words, tree)[0], encode(u, words, tree).sum(), rtol=1e-12)


@pytest.mark.parametrize("bounds", [True, False])
def test_exceptions_come_as_they_did(bounds: bool) -> None:
    """The first of several, also where indices are not checked and only the walk meets a bad one."""
    @jit(boundscheck=bounds)
    def f(u: Any, words: Any, tree: Any, limit: float) -> Any:
        def visit(i: int) -> Any:
            if i < 0:
                return np.ones(len(u))
            h = np.tanh(u @ words[tree[i, 1]])
            if h[0] > limit:
                raise ValueError("too large")
            return h + visit(tree[i, 0])
        return visit(0).sum()

    u, words = np.ones((3, 2)), np.ones((4, 2))
    tree = np.array([[1, 0], [2, 3], [3, 99], [-1, 1]])
    assert ".collect(" in f.inspect("cps", u, words, tree, 2.0)
    with pytest.raises(ValueError, match="too large"):
        f(u, words, tree, 0.5)
    if bounds:
        with pytest.raises(IndexError, match="index 99"):
            f(u, words, tree, 2.0)
    with pytest.raises(ValueError, match="matmul"):
        f(np.ones((3, 3)), words, tree, 2.0)
    tree[2, 1] = 0
    np.testing.assert_allclose(f(u, words, tree, 2.0), 3 + 12 * np.tanh(2.0))
    tree[3, 0] = 0
    with pytest.raises(RecursionError):
        f(u, words, tree, 2.0)


# --- what two walks must decide alike -----------------------------------------------------------------

def rounded(u: Any, words: Any, xs: Any, bs: Any, i: int) -> Any:
    """The last bit decides: machine code may contract ``p + b`` in one function and not in the other."""
    if i < 0:
        return np.zeros(len(u))
    p, h = xs[i] * xs[i], np.zeros(len(u))
    if p + bs[i] > 0.0:
        h = u @ words[i]
    return h * p + rounded(u, words, xs, bs, i - 1)


def test_decisions_by_rounded_numbers_are_made_once() -> None:
    xs = RNG.uniform(1, 2, 40)
    bs = -xs * xs
    bs[::5] += 0.1
    args = RNG.normal(size=(10, 10)), RNG.normal(size=(40, 10)), xs, bs, 39
    assert np.allclose(jit(rounded)(*args), rounded(*args), rtol=1e-12)


def too_deep(u: Any, words: Any, tree: Any, i: int, depth: int, most: int) -> Any:
    if i < 0:
        return np.zeros(len(u))
    if depth > most:
        raise ValueError("too deep")
    h = np.tanh(u @ words[i])
    return h + too_deep(u, words, tree, tree[i, 0], depth + 1, most) + too_deep(u, words, tree, tree[i, 1],
                                                                               depth + 1, most)


def test_the_walk_ends_where_the_program_raises() -> None:
    with pytest.raises(ValueError, match="too deep"):        # 2⁶⁰ visits, were it to go on
        jit(too_deep)(np.ones((10, 10)), np.ones((2, 10)), np.array([[1, 1], [0, 0]]), 0, 0, 60)


def checked_elsewhere(n: int) -> int:
    if n > 60:
        raise ValueError("too deep")
    return checked_elsewhere(n + 1) if n > 50 else 0


def ended_elsewhere(w: Any, x: Any, i: int) -> Any:
    """Nothing but what another function raises ends the recursion."""
    if i < 0:
        return w @ x[0]
    checked_elsewhere(i)
    return ended_elsewhere(w, x, i + 1) * 2.0


def ended_by_a_result(w: Any, x: Any, i: int) -> Any:
    """2⁶⁰ visits, were it not for what is raised behind the first that comes back."""
    if i < 0:
        return w @ x[0]
    if i > 60:
        return np.zeros(len(w))
    if ended_by_a_result(w, x, i + 1)[0] <= 0.0:
        raise ValueError("too small")
    return ended_by_a_result(w, x, i + 1) * 2.0


@pytest.mark.parametrize("f", [ended_elsewhere, ended_by_a_result])
def test_the_walk_ends_where_it_does_not_foresee_what_is_raised(f: Callable[..., Any]) -> None:
    w, x = np.ones((10, 10)), np.ones((2, 10))
    assert ".collect(" in jit(f).inspect("cps", w, x, 0)
    with pytest.raises(ValueError, match="too"):
        jit(f)(w, x, 0)
    assert np.allclose(jit(f)(w, x, -1), 10.0)


def in_a_row(w: Any, x: Any, i: int) -> Any:
    return np.zeros(len(w)) if i <= 0 else w @ x[0] + in_a_row(w, x, i - 1)


@pytest.mark.parametrize("shape", [(1, 9000), (9000, 1)])
def test_long_vectors_are_not_kept(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recursion_batching, "MOST", 7)
    w, x = RNG.normal(size=shape), RNG.normal(size=(1, shape[1]))
    assert np.allclose(jit(in_a_row)(w, x, 12), in_a_row(w, x, 12))
    assert np.allclose(jit(in_a_row)(w[:40, :40].copy(), x[:, :40].copy(), 12), 12 * (w[:40, :40] @ x[0, :40]))
