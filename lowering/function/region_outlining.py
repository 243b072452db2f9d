"""Outlines regions of large functions as functions, so that LLVM's time is linear in a function's length.

The time of LLVM's vectoriser and register allocator is a function's length times its loops or its live values.
Therefore a function of more than ``LEAST`` instructions becomes calls of functions with about ``SIZE`` each::

    a: %status1 = call i32 @f.region.1(ptr %ctx, ptr %frame, double %arg0, …)
       br i1 (%status1 = 0), label %b, label %fail
    b: %status2 = call i32 @f.region.2(ptr %ctx, ptr %frame, double %arg0, …)

LLVM's passes run on regions with loops that they may vectorise; for the others only code is generated: our own passes
have simplified them.  For those without loops it is generated in a tenth of the time, without optimisation
(``straight_level`` in ``jit/cpu.py``).

``code_regions`` chooses the regions.  A region includes its first block without the phis, and the phis of the block
behind it.  A value that is used outside of its region has a slot in the frame, which the region writes at its end;
other regions read it at their start, and the code that stays reads it at the start of each block that needs it.  The
values that no region computes are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import chain

from ..builder.function_builder import FunctionBuilder
from ..llvm.code import Fragment, branch, jump, text_of
from ..llvm.emit import global_name
from ..llvm.instruction import Instruction, have_vectors, local_names
from .code_regions import SLOTS, Region, all_loops, edges, may_be_vectorised, regions, split_long_blocks
from .loop_vectors import vectorise_simple_loops

SIZE = 1000
LEAST = 4 * SIZE
LEFT, JOINED = -1, -2           # in place of a region's number: the code that stays, and its phis in slots


def outline_regions(fn: FunctionBuilder) -> bool:
    """Outline the regions of a function that has been written, if it is large; returns False if it stays whole."""
    code = fn.code
    if fn.target.is_gpu or fn.func.name in fn.module.recursive:      # recursion counts on its frames
        return False
    code.close_gaps()
    if sum(len(code.block(label)) for label in code.labels()) <= LEAST:
        return False
    following = edges(code, fn.failure)
    loops, innermost = all_loops(following)
    vectors = {loop[0] for loop in innermost if may_be_vectorised(code, loop)}
    if own := vectorise_simple_loops(fn, sorted(vectors)):
        loops, _ = all_loops(edges(code, fn.failure))
    whole = own.union(*(code.successors(label) for label in own))
    vectors -= whole
    split_long_blocks(code, loops, vectors | whole, SIZE, LEAST)
    found = regions(code, fn.failure, SIZE, LEAST, vectors, whole)
    return len(found) > 1 and _Outlining(fn, found, {loop[0] for loop in loops}, vectors, own).run()


class _Outlining:
    """``made``: for each value that a region computes, the number of the region and the type.

    ``heads``: the first blocks of all loops; ``vectors``: of those that LLVM may vectorise.
    ``slots``: the position in the frame of each value that is used outside of its region.
    ``joined``: the phis outside of regions, except those of loops' heads; they are in slots too, so that none of the
    many values that lead to the reverse sweep is in a register.
    """

    def __init__(self, fn: FunctionBuilder, found: list[Region], heads: Set[str], vectors: Set[str], own: Set[str]
                 ) -> None:
        self.heads, self.vectors, self.own = heads, vectors, own
        self.fn, self.code, self.regions = fn, fn.code, found
        self.inside = {label for region in found for label in region.blocks}
        self.first = {region.blocks[0] for region in found}
        self.made: dict[str, tuple[int, str]] = {}
        for k, region in enumerate(found):
            self._note_values(k, region)
        joins = ({*self.labels_left()} | self.first) - self.heads - {region.after for region in found} - {fn.failure}
        self.joined = {label: fn.code.phis_of(label) for label in sorted(joins)}
        self.made |= {name: (JOINED, type) for phis in self.joined.values() for name, type, _ in phis}
        self.failing: dict[str, list[str]] = {}              # what a block passes to the failure exit
        for _, _, incoming in self.code.phis_of(fn.failure):
            for value, source in incoming:
                self.failing.setdefault(source, []).append(value)
        self.used = [self._names(region) for region in found]
        self.reads = {label: self._names_of([label]) for label in self.labels_left()}
        self.passed = {label: self._passed(label) for label in self.reads}
        outside: list[tuple[int, Iterable[str]]] = [
            *enumerate(self.used), *((LEFT, names) for names in (*self.reads.values(), *self.passed.values())),
            (LEFT, [name for phis in self.joined.values() for name, _, _ in phis])]
        crossing = {name: None for k, names in outside for name in names if self.made.get(name, (k,))[0] != k}
        self.slots = {name: i for i, name in enumerate(sorted(crossing))}
        given = fn.parameters | {"%ctx": "ptr"}
        others = {name for names in self.used for name in names} - self.made.keys() - given.keys()
        self.given = given | fn.code.types_of(others)

    def run(self) -> bool:
        """Outline all regions; False if a value that crosses their bounds has no place in a slot."""
        types = {self.made[name][1] for name in self.slots} | {
            self.given[name] for names in self.used for name in names if name not in self.made}
        if not types <= SLOTS:
            return False
        self.frame = self.code.alloca("i64", max(len(self.slots), 1))
        for label in self.reads:
            self._read(label)
        for label in self.joined:
            self.code.drop_phis(label)
        failing = self.code.take_phis(self.fn.failure, [region.blocks for region in self.regions])
        written: list[list[str]] = [[] for _ in self.regions]
        for name in self.slots:
            if self.made[name][0] >= 0:
                written[self.made[name][0]].append(name)
        for k, region in enumerate(self.regions):
            self._outline(k, region, failing[k], written[k])
        return True

    # --- names ------------------------------------------------------------------------------------

    def labels_left(self) -> list[str]:
        """The blocks outside of regions, in order, so that a program has the same text in each process."""
        return [label for label in self.code.labels() if label not in self.inside]

    def _note_values(self, k: int, region: Region) -> None:
        """Enter the values that a region computes, with their types, into ``made``."""
        for label in (*region.blocks[1:], region.after):
            self.made |= {name: (k, type) for name, type, _ in self.code.phis_of(label)}
        for label in region.blocks:
            self.made |= {i.result: (k, i.type) for i in self.code.block(label) if i.result}

    def _names_of(self, labels: Iterable[str]) -> set[str]:
        """The names that the instructions of some blocks read."""
        return local_names(chain.from_iterable(map(self.code.block, labels)))

    def _names(self, region: Region) -> set[str]:
        """The names that a region reads, those of the phis behind it included."""
        phis = {value for label in (*region.blocks[1:], region.after) for _, _, incoming in self.code.phis_of(label)
                for value, _ in incoming if value[0] == "%"}
        failing = {value for label in region.blocks for value in self.failing.get(label, ()) if value[0] == "%"}
        return self._names_of(region.blocks) | phis | failing

    def _passed(self, label: str) -> set[str]:
        """The values that a block outside of regions passes to phis outside of regions."""
        behind = {s for s in self.code.successors(label) if s not in self.inside or s in self.first}
        return {value for s in behind for _, _, incoming in self.code.phis_of(s) for value, source in incoming
                if source == label and value[0] == "%"}

    # --- regions ----------------------------------------------------------------------------------

    def _outline(self, k: int, region: Region, failing: list[Instruction], written: list[str]) -> None:
        """Move a region into a function of its own.

        ``failing``: the phis of the failure exit for the region alone; ``written``: its values that have a slot.
        """
        code, failure, group, after = self.code, self.fn.failure, region.blocks, region.after
        straight = not any(s in self.heads and s in group for label in group for s in code.successors(label))
        others = [label for label in group if label not in self.own]
        wide = have_vectors(chain.from_iterable(map(code.block, others))) or \
            any(type[0] == "<" for label in others for _, type, _ in code.phis_of(label))
        args = {name: self.given[name] for name in sorted(
            name for name in self.used[k] if name not in self.made and name != "%ctx")}
        begin, end = Fragment(code), Fragment(code)
        for name in sorted(name for name in self.used[k] & self.slots.keys() if self.made[name][0] != k):
            self._load(name, name, begin)
        begin.lines.append(jump(group[0]))
        blocks = [("begin", begin.lines)]
        for label in group:
            blocks.append((label, [*(code.phi_lines(label) if label != group[0] else ()), *code.block(label)]))
        for name in written:
            self._store(name, name, f"{name}.to", end)
        end.lines.append(_returned("0"))
        blocks.append((after, [*code.phi_lines(after), *end.lines]))
        if failing:
            blocks.append((failure, [*failing, _returned(self.fn.status)]))
        writer, args_text = self.fn.writer, "".join(f", {type} {name}" for name, type in args.items())
        symbol = writer.fresh(f"{self.fn.func.name}.region")
        head = f"i32 {global_name(symbol)}(ptr noalias %ctx, ptr {self.frame}{args_text}) " \
               f"nounwind noinline{writer.vector_stack}{self.fn.width}"
        if self.vectors.isdisjoint(group) and not wide:
            writer.finished(symbol, head, blocks, straight)
        else:
            writer.function(symbol, f"define internal {head} {{\n{text_of(blocks)}\n}}\n")
        code.remove(group[1:])
        call = Fragment(code)
        result = call.call("i32", global_name(symbol), ("ptr", "%ctx"), ("ptr", self.frame),
                           *((type, name) for name, type in args.items()), hint="status")
        call.lines.append(branch(call.icmp("ne", "i32", result, "0", hint="failed"), failure, after))
        code.replace(group[0], call.lines)
        code.drop_phis(after)
        code.add_incoming(self.fn.status, result, group[0])

    # --- slots ------------------------------------------------------------------------------------

    def _read(self, label: str) -> None:
        """Load the values of slots that a block outside of regions reads, under names of its own.

        Store what it passes to the phis that are in slots.
        """
        crossing = sorted((self.reads[label] | self.passed[label]) & self.slots.keys())
        names = {name: self.code.fresh("slot") for name in crossing}
        lines = Fragment(self.code)
        for name, local in names.items():
            self._load(name, local, lines)
        *body, last = [i.renamed(names) for i in self.code.block(label)]
        lines.lines += body
        for s in dict.fromkeys(self.code.successors(label)):
            for name, _, incoming in self.joined.get(s, ()):
                value = next(v for v, source in incoming if source == label)
                self._store(name, names.get(value, value), self.code.fresh("slot"), lines)
        lines.lines.append(last)
        self.code.rename_incoming(label, names)
        self.code.replace(label, lines.lines)

    def _store(self, name: str, value: str, at: str, to: Fragment) -> None:
        self._slot(name, at, to)
        to.store(self.made[name][1], value, at)

    def _load(self, name: str, local: str, to: Fragment) -> None:
        self._slot(name, at := f"{local}.at", to)
        to.lines.append(Instruction("load", local, self.made[name][1], (at,), (), "", "8"))

    def _slot(self, name: str, at: str, to: Fragment) -> None:
        slot = str(self.slots[name])
        to.lines.append(Instruction("getelementptr", at, "ptr", (self.frame, slot), ("i64",), "inbounds"))


def _returned(status: str) -> Instruction:
    return Instruction("ret", "", "void", (status,), ("i32",))
