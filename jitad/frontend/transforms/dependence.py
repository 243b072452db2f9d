"""Analysis of which results of a function may depend on which arguments, by value or by the path taken."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.graph import Block, Function, Module, Value

Call = tuple[str, frozenset[int]]                  # a function, and the numbers of the arguments in question


def dependent_results(module: Module, name: str, args: Iterable[int]) -> set[int]:
    """The results of ``@name`` that may depend on the arguments with these numbers."""
    known: dict[Call, set[int]] = {}
    while True:                                      # fixed point over all functions, from "depends on nothing" upwards
        sweep = _Sweep(module, known)
        out = sweep.results(name, frozenset(args))
        if sweep.found == known:
            return out
        known = sweep.found


class _Sweep:
    """One pass over the functions, which uses the results of the previous pass for recursive calls."""

    def __init__(self, module: Module, before: dict[Call, set[int]]) -> None:
        self.module, self.before = module, before
        self.found: dict[Call, set[int]] = {}

    def results(self, name: str, args: frozenset[int]) -> set[int]:
        key = name, args
        if key in self.found:
            return self.found[key] | self.before.get(key, set())
        func = self.module.functions.get(name)
        if func is None:
            return self._derived(name) if args else set()
        self.found[key] = set()
        self.found[key] = self._in(func, args)
        return self.found[key]

    def _derived(self, name: str) -> set[int]:
        """All results of a derived function that has not been made yet."""
        base = self.module.functions[self.module.derived[name].base]
        return set(range(2 * len(base.result_types) + len(base.params) + 1))

    def _in(self, func: Function, args: frozenset[int]) -> set[int]:
        """The dependent results; after a condition that depends on the arguments, all block arguments do too."""
        depends: set[Value] = {func.params[i] for i in args}
        diverted, before = False, (-1, False)
        while (len(depends), diverted) != before:
            before = len(depends), diverted
            for block in func.blocks:
                if diverted and block is not func.entry:
                    depends.update(block.params)
                diverted = self._through(block, depends) or diverted
        returns = [b.term for b in func.blocks if b.term is not None and b.term.name == "return"]
        chosen = diverted and len(returns) > 1
        return {i for op in returns for i, v in enumerate(op.operands) if chosen or v in depends}

    def _through(self, block: Block, depends: set[Value]) -> bool:
        """Adds the values of a block that depend on the arguments; returns True if its branch condition does."""
        for op in block.all_ops():
            if not depends.isdisjoint(op.operands):
                depends.update(op.results)
        term = block.term
        if term is None:
            return False
        for edge in term.edges:
            depends.update(p for p, a in edge.passed() if a in depends)
            if term.name == "call":
                of = frozenset(i for i, v in enumerate(term.operands) if v in depends)
                depends.update(edge.block.params[i] for i in self.results(term.attrs["callee"], of) if i < edge.offset)
        return term.name in ("branch", "switch") and not depends.isdisjoint(term.operands)
