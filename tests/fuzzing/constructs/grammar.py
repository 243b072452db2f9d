"""The language of the tables of constructs.

A construct is a template of Python text with typed holes.  Types are letters (``KINDS``)::

    {f}             an expression of kind f
    {f .z:f}        one in which the template's own name ``.z`` may be used, and nothing that is around be changed
    {.z}            a name of the template's own, the same wherever it stands
    {var a}         a variable;  {mut a}  one whose contents may be changed
    {set f}         a variable to assign, old or new;  {old f}  {new f};  {let a}  a new one that is left as it is
    {.w=old f}      any of these, and ``.w`` is its name from here on
    {block}         statements
    {body f .z:f}   statements that end in ``return`` of an f: the body of a local function that changes nothing outside
    {effect f .z:f} one that may store to arrays outside
    {result}        what the function at hand returns;  {parts}  a tuple of what is there
    {@total}        a definition (class or function) made elsewhere in the program;  {name}  in it, its own name
    {num} {int}     a constant;  {size} {tree} {chain}  of an argument
    {?sin|cos}      one of several words

Braces of Python's own are doubled.  ``tests/fuzzing/constructs/numbers.py`` is the simplest table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property


@cache
def pieces(text: str) -> list[tuple[bool, str]]:
    """A template as alternating text and holes: (True for a hole, its text)."""
    return list(_pieces(text))


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    at = start = 0
    while at < len(text):
        if text[at:at + 2] in ("{{", "}}"):
            yield False, text[start:at + 1]
            at = start = at + 2
        elif text[at] == "{":
            yield False, text[start:at]
            end = _end(text, at)
            yield True, text[at + 1:end]
            at = start = end + 1
        else:
            at += 1
    yield False, text[start:]


def _end(text: str, at: int) -> int:
    """The index of the brace that closes the one at ``at``."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError(f"a hole of {text!r} is not closed")


def alternatives(words: str) -> list[str]:
    """The alternatives of ``{?…|…}``; each is a template."""
    found, depth = [""], 0
    for c in words:
        depth += {"{": 1, "}": -1}.get(c, 0)
        if c == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return found


def holes(text: str) -> Iterator[str]:
    """All holes of a template, including those in its alternatives."""
    for is_hole, words in pieces(text):
        if is_hole and words[0] == "?":
            for choice in alternatives(words[1:]):
                yield from holes(choice)
        elif is_hole:
            yield words


@dataclass(frozen=True)
class Kind:
    """A type of value: its names, its float digest in a result, and the text of an argument."""

    letter: str
    what: str
    digest: str                     # with {v} for the value
    argument: str = ""
    mutable: bool = False           # arrays and other things that can be stored to


@dataclass(frozen=True)
class Construct:
    """``where``: "top" (rarely in branches and loops), "loop" (in one), "outer" (in none)."""

    kind: str                       # a letter, "statement", "definition" or "main"
    name: str
    text: str
    weight: float = 1.0
    needs: str = ""                 # a feature of the compiler (features.py)
    where: str = ""
    scope: str = ""                 # of a definition: its parameters, "z:f u:a*" (* may be stored to)

    @cached_property
    def heads(self) -> list[str]:
        """The first word of each hole, without the name that it binds."""
        return [h.split("=", 1)[-1] if h.startswith(".") else h for h in holes(self.text)]

    @cached_property
    def nests(self) -> bool:
        """True if it contains other statements."""
        return any(h.split()[0] in ("block", "body", "effect") for h in self.heads)

    @cached_property
    def definitions(self) -> frozenset[str]:
        return frozenset(h[1:] for h in self.heads if h.startswith("@"))

    @cached_property
    def simple(self) -> bool:
        """True if it contains no expression."""
        return not any(h.split()[0] in LETTERS for h in self.heads)

    @cached_property
    def requires(self) -> frozenset[tuple[str, str]]:
        """The variables that must exist: ("var", "a"), …"""
        words = [h.split() for h in self.heads]
        return frozenset([(w[0], w[1]) for w in words if w[0] in ("var", "mut", "old")]
                         + [("var", w[0]) for w in words if w[0] in ONLY_VARIABLES])


LETTERS = frozenset("ficamvjkqhbtldgryPDUOTLFGXRsBzneoCHWMN")
ONLY_VARIABLES = frozenset("vj")            # kinds whose expressions all begin with a variable


def E(kind: str, name: str, text: str, weight: float = 1.0, needs: str = "", where: str = "") -> Construct:
    """An expression."""
    return Construct(kind, name, text, weight, needs, where)


def S(name: str, text: str, weight: float = 1.0, needs: str = "", where: str = "") -> Construct:
    """A statement."""
    return Construct("statement", name, text.strip("\n"), weight, needs, where)


def D(name: str, scope: str, text: str, needs: str = "") -> Construct:
    """A definition: a class, or a function whose parameters are ``scope``."""
    return Construct("definition", name, text.strip("\n"), needs=needs, scope=scope)


def M(name: str, scope: str, text: str, weight: float = 1.0, needs: str = "") -> Construct:
    """A shape of the program's ``main``; ``scope``: its parameters and the variables that its first lines define."""
    return Construct("main", name, text.strip("\n"), weight, needs, scope=scope)
