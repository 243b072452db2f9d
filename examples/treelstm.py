"""A TreeLSTM, written as a recursive function over child-index arrays.

On syntax trees it learns to tell from which package of the standard library a function comes: the trees
are those of ``ast``, brought to two children a node, and the words are the names of the node types.  On
``sst/array_tree.txt`` it learns the sentiment of every phrase.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from examples.training import Run, adagrad, cli, compare, train
from jitad import jit

Floats = NDArray[Any]
Ints = NDArray[np.int64]


class Tree(NamedTuple):
    """Node 0 is the root; −1 stands for no child, no word, and for a node without a label."""

    labels: Ints
    words: Ints
    left: Ints
    right: Ints


class Net(NamedTuple):
    leaf: Floats            # (3 hidden, embedding): input gate, output gate, candidates
    leaf_bias: Floats
    left: Floats            # (5 hidden, hidden): the same and two forget gates
    right: Floats
    bias: Floats
    out: Floats             # (classes, hidden)
    out_bias: Floats


class NetAndWords(NamedTuple):
    leaf: Floats
    leaf_bias: Floats
    left: Floats
    right: Floats
    bias: Floats
    out: Floats
    out_bias: Floats
    words: Floats           # (vocabulary, embedding)


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def cross_entropy(scores: Floats, target: int) -> float:
    biggest = np.max(scores)
    return np.log(np.sum(np.exp(scores - biggest))) + biggest - scores[target]


def encode(net: Any, words: Floats, tree: Tree, i: int) -> tuple[Floats, Floats, float]:
    """Node ``i``'s hidden state and cell, and the loss of the tree below and at it."""
    n = net.out.shape[1]
    if tree.left[i] < 0:
        gates = net.leaf @ words[tree.words[i]] + net.leaf_bias
        c = sigmoid(gates[:n]) * np.tanh(gates[2 * n:])
        loss = 0.0
    else:
        left_h, left_c, left_loss = encode(net, words, tree, tree.left[i])
        right_h, right_c, right_loss = encode(net, words, tree, tree.right[i])
        gates = net.left @ left_h + net.right @ right_h + net.bias
        c = (sigmoid(gates[:n]) * np.tanh(gates[2 * n:3 * n])
             + sigmoid(gates[3 * n:4 * n]) * left_c + sigmoid(gates[4 * n:]) * right_c)
        loss = left_loss + right_loss
    h = sigmoid(gates[n:2 * n]) * np.tanh(c)
    if tree.labels[i] >= 0:
        loss += cross_entropy(net.out @ h + net.out_bias, tree.labels[i])
    return h, c, loss


@jit(grad=True)
def tree_loss(net: Net, words: Floats, tree: Tree) -> float:
    """With given word vectors."""
    return encode(net, words, tree, 0)[2]


@jit(grad=True)
def tree_and_words_loss(net: NetAndWords, tree: Tree) -> float:
    """With word vectors that are learnt too."""
    return encode(net, net.words, tree, 0)[2]


# --- data -----------------------------------------------------------------------------------------

PACKAGES = ("asyncio", "email", "importlib", "multiprocessing", "xml")


def functions_of(package: str, most: int) -> list[ast.AST]:
    """The syntax trees of a package's functions of middling size, from its source files."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    found: list[ast.AST] = []
    for file in sorted(Path(spec.submodule_search_locations[0]).rglob("*.py")):
        module = ast.parse(file.read_text(encoding="utf-8"))
        found += (f for f in ast.walk(module) if isinstance(f, ast.FunctionDef) and 30 <= size(f) <= 200)
    return found[:most]


def size(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


def binary(node: ast.AST, label: int, vocabulary: dict[str, int]) -> Tree:
    """First child and next sibling, with leaves for the words: node → (word, rest), rest → (child, rest)."""
    rows: list[list[int]] = []

    def add(word: int, children: list[ast.AST]) -> int:
        """A leaf for ``word``, joined with the children from the last to the first."""
        here = len(rows)
        rows.append([-1, -1, -1, -1])
        if not children:
            rows[here][1] = word
            return here
        rows[here][2] = add(word, children[:-1])
        last = children[-1]
        rows[here][3] = add(number(last), list(significant(last)))
        return here

    def number(n: ast.AST) -> int:
        return vocabulary.setdefault(type(n).__name__, len(vocabulary))

    def significant(n: ast.AST) -> Iterator[ast.AST]:
        return (c for c in ast.iter_child_nodes(n) if not isinstance(c, ast.expr_context))

    add(number(node), list(significant(node)))
    rows[0][0] = label
    return Tree(*np.array(rows, dtype=np.int64).T.copy())


def standard_library(most: int = 250) -> tuple[list[Tree], int]:
    """A tree for each function, labelled by its package; and the size of the vocabulary."""
    vocabulary: dict[str, int] = {}
    functions = [(f, label) for label, package in enumerate(PACKAGES) for f in functions_of(package, most)]
    return [binary(f, label, vocabulary) for f, label in functions], len(vocabulary)


def load_sst(path: Path) -> tuple[list[Tree], int]:
    """Lantern's array form of the treebank; and the size of the vocabulary."""
    rows = path.read_text().split("\n")
    trees = []
    for k in range(int(rows[0])):
        trees.append(Tree(*(np.array(rows[2 + 5 * k + j].split(), np.int64) for j in range(4))))
    return trees, 1 + max(int(t.words.max()) for t in trees)


# --- training -------------------------------------------------------------------------------------

def make_net(hidden: int, embedding: int, classes: int, vocabulary: int = 0,
             dtype: Any = np.float32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    shapes = [(3 * hidden, embedding), (3 * hidden,), (5 * hidden, hidden), (5 * hidden, hidden), (5 * hidden,),
              (classes, hidden), (classes,)]
    arrays = [rng.normal(0, 1 / np.sqrt(s[-1]), s) if len(s) == 2 else np.zeros(s) for s in shapes]
    if vocabulary:
        arrays.append(rng.normal(0, 1, (vocabulary, embedding)))
        return NetAndWords(*(a.astype(dtype) for a in arrays))
    return Net(*(a.astype(dtype) for a in arrays))


def run(data: Path | None = None, steps: int = 12_000) -> Run:
    file = data / "sst/array_tree.txt" if data else None
    if file and file.exists():
        trees, vocabulary = load_sst(file)
        net = make_net(150, 300, 5)
        words = np.random.default_rng(1).normal(0, 0.1, (vocabulary, 300)).astype(np.float32)
        what, loss, given = "phrases of the treebank", tree_loss, (words,)
    else:
        trees, vocabulary = standard_library()
        net, what, loss, given = make_net(48, 24, len(PACKAGES), vocabulary), "syntax trees", tree_and_words_loss, ()
    memory = type(net)(*(np.zeros_like(p) for p in net))
    order, mean = np.random.default_rng(0), np.mean([len(t.words) for t in trees])
    chosen = np.concatenate([order.permutation(len(trees)) for _ in range(1 + steps // len(trees))])

    def step(i: int) -> float:
        nonlocal net, memory
        tree = trees[chosen[i]]
        value, gradient = loss.value_and_grad(net, *given, tree)
        net, memory = adagrad(net, gradient, memory, rate=0.05)
        return value / np.sum(tree.labels >= 0)

    value = compare(loss, net, *given, min(trees, key=lambda t: abs(len(t.words) - mean)))
    return train("TreeLSTM", f"{len(trees):,} {what}", steps, step, value)


if __name__ == "__main__":
    cli(run)
