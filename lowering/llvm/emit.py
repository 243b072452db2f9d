"""Writes LLVM IR as text, which is much faster than building it through ``llvmlite.ir``.

``Writer`` is one LLVM module: declarations, globals, attribute groups and metadata, each entered once, and
functions.  ``Code`` is the body of one function: instructions are appended to the current basic block.
A *name* here is any LLVM operand as text: ``%v7``, ``0``, ``0x3FF0000000000000``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_PLAIN = re.compile(r"[A-Za-z_.$][\w.$]*", re.ASCII)
_DEFINED = re.compile(r'^define hidden [^@\n]*@(?:"([^"]+)"|([\w.$]+))', re.ASCII | re.MULTILINE)
_CALLED = re.compile(r'@"?((?<=")[^"]+|[\w.$]+)', re.ASCII)


def global_name(name: str) -> str:
    """``@name``, quoted if LLVM's syntax requires it."""
    return f"@{name}" if _PLAIN.fullmatch(name) else f'@"{name}"'


def symbol(name: str) -> str:
    """The LLVM name (without ``@``) of the IR function ``name``; no routine of the runtime has such a name."""
    return f"python.{name}"


def defined(text: str) -> list[str]:
    """The names of the functions that a module defines and other modules may call."""
    return [quoted or plain for quoted, plain in _DEFINED.findall(text)]


_FLAGS = frozenset("fast contract reassoc nsz nnan ninf arcp afn nuw nsw exact disjoint nneg samesign tail volatile "
                   "atomic preserve_mostcc".split())
_TARGET = re.compile(r"label %([\w.]+)")
_FIXED = {"getelementptr": "ptr", "alloca": "ptr", "inttoptr": "ptr", "icmp": "i1", "fcmp": "i1"}


def result_type(text: str) -> str:
    """The type of an instruction's result; ``text`` begins with the opcode."""
    if "  " in text:
        text = " ".join(text.split())
    opcode, _, rest = text.partition(" ")
    if opcode in _FIXED:
        return _FIXED[opcode]
    if " to " in text and (cast := re.search(r" to ([\w ]+)$", text)):
        return cast[1]
    if opcode == "select":
        rest = rest.split(", ", 1)[1]
    while rest.split(" ", 1)[0] in _FLAGS:
        rest = rest.split(" ", 1)[1]
    if not rest.startswith("{"):
        return rest.split(" ", 1)[0].rstrip(",")
    struct = rest[:rest.index("}") + 1]
    return struct[1:-1].split(",")[int(text.rsplit(", ", 1)[1])].strip() if opcode == "extractvalue" else struct


