"""Bugs planted in what decides or builds loops are found by the first random programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest
from jitad.lowering.planning import fusion, fusion_groups

from jitad import pipeline
from jitad.errors import JitadError
from jitad.ir.aliasing.live_arrays import LiveArrays
from jitad.ir.graph import Value
from jitad.loop_level.build import nests, shapes, updates
from jitad.loop_level.build.elements import nest
from jitad.loop_level.build.state import State
from tests.ir import irgen
from tests.loop_level.running import same_module

Plant = Callable[[], AbstractContextManager[Any]]
FIRST = 40                # programs; ``test_random_loops`` runs the first ones without a bug


def lost_dependence() -> AbstractContextManager[Any]:
    """A group stays open although an op that follows reads what it computes."""
    return mock.patch.object(fusion_groups, "_must_close", lambda plan, group, op: False)


def stored_too_early() -> AbstractContextManager[Any]:
    """A value is computed where it is read although what it reads was overwritten before."""
    return mock.patch.object(fusion._Planner, "_overwritten", lambda self, op, here, last: [])


def buffer_taken_over() -> AbstractContextManager[Any]:
    """A result takes over a buffer that something reads later."""
    return mock.patch.object(LiveArrays, "shares", lambda self, v: False)


def any_slice_is_a_view() -> AbstractContextManager[Any]:
    """A slice with steps is a view in C order."""
    return mock.patch.object(shapes, "is_contiguous", lambda a, starts, lengths, steps: True)


def one_iteration_less() -> AbstractContextManager[Any]:
    """A nest that stores leaves out the last row."""
    def shorter(fn: State, sizes: Sequence[Value], body: Any, *more: Any, **marks: Any) -> list[Value]:
        if sizes and sizes[0].const is None:
            sizes = [fn.writer.do("sub", [sizes[0], fn.size(1)]).result, *sizes[1:]]
        return nest(fn, sizes, body, *more, **marks)
    return mock.patch.object(nests, "nest", shorter)


def no_sum_in_order() -> AbstractContextManager[Any]:
    """Elements of an updated part are replaced where they should be added to."""
    right = updates.write
    return mock.patch.object(updates, "write", lambda fn, op, b, place, x, add: right(fn, op, b, place, x, False))


BUGS: Sequence[Plant] = (lost_dependence, stored_too_early, buffer_taken_over, any_slice_is_a_view, one_iteration_less,
                         no_sum_in_order)


def programs_until(plant: Plant) -> int | None:
    """The number of random programs until one shows the bug; None if none does."""
    for seed in range(FIRST):
        m = irgen.generate(seed, statements=14, smooth=seed % 2 == 0)
        wrt = [i for i, t in enumerate(irgen.MAIN) if str(t)[0] == "f"]
        root = m.derive("main", "vjp", wrt) if seed % 2 == 0 else "main"
        pipeline.run(m, [root])
        given: list[Any] = irgen.arguments(seed)
        if root != "main":
            given += [given[0], given[1], given[3], given[5]]
        with plant():
            try:
                same_module(m, root, given)
            except (AssertionError, JitadError):
                return seed + 1
    return None


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("plant", BUGS, ids=lambda f: f.__name__)
def test_found(plant: Plant) -> None:
    assert programs_until(plant) is not None
