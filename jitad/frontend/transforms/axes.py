"""``in_axes`` and ``out_axes``: an axis, ``None``, or a tree of them that is a prefix of the value's tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ... import pytree
from ...pytree import LEAF, Structure

Axis = int | None


@dataclass(frozen=True)
class Axes:
    """A tree of axes, in which ``None`` is a leaf.  Hashable."""

    structure: Structure
    leaves: tuple[Axis, ...]

    @property
    def mapped(self) -> bool:
        return any(a is not None for a in self.leaves)

    def children(self) -> Iterator[Axes]:
        rest = iter(self.leaves)
        for s in self.structure.children:
            yield Axes(s, tuple(next(rest) for _ in range(s.count)))


def parse(axes: Any, what: str) -> Axes:
    """The user's axes as a tree; raises ``TypeError`` for anything but integers and ``None`` in containers."""
    leaves: list[Axis] = []

    def walk(x: Any) -> Structure:
        if x is None or (isinstance(x, int) and not isinstance(x, bool)):
            leaves.append(x)
            return LEAF
        if isinstance(x, str) or not pytree.is_container(x):
            raise TypeError(f"vmap: {what} takes an integer, None, or a tree of them, not {x!r}")
        static, parts = pytree.children(x)
        return Structure(type(x), static, tuple(map(walk, parts)))
    return Axes(walk(axes), tuple(leaves))


def spread(axes: Axes, structure: Structure, what: str) -> list[Axis]:
    """The axis of each leaf of a value; raises ``ValueError`` if the tree of axes does not fit its structure."""
    if axes.structure.is_leaf:
        return list(axes.leaves) * structure.count
    mine, children = axes.structure, structure.children
    alike = mine.type is structure.type or {mine.type, structure.type} == {tuple, list}
    if not alike or len(mine.children) != len(children) or set(mine.static or ()) != set(structure.static or ()):
        raise ValueError(f"vmap: {what} {mine} does not fit {structure}")
    by_key = dict(zip(mine.static or range(len(children)), axes.children()))
    out: list[Axis] = []
    for key, child in zip(structure.static or range(len(children)), children):
        out += spread(by_key[key], child, what)
    return out
