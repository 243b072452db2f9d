"""The call graph: callees, and the functions that may call themselves."""

from __future__ import annotations

from collections import Counter

from ...ir.dominance import strongly_connected
from ...ir.graph import Module


class CallGraph:
    """The call graph of a module, without derivatives that have not been generated.

    ``order``: the functions, callees before callers.  ``recursive``: those that may reach themselves.
    ``calls``: the number of call sites of each.  ``component``: the strongly connected component of each.
    """

    def __init__(self, module: Module) -> None:
        self.callees: dict[str, list[str]] = {}
        self.calls: Counter[str] = Counter()
        for name, func in module.functions.items():
            names = func.callees()
            self.callees[name] = [n for n in dict.fromkeys(names) if n in module.functions]
            self.calls.update(names)
        self.order: list[str] = []
        self.component: dict[str, int] = {}
        self.recursive: set[str] = set()
        self._find_components()

    def _find_components(self) -> None:
        for number, members in enumerate(reversed(strongly_connected(self.callees, self.callees))):
            self.component.update(dict.fromkeys(members, number))
            self.order += reversed(members)
            if len(members) > 1 or members[0] in self.callees[members[0]]:
                self.recursive.update(members)
