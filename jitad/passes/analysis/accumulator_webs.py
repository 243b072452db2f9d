"""The path of an accumulator through loops and recursive calls.

A *region* is a loop, or a set of functions that call each other.  A *web* is the set of values that hold one
accumulator inside a region.  Each value of a web is a partial sum: a block parameter, the result of a call, or
``add(sum, term)`` with a term of the kind that the client asks for.  No other op in the region reads a value of the
web, so a client may represent the sum in another form inside the region.  The *border* of the web is the edges and
calls by which the sum enters and leaves the region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.uses import users
from .loops import Loop


class NoWeb(Exception):
    """Another op inside the region reads or makes a partial sum."""


@dataclass
class Web:
    """One accumulator: its ``values`` in the order found, and ``adds``, the ops that add a term."""

    values: dict[Value, None] = field(default_factory=dict)
    adds: dict[Op, None] = field(default_factory=dict)


class Region:
    """The blocks through which a sum is followed, with the edges, calls and uses that connect them.

    ``functions``: by name, the functions of the region, whose calls of each other belong to it; empty for a loop.
    ``calls`` and ``outside``: by callee, the calls from inside and from outside the region.
    """

    def __init__(self, module: Module, blocks: list[Block], functions: list[Function], loop: Loop | None) -> None:
        self.blocks = dict.fromkeys(blocks)
        self.loop = loop
        self.functions = {f.name: f for f in functions}
        self.users: dict[Value, list[Op]] = {}
        self.edges: dict[Block, list[tuple[Block, Edge]]] = {b: [] for b in blocks}
        self.calls: dict[str, list[Op]] = {f.name: [] for f in functions}
        self.outside: dict[str, list[Op]] = {f.name: [] for f in functions}
        self.scanned = set(functions or (blocks[0].func,))
        for func in module.functions.values() if functions else self.scanned:
            self._scan(func)

    @classmethod
    def of_loop(cls, module: Module, loop: Loop) -> Region:
        return cls(module, [b for b in loop.head.func.blocks if b in loop.blocks], [], loop)

    @classmethod
    def of_functions(cls, module: Module, functions: list[Function]) -> Region:
        return cls(module, [b for f in functions for b in f.blocks], functions, None)

    def _scan(self, func: Function) -> None:
        for block in func.blocks:
            term = block.term
            assert term is not None
            if term.name == "call" and term.attrs["callee"] in self.functions:
                (self.calls if block in self.blocks else self.outside)[term.attrs["callee"]].append(term)
            for edge in term.edges:
                if edge.block in self.edges:
                    self.edges[edge.block].append((block, edge))
            if func in self.scanned:
                for v, readers in users(block.all_ops()).items():
                    self.users.setdefault(v, []).extend(dict.fromkeys(readers))

    def web(self, start: Op, is_term: Callable[[Op], bool]) -> Web | None:
        """The web of the sum to which ``start`` adds, or ``None``.  ``is_term(op)``: ``op`` is ``add(sum, term)``."""
        web, todo = Web(), [start.result]
        try:
            while todo:
                v = todo.pop()
                if v not in web.values:
                    web.values[v] = None
                    if v.op is not None and not is_term(v.op):
                        raise NoWeb
                    if v.op is not None:
                        web.adds[v.op] = None
                    todo += self._sources(v)
                    todo += self._readers(v, is_term)
        except NoWeb:
            return None
        return web

    def _sources(self, v: Value) -> Iterator[Value]:
        """The values of the region from which ``v`` comes; values from outside are omitted."""
        if v.op is not None:
            yield v.op.operands[0]
            return
        func = v.block.func
        if v.block is func.entry:
            if func.name not in self.functions:
                raise NoWeb
            yield from (call.operands[v.index] for call in self.calls[func.name])
            return
        for source, edge in self.edges[v.block]:
            if (given := edge.argument(v)) is not None:
                if source in self.blocks:
                    yield given
            else:
                yield from self._returned(source.term, v.index, len(self.edges[v.block]))

    def _returned(self, call: Op | None, index: int, edges: int) -> Iterator[Value]:
        assert call is not None
        callee = self.functions.get(call.attrs["callee"])
        if callee is None or edges != 1:
            raise NoWeb
        for block in callee.blocks:
            if block.term is not None and block.term.name == "return":
                yield block.term.operands[index]

    def _readers(self, v: Value, is_term: Callable[[Op], bool]) -> Iterator[Value]:
        """The values of the region to which ``v`` is passed or added."""
        for op in self.users.get(v, ()):
            if op.block not in self.blocks:
                raise NoWeb
            if op.name == "call":
                yield from self._as_argument(op, v)
            elif op.name == "return":
                yield from self._as_result(op, v)
            elif v in op.operands:
                if not is_term(op) or op.operands.index(v) != 0 or v in op.operands[1:]:
                    raise NoWeb
                yield op.result
            for edge in op.edges:
                for param, arg in edge.passed():
                    if arg is v:
                        if edge.block in self.blocks:
                            yield param
                        elif self.loop is None or edge.block is not self.loop.exit:
                            raise NoWeb

    def _as_argument(self, call: Op, v: Value) -> Iterator[Value]:
        callee = self.functions.get(call.attrs["callee"])
        if v in call.operands:
            if callee is None:
                raise NoWeb
            yield from (p for p, a in zip(callee.params, call.operands) if a is v)

    def _as_result(self, op: Op, v: Value) -> Iterator[Value]:
        assert op.block is not None
        name = op.block.func.name
        if name not in self.functions:
            raise NoWeb
        for call in self.calls[name]:
            yield from (p for p, a in zip(call.edges[0].block.params, op.operands) if a is v)
