"""Instructions of LLVM IR as records, which are printed when a function is complete.

What rewrites a function that has been written (``function/region_outlining.py``, ``function/loop_vectors.py``, …)
reads and changes these records, never their text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple


class Instruction(NamedTuple):
    """One instruction of LLVM IR.

    ``result`` and the ``operands`` are names: ``%v7``, ``0``, ``@jitad.reserve``.  ``type`` is the result's, ``void``
    without one.  ``types``: the operands' types where the instruction states them and the result's does not imply them;
    of an address the element's.  ``flags``: fast-math flags and the like.  ``detail``: the predicate of a comparison,
    the alignment of an access, the function that is called, the index of a struct's member, the mask of a shuffle.
    ``notes``: metadata and attributes, as they stand behind the instruction.  ``targets``: the labels of a terminator.
    """

    opcode: str
    result: str
    type: str
    operands: tuple[str, ...]
    types: tuple[str, ...] = ()
    flags: str = ""
    detail: str = ""
    notes: str = ""
    targets: tuple[str, ...] = ()

    def text(self) -> str:
        """The instruction as LLVM assembly."""
        return lines([self])[0].strip()

    def reads(self) -> list[str]:
        """The local values that it reads."""
        if self.opcode == "call" and self.detail[0] == "%":
            return [x for x in (self.detail, *self.operands) if x[0] == "%"]
        return [x for x in self.operands if x[0] == "%"]

    def renamed(self, names: Mapping[str, str]) -> Instruction:
        """The instruction with other operands."""
        if names.keys().isdisjoint(self.operands) and self.detail not in names:
            return self
        return self._replace(operands=tuple([names.get(x, x) for x in self.operands]),
                             detail=names.get(self.detail, self.detail))

    def retargeted(self, old: str, new: str) -> Instruction:
        """The terminator with another label."""
        return self._replace(targets=tuple([new if label == old else label for label in self.targets]))


def names_in(instructions: Iterable[Instruction]) -> set[str]:
    """The functions that are called, details of other kinds, and all operands: constants too, each once."""
    found = set[str]()
    for i in instructions:
        found.update(i[3])                                   # operands and detail; to unpack all takes longer
        found.add(i[6])
    return found


def local_names(instructions: Iterable[Instruction]) -> set[str]:
    """The local values that some instructions read."""
    return {x for x in names_in(instructions) if x[:1] == "%"}


def global_names(instructions: Iterable[Instruction]) -> set[str]:
    """The functions and variables of the module that some instructions mention."""
    return {x for x in names_in(instructions) if x[:1] == "@"}


def have_vectors(instructions: Iterable[Instruction]) -> bool:
    """True if a result or an operand is a vector."""
    types = set[str]()
    for i in instructions:
        types.add(i[2])
        types.update(i[4])
    return any(t[0] == "<" for t in types)


def lines(instructions: Iterable[Instruction]) -> list[str]:
    """Instructions as lines of LLVM assembly, indented."""
    writers, others, out = _TEXTS, _arithmetic, list[str]()
    for i in instructions:
        text, result = writers.get(i.opcode, others)(i), i.result
        out.append(f"  {result} = {text}" if result else f"  {text}")
    return out


def _spaced(flags: str) -> str:
    return f" {flags}" if flags else ""


def _arithmetic(i: Instruction) -> str:
    opcode, _, type, operands, _, flags, _, _, _ = i
    return f"{opcode} {flags} {type} {', '.join(operands)}" if flags else f"{opcode} {type} {', '.join(operands)}"


def _comparison(i: Instruction) -> str:
    opcode, _, _, (x, y), (type,), flags, predicate, _, _ = i
    return f"{opcode} {flags} {predicate} {type} {x}, {y}" if flags else f"{opcode} {predicate} {type} {x}, {y}"


def _cast(i: Instruction) -> str:
    return f"{i.opcode}{_spaced(i.flags)} {i.types[0]} {i.operands[0]} to {i.type}"


def _select(i: Instruction) -> str:
    c, x, y = i.operands
    return f"select{_spaced(i.flags)} {i.types[0]} {c}, {i.type} {x}, {i.type} {y}{i.notes}"


def _address(i: Instruction) -> str:
    _, _, _, (pointer, index), (type,), flags, _, _, _ = i
    return f"getelementptr{_spaced(flags)} {type}, ptr {pointer}, i64 {index}"


def _load(i: Instruction) -> str:
    _, _, type, (pointer,), _, _, align, note, _ = i
    return f"load {type}, ptr {pointer}, align {align}{note}"


def _store(i: Instruction) -> str:
    _, _, _, (x, pointer), (type,), _, align, note, _ = i
    return f"store {type} {x}, ptr {pointer}, align {align}{note}"


def _call(i: Instruction) -> str:
    given = ", ".join([f"{t} {x}" for t, x in zip(i.types, i.operands)])
    return f"call{_spaced(i.flags)} {i.type} {i.detail}({given}){i.notes}"


def _alloca(i: Instruction) -> str:
    return f"alloca {i.types[0]}, align {i.detail}"


def _phi(i: Instruction) -> str:
    return f"phi {i.type} {', '.join([f'[ {x}, %{label} ]' for x, label in zip(i.operands, i.targets)])}"


def _extract(i: Instruction) -> str:
    return f"extractvalue {i.types[0]} {i.operands[0]}, {i.detail}"


def _insert(i: Instruction) -> str:
    return f"insertvalue {i.type} {i.operands[0]}, {i.types[0]} {i.operands[1]}, {i.detail}"


def _extract_element(i: Instruction) -> str:
    return f"extractelement {i.types[0]} {i.operands[0]}, {i.types[1]} {i.operands[1]}"


def _insert_element(i: Instruction) -> str:
    vector, x, k = i.operands
    return f"insertelement {i.type} {vector}, {i.types[0]} {x}, {i.types[1]} {k}"


def _shuffle(i: Instruction) -> str:
    x, y = i.operands
    return f"shufflevector {i.types[0]} {x}, {i.types[0]} {y}, {i.detail}"


def _branch(i: Instruction) -> str:
    if not i.operands:
        return f"br label %{i.targets[0]}{i.notes}"
    return f"br i1 {i.operands[0]}, label %{i.targets[0]}, label %{i.targets[1]}{i.notes}"


def _switch(i: Instruction) -> str:
    selector, *values = i.operands
    cases = " ".join([f"i64 {x}, label %{label}" for x, label in zip(values, i.targets)])
    return f"switch i64 {selector}, label %{i.targets[-1]} [ {cases} ]"


def _return(i: Instruction) -> str:
    return f"ret {i.types[0]} {i.operands[0]}" if i.operands else "ret void"


def _verbatim(i: Instruction) -> str:
    return i.detail


_CASTS = frozenset("zext sext trunc sitofp uitofp fptosi fptoui fpext fptrunc ptrtoint inttoptr bitcast".split())
_TEXTS: dict[str, Callable[[Instruction], str]] = {
    **dict.fromkeys(_CASTS, _cast), "alloca": _alloca, "phi": _phi, "icmp": _comparison, "fcmp": _comparison,
    "select": _select, "load": _load,
    "store": _store, "getelementptr": _address, "call": _call, "extractvalue": _extract, "insertvalue": _insert,
    "extractelement": _extract_element, "insertelement": _insert_element, "shufflevector": _shuffle, "br": _branch,
    "switch": _switch, "ret": _return, "": _verbatim}
