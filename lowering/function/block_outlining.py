"""Outlines parts of long straight-line blocks as functions, so that LLVM's time is linear in a block's length.

For a value that is used far from its definition, LLVM's register allocator examines everything between.  In a long
block the reverse sweep is far from the forward sweep.  Therefore a block of more than ``LEAST`` instructions becomes
calls of functions with about ``SIZE`` instructions each, its *parts*::

    call void @f.part.1(ptr %frame, double %arg0, …)
    call void @f.part.2(ptr %frame, double %arg0, …)
    %slot = getelementptr …
    %v9 = load double, ptr %slot            a value that is used after the parts

``region_outlining`` comes first, and does the same for functions that are not recursive.

A value that one part defines and another reads has a slot in the frame, where the register allocator would have
spilled it as well.  Values defined before the block are arguments.  Blocks in loops are left alone, since LLVM may
vectorise them.

LLVM's passes skip the parts.  Our own passes have simplified straight-line code by then, and the combinations that
remain (a product with a sum, an address with a load) are found by instruction selection.  The code is as fast.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import chain

from ..builder.function_builder import FunctionBuilder
from ..llvm.code import Code, Fragment
from ..llvm.emit import global_name
from ..llvm.instruction import Instruction

SIZE = 1000
LEAST = 4 * SIZE
_IN_A_SLOT = frozenset(("double", "float", "i64", "i32", "i16", "i8", "i1", "ptr"))


def cut_long_blocks(fn: FunctionBuilder) -> None:
    """Outline parts of the long blocks of a function that has been written."""
    code = fn.code
    long = [] if fn.target.is_gpu else [label for label in code.labels() if len(code.block(label)) > LEAST]
    if not long:
        return
    around = _Around(code)
    for label in long:
        if not around.repeats(label):
            _Cut(fn, label, around).run()


class _Around:
    """Facts about all blocks that outlining needs, computed once: what each instruction reads, and the successors.

    ``within``: the names that a block reads; ``blocks``: the number of blocks that read a name, where all phis count as
    one.
    """

    def __init__(self, code: Code) -> None:
        self.following = {label: code.successors(label) for label in code.labels()}
        self.names = {label: [i.reads() for i in code.block(label)] for label in code.labels()}
        self.within = {label: set(chain.from_iterable(lines)) for label, lines in self.names.items()}
        self.blocks = Counter(chain(*self.within.values(), code.values_of_phis()))

    def repeats(self, label: str) -> bool:
        """True if a block is in a loop."""
        seen: set[str] = set()
        todo = [*self.following[label]]
        while todo:
            if (following := todo.pop()) not in seen:
                seen.add(following)
                todo += self.following[following]
        return label in seen

    def reads(self, name: str, label: str) -> bool:
        """True if a value of this block is read in another block, or in a phi."""
        return self.blocks[name] > (name in self.within[label])


class _Cut:
    """The outlining of one block; ``made`` and ``last`` are the lines of a value's definition and last use."""

    def __init__(self, fn: FunctionBuilder, label: str, around: _Around) -> None:
        self.fn, self.code, self.label = fn, fn.code, label
        self.lines = fn.code.block(label)
        self.made = {i.result: k for k, i in enumerate(self.lines) if i.result}
        self.reads = around.names[label]
        self.last = {name: k for k, names in enumerate(self.reads) for name in names}
        self.last |= {name: len(self.lines) for name in self.made if around.reads(name, label)}
        self.types: dict[str, str] = {}          # types of the values that a part takes or leaves
        self.slots: dict[str, int] = {}          # frame slots of the values that cross from one part to another

    def run(self) -> None:
        """Replace the block by calls of its parts, loads of the values that they leave, and the remaining lines."""
        bounds = self._bounds()
        if not bounds:
            return
        before = {name for names in self.reads[:bounds[-1]] for name in names if name not in self.made}
        given = self.fn.parameters | {"%ctx": "ptr"}
        self.types = self.code.types_of(before - given.keys()) | given
        if any(self.types[name] not in _IN_A_SLOT for name in before):
            return
        for name, k in self.made.items():
            part = bisect_right(bounds, k)
            if part < len(bounds) and self.last.get(name, 0) >= bounds[part]:
                self.slots[name] = len(self.slots)
                self.types[name] = self.lines[k].type
        self.frame = self.code.alloca("i64", len(self.slots))
        new = Fragment(self.code)
        for start, end in zip([0, *bounds], bounds):
            self._part(start, end, new)
        for name in self.slots:
            if self.last[name] >= bounds[-1]:
                self._load(name, new)
        self.code.replace(self.label, [*new.lines, *self.lines[bounds[-1]:]])

    def _bounds(self) -> list[int]:
        """The lines at which parts end; the terminator is in no part.  Structs and vectors cross no bound."""
        bounds: list[int] = []
        start = free = 0
        for k, i in enumerate(self.lines):
            if k >= max(start + SIZE, free):
                bounds.append(k)
                start = k
            if i.result and i.type not in _IN_A_SLOT:
                free = max(free, self.last.get(i.result, k) + 1)
        return bounds

    def _part(self, start: int, end: int, caller: Fragment) -> None:
        """Write instructions ``start`` to ``end`` as a function, and its call."""
        body = Fragment(self.code)
        given = {self.frame: "ptr"}
        loaded: set[str] = set()
        for line, names in zip(self.lines[start:end], self.reads[start:end]):
            for name in names:
                if name not in self.made:
                    given[name] = self.types[name]
                elif self.made[name] < start and name not in loaded:
                    loaded.add(name)
                    self._load(name, body)
            body.lines.append(line)
            if line.result in self.slots:
                self._store(line.result, body)
        writer, params = self.fn.writer, ", ".join(f"{t} {name}" for name, t in given.items())
        symbol = writer.fresh(f"{self.fn.func.name}.part")
        head = f"void {global_name(symbol)}({params}) nounwind noinline{writer.vector_stack}"
        body.lines.append(Instruction("ret", "", "void", ()))
        callee = writer.finished(symbol, head, [("entry", body.lines)], straight=True)
        caller.call_void(callee, *((t, name) for name, t in given.items()))

    def _load(self, name: str, to: Fragment) -> None:
        to.lines.append(Instruction("load", name, self.types[name], (self._slot(name, to),), (), "", "8"))

    def _store(self, name: str, to: Fragment) -> None:
        to.store(self.types[name], name, self._slot(name, to))

    def _slot(self, name: str, to: Fragment) -> str:
        at, slot = f"{name}.at", str(self.slots[name])
        to.lines.append(Instruction("getelementptr", at, "ptr", (self.frame, slot), ("i64",), "inbounds"))
        return at
