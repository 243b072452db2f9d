"""A recursion over a balanced tree of a million nodes, packed once; in C over nodes allocated by malloc."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.case import Bench, Case
from bench.peers.common import add_c, add_ours
from bench.peers.enzyme_peer import add_enzyme
from jitad import pack

TITLE = "A recursion over a tree of a million nodes"


@dataclass
class Tree:
    left: Tree | None
    right: Tree | None
    value: float


def total(t: Tree | None) -> Any:
    if t is None:
        return 1.0
    left, right = total(t.left), total(t.right)
    return 1.0 + t.value * (left + right) - 0.1 * left * right


def tree(depth: int, rng: np.random.Generator) -> Tree | None:
    return Tree(tree(depth - 1, rng), tree(depth - 1, rng), rng.uniform(0.3, 0.5)) if depth else None


def cases(bench: Bench) -> Iterator[Case]:
    depth = 16 if bench.quick else 20
    packed = pack(tree(depth, np.random.default_rng(0)))
    n, (_, left, right, numbers) = 2 ** depth - 1, packed._leaves
    per_node = {"per": n, "unit": "a node"}
    value = bench.case("tree", "value", **per_node)
    add_ours(value, total, lambda f: lambda: f(packed), arrays=False)
    add_c(value, "trees", "trees", n, left, right, numbers)
    add_enzyme(value, "trees", [numbers, left.astype(float), right.astype(float)], sizes={"N": n})
    yield value
    gradient = bench.case("tree", "gradient", steps=n, **per_node)
    bar = np.empty(n)

    def column(found: Any) -> Any:
        return found[0], found[1]._leaves[-1]
    add_ours(gradient, total, lambda f: lambda: column(f.value_and_grad(packed)), arrays=False, grad=True)
    add_c(gradient, "trees", "trees_gradient", n, left, right, numbers, bar, results=lambda v: (v, bar))
    add_enzyme(gradient, "trees", [numbers, left.astype(float), right.astype(float)], sizes={"N": n})
    yield gradient