class Writer:
    """One LLVM module under construction."""

    def __init__(self, triple: str = "", layout: str = "") -> None:
        self.triple, self.layout = triple, layout
        self._declared: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._attributes: dict[str, int] = {}
        self._metadata: list[str] = []
        self._known: dict[str, str] = {}
        self._functions: dict[str, str] = {}
        self._finished: dict[str, str] = {}
        self._straight: dict[str, str] = {}
        self._used: list[str] = []
        self._outside: dict[str, None] = {}
        self.vector_stack = ""               # attribute of functions that call vector functions in loops

    def declare(self, name: str, result: str, params: str, attributes: str = "") -> str:
        """``@name`` of an external function, declared unless the module defines it."""
        self._declared.setdefault(name, f"declare {result} {global_name(name)}({params}) {attributes}".rstrip())
        return global_name(name)

    def global_(self, name: str, text: str) -> str:
        """``@name`` of a global variable whose definition is ``text`` (the part after ``@name =``)."""
        self._globals.setdefault(name, text)
        return global_name(name)

    def outside(self, names: Iterable[str]) -> None:
        """Declare symbols of which only the address is known: functions and memory of the process."""
        self._outside.update(dict.fromkeys(names))

    def attributes(self, text: str) -> str:
        """``#n``, the group of these function attributes."""
        return f"#{self._attributes.setdefault(text, len(self._attributes))}"

    def node(self, text: str) -> str:
        """``!n``, the metadata node ``!{text}``; equal texts share one node."""
        if text not in self._known:
            self._known[text] = self._add_node(f"!{{{text}}}")
        return self._known[text]

    def distinct(self, text: Callable[[str], str]) -> str:
        """``!n``, a new metadata node; ``text`` receives the node's own name, for references to itself."""
        name = f"!{len(self._metadata)}"
        return self._add_node(f"distinct !{{{text(name)}}}")

    def loop_note(self, cold: bool = False) -> str:
        """Metadata for a loop's back edge.

        LLVM may unroll a loop of known trip count, so that small arrays become registers; others would only grow.
        A ``cold`` loop is left as it is: small, and quick to compile.
        """
        facts = ["llvm.loop.unroll.disable"] if cold else ["llvm.loop.unroll.runtime.disable"]
        nodes = [self.node(f'!"{f}"') for f in facts]
        if cold:
            nodes.append(self.node('!"llvm.loop.vectorize.width", i32 1'))
        return ", !llvm.loop " + self.distinct(lambda me: ", ".join([me, *nodes]))

    def vector_note(self, vectors: int) -> str:
        """Metadata for a loop whose iterations fill ``vectors`` vectors.

        It is not unrolled before vectorisation, as other loops with few iterations are: no loop would be left to
        vectorise.  Vectorisation is not forced: if it failed, LLVM would print a warning on the user's terminal.
        """
        facts = (f'!"llvm.loop.interleave.count", i32 {vectors}', '!"llvm.loop.unroll.disable"')
        return ", !llvm.loop " + self.distinct(lambda me: ", ".join([me, *map(self.node, facts)]))

    def interleaved(self) -> str:
        """Metadata for a reduction: four vector accumulators hide the latency of one."""
        count = self.node('!"llvm.loop.interleave.count", i32 4')
        return f", !llvm.loop {self.distinct(lambda me: f'{me}, {count}')}"

    def _add_node(self, text: str) -> str:
        self._metadata.append(text)
        return f"!{len(self._metadata) - 1}"

    def keep(self, name: str) -> None:
        """Keep the function ``name`` although only attributes mention it."""
        if name not in self._used:
            self._used.append(name)

    def function(self, name: str, text: str) -> str:
        """Add a function definition; ``name`` is without ``@``."""
        self._functions[name] = text
        return global_name(name)

    def finished(self, name: str, head: str, lines: Sequence[str], straight: bool = False) -> str:
        """Add a function that LLVM's passes would not improve, so that only code generation runs on it.

        ``head`` is the text between ``define`` and the body, with the visibility: the function is in a separate module.
        One that is ``straight`` has no loops.  It may call functions of the main module, and no others.
        """
        self._declared[name] = f"declare {head}"
        home = self._straight if straight else self._finished
        home[name] = "\n".join([f"define {head} {{", *lines, "}\n"])
        return global_name(name)

    def fresh(self, stem: str) -> str:
        """An unused function name, without ``@``."""
        return f"{stem}.{len(self._functions) + len(self._finished) + len(self._straight)}"

    def node_text(self, number: int) -> str:
        """The text of the metadata node with this number."""
        return self._metadata[number]

    def header(self, name: str) -> str:
        """The declaration of a function, or the head of its definition, with its attributes."""
        text = self._functions.get(name, self._declared.get(name, "")).partition("{\n")[0]
        groups = {f"#{i}": attributes for attributes, i in self._attributes.items()}
        return " ".join([text, *(groups.get(word, "") for word in text.split())])

    def size(self) -> int:
        """The number of characters of the functions so far."""
        return sum(len(text) for functions in (self._functions, self._finished, self._straight)
                   for text in functions.values())

    def defines(self, name: str) -> bool:
        return name in self._functions or name in self._finished or name in self._straight

    def text(self) -> str:
        """The module as LLVM assembly, without the finished functions."""
        head = [f"{global_name(n)} = {t}" for n, t in self._globals.items()]
        if self._outside:                    # of an opaque type, so that LLVM assumes no size
            head.append("%jitad.outside = type opaque")
            head += [f'@"{name}" = external global %jitad.outside' for name in self._outside]
        if self._used:
            names = ", ".join(f"ptr {global_name(n)}" for n in self._used)
            head.append(f"@llvm.compiler.used = appending global [{len(self._used)} x ptr] [{names}], "
                        'section "llvm.metadata"')
        head += [text for name, text in self._declared.items() if name not in self._functions]
        shared = {*self._called_by(self._finished), *self._called_by(self._straight)}
        functions = [text.replace("define internal", "define hidden", 1) if name in shared else text
                     for name, text in self._functions.items()]
        return self._module([*head, "", *functions])

    def finished_text(self) -> str:
        """The finished functions with loops as a module to be linked with the main one; ``""`` if there are none."""
        return self._separate(self._finished)

    def straight_text(self) -> str:
        """The finished functions without loops, and hastened ones, as a module of its own; ``""`` if there are none."""
        return self._separate(self._straight)

    def hasten(self, most: int) -> None:
        """If the finished functions with loops have more than ``most`` characters, treat them as those without."""
        if sum(map(len, self._finished.values())) > most:
            self._straight |= self._finished
            self._finished = {}

    def _separate(self, functions: Mapping[str, str]) -> str:
        """A module of some finished functions."""
        if not functions:
            return ""
        heads = [self._functions[name].partition(" {\n")[0] for name in self._called_by(functions)]
        head = [re.sub("define( internal)?", "declare hidden", text, count=1) for text in heads]
        head += [text for name, text in self._declared.items() if name not in functions and name not in self._functions]
        return self._module([*head, "", *functions.values()])

    def _called_by(self, finished: Mapping[str, str]) -> list[str]:
        """The functions of the main module that some finished functions call."""
        called = {name for text in finished.values() for name in _CALLED.findall(text)}
        return [name for name in self._functions if name in called]

    def _module(self, body: list[str]) -> str:
        head = [f'target triple = "{self.triple}"'] if self.triple else []
        if self.layout:
            head.append(f'target datalayout = "{self.layout}"')
        tail = [f"attributes #{i} = {{ {text} }}" for text, i in self._attributes.items()]
        tail += [f"!{i} = {text}" for i, text in enumerate(self._metadata)]
        return "\n".join([*head, *body, *tail, ""])


