"""The body of one LLVM function while it is written: basic blocks of instructions.

A *name* is any LLVM operand as text: ``%v7``, ``0``, ``0x3FF0000000000000``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .instruction import Instruction

Phi = tuple[str, str, list[tuple[str, str]]]        # name, type, and values with the blocks that they come from


class InstructionBuilder(ABC):
    """Appends instructions; each method returns the name of the result."""

    @abstractmethod
    def fresh(self, hint: str = "v") -> str:
        """A new local name."""

    @abstractmethod
    def append(self, instruction: Instruction) -> None:
        """Append an instruction."""

    def arith(self, opcode: str, type: str, *operands: str, flags: str = "", hint: str = "v") -> str:
        """An instruction whose operands have the type of its result."""
        self.append(Instruction(opcode, name := self.fresh(hint), type, operands, (), flags))
        return name

    def icmp(self, predicate: str, type: str, x: str, y: str, hint: str = "v") -> str:
        self.append(Instruction("icmp", name := self.fresh(hint), "i1", (x, y), (type,), "", predicate))
        return name

    def fcmp(self, predicate: str, type: str, x: str, y: str, hint: str = "v") -> str:
        self.append(Instruction("fcmp", name := self.fresh(hint), "i1", (x, y), (type,), "", predicate))
        return name

    def select(self, condition: str, type: str, x: str, y: str, note: str = "", hint: str = "v") -> str:
        self.append(Instruction("select", name := self.fresh(hint), type, (condition, x, y), ("i1",), "", "", note))
        return name

    def cast(self, opcode: str, type: str, x: str, to: str, hint: str = "v") -> str:
        self.append(Instruction(opcode, name := self.fresh(hint), to, (x,), (type,)))
        return name

    def address(self, type: str, pointer: str, index: int | str, flags: str = "inbounds", hint: str = "v") -> str:
        """The address of element ``index`` of the array at ``pointer``, whose elements are of this type."""
        name = self.fresh(hint)
        self.append(Instruction("getelementptr", name, "ptr", (pointer, str(index)), (type,), flags))
        return name

    def load(self, type: str, pointer: str, align: int = 8, note: str = "", hint: str = "v") -> str:
        self.append(Instruction("load", name := self.fresh(hint), type, (pointer,), (), "", str(align), note))
        return name

    def store(self, type: str, x: str, pointer: str, align: int = 8, note: str = "") -> None:
        self.append(Instruction("store", "", "void", (x, pointer), (type,), "", str(align), note))

    def call(self, type: str, callee: str, *args: tuple[str, str], flags: str = "", note: str = "", hint: str = "v"
             ) -> str:
        """Call ``callee``; ``args`` are types and names."""
        name = self.fresh(hint)
        self.append(Instruction("call", name, type, tuple([x for _, x in args]), tuple([t for t, _ in args]), flags,
                                callee, note))
        return name

    def call_void(self, callee: str, *args: tuple[str, str]) -> None:
        self.append(Instruction("call", "", "void", tuple([x for _, x in args]), tuple([t for t, _ in args]), "",
                                callee))

    def extract(self, type: str, struct: str, x: str, index: int, hint: str = "v") -> str:
        """Member ``index``, of this type, of a struct."""
        self.append(Instruction("extractvalue", name := self.fresh(hint), type, (x,), (struct,), "", str(index)))
        return name

    def insert(self, struct: str, x: str, type: str, member: str, index: int, hint: str = "v") -> str:
        """A struct with another member ``index``."""
        self.append(Instruction("insertvalue", name := self.fresh(hint), struct, (x, member), (type,), "", str(index)))
        return name

    def insert_element(self, type: str, vector: str, of: str, x: str, index: int) -> str:
        """A vector with another element ``index``."""
        self.append(Instruction("insertelement", name := self.fresh(), type, (vector, x, str(index)), (of, "i64")))
        return name

    def extract_element(self, type: str, of: str, vector: str, index: int) -> str:
        self.append(Instruction("extractelement", name := self.fresh(), type, (vector, str(index)), (of, "i64")))
        return name

    def shuffle(self, type: str, of: str, x: str, y: str, mask: str) -> str:
        """Elements of two vectors, whose types are ``of``."""
        self.append(Instruction("shufflevector", name := self.fresh(), type, (x, y), (of,), "", mask))
        return name


class Code(InstructionBuilder):
    """The body of one function: basic blocks in the order in which they are started.

    ``count`` is the number of names already used by another function, whose names this one must not reuse.
    """

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self._allocas: list[Instruction] = []
        self.at_entry = Fragment(self)               # after the allocas, which are its operands
        self._blocks: dict[str, list[Instruction | Fragment]] = {"entry": []}
        self._phis: dict[str, list[str]] = {"entry": []}
        self._incoming: dict[str, tuple[str, list[tuple[str, str]]]] = {}
        self.here = "entry"
        self.ended = False

    # --- instructions -----------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        self.count += 1
        return f"%{hint}{self.count}"

    def append(self, instruction: Instruction) -> None:
        assert not self.ended, f"{self.here} has ended: {instruction.text()}"
        self._blocks[self.here].append(instruction)

    def gap(self) -> Fragment:
        """A position in the block for instructions that are inserted later."""
        assert not self.ended
        self._blocks[self.here].append(made := Fragment(self))
        return made

    def alloca(self, type: str, count: int = 1, align: int = 8) -> str:
        """Memory in the stack frame, reserved once at entry, so that it can become registers."""
        name = self.fresh("mem")
        what = type if count == 1 else f"[{count} x {type}]"
        self._allocas.append(Instruction("alloca", name, "ptr", (), (what,), "", str(align)))
        return name

    def phi(self, type: str, block: str, hint: str = "p") -> str:
        """A phi at the head of ``block`` whose incoming values ``add_incoming`` sets later."""
        name = self.fresh(hint)
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
        assert self.ended, f"{self.here} runs into {label}"
        self._blocks[label] = []
        self.here, self.ended = label, False

    def terminate(self, instruction: Instruction) -> None:
        """Append the terminator of the current block."""
        self.append(instruction)
        self.ended = True

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

    def labels(self) -> list[str]:
        """The labels of the blocks that have been started."""
        return list(self._blocks)

    def block(self, label: str) -> list[Instruction]:
        """The instructions of a block, without its phis; not to be changed."""
        lines = self._blocks[label]
        if Fragment not in map(type, lines):
            return lines    # type: ignore[return-value]
        return [x for line in lines for x in ([line] if isinstance(line, Instruction) else line.lines)]

    def successors(self, label: str) -> tuple[str, ...]:
        """The labels of a block's successors."""
        last = self._blocks[label][-1]
        return (last if isinstance(last, Instruction) else self.block(label)[-1]).targets

    def is_plain(self, label: str) -> bool:
        """True if the block has no gaps for later instructions."""
        return all(isinstance(line, Instruction) for line in self._blocks[label])

    def drop_phis(self, label: str) -> None:
        """Remove the phis of a block, which must have no readers."""
        for name in self._phis[label]:
            del self._incoming[name]
        self._phis[label] = []

    def replace(self, label: str, lines: Iterable[Instruction]) -> None:
        """Replace the instructions of a block."""
        self._blocks[label] = [*lines]

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
            self._blocks[name] = [*lines[start:end], *([jump(after)] if after else [])]

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

    def append(self, instruction: Instruction) -> None:
        self.lines.append(instruction)


class Assembly(Code):
    """The body of a routine that is written as LLVM assembly.  Nothing can rewrite it."""

    def op(self, text: str, hint: str = "v") -> str:
        """Append ``%new = text`` and return the new name."""
        name = self.fresh(hint)
        self.do(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without result."""
        self.append(_verbatim(text))

    def end(self, text: str) -> None:
        """Append the terminator of the current block."""
        self.terminate(_verbatim(text))


def text_of(blocks: Iterable[tuple[str, Iterable[Instruction]]]) -> str:
    """Labels and instructions as LLVM assembly."""
    out: list[str] = []
    for label, instructions in blocks:
        out.append(f"{label}:")
        out += ["  " + i.text() for i in instructions]
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
