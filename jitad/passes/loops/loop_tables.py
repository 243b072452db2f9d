"""Tables of ``loop_simplify``: uses and edges, kept up to date while loops change, and the merging of columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...ir.aliasing.liveness import Liveness
from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Function, Op, Value
from ...ir.types import Array, Type
from ...ir.uses import users
from ..analysis.cfg import set_term
from ..analysis.loops import raising_blocks

Key = tuple[str, Any, int]
Row = dict[Key, Value]


class Surroundings:
    """Tables that the loops of one level share.

    ``users`` and ``entering`` (the edges into each block, with their sources) are updated with each change.
    Liveness before exits and the set of raising blocks do not change.
    """

    def __init__(self, func: Function, dom: Dominators) -> None:
        self.func, self.number = func, dom.number
        self._liveness = Liveness(func)
        self.lives_as: dict[Block, Block] = {}               # a new block → a block with the same live-in set
        self.raising = raising_blocks(dom)
        self.users = users(func.all_ops())
        self.entering: dict[Block, dict[Edge, Block]] = {b: {} for b in func.blocks}
        for b in func.blocks:
            self._note_edges(b)

    def live_in(self, block: Block, values: Iterable[Value]) -> list[Value]:
        """Those of ``values`` that are live before a block."""
        while block in self.lives_as:
            block = self.lives_as[block]
        return self._liveness.among(values, block)

    def new_block(self, name: str) -> Block:
        block = self.func.new_block(name)
        self.entering[block] = {}
        return block

    def note_uses(self, op: Op) -> None:
        for v in op.used():
            self.users.setdefault(v, []).append(op)

    def redirect(self, edge: Edge, to: Block, args: list[Value]) -> None:
        source = self.entering[edge.block].pop(edge)
        edge.block, edge.args = to, args
        self.entering[to][edge] = source
        assert source.term is not None
        self.note_uses(source.term)

    def end(self, block: Block, name: str, operands: list[Value], edges: list[Edge]) -> None:
        """Set or replace the terminator of a block."""
        for e in block.term.edges if block.term else ():
            del self.entering[e.block][e]
        set_term(block, name, operands, edges)
        assert block.term is not None
        self.note_uses(block.term)
        self._note_edges(block)

    def emit(self, block: Block, name: str, operands: list[Value], result: Type, /, **attrs: Any) -> Value:
        op = Op(name, operands, [result], attrs)
        op.block = block
        block.ops.append(op)
        self.note_uses(op)
        return op.result

    def _note_edges(self, block: Block) -> None:
        assert block.term is not None
        for e in block.term.edges:
            self.entering[e.block][e] = block


def merge_columns(columns: dict[Key, Type], rows: list[Row]) -> list[tuple[list[Key], Type]]:
    """Group the columns that can share one parameter.

    Two columns can if no row has different values for them, and some row has the same value for both.  Two columns of
    one array variable can although no row has both: what the loop leaves with is then where the next iteration has it,
    instead of in an array of its own that the next iteration does not have.
    """
    groups: list[tuple[list[Key], Type]] = []
    merged: list[list[Value | None]] = []
    for key, t in columns.items():
        mine = [row.get(key) for row in rows]
        for (group, other), theirs in zip(groups, merged):
            if other == t and (_alike(mine, theirs) or _one_variable(key, mine, group, theirs)):
                group.append(key)
                theirs[:] = [a or b for a, b in zip(theirs, mine)]
                break
        else:
            groups.append(([key], t))
            merged.append(mine)
    return groups


def _one_variable(key: Key, mine: list[Value | None], group: list[Key], theirs: list[Value | None]) -> bool:
    """True if the columns hold an array of one name, and no row has both."""
    name, array = _variable(key)
    return (array and all(_variable(other) == (name, True) for other in group)
            and not any(x is not None and y is not None for x, y in zip(mine, theirs)))


def _variable(key: Key) -> tuple[str, bool]:
    """The name of the variable that a column holds, and whether it is that of an array."""
    _, holder, number = key
    v = holder.params[number] if isinstance(holder, Block) else holder
    return v.hint, isinstance(v.type, Array) and bool(v.hint)


def _alike(a: list[Value | None], b: list[Value | None]) -> bool:
    pairs = [(x, y) for x, y in zip(a, b) if x is not None and y is not None]
    return bool(pairs) and all(x is y for x, y in pairs)
