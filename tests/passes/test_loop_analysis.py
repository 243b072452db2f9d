"""Analyses that search only where a result can be, against their definitions, on random programs."""

from __future__ import annotations

from collections.abc import Iterator

from jitad.command_line.single_passes import PASSES_BY_NAME
from jitad.ir.graph import Function
from jitad.ir.types import Array
from jitad.ir.uses import array_users, users
from jitad.passes.analysis.cfg import shared_params
from jitad.passes.analysis.loops import Loop, LoopForest, loop_forest
from tests.ir.irgen import generate


def functions() -> Iterator[Function]:
    for seed in range(30):
        module = generate(seed, statements=12)
        yield from module.functions.values()
        PASSES_BY_NAME["cps"](module)
        yield from module.functions.values()


def read_outside(forest: LoopForest, loop: Loop) -> bool:
    return any(v.block in loop.blocks for b in forest.dom.order if b not in loop.blocks
               for op in b.all_ops() for v in op.used())


def test_open_loops_have_values_that_other_blocks_read() -> None:
    found = 0
    for func in functions():
        forest = loop_forest(func)
        expected = {loop for loop in forest.loops if read_outside(forest, loop)}
        assert forest.open_loops() == expected
        found += len(expected)
    assert found > 20


def test_array_users_are_the_users_of_arrays() -> None:
    for func in functions():
        every = users(func.all_ops())
        assert array_users(func.all_ops()) == {v: ops for v, ops in every.items() if isinstance(v.type, Array)}


def test_blocks_that_dominate_no_other_share_no_parameters() -> None:
    for func in functions():
        above = set(loop_forest(func).dom.idom.values())
        assert not shared_params(func, [b for b in func.blocks if b not in above])
