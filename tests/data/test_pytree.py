"""Structures: flattened, rebuilt, compared and hashed."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import pytest

from jitad import pytree

pytestmark = pytest.mark.any_level


class Point(NamedTuple):
    x: float
    y: Any


@dataclasses.dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any
    name: str = "layer"

    def __post_init__(self) -> None:
        if isinstance(self.weight, str):
            raise TypeError("a dataclass may look at its arguments")


TREES: list[Any] = [
    1.5, (), (1.0, 2), [1.0, [2.0, ()]], {"b": 1.0, "a": (2, None)}, None, "text", Point(1.0, [2.0]),
    Layer(1.0, {"k": 2.0}), (Layer([1.0], None), Point(0.0, "s")), [{}, {1: 2.0}],
]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_round_trip(tree: Any) -> None:
    leaves, structure = pytree.flatten(tree)
    assert pytree.unflatten(structure, leaves) == tree
    assert type(pytree.unflatten(structure, leaves)) is type(tree)
    again = pytree.flatten(tree)[1]
    assert structure == again and hash(structure) == hash(again)
    assert structure.count == len(leaves) == len(list(structure.paths()))


def test_leaves_in_order() -> None:
    assert pytree.flatten({"b": 1.0, "a": (2, None, "s")})[0] == [1.0, 2]
    structure = pytree.flatten((Layer(1.0, [2.0]), {"k": 3.0}))[1]
    assert list(structure.paths("p")) == ["p[0].weight", "p[0].bias[0]", "p[1]['k']"]


def test_structures_that_differ() -> None:
    structures = [pytree.flatten(t)[1] for t in TREES]
    structures += [pytree.flatten(t)[1] for t in ({"a": 1.0, "b": (2, None)}, "other", [1.0, 2], Point(1.0, 2.0))]
    assert len(set(structures)) == len(structures)


def test_flat_arguments() -> None:
    args = (1.0, 2, object())
    leaves, structure = pytree.flatten_args(args)
    assert leaves is args and structure == pytree.flatten(args)[1]
    assert pytree.flatten_args((1.0, [2.0]))[1] == pytree.flatten((1.0, [2.0]))[1]


def test_map_keeps_the_structure() -> None:
    tree = (Layer(1.0, [2.0]), {"k": 3.0})
    assert pytree.map_leaves(lambda x, y: x + y, tree, tree) == (Layer(2.0, [4.0]), {"k": 6.0})
    # objects are rebuilt without their constructor, which may check its arguments
    assert pytree.map_leaves(str, Layer(1.0, 2.0)).weight == "1.0"


def test_wrong_number_of_leaves() -> None:
    with pytest.raises(ValueError, match="2 leaves, not 1"):
        pytree.unflatten(pytree.flatten((1, 2))[1], [1])


def test_opaque_dataclasses_are_leaves() -> None:
    @pytree.opaque
    @dataclasses.dataclass(eq=False)
    class Handle:
        x: int
    handle = Handle(1)
    assert pytree.flatten((handle, 2.0))[0] == [handle, 2.0]
