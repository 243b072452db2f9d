"""The body of one LLVM function while it is written: basic blocks of instructions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .instruction import Instruction, lines
from .instruction_builder import InstructionBuilder

Phi = tuple[str, str, list[tuple[str, str]]]        # name, type, and values with the blocks that they come from


class _Ended(list[Instruction]):
    """In place of the lines of a block that has its terminator."""

    def append(self, instruction: Instruction) -> None:
        raise AssertionError(f"the block has ended: {instruction.text()}")


_ENDED = _Ended()


class Code(InstructionBuilder):
    """The body of one function: basic blocks in the order in which they are started.

    ``count`` is the number of names already used by another function, whose names this one must not reuse.
    """

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self._allocas: list[Instruction] = []
        self.at_entry = Fragment(self)               # after the allocas, which are its operands
        self.lines = []                              # of the current block, behind its last gap
        self._blocks: dict[str, list[list[Instruction]]] = {"entry": [self.lines]}
        self._phis: dict[str, list[str]] = {"entry": []}
        self._incoming: dict[str, tuple[str, list[tuple[str, str]]]] = {}
        self.here = "entry"

    # --- instructions -----------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        self.count += 1
        return f"%{hint}{self.count}"

    def gap(self) -> Fragment:
        """A position in the block for instructions that are inserted later."""
        assert self.lines is not _ENDED
        made, self.lines = Fragment(self), []
        self._blocks[self.here] += [made.lines, self.lines]
        return made

    def alloca(self, type: str, count: int = 1, align: int = 8) -> str:
        """Memory in the stack frame, reserved once at entry, so that it can become registers."""
        name = self.fresh("mem")
        what = type if count == 1 else f"[{count} x {type}]"
        self._allocas.append(Instruction("alloca", name, "ptr", (), (what,), "", str(align)))
        return name

    def phi(self, type: str, block: str, hint: str = "p", name: str = "") -> str:
        """A phi at the head of ``block`` whose incoming values ``add_incoming`` sets later; ``name``: see ``fresh``."""
        name = name or self.fresh(hint)
        self._phis[block].append(name)
        self._incoming[name] = (type, [])
        return name

    # --- blocks -----------------------------------------------------------------------------------

    def label(self, hint: str = "b") -> str:
        """The label of a block that is started later."""
        self.count += 1
        name = f"{hint}{self.count}"
        self._phis[name] = []
        return name

    def start(self, label: str) -> None:
        """Continue in the block ``label``; the preceding block must have ended."""
        assert self.lines is _ENDED, f"{self.here} runs into {label}"
        self.here, self.lines = label, []
        self._blocks[label] = [self.lines]

    def terminate(self, instruction: Instruction) -> None:
        """Append the terminator of the current block."""
        self.lines.append(instruction)
        self.lines = _ENDED

    def jump(self, label: str, note: str = "") -> None:
        self.terminate(jump(label, note))

    def branch(self, condition: str, then: str, other: str, note: str = "") -> None:
        self.terminate(branch(condition, then, other, note))

    def switch(self, selector: str, labels: Sequence[str]) -> None:
        """Branch to the label with number ``selector``, or to the last one."""
        values = map(str, range(len(labels) - 1))
        self.terminate(Instruction("switch", "", "void", (selector, *values), (), "", "", "", tuple(labels)))

    def ret(self, type: str = "void", x: str = "") -> None:
        self.terminate(Instruction("ret", "", "void", (x,) if x else (), (type,)))

    def add_incoming(self, phi: str, value: str, block: str | None = None) -> None:
        """Set the value of ``phi`` on the edge from ``block``, by default the current one."""
        self._incoming[phi][1].append((value, block or self.here))

    # --- complete blocks ----------------------------------------------------------------------------

    def types_of(self, names: Iterable[str]) -> dict[str, str]:
        """The LLVM types of those names that are values of this function, except parameters."""
        wanted = set(names)
        found = {name: type for name, (type, _) in self._incoming.items() if name in wanted}
        return found | {i.result: i.type for i in self.instructions() if i.result in wanted}

    def instructions(self) -> Iterator[Instruction]:
        """All instructions but phis."""
        yield from self._allocas
        yield from self.at_entry.lines
        for label in self._blocks:
            yield from self.block(label)

    def close_gaps(self) -> None:
        """Join the parts of each block, when nothing will be inserted any longer."""
        for label, parts in self._blocks.items():
            if len(parts) > 1:
                self._blocks[label] = [self.block(label)]

    def labels(self) -> list[str]:
        """The labels of the blocks that have been started."""
        return list(self._blocks)

    def block(self, label: str) -> list[Instruction]:
        """The instructions of a block, without its phis; not to be changed."""
        parts = self._blocks[label]
        return parts[0] if len(parts) == 1 else [i for part in parts for i in part]

    def successors(self, label: str) -> tuple[str, ...]:
        """The labels of a block's successors."""
        return self._blocks[label][-1][-1].targets

    def is_plain(self, label: str) -> bool:
        """True if the block has no gaps for later instructions."""
        return len(self._blocks[label]) == 1

    def drop_phis(self, label: str) -> None:
        """Remove the phis of a block, which must have no readers."""
        for name in self._phis[label]:
            del self._incoming[name]
        self._phis[label] = []

    def replace(self, label: str, lines: Iterable[Instruction]) -> None:
        """Replace the instructions of a block."""
        self._blocks[label] = [made := [*lines]]
        if label == self.here and self.lines is not _ENDED:
            self.lines = made

    def remove(self, labels: Iterable[str]) -> None:
        """Remove blocks, to which nothing may lead any longer."""
        for label in labels:
            self.drop_phis(label)
            del self._blocks[label], self._phis[label]

    def phis_of(self, label: str) -> list[Phi]:
        """The phis of a block."""
        return [(name, *self._incoming[name]) for name in self._phis[label]]

    def phi_lines(self, label: str) -> list[Instruction]:
        """The phis of a block as instructions."""
        return [_phi(*phi) for phi in self.phis_of(label)]

    def values_of_phis(self) -> set[str]:
        """The values that phis read."""
        return {value for _, incoming in self._incoming.values() for value, _ in incoming}

    def take_phis(self, label: str, groups: Sequence[Iterable[str]]) -> list[list[Instruction]]:
        """Take the values that come from groups of blocks out of the phis of a block.

        Returns phis of these alone, for each group.
        """
        group_of = {b: k for k, blocks in enumerate(groups) for b in blocks}
        found: list[list[Instruction]] = [[] for _ in groups]
        for name, type, incoming in self.phis_of(label):
            taken: dict[int, list[tuple[str, str]]] = {}
            for v, b in incoming:
                if b in group_of:
                    taken.setdefault(group_of[b], []).append((v, b))
            for k, values in taken.items():
                found[k].append(_phi(name, type, values))
            incoming[:] = [(v, b) for v, b in incoming if b not in group_of]
        return found

    def split(self, label: str, bounds: Sequence[int]) -> None:
        """Split a block before the instructions with these numbers."""
        lines, labels = self.block(label), [label, *(self.label("piece") for _ in bounds)]
        self.redirect_phis(label, labels[-1])
        for name, start, end, after in zip(labels, [0, *bounds], [*bounds, len(lines)], [*labels[1:], ""]):
            self._blocks[name] = [[*lines[start:end], *([jump(after)] if after else [])]]

    def redirect_phis(self, source: str, new: str) -> None:
        """Let the phis behind the block ``source`` take its values from another one."""
        for s in dict.fromkeys(self.successors(source)):
            for _, _, incoming in self.phis_of(s):
                incoming[:] = [(v, new if b == source else b) for v, b in incoming]

    def rename_incoming(self, source: str, names: Mapping[str, str]) -> None:
        """Rename values that come from the block ``source`` in the phis of its successors."""
        for label in dict.fromkeys(self.successors(source)):
            for _, _, incoming in self.phis_of(label):
                incoming[:] = [(names.get(v, v) if b == source else v, b) for v, b in incoming]

    def text(self) -> str:
        """All blocks as LLVM assembly."""
        first = [*self._allocas, *self.at_entry.lines]
        return text_of((label, [*(first if label == "entry" else ()), *self.phi_lines(label), *self.block(label)])
                       for label in self._blocks)


