"""The module into which functions are written, and the facts about all of them that are needed before the first."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Loc
from ...ir.aliasing.alias_classes import class_summaries
from ...ir.graph import Function, Module
from ..llvm.emit import Writer
from ..llvm.target import Target
from ..math.options import Options
from ..planning import run_length

_INLINE = {"always": " alwaysinline", "never": " noinline"}


class ModuleBuilder:
    """The state that the functions of one module share."""

    def __init__(self, module: Module, roots: Sequence[str], target: Target, options: Options) -> None:
        self.module, self.roots, self.target, self.options = module, list(roots), target, options
        self.shortages: dict[tuple[int, Loc], int] = {}      # statuses for a lack of memory or stack, by place
        self.writer = Writer(target.triple, target.layout)
        self.functions: dict[str, Function] = {}
        self.external = module.external                      # functions of other modules, by name
        self.callees: dict[str, set[str]] = {}
        self._reach()
        self.sharing = class_summaries(self.functions)
        self.cut = {op.attrs["callee"] for func in self.functions.values() for op in func.all_ops()
                    if op.name == "call" and "threads" in op.attrs}
        self.shared = self.cut.union(*map(self._below, self.cut))       # functions that run on several threads
        self.recursive = {name for name in self.functions if name in self._below(name)}

    def _reach(self) -> None:
        todo = list(self.roots)
        while todo:
            name = todo.pop()
            if name not in self.functions:
                func = self.functions[name] = self.module.functions[name]
                self.callees[name] = set(func.callees()) - self.external.keys()
                todo += sorted(self.callees[name])

    def _below(self, name: str) -> set[str]:
        """The functions that a call of ``name`` may call, directly or not."""
        seen: set[str] = set()
        todo = list(self.callees[name])
        while todo:
            callee = todo.pop()
            if callee not in seen:
                seen.add(callee)
                todo += self.callees[callee]
        return seen

    def is_called(self, func: Function) -> bool:
        """True if a function of this or of another module calls ``func``, not only entries."""
        return "exported" in func.attrs or any(func.name in callees for callees in self.callees.values())

    def function_attributes(self, func: Function) -> str:
        wish = "never" if func.name in self.cut else func.attrs.get("inline", "")      # those of ``cut`` have two calls
        stack = self.writer.vector_stack
        if stack and run_length.of_function(func) == "short":           # no vectors: a recursion's frames stay small
            stack = ""
        return "nounwind" + stack + _INLINE.get(wish, "")
