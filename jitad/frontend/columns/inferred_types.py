"""Fields of recursive classes that are no dataclasses, inferred from what a trace has stored in them.

An object of such a class is traced by its parts, which comes to an end only if the structure is known while tracing.
Where a trace fails that has stored an object in one of its own class, or a class that leads back to it, it is repeated
with these classes as records.  A field that has held ``None`` and nothing else may refer to any of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Union

import numpy as np

from .recursive_types import NoneType

Seen = dict[type, dict[str, dict[type, None]]]
"""The types of the values that each attribute of a class has held; ``object`` for those of no class of the user's."""


def note(seen: Seen, cls: type, name: str, types: Iterable[type]) -> None:
    """Notes the types of a value that is stored in an attribute."""
    if not dataclasses.is_dataclass(cls) and not issubclass(cls, tuple):
        seen.setdefault(cls, {}).setdefault(name, {}).update(dict.fromkeys(types))


def inferred(seen: Seen) -> dict[type, dict[str, Any]]:
    """The types of the fields of classes that refer to each other without end."""
    recursive = [c for c in seen if c in _reach(seen, c)]
    members = dict.fromkeys(recursive)
    for c in recursive:
        for types in seen[c].values():
            if not members.keys().isdisjoint(types):
                members.update(dict.fromkeys(t for t in types if t in seen))
    return {c: {name: _hint(types, tuple(members)) for name, types in seen[c].items()} for c in members}


def _hint(types: dict[type, None], members: tuple[type, ...]) -> Any:
    found = members if types.keys() == {NoneType} else tuple(t for t in types if t in members)
    return Union[(*found, NoneType)] if found else np.ndarray


def _reach(seen: Seen, cls: type) -> set[type]:
    found: set[type] = set()
    todo = [cls]
    while todo:
        for types in seen.get(todo.pop(), {}).values():
            new = {t for t in types if t in seen} - found
            found |= new
            todo += new
    return found
