"""The call graph: callees, and the functions that may call themselves (Tarjan's strongly connected components)."""

from __future__ import annotations

from collections import Counter

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
            names = [b.term.attrs["callee"] for b in func.blocks if b.term is not None and b.term.name == "call"]
            self.callees[name] = [n for n in dict.fromkeys(names) if n in module.functions]
            self.calls.update(names)
        self.order: list[str] = []
        self.component: dict[str, int] = {}
        self.recursive: set[str] = set()
        self._find_components()

    def _find_components(self) -> None:
        number: dict[str, int] = {}
        low: dict[str, int] = {}
        open_: list[str] = []
        for root in self.callees:
            path = [] if root in number else [(root, iter(self.callees[root]))]
            while path:
                name, rest = path[-1]
                if name not in number:
                    number[name] = low[name] = len(number)
                    open_.append(name)
                for callee in rest:
                    if callee not in number:
                        path.append((callee, iter(self.callees[callee])))
                        break
                    if callee not in self.component:
                        low[name] = min(low[name], number[callee])
                else:
                    path.pop()
                    if path:
                        low[path[-1][0]] = min(low[path[-1][0]], low[name])
                    if low[name] == number[name]:
                        self._close(name, open_, number[name])

    def _close(self, name: str, open_: list[str], number: int) -> None:
        members = open_[open_.index(name):]
        del open_[-len(members):]
        for m in members:
            self.component[m] = number
        self.order += reversed(members)
        if len(members) > 1 or name in self.callees[name]:
            self.recursive.update(members)
