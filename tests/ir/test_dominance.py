"""Dominators and strongly connected components (``jitad/ir/dominance.py``) by their definitions, on random graphs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from jitad.ir.dominance import dominators, strongly_connected
from jitad.ir.graph import Block, Edge, Function, Op

GRAPHS = range(60)


def random_function(seed: int) -> Function:
    """A function whose blocks lead to none, one or two others."""
    r = random.Random(seed)
    func = Function("f")
    for _ in range(r.randint(1, 9)):
        func.new_block()
    for block in func.blocks:
        targets = r.sample(func.blocks, min(len(func.blocks), r.choice((0, 1, 1, 2, 2))))
        lead(block, targets)
    return func


def lead(block: Block, targets: Sequence[Block]) -> None:
    block.term = Op(("return", "jump", "branch")[len(targets)], (), edges=[Edge(b) for b in targets])


def reached(following: Mapping[Block, Sequence[Block]], start: Block, without: Block | None = None) -> set[Block]:
    found: set[Block] = set()
    todo = [start]
    while todo:
        block = todo.pop()
        if block not in found and block is not without:
            found.add(block)
            todo += following[block]
    return found


@pytest.mark.parametrize("seed", GRAPHS)
def test_a_block_dominates_those_that_cannot_be_reached_without_it(seed: int) -> None:
    func = random_function(seed)
    dom, following = dominators(func), {b: b.successors() for b in func.blocks}
    reachable = reached(following, func.entry)
    assert set(dom.reachable) == reachable
    for a in reachable:
        assert {b for b in reachable if dom.dominates(a, b)} == reachable - reached(following, func.entry, a)


@pytest.mark.parametrize("seed", GRAPHS)
def test_the_tree_has_each_block_below_its_immediate_dominator(seed: int) -> None:
    dom = dominators(random_function(seed))
    walk = dom.preorder()
    assert set(walk) == set(dom.order)
    for block, parent in dom.idom.items():
        if parent is None:
            assert block is dom.order[0]
            continue
        assert block in dom.children[parent] and walk.index(parent) < walk.index(block)
        others = [b for b in dom.order if b is not block and dom.dominates(b, block)]
        assert all(dom.dominates(b, parent) for b in others)
    assert sum(map(len, dom.children.values())) == len(dom.order) - 1


def test_the_tree_is_made_again_only_when_control_flow_has_changed() -> None:
    func = Function("f")
    a, b, c = (func.new_block(name) for name in "abc")
    lead(func.entry, [a, b])
    lead(a, [c])
    lead(b, [c])
    lead(c, [])
    before = dominators(func)
    assert dominators(func) is before and before.idom[c] is func.entry
    lead(a, [b])
    assert dominators(func) is not before and dominators(func).idom[c] is b
    assert b.term is not None
    b.term.edges[0].block = a
    assert dominators(func).idom.keys() == {func.entry, a, b}
    lead(b, [])
    c.term = Op("raise", ())
    changed = dominators(func)
    assert changed.idom.keys() == {func.entry, a, b}
    a.term = Op("raise", ())
    assert dominators(func) is not changed


@pytest.mark.parametrize("seed", GRAPHS)
def test_components_are_what_reaches_one_another(seed: int) -> None:
    func = random_function(seed)
    following = {b: b.successors() for b in func.blocks}
    found = strongly_connected(following, [func.entry])
    assert {b for component in found for b in component} == reached(following, func.entry)
    assert sum(map(len, found)) == len({b for component in found for b in component})
    position = {b: i for i, component in enumerate(found) for b in component}
    for component in found:
        for a in component:
            onward = reached(following, a)
            assert set(component) == {b for b in onward if a in reached(following, b)}
            assert all(position[b] >= position[a] for b in onward)
