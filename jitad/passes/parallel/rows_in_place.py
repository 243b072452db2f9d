"""Lets a loop that fills a row store to the array of which the row becomes a part, as ``vmap`` of ``vmap`` does not.

::

    ^loop(i, a):                                  ^loop(i, a):
      r0 = empty m                                  jump ^inner(0, a)
      jump ^inner(0, r0)                          ^inner(j, r):
    ^inner(j, r):                       becomes     s = set r, x, i, j
      s = set r, x, j                               branch …, ^inner(j + 1, s), ^after(s)
      branch …, ^inner(j + 1, s), ^after(s)       ^after(t):
    ^after(t):                                      branch …, ^loop(i + 1, t), …
      b = set a, t, i
      branch …, ^loop(i + 1, b), …

The *web* of the row is all values that it has on its way from ``empty`` to where it is stored.  Only stores use them,
and nothing else uses ``a`` meanwhile.  The row has to be made with the sizes of the rows of ``a``, since the check of
them may come after the loop.  On a GPU the inner loop is then for many threads, too, and needs no memory.
"""

from __future__ import annotations

from ...ir.expression_keys import same
from ...ir.graph import Block, Edge, Function, Module, Op, Value
from ...ir.types import Array
from ..analysis.loops import LoopForest, loop_forest


def rows_in_place(module: Module) -> None:
    """Store rows where they belong, in every function."""
    for func in module.functions.values():
        changed = any(isinstance(op.operands[1].type, Array) for op in func.all_ops() if op.name == "set")
        while changed:
            uses, forest = _Uses(func), loop_forest(func)
            rows = [op for b in func.blocks for op in b.ops if op.name == "set" and isinstance(
                op.operands[1].type, Array)]
            changed = any(_Row(func, forest, uses, op).run() for op in rows)


class _Uses:
    """The ops that use each value, and the edges that pass values to block parameters and from them."""

    def __init__(self, func: Function) -> None:
        self.ops: dict[Value, list[Op]] = {}
        self.passed: dict[Value, list[tuple[Edge, Value]]] = {}
        self.sources: dict[Value, list[Value | None]] = {}
        for block in func.blocks:
            for op in block.all_ops():
                for v in op.operands:
                    self.ops.setdefault(v, []).append(op)
                for edge in op.edges:
                    for param, arg in edge.passed():
                        self.passed.setdefault(arg, []).append((edge, param))
                        self.sources.setdefault(param, []).append(arg)
                    for param in edge.block.params[:edge.offset]:
                        self.sources.setdefault(param, []).append(None)          # the result of a call


class _Row:
    """A row that ``final`` stores."""

    def __init__(self, func: Function, forest: LoopForest, uses: _Uses, final: Op) -> None:
        self.func, self.forest, self.uses, self.final = func, forest, uses, final
        self.array, self.row, *self.at = final.operands
        self.web: dict[Value, None] = {}
        self.stores: list[Op] = []
        self.origin: Op | None = None

    def run(self) -> bool:
        """Store its elements in the array, if that is possible."""
        if not self._follow() or self.origin is None or not self._is_ready():
            return False
        for v in self.web:
            v.type = self.array.type
        for op in self.stores:
            op.operands[2:2] = self.at
        replaced = {self.origin.result: self.array, self.final.result: self.row}
        if self.row is self.origin.result:
            replaced[self.final.result] = self.array
        for block in self.func.blocks:
            block.ops = [op for op in block.ops if op is not self.final and op is not self.origin]
            for op in block.all_ops():
                op.replace_uses(replaced)
        return True

    def _follow(self) -> bool:
        """Find the web; False if something else than stores uses it, or it does not begin with ``empty``."""
        todo = [self.row]
        while todo:
            v = todo.pop()
            if v in self.web:
                continue
            self.web[v] = None
            made = v.op
            if made is None:
                sources = self.uses.sources.get(v, [None])
                if None in sources:
                    return False
                todo += [x for x in sources if x is not None]
            elif made.name == "set" and not made.attrs:
                todo.append(made.operands[0])
            elif made.name == "empty" and self.origin in (None, made):
                self.origin = made
            else:
                return False
            for op in self.uses.ops.get(v, ()):
                if op is self.final:
                    if v is not self.row or self.final.operands.count(v) > 1:
                        return False
                elif op.name == "set" and not op.attrs and op.operands.index(v) == 0 and op.operands.count(v) == 1:
                    self.stores += [op] if op not in self.stores else []
                    todo.append(op.result)
                else:
                    return False
            todo += [param for _, param in self.uses.passed.get(v, ())]
        return self.array not in self.web and self.final.result not in self.web

    def _is_ready(self) -> bool:
        """True if the array and the place in it are known where the row begins, and nothing else uses the array."""
        assert self.origin is not None
        start, end = self.origin.block, self.final.block
        if start is None or end is None or self.final.attrs or self.uses.passed.get(self.array):
            return False
        if self.uses.ops.get(self.array) != [self.final] or self.forest.innermost.get(
                start) is not self.forest.innermost.get(end):
            return False
        return all(self._is_before(v, start) for v in (self.array, *self.at)) and self._fits()

    def _fits(self) -> bool:
        """True if the row has the sizes of the array's rows."""
        assert self.origin is not None
        mine, whole = self.origin.operands, self._sizes()
        return len(whole) == len(mine) + len(self.at) and all(map(same, mine, whole[len(self.at):]))

    def _sizes(self) -> list[Value]:
        """The sizes with which the array was made, [] if they are not known."""
        seen, todo, made = set[Value](), [self.array], set[Op]()
        while todo:
            v = todo.pop()
            if v in seen or v is self.final.result:
                continue
            seen.add(v)
            if v.op is None:
                sources = self.uses.sources.get(v, [None])
                todo += [x for x in sources if x is not None]
                if None in sources:
                    return []
            elif v.op.name in ("set", "add_at"):
                todo.append(v.op.operands[0])
            else:
                made.add(v.op)
        op = made.pop() if len(made) == 1 else None
        return [] if op is None or op.name not in ("empty", "fill") else op.operands[op.name == "fill":]

    def _is_before(self, v: Value, start: Block) -> bool:
        if v.block is not start:
            return self.forest.dom.dominates(v.block, start)
        return v.op is None or start.ops.index(v.op) < start.ops.index(self.origin)          # type: ignore[arg-type]
