"""Outlines regions of large functions as functions, so that LLVM's time is linear in a function's length.

The time of LLVM's vectoriser and register allocator is a function's length times its loops or its live values.
Therefore a function of more than ``LEAST`` instructions becomes calls of functions with about ``SIZE`` each::

    a: %status1 = call i32 @f.region.1(ptr %ctx, ptr %frame, double %arg0, …)
       br i1 (%status1 = 0), label %b, label %fail
    b: %status2 = call i32 @f.region.2(ptr %ctx, ptr %frame, double %arg0, …)

A *cut* is a block outside of loops that all paths pass, except those to the failure exit.  A region is the code from
one cut to another; it includes the first one and the phis of the second one.  A value that is used after its region has
a slot in the frame, which the region writes at its end and later regions read at their start.  The values from before
the first cut are arguments.  Code before the first cut, and behind the last one, stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ...ir.dominance import strongly_connected
from ..builder.function_builder import FunctionBuilder
from ..llvm.emit import Code, global_name, result_type

SIZE = 1000
LEAST = 4 * SIZE
SLOTS = frozenset(("double", "float", "i64", "i32", "i16", "i8", "i1", "ptr"))      # types that a slot can hold
_NAME = re.compile(r"%[\w.]+")


def outline_regions(fn: FunctionBuilder) -> None:
    """Outline the regions of a function that has been written, if it is large."""
    code = fn.code
    if fn.target.is_gpu or fn.func.name in fn.module.recursive:      # recursion counts on its frames
        return
    if sum(len(code.lines_of(label)) for label in code.labels()) > LEAST:
        _Outlining(fn).run()


class _Outlining:
    """``groups``: the blocks from each cut to the next one; the first and the last group stay in the function."""

    def __init__(self, fn: FunctionBuilder) -> None:
        self.fn, self.code = fn, fn.code
        blocks = [label for label in self.code.labels() if label != fn.failure]
        self.following = {label: [s for s in self.code.successors(label) if s != fn.failure] for label in blocks}
        self.groups = _joined(self.code, cuts(self.following, "entry"))

    def run(self) -> None:
        regions = self.groups[1:-1]
        if len(regions) < 2 or any(not self._goes_on(group) for group in self.groups[:-1]):
            return
        made = self._made(regions)
        used = [self._used(group, after) for group, after in zip(self.groups, [*self.groups[1:], None])]
        last = {name: k for k, names in enumerate(used) for name in names}
        slots: dict[str, int] = {}
        for name, (k, _) in made.items():
            if last.get(name, 0) > k:
                slots[name] = len(slots)
        given = self.fn.parameters | {"%ctx": "ptr"}
        outside = set().union(*used[1:-1]) - made.keys() - given.keys()
        given |= self.code.types_of(outside)
        if any(made[name][1] not in SLOTS for name in slots) or any(given[name] not in SLOTS for name in outside):
            return
        self.given, self.made, self.slots = given, made, slots
        self.frame = self.code.alloca("i64", max(len(slots), 1))
        for k, (group, after) in enumerate(pairwise(self.groups[1:]), 1):
            self._outline(k, group, after[0], used[k])
        self._read_in_rest(used[-1])

    def _goes_on(self, group: Sequence[str]) -> bool:
        """True if the group is left only towards the next group and the failure exit."""
        return all(self.following[label] or self.code.successors(label) for label in group)

    def _made(self, regions: Sequence[Sequence[str]]) -> dict[str, tuple[int, str]]:
        """The values of regions: the number of the region and the type.  The phis of a cut are made before it."""
        made: dict[str, tuple[int, str]] = {}
        for k, group in enumerate([*regions, self.groups[-1]], 1):
            for label in group:
                if k > 1 or label != group[0]:
                    made |= {name: (k - (label == group[0]), type) for name, type, _ in self.code.phis_of(label)}
                if group is not self.groups[-1]:
                    for line in self.code.lines_of(label):
                        name, is_value, text = line.partition(" = ")
                        if is_value and name[0] == "%":
                            made[name] = k, result_type(text)
        return {name: (k, type) for name, (k, type) in made.items() if k <= len(regions)}

    def _used(self, group: Sequence[str], after: Sequence[str] | None) -> set[str]:
        """The names that the group reads, those of the phis behind it included."""
        names: set[str] = set()
        within = set(group)
        for label in group:
            for line in self.code.lines_of(label):
                names.update(_NAME.findall(line))
        for label in [*group[1:], *(after[:1] if after else ())]:
            names.update(v for _, _, incoming in self.code.phis_of(label) for v, _ in incoming)
        names.update(v for _, _, incoming in self.code.phis_of(self.fn.failure) for v, b in incoming if b in within)
        return {name for name in names if name[0] == "%" and name[1:] not in self.following
                and name[1:] != self.fn.failure}

    def _outline(self, k: int, group: Sequence[str], after: str, used: set[str]) -> None:
        """Move a group into a function of its own."""
        code, failure = self.code, self.fn.failure
        args = {name: self.given[name] for name in sorted(used - self.made.keys() - {"%ctx"})}
        lines = ["begin:"]
        for name in sorted(name for name in used & self.slots.keys() if self.made[name][0] < k):
            lines += self._load(name)
        lines.append(f"br label %{group[0]}")
        status = code.split_phis(failure, set(group))
        for label in group:
            lines += [f"{label}:", *(code.phi_lines(label) if label != group[0] else ()), *code.lines_of(label)]
        lines += [f"{after}:", *code.phi_lines(after)]
        for name, slot in self.slots.items():
            if self.made[name][0] == k:
                lines += [f"{name}.to = getelementptr inbounds i64, ptr {self.frame}, i64 {slot}",
                          f"store {self.made[name][1]} {name}, ptr {name}.to, align 8"]
        lines.append("ret i32 0")
        if status:
            lines += [f"{failure}:", *status, f"ret i32 {self.fn.status}"]
        writer, args_text = self.fn.writer, "".join(f", {type} {name}" for name, type in args.items())
        symbol = writer.fresh(f"{self.fn.func.name}.region")
        head = f"define internal i32 {global_name(symbol)}(ptr noalias %ctx, ptr {self.frame}{args_text}) " \
               f"nounwind noinline{writer.vector_stack}"
        writer.function(symbol, "\n".join([head + " {", *lines, "}\n"]))
        code.remove(group[1:])
        result, failed = code.fresh("status"), code.fresh("failed")
        code.replace(group[0], [
            f"{result} = call i32 {global_name(symbol)}(ptr %ctx, ptr {self.frame}{args_text})",
            f"{failed} = icmp ne i32 {result}, 0", f"br i1 {failed}, label %{failure}, label %{after}"])
        code.drop_phis(after)
        code.add_incoming(self.fn.status, result, group[0])

    def _read_in_rest(self, used: set[str]) -> None:
        """Load the values that the last group reads."""
        head = self.groups[-1][0]
        lines = [line for name in sorted(used & self.slots.keys()) for line in self._load(name)]
        self.code.replace(head, [*lines, *self.code.lines_of(head)])

    def _load(self, name: str) -> list[str]:
        return [f"{name}.at = getelementptr inbounds i64, ptr {self.frame}, i64 {self.slots[name]}",
                f"{name} = load {self.made[name][1]}, ptr {name}.at, align 8"]


def _joined(code: Code, groups: list[list[str]]) -> list[list[str]]:
    """Consecutive groups joined until they have ``SIZE`` instructions; the first and the last are as they were."""
    joined: list[list[str]] = []
    size = SIZE
    for group in groups[1:-1]:
        if size >= SIZE:
            joined.append([])
            size = 0
        joined[-1] += group
        size += sum(len(code.lines_of(label)) for label in group)
    return [*groups[:1], *joined, *groups[-1:]] if len(groups) > 1 else groups


def cuts(following: Mapping[str, Sequence[str]], entry: str) -> list[list[str]]:
    """The reachable blocks in groups: each begins with a block in no loop that all paths pass.

    Edges of blocks that precede it in topological order then lead to that block or to preceding ones.
    """
    groups: list[list[str]] = []
    position: dict[str, int] = {}
    components = strongly_connected(following, [entry])
    for i, component in enumerate(components):
        position |= dict.fromkeys(component, i)
    furthest = 0
    for i, component in enumerate(components):
        alone = len(component) == 1 and component[0] not in following[component[0]]
        if not groups or (alone and furthest <= i):
            groups.append([])
        groups[-1] += component
        furthest = max([furthest, *(position[s] for label in component for s in following[label])])
    return groups
