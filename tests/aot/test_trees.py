"""Trees as arguments of C functions: columns, gradients, and references that lead outside."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitad import aot, jit, pack
from jitad.errors import UnsupportedError
from tests.aot.test_c_interface import INDEX, OK, SIZE, run, to, words

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on the path, which links the library")


@dataclass
class Node:
    left: Node | None
    right: Node | None
    word: int
    label: float


def states(net: Any, embedding: Any, t: Node | None) -> Any:
    """A recursive network: the state of a node, and the loss of its subtree."""
    if t is None:
        return np.zeros(len(net)), 0.0
    left, below = states(net, embedding, t.left)
    right, beside = states(net, embedding, t.right)
    h = np.tanh(net @ (left + 0.5 * right) + embedding[t.word])
    return h, below + beside + (np.sum(h) - t.label) ** 2


def tree_loss(net: Any, embedding: Any, t: Node) -> Any:
    return states(net, embedding, t)[1]


class Expr:
    pass


@dataclass
class Num(Expr):
    value: float


@dataclass
class X(Expr):
    pass


@dataclass
class Add(Expr):
    terms: list[Expr]
    scale: np.ndarray


@dataclass
class Mul(Expr):
    a: Expr
    b: Expr


def at(e: Any, x: float) -> Any:
    match e:
        case Num(value):
            return value
        case X():
            return x
        case Mul(a, b):
            return at(a, x) * at(b, x)
        case Add(terms, scale):
            total = 0.0
            for t in terms:
                total += at(t, x)
            return total * np.sum(scale ** 2)


def example() -> Expr:
    shared = Add([Num(2.0), X(), Num(-0.5)], np.array([0.5, 2.0, 1.0]))
    return Mul(Add([shared, Mul(X(), shared), Num(3.0)], np.array([1.5])), Num(0.25))


def members(kind: Any, value: Any) -> tuple[list[Any], list[np.ndarray]]:
    """The words of the struct of a packed value, as 64-bit integers, and the arrays that it refers to."""
    leaves = pack(value)._leaves
    places = [int(x) for x in leaves if not isinstance(x, np.ndarray)]
    arrays = [np.ascontiguousarray(x) for x in leaves if isinstance(x, np.ndarray)]
    return [*places, *(w for a in arrays for w in (a.ctypes.data, len(a)))], arrays


def struct(numbers: list[int]) -> Any:
    return ctypes.byref((ctypes.c_int64 * len(numbers))(*numbers))


def tree() -> Node:
    return Node(Node(None, Node(None, None, 2, 0.5), 0, 1.0), Node(None, None, 1, -1.0), 2, 0.25)


@pytest.mark.slow
def test_a_recursive_network_from_c(tmp_path: Path) -> None:
    aot.build(tmp_path / "libnet.so", [aot.export(tree_loss, ("f64[h, h]", "f64[v, h]", Node), grad=("net", "t"))],
              header=tmp_path / "net.h", blas=False)
    run("gcc", "-g", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
        Path(__file__).parent / "callers" / "tree.c", "-I.", "-L.", "-lnet", "-Wl,-rpath,$ORIGIN", "-o", "tree",
        cwd=tmp_path)
    numbers, errors = run("./tree", cwd=tmp_path).strip().split("\n")
    net, embedding = np.array([[0.5, -0.25], [0.125, 1.0]]), np.arange(6.0).reshape(3, 2) / 4
    value, (by_net, by_tree) = jit(tree_loss, grad=("net", "t")).value_and_grad(net, embedding, tree())
    labels = pack(by_tree)._leaves[-1]
    np.testing.assert_allclose([float(x) for x in numbers.split()], [value, *by_net.ravel(), *labels], rtol=1e-14)
    assert errors == "5 5 5 5 2 1: tree_loss_grad: t.Node_left leads outside the tree"


@pytest.mark.slow
def test_unions_lists_and_arrays(tmp_path: Path) -> None:
    """A tree of several classes, with lists of nodes and arrays in nodes; the example tells the types."""
    aot.build(tmp_path / "libexpr.so", [aot.export(at, (example(), "f64"), grad=(0, 1))], blas=False,
              header=tmp_path / "expr.h")
    loaded = ctypes.CDLL(str(tmp_path / "libexpr.so"))
    value, by_x = np.zeros(1), np.zeros(1)
    given, arrays = members(Expr, example())
    layout = pack(example())._root.layout
    floats = [a for a, c in zip(arrays, layout.columns) if c.dtype.is_float]
    bars = [np.zeros_like(a) for a in floats]
    out = struct([b.ctypes.data for b in bars])
    assert loaded.at_grad(struct(given), ctypes.c_double(0.75), *to(value), out, *to(by_x)) == OK
    expected, (gradient, slope) = jit(at, grad=(0, 1)).value_and_grad(pack(example()), 0.75)
    assert value[0] == expected and by_x[0] == slope
    found = [a for a, c in zip(gradient._leaves[1:], gradient._root.layout.columns) if c.dtype.is_float]
    for bar, wanted in zip(bars, found, strict=True):
        np.testing.assert_array_equal(bar, wanted)
    for k, column in enumerate(layout.columns):                 # no reference, start or size may leave its column
        if not column.structure:
            continue
        for wrong in (1 << 20, -7, (1 << 62) + 1):
            before, arrays[k][-1] = arrays[k][-1], wrong
            code = loaded.at_grad(struct(given), ctypes.c_double(0.75), *to(value), out, *to(by_x))
            assert code & 255 == INDEX, column
            arrays[k][-1] = before
    given[2] += 1
    assert loaded.at_grad(struct(given), ctypes.c_double(0.75), *to(value), out, *to(by_x)) & 255 in (SIZE, INDEX)


@pytest.mark.slow
def test_a_list_of_trees(tmp_path: Path) -> None:
    def all_losses(net: Any, embedding: Any, trees: Any) -> Any:
        total = 0.0
        for t in trees:
            total += states(net, embedding, t)[1]
        return total
    forest = [tree(), Node(None, None, 1, 2.0), tree()]
    aot.build(tmp_path / "libnet.so", [aot.export(all_losses, ("f64[h, h]", "f64[v, h]", forest), grad=0)], blas=False)
    loaded = ctypes.CDLL(str(tmp_path / "libnet.so"))
    rng = np.random.default_rng(0)
    net, embedding, value, bar = rng.normal(size=(2, 2)), rng.normal(size=(3, 2)), np.zeros(1), np.zeros((2, 2))
    given, arrays = members(Node, forest)
    assert loaded.all_losses_grad(*words(net, embedding), struct(given), *to(value, bar)) == OK
    expected, gradient = jit(all_losses, grad=0).value_and_grad(net, embedding, pack(forest))
    assert value[0] == expected
    np.testing.assert_array_equal(bar, gradient)
    for wrong in (-1, len(arrays[-1]) + 1, 1 << 62):
        code = loaded.all_losses_grad(*words(net, embedding), struct([given[0], wrong, *given[2:]]), *to(value, bar))
        assert code & 255 == INDEX


@dataclass
class Named:
    next: Named | None
    name: str


def test_what_is_refused() -> None:
    for kind, said in ((Named, "holds strings"), (Add, "does not tell its type"), (list, "C code cannot pass"),
                       ({"a": 1.0}, "a dict as a dataclass")):
        with pytest.raises(UnsupportedError, match=said):
            aot.build("never.so", [aot.export(lambda t: 1.0, (kind,), name="f")])
    with pytest.raises(UnsupportedError, match="returns a tree"):
        aot.build("never.so", [aot.export(lambda t: t, (Node,), name="f")])
