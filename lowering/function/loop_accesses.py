"""Accesses of a simple loop (``loop_vectors.py``), and the question whether two of them may be to one element."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from ..builder.function_builder import FunctionBuilder
from ..llvm.emit import Scopes

SOURCES = 8                 # arrays and phis that are looked at for the sources of one array
_UNKNOWN, _PARAMETER = "unknown", "parameter"       # keys of accesses; names begin with a per cent sign


class Place(NamedTuple):
    """An index that grows or falls by one in each iteration; equal texts are equal indices."""

    name: str                       # in the vector loop, of the first iteration of a vector
    step: int
    text: str


class Access(NamedTuple):
    base: str
    at: str                         # the text of the index
    is_store: bool
    sources: frozenset[str]         # the allocations and parameters of which the base is one, if all are known
    scopes: Scopes

    def keys(self, parameters: Set[str]) -> Set[str]:
        """Two accesses that may meet have a key in common, unless the sources of one are not known."""
        if not self.sources:
            return {_UNKNOWN}
        return self.sources | {_PARAMETER} if self.sources & parameters else self.sources

    def may_meet(self, other: Access, parameters: Set[str]) -> bool:
        """True if the two may access one element in different iterations."""
        if not (self.is_store or other.is_store) or self.base == other.base and self.at == other.at:
            return False
        if self.sources and other.sources and self.sources.isdisjoint(other.sources) and \
                any(parameters.isdisjoint(sources) for sources in (self.sources, other.sources)):
            return False
        return not self.scopes.apart(other.scopes)


def any_meet(accesses: Set[Access], parameters: Set[str]) -> bool:
    """True if two of the accesses may be to one element in different iterations.  Linear if their arrays differ."""
    near: dict[str, list[Access]] = {_UNKNOWN: []}
    for access in accesses:
        for key in access.keys(parameters):
            near.setdefault(key, []).append(access)
    return any(access.may_meet(other, parameters) for access in accesses if access.is_store
               for key in ({_UNKNOWN, *access.keys(parameters)} if access.sources else near) for other in near[key])


class Sources:
    """The allocations and parameters of which an array may be one; two of them that are used at a time do not overlap.

    Parameters may overlap one another.
    """

    def __init__(self, fn: FunctionBuilder) -> None:
        code = fn.code
        self.ends = {name for name, type in fn.parameters.items() if type == "ptr"}
        self.ends |= {i.result for label in code.labels() for i in code.block(label)
                      if i.opcode == "call" and i.detail.startswith("@jitad.reserve")}
        self.phis = {name: [v for v, _ in incoming] for label in code.labels()
                     for name, type, incoming in code.phis_of(label) if type == "ptr"}
        self._known: dict[str, frozenset[str]] = {}

    def of(self, base: str) -> frozenset[str]:
        """The sources of an array; empty if they are not known, or too many."""
        if base not in self._known:
            self._known[base] = self._find(base)
        return self._known[base]

    def _find(self, base: str) -> frozenset[str]:
        found, todo, seen = set[str](), [base], {base}
        while todo:
            if (name := todo.pop()) in self.ends:
                found.add(name)
                continue
            if name not in self.phis or len(seen) > SOURCES:
                return frozenset()
            new = [v for v in self.phis[name] if v not in seen]
            seen.update(new)
            todo += new
        return frozenset(found)
