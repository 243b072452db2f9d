"""One LLVM module under construction: declarations, globals, attribute groups and metadata, and functions.

LLVM IR is written as text, which is much faster than building it through ``llvmlite.ir``.  What later code needs to
know of metadata and functions is kept beside their text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from .code import text_of
from .instruction import Instruction, global_names

_PLAIN = re.compile(r"[A-Za-z_.$][\w.$]*", re.ASCII)
_FOUR = ('!"llvm.loop.interleave.count", i32 4',)


def global_name(name: str) -> str:
    """``@name``, quoted if LLVM's syntax requires it."""
    return f"@{name}" if _PLAIN.fullmatch(name) else f'@"{name}"'


def symbol(name: str) -> str:
    """The LLVM name (without ``@``) of the IR function ``name``; no routine of the runtime has such a name."""
    return f"python.{name}"


class Scopes(NamedTuple):
    """The alias scopes of an access to memory: those that it is in, and those that it is not in."""

    own: frozenset[str]
    others: frozenset[str]

    def apart(self, other: Scopes) -> bool:
        """True if accesses in these and in the other scopes do not overlap."""
        return bool(self.own) and self.own <= other.others or bool(other.own) and other.own <= self.others


NO_SCOPES = Scopes(frozenset(), frozenset())


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
        self._called: dict[str, set[str]] = {}           # the globals that a finished function mentions
        self._loops: dict[str, bool] = {}                # notes of loops; True for cold ones
        self._scopes: dict[str, Scopes] = {}             # of notes of accesses
        self.math: dict[tuple[str, object], str] = {}    # of a function of libm and a type: how it is called
        self.vector_versions: dict[str, list[tuple[int, str]]] = {}      # of a function: lanes and names
        # The modules of routines that several programs call, by name; None if they belong into this module.
        self.routines: dict[str, str] | None = None
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

    def loop_note(self, branches: bool = False, group: str = "", sums: bool = False, cold: bool = False,
                  scalar: bool = False) -> str:
        """Metadata for a loop's back edge.

        LLVM may unroll a loop of known trip count, so that small arrays become registers, and one that ``branches``,
        so that each copy of a branch is predicted by itself; others would only grow.
        A ``cold`` loop is left as it is: small, and quick to compile.  So is a ``scalar`` one, unless it has few
        iterations.  No access of ``group`` in one iteration is to an element that another iteration writes.
        ``sums``: four vector accumulators hide the latency of one.
        """
        if cold:
            return self.loop('!"llvm.loop.unroll.disable"', '!"llvm.loop.vectorize.width", i32 1', cold=True)
        if scalar:
            return self.loop('!"llvm.loop.unroll.runtime.disable"', '!"llvm.loop.vectorize.width", i32 1')
        if branches:
            return self.loop()
        return self.loop('!"llvm.loop.unroll.runtime.disable"', *self.apart(group), *(_FOUR if sums else ()))

    def around(self) -> str:
        """Metadata for a loop around loops of unknown length, of which each copy would have one."""
        return self.loop('!"llvm.loop.unroll.disable"')

    def access_group(self) -> str:
        """``!n``, a new group of accesses to memory."""
        return self.distinct(lambda me: "")

    def apart(self, group: str) -> list[str]:
        """The fact that the accesses of a group are to different elements in different iterations of a loop."""
        return [f'!"llvm.loop.parallel_accesses", {group}'] if group else []

    def grouped(self, note: str, group: str) -> str:
        """The metadata of an access, with its group."""
        found = f"{note}, !llvm.access.group {group}"
        if note in self._scopes:
            self._scopes[found] = self._scopes[note]
        return found

    def vector_note(self, vectors: int) -> str:
        """Metadata for a loop whose iterations fill ``vectors`` vectors.

        It is not unrolled before vectorisation, as other loops with few iterations are: no loop would be left to
        vectorise.  Vectorisation is not forced: if it failed, LLVM would print a warning on the user's terminal.
        """
        return self.loop(f'!"llvm.loop.interleave.count", i32 {vectors}', '!"llvm.loop.unroll.disable"')

    def interleaved(self) -> str:
        """Metadata for a reduction: four vector accumulators hide the latency of one."""
        return self.loop(*_FOUR)

    def loop(self, *facts: str, cold: bool = False) -> str:
        """Metadata for a loop's back edge."""
        nodes = [self.node(fact) for fact in facts]
        note = ", !llvm.loop " + self.distinct(lambda me: ", ".join([me, *nodes]))
        self._loops[note] = cold
        return note

    def is_cold(self, note: str) -> bool:
        """True if ``note`` is not the metadata of a loop that may be vectorised."""
        return note != "" and self._loops.get(note, True)

    def access(self, own: Sequence[str], others: Sequence[str]) -> str:
        """Metadata for an access to memory in some alias scopes, and not in ``others``."""
        note = f", !alias.scope {self.node(', '.join(own))}"
        if others:
            note += f", !noalias {self.node(', '.join(others))}"
        self._scopes.setdefault(note, Scopes(frozenset(own), frozenset(others)))
        return note

    def scopes(self, note: str) -> Scopes:
        """The alias scopes of an access with this metadata."""
        return self._scopes.get(note, NO_SCOPES)

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

    def finished(self, name: str, head: str, blocks: Sequence[tuple[str, Sequence[Instruction]]],
                 straight: bool = False) -> str:
        """Add a function that LLVM's passes would not improve, so that only code generation runs on it.

        ``head`` is the text between ``define`` and the body: the function is in a separate module.  One that is
        ``straight`` has no loops.  It may call functions of the main module, and no others.

        Only the definition is hidden.  Where a declaration is, LLVM takes the function to be within 2 GB, but the two
        modules may lie anywhere in memory.
        """
        self._declared[name] = f"declare {head}"
        home = self._straight if straight else self._finished
        home[name] = f"define hidden {head} {{\n{text_of(blocks)}\n}}\n"
        self._called[name] = global_names(chain.from_iterable(block for _, block in blocks))
        return global_name(name)

    def fresh(self, stem: str) -> str:
        """An unused function name, without ``@``."""
        return f"{stem}.{len(self._functions) + len(self._finished) + len(self._straight)}"

    def defines(self, name: str) -> bool:
        homes = (self._functions, self._finished, self._straight, self.routines or {})
        return any(name in home for home in homes)

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
        shared = set(self._shared())
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

    def across(self) -> tuple[list[str], list[str]]:
        """The functions of the main module that the others call, and those without loops, which it calls."""
        return self._shared(), list(self._straight)

    def _shared(self) -> list[str]:
        return self._called_by({**self._finished, **self._straight})

    def _separate(self, functions: Mapping[str, str]) -> str:
        """A module of some finished functions."""
        if not functions:
            return ""
        heads = [self._functions[name].partition(" {\n")[0] for name in self._called_by(functions)]
        head = ["declare " + text.removeprefix("define ").removeprefix("internal ") for text in heads]
        called = self._mentioned_by(functions)
        head += [text for name, text in self._declared.items()
                 if name not in functions and name not in self._functions and global_name(name) in called]
        return self._module([*head, "", *functions.values()])

    def _called_by(self, finished: Mapping[str, str]) -> list[str]:
        """The functions of the main module that some finished functions mention."""
        called = self._mentioned_by(finished)
        return [name for name in self._functions if global_name(name) in called]

    def _mentioned_by(self, finished: Mapping[str, str]) -> set[str]:
        return set[str]().union(*(self._called[name] for name in finished))

    def _module(self, body: list[str]) -> str:
        head = [f'target triple = "{self.triple}"'] if self.triple else []
        if self.layout:
            head.append(f'target datalayout = "{self.layout}"')
        tail = [f"attributes #{i} = {{ {text} }}" for text, i in self._attributes.items()]
        tail += [f"!{i} = {text}" for i, text in enumerate(self._metadata)]
        return "\n".join([*head, *body, *tail, ""])