class Fragment(InstructionBuilder):
    """Instructions that have no place in a block yet, or a place that is known before they are."""

    def __init__(self, code: Code) -> None:
        self.code, self.lines = code, list[Instruction]()

    def fresh(self, hint: str = "v") -> str:
        return self.code.fresh(hint)


class Assembly(Code):
    """The body of a routine that is written as LLVM assembly.  Nothing can rewrite it."""

    def op(self, text: str, hint: str = "v") -> str:
        """Append ``%new = text`` and return the new name."""
        name = self.fresh(hint)
        self.do(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without result."""
        self.lines.append(_verbatim(text))

    def end(self, text: str) -> None:
        """Append the terminator of the current block."""
        self.terminate(_verbatim(text))


def text_of(blocks: Iterable[tuple[str, Iterable[Instruction]]]) -> str:
    """Labels and instructions as LLVM assembly."""
    out: list[str] = []
    for label, instructions in blocks:
        out.append(f"{label}:")
        out += lines(instructions)
    return "\n".join(out)


def jump(label: str, note: str = "") -> Instruction:
    return Instruction("br", "", "void", (), (), "", "", note, (label,))


def branch(condition: str, then: str, other: str, note: str = "") -> Instruction:
    return Instruction("br", "", "void", (condition,), (), "", "", note, (then, other))


def _phi(name: str, type: str, incoming: Sequence[tuple[str, str]]) -> Instruction:
    return Instruction("phi", name, type, tuple([v for v, _ in incoming]), (), "", "", "",
                       tuple([b for _, b in incoming]))


def _verbatim(text: str) -> Instruction:
    return Instruction("", "", "void", (), (), "", text)
