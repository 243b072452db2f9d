"""Alias metadata: each access names the class of arrays that it touches, and those that it does not.

Each class of arrays that may live in one buffer has an alias scope (``ir/aliasing/alias_classes.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Value
from ..builder.function_builder import FunctionBuilder

SCOPE_LIMIT = 96
"""The scopes of a function: the list of each names all others, so the metadata grows with the square."""


class AliasNotes:
    """The metadata of one function, made at its first access."""

    def __init__(self, fn: FunctionBuilder) -> None:
        self.fn, self.roots = fn, fn.plan.roots
        self._scopes: dict[Value, tuple[list[str], list[str]]] = {}      # a root → its own scope, the others'
        self._notes: dict[Value, str] = {}

    def note(self, v: Value) -> str:
        """The metadata for a load from or a store to the buffer of ``v``."""
        if not self._notes:
            self._scopes = self._all_scopes()
            self._notes = {root: self.fn.writer.access(*both) for root, both in self._scopes.items()}
        return self._notes.get(self.roots.find(v), "")

    def apart(self, values: Sequence[Value]) -> list[str]:
        """As ``note``, for accesses to parts of buffers that do not overlap in the loop that follows.

        They may overlap across iterations of an enclosing loop.  The scopes are therefore declared here, so that each
        copy of the loop has its own.
        """
        for v in values:
            self.note(v)
        writer = self.fn.writer
        domain = writer.distinct(lambda me: me)
        parts = [writer.distinct(lambda me: f"{me}, {domain}") for _ in values]
        callee = writer.declare("llvm.experimental.noalias.scope.decl", "void", "metadata")
        for part in parts:
            self.fn.code.call_void(callee, ("metadata", writer.node(part)))
        known = [self._scopes.get(self.roots.find(v), ([], [])) for v in values]
        return [writer.access([*own, part], [*others, *(p for p in parts if p is not part)])
                for part, (own, others) in zip(parts, known)]

    def _all_scopes(self) -> dict[Value, tuple[list[str], list[str]]]:
        """For each root its own scope, and those of the roots that it cannot alias; none for roots beyond the limit."""
        writer, alias = self.fn.writer, self.roots
        roots = list(alias.members())[:SCOPE_LIMIT]
        domain = writer.distinct(lambda me: me)
        scopes = {root: writer.distinct(lambda me: f"{me}, {domain}") for root in roots}
        pushed = {root for root in roots if alias.is_pushed(root)}
        popped = {root for root in roots if alias.is_popped(root)}
        found = {}
        for root in roots:
            may = {root} | (popped if root in pushed else pushed if root in popped else set())
            found[root] = [scopes[root]], [s for other, s in scopes.items() if other not in may]
        return found
