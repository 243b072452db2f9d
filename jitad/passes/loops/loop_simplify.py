"""Brings one loop into the normal form that ``cps.py`` describes: rotated, one latch, one exit, closed.

If the head ``H`` is a short test that either leaves to ``s`` or enters the body, the loop is rotated::

    before:  … → H ⇄ body, H → s        after:  … → G → P → L ⇄ … H;  G → S → X,  H → E → X → s

    G   guard, a copy of H          L   new head                    E   exit block
    P   preheader                   H   latch                       X   receives the values used after the loop
    S   the edge past the loop

If the loop has other exits, a latch ``T`` comes between ``H`` and ``E``.  Its predecessors pass it a number: −1 for
another iteration, otherwise the number of the exit, by which ``X`` switches.  If the head is no such test, it is not
copied: ``H`` stays the head, and every exit and every back edge goes through ``T``.

The values that an edge passes to ``T`` or ``X`` form a *row*.  The key of a *column* is one of

* ``("next", v, 0)``: ``v`` in the next iteration;
* ``("arg", s, i)``: parameter ``i`` of the exit target ``s``;
* ``("live", v, 0)``: ``v`` itself, which ``s`` or a later block reads.

A column that a row lacks is ``undef``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.clone import clone_blocks
from ...ir.dominance import Dominators
from ...ir.graph import Block, Edge, Value
from ...ir.types import BOOL, I64, Type
from ..analysis.loops import Loop
from .loop_tables import Key, Row, Surroundings, merge_columns

LARGEST_TEST = 40
"""The most ops in a head that is copied to rotate its loop."""

AGAIN = -1
"""The number that a predecessor passes to the latch for another iteration."""


def has_shape(loop: Loop, dom: Dominators) -> bool:
    """True if a closed loop is in normal form; may also be False for some loops in normal form."""
    latch, exit = loop.latch, loop.exit
    return (latch is not None and exit is not None and loop.preheader is not None and latch.term is not None
            and latch.term.name == "branch" and len(dom.preds[exit]) == 1)


@dataclass(eq=False)
class Target:
    """An exit target: the block, its number, and the exit edges that go there, with their sources."""

    block: Block
    code: int
    edges: list[tuple[Block, Edge]] = field(default_factory=list)


@dataclass(eq=False)
class LatchEntry:
    """An edge into the latch ``T``: the edge, the number that it passes, and its row."""

    edge: Edge
    code: int
    row: Row


class LoopShaper:
    """Brings one loop, whose inner loops are in normal form, into normal form."""

    def __init__(self, around: Surroundings, loop: Loop) -> None:
        self.around, self.loop, self.head = around, loop, loop.head
        self.blocks = set(loop.blocks)
        self.region = loop.region(around.raising)
        self.targets = self._targets()
        self.live = self._live()
        self.columns = self._columns()
        self._undefs: dict[tuple[Block, Type], Value] = {}

    def run(self) -> Block:
        """Transform the loop; returns its head, which may be new."""
        if not self.targets:
            self._without_exit()
            return self.head
        latch = self.loop.latch
        sources = {b for t in self.targets for b, _ in t.edges}
        if latch is not None and sources == {latch} and latch.term is not None and latch.term.name == "branch":
            self._rotated_already()
            return self.head
        if self._test_is_short():
            return self._rotate()
        self._by_latch()
        return self.head

    # --- exits ------------------------------------------------------------------------------------

    def _targets(self) -> list[Target]:
        found: dict[Block, Target] = {}
        for b in sorted(self.blocks, key=self.around.number.__getitem__):
            assert b.term is not None
            for e in b.term.edges:
                if e.block not in self.region:
                    target = found.setdefault(e.block, Target(e.block, len(found)))
                    target.edges.append((b, e))
        return list(found.values())

    def _live(self) -> dict[Block, list[Value]]:
        """For each exit target, the values of the loop that it or a later block reads."""
        defined = [v for b in self.blocks for v in (*b.params, *(r for op in b.ops for r in op.results))]
        return {t.block: self.around.live_in(t.block, defined) for t in self.targets}

    def _columns(self) -> dict[Key, Type]:
        columns: dict[Key, Type] = {}
        for t in self.targets:
            for i, p in enumerate(t.block.params):
                if self._fixed(t, i) is None:
                    columns["arg", t.block, i] = p.type
            for v in self.live[t.block]:
                columns["live", v, 0] = v.type
        return columns

    def _fixed(self, target: Target, i: int) -> Value | None:
        """The loop-invariant value that every exit edge passes for parameter ``i``, if there is one."""
        args = {e.args[i] for _, e in target.edges}
        value = next(iter(args))
        return value if len(args) == 1 and value.block not in self.blocks else None

    def _row(self, target: Target, edge: Edge) -> Row:
        """The row that ``X`` receives if the loop is left by ``edge``."""
        row: Row = {key: a for i, a in enumerate(edge.args) if (key := ("arg", target.block, i)) in self.columns}
        row |= {("live", v, 0): v for v in self.live[target.block]}
        return row

    def _args(self, row: Row, undefs_in: Block) -> list[Value]:
        """The arguments for ``X`` that a row gives; ``undef`` ops are put into the block ``undefs_in``."""
        return [row.get(key) or self._undef(undefs_in, t) for key, t in self.columns.items()]

    def _undef(self, block: Block, type: Type) -> Value:
        known = self._undefs.get((block, type))
        if known is None:
            known = self._undefs[block, type] = self.around.emit(block, "undef", [], type, type=type)
        return known

    def _number(self, block: Block, value: int) -> Value:
        return self.around.emit(block, "const", [], I64, value=value, type=I64)

    # --- the shapes -------------------------------------------------------------------------------

    def _without_exit(self) -> None:
        """Transform a loop that never ends: it gets a preheader and one latch."""
        self._preheader()
        edges = self._edges_to_head(inside=True)
        source = self.around.entering[self.head][edges[0]]
        if len(edges) > 1 or source.term is None or source.term.name != "jump":
            latch = self.around.new_block("latch")
            params = [latch.add_param(p.type, p.hint) for p in self.head.params]
            for e in edges:
                self.around.redirect(e, latch, e.args)
            self.around.end(latch, "jump", [], [Edge(self.head, params)])

    def _rotated_already(self) -> None:
        """Transform a rotated loop with one latch: it may lack a preheader, an exit block of its own, or be open."""
        self._preheader()
        target = self.targets[0]
        (_, edge), = target.edges
        if len(self.around.entering[target.block]) == 1 and not any(key[0] == "live" for key in self.columns):
            return
        after, params = self._after()
        row = self._row(target, edge)
        self.around.redirect(edge, after, [row[k] for k in self.columns])
        self._close({}, params)

    def _by_latch(self) -> None:
        """Lead every exit and every back edge through a new latch."""
        preheader = self._preheader()
        after, params = self._after()
        entries = [LatchEntry(e, AGAIN, {("next", p, 0): a for p, a in zip(self.head.params, e.args)})
                for e in self._edges_to_head(inside=True)]
        entries += [LatchEntry(e, t.code, self._row(t, e)) for t in self.targets for _, e in t.edges]
        again: dict[Key, Type] = {("next", p, 0): p.type for p in self.head.params}
        self._latch(preheader, again, self.head, after, entries, None)
        self._close({}, params)

    def _test_is_short(self) -> bool:
        """True if the head is a short test, one side of which leaves the loop."""
        term = self.head.term
        assert term is not None
        stay = [e.block in self.blocks for e in term.edges]
        leaves = any(b is self.head for t in self.targets for b, _ in t.edges)
        return leaves and term.name == "branch" and sum(stay) == 1 and len(self.head.ops) <= LARGEST_TEST

    def _rotate(self) -> Block:
        """Copy the test before the loop.  The old head becomes the latch, or jumps to the latch ``T``."""
        around, latch = self.around, self.head
        assert latch.term is not None
        target, leave = next((t, e) for t in self.targets for b, e in t.edges if b is latch)
        stay = next(e for e in latch.term.edges if e is not leave)
        row = self._row(target, leave)
        others = [LatchEntry(e, t.code, self._row(t, e)) for t in self.targets for _, e in t.edges if e is not leave]
        needed = self._needed(latch, stay, others)
        after, params = self._after()

        new_head = around.new_block("loop")
        self.blocks.add(new_head)
        self.region.add(new_head)
        inner = {v: new_head.add_param(v.type, v.hint) for v in needed}
        around.end(new_head, "jump", [], [Edge(stay.block, [inner.get(v, v) for v in stay.args])])
        preheader = self._guard(new_head, needed, leave, target, row, after)

        if others:
            again: dict[Key, Type] = {("next", v, 0): v.type for v in needed}
            row |= {("next", v, 0): v for v in needed}
            self._latch(preheader, again, new_head, after, others, (leave, target.code, row))
        else:
            around.redirect(stay, new_head, list(needed))
            around.redirect(leave, self._exit_block(after), [row[k] for k in self.columns])
        self._close(inner, params)
        return new_head

    def _needed(self, latch: Block, stay: Edge, others: list[LatchEntry]) -> list[Value]:
        """The values that the old head defines and the rest of the loop reads."""
        read = {*stay.args, *(v for entry in others for v in entry.row.values())}
        defined = [*latch.params, *(r for op in latch.ops for r in op.results)]
        return [v for v in defined if v in read or any(
            op.block in self.region and op.block is not latch for op in self.around.users.get(v, ()))]

    def _guard(self, new_head: Block, needed: list[Value], leave: Edge, target: Target, row: Row,
               after: Block) -> Block:
        """Make the guard, a copy of the old head, and the preheader behind it, which is returned."""
        around, old = self.around, self.head
        assert old.term is not None
        values: dict[Value, Value] = {}
        guard = clone_blocks([old], around.func, values)[old]
        guard.name, guard.term = "guard", None
        around.entering[guard] = {}
        around.lives_as[guard] = old
        for e in self._edges_to_head(inside=False):
            around.redirect(e, guard, e.args)
        for op in guard.ops:
            around.note_uses(op)
        preheader, skip = around.new_block("preheader"), around.new_block("skip")
        condition = old.term.operands[0]
        edges = [Edge(skip if e is leave else preheader) for e in old.term.edges]
        around.end(guard, "branch", [values.get(condition, condition)], edges)
        around.end(preheader, "jump", [], [Edge(new_head, [values[v] for v in needed])])
        code = [self._number(skip, target.code)] if len(self.targets) > 1 else []
        outside = self._args({k: values.get(v, v) for k, v in row.items()}, skip)
        around.end(skip, "jump", [], [Edge(after, code + outside)])
        return preheader

    # --- blocks -----------------------------------------------------------------------------------

    def _edges_to_head(self, inside: bool) -> list[Edge]:
        return [e for e, b in self.around.entering[self.head].items() if (b in self.blocks) is inside]

    def _preheader(self) -> Block:
        """The loop's preheader, which is made if there is none."""
        around, edges = self.around, self._edges_to_head(inside=False)
        source = around.entering[self.head][edges[0]]
        assert source.term is not None
        if len(edges) == 1 and source.term.name == "jump":
            return source
        block = around.new_block("preheader")
        around.lives_as[block] = self.head
        params = [block.add_param(p.type, p.hint) for p in self.head.params]
        for e in edges:
            around.redirect(e, block, e.args)
        around.end(block, "jump", [], [Edge(self.head, params)])
        return block

    def _after(self) -> tuple[Block, Row]:
        """Make ``X``; returns it, and its parameter for each column."""
        around, several = self.around, len(self.targets) > 1
        after = around.new_block("after")
        code = after.add_param(I64, "exit") if several else None
        params: Row = {key: after.add_param(t, key[1].hint if key[0] == "live" else "")
                       for key, t in self.columns.items()}
        edges = [Edge(t.block, [params.get(("arg", t.block, i)) or e.args[i] for i in range(len(t.block.params))])
                 for t in self.targets for _, e in t.edges[:1]]
        if code is None:
            around.end(after, "jump", [], edges)
        elif len(edges) == 2:
            first = around.emit(after, "eq", [code, self._number(after, 0)], BOOL)
            around.end(after, "branch", [first], edges)
        else:
            around.end(after, "switch", [code], edges)
        return after, params

    def _exit_block(self, after: Block) -> Block:
        """Make ``E``, whose only predecessor is the latch."""
        block = self.around.new_block("exit")
        params = [block.add_param(p.type, p.hint) for p in after.params]
        self.around.end(block, "jump", [], [Edge(after, params)])
        return block

    def _latch(self, preheader: Block, again: dict[Key, Type], head: Block, after: Block, entries: list[LatchEntry],
               test: tuple[Edge, int, Row] | None) -> None:
        """Make ``T`` and redirect ``entries`` to it; ``test`` is the old head's exit edge, its number and its row."""
        around, several = self.around, len(self.targets) > 1
        latch = around.new_block("latch")
        self.blocks.add(latch)
        self.region.add(latch)
        signal = latch.add_param(I64 if several else BOOL, "exit" if several else "again")
        rows = [entry.row for entry in entries] + ([test[2]] if test else [])
        groups = merge_columns({**again, **self.columns}, rows)
        params: Row = {}
        for group, t in groups:
            param = latch.add_param(t)
            params |= dict.fromkeys(group, param)

        def passed(row: Row) -> list[Value]:
            return [next((row[k] for k in group if k in row), None) or self._undef(preheader, t) for group, t in groups]

        def signal_for(code: int) -> Value:
            if several:
                return self._number(preheader, code)
            return around.emit(preheader, "const", [], BOOL, value=code == AGAIN, type=BOOL)

        if test is not None:
            self._signal(test[0], signal_for(AGAIN), signal_for(test[1]), latch, passed(test[2]))
        for entry in entries:
            around.redirect(entry.edge, latch, [signal_for(entry.code), *passed(entry.row)])
        go = around.emit(latch, "lt", [signal, self._number(preheader, 0)], BOOL) if several else signal
        exit_block = self._exit_block(after) if test is not None else after
        leaving = ([signal] if several else []) + [params[k] for k in self.columns]
        around.end(latch, "branch", [go], [Edge(head, [params[k] for k in again]), Edge(exit_block, leaving)])

    def _signal(self, leave: Edge, again: Value, out: Value, latch: Block, args: list[Value]) -> None:
        """End the old head by a jump to ``T`` that passes the result of its test."""
        around, head = self.around, self.head
        assert head.term is not None
        condition = head.term.operands[0]
        sides = [out if e is leave else again for e in head.term.edges]
        signal = around.emit(head, "select", [condition, *sides], again.type)
        around.end(head, "jump", [], [Edge(latch, [signal, *args])])

    def _close(self, inner: dict[Value, Value], params: Row) -> None:
        """Close the loop: uses outside it read the parameters of ``X``.

        Uses inside the loop of values that the old head defines read the parameters of the new head.
        """
        outer = {key[1]: p for key, p in params.items() if key[0] == "live"}
        for v in {**inner, **outer}:
            for op in list(self.around.users.get(v, ())):
                inside = op.block in self.region
                new = inner.get(v) if inside and op.block is not self.head else outer.get(v) if not inside else None
                if new is not None:
                    op.replace_uses({v: new})
                    self.around.users.setdefault(new, []).append(op)
