"""Methods that append LLVM's instructions.

A *name* is any LLVM operand as text: ``%v7``, ``0``, ``0x3FF0000000000000``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from .instruction import Instruction

_new = tuple.__new__        # takes half the time of the constructor, which is called for each instruction


class InstructionBuilder(ABC):
    """Appends instructions to ``lines``; each method returns the name of the result."""

    lines: list[Instruction]

    @abstractmethod
    def fresh(self, hint: str = "v") -> str:
        """A new local name."""

    def arith(self, opcode: str, type: str, *operands: str, flags: str = "", hint: str = "v") -> str:
        """An instruction whose operands have the type of its result."""
        name = self.fresh(hint)
        self.lines.append(_new(Instruction, (opcode, name, type, operands, (), flags, "", "", ())))
        return name

    def icmp(self, predicate: str, type: str, x: str, y: str, hint: str = "v") -> str:
        name = self.fresh(hint)
        self.lines.append(_new(Instruction, ("icmp", name, "i1", (x, y), (type,), "", predicate, "", ())))
        return name

    def fcmp(self, predicate: str, type: str, x: str, y: str, hint: str = "v") -> str:
        name = self.fresh(hint)
        self.lines.append(_new(Instruction, ("fcmp", name, "i1", (x, y), (type,), "", predicate, "", ())))
        return name

    def select(self, condition: str, type: str, x: str, y: str, note: str = "", hint: str = "v") -> str:
        name = self.fresh(hint)
        self.lines.append(_new(Instruction, ("select", name, type, (condition, x, y), ("i1",), "", "", note, ())))
        return name

    def cast(self, opcode: str, type: str, x: str, to: str, hint: str = "v") -> str:
        name = self.fresh(hint)
        self.lines.append(_new(Instruction, (opcode, name, to, (x,), (type,), "", "", "", ())))
        return name

    def address(self, type: str, pointer: str, index: int | str, flags: str = "inbounds", hint: str = "v") -> str:
        """The address of element ``index`` of the array at ``pointer``, whose elements are of this type."""
        name = self.fresh(hint)
        self.lines.append(_new(
            Instruction, ("getelementptr", name, "ptr", (pointer, str(index)), (type,), flags, "", "", ())))
        return name

    def load(self, type: str, pointer: str, align: int = 8, note: str = "", hint: str = "v") -> str:
        name = self.fresh(hint)
        self.lines.append(_new(Instruction, ("load", name, type, (pointer,), (), "", str(align), note, ())))
        return name

    def store(self, type: str, x: str, pointer: str, align: int = 8, note: str = "") -> None:
        self.lines.append(_new(Instruction, ("store", "", "void", (x, pointer), (type,), "", str(align), note, ())))

    def call(self, type: str, callee: str, *args: tuple[str, str], flags: str = "", note: str = "", hint: str = "v"
             ) -> str:
        """Call ``callee``; ``args`` are types and names."""
        name, (types, operands) = self.fresh(hint), zip(*args) if args else ((), ())
        self.lines.append(_new(Instruction, ("call", name, type, operands, types, flags, callee, note, ())))
        return name

    def call_void(self, callee: str, *args: tuple[str, str], note: str = "") -> None:
        types, operands = zip(*args) if args else ((), ())
        self.lines.append(_new(Instruction, ("call", "", "void", operands, types, "", callee, note, ())))

    def extract(self, type: str, struct: str, x: str, index: int, hint: str = "v") -> str:
        """Member ``index``, of this type, of a struct."""
        name = self.fresh(hint)
        self.lines.append(Instruction("extractvalue", name, type, (x,), (struct,), "", str(index)))
        return name

    def insert(self, struct: str, x: str, type: str, member: str, index: int, hint: str = "v") -> str:
        """A struct with another member ``index``."""
        name = self.fresh(hint)
        self.lines.append(Instruction("insertvalue", name, struct, (x, member), (type,), "", str(index)))
        return name

    def insert_element(self, type: str, vector: str, of: str, x: str, index: int) -> str:
        """A vector with another element ``index``."""
        name = self.fresh()
        self.lines.append(Instruction("insertelement", name, type, (vector, x, str(index)), (of, "i64")))
        return name

    def extract_element(self, type: str, of: str, vector: str, index: int) -> str:
        name = self.fresh()
        self.lines.append(Instruction("extractelement", name, type, (vector, str(index)), (of, "i64")))
        return name

    def shuffle(self, type: str, of: str, x: str, y: str, mask: str) -> str:
        """Elements of two vectors, whose types are ``of``."""
        name = self.fresh()
        self.lines.append(Instruction("shufflevector", name, type, (x, y), (of,), "", mask))
        return name