class Code:
    """The body of one LLVM function: basic blocks in the order in which they are started.

    ``count`` is the number of names already used by another function, whose names this one must not reuse.
    """

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self._allocas: list[str] = []
        self._first: list[str] = []
        self._blocks: dict[str, list[str | list[str]]] = {"entry": []}
        self._phis: dict[str, list[str]] = {"entry": []}
        self._incoming: dict[str, tuple[str, list[tuple[str, str]]]] = {}
        self.here = "entry"
        self.ended = False

    # --- instructions -----------------------------------------------------------------------------

    def fresh(self, hint: str = "v") -> str:
        """A new local name."""
        self.count += 1
        return f"%{hint}{self.count}"

    def op(self, text: str, hint: str = "v") -> str:
        """Append ``%new = text`` and return the new name."""
        name = self.fresh(hint)
        self.do(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without result."""
        assert not self.ended, f"{self.here} has ended: {text}"
        self._blocks[self.here].append(text)

    def gap(self) -> list[str]:
        """A position in the block for instructions that are inserted later."""
        lines: list[str] = []
        assert not self.ended
        self._blocks[self.here].append(lines)
        return lines

    def alloca(self, type: str, count: int = 1, align: int = 8) -> str:
        """Memory in the stack frame, reserved once at entry, so that it can become registers."""
        name = self.fresh("mem")
        what = type if count == 1 else f"[{count} x {type}]"
        self._allocas.append(f"{name} = alloca {what}, align {align}")
        return name

    def at_entry(self, text: str) -> None:
        """Put an instruction without result (whose operands are allocas) at the start of the function."""
        self._first.append(text)

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

    def end(self, text: str) -> None:
        """Append the terminator of the current block."""
        self.do(text)
        self.ended = True

    def jump(self, label: str, note: str = "") -> None:
        self.end(f"br label %{label}{note}")

    def branch(self, condition: str, then: str, other: str, note: str = "") -> None:
        self.end(f"br i1 {condition}, label %{then}, label %{other}{note}")

    def add_incoming(self, phi: str, value: str, block: str | None = None) -> None:
        """Set the value of ``phi`` on the edge from ``block``, by default the current one."""
        self._incoming[phi][1].append((value, block or self.here))

    def defined(self) -> set[str]:
        """The names of all values and blocks, as operands."""
        names = {line.split(" = ", 1)[0].strip() for line in self.text().split("\n") if " = " in line}
        return names | {f"%{label}" for label in self._blocks}

    def types_of(self, names: Iterable[str]) -> dict[str, str]:
        """The LLVM types of those names that are values of this function, except parameters."""
        wanted = set(names)
        found = {name: type for name, (type, _) in self._incoming.items() if name in wanted}
        wanted -= found.keys()
        for line in self._lines() if wanted else ():
            name, is_value, text = line.partition(" = ")
            if is_value and name in wanted:
                found[name] = result_type(text)
        return found

    def _lines(self) -> Iterator[str]:
        yield from self._allocas
        yield from self._first
        for lines in self._blocks.values():
            for line in lines:
                if isinstance(line, str):
                    yield line
                else:
                    yield from line

    # --- complete blocks ----------------------------------------------------------------------------

    def labels(self) -> list[str]:
        """The labels of the blocks that have been started."""
        return list(self._blocks)

    def lines_of(self, label: str) -> list[str]:
        """The instructions of a block, without its phis; not to be changed."""
        lines = self._blocks[label]
        if list not in map(type, lines):
            return lines    # type: ignore[return-value]
        return [x for line in lines for x in ([line] if isinstance(line, str) else line)]

    def successors(self, label: str) -> list[str]:
        """The labels of a block's successors."""
        last = self._blocks[label][-1]
        return _TARGET.findall(last if isinstance(last, str) else self.lines_of(label)[-1])

    def is_plain(self, label: str) -> bool:
        """True if the block has no gaps for later instructions."""
        return all(isinstance(line, str) for line in self._blocks[label])

    def drop_phis(self, label: str) -> None:
        """Remove the phis of a block, which must have no readers."""
        for name in self._phis[label]:
            del self._incoming[name]
        self._phis[label] = []

    def replace(self, label: str, lines: list[str]) -> None:
        """Replace the instructions of a block."""
        self._blocks[label] = [*lines]

    def remove(self, labels: Iterable[str]) -> None:
        """Remove blocks, to which nothing may lead any longer."""
        for label in labels:
            self.drop_phis(label)
            del self._blocks[label], self._phis[label]

    def phis_of(self, label: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """The phis of a block: names, types, and values with the blocks that they come from."""
        return [(name, *self._incoming[name]) for name in self._phis[label]]

    def take_phis(self, label: str, groups: Sequence[Iterable[str]]) -> list[list[str]]:
        """Take the values that come from groups of blocks out of the phis of a block.

        Returns phis of these alone, for each group.
        """
        group_of = {b: k for k, blocks in enumerate(groups) for b in blocks}
        found: list[list[str]] = [[] for _ in groups]
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
        lines, labels = self.lines_of(label), [label, *(self.label("piece") for _ in bounds)]
        for s in dict.fromkeys(self.successors(label)):
            for _, _, incoming in self.phis_of(s):
                incoming[:] = [(v, labels[-1] if b == label else b) for v, b in incoming]
        for name, start, end, after in zip(labels, [0, *bounds], [*bounds, len(lines)], [*labels[1:], ""]):
            self._blocks[name] = [*lines[start:end], *([f"br label %{after}"] if after else [])]

    def rename_incoming(self, source: str, names: Mapping[str, str]) -> None:
        """Rename values that come from the block ``source`` in the phis of its successors."""
        for label in dict.fromkeys(self.successors(source)):
            for _, _, incoming in self.phis_of(label):
                incoming[:] = [(names.get(v, v) if b == source else v, b) for v, b in incoming]

    def phi_lines(self, label: str) -> list[str]:
        """The phis of a block."""
        return [_phi(*phi) for phi in self.phis_of(label)]

    def phis_text(self) -> str:
        """The incoming values of all phis, separated by spaces."""
        return " ".join(v for _, incoming in self._incoming.values() for v, _ in incoming)

    def text(self) -> str:
        """All blocks."""
        return "\n".join(line for label in self._blocks for line in self._block_text(label))

    def _block_text(self, label: str) -> Sequence[str]:
        head = [f"{label}:"] + (["  " + line for line in self._allocas + self._first] if label == "entry" else [])
        head += ["  " + line for line in self.phi_lines(label)]
        for line in self._blocks[label]:
            head += ["  " + line] if isinstance(line, str) else ["  " + x for x in line]
        return head


def _phi(name: str, type: str, incoming: Iterable[tuple[str, str]]) -> str:
    return f"{name} = phi {type} " + ", ".join(f"[ {v}, %{b} ]" for v, b in incoming)
